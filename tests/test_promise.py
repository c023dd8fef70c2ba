"""A promise ends once, whoever ends it, and all who wait hear of it, with real threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest

from hookrow.promise import Promise

PATIENCE = 20.0
"""In seconds; how long a test waits for what should come at once, on a machine that is busy."""


def _kept() -> Promise[str]:
    promise = Promise[str]()
    promise.set_result("done")
    return promise


def _broken() -> Promise[str]:
    promise = Promise[str]()
    promise.set_exception(LookupError("a fault"))
    return promise


def test_result() -> None:
    """Who waits in a thread has the result when another brings it, and again later."""
    promise = Promise[str]()
    assert not promise.done()
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(promise.result, PATIENCE) for _ in range(2)]
        assert promise.set_result("done")
        assert [each.result(PATIENCE) for each in waiting] == ["done"] * 2
    assert promise.done()
    assert promise.result(0) == "done"


def test_error() -> None:
    """What could not be done raises, where somebody waits for it."""
    for _ in range(2):
        with pytest.raises(LookupError, match="a fault"):
            _broken().result()


def test_timeout() -> None:
    """Who waits for too long is told so, and may wait again."""
    promise = Promise[str]()
    with pytest.raises(TimeoutError):
        promise.result(0.01)
    promise.set_result("done")
    assert promise.result(0) == "done"


@pytest.mark.parametrize("make", [_kept, _broken])
def test_ends_once(make: Callable[[], Promise[str]]) -> None:
    """What has ended stays as it is, and who comes later is told."""
    promise = make()
    assert not promise.set_result("after all")
    assert not promise.set_exception(ValueError("after all"))
    try:
        assert promise.result(0) == "done"
    except LookupError:
        assert make is _broken


def test_callbacks() -> None:
    """Each callback is called once, in order, with the promise, and at once where it has ended."""
    promise, called = Promise[str](), list[tuple[str, str]]()
    for name in ("first", "second"):
        promise.add_done_callback(lambda ended, name=name: called.append((name, ended.result(0))))  # type: ignore[misc]
    assert not called
    promise.set_result("done")
    promise.add_done_callback(lambda _: called.append(("third", "late")))
    assert called == [("first", "done"), ("second", "done"), ("third", "late")]


def test_a_callback_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """What a callback raises is logged without its text, and the others are called."""
    promise, called = Promise[str](), list[object]()

    def fail(_: Promise[str]) -> None:
        raise IndexError("ada@example.com")

    promise.add_done_callback(fail)
    promise.add_done_callback(called.append)
    promise.set_result("done")
    assert called == [promise]
    assert caplog.messages == ["Who waits for a result raised IndexError."]


def test_many_at_once() -> None:
    """Of threads that end it at the same time one does; each callback of theirs is called once."""
    for _ in range(200):
        promise, barrier, called = Promise[int](), Barrier(4), list[int]()
        end = partial(_end, promise, barrier, called)
        with ThreadPoolExecutor(4) as pool:
            first = [number for number, won in enumerate(pool.map(end, range(4))) if won]
        assert first == [promise.result(0)]
        assert sorted(called) == [0, 1, 2, 3]


def _end(promise: Promise[int], barrier: Barrier, called: list[int], number: int) -> bool:
    barrier.wait(PATIENCE)
    promise.add_done_callback(lambda _: called.append(number))
    return promise.set_result(number)
