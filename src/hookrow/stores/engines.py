"""SQLAlchemy's engines for what works on them: Alembic, and an application's own queries."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL, Engine, create_engine, event, make_url

from hookrow.stores.sql.postgres import OPTIONS
from hookrow.stores.sql.sqlite import set_pragmas
from hookrow.stores.sql.urls import backend, open_database
from hookrow.stores.timeouts import LOCK_TIMEOUT


def open_engine(url: str | URL) -> Engine:
    """Make an engine for PostgreSQL (psycopg 3) or SQLite, with time limits set.

    Raises `ConfigurationError` for another database or no URL at all, and `MissingExtra` if the
    driver is not installed.
    """
    text = url if isinstance(url, str) else url.render_as_string(hide_password=False)
    open_database(text)
    if backend(text) == "sqlite":
        parsed = make_url(text).set(drivername="sqlite")
        engine = create_engine(parsed, hide_parameters=True, connect_args={"timeout": LOCK_TIMEOUT})
        event.listen(engine, "connect", _connected)
        return engine
    parsed = make_url(text.replace("postgres://", "postgresql://", 1))
    return create_engine(
        parsed.set(drivername="postgresql+psycopg"), hide_parameters=True, connect_args=OPTIONS
    )


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
