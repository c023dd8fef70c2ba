"""What a database's error means, by what the store does about it."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest
from sqlalchemy import exc

from hookrow.stores import Conflict, Locked, Rejected, SchemaChanged, StoreError, Unavailable
from hookrow.stores.causes import cause
from hookrow.stores.faults import fault


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exc.TimeoutError("no connection is free"), Unavailable),
        (exc.StatementError("a value that its type refuses", None, None, TypeError()), Rejected),
        (psycopg.OperationalError("ada@example.com"), Unavailable),
        (psycopg.DataError("ada@example.com"), Rejected),
        (sqlite3.ProgrammingError("ada@example.com"), Rejected),
        (sqlite3.OperationalError("ada@example.com"), Unavailable),
    ],
    ids=lambda value: f"{type(value).__module__}.{type(value).__name__}",
)
def test_without_code(error: Exception, kind: type[StoreError]) -> None:
    """Errors without a code are about the connection or the statement.

    Those of SQLAlchemy itself are described by their class, as their text may quote a value.
    """
    if isinstance(error, exc.SQLAlchemyError):
        assert str(fault(error)) == type(error).__name__
        assert type(fault(error)) is kind
    else:
        assert type(cause(error)) is kind


@pytest.mark.parametrize(
    ("states", "kind"),
    [
        (
            "08000 08006 08P01 25006 28P01 3D000 53100 53200 53300 57P01 57P03 58030 F0000 XX000",
            Unavailable,
        ),
        ("42P01 42703 42501 3F000", SchemaChanged),
        ("40001 40P01 26000", Conflict),
        ("55P03 57014", Locked),
        ("AB001 0A000 21000 22001 22P02 23505 23514 27000 2F002 38000 44000", Rejected),
        ("54000 55000 57000 P0001 HV000", Rejected),
    ],
)
def test_postgresql(states: str, kind: type[StoreError]) -> None:
    """Every SQLSTATE has a meaning; the text contains the state, and nothing of the row."""
    for state in states.split():
        error = Exception("ada@example.com")
        error.sqlstate = state  # type: ignore[attr-defined] # as psycopg's errors have one
        assert type(cause(error)) is kind
        assert str(cause(error)) == f"Exception {state}"


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ("CANTOPEN IOERR FULL READONLY CORRUPT NOTADB NOMEM IOERR_WRITE", Unavailable),
        ("BUSY LOCKED BUSY_SNAPSHOT PROTOCOL SCHEMA", Conflict),
        ("CONSTRAINT MISMATCH TOOBIG AUTH RANGE CONSTRAINT_TRIGGER", Rejected),
        ("ERROR", SchemaChanged),
    ],
)
def test_sqlite(names: str, kind: type[StoreError]) -> None:
    """SQLite's result codes, including the extended ones, have the same meanings."""
    for name in names.split():
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = getattr(sqlite3, f"SQLITE_{name}")
        assert type(cause(error)) is kind
