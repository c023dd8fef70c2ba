"""The databases and processes of a benchmark, the CPU time of processes, and the machine.

The databases run with their defaults: every commit is on disk before its response.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
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
from hookrow import Schema, _migrations

BENCH = Path(__file__).parent
ROOT = BENCH.parent
sys.path.append(str(ROOT / "tests"))
import mariadb  # noqa: E402 - the previous line makes it importable
from databases import kind_of  # noqa: E402 - the same line makes it importable
from postgres import Server, find_binaries  # noqa: E402 - the same line makes it importable

POSTGRESQL, SQLITE, MARIADB = "PostgreSQL", "SQLite", "MariaDB"

START_TIMEOUT = 30.0
"""In seconds; how long a server may take to respond after its start, or to end."""

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Database:
    """A database.

    Attributes:
        connect: opens a connection that commits each statement.
        maintenance: the statements that would otherwise run during the next measurement.
        truncate: the words before the name of a table that delete all its rows.
        pid, binaries: the process and, on PostgreSQL, the programs of its server, or None.

    """

    name: str
    url: str
    connect: Callable[[], Any]
    maintenance: Sequence[str]
    truncate: str
    pid: int | None = None
    binaries: Path | None = None

    def execute(self, *statements: str) -> list[Any]:
        """Run statements, each in its own transaction; return the rows of the last one."""
        with closing(self.connect()) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def settle(self) -> None:
        """Do the maintenance now that would otherwise disturb the next measurement."""
        self.execute(*self.maintenance)

    def empty_log(self) -> None:
        """Delete all entries of the log."""
        self.execute(f"{self.truncate} hookrow_notifications")


@contextmanager
def _postgresql(folder: Path) -> Iterator[Database]:
    """Run the PostgreSQL server of the tests, but with fsync."""
    del folder
    binaries = find_binaries()
    assert binaries is not None, "install PostgreSQL, or the extra dev, which contains it"
    server = Server(binaries, fsync=True)
    try:
        url = server.create()
        yield Database(
            POSTGRESQL,
            url,
            partial(psycopg.connect, url, autocommit=True, options="-c timezone=UTC"),
            maintenance=("VACUUM ANALYZE", "CHECKPOINT"),
            truncate="TRUNCATE",
            pid=server.pid,
            binaries=server.binaries,
        )
    finally:
        server.remove()


@contextmanager
def _sqlite(folder: Path) -> Iterator[Database]:
    file = folder / "bench.db"
    database = Database(
        SQLITE,
        f"sqlite:///{file}",
        partial(sqlite3.connect, file, isolation_level=None),
        maintenance=("ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"),
        truncate="DELETE FROM",
    )
    database.execute("PRAGMA journal_mode = WAL")
    yield database


class _MariaDBConnection:
    """A connection whose statements are those of the other databases."""

    def __init__(self, url: str) -> None:
        self._connection = mariadb.connect(url, init_command=_SETTINGS)

    def execute(self, statement: str) -> Any:  # noqa: ANN401 - the driver has no types
        """Run a statement; return its cursor."""
        cursor = self._connection.cursor()
        cursor.execute(statement)
        return cursor

    def close(self) -> None:
        self._connection.close()


_SETTINGS = """SET time_zone = '+00:00', max_recursive_iterations = 4294967295,
    sql_mode = 'PIPES_AS_CONCAT,NO_AUTO_VALUE_ON_ZERO,STRICT_TRANS_TABLES'"""


@contextmanager
def _mariadb(folder: Path) -> Iterator[Database]:
    """Run the MariaDB server of the tests, but with fsync, and with memory for all rows.

    PostgreSQL finds its rows in the cache of the operating system, which InnoDB does not use.
    """
    del folder
    binaries = mariadb.find_binaries()
    assert binaries is not None, mariadb.MISSING
    server = mariadb.Server(binaries, fsync=True, buffer_pool="512M")
    try:
        url = server.create()
        tables = "hookrow_subscribers, hookrow_subscriptions, hookrow_dispatches"
        yield Database(
            MARIADB,
            url,
            partial(_MariaDBConnection, url),
            maintenance=(f"ANALYZE TABLE {tables}",),
            truncate="TRUNCATE",
            pid=server.pid,
        )
    finally:
        server.remove()


DATABASES: Mapping[str, Callable[[Path], AbstractContextManager[Database]]] = {
    POSTGRESQL: _postgresql,
    SQLITE: _sqlite,
    MARIADB: _mariadb,
}
"""The databases of the benchmarks: each creates an empty one, in the folder if it is a file."""


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
    return kind_of(url).django(make_url(url))


@contextmanager
def databases(
    rows: int, names: Collection[str] = tuple(DATABASES)
) -> Iterator[dict[str, Database]]:
    """Create databases with hookrow's tables and `rows` dispatches; delete them at the end."""
    with TemporaryDirectory(dir=BENCH) as folder, ExitStack() as stack:
        created = {
            name: stack.enter_context(create(Path(folder)))
            for name, create in DATABASES.items()
            if name in names
        }
        for database in created.values():
            _migrations.upgrade(database.url, Schema())
            database.execute(*insert_statements(rows))
            database.settle()
        yield created


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
