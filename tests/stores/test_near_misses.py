"""The rows that a refused notification almost matched, on every database and through Django."""

import json
from collections.abc import Sequence
from contextlib import closing
from unittest.mock import Mock

import pytest
from homes import Home
from host_tables import HOST, REST, make
from locations import ON_SQLITE, PLACES, empty_engine, own_home
from sqlalchemy import Engine
from test_tenants import make_teams, schema_of

from copying import replace
from engines import run
from hookrow import Arrival, Refusal, Role, Schema
from hookrow._core.log_entry import StoredEntry, log_entries
from hookrow._core.notification import Outcome
from hookrow._core.schema import Scalar
from hookrow._describe import visible
from hookrow._near_misses import NearMiss, near_misses
from hookrow._receiver.entries import Entries, Entry
from hookrow.stores import Unavailable
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore, _newest
from hookrow.stores.sql._transaction import SQLReading
from senders import SENDERS
from senders.sender import ADA
from times import NOON

home = pytest.fixture(own_home, params=PLACES)
engine = pytest.fixture(empty_engine)

BEA = "bea@example.com"

NO_DISPATCH = Refusal.DISPATCH_NOT_FOUND.refused()
NO_SUBSCRIBER = Refusal.SUBSCRIBER_NOT_FOUND.refused()

MISMATCH = Refusal.RECIPIENT_MISMATCH.refused(owner=BEA, recipient=ADA)

POSTMARK = SENDERS["postmark"].message_id

# What the host has stored in place of a message id of a provider's, and the words for it.
STORED = {
    "postmark": {
        f"<{POSTMARK}>": "with angle brackets",
        POSTMARK.replace("-", ""): "without hyphens",
        POSTMARK.replace("-", "").upper(): "without hyphens",
        POSTMARK.upper(): "in capitals",
        f"{POSTMARK} ": "with spaces or invisible characters",
        f"\t{POSTMARK}": "with spaces or invisible characters",
        f"<{POSTMARK}@mtasv.net>": "with a domain",
        f"{POSTMARK}.5": "with a suffix",
        f" <{POSTMARK}>": "with spaces or invisible characters and with angle brackets",
        f"<{POSTMARK.replace('-', '').upper()}@mtasv.net>": "with a domain and without hyphens",
    },
    "sendgrid": {
        "14c5d75ce93Xk3dV0pTQzW.recvd-6b9f-abcde-1-6740.0": "with a suffix",
        "14c5d75ce93Xk3dV0pTQzW.filter0001.16648.5515E0F6-1.0": "with a suffix",
    },
    "mailgun": {"20260212182531.0d5ed3254c319957@mg.example.com": "without angle brackets"},
}

SPACES = "with spaces or invisible characters"
DISPLAY_NAME = "with a display name or angle brackets"

# The addresses of notifications, and what the host has stored in their place.
EMAILS = {
    ADA: {
        f" {ADA}": SPACES,
        f"{ADA}\n": SPACES,
        f"\u00a0{ADA}\u200b": SPACES,
        f"<{ADA}>": DISPLAY_NAME,
        f'"Ada 100%_!" <{ADA}>': DISPLAY_NAME,
        f"Ada <{ADA.upper()}>": DISPLAY_NAME,
        f"Ada\u00a0 <{ADA}> ": DISPLAY_NAME,
    },
    "zoë@example.com": {
        "ZOË@example.com": "in capitals",
        "zoe\u0308@example.com": "with decomposed letters",
        "ZOE\u0308@example.com": "with decomposed letters",
    },
    "zoe\u0308@example.com": {"zoë@example.com": "with composed letters"},
    "ZOË@example.com": {"Zoë@Example.com": "in small letters"},
    "ada@xn--bcher-kva.example": {
        "ada@bücher.example": "with an international domain",
        "ada@BÜCHER.example": "with an international domain",
    },
    "i\u0307@example.com": {"İ@example.com": "in capitals"},
    "ada@bücher.example": {
        "ada@xn--bcher-kva.example": "with a domain in the form xn--",
        '"Ada" <ada@xn--bcher-kva.example>': f"{DISPLAY_NAME} and with a domain in the form xn--",
    },
}


