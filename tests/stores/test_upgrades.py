"""Upgrades of version 0.1.0's databases: simultaneous, beside writers, in partitions."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest
from homes import OURS, database_user

from hookrow import SchemaMismatch, migrations
from hookrow.migrations import TABLE, current, needed, upgrade
from hookrow.stores import watchdog
from postgres import Databases
from wire import eventually

FOLDER = Path(__file__).parents[1] / "fixtures" / "first_edition"
REVISIONS = ["0003", "0004", "0005", "0006", "0007"]

INDEXES = """
    SELECT indexrelid::regclass::text, indisvalid FROM pg_index
    WHERE pg_get_indexdef(indexrelid) LIKE '%%SubscriptionChange%%' ORDER BY 1
"""


@pytest.fixture
def former_postgres(postgres: Databases, empty_postgres_url: str) -> str:
    """Return the URL of a PostgreSQL database of version 0.1.0."""
    postgres.execute((FOLDER / "postgres.sql").read_text(), url=empty_postgres_url)
    return empty_postgres_url


@pytest.fixture(params=["sqlite", "postgres"])
def former(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database of version 0.1.0."""
    if request.param == "sqlite":
        return f"sqlite:///{shutil.copy(FOLDER / 'hookrow.db', tmp_path)}"
    return str(request.getfixturevalue("former_postgres"))


def test_simultaneous_upgrades(former: str) -> None:
    """Each revision is added once, and all upgrades end when all revisions are added."""
    with ThreadPoolExecutor(4) as threads:
        added = [threads.submit(upgrade, former, OURS) for _ in range(4)]
        assert sorted(each for one in added for each in one.result()) == REVISIONS
    assert current(former) == needed(OURS)


def test_waiting_for_another_upgrade(
    former_postgres: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names the reason for the wait."""
    monkeypatch.setattr(migrations, "LOCK_WAIT", 0.0)
    with ThreadPoolExecutor(1) as thread:
        with psycopg.connect(former_postgres) as other:
            other.execute(f"SELECT pg_advisory_xact_lock({migrations.LOCK})")
            added = thread.submit(upgrade, former_postgres, OURS)
            eventually(lambda: "Waiting for another upgrade of this database" in caplog.text)
            assert not added.done()
        assert added.result() == REVISIONS


def test_writers_are_not_blocked(
    postgres: Databases, former_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While an index waits for a writer, others write, and no time limit applies to the index."""
    monkeypatch.setattr(watchdog, "TRANSACTION_TIMEOUT", 0.05)

    def run(sql: str) -> list[Any]:
        return postgres.execute(sql, url=former_postgres)

    upgrade(former_postgres, OURS)
    run("DROP INDEX hookrow_notifications_changes")
    run(f"DELETE FROM {TABLE} WHERE revision = '0006'")
    with ThreadPoolExecutor(1) as thread:
        with psycopg.connect(former_postgres) as writer:
            writer.execute("UPDATE hookrow_notifications SET attempts = 2 WHERE id = 1")
            added = thread.submit(upgrade, former_postgres, OURS)
            eventually(lambda: run("SELECT pid FROM pg_stat_progress_create_index") != [])
            begun = monotonic()
            run(
                "SET lock_timeout = '1s'; UPDATE hookrow_notifications SET attempts = 3"
                " WHERE id = 2"
            )
            eventually(
                lambda: monotonic() > begun + watchdog.TRANSACTION_TIMEOUT + 2 * watchdog.GRACE
            )
            assert not added.done()
        assert added.result() == ["0006"]
    assert run(INDEXES) == [("hookrow_notifications_changes", True)]


def test_invalid_index(postgres: Databases, former_postgres: str) -> None:
    """An index that an interruption left invalid is rebuilt, because PostgreSQL never uses it."""
    upgrade(former_postgres, OURS)
    invalidate = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = {}::regclass"
    postgres.execute(invalidate.format("'hookrow_notifications_changes'"), url=former_postgres)
    postgres.execute(f"DELETE FROM {TABLE} WHERE revision = '0006'", url=former_postgres)
    assert upgrade(former_postgres, OURS) == ["0006"]
    assert postgres.execute(INDEXES, url=former_postgres) == [
        ("hookrow_notifications_changes", True)
    ]


def test_tables_of_another_user(postgres: Databases, former_postgres: str) -> None:
    """The error names the owner and the GRANT that is missing; nothing is changed before."""
    grants = ("GRANT CREATE ON SCHEMA public TO {}", "GRANT SELECT ON hookrow_version TO {}")
    refusal = "belongs to postgres, and only its owner"
    with database_user(former_postgres, *grants) as url:
        with pytest.raises(SchemaMismatch, match=refusal) as refused:
            upgrade(url, OURS)
        assert current(url) == ["0001", "0002"]
        postgres.execute(str(refused.value).partition(", or ")[2], url=former_postgres)
        assert upgrade(url, OURS) == REVISIONS


def test_partitioned_log(postgres: Databases, empty_postgres_url: str) -> None:
    """Each partition gets the index, also a partition that is created later."""
    url = empty_postgres_url
    postgres.execute((FOLDER / "postgres_partitioned.sql").read_text(), url=url)
    assert upgrade(url, OURS) == REVISIONS
    postgres.execute("SELECT hookrow_partition('2040-01-01')", url=url)
    count_partitions = "SELECT count(*) FROM pg_partition_tree('hookrow_notifications')"
    ((partitions,),) = postgres.execute(count_partitions, url=url)
    found = postgres.execute(INDEXES, url=url)
    assert len(found) == partitions > 3
    assert all(valid for _, valid in found)
