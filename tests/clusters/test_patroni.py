"""Two receivers on PostgreSQL whose failovers Patroni manages, with synchronous replication.

CI does not install Patroni and etcd: a failover takes half a minute.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest
from trial import Trial

import patroni
from haproxy import balancing, wait_for_the_primary
from hookrow._migrations import sql
from patroni import Cluster
from postgres import find_binaries
from session import read_blocks
from wire import free_port

pytestmark = [
    pytest.mark.never_flaky,
    pytest.mark.skipif(not patroni.is_installed(), reason=patroni.MISSING),
]

PAGE = "docs/how-to/failover.md"

Way = Callable[[Cluster, Path], AbstractContextManager[str]]
"""Yields the URL by which the receivers reach the cluster. The folder is for files."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    binaries = find_binaries()
    assert binaries is not None
    cluster = Cluster(binaries)
    cluster.execute(sql("postgresql"))
    yield cluster
    cluster.remove()


@contextmanager
def two_hosts(cluster: Cluster, _: Path) -> Iterator[str]:
    yield cluster.url


@contextmanager
def haproxy(cluster: Cluster, folder: Path) -> Iterator[str]:
    """Check which server is the primary with the page's settings."""
    settings, _ = read_blocks(PAGE, "haproxy")
    port = free_port()
    replaced = {"127.0.0.1:5000": f"127.0.0.1:{port}"}
    for number, node in enumerate(cluster.nodes, 1):
        printed = f"192.0.2.{number}:5432 check port 8008"
        replaced[printed] = f"127.0.0.1:{node.port} check port {node.rest_port}"
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    with balancing(settings, replaced, port, folder):
        wait_for_the_primary(url)
        yield url


@contextmanager
def trying(cluster: Cluster, way: Way, folder: Path) -> Iterator[Trial]:
    """Run two receivers that reach the cluster in this way."""
    with ExitStack() as stack:
        url = stack.enter_context(way(cluster, folder))
        yield Trial([url, url], cluster.newest, folder, stack)


@pytest.mark.parametrize("way", [two_hosts, haproxy])
def test_a_planned_switchover(cluster: Cluster, way: Way, tmp_path: Path) -> None:
    with trying(cluster, way, tmp_path) as trial:
        with trial.loaded():
            cluster.switch_over()
        trial.check(cluster.copy())


@pytest.mark.parametrize("way", [two_hosts, haproxy])
def test_the_primary_is_killed(cluster: Cluster, way: Way, tmp_path: Path) -> None:
    """Patroni ends with it, and the one of the standby promotes it after its own time limit."""
    with trying(cluster, way, tmp_path) as trial:
        with trial.loaded():
            cluster.primary.crash()
        trial.check()
