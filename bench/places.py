"""Where it is measured: databases of each kind, filled, and a server of our own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Engine, delete, text

from data import SMALL, Size, fill
from hookrow.stores.tables import notifications
from processes import HERE, free_port, running

TESTS = HERE.parent / "tests"
sys.path.append(str(TESTS))
from engines import opened as opened  # noqa: E402, PLC0414 - as below, and others import it
from postgres import Server, find_binaries  # noqa: E402 - found by the line above

POSTGRESQL, SQLITE = "PostgreSQL", "SQLite"

_SETTLE = {
    "postgresql": ["VACUUM ANALYZE", "CHECKPOINT"],
    "sqlite": ["ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"],
}


@dataclass(frozen=True, slots=True)
class Place:
    """A database: its URL and, where it has processes of its own, the first of them.

    `binaries` are those of the server that it has.
    """

    name: str
    url: str
    pid: int | None = None
    binaries: Path | None = None


@contextmanager
def places(size: Size) -> Iterator[dict[str, Place]]:
    """Make and fill a database of each kind; return them by name."""
    with TemporaryDirectory(dir=HERE) as folder, postgres() as server:
        made = {
            POSTGRESQL: Place(POSTGRESQL, server.create(), server.pid, server.binaries),
            SQLITE: Place(SQLITE, f"sqlite:///{folder}/bench.db"),
        }
        for place in made.values():
            with opened(place.url) as engine:
                fill(engine, size)
                settle(engine)
        yield made


@contextmanager
def databases() -> Iterator[dict[str, str]]:
    """Make a small database of each kind; return their URLs by name."""
    with places(SMALL) as made:
        yield {name.lower(): place.url for name, place in made.items()}


@contextmanager
def postgres() -> Iterator[Server]:
    """Run the tests' own PostgreSQL, though with its defaults: fsync is on."""
    server = Server(binaries(), fsync=True)
    try:
        yield server
    finally:
        server.remove()


def binaries() -> Path:
    """Return where PostgreSQL's programs are: the machine's, or those of a wheel."""
    found = find_binaries(os.environ)
    assert found is not None, "the extra dev brings PostgreSQL's programs"
    return found


def settle(engine: Engine) -> None:
    """Do what the database does in its own time."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for settling in _SETTLE[engine.dialect.name]:
            connection.execute(text(settling))


def reset(place: Place) -> None:
    """Empty the log, and leave nothing to be done that another has made."""
    with opened(place.url) as engine:
        with engine.begin() as connection:
            if place.pid:
                connection.execute(text(f"TRUNCATE {notifications.name}"))
            else:
                connection.execute(delete(notifications))
        settle(engine)


@contextmanager
def server(url: str, *flags: str, **variables: str) -> Iterator[tuple[int, int]]:
    """Run a server of our own until the block ends; yield its port and its process id."""
    port = free_port()
    command = (sys.executable, HERE / "server.py", port, url, *flags)
    with running(command, port, variables) as pid:
        yield port, pid


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
