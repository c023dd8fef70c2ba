"""The SQLite file: the host writes to it too, its disk is full, it may only be read."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import pytest
from traffic import Load, is_well, report, see_through

from command import HOOKROW, Command, Serving
from wire import eventually

Full = Callable[[Serving], AbstractContextManager[None]]
"""Fills the disk that the database is on, for a while."""


def test_the_host_writes_to_the_same_file(sqlite_url: str, tmp_path: Path) -> None:
    """The writes of both take turns: none is lost; who waits too long is answered 503."""
    load = Load(sqlite_url)
    over = Event()
    written = [0]

    def host() -> None:
        """Write again and again, and once hold the file for longer than anyone waits."""
        with closing(sqlite3.connect(tmp_path / "hookrow.db", timeout=30)) as connection:
            connection.isolation_level = None
            while not over.wait(0.01):
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT INTO hookrow_lists (name) VALUES ('of the host')")
                time.sleep(3 if written[0] == 20 else 0.02)
                connection.execute("COMMIT")
                written[0] += 1

    thread = Thread(target=host)
    command = Command(tmp_path)
    spool = tmp_path / "spool"
    with command.serving("--database-url", sqlite_url, "--spool", spool) as serving:
        with load.on(serving.port):
            thread.start()
            time.sleep(8)
        over.set()
        thread.join()
    report(f"{written[0]} transactions of the host; {load.told()}")
    assert set(load.statuses()) <= {200, 503}, load.told()
    assert load.lost() == []
    assert load.unposted() == []
    assert load.miscounted() == []
    with closing(sqlite3.connect(tmp_path / "hookrow.db")) as connection:
        theirs = "SELECT count(*) FROM hookrow_lists WHERE name = 'of the host'"
        assert connection.execute(theirs).fetchone() == (written[0],)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 32 MiB in memory, which only root may."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a disk")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.usefixtures("sqlite_url")
def test_the_disk_is_full(small_disk: Path, tmp_path: Path) -> None:
    """While a disk of 32 MiB is full all are answered 503 and spooled elsewhere."""

    @contextmanager
    def full(_: Serving) -> Iterator[None]:
        ballast = small_disk / "ballast"
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        yield
        ballast.unlink()

    shutil.move(tmp_path / "hookrow.db", small_disk)
    _survive(f"sqlite:///{small_disk}/hookrow.db", tmp_path, full)


def test_files_may_not_grow(sqlite_url: str, tmp_path: Path) -> None:
    """The same without root: by RLIMIT_FSIZE no file of the process may become longer.

    SQLite's write-ahead log wants to; the spool has room for what comes meanwhile.
    """

    @contextmanager
    def full(serving: Serving) -> Iterator[None]:
        _limit(serving, 2 * 1024 * 1024)
        yield
        _limit(serving, resource.RLIM_INFINITY)

    _survive(sqlite_url, tmp_path, full)


def _limit(serving: Serving, size: int) -> None:
    resource.prlimit(serving._process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def _survive(url: str, folder: Path, full: Full) -> None:
    """Fill the disk in the middle of the load: 503 meanwhile, then well again, nothing lost."""
    load = Load(url, pause=0.02)
    spool = folder / "spool"
    with Command(folder).serving("--database-url", url, "--spool", spool) as serving:
        with load.on(serving.port):
            time.sleep(1)
            with full(serving):
                eventually(lambda: load.statuses()[503] > 500)
            eventually(lambda: is_well(load), seconds=20)
        see_through(load, spool)


def test_the_file_may_only_be_read(sqlite_url: str, tmp_path: Path) -> None:
    """A server whose file may not be written answers 503 and spools; then it is well again."""
    load = Load(sqlite_url, pause=0.02)
    spool, file = tmp_path / "spool", tmp_path / "hookrow.db"
    # Root may write what is read-only, but for root without this capability.
    powerless = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
    command = Command(tmp_path, [*powerless, HOOKROW])
    arguments = ("--database-url", sqlite_url, "--spool", spool)
    with command.serving(*arguments) as serving, load.on(serving.port):
        eventually(lambda: load.statuses()[200] > 500)
    file.chmod(0o400)
    with command.serving(*arguments) as serving:
        with load.on(serving.port):
            eventually(lambda: load.statuses()[503] > 500)
            for each in tmp_path.glob("hookrow.db*"):  # what SQLite made beside it is no better
                each.chmod(0o600)
            eventually(lambda: is_well(load), seconds=20)
        see_through(load, spool)
