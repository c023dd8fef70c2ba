"""The migrations: what they make, and what of the host's they leave alone."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, UniqueConstraint, inspect, make_url, text
from sqlalchemy.exc import IntegrityError

from hookrow import ConfigurationError, Role, Schema
from hookrow.migrations import VERSION_TABLE, current, heads, sql, upgrade
from hookrow.stores import Unavailable, tables
from hookrow.stores.engines import open_engine
from postgres import Server
from structure import structure

pytestmark = pytest.mark.filterwarnings(
    "ignore:Skipped unsupported reflection of expression-based index"  # `structure` reads them
)

OURS = Schema()
FOUR = {"hookrow_subscribers", "hookrow_lists", "hookrow_subscriptions", "hookrow_dispatches"}
LOG = "hookrow_notifications"
NAMES = {*FOUR, LOG}
LONGEST = 30.0
"""In seconds; how long an upgrade in another process may take."""


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[Engine]:
    """Open an empty database."""
    engine = open_engine(empty_database_url)
    yield engine
    engine.dispose()


def _names(engine: Engine) -> set[str]:
    return set(inspect(engine).get_table_names())


def _execute(engine: Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


class TestUpgrade:
    def test_an_empty_database_gets_our_tables(self, engine: Engine) -> None:
        """The four tables, the log and the version table are made, and nothing else."""
        assert not current(engine)
        upgrade(engine, OURS)
        assert _names(engine) == {*NAMES, "hookrow_version"}
        assert current(engine) == heads(OURS)

    def test_upgrading_twice_is_harmless(self, engine: Engine) -> None:
        """The second time nothing happens, and rows stay."""
        upgrade(engine, OURS)
        _execute(engine, "INSERT INTO hookrow_lists (name) VALUES ('news')")
        upgrade(engine, OURS)
        assert current(engine) == heads(OURS)
        with engine.connect() as connection:
            assert connection.scalar(text("SELECT count(*) FROM hookrow_lists")) == 1

    def test_the_hosts_own_migrations_are_left_alone(self, engine: Engine) -> None:
        """A host's Alembic keeps its place in `alembic_version`, and its tables."""
        _execute(
            engine,
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)",
            "INSERT INTO alembic_version VALUES ('of-the-host')",
            "CREATE TABLE people (id INTEGER PRIMARY KEY)",
        )
        upgrade(engine, OURS)
        assert _names(engine) == {*NAMES, VERSION_TABLE, "alembic_version", "people"}
        with engine.connect() as connection:
            versions = connection.scalars(text("SELECT version_num FROM alembic_version")).all()
        assert versions == ["of-the-host"]

    @pytest.mark.parametrize("name", sorted(NAMES))
    def test_strangers_are_refused(self, engine: Engine, name: str) -> None:
        """A table with a name of ours that we did not make is named, and nothing is changed."""
        _execute(engine, f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)")
        with pytest.raises(ConfigurationError, match=f"already has {name}, which"):
            upgrade(engine, OURS)
        assert _names(engine) == {name}

    @pytest.mark.parametrize(
        "schema",
        [
            Schema(subscriptions=None),
            Schema(subscribers=Role("people")),
            Schema(dispatches=Role("hookrow_dispatches", {"opened_at": "seen_at"})),
        ],
        ids=["without-a-role", "another-table", "another-column"],
    )
    def test_of_a_schema_of_the_hosts_only_the_log_is_made(
        self, engine: Engine, schema: Schema
    ) -> None:
        """Where any table is the host's own, so are the migrations, but for those of the log."""
        for log in (None, "journal"):
            with pytest.raises(ConfigurationError, match="your own migrations"):
                upgrade(engine, replace(schema, log=log))
        assert not _names(engine)
        upgrade(engine, schema)
        assert _names(engine) == {LOG, VERSION_TABLE}
        assert current(engine) == heads(schema)
        assert set(heads(schema)) < set(heads(OURS))

    def test_the_log_may_come_later(self, engine: Engine) -> None:
        """Tables that were made without a log keep their rows and get one."""
        upgrade(engine, Schema(log=None))
        assert _names(engine) == {*FOUR, VERSION_TABLE}
        _execute(engine, "INSERT INTO hookrow_lists (name) VALUES ('news')")
        upgrade(engine, OURS)
        assert _names(engine) == {*NAMES, VERSION_TABLE}
        assert current(engine) == heads(OURS)
        with engine.connect() as connection:
            assert connection.scalar(text("SELECT count(*) FROM hookrow_lists")) == 1

    def test_the_four_may_come_after_the_log(self, engine: Engine) -> None:
        """A host that gives up tables of its own gets ours beside the log that it has."""
        upgrade(engine, Schema(subscriptions=None))
        upgrade(engine, OURS)
        assert _names(engine) == {*NAMES, VERSION_TABLE}

    def test_an_upgrade_that_fails_leaves_nothing(self, engine: Engine) -> None:
        """All or nothing: an obstacle half way, and there is no table of ours."""
        _execute(
            engine,
            "CREATE TABLE people (id INTEGER PRIMARY KEY)",
            "CREATE INDEX hookrow_dispatches_list_id ON people (id)",
        )
        with pytest.raises(Unavailable, match="hookrow_dispatches_list_id"):
            upgrade(engine, OURS)
        assert _names(engine) == {"people"}

    def test_a_database_that_is_ahead_of_us_is_refused(self, engine: Engine) -> None:
        """After a step back to an older hookrow: what is wrong is said, and nothing is changed."""
        upgrade(engine, OURS)
        _execute(
            engine, f"UPDATE {VERSION_TABLE} SET version_num = '9999' WHERE version_num = '0001'"
        )
        with pytest.raises(ConfigurationError, match="9999"):
            upgrade(engine, OURS)
        assert current(engine) == ["0002", "9999"]

    def test_a_lent_connection_pool_gets_its_connection_back(self, engine: Engine) -> None:
        """Nothing stays open, locked or set on the engine that was lent."""
        upgrade(engine, OURS)
        assert engine.pool.status().endswith("Current Checked out connections: 0")
        with engine.connect() as connection:
            assert not connection.in_transaction()
            if connection.dialect.name == "postgresql":
                assert connection.scalar(text("SHOW lock_timeout")) == "0"

    def test_two_processes_may_upgrade_at_once(self, empty_database_url: str) -> None:
        """Workers that start together all succeed, whoever comes first."""
        code = (
            "import sys; from hookrow import Schema; from hookrow.migrations import upgrade\n"
            "from hookrow.stores.engines import open_engine\n"
            "engine = open_engine(sys.argv[1])\n"
            "print('ready', flush=True)\n"
            "sys.stdin.readline()\n"
            "upgrade(engine, Schema())"
        )
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", code, empty_database_url],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(3)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        errors = [process.communicate(timeout=LONGEST)[1] for process in processes]
        assert [process.returncode for process in processes] == [0] * 3, errors
        engine = open_engine(empty_database_url)
        assert _names(engine) == {*NAMES, VERSION_TABLE}
        engine.dispose()


