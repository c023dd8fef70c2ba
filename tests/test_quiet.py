"""Quiet: what repeats is logged once, and counted."""

from __future__ import annotations

import logging
import time
from threading import Thread

import pytest

from hookrow.quiet import SILENCE, Quiet


def test_as_any_logger(caplog: pytest.LogCaptureFixture) -> None:
    """A message is logged with its values, in the library's logger."""
    with caplog.at_level(logging.WARNING):
        Quiet().warning("%d of %s", 3, "four")
        Quiet().error("100 %% of %s", "%s")
    assert caplog.record_tuples == [
        ("hookrow", logging.WARNING, "3 of four"),
        ("hookrow", logging.ERROR, "100 % of %s"),
    ]


def test_once(caplog: pytest.LogCaptureFixture) -> None:
    """The same message is logged once, whatever its values; another one is another."""
    quiet = Quiet()
    with caplog.at_level(logging.WARNING, "hookrow"):
        for number in range(100):
            quiet.warning("number %d", number)
        quiet.warning("something else")
    assert caplog.messages == ["number 0", "something else"]


def test_a_warning_does_not_silence_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """What needs somebody to look is logged though the same was a mere warning before."""
    quiet = Quiet()
    with caplog.at_level(logging.WARNING, "hookrow"):
        quiet.warning("answering 503: %s", "a conflict")
        quiet.error("answering 503: %s", "no database")
    assert caplog.messages == ["answering 503: a conflict", "answering 503: no database"]


def test_told_with_the_next(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while it is logged again, with how often it was left out, each message its own."""
    now = 1000.0
    monkeypatch.setattr("hookrow.quiet.monotonic", lambda: now)
    quiet = Quiet(seconds=10.0)
    with caplog.at_level(logging.WARNING, "hookrow"):
        for number in range(6):
            quiet.warning("again %d", number)
        quiet.error("another")
        now += 9.99
        quiet.warning("again %d", 6)
        now += 0.01
        for number in range(7, 9):
            quiet.warning("again %d", number)
        quiet.error("another")
        now += 10.0
        quiet.warning("again %d", 9)
        now += 10.0
        quiet.warning("again %d", 10)
    assert caplog.messages == [
        "again 0",
        "another",
        "again 7 (and 6 times more before)",
        "another",
        "again 9 (and 1 times more before)",
        "again 10",
    ]


def test_real_time(caplog: pytest.LogCaptureFixture) -> None:
    """The silence is of real time, ten seconds unless told otherwise."""
    assert SILENCE == 10.0
    quiet = Quiet(seconds=0.02)
    with caplog.at_level(logging.WARNING, "hookrow"):
        quiet.warning("now")
        time.sleep(0.03)
        quiet.warning("now")
    assert caplog.messages == ["now", "now"]


def test_each_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """Two receivers in one process do not silence each other."""
    with caplog.at_level(logging.WARNING, "hookrow"):
        for quiet in (Quiet(), Quiet()):
            quiet.warning("now")
    assert caplog.messages == ["now", "now"]


def test_in_many_threads(caplog: pytest.LogCaptureFixture) -> None:
    """Threads may log at once: hardly a line more comes of it, and nothing is raised."""
    quiet = Quiet()

    def log() -> None:
        for _ in range(500):
            quiet.warning("now")

    with caplog.at_level(logging.WARNING, "hookrow"):
        threads = [Thread(target=log) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert 1 <= len(caplog.messages) <= 8
