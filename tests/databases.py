"""The databases that the tests run on: the only list, and what the tests need to know of each.

`KINDS` decides what every parametrized test runs on. A test of what only one database has, such as
a setting of its server, names that database by itself.
"""

import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from sqlalchemy import URL, Connection, Engine, Row, event, inspect, make_url, text

import mariadb
from hookrow.stores.sql._sqlite import set_pragmas
from postgres import Databases


class Types(dict[str, str]):
    """The types of columns that tests create by hand, by the words in which tests write them.

    `time` is an instant, `timestamp` a time without an offset, `name` a text that may be a key. A
    word that is missing is itself the type.
    """

    def __missing__(self, word: str) -> str:
        return word


class Kind(ABC):
    """A kind of database, with the SQL in which it differs from others.

    `create`, `copy` and `drop` get the request of a fixture, from which they take the fixture of
    the server.
    """

    name: ClassVar[str]
    """In the ids of tests, and in the names of the fixtures `NAME_url` and `empty_NAME_url`."""

    dialect: ClassVar[str]
    """The name in URLs, and of hookrow's scripts."""

    backends: ClassVar[tuple[str, ...]]
    """SQLAlchemy's names of the database."""

    drivers: ClassVar[tuple[str, str]]
    """SQLAlchemy's names of the drivers for an engine, and for an asynchronous one."""

    connect_args: ClassVar[Mapping[str, Any]] = {}
    """Options of the engine's driver."""

    attach_options: ClassVar[Mapping[str, Any]] = {}
    """Arguments of `hookrow.stores.tables.attach`."""

    types: ClassVar[Types]

    explain: ClassVar[str]
    """The words before a statement that return its plan."""

    indexes: ClassVar[str]
    """The query for the definitions of a table's indexes, which has the parameter `name`."""

    folded_email: ClassVar[str]
    """The expression of an index that finds emails ignoring the case of ASCII letters."""

    fail: ClassVar[str]
    """The statements with which a trigger of a table with emails raises an error."""

    has_partial_indexes: ClassVar[bool] = True
    """Whether an index may have a condition, or be on an expression."""

    has_uuids: ClassVar[bool]
    """Whether there is a type for UUIDs."""

    keeps_offsets: ClassVar[bool]
    """Whether times are read with an offset, rather than without one, in UTC."""

    keeps_lengths: ClassVar[bool]
    """Whether a text cannot be longer than its column's type says."""

    analyze: ClassVar[str] = "ANALYZE"
    """The statement that updates the statistics of hookrow's tables."""

    most_statements: ClassVar[int]
    """The statements of a group that changes rows of every kind, at most."""

    most_in_django: ClassVar[tuple[int, int]] = (4, 7)
    """The statements of a notification that changes one row, and of one that changes three."""

    requires_default: ClassVar[bool]
    """Whether a column that is added with NOT NULL must have a default, even in an empty table."""

    @abstractmethod
    def schema(self, database: str | Engine) -> str:
        """Return the schema of a table whose name has none."""

    @abstractmethod
    def create(self, request: pytest.FixtureRequest, folder: Path) -> str:
        """Create an empty database, in the folder if it is a file; return its URL."""

    @abstractmethod
    def copy(self, request: pytest.FixtureRequest, url: str, folder: Path) -> str:
        """Copy a database without connections, as `create` would create it; return the new URL."""

    @abstractmethod
    def drop(self, request: pytest.FixtureRequest, url: str) -> None:
        """Drop a database, even if it has connections."""

    @abstractmethod
    def clear(self, engine: Engine) -> None:
        """Remove all tables and whatever else was created."""

    @abstractmethod
    def execute(self, url: str, script: str) -> None:
        """Execute several statements, as the database's own client would."""

    def accepts_name(self, name: str) -> bool:  # noqa: ARG002 - most accept any name
        """Return whether a table or a column can have a name."""
        return True

    @abstractmethod
    def django(self, url: URL) -> dict[str, Any]:
        """Return Django's settings for a database."""

    @abstractmethod
    def restart_ids(self, connection: Connection, tables: Iterable[str]) -> None:
        """Let the ids of empty tables begin at 1 again."""

    @abstractmethod
    def text_without_case(self, engine: Engine) -> str:
        """Return a type of text that is compared ignoring case.

        Create it if necessary. Skip the test if it is not installed.
        """

    @abstractmethod
    def create_trigger(
        self, table: str, statement: str, *, event: str = "UPDATE", when: str = ""
    ) -> str:
        """Return SQL that creates the trigger `t`: a statement before each row is changed.

        Only the rows that meet a condition, if there is one, run the statement.
        """

    @abstractmethod
    def ignore(self, table: str, *, event: str = "UPDATE", when: str = "") -> str:
        """Return SQL that creates the trigger `t`, which leaves rows unchanged without an error.

        It applies to the rows that meet a condition, if there is one. Skip the test if no trigger
        can have this effect.
        """

    def drop_index(self, index: str, table: str) -> str:
        """Return the statement that drops an index."""
        del table
        return f"DROP INDEX {index}"

    def unique_index(self, name: str, table: str, columns: str, *, where: str) -> str:
        """Return the statement that keeps columns unique in the rows that meet a condition."""
        return f"CREATE UNIQUE INDEX {name} ON {table} ({columns}) WHERE {where}"

    @abstractmethod
    def drop_trigger(self, table: str) -> str:
        """Return the statement that drops the trigger."""

    @abstractmethod
    def prepare(self, engine: Engine) -> None:
        """Let an engine connect as hookrow does."""

    @abstractmethod
    def avoid_scans(self, connection: Connection) -> None:
        """Let the plans of a transaction use indexes if possible, even in small tables."""

    def step(self, row: Row[Any]) -> str:
        """Return the text of a row of a plan."""
        return str(row[-1])


