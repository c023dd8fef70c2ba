"""Opening the database of a URL or an engine."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

from hookrow.errors import ConfigurationError
from hookrow.stores import NOT_ON
from hookrow.stores.sql.connections import NOT_A_URL, Database
from hookrow.stores.sql.postgres import PostgresDatabase
from hookrow.stores.sql.sqlite import SQLiteDatabase

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

_DATABASES = {"postgresql": "postgresql", "postgres": "postgresql", "sqlite": "sqlite"}
_DRIVERS = {
    "postgresql": {"", "psycopg", "psycopg2", "asyncpg"},
    "sqlite": {"", "pysqlite", "aiosqlite"},
}
"""The drivers in SQLAlchemy's URLs, instead of which hookrow uses its own."""

_NO_DATABASE = (
    "A store takes a database URL, or an sqlalchemy.Engine, but no {}: "
    'pass "postgresql://user@host/database", for example.'
)


def open_database(database: str | URL | Engine | Database) -> Database:
    """Return the `Database`, which connects on first use.

    `database` is a URL as libpq or SQLAlchemy writes it, an engine of SQLAlchemy's, or another
    implementation of `Database`. Raises `ConfigurationError` for anything else, and `MissingExtra`.
    """
    if isinstance(database, str):
        return _open_url(database)
    if isinstance(database, Database):
        return database
    # If this is an object of SQLAlchemy's, SQLAlchemy has been imported.
    if sqlalchemy := sys.modules.get("sqlalchemy"):
        if isinstance(database, sqlalchemy.URL):
            return _open_url(database.render_as_string(hide_password=False))
        if isinstance(database, sqlalchemy.Engine):
            from hookrow.stores.sql.sqlalchemy import EngineDatabase  # noqa: PLC0415 - an extra

            return EngineDatabase(database)
    if hasattr(database, "sync_engine"):
        raise ConfigurationError(
            "hookrow writes in a thread, which an AsyncEngine cannot: pass engine.url."
        )
    raise ConfigurationError(_NO_DATABASE.format(type(database).__name__))


def missing_file(database: Database) -> str | None:
    """Return the SQLite file if it does not exist yet, and connecting would create it."""
    if isinstance(database, SQLiteDatabase) and not database.file.exists():
        return database.name
    return None


def backend(url: str) -> str:
    """Return "postgresql" or "sqlite". Raises `ConfigurationError` for any other URL."""
    scheme, found, _ = url.partition("://")
    name, _, driver = scheme.lower().partition("+")
    if not found or not name.isalnum():
        raise ConfigurationError(NOT_A_URL)
    if name not in _DATABASES:
        raise ConfigurationError(NOT_ON.format(name))
    known = _DATABASES[name]
    if driver not in _DRIVERS[known]:
        raise ConfigurationError(
            f"hookrow does not work with {driver}: write {known}:// instead, or pass an engine."
        )
    return known


def _open_url(url: str) -> Database:
    if backend(url) == "sqlite":
        return SQLiteDatabase(_file(url) or "")
    return PostgresDatabase(_libpq(url))


def _file(url: str) -> str | None:
    """Return the path of an SQLite URL: relative after three slashes, absolute after four."""
    rest = url.partition("://")[2]
    path, _, options = rest.partition("?")
    if options:
        raise ConfigurationError(f"hookrow takes no options of SQLite: leave out {options!r}.")
    host, slash, file = path.partition("/")
    if host or (path and not slash):
        raise ConfigurationError(
            f"An SQLite URL names no host: write sqlite:///{path} for that file."
        )
    return file or None


def _libpq(url: str) -> str:
    """Return a PostgreSQL URL for libpq, with its names for options of asyncpg."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    login, at, host = authority.rpartition("@")
    if "@" in login:  # of a password, in which it is written %40
        raise ConfigurationError(NOT_A_URL)
    base, mark, query = f"{host}{slash}{path}".partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    if "asyncpg" in scheme:
        options = [(_ASYNCPG.get(name, name), value) for name, value in options]
    hosts = [value.partition(":") for name, value in options if name == "host"]
    if len(hosts) > 1:  # as SQLAlchemy writes several
        options = [each for each in options if each[0] != "host"]
        options.append(("host", ",".join(host for host, _, _ in hosts)))
        options.append(("port", ",".join(port or "5432" for _, _, port in hosts)))
    return f"postgresql://{login}{at}{base}{mark}{urlencode(options, quote_via=quote)}"


_ASYNCPG: Mapping[str, str] = {"ssl": "sslmode"}
"""Options that asyncpg names differently than libpq."""
