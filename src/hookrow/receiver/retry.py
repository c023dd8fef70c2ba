"""Retry: records parked notifications when their rows exist or the database works again.

Most parked notifications may be hopeless: those for people or messages of another application, for
instance. They must not delay the others, so a sweep first looks for those whose rows exist.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from math import inf
from time import monotonic, sleep
from typing import TYPE_CHECKING, TypeAlias

from hookrow.core.log_entry import StoredEntry
from hookrow.core.notification import Recorded
from hookrow.core.rules import is_message_id
from hookrow.providers import BodyParser
from hookrow.providers.postmark import Postmark
from hookrow.receiver.batch import BatchWriter, QueueFull
from hookrow.receiver.clock import Clock
from hookrow.receiver.replay import GROUP, PAUSE, OutcomesCallback, arrivals_of, replay_ready
from hookrow.stores import StoreError
from hookrow.stores.log import BATCH, START, DueKind, Slice
from hookrow.stores.timeouts import limited_to

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore
    from hookrow.stores.sql.log import SQLLog

SWEEP_EVERY = 60.0
"""In seconds; the interval between two sweeps."""

SEARCH_FOR, FAILING_FOR, OTHERS_FOR, SWEEP_FOR = 18.0, 22.0, 27.0, 30.0
"""Seconds after the start of a sweep at which each phase ends: the search for entries whose rows
exist, the retries of failing entries, those of the others, and the sweep itself, after half of the
interval. The next sweep continues the search where it stopped."""

PART_SECONDS = 0.4
"""Seconds that reading one part of the log should take at most, and half of them at least. Some
databases make writers wait for readers."""

PART_TIMEOUT = 1.0
"""Seconds after which the database stops reading a part of the log."""

FIRST_PART, SMALLEST_PART, LARGEST_PART = 1000, 50, 50_000
"""The numbers of entries in a part of the log, which depend on the time that reading it takes."""

PATIENCE = 0.05
"""Seconds for which the entries of a group wait for rows that live notifications have locked."""

AT_ONCE = 5000
"""The largest number of entries whose ids are read at once for a retry."""

logger = logging.getLogger("hookrow")

_Call: TypeAlias = tuple[Future[int], Sequence[str]]
"""A call of `retry_now`: its result and the message ids."""


class ParkedRetry:
    """Retries the parked notifications of a log.

    `parser` is the receiver's provider. `on_outcomes` receives the arrivals whose rows exist, and
    their outcomes; `clock` returns the time.
    """

    def __init__(
        self,
        store: SQLStore,
        log: SQLLog,
        parser: BodyParser,
        on_outcomes: OutcomesCallback,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._log = log
        self._parser = parser
        self._providers = [Postmark.name, parser.name]
        self._on_outcomes = on_outcomes
        self._clock = clock or Clock(store)
        self._place = START
        self._part = FIRST_PART
        self._closed = False
        self._calls: BatchWriter[_Call, None] = BatchWriter(
            self._run, fallback=lambda _: None, deadline=inf, group=1, name="retry"
        )

    def retry_due(self) -> int:
        """Retry notifications that are due; return the number of recorded ones.

        Those whose rows exist come first, then those that fail for another reason, beginning with
        those with the fewest retries, then the others, beginning with the youngest, until none is
        due or the time is over. Raises a `StoreError`; the notifications taken before the error
        become due again later.
        """
        self._clock.measure()  # a wrong time would end the retries of entries that seem too old
        self._store.check_mapping()  # before an entry is taken and its next retry postponed
        began = monotonic()
        recorded, is_complete = self._retry_hopeful(until=began + SEARCH_FOR)
        recorded += self._retry_others(DueKind.FAILING, until=began + FAILING_FOR)
        recorded += self._retry_others(DueKind.MISSING, until=began + OTHERS_FOR)
        if is_complete:
            self._expire(until=began + SWEEP_FOR)
        return recorded

    def retry_now(self, message_ids: Sequence[str]) -> Future[int]:
        """Retry the parked notifications of these messages in a thread, one call at a time.

        The future's `result()` returns the number of recorded notifications, or raises a
        `StoreError`. The number is 0 after `close`, if the queue of calls is full, or if no thread
        can be started.
        """
        future: Future[int] = Future()
        try:
            self._calls.put((future, [*filter(is_message_id, message_ids)]))
        except QueueFull:
            future.set_result(0)
        return future

    def close(self, timeout: float | None = None) -> None:
        """Stop a sweep after its present group, and accept no more calls of `retry_now`.

        Waits up to `timeout` seconds for earlier calls.
        """
        self._closed = True
        self._calls.close(timeout)

    def _retry_hopeful(self, *, until: float) -> tuple[int, bool]:
        """Search the due entries for those whose rows exist, and retry these.

        Continues where the last search stopped, until the end of the log or of the time. Returns
        the number of recorded ones, and whether the search has reached the end.
        """
        recorded = 0
        while not self._is_over(until):
            try:
                ids, end = self._search()
            except StoreError as error:  # the others can be retried without it
                logger.warning("The search for entries whose rows exist failed: %s", error)
                break
            recorded += self._retry_ids(ids, until)
            if self._is_over(until):
                break  # some of the ids may be left
            self._place = end or START
            if end is None:
                return recorded, True
            sleep(PAUSE)
        return recorded, False

    def _expire(self, *, until: float) -> None:
        """End the retries of entries that are too old, and for which there was no time."""
        while not self._is_over(until):
            if self._log.expire(self._clock(), providers=self._providers) < BATCH:
                break
            sleep(PAUSE)

    def _search(self) -> Slice:
        """Search the next part of the log; adapt the size of the parts to the time it takes."""
        while True:
            began = monotonic()
            try:
                with limited_to(PART_TIMEOUT):
                    found = self._log.hopeful(
                        self._clock(),
                        providers=self._providers,
                        after=self._place,
                        limit=self._part,
                    )
            except StoreError:
                if self._part <= SMALLEST_PART:
                    raise
                self._part = max(self._part // 4, SMALLEST_PART)
                continue
            seconds = monotonic() - began
            if seconds < PART_SECONDS / 2:
                self._part = min(self._part * 2, LARGEST_PART)
            elif seconds > PART_SECONDS:
                self._part = max(self._part // 2, SMALLEST_PART)
            return found

    def _retry_others(self, kind: DueKind, *, until: float) -> int:
        recorded = 0
        while not self._is_over(until):
            ids = self._log.due(self._clock(), kind, providers=self._providers, limit=AT_ONCE)
            recorded += self._retry_ids(ids, until)
            if len(ids) < AT_ONCE:
                break
        return recorded

    def _retry_ids(self, ids: Sequence[int], until: float) -> int:
        """Retry the entries with these ids that are still due, in groups, until a time."""
        recorded = 0
        for start in range(0, len(ids), GROUP):
            group = ids[start : start + GROUP]
            while not self._is_over(until) and (taken := self._log.take(group, self._clock())):
                recorded += self._record(taken, patience=PATIENCE)
                sleep(PAUSE)
                if len(taken) == len(group):
                    break
        return recorded

    def _is_over(self, until: float) -> bool:
        return monotonic() >= until or self._closed

    def _run(self, calls: Sequence[_Call]) -> Sequence[None]:
        [(future, message_ids)] = calls
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(self._retry(message_ids))
            except BaseException as error:  # noqa: BLE001 - passed on to the caller
                future.set_exception(error)
        return [None]

    def _retry(self, message_ids: Sequence[str]) -> int:
        self._clock.measure()
        self._store.check_mapping()
        recorded = 0
        for start in range(0, len(message_ids), GROUP):
            for entries in self._find(message_ids[start : start + GROUP]):
                self._log.count_retries([each.id for each in entries])
                recorded += self._record(entries)
        return recorded

    def _find(self, message_ids: Sequence[str]) -> Iterator[Sequence[StoredEntry]]:
        """Yield the parked entries of these messages in groups, oldest first."""
        last = 0
        while entries := self._log.parked(message_ids, after=last):
            yield entries
            last = entries[-1].id

    def _record(self, found: Sequence[StoredEntry], *, patience: float | None = None) -> int:
        arrivals = arrivals_of(self._store, found, self._parser, self._clock())
        if not arrivals:
            return 0
        ready, outcomes = replay_ready(self._store, arrivals, self._clock, patience=patience)
        self._on_outcomes(ready, outcomes)
        return sum(isinstance(outcome, Recorded) for outcome in outcomes)
