"""What a store is: it finds, locks and saves rows, and decides nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from hookrow.errors import HookrowError
from hookrow.notification import Change, Mentioned, RowId, Rows


class StoreError(HookrowError):
    """A transaction failed and changed nothing. What to do next depends on which."""


class Conflict(StoreError):
    """Another transaction was in the way; the same again may succeed."""


class Locked(StoreError):
    """A row stayed locked for too long; the others may be saved without it."""


class Rejected(StoreError):
    """The database refuses the data itself, whoever sends it and however often."""


class Unavailable(StoreError):
    """The database cannot be reached, or cannot do its work at all."""


class Transaction(Protocol):
    """What happens in it happens as a whole, at its end, or not at all."""

    def find(self, mentioned: Mentioned) -> Rows:
        """Find every row that the group mentions, in a fixed number of statements."""

    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Lock the rows, in the same order in every process, before any change is applied.

        Return those that others hold: none, unless locked rows are skipped.
        """

    def save(self, changes: Sequence[Change]) -> None:
        """Apply the changes, at most one a row and column, each where its guard allows."""


class Store(Protocol):
    """Where the rows are."""

    def transaction(self, *, skip_locked: bool = False) -> AbstractContextManager[Transaction]:
        """Begin a transaction that commits when the block ends, and rolls back if it raises.

        With `skip_locked` it waits for no row: `lock` returns those held by others.
        Raises a `StoreError`, also from within the block.
        """
