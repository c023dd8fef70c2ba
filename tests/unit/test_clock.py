"""The time by which arrivals and retries are dated, if the process's clock is wrong."""

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest
from receiving import Database

from copying import replace
from engines import MEMORY
from hookrow import Arrival, Delivered, Suppressed
from hookrow._core.notification import Notification
from hookrow._receiver import clock as clocks
from hookrow._receiver.clock import (
    LEAST_EVENTS,
    LEAST_RECIPIENTS,
    Clock,
    clock_difference,
    measured_clock,
    utc_now,
)
from hookrow.stores._errors import Unavailable
from hookrow.stores.sql import SQLStore
from times import DAY, HOUR, MINUTE, NOON, SECOND
from wire import ADA, PATIENCE

MOMENT = timedelta(microseconds=1)

STORE = SQLStore(MEMORY)
"""A store whose database has no clock; nothing else of it is used."""

SLOW = (
    "The clock of this machine is 3 days, 0:00:00 slow, compared with the database's: "
    "hookrow corrects the times of arrival. Set the clock."
)
RIGHT_AGAIN = "The clock of this machine agrees with the database's again."


class Server(Database):
    """A store whose database has a clock of its own, or does not respond."""

    def __init__(self, now: datetime | None) -> None:
        super().__init__()
        self.now, self.asked = now, 0

    def time(self) -> datetime:
        self.asked += 1
        if self.now is None:
            raise Unavailable("No response.")
        return self.now


class Time:
    """The time of `monotonic`."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    """Let the test move the time of `monotonic`, and stop the process's clock at noon."""
    time = Time()
    monkeypatch.setattr(clocks, "monotonic", time)
    monkeypatch.setattr(clocks, "utc_now", lambda: NOON)
    return time


def arrival(notification: Notification | None = None) -> Arrival:
    return Arrival(() if notification is None else (notification,), b"{}", NOON)


def arrivals(number: int, at: datetime, recipients: int = LEAST_RECIPIENTS) -> list[Arrival]:
    """Return arrivals at noon of deliveries that are dated `at`."""
    people = [f"{n % recipients}@x" for n in range(number)]
    return [arrival(Delivered(each, "m", at)) for each in people]


def dated(clock: Clock, *given: Arrival) -> list[datetime]:
    clock.measure()
    return [each.received_at for each in clock.date(given)]


@pytest.mark.parametrize(
    ("difference", "offset"),
    [
        *((3 * DAY, 3 * DAY), (-40 * DAY, -40 * DAY), (HOUR + MOMENT, HOUR + MOMENT)),
        *((HOUR, 0 * HOUR), (-HOUR, 0 * HOUR), (MINUTE, 0 * HOUR)),
    ],
)
@pytest.mark.usefixtures("time")
def test_the_databases_clock_corrects_more_than_an_hour(
    difference: timedelta, offset: timedelta
) -> None:
    """Even the first group, which arrived before the clocks were compared, has the right time."""
    clock = Clock(Server(NOON + difference))
    assert clock() == NOON
    assert dated(clock, arrival(), arrival()) == [NOON + offset] * 2
    assert clock() == NOON + offset


def test_clocks_are_compared_once_a_minute(time: Time) -> None:
    server = Server(NOON)
    clock = Clock(server)
    assert dated(clock, arrival()) == [NOON]
    server.now = NOON + 3 * DAY
    time.seconds += 59
    assert dated(clock, arrival()) == [NOON]
    time.seconds += 1
    assert dated(clock, arrival()) == [NOON + 3 * DAY]
    server.now = NOON
    time.seconds += 60
    assert dated(clock, arrival()) == [NOON]
    assert server.asked == 3


def test_without_a_response_the_correction_stays(time: Time) -> None:
    """The database is asked again after a second."""
    server = Server(NOON + 3 * DAY)
    clock = Clock(server)
    clock.measure()
    server.now = None
    time.seconds += 60
    assert dated(clock, arrival()) == dated(clock, arrival()) == [NOON + 3 * DAY]
    assert server.asked == 2
    server.now = NOON
    time.seconds += 1
    assert dated(clock, arrival()) == [NOON]


