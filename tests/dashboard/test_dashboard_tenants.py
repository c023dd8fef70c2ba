"""The pages of a subscriber and a dispatch, if tenants have rows with the same address."""

import html
import json
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest

from engines import MEMORY
from hookrow import (
    ConfigurationError,
    Postmark,
    Receiver,
    Request,
    RequestHead,
    Role,
    Schema,
    Tenant,
    testing,
)
from hookrow.dashboard import Dashboard
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore
from visitor import Visitor
from wire import ADA, ADAS, ENDPOINT, PATIENCE, SECRET

AT = datetime(2026, 3, 5, 12, tzinfo=UTC)
BEA = "bea@example.com"

TABLES = f"""
    CREATE TABLE people (
        id INTEGER PRIMARY KEY, email TEXT, team INTEGER, suppressed_at TEXT,
        suppression_reason TEXT, suppression_changed_at TEXT
    );
    CREATE TABLE sends (
        id INTEGER PRIMARY KEY, provider_message_id TEXT, subscriber_id INTEGER, list_id INTEGER,
        delivered_at TEXT, opened_at TEXT, suppressed_at TEXT, suppression_reason TEXT,
        suppression_changed_at TEXT
    );
    INSERT INTO people (id, email, team) VALUES (1, '{ADA}', 1);
    INSERT INTO people (id, email, team) VALUES (2, '{ADA}', 2);
    INSERT INTO people (id, email, team) VALUES (3, 'bea@example.com', 2);
    INSERT INTO sends (id, provider_message_id, subscriber_id) VALUES (1, '{ADAS}', 1);
    INSERT INTO sends (id, provider_message_id, subscriber_id) VALUES (2, '{ADAS}', 2);
    INSERT INTO sends (id, provider_message_id, subscriber_id) VALUES (3, 'm-bea', 3)
"""

SCHEMA = Schema(
    subscribers=Role("people", tenant="team"),
    dispatches=Role("sends"),
    subscriptions=None,
)


@pytest.fixture
def store() -> Iterator[SQLStore]:
    """Return a store in which two tenants have a person with Ada's address, and one has Bea."""
    with closing(SQLStore(MEMORY)) as own:
        with own.database.transaction() as connection:
            for statement in TABLES.split(";"):
                connection.execute(statement)
        yield SQLStore(own.database, SCHEMA)


@pytest.fixture
def receiver(store: SQLStore) -> Iterator[Receiver]:
    """Return a receiver with three entries: the second and the third are the same tenant's."""
    tenants = {"acme": 1, "globex": 2, "globex-eu": 2}
    entries = {name: Tenant(Postmark(f"{SECRET}-{name}"), n) for name, n in tenants.items()}
    receiver = Receiver(entries, store)
    yield receiver
    receiver.close(PATIENCE)


@pytest.fixture
def visitor(store: SQLStore, receiver: Receiver) -> Iterator[Visitor]:
    visitor = Visitor(store, providers=receiver.entries)
    yield visitor
    visitor.dashboard.close(PATIENCE)


def choices(page: str) -> list[str]:
    """Return the entries from which a page lets the user choose."""
    return [each for each in re.findall(r'<option value="([^"]*)"', page) if each]


@pytest.mark.parametrize(
    ("path", "query"), [("/subscriber", {"email": ADA}), ("/dispatch", {"message_id": ADAS})]
)
def test_rows_of_several_tenants(visitor: Visitor, path: str, query: dict[str, str]) -> None:
    """None is shown or can be changed before an entry is chosen; then only its tenant's is."""
    page = visitor.shows(path, **query)
    assert "Several tenants have such a row: choose an entry" in page
    assert choices(page) == ["acme", "globex", "globex-eu"]
    assert "<h2>State" not in page
    assert '<form method="post"' not in page
    page = visitor.shows(path, **query, entry="globex")
    assert page.count("<h2>State") == 1
    assert '<option value="globex" selected>' in page
    assert "entry=globex" in html.unescape(page.partition('<form method="post"')[2])


