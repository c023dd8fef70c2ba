"""The SQL store keeps the contract: on SQLite and PostgreSQL, in our own tables and a host's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from types import ModuleType
from typing import Any, Literal, TypeAlias, get_args

import pytest
from census_contract import CensusContract
from contract import (
    NOON,
    HostContract,
    StoreContract,
    UndatedContract,
    arrival,
    fill,
    opens,
    statuses,
)
from fitted import FITTED, make_home
from homes import OURS, SPARSE, THEIRS, UNDATED, Home, SQLHome, connect
from log_contract import LogContract, NoLogContract, ReplayContract
from sqlalchemy import Engine, create_engine, event, insert, make_url, select, text

from hookrow import ConfigurationError, Role, Schema, SchemaMismatch, Suppressed
from hookrow.notification import RowId, SetSuppression, Suppressible
from hookrow.recording import record
from hookrow.stores.engines import opened
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import metadata, subscribers
from postgres import Server


@pytest.fixture(scope="class", params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Home]:
    """Make the tables of the class's schema, and a store for them."""
    with closing(make_home(new_database(request.param), request.cls.schema)) as home:
        yield home


class TestOurTables(StoreContract, LogContract, CensusContract):
    schema = OURS


class TestTheirTables(StoreContract, HostContract, ReplayContract, CensusContract):
    schema = THEIRS


class TestFittedTables(StoreContract, HostContract, ReplayContract, CensusContract):
    schema = FITTED


class TestSparseTables(StoreContract, NoLogContract, CensusContract):
    schema = SPARSE


class TestUndatedTables(UndatedContract, LogContract, CensusContract):
    schema = UNDATED


def _make(engine: Engine, *statements: str) -> Engine:
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    return engine


