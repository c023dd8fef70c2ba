"""The migrations: the tables that they create, and those that they leave to the host."""

import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from homes import OURS
from locations import empty_engine
from sqlalchemy import Engine, inspect, select
from sqlalchemy.exc import IntegrityError, OperationalError

import own_tables
from copying import replace
from databases import ALL, SQLITE, kind_of
from engines import database_user, opened, run
from hookrow import ConfigurationError, Role, Schema, SchemaMismatch
from hookrow._migrations import MIGRATIONS_TABLE, current, needed, sql, upgrade
from hookrow.stores._errors import Unavailable
from hookrow.stores.sql import _scripts
from hookrow.stores.sql._connections import ConnectionPool
from hookrow.stores.sql._dialects import DIALECTS
from hookrow.stores.sql._scripts import UPGRADES_TABLE
from hookrow.stores.sql._sqlite import SQLiteConnection
from hookrow.stores.sql._urls import open_database
from structure import structure

pytestmark = pytest.mark.filterwarnings(
    "ignore:Skipped unsupported reflection of expression-based index"  # `structure` reads them
)

FOUR = {"hookrow_subscribers", "hookrow_lists", "hookrow_subscriptions", "hookrow_dispatches"}
LOG = "hookrow_notifications"
LOGS = {LOG, "hookrow_hours", "hookrow_meta", "hookrow_suppression_changes"}
NAMES = FOUR | LOGS
TABLES_OF_UPGRADES = {MIGRATIONS_TABLE, UPGRADES_TABLE}
REVISIONS = ["0001", "0002"]
OF_LOG = ["0002"]
INSERT = "INSERT INTO hookrow_lists (name) VALUES ('news')"

SIX_DIGITS = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}")


engine = pytest.fixture(empty_engine)


def _names(engine: Engine) -> set[str]:
    return set(inspect(engine).get_table_names()) - TABLES_OF_UPGRADES


@pytest.mark.parametrize("dialect", DIALECTS)
def test_scripts(dialect: str) -> None:
    """Each file of a database belongs to one of the revisions, which it has a script for."""
    numbered = {f"{revision}_{branch}" for revision, branch in _scripts.REVISIONS.items()}
    files = {path.stem for path in Path(_scripts.__file__).with_name(dialect).iterdir()}
    assert numbered == files - TABLES_OF_UPGRADES


