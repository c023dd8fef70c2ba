"""Threads of our own: few, gone when nothing waits, and no obstacle to an exit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from threading import Event, Thread, current_thread

import pytest

from hookrow.threads import Threads
from wire import PATIENCE, eventually


def test_a_call_ends_as_the_function_does() -> None:
    """With what it returns or raises, in a thread that ends when nothing waits."""
    threads = Threads(1, seconds=PATIENCE)
    made = threads.submit(current_thread, late=None).result(PATIENCE)
    assert made.name == "hookrow-call"
    assert made.daemon
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 / 0, late=None).result(PATIENCE)
    eventually(lambda: not made.is_alive())


def test_what_is_late() -> None:
    """It ends in time all the same; what was not begun by then never is."""
    threads, go_on = Threads(1, seconds=0.1), Event()
    calls: list[Callable[[], object]] = [lambda: go_on.wait(PATIENCE), lambda: 1 / 0]
    assert [
        each.result(PATIENCE) for each in [threads.submit(call, late="late") for call in calls]
    ] == ["late", "late"]
    go_on.set()
    assert threads.submit(lambda: "in time", late="late").result(PATIENCE) == "in time"


def test_a_system_without_threads_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call starts one, and what waits is made, too."""
    threads = Threads(1, seconds=PATIENCE)

    def fail(_: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(Thread, "start", fail)
        first = threads.submit(lambda: 1, late=None)
    assert threads.submit(lambda: 2, late=None).result(PATIENCE) == 2
    assert first.result(PATIENCE) == 1


@pytest.mark.parametrize("then", ["", "os.fork() or threads.submit(say, late=None).result(9)"])
def test_a_process_ends_with_a_call_at_work(then: str) -> None:
    """Nobody waits for it; and a child that is forked meanwhile has threads of its own."""
    script = f"""
import os, threading
from hookrow.threads import Threads
def say(): os.write(1, b"called")
threads = Threads(1, seconds=60)
threads.submit(threading.Event().wait, late=None)
{then}
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"called" if then else b""), done.stderr
