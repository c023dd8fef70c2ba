"""Database engines of our own, and transactions on any: each with time limits."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isinf
from pathlib import Path
from time import monotonic, sleep

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from hookrow.errors import ConfigurationError, MissingExtra
from hookrow.stores import NOT_ON
from hookrow.stores.limits import (
    LOCK_TIMEOUT,
    STATEMENT_TIMEOUT,
    left,
    limit_statements,
    set_limits,
)
from hookrow.stores.watch import watch

CONNECT_TIMEOUT = 3
"""In seconds; how long a connection may take to come about."""

_DRIVERS = {"pysqlite", "psycopg", "psycopg2"}
"""Those that know the limits that are set here."""

_OLDEST = {"postgresql": (13,), "sqlite": (3, 35)}
_NAMES = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}


def open_engine(url: str | URL) -> Engine:
    """Make an engine for PostgreSQL (psycopg 3) or SQLite, with time limits set.

    Raises `ConfigurationError` for another database or no URL at all, and
    `MissingExtra` where the driver is not installed.
    """
    parsed = _parsed(url)
    try:
        dialect = parsed.get_dialect()
    except NoSuchModuleError:
        supported(parsed.get_backend_name())
        raise ConfigurationError(
            f"There is no driver {parsed.drivername!r}: "
            f"write {parsed.get_backend_name()}:// instead."
        ) from None
    supported(parsed.get_backend_name(), is_async=dialect.is_async)
    if dialect.driver not in _DRIVERS:
        raise ConfigurationError(
            f"hookrow opens no database with {dialect.driver}: "
            f"write {parsed.get_backend_name()}:// instead, or lend an engine."
        )
    try:
        return _sqlite(parsed) if dialect.name == "sqlite" else _postgres(parsed)
    except ModuleNotFoundError as error:
        if dialect.driver == "psycopg":
            raise MissingExtra("PostgreSQL", "postgres") from error
        raise ConfigurationError(
            f"The driver {dialect.driver} is not installed: install it, or write "
            "postgresql:// instead, which is psycopg."
        ) from error


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    """Make an engine for a while, as `open_engine` does."""
    engine = open_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Connect, anew where the server ended the connection that idled.

    There is no limit of time but that of `limits.within`.
    """
    with engine.connect() as connection:
        try:
            with watch.over(connection):
                connection.exec_driver_sql("VALUES (1)")
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
        connection.rollback()  # after which SQLAlchemy connects anew by itself
        if isinf(left()):
            yield connection
            return
        with watch.over(connection):
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(limit_statements())
            yield connection


def shown(url: URL) -> str:
    """Return the URL as it may be shown: no password, also none among its options."""
    return url.set(query={}).render_as_string(hide_password=True)


def absent(engine: Engine) -> str | None:
    """Return the SQLite file that is not there yet, which to connect would make; else None."""
    file = engine.url.database if engine.dialect.name == "sqlite" else None
    return file if file and not Path(file).exists() else None


def supported(backend: str, *, is_async: bool = False) -> None:
    """Raise `ConfigurationError` for a database or a driver that hookrow cannot use."""
    if backend not in _NAMES:
        raise ConfigurationError(NOT_ON.format(backend))
    if is_async:
        raise ConfigurationError(
            "hookrow writes from a thread of its own, which an async driver cannot: "
            f"write {backend}:// instead, or lend an engine that is not async."
        )


def check_version(connection: Connection) -> None:
    """Raise `ConfigurationError` for a database that is too old."""
    name = connection.dialect.name
    found = connection.dialect.server_version_info or ()
    if found < _OLDEST[name]:
        wanted, have = (".".join(map(str, version)) for version in (_OLDEST[name], found))
        raise ConfigurationError(f"hookrow needs {_NAMES[name]} {wanted} or later; this is {have}.")


def begin(connection: Connection) -> None:
    """Begin a transaction with time limits, also on a connection that is lent.

    SQLite's driver would begin one only at the first write, and then fail where
    another writer came between: BEGIN IMMEDIATE waits for its turn first.
    """
    if connection.dialect.driver == "psycopg":
        # The driver sends no BEGIN of its own then, which would be a round trip more. It
        # ends ours all the same, for it asks the server: psycopg2, say, would not.
        connection.execution_options(isolation_level="AUTOCOMMIT")
        connection.exec_driver_sql(f"BEGIN; {_LIMITS}")
    elif connection.dialect.name == "postgresql":
        connection.execution_options(isolation_level="READ COMMITTED")
        connection.exec_driver_sql(_LIMITS)
    elif not getattr(connection.connection.dbapi_connection, "in_transaction", False):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


_LIMITS = set_limits(prepared=True)


def _parsed(url: str | URL) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    # An @ in the host belongs to the password, where it is written %40.
    if parsed is None or "@" in (parsed.host or ""):
        raise ConfigurationError(
            "This is no database URL: write for example sqlite:///hookrow.db "
            "or postgresql://user@host/database."
        )
    if parsed.drivername in {"postgres", "postgresql"}:
        return parsed.set(drivername="postgresql+psycopg")
    return parsed


def _postgres(url: URL) -> Engine:
    driver = url.get_dialect().driver
    return create_engine(
        url,
        hide_parameters=True,
        pool_timeout=CONNECT_TIMEOUT,
        connect_args={
            "connect_timeout": CONNECT_TIMEOUT,
            "tcp_user_timeout": STATEMENT_TIMEOUT * 1000,
            "keepalives_idle": STATEMENT_TIMEOUT,
            "keepalives_interval": 1,
            "keepalives_count": STATEMENT_TIMEOUT,
            # A pooler may give the next statement to a server that has none of ours prepared.
            **({"prepare_threshold": None} if driver == "psycopg" else {}),
        },
    )


def _sqlite(url: URL) -> Engine:
    if url.database in {None, "", ":memory:"}:
        raise ConfigurationError(
            "An SQLite database in memory is gone with its connection: name a file, "
            "or lend an engine that keeps it."
        )
    engine = create_engine(
        url,
        hide_parameters=True,
        pool_timeout=CONNECT_TIMEOUT,
        connect_args={"timeout": LOCK_TIMEOUT},
    )
    event.listen(engine, "do_connect", _refuse_read_only)
    event.listen(engine, "connect", _set_pragmas)
    return engine


def _refuse_read_only(
    _dialect: object, _record: object, names: Sequence[str], _options: object
) -> None:
    """Open no file that cannot be written: SQLite would not notice when it can be again."""
    if Path(names[0]).exists() and not os.access(names[0], os.W_OK):
        raise sqlite3.OperationalError("the file cannot be written")


def _set_pragmas(connection: sqlite3.Connection, _record: object) -> None:
    connection.executescript("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;")
    until = monotonic() + LOCK_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # SQLite itself waits for its turn to write, but not for its turn to switch.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > until:
                raise
            sleep(0.01)
        else:
            return
