"""The record of the mapping: the tables that the log was written for."""

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from threading import Barrier, Thread
from typing import Any

import pytest
from contract import NOON, arrival, fill, opens
from django.db.transaction import atomic
from django_home import DjangoHome
from homes import OURS, SPARSE, UNDATED, SQLHome, connect, run
from locations import open_home
from sqlalchemy import Engine, text

import django_host
from copying import replace
from hookrow import Arrival, Delivered, Role, Schema
from hookrow.core.notification import Outcome, Recorded
from hookrow.django.store import DjangoStore
from hookrow.receiver.recorder import is_reachable, record
from hookrow.receiver.replay import dry_run
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql.mapping_record import mapped_tables, mapping_difference
from hookrow.stores.sql.urls import open_database

RECORD = "SELECT value FROM hookrow_meta WHERE name = 'mapping'"
TABLES = "subscribers", "dispatches", "subscriptions"


def recorded(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.scalars(text(RECORD)))


def named(engine: Engine, *tables: str) -> str:
    """Return the record of these tables, by the database's own names."""
    schema = "public." if engine.dialect.name == "postgresql" else ""
    roles = zip(TABLES, tables, strict=True)
    return "{" + ",".join(f'"{role}":"{schema}{table}"' for role, table in roles) + "}"


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = connect(database_url)
    yield engine
    engine.dispose()


def deliver(store: SQLStore) -> list[Outcome]:
    return record(store, [arrival(Delivered("ada@example.com", "m-ada", NOON))])


@pytest.mark.parametrize(
    "place", ["sqlite", "postgres", "lent-postgres", "django-sqlite", "django-postgres"]
)
def test_the_first_notification(place: str, new_database: Callable[[str], str]) -> None:
    """The first entry of the log records the mapping; dry runs and reads do not."""
    with closing(open_home(place, OURS, new_database)) as home:
        assert isinstance(home, SQLHome)
        fill(home)
        sent = Arrival(opens("ada@example.com", "m-ada"), b"{}", NOON)
        assert isinstance(dry_run(home.store, sent).outcome, Recorded)
        assert is_reachable(home.store)
        with home.store.reading() as reading:
            assert not reading.read([])
        assert recorded(home._engine) == []
        deliver(home.store)
        expected = [named(home._engine, *(f"hookrow_{each}" for each in TABLES))]
        assert recorded(home._engine) == expected
        run(home._engine, "DELETE FROM hookrow_meta")
        deliver(home.store)
        assert recorded(home._engine) == []


def test_one_mapping_in_several_ways(engine: Engine, database_url: str) -> None:
    """A table has the same name with or without its schema, and as a Django model."""
    is_postgres = engine.dialect.name == "postgresql"
    schema = "public." if is_postgres else "MAIN."
    spelled = str if is_postgres else str.upper
    roles: dict[str, Any] = {name: Role(spelled(f"{schema}hookrow_{name}")) for name in TABLES}
    database = open_database(engine)
    with database.reading() as connection:
        plain = mapped_tables(connection, database, Schema())
        assert plain == mapped_tables(connection, database, Schema(**roles))
    with django_host.alias(database_url) as alias:
        store = DjangoStore(Schema(), alias)
        with store.database.reading() as connection:
            assert mapped_tables(connection, store.database, store.mapping.schema) == plain


def test_another_mapping(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """A different mapping is reported once, with both tables, and nothing is rejected."""
    deliver(SQLStore(engine))
    former = recorded(engine)
    run(engine, "ALTER TABLE hookrow_subscribers RENAME TO people")
    schema = Schema(subscribers=Role("people"))
    with caplog.at_level(logging.WARNING, "hookrow"):
        store = SQLStore(engine, schema)
        deliver(store)
        deliver(store)
    [warning] = caplog.messages
    prefix = "public." if engine.dialect.name == "postgresql" else ""
    assert warning == (
        "The log was written for other tables than those mapped now: subscribers in "
        f"{prefix}hookrow_subscribers; now subscribers in {prefix}people. Correct the "
        "mapping or, if it is right, run: DELETE FROM hookrow_meta WHERE name = 'mapping'"
    )
    assert recorded(engine) == former
    assert mapping_difference(open_database(engine), schema) == warning
    without = replace(schema, subscriptions=None)
    difference = mapping_difference(open_database(engine), without) or ""
    assert "now subscribers in " in difference
    assert "subscriptions in no table" in difference
    run(engine, "UPDATE hookrow_meta SET value = 'unreadable'")
    assert "subscribers in no table" in (mapping_difference(open_database(engine), schema) or "")
    run(engine, "DELETE FROM hookrow_meta WHERE name = 'mapping'")
    assert mapping_difference(open_database(engine), schema) is None


def test_no_table_for_the_record(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """The notification is recorded, and one warning says that the mapping is not."""
    run(engine, "ALTER TABLE hookrow_meta RENAME TO other")
    store = SQLStore(engine)
    with caplog.at_level(logging.WARNING, "hookrow"):
        for _ in range(2):
            deliver(store)
    [warning] = caplog.messages
    assert warning.startswith("The mapping is not recorded in hookrow_meta: ")
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT sum(attempts) FROM hookrow_notifications")) == 2


def test_without_a_log(empty_database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Without a log, there is no record and no warning."""
    with closing(SQLHome(empty_database_url, SPARSE)) as home:
        with caplog.at_level(logging.WARNING, "hookrow"):
            deliver(home.store)
        assert mapping_difference(home.store.database, SPARSE) is None
    assert caplog.messages == []


def test_simultaneous_receivers(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """All receivers record their notifications, and one of them records the mapping."""
    number = 4
    start = Barrier(number)

    def receive() -> None:
        with closing(SQLStore(database_url, verify=True)) as store:
            start.wait()
            deliver(store)

    threads = [Thread(target=receive) for _ in range(number)]
    with caplog.at_level(logging.WARNING, "hookrow"):
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert caplog.messages == []
    engine = connect(database_url)
    assert len(recorded(engine)) == 1
    with engine.connect() as connection:
        attempts = connection.scalar(text("SELECT attempts FROM hookrow_notifications"))
    assert attempts == number
    engine.dispose()


@pytest.mark.parametrize("place", ["django-sqlite", "django-postgres"])
def test_in_a_transaction_of_the_project(place: str, new_database: Callable[[str], str]) -> None:
    """In a transaction of the project, the mapping is left to a later notification."""
    with closing(open_home(place, OURS, new_database)) as home:
        assert isinstance(home, DjangoHome)
        with atomic(home.alias):
            deliver(home.store)
        assert recorded(home._engine) == []
        deliver(home.store)
        assert len(recorded(home._engine)) == 1


def test_names_that_need_quotes(empty_database_url: str) -> None:
    """The record is beside the log of a host that created it."""
    with closing(SQLHome(empty_database_url, UNDATED)) as home:
        run(home._engine, "CREATE TABLE IF NOT EXISTS hookrow_meta (name text UNIQUE, value text)")
        deliver(home.store)
        assert recorded(home._engine) == [named(home._engine, "people", "sends", "members")]
