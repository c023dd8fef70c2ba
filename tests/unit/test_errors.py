"""Errors: their remedies, and the classes of database errors."""

import importlib
import re
import sqlite3
import sys
from collections.abc import Callable
from importlib.metadata import metadata

import psycopg
import pytest
from sqlalchemy import exc

from hookrow import ConfigurationError
from hookrow.stores._driver_errors import message, store_error
from hookrow.stores._errors import (
    AccessDenied,
    Conflict,
    Locked,
    ReadOnly,
    Rejected,
    SchemaChanged,
    StoreError,
    Unavailable,
)

PACKAGES = [
    ("fastapi", "fastapi", "hookrow.fastapi needs FastAPI", "fastapi"),
    ("flask", "flask", "hookrow.flask needs Flask", "flask"),
    ("django", "django", "A Django project needs an extra", "'hookrow[django]'"),
    ("dashboard", "jinja2", "The dashboard needs an extra", "'hookrow[dashboard]'"),
    ("_cli", "click", "The command needs an extra", "'hookrow[serve]'"),
    ("metrics", "prometheus_client", "hookrow.metrics needs an extra", "'hookrow[metrics]'"),
    ("tracing", "opentelemetry", "hookrow.tracing needs an extra", "'hookrow[tracing]'"),
    (
        *("stores.tables", "sqlalchemy"),
        *("hookrow.stores.tables needs an extra", "'hookrow[sqlalchemy]'"),
    ),
]
"""Modules that need a package: the module, the package, the message, and what to install."""

ELSEWHERE = {"postgres"}
"""Extras that no module needs when it is imported; `test_databases.py` tests this one."""

NOT_FOR_HOSTS = {"all", "bench", "dev", "docs", "mutants"}


def test_every_extra_is_in_the_table() -> None:
    listed = {install for *_, install in PACKAGES} | {f"'hookrow[{each}]'" for each in ELSEWHERE}
    extras = {*(metadata("hookrow").get_all("Provides-Extra") or ())} - NOT_FOR_HOSTS
    assert extras
    assert {f"'hookrow[{each}]'" for each in extras} <= listed


@pytest.mark.parametrize(
    ("module", "package"), [(module, missing) for module, missing, *_ in PACKAGES]
)
def test_a_package_that_lacks_a_package_of_its_own(
    module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the other package, because installing this one again would not help."""
    for name in [*sys.modules]:
        if f"{name}.".startswith(
            (f"{package}.", f"hookrow.{module}.", f"hookrow._observability.{module}.")
        ):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Lacking(package), *sys.meta_path])
    with pytest.raises(ModuleNotFoundError, match="No module named 'another_package'"):
        importlib.import_module(f"hookrow.{module}")


class _Lacking:
    """A finder for a package whose import fails because of another package."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, *_: object) -> None:
        if name == self._package:
            raise ModuleNotFoundError("No module named 'another_package'", name="another_package")


@pytest.mark.parametrize(("module", "missing", "message", "install"), PACKAGES)
def test_a_module_without_its_package_message_how_to_install_it(
    module: str, missing: str, message: str, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = re.escape(f"{message}: pip install {install}")
    for name in [*sys.modules]:
        if f"{name}.".startswith(
            (f"{missing}.", f"hookrow.{module}.", f"hookrow._observability.{module}.")
        ):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigurationError, match=f"^{text}$"):
        importlib.import_module(f"hookrow.{module}")


# -- of a database, by what the store does about them ----------------------------------


def postgresql(sqlstate: str) -> Exception:
    """Return an error as psycopg raises it."""
    error = Exception("ada@example.com")
    error.sqlstate = sqlstate  # type: ignore[attr-defined] # as psycopg's errors have one
    return error


def sqlite(name: str) -> Exception:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = getattr(sqlite3, f"SQLITE_{name}")
    return error


@pytest.mark.parametrize(
    ("make", "codes", "kind"),
    [
        (
            postgresql,
            "08000 08006 08P01 25001 28P01 3D000 53100 53200 53300 57P01 57P03 58030 F0000 XX000",
            Unavailable,
        ),
        (postgresql, "25006", ReadOnly),
        (postgresql, "42P01 42703 42501 3F000", SchemaChanged),
        (postgresql, "40001 40P01 26000", Conflict),
        (postgresql, "55P03 57014", Locked),
        (postgresql, "AB001 0A000 21000 22001 22P02 23505 23514 27000 2F002 38000", Rejected),
        (postgresql, "44000 54000 55000 57000 P0001 HV000", Rejected),
        (sqlite, "CANTOPEN IOERR FULL READONLY CORRUPT NOTADB NOMEM IOERR_WRITE", Unavailable),
        (sqlite, "BUSY LOCKED BUSY_SNAPSHOT PROTOCOL SCHEMA", Conflict),
        (sqlite, "CONSTRAINT MISMATCH TOOBIG AUTH RANGE CONSTRAINT_TRIGGER", Rejected),
        (sqlite, "ERROR", SchemaChanged),
    ],
)
def test_errors_with_a_code(
    make: Callable[[str], Exception], codes: str, kind: type[StoreError]
) -> None:
    for code in codes.split():
        error = store_error(make(code))
        assert type(error) is kind
        assert make is sqlite or str(error).partition(": ")[0] == f"Exception {code}"


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("CANTOPEN", "Create its directory, and give this user write access to it."),
        ("READONLY", "Give this user write access to the file and its directory."),
        ("FULL", "Free space on the disk."),
    ],
)
def test_remedies_of_errors_of_a_file(code: str, remedy: str) -> None:
    cause = sqlite(code)
    error = store_error(cause)
    assert str(error) == f"OperationalError: disk I/O error. {remedy}"
    error.__cause__ = cause
    assert message(error) == str(error)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (psycopg.OperationalError("ada@example.com"), Unavailable),
        (psycopg.DataError("ada@example.com"), Rejected),
        (sqlite3.ProgrammingError("ada@example.com"), Rejected),
        (sqlite3.OperationalError("ada@example.com"), Unavailable),
        (exc.TimeoutError("no connection is free"), Unavailable),
        (exc.StatementError("a value that its type refuses", None, None, TypeError()), Rejected),
    ],
)
def test_errors_without_a_code(error: Exception, kind: type[StoreError]) -> None:
    """SQLAlchemy's are named by their class, because their text may quote a value."""
    assert type(store_error(error)) is kind
    if isinstance(error, exc.SQLAlchemyError):
        assert str(store_error(error)) == type(error).__name__


@pytest.mark.parametrize(
    "message",
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
def test_access_denied(message: str) -> None:
    error = psycopg.OperationalError(f"connection failed: on port 5432 failed: FATAL:  {message}")
    denied = store_error(error)
    assert type(denied) is AccessDenied
    assert message in str(denied)
    assert "Check the user, the password" in str(denied)
