"""Translates the errors of drivers and of SQLAlchemy into a `StoreError`.

The texts are safe to log. A database's own message may quote a row, so a text contains only the
error's class and code, and the names of a constraint and a table.
"""

from __future__ import annotations

import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Mapping

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

UNWRITABLE = (UnicodeError, OverflowError)
"""Errors of a driver that cannot encode a value as a parameter."""

_STATEMENT_ERRORS = {
    "DataError",
    "IntegrityError",
    "NotSupportedError",
    "ProgrammingError",
    "StatementError",
}
"""Errors that a driver (PEP 249) or SQLAlchemy raises about a statement or its values."""


class _Family(ABC):
    """The errors of the drivers of one database."""

    @abstractmethod
    def translate(self, error: BaseException) -> StoreError | None:
        """Return the `StoreError` for an error, or None for an error of another family."""

    def remedy(self, error: BaseException) -> str | None:  # noqa: ARG002 - most families have no such error
        """Return what to do about an error, if the database's message does not say it."""
        return None

    def refuses_one_statement(self, error: BaseException) -> bool:  # noqa: ARG002 - most families have no such error
        """Return whether the tables can be changed, but only in several statements."""
        return False

    def failed_check(self, error: BaseException) -> bool:  # noqa: ARG002 - most families have no such error
        """Return whether a statement found that it did not lock or change each row."""
        return False

    def lacks_operator(self, error: BaseException) -> bool:  # noqa: ARG002 - most families have no such error
        """Return whether the types in a statement have no operator, function or cast for it."""
        return False


class _PostgreSQLErrors(_Family):
    """The errors of psycopg and psycopg2, by SQLSTATE or its first characters.

    PostgreSQL's manual lists them in appendix A. An error with any other SQLSTATE concerns one
    statement and its data: `Rejected`.
    """

    KINDS: Mapping[str, type[StoreError]] = {
        "40001": Conflict,  # serialization_failure
        "40P01": Conflict,  # deadlock_detected
        "26000": Conflict,  # invalid_sql_statement_name: the session lost its prepared statements
        "55P03": Locked,  # lock_not_available
        "57014": Locked,  # query_canceled, by statement_timeout: most often behind a lock
        "08": Unavailable,  # connection exception
        "25006": ReadOnly,  # read_only_sql_transaction
        "25": Unavailable,  # invalid transaction state
        "28": Unavailable,  # invalid authorization specification
        "3D": Unavailable,  # invalid catalog name
        "53": Unavailable,  # insufficient resources
        "57P": Unavailable,  # operator intervention: shutdown, crash
        "58": Unavailable,  # system error
        "F0": Unavailable,  # configuration file error
        "XX": Unavailable,  # internal error
        "3F": SchemaChanged,  # invalid schema name
        "42": SchemaChanged,  # syntax error or access rule violation: undefined table or column
    }
    MEANINGS: Mapping[str, str] = {
        "25006": "the server is read-only: a standby, or default_transaction_read_only is on",
        "53100": "the disk of the server is full",
        "57P03": "the server is starting or shutting down",
    }
    """The meaning of some: the server's own messages may be translated, or quote a row."""
    NEEDS_SEVERAL_STATEMENTS = (
        "0A000",  # feature_not_supported: a rule turns a part into several statements
        "27000",  # triggered_data_change_violation: a trigger changes a row of another part
    )
    LACKS_OPERATOR = (
        "42725",  # ambiguous_function
        "42804",  # datatype_mismatch
        "42846",  # cannot_coerce
        "42883",  # undefined_function
    )
    FAILED_CHECK = "22012"  # division_by_zero, at the end of `PostgresStatements.combined`
    DENIED = re.compile(
        r"\w+ authentication failed[^\n]*|fe_sendauth: no password supplied|"
        r'(role|database) "[^\n]*" (does not exist|is not permitted to log in)|'
        r"(no )?pg_hba\.conf (entry|rejects)[^\n]*|permission denied for database[^\n]*"
    )
    """The messages, in English, about a refused login, whose error has no SQLSTATE."""
    IDENTIFIER = re.compile(r"[\w$ :-]{1,63}")

    def translate(self, error: BaseException) -> StoreError | None:
        """Describe the error by its code, its constraint and its table."""
        state = self._state(error)
        if not state:
            return self._refused_login(error)
        codes = (state, state[:3], state[:2])
        kind = next((self.KINDS[code] for code in codes if code in self.KINDS), Rejected)
        if self._is_stale_plan(error):
            kind = Conflict
        meaning = f": {self.MEANINGS[state]}" if state in self.MEANINGS else ""
        return kind(" ".join([type(error).__name__, state, *self._names(error)]) + meaning)

    def refuses_one_statement(self, error: BaseException) -> bool:
        """Decide by the SQLSTATE."""
        is_refusal = self._state(error) in self.NEEDS_SEVERAL_STATEMENTS
        return is_refusal and not self._is_stale_plan(error)

    def failed_check(self, error: BaseException) -> bool:
        """Decide by the SQLSTATE.

        A host's trigger may raise the same error; in separate statements, it does so again.
        """
        return self._state(error) == self.FAILED_CHECK

    def lacks_operator(self, error: BaseException) -> bool:
        """Decide by the SQLSTATE."""
        return self._state(error) in self.LACKS_OPERATOR

    def _refused_login(self, error: BaseException) -> AccessDenied | None:
        is_driver = type(error).__module__.startswith("psycopg")
        if not is_driver or _is_of_statement(error):
            return None
        denied = self.DENIED.search(str(error))
        if denied is None:
            return None
        return AccessDenied(
            f"The database refuses the connection: {denied[0]}. Check the user, the password and "
            "the name of the database in its URL: HOOKROW_DATABASE_URL, or your application's own."
        )

    def _state(self, error: BaseException) -> str:
        """Return the SQLSTATE, or an empty string."""
        return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or ""

    def _is_stale_plan(self, error: BaseException) -> bool:
        """Return whether a prepared statement no longer fits its tables; a new one will.

        The message, "cached plan must not change result type", may be translated; the name of the
        function that raises it is not.
        """
        function: object = getattr(getattr(error, "diag", None), "source_function", None)
        return function == "RevalidateCachedQuery"

    def _names(self, error: BaseException) -> list[str]:
        """Return the names of the constraint and the table, but no other text of a trigger."""
        diagnosis = getattr(error, "diag", None)
        kinds = ("constraint", "table")
        named = ((kind, getattr(diagnosis, f"{kind}_name", None)) for kind in kinds)
        return [
            f"{kind} {name}" for kind, name in named if name and self.IDENTIFIER.fullmatch(name)
        ]