def test_an_upgrade_waits_for_another_however_long_it_takes(empty_postgres_url: str) -> None:
    """The time limits of recording are not those of an upgrade, which may build an index."""
    engine = open_engine(empty_postgres_url)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            upgrade(engine, OURS)
        except BaseException as error:  # noqa: BLE001 - it is asserted on below
            failures.append(error)

    with psycopg.connect(empty_postgres_url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (0x686F6F6B726F77,))
        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(2.5)  # longer than LOCK_TIMEOUT
    thread.join(LONGEST)
    assert not thread.is_alive()
    assert not failures
    assert _names(engine) == {*NAMES, VERSION_TABLE}
    engine.dispose()


def test_a_database_out_of_reach_is_unavailable(tmp_path: Path) -> None:
    """Neither asking for the revision nor upgrading raises the driver's own errors."""
    engine = open_engine(f"sqlite:///{tmp_path}")  # a folder
    with pytest.raises(Unavailable, match="unable to open"):
        current(engine)
    with pytest.raises(Unavailable, match="unable to open"):
        upgrade(engine, OURS)
    engine.dispose()


def test_a_file_that_is_not_there_is_at_no_revision(tmp_path: Path) -> None:
    """To ask makes no file."""
    engine = open_engine(f"sqlite:///{tmp_path}/hookrow.db")
    assert not current(engine)
    assert not list(tmp_path.iterdir())


class TestSql:
    def test_it_makes_on_postgresql_what_upgrade_makes(self, postgres: Server) -> None:
        """`sql("postgresql")`, run by hand, and `upgrade` end in the same tables."""
        by_hand, upgraded = open_engine(postgres.create()), open_engine(postgres.create())
        with closing(psycopg.connect(postgres.url(_name(by_hand)), autocommit=True)) as connection:
            connection.execute(sql("postgresql").encode())
        upgrade(upgraded, OURS)
        assert structure(by_hand) == structure(upgraded)
        assert current(by_hand) == heads(OURS)
        upgrade(by_hand, OURS)
        by_hand.dispose()
        upgraded.dispose()

    def test_it_makes_on_sqlite_what_upgrade_makes(self, empty_sqlite_url: str) -> None:
        """`sql("sqlite")`, run by hand, and `upgrade` end in the same tables."""
        by_hand, upgraded = open_engine(empty_sqlite_url), open_engine(f"{empty_sqlite_url}.2")
        with closing(sqlite3.connect(_name(by_hand))) as connection:
            connection.executescript(sql("sqlite"))
        upgrade(upgraded, OURS)
        assert structure(by_hand) == structure(upgraded)
        assert current(by_hand) == heads(OURS)
        upgrade(by_hand, OURS)
        by_hand.dispose()
        upgraded.dispose()

    @pytest.mark.parametrize(
        ("schema", "made"),
        [
            (OURS, NAMES),
            (Schema(log=None), FOUR),
            (Schema(log="journal"), FOUR),
            (Schema(subscriptions=None), {LOG}),
            (Schema(subscriptions=None, log=None), set()),
        ],
    )
    def test_it_makes_what_the_schema_has_of_ours(self, schema: Schema, made: set[str]) -> None:
        """And nothing where all tables are the host's own."""
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(sql("sqlite", schema))
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            assert {name for (name,) in names} - {VERSION_TABLE} == made

    def test_another_database_is_refused(self) -> None:
        """What we do not know is named."""
        with pytest.raises(ConfigurationError, match="not on mysql"):
            sql("mysql")