class _SQLite(Kind):
    name = dialect = "sqlite"
    backends = ("sqlite",)
    drivers = "sqlite", "sqlite+aiosqlite"
    types = Types(time="datetime", name="text", uuid="char(32)")
    explain = "EXPLAIN QUERY PLAN"
    indexes = "SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = :name"
    folded_email = "lower(email)"
    fail = "SELECT RAISE(ABORT, 'no')"
    has_uuids = keeps_offsets = keeps_lengths = False
    most_statements = 8
    requires_default = True

    def schema(self, database: str | Engine) -> str:
        del database
        return "main"

    def create(self, request: pytest.FixtureRequest, folder: Path) -> str:
        del request
        return f"sqlite:///{folder}/hookrow.db"

    def copy(self, request: pytest.FixtureRequest, url: str, folder: Path) -> str:
        copied = self.create(request, folder)
        if (file := _file(make_url(url))).exists():
            shutil.copy(file, _file(make_url(copied)))
        return copied

    def drop(self, request: pytest.FixtureRequest, url: str) -> None:
        """Leave the file to pytest, which keeps the folders of the last runs."""

    def clear(self, engine: Engine) -> None:
        engine.dispose()
        _file(engine.url).unlink(missing_ok=True)

    def execute(self, url: str, script: str) -> None:
        with closing(sqlite3.connect(_file(make_url(url)))) as connection:
            connection.executescript(script)

    def django(self, url: URL) -> dict[str, Any]:
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": url.database}

    def restart_ids(self, connection: Connection, tables: Iterable[str]) -> None:
        del tables
        if inspect(connection).has_table("sqlite_sequence"):  # in the tables that Django creates
            connection.exec_driver_sql("DELETE FROM sqlite_sequence")

    def text_without_case(self, engine: Engine) -> str:
        del engine
        return "text COLLATE NOCASE"

    def create_trigger(
        self, table: str, statement: str, *, event: str = "UPDATE", when: str = ""
    ) -> str:
        condition = f"WHEN {when}" if when else ""
        return f"CREATE TRIGGER t BEFORE {event} ON {table} {condition} BEGIN {statement}; END"

    def ignore(self, table: str, *, event: str = "UPDATE", when: str = "") -> str:
        return self.create_trigger(table, "SELECT RAISE(IGNORE)", event=event, when=when)

    def drop_trigger(self, table: str) -> str:
        del table
        return "DROP TRIGGER t"

    def prepare(self, engine: Engine) -> None:
        event.listen(engine, "connect", lambda connection, _: set_pragmas(connection))

    def avoid_scans(self, connection: Connection) -> None:
        """Do nothing: SQLite uses an index wherever it can."""


