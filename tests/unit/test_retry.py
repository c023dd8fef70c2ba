"""Retry: which attempts follow a failed one, who gets 503, where it is kept, and the log lines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import repeat

import pytest
from receiving import NOON

from hookrow import retry
from hookrow.notification import (
    Arrival,
    Delivered,
    Notification,
    Outcome,
    Recorded,
    Refusal,
    Suppressed,
)
from hookrow.retry import REST, Retry
from hookrow.stores import Conflict, Locked, Rejected, StoreError, Unavailable
from hookrow.stores.limits import limited_to

ADA = "ada@example.com"

RECORDED = Recorded(())

LETTERS = {RECORDED: "R", Refusal.FAILED.refused(): "F", Refusal.UNAVAILABLE.refused(): "L"}
"""Recorded; failed: kept in the log; later: kept in the spool."""

CONFLICT, LOCKED, REJECTED = Conflict("40P01"), Locked("55P03"), Rejected("NotNullViolation 23502")
GONE = Unavailable("gone")


class Clock:
    """Time that passes only in sleep and in attempts."""

    def __init__(self) -> None:
        self.now = 1000.0

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replace the clock of the module."""
    clock = Clock()
    monkeypatch.setattr(retry, "monotonic", lambda: clock.now)
    monkeypatch.setattr(retry, "sleep", clock.sleep)
    monkeypatch.setattr("hookrow.stores.limits.monotonic", lambda: clock.now)
    return clock


