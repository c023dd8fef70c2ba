"""Records groups in one transaction each, handles failures, and returns the responses.

A failed transaction changes nothing. Each response is therefore either the outcome of a commit,
or 503, after which the provider sends the notification again. Until then, hookrow keeps it: in
the log if the database failed on it, or in the spool if the database was unavailable.

`record` is an attempt, `Attempts` repeats it, `GroupRecorder` splits a group that fails, and
`Responder` turns the outcomes into responses, and notifies the hooks and the observer.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import partial
from itertools import chain, repeat
from math import inf
from random import uniform
from threading import Lock
from time import monotonic, perf_counter, sleep
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from hookrow._concurrency import reset_after_fork
from hookrow._core.log_entry import LogEntry, is_parked, log_entries, memory_size
from hookrow._core.notification import Arrival, Outcome, Recorded, Refusal, Refused
from hookrow._core.rules import (
    SPOOLED,
    UNAVAILABLE,
    UNKEPT,
    affected_rows,
    decide,
    fail,
    fill,
    leave_locked,
    lookup_keys,
    merge,
)
from hookrow._core.sizes import LARGEST_GROUP, QUEUE_CAPACITY, TEXT_PER_BYTE, leading, text_size
from hookrow._faults import describe_bug, describe_fault, log_fault, type_name, without_values
from hookrow._http import RECORDED, Response, respond
from hookrow._observability.logging import describe_arrival, log_group, request_ids
from hookrow._observability.observer import Observer
from hookrow._receiver.batch import BatchWriter
from hookrow._receiver.clock import Clock, utc_now
from hookrow._receiver.entries import Entries
from hookrow._receiver.locked import LockedRows
from hookrow._receiver.options import ReceiverOptions
from hookrow._receiver.results import RecentResults
from hookrow.providers._base import Provider
from hookrow.stores._errors import UNCHANGED_HINT, Conflict, Locked, Rejected, StoreError, Unchanged
from hookrow.stores._timeouts import LOCK_TIMEOUT, STORE_DEADLINE, extended_by, left

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore

U = TypeVar("U", bound="Outcome | None")

OutcomeCallback: TypeAlias = Callable[[Arrival, Outcome], object]
"""Called with each processed arrival and its outcome, after the commit."""

PAUSES = (0.01, 0.03, 0.1, 0.3)
"""Seconds to wait before each retry of a group that conflicted with another one."""

RETRY_CONFLICTS_FOR = 5.0
"""Seconds for which replays and manual operations retry on conflict, and wait for locks."""

LOCK_WAIT_SHARE = 0.8
"""The share of its time for which a notification waits for locked rows; the rest is for the log."""

CHECKED_ATTEMPTS = 2
"""How often a group is tried again if a row that was found was not locked or changed: the row may
have been deleted, and another one may be deleted before the next attempt."""

PAUSE_AFTER_OUTAGE = 1.0
"""Seconds after an outage for which groups are refused without an attempt."""

MAX_FAILURES_IN_A_ROW = 3
"""After this many outcomes in a row that the store is unavailable, or this many bugs in a row, the
rest of the group is not attempted."""

_LOG_FAILED = "The log cannot be written: %s"

logger = logging.getLogger("hookrow")


def record(
    store: SQLStore,
    arrivals: Sequence[Arrival],
    *,
    checked: bool = False,
    bodies: bool = True,
    clock: Callable[[], datetime] = utc_now,
) -> list[Outcome]:
    """Record a group in one transaction: find its rows, decide on each arrival, write the changes.

    `checked` is as in `SQLStore.transaction`. All arrivals are added to the log, if there is one,
    with or without their `bodies`, and with the time of the `clock`. Raises a `StoreError` if the
    transaction fails and changes nothing: `Locked` if a row stays locked.
    """
    store.claim_log()
    with _large_arrival_lock(arrivals), store.recording(checked=checked) as transaction:
        rows = transaction.find(lookup_keys(arrivals))
        outcomes = [decide(arrival, rows) for arrival in arrivals]
        entries = _entries_for(store, arrivals, outcomes, bodies=bodies, clock=clock)
        transaction.write(merge(outcomes), entries)
    return outcomes


def record_unlocked(
    store: SQLStore,
    arrivals: Sequence[Arrival],
    *,
    checked: bool = False,
    bodies: bool = True,
    clock: Callable[[], datetime] = utc_now,
) -> list[Outcome | None]:
    """Record the arrivals of a group whose rows nobody has locked, without waiting for any lock.

    The others have no outcome, and are not added to the log. The rest is as in `record`.
    """
    store.claim_log()
    begin = store.transaction(skip_locked=True, checked=checked)
    with _large_arrival_lock(arrivals), begin as transaction:
        rows = transaction.find(lookup_keys(arrivals))
        decided = [decide(arrival, rows) for arrival in arrivals]
        outcomes = leave_locked(decided, transaction.lock(affected_rows(decided)))
        unlocked = [
            (arrival, outcome)
            for arrival, outcome in zip(arrivals, outcomes, strict=True)
            if outcome is not None
        ]
        done = [outcome for _, outcome in unlocked]
        entries = _entries_for(
            store, [arrival for arrival, _ in unlocked], done, bodies=bodies, clock=clock
        )
        transaction.write(merge(done), entries)
    return outcomes


def keep_failed(
    store: SQLStore,
    arrivals: Sequence[Arrival],
    *,
    clock: Callable[[], datetime],
    bodies: bool = True,
) -> list[Outcome]:
    """Add arrivals to the log as failed, if there is a log; return their outcomes.

    Raises a `StoreError`.
    """
    outcomes = fail(arrivals)
    with _large_arrival_lock(arrivals):
        failed = _entries_for(store, arrivals, outcomes, bodies=bodies, clock=clock)
        if failed:
            store.claim_log()
            with store.recording() as transaction:
                transaction.write((), failed)
    return outcomes


def is_reachable(store: SQLStore) -> bool:
    """Return whether the store accepts changes now."""
    try:
        store.probe()
    except StoreError:
        return False
    return True


def _ignore(*_: object) -> None:
    """Do nothing, because there is no observer."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """The ways to record arrivals at a store; the options are those of `record`."""

    store: SQLStore
    bodies: bool
    clock: Callable[[], datetime]
    ended: Callable[[Sequence[Arrival], Exception | None], object] = _ignore
    """Called after each attempt, with the arrivals that it recorded or, if it failed, its error."""

    def __call__(
        self, arrivals: Sequence[Arrival], *, skip_locked: bool, checked: bool
    ) -> list[Outcome | None]:
        """Make one attempt, in one transaction. Raises a `StoreError`."""
        attempt: Callable[..., Sequence[Outcome | None]]
        attempt = record_unlocked if skip_locked else record
        try:
            outcomes = attempt(
                self.store, arrivals, checked=checked, bodies=self.bodies, clock=self.clock
            )
        except Exception as error:
            self.ended(arrivals, error)
            raise
        done = [a for a, outcome in zip(arrivals, outcomes, strict=True) if outcome is not None]
        if done:  # otherwise, nothing was committed
            self.ended(done, None)
        return [*outcomes]

    def retry_on_conflict(
        self, arrivals: Sequence[Arrival], *, until: float, skip_locked: bool = False
    ) -> list[Outcome | None]:
        """Attempt to record a group until it succeeds, or until a time on the clock of `monotonic`.

        A conflict, such as a deadlock or a busy SQLite file, is retried at most four times. After a
        lock timeout, or with `skip_locked`, arrivals whose rows are locked are left, and have no
        outcome. After a row was left unchanged, the next attempt is checked: it does not find a row
        that has been deleted meanwhile. If it finds the row and leaves it unchanged again, the
        error is `Rejected`. Raises the last attempt's `StoreError`.
        """
        pauses = iter(PAUSES)
        unchanged = 0
        while True:
            try:
                return self(arrivals, skip_locked=skip_locked, checked=unchanged > 0)
            except Unchanged as error:
                unchanged += 1
                if unchanged > CHECKED_ATTEMPTS:
                    raise Rejected(f"{error} {UNCHANGED_HINT}") from error
                if monotonic() > until:
                    raise
            except Conflict:
                pause = next(pauses, None)
                if pause is None or monotonic() > until:
                    raise
                _sleep(pause)
            except Locked:
                if skip_locked or monotonic() > until:
                    return [None] * len(arrivals)
                skip_locked = True

    def wait_for_locks(
        self,
        arrivals: Sequence[Arrival],
        *,
        until: float,
        waiting_until: float | None = None,
        skip_locked: bool = False,
    ) -> list[Outcome | None]:
        """Do the same; then retry those whose rows are locked, with pauses, until `waiting_until`.

        This is `until` by default. Nothing is locked during the pauses, so that no other
        transaction waits for this one.
        """
        outcomes = self.retry_on_conflict(arrivals, until=until, skip_locked=skip_locked)
        again = partial(self.retry_on_conflict, until=until, skip_locked=True)
        end = until if waiting_until is None else waiting_until
        return repeat_for_locked(again, arrivals, outcomes, until=end)


def repeat_for_locked(
    attempt: Callable[[Sequence[Arrival]], Sequence[Outcome | None]],
    arrivals: Sequence[Arrival],
    outcomes: Sequence[Outcome | None],
    *,
    until: float,
) -> list[Outcome | None]:
    """Attempt to record the arrivals without an outcome again, with pauses, until a time."""
    done = [*outcomes]
    pauses = chain(PAUSES, repeat(PAUSES[-1]))
    while missing := [n for n, outcome in enumerate(done) if outcome is None]:
        pause = next(pauses)
        if monotonic() + pause > until:
            break
        _sleep(pause)
        for n, outcome in zip(missing, attempt([arrivals[n] for n in missing]), strict=True):
            done[n] = outcome
    return done


def _sleep(seconds: float) -> None:
    # Without jitter, two groups that conflicted would conflict again.
    sleep(seconds * uniform(0.5, 1.5))  # noqa: S311 - not cryptographic


class _Stage(Enum):
    """What is attempted."""

    GROUP = "a group of several arrivals"
    REPEATED = "the same group in another session, because its session was lost"
    LONE = "a group of one arrival"
    SINGLE = "one of the arrivals, or the only one, after the store has failed on the group"


class _Cause(Enum):
    """Why an attempt failed."""

    CONTENTION = "other transactions keep changing the rows"
    OVERDUE = "the time is over, and other transactions were changing the rows"
    DATA = "the database rejects the data"
    BUG = "a bug, which the data may trigger"
    SESSION = "the session was lost, but the store can be reached in another one"
    OUTAGE = "the store is unavailable, or the time is over"


class _Step(Enum):
    """What follows a failed attempt."""

    REPEAT = "attempt to record the group in another session"
    SPLIT = "attempt to record its arrivals one by one"
    LEAVE = "leave the arrival, as if its rows were locked"
    REFUSE = "log the failure, and keep the arrivals as failed or in the spool"


_STEPS: Mapping[_Cause, Mapping[_Stage, _Step]] = {
    _Cause.CONTENTION: {
        _Stage.GROUP: _Step.SPLIT,
        _Stage.REPEATED: _Step.SPLIT,
        _Stage.LONE: _Step.LEAVE,
        _Stage.SINGLE: _Step.LEAVE,
    },
    _Cause.SESSION: {
        _Stage.GROUP: _Step.REPEAT,
        _Stage.REPEATED: _Step.SPLIT,  # one of the arrivals may end each session
        _Stage.LONE: _Step.SPLIT,
        _Stage.SINGLE: _Step.REFUSE,  # this arrival does
    },
    _Cause.DATA: {
        _Stage.GROUP: _Step.SPLIT,
        _Stage.REPEATED: _Step.SPLIT,
        _Stage.LONE: _Step.REFUSE,
        _Stage.SINGLE: _Step.REFUSE,
    },
    _Cause.BUG: {
        _Stage.GROUP: _Step.SPLIT,
        _Stage.REPEATED: _Step.SPLIT,
        _Stage.LONE: _Step.REFUSE,
        _Stage.SINGLE: _Step.REFUSE,
    },
    _Cause.OVERDUE: dict.fromkeys(_Stage, _Step.REFUSE),
    _Cause.OUTAGE: dict.fromkeys(_Stage, _Step.REFUSE),
}


class _Failure(NamedTuple):
    """A failed attempt."""

    cause: _Cause
    error: Exception


class GroupRecorder:
    """Records groups; after a failure, retries, splits or refuses them.

    No attempt begins later than `seconds` after the first one. Arrivals on which the store fails
    are logged as failed, with or without their `bodies`; the log's times are those of the `clock`.
    `spool` receives those that cannot be recorded because the store is unavailable, and returns
    their outcomes. If the store can be reached, but fails on a group as if it were unavailable, the
    session was lost, so the group is recorded in another one. If it fails again, one of the
    arrivals is the cause, so they are recorded one by one. No method raises an exception.
    """

    def __init__(
        self,
        store: SQLStore,
        *,
        bodies: bool,
        seconds: float,
        spool: Callable[[Sequence[Arrival]], Sequence[Outcome]],
        clock: Callable[[], datetime],
        observer: Observer | None = None,
    ) -> None:
        self._store = store
        self._bodies = bodies
        self._clock = clock
        self._seconds = seconds
        self._spool = spool
        ended = observer.attempted if observer is not None else _ignore
        self._attempts = Attempts(store, bodies, clock, ended)
        self._paused_until = 0.0
        self._down_since: float | None = None
        self.reason = ""
        """Why arrivals were not recorded the last time, without personal data."""

    def __call__(self, arrivals: Sequence[Arrival]) -> list[Outcome | None]:
        """Return an outcome for each arrival, or None if other transactions use its rows.

        They have locked them, or have changed them first in each of several attempts. These
        arrivals are neither recorded nor logged.
        """
        return self._record(arrivals, until=self._until(self._seconds))

    def resume(self, arrivals: Sequence[Arrival]) -> list[Outcome | None]:
        """Do the same for arrivals whose rows were locked, without waiting for any lock.

        Others may have been recorded since, so they override nothing that is newer.
        """
        now = self._clock()
        late = [replace(each, applied_at=now) for each in arrivals]
        return self._record(late, until=self._until(self._seconds), skip_locked=True)

    def wait(self, arrivals: Sequence[Arrival], *, most: float = inf) -> list[Outcome]:
        """Return an outcome for each arrival; wait for locked rows, with pauses.

        The arrivals are recorded in groups of at most `most`. Inside a transaction of the host, do
        not wait: it would keep its own locks meanwhile.
        """
        until = self._until(self._seconds * LOCK_WAIT_SHARE)
        outcomes = _in_groups(self, arrivals, most)
        if not self._store.is_nested():
            again = partial(_in_groups, self.resume, most=most)
            outcomes = repeat_for_locked(again, arrivals, outcomes, until=until)
        missing = [arrivals[n] for n, outcome in enumerate(outcomes) if outcome is None]
        return fill(outcomes, _in_groups(self.give_up, missing, most))

    def give_up(self, arrivals: Sequence[Arrival]) -> list[Outcome]:
        """Log arrivals whose rows were locked as failed; return their outcomes."""
        self._log_failure(
            logging.WARNING, arrivals, "other transactions had locked or changed their rows"
        )
        return self._failed(arrivals, self._until(self._seconds))

    @property
    def is_paused(self) -> bool:
        """Whether groups are refused without an attempt, because of an outage a moment ago."""
        return monotonic() < self._paused_until

    def _until(self, seconds: float) -> float:
        return min(monotonic() + seconds, STORE_DEADLINE.get())

    def _record(
        self, arrivals: Sequence[Arrival], until: float, *, skip_locked: bool = False
    ) -> list[Outcome | None]:
        """Record a group; `_STEPS` states what follows a failed attempt."""
        stage = _Stage.GROUP if len(arrivals) > 1 else _Stage.LONE
        ended = self._attempt(arrivals, until, skip_locked=skip_locked)
        if _step(stage, ended) is _Step.REPEAT:
            stage = _Stage.REPEATED
            ended = self._attempt(arrivals, until, skip_locked=skip_locked)
        if _step(stage, ended) is _Step.SPLIT:
            return self._record_singly(arrivals, until, skip_locked=skip_locked)
        return self._outcomes(arrivals, until, stage, ended)

    def _record_singly(
        self, arrivals: Sequence[Arrival], until: float, *, skip_locked: bool
    ) -> list[Outcome | None]:
        """Record arrivals one by one, until several in a row fail for the same reason.

        That is either that the store is unavailable, or a bug. Then, none of them is the cause.
        """
        outcomes: list[Outcome | None] = []
        bugs: list[Exception] = []
        for number, arrival in enumerate(arrivals):
            rest = arrivals[number:]
            last = outcomes[-MAX_FAILURES_IN_A_ROW:]
            if len(last) == MAX_FAILURES_IN_A_ROW and all(each in UNKEPT for each in last):
                return [*outcomes, *self._unavailable(rest)]
            if len(bugs) == MAX_FAILURES_IN_A_ROW:
                self._pause(rest, describe_bug(bugs[-1]), bugs[-1])
                return [*outcomes, *self._failed(rest, until)]
            ended = self._attempt([arrival], until, skip_locked=skip_locked)
            if isinstance(ended, _Failure) and ended.cause is _Cause.BUG:
                bugs.append(ended.error)
            else:
                bugs.clear()
            outcomes += self._outcomes([arrival], until, _Stage.SINGLE, ended)
        return outcomes

    def _attempt(
        self, arrivals: Sequence[Arrival], until: float, *, skip_locked: bool
    ) -> list[Outcome | None] | _Failure:
        """Record arrivals together, with retries on conflict; return their outcomes.

        They are spooled without an attempt if the time is over, or after an outage a moment ago.
        """
        is_late = monotonic() > until
        if is_late:
            self.reason = f"Not recorded within {self._seconds:g} s."
        if is_late or self.is_paused:
            return [*self._unavailable(arrivals)]
        began = monotonic()
        try:
            outcomes = self._attempts.retry_on_conflict(
                arrivals, until=until, skip_locked=skip_locked
            )
        except Exception as error:  # noqa: BLE001 - the notification is kept, and sent again after 503
            return _Failure(self._cause(error, began, until), error)
        down_since = self._down_since  # which another thread may change
        if down_since is not None and any(outcomes):  # not only locked rows
            self._down_since = None
            logger.warning(
                "Notifications are recorded again, after %.0f s.", monotonic() - down_since
            )
        return outcomes

    def _cause(self, error: Exception, began: float, until: float) -> _Cause:
        now = monotonic()
        in_time = now <= until
        match error:
            case Conflict():
                return _Cause.CONTENTION if in_time else _Cause.OVERDUE
            case Unchanged():  # otherwise, it would have become `Rejected`
                return _Cause.OVERDUE
            case Rejected():
                return _Cause.DATA
            case StoreError():
                # If the server does not respond, a probe takes as long as the attempt did.
                may_probe = in_time and now - began < left()
                return _Cause.SESSION if may_probe and is_reachable(self._store) else _Cause.OUTAGE
            case _:
                return _Cause.BUG

    def _outcomes(
        self,
        arrivals: Sequence[Arrival],
        until: float,
        stage: _Stage,
        ended: list[Outcome | None] | _Failure,
    ) -> list[Outcome | None]:
        """Return the outcomes of arrivals after their last attempt."""
        if not isinstance(ended, _Failure):
            return ended
        if _step(stage, ended) is _Step.LEAVE:
            return [None] * len(arrivals)
        return [*self._refuse(arrivals, until, ended)]

    def _refuse(
        self, arrivals: Sequence[Arrival], until: float, failure: _Failure
    ) -> list[Outcome]:
        """Log why arrivals cannot be recorded; return their outcomes."""
        cause, error = failure
        match cause:
            case _Cause.CONTENTION | _Cause.OVERDUE:
                self._log_failure(logging.WARNING, arrivals, str(error))
            case _Cause.DATA:
                self._log_rejected(arrivals[0], error)
            case _Cause.BUG:
                self._log_failure(logging.ERROR, arrivals, describe_bug(error), error)
            case _Cause.SESSION:
                self._log_rejected(arrivals[0], error)
                return self._unavailable(arrivals)
            case _Cause.OUTAGE:
                self._pause(arrivals, str(error))
                return self._unavailable(arrivals)
        return self._failed(arrivals, until)

    def _failed(self, arrivals: Sequence[Arrival], until: float) -> list[Outcome]:
        if monotonic() > until:
            return self._unavailable(arrivals)
        try:
            return keep_failed(self._store, arrivals, bodies=self._bodies, clock=self._clock)
        except StoreError as error:  # the spool can still keep them
            logger.error(_LOG_FAILED, f"{type(error).__name__}: {error}")
            self.reason = _LOG_FAILED % error
        except Exception as error:  # noqa: BLE001 - a bug must not lose them either
            log_fault(error, _LOG_FAILED, describe_bug(error))
            self.reason = _LOG_FAILED % type_name(error)
        return self._unavailable(arrivals)

    def _unavailable(self, arrivals: Sequence[Arrival]) -> list[Outcome]:
        return [*self._spool(arrivals)]

    def _pause(
        self, arrivals: Sequence[Arrival], why: str, bug: BaseException | None = None
    ) -> None:
        now = monotonic()
        self._paused_until = now + PAUSE_AFTER_OUTAGE
        if self._down_since is None:
            self._down_since = now
        self._log_failure(logging.ERROR, arrivals, why, bug)

    def _log_failure(
        self,
        level: int,
        arrivals: Sequence[Arrival],
        why: str,
        bug: BaseException | None = None,
    ) -> None:
        self.reason = why if bug is None else f"a bug raised {type_name(bug)}"
        requests = request_ids(arrivals)
        named = f" (requests {', '.join(requests)})" if requests else ""
        logger.log(
            level,
            "Could not record %s%s: %s",
            "1 notification" if len(arrivals) == 1 else f"{len(arrivals)} notifications",
            named,
            why,
            exc_info=None if bug is None else without_values(bug),
            extra={"request_ids": requests},
        )

    def _log_rejected(self, arrival: Arrival, error: Exception) -> None:
        self.reason = str(error)
        # Without a traceback, which may quote the row.
        logger.error(
            "The database rejected %s: %s",
            describe_arrival(arrival),
            error,
            extra={"request_id": arrival.request_id},
        )


def _in_groups(
    record: Callable[[Sequence[Arrival]], Sequence[U]], arrivals: Sequence[Arrival], most: float
) -> list[U]:
    """Record arrivals in groups of at most `most`, and of a limited text; return the outcomes."""
    outcomes: list[U] = []
    while group := leading(
        arrivals[len(outcomes) :], lambda each: TEXT_PER_BYTE * memory_size(each), most=most
    ):
        outcomes += record(group)
    return outcomes


def _step(stage: _Stage, ended: list[Outcome | None] | _Failure) -> _Step | None:
    """Return what follows an attempt, or None if it succeeded."""
    return _STEPS[ended.cause][stage] if isinstance(ended, _Failure) else None


def _entries_for(
    store: SQLStore,
    arrivals: Sequence[Arrival],
    outcomes: Sequence[Outcome],
    *,
    bodies: bool,
    clock: Callable[[], datetime],
) -> Sequence[LogEntry]:
    if store.log is None:
        return ()
    return log_entries(arrivals, outcomes, clock(), bodies=bodies)


class _LargeArrivals:
    """Lets one thread at a time write an arrival whose text may be larger than `LARGEST_GROUP`.

    Such text may take about 50 MiB of memory on its way to the database.
    """

    _lock: Lock

    def __init__(self) -> None:
        self.reset()
        reset_after_fork(self)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no thread writes a large arrival. Raises `Locked` after the lock timeout."""
        lock = self._lock  # `reset` replaces it in a child process
        if not lock.acquire(timeout=max(min(left(), LOCK_TIMEOUT), 0)):
            raise Locked("Another large notification is being written.")
        try:
            yield
        finally:
            lock.release()

    def reset(self) -> None:
        """Replace the lock, because a fork may have copied it while it was locked."""
        self._lock = Lock()


