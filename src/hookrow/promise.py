"""A promise: the result of work that another thread does.

It is what `concurrent.futures.Future` is, without its lock for each, which takes longer than
all else that is done to hand a notification over. It cannot be cancelled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event
from typing import Generic, TypeVar

R = TypeVar("R")
T = TypeVar("T")


class Promise(Generic[R]):
    """What a `Handler` may return for a response that is still to come: any thread may end it.

    It ends once, with a result or an error: whoever ends it first decides. It needs no
    lock, for no two threads can take the same thing out of a list.
    """

    __slots__ = ("__weakref__", "_calls", "_ended", "_error", "_open", "_result")

    _result: R

    def __init__(self) -> None:
        self._open = [True]
        self._ended = False
        self._error: BaseException | None = None
        self._calls: list[Callable[[Promise[R]], object]] = []

    def set_result(self, result: R) -> bool:
        """End with a result; False, and nothing is changed, where it had ended."""
        if _take(self._open) is None:
            return False
        self._result = result
        self._tell()
        return True

    def set_exception(self, error: BaseException) -> bool:
        """End with an error; False, and nothing is changed, where it had ended."""
        if _take(self._open) is None:
            return False
        self._error = error
        self._tell()
        return True

    def done(self) -> bool:
        """Tell whether it has ended."""
        return self._ended

    def result(self, timeout: float | None = None) -> R:
        """Wait for the end, at most `timeout` seconds, and return the result.

        Raises the error that it ended with, or `TimeoutError`.
        """
        if not self._ended:
            self._wait(timeout)
        if self._error is not None:
            raise self._error
        return self._result

    def add_done_callback(self, call: Callable[[Promise[R]], object]) -> None:
        """Have it called with the promise at the end, by who ends it; at once where it has ended.

        What it raises is logged.
        """
        self._calls.append(call)
        if self._ended:
            self._call()

    def _tell(self) -> None:
        self._ended = True
        self._call()

    def _call(self) -> None:
        while self._calls and (call := _take(self._calls)):
            try:
                call(self)
            except Exception as error:  # noqa: BLE001 - it is the fault of who waits
                _log.error("Who waits for a result raised %s.", type(error).__name__)

    def _wait(self, timeout: float | None) -> None:
        ended = Event()
        self.add_done_callback(lambda _: ended.set())
        if not ended.wait(timeout):
            raise TimeoutError


def _take(things: list[T]) -> T | None:
    """Take the first thing out of a list; None where there is none, or another thread took it."""
    try:
        return things.pop(0)
    except IndexError:
        return None


_log = logging.getLogger("hookrow")
