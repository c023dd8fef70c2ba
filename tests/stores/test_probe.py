"""The probe of readiness: which faults of a database it finds, and when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, make_url, text

from hookrow import Schema
from hookrow.health import DatabaseProbe
from hookrow.stores.engines import opened


class Probed:
    """A database that is probed; `now` is in seconds."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.now = 0.0
        self._probe = DatabaseProbe(engine, Schema(), clock=lambda: self.now)

    def fault(self, *, after: float = 0.0) -> str | None:
        """Probe it, so many seconds after the last time."""
        self.now += after
        return self._probe()

    def execute(self, statement: str) -> None:
        """Change it, as another process would."""
        with self.engine.begin() as connection:
            connection.execute(text(statement))


@pytest.fixture
def database(database_url: str) -> Iterator[Probed]:
    """Return a database of each kind, with hookrow's tables."""
    with opened(database_url) as engine:
        yield Probed(engine)


@pytest.fixture
def sqlite(sqlite_url: str) -> Iterator[Probed]:
    """Return an SQLite file with hookrow's tables."""
    with opened(sqlite_url) as engine:
        yield Probed(engine)


def test_once_a_minute(database: Probed) -> None:
    """The tables are verified once a minute."""
    assert database.fault() is None
    database.execute("ALTER TABLE hookrow_dispatches RENAME TO sends")
    assert database.fault(after=59) is None
    assert "hookrow_dispatches" in (database.fault(after=2) or "")


def test_wrong_tables(sqlite: Probed) -> None:
    """Wrong tables are verified at most once a second, until they are right."""
    sqlite.execute("ALTER TABLE hookrow_dispatches RENAME TO sends")
    fault = sqlite.fault()
    assert fault is not None
    sqlite.execute("ALTER TABLE sends RENAME TO hookrow_dispatches")
    assert sqlite.fault(after=0.5) == fault
    assert sqlite.fault(after=0.5) is None


def test_another_revision(sqlite: Probed) -> None:
    """Another revision is noticed at once, and so is the return of the former."""
    assert sqlite.fault() is None
    change = "UPDATE hookrow_version SET version_num = '{}' WHERE version_num = '{}'"
    sqlite.execute(change.format("9999", "0001"))
    assert "9999" in (sqlite.fault() or "")
    sqlite.execute(change.format("0001", "9999"))
    assert sqlite.fault() is None


def test_tables_of_the_host(sqlite: Probed) -> None:
    """Tables that the host's migrations made have no revision."""
    sqlite.execute("DROP TABLE hookrow_version")
    assert (sqlite.fault(), sqlite.fault(after=5)) == (None, None)


def test_missing_file(sqlite: Probed) -> None:
    """A missing SQLite file is noticed at once, and so is its return."""
    file = Path(make_url(str(sqlite.engine.url)).database or "")
    assert sqlite.fault() is None
    file.rename(file.with_name("away"))
    assert sqlite.fault() == f"There is no {file}. Run: hookrow db upgrade"
    file.with_name("away").rename(file)
    assert sqlite.fault() is None
