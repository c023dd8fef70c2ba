"""A full disk, which is a small file system: the spool on it is emptied all the same."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_disk import SmallDisk, small_disk
from traffic import Load, logged

from command import HOOKROW, Command
from postgres import Server
from wire import eventually

pytestmark = pytest.mark.never_flaky

FILL = """
import errno, sys

with open(sys.argv[1], "wb", buffering=0) as rest:
    try:
        while True:
            rest.write(bytes(1000))
    except OSError as error:
        assert error.errno == errno.ENOSPC
"""
"""Fills the disk of a file."""

READ = """
import sqlite3, sys

connection = sqlite3.connect(sys.argv[1])
bodies = connection.execute("SELECT body FROM arrivals").fetchall()
try:
    connection.execute("DELETE FROM arrivals")
except sqlite3.OperationalError as error:
    assert error.sqlite_errorname == "SQLITE_FULL"
else:
    sys.exit("there is room for a journal")
print(*(body.decode() for body, in bodies), sep="\\n")
"""
"""Prints the bodies in a spool, one on each line; fails if they can be deleted with a journal."""

COUNT = """
import sqlite3, sys

print(*sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM arrivals").fetchone())
"""
"""Prints the number of notifications in a spool."""

BEGIN = """
import os, sys
from datetime import UTC, datetime
from hookrow import Arrival
from hookrow._receiver.spool import Spool

spool = Spool(sys.argv[2])
os.remove(sys.argv[1])
spool.put([Arrival((), b"body", datetime.now(UTC))])
print(spool.count())
"""
"""Opens a new spool on a full disk, and puts a notification into it when the disk has room."""

DAMAGE = """
import sqlite3, sys
from datetime import UTC, datetime
from hookrow import Arrival
from hookrow._receiver.spool import Spool

Spool(sys.argv[2]).put([Arrival((), b"%d" % n, datetime.now(UTC)) for n in range(99)])
connection = sqlite3.connect(sys.argv[2])
(page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE type = 'index'").fetchone()
connection.close()
with open(sys.argv[2], "r+b") as file:
    file.seek((page - 1) * 4096)
    file.write(b"x" * 4096)
"""
"""Puts notifications into a spool, and damages the index of its file."""


STATUS = """
import sys
from hookrow._diagnostics.status import StatusSource, read_fault
from hookrow import Schema
from hookrow.migrations import upgrade
from hookrow.stores.sql import SQLStore

url = f"sqlite:///{sys.argv[2]}"
upgrade(url, Schema())
source = StatusSource(store=SQLStore(url))
print(read_fault(source, rehearse=True))
with open(sys.argv[1], "wb", buffering=0) as rest:
    try:
        while True:
            rest.write(bytes(1000))
    except OSError:
        pass
for rehearse in (False, True):
    fault = read_fault(source, rehearse=rehearse)
    print(fault and fault.text)
"""
"""Prints the fault of a database before its disk is full, after that, and with a rehearsal."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


def run(disk: SmallDisk, script: str, *files: Path) -> list[str]:
    """Run a script with the disk; return the lines that it prints."""
    return disk.run(sys.executable, "-c", script, *files)


@pytest.mark.parametrize("filled_by_spool", [True, False], ids=["by the spool", "by another file"])
def test_the_spool_is_emptied(
    disk: SmallDisk,
    own_postgres: Server,
    own_postgres_url: str,
    tmp_path: Path,
    *,
    filled_by_spool: bool,
) -> None:
    """What the spool could keep during an outage is recorded, while its disk is still full."""
    spool = disk.folder / "spool.db"
    load = Load(own_postgres_url, pause=0.0 if filled_by_spool else 0.02)
    command = Command(tmp_path, [*disk.program, HOOKROW])
    with command.serving("--database-url", own_postgres_url, "--spool", spool) as serving:
        own_postgres.stop()
        try:
            with load.on(serving.port):
                load.wait_for(200, 503)
                if filled_by_spool:
                    serving.wait_until_logged("Not spooled")
            if not filled_by_spool:
                disk.fill()
            kept = run(disk, READ, spool)
        finally:
            own_postgres.start()
        eventually(lambda: run(disk, COUNT, spool) == ["0"], seconds=60)
    log = logged(own_postgres_url)
    print(f"{len(kept)} in the spool; {load}")
    assert len(kept) >= 200
    assert {log[body.encode()] for body in kept} == {("recorded", 1)}


def test_a_spool_on_a_full_disk_begins_when_there_is_room(disk: SmallDisk) -> None:
    """Until then, a receiver starts without it: the provider repeats what it does not record."""
    spool = disk.folder / "spool.db"
    assert run(disk, FILL + BEGIN, spool.with_name("other"), spool) == ["1"]


def test_a_damaged_spool_on_a_full_disk_is_replaced_when_there_is_room(disk: SmallDisk) -> None:
    """Until then, a receiver starts without it, and the file keeps what can be read in it."""
    spool = disk.folder / "spool.db"
    assert run(disk, DAMAGE + FILL + BEGIN, spool.with_name("other"), spool) == ["100"]


def test_a_full_disk_is_a_finding_before_a_notification_fails(disk: SmallDisk) -> None:
    """A change of no row succeeds on it, but a rehearsed write does not."""
    database = disk.folder / "hookrow.db"
    lines = run(disk, STATUS, database.with_name("other"), database)
    before, unrehearsed, rehearsed = lines
    assert (before, unrehearsed) == ("None", "None")
    assert rehearsed.startswith("The database accepts no changes: ")
    assert "full" in rehearsed
