"""Translates the errors of drivers and of SQLAlchemy into a `StoreError`.

The texts are safe to log. A database's own message may quote a row, so a text contains only the
error's class and code, and the names of a constraint and a table.
"""

from __future__ import annotations

import re
import sqlite3

from hookrow.stores import (
    AccessDenied,
    Conflict,
    Locked,
    Rejected,
    SchemaChanged,
    StoreError,
    Unavailable,
)

_KINDS: dict[str | int, type[StoreError]] = {
    "40001": Conflict,  # serialization_failure
    "40P01": Conflict,  # deadlock_detected
    "26000": Conflict,  # invalid_sql_statement_name: the session lost its prepared statements
    "55P03": Locked,  # lock_not_available
    "57014": Locked,  # query_canceled, by statement_timeout: most often behind a lock
    "08": Unavailable,  # connection exception
    "25": Unavailable,  # invalid transaction state: a standby, for example
    "28": Unavailable,  # invalid authorization specification
    "3D": Unavailable,  # invalid catalog name
    "53": Unavailable,  # insufficient resources
    "57P": Unavailable,  # operator intervention: shutdown, crash
    "58": Unavailable,  # system error
    "F0": Unavailable,  # configuration file error
    "XX": Unavailable,  # internal error
    "3F": SchemaChanged,  # invalid schema name
    "42": SchemaChanged,  # syntax error or access rule violation: undefined table or column
    sqlite3.SQLITE_BUSY: Conflict,
    sqlite3.SQLITE_LOCKED: Conflict,
    sqlite3.SQLITE_PROTOCOL: Conflict,  # another process opened or closed the file
    sqlite3.SQLITE_SCHEMA: Conflict,
    sqlite3.SQLITE_INTERRUPT: Locked,  # by a time limit
    sqlite3.SQLITE_CANTOPEN: Unavailable,
    sqlite3.SQLITE_IOERR: Unavailable,
    sqlite3.SQLITE_FULL: Unavailable,
    sqlite3.SQLITE_READONLY: Unavailable,
    sqlite3.SQLITE_CORRUPT: Unavailable,
    sqlite3.SQLITE_NOTADB: Unavailable,
    sqlite3.SQLITE_NOMEM: Unavailable,
    sqlite3.SQLITE_ERROR: SchemaChanged,  # errors such as "no such table" have no specific code
}
"""By SQLSTATE or its first characters (PostgreSQL's manual, appendix A), or by SQLite's primary
result code (https://sqlite.org/rescode.html).

Any other error concerns one statement and its data: `Rejected`.
"""

_REMEDIES = {
    sqlite3.SQLITE_CANTOPEN: "Create its directory, and give this user write access to it.",
    sqlite3.SQLITE_READONLY: "Give this user write access to the file and its directory.",
    sqlite3.SQLITE_FULL: "Free space on the disk.",
    sqlite3.SQLITE_CORRUPT: "The file is damaged: restore it from a backup, or recover its rows "
    "with the sqlite3 shell's .recover.",
    sqlite3.SQLITE_NOTADB: "Name another file, or restore this one from a backup.",
}
"""The remedies for errors of SQLite that concern the file."""

UNWRITABLE = (UnicodeError, OverflowError)
"""Errors of a driver that cannot encode a value as a parameter."""

_STATEMENT_ERRORS = {
    *("DataError", "IntegrityError", "NotSupportedError", "ProgrammingError"),
    "StatementError",
}
"""Errors that a driver (PEP 249) or SQLAlchemy raises about a statement or its values."""

_NEEDS_SEVERAL_STATEMENTS = {
    "0A000",  # feature_not_supported: a rule turns a part into several statements
    "27000",  # triggered_data_change_violation: a trigger changes a row that another part changes
}
"""SQLSTATEs of tables that can be changed only in several statements."""

_FAILED_CHECK = "22012"  # division_by_zero
"""The SQLSTATE of the check at the end of a statement; see `updates.combined`."""

_STATES = {
    "25006": "the server is read-only: a standby, or default_transaction_read_only is on",
    "53100": "the disk of the server is full",
    "57P03": "the server is starting or shutting down",
}
"""The meaning of some SQLSTATEs: the server's own messages may be translated, or quote a row."""

_DENIED = re.compile(
    r"\w+ authentication failed[^\n]*|fe_sendauth: no password supplied|"
    r'(role|database) "[^\n]*" (does not exist|is not permitted to log in)|'
    r"(no )?pg_hba\.conf (entry|rejects)[^\n]*|permission denied for database[^\n]*"
)
"""PostgreSQL's messages, in English, about a refused login, whose error has no SQLSTATE."""

_SQLITE_CONSTRAINT = re.compile(r"[A-Z ]+ constraint failed: ([\w$ .,]{1,130})")
"""SQLite's message about a constraint: with its name, or with its columns."""

