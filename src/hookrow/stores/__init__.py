"""What a store is: it finds, locks and writes rows, and decides nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from hookrow.entry import Entry
from hookrow.errors import HookrowError
from hookrow.notification import Change, Key, Mentioned, RowId, Rows, Suppressible
from hookrow.stores.census import Census
from hookrow.stores.log import LogReader

State: TypeAlias = Mapping[str, Any]
"""Of one row: the columns that notifications set and the table has, by our names for them."""

NOT_ON = "hookrow works on PostgreSQL and SQLite, not on {}."
"""What every store says of another database."""


class StoreError(HookrowError):
    """A transaction failed and changed nothing. What to do next depends on which."""


class Conflict(StoreError):
    """Another transaction interfered; to try again may succeed."""


class Locked(StoreError):
    """A row stayed locked for too long; the others may be saved without it."""


class Rejected(StoreError):
    """The database refuses the data itself, whoever sends it and however often."""


class Unavailable(StoreError):
    """The database cannot be reached, or cannot do its work at all."""


class AccessDenied(Unavailable):
    """The server is running and refuses this login: a wrong password, role or database."""


class SchemaChanged(Unavailable):
    """A statement does not fit the tables, which must have changed since they were verified.

    It may also come from a trigger's own statement; to verify the tables again tells which.
    """


class Reading(Protocol):
    """What is there now. Nothing is locked, and nobody is kept from writing."""

    def find(self, mentioned: Mentioned) -> Rows:
        """Find every row that the group mentions, in a fixed number of statements."""

    def read(self, rows: Collection[RowId]) -> Mapping[RowId, State]:
        """Read what notifications set in the rows, as the block sees them now."""


class Transaction(Reading, Protocol):
    """What happens in it happens as a whole, at its end, or not at all."""

    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Lock the rows, in the same order in every process.

        Return those that others hold: none, unless locked rows are skipped.
        """

    def write(self, changes: Sequence[Change], entries: Sequence[Entry] = ()) -> None:
        """Lock the rows of the changes, apply these, and add the entries to the log.

        The changes are at most one a row and column, each applied where its guard allows.
        The entries are at most one a fingerprint and sorted by it. One that is there adds
        up its attempts and takes the newer end; without a log nothing is kept.
        """


class Store(Protocol):
    """Where the rows are."""

    @property
    def log(self) -> LogReader | None:
        """The log's reader, or None if the schema has no log."""

    @property
    def census(self) -> Census:
        """Counts of the rows, which may take long."""

    def transaction(self, *, skip_locked: bool = False) -> AbstractContextManager[Transaction]:
        """Begin a transaction that commits when the block ends, and rolls back if it raises.

        With `skip_locked` it waits for no row: `lock` returns those held by others.
        Raises a `StoreError`, also from within the block.
        """

    def reading(self) -> AbstractContextManager[Reading]:
        """Look at rows in the block; see `Reading`. Raises a `StoreError`, also from within."""


def by_kind(rows: Collection[RowId]) -> Mapping[Suppressible, Sequence[Key | tuple[Key, Key]]]:
    """Return the keys of each kind that there are any of, in the order of locking."""
    keys = {kind: [key for row_kind, key in rows if row_kind is kind] for kind in Suppressible}
    return {kind: of_kind for kind, of_kind in keys.items() if of_kind}


def row_key(columns: Sequence[Key]) -> Key | tuple[Key, Key]:
    """Return the key as `RowId` has it: one column by itself, two as a pair."""
    return (columns[0], columns[1]) if len(columns) > 1 else columns[0]