_large_arrivals = _LargeArrivals()
_no_lock = nullcontext()


def _large_arrival_lock(arrivals: Sequence[Arrival]) -> AbstractContextManager[None]:
    """Return the lock for large arrivals if the group is a single large one, otherwise no lock."""
    if len(arrivals) == 1 and text_size(arrivals[0].body) > LARGEST_GROUP:
        return _large_arrivals.locked()
    return _no_lock


class Responses:
    """The responses to outcomes: the contract's, unless one of these applies.

    With `acknowledge_parked`, a notification that the log retries gets a 200. If its provider
    `accepts_logged`, every event that the log has gets one, unless `acknowledge_parked` is False;
    an event that is not supported gets one even then. While the log cannot have it, it gets a 503.
    """

    def __init__(self, entries: Entries[Provider], *, acknowledge_parked: bool | None) -> None:
        self._accepting = {each.name for each in entries if each.provider.accepts_logged}
        self._acknowledge_parked = acknowledge_parked
        self.are_usual = not acknowledge_parked and not self._accepting
        """Whether all responses are the contract's."""

    def __call__(self, arrival: Arrival, outcome: Outcome) -> Response:
        """Return the response to an arrival. The log, if there is one, contains its outcome."""
        if isinstance(outcome, Recorded) or self._is_acknowledged(arrival, outcome):
            return RECORDED
        return respond(outcome)

    def unavailable(self, arrival: Arrival) -> Response:
        """Return the response to an arrival that neither the rows nor the log have."""
        [outcome] = self.unkept([arrival])
        return self(arrival, outcome)

    def unkept(self, arrivals: Sequence[Arrival]) -> list[Outcome]:
        """Return the outcomes of arrivals that neither the rows nor the log have.

        One that is not supported is refused as such, which is final, unless its provider
        `accepts_logged`: its 200 would state that the log has it.
        """
        outcomes = fail(arrivals, Refusal.UNAVAILABLE)
        return [
            UNAVAILABLE if arrival.entry in self._accepting else outcome
            for arrival, outcome in zip(arrivals, outcomes, strict=True)
        ]

    def _is_acknowledged(self, arrival: Arrival, outcome: Refused) -> bool:
        if outcome == UNAVAILABLE or arrival.is_probe:  # the log has neither
            return False
        if arrival.entry in self._accepting:
            is_unsupported = outcome.refusal is Refusal.UNSUPPORTED
            return is_unsupported or self._acknowledge_parked is not False
        is_final = outcome.refusal.status != Refusal.UNAVAILABLE.status
        return bool(self._acknowledge_parked) and is_final and is_parked(arrival, outcome)


