"""The record of the mapping: the tables that the log was written for."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from contract import ADA, NOON, arrival, fill, opens, statuses
from django.db.transaction import atomic
from django_home import DjangoHome
from homes import SPARSE, UNDATED, Home
from locations import PLACES, own_engine, own_home
from sqlalchemy import Engine

import django_host
from copying import replace
from databases import KINDS, kind_of, places
from engines import create, opened, run
from hookrow import Arrival, Delivered, Postmark, Role, Schema
from hookrow._core.notification import Outcome, Recorded
from hookrow._core.schema_values import schema_of
from hookrow._receiver.clock import Clock, utc_now
from hookrow._receiver.entries import POSTMARK
from hookrow._receiver.receiver import ArrivalReader
from hookrow._receiver.recorder import is_reachable, keep_failed, record
from hookrow._receiver.replay import ParkedRetry, arrivals_of, dry_run
from hookrow._receiver.spool import Drain, Spool
from hookrow.django._store import DjangoStore
from hookrow.migrations import upgrade
from hookrow.stores._errors import WrongMapping
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._mapping_record import REMEDY, MappingRecord, mapped_tables
from received import arrival as arrived
from times import HOUR
from wire import PATIENCE

ROLES = "subscribers", "dispatches", "subscriptions"
TABLES = [f"hookrow_{each}" for each in ROLES]
RECORD = "SELECT value FROM hookrow_meta WHERE name = 'mapping'"
FORGET = "DELETE FROM hookrow_meta WHERE name = 'mapping'"
ATTEMPTS = "SELECT sum(attempts) FROM hookrow_notifications"

engine = pytest.fixture(own_engine)
home = pytest.fixture(own_home)


def recorded(engine: Engine) -> list[str]:
    return [value for (value,) in run(engine, RECORD)]


def named(*tables: str) -> str:
    """Return the record of these tables, by the database's own names."""
    roles = zip(ROLES, tables, strict=True)
    named = ",".join(f'"{role}":{{"table":"{table}"}}' for role, table in roles)
    return f"[{{{named}}}]"


def difference(database: Engine | str, schema: Schema) -> str | None:
    """Return how the record differs from the mapping of a schema."""
    with closing(SQLStore(database, schema)) as store:
        return MappingRecord(store.database, store.role_tables).difference()


def deliver(store: SQLStore) -> list[Outcome]:
    return record(store, [arrival(Delivered(ADA, "m-ada", NOON))])


@pytest.mark.parametrize(
    "home", [each for each in PLACES if each != "supplied-sqlite"], indirect=True
)
def test_the_first_notification(home: Home) -> None:
    """The first entry of the log records the mapping; dry runs and reads do not."""
    fill(home)
    assert isinstance(
        dry_run(home.store, Arrival((opens(ADA, "m-ada"),), b"{}", NOON)).outcome, Recorded
    )
    assert is_reachable(home.store)
    with home.store.reading() as reading:
        assert not reading.read([])
    assert recorded(home._engine) == []
    deliver(home.store)
    expected = [named(*TABLES)]
    assert recorded(home._engine) == expected
    home.run(FORGET)
    deliver(home.store)
    assert recorded(home._engine) == []


@pytest.mark.parametrize("home", places("django"), indirect=True)
def test_in_a_transaction_of_the_project(home: DjangoHome) -> None:
    """In a transaction of the project, the mapping is left to a later notification."""
    with atomic(home.alias):
        deliver(home.store)
    assert recorded(home._engine) == []
    deliver(home.store)
    assert len(recorded(home._engine)) == 1