def test_a_row_of_one_tenant(visitor: Visitor) -> None:
    """Its tenant need not be chosen; another one has no such row."""
    for path, query in (("/subscriber", {"email": BEA}), ("/dispatch", {"message_id": "m-bea"})):
        page = visitor.shows(path, **query)
        assert choices(page) == ["globex", "globex-eu"]
        assert '<option value="globex" selected>' in page
        assert "<h2>State" in page
        assert " of this tenant has this " in visitor.shows(path, **query, entry="acme")


def test_a_manual_change(visitor: Visitor, store: SQLStore) -> None:
    """It concerns only the row of the chosen entry's tenant, and its entry in the log names it."""
    form = {"action": "suppress", "reason": "asked"}
    query = {"email": ADA, "entry": "globex"}
    page = visitor.send("/subscriber", form, **query)
    assert "Suppressed." in page
    assert ">suppressed</span>" in page
    assert ">active</span>" in visitor.shows("/subscriber", email=ADA, entry="acme")
    assert store.log is not None
    [entry] = store.log.newest(Query(), limit=2)
    assert (entry.entry, entry.provider) == ("globex", None)
    assert "set by notification 1" in page


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"email": ADA}, "Choose the entry of the receiver whose subscriber is changed."),
        ({"email": ADA, "entry": "initech"}, "The receiver has no entry"),
        ({"message_id": ADAS}, "Choose the entry of the receiver whose subscriber is changed."),
    ],
)
def test_a_manual_change_without_an_entry(
    visitor: Visitor, store: SQLStore, query: dict[str, str], text: str
) -> None:
    path = "/subscriber" if "email" in query else "/dispatch"
    form = {"action": "suppress", "reason": "asked", "email": ADA}
    if "email" in query:
        del form["email"]
    response = visitor.post(path, form, **query)
    assert response.status == 400
    assert text in response.body.decode()
    assert store.log is not None
    assert store.log.newest(Query(), limit=1) == []


def test_links_have_the_entry(visitor: Visitor, receiver: Receiver) -> None:
    """Those of notifications lead to the rows of their tenant."""
    body = json.dumps(testing.delivery(ADA, ADAS, at=AT))
    post(receiver, "acme", body)
    for page in (visitor.shows("/notifications"), visitor.shows("/notification", id=1)):
        links = html.unescape(page)
        assert f"./subscriber?email={ADA.replace('@', '%40')}&entry=acme" in links
        assert f"./dispatch?message_id={ADAS}&entry=acme" in links


def test_a_cause_is_a_notification_of_the_tenant(visitor: Visitor, receiver: Receiver) -> None:
    """Those of another tenant with the same time set nothing in its row."""
    body = json.dumps(testing.delivery(ADA, ADAS, at=AT))
    for name in ("acme", "globex-eu"):
        post(receiver, name, body)
    page = visitor.shows("/dispatch", message_id=ADAS, entry="acme")
    assert "set by notification 1" in page
    assert "set by notification 2" not in page
    # Two entries are the tenant's, and only the notifications of the chosen one are listed.
    page = visitor.shows("/dispatch", message_id=ADAS, entry="globex")
    assert "set by notification" not in page
    assert "not set by a notification" not in page


def post(receiver: Receiver, name: str, body: str) -> None:
    sent = testing.headers(secret=f"{SECRET}-{name}")
    raw = [(key.encode(), value.encode()) for key, value in sent.items()]
    head = RequestHead("POST", f"{ENDPOINT}/{name}", raw)
    assert receiver.admit(head) is None
    assert receiver.record_directly(Request(head, body.encode())).status == 200


def test_a_dashboard_needs_the_tenants_of_the_mapping(store: SQLStore) -> None:
    with pytest.raises(ConfigurationError, match="so each entry of the receiver needs the value"):
        Dashboard(store, authorize=lambda _: "ada")
