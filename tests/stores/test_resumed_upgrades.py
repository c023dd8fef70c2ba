"""Upgrades of a database that commits each statement which changes tables.

`acceptance/test_interrupted_upgrade.py` interrupts them after any statement.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest
from homes import OURS
from later_scripts import add_later_scripts

import mariadb
from databases import MARIADB
from engines import run
from hookrow import ConfigurationError, Schema
from hookrow._migrations import current, needed, sql, upgrade
from hookrow.stores._errors import Unavailable
from hookrow.stores.sql import _scripts
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._catalogues.base import Lock
from hookrow.stores.sql._catalogues.mariadb import MariaDBCatalogue
from hookrow.stores.sql._connections import Connection
from hookrow.stores.sql._scripts import Script, has_run, scripts
from hookrow.stores.sql._urls import open_database
from wire import eventually

NAMES = "SELECT table_name FROM information_schema.tables WHERE table_schema = database()"
LOCKS = "SELECT name FROM hookrow_meta ORDER BY name"
LOCK = "SELECT * FROM hookrow_upgrades WHERE name = 'lock_upgrading' FOR UPDATE"


@pytest.fixture
def url(empty_mariadb_url: str) -> str:
    """Return the URL of a database with no tables."""
    return empty_mariadb_url


def names(url: str) -> set[str]:
    return {name for (name,) in run(url, NAMES)}


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    with closing(open_database(url)) as database, database.transaction() as connection:
        yield connection


def break_script(patch: pytest.MonkeyPatch, number: int) -> None:
    """Let the server refuse the statement with this number of the first script."""

    def broken(backend: str) -> list[Script]:
        first, *others = scripts(backend)
        statements = [*first.statements()]
        statements[number - 1] += " WRONG"
        return [Script(first.revision, first.branch, ";\n".join(statements)), *others]

    patch.setattr(_scripts, "scripts", broken)


def test_effects(url: str) -> None:
    """Whether a statement ran can be seen, unless it can run twice."""
    statements = [each for script in scripts(MARIADB.dialect) for each in script.statements()]
    visible = [each for each in statements if not each.startswith("INSERT IGNORE")]
    with connected(url) as connection:
        assert not any(has_run(connection, each) for each in statements)
    upgrade(url, OURS)
    with connected(url) as connection:
        assert all(has_run(connection, each) for each in visible)


def test_failure(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ran before the statement that fails is kept, and the next upgrade continues."""
    with monkeypatch.context() as patched:
        break_script(patched, 3)
        with pytest.raises(Unavailable, match="syntax"):
            upgrade(url, OURS)
    assert current(url) == []
    assert names(url) == {
        *("hookrow_migrations", "hookrow_upgrades", "hookrow_subscribers", "hookrow_lists")
    }
    assert upgrade(url, OURS) == needed(OURS) == current(url)


def test_table_of_the_host_after_a_failure(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that hookrow has not begun to create is the host's."""
    with monkeypatch.context() as patched:
        break_script(patched, 2)
        with pytest.raises(Unavailable):
            upgrade(url, OURS)
    run(url, "CREATE TABLE hookrow_dispatches (id INTEGER PRIMARY KEY)")
    with pytest.raises(ConfigurationError, match="already has hookrow_dispatches, which"):
        upgrade(url, OURS)
    run(url, "DROP TABLE hookrow_dispatches")
    assert upgrade(url, OURS) == needed(OURS)


def test_refusal(url: str) -> None:
    """Nothing is created, not even what an upgrade itself needs."""
    run(url, "CREATE TABLE hookrow_lists (id INTEGER PRIMARY KEY)")
    with pytest.raises(ConfigurationError, match="already has hookrow_lists, which"):
        upgrade(url, OURS)
    assert names(url) == {"hookrow_lists"}


def test_no_common_lock(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upgrades that do not wait for each other all succeed, as through the nodes of a cluster."""
    add_later_scripts(monkeypatch)
    monkeypatch.setattr(MariaDBCatalogue, "try_lock", lambda *_: True)
    with ThreadPoolExecutor(4) as threads:
        added = [threads.submit(upgrade, url, OURS) for _ in range(4)]
        assert sorted(each for one in added for each in one.result()) == needed(OURS)
    assert current(url) == needed(OURS)


def test_waiting_for_another_upgrade(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names the reason for the wait."""
    upgrade(url, Schema(log=None))
    monkeypatch.setattr("hookrow._migrations.LOCK_WAIT", 0.0)
    with ThreadPoolExecutor(1) as thread:
        with closing(mariadb.connect(url)) as other, other.cursor() as cursor:
            cursor.execute("BEGIN")
            assert cursor.execute(LOCK) == 1
            added = thread.submit(upgrade, url, OURS)
            eventually(lambda: "Waiting for another upgrade of this database" in caplog.text)
            assert not added.done()
        assert added.result() == ["0002"]


def test_rows_to_lock(url: str) -> None:
    """The script adds the rows that the store locks, so that no transaction finds them missing."""
    upgrade(url, OURS)
    before = run(url, LOCKS)
    with connected(url) as connection:
        catalogue = catalogue_of(connection, open_database(url).dialect)
        for lock in (Lock.COUNTING, Lock.PRUNING):
            assert catalogue.try_lock(lock, "hookrow_meta")
        catalogue.open_writers("hookrow_notifications", "hookrow_meta")
    assert run(url, LOCKS) == before


def test_defaults_of_the_database(url: str) -> None:
    """The tables are the same if the database has another character set."""
    definitions = []
    for charset in ("utf8mb4", "latin1"):
        run(url, f"ALTER DATABASE CHARACTER SET {charset}")
        mariadb.execute_script(url, sql("mariadb"))
        made = sorted(names(url))
        definitions.append([run(url, f"SHOW CREATE TABLE {name}") for name in made])
        run(url, "SET foreign_key_checks = 0", f"DROP TABLE {', '.join(reversed(made))}")
    assert definitions[0] == definitions[1]
