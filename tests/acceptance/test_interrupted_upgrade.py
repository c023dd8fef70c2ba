"""Upgrades whose client is killed after any of its statements."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from homes import OURS
from later_scripts import add_later_scripts
from sqlalchemy import make_url

from databases import ALL, MARIADB, kind_of
from engines import opened, run
from hookrow._migrations import current, needed, upgrade
from hookrow.stores.sql._mariadb import MariaDBSession
from hookrow.stores.sql._postgres import Session as PostgresSession
from hookrow.stores.sql._sqlite import SQLiteConnection

pytestmark = pytest.mark.never_flaky

COUNT = "SELECT count(*) FROM hookrow_notifications"

INSERT = """
    INSERT INTO hookrow_notifications (fingerprint, outcome, first_outcome, status, attempts,
        received_at, last_received_at, ended_at, source)
    VALUES ('fingerprint-{:04}', 'recorded', 'recorded', 200, 1,
        '2026-03-04 05:06:07', '2026-03-04 05:06:07', '2026-03-04 05:06:07', 'live')
"""

TABLES = {
    "mariadb": """
        SELECT concat(table_name, '.', column_name), column_type FROM information_schema.columns
        WHERE table_schema = database()
        UNION ALL
        SELECT concat(table_name, '.', index_name), group_concat(column_name ORDER BY seq_in_index)
        FROM information_schema.statistics WHERE table_schema = database()
        GROUP BY table_name, index_name ORDER BY 1
    """,
    "sqlite": "SELECT name, sql FROM sqlite_master ORDER BY name",
    "postgresql": """
        SELECT table_name || '.' || column_name, data_type FROM information_schema.columns
        WHERE table_schema = 'public'
        UNION ALL SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
        WHERE indisvalid AND indrelid::regclass::text LIKE 'hookrow%%' ORDER BY 1
    """,
}


class Killed(BaseException):
    """Simulates the end of the process."""


@pytest.fixture
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Return a function that copies a database, and returns the URL of the copy."""
    names = (tmp_path / f"{number}" for number in count())

    def copy(template: str) -> str:
        folder = next(names)
        folder.mkdir()
        return kind_of(template).copy(request, template, folder)

    return copy


def _read(url: str, query: str) -> list[Any]:
    with opened(url) as engine, engine.connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(query)]


def _tables(url: str) -> list[Any]:
    return _read(url, TABLES[make_url(url).drivername])


def _upgrade_until_killed(url: str, statements: int, patch: pytest.MonkeyPatch) -> bool:
    """Upgrade with a client that is killed after this many statements; return whether it was."""
    numbers = count(1)

    def limited(run: Callable[..., Any]) -> Callable[..., Any]:
        def run_or_raise(connection: object, *statement: Any) -> Any:  # noqa: ANN401 - any method's
            if next(numbers) > statements:
                raise Killed
            return run(connection, *statement)

        return run_or_raise

    with patch.context() as patched:
        for session in (MariaDBSession, PostgresSession):
            patched.setattr(session, "_run", limited(session._run))
        for name in ("fetch", "execute", "execute_many"):
            patched.setattr(SQLiteConnection, name, limited(getattr(SQLiteConnection, name)))
        try:
            upgrade(url, OURS)
        except Killed:
            return True
    return False


@pytest.mark.parametrize(
    ("empty_database_url", "entries"),
    [(MARIADB.name, None), *((each.name, 2) for each in ALL)],
    indirect=["empty_database_url"],
)
def test_interruption_after_any_statement(
    copy: Callable[[str], str],
    empty_database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    entries: int | None,
) -> None:
    """After any statement at which the client is killed, the next upgrade completes the rest.

    The tables do not exist yet, or exist and have `entries` in the log, which are kept. They do not
    exist where each statement commits; elsewhere, nothing remains of an interrupted script.
    """
    url = empty_database_url
    if entries is not None:
        upgrade(url, OURS)
        run(url, *map(INSERT.format, range(entries)))
    add_later_scripts(monkeypatch)
    whole = copy(url)
    upgrade(whole, OURS)
    expected = _tables(whole)
    for statements in count():
        interrupted = copy(url)
        if not _upgrade_until_killed(interrupted, statements, monkeypatch):
            break
        before = current(interrupted)
        added = upgrade(interrupted, OURS)
        assert sorted([*before, *added]) == needed(OURS) == current(interrupted)
        assert _tables(interrupted) == expected
        assert _read(interrupted, COUNT) == [(entries or 0,)]
    assert statements > 20
