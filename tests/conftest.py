"""Databases for the tests: real ones, with our tables in them and nothing else.

`world.fill` puts the rows of `cases/world.json` in, `world.rows` reads all rows back.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hookrow import Schema
from hookrow.migrations import sql, upgrade
from hookrow.stores.engines import open_engine
from postgres import SYSTEM, VARIABLE, WHEEL, Server, find_binaries

pytest.register_assert_rewrite("contract", "census_contract", "log_contract", "host")


def pytest_report_header() -> str:
    """Name the PostgreSQL that the tests run on."""
    return f"postgresql: {find_binaries(os.environ)}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Run a PostgreSQL server, which a test may break as long as it mends it."""
    binaries = find_binaries(os.environ)
    if binaries is None:
        reason = f"no PostgreSQL: not in {VARIABLE}, {SYSTEM} or the wheel {WHEEL}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    server = Server(binaries)
    yield server
    server.remove()


@pytest.fixture(scope="session")
def _shared_url(postgres: Server) -> str:
    return postgres.create()


@pytest.fixture
def empty_postgres_url(postgres: Server, _shared_url: str) -> str:
    """Return the URL of a PostgreSQL database with no tables."""
    postgres.empty(_shared_url)
    return _shared_url


@pytest.fixture
def postgres_url(postgres: Server, empty_postgres_url: str) -> str:
    """Return the URL of a PostgreSQL database with all our tables, empty."""
    postgres.execute(sql("postgresql"), url=empty_postgres_url)
    return empty_postgres_url


@pytest.fixture(scope="session")
def _migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("migrated") / "hookrow.db"
    engine = open_engine(f"sqlite:///{file}")
    upgrade(engine, Schema())
    engine.dispose()
    return file


@pytest.fixture
def empty_sqlite_url(tmp_path: Path) -> str:
    """Return the URL of an SQLite file that is not there yet."""
    return f"sqlite:///{tmp_path}/hookrow.db"


@pytest.fixture
def sqlite_url(tmp_path: Path, empty_sqlite_url: str, _migrated_file: Path) -> str:
    """Return the URL of an SQLite file with all our tables, empty."""
    shutil.copy(_migrated_file, tmp_path / "hookrow.db")
    return empty_sqlite_url


@pytest.fixture(scope="session")
def new_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], str]:
    """Return what makes an empty database, "sqlite" or "postgres", and returns its URL.

    For tests that share one: it is gone with the session.
    """

    def make(kind: str) -> str:
        if kind == "sqlite":
            return f"sqlite:///{tmp_path_factory.mktemp('shared')}/hookrow.db"
        postgres: Server = request.getfixturevalue("postgres")
        return postgres.create()

    return make


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of a database with all our tables, empty: one of each kind."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def empty_database_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of a database with no tables: one of each kind."""
    url: str = request.getfixturevalue(f"empty_{request.param}_url")
    return url
