"""The results of the last notifications: when they show that the next one would get a 503."""

from collections.abc import Callable
from contextlib import closing
from math import inf
from pathlib import Path

import pytest
from receiving import Database, delivery, fill_transaction, people, post, receive

from copying import replace
from hookrow import Arrival, Delivered, Recorded, Refusal
from hookrow._core.notification import Outcome
from hookrow._receiver import results
from hookrow._receiver.results import Losses, RecentResults
from hookrow.stores._errors import Locked, Rejected, StoreError, Unavailable
from wire import ADA, AT, PATIENCE, eventually

FULL = "OperationalError: database or disk is full. Free space on the disk."
OUTCOMES: dict[str, Outcome] = {
    "R": Recorded(()),
    "N": Refusal.DISPATCH_NOT_FOUND.refused(),
    "F": Refusal.FAILED.refused(),
    "L": Refusal.UNAVAILABLE.refused(),
    "U": Refusal.UNSUPPORTED.refused(),
    "T": Refusal.TEST.refused(),
}
"""R: recorded; N, F: in the log; L: neither; U: unsupported, T: a test of the provider."""


class Clock:
    now = 1000.0


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(results, "monotonic", lambda: clock.now)
    return clock


def arrival(*, is_test: bool = False) -> Arrival:
    return Arrival((Delivered(ADA, "m-1", AT),), b"", AT, is_test=is_test)


def add(recent: RecentResults, *groups: str) -> RecentResults:
    """Add groups with an outcome for each letter."""
    for group in groups:
        arrivals = [arrival(is_test=letter == "T") for letter in group]
        recent.add(arrivals, [OUTCOMES[letter] for letter in group], FULL)
    return recent


def after(*groups: str, has_log: bool = True) -> str | None:
    return add(RecentResults(has_log=has_log), *groups).fault()


@pytest.mark.parametrize(
    ("groups", "fault"),
    [
        ([], None),
        (["R", "N", "F"], None),
        # If there are others, a single one may have a cause of its own.
        (["R", "L"], None),
        (["R", "LL"], None),
        (["RLLL"], None),
        (["LLLLR"], None),
        (["R", "L", "L", "L"], "The last 3 notifications got a 503: "),
        (["R", "LLLL"], "The last 4 notifications got a 503: "),
        (["L"], "The last notification got a 503: "),
        (["LLR", "LLL"], "The last 3 notifications got a 503, like 5 of the last 6: "),
        (["L" * 60, "R" * 100, "LLL"], "The last 3 notifications got a 503: "),
        (["R" * 300, "L" * 300], "The last 100 notifications got a 503: "),
        # The first one that is kept in a row or in the log shows that the database works.
        (["LLL", "R"], None),
        (["LLL", "N"], None),
        (["LLL", "F"], None),
        # Nothing was written for these, or not by the provider.
        (["LLL", "U"], "The last 3 notifications got a 503: "),
        (["LLL", "T"], "The last 3 notifications got a 503: "),
        (["U", "T"], None),
    ],
)
def test_the_last_results_decide(groups: list[str], fault: str | None) -> None:
    assert after(*groups) == (fault and f"{fault}{FULL}")


def test_without_a_log_only_a_recorded_notification_was_written() -> None:
    assert after("LLL", "NF", has_log=False)
    assert after("LLL", "R", has_log=False) is None


def test_probes_do_not_count() -> None:
    """Neither if the database is unavailable, nor because none of them is written."""
    recent = RecentResults(has_log=True)
    probe = replace(arrival(), is_probe=True)
    recent.add([probe], [OUTCOMES["L"]], FULL)
    recent.add_late(probe, FULL)
    assert recent.fault() is None
    add(recent, "LLL")
    recent.add([probe], [Refusal.SUBSCRIBER_NOT_FOUND.refused()], "")
    assert recent.fault()


def test_results_expire(clock: Clock) -> None:
    """After a minute, a receiver that gets no notifications is tried again."""
    recent = add(RecentResults(has_log=True), "R")
    clock.now += 59
    add(recent, "LL")
    assert recent.fault() is None
    clock.now += 2  # the one that was recorded no longer counts
    assert recent.fault()
    clock.now += 59
    assert recent.fault() is None
    add(recent, "L")
    assert recent.fault() == f"The last 3 notifications got a 503: {FULL}"


def test_results_are_forgotten() -> None:
    """The next one decides again."""
    recent = add(RecentResults(has_log=True), "R", "LLL")
    recent.forget()
    assert recent.fault() is None
    add(recent, "LLL")
    assert recent.fault()


def away(database: Database) -> None:
    database.away = True


def full(database: Database) -> None:
    """Let the probe pass, and every write fail."""
    database.error = Unavailable(FULL)
    database.refuses = lambda _: True


