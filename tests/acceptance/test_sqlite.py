"""Faults of the SQLite file: the host also writes to it, it cannot grow, it is read-only."""

import os
import resource
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

import pytest
from traffic import Load

import world
from command import HOOKROW, Command
from wire import DELIVERY, ENDPOINT, SECRET, ask, eventually, get, request

pytestmark = pytest.mark.never_flaky

FULL = 48 * 1024
"""The largest size of a file in bytes: more than the spool needs, but less than the database, so
that its write-ahead log can neither grow nor be emptied."""


def test_the_host_writes_to_the_same_file(sqlite_url: str, tmp_path: Path) -> None:
    """Both wait for each other and no write is lost; responses after a long wait are 503."""
    load, over = Load(sqlite_url), Event()
    file, spool = tmp_path / "hookrow.db", tmp_path / "spool"
    written = 0

    def host() -> None:
        """Write repeatedly, and once lock the file for longer than hookrow waits."""
        nonlocal written
        with closing(sqlite3.connect(file, timeout=30, isolation_level=None)) as connection:
            while not over.wait(0.01):
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT INTO hookrow_lists (name) VALUES ('of the host')")
                time.sleep(3 if written == 10 else 0.02)
                connection.execute("COMMIT")
                written += 1

    thread = Thread(target=host)
    with Command(tmp_path).serving("--database-url", sqlite_url, "--spool", spool) as serving:
        with load.on(serving.port):
            thread.start()
            eventually(lambda: written > 15, seconds=60)
            load.wait_for(200, 200)
        over.set()
        thread.join()
    print(f"{written} transactions of the host; {load}")
    load.check(200, 503)
    assert load.miscounted() == []
    with closing(sqlite3.connect(file)) as connection:
        rows_of_host = "SELECT count(*) FROM hookrow_lists WHERE name = 'of the host'"
        assert connection.execute(rows_of_host).fetchone() == (written,)


def test_a_file_size_limit(sqlite_url: str, tmp_path: Path) -> None:
    """While SQLite's files cannot grow, notifications get a 503 and are spooled.

    RLIMIT_FSIZE has the same effect as a full disk, but does not require root.
    """
    load, spool = Load(sqlite_url, pause=0.02), tmp_path / "spool"
    unlimited = resource.RLIM_INFINITY
    with (
        Command(tmp_path).serving("--database-url", sqlite_url, "--spool", spool) as serving,
        load.interrupted(serving.port, spool),
    ):
        resource.prlimit(serving.pid, resource.RLIMIT_FSIZE, (1024 * 1024, unlimited))
        load.wait_for(200, 503)
        resource.prlimit(serving.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
    assert load.statuses()[503] >= 200


@pytest.mark.parametrize("has_spool", [False, True])
def test_readiness_on_a_full_disk(sqlite_url: str, tmp_path: Path, *, has_spool: bool) -> None:
    """A write that is rehearsed after a 503 shows the fault, until a notification is recorded.

    Both /readyz and `hookrow check URL`, whose own requests write nothing, report it.
    """
    world.fill(sqlite_url)
    spool = ["--spool", tmp_path / "spool"] if has_spool else []
    unlimited, command = resource.RLIM_INFINITY, Command(tmp_path)
    with command.serving("--database-url", sqlite_url, *spool) as serving:

        def post() -> int:
            return ask(serving.port, request(DELIVERY)).status

        def readiness() -> tuple[int, str]:
            answer = get(serving.port, "/readyz")
            return answer.status, answer.body.decode().strip()

        write_ahead_log = tmp_path / "hookrow.db-wal"
        while write_ahead_log.stat().st_size < FULL:
            assert post() == 200
        resource.prlimit(serving.pid, resource.RLIMIT_FSIZE, (FULL, unlimited))
        assert [post() for _ in range(3)] == [503] * 3
        fault = "The database accepts no changes: OperationalError: disk I/O error."
        text = f"{'attention' if has_spool else 'not ready'}: {fault}"
        eventually(lambda: readiness() == (200 if has_spool else 503, text))
        url = f"http://127.0.0.1:{serving.port}{ENDPOINT}"
        checked = command.call("check", url, HOOKROW_SECRET=SECRET)
        assert f"/readyz returned: {text}" in checked.stdout
        assert checked.returncode == (0 if has_spool else 1)
        resource.prlimit(serving.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
        eventually(lambda: post() == 200)
        # The responses need attention from when they are counted, which is within half a minute.
        recovered = [(200, "ready"), (200, "ready\nattention: responses")]
        eventually(lambda: readiness() in recovered)


def test_a_read_only_file(sqlite_url: str, tmp_path: Path) -> None:
    """While the file is read-only, notifications get a 503 and are spooled."""
    load, spool, file = Load(sqlite_url, pause=0.02), tmp_path / "spool", tmp_path / "hookrow.db"
    # Root may write to a read-only file, but not without this capability.
    powerless = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
    command = Command(tmp_path, [*powerless, HOOKROW])
    arguments = ("--database-url", sqlite_url, "--spool", spool)
    with command.serving(*arguments) as serving, load.on(serving.port):
        load.wait_for(200, 200)
    file.chmod(0o400)
    with command.serving(*arguments) as serving:
        with load.on(serving.port):
            load.wait_for(200, 503)
            ready = get(serving.port, "/readyz")
            assert (ready.status, ready.body[:10]) == (200, b"attention:")
            checked = command.run("check", "--database-url", sqlite_url, HOOKROW_SECRET=SECRET)
            assert (checked.returncode, "cannot be written" in checked.stdout) == (1, True)
            for each in tmp_path.glob(
                "hookrow.db*"
            ):  # also the files that SQLite creates next to it
                each.chmod(0o600)
            load.wait_until_healthy()
        eventually(lambda: get(serving.port, "/readyz").body.startswith(b"ready\n"))
        load.check_recovery(spool)
    assert load.statuses()[503] >= 200
