"""Databases and spools of version 0.1.0: upgrading them, beside writers, and serving them."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from time import monotonic
from unittest.mock import Mock

import psycopg
import pytest
from django.core.management import call_command
from homes import OURS
from locations import FIRST_EDITION, first_edition

import django_host
import own_tables
import world
from command import Command
from engines import database_user, opened, run
from hookrow import Postmark, Receiver, Schema, migrations, testing
from hookrow.core.result import Result
from hookrow.diagnostics import Level
from hookrow.diagnostics.check import check_database
from hookrow.migrations import TABLE, current, needed, upgrade
from hookrow.receiver.spool import Spool
from hookrow.stores import Unavailable, watchdog
from hookrow.stores.log import Query
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql.urls import backend
from structure import structure, without_names
from visitor import Visitor
from wire import ADA, ADAS, PATIENCE, SECRET, eventually

LATER = datetime(2026, 3, 6, 12, 0, 0, tzinfo=UTC)

MADE = datetime(2026, 11, 22, 11, 0, 0, tzinfo=UTC)
"""The databases were made less than an hour before."""

REVISIONS = ["0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011"]

DATABASES = sorted(path.name for path in FIRST_EDITION.glob("[!s]*.[ds]*"))

INDEXES = """
    SELECT indexrelid::regclass::text, indisvalid FROM pg_index
    WHERE pg_get_indexdef(indexrelid) LIKE '%SubscriptionChange%' ORDER BY 1
"""


old = pytest.fixture(first_edition, params=DATABASES)

ON_POSTGRES = pytest.mark.parametrize("old", ["postgres.sql"], indirect=True)


@pytest.fixture
def url(old: str, request: pytest.FixtureRequest) -> str:
    """Upgrade the database, with Django's migrations if these made it."""
    if "django" in request.node.callspec.params["old"]:
        with django_host.default(old):
            call_command("migrate", verbosity=0)
    else:
        assert upgrade(old, Schema()) == REVISIONS
    return old


def _outcomes(store: SQLStore) -> dict[Result, int]:
    """Count the entries of the log by outcome."""
    assert store.log is not None
    return dict(Counter(each.outcome for each in store.log.newest(Query(), limit=100)))


def test_serving(url: str, tmp_path: Path) -> None:
    """The check finds no error, a notification is recorded, and the spool is emptied."""
    path = shutil.copy(FIRST_EDITION / "spool.db", tmp_path)
    with closing(SQLStore(url)) as store:
        findings = check_database(store.database, Schema())
        assert [each.text for each in findings if each.level is Level.ERROR] == []
        before = _outcomes(store)
        assert before == {
            Result.RECORDED: 12,
            Result.UNSUPPORTED: 16,
            Result.SUBSCRIBER_NOT_FOUND: 4,
            Result.DISPATCH_NOT_FOUND: 2,
            Result.FAILED: 1,
        }
        receiver = Receiver(Postmark(SECRET), store, spool=path)
        payload = testing.delivery(ADA, ADAS, at=LATER)
        assert testing.post(receiver, payload, secret=SECRET) == (200, "")
        rows = world.rows(url)["dispatches"]
        assert LATER in [row["delivered_at"] for row in rows if row["provider_message_id"] == ADAS]
        receiver.start()
        eventually(lambda: Spool(path).count() == 0)
        receiver.close()
        after = _outcomes(store)
        assert after == before | {Result.RECORDED: 15, Result.UNSUPPORTED: 17}


