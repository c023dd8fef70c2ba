"""Hooks: functions of the host are called after the commit, and affect no response."""

import gc
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from threading import Event, Thread
from typing import Any

import pytest
from receiving import NOON, delivery, encode, people, receive, request, suppression

from hookrow import Arrival, ConfigurationError, Recorded, Refusal, Refused, Suppressed
from hookrow.receiver.hooks import Hook
from wire import PATIENCE

ADA = "ada@example.com"


class RecordingHook:
    """A hook that stores its calls and their threads, and can wait at a gate."""

    def __init__(self, *, opened: bool = True) -> None:
        self.calls: list[tuple[Arrival, Any]] = []
        self.threads: set[Thread] = set()
        self.reached, self.opened = Event(), Event()
        if opened:
            self.opened.set()

    def __call__(self, arrival: Arrival, outcome: Recorded | Refused) -> None:
        self.reached.set()
        assert self.opened.wait(PATIENCE)
        self.threads.add(threading.current_thread())
        self.calls.append((arrival, outcome))


def call(hook: Hook[Any], times: int) -> None:
    for number in range(times):
        hook(Arrival(None, b"%d" % number, NOON), Recorded(()))


@pytest.mark.parametrize("fault", [ValueError(ADA), SystemExit(ADA)], ids=repr)
def test_hook_that_raises(fault: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    recording = RecordingHook()

    def fail(arrival: Arrival, outcome: Recorded) -> None:
        recording(arrival, outcome)
        if len(recording.calls) % 2:
            raise fault

    with closing(Hook(fail, "on_recorded")) as hook:
        call(hook, 10)
    assert [each.body for each, _ in recording.calls] == [b"%d" % number for number in range(10)]
    assert caplog.messages == [f"on_recorded raised {type(fault).__name__}."]
    assert all(record.exc_info is None for record in caplog.records)


async def _notify(*_: object) -> None:
    pass


class _Notifier:
    async def __call__(self, *_: object) -> None:
        pass


def test_async_result(caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder) -> None:
    hook: Hook[Recorded] = Hook(lambda *_: _notify(), "on_recorded")
    with closing(hook):
        call(hook, 4)
    gc.collect()
    [message] = caplog.messages
    assert message.startswith("on_recorded returned an async result (coroutine)")
    assert "Pass a plain function" in message
    assert not recwarn.list  # no warning that a coroutine was never awaited


@pytest.mark.parametrize("hook", [_notify, _Notifier(), _Notifier, partial(_Notifier(), 1)])
def test_an_async_function_is_rejected(hook: Callable[..., Any]) -> None:
    advice = "^on_refused is an async function.*run_coroutine_threadsafe"
    with pytest.raises(ConfigurationError, match=advice):
        receive(people(), on_refused=hook)


@pytest.mark.parametrize(
    ("reason", "room"),
    [("", 10), ("x" * 1024 * 1024, 64 // 5)],  # four bytes for each character, such as an emoji
)
def test_too_many_or_too_large_calls_are_dropped(
    reason: str, room: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookrow.receiver.hooks.BACKLOG", 10 if not reason else 100)
    arrival = Arrival(Suppressed(ADA, "m-ada", NOON, reason), reason.encode(), NOON)
    recording = RecordingHook(opened=False)
    with closing(Hook(recording, "on_refused")) as hook:
        call(hook, 1)
        assert recording.reached.wait(PATIENCE)
        for _ in range(20):
            hook(arrival, Recorded(()))
        recording.opened.set()
    assert len(recording.calls) == 1 + room
    assert caplog.messages == ["on_refused is too slow, or closed: calls are dropped."]


def test_call_that_hangs(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    recording, now = RecordingHook(opened=False), 1000.0
    monkeypatch.setattr("hookrow.receiver.hooks.monotonic", lambda: now)
    with closing(Hook(recording, "on_recorded")) as hook:
        call(hook, 1)
        assert recording.reached.wait(PATIENCE)
        for now in (1030.0, 1030.1, 1099.0):  # noqa: B007 - the clock
            call(hook, 1)
        recording.opened.set()
    assert caplog.messages == ["A call of on_recorded takes more than 30.0 s."]


def test_no_response_waits_for_a_hook() -> None:
    database, hanging = people("ada", "bea"), RecordingHook(opened=False)
    receiver = receive(database, on_recorded=hanging)
    assert receiver(request(delivery("ada"))).status == 200
    assert hanging.reached.wait(PATIENCE)
    answers = [receiver(request(delivery("ada"))).status for _ in range(40)]
    assert (answers, hanging.calls) == ([200] * 40, [])  # all while the first call hangs
    hanging.opened.set()
    receiver.close(PATIENCE)
    assert len(hanging.calls) == 41


@pytest.mark.parametrize("queue", [True, False])
def test_each_outcome_is_reported_once_in_order_after_the_commit(*, queue: bool) -> None:
    database, refused, recorded, seen = people("ada", "bea"), RecordingHook(), RecordingHook(), []

    def on_recorded(arrival: Arrival, outcome: Recorded) -> None:
        with database.reading():  # no transaction is open
            seen.append(database.dispatches[1]["delivered_at"])
        recorded(arrival, outcome)

    receiver = receive(database, on_recorded=on_recorded, on_refused=refused)
    send = receiver if queue else receiver.record_directly
    payloads = [delivery("ada"), suppression("ada"), suppression("ada"), delivery("eve"), {}]
    bodies = [*map(encode, payloads)]
    assert [send(request(body)).status for body in bodies] == [200, 200, 200, 404, 422]
    receiver.close(PATIENCE)
    assert [each.body for each, _ in recorded.calls] == bodies[:3]
    assert all(outcome.changes for _, outcome in recorded.calls)
    assert [each.body for each, _ in refused.calls] == bodies[3:]
    refusals = [Refusal.SUBSCRIBER_NOT_FOUND, Refusal.UNSUPPORTED]
    assert [outcome.refusal for _, outcome in refused.calls] == refusals
    assert seen == [NOON] * 3
    assert len({*recorded.threads, *refused.threads, threading.current_thread()}) == 3