def test_all_migrations_equal_the_tables(engine: Engine) -> None:
    """Columns, types, nullability, keys, uniqueness, indexes: as `stores/tables.py` says."""
    upgrade(engine, OURS)
    made = {name: table for name, table in structure(engine).items() if name in NAMES}
    _execute(engine, f"DROP TABLE {VERSION_TABLE}")
    tables.metadata.drop_all(engine)
    assert not _names(engine)
    tables.metadata.create_all(engine)
    assert structure(engine) == made


def test_the_metadata_names_its_unique_constraints() -> None:
    """A constraint without a name could not be dropped by a later migration."""
    constraints = [
        constraint
        for table in tables.metadata.tables.values()
        for constraint in table.constraints
        if isinstance(constraint, UniqueConstraint)
    ]
    assert len(constraints) == 3
    assert all(constraint.name for constraint in constraints)


class TestPlainInsert:
    """A host writes rows with SQL of its own, and leaves to the database what it can."""

    BEFORE = (
        "INSERT INTO hookrow_subscribers (email) VALUES ('ada@example.com')",
        "INSERT INTO hookrow_lists (name) VALUES ('news')",
        "INSERT INTO hookrow_subscriptions (list_id, subscriber_id) VALUES (1, 1)",
        "INSERT INTO hookrow_dispatches (provider_message_id, subscriber_id) VALUES ('m', 1)",
        "INSERT INTO hookrow_dispatches (subscriber_id) VALUES (1)",
        "INSERT INTO hookrow_dispatches (subscriber_id) VALUES (1)",
    )

    @pytest.fixture
    def filled(self, engine: Engine) -> Engine:
        """Insert a row of each kind, with no more than it needs."""
        upgrade(engine, OURS)
        _execute(engine, *self.BEFORE)
        return engine

    def test_the_database_assigns_ids(self, filled: Engine) -> None:
        """Ids count from one."""
        with filled.connect() as connection:
            ids = connection.scalars(text("SELECT id FROM hookrow_dispatches ORDER BY id")).all()
        assert ids == [1, 2, 3]

    @pytest.mark.parametrize("name", sorted(FOUR))
    def test_the_database_knows_when_a_row_was_made(self, filled: Engine, name: str) -> None:
        """`created_at` is now, in UTC."""
        table = tables.metadata.tables[name]
        with filled.connect() as connection:
            made = connection.execute(table.select()).mappings().first()
        assert made is not None
        assert abs(datetime.now(UTC) - made["created_at"]) < timedelta(minutes=1)

    @pytest.mark.parametrize(
        "row",
        [
            "subscribers (email) VALUES ('ADA@example.com')",
            "subscriptions (list_id, subscriber_id) VALUES (1, 1)",
            "dispatches (provider_message_id, subscriber_id) VALUES ('m', 1)",
            "dispatches (subscriber_id) VALUES (9)",
            "dispatches (subscriber_id) VALUES (NULL)",
            "subscribers (email) VALUES (NULL)",
            "notifications (fingerprint) VALUES (NULL)",
        ],
    )
    def test_what_must_not_be_is_refused(self, filled: Engine, row: str) -> None:
        """An email twice in whatever case, a subscription or message id twice, no owner."""
        with pytest.raises(IntegrityError):
            _execute(filled, f"INSERT INTO hookrow_{row}")

    @pytest.mark.parametrize(
        ("row", "many"),
        [
            ("subscribers (email) VALUES ('ZOË@example.com'), ('ZOë@example.com')", 2),
            ("dispatches (provider_message_id, subscriber_id) VALUES ('M', 1)", 1),
        ],
    )
    def test_what_differs_may_be(self, filled: Engine, row: str, many: int) -> None:
        """Beyond ASCII two cases are two emails, and a message id is compared to the letter."""
        with filled.begin() as connection:
            assert connection.execute(text(f"INSERT INTO hookrow_{row}")).rowcount == many


def test_sqlite_keeps_six_digits(sqlite_url: str) -> None:
    """The default of `created_at` is the very text that we would write ourselves."""
    with closing(sqlite3.connect(make_url(sqlite_url).database or "")) as connection:
        connection.execute("INSERT INTO hookrow_lists (name) VALUES ('news')")
        [(made,)] = connection.execute("SELECT created_at FROM hookrow_lists")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}", made)


def _name(engine: Engine) -> str:
    assert engine.url.database is not None
    return engine.url.database
