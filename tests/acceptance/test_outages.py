"""Outages of PostgreSQL: 503 within the deadline, no lost notification, and recovery."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from traffic import Load

from command import Serving, patched
from hookrow._migrations import sql
from postgres import Server
from wire import eventually

pytestmark = pytest.mark.never_flaky

DEADLINE = 2.0
"""In seconds; a shorter time limit for responses, to which a busy machine may add `SLACK`."""

SLACK = 3.0

SHORT_DEADLINE = f"""
from hookrow import Receiver

Receiver.__init__.__kwdefaults__["deadline"] = {DEADLINE}
"""


class Service:
    """`hookrow serve` with a spool, for all outages one after the other."""

    def __init__(self, url: str, serving: Serving, spool: Path) -> None:
        self.url = url
        self._serving = serving
        self._spool = spool
        self._rows = count(1, 1000)

    @property
    def log(self) -> str:
        """The server's log."""
        return self._serving.log

    @contextmanager
    def survives(self, *, refuses: bool = True) -> Iterator[Load]:
        """Post before, during and after an outage; check the statuses and the slowest response.

        Some get a 503, if the outage `refuses` any.
        """
        load = Load(self.url, first=next(self._rows), pause=0.02)
        with load.interrupted(self._serving.port, self._spool, refuses=refuses):
            yield load
        assert load.slowest < DEADLINE + SLACK, str(load)
        assert "a bug raised" not in self.log
        print("counted more often than posted:", len(load.miscounted()))


@contextmanager
def serving(postgres: Server, folder: Path) -> Iterator[Service]:
    """Run the server on an empty database."""
    url = postgres.create()
    postgres.execute(sql("postgresql"), url=url)
    spool, command = folder / "spool", patched(folder, SHORT_DEADLINE)
    with command.serving("--database-url", url, "--spool", spool) as running:
        yield Service(url, running, spool)


@pytest.fixture(scope="module")
def service(own_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(own_postgres, tmp_path_factory.mktemp("service")) as service:
        yield service


def test_an_immediate_restart(service: Service, own_postgres: Server) -> None:
    """The database crashes and recovers."""
    with service.survives():
        own_postgres.crash()
        time.sleep(1)
        own_postgres.start()


def test_a_stop(service: Service, own_postgres: Server) -> None:
    """The database is stopped for longer than the deadline of a response."""
    with service.survives():
        own_postgres.stop()
        time.sleep(DEADLINE + 1)
        own_postgres.start()


def test_a_read_only_server(own_postgres: Server, tmp_path: Path) -> None:
    """The server refuses changes for a moment; the log says so, and when it accepts them again."""
    with serving(own_postgres, tmp_path) as service:
        with service.survives() as load:
            for value in ("on", "off"):
                own_postgres.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
                own_postgres.execute("SELECT pg_reload_conf()")
                load.wait_for(100, 503)
        assert "ReadOnlySqlTransaction 25006: the server is read-only" in service.log
        assert service.log.count("Notifications are recorded again, after ") == 1


def test_connections_are_terminated(service: Service, own_postgres: Server) -> None:
    """All connections are terminated repeatedly; few notifications get a 503, or none.

    A connection that is terminated between two groups is replaced without an error. An interrupted
    group is recorded in another session.
    """
    with service.survives(refuses=False) as load:
        for _ in range(100):
            eventually(lambda: own_postgres.terminate(service.url))
            time.sleep(0.03)
        assert load.statuses()[503] < load.statuses()[200]


def test_a_freeze(service: Service, own_postgres: Server) -> None:
    """The database accepts data, but does not reply until after the deadline."""
    with service.survives(), own_postgres.frozen():
        time.sleep(DEADLINE + 1)
