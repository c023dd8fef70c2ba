"""`hookrow serve` and signals: SIGHUP while it starts, and workers that die or hang."""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from traffic import report

from command import Command, Serving
from wire import SECRET, ask, eventually, get, request

NEW = "the-secret-of-next-year"

READY = "Application startup complete"

# A worker imports this file, too, under another name.
ROTATING = f"""
import os, signal
from pathlib import Path

from hookrow.__main__ import main
from hookrow.server import Server

class Rotating(Server):
    def __init__(self, settings):
        super().__init__(settings)
        Path("secrets").write_text("{NEW}")
        os.kill(os.getpid(), signal.SIGHUP)

import hookrow.server
hookrow.server.Server = Rotating

if __name__ == "__main__":
    main()
"""

IMPATIENT = """
import hookrow.processes
from hookrow.__main__ import main

hookrow.processes.STOP_TIMEOUT = 1.0

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return the command, in a folder with hookrow's tables and a secret file."""
    command = Command(tmp_path)
    command.call("db", "upgrade")
    (tmp_path / "secrets").touch(0o600)
    (tmp_path / "secrets").write_text(SECRET)
    return command


def _wait_until_ready(server: Serving, times: int) -> None:
    """Wait until so many processes have started; on a busy machine, one may take seconds."""
    eventually(lambda: server.log.count(READY) >= times or not server.lives, seconds=60)
    assert server.log.count(READY) >= times, server.log


def _instead(command: Command, script: str) -> Command:
    """Return a command that runs this script instead."""
    file = command.folder / "script.py"
    file.write_text(script)
    return Command(command.folder, (sys.executable, file))


def _blocks_hangups(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    blocked = int(status.partition("SigBlk:")[2].split()[0], 16)
    return bool(blocked & 1 << signal.SIGHUP - 1)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_hangup_at_any_moment_of_the_start(command: Command, workers: int) -> None:
    """SIGHUP every 10 ms to the server and all its workers ends none of them."""
    with command.starting("--workers", workers) as server:
        eventually(lambda: _blocks_hangups(server.pid), seconds=30)
        sent, until = 0, time.monotonic() + 60
        while server.lives and server.log.count(READY) < workers and time.monotonic() < until:
            os.killpg(server.pid, signal.SIGHUP)
            sent += 1
            time.sleep(0.01)
        assert server.log.count(READY) == workers, server.log
        server.wait_until_it_listens()
        assert get(server.port, "/healthz").status == 200
        server.wait_until_it_says("The secrets were read anew", times=workers)
    assert "replaced" not in server.log
    assert "Traceback" not in server.log
    report(f"processes that serve: {workers}, SIGHUP during the start: {sent} times")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_hangup_after_the_secrets_were_read(command: Command, workers: int) -> None:
    """A secret that changes after it is read and before the handler is installed is accepted."""
    options = ("--secret-file", "secrets", "--workers", workers)
    with _instead(command, ROTATING).serving(*options, HOOKROW_SECRET="") as server:
        _wait_until_ready(server, workers)
        for secret, status in ((NEW, 422), (SECRET, 401)):
            answers = {ask(server.port, request(b"", secret=secret)).status for _ in range(8)}
            assert answers == {status}


def _has_others(server: Serving, workers: set[int]) -> bool:
    return not workers.issuperset(server.workers())


def test_workers_die_and_hang(command: Command) -> None:
    """Killed workers are replaced before one that hangs is; a second SIGTERM kills that at once."""
    with command.serving("--workers", "3") as server:
        _wait_until_ready(server, 3)
        hung, *killed = server.workers()
        os.kill(hung, signal.SIGSTOP)
        for each in killed:  # the second one right after the first was replaced
            before, began = set(server.workers()), time.monotonic()
            os.kill(each, signal.SIGKILL)
            eventually(partial(_has_others, server, before), seconds=30)
            report(f"a killed worker is replaced after {time.monotonic() - began:.2f} s")
            assert f"Worker {each} ended with status -9; replaced." in server.log
        assert hung in server.workers()
        assert get(server.port, "/healthz").status == 200
        eventually(lambda: hung not in server.workers(), seconds=30)
        _wait_until_ready(server, 6)
    assert server.log.count("; replaced.") == 3


def _stop_with_a_hung_worker(server: Serving) -> int:
    """Hold one of two workers by SIGSTOP, stop the server by SIGTERM; return the hung worker."""
    _wait_until_ready(server, 2)
    hung, other = server.workers()
    os.kill(hung, signal.SIGSTOP)
    server.send(signal.SIGTERM)
    eventually(lambda: other not in server.workers(), seconds=30)
    return hung


def test_a_hung_worker_after_the_timeout(command: Command) -> None:
    """The worker is killed after the timeout, and the server ends."""
    with _instead(command, IMPATIENT).serving("--workers", "2") as server:
        hung = _stop_with_a_hung_worker(server)
        assert server.ended() == 0
    assert f"Worker {hung} had not stopped; killed." in server.log


def test_a_hung_worker_and_a_second_signal(command: Command) -> None:
    """The worker has its time to stop; a second signal, of either kind, kills it at once."""
    with command.serving("--workers", "2") as server:
        hung = _stop_with_a_hung_worker(server)
        assert server.lives
        assert hung in server.workers()
        server.send(signal.SIGINT)
        assert server.ended() == 0
    assert f"Worker {hung} had not stopped; killed." in server.log