@pytest.mark.parametrize("jump", [-3 * DAY, 3 * DAY])
def test_a_clock_that_is_set_is_compared_at_once(
    jump: timedelta, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it becomes wrong or right; the monotonic clock shows the jump."""
    server = Server(NOON)
    clock = Clock(server)
    assert dated(clock, arrival()) == [NOON]
    monkeypatch.setattr(clock, "uncorrected", lambda: NOON + jump)
    moved = replace(arrival(), received_at=NOON + jump)
    assert dated(clock, moved) == [NOON]
    monkeypatch.setattr(clock, "uncorrected", lambda: NOON)
    assert dated(clock, arrival()) == [NOON]
    assert server.asked == 3
    time.seconds += 59
    assert dated(clock, arrival()) == [NOON]
    assert server.asked == 3


def test_events_before_a_jump_show_nothing(time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the user sets the clock, the correction ends with the next notification."""
    del time
    clock = Clock(STORE)
    dated(clock, *arrivals(LEAST_EVENTS, NOON + 3 * DAY))
    monkeypatch.setattr(clock, "uncorrected", lambda: NOON + 3 * DAY)
    assert dated(clock, replace(arrival(), received_at=NOON + 3 * DAY)) == [NOON + 3 * DAY]


@pytest.mark.usefixtures("time")
def test_the_first_comparison_holds_up_other_threads() -> None:
    """They would date their arrivals by a clock that may be wrong."""
    asked, answer = Event(), Event()

    class Slow(Server):
        def time(self) -> datetime:
            asked.set()
            assert answer.wait(PATIENCE)
            return super().time()

    clock = Clock(Slow(NOON + 3 * DAY))
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(dated, clock, arrival())
        assert asked.wait(PATIENCE)
        second = threads.submit(dated, clock, arrival())
        answer.set()
        assert first.result(PATIENCE) == second.result(PATIENCE) == [NOON + 3 * DAY]


@pytest.mark.usefixtures("time")
def test_a_bug_does_not_stop_a_notification(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Server):
        def time(self) -> datetime:
            raise TypeError(ADA)

    assert dated(Clock(Broken(NOON)), arrival()) == [NOON]
    assert "The clock cannot be compared: a bug raised TypeError" in caplog.text
    assert ADA not in caplog.text


def test_the_middle_of_the_question_is_compared() -> None:
    """The response of a slow server does not look like a difference."""
    times = iter([NOON, NOON + 4 * SECOND])
    assert clock_difference(Server(NOON + 2 * SECOND).time, lambda: next(times)) == timedelta(0)
    assert clock_difference(STORE.time, utc_now) is None


def test_a_given_clock_is_never_corrected() -> None:
    """Time may stand still in the tests of a host, whose database has the present time."""
    server = Server(NOON + 300 * DAY)
    clock = Clock(server, lambda: NOON)
    assert dated(clock, arrival()) == [NOON]
    assert (clock(), clock.uncorrected(), server.asked) == (NOON, NOON, 0)


def test_a_difference_is_logged_once(time: Time, caplog: pytest.LogCaptureFixture) -> None:
    server = Server(NOON + 3 * DAY)
    clock = Clock(server)
    for _ in range(3):
        clock.measure()
        time.seconds += 60
    server.now = NOON
    clock.measure()
    assert caplog.record_tuples == [
        ("hookrow", logging.WARNING, text) for text in (SLOW, RIGHT_AGAIN)
    ]


@pytest.mark.usefixtures("time")
def test_events_show_a_slow_clock_if_the_database_has_none() -> None:
    """The last of enough events, and each later arrival, has the corrected time."""
    clock = Clock(STORE)
    group = arrivals(LEAST_EVENTS, NOON + 3 * DAY)
    assert dated(clock, *group) == [*[NOON] * (LEAST_EVENTS - 1), NOON + 3 * DAY]
    unguarded = arrival(Suppressed("0@x", "m", None, "HardBounce"))
    assert dated(clock, unguarded, arrival()) == [NOON + 3 * DAY] * 2


@pytest.mark.parametrize("size", [1, 7, 60])
@pytest.mark.usefixtures("time")
def test_the_times_do_not_depend_on_the_groups(size: int) -> None:
    """Arrivals in groups of any size have the times that they have one by one."""
    given = [
        *arrivals(LEAST_EVENTS + 3, NOON + 3 * DAY),
        *(arrival(), arrival(Suppressed("0@x", "m", None, "HardBounce"))),
        *arrivals(LEAST_EVENTS + 3, NOON - MINUTE),
        *arrivals(3, NOON + 9 * DAY),
    ]
    single, grouped = Clock(STORE), Clock(STORE)
    one_by_one = [at for each in given for at in dated(single, each)]
    groups = [given[start : start + size] for start in range(0, len(given), size)]
    assert [at for group in groups for at in dated(grouped, *group)] == one_by_one
    assert set(one_by_one) == {NOON, NOON + 3 * DAY}


@pytest.mark.parametrize(
    "group",
    [
        arrivals(LEAST_EVENTS - 1, NOON + 3 * DAY),
        arrivals(LEAST_EVENTS * 2, NOON + 3 * DAY, LEAST_RECIPIENTS - 1),
        arrivals(LEAST_EVENTS * 2, NOON + DAY),
        arrivals(LEAST_EVENTS * 2, NOON - 40 * DAY),
        [
            *arrivals(LEAST_EVENTS - 1, NOON + 3 * DAY),
            *arrivals(1, NOON),
            *arrivals(5, NOON + 3 * DAY),
        ],
    ],
    ids=["few events", "few recipients", "a day ahead", "old events", "one that is not ahead"],
)
@pytest.mark.usefixtures("time")
def test_fewer_events_show_nothing(group: list[Arrival]) -> None:
    """Old events in particular: a provider repeats them after an outage."""
    assert set(dated(Clock(STORE), *group)) == {NOON}


@pytest.mark.usefixtures("time")
def test_the_median_of_the_events_counts() -> None:
    group = arrivals(LEAST_EVENTS, NOON + 3 * DAY)
    group[3:5] = [*arrivals(1, NOON + 2 * DAY), *arrivals(1, NOON + 3000 * DAY)]
    assert dated(Clock(STORE), *group, arrival())[-1] == NOON + 3 * DAY


@pytest.mark.usefixtures("time")
def test_a_clock_that_is_set_right_is_not_corrected_any_longer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As many events show it as show that a clock is slow; one old event does not."""
    clock = Clock(STORE)
    dated(clock, *arrivals(LEAST_EVENTS, NOON + 3 * DAY))
    times = dated(clock, *arrivals(LEAST_EVENTS, NOON - SECOND), arrival())
    assert times == [*[NOON + 3 * DAY] * (LEAST_EVENTS - 1), NOON, NOON]
    assert "agrees with that of the events received again" in caplog.messages[-1]


def test_a_clock_for_one_operation() -> None:
    """It has been compared when it is returned."""
    at = datetime.now(UTC) + 3 * DAY
    assert abs(measured_clock(Server(at))() - at) < MINUTE
