"""Failures: the attempts after a failed one, its outcome, the spool, and the log lines."""

import logging
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partialmethod
from itertools import repeat
from typing import cast

import pytest
from receiving import NOON

from hookrow._core.notification import (
    Arrival,
    Delivered,
    Notification,
    Outcome,
    Recorded,
    Refusal,
    Suppressed,
)
from hookrow._core.rules import fail
from hookrow._receiver import recorder
from hookrow._receiver.clock import utc_now
from hookrow._receiver.recorder import GroupRecorder
from hookrow.stores._errors import Conflict, Locked, Rejected, StoreError, Unavailable, Unchanged
from hookrow.stores._timeouts import limited_to
from hookrow.stores.sql import SQLStore
from wire import ADA

RECORDED = Recorded(())
LETTERS = {RECORDED: "R", Refusal.FAILED.refused(): "F", Refusal.UNAVAILABLE.refused(): "L"}
"""R: recorded; F: failed, and logged as failed; L: unavailable, and spooled for later."""

CONFLICT, LOCKED, REJECTED = Conflict("40P01"), Locked("55P03"), Rejected("NotNullViolation 23502")
GONE = Unavailable("gone")
UNCHANGED = Unchanged("A row could not be locked.")


class Clock:
    """A clock that is advanced only by `sleep` and by attempts."""

    now = 1000.0

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replace the clock, and let the recorder use a `Rig` as its store."""
    clock = Clock()
    monkeypatch.setattr("hookrow.stores._timeouts.monotonic", lambda: clock.now)
    for name, function in {
        "monotonic": lambda: clock.now,
        "sleep": clock.sleep,
        "record": Rig.record,
        "record_unlocked": Rig.record_unlocked,
        "keep_failed": Rig.keep_failed,
        "is_reachable": lambda rig: rig.reachable,
    }.items():
        monkeypatch.setattr(recorder, name, function)
    return clock


class Rig:
    """Retries attempts that raise the given faults, one each time, and then succeed.

    With `poisoned`, an attempt raises the first fault if its group has one of these letters.
    `attempts` lists the groups that were tried ("+" stands for `record_unlocked`, "?" for
    `checked`), `failed` the letters that were logged as failed, and `spooled` the groups that were
    spooled.
    """

    def __init__(
        self,
        *faults: Exception,
        poisoned: str = "",
        reachable: bool = False,
        seconds: float = 5.0,
        takes: Callable[[], object] = lambda: None,
        log_fault: Exception | None = None,
    ) -> None:
        self.attempts, self.failed, self.spooled = list[str](), "", list[str]()
        self._faults = repeat(faults[0]) if poisoned else iter(faults)
        self._poisoned, self._takes, self._log_fault = poisoned, takes, log_fault
        self.reachable = reachable

        def spool(arrivals: Sequence[Arrival]) -> Sequence[Outcome]:
            self.spooled.append(_names(arrivals))
            return fail(arrivals, Refusal.UNAVAILABLE)

        store = cast("SQLStore", self)
        self.run = GroupRecorder(
            store, bodies=True, seconds=seconds, spool=spool, clock=utc_now
        ).wait

    def is_nested(self) -> bool:
        return False

    def __call__(self, names: str) -> str:
        """Record a group with a notification for each letter; return their outcomes."""
        return "".join(LETTERS[each] for each in self.run([_arrival(name) for name in names]))

    def record(
        self,
        arrivals: Sequence[Arrival],
        *,
        checked: bool,
        bodies: bool,
        clock: Callable[[], datetime],
        unlocked: str = "",
    ) -> list[Outcome]:
        assert bodies
        assert clock is utc_now
        names = _names(arrivals)
        self.attempts.append(names + unlocked + ("?" if checked else ""))
        self._takes()
        if not self._poisoned or set(self._poisoned) & set(names):
            for fault in self._faults:
                raise fault
        return [RECORDED] * len(arrivals)

    record_unlocked = partialmethod(record, unlocked="+")

    def keep_failed(
        self, arrivals: Sequence[Arrival], *, bodies: bool, clock: Callable[[], datetime]
    ) -> list[Outcome]:
        assert bodies
        assert clock is utc_now
        if self._log_fault is not None:
            raise self._log_fault
        self.failed += _names(arrivals)
        return fail(arrivals)


def _arrival(name: str) -> Arrival:
    return Arrival((Delivered(f"{name}@example.com", f"m-{name}", NOON),), name.encode(), NOON)


def _names(arrivals: Sequence[Arrival]) -> str:
    return "".join(each.body.decode() for each in arrivals)


@pytest.mark.parametrize(
    ("faults", "attempts", "ended"),
    [
        ([], "abc", "RRR"),
        # A conflict with another transaction: the group is retried four times, then one by one,
        # and what still conflicts like locked rows (+).
        ([CONFLICT] * 4, "abc abc abc abc abc", "RRR"),
        ([CONFLICT] * 5, "abc abc abc abc abc a b c", "RRR"),
        ([*[CONFLICT] * 5, LOCKED], "abc abc abc abc abc a a+ b c", "RRR"),
        ([CONFLICT] * 10, "abc abc abc abc abc a a a a a b c a+", "RRR"),
        # Locked rows: the group is retried without them (+), also after four conflicts, and those
        # that need them again.
        ([LOCKED] * 3, "abc abc+ abc+ abc+", "RRR"),
        ([*[CONFLICT] * 4, LOCKED], "abc abc abc abc abc abc+", "RRR"),
        # The database rejects the data: one by one, each with all its attempts.
        ([REJECTED] * 2, "abc a b c", "FRR"),
        ([REJECTED, CONFLICT, LOCKED, REJECTED], "abc a a a+ b c", "FRR"),
        ([REJECTED, LOCKED, LOCKED, REJECTED], "abc a a+ b c a+", "RFR"),
        # A row was left unchanged: the next attempts are checked (?), until one by one.
        ([UNCHANGED], "abc abc?", "RRR"),
        ([UNCHANGED] * 2, "abc abc? abc?", "RRR"),
        ([*[UNCHANGED] * 3, *[UNCHANGED] * 3], "abc abc? abc? a a? a? b c", "FRR"),
        ([UNCHANGED, CONFLICT, LOCKED], "abc abc? abc? abc+?", "RRR"),
        # The database is unavailable: no further attempt.
        ([GONE], "abc", "LLL"),
        ([StoreError("another")], "abc", "LLL"),
        ([REJECTED, REJECTED, GONE], "abc a b", "FLL"),
        # A bug, which one of them may trigger: one by one, without another attempt.
        ([ValueError("what")], "abc a b c", "RRR"),
        ([ValueError("what")] * 2, "abc a b c", "FRR"),
        ([ValueError("what")] * 4, "abc a b c", "FFF"),
    ],
)
def test_the_attempts_after_each_fault(faults: list[Exception], attempts: str, ended: str) -> None:
    rig = Rig(*faults)
    assert (rig("abc"), " ".join(rig.attempts)) == (ended, attempts)
    letters = list(zip("abc", ended, strict=True))
    assert rig.failed == "".join(name for name, letter in letters if letter == "F")
    assert "".join(rig.spooled) == "".join(name for name, letter in letters if letter == "L")


def test_if_a_reachable_store_fails_for_one_notification_only_that_one_is_spooled() -> None:
    rig = Rig(GONE, poisoned="b", reachable=True)
    assert [rig("abc"), rig("b"), rig("abc")] == ["RLR", "L", "RLR"]  # without a pause
    assert rig.spooled == ["b", "b", "b"]


def test_after_its_session_was_lost_a_group_is_recorded_in_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig(GONE, reachable=True)
    assert (rig("abc"), rig.attempts, caplog.messages) == ("RRR", ["abc", "abc"], [])


def test_after_its_session_was_lost_a_lone_notification_is_recorded_in_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig(GONE, reachable=True)
    assert (rig("a"), rig.attempts, caplog.messages) == ("R", ["a", "a"], [])


@pytest.mark.parametrize(("poisoned", "ended"), [("abcdefghij", "L" * 10), ("bcde", "R" + "L" * 9)])
def test_after_three_failures_in_succession_the_others_are_spooled_together(
    poisoned: str, ended: str
) -> None:
    rig = Rig(Unavailable("DiskFull 53100"), poisoned=poisoned, reachable=True)
    assert rig("abcdefghij") == ended
    failed = poisoned[:3]
    rest = "abcdefghij".partition(failed)[2]
    assert rig.attempts == ["abcdefghij", "abcdefghij", *"abcdefghij"[: -len(rest)]]
    assert rig.spooled == [*failed, rest]


@pytest.mark.parametrize(
    ("fault", "pauses"), [(LOCKED, False), (REJECTED, False), (GONE, True), (ValueError(), False)]
)
def test_after_an_outage_no_attempt_is_made_for_a_second(
    fault: Exception, clock: Clock, *, pauses: bool
) -> None:
    rig = Rig(fault)
    rig("a")
    attempts = len(rig.attempts)
    assert rig("bc") == ("LL" if pauses else "RR")
    assert len(rig.attempts) == attempts + (not pauses)
    clock.now += 1.0
    assert rig("a") == "R"


def test_the_pauses_before_further_attempts_are_short_and_random(clock: Clock) -> None:
    """They differ, so that two transactions do not conflict again."""
    pauses = []
    for _ in range(20):
        began = clock.now
        assert Rig(*[CONFLICT] * 4)("abc") == "RRR"
        pauses.append(clock.now - began)
    assert all(0.2 < each < 0.67 for each in pauses)
    assert len(set(pauses)) == 20


@pytest.mark.parametrize(
    ("fault", "names", "attempts", "ended"),
    [
        (CONFLICT, "ab", ["ab", "ab"], "LL"),
        (LOCKED, "ab", ["ab", "ab+"], "FF"),
        (REJECTED, "a", ["a"], "F"),
        (GONE, "ab", ["ab", "ab"], "LL"),
    ],
)
def test_the_deadline_itself_is_in_time(
    fault: Exception, names: str, attempts: list[str], ended: str, clock: Clock
) -> None:
    rig = Rig(*[fault] * 9, takes=lambda: clock.sleep(1.0), seconds=1.0, reachable=True)
    assert (rig(names), rig.attempts) == (ended, attempts)


def test_an_outage_that_lasts_until_the_deadline_spools_the_group_together(clock: Clock) -> None:
    rig = Rig(GONE, takes=lambda: clock.sleep(2.0), seconds=1.0, reachable=True)
    assert (rig("ab"), rig.attempts, rig.spooled) == ("LL", ["ab"], ["ab"])


@pytest.mark.parametrize(
    ("limit", "names", "attempts", "spooled"),
    [(4.0, "abc", ["abc"], ["abc"]), (9.0, "abc", ["abc", "abc"], [])],
)
def test_after_a_slow_failure_the_store_is_probed_only_if_there_is_time_for_it(
    limit: float, names: str, attempts: list[str], spooled: list[str], clock: Clock
) -> None:
    """A store that does not respond would need as long for the probe, and leave none to spool."""
    rig = Rig(GONE, takes=lambda: clock.sleep(3.0), reachable=True, seconds=limit)
    with limited_to(limit):
        rig(names)
    assert (rig.attempts, rig.spooled) == (attempts, spooled)


@pytest.mark.parametrize("seconds", [(9.0, 0.9), (0.9, 9.0)])
def test_after_the_deadline_no_attempt_is_made(clock: Clock, seconds: tuple[float, float]) -> None:
    for fault in (CONFLICT, REJECTED):
        rig = Rig(*[fault] * 99, takes=lambda: clock.sleep(1.0), seconds=seconds[0])
        with limited_to(seconds[1]):
            assert rig("abc") == "LLL"
        assert (rig.attempts, rig.failed, "".join(rig.spooled)) == (["abc"], "", "abc")


def test_locked_rows_are_not_waited_for_longer_than_most_of_the_time(clock: Clock) -> None:
    """The rest is for the log, in which the notifications are kept as failed."""
    rig, began = Rig(*[LOCKED] * 99), clock.now
    assert (rig("abc"), rig.failed, rig.spooled) == ("FFF", "abc", [])
    assert 3.5 < clock.now - began < 4.5
    assert rig.attempts[:2] == ["abc", "abc+"]


@pytest.mark.parametrize("fault", [GONE, TypeError(ADA)], ids=repr)
def test_log_that_cannot_be_written(fault: Exception, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "hookrow")
    rig = Rig(*[CONFLICT] * 99, log_fault=fault)
    assert (rig("abc"), rig.spooled) == ("LLL", ["abc"])
    [message] = caplog.messages
    assert re.match(rf"The log cannot be written: .*\b{type(fault).__name__}", message)
    assert ADA not in caplog.text


@pytest.mark.parametrize("fault", [CONFLICT, GONE], ids=repr)
def test_an_unsupported_payload_gets_422_and_is_kept_after_a_failure(fault: Exception) -> None:
    rig = Rig(*[fault] * 99)
    assert rig.run([Arrival((), b"{}", NOON)]) == [Refusal.UNSUPPORTED.refused()]
    assert [rig.failed, *rig.spooled].count("{}") == 1


def test_a_notification_that_triggers_a_bug_fails_alone() -> None:
    rig = Rig(ValueError("what"), poisoned="b")
    assert [rig("abc"), rig("ac")] == ["RFR", "RR"]  # without a pause
    assert (rig.failed, rig.spooled) == ("b", [])


def test_a_bug_that_every_notification_triggers_is_tried_three_times() -> None:
    """Then, the rest fails together, and groups are refused without an attempt for a second."""
    rig = Rig(ValueError("what"), poisoned="abcdefgh")
    assert rig("abcdefgh") == "F" * 8
    assert rig.attempts == ["abcdefgh", "a", "b", "c"]
    assert (rig("a"), rig.attempts[4:]) == ("L", [])


def test_after_a_failure_the_store_is_probed_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An outage that ends a moment later is not blamed on a notification."""
    probes = iter([False])
    monkeypatch.setattr(recorder, "is_reachable", lambda _: next(probes))
    assert Rig(GONE)("abc") == "LLL"
    [message] = caplog.messages
    assert "rejected" not in message


