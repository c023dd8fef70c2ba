"""The file of the spool is damaged, removed or replaced: the spool works on with the rest."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
from receiving import NOON

from hookrow import Arrival, ConfigurationError
from hookrow._core.notification import Delivered
from hookrow._receiver.spool import Spool, SpoolEntry
from hookrow._receiver.spool_file import APPLICATION
from hookrow.stores._timeouts import limited_to

PAGE = 4096

NUMBER = 200
"""How many entries the spool has before it is damaged, about 6 on a page of the file."""

Damage = Callable[[Path], object]


def _arrival(name: str) -> Arrival:
    return Arrival((Delivered("a@b.c", name, NOON),), name.encode().ljust(500), NOON)


def _everything(spool: Spool) -> list[SpoolEntry]:
    found: list[SpoolEntry] = []
    while more := spool.after(found[-1].id if found else 0, limit=1_000_000):
        found += more
    return found


def _names(spool: Spool) -> list[str]:
    return [each.body.decode().rstrip() for each in _everything(spool)]


def _overwrite(*pages: int) -> Damage:
    def damage(path: Path) -> None:
        with path.open("r+b") as file:
            for page in pages:
                file.seek((page - 1) * PAGE)
                file.write(b"x" * PAGE)

    return damage


def _execute(statement: str) -> Damage:
    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)

    return damage


def _write_text(path: Path) -> None:
    path.write_text("text " * 9999)


def _truncate(path: Path) -> None:
    os.truncate(path, 3 * PAGE)


def _damaged(path: Path) -> list[Path]:
    return [each for each in path.parent.glob("*.damaged-*") if not each.match("*-journal")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool.db"


@pytest.fixture
def spool(path: Path) -> Spool:
    """Return a spool with entries."""
    spool = Spool(path)
    spool.put([_arrival(f"n{number:03}") for number in range(NUMBER)])
    return spool


DAMAGES = [
    pytest.param(_overwrite(1), 0, id="the header"),
    pytest.param(_write_text, 0, id="another file"),
    pytest.param(_truncate, 0, id="the end"),
    pytest.param(_execute("DROP TABLE arrivals"), 0, id="the table"),
    pytest.param(_overwrite(10), NUMBER - 10, id="one page"),
    pytest.param(_overwrite(10, 11, 20, 30), NUMBER - 40, id="several pages"),
]


@pytest.mark.parametrize("restarted", [True, False], ids=["restarted", "running"])
@pytest.mark.parametrize(("damage", "kept"), DAMAGES)
def test_a_damaged_file_is_replaced(
    spool: Spool,
    path: Path,
    damage: Damage,
    kept: int,
    caplog: pytest.LogCaptureFixture,
    *,
    restarted: bool,
) -> None:
    """The new one has the readable entries, with their ids; one error names the damaged one."""
    everything = _everything(spool)
    damage(path)
    before = path.read_bytes()
    spool = Spool(path) if restarted else spool
    found = _everything(spool)
    assert kept <= len(found) < NUMBER
    assert [each for each in everything if each in found] == found
    spool.put([_arrival("new")])
    assert _names(Spool(path))[-1] == "new"
    [damaged] = _damaged(path)
    assert damaged.read_bytes() == before
    assert damaged.stat().st_mode & 0o777 == path.stat().st_mode & 0o777 == 0o600
    [message] = caplog.messages
    assert message.startswith(f"The spool {path} was damaged. It is now {damaged}, and")
    assert f" could be read: {len(found)}. " in message
    lock = Path(f"{path}.lock")
    assert sorted(path.parent.iterdir()) == sorted([path, lock, damaged])


USES: dict[str, Callable[[Spool, Sequence[SpoolEntry]], object]] = {
    "put": lambda spool, _: spool.put([_arrival("new")]),
    "count": lambda spool, _: spool.count(),
    "others": lambda spool, _: spool.others(),
    "has_entries": lambda spool, _: spool.has_entries(besides=()),
    "after": lambda spool, _: spool.after(0, limit=9),
    "take": lambda spool, entries: spool.take(entries),
    "put_back": lambda spool, entries: spool.put_back(entries),
    "remove": lambda spool, entries: spool.remove(entries),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_any_use_of_a_damaged_file_replaces_it(
    spool: Spool, path: Path, use: Callable[[Spool, Sequence[SpoolEntry]], object]
) -> None:
    """So does a drain, which has locked the spool already."""
    taken = spool.take(spool.after(0, limit=9))
    _overwrite(1)(path)
    use(spool, taken)
    assert len(_damaged(path)) == 1
    with spool.drained() as alone:
        assert alone
        _overwrite(1)(path)
        use(spool, taken)
    assert len(_damaged(path)) == 2


def test_a_change_of_an_entry_does_not_affect_another_one_with_its_id(
    spool: Spool, path: Path
) -> None:
    """A new file may use the ids of a damaged one again."""
    taken = spool.take(spool.after(0, limit=1))
    _overwrite(1)(path)
    spool.put([_arrival("new")])
    [new] = _everything(spool)
    assert new.id == taken[0].id
    spool.take(taken)
    spool.put_back(taken)
    spool.remove(taken)
    assert _everything(spool) == [new]


def test_a_damaged_file_waits_for_a_drain(spool: Spool, path: Path) -> None:
    """A drain in another process replaces it itself; until then, nothing is written."""
    other = Spool(path)
    _overwrite(1)(path)
    with spool.drained(), limited_to(0):
        other.put([_arrival("lost")])
        assert not _damaged(path)
    thread = Thread(target=other.put, args=[[_arrival("new")]])
    with spool.drained():
        thread.start()
        spool.count()
    thread.join()
    assert _names(spool) == ["new"]
    assert len(_damaged(path)) == 1


def test_a_file_without_a_lock_is_recognized_by_its_header(spool: Spool, path: Path) -> None:
    """An administrator may have deleted the file of the lock."""
    Path(f"{path}.lock").unlink()
    _truncate(path)
    spool = Spool(path)
    spool.put([_arrival("new")])
    assert _names(spool) == ["new"]


@pytest.mark.parametrize("has_lock", [True, False])
@pytest.mark.parametrize("damage", [_write_text, _execute("CREATE TABLE theirs (id INTEGER)")])
def test_a_file_of_another_program_is_never_renamed(
    path: Path, damage: Damage, *, has_lock: bool
) -> None:
    """With the lock's file of a spool beside it, a database is another program's all the same."""
    damage(path)
    if has_lock and damage is not _write_text:
        Path(f"{path}.lock").touch()
    before = path.read_bytes()
    with pytest.raises(ConfigurationError):
        Spool(path)
    assert path.read_bytes() == before
    assert not _damaged(path)


def test_the_journal_of_a_damaged_file_is_renamed_too(spool: Spool, path: Path) -> None:
    """SQLite would apply it to the new file."""
    journal = Path(f"{path}-journal")
    with closing(sqlite3.connect(path)) as interrupted:
        interrupted.execute("DELETE FROM arrivals WHERE id < 9")
        assert journal.exists()
        _overwrite(1)(path)
        spool.put([_arrival("new")])
        [damaged] = _damaged(path)
        assert Path(f"{damaged}-journal").exists()
        assert not journal.exists()
    assert _names(Spool(path)) == ["new"]


def test_a_link_to_the_file_stays(spool: Spool, path: Path, tmp_path: Path) -> None:
    """The new file is where the damaged one was."""
    link = tmp_path / "link.db"
    link.symlink_to(path)
    _overwrite(1)(path)
    Spool(link).put([_arrival("new")])
    assert link.is_symlink()
    assert _names(spool) == ["new"]


def test_a_file_is_replaced_where_no_file_can_have_two_names(
    spool: Spool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not every file system has hard links."""

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    _overwrite(10)(path)
    assert len(_names(spool)) >= NUMBER - 10
    assert len(_damaged(path)) == 1