class TestUpgrade:
    def test_log_added_later(self, engine: Engine) -> None:
        """A log can be added later; the other tables keep their rows."""
        assert not current(engine)
        upgrade(engine, Schema(log=None))
        assert _names(engine) == FOUR
        run(engine, INSERT)
        for _ in range(2):
            upgrade(engine, OURS)
            assert _names(engine) == NAMES
            assert current(engine) == needed(OURS)
        assert run(engine, "SELECT count(*) FROM hookrow_lists") == [(1,)]

    def test_migrations_of_the_host(self, engine: Engine) -> None:
        """The host's Alembic revision, tables and engine stay unchanged."""
        run(
            engine,
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)",
            "INSERT INTO alembic_version VALUES ('of-the-host')",
            "CREATE TABLE people (id INTEGER PRIMARY KEY)",
        )
        upgrade(engine, OURS)
        assert _names(engine) == {*NAMES, "alembic_version", "people"}
        assert run(engine, "SELECT version_num FROM alembic_version") == [("of-the-host",)]
        assert engine.pool.status().endswith("Current Checked out connections: 0")
        if engine.dialect.name == "postgresql":
            assert run(engine, "SHOW lock_timeout") == [("0",)]

    @pytest.mark.parametrize(
        "schema",
        [
            Schema(subscriptions=None),
            Schema(dispatches=Role("hookrow_dispatches", {"opened_at": "seen_at"})),
        ],
        ids=["without-a-role", "another-column"],
    )
    def test_tables_of_the_host(self, engine: Engine, schema: Schema) -> None:
        """If any table belongs to the host, only the log is created; others can be added later."""
        for log in (None, "journal"):
            with pytest.raises(ConfigurationError, match="your own migrations"):
                upgrade(engine, replace(schema, log=log))
        assert not _names(engine)
        upgrade(engine, schema)
        assert _names(engine) == LOGS
        assert current(engine) == needed(schema)
        upgrade(engine, OURS)
        assert _names(engine) == NAMES

    def test_table_with_the_same_name(self, engine: Engine) -> None:
        run(engine, "CREATE TABLE hookrow_lists (id INTEGER PRIMARY KEY)")
        with pytest.raises(ConfigurationError, match="already has hookrow_lists, which"):
            upgrade(engine, OURS)
        assert _names(engine) == {"hookrow_lists"}

    def test_failure(self, engine: Engine) -> None:
        """If a migration fails, none of its tables is created, unless each statement commits."""
        if not DIALECTS[kind_of(engine).dialect].transactional_ddl:
            pytest.skip("`test_resumed_upgrades.py` has the behaviour of this database")
        run(
            engine,
            "CREATE TABLE people (id INTEGER PRIMARY KEY)",
            "CREATE INDEX hookrow_dispatches_list_id ON people (id)",
        )
        with pytest.raises(Unavailable, match="hookrow_dispatches_list_id"):
            upgrade(engine, OURS)
        assert _names(engine) == {"people"}

    def test_newer_database(self, engine: Engine) -> None:
        """An older hookrow names the unknown revision and what to do, and changes nothing."""
        upgrade(engine, OURS)
        run(engine, f"UPDATE {MIGRATIONS_TABLE} SET revision = '9999' WHERE revision = '0001'")
        with pytest.raises(ConfigurationError, match=r"9999, .* create the database anew"):
            upgrade(engine, OURS)
        assert current(engine) == [*REVISIONS[1:], "9999"]

    def test_missing_privilege(self, empty_postgres_url: str) -> None:
        """The error names the GRANT that is missing."""
        revoke = "REVOKE CREATE ON SCHEMA public FROM PUBLIC"
        refusal = "permission denied for schema public"
        with database_user(empty_postgres_url, revoke) as url:
            with pytest.raises(SchemaMismatch, match=refusal) as refused:
                upgrade(url, OURS)
            run(empty_postgres_url, str(refused.value).partition(": ")[2])
            assert upgrade(url, OURS) == REVISIONS

    def test_a_missing_file_has_no_revisions(self, tmp_path: Path) -> None:
        """Reading the revisions does not create it."""
        file = tmp_path / "hookrow.db"
        assert current(f"sqlite:///{file}") == ()
        assert not file.exists()

    def test_only_databases_that_were_opened_here_are_closed(
        self, empty_sqlite_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        closed: list[object] = []

        def close(self: ConnectionPool[SQLiteConnection]) -> None:
            closed.append(self)

        monkeypatch.setattr(ConnectionPool, "close", close)
        given = open_database(empty_sqlite_url)
        for work in (partial(upgrade, schema=OURS), current):
            work(given)
            assert not closed
            work(empty_sqlite_url)
            assert closed.pop() is not given
        monkeypatch.undo()
        given.close()

    def test_revisions_in_another_schema(self, empty_postgres_url: str) -> None:
        """The revisions may be in any schema of the search path."""
        upgrade(empty_postgres_url, Schema(log=None))
        run(empty_postgres_url, "CREATE SCHEMA app")
        url = f"{empty_postgres_url}&options=-csearch_path%3Dapp,public"
        assert upgrade(url, OURS) == OF_LOG
        assert upgrade(url, OURS) == []
        assert current(url) == needed(OURS)
        nowhere = f"{empty_postgres_url}&options=-csearch_path%3Dnowhere"
        with pytest.raises(Unavailable, match="no schema has been selected to create in"):
            upgrade(nowhere, OURS)

    def test_foreign_table_of_revisions(self, engine: Engine) -> None:
        run(engine, f"CREATE TABLE {MIGRATIONS_TABLE} (id INTEGER PRIMARY KEY)")
        for work in (current, partial(upgrade, schema=OURS)):
            with pytest.raises(
                SchemaMismatch, match=f"{MIGRATIONS_TABLE}' has no column 'revision'"
            ):
                work(engine)

    def test_unreachable_database(self, tmp_path: Path) -> None:
        with opened(f"sqlite:///{tmp_path}") as engine:  # a folder
            for work in (current, partial(upgrade, schema=OURS)):
                with pytest.raises(Unavailable, match="unable to open"):
                    work(engine)


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        (Schema(log="journal"), FOUR),
        (Schema(subscriptions=None), LOGS),
        (Schema(subscriptions=None, log=None), set()),
    ],
)
def test_sql_of_a_schema(schema: Schema, made: set[str]) -> None:
    """The printed SQL creates the hookrow tables that the schema needs."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(sql("sqlite", schema))
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        assert {name for (name,) in names} - {MIGRATIONS_TABLE} == made


def _by_hand(engine: Engine) -> None:
    """Run the printed SQL without SQLAlchemy."""
    kind = kind_of(engine)
    url = engine.url.set(drivername=kind.dialect).render_as_string(hide_password=False)
    kind.execute(url, sql(kind.dialect))
    assert current(url) == needed(OURS)


@pytest.mark.parametrize("empty_database_url", [each.name for each in ALL], indirect=True)
def test_all_migrations_equal_the_tables(empty_database_url: str) -> None:
    """Upgrade, the printed SQL and `stores/tables.py` create the same tables.

    Columns, types, nullability, keys, uniqueness and indexes are equal. SQLite's own times have
    six digits, as hookrow writes them.
    """
    kind = kind_of(empty_database_url)
    tables = own_tables.attached(OURS, kind)
    made = []
    with opened(empty_database_url) as engine:
        by_upgrade = partial(upgrade, empty_database_url, OURS)
        for make in (by_upgrade, partial(_by_hand, engine), partial(tables.create_all, engine)):
            make()
            made.append({name: each for name, each in structure(engine).items() if name in NAMES})
            if kind is SQLITE:
                run(engine, INSERT)
                now = "SELECT CAST(created_at AS TEXT) FROM hookrow_lists"
                assert SIX_DIGITS.fullmatch(run(engine, now)[0][0])
            tables.drop_all(engine)
            run(engine, *(f"DROP TABLE IF EXISTS {each}" for each in TABLES_OF_UPGRADES))
            assert not _names(engine)
    assert made[0] == made[1] == made[2]
    assert {*made[0]} == NAMES


INSERTS = (
    "INSERT INTO hookrow_subscribers (email) VALUES ('ada@example.com')",
    INSERT,
    "INSERT INTO hookrow_subscriptions (list_id, subscriber_id) VALUES (1, 1)",
    "INSERT INTO hookrow_dispatches (provider_message_id, subscriber_id) VALUES ('m', 1)",
    "INSERT INTO hookrow_dispatches (subscriber_id) VALUES (1), (1)",
    # Two subscribers may have the same message.
    "INSERT INTO hookrow_subscribers (email) VALUES ('bea@example.com')",
    "INSERT INTO hookrow_dispatches (provider_message_id, subscriber_id) VALUES ('m', 2)",
    # The case of non-ASCII letters distinguishes emails; message ids are compared exactly.
    "INSERT INTO hookrow_subscribers (email) VALUES ('ZOË@example.com'), ('ZOë@example.com')",
    "INSERT INTO hookrow_dispatches (provider_message_id, subscriber_id) VALUES ('M', 1)",
)


@pytest.mark.parametrize("database_url", [each.name for each in ALL], indirect=True)
def test_rows_that_a_host_inserts(database_url: str) -> None:
    """The database assigns ids and `created_at`, and rejects invalid rows.

    Emails (in any case), subscriptions, and the dispatches of a message to a subscriber are unique,
    and a dispatch has an owner.
    """
    with opened(database_url) as engine:
        run(engine, *INSERTS)
        assert run(engine, "SELECT max(id) FROM hookrow_dispatches") == [(5,)]
        for name in FOUR:
            with engine.connect() as connection:
                made = connection.scalar(select(own_tables.metadata.tables[name].c.created_at))
            assert made is not None
            assert abs(datetime.now(UTC) - made) < timedelta(minutes=5)
        for row in (
            "subscribers (email) VALUES ('ADA@example.com')",
            "subscriptions (list_id, subscriber_id) VALUES (1, 1)",
            "dispatches (provider_message_id, subscriber_id) VALUES ('m', 1)",
            "dispatches (subscriber_id) VALUES (9)",
            "dispatches (subscriber_id) VALUES (NULL)",
            "subscribers (email) VALUES (NULL)",
            "notifications (fingerprint) VALUES (NULL)",
        ):
            # MariaDB reports columns without a value first.
            with pytest.raises((IntegrityError, OperationalError)):
                run(engine, f"INSERT INTO hookrow_{row}")