def test_commands_and_dashboard(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands and dashboard read the entries of version 0.1.0, replay them, and delete them."""
    command, database = Command(tmp_path), ("--database-url", url)
    for module in ("hookrow.cli.stats", "hookrow.stores.log_operations"):
        # The results depend on the age of the entries.
        monkeypatch.setattr(
            import_module(module), "datetime", Mock(wraps=datetime, now=lambda _: MADE)
        )

    def call(*arguments: object) -> str:
        done = command.call(*arguments, *database)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "35  2026-11-22 10:31:" in call("log")
    failed = json.loads(call("log", "--outcome", "failed", "--json"))
    assert "failed, 503" in call("log", "show", failed["id"])
    assert "35 notifications from" in call("stats", "--period", "month")
    assert call("replay", "--outcome", "failed") == "1 notification replayed: 1 recorded.\n"
    assert ", from the log\n" in call("log", "show", failed["id"])
    replayed = json.loads(call("log", "show", failed["id"], "--json"))
    assert (replayed["outcome"], replayed["first_outcome"]) == ("recorded", "failed")
    assert (replayed["source"], replayed["provider"]) == ("replay", None)
    with closing(SQLStore(url)) as store:
        visitor = Visitor(store)
        assert "2026-11-22 10:31:" in visitor.shows("/notifications")
        eventually(lambda: "are being counted" not in visitor.shows("/lists"))
        assert "Overview" in visitor.shows("/")
        visitor.dashboard.close(PATIENCE)
    pruned = int(call("prune", "--keep", "1m", "--yes").split()[1])
    parked = [json.loads(line) for line in call("log", "--json").splitlines()]
    _, *others = parked  # the newest entry is never pruned
    assert len(others) == 3
    assert all(entry["retry_at"] for entry in others)
    assert pruned + len(parked) == 35


@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
def test_same_tables_as_a_new_database(
    url: str, request: pytest.FixtureRequest, new_database: Callable[[str], str]
) -> None:
    """Columns, keys and indexes are equal, except for those of a partitioned log."""
    database = new_database(backend(url).removesuffix("ql"))
    upgrade(database, Schema())
    names = set(own_tables.metadata.tables)
    if "partitioned" in request.node.callspec.params["old"]:
        names.remove("hookrow_notifications")
    found = []
    for each in (url, database):
        with opened(each) as engine:
            found.append({name: structure(engine)[name] for name in names})
    upgraded, new = map(without_names, found)
    assert upgraded == new


def test_not_upgraded(old: str) -> None:
    """Before the upgrade, the store is unavailable, and the error names the command."""
    with (
        closing(SQLStore(old)) as store,
        pytest.raises(Unavailable, match=r"lacks reason, .* Run `hookrow db upgrade"),
        store.transaction(),
    ):
        pass


@pytest.mark.parametrize("old", ["hookrow.db", "postgres.sql"], indirect=True)
def test_simultaneous_upgrades(old: str) -> None:
    """Each revision is added once, and all upgrades end when all revisions are added."""
    with ThreadPoolExecutor(4) as threads:
        added = [threads.submit(upgrade, old, OURS) for _ in range(4)]
        assert sorted(each for one in added for each in one.result()) == REVISIONS
    assert current(old) == needed(OURS)


@ON_POSTGRES
def test_waiting_for_another_upgrade(
    old: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names the reason for the wait."""
    monkeypatch.setattr(migrations, "LOCK_WAIT", 0.0)
    with ThreadPoolExecutor(1) as thread:
        with psycopg.connect(old) as other:
            other.execute(f"SELECT pg_advisory_xact_lock({migrations.LOCK})")
            added = thread.submit(upgrade, old, OURS)
            eventually(lambda: "Waiting for another upgrade of this database" in caplog.text)
            assert not added.done()
        assert added.result() == REVISIONS


@ON_POSTGRES
def test_writers_are_not_blocked(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While an index waits for a writer, others write, and no time limit applies to the index."""
    upgrade(old, OURS)
    monkeypatch.setattr(watchdog, "TRANSACTION_TIMEOUT", 0.5)
    run(
        old,
        "DROP INDEX hookrow_notifications_changes",
        f"DELETE FROM {TABLE} WHERE revision = '0006'",
    )
    with ThreadPoolExecutor(1) as thread:
        with psycopg.connect(old) as writer:
            writer.execute("UPDATE hookrow_notifications SET attempts = 2 WHERE id = 1")
            added = thread.submit(upgrade, old, OURS)
            eventually(lambda: run(old, "SELECT pid FROM pg_stat_progress_create_index") != [])
            begun = monotonic()
            run(
                old,
                "SET lock_timeout = '1s'",
                "UPDATE hookrow_notifications SET attempts = 3 WHERE id = 2",
            )
            eventually(
                lambda: monotonic() > begun + watchdog.TRANSACTION_TIMEOUT + 2 * watchdog.GRACE
            )
            assert not added.done()
        assert added.result() == ["0006"]
    assert run(old, INDEXES) == [("hookrow_notifications_changes", True)]


@ON_POSTGRES
def test_invalid_index(old: str) -> None:
    """An index that an interruption left invalid is rebuilt, because PostgreSQL never uses it."""
    upgrade(old, OURS)
    index = "indexrelid = 'hookrow_notifications_changes'::regclass"
    run(
        old,
        f"UPDATE pg_index SET indisvalid = false WHERE {index}",
        f"DELETE FROM {TABLE} WHERE revision = '0006'",
    )
    assert upgrade(old, OURS) == ["0006"]
    assert run(old, INDEXES) == [("hookrow_notifications_changes", True)]


@ON_POSTGRES
def test_tables_of_another_user(old: str) -> None:
    """The error names the table that only its owner can change, and nothing is changed."""
    grants = ("GRANT CREATE ON SCHEMA public TO {}", "GRANT SELECT ON hookrow_version TO {}")
    error = "must be owner of table hookrow_dispatches"
    with database_user(old, *grants) as url, pytest.raises(Unavailable, match=error):
        upgrade(url, OURS)
    assert upgrade(old, OURS) == REVISIONS


@pytest.mark.parametrize("old", ["postgres_partitioned.sql"], indirect=True)
def test_partitioned_log(url: str) -> None:
    """Each partition gets the index, also a partition that is created later."""
    run(url, "SELECT hookrow_partition('2040-01-01')")
    count_partitions = "SELECT count(*) FROM pg_partition_tree('hookrow_notifications')"
    [(partitions,)] = run(url, count_partitions)
    found = run(url, INDEXES)
    assert len(found) == partitions > 3
    assert all(valid for _, valid in found)
