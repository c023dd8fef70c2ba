"""The SQL store: the mistakes that it refuses, and the engines that it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from types import ModuleType
from typing import Any, Literal, TypeAlias

import pytest
from contract import ADA, NOON, arrival, fill, opens, statuses
from homes import OURS, SQLHome, connect, run
from sqlalchemy import Engine, create_engine, event, insert, make_url, select, text

from hookrow import ConfigurationError, Role, Schema, SchemaMismatch, Suppressed
from hookrow.notification import RowId, SetSuppression, Suppressible
from hookrow.recording import record
from hookrow.schema import SUPPRESSION
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import metadata, subscribers
from postgres import Databases

IsolationLevel: TypeAlias = Literal["READ COMMITTED", "AUTOCOMMIT"]
SUPPRESSED = arrival(Suppressed(ADA, None, NOON, "HardBounce"))
ROW: RowId = (Suppressible.SUBSCRIBER, 1)
CHANGE = SetSuppression(*ROW, NOON, "HardBounce", guarded=True)


def add_ada(engine: Engine) -> None:
    """Insert the first subscriber."""
    with engine.begin() as connection:
        connection.execute(insert(subscribers), {"email": ADA})


def suppressed_at(engine: Engine) -> object:
    """Read the state of the only subscriber."""
    with engine.connect() as connection:
        return connection.scalar(select(subscribers.c.suppressed_at))


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """Open a database with hookrow's tables."""
    engine = connect(database_url)
    yield engine
    engine.dispose()


DISPATCHES, NOTIFICATIONS = "hookrow_dispatches", "hookrow_notifications"

DRIVER = ModuleType("pymysql")
DRIVER.__dict__["paramstyle"] = "format"  # all that SQLAlchemy requires of it


class TestMismatch:
    """The mistake is named at construction."""

    @pytest.mark.parametrize(
        ("statement", "schema", "error"),
        [
            (f"ALTER TABLE {DISPATCHES} DROP COLUMN opened_at", OURS, "no column 'opened_at'"),
            (
                f"DROP TABLE {NOTIFICATIONS}",
                OURS,
                "no table 'hookrow_notifications' for the log.*hookrow db upgrade.*log=None",
            ),
            (
                f"ALTER TABLE {NOTIFICATIONS} DROP COLUMN attempts",
                OURS,
                r"'hookrow_notifications'.* lacks attempts\.",
            ),
            ("SELECT 1", Schema(log="hookrow_notification"), "mean 'hookrow_notifications'"),
        ],
    )
    def test_missing(self, sqlite_url: str, statement: str, schema: Schema, error: str) -> None:
        """A missing table or column is named; test_verification.py has all mistakes."""
        engine = connect(sqlite_url)
        run(engine, statement)
        with pytest.raises(SchemaMismatch, match=error):
            SQLStore(engine, schema)
        engine.dispose()

    @pytest.mark.parametrize(
        ("make", "error"),
        [
            (lambda: None, r"takes a database URL, or an sqlalchemy\.Engine"),
            # A real one needs greenlet.
            (type("AsyncEngine", (), {}), r"no AsyncEngine: pass create_engine\("),
            (lambda: create_engine("postgresql+psycopg_async://ada@localhost/mail"), "async"),
            (lambda: create_engine("mysql+pymysql://ada@localhost/m", module=DRIVER), "not on my"),
        ],
        ids=["none", "async-engine", "async-driver", "mysql"],
    )
    def test_another_database(self, make: Callable[[], Any], error: str) -> None:
        """Neither a URL nor an engine for a supported database, used from a thread."""
        with pytest.raises(ConfigurationError, match=error):
            SQLStore(make())

    @pytest.mark.parametrize(
        ("column", "error"), [("mode", "Did you mean 'made'"), ("flag", "which holds no date-time")]
    )
    def test_sent_at(self, empty_sqlite_url: str, column: str, error: str) -> None:
        """The column with the time of sending has to exist, and hold a time."""
        engine = connect(empty_sqlite_url)
        run(engine, *SENDS)
        with pytest.raises(SchemaMismatch, match=error):
            SQLStore(engine, sent_at(column))
        engine.dispose()


_SENDS = (
    "CREATE TABLE sends (id integer, provider_message_id text, subscriber_id integer, "
    "delivered_at timestamp, opened_at timestamp, state integer, made timestamp, flag integer)"
)
_SENT = (
    "INSERT INTO sends (id, provider_message_id, state, made) VALUES "
    "(1, 'm-1', 1, '2026-03-04 12:00:00.123456'), (2, 'm-2', 1, NULL), "
    "(3, 'm-3', 0, '2026-03-04 12:00:00.123456')"
)
SENDS = (
    "CREATE TABLE people (id integer PRIMARY KEY, email text, suppressed_at timestamp)",
    _SENDS,
    _SENT,
)
"""A host's tables: of two messages the time of sending is known, one of them is a draft."""


def sent_at(column: str) -> Schema:
    """Return the schema of these tables."""
    return Schema(
        subscribers=Role("people", dict.fromkeys(SUPPRESSION[1:])),
        dispatches=Role(
            "sends", {"sent_at": column, **dict.fromkeys(SUPPRESSION)}, where={"state": 1}
        ),
        subscriptions=None,
        log=None,
    )