def logged(
    store: SQLStore, name: str, event: object, outcome: Outcome, entry: str | None = None
) -> StoredEntry:
    """Log an event of a provider's with an outcome; return the entry."""
    body = json.dumps(event).encode()
    read = SENDERS[name].construct().parse(body)
    arrived = Arrival(read.notifications, body, NOON, provider=name, entry=entry)
    with store.transaction() as transaction:
        transaction.write((), log_entries([arrived], [outcome], NOON))
    assert store.log is not None
    return store.log.newest(Query(), limit=1)[0]


def near(
    home: Home, outcome: Outcome, recipient: str = ADA, store: SQLStore | None = None
) -> list[tuple[str, object, str]]:
    """Return the near misses of an event of Postmark's, of which no two rows are the same."""
    event = SENDERS["postmark"].opened(1) | {"Recipient": recipient}
    entry = logged(home.store, "postmark", event, outcome)
    parsers = Entries(Entry(None, SENDERS["postmark"].construct()))
    return [
        (each.row, each.id, each.text) for each in near_misses(store or home.store, entry, parsers)
    ]


def test_message_ids(home: Home) -> None:
    for name, spellings in STORED.items():
        provider = SENDERS[name].construct()
        for stored, words in spellings.items():
            home.fill(
                subscribers=[{"id": 1, "email": ADA}],
                dispatches=[
                    {"id": 1, "provider_message_id": stored, "subscriber_id": 1},
                    {"id": 2, "provider_message_id": f"x{stored}", "subscriber_id": 1},
                ],
            )
            entry = logged(home.store, name, SENDERS[name].opened(1), NO_DISPATCH)
            text = (
                f'A dispatch has the message ID "{visible(stored)}", which is not equal: it is '
                f"stored {words}. Store {provider.message_id_source}."
            )
            expected = [NearMiss("dispatch", 1, stored, text)]
            assert near_misses(home.store, entry, Entries(Entry(None, provider))) == expected


def test_addresses(home: Home) -> None:
    """Other addresses that contain the same text are not near misses."""
    for recipient, spellings in EMAILS.items():
        for stored, words in spellings.items():
            home.fill(
                subscribers=[{"id": 1, "email": stored}, {"id": 2, "email": f"jo{recipient}"}]
            )
            text = (
                f'A subscriber has the address "{visible(stored)}", which is not equal: it is '
                f"stored {words}."
            )
            assert near(home, NO_SUBSCRIBER, recipient) == [("subscriber", 1, text)]


def test_rows_that_where_hides(engine: Engine) -> None:
    """A row may also have another spelling; the owner of a visible dispatch may be hidden."""
    make(engine)
    schema = replace(
        HOST,
        subscribers=Role("people", REST, where={"deleted_at": None, "active": True}),
        dispatches=replace(HOST.dispatches, where={"made": None}),
    )
    person = "INSERT INTO people (id, email, active, deleted_at) VALUES"
    sent = "INSERT INTO sends (id, subscriber_id, provider_message_id, made) VALUES"
    gone = "'2026-03-04 12:00:00'"
    hides = " `where` hides this row: see its"
    dispatch = f"A dispatch has the message ID \"{POSTMARK}\".{hides} 'made'."
    subscriber = f"A subscriber has the address \"{ADA}\".{hides} 'deleted_at', 'active'."
    owner = f'The dispatch with this message ID belongs to the subscriber "{ADA}".'
    parsers = Entries(Entry(None, SENDERS["postmark"].construct()))
    with closing(SQLStore("sqlite://")) as own, closing(SQLStore(engine, schema)) as store:

        def near(outcome: Outcome) -> Sequence[tuple[object, str]]:
            entry = logged(own, "postmark", SENDERS["postmark"].opened(1), outcome)
            return [(each.id, each.text) for each in near_misses(store, entry, parsers)]

        run(engine, f"{person} (1, '{ADA}', true, NULL)", f"{sent} (5, 1, '{POSTMARK}', {gone})")
        assert near(NO_DISPATCH) == [(5, dispatch)]
        assert near(MISMATCH) == near(NO_SUBSCRIBER) == []
        run(engine, "UPDATE sends SET made = NULL", f"UPDATE people SET deleted_at = {gone}")
        assert near(NO_DISPATCH) == []
        assert near(NO_SUBSCRIBER) == [(1, subscriber)]
        run(engine, f"{person} (2, '{ADA}', true, NULL)")
        hidden = f"{owner}{hides} 'deleted_at', 'active'."
        assert near(NO_SUBSCRIBER) == near(MISMATCH) == [(1, hidden)]
        run(
            engine,
            "DELETE FROM people WHERE id = 2",
            f"UPDATE people SET email = 'Ada <{ADA}>', active = false",
        )
        spelled = f'A subscriber has the address "Ada <{ADA}>", which is not equal: it is stored '
        expected = f"{spelled}{DISPLAY_NAME}.{hides} 'deleted_at', 'active'."
        assert near(NO_SUBSCRIBER) == [(1, expected)]


