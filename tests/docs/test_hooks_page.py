"""The page on hooks and task queues: its code runs, with a stand-in for RQ."""

import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest

from command import Command
from hookrow import Arrival, Opened, Recorded
from session import execute, read_files
from times import NOON

FILES = read_files("docs/how-to/hooks-celery-rq.md")


def test_celery(tmp_path: Path) -> None:
    """The test on the page passes, and the receiver can be constructed."""
    assert len(FILES) == 6
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    typed = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_hook.py")
    done = Command(tmp_path).execute(sys.executable, *typed)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    built = ("-c", "import receiver; receiver.receiver.close()")
    done = Command(tmp_path).execute(sys.executable, *built, HOOKROW_SECRET="a-secret-of-the-page")
    assert done.returncode == 0, done.stderr


def test_rq(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook enqueues one job with the key of the notification."""
    jobs, redis, rq = SimpleNamespace(**execute(FILES["jobs.py"])), Mock(), Mock()
    for name, module in {"jobs": jobs, "redis": redis, "rq": rq}.items():
        monkeypatch.setitem(sys.modules, name, module)
    opened = Opened("ada@example.com", "m-1", NOON)
    execute(FILES["rq_hook.py"])["on_recorded"](Arrival((opened,), b"{}", NOON), Recorded([]))
    key = jobs.idempotency_key(opened)
    arguments = {"key": key, "kind": "opened", "email": "ada@example.com", "detail": "m-1"}
    assert rq.Queue.mock_calls == [
        call(connection=redis.Redis.return_value),
        call().enqueue("worker.synchronize", job_id=key, **arguments),
    ]
    options = {"socket_timeout": 2, "socket_connect_timeout": 2, "retry": None}
    assert redis.Redis.mock_calls == [call(**options)]
