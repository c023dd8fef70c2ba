"""The time by which a receiver dates arrivals and retries.

A wrong clock loses changes: a suppression that seems to come from the future would block every
later change of its row. The process's clock is therefore compared with the database's or, if the
database has no clock, with the times of the events that arrive.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hookrow._arguments import check_function, reject
from hookrow._concurrency import reset_after_fork
from hookrow._core.notification import Arrival, first_of
from hookrow._faults import describe_bug, without_values
from hookrow.stores._errors import StoreError
from hookrow.stores._timeouts import limited_to

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore

MEASURE_EVERY = 60.0
"""Seconds between two comparisons with the database's clock."""

MEASURE_AGAIN = 1.0
"""Seconds to wait before another comparison if the database did not respond."""

MEASURE_TIMEOUT = 1.0
"""Seconds that a comparison may take, because the notifications of a group wait for it."""

TOLERANCE = timedelta(hours=1)
"""The greatest difference that is not corrected: machines rarely agree to the second."""

AHEAD = timedelta(days=1)
"""An event that is dated more than this after its arrival shows that the process's clock is slow:
a provider's clock is unlikely to be off by a day."""

LEAST_EVENTS = 20
"""Consecutive events that detect a slow clock, or that end the correction."""

LEAST_RECIPIENTS = 5
"""How many recipients these events must concern, so that one misdated message is not enough."""

JUMP = timedelta(minutes=5)
"""If the process's clock moves by more than this against the monotonic one, it was set: what was
measured before no longer holds."""

_ZERO = timedelta(0)

logger = logging.getLogger("hookrow")


def utc_now() -> datetime:
    """Return the time of the process's clock, in UTC."""
    return datetime.now(UTC)


def check_clock(clock: Callable[[], object]) -> None:
    """Raise `ConfigurationError` if a host's clock does not return a datetime with a time zone."""
    check_function("clock", clock)
    now = clock()
    if not isinstance(now, datetime) or now.tzinfo is None:
        line = "clock=lambda: datetime(2026, 3, 5, tzinfo=UTC)"
        reject("The result of clock()", "a datetime with a time zone", now, line)


class Clock:
    """Returns the time: the process's, corrected if it differs by more than an hour.

    The correction is the difference to the database's clock, measured before the first group and
    then once a minute. A database without a clock, such as SQLite, leaves only the times of
    live events, which can show that the process's clock is slow. A `given` clock is never
    corrected: it is for the tests of hosts, in which time may stand still.
    """

    def __init__(self, store: SQLStore, given: Callable[[], datetime] | None = None) -> None:
        self._store = store
        self._is_given = given is not None
        self.uncorrected: Callable[[], datetime] = given or utc_now
        """Returns the time without the correction."""
        self._offset = _ZERO
        self._measure_at = 0.0
        self._zero = self._monotonic_zero()
        self._events: _EventTimes | None = None
        self.reset()
        reset_after_fork(self)

    def reset(self) -> None:
        """Replace the lock, because a fork may have copied it while it was locked."""
        self._lock = Lock()

    def __call__(self) -> datetime:
        """Return the time, in UTC, with the correction that was measured last."""
        return self.uncorrected() + self._offset

    @property
    def correction(self) -> timedelta:
        """What is added to the process's clock: zero unless it is wrong by more than an hour."""
        return self._offset

    def measure(self) -> None:
        """Compare with the database's clock, once a minute, and whenever this clock was set.

        Other threads wait for the first comparison, because they would use a wrong time. Never
        raises: without a response from the database, the correction stays.
        """
        if not self._is_given and self._is_due():
            with self._lock:
                if self._is_due():
                    self._measure()

    def _is_due(self) -> bool:
        return monotonic() >= self._measure_at or self._was_set()

    def _was_set(self) -> bool:
        return abs(self._monotonic_zero() - self._zero) > JUMP

    def _monotonic_zero(self) -> datetime:
        """Return the time of the process's clock at which the monotonic one was zero."""
        return self.uncorrected() - timedelta(seconds=monotonic())

    def _measure(self) -> None:
        if self._was_set():
            self._events = None
            self._offset = _ZERO
        self._zero = self._monotonic_zero()
        pause = MEASURE_AGAIN
        try:
            with limited_to(MEASURE_TIMEOUT):
                difference = clock_difference(self._store.time, self.uncorrected)
        except Exception as error:  # a notification does not depend on it
            if not isinstance(error, StoreError):
                logger.warning(
                    "The clock cannot be compared: %s",
                    describe_bug(error),
                    exc_info=without_values(error),
                )
        else:
            pause = MEASURE_EVERY
            if difference is None:
                self._events = self._events or _EventTimes()
            else:
                self._events = None
                self._correct(difference, "the database's")
        self._measure_at = monotonic() + pause

    def date(self, arrivals: Sequence[Arrival]) -> Sequence[Arrival]:
        """Return admitted arrivals, which `uncorrected` has dated, with the corrected times.

        Each time is a function of the arrivals up to its own, however they are grouped.
        """
        if (events := self._events) is not None:
            with self._lock:
                return [self._dated_by_events(each, events) for each in arrivals]
        if not self._offset:
            return arrivals
        return [_moved(each, self._offset) for each in arrivals]

    def _dated_by_events(self, arrival: Arrival, events: _EventTimes) -> Arrival:
        self._correct(events.difference(arrival, self._offset), "that of the events received")
        return _moved(arrival, self._offset) if self._offset else arrival

    def _correct(self, difference: timedelta, other: str) -> None:
        offset = difference if abs(difference) > TOLERANCE else _ZERO
        if abs(offset - self._offset) > TOLERANCE:
            if offset:
                logger.warning(
                    "The clock of this machine is %s, compared with %s: hookrow corrects the times "
                    "of arrival. Set the clock.",
                    describe_difference(offset),
                    other,
                )
            else:
                logger.warning("The clock of this machine agrees with %s again.", other)
        self._offset = offset