def test_a_value_in_where_is_never_ignored(engine: Engine) -> None:
    """It may be a tenant's, whose rows another one must not see, also if it is null.

    Only a boolean or a time cannot be one.
    """
    make(engine)
    where: dict[str, Scalar] = {"tenant": "acme", "state": None, "active": True}
    role = Role("people", REST, where=where)
    schema = replace(HOST, subscribers=role)
    insert = "INSERT INTO people (id, email, tenant, state, active) VALUES"
    run(
        engine,
        f"{insert} (1, '{ADA}', 'globex', NULL, true)",
        f"{insert} (2, 'Ada <{ADA}>', 'globex', NULL, true)",
        f"{insert} (3, '{ADA}', 'acme', 7, true)",
    )
    parsers = Entries(Entry(None, SENDERS["postmark"].construct()))
    with closing(SQLStore("sqlite://")) as own, closing(SQLStore(engine, schema)) as store:
        entry = logged(own, "postmark", SENDERS["postmark"].opened(1), NO_SUBSCRIBER)
        assert near_misses(store, entry, parsers) == []
        run(engine, f"{insert} (4, '{ADA}', 'acme', NULL, false)")
        [miss] = near_misses(store, entry, parsers)
    hides = "`where` hides this row: see its 'active'."
    assert (miss.id, miss.text) == (4, f'A subscriber has the address "{ADA}". {hides}')


def test_the_owner_of_the_dispatch(home: Home) -> None:
    """It is named if the address is that of no subscriber, or of another one."""
    sent = {"id": 1, "provider_message_id": POSTMARK, "subscriber_id": 1}
    home.fill(subscribers=[{"id": 1, "email": BEA}], dispatches=[sent])
    owner = "The dispatch with this message ID belongs to the subscriber"
    expected = [("subscriber", 1, f'{owner} "{BEA}".')]
    assert near(home, NO_SUBSCRIBER) == near(home, MISMATCH) == expected
    assert near(home, MISMATCH, BEA.upper()) == []
    people = [{"id": 1, "email": f" {ADA}"}, {"id": 2, "email": ADA}]
    home.fill(subscribers=people, dispatches=[sent])
    text = f'{owner} "\\x20{ADA}", which is not equal: it is stored {SPACES}.'
    assert near(home, MISMATCH) == [("subscriber", 1, text)]
    home.fill(subscribers=people[:1], dispatches=[sent])
    [(_, _, text)] = near(home, NO_SUBSCRIBER)
    assert text.startswith("A subscriber has the address"), "it is named once"


