"""Signals at critical moments: SIGHUP while `hookrow serve` starts, workers that die or hang."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from command import HOOKROW, Command, Serving, patched
from wire import PATIENCE, SECRET, ask, eventually, get, request

pytestmark = pytest.mark.never_flaky

NEW = "the-secret-of-next-year"

READY = "Application startup complete"

START = 90.0
"""In seconds; how long workers may take to start on a busy machine: each imports all modules."""

# The parent of workers builds a server only to check the settings.
ROTATING = f"""
import os, signal, sys
from multiprocessing import parent_process
from pathlib import Path

import hookrow._server.app

class Rotating(hookrow._server.app.Server):
    def __init__(self, settings):
        super().__init__(settings)
        if parent_process() or sys.argv[-1] == "1":
            Path("secrets").write_text("{NEW}")
            os.kill(os.getpid(), signal.SIGHUP)

hookrow._server.app.Server = Rotating
"""
SHORT_TIMEOUT = """
import hookrow._server.workers

hookrow._server.workers.STOP_TIMEOUT = 1.0
"""

FAILING = """
import hookrow._server.app

class Failing(hookrow._server.app.Server):
    async def __call__(self, scope, receive, send):
        assert scope["type"] == "lifespan"
        await receive()
        await send({"type": "lifespan.startup.failed", "message": ""})

hookrow._server.app.Server = Failing
"""

RAISING = """
from hookrow._receiver.receiver import Receiver

def start(_):
    raise RuntimeError("can't start new thread")

Receiver.start = start
"""


@pytest.fixture
def command(tmp_path: Path, sqlite_url: str) -> Command:
    """Return the command, in a folder with hookrow's tables and a secret file."""
    assert sqlite_url.endswith("hookrow.db")
    (tmp_path / "secrets").touch(0o600)
    (tmp_path / "secrets").write_text(SECRET)
    return Command(tmp_path)


def _wait_until_ready(server: Serving, times: int) -> None:
    """Wait until this number of processes has started; a single one logs it before it listens."""
    eventually(lambda: server.log.count(READY) >= times or not server.is_running, seconds=START)
    assert server.log.count(READY) >= times, server.log
    server.wait_until_it_listens()


def _blocks_sighup(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    blocked = int(status.partition("SigBlk:")[2].split()[0], 16)
    return bool(blocked & 1 << signal.SIGHUP - 1)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_hangup_at_any_moment_of_the_start(command: Command, workers: int) -> None:
    """SIGHUP every 10 ms to the server and all workers terminates none of them."""
    with command.starting("--workers", workers) as server:
        eventually(lambda: _blocks_sighup(server.pid))
        sent, until = 0, time.monotonic() + START
        while server.is_running and server.log.count(READY) < workers and time.monotonic() < until:
            os.killpg(server.pid, signal.SIGHUP)
            sent += 1
            time.sleep(0.01)
        _wait_until_ready(server, workers)
        assert get(server.port, "/healthz").status == 200
        server.wait_until_logged("The secrets were reloaded", times=workers)
    assert "replaced" not in server.log
    assert "Traceback" not in server.log
    print(f"processes: {workers}, SIGHUP during the start: {sent} times")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_hangup_after_the_secrets_were_read(command: Command, workers: int) -> None:
    """A secret that changes after it was read, and before the handler is installed, is accepted."""
    options = ("--secret-file", "secrets", "--workers", workers)
    with patched(command.folder, ROTATING).starting(*options, HOOKROW_SECRET="") as server:
        _wait_until_ready(server, workers)
        for secret, status in ((NEW, 422), (SECRET, 401)):
            answers = {ask(server.port, request(b"", secret=secret)).status for _ in range(8)}
            assert answers == {status}


def test_workers_die_and_hang(command: Command) -> None:
    """Killed workers are replaced while another worker hangs; then that one is replaced, too."""
    with command.starting("--workers", "3") as server:
        _wait_until_ready(server, 3)
        hung, *killed = server.workers()
        os.kill(hung, signal.SIGSTOP)
        for number, each in enumerate(killed, 1):  # the second one immediately after the first
            began = time.monotonic()
            os.kill(each, signal.SIGKILL)
            server.wait_until_logged("exited with status -9; replaced.", number)
            eventually(lambda: len(server.workers()) == 3)
            print(f"a killed worker is replaced after {time.monotonic() - began:.2f} s")
        assert hung in server.workers()
        assert get(server.port, "/healthz").status == 200
        eventually(lambda: hung not in server.workers())
        _wait_until_ready(server, 6)
    assert server.log.count("; replaced.") == 3


def test_workers_whose_parent_is_killed(command: Command) -> None:
    """They record what they have, end, and leave the port to the next server."""
    with command.starting("--workers", "2", "--spool", "spool.db") as server:
        _wait_until_ready(server, 2)
        workers = server.workers()
        server.send(signal.SIGKILL)
        eventually(lambda: not any(map(_is_running, workers)))
        assert server.log.count("The parent process of this worker is gone; stopping.") == 2
    with command.starting(HOOKROW_PORT=str(server.port)) as again:
        _wait_until_ready(again, 1)
        assert get(again.port, "/healthz").status == 200


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _stop_with_a_hung_worker(server: Serving) -> int:
    """Stop one of two workers with SIGSTOP, and the server with SIGTERM; return that worker."""
    _wait_until_ready(server, 2)
    hung, other = server.workers()
    os.kill(hung, signal.SIGSTOP)
    server.send(signal.SIGTERM)
    eventually(lambda: other not in server.workers())
    return hung


def test_a_hung_worker_after_the_timeout(command: Command) -> None:
    """The worker is killed after the timeout, and the server exits."""
    with patched(command.folder, SHORT_TIMEOUT).starting("--workers", "2") as server:
        hung = _stop_with_a_hung_worker(server)
        assert server.ended() == 0
    assert f"Worker {hung} did not stop in time; killed." in server.log


def test_workers_that_fail_to_start(command: Command) -> None:
    """The server stops, because their replacements would fail, too."""
    with patched(command.folder, FAILING).starting("--workers", "2") as server:
        assert server.ended() == 3
    assert "A worker failed to start; stopping the server." in server.log


def test_an_exception_of_the_start(command: Command) -> None:
    """The server does not run without its receiver, and the log has the cause."""
    with patched(command.folder, RAISING).starting() as server:
        assert server.ended() == 3
    assert "RuntimeError: can't start new thread" in server.log


def test_a_hung_worker_and_a_second_signal(command: Command) -> None:
    """A second SIGTERM or SIGINT kills the worker before the timeout."""
    with command.starting("--workers", "2") as server:
        hung = _stop_with_a_hung_worker(server)
        assert server.is_running
        assert hung in server.workers()
        server.send(signal.SIGINT)
        assert server.ended() == 0
    assert f"Worker {hung} did not stop in time; killed." in server.log


def test_a_hangup_of_another_command(command: Command) -> None:
    """SIGHUP terminates it, unless nohup runs it."""
    default = ("env", "--default-signal=HUP")  # regardless of how these tests are run
    for before, status in ((default, -signal.SIGHUP), (("nohup",), 1)):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(2 * PATIENCE)
            port = str(listener.getsockname()[1])
            waiting = subprocess.Popen(
                [*before, HOOKROW, "simulate", "open", "ada@example.com", "--port", port],
                cwd=command.folder,
                env=command.environment({"HOOKROW_SECRET": SECRET}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            connection, _ = listener.accept()
            waiting.send_signal(signal.SIGHUP)
            connection.close()
            assert waiting.wait(2 * PATIENCE) == status
