"""The spool: what is put there is on the disk, once each, and nobody else may read it."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from command import run_script
from hookrow import Arrival, ConfigurationError
from hookrow.entry import fingerprint
from hookrow.notification import Delivered
from hookrow.sizes import LARGEST_GROUP
from hookrow.spool import LARGEST, LONGEST_WAIT, Spool, Spooled
from hookrow.stores.limits import limited_to

PATIENCE = 60.0
"""In seconds; how long a process may take, on a machine that is busy."""

NOON = datetime(2026, 3, 5, 12, 0, 0, tzinfo=UTC)

_SCRIPT = """
import os, sys
from datetime import UTC, datetime
from hookrow import Arrival
from hookrow.spool import Spool

spool = Spool(sys.argv[1])

def put(*bodies):
    spool.put([Arrival(None, body.encode(), datetime.now(UTC)) for body in bodies])
"""


def _arrival(name: str = "ada", *, minutes: float = 0, size: int = 0) -> Arrival:
    """Return an arrival so many minutes after noon."""
    at = NOON + timedelta(minutes=minutes)
    return Arrival(Delivered("a@b.c", name, NOON), name.encode().ljust(size), at)


def _all(spool: Spool) -> list[Spooled]:
    found: list[Spooled] = []
    while more := spool.after(found[-1].id if found else 0, limit=1_000_000):
        found += more
    return found


def _bodies(spool: Spool) -> list[str]:
    return [each.body.decode().rstrip() for each in _all(spool)]


def _empty(spool: Spool) -> None:
    """Take out what is there, as the drain does."""
    found = _all(spool)
    spool.take(found)
    spool.remove(found)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _begin(script: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Begin a process that has the spool."""
    return subprocess.Popen([sys.executable, "-c", _SCRIPT + script, *map(str, arguments)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a spool may be."""
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder" / "spool.db"


@pytest.fixture
def spool(path: Path) -> Spool:
    """Return an empty spool."""
    return Spool(path)


class TestPut:
    def test_oldest_first(self, spool: Spool) -> None:
        """What was put first comes first, in pages, with when it came to the microsecond."""
        arrivals = [_arrival(f"n{number}", minutes=-number / 7e5) for number in range(5)]
        spool.put(arrivals[:2])
        spool.put(arrivals[2:])
        first = spool.after(0, limit=3)
        rest = spool.after(first[-1].id, limit=3)
        assert [(each.body, each.received_at) for each in (*first, *rest)] == [
            (each.body, each.received_at) for each in arrivals
        ]
        assert spool.after(rest[-1].id, limit=3) == []

    def test_once_each(self, spool: Spool, path: Path) -> None:
        """What the log takes for the same adds to its attempts, and keeps its first and last."""
        spool.put([_arrival(minutes=2), _arrival("bea"), _arrival(minutes=1)])
        spool.put([_arrival(minutes=3)])
        ada, bea = spool.after(0, limit=10)
        assert (ada.body, ada.attempts, bea.attempts) == (b"ada", 3, 1)
        assert ada.received_at == NOON + timedelta(minutes=1)
        assert ada.last_received_at == NOON + timedelta(minutes=3)
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT fingerprint FROM arrivals ORDER BY id").fetchall()
        assert rows == [(fingerprint(_arrival(name)),) for name in ("ada", "bea")]

    @pytest.mark.parametrize("body", [b"", b"\xff\x00", b"x" * 1024 * 1024])
    def test_any_body(self, spool: Spool, body: bytes) -> None:
        """A body comes back as it was, whatever its bytes."""
        spool.put([Arrival(None, body, NOON)])
        assert spool.after(0, limit=1)[0].body == body

    def test_outlives_the_process(self, spool: Spool, path: Path) -> None:
        """What was put by a process that was killed is there for the next."""
        assert _begin("put('kept'); os.kill(os.getpid(), 9)", path).wait(PATIENCE) == -9
        assert _bodies(spool) == ["kept"]

    def test_several_processes(self, path: Path) -> None:
        """Processes may begin, fill and read the same spool at once; nothing is lost."""
        script = "for number in range(40): put(f'{sys.argv[2]}-{number}', 'all')"
        processes = [_begin(script, path, number) for number in range(4)]
        assert [process.wait(PATIENCE) for process in processes] == [0] * 4
        found = Spool(path).after(0, limit=1000)
        assert len(found) == 161
        assert sum(each.attempts for each in found) == 320


class TestRemove:
    def test_no_time_is_left(
        self, spool: Spool, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A response that is due does not wait for another process that holds the file."""
        with closing(sqlite3.connect(path)) as other:
            other.execute("BEGIN EXCLUSIVE")
            began = monotonic()
            with limited_to(0):
                spool.put([_arrival()])
            assert monotonic() - began < LONGEST_WAIT / 2
        assert "The spool cannot keep 1 notifications" in caplog.text

    def test_counted_then_removed(self, spool: Spool) -> None:
        """What was counted is removed, and only that: not what is not yet, or put back."""
        spool.put([_arrival(name) for name in ("ada", "ada", "bea", "carl")])
        found = spool.after(0, limit=3)
        spool.take(found[:2])
        assert [each.attempts for each in spool.after(0, limit=3)] == [0, 0, 1]
        spool.put_back(found[:1])
        spool.remove(found)
        spool.remove([])
        assert spool.after(0, limit=3) == [found[0], found[2]]

    def test_what_came_again_meanwhile(self, spool: Spool) -> None:
        """What came again since it was read stays, with the attempts that were not read."""
        spool.put([_arrival(), _arrival()])
        found = spool.after(0, limit=1)
        for minutes in (4, 5):
            spool.put([_arrival(minutes=minutes)])
            spool.take(found if minutes == 4 else ())
        spool.remove(found)
        (left,) = spool.after(0, limit=2)
        assert (left.attempts, left.last_received_at) == (2, NOON + timedelta(minutes=5))

    def test_what_came_anew(self, spool: Spool) -> None:
        """What came again after it was removed is another entry: to remove twice takes nothing."""
        spool.put([_arrival()])
        found = spool.after(0, limit=1)
        _empty(spool)
        spool.put([_arrival()])
        spool.take(found)
        spool.remove(found)
        assert [each.attempts for each in spool.after(0, limit=2)] == [1]

    def test_the_file_shrinks(self, spool: Spool, path: Path) -> None:
        """An emptied spool takes no room, also after it was full."""
        empty = path.stat().st_size
        spool.put([_arrival(f"n{number}", size=50_000) for number in range(100)])
        assert path.stat().st_size > 5_000_000
        _empty(spool)
        assert path.stat().st_size <= empty + 4096


class TestFile:
    @pytest.mark.parametrize("umask", [0o000, 0o077])
    def test_mode(self, path: Path, umask: int) -> None:
        """Only its owner may read and write it, whatever the umask, and the lock beside it."""
        before = os.umask(umask)
        try:
            spool = Spool(path)
            spool.put([_arrival()])
            with spool.drained():
                assert {_mode(file) for file in path.parent.iterdir()} == {0o600}
        finally:
            os.umask(before)

    def test_mode_of_one_that_is_there(self, path: Path) -> None:
        """A file that was readable for others is so no longer, when opened and when used."""
        path.touch(0o644)
        for use in (lambda: Spool(path), lambda: Spool(path).put([_arrival()])):
            path.chmod(0o666)
            use()
            assert _mode(path) == 0o600

    def test_a_relative_path(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The file stays where it was when it was named, wherever the process goes."""
        monkeypatch.chdir(path.parent)
        spool = Spool("spool.db")
        monkeypatch.chdir(path.parent.parent)
        spool.put([_arrival()])
        with spool.drained() as alone:
            assert alone
        assert _bodies(Spool(path)) == ["ada"]
        assert list(Path().iterdir()) == [Path("folder")]

    def test_synced(self, spool: Spool) -> None:
        """What was put is on the disk, and so is the folder's entry of the journal."""
        with spool._open() as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)

    def test_begun_by_two(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where two processes begin the spool at once, both have it."""
        others = [path]

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:  # noqa: ANN401 - passed on
                if sql == "BEGIN IMMEDIATE" and others:
                    Spool(others.pop())  # the other comes between two statements
                return super().execute(sql, *parameters)

        connect = partial(sqlite3.connect, factory=Connection)
        monkeypatch.setattr("hookrow.spool.sqlite3.connect", connect)
        Spool(path).put([_arrival()])
        assert not others
        assert _bodies(Spool(path)) == ["ada"]

    def test_another_database(self, path: Path) -> None:
        """A database that is not a spool is refused, and left as it was."""
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE arrivals (id INTEGER)")
        path.chmod(0o640)
        before = path.read_bytes()
        with pytest.raises(ConfigurationError, match="another database"):
            Spool(path)
        assert (path.read_bytes(), _mode(path)) == (before, 0o640)

    def test_version(self, path: Path) -> None:
        """A spool has version 1; one of a later version is refused, and left as it was."""
        Spool(path)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (1,)
            connection.execute("PRAGMA user_version = 2")
        before = path.read_bytes()
        with pytest.raises(ConfigurationError, match="a newer version of hookrow"):
            Spool(path)
        assert path.read_bytes() == before

    @pytest.mark.parametrize("name", [".", "no/such/spool.db", "text", "a\0b"])
    def test_no_such_file(self, tmp_path: Path, name: str) -> None:
        """Where there can be no spool it is refused at once, by name."""
        (tmp_path / "text").write_text("no database, but long enough to look like one " * 99)
        with pytest.raises(ConfigurationError, match="cannot be written") as raised:
            Spool(tmp_path / name)
        assert str(tmp_path / name) in str(raised.value)

    def test_holds_nothing_open(self, spool: Spool) -> None:
        """Between two calls there is no connection that a fork could share."""
        before = len(list(Path("/proc/self/fd").iterdir()))
        spool.put([_arrival()])
        _empty(spool)
        with spool.drained():
            pass
        assert len(list(Path("/proc/self/fd").iterdir())) == before


class TestAfter:
    def test_by_size(self, spool: Spool) -> None:
        """Entries whose text is larger than a group may be are read in several steps."""
        size = LARGEST_GROUP // 60
        spool.put([_arrival(f"n{number}", size=size) for number in range(9)])
        assert [len(spool.after(last, limit=64)) for last in (0, 4, 8)] == [4, 4, 1]
        assert len(spool.after(0, limit=3)) == 3
        bad = b"\xff" * size  # each byte becomes several characters
        spool.put([Arrival(None, bad + b"%d" % number, NOON) for number in range(3)])
        assert [len(spool.after(last, limit=64)) for last in (9, 11)] == [2, 1]


class TestLimit:
    def test_full(self, path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """Where the limit is reached what was kept stays, and what comes is reported, once."""
        spool = Spool(path, limit=200_000)
        for number in range(50):
            spool.put([_arrival(f"n{number:02}", size=10_000)])
        assert path.stat().st_size <= 200_000
        kept = _bodies(spool)
        assert 10 <= len(kept) < 20
        assert kept == [f"n{number:02}" for number in range(len(kept))]
        (message,) = caplog.messages
        assert "full" in message
        _empty(spool)
        spool.put([_arrival("again", size=10_000)])
        assert _bodies(spool) == ["again"]

    def test_one_that_does_not_fit(self, path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """A body that is too large for what is left loses none of those it came with."""
        spool = Spool(path, limit=200_000)
        names = ["ada", "bea", "huge", "ada", "carl"]
        spool.put([_arrival(name, size=300_000 if name == "huge" else 10) for name in names])
        found = spool.after(0, limit=10)
        assert [(each.body.strip(), each.attempts) for each in found] == [
            *[(b"ada", 2), (b"bea", 1), (b"carl", 1)]
        ]
        (message,) = caplog.messages
        assert "1 notifications" in message

    def test_of_one_that_is_there(self, path: Path) -> None:
        """A spool over the limit which it has now takes no more, and can still be emptied."""
        assert LARGEST == 1024 * 1024 * 1024
        Spool(path).put([_arrival(f"n{number}", size=10_000) for number in range(20)])
        spool = Spool(path, limit=50_000)
        spool.put([_arrival("more", size=10_000)])
        assert len(_bodies(spool)) == 20
        _empty(spool)
        assert _bodies(spool) == []


Fault = Callable[[Path], AbstractContextManager[None]]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def _folder_gone(path: Path) -> Iterator[None]:
    away = path.parent.rename(path.parent.parent / "elsewhere")
    yield
    away.rename(path.parent)


@contextmanager
def _read_only(path: Path) -> Iterator[None]:
    journal = path.with_name("spool.db-journal")
    journal.mkdir()  # for root no mode is too strict
    yield
    journal.rmdir()


@contextmanager
def _replaced(path: Path, statement: str | None = None) -> Iterator[None]:
    """Put another file in its place, and find that left alone."""
    away = path.rename(path.parent.parent / "spool.db")
    path.write_bytes(b"" if statement else b"nothing of the kind" * 1000)
    if statement:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)
    before = path.read_bytes()
    yield
    assert path.read_bytes() == before
    away.rename(path)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (_locked, "locked"),
        (_folder_gone, "No such file"),
        (_read_only, "disk I/O error"),
        (_replaced, "not a database"),
        (partial(_replaced, statement="CREATE TABLE people (id INTEGER)"), "another database"),
    ],
)
def test_faults(
    spool: Spool, path: Path, fault: Fault, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is the last resort: what it cannot keep it reports, once, and is well again after."""
    spool.put([_arrival()])
    with fault(path):
        for _ in range(2):
            spool.put([_arrival("bea"), _arrival("carl")])
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "2 notifications" in record.message
    assert says in record.message
    spool.put([_arrival("bea")])
    assert _bodies(spool) == ["ada", "bea"]


class TestDrained:
    def test_one_at_a_time(self, spool: Spool, path: Path) -> None:
        """One block drains the spool, in all processes; when it ends another may."""

        def elsewhere() -> int:
            return _begin("with spool.drained() as alone: sys.exit(alone)", path).wait(PATIENCE)

        with spool.drained() as alone, Spool(path).drained() as as_well:
            assert (alone, as_well, elsewhere()) == (True, False, 0)
            spool.put([_arrival()])  # putting goes on meanwhile
        with pytest.raises(ValueError, match="what"), spool.drained():
            raise ValueError("what")
        assert elsewhere() == 1

    def test_fork(self, path: Path) -> None:
        """A child that was forked meanwhile does not keep the others from draining."""
        run_script(
            f"""
            import os, sys
            from hookrow.spool import Spool

            spool = Spool({str(path)!r})
            read, write = os.pipe()
            with spool.drained() as alone:
                assert alone
                pid = os.fork()
                if pid == 0:
                    os.close(write)
                    os.read(read, 1)  # until the parent is done
                    os._exit(0)
            try:
                with spool.drained() as alone:
                    assert alone
            finally:
                os.close(write)
                os.waitpid(pid, 0)
            """
        )
