"""SQLAlchemy engines for an application that has none of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL, Engine, create_engine, event

from hookrow.stores.sql.postgres import OPTIONS, PostgresDatabase
from hookrow.stores.sql.sqlite import SQLiteDatabase, set_pragmas
from hookrow.stores.sql.urls import open_database
from hookrow.stores.timeouts import LOCK_TIMEOUT


def open_engine(url: str | URL) -> Engine:
    """Create an engine with time limits for the database that a store of this URL uses.

    Raises `ConfigurationError` for another database or text that is no URL, and `MissingExtra`
    if the driver is not installed.
    """
    database = open_database(url)
    if isinstance(database, SQLiteDatabase):
        parsed = URL.create("sqlite", database=str(database.file))
        limits = {"timeout": LOCK_TIMEOUT}
        engine = create_engine(parsed, hide_parameters=True, connect_args=limits)
        event.listen(engine, "connect", _connected)
        return engine
    assert isinstance(database, PostgresDatabase)  # noqa: S101 - for mypy: there are only two
    options = {name: str(value) for name, value in database.options.items()}
    login = {ours: options.pop(libpq, None) for ours, libpq in _LOGIN.items()}
    parsed = URL.create("postgresql+psycopg", **login, query=options)  # type: ignore[arg-type] # texts
    return create_engine(parsed, hide_parameters=True, connect_args=OPTIONS)


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    """Open an engine as `open_engine` does, and dispose of it at the end of the block."""
    engine = open_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


_LOGIN = {"username": "user", "password": "password", "database": "dbname"}
"""SQLAlchemy's names for what is not in a URL's query, and libpq's."""


def _connected(connection: sqlite3.Connection, _record: object) -> None:
    set_pragmas(connection)
