"""Rate-limited log messages: a repeated message is left out, and counted."""

from __future__ import annotations

import logging
from threading import Thread

import pytest

from hookrow.quiet import Once, Quiet


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock that the module reads."""
    clock = Clock()
    monkeypatch.setattr("hookrow.quiet.monotonic", clock)
    return clock


def test_repeated_messages(caplog: pytest.LogCaptureFixture, clock: Clock) -> None:
    """A template is logged once in ten seconds, whatever its values, then with a count."""
    caplog.set_level(logging.DEBUG, "hookrow")
    quiet, other = Quiet(), Quiet()
    for number in range(6):
        quiet.warning("again %d", number, request_id="r-1")
    quiet.error("again %d", 0)
    other.warning("again %d", 0)
    quiet.debug("100 %% of %s", "%s")
    clock.now += 9.99
    quiet.warning("again %d", 6)
    clock.now += 0.01
    for number in range(7, 9):
        quiet.warning("again %d", number)
    for number in (9, 10):
        clock.now += 10.0
        quiet.warning("again %d", number)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "again 0"),
        ("ERROR", "again 0"),
        ("WARNING", "again 0"),
        ("DEBUG", "100 % of %s"),
        ("WARNING", "again 7 (and 6 times more before)"),
        ("WARNING", "again 9 (and 1 times more before)"),
        ("WARNING", "again 10"),
    ]
    assert vars(caplog.records[0])["request_id"] == "r-1"
    assert {record.name for record in caplog.records} == {"hookrow"}


def test_silence_of_its_own(caplog: pytest.LogCaptureFixture, clock: Clock) -> None:
    """The silence may be of any length."""
    quiet = Quiet(seconds=0.5)
    for _ in range(3):
        quiet.warning("now")
        clock.now += 0.25
    assert caplog.messages == ["now", "now (and 1 times more before)"]


def test_many_threads(caplog: pytest.LogCaptureFixture) -> None:
    """Threads may log at the same time; a message is lost or repeated, but nothing raises."""
    quiet = Quiet(seconds=1000)

    def log() -> None:
        for _ in range(100):
            quiet.warning("now")

    threads = [Thread(target=log) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= len(caplog.messages) <= 4


def test_filter(clock: Clock) -> None:
    """The filter limits warnings by their template, and lets all others pass."""

    def passes(level: int, message: str, value: int) -> bool:
        return once.filter(logging.LogRecord("uvicorn", level, "", 0, message, (value,), None))

    once = Once()
    assert [passes(logging.WARNING, "bad %d", number) for number in range(3)] == [True] + [
        False
    ] * 2
    assert [passes(logging.INFO, "started %d", number) for number in range(2)] == [True] * 2
    clock.now += 10.0
    assert passes(logging.WARNING, "bad %d", 3)
