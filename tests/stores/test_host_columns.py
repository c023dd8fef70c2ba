"""Columns whose values have a form other than in hookrow's own tables, in every store.

These are UUIDs for the provider's message ids, and the empty text for no reason.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from typing import NamedTuple

import pytest
from contract import NOON, arrival, opens, statuses
from locations import PLACES
from sqlalchemy import Engine

import django_host
from copying import replace
from databases import kind_of
from engines import connect, create, run
from hookrow import Delivered, Reactivated, Refused, Role, Schema, Suppressed
from hookrow._core.notification import Key, Notification, Outcome, Suppressible
from hookrow._receiver.recorder import record
from hookrow.django._store import DjangoStore
from hookrow.stores.sql import SQLStore
from hookrow.testing import StoreContract
from times import SECOND

GUID = "B7BC2f4a-e38e-4336-af7d-e6c392c2f817"
OTHER = "00000000-0000-4000-8000-000000000002"
ADA, BEA = "ada@example.com", "bea@example.com"

_DATES = {"suppression_changed_at": None}
SCHEMA = Schema(
    subscribers=Role("guests", _DATES, empty=""),
    dispatches=Role(
        "parcels",
        {
            "provider_message_id": "message_id",
            "sent_at": "sent_at",
            "suppressed_at": None,
            "suppression_reason": None,
            **_DATES,
        },
    ),
    subscriptions=Role("stays", _DATES, empty=""),
    log=None,
)
MODELS = {"subscribers": "crm.Guest", "dispatches": "crm.Parcel", "subscriptions": "crm.Stay"}
TABLES = """
    CREATE TABLE guests (id integer PRIMARY KEY, email text, suppressed_at {time},
        suppression_reason text NOT NULL DEFAULT (''));
    CREATE TABLE parcels (id integer PRIMARY KEY, message_id {uuid} UNIQUE, subscriber_id integer,
        list_id integer, sent_at {time}, delivered_at {time}, opened_at {time});
    CREATE TABLE stays (list_id integer, subscriber_id integer, suppressed_at {time},
        suppression_reason text NOT NULL DEFAULT (''), PRIMARY KEY (list_id, subscriber_id))
