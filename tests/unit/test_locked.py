"""Notifications that wait for locked rows: how many, for how long, and what ends their wait."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from math import inf
from threading import Event
from unittest.mock import Mock

import pytest
from receiving import NOON

from hookrow import Arrival, Response
from hookrow._http import plain
from hookrow._receiver import locked
from hookrow._receiver.locked import LockedRows
from hookrow.stores._timeouts import STORE_DEADLINE, limited_to
from wire import PATIENCE, eventually

RECORDED, FAILED, UNAVAILABLE = (plain(status, "") for status in (200, 503, 500))


def arrival(number: int) -> Arrival:
    return Arrival((), b"%d" % number, NOON)


class Rows:
    """Rows that are locked until they are freed, and the responses by number."""

    def __init__(self, *, seconds: float = PATIENCE, seconds_to_give_up: float = 0.0) -> None:
        self.free: set[int] = set()
        self.responses: dict[int, Response] = {}
        self.attempts = 0
        self.fault: Exception | None = None
        self.resumed, self.blocked = Event(), Event()
        self.blocked.set()
        self.waiting = LockedRows(
            self._resume,
            self._give_up,
            seconds=seconds,
            seconds_to_give_up=seconds_to_give_up,
            unavailable=lambda _: UNAVAILABLE,
        )
        self.deadlines: set[float] = set()

    def add(self, *numbers: int) -> None:
        self.waiting.add([(arrival(number), self._reply(number)) for number in numbers])

    def has(self, count: int) -> bool:
        return len(self.responses) == count

    def statuses(self) -> dict[int, int]:
        return {number: response.status for number, response in self.responses.items()}

    def _reply(self, number: int) -> Callable[[Response], object]:
        return lambda response: self.responses.__setitem__(number, response)

    def _resume(self, arrivals: Sequence[Arrival]) -> list[Response | None]:
        self.attempts += 1
        self.deadlines.add(STORE_DEADLINE.get())
        self.resumed.set()
        assert self.blocked.wait(PATIENCE)
        if self.fault is not None:
            raise self.fault
        return [RECORDED if int(each.body) in self.free else None for each in arrivals]

    def _give_up(self, arrivals: Sequence[Arrival]) -> list[Response]:
        self.deadlines.add(STORE_DEADLINE.get())
        if self.fault is not None:
            raise self.fault
        return [FAILED for _ in arrivals]


@pytest.fixture
def rows() -> Iterator[Rows]:
    rows = Rows()
    with closing(rows.waiting):
        yield rows


def test_each_is_recorded_as_soon_as_its_row_is_free(rows: Rows) -> None:
    rows.add(1, 2, 3)
    for count, number in enumerate((2, 1, 3), 1):
        rows.free.add(number)
        eventually(partial(rows.has, count))
        assert number in rows.responses
    assert rows.statuses() == {1: 200, 2: 200, 3: 200}
    rows.free.add(4)
    rows.add(4)  # the thread had ended
    eventually(lambda: 4 in rows.responses)


def test_after_some_time_they_are_given_up() -> None:
    rows = Rows(seconds=0.0)
    rows.add(1, 2)
    eventually(lambda: rows.statuses() == {1: 503, 2: 503})


def test_a_time_limit_applies_to_the_attempts_and_leaves_time_to_give_up() -> None:
    """Stores keep the limit of the thread that added them, which then ends it."""
    rows = Rows(seconds_to_give_up=PATIENCE)
    with limited_to(PATIENCE):
        limit = STORE_DEADLINE.get()
        rows.add(1)
    eventually(lambda: rows.statuses() == {1: 503})  # without waiting
    rows.add(2)
    eventually(lambda: rows.attempts)
    rows.free.add(2)
    eventually(lambda: 2 in rows.responses)
    assert sorted(rows.deadlines) == [pytest.approx(limit), inf]


@pytest.mark.parametrize("limit", ["MAX_LOCKED", "LOCKED_CAPACITY"])
def test_those_that_are_too_many_are_given_up_at_once(
    rows: Rows, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """Those of an attempt in progress count."""
    monkeypatch.setattr(locked, limit, 2)
    rows.blocked.clear()
    rows.add(1, 2)
    assert rows.resumed.wait(PATIENCE)
    rows.add(3)
    assert rows.statuses() == {3: 503}
    rows.free |= {1, 2}
    rows.blocked.set()
    eventually(lambda: len(rows.responses) == 3)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_next_one_replaces_a_thread_that_has_ended(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(locked, "leading", Mock(side_effect=MemoryError))
        rows.add(1)
        eventually(lambda: rows.waiting._thread is None)
    rows.free |= {1, 2}
    rows.add(2)
    eventually(lambda: rows.statuses() == {1: 200, 2: 200})


def test_an_exception_ends_neither_the_thread_nor_later_waits(rows: Rows) -> None:
    rows.fault = MemoryError()
    rows.add(1)
    eventually(lambda: rows.statuses() == {1: 500})
    rows.fault = None
    rows.free.add(2)
    rows.add(2)
    eventually(lambda: rows.statuses() == {1: 500, 2: 200})


def test_closing_gives_up_what_waits(rows: Rows) -> None:
    rows.add(1)
    rows.waiting.close(PATIENCE)
    assert rows.statuses() == {1: 503}
    assert rows.waiting.drain_queue() == []
    rows.add(2)
    assert rows.statuses() == {1: 503, 2: 503}


def test_what_still_waits_after_closing_can_be_kept_elsewhere(rows: Rows) -> None:
    rows.blocked.clear()
    rows.add(1)
    assert rows.resumed.wait(PATIENCE)
    rows.waiting.close(0.01)
    assert [each.body for each in rows.waiting.drain_queue()] == [b"1"]
    rows.blocked.set()
