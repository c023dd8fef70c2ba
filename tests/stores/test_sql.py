"""The SQL store: rejected databases, and the tables and engines that it uses."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from contract import ADA, NOON, SECOND, arrival, fill, opens, statuses
from homes import OURS, SQLHome, connect, run
from sqlalchemy import Engine, create_engine, event, insert, make_url, select, text

from copying import replace
from hookrow import ConfigurationError, Delivered, Role, Schema, SchemaMismatch, Suppressed
from hookrow.core.notification import EventTime, RowId, SetSuppression, SetTime, Suppressible
from hookrow.core.schema import SUPPRESSION
from hookrow.migrations import upgrade
from hookrow.receiver.recorder import record
from hookrow.stores import StoreError, Unavailable
from hookrow.stores.log import Query
from hookrow.stores.sql import SQLStore
from own_tables import metadata, subscribers
from postgres import Databases

SUPPRESSED = arrival(Suppressed(ADA, None, NOON, "HardBounce"))
ROW: RowId = (Suppressible.SUBSCRIBER, 1)
CHANGE = SetSuppression(*ROW, NOON, "HardBounce", guarded=True)


def add_ada(engine: Engine) -> None:
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


@pytest.fixture
def host(empty_database_url: str) -> Iterator[Engine]:
    """Create a host's tables with three messages: one has no time of sending, one is a draft."""
    engine = connect(empty_database_url)
    run(
        engine,
        "CREATE TABLE people (id integer PRIMARY KEY, email text, suppressed_at timestamp)",
        "CREATE TABLE sends (id integer, provider_message_id text, subscriber_id integer, "
        "delivered_at timestamp, opened_at timestamp, state integer, made timestamp, flag integer)",
        "INSERT INTO sends (id, provider_message_id, state, made) VALUES "
        "(1, 'm-1', 1, '2026-03-04 12:00:00.123456'), (2, 'm-2', 1, NULL), "
        "(3, 'm-3', 0, '2026-03-04 12:00:00.123456')",
    )
    yield engine
    engine.dispose()


def sent_at(column: str) -> Schema:
    """Return the schema of a host's tables, with the column of the time of sending."""
    sends = {"sent_at": column, **dict.fromkeys(SUPPRESSION)}
    return Schema(
        subscribers=Role("people", dict.fromkeys(SUPPRESSION[1:])),
        dispatches=Role("sends", sends, where={"state": 1}),
        subscriptions=None,
        log=None,
    )


