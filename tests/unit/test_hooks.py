"""Hooks: functions of the host are called after the commit, and affect no response."""

import asyncio
import logging
import re
import threading
from asyncio import AbstractEventLoop, current_task, get_running_loop
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import closing
from functools import partial
from threading import Event, Thread
from traceback import walk_tb
from typing import Any, NoReturn
from unittest.mock import Mock

import pytest
from receiving import NOON, delivery, encode, people, receive, request, suppression

from hookrow import (
    Arrival,
    ConfigurationError,
    Postmark,
    Receiver,
    Recorded,
    Refusal,
    Refused,
    Suppressed,
)
from hookrow._observability.logging import JSONFormatter
from hookrow._receiver.hooks import Hook, Hooks
from wire import ADA, PATIENCE, SECRET, eventually


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

    async def in_loop(self, arrival: Arrival, outcome: Recorded | Refused) -> None:
        """Do the same as a coroutine, which waits at the gate without blocking its loop."""
        await asyncio.to_thread(self, arrival, outcome)


def hooks(on_recorded: Hook) -> Hooks:
    return Hooks({Recorded: on_recorded})


def call(hooks: Hooks, times: int) -> None:
    for number in range(times):
        hooks(Arrival((), b"%d" % number, NOON), Recorded(()))


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("fault", [ValueError(ADA), SystemExit(ADA)], ids=repr)
def test_hook_that_raises(
    fault: BaseException, caplog: pytest.LogCaptureFixture, *, is_async: bool
) -> None:
    recording = RecordingHook()

    def fail(arrival: Arrival, outcome: Recorded) -> None:
        recording(arrival, outcome)
        if len(recording.calls) % 2:
            raise fault

    async def fail_in_the_loop(arrival: Arrival, outcome: Recorded) -> None:
        await asyncio.sleep(0)
        fail(arrival, outcome)

    with closing(hooks(fail_in_the_loop if is_async else fail)) as calls:
        call(calls, 10)
    assert [each.body for each, _ in recording.calls] == [b"%d" % number for number in range(10)]
    [record] = caplog.records
    place = f"{__file__}:{fail.__code__.co_firstlineno + 3}"
    assert record.getMessage() == f"on_recorded raised {type(fault).__name__} at {place}."
    assert record.exc_info
    frames = [*walk_tb(record.exc_info[2])]
    assert frames[-1][0].f_code.co_name == "fail"
    assert not any(frame.f_locals for frame, _ in frames)
    assert ADA not in caplog.text
    assert ADA not in JSONFormatter().format(record)


def test_several_hooks_are_called_in_order(caplog: pytest.LogCaptureFixture) -> None:
    """One that fails affects no other, and each failure is logged."""
    called: list[tuple[str, bytes]] = []

    def first(arrival: Arrival, _: object) -> None:
        called.append(("first", arrival.body))
        raise KeyError(ADA)

    async def second(arrival: Arrival, _: object) -> None:
        await asyncio.sleep(0)
        called.append(("second", arrival.body))
        raise ValueError(ADA)

    def third(arrival: Arrival, _: object) -> None:
        called.append(("third", arrival.body))

    receiver = receive(people("ada"), on_recorded=[first, second, third], on_refused=(third,))
    bodies = [encode(delivery("ada")), encode(delivery("eve"))]
    assert [receiver(request(body)).status for body in bodies] == [200, 404]
    receiver.close(PATIENCE)
    recorded = [(name, bodies[0]) for name in ("first", "second", "third")]
    assert called == [*recorded, ("third", bodies[1])]
    assert [each.partition(" at ")[0] for each in caplog.messages] == [
        "on_recorded raised KeyError",
        "on_recorded raised ValueError",
    ]


class Unreadable(Exception):
    """An exception whose cause cannot be read as usual."""

    @property
    def __cause__(self) -> NoReturn:  # type: ignore[override] # it raises
        raise ValueError(ADA)


