"""What a driver's error means: which `StoreError` it is, whatever library carried it here.

Nothing that may quote a row leaves this module: what it returns is for a log.
"""

from __future__ import annotations

import sqlite3

from hookrow.stores import Conflict, Locked, Rejected, StoreError, Unavailable

_POSTGRES_CAUSES: dict[str, type[StoreError]] = {
    "40001": Conflict,  # serialization_failure
    "40P01": Conflict,  # deadlock_detected
    "55P03": Locked,  # lock_not_available
    "57014": Locked,  # query_canceled, by statement_timeout: most often behind a lock
    "22": Rejected,  # data exception
    "23": Rejected,  # integrity constraint violation
    "44": Rejected,  # WITH CHECK OPTION violation
    "54": Rejected,  # program limit exceeded: a value that is too long for an index
    "P0": Rejected,  # raised by a trigger of the host's
}
"""By SQLSTATE or its class: PostgreSQL's manual, appendix A."""

_OF_THE_ROWS = {
    "0A",  # feature not supported: a view that no row can be changed through
    "21",  # cardinality violation
    "27",  # triggered data change violation
    "2F",  # SQL routine exception
    "38",  # external routine exception
    "39",  # external routine invocation exception
    "42",  # access rule violation: no UPDATE right, a generated column, a trigger's own
    "55",  # object not in prerequisite state: as 0A
}
"""Classes of what a table, its triggers or our rights on it forbid, while others may be changed."""

_SQLITE_CAUSES: dict[int, type[StoreError]] = {
    sqlite3.SQLITE_BUSY: Conflict,
    sqlite3.SQLITE_LOCKED: Conflict,
    sqlite3.SQLITE_CONSTRAINT: Rejected,
    sqlite3.SQLITE_MISMATCH: Rejected,
    sqlite3.SQLITE_TOOBIG: Rejected,
}
"""By primary result code: https://sqlite.org/rescode.html."""


def cause(orig: BaseException | None, *, data: bool, saving: bool = False) -> StoreError:
    """Return what a driver's error means to us, with nothing that a log must not hold.

    `data` says that the library which carried it takes the data for the fault, which
    counts where the database itself did not see it. `saving` says that rows were found
    and were being changed: what the database then does not do at all it may yet do for
    rows of another kind.
    """
    rejected = data or (saving and _is_of_the_rows(orig))
    kind = _postgres(orig) or _sqlite(orig) or (Rejected if rejected else Unavailable)
    if kind is Rejected:
        # The database's own words may quote the row.
        return Rejected(f"{type(orig).__name__} {_sqlstate(orig)}".strip())
    message = str(orig).strip().partition("\n")[0]
    return kind(f"{type(orig).__name__}: {message}")


def _sqlstate(orig: BaseException | None) -> str:
    return getattr(orig, "sqlstate", None) or getattr(orig, "pgcode", None) or ""


def _postgres(orig: BaseException | None) -> type[StoreError] | None:
    state = _sqlstate(orig)
    return _POSTGRES_CAUSES.get(state) or _POSTGRES_CAUSES.get(state[:2])


def _sqlite(orig: BaseException | None) -> type[StoreError] | None:
    return _SQLITE_CAUSES.get(_sqlite_code(orig))


def _sqlite_code(orig: BaseException | None) -> int:
    code: int = getattr(orig, "sqlite_errorcode", 0)
    return code & 0xFF


def _is_of_the_rows(orig: BaseException | None) -> bool:
    # SQLITE_ERROR is a statement that means nothing to it: a view, or a trigger at fault.
    return _sqlstate(orig)[:2] in _OF_THE_ROWS or _sqlite_code(orig) == sqlite3.SQLITE_ERROR