class TestTables:
    """Tables of other kinds."""

    def test_sent_at(self, empty_database_url: str) -> None:
        """The time of sending is UTC in a column without a zone; excluded rows have none."""
        engine = connect(empty_database_url)
        run(engine, *SENDS)
        with closing(SQLStore(engine, sent_at("made"))) as store:
            assert store.census.sent(["m-1", "m-2", "m-3"]) == {"m-1": NOON}
        engine.dispose()

    def test_view(self, engine: Engine) -> None:
        """A view that can be updated is locked and changed like a table."""
        run(engine, "CREATE VIEW readers AS SELECT * FROM hookrow_subscribers")
        if engine.dialect.name == "sqlite":
            do = "UPDATE hookrow_subscribers SET suppressed_at = new.suppressed_at"
            run(engine, f"CREATE TRIGGER t INSTEAD OF UPDATE ON readers BEGIN {do}; END")
        store = SQLStore(engine, Schema(subscribers=Role("readers")))
        add_ada(engine)
        unknown = arrival(Suppressed("bea@example.com", None, NOON, "HardBounce"))
        assert statuses(record(store, [SUPPRESSED, unknown])) == [200, 404]
        assert suppressed_at(engine) == NOON

    def test_schema_of_postgresql(self, empty_postgres_url: str) -> None:
        """`mail.hookrow_subscribers` is a table in PostgreSQL's schema `mail`."""
        engine = connect(empty_postgres_url)
        run(engine, "CREATE SCHEMA mail")
        roles = {name: Role(f"mail.{role.table}") for name, role in OURS.roles.items()}
        schema = replace(OURS, **roles, log=f"mail.{OURS.log}")  # type: ignore[arg-type] # the roles
        mail = engine.execution_options(schema_translate_map={None: "mail"})
        metadata.create_all(mail)
        add_ada(mail)
        store = SQLStore(engine, schema)
        assert statuses(record(store, [SUPPRESSED])) == [200]
        assert suppressed_at(mail) == NOON
        with engine.connect() as connection:
            logged = text("SELECT received_at FROM mail.hookrow_notifications")
            assert connection.scalar(logged) == NOON
        with pytest.raises(SchemaMismatch, match=r"no table 'mail\.peple' for the subscribers"):
            SQLStore(engine, Schema(subscribers=Role("mail.peple")))
        engine.dispose()

    def test_column_without_zone(self, postgres: Databases, empty_postgres_url: str) -> None:
        """A host's `timestamp without time zone` gets UTC, whatever the server's time zone is."""
        url = empty_postgres_url
        zone = f"ALTER DATABASE {make_url(url).database} SET timezone = 'America/New_York'"
        postgres.execute(zone)
        with closing(SQLHome(url, OURS)) as home:
            fill(home)
        postgres.execute("ALTER TABLE hookrow_dispatches ALTER opened_at TYPE timestamp", url=url)
        with closing(SQLStore(url)) as store:
            record(store, [arrival(opens(ADA, "m-ada"))])
        opened = "SELECT opened_at::text FROM hookrow_dispatches WHERE id = 1"
        assert postgres.execute(opened, url=url) == [("2026-03-04 12:00:00.123456",)]


class TestEngines:
    """Engines of a host's, and hookrow's own."""

    def test_construction_leaves_no_connection(self, engine: Engine) -> None:
        """The connection that verified the tables is closed: a fork could share a pooled one."""
        opened: list[object] = []
        closed: list[object] = []
        event.listen(engine, "connect", lambda connection, _: opened.append(connection))
        event.listen(engine, "close_detached", closed.append)
        SQLStore(engine)
        assert len(opened) == 1
        assert closed == opened

    def test_close(self, postgres: Databases, postgres_url: str) -> None:
        """`close` leaves no connection of hookrow's own, and leaves those of a host alone."""
        count = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
        with closing(SQLStore(postgres_url)) as store, store.transaction():
            assert postgres.execute(count, make_url(postgres_url).database) == [(1,)]
        assert postgres.execute(count, make_url(postgres_url).database) == [(0,)]
        engine = connect(postgres_url)
        with engine.connect() as connection:
            SQLStore(engine).close()
            assert connection.scalar(text("SELECT 1")) == 1
        engine.dispose()

    @pytest.mark.parametrize(
        ("kind", "driver", "isolation_level"),
        [
            ("sqlite", "sqlite", "AUTOCOMMIT"),
            ("postgres", "postgresql+psycopg", "AUTOCOMMIT"),
            ("postgres", "postgresql+psycopg2", "READ COMMITTED"),
        ],
    )
    def test_transactions(
        self,
        request: pytest.FixtureRequest,
        kind: str,
        driver: str,
        isolation_level: IsolationLevel,
    ) -> None:
        """Transactions are all or nothing on any engine, even one that commits each statement."""
        url = make_url(request.getfixturevalue(f"{kind}_url")).set(drivername=driver)
        engine = create_engine(url, isolation_level=isolation_level)
        add_ada(engine)
        store = SQLStore(engine)
        with pytest.raises(ZeroDivisionError), store.transaction() as transaction:  # noqa: PT012 - as a host may
            transaction.write([CHANGE])
            raise ZeroDivisionError
        assert suppressed_at(engine) is None
        assert statuses(record(store, [SUPPRESSED])) == [200]
        assert suppressed_at(engine) == NOON
        engine.dispose()

    def test_readers_and_writers(self, engine: Engine, database_url: str) -> None:
        """Uncommitted changes are not read, and neither waits for the other."""
        add_ada(engine)
        with closing(SQLStore(database_url)) as store, closing(SQLStore(database_url)) as other:
            with other.reading() as reading, store.transaction() as transaction:
                transaction.write([CHANGE])
                transaction.lock([ROW])  # writes what is pending
                assert reading.read([ROW])[ROW]["suppressed_at"] is None
            with other.reading() as reading:
                assert reading.read([ROW])[ROW]["suppressed_at"] == NOON
