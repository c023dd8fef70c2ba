"""The readiness probe: which faults of a database it finds, and when."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from homes import run
from sqlalchemy import Engine, make_url

from engines import opened
from hookrow import Schema
from hookrow.server.health import DatabaseProbe
from hookrow.stores.sql.urls import open_database


class Probed:
    """A database that is probed; `now` is in seconds."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.now = 0.0
        self._probe = DatabaseProbe(open_database(engine.url), Schema(), clock=lambda: self.now)

    def fault(self, *, after: float = 0.0) -> str | None:
        """Probe it, so many seconds after the last time."""
        self.now += after
        return self._probe()


@pytest.fixture
def database(database_url: str) -> Iterator[Probed]:
    with opened(database_url) as engine:
        yield Probed(engine)


@pytest.fixture
def sqlite(sqlite_url: str) -> Iterator[Probed]:
    with opened(sqlite_url) as engine:
        yield Probed(engine)


def test_tables(database: Probed) -> None:
    """Tables are verified once a minute, and once a second while they do not fit."""
    assert database.fault() is None
    run(database.engine, "ALTER TABLE hookrow_dispatches RENAME TO sends")
    assert database.fault(after=59) is None
    fault = database.fault(after=2)
    assert "hookrow_dispatches" in (fault or "")
    run(database.engine, "ALTER TABLE sends RENAME TO hookrow_dispatches")
    assert database.fault(after=0.5) == fault
    assert database.fault(after=0.5) is None


def test_revision(sqlite: Probed) -> None:
    """Another revision is noticed immediately, and so is its return; a host's tables have none."""
    assert sqlite.fault() is None
    change = "UPDATE hookrow_migrations SET revision = '{}' WHERE revision = '{}'"
    run(sqlite.engine, change.format("9999", "0001"))
    assert "9999" in (sqlite.fault() or "")
    run(sqlite.engine, change.format("0001", "9999"))
    assert sqlite.fault() is None
    run(sqlite.engine, "DROP TABLE hookrow_migrations")
    assert (sqlite.fault(), sqlite.fault(after=5)) == (None, None)


def test_missing_file(sqlite: Probed) -> None:
    """A missing SQLite file is noticed immediately, and so is its return."""
    file = Path(make_url(str(sqlite.engine.url)).database or "")
    assert sqlite.fault() is None
    file.rename(file.with_name("away"))
    assert sqlite.fault() == f"There is no {file}. Run: hookrow db upgrade"
    file.with_name("away").rename(file)
    assert sqlite.fault() is None
