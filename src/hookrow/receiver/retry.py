"""Parked notifications: those that could not be recorded, tried again until they can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from time import sleep

from hookrow.core.log_entry import StoredEntry
from hookrow.core.notification import Recorded
from hookrow.core.rules import is_message_id
from hookrow.promise import Promise
from hookrow.receiver.batch import GroupCommit
from hookrow.receiver.replay import GROUP, PAUSE, Parse, Tell, arrivals_of, record_ready
from hookrow.stores import Store
from hookrow.stores.log import LogReader

SWEEP_EVERY = 60.0
"""In seconds; how often a sweep looks for what is due."""

MOST = 1000
"""How many a sweep takes; what else is due waits for the next one."""


class Parked:
    """The parked notifications of a store. `tell` hears of those that are recorded."""

    def __init__(self, store: Store, log: LogReader, parse: Parse, tell: Tell) -> None:
        self._store = store
        self._log = log
        self._parse = parse
        self._tell = tell
        self._asked = GroupCommit(self._revisit, group=1)

    def sweep(self) -> int:
        """Try again what is due, where its rows exist now; return how many were recorded.

        Raises a `StoreError`; what was taken by then is due again later.
        """
        recorded = taken = 0
        while taken < MOST:
            due = self._log.due(datetime.now(UTC), limit=min(GROUP, MOST - taken))
            if not due:
                break
            recorded += self._record(due)
            taken += len(due)
            sleep(PAUSE)
        return recorded

    def revisit(self, message_ids: Sequence[str]) -> Promise[int]:
        """Try again now, in a thread of its own, what is parked for these messages.

        The promise is how many were recorded, or a `StoreError`. Raises `QueueFull`.
        """
        return self._asked.submit([each for each in message_ids if is_message_id(each)])

    def close(self, timeout: float | None = None) -> None:
        """Try what was asked for, and no more; wait `timeout` seconds for it."""
        self._asked.close(timeout)

    def _revisit(self, asked: Sequence[Sequence[str]]) -> list[int]:
        return [
            sum(
                self._record(found)
                for start in range(0, len(message_ids), GROUP)
                for found in self._found(message_ids[start : start + GROUP])
            )
            for message_ids in asked
        ]

    def _found(self, message_ids: Sequence[str]) -> Iterator[Sequence[StoredEntry]]:
        """Yield what is parked for these messages, oldest first, in groups."""
        last = 0
        while found := self._log.parked(message_ids, after=last):
            yield found
            last = found[-1].id

    def _record(self, found: Sequence[StoredEntry]) -> int:
        arrivals = arrivals_of(found, self._parse)
        if not arrivals:
            return 0
        ready, outcomes = record_ready(self._store, arrivals)
        self._tell(ready, outcomes)
        return sum(isinstance(outcome, Recorded) for outcome in outcomes)
