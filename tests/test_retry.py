"""What is done when a group fails: who is tried again, who is put off, and what is logged."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import pytest

from hookrow import retry
from hookrow.notification import (
    Arrival,
    Delivered,
    Notification,
    Outcome,
    Recorded,
    Refusal,
    Refused,
    Suppressed,
)
from hookrow.retry import Attempt, Retry
from hookrow.stores import Conflict, Locked, Rejected, StoreError, Unavailable

PATIENCE = 20.0
"""In seconds; what a group may take that is not about time, on a machine that is busy."""

NOW = datetime(2026, 3, 5, 12, 0, 0, tzinfo=UTC)
ADA = "ada@example.com"

RECORDED = Recorded(())
LATER = Refused(Refusal.UNAVAILABLE, "Try again later")
FAILED = Refused(Refusal.FAILED, "Try again later")


def _arrival(name: str) -> Arrival:
    return Arrival(Delivered(f"{name}@example.com", f"m-{name}", NOW), name.encode(), NOW)


GROUP = [_arrival(name) for name in ("ada", "bea", "carl")]


class _Attempts:
    """Meets the given faults, one an attempt, and records from then on."""

    def __init__(self, *met: Exception, takes: float = 0.0) -> None:
        self.asked: list[tuple[list[bytes], bool]] = []
        self.at: list[float] = []
        self._met: Iterator[Exception] = iter(met)
        self._takes = takes

    def __call__(self, arrivals: Sequence[Arrival], *, skip_locked: bool = False) -> list[Outcome]:
        self.asked.append(([arrival.body for arrival in arrivals], skip_locked))
        self.at.append(time.monotonic())
        time.sleep(self._takes)
        if (fault := next(self._met, None)) is not None:
            raise fault
        return [RECORDED for _ in arrivals]

    @property
    def skipped(self) -> list[bool]:
        """For each attempt whether it left out the rows that are locked."""
        return [skip_locked for _, skip_locked in self.asked]


class _Poisoned:
    """Rejects every group that holds one of the poisoned, as a database does."""

    def __init__(self, *poisoned: str, then: Callable[[], None] = lambda: None) -> None:
        self.asked: list[list[str]] = []
        self._poisoned = poisoned
        self._then = then

    def __call__(self, arrivals: Sequence[Arrival], *, skip_locked: bool = False) -> list[Outcome]:
        del skip_locked
        names = [arrival.body.decode() for arrival in arrivals]
        self.asked.append(names)
        if not set(names).isdisjoint(self._poisoned):
            raise Rejected("NotNullViolation 23502")
        if len(names) == 1:
            self._then()
        return [RECORDED for _ in arrivals]


def _nowhere(arrivals: Sequence[Arrival]) -> None:
    """Keep nothing."""


def _retrying(
    attempt: Attempt,
    *,
    fail: Callable[[Sequence[Arrival]], object] = _nowhere,
    reachable: Callable[[], bool] = lambda: False,
    spool: Callable[[Sequence[Arrival]], object] = _nowhere,
    seconds: float = PATIENCE,
) -> Retry:
    return Retry(attempt, fail=fail, reachable=reachable, spool=spool, seconds=seconds)


@pytest.fixture(autouse=True)
def _in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pause a tenth of what is usual."""
    monkeypatch.setattr(retry, "PAUSES", tuple(pause / 10 for pause in retry.PAUSES))


