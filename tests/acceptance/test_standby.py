"""Failovers to a standby under load: what pauses, what is recorded later, and what is lost.

hookrow reaches the servers by two hosts in its URL, by one address that moves, or through
PgBouncer. It is never restarted.
"""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic

import pytest
from pair import ONE_ADDRESS, POOLER, TWO_HOSTS, Pair, paired
from sqlalchemy import make_url
from traffic import Load, Posting, logged, spooled

import world
from command import Command, Serving
from django_project.manage import Manage, database
from hookrow.stores._watchdog import TRANSACTION_TIMEOUT
from postgres import Server
from process import gunicorn, running
from temporary_server import stopped
from wire import AT, DELIVERY, ENDPOINT, SECRET, ask, eventually, request

pytestmark = pytest.mark.never_flaky

Host = Callable[[Path, str], AbstractContextManager[Serving]]
"""Serves an application in a folder, on the database of a URL."""

READ_ONLY = "the server is read-only"
AGAIN = "Notifications are recorded again, after "


@pytest.fixture
def pair(start_postgres: Callable[[], Server]) -> Iterator[Pair]:
    with paired(start_postgres()) as pair:
        yield pair


class Failover:
    """Load on `hookrow serve` during a failover, and when the new primary was reachable."""

    def __init__(self, pair: Pair, serving: Serving, spool: Path | None) -> None:
        self.load = Load(pair.newest, pause=0.02)
        self.serving = serving
        self._pair = pair
        self._spool = spool
        self._reachable_at = 0.0

    def promote(self) -> None:
        """Promote the standby."""
        self._pair.standby.promote()
        self._reachable_at = monotonic()

    def move(self, way: str, url: str) -> None:
        """Let the one address lead to the new primary; PgBouncer then connects again."""
        self._pair.first.leads_to = self._pair.standby
        if way == POOLER:
            console = make_url(url).set(database="pgbouncer").render_as_string()
            self._pair.standby.execute("RECONNECT", url=console)
        self._reachable_at = monotonic()

    def report(self) -> None:
        """Print how long no response was 200, and how many were not."""
        attempts = [each for posting in self.load.postings for each in posting.attempts]
        refused = sorted(each.begun + each.seconds for each in attempts if each.status != 200)
        recorded = sorted(each.begun + each.seconds for each in attempts if each.status == 200)
        print(self.load)
        if refused:
            print(f"from the first 503 to the last: {refused[-1] - refused[0]:.1f} s")
        if self._reachable_at:
            after = next(each for each in recorded if each > self._reachable_at)
            print(f"recorded {after - self._reachable_at:.1f} s after the new primary is reachable")

    def missing(self) -> list[Posting]:
        """Return the notifications that are not on the new primary."""
        log = logged(self._pair.newest)
        return [posting for posting in self.load.postings if posting.body not in log]

    def check(self, *, noticed: bool = True) -> None:
        """Assert that no 200 was lost, and with a spool, that all notifications are recorded.

        If hookrow must have noticed the outage, it logs once that it records again.
        """
        if self._spool:
            self.load.wait_until_recorded()
        else:
            print(f"only the provider can send again: {len(self.missing())}")
        self.load.check(200, 503)
        times = self.serving.log.count(AGAIN)
        assert times == 1 or (times == 0 and not noticed), self.serving.log
        assert "a bug raised" not in self.serving.log


@contextmanager
def failing_over(pair: Pair, url: str, folder: Path, *, spool: bool = True) -> Iterator[Failover]:
    """Post before, during and after the block, which ends when hookrow can record again."""
    file = folder / "spool" if spool else None
    arguments = ["--spool", file] if file else []
    with Command(folder).serving("--database-url", url, *arguments) as serving:
        failover = Failover(pair, serving, file)
        with failover.load.on(serving.port):
            failover.load.wait_for(100, 200)
            yield failover
            failover.load.wait_until_healthy()
        if file:
            eventually(lambda: spooled(file) == 0, seconds=60)
        failover.report()


@pytest.mark.parametrize(
    ("way", "spool"),
    [(TWO_HOSTS, False), (ONE_ADDRESS, True), (POOLER, True)],
)
def test_the_primary_crashes(pair: Pair, way: str, tmp_path: Path, *, spool: bool) -> None:
    """Synchronously replicated, every notification that got a 200 is on the new primary."""
    pair.replicate_synchronously()
    with pair.reached(way) as url:
        with failing_over(pair, url, tmp_path, spool=spool) as failover:
            pair.primary.crash()
            time.sleep(1)
            failover.promote()
            if way != TWO_HOSTS:
                failover.move(way, url)
        failover.check(noticed=way != POOLER)  # at which requests may wait until it is over


