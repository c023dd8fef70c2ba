"""The record of the mapping: the tables that the log was written for."""

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier
from typing import Any

import pytest
from contract import ADA, NOON, arrival, fill, opens
from django.db.transaction import atomic
from django_home import DjangoHome
from homes import SPARSE, UNDATED, SQLHome
from locations import DATABASES, PLACES, own_engine, own_home
from sqlalchemy import Engine

import django_host
from copying import replace
from engines import run
from hookrow import Arrival, Delivered, Role, Schema
from hookrow.core.notification import Outcome, Recorded
from hookrow.django.store import DjangoStore
from hookrow.receiver.recorder import is_reachable, record
from hookrow.receiver.replay import dry_run
from hookrow.server.settings import schema_of
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql.mapping_record import REMEDY, mapped_tables, mapping_difference
from hookrow.stores.sql.urls import open_database

ROLES = "subscribers", "dispatches", "subscriptions"
RECORD = "SELECT value FROM hookrow_meta WHERE name = 'mapping'"
FORGET = "DELETE FROM hookrow_meta WHERE name = 'mapping'"
ATTEMPTS = "SELECT sum(attempts) FROM hookrow_notifications"

engine = pytest.fixture(own_engine)
home = pytest.fixture(own_home)


def recorded(engine: Engine) -> list[str]:
    return [value for (value,) in run(engine, RECORD)]


def named(engine: Engine, *tables: str) -> str:
    """Return the record of these tables, by the database's own names."""
    schema = "public." if engine.dialect.name == "postgresql" else ""
    roles = zip(ROLES, tables, strict=True)
    return "{" + ",".join(f'"{role}":"{schema}{table}"' for role, table in roles) + "}"


def deliver(store: SQLStore) -> list[Outcome]:
    return record(store, [arrival(Delivered(ADA, "m-ada", NOON))])


@pytest.mark.parametrize(
    "home", [each for each in PLACES if each != "supplied-sqlite"], indirect=True
)
def test_the_first_notification(home: SQLHome) -> None:
    """The first entry of the log records the mapping; dry runs and reads do not."""
    fill(home)
    assert isinstance(
        dry_run(home.store, Arrival(opens(ADA, "m-ada"), b"{}", NOON)).outcome, Recorded
    )
    assert is_reachable(home.store)
    with home.store.reading() as reading:
        assert not reading.read([])
    assert recorded(home._engine) == []
    deliver(home.store)
    expected = [named(home._engine, *(f"hookrow_{each}" for each in ROLES))]
    assert recorded(home._engine) == expected
    home.run(FORGET)
    deliver(home.store)
    assert recorded(home._engine) == []


@pytest.mark.parametrize("home", [f"django-{each}" for each in DATABASES], indirect=True)
def test_in_a_transaction_of_the_project(home: DjangoHome) -> None:
    """In a transaction of the project, the mapping is left to a later notification."""
    with atomic(home.alias):
        deliver(home.store)
    assert recorded(home._engine) == []
    deliver(home.store)
    assert len(recorded(home._engine)) == 1


def test_one_mapping_in_several_ways(engine: Engine, database_url: str) -> None:
    """A table has the same name with or without its schema, in TOML, and as a Django model."""
    spelled = "public.hookrow_{}" if engine.dialect.name == "postgresql" else "MAIN.HOOKROW_{}"
    roles: dict[str, Any] = {name: Role(spelled.format(name)) for name in ROLES}
    database = open_database(engine)
    with database.reading() as connection:
        plain = mapped_tables(connection, database, Schema())
        assert plain == mapped_tables(connection, database, Schema(**roles))
        tables = {name: {"table": role.table} for name, role in roles.items()}
        assert plain == mapped_tables(connection, database, schema_of(tables))
    with django_host.alias(database_url) as alias:
        store = DjangoStore(Schema(), alias)
        with store.database.reading() as connection:
            assert mapped_tables(connection, store.database, store.mapping.schema) == plain


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
    prefix = "public." if engine.dialect.name == "postgresql" else ""
    warning = (
        "The log was written for tables other than those mapped now: subscribers in "
        f"{prefix}hookrow_subscribers; now subscribers in {prefix}people."
    )
    assert caplog.messages == [f"{warning} {REMEDY}"]
    assert recorded(engine) == former

    def difference(schema: Schema) -> str | None:
        return mapping_difference(open_database(engine), schema)

    assert difference(schema) == warning
    without = difference(replace(schema, subscriptions=None)) or ""
    assert "now subscribers in " in without
    assert "subscriptions in no table" in without
    run(engine, "UPDATE hookrow_meta SET value = 'unreadable'")
    assert "subscribers in no table" in (difference(schema) or "")
    run(engine, FORGET)
    assert difference(schema) is None


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
    with closing(SQLHome(empty_database_url, SPARSE)) as home:
        with caplog.at_level(logging.WARNING, "hookrow"):
            deliver(home.store)
        assert mapping_difference(home.store.database, SPARSE) is None
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
    with closing(SQLHome(empty_database_url, UNDATED)) as home:
        home.run("CREATE TABLE IF NOT EXISTS hookrow_meta (name text UNIQUE, value text)")
        deliver(home.store)
        assert recorded(home._engine) == [named(home._engine, "people", "sends", "members")]