class TestConflict:
    def test_none(self) -> None:
        """A group that meets nobody is recorded in one attempt, which waits for locks."""
        attempts = _Attempts()
        assert _retrying(attempts)(GROUP) == [RECORDED] * 3
        assert attempts.asked == [([b"ada", b"bea", b"carl"], False)]

    @pytest.mark.parametrize("conflicts", [1, 2, 3, 4])
    def test_tried_again(self, conflicts: int) -> None:
        """A group that another was in the way of is tried again, whole, and recorded."""
        attempts = _Attempts(*[Conflict("40001")] * conflicts)
        assert _retrying(attempts)(GROUP) == [RECORDED] * 3
        assert attempts.asked == [([b"ada", b"bea", b"carl"], False)] * (conflicts + 1)

    def test_for_ever(self, caplog: pytest.LogCaptureFixture) -> None:
        """A group that always meets another is told to come again, after a few attempts."""
        attempts = _Attempts(*[Conflict("40P01")] * 100)
        with caplog.at_level(logging.WARNING, "hookrow"):
            assert _retrying(attempts)(GROUP) == [FAILED] * 3
        assert attempts.skipped == [False] * 5
        assert caplog.messages == ["Answering 3 notifications 503: 40P01"]

    def test_the_store_is_well(self) -> None:
        """A conflict says nothing against the store: the next group is tried at once."""
        attempts = _Attempts(*[Conflict("40P01")] * 5)
        retrying = _retrying(attempts)
        assert retrying(GROUP) == [FAILED] * 3
        assert retrying(GROUP) == [RECORDED] * 3

    def test_pauses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Pauses grow, each by its own chance, so that two groups that met do not meet again."""
        slept: list[float] = []
        monkeypatch.setattr(retry, "sleep", slept.append)
        for _ in range(100):
            attempts = _Attempts(*[Conflict("40001")] * 4)
            assert _retrying(attempts)(GROUP) == [RECORDED] * 3
        for number, pause in enumerate(retry.PAUSES):
            pauses = slept[number::4]
            assert len(set(pauses)) > 50
            assert 0.5 * pause <= min(pauses) < 0.8 * pause
            assert 1.2 * pause < max(pauses) <= 1.5 * pause
        assert list(retry.PAUSES) == sorted(retry.PAUSES)

    def test_out_of_time(self) -> None:
        """No further attempt begins once the time is over: it is as if there were no database."""
        attempts = _Attempts(*[Conflict("40001")] * 100, takes=0.05)
        assert _retrying(attempts, seconds=0.01)(GROUP) == [LATER] * 3
        assert len(attempts.asked) == 1


class TestLocked:
    def test_once_more_without_them(self) -> None:
        """A group that waited for a row too long is tried once more without those locked."""
        attempts = _Attempts(Locked("55P03"))
        assert _retrying(attempts)(GROUP) == [RECORDED] * 3
        assert attempts.asked == [
            ([b"ada", b"bea", b"carl"], False),
            ([b"ada", b"bea", b"carl"], True),
        ]

    def test_outcomes_of_that_attempt(self) -> None:
        """Only the notifications whose rows are held are told to come again."""

        def attempt(arrivals: Sequence[Arrival], *, skip_locked: bool = False) -> list[Outcome]:
            if not skip_locked:
                raise Locked("55P03")
            return [FAILED if arrival.body == b"bea" else RECORDED for arrival in arrivals]

        assert _retrying(attempt)(GROUP) == [RECORDED, FAILED, RECORDED]

    def test_twice(self, caplog: pytest.LogCaptureFixture) -> None:
        """A group that even so waits too long is told to come again; the store is well."""
        attempts = _Attempts(Locked("57014"), Locked("57014"))
        retrying = _retrying(attempts)
        with caplog.at_level(logging.WARNING, "hookrow"):
            assert retrying(GROUP) == [FAILED] * 3
        assert attempts.skipped == [False, True]
        assert caplog.messages == ["Answering 3 notifications 503: 57014"]
        assert retrying(GROUP) == [RECORDED] * 3
        assert attempts.skipped == [False, True, False]

    def test_then_a_conflict(self) -> None:
        """A conflict after that is tried again, still without those locked."""
        attempts = _Attempts(Conflict("40001"), Locked("55P03"), Conflict("40P01"))
        assert _retrying(attempts)(GROUP) == [RECORDED] * 3
        assert attempts.skipped == [False, False, True, True]

    @pytest.mark.parametrize("conflicts", [3, 4])
    def test_after_conflicts(self, conflicts: int) -> None:
        """However many conflicts came before, a locked row is worth one attempt without it."""
        attempts = _Attempts(*[Conflict("40001")] * conflicts, Locked("55P03"))
        assert _retrying(attempts)(GROUP) == [RECORDED] * 3
        assert attempts.skipped == [False] * (conflicts + 1) + [True]

    def test_out_of_time(self) -> None:
        """No further attempt begins once the time is over, for locked rows neither."""
        attempts = _Attempts(*[Locked("55P03")] * 100, takes=0.05)
        assert _retrying(attempts, seconds=0.01)(GROUP) == [LATER] * 3
        assert len(attempts.asked) == 1


class TestRejected:
    def test_only_the_poisoned_fails(self, caplog: pytest.LogCaptureFixture) -> None:
        """A group that the database refuses is tried one by one: only the poisoned one fails."""
        attempts = _Poisoned("bea")
        with caplog.at_level(logging.ERROR, "hookrow"):
            assert _retrying(attempts)(GROUP) == [RECORDED, FAILED, RECORDED]
        assert attempts.asked == [["ada", "bea", "carl"], ["ada"], ["bea"], ["carl"]]
        (message,) = caplog.messages
        assert "m-bea" in message
        assert "NotNullViolation 23502" in message

    def test_two(self) -> None:
        """Two are a group that can be split."""
        attempts = _Poisoned("ada")
        assert _retrying(attempts)(GROUP[:2]) == [FAILED, RECORDED]
        assert attempts.asked == [["ada", "bea"], ["ada"], ["bea"]]

    def test_several(self) -> None:
        """As many as are poisoned fail, and no other."""
        attempts = _Poisoned("ada", "carl")
        assert _retrying(attempts)(GROUP) == [FAILED, RECORDED, FAILED]

    def test_alone(self) -> None:
        """A poisoned notification that came alone fails at once, and the store is well."""
        attempts = _Poisoned("ada")
        retrying = _retrying(attempts)
        assert retrying(GROUP[:1]) == [FAILED]
        assert retrying(GROUP[1:]) == [RECORDED] * 2
        assert attempts.asked == [["ada"], ["bea", "carl"]]

    def test_a_single_try_is_a_try_like_others(self) -> None:
        """One of the single tries that meets another is tried again."""
        met: Iterator[Exception] = iter([Conflict("40001"), Locked("55P03")])

        def meet() -> None:
            if (fault := next(met, None)) is not None:
                raise fault

        attempts = _Poisoned("bea", then=meet)
        assert _retrying(attempts)(GROUP) == [RECORDED, FAILED, RECORDED]
        assert attempts.asked[1:] == [["ada"], ["ada"], ["ada"], ["bea"], ["carl"]]

    def test_the_database_goes_meanwhile(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the database goes away between single tries the rest are not even tried."""
        monkeypatch.setattr(retry, "REST", 60.0)

        def go() -> None:
            raise Unavailable("gone")

        attempts = _Poisoned("carl", then=go)
        assert _retrying(attempts)(GROUP) == [LATER] * 3
        assert attempts.asked == [["ada", "bea", "carl"], ["ada"]]

    def test_out_of_time(self) -> None:
        """No single try begins once the group's time is over."""
        attempts = _Attempts(*[Rejected("23502")] * 100, takes=0.05)
        group = [_arrival(f"n{number}") for number in range(12)]
        failed: list[Arrival] = []
        spooled: list[Arrival] = []
        retrying = _retrying(attempts, fail=failed.extend, spool=spooled.extend, seconds=0.1)
        ended = list(zip(retrying(group), group, strict=True))
        assert ended == [(FAILED, each) for each in failed] + [(LATER, each) for each in spooled]
        assert spooled
        assert len(attempts.asked) < 6