_IDENTIFIER = re.compile(r"[\w$ :-]{1,63}")


def store_error(error: BaseException) -> StoreError:
    """Return the `StoreError` for an error of a driver or of SQLAlchemy, with a loggable text."""
    error = _driver_error(error)
    if state := _sqlstate(error):
        kind = Conflict if _is_stale_plan(error) else _kind(state, state[:3], state[:2])
        meaning = f": {_STATES[state]}" if state in _STATES else ""
        return kind(" ".join([type(error).__name__, state, *_names(error)]) + meaning)
    kind = _kind_without_sqlstate(error)
    if kind is Rejected or kind is SchemaChanged:
        return kind(_describe_sqlite(error))
    if kind is Unavailable and (denied := _DENIED.search(str(error))):
        return AccessDenied(
            f"The database refuses the connection: {denied[0]}. Check the user, the password and "
            "the name of the database in its URL: HOOKROW_DATABASE_URL, or your application's own."
        )
    if type(error).__module__.startswith("sqlalchemy"):  # whose texts may quote a value
        return kind(type(error).__name__)
    return kind(_described(error))


def is_of_session(error: BaseException) -> bool:
    """Return whether an error concerns the session or its server, which may stay useless."""
    cause = store_error(error)
    return isinstance(cause, Unavailable) and not isinstance(cause, SchemaChanged)


def message(error: StoreError) -> str:
    """Return the first line of the database's own message, for a terminal but never for a log."""
    if error.__cause__ is None:
        return str(error)
    return _described(_driver_error(error.__cause__))


def refuses_one_statement(error: BaseException) -> bool:
    """Return whether the tables can be changed, but only in several statements."""
    error = _driver_error(error)
    return _sqlstate(error) in _NEEDS_SEVERAL_STATEMENTS and not _is_stale_plan(error)


def failed_check(error: BaseException) -> bool:
    """Return whether a combined statement found that it did not lock or change each row.

    A host's trigger may raise the same error; in separate statements, it does so again.
    """
    return _sqlstate(_driver_error(error)) == _FAILED_CHECK


def _is_stale_plan(error: BaseException) -> bool:
    """Return whether a prepared statement no longer fits its tables; a new one will.

    PostgreSQL's message, "cached plan must not change result type", may be translated; the name of
    the function that raises it is not.
    """
    function: object = getattr(getattr(error, "diag", None), "source_function", None)
    return function == "RevalidateCachedQuery"


def _driver_error(error: BaseException) -> BaseException:
    """Return the driver's error that one of SQLAlchemy or Django wraps, or the error itself."""
    if type(error).__module__ == "django.db.utils":
        return error.__cause__ or error
    is_wrapped = "DBAPIError" in {each.__name__ for each in type(error).__mro__}
    return (is_wrapped and getattr(error, "orig", None)) or error


def _described(error: BaseException) -> str:
    """Return the error's class, the first line of its text, and a remedy if there is one."""
    line = str(error).strip().partition("\n")[0]
    text = f"{type(error).__name__}: {line}"
    remedy = _REMEDIES.get(_sqlite_code(error))
    return f"{text}. {remedy}" if remedy else text


def _kind(*codes: str | int) -> type[StoreError]:
    return next((_KINDS[code] for code in codes if code in _KINDS), Rejected)


def _kind_without_sqlstate(error: BaseException) -> type[StoreError]:
    if code := _sqlite_code(error):
        return _kind(code)
    is_of_statement = _STATEMENT_ERRORS & {each.__name__ for each in type(error).__mro__}
    if is_of_statement or isinstance(error, UNWRITABLE):
        return Rejected
    return Unavailable  # the connection, or the attempt to make one


def _sqlite_code(error: BaseException) -> int:
    """Return SQLite's primary result code, or 0."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def _sqlstate(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or ""


def _names(error: BaseException) -> list[str]:
    """Return the names of the constraint and the table, but no other text set by a trigger."""
    diagnosis = getattr(error, "diag", None)
    named = ((kind, getattr(diagnosis, f"{kind}_name", None)) for kind in ("constraint", "table"))
    return [f"{kind} {name}" for kind, name in named if name and _IDENTIFIER.fullmatch(name)]


def _describe_sqlite(error: BaseException) -> str:
    """Return the error's class, its code and the constraint, but no text of a trigger."""
    parts = [type(error).__name__]
    if name := getattr(error, "sqlite_errorname", ""):
        parts.append(name)
    failed = _SQLITE_CONSTRAINT.fullmatch(str(error))
    if failed and name != "SQLITE_CONSTRAINT_TRIGGER":
        parts.append(f"constraint {failed[1]}")
    return " ".join(parts)