def test_only_the_newest_rows_are_searched(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with a display name; other spellings are found by the index."""
    monkeypatch.setattr(_newest, "SAMPLE", 1)
    people = [{"id": 1, "email": f"Ada <{ADA}>"}, {"id": 2, "email": BEA}]
    home.fill(subscribers=people)
    assert near(home, NO_SUBSCRIBER) == []
    home.fill(subscribers=[{"id": 1, "email": f"{ADA} "}, {"id": 2, "email": BEA}])
    assert len(near(home, NO_SUBSCRIBER)) == 1


@ON_SQLITE
def test_rows_that_exist_by_now(home: Home) -> None:
    """If the row was committed since, a retry records the notification, so others are no matter."""
    home.fill(
        subscribers=[{"id": 1, "email": ADA}, {"id": 2, "email": f" {ADA}"}],
        dispatches=[
            {"id": 1, "provider_message_id": POSTMARK, "subscriber_id": 1},
            {"id": 2, "provider_message_id": f"<{POSTMARK}>", "subscriber_id": 1},
        ],
    )
    assert near(home, NO_DISPATCH) == near(home, NO_SUBSCRIBER) == []


@ON_SQLITE
def test_addresses_that_are_compared_exactly(home: Home) -> None:
    """Then the case of ASCII letters matters, too."""
    home.fill(subscribers=[{"id": 1, "email": ADA.upper()}])
    schema = Schema(subscribers=Role("hookrow_subscribers", fold="exact"))
    with closing(SQLStore(home.url, schema)) as store:
        [(_, _, text)] = near(home, NO_SUBSCRIBER, store=store)
    assert text.endswith(f'"{ADA.upper()}", which is not equal: it is stored in capitals.')
    assert near(home, NO_SUBSCRIBER) == []


@ON_SQLITE
def test_none(home: Home) -> None:
    """Other outcomes have none, and so do entries whose provider is not known."""
    home.fill(
        subscribers=[{"id": 1, "email": ADA}],
        dispatches=[{"id": 1, "provider_message_id": f"<{POSTMARK}>", "subscriber_id": 1}],
    )
    parsers = Entries(Entry(None, SENDERS["postmark"].construct()))
    event = SENDERS["postmark"].opened(1)
    failed = logged(home.store, "postmark", event, Refusal.FAILED.refused())
    assert not near_misses(home.store, failed, parsers)
    refused = logged(home.store, "mailgun", SENDERS["mailgun"].opened(1), NO_DISPATCH)
    assert not near_misses(home.store, refused, parsers)


@pytest.mark.parametrize("roles", [("subscribers",), ("subscribers", "dispatches")])
def test_tenants(engine: Engine, roles: tuple[str, ...]) -> None:
    """Rows of other tenants are not named, in whatever way they are found."""
    make_teams(engine, "integer", 1, 2)
    provider = SENDERS["postmark"].construct()
    parsers = Entries(Entry("acme", provider, 1), Entry("globex", provider, 2))
    with closing(SQLStore(engine, schema_of(*roles))) as store:
        store.use_entries(parsers.known)
        for outcome, updates in _OF_THE_FIRST.items():
            run(engine, *updates)
            with closing(SQLStore("sqlite://")) as own:
                entries = [
                    logged(own, "postmark", SENDERS["postmark"].opened(n), outcome, name)
                    for n, name in enumerate(parsers.names)
                ]
            found = [near_misses(store, each, parsers) for each in entries]
            assert [[each.id for each in rows] for rows in found] == [[1], []]


@pytest.mark.parametrize("roles", [("subscribers",), ("subscribers", "dispatches")])
def test_a_tenant_with_few_rows_among_many(
    engine: Engine, roles: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its newest rows are searched, although those of others are newer, or hidden."""
    make_teams(engine, "integer", 1, 2)
    run(
        engine,
        f"UPDATE people SET email = 'Ada <{ADA}>' WHERE id = 1",
        f"UPDATE sends SET provider_message_id = 'x-<{POSTMARK}.5' WHERE id = 1",
        "INSERT INTO people (id, email, team, state) VALUES (3, 'b@example.com', 1, 7)",
    )
    monkeypatch.setattr(_newest, "SAMPLE", 1)
    provider = SENDERS["postmark"].construct()
    parsers = Entries(Entry("acme", provider, 1), Entry("globex", provider, 2))
    schema = schema_of(*roles)
    people = replace(schema.subscribers, where={"state": None})
    with closing(SQLStore(engine, replace(schema, subscribers=people))) as store:
        store.use_entries(parsers.known)
        with closing(SQLStore("sqlite://")) as own:
            event = SENDERS["postmark"].opened(1)
            entry = logged(own, "postmark", event, NO_SUBSCRIBER, "acme")
        assert [(each.row, each.id) for each in near_misses(store, entry, parsers)][:1] == [
            ("subscriber", 1)
        ]


def test_a_search_that_takes_too_long(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an index finds is found anyway."""
    home.fill(
        subscribers=[{"id": 1, "email": f"{ADA} "}, {"id": 2, "email": f"Ada <{ADA}>"}],
    )
    failing = Mock(side_effect=Unavailable("canceling statement due to statement timeout"))
    monkeypatch.setattr(SQLReading, "containing", failing)
    assert [id_ for _, id_, _ in near(home, NO_SUBSCRIBER)] == [1]
    assert failing.called


_OF_THE_FIRST = {
    NO_DISPATCH: [f"UPDATE sends SET provider_message_id = '<{POSTMARK}>' WHERE id = 1"],
    NO_SUBSCRIBER: [
        "UPDATE people SET email = 'other' WHERE id = 2",
        f"UPDATE people SET email = 'Ada <{ADA}>' WHERE id = 1",
    ],
    MISMATCH: [f"UPDATE sends SET provider_message_id = '{POSTMARK}' WHERE id = 1"],
}
"""Changes of the rows of the first tenant, by the outcome whose near miss is one of them."""