class TestConstruction:
    """What is wrong is said at once, by name."""

    @pytest.fixture
    def engine(self, database_url: str) -> Iterator[Engine]:
        """Open a database with our tables."""
        engine = connect(database_url)
        yield engine
        engine.dispose()

    def test_a_missing_table_is_named(self, engine: Engine) -> None:
        """With the role it should play, and the nearest name that there is."""
        _make(engine, "CREATE TABLE people (id INTEGER PRIMARY KEY, email TEXT)")
        with pytest.raises(
            SchemaMismatch, match=r"no table 'poeple' for the subscribers.* mean 'people'\?"
        ):
            SQLStore(engine, Schema(subscribers=Role("poeple")))

    def test_a_table_that_is_nowhere_near_is_named(self, engine: Engine) -> None:
        """Without a guess at what was meant."""
        with pytest.raises(SchemaMismatch, match=r"no table 'x' for the dispatches\.$"):
            SQLStore(engine, Schema(dispatches=Role("x")))

    def test_a_missing_column_is_named(self, engine: Engine) -> None:
        """With its table, and the nearest name that there is."""
        schema = Schema(subscribers=Role("hookrow_subscribers", {"email": "e_mail"}))
        with pytest.raises(
            SchemaMismatch,
            match=r"'hookrow_subscribers' has no column 'e_mail'\. Did you mean 'email'\?",
        ):
            SQLStore(engine, schema)

    def test_an_optional_column_must_be_left_out_by_name(self, engine: Engine) -> None:
        """A column that is not there is refused, unless the schema says None."""
        _make(engine, "ALTER TABLE hookrow_dispatches DROP COLUMN suppression_reason")
        with pytest.raises(SchemaMismatch, match="no column 'suppression_reason'"):
            SQLStore(engine)
        SQLStore(
            engine, Schema(dispatches=Role("hookrow_dispatches", {"suppression_reason": None}))
        )

    @pytest.mark.parametrize(
        ("table", "column"),
        [("hookrow_dispatches", "provider_message_id"), ("hookrow_subscribers", "email")],
    )
    def test_what_is_compared_as_text_must_be_text(
        self, postgres_url: str, table: str, column: str
    ) -> None:
        """In a column of type uuid no message id would ever be found: that is said at once."""
        engine = connect(postgres_url)
        alter = f"ALTER TABLE {table} ALTER {column} TYPE uuid USING gen_random_uuid()"
        _make(engine, "DROP INDEX hookrow_subscribers_email", alter)
        with pytest.raises(SchemaMismatch, match=column):
            SQLStore(engine)
        engine.dispose()

    def test_a_view_may_play_a_role(self, engine: Engine) -> None:
        """One that can be updated is locked and changed as a table is."""
        readers = "SELECT * FROM hookrow_subscribers WHERE created_at IS NOT NULL"
        _make(engine, f"CREATE VIEW readers AS {readers}")
        if engine.dialect.name == "sqlite":
            do = "UPDATE hookrow_subscribers SET suppressed_at = new.suppressed_at"
            _make(engine, f"CREATE TRIGGER t INSTEAD OF UPDATE ON readers BEGIN {do}; END")
        store = SQLStore(engine, Schema(subscribers=Role("readers")))
        told = [
            arrival(Suppressed(email, None, NOON, "HardBounce"))
            for email in ("ada@example.com", "bea@example.com")
        ]
        with engine.begin() as connection:
            connection.execute(insert(subscribers), {"email": "ada@example.com"})
        assert statuses(record(store, told)) == [200, 404]
        with engine.connect() as connection:
            assert connection.scalar(select(subscribers.c.suppressed_at)) == NOON

    def test_nothing_stays_open(self, engine: Engine) -> None:
        """The connection that looked is closed for good: a fork could share one in a pool."""
        opened: list[object] = []
        closed: list[object] = []
        event.listen(engine, "connect", lambda connection, _: opened.append(connection))
        event.listen(engine, "close_detached", closed.append)
        SQLStore(engine)
        assert len(opened) == 1
        assert closed == opened

    def test_a_lent_engine_is_neither_closed_nor_changed(self, engine: Engine) -> None:
        """Closing the store leaves the host's engine and its connections alone."""
        with engine.connect() as connection:
            store = SQLStore(engine)
            store.close()
            assert connection.scalar(text("SELECT 1")) == 1

    def test_an_own_engine_is_closed(self, postgres: Server, postgres_url: str) -> None:
        """After `close` no connection to the server is left."""
        store = SQLStore(postgres_url)
        with store.transaction():
            assert _connections(postgres, postgres_url) == 1
        store.close()
        assert _connections(postgres, postgres_url) == 0

    @pytest.mark.parametrize("database", [None, 7, b"sqlite:///hookrow.db", object()])
    def test_another_type_is_refused(self, database: Any) -> None:  # noqa: ANN401 - as a host may
        """What is neither a URL nor an engine is no database."""
        with pytest.raises(
            ConfigurationError, match=r"takes a database URL, or an sqlalchemy\.Engine"
        ):
            SQLStore(database)

    def test_an_async_engine_of_sqlalchemys_is_refused(self) -> None:
        """The error says what to pass instead."""
        engine: Any = type("AsyncEngine", (), {})()  # a real one needs greenlet
        with pytest.raises(ConfigurationError, match=r"no AsyncEngine: pass create_engine\("):
            SQLStore(engine)

    def test_an_async_engine_is_refused(self) -> None:
        """A lent engine with an async driver cannot be used from our thread; it is said at once."""
        engine = create_engine("postgresql+psycopg_async://ada@localhost/mail")
        with pytest.raises(ConfigurationError, match="async"):
            SQLStore(engine)

    def test_a_lent_engine_of_another_database_is_refused(self) -> None:
        """The error names it."""
        driver = ModuleType("pymysql")
        driver.__dict__["paramstyle"] = "format"  # all that SQLAlchemy looks at
        engine = create_engine("mysql+pymysql://ada@localhost/mail", module=driver)
        with pytest.raises(ConfigurationError, match="not on mysql"):
            SQLStore(engine)

    def test_a_table_may_be_in_a_schema_of_its_own(self, empty_postgres_url: str) -> None:
        """`mail.hookrow_subscribers` is a table in PostgreSQL's schema `mail`."""
        engine = connect(empty_postgres_url)
        roles = {name: Role(f"mail.{role.table}") for name, role in OURS.roles.items()}
        schema = replace(OURS, **roles, log=f"mail.{OURS.log}")  # type: ignore[arg-type] # the roles
        with engine.begin() as connection:
            connection.execute(text("CREATE SCHEMA mail"))
            translated = connection.execution_options(schema_translate_map={None: "mail"})
            metadata.create_all(translated)
            translated.execute(insert(subscribers), {"email": "ada@example.com"})
        store = SQLStore(engine, schema)
        told = Suppressed("ada@example.com", None, NOON, "HardBounce")
        assert statuses(record(store, [arrival(told)])) == [200]
        with engine.connect() as connection:
            for column in (
                "suppressed_at FROM mail.hookrow_subscribers",
                "received_at FROM mail.hookrow_notifications",
            ):
                assert connection.scalar(text(f"SELECT {column}")) == NOON
        with pytest.raises(SchemaMismatch, match=r"no table 'mail\.peple' for the subscribers"):
            SQLStore(engine, Schema(subscribers=Role("mail.peple")))
        engine.dispose()


