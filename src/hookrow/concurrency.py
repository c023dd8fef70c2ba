"""What the standard library lacks: work that is repeated in a thread, and threads after a fork."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread, current_thread
from typing import Protocol
from weakref import WeakSet

log = logging.getLogger("hookrow")


LAST: set[Callable[[], object]] = set()
"""Called in each of hookrow's threads when it ends or pauses, to close the thread's connections."""

REST = 10.0
"""In seconds; a longer pause is worth closing connections."""

SOON = 60.0
"""In seconds; how long it waits at the most after a failure."""

PAUSE = 0.05
"""In seconds; how long it waits if there is more to do, so that it holds up nobody."""


class PeriodicTask:
    """Calls `work` at once, or `later`, and then every so many `seconds`, once it is started.

    If it returns True, there is more to do, and the next call comes after a short pause.
    What it raises is logged, and the next time comes all the same, within a minute.
    A child process has to start it again.
    """

    _lock: Lock
    _closing: Event
    _thread: Thread | None

    def __init__(
        self, work: Callable[[], object], *, seconds: float, name: str, later: bool = False
    ) -> None:
        self._work = work
        self._seconds = seconds
        self._delay = seconds if later else 0.0
        self._name = name
        self._closed = False
        self.reset()
        reset_after_fork(self)

    def start(self) -> None:
        """Start, where it does not run yet; a system without threads to give is asked again."""
        running = self._thread
        if running is not None:  # each notification asks: that takes no lock
            return
        with self._lock, suppress(RuntimeError):
            if self._thread is None and not self._closed:
                thread = Thread(target=self._run, name=f"hookrow-{self._name}", daemon=True)
                thread.start()
                self._thread = thread

    def close(self, timeout: float | None = None) -> None:
        """Begin nothing more; wait `timeout` seconds for what is at work."""
        self._closed = True
        self._closing.set()
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join(timeout)

    def reset(self) -> None:
        """Begin anew: not started."""
        self._lock = Lock()
        self._closing = Event()
        self._thread = None

    def _run(self) -> None:
        self._closing.wait(self._delay)
        while not self._closed:
            pause = self._seconds
            try:
                if self._work() is True:
                    pause = min(pause, PAUSE)
            except Exception as error:  # noqa: BLE001 - the next time may go well
                pause = min(pause, SOON)
                log.warning(f"The {self._name} failed: %s: %s", type(error).__name__, error)
            if pause > REST:
                _close_connections()
            self._closing.wait(pause)
        _close_connections()


def _close_connections() -> None:
    for each in LAST:
        each()


class Resettable(Protocol):
    """Owns threads, locks or connections that a child process must not use."""

    def reset(self) -> None:
        """Begin anew, as if just built."""


def reset_after_fork(thing: Resettable) -> None:
    """Renew the thing in every child process that is forked while it lives."""
    _things.add(thing)


def _renew() -> None:
    for thing in list(_things):
        thing.reset()


_things: WeakSet[Resettable] = WeakSet()

if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew)