@pytest.mark.parametrize(
    ("fail", "fault"),
    [
        (away, "The last notification got a 503: gone"),  # the others were not attempted
        (full, f"The last 3 notifications got a 503: {FULL}"),
    ],
)
def test_a_receiver_whose_database_fails(
    fail: Callable[[Database], None], fault: str, tmp_path: Path
) -> None:
    """It has a fault with the reason, until a notification is recorded."""
    database = people("ada")
    with closing(receive(database, spool=tmp_path / "spool")) as receiver:
        assert receiver.results.fault() is None
        fail(database)
        for _ in range(3):
            assert post(receiver, delivery("ada")).status == 503
        assert receiver.results.fault() == fault
        assert receiver.can_spool()
        database.away, database.refuses = False, lambda _: False
        eventually(lambda: post(receiver, delivery("ada")).status == 200)
        assert receiver.results.fault() is None


@pytest.mark.parametrize("error", [Locked("55P03"), Rejected("23502")], ids=repr)
def test_a_notification_that_fails_by_itself_is_no_fault(error: StoreError) -> None:
    """A locked row or impossible data: it is in the log, which works."""
    database = people("ada", "bea")
    database.error = error
    database.refuses = lambda each: not hasattr(each, "body")
    with closing(receive(database, deadline=3.0)) as receiver:  # it waits for most of this
        assert post(receiver, delivery("ada")).status == 503
        assert database.ends() == {"m-ada": ("failed", 1)}
        assert receiver.results.fault() is None


def test_responses_at_the_deadline(caplog: pytest.LogCaptureFixture) -> None:
    """A database that is frozen is a fault before the first result is known."""
    database = people("ada", "bea")
    with closing(receive(database, deadline=0.1)) as receiver:
        waiting = fill_transaction(receiver, database, delivery("bea"), delivery("bea"))
        assert {each.result(PATIENCE).status for each in waiting} == {503}
        assert receiver.results.fault() == (
            "The last 3 notifications got a 503: Not recorded within 0.1 s: the database is slow, "
            "or other transactions lock its rows."
        )
        database.opened.set()
        eventually(lambda: receiver.results.fault() is None)
    assert "Not recorded within 0.1 s" in caplog.text


def test_a_spool_that_fails(tmp_path: Path) -> None:
    """Without a spool, or after a failed write to it, notifications are not kept there."""
    database, path = people("ada"), tmp_path / "folder" / "spool"
    with closing(receive(database)) as receiver:
        assert not receiver.can_spool()
    path.parent.mkdir()
    with closing(receive(database, spool=path)) as receiver:
        database.away = True
        path.rename(tmp_path / "moved")
        path.mkdir()
        post(receiver, delivery("ada"))
        assert not receiver.can_spool()
        path.rmdir()
        post(receiver, delivery("ada"))
        assert receiver.can_spool()


def test_losses(clock: Clock) -> None:
    """How many of the last hundred were not kept, unless the last one was too long ago."""
    recent = add(RecentResults(has_log=True), "R", "L", "R" * 7)
    clock.now += 50
    assert recent.losses(60.0) == Losses(1, 9, 50.0, FULL)
    add(recent, "L", "R" * 120)
    assert recent.losses(60.0) is None
    add(recent, "L")
    clock.now += 61
    assert recent.losses(60.0) is None


def test_when_a_notification_was_kept_or_lost(clock: Clock) -> None:
    recent = RecentResults(has_log=True)
    begun = clock.now
    assert (recent.kept_at, recent.lost_after(0.0)) == (-inf, False)
    clock.now += 1
    add(recent, "L", "T")
    assert (recent.kept_at, recent.lost_after(begun)) == (-inf, True)
    clock.now += 1
    add(recent, "RL")  # if one was kept, the others had their own causes
    assert recent.kept_at == clock.now
    assert not recent.lost_after(recent.kept_at)
    add(recent, "L")
    clock.now += 1
    assert recent.lost_after(begun + 1)
    assert not recent.lost_after(clock.now)


def test_notifications_that_nothing_can_retry(clock: Clock) -> None:
    """Those without a dispatch, if no log keeps their bodies; not the provider's tests."""
    for has_log, keeps_bodies in ((True, True), (True, False), (False, True)):
        recent = RecentResults(has_log=has_log, keeps_bodies=keeps_bodies)
        given = [replace(arrival(is_test=test), provider=name) for test, name in _PROVIDERS]
        outcomes = [OUTCOMES["N"]] * len(given)
        recent.add(given, outcomes, "")
        clock.now += 60
        recent.add([arrival(), arrival()], [OUTCOMES["R"], OUTCOMES["U"]], "")
        lost = 0 if has_log and keeps_bodies else 2
        assert recent.unretried("postmark", 61) == lost
        assert recent.unretried("postmark", 60) == 0


_PROVIDERS = [(False, "postmark"), (False, "postmark"), (True, "postmark"), (False, "resend")]
"""Whether each of some notifications is a test, and its provider."""
