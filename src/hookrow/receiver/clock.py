"""The time by which a receiver dates arrivals and retries.

A wrong clock is worse than none: a suppression that seems to come from the future would block every
later change of its row. The process's clock is therefore compared with the database's or, if the
database has no clock of its own, with the times of the events that arrive.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic

from msgspec.structs import replace

from hookrow.core.notification import Arrival
from hookrow.stores import Store, StoreError
from hookrow.stores.timeouts import limited_to

MEASURE_EVERY = 60.0
"""Seconds between two comparisons with the database's clock."""

MEASURE_AGAIN = 1.0
"""Seconds to wait before another comparison if the database could not be asked."""

MEASURE_TIMEOUT = 1.0
"""Seconds that a comparison may take, because the notifications of a group wait for it."""

TOLERANCE = timedelta(hours=1)
"""The greatest difference that is not corrected: machines rarely agree to the second."""

AHEAD = timedelta(days=1)
"""An event that is dated more than this after its arrival shows that the process's clock is slow:
the provider's clock is hardly wrong by a day."""

EVENTS = 20
"""How many events in a row must show it; as many others show that the clock is right again."""

RECIPIENTS = 5
"""How many recipients these events must concern, so that one strange message is not enough."""

_NONE = timedelta(0)

log = logging.getLogger("hookrow")


def utc_now() -> datetime:
    """Return the time of the process's clock, in UTC."""
    return datetime.now(UTC)


class Clock:
    """Returns the time: the process's, corrected if it differs by more than an hour.

    The correction is the difference to the database's clock, measured before the first group and
    then once a minute. A store without a clock of its own, such as SQLite, leaves only the times of
    live events, which can show that the process's clock is slow. A `given` clock is never
    corrected: it is for the tests of hosts, in which time may stand still.
    """

    def __init__(self, store: Store, given: Callable[[], datetime] | None = None) -> None:
        self._store = store
        self._is_given = given is not None
        self.process: Callable[[], datetime] = given or utc_now
        """Returns the time without the correction."""
        self._offset = _NONE
        self._measure_at = 0.0
        self._events: _EventTimes | None = None

    def __call__(self) -> datetime:
        """Return the time, in UTC, with the correction that was measured last."""
        return self.process() + self._offset

    def measure(self) -> None:
        """Compare with the database's clock, unless this was done in the last minute.

        Never raises: without an answer from the database, the correction stays.
        """
        if self._is_given or monotonic() < self._measure_at:
            return
        self._measure_at = monotonic() + MEASURE_EVERY
        try:
            with limited_to(MEASURE_TIMEOUT):
                difference = clock_difference(self._store.time, self.process)
        except StoreError:
            self._measure_at = monotonic() + MEASURE_AGAIN
            return
        if difference is None:
            self._events = self._events or _EventTimes()
            return
        self._events = None
        self._correct(difference, "the database's")

    def date(self, arrivals: Sequence[Arrival]) -> Sequence[Arrival]:
        """Return admitted arrivals, which `process` has dated, with the corrected times.

        Each time is a function of the arrivals up to its own, however they are grouped.
        """
        if self._events is not None:
            return [self._dated_by_events(each, self._events) for each in arrivals]
        if not self._offset:
            return arrivals
        return [_moved(each, self._offset) for each in arrivals]

    def _dated_by_events(self, arrival: Arrival, events: _EventTimes) -> Arrival:
        self._correct(events.difference(arrival, self._offset), "that of the events received")
        return _moved(arrival, self._offset) if self._offset else arrival

    def _correct(self, difference: timedelta, other: str) -> None:
        offset = difference if abs(difference) > TOLERANCE else _NONE
        if abs(offset - self._offset) > TOLERANCE:
            if offset:
                log.warning(
                    "The clock of this machine is %s, compared with %s: hookrow corrects the times "
                    "of arrival. Set the clock.",
                    describe_difference(offset),
                    other,
                )
            else:
                log.warning("The clock of this machine is right again, compared with %s.", other)
        self._offset = offset


class _EventTimes:
    """Finds out from the times of live events whether the process's clock is slow.

    Events may be old, because providers repeat them, so they cannot show that a clock is fast.
    """

    def __init__(self) -> None:
        self._ahead: deque[tuple[str | None, timedelta]] = deque(maxlen=EVENTS * RECIPIENTS)
        self._others = 0

    def difference(self, arrival: Arrival, present: timedelta) -> timedelta:
        """Return the difference to the process's clock after one more arrival.

        `present` is the difference before it.
        """
        notification = arrival.notification
        if notification is None or notification.at is None:
            return present
        difference = notification.at - arrival.received_at
        if difference <= AHEAD:
            self._ahead.clear()
            self._others += 1
            return _NONE if self._others >= EVENTS else present
        self._others = 0
        self._ahead.append((notification.recipient, difference))
        if len(self._ahead) < EVENTS or len({each for each, _ in self._ahead}) < RECIPIENTS:
            return present
        # The median, because a few of the events may be old or strange.
        return sorted(each for _, each in self._ahead)[len(self._ahead) // 2]


def clock_difference(
    database: Callable[[], datetime | None], process: Callable[[], datetime] | None = None
) -> timedelta | None:
    """Return by how much the database's clock is ahead of the process's.

    `database` returns its time; None if it has no clock of its own. Raises what `database` raises.
    """
    process = process or utc_now
    asked = process()
    time = database()
    answered = process()
    return None if time is None else time - (asked + (answered - asked) / 2)


def measured_clock(store: Store) -> Clock:
    """Return a clock that has been compared with that of the store's database. Never raises."""
    clock = Clock(store)
    clock.measure()
    return clock


def describe_difference(difference: timedelta) -> str:
    """Return how wrong the process's clock is, if the other one is ahead by a difference."""
    seconds = timedelta(seconds=round(abs(difference).total_seconds()))
    return f"{seconds} {'slow' if difference > _NONE else 'fast'}"


def _moved(arrival: Arrival, offset: timedelta) -> Arrival:
    return replace(arrival, received_at=arrival.received_at + offset)