class Rig:
    """Retries attempts that raise the given faults, one each time, and then record.

    With `poisoned` they raise the first fault for each group with one of these letters in it.
    `asked`, `failed` and `spooled` have what was attempted ("+" stands for `skip_locked`), and
    kept in the log and the spool.
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
        self.asked: list[str] = []
        self.failed = ""
        self.spooled: list[str] = []
        self._faults = repeat(faults[0]) if poisoned else iter(faults)
        self._poisoned = poisoned
        self._takes = takes
        self._log_fault = log_fault
        self.run = Retry(
            self._attempt,
            fail=self._fail,
            reachable=lambda: reachable,
            spool=lambda arrivals: self.spooled.append(_names(arrivals)),
            seconds=seconds,
        )

    def __call__(self, names: str) -> str:
        """Return how a group ends that has a notification for each letter."""
        return "".join(LETTERS[each] for each in self.run([_arrival(name) for name in names]))

    def _attempt(self, arrivals: Sequence[Arrival], *, skip_locked: bool = False) -> list[Outcome]:
        names = _names(arrivals)
        self.asked.append(names + ("+" if skip_locked else ""))
        self._takes()
        if not self._poisoned or set(self._poisoned) & set(names):
            for fault in self._faults:
                raise fault
        return [RECORDED] * len(arrivals)

    def _fail(self, arrivals: Sequence[Arrival]) -> None:
        if self._log_fault is not None:
            raise self._log_fault
        self.failed += _names(arrivals)


def _arrival(name: str) -> Arrival:
    return Arrival(Delivered(f"{name}@example.com", f"m-{name}", NOON), name.encode(), NOON)


def _names(arrivals: Sequence[Arrival]) -> str:
    return "".join(each.body.decode() for each in arrivals)


@pytest.mark.parametrize(
    ("faults", "asked", "ended"),
    [
        ([], "abc", "RRR"),
        # Another transaction was in the way: the whole group again, a few times.
        ([CONFLICT] * 4, "abc abc abc abc abc", "RRR"),
        ([CONFLICT] * 5, "abc abc abc abc abc", "FFF"),
        # Locked rows: once more without them (+), however many conflicts there were.
        ([LOCKED], "abc abc+", "RRR"),
        ([LOCKED] * 2, "abc abc+", "FFF"),
        ([*[CONFLICT] * 4, LOCKED], "abc abc abc abc abc abc+", "RRR"),
        # The database refuses the data: one by one, each with all its attempts.
        ([REJECTED] * 2, "abc a b c", "FRR"),
        ([REJECTED, CONFLICT, LOCKED, REJECTED], "abc a a a+ b c", "FRR"),
        # The database is away: no further attempt.
        ([GONE], "abc", "LLL"),
        ([StoreError("another")], "abc", "LLL"),
        ([REJECTED, REJECTED, GONE], "abc a b", "FLL"),
        # A bug: no further attempt.
        ([ValueError("what")], "abc", "FFF"),
    ],
)
def test_attempts(faults: list[Exception], asked: str, ended: str) -> None:
    """Each fault has its attempts; each arrival that is not recorded is kept in one place."""
    rig = Rig(*faults)
    assert (rig("abc"), " ".join(rig.asked)) == (ended, asked)
    letters = list(zip("abc", ended, strict=True))
    assert rig.failed == "".join(name for name, letter in letters if letter == "F")
    assert "".join(rig.spooled) == "".join(name for name, letter in letters if letter == "L")


@pytest.mark.parametrize(("poisoned", "ended"), [("b", "RFR"), ("ac", "FRF")])
def test_poisoned(poisoned: str, ended: str, caplog: pytest.LogCaptureFixture) -> None:
    """Only what the database refuses fails; the log names the first such, without traceback."""
    assert Rig(REJECTED, poisoned=poisoned)("abc") == ended
    [record] = caplog.records
    assert f"m-{poisoned[0]}" in record.message
    assert "NotNullViolation 23502" in record.message
    assert record.exc_info is None


def test_unavailable_to_one() -> None:
    """If a store that can be reached fails for one notification, only that one is spooled."""
    rig = Rig(GONE, poisoned="b", reachable=True)
    assert [rig("abc"), rig("b"), rig("abc")] == ["RLR", "L", "RLR"]  # it does not rest
    assert rig.spooled == ["b", "b", "b"]


def test_unavailable_to_all() -> None:
    """After three in succession the others are spooled together, without an attempt."""
    rig = Rig(*[Unavailable("DiskFull 53100")] * 99, reachable=True)
    assert rig("abcdefghij") == "L" * 10
    assert rig.asked == ["abcdefghij", "a", "b", "c"]
    assert rig.spooled == ["a", "b", "c", "defghij"]


@pytest.mark.parametrize(
    ("fault", "rests"), [(LOCKED, False), (REJECTED, False), (GONE, True), (ValueError(), True)]
)
def test_rest(fault: Exception, clock: Clock, *, rests: bool) -> None:
    """A store that is away, or of which nobody knows what is wrong, is left alone for a while."""
    rig = Rig(fault)
    rig("a")
    asked = len(rig.asked)
    assert rig("bc") == ("LL" if rests else "RR")
    assert len(rig.asked) == asked + (not rests)
    clock.now += REST
    assert rig("a") == "R"


@pytest.mark.parametrize("limited", [False, True])
def test_out_of_time(clock: Clock, *, limited: bool) -> None:
    """No attempt begins once the time is over: the rest is spooled. The caller may limit it."""
    seconds = (9.0, 0.9) if limited else (0.9, 9.0)
    for fault in (CONFLICT, LOCKED, REJECTED):
        rig = Rig(*[fault] * 99, takes=lambda: clock.sleep(1.0), seconds=seconds[0])
        with limited_to(seconds[1]):
            assert rig("abc") == "LLL"
        assert (rig.asked, rig.failed, "".join(rig.spooled)) == (["abc"], "", "abc")


@pytest.mark.parametrize("fault", [GONE, TypeError(ADA)], ids=repr)
def test_log_that_cannot_be_written(fault: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """What the log cannot keep goes to the spool, and a log line says so."""
    caplog.set_level(logging.ERROR, "hookrow")
    rig = Rig(*[CONFLICT] * 5, log_fault=fault)
    assert (rig("abc"), rig.spooled) == ("FFF", ["abc"])
    [message] = caplog.messages
    assert message.startswith(f"The log cannot be written: {type(fault).__name__}")


@pytest.mark.parametrize("fault", [CONFLICT, GONE], ids=repr)
def test_unsupported(fault: Exception) -> None:
    """An unsupported payload gets 422 whatever happens to the store, and is kept, too."""
    rig = Rig(*[fault] * 5)
    assert rig.run([Arrival(None, b"{}", NOON)]) == [Refusal.UNSUPPORTED.refused()]
    assert [rig.failed, *rig.spooled].count("{}") == 1


def test_logged_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """What happens to every group of an outage is logged once."""
    rig = Rig(*[GONE] * 250)
    for _ in range(50):
        assert rig("abc") == "LLL"
        clock.now += REST
    assert caplog.messages == ["Answering 3 notifications 503: gone"]


@pytest.mark.parametrize("fault", [KeyError(ADA), RecursionError()], ids=repr)
def test_bug_is_logged(fault: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """Any other exception is logged with its type and place, but without what it quotes."""
    Rig(fault)("abc")
    [record] = caplog.records
    assert (record.name, record.levelno) == ("hookrow", logging.ERROR)
    assert type(fault).__name__ in caplog.text
    assert "test_retry.py" in caplog.text
    assert ADA not in caplog.text


@pytest.mark.parametrize(
    ("notification", "parts"),
    [
        (None, ["unsupported"]),
        (Suppressed(ADA, None, None, "HardBounce"), ["Suppressed", "None", "of 'a***@example.com"]),
        (Delivered('"ada@home"@example.com', "m-1", NOON), ["of '\"***@example.com"]),
        (Delivered("postmaster", "m-1", NOON), ["of 'p***"]),
        (Delivered(None, None, NOON), ["Delivered", "None"]),
        (Delivered(f"{ADA}\nERROR", "m\n1", NOON), ["of 'a***@example.com\\nERROR", "m\\n1"]),
        (Delivered("a@\r\x1b[2Jb", "\x1b", NOON), [r"of 'a***@\r\x1b[2Jb"]),
    ],
    ids=str,
)
def test_name_of_a_notification(
    notification: Notification | None, parts: Sequence[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A log line names type, message and domain in one line, and never a full address."""
    Rig(REJECTED).run([Arrival(notification, b"", NOON)])
    [message] = caplog.messages
    assert all(part in message for part in [*parts, "23502"])
    assert message.isprintable()
    assert ADA not in message
