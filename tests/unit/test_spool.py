"""The spool: each notification once, on the disk, readable only by its owner."""

import logging
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from receiving import NOON, without_journal

from copying import replace
from hookrow import Arrival, ConfigurationError
from hookrow._core.notification import Delivered
from hookrow._receiver.spool import Spool, SpoolEntry
from hookrow.stores._timeouts import limited_to


def _arrival(name: str = "ada", *, minutes: float = 0, size: int = 0) -> Arrival:
    at = NOON + timedelta(minutes=minutes)
    return Arrival((Delivered("a@b.c", name, NOON),), name.encode().ljust(size), at)


def _everything(spool: Spool) -> list[SpoolEntry]:
    found: list[SpoolEntry] = []
    while more := spool.after(found[-1].id if found else 0, limit=1_000_000):
        found += more
    return found


def _bodies(spool: Spool) -> list[str]:
    return [each.body.decode().rstrip() for each in _everything(spool)]


def _empty(spool: Spool) -> None:
    spool.remove(spool.take(_everything(spool)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder" / "spool.db"


@pytest.fixture
def spool(path: Path) -> Spool:
    return Spool(path)


def test_entries_are_read_unchanged_and_in_order(spool: Spool, path: Path) -> None:
    bodies = [b"", b"\xff\x00", b"x" * 1024, b"one", b"two"]
    arrivals = [Arrival((), body, NOON - timedelta(minutes=n)) for n, body in enumerate(bodies)]
    spool.put(arrivals[:2])
    spool.put(arrivals[2:])
    first = Spool(path).after(0, limit=3)
    rest = spool.after(first[-1].id, limit=3)
    kept = [(each.body, each.received_at) for each in (*first, *rest)]
    assert kept == [(each.body, each.received_at) for each in arrivals]
    assert spool.after(rest[-1].id, limit=3) == []
    assert spool.count() == 5


def test_a_repeated_notification_is_kept_once(spool: Spool) -> None:
    spool.put([_arrival(minutes=2), _arrival("bea"), _arrival(minutes=1)])
    spool.put([_arrival(minutes=3)])
    ada, bea = _everything(spool)
    assert (ada.body, ada.attempts, bea.attempts) == (b"ada", 3, 1)
    assert ada.received_at == NOON + timedelta(minutes=1)
    assert ada.last_received_at == NOON + timedelta(minutes=3)


def test_entries_are_removed_once_their_attempts_were_taken(spool: Spool) -> None:
    spool.put([_arrival(name) for name in ("ada", "ada", "bea", "carl")])
    found = _everything(spool)
    taken = spool.take(found)
    assert [each.attempts for each in _everything(spool)] == [0, 0, 0]
    spool.put_back(taken[:1])
    spool.remove(taken)
    assert _everything(spool) == [found[0]]


def test_an_entry_that_arrived_again_after_it_was_read_stays(spool: Spool) -> None:
    spool.put([_arrival(), _arrival()])
    found = _everything(spool)
    spool.put([_arrival(minutes=4)])
    taken = spool.take(found)
    spool.put([_arrival(minutes=5)])
    spool.remove(taken)
    [kept] = _everything(spool)
    assert (kept.attempts, kept.last_received_at) == (2, NOON + timedelta(minutes=5))
    _empty(spool)
    spool.put([_arrival()])
    spool.remove(spool.take(found))  # the body has a new entry now
    assert [each.attempts for each in _everything(spool)] == [1]


def test_a_trace_id_that_no_file_can_contain_is_escaped(spool: Spool) -> None:
    """A provider may read it from the body. The log would escape it in the same way."""
    spool.put([replace(_arrival(), trace_id="a\0\ud83dé" + "x" * 999)])
    [kept] = _everything(spool)
    assert kept.trace_id == "a\\x00\\ud83dé".ljust(255, "x")


def _modes(path: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}


def _modes_while_writing(path: Path) -> Callable[[sqlite3.Connection], dict[str, int]]:
    def work(connection: sqlite3.Connection) -> dict[str, int]:
        connection.execute("DELETE FROM arrivals")
        return _modes(path)

    return work


def test_files_are_created_for_the_owner_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "chmod", lambda *_: None)  # it would be too late
    before = os.umask(0)
    try:
        spool = Spool(path)
        names = ("spool.db", "spool.db-journal", "spool.db.lock")
        assert spool._file.transact(_modes_while_writing(path)) == dict.fromkeys(names, 0o600)
    finally:
        os.umask(before)


def test_a_spool_that_others_can_read_becomes_private(spool: Spool, path: Path) -> None:
    path.chmod(0o666)
    spool.put([_arrival()])
    assert _modes(path)["spool.db"] == 0o600


def test_a_relative_path_survives_a_change_of_directory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    spool = Spool("spool.db")
    monkeypatch.chdir(path.parent.parent)
    spool.put([_arrival()])
    assert _bodies(Spool(path)) == ["ada"]


def test_a_put_is_on_the_disk_when_it_returns(spool: Spool) -> None:
    def settings(connection: sqlite3.Connection) -> list[object]:
        names = ("synchronous", "journal_mode")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert spool._file.transact(settings, grows=True) == [3, "delete"]  # 3 is EXTRA


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE arrivals (id INTEGER)", "another database"),
        ("PRAGMA user_version = 2", "another version of hookrow"),
    ],
)
def test_an_unsuitable_database_is_not_changed(path: Path, statement: str, message: str) -> None:
    if "version" in message:
        Spool(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match=message):
        Spool(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["no/such/spool.db", "text", "a\0b"])
