"""Recording: one transaction for the rows and the log, and large notifications."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Thread
from typing import Any
from unittest.mock import Mock

import pytest
from receiving import NOON, Database, dispatch, people

from hookrow import Arrival, Delivered, Recorded
from hookrow._core.notification import Refusal
from hookrow._core.rules import fail
from hookrow._core.sizes import LARGEST_GROUP, TEXT_PER_BYTE
from hookrow._receiver import recorder as recording
from hookrow._receiver.clock import utc_now
from hookrow._receiver.recorder import (
    GroupRecorder,
    is_reachable,
    keep_failed,
    record,
    record_unlocked,
)
from hookrow.stores._errors import Conflict, Locked, Rejected, Unavailable
from hookrow.stores._timeouts import limited_to
from hookrow.stores.sql import SQLStore
from wire import PATIENCE

STORE_ERRORS = [Conflict("40001"), Locked("55P03"), Rejected("23502"), Unavailable("gone")]
Work = Callable[[SQLStore, Sequence[Arrival]], object]


def arrival(name: str, message: str | None = None) -> Arrival:
    """Return a delivery at noon to a person, which arrives now."""
    message = message or f"m-{name}"
    delivered = Delivered(f"{name}@example.com", message, NOON)
    return Arrival((delivered,), f"{name} {message}".encode(), datetime.now(UTC))


LARGEST = Arrival((), b"x" * (LARGEST_GROUP // TEXT_PER_BYTE), NOON)
LARGE = Arrival((), LARGEST.body + b"x", NOON)


def test_only_arrivals_that_need_a_locked_row_are_left() -> None:
    """They are neither recorded nor logged."""
    database = people("ada", "bea")
    database.held.add(dispatch(1))
    arrivals = [arrival("ada"), arrival("bea"), arrival("nobody")]
    with pytest.raises(Locked):
        record(database, arrivals)
    assert database.tables.dispatch("m-bea").delivered_at is None
    assert not database.logged()
    left, recorded, refused = record_unlocked(database, arrivals)
    assert left is None
    assert isinstance(recorded, Recorded)
    assert refused == Refusal.SUBSCRIBER_NOT_FOUND.refused()
    assert database.begun == [False, True]
    assert database.tables.dispatch("m-ada").delivered_at is None
    assert database.tables.dispatch("m-bea").delivered_at is not None
    assert {each.message_id for each in database.logged()} == {"m-bea", "m-nobody"}


def test_an_arrival_that_waited_for_its_row_overrides_no_newer_one() -> None:
    database = people("ada")
    older, later = arrival("ada"), NOON + timedelta(hours=1)
    newer = Arrival((Delivered("ada@example.com", "m-ada", later),), b"newer", datetime.now(UTC))
    recorder = GroupRecorder(
        database,
        bodies=True,
        seconds=PATIENCE,
        spool=partial(fail, refusal=Refusal.UNAVAILABLE),
        clock=utc_now,
    )
    assert None not in recorder([newer]) + recorder.resume([older])
    assert database.tables.dispatch("m-ada").delivered_at == later
    assert len(database.logged()) == 2


def test_an_outage_that_began_during_a_successful_attempt_lasted_no_negative_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    database = people("ada", "bea")
    recorder = GroupRecorder(
        database,
        bodies=True,
        seconds=PATIENCE,
        spool=partial(fail, refusal=Refusal.UNAVAILABLE),
        clock=utc_now,
    )
    database.opened.clear()
    attempt = Thread(target=recorder, args=([arrival("ada")],))
    attempt.start()
    assert database.reached.wait(PATIENCE)
    recorder._pause([arrival("bea")], "gone")  # by another thread
    database.opened.set()
    attempt.join(PATIENCE)
    assert caplog.messages[-1] == "Notifications are recorded again, after 0 s."


@pytest.mark.parametrize("bodies", [True, False])
def test_bodies_are_logged_unless_disabled(*, bodies: bool) -> None:
    database, begun = people("ada", "bea"), datetime.now(UTC)
    options: dict[str, Any] = {} if bodies else {"bodies": False}
    record(database, [arrival("ada"), arrival("ada", "m-x")], **options)
    keep_failed(database, [arrival("bea")], **options, clock=utc_now)
    kept = {each.message_id: (each.body, each.retry_at is not None) for each in database.logged()}
    assert kept == {
        "m-ada": ("ada m-ada" if bodies else None, False),
        "m-x": ("ada m-x" if bodies else None, bodies),
        "m-bea": ("bea m-bea" if bodies else None, bodies),
    }
    assert all(begun <= each.ended_at <= datetime.now(UTC) for each in database.logged())


@pytest.mark.parametrize("fault", [None, *STORE_ERRORS], ids=repr)
def test_a_store_that_accepts_changes_is_reachable(fault: Exception | None) -> None:
    database = people("ada")
    database.faults = iter([fault])
    assert is_reachable(database) is (fault is None)
    database.away = True
    assert not is_reachable(database)
    assert database.begun == [False, False]


@pytest.fixture
def large_one() -> Iterator[Database]:
    """Return a store that is recording a large notification until it is opened."""
    slow = Database()
    slow.opened.clear()
    thread = Thread(target=record, args=(slow, [LARGE]))
    thread.start()
    assert slow.reached.wait(PATIENCE)
    yield slow
    slow.opened.set()
    thread.join(PATIENCE)
    assert len(slow.logged()) == 1


@pytest.mark.parametrize("work", [record, partial(keep_failed, clock=utc_now)])
def test_only_large_notifications_wait_for_each_other(large_one: Database, work: Work) -> None:
    database = people()
    for others in ([LARGEST], [LARGE, LARGEST], [LARGEST, LARGE]):
        work(database, others)
    with limited_to(0.01), pytest.raises(Locked):
        work(database, [LARGE])
    assert len(database.begun) == 3
    assert large_one.begun == [False]


@pytest.mark.parametrize("fault", [None, Unavailable("gone")])
def test_a_large_notification_releases_the_lock(fault: Exception | None) -> None:
    database = people()
    database.faults = iter([fault])
    if fault:
        with pytest.raises(Unavailable):
            record(database, [LARGE])
    with limited_to(0):
        assert len(record(database, [LARGE])) == 1
        assert record(database, []) == []


def test_a_child_process_does_not_wait_for_a_large_notification_of_its_parent(
    large_one: Database,
) -> None:
    recording._large_arrivals.reset()
    with limited_to(0):
        assert len(record(people(), [LARGE])) == 1
    assert not large_one.logged()


def test_after_the_deadline_a_large_notification_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lock = Mock(acquire=Mock(return_value=False))
    monkeypatch.setattr(recording._large_arrivals, "_lock", lock)
    with limited_to(-1), pytest.raises(Locked):
        record(people(), [LARGE])
    lock.acquire.assert_called_once_with(timeout=0)
