"""SQLAlchemy's engines for what works on them: Alembic, and an application's own queries."""

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
    """Make an engine for the database that a store of this URL has, with time limits set.

    Raises `ConfigurationError` for another database or no URL at all, and `MissingExtra` if the
    driver is not installed.
    """
    database = open_database(url)
    if isinstance(database, SQLiteDatabase):
        engine = create_engine(
            URL.create("sqlite", database=str(database.file)),
            hide_parameters=True,
            connect_args={"timeout": LOCK_TIMEOUT},
        )
        event.listen(engine, "connect", _connected)
        return engine
    assert isinstance(database, PostgresDatabase)  # noqa: S101 - for mypy: of a URL there is no other
    options = {name: str(value) for name, value in database.options.items()}
    login = {field: options.pop(name, None) for field, name in _LOGIN.items()}
    parsed = URL.create("postgresql+psycopg", **login, query=options)  # type: ignore[arg-type] # texts
    return create_engine(parsed, hide_parameters=True, connect_args=OPTIONS)


_LOGIN = {"username": "user", "password": "password", "database": "dbname"}
"""What a URL has besides a query, by SQLAlchemy's names and libpq's."""


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    """Make an engine for a while, as `open_engine` does."""
    engine = open_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


def _connected(connection: sqlite3.Connection, _record: object) -> None:
    set_pragmas(connection)