class _PostgreSQL(Kind):
    name, dialect = "postgres", "postgresql"
    backends = ("postgresql",)
    drivers = "postgresql+psycopg", "postgresql+psycopg"
    types = Types(time="timestamptz", name="text")
    explain = "EXPLAIN"
    indexes = "SELECT indexdef FROM pg_indexes WHERE tablename = :name"
    folded_email = '(lower(email COLLATE "C"))'
    fail = "RAISE EXCEPTION USING MESSAGE = NEW.email"
    has_uuids = keeps_offsets = keeps_lengths = True
    most_statements = 2
    requires_default = False

    def schema(self, database: str | Engine) -> str:
        del database
        return "public"

    def create(self, request: pytest.FixtureRequest, folder: Path) -> str:
        del folder
        return self._server(request).create()

    def copy(self, request: pytest.FixtureRequest, url: str, folder: Path) -> str:
        del folder
        return self._server(request).create(make_url(url).database or "")

    def drop(self, request: pytest.FixtureRequest, url: str) -> None:
        self._server(request).drop(url)

    def clear(self, engine: Engine) -> None:
        with engine.begin() as connection:
            others = "SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema)'"
            for name in connection.scalars(text(others)).all():
                connection.execute(text(f'DROP SCHEMA "{name}" CASCADE'))
            connection.execute(text("CREATE SCHEMA public"))

    def execute(self, url: str, script: str) -> None:
        with psycopg.connect(url) as connection:
            connection.execute(script.encode())

    def django(self, url: URL) -> dict[str, Any]:
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": url.database,
            "USER": url.username or "",
            "HOST": url.query.get("host") or url.host or "",
            "PORT": str(url.port or ""),
            "OPTIONS": {"connect_timeout": 2},
        }

    def restart_ids(self, connection: Connection, tables: Iterable[str]) -> None:
        sequences = (f"pg_get_serial_sequence('{table}', 'id')" for table in tables)
        restarts = ", ".join(f"setval({sequence}, 1, false)" for sequence in sequences)
        connection.exec_driver_sql(f"SELECT {restarts}")

    def text_without_case(self, engine: Engine) -> str:
        with engine.begin() as connection:
            available = "SELECT 1 FROM pg_available_extensions WHERE name = 'citext'"
            if connection.scalar(text(available)) is None:
                pytest.skip("this PostgreSQL has no citext: install its contrib modules")
            connection.execute(text("CREATE EXTENSION citext"))
        return "citext"

    def create_trigger(
        self, table: str, statement: str, *, event: str = "UPDATE", when: str = ""
    ) -> str:
        condition = f"WHEN ({when})" if when else ""
        return f"""
            CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN {statement}; RETURN NEW; END $$;
            CREATE TRIGGER t BEFORE {event} ON {table} FOR EACH ROW {condition} EXECUTE FUNCTION f()
        """

    def ignore(self, table: str, *, event: str = "UPDATE", when: str = "") -> str:
        return self.create_trigger(table, "RETURN NULL", event=event, when=when)

    def drop_trigger(self, table: str) -> str:
        return f"DROP TRIGGER t ON {table}"

    def prepare(self, engine: Engine) -> None:
        """Do nothing: an engine of a host's connects in the same way."""

    def avoid_scans(self, connection: Connection) -> None:
        connection.exec_driver_sql("SET LOCAL enable_seqscan = off")

    def _server(self, request: pytest.FixtureRequest) -> Databases:
        server: Databases = request.getfixturevalue("postgres")
        return server