@pytest.mark.parametrize("way", [TWO_HOSTS, ONE_ADDRESS, POOLER])
def test_the_former_primary_returns_as_a_standby(pair: Pair, way: str, tmp_path: Path) -> None:
    """After a planned switchover, the address still leads to it for a while; hookrow leaves it."""
    with pair.reached(way) as url:
        with failing_over(pair, url, tmp_path) as failover:
            pair.primary.stop()
            failover.promote()
            pair.primary.start(pair.standby)
            if way != TWO_HOSTS:
                failover.serving.wait_until_logged(READ_ONLY)
                failover.move(way, url)
        failover.check()
    clients = "SELECT 1 FROM pg_stat_activity WHERE client_port = -1 AND pid <> pg_backend_pid()"
    eventually(lambda: not pair.primary.execute(clients))


@contextmanager
def flask(folder: Path, url: str) -> Iterator[Serving]:
    """Run the example, on an engine whose pool keeps its connections."""
    variables = {"HOOKROW_SECRET": SECRET, "HOOKROW_DATABASE_URL": url}
    with running(gunicorn, "flask_app:create_app()", folder, variables) as serving:
        yield serving


def one_thread(app: str, port: int) -> Sequence[str]:
    """Start gunicorn so that each request uses the connection of the previous one."""
    return "gunicorn", app, "--bind", f"127.0.0.1:{port}"


@contextmanager
def django(folder: Path, url: str, **settings: object) -> Iterator[Serving]:
    """Run the example, with a connection that is never too old."""
    databases = {"default": database(url) | {"CONN_MAX_AGE": None}}
    given = {"SECRET": SECRET, **settings}
    manage = Manage(folder, url, DATABASES=databases, HOOKROW=given, ROOT_URLCONF="project.urls")
    migrated = manage.run("migrate", "--fake-initial", "-v0")
    assert migrated.returncode == 0, migrated.stderr
    with manage.serving_by(one_thread, "project.wsgi:application") as serving:
        yield serving


@pytest.mark.parametrize(
    "host", [flask, django, partial(django, GROUP_COMMIT=True)], ids=["flask", "django", "groups"]
)
def test_hosts(pair: Pair, host: Host, tmp_path: Path) -> None:
    """An application that is connected to the former primary, a standby now, leaves it."""
    world.fill(pair.newest)
    with pair.reached(ONE_ADDRESS) as url, host(tmp_path, url) as serving:

        def status() -> int:
            return ask(serving.port, request(DELIVERY, f"/mail{ENDPOINT}")).status

        assert status() == 200
        pair.switch_over()
        eventually(lambda: (status(), READ_ONLY in serving.log) == (503, True))
        pair.first.leads_to = pair.standby
        eventually(lambda: status() == 200)
        assert serving.log.count(AGAIN) == 1
    assert world.rows(pair.newest)["dispatches"][0]["delivered_at"] == AT


def test_the_primary_freezes(pair: Pair, tmp_path: Path) -> None:
    """The first host accepts connections, but does not reply; it ends before it continues."""
    pair.replicate_synchronously()
    with pair.reached(TWO_HOSTS) as url:
        with failing_over(pair, url, tmp_path) as failover, pair.primary.frozen():
            failover.promote()
            failover.load.wait_until_healthy()
            pair.primary.stop(signal.SIGKILL)  # otherwise, there would be two primaries
        failover.check(noticed=False)  # the next host is used within the deadline


def test_an_asynchronous_standby_lags(pair: Pair, tmp_path: Path) -> None:
    """Only what was acknowledged during the lag is lost, and nothing that got a 503."""
    with pair.reached(TWO_HOSTS) as url:
        with failing_over(pair, url, tmp_path) as failover:
            sender = "SELECT pid FROM pg_stat_replication"
            [(pid,)] = pair.primary.execute(sender)
            behind_since = monotonic()
            with stopped(pid):
                failover.load.wait_for(100, 200)
                print(f"lag: {monotonic() - behind_since:.1f} s")
                pair.primary.crash()
            failover.promote()
        missing = failover.missing()
        print(f"lost after a 200: {len(missing)}")
        assert missing
        # Without a lag, replication takes some milliseconds.
        assert all(
            posting.statuses == [200] and posting.attempts[-1].begun > behind_since - 1
            for posting in missing
        )
        assert failover.load.unposted() == []


def test_the_synchronous_standby_ends(pair: Pair, tmp_path: Path) -> None:
    """The primary commits nothing, so there is no 200, until the standby returns."""
    pair.replicate_synchronously()
    with pair.reached(ONE_ADDRESS) as url:
        with failing_over(pair, url, tmp_path) as failover:
            pair.standby.stop()
            ended = monotonic()
            failover.load.wait_for(100, 503)
            time.sleep(TRANSACTION_TIMEOUT + 1)  # after all time limits of a transaction
            assert failover.load.statuses(since=ended)[200] == 0
            waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            print(f"sessions that wait for the standby: {len(pair.primary.execute(waiting))}")
            pair.standby.start()
        # A session that waited held locks. Rows that were locked are due in the next sweep.
        failed = ("--outcome", "failed", "--database-url", pair.newest)
        replayed = Command(tmp_path).call("replay", *failed)
        assert replayed.returncode == 0, replayed.stdout
        failover.check()