class Responder:
    """Records groups of arrivals and returns their responses.

    The `clock` dates the arrivals, before they are recorded or spooled. `spool` keeps arrivals
    while the database is unavailable, and returns whether it has kept each. `on_outcome` is None if
    nothing uses the outcomes. `count_unavailable` is called with the name of a receiver's entry and
    the number of its notifications that got a 503.
    """

    def __init__(  # noqa: PLR0913 - keyword arguments
        self,
        store: SQLStore,
        options: ReceiverOptions,
        *,
        clock: Clock,
        responses: Responses,
        spool: Callable[[Sequence[Arrival]], Sequence[bool]] | None,
        observer: Observer | None,
        on_outcome: OutcomeCallback | None,
        count_unavailable: Callable[[str | None, int], object],
    ) -> None:
        self._options = options
        self._count_unavailable = count_unavailable
        self._responses = responses
        self._clock = clock
        self._spool = spool
        self._observer = observer
        self._on_outcome = on_outcome
        self._parks = store.log is not None and options.keep_bodies
        self.results = RecentResults(
            has_log=store.log is not None,
            keeps_bodies=options.keep_bodies,
            acknowledges_spooled=options.acknowledge_spooled,
        )
        """Whether the last notifications were kept."""
        self._recorder = GroupRecorder(
            store,
            bodies=options.keep_bodies,
            clock=clock,
            seconds=options.database_seconds,
            spool=self._keep,
            observer=observer,
        )
        self.locked = LockedRows(
            self._resume,
            self._give_up,
            seconds=options.database_seconds * LOCK_WAIT_SHARE,
            seconds_to_give_up=options.database_seconds * (1 - LOCK_WAIT_SHARE),
            unavailable=responses.unavailable,
        )
        """The notifications whose rows another transaction has locked."""

    def create_writers(self) -> list[BatchWriter[Arrival, Response]]:
        """Create the writer and, if there is a spool, another that spools if the queue is full.

        Their queues share the capacity. A group ends after the deadline, unless a 200 states that
        the spool has it: then, the database has only a part of the time.
        """
        seconds = self._options.database_seconds if self._options.acknowledge_spooled else inf
        works: list[tuple[Callable[[Sequence[Arrival]], Sequence[Response | None]], float]]
        works = [(self.respond, seconds)]
        if self._spool is not None:
            works.append((self._spool_overflow, inf))
        return [
            BatchWriter[Arrival, Response](
                work,
                fallback=self._responses.unavailable,
                deadline=self._options.deadline,
                work_seconds=work_seconds,
                group=self._options.group,
                backlog=self._options.backlog,
                capacity=QUEUE_CAPACITY // len(works),
                largest=LARGEST_GROUP // TEXT_PER_BYTE,
                size=memory_size,
                on_late=self._report_late,
                defer=self.locked.add,
            )
            for work, work_seconds in works
        ]

    def respond(self, arrivals: Sequence[Arrival]) -> list[Response | None]:
        """Record a group, and return the responses; None for those whose rows are locked."""
        if not self._recorder.is_paused:
            self._clock.measure()
        return self._respond(self._recorder, self._clock.date(arrivals))

    def wait(self, arrivals: Sequence[Arrival]) -> list[Response]:
        """Record the arrivals of a request in groups, and return the responses.

        Waits for locked rows in this thread.
        """
        if not self._recorder.is_paused:
            self._clock.measure()
        record = partial(self._recorder.wait, most=self._options.group)
        responses = self._respond(record, self._clock.date(arrivals))
        return [each for each in responses if each is not None]

    def _resume(self, arrivals: Sequence[Arrival]) -> list[Response | None]:
        """Try again to record arrivals; only those that end are reported to the observer."""
        dated = self._clock.date(arrivals)
        outcomes = self._recorder.resume(dated)
        ends = [outcome for outcome in outcomes if outcome is not None]
        if not ends:
            return [None] * len(arrivals)
        ended = [a for a, outcome in zip(dated, outcomes, strict=True) if outcome is not None]
        return _align(self._respond(lambda _: ends, ended), outcomes)

    def _give_up(self, arrivals: Sequence[Arrival]) -> list[Response]:
        responses = self._respond(self._recorder.give_up, self._clock.date(arrivals))
        return [each for each in responses if each is not None]

    def _respond(
        self,
        record: Callable[[Sequence[Arrival]], Sequence[Outcome | None]],
        arrivals: Sequence[Arrival],
    ) -> list[Response | None]:
        paused = self._recorder.is_paused
        if self._observer is None and not logger.isEnabledFor(logging.DEBUG):
            outcomes = record(arrivals)
        else:
            outcomes = self._observed(record, arrivals)
        ends = [outcome for outcome in outcomes if outcome is not None]
        ended = arrivals
        if len(ends) < len(outcomes):
            ended = [
                arrival
                for arrival, outcome in zip(arrivals, outcomes, strict=True)
                if outcome is not None
            ]
        if not paused:  # otherwise, nothing was attempted, because a probe failed a moment ago
            self.results.add(ended, ends, self._recorder.reason)
        if ended is arrivals:
            return [*self._end(arrivals, ends)]
        return _align(self._end(ended, ends), outcomes)

    def _end(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> Sequence[Response]:
        """Pass outcomes to the hooks; return the responses."""
        if not self._parks:
            self._spool_failed(arrivals, outcomes)
        self.notify(arrivals, outcomes)
        if self._responses.are_usual:
            responses = [respond(outcome) for outcome in outcomes]
        else:
            responses = [*map(self._responses, arrivals, outcomes)]
        self._count(arrivals, responses)
        return responses

    def _count(self, arrivals: Sequence[Arrival], responses: Sequence[Response]) -> None:
        """Count the notifications of each entry that got a 503, except tests and probes."""
        refused = Counter(
            arrival.entry
            for arrival, response in zip(arrivals, responses, strict=True)
            if response.status == Refusal.UNAVAILABLE.status
            and not (arrival.is_test or arrival.is_probe)
        )
        for entry, number in refused.items():
            self._count_unavailable(entry, number)

    def _spool_overflow(self, arrivals: Sequence[Arrival]) -> list[Response]:
        """Spool arrivals because the queue is full; refuse them unless they are acknowledged."""
        return self._refuse_overflow(self._clock.date(arrivals), self._keep)

    def spool_rest(self, arrivals: Sequence[Arrival]) -> None:
        """Spool the arrivals that are not recorded when the receiver stops."""
        if arrivals:
            # The template has the number, so that the rate limit does not drop the second line.
            logger.warning(f"Stopped; notifications that were not recorded: {len(arrivals)}.")
            self._keep(self._clock.date(arrivals))

    def refuse_overflow(self, arrivals: Sequence[Arrival]) -> list[Response]:
        """Refuse arrivals because the queue is full or closed. No hook is called."""
        return self._refuse_overflow(arrivals, self._responses.unkept)

    def _refuse_overflow(
        self, arrivals: Sequence[Arrival], refuse: Callable[[Sequence[Arrival]], Sequence[Outcome]]
    ) -> list[Response]:
        requests = request_ids(arrivals)
        logger.warning(
            "The queue is full or closed (requests %s).",
            ", ".join(requests),
            extra={"request_ids": requests},
        )
        responses = [*map(self._responses, arrivals, self._observed(refuse, arrivals))]
        self._count(arrivals, responses)
        return responses

    def refuse_unsupported(self, arrival: Arrival) -> Response:
        """Refuse an unsupported notification without queueing it, because there is no log."""
        [outcome] = self._observed(fail, [arrival])
        self.notify([arrival], [outcome])
        return self._responses(arrival, outcome)

    def _observed(
        self, work: Callable[[Sequence[Arrival]], Sequence[U]], arrivals: Sequence[Arrival]
    ) -> Sequence[U]:
        """Process a group with `work`, and report it to the observer and the debug log."""
        end_group, began = None, perf_counter()
        if self._observer is not None:
            end_group = self._observer.begin_group(arrivals, [each.context for each in arrivals])
        outcomes = work(arrivals)
        if end_group is not None:
            end_group(outcomes)
        log_group(arrivals, outcomes, perf_counter() - began)
        return outcomes

    def _spool_failed(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> None:
        """Spool the failed arrivals, which no log can retry; their attempts are already counted."""
        failed = [
            replace(arrival, attempts=0)
            for arrival, outcome in zip(arrivals, outcomes, strict=True)
            if isinstance(outcome, Refused) and outcome.refusal is Refusal.FAILED
        ]
        if failed:
            self._keep(failed)

    def _keep(self, arrivals: Sequence[Arrival]) -> list[Outcome]:
        """Spool arrivals except probes, if there is a spool; return the outcomes of all."""
        outcomes = self._responses.unkept(arrivals)
        if self._spool is None:
            return outcomes
        # Other processes may be writing to the file, for example the groups of the same outage.
        with extended_by(self._options.deadline - self._options.database_seconds):
            kept = iter(self._spool([each for each in arrivals if not each.is_probe]))
        are_kept = [not each.is_probe and next(kept) for each in arrivals]
        if not self._options.acknowledge_spooled:
            return outcomes
        return [
            SPOOLED if is_kept and outcome == UNAVAILABLE else outcome
            for is_kept, outcome in zip(are_kept, outcomes, strict=True)
        ]

    def notify(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> None:
        """Call `on_outcome`, except for tests, refused probes, and unprocessed notifications.

        After a 503, the provider sends the notification again; the sweep or the spool retry others.
        For an event of which only a part is recorded, it is called with that part, too.
        """
        if self._on_outcome is None:
            return
        for arrival, outcome in zip(arrivals, outcomes, strict=True):
            match outcome:
                case Refused(Refusal.FAILED | Refusal.UNAVAILABLE | Refusal.SPOOLED | Refusal.TEST):
                    continue
                case Refused() if arrival.is_probe:
                    continue  # `hookrow check URL` expects the refusal
            if isinstance(outcome, Refused) and outcome.recorded:
                recorded = replace(arrival, notifications=outcome.recorded)
                self._call(self._on_outcome, recorded, Recorded(outcome.changes))
            self._call(self._on_outcome, arrival, outcome)

    @staticmethod
    def _call(on_outcome: OutcomeCallback, arrival: Arrival, outcome: Outcome) -> None:
        try:
            on_outcome(arrival, outcome)
        except KeyboardInterrupt:  # the user ends the process
            raise
        except BaseException as error:  # noqa: BLE001 - a SystemExit of the host must not end a thread
            log_fault(
                error,
                "Receiver.on_outcome failed; responses are not affected: %s",
                describe_fault(error),
            )

    def _report_late(self, arrival: Arrival) -> None:
        """Report a response that is sent at the deadline, before the outcome is known."""
        if self._observer is not None:
            self._observer.late()
        why = "the database is slow, or other transactions lock its rows"
        self.results.add_late(arrival, f"Not recorded within {self._options.deadline:g} s: {why}.")
        logger.warning(
            "Not recorded within %s s; returned %d (request %s).",
            self._options.deadline,
            self._responses.unavailable(arrival).status,
            arrival.request_id,
            extra={"request_id": arrival.request_id},
        )


class ResponseCollector:
    """Collects the responses to the events of a request, and replies once it has all of them."""

    def __init__(self, count: int, reply: Callable[[Response], object]) -> None:
        self._missing = count
        self._reply = reply
        self._responses: list[Response] = []

    def __call__(self, response: Response) -> None:
        """Take the next response; all calls are made in the same thread."""
        self._responses.append(response)
        self._missing -= 1
        if not self._missing:
            self._reply(combine(self._responses))


def combine(responses: Sequence[Response]) -> Response:
    """Return the response to a request from those to its events.

    A 503 comes first, because the provider then sends all of them again; then any other refusal. A
    request without events gets 200.
    """
    if len(responses) == 1:
        return responses[0]
    refused = [each for each in responses if each.status != RECORDED.status]
    repeated = [each for each in refused if each.status == Refusal.UNAVAILABLE.status]
    return (repeated or refused or [RECORDED])[0]


def _align(
    responses: Iterable[Response | None], outcomes: Sequence[Outcome | None]
) -> list[Response | None]:
    """Return the responses at the positions of their outcomes, and None at those without any."""
    rest = iter(responses)
    return [None if outcome is None else next(rest) for outcome in outcomes]
