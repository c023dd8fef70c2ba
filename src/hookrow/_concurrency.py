"""Periodic tasks, and cleanup after a fork, at the end of a thread and at exit."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread, current_thread
from time import monotonic
from typing import Protocol
from weakref import WeakSet, WeakValueDictionary

from hookrow._faults import EXPECTED, describe_bug, describe_fault, log_fault, without_values

logger = logging.getLogger("hookrow")

AT_THREAD_END: set[Callable[[], object]] = set()
"""Callbacks that close a thread's connections. Each of hookrow's threads calls them when it ends or
pauses."""

EXIT_TIMEOUT = 10.0
"""Seconds that the exit of the interpreter waits for all objects of `close_at_exit`."""

LONG_PAUSE = 10.0
"""The longest pause, in seconds, during which a thread keeps its connections open."""

LONGEST_FAILURE_PAUSE = 60.0
"""Seconds of the longest pause after a failure."""

TASK_PAUSE = 0.05
"""Seconds before a task continues unfinished work, so that other work can run."""


class PeriodicTask:
    """Calls `work` in a separate thread every `seconds` seconds, once started.

    The first call is immediate or, with `later`, after the first interval. The interval includes
    the call, but at least half of it is a pause. If `work` returns True, it is unfinished and is
    called again after a short pause. Exceptions are logged, and the next call follows within a
    minute; log lines contain the text only of those in `_faults.EXPECTED` and in `expected`. After
    a fork, a child process must start the task again.
    """

    _lock: Lock
    _closing: Event
    _thread: Thread | None

    def __init__(
        self,
        work: Callable[[], object],
        *,
        seconds: float,
        name: str,
        later: bool = False,
        expected: tuple[type[Exception], ...] = (),
    ) -> None:
        self._work = work
        self._seconds = seconds
        self._delay = seconds if later else 0.0
        self._name = name
        self._expected: tuple[type[Exception], ...] = (*EXPECTED, *expected)
        self._closed = False
        self.reset()
        reset_after_fork(self)

    def start(self) -> bool:
        """Start the task unless it is running or closed; return False if no thread can start."""
        with self._lock, suppress(RuntimeError):
            if self._thread is None and not self._closed:
                thread = Thread(target=self._run, name=f"hookrow-{self._name}", daemon=True)
                thread.start()
                self._thread = thread
        return self._thread is not None or self._closed

    def close(self, timeout: float | None = None) -> None:
        """Stop the task; wait up to `timeout` seconds for a call that is in progress."""
        self._closed = True
        self._closing.set()
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join(timeout)

    def reset(self) -> None:
        """Return to the state before `start`."""
        self._lock = Lock()
        self._closing = Event()
        self._thread = None

    def _run(self) -> None:
        self._closing.wait(self._delay)
        while not self._closed:
            pause = self._attempt(self._work)
            if pause > LONG_PAUSE:
                close_thread_connections()
            self._closing.wait(pause)
        self._attempt(self._finish)
        close_thread_connections()

    def _attempt(self, work: Callable[[], object]) -> float:
        """Call a function; return the pause until the next call, in seconds."""
        began = monotonic()
        try:
            if work() is True:
                return min(self._seconds, TASK_PAUSE)
            return max(self._seconds - (monotonic() - began), self._seconds / 2)
        except self._expected as error:
            logger.warning(f"The {self._name} failed: %s: %s", type(error).__name__, error)
        except BaseException as error:  # noqa: BLE001 - also a SystemExit of the host's code
            # The next call may succeed, so nothing may end the thread.
            log_fault(error, f"The {self._name} failed: %s", describe_bug(error))
        return min(self._seconds, LONGEST_FAILURE_PAUSE)

    def _finish(self) -> None:
        """Do what remains when the task is closed. Subclasses may override this."""


class Resettable(Protocol):
    """Owns threads, locks or connections that a child process must not use."""

    def reset(self) -> None:
        """Return to the state after construction."""


class Closable(Protocol):
    """Owns a thread that has work to finish."""

    closed: bool

    def close(self, timeout: float) -> None:
        """Finish the work; wait up to `timeout` seconds for it."""


def reset_after_fork(resource: Resettable) -> None:
    """Reset an object in every child process that is forked during its lifetime.

    Threads do not survive a fork, and a lock may stay locked forever.
    """
    _resettable.add(resource)


def close_at_exit(resource: Closable) -> None:
    """Close an object when the interpreter exits, unless its owner has closed it.

    Objects are closed in reverse order: a receiver's writer passes work to its hooks, which are
    created before it. All of them together have `EXIT_TIMEOUT` seconds.
    """
    _closable[id(resource)] = resource


def close_thread_connections() -> None:
    """Close the connections that belong to the current thread."""
    for callback in AT_THREAD_END:
        try:
            callback()
        except Exception as error:  # raised by the host's database driver
            logger.warning(
                "A thread could not close its connections: %s",
                describe_fault(error),
                exc_info=without_values(error),
            )


@atexit.register
def _close_all() -> None:
    until = monotonic() + EXIT_TIMEOUT
    for resource in reversed([*_closable.values()]):
        if not resource.closed:
            resource.close(max(until - monotonic(), 0.0))


def _reset_all() -> None:
    for resource in list(_resettable):
        resource.reset()


_resettable: WeakSet[Resettable] = WeakSet()
_closable: WeakValueDictionary[int, Closable] = WeakValueDictionary()

if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_reset_all)