def test_an_exception_that_overrides_attributes_affects_no_other(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither the next hook nor a response, and no thread ends."""
    called: list[bytes] = []

    def fail(*_: object) -> None:
        raise Unreadable(ADA)

    class Overriding(Receiver):
        def on_outcome(self, arrival: Arrival, outcome: Recorded | Refused) -> None:
            super().on_outcome(arrival, outcome)
            raise Unreadable(ADA)

    receiver = Overriding(
        Postmark(SECRET),
        people("ada"),
        deadline=PATIENCE,
        on_recorded=[fail, lambda each, _: called.append(each.body)],
    )
    bodies = [encode(delivery("ada", n=number)) for number in range(3)]
    assert [receiver(request(body)).status for body in bodies] == [200] * 3
    receiver.close(PATIENCE)
    assert called == bodies
    assert {each.partition(" at ")[0] for each in caplog.messages} == {
        "on_recorded raised Unreadable",
        "Receiver.on_outcome failed; responses are not affected: Unreadable",
    }
    assert ADA not in caplog.text + capfd.readouterr().err


def test_logging_that_fails_affects_no_response_and_no_hook(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A filter of the host raises an exception for each record."""
    called: list[bytes] = []
    refuse = Mock(**{"filter.side_effect": ValueError(ADA)})

    def fail(*_: object) -> None:
        raise KeyError(ADA)

    class Failing(Receiver):
        def on_outcome(self, arrival: Arrival, outcome: Recorded | Refused) -> None:
            super().on_outcome(arrival, outcome)
            fail()

    receiver = Failing(
        Postmark(SECRET),
        people("ada"),
        deadline=PATIENCE,
        on_recorded=[fail, lambda each, _: called.append(each.body)],
    )
    monkeypatch.setattr(logging.getLogger("hookrow"), "filters", [refuse])
    bodies = [encode(delivery("ada", n=number)) for number in range(3)]
    assert [receiver(request(body)).status for body in bodies] == [200] * 3
    receiver.close(PATIENCE)
    assert called == bodies
    assert refuse.filter.called
    assert ADA not in capfd.readouterr().err


def test_an_empty_list_is_no_hook() -> None:
    receiver = receive(people("ada"), on_recorded=[], on_refused=[])
    assert receiver(request(delivery("ada"))).status == 200
    assert not receiver._hooks
    receiver.close(PATIENCE)


def test_close_drops_the_other_hooks_of_a_call_that_hangs() -> None:
    started, called = Event(), []

    async def hang(*_: object) -> None:
        started.set()
        await asyncio.Event().wait()

    before = set(threading.enumerate())
    calls = Hooks({Recorded: [hang, lambda *_: called.append(1)]})
    call(calls, 1)
    assert started.wait(PATIENCE)
    calls.close(0.01)
    eventually(lambda: set(threading.enumerate()) <= before)
    assert called == []


class Loops:
    """Async hooks of several kinds, which store the body and the event loop of each call."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.loops: set[AbstractEventLoop] = set()

    async def method(self, arrival: Arrival, _: object) -> None:
        await asyncio.sleep(0.001)
        self.bodies.append(arrival.body)
        self.loops.add(get_running_loop())

    async def __call__(self, arrival: Arrival, outcome: object) -> None:
        await self.method(arrival, outcome)

    def returned(self, arrival: Arrival, outcome: object) -> Awaitable[None]:
        return self.method(arrival, outcome)

    def awaitable(self, arrival: Arrival, outcome: object) -> Awaitable[None]:
        return _Awaitable(self.method(arrival, outcome))

    def plain(self, arrival: Arrival, _: object) -> None:
        with pytest.raises(RuntimeError):
            get_running_loop()  # it may therefore call asyncio.run()
        self.bodies.append(arrival.body)


class _Awaitable:
    """An awaitable that is no coroutine."""

    def __init__(self, awaitable: Awaitable[None]) -> None:
        self._awaitable = awaitable

    def __await__(self) -> Generator[Any, None, None]:
        return self._awaitable.__await__()


@pytest.mark.parametrize(
    "choose",
    [
        lambda loops: loops.method,
        lambda loops: loops,
        lambda loops: loops.returned,
        lambda loops: loops.awaitable,
        lambda loops: partial(Loops.method, loops),
    ],
    ids=["method", "object", "returned", "awaitable", "partial"],
)
@pytest.mark.parametrize("is_mixed", [False, True])
def test_async_hooks(choose: Callable[[Loops], Hook], *, is_mixed: bool) -> None:
    """All calls of both hooks run in one event loop, in the order of the outcomes."""
    loops = Loops()
    on_refused = loops.plain if is_mixed else choose(loops)
    receiver = receive(people("ada"), on_recorded=choose(loops), on_refused=on_refused)
    bodies = [encode(delivery("eve" if number % 3 else "ada", n=number)) for number in range(12)]
    statuses = [receiver.record_directly(request(body)).status for body in bodies]
    assert statuses == [200, 404, 404] * 4
    receiver.close(PATIENCE)
    assert loops.bodies == bodies
    [loop] = loops.loops
    assert loop.is_closed()


def test_the_event_loop_runs_between_calls_and_ends_with_its_tasks() -> None:
    """A hook can leave tasks and asynchronous generators, which `close` ends."""
    events: list[str] = []
    tasks = []
    ticked = Event()

    async def tick() -> None:
        try:
            while True:
                await asyncio.sleep(0.001)
                ticked.set()
        finally:
            await asyncio.sleep(0)
            events.append("cancelled")

    async def generate() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            events.append("finalized")

    generator = generate()

    async def start(*_: object) -> None:
        tasks.append(asyncio.create_task(tick()))
        await anext(generator)

    with closing(hooks(start)) as calls:
        before = set(threading.enumerate())
        call(calls, 1)
        eventually(lambda: tasks and calls._current is None)
        ticked.clear()
        assert ticked.wait(PATIENCE)
        assert events == []
    assert events == ["cancelled", "finalized"]
    assert set(threading.enumerate()) <= before


def test_close_cancels_an_async_hook_that_hangs(caplog: pytest.LogCaptureFixture) -> None:
    """It drops the calls that have not begun."""
    started, ended = Event(), Event()
    bodies = []

    async def hang(arrival: Arrival, _: Recorded) -> None:
        bodies.append(arrival.body)
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    before = set(threading.enumerate())
    calls = hooks(hang)
    call(calls, 3)
    assert started.wait(PATIENCE)
    calls.close(0.01)
    assert ended.wait(PATIENCE)
    eventually(lambda: set(threading.enumerate()) <= before)
    assert bodies == [b"0"]
    assert caplog.messages == [
        "Stopped before all hooks had ended; dropped calls: 3.",
        f"on_recorded raised CancelledError at {__file__}:{hang.__code__.co_firstlineno + 4}.",
    ]
    calls.close()  # again
    call(calls, 1)
    assert "closed: calls are dropped" in caplog.text


def test_close_ends_although_a_hook_suppresses_its_cancellation() -> None:
    started, opened = Event(), Event()

    async def persist(*_: object) -> None:
        while not opened.is_set():
            started.set()
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                task = current_task()
                assert task is not None
                task.uncancel()

    before = set(threading.enumerate())
    calls = hooks(persist)
    call(calls, 1)
    assert started.wait(PATIENCE)
    calls.close(0.01)
    opened.set()
    eventually(lambda: set(threading.enumerate()) <= before)


@pytest.mark.parametrize(
    ("hook", "error"),
    [
        (Loops, "^on_refused must be a function, or .*, not the class Loops: write def on"),
        ("hook", "^on_refused must be a function, or a list of functions, not str: write"),
        ([print, None], "^on_refused must be a function, or a list of functions, not None"),
        ({print}, "^on_refused must be a function, or a list of functions, not set"),
        (lambda: None, r"<lambda>\) does not accept .*: write def on_refused\(arrival, outcome\)"),
        (lambda _, __: (yield), "^on_refused is a generator function, .*: remove `yield`"),
    ],
)
def test_a_hook_that_would_never_run_is_rejected(hook: Any, error: str) -> None:  # noqa: ANN401
    with pytest.raises(ConfigurationError, match=error):
        receive(people(), on_refused=hook)


@pytest.mark.parametrize(
    ("reason", "room"),
    [("", 10), ("x" * 1024 * 1024, 13)],  # 5 MiB each: 4 bytes for a character, such as an emoji
)
def test_too_many_or_too_large_calls_are_dropped(
    reason: str, room: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookrow._receiver.hooks.MAX_CALLS", 10 if not reason else 100)
    arrival = Arrival((Suppressed(ADA, "m-ada", NOON, reason),), reason.encode(), NOON)
    recording = RecordingHook(opened=False)
    with closing(hooks(recording)) as calls:
        call(calls, 1)
        assert recording.reached.wait(PATIENCE)
        for _ in range(20):
            calls(arrival, Recorded(()))
        recording.opened.set()
    assert len(recording.calls) == 1 + room
    assert caplog.messages == ["The hooks are too slow, or closed: calls are dropped."]


@pytest.mark.parametrize("is_async", [False, True])
def test_call_that_hangs(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, *, is_async: bool
) -> None:
    recording, now = RecordingHook(opened=False), 1000.0
    monkeypatch.setattr("hookrow._receiver.hooks.monotonic", lambda: now)
    with closing(hooks(recording.in_loop if is_async else recording)) as calls:
        call(calls, 1)
        assert recording.reached.wait(PATIENCE)
        for now in (1030.0, 1030.1, 1099.0):  # noqa: B007 - the clock
            call(calls, 1)
        recording.opened.set()
    [message] = caplog.messages
    assert re.fullmatch(
        r"A call to on_recorded \((RecordingHook|.*in_loop)\) has taken more than 30.0 s.", message
    )


@pytest.mark.parametrize("is_async", [False, True])
def test_no_response_waits_for_a_hook(*, is_async: bool) -> None:
    database, hanging = people("ada", "bea"), RecordingHook(opened=False)
    receiver = receive(database, on_recorded=hanging.in_loop if is_async else hanging)
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
        # In memory, this waits until no transaction is open.
        seen.append(database.tables.dispatch("m-ada").delivered_at)
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
    assert len({*recorded.threads, *refused.threads, threading.current_thread()}) == 2
