"""Errors: their remedies, and the classes of database errors."""

import importlib
import re
import sqlite3
import sys
from collections.abc import Callable
from importlib.metadata import metadata

import psycopg
import pymysql
import pytest
from sqlalchemy import exc

from hookrow import ConfigurationError
from hookrow.stores._driver_errors import failed_check, message, store_error
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
        *("providers.sendgrid", "cryptography"),
        *("hookrow.providers.sendgrid needs an extra", "'hookrow[signatures]'"),
    ),
    (
        *("stores.tables", "sqlalchemy"),
        *("hookrow.stores.tables needs an extra", "'hookrow[sqlalchemy]'"),
    ),
]
"""Modules that need a package: the module, the package, the message, and what to install."""

ELSEWHERE = {"mariadb", "postgres"}
"""Extras that no module needs when it is imported."""


def test_every_extra_is_in_the_table() -> None:
    listed = {install for *_, install in PACKAGES} | {f"'hookrow[{each}]'" for each in ELSEWHERE}
    extras = {*(metadata("hookrow").get_all("Provides-Extra") or ())} - {"all"}
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


def mariadb(number: str) -> Exception:
    """Return an error as PyMySQL raises it, with an SQLSTATE of any other kind."""
    error: Exception = pymysql.OperationalError(int(number), "ada@example.com")
    error.sqlstate = "25006"  # type: ignore[attr-defined] # as newer versions have one
    return error


@pytest.mark.parametrize(
    ("make", "codes", "kind"),
    [
        (mariadb, "1213 1020 1412 1614 1615 3101", Conflict),
        (mariadb, "1205 1317 1689 1969 3024 3177 3572", Locked),
        (mariadb, "1036 1207 1290 1792 1836 1874 3989", ReadOnly),
        (
            mariadb,
            "0 1021 1030 1040 1047 1053 1114 1152 1158 1180 1203 1226 1467 1665 1811 1927 3169",
            Unavailable,
        ),
        # Of the server's files, of plugins such as group replication, and of ProxySQL.
        (mariadb, "1 3 28 3100 3799 4031 9001 9006", Unavailable),
        (mariadb, "1054 1064 1142 1143 1146 1305 1356 1370 1449", SchemaChanged),
        (mariadb, "1048 1062 1105 1153 1264 1292 1364 1365 1366 1406 1442 1452 1644", Rejected),
        (mariadb, "500 2020 3819 4025 8999 9500 10000 30001", Rejected),
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
        (sqlite, "PERM NOLFS INTERNAL", Unavailable),
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
        if make is not sqlite:
            name = type(make(code)).__name__
            assert str(error).partition(": ")[0] == f"{name} {code}"


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


def test_message_that_is_not_the_driver_s() -> None:
    """The text that names a file or a server is shown, not that of the cause, which does not."""
    error = Unavailable("The certificates ca.pem cannot be used: No such file or directory.")
    error.__cause__ = FileNotFoundError(2, "No such file or directory")
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


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("could not connect: session is read-only", "session is read-only"),
        (
            "db1 failed: Connection refused\ndb2 failed: server is in hot standby mode",
            "server is in hot standby mode",
        ),
        (
            'connection to server at "db1", port 5432 failed: session is read-only\n',
            'connection to server at "db1", port 5432 failed: session is read-only',
        ),
    ],
)
def test_host_that_is_not_the_primary(message: str, text: str) -> None:
    """The client excludes it by `target_session_attrs`, without an SQLSTATE."""
    error = store_error(psycopg.OperationalError(message))
    assert type(error) is ReadOnly
    assert str(error) == f"OperationalError: {text}"


# -- of MariaDB and MySQL ---------------------------------------------------------------

FOREIGN_KEY = "Cannot delete or update a parent row: a foreign key constraint fails (`mail`.`c`,"


@pytest.mark.parametrize(
    ("number", "text", "expected"),
    [
        (1062, "Duplicate entry 'a' for key 'x'-b' for key 'people_email'", "people_email"),
        (1062, "Duplicate entry 'ada\n' for key 'people.people_email'", "people_email"),
        (
            1451,
            f"{FOREIGN_KEY} CONSTRAINT `c_fk` FOREIGN KEY (`pid`) REFERENCES `p` (`id`))",
            "c_fk",
        ),
        (4025, "CONSTRAINT `people.reason` failed for `mail`.`people`", "people.reason"),
        (3819, "Check constraint 'reason' is violated.", "reason"),
        (1062, "Duplicate entry of a trigger: ada", ""),
        (1644, "ada@example.com", ""),
    ],
)
def test_constraints(number: int, text: str, expected: str) -> None:
    """The text names the constraint, but quotes no row and no trigger's message."""
    cause = pymysql.IntegrityError(number, text)
    error = store_error(cause)
    assert type(error) is Rejected
    named = f" constraint {expected}" if expected else ""
    assert str(error) == f"IntegrityError {number}{named}"
    error.__cause__ = cause
    assert message(error) == f"IntegrityError: {text.partition(chr(10))[0]}"


@pytest.mark.parametrize(
    ("number", "text", "remedy"),
    [
        (1045, "Access denied for user 'ada'@'db'", "Check the user and the password in its URL"),
        (1049, "Unknown database 'mail'", "Check the name of the database in its URL"),
        (3159, "Connections using insecure transport are prohibited.", "Add ssl-mode=REQUIRED"),
        (
            2059,
            "Authentication plugin 'b'parsec'' not configured",
            "The driver does not support the",
        ),
        (4151, "Access denied, this account is locked", "Unlock the account"),
    ],
)
def test_refused_login(number: int, text: str, remedy: str) -> None:
    """The text says what to check, or what to do."""
    error = store_error(pymysql.OperationalError(number, text))
    assert type(error) is AccessDenied
    assert str(error).startswith(
        f"The database refuses the connection: {text.rstrip('.')}. {remedy}"
    )


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (2006, "MySQL server has gone away (BrokenPipeError(32, 'Broken pipe'))"),
        (2013, "Lost connection to MySQL server during query"),
        (2055, "Lost connection to MySQL server at 'reading', system error: 104"),
    ],
)
def test_lost_connection(number: int, text: str) -> None:
    """The text is the driver's own."""
    error = store_error(pymysql.OperationalError(number, text))
    assert type(error) is Unavailable
    assert str(error) == f"OperationalError: {text}"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('Got error 149 "Lock deadlock; Retry transaction" during COMMIT', Conflict),
        ('Got error 1490 "No space left on device" during COMMIT', Unavailable),
    ],
)
def test_failed_commit(text: str, kind: type[StoreError]) -> None:
    """A node of a cluster reports a conflict with another node when it commits."""
    assert type(store_error(pymysql.OperationalError(1180, text))) is kind


@pytest.mark.parametrize(("number", "expected"), [(1242, True), (1644, False), (1105, False)])
def test_failed_check(number: int, *, expected: bool) -> None:
    """Hookrow's own statement raises the error of a subquery with several rows."""
    assert failed_check(pymysql.OperationalError(number, "no")) is expected


def test_driver_of_a_wrapped_error() -> None:
    """An error that SQLAlchemy wraps belongs to its driver's family, whatever attributes it has."""
    error = exc.OperationalError("UPDATE", {}, mariadb("1205"))
    assert str(store_error(error)) == "OperationalError 1205"