DRIVER = ModuleType("pymysql")
DRIVER.__dict__["paramstyle"] = "format"  # all that SQLAlchemy requires of it


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: None, r"takes a database URL or an sqlalchemy\.Engine, not .* NoneType"),
        # A real one needs greenlet.
        (type("AsyncEngine", (), {"sync_engine": None}), r"pass engine\.url"),
        (lambda: create_engine("postgresql+psycopg_async://ada@localhost/mail"), "async"),
        (lambda: create_engine("mysql+pymysql://ada@localhost/m", module=DRIVER), "not on my"),
    ],
    ids=["none", "async-engine", "async-driver", "mysql"],
)
def test_another_database(make: Callable[[], Any], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        SQLStore(make())


class TestTables:
    def test_sent_at(self, host: Engine) -> None:
        """The column has to exist and to hold a time, which is in UTC if it has no zone."""
        for column, error in (("mode", "Did you mean 'made'"), ("flag", "which holds no date-ti")):
            with pytest.raises(SchemaMismatch, match=error):
                SQLStore(host, sent_at(column), verify=True)
        store = SQLStore(host, sent_at("made"))
        assert store.census.sent(["m-1", "m-2", "m-3"]) == {"m-1": NOON}

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
        schema = replace(OURS, **roles, log=f"mail.{OURS.log}")
        mail = engine.execution_options(schema_translate_map={None: "mail"})
        metadata.create_all(mail)
        add_ada(mail)
        assert statuses(record(SQLStore(engine, schema), [SUPPRESSED])) == [200]
        assert suppressed_at(mail) == NOON
        with engine.connect() as connection:
            logged = text("SELECT received_at FROM mail.hookrow_notifications")
            assert connection.scalar(logged) == NOON
        with pytest.raises(SchemaMismatch, match=r"no table 'mail\.peple' for the subscribers"):
            SQLStore(engine, Schema(subscribers=Role("mail.peple")), verify=True)
        engine.dispose()

    def test_column_without_zone(self, postgres: Databases, empty_postgres_url: str) -> None:
        """A `timestamp without time zone` receives UTC, regardless of the server's time zone."""
        url = empty_postgres_url
        zone = f"ALTER DATABASE {make_url(url).database} SET timezone = 'America/New_York'"
        postgres.execute(zone)
        with closing(SQLHome(url, OURS)) as home:
            fill(home)
        postgres.execute("ALTER TABLE hookrow_dispatches ALTER opened_at TYPE timestamp", url=url)
        opened = "SELECT opened_at::text FROM hookrow_dispatches WHERE id = 1"
        with closing(SQLStore(url)) as store:
            record(store, [arrival(opens(ADA, "m-ada"))])
            assert postgres.execute(opened, url=url) == [("2026-03-04 12:00:00.123456",)]
            at = NOON.astimezone(timezone(timedelta(hours=2)))
            for seconds, stored in ((1, "01"), (0, "01")):
                later = SetTime(1, EventTime.OPENED, at + timedelta(seconds=seconds), guarded=True)
                with store.transaction() as transaction:
                    transaction.write([later])
                    assert transaction.read([later.row])[later.row]["opened_at"] == NOON + SECOND
                assert postgres.execute(opened, url=url) == [(f"2026-03-04 12:00:{stored}.123456",)]


class TestColumnTypes:
    """A notification reaches the right rows, whatever the types of a host's columns."""

    TABLES = """
        CREATE TABLE people (id {key} PRIMARY KEY, email {text}, suppressed_at timestamp);
        CREATE TABLE sends (id {key} PRIMARY KEY, provider_message_id {text},
            subscriber_id {reference}, list_id {reference},
            delivered_at timestamp, opened_at timestamp, suppressed_at timestamp);
        CREATE TABLE members (list_id {key}, subscriber_id {reference}, suppressed_at timestamp)
    """

    def check(self, url: str, keys: Sequence[object], **types: str) -> None:
        """Suppress the rows with the first key, beside the second: one by one, and in a group."""
        engine = connect(url)
        run(engine, *self.TABLES.format(**types).split(";"))
        with engine.begin() as connection:
            for number, key in enumerate(keys):
                row = {"key": key, "person": key, "list": key, "m": str(number)}
                row["email"] = f"{number}@example.com"
                for insertion in (
                    "people (id, email) VALUES (:key, :email)",
                    "sends VALUES (:key, :m, :person, :list, NULL, NULL, NULL)",
                    "members (list_id, subscriber_id) VALUES (:list, :person)",
                ):
                    connection.execute(text(f"INSERT INTO {insertion}"), row)
        rest = dict.fromkeys(SUPPRESSION[1:])
        schema = Schema(
            subscribers=Role("people", rest),
            dispatches=Role("sends", rest),
            subscriptions=Role("members", rest),
            log=None,
        )
        store = SQLStore(engine, schema)
        sent = [
            arrival(Suppressed("0@example.com", "0", NOON, "HardBounce")),
            arrival(opens("0@EXAMPLE.com", "0")),
            arrival(opens("0@example.com", "1")),
            arrival(opens("0@example.com", "0.0")),
        ]
        for groups in ([[each] for each in sent], [sent]):
            outcomes = [each for group in groups for each in record(store, group)]
            assert statuses(outcomes) == [200, 200, 400, 404]
            with engine.begin() as connection:
                for table in ("people", "sends", "members"):
                    lift = (
                        f"UPDATE {table} SET suppressed_at = NULL WHERE suppressed_at IS NOT NULL"
                    )
                    assert connection.execute(text(lift)).rowcount == 1
        engine.dispose()

    @pytest.mark.parametrize("kind", ["", "uuid", "blob", "date", "char(4)"])
    @pytest.mark.parametrize(
        "keys", [(1, 2), ("a1", "a2"), (b"1", b"2")], ids=["int", "text", "bytes"]
    )
    def test_sqlite(self, empty_sqlite_url: str, kind: str, keys: Sequence[object]) -> None:
        """SQLite stores any value in any column, and numbers in columns of unknown types."""
        self.check(empty_sqlite_url, keys, key=kind, reference=kind, text=kind)

    @pytest.mark.parametrize(
        ("key", "reference", "keys"),
        [
            ("char(4)", "text", ("a1", "a2")),
            ("text", "char(9)", ("a1", "a2")),
            ("bytea", "bytea", (b"1", b"2")),
            ("numeric", "integer", (1, 2)),
            ("inet", "inet", ("10.0.0.1", "10.0.0.2")),
            ("date", "date", (date(2026, 3, 4), date(2026, 3, 5))),
        ],
    )
    def test_postgres(
        self, empty_postgres_url: str, key: str, reference: str, keys: Sequence[object]
    ) -> None:
        """Blanks that pad a CHAR are ignored; all other values are compared exactly."""
        self.check(empty_postgres_url, keys, key=key, reference=reference, text="char(20)")


class TestEngines:
    """Engines of hosts, and hookrow's own connections."""

    def test_verification_leaves_no_connection(self, engine: Engine) -> None:
        """The connection that verified the tables is closed: a fork could share a pooled one.

        Construction alone does not connect.
        """
        opened: list[object] = []
        closed: list[object] = []
        event.listen(engine, "connect", lambda connection, _: opened.append(connection))
        event.listen(engine, "close_detached", closed.append)
        SQLStore(engine)
        assert not opened
        SQLStore(engine, verify=True)
        assert len(opened) == 1
        assert closed == opened

    def test_close(self, postgres: Databases, postgres_url: str) -> None:
        """`close` closes all of hookrow's own connections, and none of a host's."""
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
        ("kind", "driver", "autocommit"),
        [
            ("sqlite", "sqlite", True),
            ("postgres", "postgresql+psycopg", True),
            ("postgres", "postgresql+psycopg2", False),
        ],
    )
    def test_transactions(
        self, request: pytest.FixtureRequest, kind: str, driver: str, *, autocommit: bool
    ) -> None:
        """Transactions are all or nothing on any engine, even one that commits each statement."""
        url = make_url(request.getfixturevalue(f"{kind}_url")).set(drivername=driver)
        engine = create_engine(
            url, isolation_level="AUTOCOMMIT" if autocommit else "READ COMMITTED"
        )
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


