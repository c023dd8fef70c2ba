"""SQLAlchemy engines on the tests' databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, create_engine, event, make_url

from hookrow.stores.sql.sqlite import set_pragmas


def open_engine(url: str) -> Engine:
    """Create an engine, which on SQLite connects as hookrow does."""
    parsed = make_url(url)
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    engine = create_engine(parsed)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _connected)
    return engine


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    """Open an engine, and dispose of it at the end of the block."""
    engine = open_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


def _connected(connection: sqlite3.Connection, _record: object) -> None:
    set_pragmas(connection)