class TestUnavailable:
    @pytest.mark.parametrize("fault", [Unavailable("gone"), StoreError("whatever else")])
    def test_well_again(
        self,
        fault: Exception,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A store that cannot be reached is left alone for a while, and is then tried again."""
        monkeypatch.setattr(retry, "REST", 0.1)
        attempts = _Attempts(fault)
        retrying = _retrying(attempts)
        began = time.monotonic()
        with caplog.at_level(logging.ERROR, "hookrow"):
            assert retrying(GROUP) == [LATER] * 3
        assert caplog.messages == [f"Answering 3 notifications 503: {fault}"]
        while retrying(GROUP[:2]) == [LATER] * 2:
            assert len(attempts.asked) == 1
            time.sleep(0.005)
        assert attempts.asked[1:] == [([b"ada", b"bea"], False)]
        assert attempts.at[1] - began >= 0.1

    def test_at_once(self) -> None:
        """A connection that is lost is no reason to try again: the group fails whole."""
        attempts = _Attempts(Unavailable("gone"), Unavailable("gone"))
        assert _retrying(attempts)(GROUP) == [LATER] * 3
        assert len(attempts.asked) == 1

    def test_still_gone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the store is still gone after its rest it rests again."""
        attempts = _Attempts(Unavailable("gone"), Unavailable("gone"))
        retrying = _retrying(attempts)
        monkeypatch.setattr(retry, "REST", 0.0)
        assert retrying(GROUP) == [LATER] * 3
        monkeypatch.setattr(retry, "REST", 60.0)
        assert retrying(GROUP) == [LATER] * 3
        assert len(attempts.asked) == 2
        assert retrying(GROUP) == [LATER] * 3
        assert len(attempts.asked) == 2

    def test_how_long(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The rest is a second, and the pauses together less than one."""
        monkeypatch.undo()
        assert retry.REST == 1.0
        assert 0 < sum(retry.PAUSES) < 1.0


class TestUnknown:
    @pytest.mark.parametrize(
        "fault",
        [ValueError("what"), KeyError("key"), RuntimeError(), RecursionError(), MemoryError()],
    )
    def test_is_logged_and_answered(
        self, fault: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A fault that nobody foresaw is answered 503, and logged with where it happened."""
        attempts = _Attempts(fault)
        retrying = _retrying(attempts)
        with caplog.at_level(logging.ERROR, "hookrow"):
            assert retrying(GROUP) == [FAILED] * 3
        assert len(attempts.asked) == 1
        assert {record.name for record in caplog.records} == {"hookrow"}
        assert type(fault).__name__ in caplog.text
        assert "test_retry.py" in caplog.text

    def test_the_store_rests(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Until it is known what is wrong the store is left alone for a while."""
        monkeypatch.setattr(retry, "REST", 60.0)
        attempts = _Attempts(ValueError("what"))
        retrying = _retrying(attempts)
        assert retrying(GROUP) == [FAILED] * 3
        assert retrying(GROUP) == [LATER] * 3
        assert len(attempts.asked) == 1

    @pytest.mark.parametrize(
        "fault",
        [
            KeyError(ADA),
            ValueError(f"cannot store {ADA}"),
            UnicodeEncodeError("utf-8", f"{ADA}\ud800", 15, 16, f"surrogates in {ADA}"),
        ],
        ids=lambda fault: type(fault).__name__,
    )
    def test_no_address_in_the_log(
        self, fault: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        """What a fault says may quote a row: the log has its kind and its place, no address."""
        with caplog.at_level(logging.DEBUG, "hookrow"):
            _retrying(_Attempts(fault))(GROUP)
        assert type(fault).__name__ in caplog.text
        assert ADA not in caplog.text


class TestReachable:
    """The store is unavailable to a group, but to nobody else: one of the group is the cause."""

    def test_only_the_cause_fails(self) -> None:
        """It is spooled; the others are recorded, and the store does not rest."""

        def attempt(arrivals: Sequence[Arrival], *, skip_locked: bool = False) -> list[Outcome]:
            del skip_locked
            if any(b"bea" in each.body for each in arrivals):
                raise Unavailable("InternalError_ XX000")
            return [RECORDED] * len(arrivals)

        put: list[Arrival] = []
        retrying = _retrying(attempt, reachable=lambda: True, spool=put.extend)
        for _ in range(2):
            assert retrying(GROUP) == [RECORDED, LATER, RECORDED]
        assert put == [GROUP[1]] * 2

    def test_nothing_can_be_written(self) -> None:
        """After three in succession the others are spooled together."""
        put: list[Sequence[Arrival]] = []
        attempts = _Attempts(*[Unavailable("DiskFull 53100")] * 99)
        retrying = _retrying(attempts, reachable=lambda: True, spool=put.append)
        group = [_arrival(f"n{number}") for number in range(10)]
        assert retrying(group) == [LATER] * 10
        assert put == [*([each] for each in group[:3]), group[3:]]


class TestKept:
    """What is answered 503 is kept: in the log where the work failed, else in the spool."""

    @pytest.mark.parametrize(
        ("faults", "failed", "spooled"),
        [
            ([], [], []),
            ([Conflict("40001")] * 5, GROUP, []),
            ([Locked("55P03")] * 2, GROUP, []),
            ([ValueError("what")], GROUP, []),
            ([Unavailable("gone")], [], GROUP),
            ([StoreError("whatever else")], [], GROUP),
            # The group, then one by one.
            ([Rejected("23502")] * 3, GROUP[:2], []),
            ([Rejected("23502"), Unavailable("gone")], [], GROUP),
            ([Rejected("23502")] * 2 + [Unavailable("gone")], GROUP[:1], GROUP[1:]),
        ],
        ids=lambda value: " ".join(type(each).__name__ for each in value),
    )
    def test_where(
        self, faults: list[Exception], failed: list[Arrival], spooled: list[Arrival]
    ) -> None:
        """Each arrival that is not recorded is handed to one of the two, once."""
        logged: list[Arrival] = []
        put: list[Arrival] = []
        retrying = _retrying(_Attempts(*faults), fail=logged.extend, spool=put.extend)
        outcomes = retrying(GROUP)
        assert (logged, put) == (failed, spooled)
        assert outcomes == [
            FAILED if each in failed else LATER if each in spooled else RECORDED for each in GROUP
        ]

    def test_while_the_store_rests(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What comes while the store is left alone goes to the spool, too."""
        monkeypatch.setattr(retry, "REST", 60.0)
        put: list[Arrival] = []
        retrying = _retrying(_Attempts(Unavailable("gone")), spool=put.extend)
        assert [*retrying(GROUP[:1]), *retrying(GROUP[1:])] == [LATER] * 3
        assert put == GROUP

    @pytest.mark.parametrize("fault", [Rejected("P0001"), Unavailable("gone"), TypeError(ADA)])
    def test_a_log_that_cannot_be_written(
        self, fault: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Where the log takes no evidence it goes to the spool, and that is logged."""

        def fail(_: Sequence[Arrival]) -> None:
            raise fault

        put: list[Arrival] = []
        retrying = _retrying(_Attempts(*[Conflict("40P01")] * 5), fail=fail, spool=put.extend)
        with caplog.at_level(logging.ERROR, "hookrow"):
            assert retrying(GROUP) == [FAILED] * 3
        assert put == GROUP
        (message,) = caplog.messages
        assert message.startswith(f"The log cannot be written: {type(fault).__name__}")

    @pytest.mark.parametrize("fault", [Conflict("40001"), Unavailable("gone"), KeyError("what")])
    def test_the_unsupported(self, fault: Exception) -> None:
        """What is not supported stays so, whatever happens to the store, and is kept as well."""
        unsupported = Arrival(None, b"{}", NOW)
        kept: list[Arrival] = []
        retrying = _retrying(_Attempts(*[fault] * 5), fail=kept.extend, spool=kept.extend)
        assert retrying([unsupported]) == [Refusal.UNSUPPORTED.refused()]
        assert kept == [unsupported]


class TestWhatIsLogged:
    def test_once(self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
        """What happens to every group of an outage is logged once."""
        monkeypatch.setattr(retry, "REST", 0.0)
        retrying = _retrying(_Attempts(*[Unavailable("gone")] * 50))
        with caplog.at_level(logging.DEBUG, "hookrow"):
            assert [retrying(GROUP) for _ in range(50)] == [[LATER] * 3] * 50
        assert caplog.messages == ["Answering 3 notifications 503: gone"]

    @pytest.mark.parametrize(
        ("notification", "parts"),
        [
            (None, ["unsupported"]),
            (Delivered(ADA, "m-1", NOW), ["Delivered", "m-1", "@example.com"]),
            (Suppressed(ADA, None, None, "HardBounce"), ["Suppressed", "None", "@example.com"]),
            (Delivered("ada@home@example.com", "m-1", NOW), ["Delivered", "m-1", "@example.com"]),
            (Delivered("@example.com", "m-1", NOW), ["Delivered", "m-1", "@example.com"]),
            (Delivered(None, None, NOW), ["Delivered", "None"]),
        ],
        ids=range(6),
    )
    def test_a_poisoned_notification(
        self,
        notification: Notification | None,
        parts: Sequence[str],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """A log line tells which notification it was, by kind, message and domain, and why."""
        attempts = _Attempts(Rejected("23502"))
        with caplog.at_level(logging.ERROR, "hookrow"):
            _retrying(attempts)([Arrival(notification, b"", NOW)])
        (message,) = caplog.messages
        assert all(part in message for part in [*parts, "23502"])
        assert "ad" not in message

    @pytest.mark.parametrize(
        "recipient",
        [
            ADA,
            "postmaster",
            "ada.lovelace+news@mail.example.com",
            '"ada@home"@example.com',
            "zoë@example.net",
        ],
    )
    def test_no_full_address(self, recipient: str, caplog: pytest.LogCaptureFixture) -> None:
        """No line of the log has the recipient in full, whatever it looks like."""
        attempts = _Attempts(Rejected("23502"))
        arrival = Arrival(Delivered(recipient, "m-1", NOW), b"", NOW)
        with caplog.at_level(logging.DEBUG, "hookrow"):
            _retrying(attempts)([arrival])
        assert caplog.messages
        assert recipient not in caplog.text

    @pytest.mark.parametrize("text", ["ada@example.com\nERROR all is lost", "a@\r\x1b[2Jb"])
    def test_one_line(self, text: str, caplog: pytest.LogCaptureFixture) -> None:
        """What a payload says cannot begin a line of the log, or control a terminal."""
        attempts = _Attempts(Rejected("23502"))
        with caplog.at_level(logging.ERROR, "hookrow"):
            _retrying(attempts)([Arrival(Delivered(text, text, NOW), b"", NOW)])
        (message,) = caplog.messages
        assert message.isprintable()

    def test_a_poisoned_notification_has_no_traceback(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A traceback could quote the row: the line of a poisoned notification has none."""
        with caplog.at_level(logging.ERROR, "hookrow"):
            _retrying(_Poisoned("ada"))(GROUP)
        assert all(record.exc_info is None for record in caplog.records)
