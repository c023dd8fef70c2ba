"""The protocol of stores, which find, lock and write rows but decide nothing, and their errors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from hookrow.arguments import has_members, reject
from hookrow.core.log_entry import LogEntry
from hookrow.core.notification import (
    Change,
    Key,
    LookupKeys,
    RowId,
    Rows,
    Suppressible,
)
from hookrow.core.optional import Kinds
from hookrow.core.schema import Schema
from hookrow.errors import HookrowError
from hookrow.stores.census import Census
from hookrow.stores.log import LogReader
from hookrow.stores.suppressions import SuppressionReader

State: TypeAlias = Mapping[str, Any]
"""The columns of a row that notifications set, by hookrow's names."""

UNSUPPORTED_DATABASE = "hookrow works on PostgreSQL and SQLite, not on {}."
"""The error for unsupported databases."""


UNCHANGED_HINT = "Row-level security, a trigger or a rule may prevent it."
"""The possible causes of `Unchanged`, if another attempt has the same result."""


class StoreError(HookrowError):
    """A transaction failed and changed nothing. The subclass determines what to do next."""


class Conflict(StoreError):
    """Another transaction interfered; a retry may succeed."""


class Locked(StoreError):
    """A row stayed locked for too long; the others may be saved without it."""


class WrongMapping(StoreError):
    """The log was written under another mapping, which may find other rows. Nothing is replayed."""


class Unchanged(StoreError):
    """The database neither locked nor changed a row that was found, although its guard holds.

    The row may have been deleted meanwhile. Another attempt, in a transaction that is `checked`,
    shows whether the database ignores the change: because of row-level security, or a trigger.
    """


class Rejected(StoreError):
    """The database rejects the data; a retry cannot succeed."""


class Unavailable(StoreError):
    """The database cannot be reached, or cannot work at present."""


class AccessDenied(Unavailable):
    """The server responds but refuses the login: a wrong password, role or database."""


class SchemaChanged(Unavailable):
    """A statement does not fit the tables, which may have changed since they were verified.

    The statement may also be a trigger's; verifying the tables again shows whether it is.
    """


class Reading(Protocol):
    """A read-only view of the rows. It takes no locks and does not block writers."""

    def find(self, lookup: LookupKeys) -> Rows:
        """Find every row whose key `lookup` contains, in a fixed number of statements."""

    def read(self, rows: Collection[RowId]) -> Mapping[RowId, State]:
        """Read the columns that notifications set, with the changes made so far in the block."""


class Transaction(Reading, Protocol):
    """An atomic transaction: it is committed at the end of the block, or rolled back."""

    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Lock the rows, in the same order in every process.

        Return the rows locked by other transactions: none, unless locked rows are skipped.
        """

    def write(self, changes: Sequence[Change], entries: Sequence[LogEntry] = ()) -> None:
        """Lock the rows of the changes, apply the changes, and add the entries to the log.

        There is at most one change per row and column; each is applied only if its guard holds.
        There is at most one entry per fingerprint, and they are sorted by it. If the log already
        has an entry, the attempts are added to it, and the newer result replaces its own. Without
        a log, entries are ignored.
        """


class Store(Protocol):
    """Finds and writes rows in transactions."""

    @property
    def schema(self) -> Schema:
        """The mapping."""

    @property
    def log(self) -> LogReader | None:
        """The log's reader, or None if the schema has no log."""

    @property
    def recorded(self) -> Kinds:
        """The kinds of notification that the schema has columns for; see `core.optional`."""

    @property
    def census(self) -> Census:
        """Counts the rows, which may take a long time."""

    @property
    def suppressions(self) -> SuppressionReader:
        """Reads the suppressed subscribers."""

    def transaction(
        self, *, skip_locked: bool = False, checked: bool = False
    ) -> AbstractContextManager[Transaction]:
        """Begin a transaction that commits when the block ends, and rolls back if it raises.

        With `skip_locked`, it does not wait for locked rows: `lock` returns them. If the number of
        locked or changed rows is too small, it raises `Unchanged` before the commit; if `checked`,
        it reads the rows before and after the changes, and raises `Unchanged` only if they show
        that the database ignored one. Raises a `StoreError`, including from within the block.
        """

    def reading(self) -> AbstractContextManager[Reading]:
        """Open a read-only view for the block. Raises a `StoreError`, including from within."""

    def is_nested(self) -> bool:
        """Return whether this thread is inside a transaction of the host, and keeps its locks."""

    def probe(self) -> None:
        """Raise a `StoreError` unless the database accepts changes of the tables now.

        Changes no row, but fails as a change would: on a server that is read-only, or without a
        privilege.
        """

    @property
    def mapping_key(self) -> str:
        """Identifies the conditions that hide rows (`where`) in the spool; empty without any."""

    def claim_log(self) -> None:
        """Record, about once a minute, that the log is written under this mapping.

        Raises a `StoreError`.
        """

    def check_mapping(self) -> None:
        """Raise `WrongMapping` if any mapping recorded for the log differs from this one.

        Raises a `StoreError`.
        """

    def time(self) -> datetime | None:
        """Return the time of the database's clock, in UTC, or None if it has none of its own.

        Raises a `StoreError`.
        """


def check_store(store: object) -> None:
    """Raise `ConfigurationError` for an object that is no store, such as a URL or an engine."""
    if not has_members(store, ("transaction", "reading", "log", "recorded")):
        line = 'SQLStore("postgresql://user@host/database") or SQLStore(engine)'
        reject("The store", "an SQLStore or another store", store, line)


def by_kind(rows: Collection[RowId]) -> Mapping[Suppressible, Sequence[Key | tuple[Key, Key]]]:
    """Return the keys by kind, in the order of locking, omitting kinds that have none."""
    keys: dict[Suppressible, list[Key | tuple[Key, Key]]] = {kind: [] for kind in Suppressible}
    for kind, key in rows:
        keys[kind].append(key)
    return {kind: of_kind for kind, of_kind in keys.items() if of_kind}


def row_key(columns: Sequence[Key]) -> Key | tuple[Key, Key]:
    """Return the key in the form of `RowId`: one column by itself, two as a pair."""
    return (columns[0], columns[1]) if len(columns) > 1 else columns[0]
