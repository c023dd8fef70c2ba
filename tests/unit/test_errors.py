"""Errors: what they say to do, and what those of a database mean to the store."""

import importlib
import sqlite3
import sys

import psycopg
import pytest
from sqlalchemy import exc

from hookrow import ConfigurationError, HookrowError, MissingExtra, SchemaMismatch
from hookrow.stores import (
    AccessDenied,
    Conflict,
    Locked,
    Rejected,
    SchemaChanged,
    StoreError,
    Unavailable,
)
from hookrow.stores.errors import store_error


def test_each_error_is_the_configurations_or_a_stores() -> None:
    assert issubclass(ConfigurationError, HookrowError)
    assert issubclass(StoreError, HookrowError)
    for kind in (SchemaMismatch, MissingExtra):
        assert issubclass(kind, ConfigurationError)
        assert not issubclass(kind, StoreError)
    assert issubclass(MissingExtra, ImportError)
    for store_kind in (Conflict, Locked, Rejected, Unavailable):
        assert issubclass(store_kind, StoreError)
        assert not issubclass(store_kind, ConfigurationError)


@pytest.mark.parametrize(
    ("module", "missing", "install"),
    [
        ("fastapi", "fastapi", "fastapi"),
        ("flask", "flask", "flask"),
        ("django", "django", r"'hookrow\[django\]'"),
        ("dashboard", "jinja2", r"'hookrow\[dashboard\]'"),
        ("cli", "click", r"'hookrow\[serve\]'"),
        ("metrics", "prometheus_client", r"'hookrow\[metrics\]'"),
        ("observability.endpoint", "prometheus_client", r"'hookrow\[metrics\]'"),
        ("tracing", "opentelemetry", r"'hookrow\[tracing\]'"),
    ],
)
def test_a_module_without_its_package_says_how_to_install_it(
    module: str, missing: str, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [*sys.modules]:
        if f"{name}.".startswith(
            (f"{missing}.", f"hookrow.{module}.", f"hookrow.observability.{module}.")
        ):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigurationError, match=f"pip install {install}$"):
        importlib.import_module(f"hookrow.{module}")


# -- of a database, by what the store does about them ----------------------------------


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exc.TimeoutError("no connection is free"), Unavailable),
        (exc.StatementError("a value that its type refuses", None, None, TypeError()), Rejected),
    ],
)
def test_sqlalchemys_errors_are_named_by_class(
    error: exc.SQLAlchemyError, kind: type[StoreError]
) -> None:
    """Their text may quote a value."""
    assert str(store_error(error)) == type(error).__name__
    assert type(store_error(error)) is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (psycopg.OperationalError("ada@example.com"), Unavailable),
        (psycopg.DataError("ada@example.com"), Rejected),
        (sqlite3.ProgrammingError("ada@example.com"), Rejected),
        (sqlite3.OperationalError("ada@example.com"), Unavailable),
    ],
)
def test_without_a_code(error: Exception, kind: type[StoreError]) -> None:
    assert type(store_error(error)) is kind


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
def test_postgresql_by_sqlstate(states: str, kind: type[StoreError]) -> None:
    for state in states.split():
        error = Exception("ada@example.com")
        error.sqlstate = state  # type: ignore[attr-defined] # as psycopg's errors have one
        assert type(store_error(error)) is kind
        assert str(store_error(error)) == f"Exception {state}"


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ("CANTOPEN IOERR FULL READONLY CORRUPT NOTADB NOMEM IOERR_WRITE", Unavailable),
        ("BUSY LOCKED BUSY_SNAPSHOT PROTOCOL SCHEMA", Conflict),
        ("CONSTRAINT MISMATCH TOOBIG AUTH RANGE CONSTRAINT_TRIGGER", Rejected),
        ("ERROR", SchemaChanged),
    ],
)
def test_sqlite_by_result_code(names: str, kind: type[StoreError]) -> None:
    for name in names.split():
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = getattr(sqlite3, f"SQLITE_{name}")
        assert type(store_error(error)) is kind


@pytest.mark.parametrize(
    "says",
    [
        'password authentication failed for user "ada"',
        'Peer authentication failed for user "ada"',
        'role "ada" is not permitted to log in',
        "fe_sendauth: no password supplied",
        'pg_hba.conf rejects connection for host "10.0.0.1", user "ada"',
        'no pg_hba.conf entry for host "10.0.0.1", user "ada", database "mail", no encryption',
        'permission denied for database "mail"',
    ],
)
def test_access_denied(says: str) -> None:
    error = psycopg.OperationalError(f"connection failed: on port 5432 failed: FATAL:  {says}")
    denied = store_error(error)
    assert type(denied) is AccessDenied
    assert says in str(denied)
    assert "Check the user, the password" in str(denied)