class _Arrivals(list[Arrival]):
    """Calls a function before or after a spool has written these."""

    def __init__(self, function: Callable[[], object], *, before: bool) -> None:
        super().__init__([_arrival("new")])
        self._calls = [function]
        self._before = before

    def __iter__(self) -> Iterator[Arrival]:
        if self._before and self._calls:
            self._calls.pop()()
        yield from super().__iter__()
        if self._calls:
            self._calls.pop()()


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("is_replaced", [True, False], ids=["replaced", "removed"])
def test_what_is_put_into_a_file_that_is_moved_meanwhile_is_put_again(
    spool: Spool, path: Path, *, is_replaced: bool, before: bool
) -> None:
    """It is in the file that is at the path when it returns, once."""

    def move() -> None:
        path.rename(path.with_name("moved"))
        if is_replaced:
            Spool(path).put([_arrival("other")])

    spool.put(_Arrivals(move, before=before))
    found = _everything(Spool(path))
    assert [each.body.rstrip() for each in found] == [b"other"] * is_replaced + [b"new"]
    assert {each.attempts for each in found} == {1}


def test_a_file_that_is_removed_is_created_again(spool: Spool, path: Path) -> None:
    path.unlink()
    assert spool.count() == 0
    path.unlink()
    spool.put([_arrival("new")])
    assert _names(spool) == ["new"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
