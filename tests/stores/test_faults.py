"""What a database's error means, by what is done about it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest
from contract import NOON, arrival, fill, insistent, opens, statuses
from django_home import DjangoHome
from homes import OURS, SQLHome, connect
from sqlalchemy import exc, text
from sqlalchemy.exc import SQLAlchemyError, StatementError

from hookrow import Suppressed
from hookrow.stores import (
    Conflict,
    Locked,
    Rejected,
    SchemaChanged,
    StoreError,
    Unavailable,
)
from hookrow.stores.causes import cause
from hookrow.stores.engines import opened
from hookrow.stores.faults import fault


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exc.TimeoutError("no connection is free"), Unavailable),
        (StatementError("a value that its type refuses", None, None, TypeError()), Rejected),
    ],
    ids=["pool", "type"],
)
def test_errors_that_no_database_sent(error: SQLAlchemyError, kind: type[StoreError]) -> None:
    """They are told by their name alone, for their text may quote a value."""
    assert type(fault(error)) is kind
    assert str(fault(error)) == type(error).__name__


def test_a_value_that_the_driver_refuses(postgres_url: str) -> None:
    """PostgreSQL takes no NUL, and its driver says so without a SQLSTATE: the data is at fault."""
    with opened(postgres_url) as engine, engine.connect() as connection:
        with pytest.raises(SQLAlchemyError) as raised:
            connection.execute(text("SELECT CAST(:email AS text)"), {"email": "ada\0@example.com"})
        assert type(fault(raised.value)) is Rejected
        assert "ada" not in str(fault(raised.value))


@pytest.mark.parametrize(
    ("states", "kind"),
    [
        ("08000 08P01 25006 28P01 3D000 53100 53200 57P01 57P03 58030 F0000 XX000", Unavailable),
        ("42P01 42703 42501 3F000", SchemaChanged),
        ("40001 40P01 26000", Conflict),
        ("55P03 57014", Locked),
        ("AB001 0A000 21000 22P02 23514 27000 2F002 38000 54000 55000 57000 P0001 HV000", Rejected),
    ],
)
def test_every_other_state_is_of_one_statement(states: str, kind: type[StoreError]) -> None:
    """Only the SQLSTATEs of a database that cannot work at all stop the store."""
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
    """SQLite's codes, extended ones included, are classified in the same way."""
    for name in names.split():
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = getattr(sqlite3, f"SQLITE_{name}")
        assert type(cause(error)) is kind


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (psycopg.OperationalError, Unavailable),
        (psycopg.InterfaceError, Unavailable),
        (psycopg.DataError, Rejected),
        (psycopg.ProgrammingError, Rejected),
        (sqlite3.ProgrammingError, Rejected),
        (sqlite3.OperationalError, Unavailable),
    ],
    ids=lambda value: f"{value.__module__}.{value.__name__}",
)
def test_errors_without_a_code(make: type[Exception], kind: type[StoreError]) -> None:
    """A driver's own errors are the connection's or the statement's, by their class."""
    assert type(cause(make("ada@example.com"))) is kind


_BROKEN = {
    "sqlite": "CREATE TRIGGER t UPDATE ON hookrow_subscribers BEGIN DELETE FROM missing; END",
    "postgres": """
        CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN DELETE FROM missing; END';
        CREATE TRIGGER t BEFORE UPDATE ON hookrow_subscribers FOR EACH ROW EXECUTE FUNCTION f()
    """,
}


@pytest.mark.parametrize("home", [SQLHome, DjangoHome])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_kind_of_row_that_cannot_be_changed(
    home: type[SQLHome], kind: str, new_database: Callable[[str], str]
) -> None:
    """Its notifications fail, and are kept so; those of other rows are recorded beside them."""
    url = new_database(kind)
    with closing(home(url, OURS)) as made:
        fill(made)
        engine = connect(url)
        with engine.begin() as connection:
            connection.exec_driver_sql(_BROKEN[kind])
        engine.dispose()
        suppressed = arrival(Suppressed("ada@example.com", None, NOON, "HardBounce"))
        seen = replace(arrival(opens("ada@example.com", "m-ada")), body=b"another")
        record = insistent(made.store)
        assert statuses(record([suppressed, seen])) == [503, 200]
        assert statuses(record([seen])) == [200]
        ends = {row["record_type"]: row["outcome"] for row in made.logged()}
        assert ends == {"SubscriptionChange": "failed", "Open": "recorded"}
