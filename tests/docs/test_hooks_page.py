"""The page on hooks and task queues: its code runs, with stand-ins for Celery and RQ."""

import sys
from pathlib import Path
from typing import Any

import pytest

from command import Command
from hookrow import Arrival, Opened, Recorded
from session import read_files
from times import NOON

FILES = read_files("docs/how-to/hooks-celery-rq.md")


CELERY = """
from types import SimpleNamespace


class Celery:
    def __init__(self, name, *, broker):
        assert broker.startswith("redis://")
        self.conf = SimpleNamespace()

    def task(self, *, acks_late):
        def decorate(function):
            function.apply_async = None
            return function

        return decorate
"""

RQ = """
jobs = []


class Queue:
    def __init__(self, *, connection):
        pass

    def enqueue(self, name, *, job_id, **arguments):
        jobs.append((name, job_id, arguments))
"""

REDIS = """
class Redis:
    def __init__(self, *, socket_timeout, socket_connect_timeout, retry):
        pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the files of the page and the stand-ins."""
    stand_ins = {"celery.py": CELERY, "rq.py": RQ, "redis.py": REDIS}
    for name, text in (FILES | stand_ins).items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_celery(folder: Path) -> None:
    """The test on the page passes, and the receiver can be constructed."""
    assert len(FILES) == 6
    typed = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_hook.py")
    done = Command(folder).execute(sys.executable, *typed)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    built = ("-c", "import receiver; receiver.receiver.close()")
    done = Command(folder).execute(sys.executable, *built, HOOKROW_SECRET="a-secret-of-the-page")
    assert done.returncode == 0, done.stderr


def test_rq(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook enqueues one job with the key of the notification."""
    monkeypatch.syspath_prepend(folder)
    names: dict[str, Any] = {}
    exec(FILES["rq_hook.py"], names)
    arrival = Arrival(Opened("ada@example.com", "m-1", NOON), b"{}", NOON)
    names["on_recorded"](arrival, Recorded([]))
    key = names["idempotency_key"](arrival)
    arguments = {"key": key, "kind": "opened", "email": "ada@example.com", "detail": "m-1"}
    assert sys.modules["rq"].jobs == [("worker.synchronize", key, arguments)]
    for name in ("rq", "redis", "jobs"):
        del sys.modules[name]