def test_a_bug_is_logged_with_its_place_but_not_its_text(caplog: pytest.LogCaptureFixture) -> None:
    Rig(KeyError(ADA))("a")
    [record] = caplog.records
    assert (record.name, record.levelno) == ("hookrow", logging.ERROR)
    assert re.search(r"(?s)record 1 notification: .*KeyError.*test_failures\.py", caplog.text)
    assert ADA not in caplog.text


@pytest.mark.parametrize(
    ("notification", "named"),
    [
        (None, "an unsupported notification"),
        (Suppressed(ADA, None, None, "HardBounce"), "Suppressed None of 'a***@example.com'"),
        (Delivered('"ada@home"@x', "m-1", NOON), "Delivered 'm-1' of '\"***@x'"),
        (Delivered("postmaster", "m-1", NOON), "Delivered 'm-1' of 'p***'"),
        (Delivered(None, None, NOON), "Delivered None of '***'"),
        (
            Delivered(f"{ADA}\nERROR\x1b[2J", "m\n1", NOON),
            r"Delivered 'm\n1' of 'a***@example.com\nERROR\x1b[2J'",
        ),
    ],
    ids=str,
)
def test_log_lines_contain_no_full_address(
    notification: Notification | None, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = () if notification is None else (notification,)
    Rig(REJECTED).run([Arrival(given, b"", NOON)])
    assert caplog.messages == [f"The database rejected {named}: NotNullViolation 23502"]
    assert caplog.records[0].exc_info is None