def test_construction_before_the_tables(
    empty_database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A store can be constructed before its tables exist, and is unavailable until then.

    This is logged once, and no file is created.
    """
    with closing(SQLStore(empty_database_url)) as store:
        for _ in range(3):
            with pytest.raises(Unavailable, match="hookrow db upgrade"), store.transaction():
                pass
            store._refused_at = float("-inf")
        [warning] = [each.message for each in caplog.records if each.name == "hookrow"]
        assert "No notification can be recorded: " in warning
        if empty_database_url.startswith("sqlite"):
            assert not Path(make_url(empty_database_url).database or "").exists()
        upgrade(empty_database_url, OURS)
        assert statuses(record(store, [SUPPRESSED])) == [404]


def test_times_at_the_ends_of_the_calendar(postgres: Databases, postgres_url: str) -> None:
    """Times are read even if they do not exist in the server's time zone."""
    for zone in ("Asia/Tokyo", "America/New_York"):
        database = make_url(postgres_url).database
        postgres.execute(f"ALTER DATABASE {database} SET timezone = '{zone}'")
        with closing(SQLStore(postgres_url)) as store:
            for at in (datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)):
                sent = arrival(Delivered("ada@example.com", "unknown", at))
                assert statuses(record(store, [sent])) == [404]
            assert store.log is not None
            assert len(store.log.newest(Query(), limit=9)) == 2


HIDE_TABLES = """
    CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN SET search_path = pg_catalog; RETURN NEW; END $$;
    CREATE TRIGGER t AFTER UPDATE ON hookrow_subscribers FOR EACH ROW EXECUTE FUNCTION f();
"""


def test_trigger_that_changes_the_session(postgres: Databases, postgres_url: str) -> None:
    """The session is closed when its statements no longer find the tables."""
    engine = connect(postgres_url)
    add_ada(engine)
    engine.dispose()
    postgres.execute(HIDE_TABLES, url=postgres_url)
    with closing(SQLStore(postgres_url)) as store:
        assert statuses(record(store, [SUPPRESSED])) == [200]
        with suppress(StoreError):
            record(store, [SUPPRESSED])
        postgres.execute("DROP TRIGGER t ON hookrow_subscribers", url=postgres_url)
        assert statuses(record(store, [SUPPRESSED])) == [200]
