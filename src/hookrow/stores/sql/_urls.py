"""Opens the database of a URL or an engine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from hookrow._arguments import kind_of
from hookrow._core.schema import Schema
from hookrow.errors import ConfigurationError
from hookrow.stores._errors import create_tables
from hookrow.stores.sql._connections import NOT_A_URL, Database
from hookrow.stores.sql._dialects import UNSUPPORTED_DATABASE
from hookrow.stores.sql._mariadb import MariaDBDatabase
from hookrow.stores.sql._postgres import PostgresDatabase
from hookrow.stores.sql._sqlite import SQLiteDatabase, SQLiteMemory

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine


def open_database(database: str | URL | Engine | Database) -> Database:
    """Return the `Database`, which connects on first use.

    `database` is a URL as libpq or SQLAlchemy writes it, an SQLAlchemy engine, or another
    implementation of `Database`. Raises `ConfigurationError` for anything else, and `MissingExtra`
    if the driver is not installed.
    """
    if isinstance(database, str):
        return _open_url(database)
    if isinstance(database, Database):
        return database
    # Such an object exists only if SQLAlchemy has been imported.
    if sqlalchemy := sys.modules.get("sqlalchemy"):
        if isinstance(database, sqlalchemy.URL):
            return _open_url(database.render_as_string(hide_password=False))
        if isinstance(database, sqlalchemy.Engine):
            from hookrow.stores.sql._sqlalchemy import EngineDatabase  # noqa: PLC0415 - an extra

            return EngineDatabase(database)
    if hasattr(database, "sync_engine"):
        raise ConfigurationError(
            "hookrow writes in a thread, which an AsyncEngine does not support: pass engine.url."
        )
    line = 'SQLStore("postgresql://user@host/database") or SQLStore(engine)'
    if isinstance(database, PurePath):
        line = f'SQLStore("sqlite:///{database}")'
    raise ConfigurationError(
        f"A store takes a database URL or an sqlalchemy.Engine, not {kind_of(database)}: write "
        f"{line}."
    )


def refuse_memory(database: Database) -> None:
    """Raise `ConfigurationError` for a database in memory, which ends with a command's process."""
    if isinstance(database, SQLiteMemory):
        raise ConfigurationError(
            "A database in memory exists only in the process that opens it, for tests: name a "
            "file, such as sqlite:///hookrow.db, or a database on a server."
        )


def location(database: Database) -> str:
    """Return the URL of a database, without its password, and with the full path of a file."""
    if isinstance(database, SQLiteDatabase):
        return f"sqlite:///{database.file}"
    return str(database)


def lacks_file(database: Database) -> bool:
    """Return whether an SQLite file does not exist; connecting would create it.

    Raises `Unavailable` if there can be no database at the path.
    """
    return isinstance(database, SQLiteDatabase) and not database.status()


def missing_file(database: Database, schema: Schema) -> str | None:
    """Return why there are no tables if an SQLite file does not exist, and what to do.

    Raises `Unavailable` if there can be no database at the path.
    """
    if not isinstance(database, SQLiteDatabase) or not lacks_file(database):
        return None
    remedy = create_tables(schema)
    if not database.file.parent.is_dir():
        return f"{database.file.parent} does not exist: create it. {remedy}"
    return f"{database.name} does not exist. {remedy}"


def is_database_url(url: str) -> bool:
    """Return whether a URL names a supported database."""
    scheme, separator, _ = url.partition("://")
    return bool(separator) and scheme.lower().partition("+")[0] in _SCHEMES


def _open_url(url: str) -> Database:
    scheme, separator, _ = url.partition("://")
    name, _, driver = scheme.lower().partition("+")
    if not separator or not name.isalnum():
        raise ConfigurationError(NOT_A_URL)
    if name not in _SCHEMES:
        raise ConfigurationError(UNSUPPORTED_DATABASE.format(name))
    known = _SCHEMES[name]
    if driver not in known.drivers:
        raise ConfigurationError(
            f"hookrow does not work with {driver}: use {known.name}:// instead, or pass an engine."
        )
    return known.open(url)


def _open_sqlite(url: str) -> Database:
    file = _file(url)
    return SQLiteDatabase(file) if file else SQLiteMemory()


def _open_postgres(url: str) -> Database:
    return PostgresDatabase(_libpq(url))


def _file(url: str) -> str:
    """Return the path of an SQLite URL: relative after three slashes, absolute after four.

    It is empty for a database in memory.
    """
    path, _, options = url.partition("://")[2].partition("?")
    if options:
        raise ConfigurationError(
            f"hookrow supports no options in an SQLite URL: remove {options!r}."
        )
    host, slash, file = path.partition("/")
    if host or (path and not slash):
        raise ConfigurationError(f"An SQLite URL has no host: use sqlite:///{path} for this file.")
    if slash and not file:  # an empty variable, perhaps: in memory, notifications would be lost
        raise ConfigurationError(
            "sqlite:/// names no file: write, for example, sqlite:///hookrow.db or, for a database "
            "in memory, sqlite://."
        )
    return "" if file == ":memory:" else file


def _libpq(url: str) -> str:
    """Return a PostgreSQL URL that libpq understands."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    login, at, host = authority.rpartition("@")
    if "@" in login:  # in a password, it must be written %40
        raise ConfigurationError(NOT_A_URL)
    base, mark, query = f"{host}{slash}{path}".partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    if "asyncpg" in scheme:
        options = [("sslmode" if name == "ssl" else name, value) for name, value in options]
    hosts = [value.partition(":") for name, value in options if name == "host"]
    if len(hosts) > 1:  # SQLAlchemy repeats the option, and libpq separates with commas
        options = [each for each in options if each[0] != "host"]
        options.append(("host", ",".join(host for host, _, _ in hosts)))
        options.append(("port", ",".join(port or "5432" for _, _, port in hosts)))
    return f"postgresql://{login}{at}{base}{mark}{urlencode(options, quote_via=quote)}"


class _Scheme(NamedTuple):
    """A scheme of URLs: its usual spelling, and the drivers that a URL may name for SQLAlchemy.

    hookrow chooses the driver itself, except that it uses mysqlclient for `mysqldb`.
    """

    name: str
    drivers: Collection[str]
    open: Callable[[str], Database]


_POSTGRESQL_SCHEME = _Scheme("postgresql", {"", "psycopg", "psycopg2", "asyncpg"}, _open_postgres)
_SQLITE_SCHEME = _Scheme("sqlite", {"", "pysqlite", "aiosqlite"}, _open_sqlite)

_MARIADB_DRIVERS = {
    *("", "pymysql", "mysqldb", "aiomysql", "asyncmy", "mariadbconnector", "mysqlconnector"),
}
_MARIADB_SCHEME = _Scheme("mariadb", _MARIADB_DRIVERS, MariaDBDatabase)
_MYSQL_SCHEME = _Scheme("mysql", _MARIADB_DRIVERS, MariaDBDatabase)

_SCHEMES = {
    "postgresql": _POSTGRESQL_SCHEME,
    "postgres": _POSTGRESQL_SCHEME,
    "mariadb": _MARIADB_SCHEME,
    "mysql": _MYSQL_SCHEME,
    "sqlite": _SQLITE_SCHEME,
}
"""The schemes of supported databases, by the name before a driver."""