class _MariaDB(Kind):
    """MariaDB, or the MySQL server that `mariadb.find_binaries` finds."""

    name = dialect = "mariadb"
    backends = ("mysql", "mariadb")
    drivers = "mysql+pymysql", "mysql+aiomysql"
    connect_args: ClassVar[Mapping[str, Any]] = {
        **mariadb.WITHOUT_TLS,
        # So that tests can choose the id 0.
        "init_command": "SET sql_mode = 'STRICT_TRANS_TABLES,NO_AUTO_VALUE_ON_ZERO'",
    }
    attach_options: ClassVar[Mapping[str, Any]] = {"mariadb": True}
    types = Types(time="datetime(6)", timestamp="datetime(6)", name="varchar(320)", uuid="char(32)")
    explain = "EXPLAIN FORMAT = TRADITIONAL"  # not the default of MySQL 9
    analyze = (
        "ANALYZE TABLE hookrow_subscribers, hookrow_subscriptions, hookrow_dispatches, "
        "hookrow_notifications, hookrow_hours"
    )
    indexes = """
        SELECT concat(if(non_unique, '', 'UNIQUE '), 'INDEX ', index_name, ' ON ', table_name, ' (',
            group_concat(concat(column_name, coalesce(concat('(', sub_part, ')'), ''))
                ORDER BY seq_in_index SEPARATOR ', '), ')')
        FROM information_schema.statistics WHERE table_schema = database() AND table_name = :name
        GROUP BY table_name, index_name, non_unique
    """
    folded_email = "email"  # an index has no expressions: the column's collation ignores case
    fail = "SET @email = NEW.email; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = @email"
    has_partial_indexes = has_uuids = keeps_offsets = False
    keeps_lengths = True
    # Each table is locked by a statement, and the session's settings are changed and restored.
    most_statements = 13
    most_in_django = 7, 11
    requires_default = False

    def schema(self, database: str | Engine) -> str:
        return _url(database).database or ""

    def create(self, request: pytest.FixtureRequest, folder: Path) -> str:
        del folder
        return self._server(request).create()

    def copy(self, request: pytest.FixtureRequest, url: str, folder: Path) -> str:
        del folder
        return self._server(request).create(make_url(url).database)

    def drop(self, request: pytest.FixtureRequest, url: str) -> None:
        self._server(request).drop(url)

    def clear(self, engine: Engine) -> None:
        name = self.schema(engine)
        run = "DROP DATABASE {0}", "CREATE DATABASE {0} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        with engine.connect() as connection:
            for statement in run:
                connection.exec_driver_sql(statement.format(name))
        engine.dispose()  # the connections no longer have a current database

    def execute(self, url: str, script: str) -> None:
        mariadb.execute_script(url, script)

    def accepts_name(self, name: str) -> bool:
        """Refuse characters beyond the basic plane, and blanks at the end."""
        return name == name.rstrip() and all(ord(each) < 0x10000 for each in name)

    def django(self, url: URL) -> dict[str, Any]:
        return {
            "ENGINE": "django.db.backends.mysql",
            "NAME": url.database,
            "USER": url.username or "",
            "PASSWORD": url.password or "",
            "HOST": url.query.get("unix_socket") or url.host or "",
            "PORT": str(url.port or ""),
            "OPTIONS": {"connect_timeout": 2, "read_timeout": 4},
        }

    def unique_index(self, name: str, table: str, columns: str, *, where: str) -> str:
        """Add a generated column that is null in all other rows."""
        return (
            f"ALTER TABLE {table} ADD COLUMN is_{name} INT AS (CASE WHEN {where} THEN 1 END) "
            f"VIRTUAL, ADD UNIQUE INDEX {name} ({columns}, is_{name})"
        )

    def restart_ids(self, connection: Connection, tables: Iterable[str]) -> None:
        for table in tables:
            connection.exec_driver_sql(f"ALTER TABLE {table} AUTO_INCREMENT = 1")

    def text_without_case(self, engine: Engine) -> str:
        del engine
        return "varchar(320) COLLATE utf8mb4_general_ci"

    def create_trigger(
        self, table: str, statement: str, *, event: str = "UPDATE", when: str = ""
    ) -> str:
        body = f"IF {when} THEN {statement}; END IF" if when else statement
        return f"CREATE TRIGGER t BEFORE {event} ON {table} FOR EACH ROW BEGIN {body}; END"

    def ignore(self, table: str, *, event: str = "UPDATE", when: str = "") -> str:
        """Skip the test: only an error prevents a change here.

        A trigger may give a column its old value again, which counts do not show on any database.
        """
        del table, event, when
        pytest.skip("no trigger of MariaDB can leave out a row")

    def drop_index(self, index: str, table: str) -> str:
        return f"DROP INDEX {index} ON {table}"

    def drop_trigger(self, table: str) -> str:
        del table
        return "DROP TRIGGER t"

    def prepare(self, engine: Engine) -> None:
        """Do nothing: an engine of a host's connects in the same way."""

    def avoid_scans(self, connection: Connection) -> None:
        """Let an index seem to need one seek, as long as the connection is open."""
        connection.exec_driver_sql("SET max_seeks_for_key = 1")

    def step(self, row: Row[Any]) -> str:
        """Return the words of SQLite's plans."""
        if row.type in {"ALL", "index"}:
            return f"SCAN {row.table}"
        indexes = str(row.key).replace("|", " and ")
        return f"SEARCH {row.table} USING INDEX {indexes} ({row.type})"

    def _server(self, request: pytest.FixtureRequest) -> mariadb.Databases:
        server: mariadb.Databases = request.getfixturevalue("mariadb")
        return server


SQLITE, POSTGRESQL, MARIADB = _SQLite(), _PostgreSQL(), _MariaDB()

ALL: tuple[Kind, ...] = (SQLITE, POSTGRESQL, MARIADB)
"""All databases that have fixtures."""

KINDS: tuple[Kind, ...] = (SQLITE, POSTGRESQL, MARIADB)
"""The databases of all parametrized tests, in this order."""

NAMES = tuple(kind.name for kind in KINDS)

IN_MEMORY = "memory"
"""The name of SQLite's database in memory, which only some tests also run on."""


def places(through: str, *names: str) -> tuple[str, ...]:
    """Return the names of places: databases (by default all) through "supplied" or "django"."""
    return tuple(f"{through}-{name}" for name in names or NAMES)


def kind_of(database: str | URL | Engine | Connection) -> Kind:
    """Return the kind of a database, by its name or dialect, its URL, or a connection."""
    if isinstance(database, Engine | Connection):
        named = database.dialect.name
    elif isinstance(database, URL) or "://" in database:
        named = make_url(database).get_backend_name()
    else:
        named = database
    [kind] = [each for each in ALL if named in {each.name, each.dialect, *each.backends}]
    return kind


def _url(database: str | Engine) -> URL:
    return database.url if isinstance(database, Engine) else make_url(database)


def _file(url: URL) -> Path:
    return Path(url.database or "")
