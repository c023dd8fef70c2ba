"""Hooks: the host's functions hear of every end, and can neither hold up nor harm anything."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import closing
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from functools import partial, wraps
from threading import Event, Thread
from typing import Any

import pytest

import world
from command import run_script
from hookrow import (
    Arrival,
    ConfigurationError,
    Head,
    Postmark,
    Receiver,
    Recorded,
    Refusal,
    Refused,
    Request,
    Response,
    Suppressed,
    testing,
)
from hookrow.hooks import BACKLOG, SLOW, Hook
from hookrow.promise import Promise
from hookrow.stores.engines import opened
from hookrow.stores.memory import MemoryStore
from hookrow.stores.sql import SQLStore
from wire import eventually

PATIENCE = 20.0
"""In seconds; how long a test waits for what should come soon, on a machine that is busy."""

NOW = datetime(2026, 3, 5, 12, 0, 0, tzinfo=UTC)
ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
RECORDED = Recorded(())


def _arrival(number: int = 0) -> Arrival:
    return Arrival(None, str(number).encode(), NOW)


class _Heard:
    """A hook of a host's that keeps what it hears, and where; it may wait at a gate."""

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


class TestHook:
    def test_in_order_in_one_thread(self) -> None:
        """Each call is made once, in order, in one thread that is not the caller's."""
        heard = _Heard()
        calls = [(_arrival(number), RECORDED) for number in range(300)]
        with closing(Hook(heard, "on_recorded")) as hook:
            for call in calls:
                hook(*call)
        assert heard.calls == calls
        assert len(heard.threads - {threading.current_thread()}) == len(heard.threads) == 1
        assert (hook.failed, hook.hung, hook.left_out) == (0, 0, 0)

    @pytest.mark.parametrize("fault", [ValueError(ADA), SystemExit(ADA), KeyboardInterrupt()])
    def test_raises(self, fault: BaseException, caplog: pytest.LogCaptureFixture) -> None:
        """What a hook raises, or exits with, is counted, and logged once without what it says."""
        heard = _Heard()

        def fail(arrival: Arrival, outcome: Recorded) -> None:
            heard(arrival, outcome)
            if len(heard.calls) % 2:
                raise fault

        with closing(Hook(fail, "on_recorded")) as hook:
            for number in range(100):
                hook(_arrival(number), RECORDED)
        assert len(heard.calls) == 100
        assert (hook.failed, hook.hung, hook.left_out) == (50, 0, 0)
        assert caplog.messages == [f"on_recorded raised {type(fault).__name__}."]
        assert all(record.exc_info is None for record in caplog.records)

    def test_returns_an_async_result(
        self, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
    ) -> None:
        """It is counted and logged once, with advice, and without a RuntimeWarning."""

        class Deferred:
            def __await__(self) -> Generator[None, None, None]:
                yield

        results: Iterator[object] = iter([_notify(), Deferred(), _stream(), _notify()])

        @wraps(_notify)
        def notify(arrival: Arrival, outcome: Recorded) -> object:
            del arrival, outcome
            return next(results)

        with closing(Hook(notify, "on_recorded")) as hook:
            for number in range(4):
                hook(_arrival(number), RECORDED)
        gc.collect()
        assert (hook.failed, hook.hung, hook.left_out) == (4, 0, 0)
        (message,) = caplog.messages
        assert message.startswith("on_recorded returned an async result (coroutine)")
        assert "Pass a plain function" in message
        assert not recwarn.list

    def test_overflows(self, caplog: pytest.LogCaptureFixture) -> None:
        """As many calls wait as may; what comes more is left out, counted and logged once."""
        heard = _Heard(opened=False)
        hook = Hook(heard, "on_refused")
        hook(_arrival(), RECORDED)
        assert heard.reached.wait(PATIENCE)
        for number in range(BACKLOG + 50):
            hook(_arrival(number), RECORDED)
        heard.opened.set()
        hook.close(PATIENCE)
        assert BACKLOG == 10_000
        assert len(heard.calls) == BACKLOG + 1
        assert (hook.failed, hook.hung, hook.left_out) == (0, 0, 50)
        assert caplog.messages == ["on_refused is too slow, or closed: calls are left out."]

    def test_overflows_with_long_reasons(self) -> None:
        """A reason counts as four bytes a character, because an emoji makes it take these."""
        reason = "x" * 1024 * 1024
        suppressed = Suppressed(ADA, ADAS, NOW, reason)
        arrival = Arrival(suppressed, b"x" * len(reason), NOW)
        heard = _Heard(opened=False)
        hook = Hook(heard, "on_recorded")
        hook(_arrival(), RECORDED)
        assert heard.reached.wait(PATIENCE)
        for _ in range(20):
            hook(arrival, RECORDED)
        heard.opened.set()
        hook.close(PATIENCE)
        assert hook.left_out == 20 - 64 // 5

    def test_hangs(self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
        """A call that does not come back is counted and logged once, as soon as another comes."""
        now = 1000.0
        monkeypatch.setattr("hookrow.hooks.monotonic", lambda: now)
        heard = _Heard(opened=False)
        hook = Hook(heard, "on_recorded")
        hook(_arrival(), RECORDED)
        assert heard.reached.wait(PATIENCE)
        now += SLOW
        hook(_arrival(), RECORDED)
        assert hook.hung == 0
        now += 0.1
        for number in range(100):
            hook(_arrival(number), RECORDED)
        heard.opened.set()
        hook.close(PATIENCE)
        assert SLOW == 30.0
        assert (hook.failed, hook.hung, hook.left_out) == (0, 1, 0)
        assert caplog.messages == ["A call of on_recorded takes more than 30.0 s."]
        assert len(heard.calls) == 102

    def test_no_thread_before_the_first_call(self) -> None:
        """A hook that has not been called has no thread that a fork could lose."""
        before = set(threading.enumerate())
        Hook(_Heard(), "on_recorded").close()
        assert not set(threading.enumerate()) - before

    def test_fork(self) -> None:
        """A child's calls are made in the child, and the parent's in the parent."""
        run_script(
            """
            import os, sys
            from datetime import UTC, datetime
            from hookrow import Arrival, Recorded
            from hookrow.hooks import Hook

            calls = []
            hook = Hook(lambda arrival, _: calls.append(arrival.body), "on_recorded")

            def call(body):
                hook(Arrival(None, body, datetime.now(UTC)), Recorded(()))

            call(b"before")
            pid = os.fork()
            if pid == 0:
                calls.clear()
                call(b"child")
                hook.close(20)
                assert calls == [b"child"]
                sys.exit(0)
            call(b"parent")
            hook.close(20)
            assert calls == [b"before", b"parent"]
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            """
        )


def _request(payload: object) -> Request:
    return Request(Head("POST", "/provider/webhooks", ()), json.dumps(payload).encode())


def _post(receiver: Receiver, payload: object) -> int:
    answer = receiver(_request(payload))
    return (answer.result(PATIENCE) if isinstance(answer, Promise) else answer).status


ENDS = [
    (testing.delivery(ADA, ADAS, at=NOW), 200),
    (testing.opening("eve@example.com", ADAS, at=NOW), 404),
    (testing.opening(ADA, "m-unknown", at=NOW), 404),
    (testing.opening("bea+news@example.org", ADAS, at=NOW), 400),
    ({"RecordType": "Click"}, 422),
    (testing.suppression(ADA, ADAS, at=NOW), 200),
    (testing.suppression(ADA, ADAS, at=NOW), 200),
]


async def _notify(*_: object) -> None:
    """Do what a host would do."""


async def _stream(*_: object) -> AsyncIterator[None]:
    yield


class _Notifier:
    async def __call__(self, *_: object) -> None:
        """Do what a host would do."""

    async def notify(self, *_: object) -> None:
        """Do what a host would do."""


class TestReceiver:
    @pytest.mark.parametrize("name", ["on_recorded", "on_refused"])
    @pytest.mark.parametrize(
        "hook",
        [
            _notify,
            _stream,
            _Notifier(),
            _Notifier().notify,
            partial(_notify, 1),
            partial(partial(_Notifier()), 1),
            _Notifier,
        ],
        ids=[
            "function",
            "generator",
            "object",
            "method",
            "partial",
            "partial of an object",
            "class",
        ],
    )
    def test_async(self, name: str, hook: Callable[..., Any]) -> None:
        """An async hook, which would never run, is refused with advice on what to pass instead."""
        hooks: dict[str, Any] = {name: hook}
        with pytest.raises(
            ConfigurationError, match=rf"^{name} is an async function.*run_coroutine_threadsafe"
        ):
            Receiver(Postmark("secret"), MemoryStore(), **hooks)

    @pytest.fixture
    def receive(self, database_url: str) -> Iterator[Callable[..., Receiver]]:
        """Return what makes a receiver on a database with the world in it."""
        world.fill(database_url)
        with closing(SQLStore(database_url)) as store:
            yield lambda **hooks: Receiver(Postmark("secret"), store, **hooks)

    def test_once_each_after_the_commit(
        self, receive: Callable[..., Receiver], database_url: str
    ) -> None:
        """Each end is told once, in order, when it is there for everybody, off the request path."""
        recorded, refused = _Heard(), _Heard()
        seen: list[object] = []

        def on_recorded(arrival: Arrival, outcome: Recorded) -> None:
            seen.append(world.rows(database_url)["dispatches"][0]["delivered_at"])
            recorded(arrival, outcome)

        receiver = receive(on_recorded=on_recorded, on_refused=refused)
        assert [_post(receiver, payload) for payload, _ in ENDS] == [status for _, status in ENDS]
        receiver.close(PATIENCE)
        bodies = [json.dumps(payload).encode() for payload, _ in ENDS]
        assert [arrival.body for arrival, _ in recorded.calls] == [bodies[0], *bodies[5:]]
        assert [arrival.body for arrival, _ in refused.calls] == bodies[1:5]
        assert [outcome.refusal for _, outcome in refused.calls] == [
            Refusal.SUBSCRIBER_NOT_FOUND,
            Refusal.DISPATCH_NOT_FOUND,
            Refusal.RECIPIENT_MISMATCH,
            Refusal.UNSUPPORTED,
        ]
        assert all(outcome.changes for _, outcome in recorded.calls)
        assert seen == [NOW] * 3
        assert not recorded.threads & refused.threads

    @pytest.mark.parametrize("hook", ["on_recorded", "on_refused"])
    def test_one_that_harms(self, receive: Callable[..., Receiver], hook: str) -> None:
        """While one hook hangs, and when it then raises, answers come and the other is called."""
        hanging, other = _Heard(opened=False), _Heard()

        def harm(arrival: Arrival, outcome: Recorded | Refused) -> None:
            hanging(arrival, outcome)
            raise ValueError(arrival, outcome)

        receiver = receive(**{"on_recorded": other, "on_refused": other, hook: harm})
        assert [_post(receiver, payload) for payload, _ in ENDS] == [status for _, status in ENDS]
        others = 4 if hook == "on_recorded" else 3
        eventually(lambda: len(other.calls) == others)
        assert not hanging.calls
        hanging.opened.set()
        assert _post(receiver, ENDS[0][0]) == 200
        assert _post(receiver, ENDS[1][0]) == 404
        receiver.close(PATIENCE)
        assert (len(hanging.calls), len(other.calls)) == (8 - others, others + 1)

    def test_none_for_what_comes_again(
        self, receive: Callable[..., Receiver], database_url: str
    ) -> None:
        """What is answered 503 has not ended: no hook hears of it."""
        heard = _Heard()
        receiver = receive(on_recorded=heard, on_refused=heard)
        with opened(database_url) as engine, engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE hookrow_dispatches RENAME TO away")
        assert _post(receiver, ENDS[0][0]) == 503
        assert _post(receiver, {"RecordType": "Click"}) == 422
        receiver.close(PATIENCE)
        assert [outcome.refusal for _, outcome in heard.calls] == [Refusal.UNSUPPORTED]

    @pytest.mark.parametrize("queue", [True, False])
    def test_without_a_log(self, *, queue: bool) -> None:
        """What is not supported is refused at once; `on_refused` hears of it all the same."""
        recorded, refused = _Heard(), _Heard()
        receiver = Receiver(
            Postmark("secret"), MemoryStore(log=None), on_recorded=recorded, on_refused=refused
        )
        request = _request({"RecordType": "Click"})
        answer = (receiver if queue else receiver.answer)(request)
        assert isinstance(answer, Response)
        assert answer.status == 422
        receiver.close(PATIENCE)
        ((arrival, outcome),) = refused.calls
        assert (arrival.body, arrival.notification) == (request.body, None)
        assert outcome == Refusal.UNSUPPORTED.refused()
        assert threading.current_thread() not in refused.threads
        assert not recorded.calls

    def test_of_answer(self, receive: Callable[..., Receiver]) -> None:
        """A notification recorded in the calling thread is told off it, and cannot be changed."""
        heard = _Heard()
        receiver = receive(on_recorded=heard)
        assert receiver.answer(_request(ENDS[0][0])).status == 200
        receiver.close(PATIENCE)
        assert threading.current_thread() not in heard.threads
        (call,) = heard.calls
        for value, name in zip(call, ("body", "changes"), strict=True):
            with pytest.raises(FrozenInstanceError):
                setattr(value, name, None)