class _EventTimes:
    """Detects from the times of live events that the process's clock is slow.

    Events may be old, because providers repeat them, so they cannot show that a clock is fast.
    """

    def __init__(self) -> None:
        self._ahead = deque[tuple[str | None, timedelta]](maxlen=LEAST_EVENTS * LEAST_RECIPIENTS)
        self._others = 0

    def difference(self, arrival: Arrival, present: timedelta) -> timedelta:
        """Return the difference to the process's clock after one more arrival.

        `present` is the difference before it.
        """
        notification = first_of(arrival.notifications)
        if notification is None or notification.at is None:
            return present
        difference = notification.at - arrival.received_at
        if difference <= AHEAD:
            self._ahead.clear()
            self._others += 1
            return _ZERO if self._others >= LEAST_EVENTS else present
        self._others = 0
        self._ahead.append((notification.recipient, difference))
        recipients = {recipient for recipient, _ in self._ahead}
        if len(self._ahead) < LEAST_EVENTS or len(recipients) < LEAST_RECIPIENTS:
            return present
        # The median, because a few of the events may be old or strange.
        return sorted(each for _, each in self._ahead)[len(self._ahead) // 2]


def clock_difference(
    database: Callable[[], datetime | None], process: Callable[[], datetime]
) -> timedelta | None:
    """Return by how much the database's clock is ahead of the process's.

    `database` returns its time; None if it has no clock. Raises what `database` raises.
    """
    asked = process()
    time = database()
    answered = process()
    return None if time is None else time - (asked + (answered - asked) / 2)


def measured_clock(store: SQLStore) -> Clock:
    """Return a clock that has been compared with that of the store's database. Never raises."""
    clock = Clock(store)
    clock.measure()
    return clock


def describe_difference(difference: timedelta) -> str:
    """Return how wrong the process's clock is, if the other one is ahead by a difference."""
    seconds = timedelta(seconds=round(abs(difference).total_seconds()))
    return f"{seconds} {'slow' if difference > _ZERO else 'fast'}"


def _moved(arrival: Arrival, offset: timedelta) -> Arrival:
    return replace(arrival, received_at=arrival.received_at + offset)