def test_a_naive_column_holds_utc(postgres: Server) -> None:
    """A host's `timestamp without time zone` gets UTC, wherever the server thinks that it is."""
    url = postgres.create()
    postgres.execute("ALTER ROLE postgres SET timezone = 'America/New_York'")
    try:
        with closing(SQLHome(url, OURS)) as home:
            fill(home)
            postgres.execute(
                "ALTER TABLE hookrow_dispatches ALTER opened_at TYPE timestamp", url=url
            )
        with closing(SQLStore(url)) as store:
            record(store, [arrival(opens("ada@example.com", "m-ada"))])
        found = postgres.execute(
            "SELECT opened_at::text FROM hookrow_dispatches WHERE id = 1", url=url
        )
        assert found == [("2026-03-04 12:00:00.123456",)]
    finally:
        postgres.execute("ALTER ROLE postgres RESET timezone")


def test_a_lent_engine_in_autocommit_keeps_transactions(database_url: str) -> None:
    """All or nothing also where the host's engine commits every statement by itself."""
    engine = connect(database_url, isolation_level="AUTOCOMMIT")
    store = SQLStore(engine)
    with engine.connect() as connection:
        connection.execute(insert(subscribers), {"email": "ada@example.com"})
    change = SetSuppression(Suppressible.SUBSCRIBER, 1, NOON, "HardBounce", guarded=True)
    with pytest.raises(ZeroDivisionError), store.transaction() as transaction:  # noqa: PT012
        transaction.write([change])
        raise ZeroDivisionError
    with engine.connect() as connection:
        assert connection.scalar(select(subscribers.c.suppressed_at)) is None
    with store.transaction() as transaction:
        transaction.write([change])
    with engine.connect() as connection:
        assert connection.scalar(select(subscribers.c.suppressed_at)) == NOON
    engine.dispose()


def test_who_reads_and_who_writes_are_not_in_each_others_way(database_url: str) -> None:
    """What is being written is not seen before its end, and nobody waits."""
    row: RowId = (Suppressible.SUBSCRIBER, 1)
    with closing(SQLStore(database_url)) as store, closing(SQLStore(database_url)) as other:
        with opened(database_url) as engine, engine.begin() as connection:
            connection.execute(insert(subscribers), {"email": "ada@example.com"})
        change = SetSuppression(Suppressible.SUBSCRIBER, 1, NOON, "HardBounce", guarded=True)
        with other.reading() as reading, store.transaction() as transaction:
            transaction.write([change])
            assert reading.read([row])[row]["suppressed_at"] is None
        with other.reading() as reading:
            assert reading.read([row])[row]["suppressed_at"] == NOON


IsolationLevel: TypeAlias = Literal["READ COMMITTED", "AUTOCOMMIT"]


@pytest.mark.parametrize("isolation_level", get_args(IsolationLevel))
def test_a_lent_engine_with_another_driver_commits(
    postgres_url: str, isolation_level: IsolationLevel
) -> None:
    """With psycopg2 too all is committed at the end, and nothing where the block raises."""
    url = make_url(postgres_url).set(drivername="postgresql+psycopg2")
    engine = create_engine(url, isolation_level=isolation_level)
    store = SQLStore(engine)
    with engine.begin() as connection:
        connection.execute(insert(subscribers), {"email": "ada@example.com"})
    told = arrival(Suppressed("ada@example.com", None, NOON, "HardBounce"))
    with pytest.raises(ZeroDivisionError), store.transaction() as transaction:  # noqa: PT012 - as above
        transaction.write([SetSuppression(Suppressible.SUBSCRIBER, 1, NOON, "x", guarded=True)])
        raise ZeroDivisionError
    with engine.connect() as connection:
        assert connection.scalar(select(subscribers.c.suppressed_at)) is None
    assert statuses(record(store, [told])) == [200]
    with engine.connect() as connection:
        assert connection.scalar(select(subscribers.c.suppressed_at)) == NOON
    engine.dispose()


def _connections(postgres: Server, url: str) -> int:
    [(count,)] = postgres.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = %s", make_url(url).database
    )
    return int(count)