def test_one_mapping_in_several_ways(engine: Engine, database_url: str) -> None:
    """A table has the same name with or without its schema, in TOML, and as a Django model."""
    spelled = f"{kind_of(engine).schema(engine)}.hookrow_"
    roles: dict[str, Any] = {name: Role(spelled + name) for name in ROLES}

    def mapped(store: SQLStore) -> object:
        with store.database.reading() as connection:
            return mapped_tables(connection, store.database, store.role_tables)

    plain = mapped(SQLStore(engine))
    assert plain == mapped(SQLStore(engine, Schema(**roles)))
    tables = {name: {"table": role.table} for name, role in roles.items()}
    assert plain == mapped(SQLStore(engine, schema_of(tables)))
    with django_host.alias(database_url) as alias:
        assert mapped(DjangoStore(Schema(), alias)) == plain


def test_another_mapping(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """A different mapping is reported once, with both tables; no notification is rejected."""
    deliver(SQLStore(engine))
    former = recorded(engine)
    run(engine, "ALTER TABLE hookrow_subscribers RENAME TO people")
    schema = Schema(subscribers=Role("people"))
    store = SQLStore(engine, schema)
    with caplog.at_level(logging.WARNING, "hookrow"):
        deliver(store)
        deliver(store)
    warning = (
        "The log was written for tables other than those mapped now: subscribers in "
        "hookrow_subscribers; now subscribers in people."
    )
    assert caplog.messages == [f"{warning} {REMEDY}"]
    [both] = recorded(engine)
    assert both == f"{former[0][:-1]},{named('people', *TABLES[1:])[1:]}"
    assert difference(engine, schema) == warning
    without = difference(engine, replace(schema, subscriptions=None)) or ""
    assert "now subscribers in " in without
    assert "subscriptions in no table" in without
    for value in ("unreadable", "{}", "1", '[{"subscribers": 1}]'):
        run(engine, f"UPDATE hookrow_meta SET value = '{value}'")
        assert "subscribers in no table" in (difference(engine, schema) or "")
    run(engine, FORGET)
    assert difference(engine, schema) is None


def test_no_table_for_the_record(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """The notification is recorded; one warning reports that the mapping is not recorded."""
    run(engine, "ALTER TABLE hookrow_meta RENAME TO other")
    store = SQLStore(engine)
    with caplog.at_level(logging.WARNING, "hookrow"):
        deliver(store)
        deliver(store)
    [warning] = caplog.messages
    assert warning.startswith("The mapping is not recorded in hookrow_meta: ")
    assert run(engine, ATTEMPTS) == [(2,)]


def test_without_a_log(empty_database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Without a log, there is no record and no warning."""
    with closing(Home(empty_database_url, SPARSE)) as home:
        with caplog.at_level(logging.WARNING, "hookrow"):
            deliver(home.store)
        home.store.check_mapping()
    assert caplog.messages == []


def test_simultaneous_receivers(
    engine: Engine, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All receivers record their notifications, and one of them records the mapping."""
    number = 4
    start = Barrier(number)

    def receive(_: int) -> None:
        with closing(SQLStore(database_url, verify=True)) as store:
            start.wait()
            deliver(store)

    with caplog.at_level(logging.WARNING, "hookrow"), ThreadPoolExecutor(number) as threads:
        assert [*threads.map(receive, range(number))] == [None] * number
    assert caplog.messages == []
    assert len(recorded(engine)) == 1
    assert run(engine, ATTEMPTS) == [(number,)]


def test_names_that_need_quotes(empty_database_url: str) -> None:
    """The record is beside the log of a host that created it."""
    with closing(Home(empty_database_url, UNDATED)) as home:
        create(
            home._engine, "CREATE TABLE IF NOT EXISTS hookrow_meta (name {name} UNIQUE, value text)"
        )
        deliver(home.store)
        assert recorded(home._engine) == [named("people", "sends", "members")]


@pytest.mark.parametrize("database_url", [each.name for each in KINDS], indirect=True)
def test_a_copy(database_url: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A restored backup may be a database of another name; on MariaDB, this is the schema."""
    with closing(SQLStore(database_url)) as store:
        deliver(store)
    folder = tmp_path / "restored"
    folder.mkdir()
    copied = kind_of(database_url).copy(request, database_url, folder)
    assert difference(copied, Schema()) is None


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_table_in_another_schema_than_the_log(engine: Engine) -> None:
    run(engine, "CREATE SCHEMA crm", "ALTER TABLE hookrow_subscribers SET SCHEMA crm")
    schema = Schema(subscribers=Role("crm.hookrow_subscribers"))
    with closing(SQLStore(engine, schema)) as store:
        deliver(store)
    assert recorded(engine) == [named("crm.hookrow_subscribers", *TABLES[1:])]
    assert difference(engine, schema) is None


PEOPLE = (
    "CREATE TABLE people (id integer PRIMARY KEY, email {name}, team integer, "
    "suppressed_at {timestamp}, suppression_reason text, suppression_changed_at {timestamp})"
)
SENDS = (
    "CREATE TABLE sends (id integer PRIMARY KEY, provider_message_id {name}, "
    "subscriber_id integer, delivered_at {timestamp}, opened_at {timestamp})"
)
STATE = "SELECT suppressed_at FROM people"
SPAM = (
    b'{"RecordType": "SubscriptionChange", "Recipient": "ada@example.com", '
    b'"SuppressSending": true, "SuppressionReason": "SpamComplaint"}'
)


def tenant(team: int) -> Schema:
    """Return the mapping of one tenant, whose people share a table with the others'."""
    bare = dict.fromkeys(("suppressed_at", "suppression_reason", "suppression_changed_at"))
    return Schema(
        subscribers=Role("people", where={"team": team}),
        dispatches=Role("sends", {**bare, "list_id": None}),
        subscriptions=None,
    )


@pytest.fixture
def tenants(empty_database_url: str) -> Iterator[list[SQLStore]]:
    """Return the stores of two tenants on one log; only the first one has Ada."""
    create(
        empty_database_url,
        PEOPLE,
        SENDS,
        f"INSERT INTO people (id, email, team) VALUES (1, '{ADA}', 1)",
    )
    with opened(empty_database_url) as engine:
        upgrade(engine, tenant(1))
    with (
        closing(SQLStore(empty_database_url, tenant(1))) as one,
        closing(SQLStore(empty_database_url, tenant(2))) as two,
    ):
        yield [one, two]


def complain(store: SQLStore) -> int:
    """Record a complaint about Ada, an hour ago; return the status."""
    at = datetime.now(UTC) - HOUR
    parsed = Arrival(Postmark.parse(SPAM).notifications, SPAM, at, provider="postmark")
    return statuses(record(store, [parsed], clock=lambda: at))[0]


@pytest.mark.parametrize("first", [0, 1, None], ids=["its own", "the other", "none"])
def test_two_tenants_on_one_log(
    tenants: list[SQLStore], empty_database_url: str, tmp_path: Path, first: int | None
) -> None:
    """What one tenant's receiver has refused is not recorded by the other's, in any way."""
    one, two = tenants
    if first is not None:
        keep_failed(tenants[first], [arrival(opens("eve@example.com", None))], clock=utc_now)
    assert complain(two) == 404
    keep_failed(one, [arrival(opens("eve@example.com", "m"))], clock=utc_now)
    for store in tenants:
        reader = store.log
        assert reader is not None
        retry = ParkedRetry(store, reader, POSTMARK, lambda *_: None, Clock(store))
        before = run(empty_database_url, "SELECT id, retry_at FROM hookrow_notifications")
        with pytest.raises(WrongMapping, match="where"):
            retry.retry_due()
        with pytest.raises(WrongMapping):
            retry.retry_now(["m"]).result(PATIENCE)
        entries = reader.oldest(Query(), limit=9)
        with pytest.raises(WrongMapping):
            arrivals_of(store, entries, POSTMARK, datetime.now(UTC))
        assert run(empty_database_url, "SELECT id, retry_at FROM hookrow_notifications") == before
        spool = Spool(tmp_path / "spool.db", store.mapping_key)
        spool.put([arrived(SPAM)])
        parse = ArrivalReader(POSTMARK).parse
        drain = Drain(spool, store, parse, lambda *_: None, Clock(store), bodies=True, swept=True)
        with pytest.raises(WrongMapping):
            drain()
        assert len(spool.after(0, limit=9)) == 1
    assert run(empty_database_url, STATE) == [(None,)]
    # Notifications that arrive are recorded all the same.
    assert (complain(one), complain(two)) == (200, 404)


def test_the_difference_of_conditions(
    tenants: list[SQLStore], caplog: pytest.LogCaptureFixture
) -> None:
    """The warning names both conditions; null and false are one, unless a column is boolean."""
    one, two = tenants
    for store in (one, two, one):
        complain(store)
    [warning] = caplog.messages
    assert warning == (
        "The log was written for tables other than those mapped now: "
        f'subscribers in people where {{"team":1}}; '
        f'now subscribers in people where {{"team":2}}. {REMEDY}'
    )
    null = tenant(1), tenant(1)
    for schema, value in zip(null, (None, False), strict=True):
        people = Role("people", where={"team": value})
        with closing(SQLStore(one.database, replace(schema, subscribers=people))) as store:
            assert store.role_tables.selecting("subscribers") == {"team": None}


def test_after_the_mapping_is_accepted(tenants: list[SQLStore], empty_database_url: str) -> None:
    """The sweep records what was parked under any mapping, until another one writes again."""
    one, two = tenants
    assert complain(two) == 404
    with pytest.raises(WrongMapping):
        one.check_mapping()
    MappingRecord(one.database, one.role_tables).accept()
    assert one.log is not None
    assert ParkedRetry(one, one.log, POSTMARK, lambda *_: None, Clock(one)).retry_due() == 1
    assert run(empty_database_url, STATE) != [(None,)]
    with pytest.raises(WrongMapping):
        two.check_mapping()
    two._claim_at = 0.0  # a minute later
    assert complain(two) == 404
    with pytest.raises(WrongMapping):
        one.check_mapping()


def test_spooled_under_another_mapping(
    tenants: list[SQLStore],
    empty_database_url: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Entries that arrived during an outage wait for a receiver with their mapping."""
    one, two = tenants
    path = tmp_path / "spool.db"
    Spool(path, two.mapping_key).put([arrived(SPAM)])
    spool, parse = Spool(path, one.mapping_key), ArrivalReader(POSTMARK).parse
    Drain(spool, one, parse, lambda *_: None, Clock(one), bodies=True, swept=True)()
    assert spool.count() == 1
    assert run(empty_database_url, STATE) == [(None,)]
    [warning] = caplog.messages
    assert warning == (
        "The spool has 1 notification that arrived with another `where`. Start a receiver with it "
        'to record them: {"subscribers":{"team":2}}'
    )
    mine = Spool(path, two.mapping_key)
    Drain(mine, two, parse, lambda *_: None, Clock(two), bodies=True, swept=True)()
    assert mine.count() == 0


def test_spooled_before_a_table_was_renamed(
    engine: Engine, database_url: str, tmp_path: Path
) -> None:
    """Without `where`, the entries belong to any mapping that is the log's."""
    path, parse = tmp_path / "spool.db", ArrivalReader(POSTMARK).parse
    run(engine, f"INSERT INTO hookrow_subscribers (id, email) VALUES (1, '{ADA}')")
    with closing(SQLStore(database_url)) as store:
        Spool(path, store.mapping_key).put([arrived(SPAM)])
    run(engine, "ALTER TABLE hookrow_subscribers RENAME TO people")
    schema = Schema(subscribers=Role("people"))
    with closing(SQLStore(database_url, schema)) as store:
        spool = Spool(path, store.mapping_key)
        Drain(spool, store, parse, lambda *_: None, Clock(store), bodies=True, swept=True)()
        assert spool.count() == 0
    assert run(engine, STATE) != [(None,)]