"""


class Host(NamedTuple):
    """A store, and the database with its tables."""

    store: SQLStore
    engine: Engine

    def send(self, *notifications: Notification) -> list[Outcome]:
        return record(self.store, [arrival(each) for each in notifications])


@pytest.fixture(scope="module", params=PLACES)
def opened(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Host]:
    through, _, kind = request.param.rpartition("-")
    url = new_database(kind)
    engine = connect(url)
    create(engine, *TABLES.split(";"))
    with ExitStack() as stack:
        stack.callback(engine.dispose)
        if through == "django":
            roles = {name: replace(SCHEMA.roles[name], table=MODELS[name]) for name in MODELS}
            alias = stack.enter_context(django_host.alias(url))
            yield Host(DjangoStore(replace(SCHEMA, **roles), alias), engine)
        else:
            store = SQLStore(engine if through else url, SCHEMA)
            yield Host(stack.enter_context(closing(store)), engine)


@pytest.fixture
def host(opened: Host) -> Host:
    """Insert Ada with a parcel on a list, and Bea with a parcel; nothing has been delivered."""
    ids = [each.lower() for each in (GUID, OTHER)]
    if not kind_of(opened.engine).has_uuids:
        ids = [each.replace("-", "") for each in ids]
    run(
        opened.engine,
        *(f"DELETE FROM {table}" for table in ("guests", "parcels", "stays")),
        f"INSERT INTO guests (id, email) VALUES (1, '{ADA}'), (2, '{BEA}')",
        "INSERT INTO parcels (id, message_id, subscriber_id, list_id, sent_at) VALUES "
        f"(1, '{ids[0]}', 1, 7, '2026-03-04 12:00:00.000000'), (2, '{ids[1]}', 2, NULL, NULL), "
        "(3, NULL, 1, NULL, NULL)",
        "INSERT INTO stays (list_id, subscriber_id) VALUES (7, 1)",
    )
    return opened


def test_spellings_of_a_message_id(host: Host) -> None:
    """All spellings of a UUID change one row, also in one group; another recipient gets a 400."""
    for spelling in (GUID, GUID.lower(), GUID.upper()):
        assert statuses(host.send(opens(ADA, spelling))) == [200]
        assert run(host.engine, "SELECT id FROM parcels WHERE opened_at IS NOT NULL") == [(1,)]
        run(host.engine, "UPDATE parcels SET opened_at = NULL")
    sent = opens(ADA, GUID.upper()), Delivered(ADA, GUID.lower(), NOON), opens(BEA, GUID)
    *recorded, other = host.send(*sent)
    assert statuses(recorded) == [200, 200]
    assert isinstance(other, Refused)
    assert other.text == f"Dispatch subscriber {ADA} does not match payload recipient {BEA}"


def test_the_beginning_of_a_message_id(host: Host) -> None:
    """It is found in every spelling, in the order of the column or, without one, in new rows."""
    rows, guid = host.store.row_search, GUID.lower()
    for text in (guid[:1], guid[:8], guid[:9], guid[:11].upper(), guid[:20].replace("-", ""), guid):
        assert rows.message_ids(text, limit=9) == [guid]
    shared = 0  # of both
    while guid[shared] == OTHER.lower()[shared]:
        shared += 1
    if shared:
        found = rows.message_ids(guid[:shared], limit=9)
        assert found == sorted([guid, OTHER.lower()])
    for text in ("g", f"{guid}0", f"{guid[:11]}x", "%", "_"):
        assert rows.message_ids(text, limit=9) == ()


def test_message_ids_that_match_no_row(host: Host) -> None:
    """Text that is not the UUID of a row matches no dispatch, and does not affect its group."""
    for message_id in (
        "b7bc2f4a-e38e-4336-af7d-e6c392c2f818",
        # Forms that PostgreSQL would read and the provider never sends.
        *(f"{{{GUID}}}", GUID.replace("-", ""), f" {GUID}", f"{GUID}\n"),
        # No UUIDs.
        *("m-ada", GUID[:-1], f"{GUID}0", GUID.replace("B", "G"), GUID.replace("B", "Б")),
        *('"\\{},NULL', "NULL", "x" * 255, "", None),
    ):
        first, middle, last = host.send(
            Delivered(BEA, OTHER, NOON), opens(ADA, message_id), Delivered(ADA, GUID, NOON)
        )
        assert statuses([first, last]) == [200, 200], message_id
        assert isinstance(middle, Refused), message_id
        assert middle.text == "Engine::Dispatch not found"


class _Mapping(StoreContract):
    """The contract of a host's mapping, over these tables."""

    def __init__(self, host: Host) -> None:
        self.store, self.engine = host
        self.keys = count(9)

    def add_subscriber(self, email: str) -> Key:
        return self._add("guests", "email", f"'{email}'")

    def add_dispatch(self, message_id: str, subscriber: Key, _: Key | None) -> Key:
        if not kind_of(self.engine).has_uuids:
            message_id = message_id.replace("-", "")
        return self._add("parcels", "message_id, subscriber_id", f"'{message_id}', {subscriber}")

    def _add(self, table: str, columns: str, values: str) -> int:
        key = next(self.keys)
        run(self.engine, f"INSERT INTO {table} (id, {columns}) VALUES ({key}, {values})")
        return key


def test_contract_of_a_mapping(host: Host) -> None:
    """It does not expect a UUID in upper case to match no row."""
    _Mapping(host).test_unknown_message_id()


def test_times_of_sending(host: Host) -> None:
    """Times are returned by the requested spelling of each id."""
    sent = NOON.replace(microsecond=0)
    assert dict(host.store.row_counts.sent([GUID, OTHER, "m-ada"])) == {GUID: sent}
    assert host.store.row_counts.sent_between(sent, sent + SECOND) == (1, 0, 0)
    assert host.store.row_counts.sent_between(sent - SECOND, sent) == (0, 0, 0)
    listed = host.store.row_counts.list_undelivered(sent, limit=9)
    assert [each.sent_at for each in listed if each.message_id == GUID.lower()] == [sent]
    assert listed == [
        each
        for after in (None, *(each.cursor for each in listed[:-1]))
        for each in host.store.row_counts.list_undelivered(sent, after=after, limit=1)
    ]


def test_no_reason(host: Host) -> None:
    """A missing reason is an empty text in the column, and null when hookrow reads it."""
    guest, stay = (Suppressible.SUBSCRIBER, 1), (Suppressible.SUBSCRIPTION, (7, 1))
    stored = (
        "SELECT suppression_reason FROM guests WHERE id = 1 UNION ALL "
        "SELECT suppression_reason FROM stays"
    )

    def check(read: str | None, kept: str) -> None:
        with host.store.reading() as reading:
            states = reading.read([guest, stay])
        assert [states[row]["suppression_reason"] for row in (guest, stay)] == [read, read]
        assert run(host.engine, stored) == [(kept,), (kept,)]

    check(None, "")
    host.send(Suppressed(ADA, GUID, NOON, "HardBounce"))
    check("HardBounce", "HardBounce")
    assert host.store.row_counts.suppressed() == {"HardBounce": 1}
    host.send(Reactivated(ADA, GUID, NOON))
    check(None, "")
    run(host.engine, "UPDATE guests SET suppressed_at = '2026-03-04 12:00:00.000000'")
    assert host.store.row_counts.suppressed() == {None: 2}