def test_an_impossible_file_is_rejected_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "text").write_text("no database, but long enough to look like one " * 99)
    with pytest.raises(ConfigurationError, match="cannot be written") as raised:
        Spool(tmp_path / name)
    assert str(tmp_path / name) in str(raised.value)


def test_a_full_spool_keeps_its_entries(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spool = Spool(path, limit=200_000)
    for number in range(30):
        spool.put([_arrival(f"n{number:02}", size=10_000)])
    assert path.stat().st_size <= 200_000
    kept = _bodies(spool)
    assert 10 <= len(kept) < 20
    assert kept == [f"n{number:02}" for number in range(len(kept))]
    [message] = caplog.messages
    assert "full" in message
    _empty(spool)
    assert path.stat().st_size < 40_000
    spool.put([_arrival("again", size=10_000)])
    assert _bodies(spool) == ["again"]


def test_only_a_put_needs_a_journal_on_the_disk(
    spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    """Without one, entries are taken, put back and removed, even if they get longer meanwhile."""
    spool.put([_arrival(f"n{number % 7}", size=10_000) for number in range(20)])
    found = _everything(spool)
    with without_journal():
        spool.put([_arrival("lost"), _arrival("as well")])
        assert _everything(spool) == found
        taken = spool.take(found)
        assert [each.attempts for each in _everything(spool)] == [0] * 7
        spool.put_back(taken[:2])
        spool.remove(taken)
        assert _everything(spool) == found[:2]
    [message] = caplog.messages
    assert message.startswith("Not spooled, so only the provider can send them again: 2.")


def test_a_file_at_its_limit_is_emptied(path: Path) -> None:
    """The numbers of attempts get shorter, for which SQLite moves the entries within the file."""
    spool = Spool(path)
    spool.put([_arrival(f"n{number % 10}", size=10_000) for number in range(20)])
    full = Spool(path, limit=path.stat().st_size)
    found = _everything(full)
    assert {each.attempts for each in found} == {2}
    full.remove(full.take(found))
    assert full.count() == 0


def test_an_entry_that_does_not_fit_does_not_affect_the_others(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(path, limit=200_000)
    names = ["ada", "bea", "huge", "ada", "carl"]
    spool.put([_arrival(name, size=300_000 if name == "huge" else 10) for name in names])
    assert _bodies(spool) == ["ada", "bea", "carl"]
    [message] = caplog.messages
    assert message.startswith("Not spooled, so only the provider can send them again: 1.")


def test_the_spool_works_after_a_fault(
    spool: Spool, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect(path)) as other, limited_to(0):  # waits no longer than necessary
        other.execute("BEGIN EXCLUSIVE")
        spool.put([_arrival("bea"), _arrival("carl")])
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "can send them again: 2. database is locked" in record.message
    spool.put([_arrival("bea")])
    assert _bodies(spool) == ["bea"]


def test_each_mapping_has_its_own_entries(path: Path) -> None:
    """Equal bodies are separate entries, because they may concern different rows."""
    one, two = Spool(path, "one"), Spool(path, "two")
    one.put([_arrival(), _arrival("bea")])
    two.put([_arrival()])
    assert (_bodies(one), _bodies(two)) == (["ada", "bea"], ["ada"])
    assert (one.others(), two.others()) == ((1, "two"), (2, "one"))
    assert one.count() == two.count() == 3
    two.remove(two.take(two.after(0, limit=9)))
    assert (_bodies(one), _bodies(two)) == (["ada", "bea"], [])
    assert one.others() == (0, "")


def test_a_damaged_mapping_belongs_to_no_store(spool: Spool, path: Path) -> None:
    """Any other store might find other rows with it; the count of such entries reports it."""
    spool.put([_arrival(), _arrival("bea")])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE arrivals SET mapping = CAST(x'fe' AS TEXT) WHERE id = 1")
    assert _bodies(spool) == ["bea"]
    assert spool.others() == (1, "\ufffd")


def test_one_drain_at_a_time(spool: Spool, path: Path) -> None:
    with suppress(ValueError), spool.drained() as alone, Spool(path).drained() as as_well:
        assert (alone, as_well) == (True, False)
        spool.put([_arrival()])  # the spool can be filled in the meantime
        raise ValueError
    with Spool(path).drained() as alone:
        assert alone
