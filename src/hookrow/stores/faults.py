"""What a database's error means: which `StoreError` it is.

Nothing that may quote a row leaves this module: what it returns is for a log.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    SQLAlchemyError,
    StatementError,
)

from hookrow.stores import Conflict, Locked, Rejected, StoreError, Unavailable

_POSTGRES_FAULTS: dict[str, type[StoreError]] = {
    "40001": Conflict,  # serialization_failure
    "40P01": Conflict,  # deadlock_detected
    "55P03": Locked,  # lock_not_available
    "57014": Locked,  # query_canceled, by statement_timeout: most often behind a lock
    "22": Rejected,  # data exception
    "23": Rejected,  # integrity constraint violation
    "44": Rejected,  # WITH CHECK OPTION violation
    "P0": Rejected,  # raised by a trigger of the host's
}
"""By SQLSTATE or its class: PostgreSQL's manual, appendix A."""

_SQLITE_FAULTS: dict[int, type[StoreError]] = {
    sqlite3.SQLITE_BUSY: Conflict,
    sqlite3.SQLITE_LOCKED: Conflict,
    sqlite3.SQLITE_CONSTRAINT: Rejected,
    sqlite3.SQLITE_MISMATCH: Rejected,
    sqlite3.SQLITE_TOOBIG: Rejected,
}
"""By primary result code: https://sqlite.org/rescode.html."""


@contextmanager
def faults() -> Iterator[None]:
    """Raise a `StoreError` for what SQLAlchemy or the driver raises in the block."""
    try:
        yield
    except SQLAlchemyError as error:
        raise fault(error) from error
    except (UnicodeError, OverflowError) as error:  # the driver cannot write a value
        raise Rejected(type(error).__name__) from error


def fault(error: SQLAlchemyError) -> StoreError:
    """Return what the error means to us, with nothing in its text that a log must not hold."""
    if not isinstance(error, DBAPIError):
        # A StatementError that is none is a value that its type will not write.
        return (Rejected if isinstance(error, StatementError) else Unavailable)(
            type(error).__name__
        )
    orig = error.orig
    kind = _postgres_fault(orig) or _sqlite_fault(orig)
    if kind is None and isinstance(error, DataError | IntegrityError):
        kind = Rejected  # by the driver, before the database saw it
    if kind is Rejected:
        # The database's own words may quote the row.
        return Rejected(f"{type(orig).__name__} {_sqlstate(orig)}".strip())
    message = str(orig).strip().partition("\n")[0]
    return (kind or Unavailable)(f"{type(orig).__name__}: {message}")


def _sqlstate(orig: BaseException | None) -> str:
    return getattr(orig, "sqlstate", None) or getattr(orig, "pgcode", None) or ""


def _postgres_fault(orig: BaseException | None) -> type[StoreError] | None:
    state = _sqlstate(orig)
    return _POSTGRES_FAULTS.get(state) or _POSTGRES_FAULTS.get(state[:2])


def _sqlite_fault(orig: BaseException | None) -> type[StoreError] | None:
    code: int = getattr(orig, "sqlite_errorcode", 0)
    return _SQLITE_FAULTS.get(code & 0xFF)