class _SQLiteErrors(_Family):
    """The errors of the standard library's module, by SQLite's primary result code.

    https://sqlite.org/rescode.html lists them. An error with any other code concerns one statement
    and its data: `Rejected`.
    """

    KINDS: Mapping[int, type[StoreError]] = {
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
        sqlite3.SQLITE_ERROR: SchemaChanged,  # such as "no such table", without a specific code
    }
    REMEDIES: Mapping[int, str] = {
        sqlite3.SQLITE_CANTOPEN: "Create its directory, and give this user write access to it.",
        sqlite3.SQLITE_READONLY: "Give this user write access to the file and its directory.",
        sqlite3.SQLITE_FULL: "Free space on the disk.",
        sqlite3.SQLITE_CORRUPT: "The file is damaged: restore it from a backup, or recover its "
        "rows with the sqlite3 shell's .recover.",
        sqlite3.SQLITE_NOTADB: "Name another file, or restore this one from a backup.",
    }
    """The remedies for errors that concern the file."""
    CONSTRAINT = re.compile(r"[A-Z ]+ constraint failed: ([\w$ .,]{1,130})")
    """The message about a constraint: with its name, or with its columns."""

    def translate(self, error: BaseException) -> StoreError | None:
        """Describe the error by its message, unless that could be the text of a trigger."""
        code = self._code(error)
        if not code:
            return None
        kind = self.KINDS.get(code, Rejected)
        if kind is Rejected or kind is SchemaChanged:
            return kind(self._named(error))
        return kind(_described(error))

    def remedy(self, error: BaseException) -> str | None:
        """Return the remedy for an error that concerns the file."""
        return self.REMEDIES.get(self._code(error))

    def _code(self, error: BaseException) -> int:
        """Return the primary result code, or 0."""
        code: int = getattr(error, "sqlite_errorcode", 0)
        return code & 0xFF

    def _named(self, error: BaseException) -> str:
        """Return the error's class, its code and the constraint, but no text of a trigger."""
        name = getattr(error, "sqlite_errorname", "")
        parts = [type(error).__name__, name]
        failed = self.CONSTRAINT.fullmatch(str(error))
        if failed and name != "SQLITE_CONSTRAINT_TRIGGER":
            parts.append(f"constraint {failed[1]}")
        return " ".join(filter(None, parts))


_FAMILIES: tuple[_Family, ...] = (_PostgreSQLErrors(), _SQLiteErrors())


def store_error(error: BaseException) -> StoreError:
    """Return the `StoreError` for an error of a driver or of SQLAlchemy, with a loggable text."""
    error = _driver_error(error)
    for family in _FAMILIES:
        if (translated := family.translate(error)) is not None:
            return translated
    if _is_of_statement(error) or isinstance(error, UNWRITABLE):
        return Rejected(type(error).__name__)
    # It concerns the connection, or the attempt to make one.
    if type(error).__module__.startswith("sqlalchemy"):  # whose texts may quote a value
        return Unavailable(type(error).__name__)
    return Unavailable(_described(error))


def is_of_session(error: BaseException) -> bool:
    """Return whether an error concerns the session or its server, so that both may stay useless."""
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
    return any(family.refuses_one_statement(error) for family in _FAMILIES)


def failed_check(error: BaseException) -> bool:
    """Return whether a combined statement found that it did not lock or change each row."""
    error = _driver_error(error)
    return any(family.failed_check(error) for family in _FAMILIES)


def lacks_operator(error: BaseException) -> bool:
    """Return whether the types in a statement cannot be compared, converted or used as it does."""
    error = _driver_error(error)
    return any(family.lacks_operator(error) for family in _FAMILIES)


def _driver_error(error: BaseException) -> BaseException:
    """Return the driver's error that one of SQLAlchemy or Django wraps, or the error itself."""
    if type(error).__module__ == "django.db.utils":
        return error.__cause__ or error
    is_wrapped = "DBAPIError" in {each.__name__ for each in type(error).__mro__}
    return (is_wrapped and getattr(error, "orig", None)) or error


def _is_of_statement(error: BaseException) -> bool:
    return not _STATEMENT_ERRORS.isdisjoint(each.__name__ for each in type(error).__mro__)


def _described(error: BaseException) -> str:
    """Return the error's class, the first line of its text, and a remedy if there is one."""
    line = str(error).strip().partition("\n")[0]
    text = f"{type(error).__name__}: {line}"
    remedies = filter(None, (family.remedy(error) for family in _FAMILIES))
    return ". ".join([text, *remedies])
