"""Replay and retry: record notifications from the log or the spool, which arrived earlier.

They are recorded by `record()`, as all notifications are, but they are not live: they do not
override newer changes.

Retries are the replays of parked notifications, when their rows exist or the database works again.
Most parked notifications may be hopeless: those for people or messages of another application, for
instance. They must not delay the others, so a sweep first searches for those whose rows exist.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from time import monotonic, sleep
from typing import TYPE_CHECKING, TypeAlias

from hookrow._core.changes import State
from hookrow._core.log_entry import StoredEntry, body_of
from hookrow._core.notification import Arrival, Key, Outcome, Recorded, Refusal, RowId, Source
from hookrow._core.optional import Kinds
from hookrow._core.result import RESULTS, Result
from hookrow._core.rules import affected_rows, decide, fail, fill, is_message_id, lookup_keys, merge
from hookrow._core.sizes import leading, text_size
from hookrow._faults import describe_bug, log_fault
from hookrow._observability.logging import describe_arrival
from hookrow._receiver.batch import BatchWriter, QueueFull
from hookrow._receiver.clock import Clock, measured_clock
from hookrow._receiver.entries import Parsers, log_provider_fault
from hookrow._receiver.recorder import RETRY_CONFLICTS_FOR, Attempts, keep_failed
from hookrow.providers._base import Event, ProviderFault, mask
from hookrow.stores._errors import Conflict, StoreError, Unavailable, Unchanged
from hookrow.stores._log import IDS_PER_BATCH, START, DueKind, Query, Slice
from hookrow.stores._timeouts import limited_to

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore
    from hookrow.stores.sql._log import SQLLog

logger = logging.getLogger("hookrow")

MAX_REPLAY_GROUP = 64
"""The largest number of notifications in a transaction: live ones may wait for its locks."""

REPLAY_PAUSE = 0.02
"""Seconds between two groups, in which other writers can lock an SQLite file."""

SWEEP_EVERY = 60.0
"""Seconds between two sweeps."""

SEARCH_UNTIL = 18.0
"""Seconds after the start of a sweep at which the search for entries whose rows exist ends. The
next sweep continues it where it stopped."""

FAILING_UNTIL = 22.0
"""Seconds after the start of a sweep at which the retries of failing entries end."""

OTHERS_UNTIL = 27.0
"""Seconds after the start of a sweep at which the retries of the other entries end."""

SWEEP_UNTIL = 30.0
"""Seconds after its start at which a sweep ends: half of the interval."""

PART_SECONDS = 0.4
"""Seconds that reading one part of the log should take at most, and half of them at least. Some
databases make writers wait for readers."""

PART_TIMEOUT = 1.0
"""Seconds after which the database stops reading a part of the log."""

FIRST_PART = 1000
"""The number of entries in the first part of the log; that of the others depends on the time that
reading a part takes."""

SMALLEST_PART = 50
"""The smallest number of entries in a part of the log."""

LARGEST_PART = 50_000
"""The largest number of entries in a part of the log."""

SWEEP_PATIENCE = 0.05
"""Seconds for which a group of a sweep waits for rows that live notifications have locked."""

MAX_IDS = 5000
"""The largest number of entries whose ids are read at once for a retry."""


OutcomesCallback: TypeAlias = Callable[[Sequence[Arrival], Sequence[Outcome]], object]
"""Receives the arrivals of a group and their outcomes, after the commit."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """The outcome of a dry run, and the affected rows before and after it."""

    outcome: Outcome
    before: Mapping[RowId, State]
    after: Mapping[RowId, State]


class _Rollback(Exception):
    """Rolls a transaction back."""


def read_entry(entry: StoredEntry, parsers: Parsers) -> Event | None:
    """Return the event of an entry, or None if its body is missing, or none of these reads it.

    Raises `ProviderFault` if its provider fails to read it.
    """
    body, reader = body_of(entry), parsers.find(entry.entry, entry.provider)
    return None if body is None or reader is None else reader.parse(body)


def parse_entry(entry: StoredEntry, parsers: Parsers) -> Event | None:
    """Return the event of an entry, to describe it, or None if it cannot be read."""
    with suppress(ProviderFault):  # `arrivals_of` logs it
        return read_entry(entry, parsers)
    return None


def arrivals_of(
    store: SQLStore,
    entries: Iterable[StoredEntry],
    parsers: Parsers,
    now: datetime,
    *,
    any_mapping: bool = False,
) -> list[Arrival]:
    """Return the arrivals of log entries at a store, to be recorded now.

    Those without a body that one of the `parsers` reads are omitted. So are those whose provider
    fails to read it, which is logged: they must not hold up the others. Raises a `StoreError`:
    `WrongMapping` if the log was written under another mapping, unless `any_mapping` is true,
    because the user has accepted the mapping.
    """
    if not any_mapping:
        store.check_mapping()
    arrivals = []
    for entry in entries:
        try:
            event = read_entry(entry, parsers)
        except ProviderFault as fault:
            log_provider_fault(fault, "Notification %d cannot be read: %s", entry.id)
            continue
        reader = parsers.find(entry.entry, entry.provider)
        if reader is not None and event is not None:
            arrivals.append(_arrival(entry, event, store.recorded, now, tenant=reader.tenant))
    return arrivals


def _arrival(
    entry: StoredEntry, read: Event, recorded: Kinds, now: datetime, *, tenant: Key | None
) -> Arrival:
    """Return the arrival of an entry and its event, to be recorded now."""
    event, record_type = mask(read, recorded)
    return Arrival(
        event.notifications,
        event.body,
        entry.received_at,
        source=Source.REPLAY,
        unsupported=event.unsupported,
        attempts=0,
        last_received_at=entry.last_received_at,
        applied_at=now,
        fingerprint=entry.fingerprint,
        provider=entry.provider,
        entry=entry.entry,
        tenant=tenant,
        record_type=record_type,
        is_test=entry.first_outcome is Result.TEST,
    )


def matching_entries(log: SQLLog, query: Query) -> Iterator[Sequence[StoredEntry]]:
    """Yield all entries that match the query, oldest first, in groups. Raises a `StoreError`."""
    last = 0
    while entries := log.oldest(query, after=last, limit=MAX_REPLAY_GROUP):
        yield entries
        last = entries[-1].id
        sleep(REPLAY_PAUSE)


def replay(
    store: SQLStore,
    arrivals: Sequence[Arrival],
    *,
    clock: Callable[[], datetime],
    bodies: bool = True,
    patience: float | None = None,
) -> list[Outcome]:
    """Record arrivals that are not live.

    An arrival that the database rejects is logged as failed; if the log rejects it too, its outcome
    is `UNAVAILABLE`, and nothing stores it. Locked rows are waited for `RETRY_CONFLICTS_FOR`
    seconds, and the arrival is then logged as failed; with `patience`, only for that many seconds,
    and its outcome is `UNAVAILABLE` without a log entry. Raises a `StoreError` if the database is
    unavailable.
    """
    outcomes: list[Outcome] = []
    while group := leading(arrivals[len(outcomes) :], lambda each: text_size(each.body)):
        outcomes += _replay_group(store, group, bodies=bodies, clock=clock, patience=patience)
    return outcomes


def replay_entries(
    store: SQLStore,
    log: SQLLog,
    entries: Sequence[StoredEntry],
    parsers: Parsers,
    *,
    any_mapping: bool = False,
    patience: float | None = None,
) -> list[Outcome]:
    """Record entries of a store's log again, and count a retry of each; return their outcomes.

    Those without a readable body have no outcome. For the other arguments and errors, see
    `arrivals_of` and `replay`.
    """
    clock = measured_clock(store)
    arrivals = arrivals_of(store, entries, parsers, clock(), any_mapping=any_mapping)
    if not arrivals:
        return []
    readable = {each.fingerprint for each in arrivals}
    log.count_retries([each.id for each in entries if each.fingerprint in readable])
    return replay(store, arrivals, clock=clock, patience=patience)


def replay_ready(
    store: SQLStore,
    arrivals: Sequence[Arrival],
    clock: Callable[[], datetime],
    *,
    former: Mapping[bytes | None, Result],
    patience: float | None = None,
) -> tuple[Sequence[Arrival], Sequence[Outcome]]:
    """Record the arrivals of which more can be recorded now; return these and their outcomes.

    `former` are their results in the log, by fingerprint. While the result of an event stays the
    same refusal, those of its notifications that can be recorded already are.
    """
    with store.reading() as reading:
        rows = reading.find(lookup_keys(arrivals))
    ready = [
        each
        for each in arrivals
        if (outcome := decide(each, rows)).changes
        and (
            isinstance(outcome, Recorded)
            or RESULTS[outcome.refusal] is not former.get(each.fingerprint)
        )
    ]
    return ready, replay(store, ready, clock=clock, patience=patience) if ready else []


def dry_run(store: SQLStore, arrival: Arrival) -> DryRun:
    """Record an arrival in a transaction that is rolled back; return the changes.

    Raises a `StoreError`: `Unchanged` if the database would ignore a change.
    """
    with suppress(_Rollback), store.transaction(checked=True) as transaction:
        outcome = decide(arrival, transaction.find(lookup_keys([arrival])))
        rows = affected_rows([outcome])
        transaction.lock(rows)
        before = transaction.read(rows)
        transaction.write(merge([outcome]))
        result = DryRun(outcome, before, transaction.read(rows))
        raise _Rollback
    return result


def _replay_group(
    store: SQLStore,
    arrivals: Sequence[Arrival],
    *,
    bodies: bool,
    clock: Callable[[], datetime],
    patience: float | None,
) -> list[Outcome]:
    attempts = Attempts(store, bodies, clock)
    now = monotonic()
    try:
        outcomes = attempts.wait_for_locks(
            arrivals,
            until=now + RETRY_CONFLICTS_FOR,
            waiting_until=None if patience is None else now + patience,
            skip_locked=True,
        )
    except (Conflict, Unchanged, Unavailable):
        raise
    except Exception as error:  # noqa: BLE001 - bad data or a bug must not stop the other arrivals
        if len(arrivals) > 1:
            return _replay_singly(store, arrivals, bodies=bodies, clock=clock, patience=patience)
        template = "Cannot record %s: %s"
        if isinstance(error, StoreError):
            logger.error(template, describe_arrival(arrivals[0]), error)
        else:
            log_fault(error, template, describe_arrival(arrivals[0]), describe_bug(error))
        return _keep_failed(store, arrivals, bodies=bodies, clock=clock)
    missing = [arrivals[n] for n, outcome in enumerate(outcomes) if outcome is None]
    if missing and patience is None:
        return fill(outcomes, _keep_failed(store, missing, bodies=bodies, clock=clock))
    return fill(outcomes, fail(missing, Refusal.UNAVAILABLE))


def _replay_singly(
    store: SQLStore,
    arrivals: Sequence[Arrival],
    *,
    bodies: bool,
    clock: Callable[[], datetime],
    patience: float | None,
) -> list[Outcome]:
    """Record arrivals one by one; those after a `StoreError` are unavailable."""
    outcomes: list[Outcome] = []
    with suppress(StoreError):
        for each in arrivals:
            outcomes += replay(store, [each], bodies=bodies, clock=clock, patience=patience)
    return outcomes + fail(arrivals[len(outcomes) :], Refusal.UNAVAILABLE)


def _keep_failed(
    store: SQLStore, arrivals: Sequence[Arrival], *, bodies: bool, clock: Callable[[], datetime]
) -> list[Outcome]:
    try:
        return keep_failed(store, arrivals, bodies=bodies, clock=clock)
    except StoreError:
        return fail(arrivals, Refusal.UNAVAILABLE)


_Call: TypeAlias = tuple[Future[int], Sequence[str]]
"""A call of `retry_now`: its result and the message ids."""


class ParkedRetry:
    """Retries the parked notifications of a log.

    `parsers` are the receiver's entries. `on_outcomes` receives the arrivals whose rows exist, and
    their outcomes; `clock` returns the time.
    """

    def __init__(
        self,
        store: SQLStore,
        log: SQLLog,
        parsers: Parsers,
        on_outcomes: OutcomesCallback,
        clock: Clock,
    ) -> None:
        self._store = store
        self._log = log
        self._parsers = parsers
        self._origins = parsers.origins
        self._on_outcomes = on_outcomes
        self._clock = clock
        self._place = START
        self._part = FIRST_PART
        self._closed = False
        self._calls: BatchWriter[_Call, None] = BatchWriter(
            self._run, fallback=lambda _: None, group=1, name="retry"
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
        recorded, is_complete = self._retry_hopeful(until=began + SEARCH_UNTIL)
        recorded += self._retry_others(DueKind.FAILING, until=began + FAILING_UNTIL)
        recorded += self._retry_others(DueKind.MISSING, until=began + OTHERS_UNTIL)
        if is_complete:
            self._expire(until=began + SWEEP_UNTIL)
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
            sleep(REPLAY_PAUSE)
        return recorded, False

    def _expire(self, *, until: float) -> None:
        """End the retries of entries that are too old, and for which there was no time."""
        while not self._is_over(until):
            if self._log.expire(self._clock(), origins=self._origins) < IDS_PER_BATCH:
                break
            sleep(REPLAY_PAUSE)

    def _search(self) -> Slice:
        """Search the next part of the log; adapt the size of the parts to the time it takes."""
        while True:
            began = monotonic()
            try:
                with limited_to(PART_TIMEOUT):
                    found = self._log.hopeful(
                        self._clock(),
                        origins=self._origins,
                        after=self._place,
                        limit=self._part,
                        tenants=self._parsers.tenants,
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
            ids = self._log.due(self._clock(), kind, origins=self._origins, limit=MAX_IDS)
            recorded += self._retry_ids(ids, until)
            if len(ids) < MAX_IDS:
                break
        return recorded

    def _retry_ids(self, ids: Sequence[int], until: float) -> int:
        """Retry the entries with these ids that are still due, in groups, until a time."""
        recorded = 0
        for start in range(0, len(ids), MAX_REPLAY_GROUP):
            group = ids[start : start + MAX_REPLAY_GROUP]
            while not self._is_over(until) and (taken := self._log.take(group, self._clock())):
                recorded += self._record(taken, patience=SWEEP_PATIENCE)
                sleep(REPLAY_PAUSE)
                if len(taken) == len(group):
                    break  # otherwise, `take` may have left some, because their bodies are large
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
        for start in range(0, len(message_ids), MAX_REPLAY_GROUP):
            for entries in self._find(message_ids[start : start + MAX_REPLAY_GROUP]):
                self._log.count_retries([each.id for each in entries])
                recorded += self._record(entries)
        return recorded

    def _find(self, message_ids: Sequence[str]) -> Iterator[Sequence[StoredEntry]]:
        """Yield the parked entries of these messages that can be read, in groups, oldest first."""
        last = 0
        while entries := self._log.parked(message_ids, after=last):
            if readable := [each for each in entries if self._parsers.parser_of(each) is not None]:
                yield readable
            last = entries[-1].id

    def _record(self, found: Sequence[StoredEntry], *, patience: float | None = None) -> int:
        arrivals = arrivals_of(self._store, found, self._parsers, self._clock())
        if not arrivals:
            return 0
        former: dict[bytes | None, Result]
        former = {each.fingerprint: each.outcome for each in found}
        ready, outcomes = replay_ready(
            self._store, arrivals, self._clock, former=former, patience=patience
        )
        self._on_outcomes(ready, outcomes)
        return sum(isinstance(outcome, Recorded) for outcome in outcomes)
