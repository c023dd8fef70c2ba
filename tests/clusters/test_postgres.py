"""Two receivers on PostgreSQL with a standby that is promoted under load.

With synchronous replication, no notification that got a 200 is missing on the new primary. With
asynchronous replication, those that the standby had not received yet are missing after a crash, and
none after a planned switchover. What got a 503 is recorded from the spools.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from signal import SIGKILL
from time import monotonic

import pytest
from pair import TWO_HOSTS, Pair, paired
from sqlalchemy import make_url
from trial import DEADLINE, SLACK, Trial

from haproxy import balancing, wait_for_the_primary
from nginx import forwarding
from pgbouncer import pooling
from postgres import Server
from session import read_blocks
from wire import free_port

pytestmark = pytest.mark.never_flaky

PAGE = "docs/how-to/failover.md"

LAG = 1.0
"""In seconds; the longest lag of the standby, on a busy machine."""

USERS = "postgres", "haproxy"

SYNCHRONOUS, ASYNCHRONOUS = "synchronous", "asynchronous"


@pytest.fixture
def pair(start_postgres: Callable[[], Server]) -> Iterator[Pair]:
    with paired(start_postgres()) as pair:
        yield pair


Way = Callable[[Pair, Path], AbstractContextManager[str]]
"""Yields the URL by which the receivers reach the pair. The folder is for files."""


@contextmanager
def two_hosts(pair: Pair, _: Path) -> Iterator[str]:
    with pair.reached(TWO_HOSTS) as url:
        yield url


@contextmanager
def balanced(pair: Pair, folder: Path, *servers: int) -> Iterator[str]:
    """Run HAProxy with the page's script and settings in front of these ports."""
    pair.primary.execute("CREATE ROLE haproxy LOGIN")
    port = free_port()
    _, settings = read_blocks(PAGE, "haproxy")
    [script] = [each for each in read_blocks(PAGE, "sh") if each.startswith("#!")]
    check = folder / "is_primary"
    check.write_text(script)
    check.chmod(0o755)
    replaced = addresses(port, *servers) | {
        "/usr/local/bin/is_primary": str(check),
        "/usr/bin:/bin": f"{pair.primary.binaries}:/usr/bin:/bin",
    }
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    with balancing(settings, replaced, port, folder):
        wait_for_the_primary(url)
        yield url


@contextmanager
def haproxy(pair: Pair, folder: Path) -> Iterator[str]:
    """Let HAProxy check which server is the primary."""
    with balanced(pair, folder, pair.first.port, pair.second.port) as url:
        yield url


@contextmanager
def pgbouncer(pair: Pair, folder: Path) -> Iterator[str]:
    """Run PgBouncer with the page's settings in front of HAProxy."""
    [settings] = read_blocks(PAGE, "ini")
    own = settings.partition("[pgbouncer]\n")[2].splitlines()
    with haproxy(pair, folder) as url:
        server = f"host=127.0.0.1 port={make_url(url).port}"
        with pooling(server, *own) as port:
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"


@contextmanager
def poolers(pair: Pair, folder: Path) -> Iterator[str]:
    """Run HAProxy in front of two PgBouncers, one for each server, which it checks through them."""
    [settings] = read_blocks(PAGE, "ini")
    own = settings.partition("[pgbouncer]\n")[2].splitlines()
    with ExitStack() as stack:
        ports = [
            stack.enter_context(pooling(f"host=127.0.0.1 port={each.port}", *own, users=USERS))
            for each in (pair.first, pair.second)
        ]
        yield stack.enter_context(balanced(pair, folder, *ports))


def addresses(port: int, *servers: int) -> dict[str, str]:
    """Return by what the addresses in the page's settings are replaced."""
    own = {"127.0.0.1:5000": f"127.0.0.1:{port}"}
    for number, server in enumerate(servers, 1):
        own[f"192.0.2.{number}:5432"] = f"127.0.0.1:{server}"
    return own


@contextmanager
def trying(pair: Pair, folder: Path, way: Way = two_hosts) -> Iterator[Trial]:
    """Run two receivers that reach the pair in this way."""
    with ExitStack() as stack:
        url = stack.enter_context(way(pair, folder))
        yield Trial([url, url], pair.newest, folder, stack)


