"""Where it is measured: databases of each kind, and a server under load."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from socket import create_server, socket
from tempfile import TemporaryDirectory

from sqlalchemy import text

from data import fill
from hookrow.stores.engines import opened

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests"
sys.path.append(str(TESTS))
from postgres import Server, find_binaries  # noqa: E402 - found by the line above

SECONDS = 2.0
"""How long a load is measured."""

WARM_UP = 1.0
"""In seconds; what is answered by then does not count."""


@contextmanager
def databases() -> Iterator[dict[str, str]]:
    """Make and fill a database of each kind; return their URLs by name."""
    with TemporaryDirectory(dir=HERE) as folder, _postgres() as postgres:
        urls = {"sqlite": f"sqlite:///{folder}/bench.db", "postgresql": postgres}
        for url in urls.values():
            with opened(url) as engine:
                fill(engine)
        yield urls


@contextmanager
def _postgres() -> Iterator[str]:
    """Run the tests' own PostgreSQL, though with its defaults: fsync is on."""
    binaries = find_binaries(os.environ)
    assert binaries is not None, "no PostgreSQL to be had"
    server = Server(binaries, fsync=True)
    try:
        yield server.create()
    finally:
        server.remove()


def facts(postgres: str) -> str:
    """Say what it is measured on."""
    with opened(postgres) as engine, engine.connect() as connection:
        version = connection.execute(text("SHOW server_version")).scalar()
    return (
        f"{len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, PostgreSQL {version}"
    )


@contextmanager
def server(target: str, *flags: str, **variables: str) -> Iterator[tuple[int, int]]:
    """Run a server of our own until the block ends; yield its port and its process id."""
    with (
        _listening() as listener,
        _running(
            listener, HERE / "server.py", listener.fileno(), target, *flags, **variables
        ) as run,
    ):
        yield run


@contextmanager
def gunicorn(app: str, threads: int, **variables: str) -> Iterator[tuple[int, int]]:
    """Run an application in gunicorn until the block ends; yield as `server` does."""
    options = ("--threads", threads, "--log-level", "error", "--chdir", HERE, "--pythonpath", TESTS)
    with (
        _listening() as listener,
        _running(
            listener,
            *("-m", "gunicorn", app, "--bind", f"fd://{listener.fileno()}", *options),
            **variables,
        ) as (port, pid),
    ):
        workers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        yield port, int(workers[0])


def _listening() -> socket:
    return create_server(("127.0.0.1", 0), backlog=1024)


@contextmanager
def _running(listener: socket, *arguments: object, **variables: str) -> Iterator[tuple[int, int]]:
    port, descriptor = listener.getsockname()[1], listener.fileno()
    command = [sys.executable, *map(str, arguments)]
    with subprocess.Popen(command, pass_fds=[descriptor], env=os.environ | variables) as process:
        try:
            # It listens before it is ready; this waits for its first answer.
            connection = HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/")
            connection.getresponse()
            connection.close()
            yield port, process.pid
        finally:
            process.terminate()


def load(
    port: int, connections: int, seconds: float = SECONDS, warm_up: float = WARM_UP
) -> dict[str, float]:
    """Put a server under load; return rate (1/s), p50 and p99 (ms) and the count of errors."""
    numbers = map(str, (port, connections, seconds, warm_up))
    command = [sys.executable, str(HERE / "load.py"), *numbers]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


@contextmanager
def attacked(port: int, kind: str) -> Iterator[None]:
    """Let hostile clients at a server while the block runs."""
    command = [sys.executable, str(HERE / "hostile.py"), str(port), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.terminate()


def seconds_of(pid: int) -> float:
    """Return for how long a process has kept a core busy until now (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> dict[str, float]:
    """Return a process's resident memory now and at its highest, in MB (proc(5))."""
    status = Path(f"/proc/{pid}/status").read_text()
    values = dict(line.split(":", 1) for line in status.splitlines())
    return {name: int(values[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")}
