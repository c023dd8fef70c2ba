"""The errors of stores, and small values that several of their modules need.

Stores find, lock and write rows, but decide nothing. The store is `sql.SQLStore`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from hookrow.core.notification import Key, RowId, Suppressible
from hookrow.errors import HookrowError

State: TypeAlias = Mapping[str, Any]
"""The columns of a row that notifications set, by hookrow's names."""

UNSUPPORTED_DATABASE = "hookrow works on PostgreSQL and SQLite, not on {}."
"""The error for unsupported databases."""


UNCHANGED_HINT = "Row-level security, a trigger or a rule may prevent it."
"""The possible causes of `Unchanged`, if another attempt has the same result."""


class StoreError(HookrowError):
    """A transaction failed and changed nothing, unless the connection was lost during the commit.

    Recording again is safe: guards and the log's fingerprints make a repetition harmless. The
    subclass determines what to do next.
    """


class Conflict(StoreError):
    """Another transaction interfered; a retry may succeed."""


class Locked(StoreError):
    """A row stayed locked for too long; the others may be saved without it."""


class WrongMapping(StoreError):
    """The log was written under another mapping, which may find other rows. Nothing is replayed."""


class Unchanged(StoreError):
    """The database did not lock, or did not change, a row that was found although its guard holds.

    Or it did not accept an entry of the log.

    The row may have been deleted meanwhile. Another attempt, in a transaction that is `checked`,
    shows whether the database ignores the change: because of row-level security, or a trigger.
    """


class Rejected(StoreError):
    """The database rejects the data; a retry cannot succeed."""


class Unavailable(StoreError):
    """The database cannot be reached, or cannot work at present."""


class ReadOnly(Unavailable):
    """The server accepts no changes now: a standby, for example."""


class AccessDenied(Unavailable):
    """The server responds but refuses the login: a wrong password, role or database."""


class SchemaChanged(Unavailable):
    """A statement does not fit the tables, which may have changed since they were verified.

    The statement may also be a trigger's; verifying the tables again shows whether it is.
    """


def by_kind(rows: Collection[RowId]) -> Mapping[Suppressible, Sequence[Key | tuple[Key, Key]]]:
    """Return the keys by kind, in the order of locking, omitting kinds that have none."""
    keys: dict[Suppressible, list[Key | tuple[Key, Key]]] = {kind: [] for kind in Suppressible}
    for kind, key in rows:
        keys[kind].append(key)
    return {kind: of_kind for kind, of_kind in keys.items() if of_kind}


def row_key(columns: Sequence[Key]) -> Key | tuple[Key, Key]:
    """Return the key in the form of `RowId`: one column by itself, two as a pair."""
    return (columns[0], columns[1]) if len(columns) > 1 else columns[0]