@pytest.fixture(params=[SYNCHRONOUS, ASYNCHRONOUS])
def replication(pair: Pair, request: pytest.FixtureRequest) -> str:
    """Set and return how the standby is replicated."""
    if request.param == SYNCHRONOUS:
        pair.replicate_synchronously()
    return str(request.param)


def check(trial: Trial, replication: str, *, since: float) -> float:
    """Assert that only what was acknowledged during the lag is missing; return the longest pause.

    `since` is when the primary failed. With synchronous replication, nothing is missing.
    """
    if replication == ASYNCHRONOUS:
        missing = trial.leave_out_missing()
        acknowledged = sum(load.statuses()[200] for load in trial.loads)
        print(f"lost after a 200: {len(missing)} of {acknowledged}")
        for posting in missing:
            assert posting.statuses[-1] == 200
            last = posting.attempts[-1]
            assert since - LAG < last.begun + last.seconds < since + LAG
    return trial.check()


def test_the_primary_is_killed(pair: Pair, replication: str, tmp_path: Path) -> None:
    with trying(pair, tmp_path) as trial:
        with trial.loaded():
            since = monotonic()
            pair.primary.crash()
            pair.standby.promote()
        check(trial, replication, since=since)


def test_the_primary_is_stopped(pair: Pair, replication: str, tmp_path: Path) -> None:
    """It accepts connections, but does not reply; it ends before it continues."""
    with trying(pair, tmp_path) as trial:
        with trial.loaded(), pair.primary.frozen():
            since = monotonic()
            pair.standby.promote()
            trial.wait_until_healthy()
            pair.primary.stop(SIGKILL)  # otherwise, there would be two primaries
        pause = check(trial, replication, since=since)
    assert pause < DEADLINE + SLACK


@pytest.mark.usefixtures("replication")
def test_a_planned_switchover(pair: Pair, tmp_path: Path) -> None:
    """A server that shuts down sends the last changes to its standby: nothing is missing.

    The former primary returns as a standby.
    """
    with trying(pair, tmp_path) as trial:
        with trial.loaded():
            pair.switch_over()
        trial.check(pair.copy())


@pytest.mark.parametrize("way", [haproxy, pgbouncer, poolers])
def test_the_primary_behind_a_proxy_is_killed(pair: Pair, way: Way, tmp_path: Path) -> None:
    """Its checks find the new primary."""
    pair.replicate_synchronously()
    with trying(pair, tmp_path, way) as trial:
        with trial.loaded():
            pair.primary.crash()
            pair.standby.promote()
        trial.check()


@pytest.mark.parametrize("way", [haproxy, pgbouncer, poolers])
def test_the_primary_behind_a_proxy_is_stopped(pair: Pair, way: Way, tmp_path: Path) -> None:
    pair.replicate_synchronously()
    with trying(pair, tmp_path, way) as trial:
        with trial.loaded(), pair.primary.frozen():
            pair.standby.promote()
            trial.wait_until_healthy()
            pair.primary.stop(SIGKILL)  # otherwise, there would be two primaries
        trial.check()


@pytest.mark.parametrize("way", [haproxy, pgbouncer, poolers])
def test_a_planned_switchover_behind_a_proxy(pair: Pair, way: Way, tmp_path: Path) -> None:
    """HAProxy closes the connections to the former primary, a standby now, which accepts them."""
    with trying(pair, tmp_path, way) as trial:
        with trial.loaded():
            pair.switch_over()
        trial.check(pair.copy())


def test_a_planned_switchover_behind_nginx(pair: Pair, tmp_path: Path) -> None:
    """Nginx does not check which server is the primary: its settings are changed."""
    port, folder = free_port(), tmp_path / "nginx"
    folder.mkdir()
    [settings] = read_blocks(PAGE, "nginx")
    first, second = "192.0.2.1:5432", "192.0.2.2:5432"
    replaced = addresses(port, pair.first.port, pair.second.port)

    def own(printed: str) -> str:
        for text, address in replaced.items():
            printed = printed.replace(text, address)
        return printed

    with forwarding(folder, port, own(settings)) as change, ExitStack() as stack:
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        trial = Trial([url, url], pair.newest, tmp_path, stack)
        with trial.loaded():
            pair.switch_over()
            change(own(settings.replace(first, second)))
        trial.check(pair.copy())
