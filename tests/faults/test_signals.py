"""`hookrow serve` under signals: SIGHUP while it starts, and workers that die or hang."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from command import Command, Serving
from wire import PATIENCE, SECRET, ask, eventually, get, request

NEW = "the-secret-of-next-year"

# A worker imports this file too, under another name.
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
    """Return the command, in a folder with tables and a secret file."""
    command = Command(tmp_path)
    command.call("db", "upgrade")
    (tmp_path / "secrets").touch(0o600)
    (tmp_path / "secrets").write_text(SECRET)
    return command


def started(server: Serving) -> int:
    """Return how many processes are ready to serve."""
    return server.log.count("Application startup complete")


def holds_hangups(pid: int) -> bool:
    """Tell whether a process blocks SIGHUP."""
    status = Path(f"/proc/{pid}/status").read_text()
    blocked = int(status.partition("SigBlk:")[2].split()[0], 16)
    return bool(blocked & 1 << signal.SIGHUP - 1)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_hangup_at_any_moment_of_the_start(command: Command, workers: int) -> None:
    """SIGHUP every 10 ms, to the server and all its workers, ends none of them."""
    with command.starting("--workers", workers) as server:
        eventually(lambda: holds_hangups(server.pid))
        sent, until = 0, time.monotonic() + 4 * PATIENCE
        while server.lives and started(server) < workers and time.monotonic() < until:
            os.killpg(server.pid, signal.SIGHUP)
            sent += 1
            time.sleep(0.01)
        assert started(server) == workers, server.log
        server.wait_until_it_listens()
        assert get(server.port, "/healthz").status == 200
        eventually(lambda: server.log.count("The secrets were read anew") >= workers)
    assert "replaced" not in server.log
    assert "Traceback" not in server.log
    print(f"processes that serve: {workers}, SIGHUP during the start: {sent} times")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_hangup_after_the_secrets_were_read(command: Command, workers: int) -> None:
    """A secret changes after it was read and before the handler is there: it is accepted."""
    script = command.folder / "rotating.py"
    script.write_text(ROTATING)
    rotating = Command(command.folder, (sys.executable, script))
    options = ("--secret-file", "secrets", "--workers", workers)
    with rotating.serving(*options, HOOKROW_SECRET="") as server:
        eventually(lambda: started(server) == workers)
        for secret, status in ((NEW, 422), (SECRET, 401)):
            answers = {ask(server.port, request(b"", secret=secret)).status for _ in range(8)}
            assert answers == {status}


def test_a_worker_dies_while_another_hangs(command: Command) -> None:
    """A killed worker is replaced within a second, and one that hangs after 5 seconds."""
    with command.serving("--workers", "3") as server:
        eventually(lambda: server.log.count("Application startup complete") == 3)
        hung, killed, survivor = server.workers()
        os.kill(hung, signal.SIGSTOP)
        began = time.monotonic()
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: set(server.workers()) - {hung, killed, survivor}, seconds=1)
        print(f"a killed worker is replaced after {time.monotonic() - began:.2f} s")
        assert get(server.port, "/healthz").status == 200
        eventually(lambda: hung not in server.workers())
        eventually(lambda: server.log.count("Application startup complete") == 5)
        assert survivor in server.workers()
    assert f"Worker {killed} ended with status -9; replaced." in server.log


def test_a_second_worker_dies(command: Command) -> None:
    """A worker that is killed right after another was replaced is replaced within a second."""
    with command.serving("--workers", "2") as server:
        server.wait_until_it_says("Application startup complete", times=2)
        first, second = server.workers()
        os.kill(first, signal.SIGKILL)
        eventually(lambda: set(server.workers()) - {first, second})
        replacements = set(server.workers()) - {first}
        began = time.monotonic()
        os.kill(second, signal.SIGKILL)
        eventually(lambda: len({*server.workers()} - replacements) == 1, seconds=0.95)
        print(f"a second killed worker is replaced after {time.monotonic() - began:.2f} s")


def stop_with_a_hung_worker(server: Serving) -> int:
    """Stop one of two workers by SIGSTOP, and the server by SIGTERM; return the hung one."""
    server.wait_until_it_says("Application startup complete", times=2)
    hung, other = server.workers()
    os.kill(hung, signal.SIGSTOP)
    server.send(signal.SIGTERM)
    eventually(lambda: other not in server.workers())
    return hung


def test_a_hung_worker_after_the_timeout(command: Command) -> None:
    """The worker is killed after the timeout, and the server ends."""
    script = command.folder / "impatient.py"
    script.write_text(IMPATIENT)
    impatient = Command(command.folder, (sys.executable, script))
    with impatient.serving("--workers", "2") as server:
        hung = stop_with_a_hung_worker(server)
        assert server.ended() == 0
    assert f"Worker {hung} had not stopped; killed." in server.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_hung_worker_and_a_second_signal(command: Command, number: signal.Signals) -> None:
    """The worker has its time; a second signal kills it at once."""
    with command.serving("--workers", "2") as server:
        hung = stop_with_a_hung_worker(server)
        assert server.lives
        assert hung in server.workers()
        began = time.monotonic()
        server.send(number)
        assert server.ended() == 0
        print(f"stopped {time.monotonic() - began:.2f} s after the second signal")
    assert f"Worker {hung} had not stopped; killed." in server.log
