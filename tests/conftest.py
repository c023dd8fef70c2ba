"""Databases for the tests: real ones, with hookrow's tables in them and nothing else.

All workers of a run share one server of each kind, PostgreSQL and MariaDB, and each test has a
database of its own, a copy of a template. A test that stops or freezes the server uses
`own_postgres` or `own_mariadb`.
`world.fill` inserts the rows of `cases/world.json`, `world.rows` reads all rows back.
"""

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from coverage import Coverage

import galera
import mariadb as mariadb_server
import postgres as postgres_server
from command import Command
from databases import ALL, IN_MEMORY, NAMES, Kind, kind_of
from engines import MEMORY
from hookrow import Schema
from hookrow._migrations import sql, upgrade
from hookrow._observability.logging import rate_limit

if TYPE_CHECKING:
    from _typeshed import TraceFunction
    from xdist.workermanage import WorkerController

pytest.register_assert_rewrite("contract", "log_contract")

FOLDER = Path(__file__).parent

# Their support modules serve other tests, too.
sys.path += [str(FOLDER / "stores"), str(FOLDER / "acceptance")]

LONG = [
    *("test_container.py", "test_hostile.py", "test_interrupted_upgrade.py"),
    *("test_tutorials.py", "test_server.py", "test_dashboard_browser.py"),
]
"""The acceptance tests that take longest begin first, so that both workers end at the same time."""

SHARED_POSTGRES = pytest.StashKey[postgres_server.Server]()
SHARED_MARIADB = pytest.StashKey[mariadb_server.Server]()
"""The servers that pytest-xdist's controller runs for all workers."""


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "write the statements of the stores to tests/stores/statements"
    parser.addoption("--write-statements", action="store_true", help=text)
    text = "write the databases and the spool of this version to tests/upgrades/files"
    parser.addoption("--write-release", action="store_true", help=text)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Collect no garbage while the tests are collected, a million objects that all stay."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage again, but never search the tests for it."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.path.is_relative_to(FOLDER / each) for each in ("acceptance", "clusters")):
            item.add_marker(pytest.mark.slow)
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONG)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure no coverage of a test with the mark `unmeasured`: that takes half of its time."""
    if Coverage.current() is None or item.get_closest_marker("unmeasured") is None:
        return (yield)
    own, of_threads = sys.gettrace(), threading.gettrace()
    _trace(None, None)
    try:
        return (yield)
    finally:
        _trace(own, of_threads)


def _trace(own: "TraceFunction | None", of_threads: "TraceFunction | None") -> None:
    """Set the trace function of this thread, and that of the threads that begin."""
    sys.settrace(own)
    threading.settrace(of_threads)


def pytest_report_header() -> list[str]:
    mariadb = mariadb_server.find_binaries()
    return [
        f"postgresql: {postgres_server.find_binaries()}",
        f"mariadb: {mariadb.server if mariadb else mariadb_server.MISSING}",
    ]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: "WorkerController") -> None:
    """Start the servers that all workers share."""
    stash = node.config.stash
    if (postgres := postgres_server.find_binaries()) is not None:
        if SHARED_POSTGRES not in stash:
            stash[SHARED_POSTGRES] = postgres_server.Server(postgres)
        node.workerinput["postgres"] = str(stash[SHARED_POSTGRES].folder)
    if (mariadb := mariadb_server.find_binaries()) is not None:
        if SHARED_MARIADB not in stash:
            stash[SHARED_MARIADB] = mariadb_server.Server(mariadb)
        node.workerinput["mariadb"] = str(stash[SHARED_MARIADB].folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    if (postgres := config.stash.get(SHARED_POSTGRES, None)) is not None:
        postgres.remove()
    if (mariadb := config.stash.get(SHARED_MARIADB, None)) is not None:
        mariadb.remove()


def _own_postgres() -> postgres_server.Server:
    if (binaries := postgres_server.find_binaries()) is None:
        places = f"{postgres_server.VARIABLE}, {postgres_server.SYSTEM} or the wheel"
        _skip(f"no PostgreSQL: not in {places} {postgres_server.WHEEL}")
    return postgres_server.Server(binaries)


def _own_mariadb() -> mariadb_server.Server:
    if (binaries := mariadb_server.find_binaries()) is None:
        _skip(mariadb_server.MISSING)
    return mariadb_server.Server(binaries)


def _skip(reason: str) -> NoReturn:
    """Skip the test because a program is missing, which is an error in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def _unlimited_logging() -> None:
    """Reset the rate limit of log lines."""
    rate_limit.reset()


@pytest.fixture
def anyio_backend() -> str:
    """Run tests that are coroutines, which have the mark `anyio`, in asyncio's event loop."""
    return "asyncio"


def _of_worker(request: pytest.FixtureRequest, name: str) -> tuple[Path, str] | None:
    """Return the folder of a server that all workers share, and the name of this worker."""
    worker = getattr(request.config, "workerinput", {})
    return (Path(worker[name]), worker["workerid"]) if name in worker else None


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[postgres_server.Databases]:
    """Return the databases of a PostgreSQL server that other tests share."""
    if shared := _of_worker(request, "postgres"):
        yield postgres_server.Databases(*shared)
        return
    server = _own_postgres()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def mariadb(request: pytest.FixtureRequest) -> Iterator[mariadb_server.Databases]:
    """Return the databases of a MariaDB server that other tests share."""
    if shared := _of_worker(request, "mariadb"):
        yield mariadb_server.Databases(*shared)
        return
    server = _own_mariadb()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def start_postgres() -> Callable[[], postgres_server.Server]:
    """Return a function that runs another PostgreSQL server, which the caller removes."""
    return _own_postgres


@pytest.fixture(scope="session")
def start_mariadb() -> Callable[[], mariadb_server.Server]:
    """Return a function that runs another MariaDB server, which the caller removes."""
    return _own_mariadb


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[postgres_server.Server]:
    """Run a PostgreSQL server that a test may stop or freeze, but must start again."""
    server = _own_postgres()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def own_mariadb() -> Iterator[mariadb_server.Server]:
    """Run a MariaDB server that a test may stop or freeze, but must start again."""
    server = _own_mariadb()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def start_cluster() -> Callable[[], galera.Cluster]:
    """Return a function that runs a Galera cluster, which the caller removes."""

    def start() -> galera.Cluster:
        if (binaries := galera.find_binaries()) is None:
            _skip(galera.MISSING)
        return galera.Cluster(binaries)

    return start


@pytest.fixture
def own_postgres_url(own_postgres: postgres_server.Server) -> str:
    """Return the URL of a database with all of hookrow's tables on the test's own server."""
    url = own_postgres.create()
    own_postgres.execute(sql("postgresql"), url=url)
    return url


@pytest.fixture
def own_mariadb_url(own_mariadb: mariadb_server.Server) -> str:
    """Return the URL of a database with all of hookrow's tables on the test's own server."""
    url = own_mariadb.create()
    mariadb_server.execute_script(url, sql("mariadb"))
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
for each in ALL:
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
