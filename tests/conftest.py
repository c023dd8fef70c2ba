"""Databases for the tests: real ones, with hookrow's tables in them and nothing else.

All workers of a run share one PostgreSQL server, and each test has a database of its own, a
copy of a template. A test that stops or freezes the server uses `own_postgres`.
`world.fill` inserts the rows of `cases/world.json`, `world.rows` reads all rows back.
"""

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from command import Command
from databases import IN_MEMORY, KINDS, NAMES, Kind, kind_of
from engines import MEMORY
from hookrow import Schema
from hookrow._migrations import sql, upgrade
from hookrow._observability.logging import rate_limit
from postgres import SYSTEM, VARIABLE, WHEEL, Databases, Server, find_binaries

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

pytest.register_assert_rewrite("contract", "log_contract")

FOLDER = Path(__file__).parent

sys.path.append(str(FOLDER / "stores"))  # its support modules serve acceptance tests, too

LONG = [
    *("test_container.py", "test_hostile.py", "test_interrupted_upgrade.py"),
    *("test_tutorials.py", "test_server.py", "test_dashboard_browser.py"),
]
"""The acceptance tests that take longest begin first, so that both workers end at the same time."""

SHARED = pytest.StashKey[Server]()  # the server that pytest-xdist's controller runs for all


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "write the statements of the stores to tests/stores/statements"
    parser.addoption("--write-statements", action="store_true", help=text)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(FOLDER / "acceptance"):
            item.add_marker(pytest.mark.slow)
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONG)))


def pytest_report_header() -> str:
    return f"postgresql: {find_binaries()}"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: "WorkerController") -> None:
    """Start the server that all workers share."""
    binaries = find_binaries()
    if binaries is not None:
        if SHARED not in node.config.stash:
            node.config.stash[SHARED] = Server(binaries)
        node.workerinput["postgres"] = str(node.config.stash[SHARED].folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    if (server := config.stash.get(SHARED, None)) is not None:
        server.remove()


def _own_server() -> Server:
    binaries = find_binaries()
    if binaries is None:
        reason = f"no PostgreSQL: not in {VARIABLE}, {SYSTEM} or the wheel {WHEEL}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return Server(binaries)


@pytest.fixture(autouse=True)
def _unlimited_logging() -> None:
    """Reset the rate limit of log lines."""
    rate_limit.reset()


@pytest.fixture
def anyio_backend() -> str:
    """Run tests that are coroutines, which have the mark `anyio`, in asyncio's event loop."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[Databases]:
    """Return the databases of a PostgreSQL server that other tests share."""
    worker = getattr(request.config, "workerinput", {})
    if "postgres" in worker:
        yield Databases(Path(worker["postgres"]), worker["workerid"])
        return
    server = _own_server()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def start_postgres() -> Callable[[], Server]:
    """Return a function that runs another PostgreSQL server, which the caller removes."""
    return _own_server


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[Server]:
    """Run a PostgreSQL server that a test may stop or freeze, but must start again."""
    server = _own_server()
    yield server
    server.remove()


@pytest.fixture
def own_postgres_url(own_postgres: Server) -> str:
    """Return the URL of a database with all of hookrow's tables on the test's own server."""
    url = own_postgres.create()
    own_postgres.execute(sql("postgresql"), url=url)
    return url


@pytest.fixture(scope="session")
def new_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], str]:
    """Return a function that creates an empty database of a kind and returns its URL."""

    def make(name: str) -> str:
        if name == IN_MEMORY:
            return MEMORY
        return kind_of(name).create(request, tmp_path_factory.mktemp("shared"))

    return make


@pytest.fixture(scope="session")
def _template(new_database: Callable[[str], str]) -> Callable[[str], str]:
    """Return a function that returns the URL of a database of a kind with hookrow's tables."""

    @cache
    def migrated(name: str) -> str:
        url = new_database(name)
        upgrade(url, Schema())
        return url

    return migrated


def _empty_url(kind: Kind) -> Callable[..., Iterator[str]]:
    def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
        """Return the URL of a database with no tables; a file does not exist yet."""
        url = kind.create(request, tmp_path)
        yield url
        kind.drop(request, url)

    return empty_url


def _url(kind: Kind) -> Callable[..., Iterator[str]]:
    def url(
        request: pytest.FixtureRequest, tmp_path: Path, _template: Callable[[str], str]
    ) -> Iterator[str]:
        """Return the URL of a database with all of hookrow's tables, empty."""
        url = kind.copy(request, _template(kind.name), tmp_path)
        yield url
        kind.drop(request, url)

    return url


# `sqlite_url` and `empty_sqlite_url`, and so on.
for each in KINDS:
    globals()[f"{each.name}_url"] = pytest.fixture(_url(each))
    globals()[f"empty_{each.name}_url"] = pytest.fixture(_empty_url(each))


@pytest.fixture(params=NAMES)
def database_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of a database with all of hookrow's tables, empty: one of each kind."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=NAMES)
def empty_database_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of a database with no tables: one of each kind."""
    return str(request.getfixturevalue(f"empty_{request.param}_url"))


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return the command, in the folder with the file of `sqlite_url`."""
    return Command(tmp_path)
