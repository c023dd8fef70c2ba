"""Upgrades of version 0.1.0's databases whose client is killed after any of its statements."""

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from homes import OURS
from sqlalchemy import make_url

from engines import opened
from hookrow.migrations import current, needed, upgrade
from hookrow.stores.sql.postgres import Session
from hookrow.stores.sql.sqlite import SQLiteConnection
from postgres import Databases

pytestmark = pytest.mark.never_flaky

FOLDER = Path(__file__).parents[1] / "fixtures" / "first_edition"

ENTRIES = 35
"""The number of entries in the log."""

TABLES = {
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


@pytest.fixture(params=["sqlite", "postgres"])
def copies(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Return a function that copies a database of version 0.1.0, and returns its URL."""
    if request.param == "sqlite":
        names = (tmp_path / f"{number}.db" for number in count())
        return lambda: f"sqlite:///{shutil.copy(FOLDER / 'hookrow.db', next(names))}"
    postgres: Databases = request.getfixturevalue("postgres")
    template: str = request.getfixturevalue("empty_postgres_url")
    postgres.execute((FOLDER / "postgres.sql").read_text(), url=template)
    return lambda: postgres.create(make_url(template).database or "")


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
        patched.setattr(Session, "_run", limited(Session._run))
        for name in ("fetch", "execute", "execute_many"):
            patched.setattr(SQLiteConnection, name, limited(getattr(SQLiteConnection, name)))
        try:
            upgrade(url, OURS)
        except Killed:
            return True
    return False


def test_interruption_after_any_statement(
    copies: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After any statement at which the client is killed, the next upgrade completes the rest."""
    whole = copies()
    upgrade(whole, OURS)
    expected = _tables(whole)
    for statements in count():
        url = copies()
        if not _upgrade_until_killed(url, statements, monkeypatch):
            break
        before = current(url)
        added = upgrade(url, OURS)
        assert sorted([*before, *added]) == needed(OURS) == current(url)
        assert _tables(url) == expected
        assert _read(url, "SELECT count(*) FROM hookrow_notifications") == [(ENTRIES,)]
    assert statements > 20
