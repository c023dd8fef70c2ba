"""Upgrades of existing tables by later scripts: simultaneous ones, beside writers, resumed ones."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from time import monotonic

import psycopg
import pytest
from homes import OURS, Home
from later_scripts import INDEX, LATER, add_later_scripts
from log_contract import entry, keep
from test_partitions import partition

from databases import ALL
from engines import database_user, run
from hookrow import _migrations
from hookrow._migrations import MIGRATIONS_TABLE, current, needed, upgrade
from hookrow.stores import _watchdog
from hookrow.stores._errors import Unavailable
from hookrow.stores.sql._catalogues.base import Lock
from wire import eventually

INDEXES = """
    SELECT indexrelid::regclass::text, indisvalid FROM pg_index
    WHERE pg_get_indexdef(indexrelid) LIKE '%''Open''%' ORDER BY 1
"""
"""The indexes of revision 9002: one, or one for each partition and the table's own."""


@pytest.fixture
def old(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a database with two log entries, and without the later scripts."""
    with closing(Home(database_url, OURS)) as home:
        keep(home, entry(1), entry(2))
    add_later_scripts(monkeypatch)
    return database_url


ON_POSTGRES = pytest.mark.parametrize("database_url", ["postgres"], indirect=True)


def test_later_scripts(old: str) -> None:
    """An upgrade runs only the missing scripts, and keeps the rows."""
    assert current(old) == needed(OURS)[: -len(LATER)]
    assert upgrade(old, OURS) == LATER
    assert upgrade(old, OURS) == []
    assert current(old) == needed(OURS)
    kept = "SELECT attempts, later FROM hookrow_notifications"
    assert run(old, kept) == [(1, 0), (1, 0)]


@pytest.mark.parametrize("empty_database_url", [each.name for each in ALL], indirect=True)
def test_simultaneous_upgrades(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each revision is added once, and all upgrades end when all revisions are added."""
    add_later_scripts(monkeypatch)
    with ThreadPoolExecutor(4) as threads:
        added = [threads.submit(upgrade, empty_database_url, OURS) for _ in range(4)]
        assert sorted(each for one in added for each in one.result()) == needed(OURS)
    assert current(empty_database_url) == needed(OURS)


@ON_POSTGRES
def test_waiting_for_another_upgrade(
    old: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names the reason for the wait."""
    monkeypatch.setattr(_migrations, "LOCK_WAIT", 0.0)
    with ThreadPoolExecutor(1) as thread:
        with psycopg.connect(old) as other:
            other.execute(f"SELECT pg_advisory_xact_lock({Lock.UPGRADING.value})")
            added = thread.submit(upgrade, old, OURS)
            eventually(lambda: "Waiting for another upgrade of this database" in caplog.text)
            assert not added.done()
        assert added.result() == LATER


@ON_POSTGRES
def test_writers_are_not_blocked(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While an index waits for a writer, others write, and no time limit applies to the index."""
    monkeypatch.setattr(_watchdog, "TRANSACTION_TIMEOUT", 0.5)
    with ThreadPoolExecutor(1) as thread:
        with psycopg.connect(old) as writer:
            writer.execute("UPDATE hookrow_notifications SET attempts = 2 WHERE id = 1")
            added = thread.submit(upgrade, old, OURS)
            progress = "SELECT pid FROM pg_stat_progress_create_index"
            eventually(lambda: run(old, progress) != [])
            begun = monotonic()
            run(
                old,
                "SET lock_timeout = '1s'",
                "UPDATE hookrow_notifications SET attempts = 3 WHERE id = 2",
            )
            eventually(
                lambda: monotonic() > begun + _watchdog.TRANSACTION_TIMEOUT + 2 * _watchdog.GRACE
            )
            assert not added.done()
        assert added.result() == LATER
    assert run(old, INDEXES) == [(INDEX, True)]


@ON_POSTGRES
def test_invalid_index(old: str) -> None:
    """An index that an interruption left invalid is rebuilt, because PostgreSQL never uses it."""
    upgrade(old, OURS)
    run(
        old,
        f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{INDEX}'::regclass",
        f"DELETE FROM {MIGRATIONS_TABLE} WHERE revision = '9002'",
    )
    assert upgrade(old, OURS) == ["9002"]
    assert run(old, INDEXES) == [(INDEX, True)]


@ON_POSTGRES
def test_tables_of_another_user(old: str) -> None:
    """The error names the table that only its owner can change, and nothing is changed."""
    grants = ("GRANT CREATE ON SCHEMA public TO {}", f"GRANT SELECT ON {MIGRATIONS_TABLE} TO {{}}")
    error = "must be owner of table hookrow_dispatches"
    with database_user(old, *grants) as url, pytest.raises(Unavailable, match=error):
        upgrade(url, OURS)
    assert upgrade(old, OURS) == LATER


@ON_POSTGRES
def test_partitioned_log(old: str) -> None:
    """Each partition gets the index, also a partition that is created later."""
    assert partition(old) == ""
    assert upgrade(old, OURS) == LATER
    run(old, "SELECT hookrow_partition('2040-01-01')")
    count_partitions = "SELECT count(*) FROM pg_partition_tree('hookrow_notifications')"
    [(partitions,)] = run(old, count_partitions)
    found = run(old, INDEXES)
    assert len(found) == partitions > 3
    assert all(valid for _, valid in found)
