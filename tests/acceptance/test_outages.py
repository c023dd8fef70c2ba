"""PostgreSQL goes away and comes back: 503 in time, nothing is lost, and hookrow recovers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from contract import NOON, arrival, fill, opens, statuses
from homes import OURS, SQLHome
from traffic import Load, report

from command import Command, run_script
from hookrow import Head, Postmark, Receiver, Request
from hookrow.decide import mentioned
from hookrow.migrations import sql
from hookrow.promise import Promise
from hookrow.recording import record
from hookrow.stores import Unavailable
from hookrow.stores.sql import SQLStore
from hookrow.testing import opening
from postgres import Server
from wire import eventually

DEADLINE = 5.0
"""In seconds; every answer comes within this time, give or take `SLACK` on a busy machine."""

SLACK = 3.0

OPEN = arrival(opens("ada@example.com", "m-ada"))

REQUEST = Request(
    Head("POST", "/provider/webhooks", [(b"X-Provider-Secret", b"secret")]),
    json.dumps(opening("ada@example.com", "m-ada", at=NOON)).encode(),
)


class Service(NamedTuple):
    """`hookrow serve` with a spool, for all outages one after the other."""

    url: str
    port: int
    spool: Path
    log: Callable[[], str]


@pytest.fixture(scope="module")
def service(own_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Run the server on an empty database."""
    url, folder = own_postgres.create(), tmp_path_factory.mktemp("service")
    own_postgres.execute(sql("postgresql"), url=url)
    spool = folder / "spool"
    with Command(folder).serving("--database-url", url, "--spool", spool) as serving:
        yield Service(url, serving.port, spool, lambda: serving.log)


class TestService:
    """`hookrow serve` under load, with outages in the middle of it."""

    loads = count(1, 1000)

    @contextmanager
    def survive(self, service: Service) -> Iterator[None]:
        """Post before, during and after an outage: answers are 200 and 503, in time; then 200."""
        load = Load(service.url, first=next(self.loads), pause=0.02)
        with load.interrupted(service.port, service.spool):
            yield
        assert load.slowest < DEADLINE + SLACK, str(load)
        assert "a fault to be reported" not in service.log()
        report("counted more often than posted:", len(load.miscounted()))

    def test_an_immediate_restart(self, service: Service, own_postgres: Server) -> None:
        """The database crashes and recovers."""
        with self.survive(service):
            own_postgres.crash()
            time.sleep(1)
            own_postgres.start()

    def test_a_stop(self, service: Service, own_postgres: Server) -> None:
        """The database is stopped for longer than an answer may take."""
        with self.survive(service):
            own_postgres.stop()
            time.sleep(DEADLINE + 1)
            own_postgres.start()

    def test_connections_are_terminated(self, service: Service, own_postgres: Server) -> None:
        """All connections are terminated, again and again."""
        with self.survive(service):
            for _ in range(20):
                eventually(lambda: own_postgres.terminate(service.url))
                time.sleep(0.03)

    def test_a_freeze(self, service: Service, own_postgres: Server) -> None:
        """The database accepts what is sent, and does not reply until after the deadline."""
        with self.survive(service), own_postgres.frozen():
            time.sleep(DEADLINE + 1)


@pytest.fixture
def url(own_postgres: Server) -> str:
    """Return the URL of a database on the test's own server, with a few rows."""
    url = own_postgres.create()
    with closing(SQLHome(url, OURS)) as home:
        fill(home)
    return url


@pytest.fixture
def store(url: str) -> Iterator[SQLStore]:
    """Open a store."""
    with closing(SQLStore(url)) as store:
        yield store


@pytest.fixture
def receiver(store: SQLStore) -> Iterator[Receiver]:
    """Record in the store, with a short deadline."""
    receiver = Receiver(Postmark("secret"), store, deadline=1.0)
    yield receiver
    receiver.close(DEADLINE)


def post(receiver: Receiver) -> int:
    """Post an open of Ada's message; return the status."""
    answer = receiver(REQUEST)
    return (answer.result(30) if isinstance(answer, Promise) else answer).status


def test_an_idle_connection(receiver: Receiver, own_postgres: Server, url: str) -> None:
    """A terminated connection is replaced before it is used: no answer is a 503."""
    assert post(receiver) == 200
    assert own_postgres.terminate(url) == 1
    assert post(receiver) == 200


def test_a_connection_in_use(store: SQLStore, url: str, own_postgres: Server) -> None:
    """The notification in progress is answered 503 at once; soon the next one is recorded."""
    receiver = Receiver(Postmark("secret"), store, deadline=DEADLINE + 10)
    with psycopg.connect(url) as host:
        host.execute("SELECT FROM hookrow_dispatches WHERE id = 1 FOR UPDATE")
        answer = receiver(REQUEST)
        assert isinstance(answer, Promise)
        waiting = own_postgres.wait_for_a_lock(url)
        own_postgres.execute("SELECT pg_terminate_backend(%s)", waiting)
        assert answer.result(DEADLINE).status == 503
    eventually(lambda: post(receiver) == 200, seconds=30)
    receiver.close(DEADLINE)


def test_a_column_is_altered(receiver: Receiver, own_postgres: Server, url: str) -> None:
    """Outdated prepared statements are prepared again: at most one answer is a 503."""
    assert {post(receiver) for _ in range(10)} == {200}  # psycopg prepares after five
    own_postgres.execute("ALTER TABLE hookrow_subscribers ALTER email TYPE text", url=url)
    post(receiver)
    assert post(receiver) == 200


def test_the_server_is_frozen_at_the_start(own_postgres: Server, url: str) -> None:
    """A store can be created while the server accepts connections and does not reply."""
    with own_postgres.frozen():
        store = SQLStore(url)
    assert statuses(record(store, [OPEN])) == [200]
    store.close()


def test_a_transaction_gives_up(
    own_postgres: Server, store: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction ends although the server does not reply, and the next one succeeds."""
    monkeypatch.setattr("hookrow.stores.watch.TRANSACTION_TIMEOUT", 0.5)
    with (
        pytest.raises(Unavailable),
        store.transaction() as transaction,
        own_postgres.frozen(),
    ):
        transaction.find(mentioned([OPEN]))
    assert statuses(record(store, [OPEN])) == [200]


def test_a_fork_gets_connections_of_its_own(url: str) -> None:
    """After a fork, parent and child continue, and neither uses a connection of the other."""
    before, child, after = run_script(
        f"url, body = {url!r}, {REQUEST.body!r}",
        """
        import os, warnings
        from hookrow import Head, Postmark, Receiver, Request
        from hookrow.stores.sql import SQLStore

        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads
        store = SQLStore(url)
        receiver = Receiver(Postmark("secret"), store)
        head = Head("POST", "/provider/webhooks", [(b"X-Provider-Secret", b"secret")])
        request = Request(head, body)

        def post():
            with store.engine.connect() as connection:
                backend = connection.connection.dbapi_connection.info.backend_pid
            print(receiver(request).result(15).status, backend, flush=True)

        post()
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
        post()
        receiver.close(15)
        store.close()
        """,
    ).splitlines()
    assert before == after
    assert child != before
    assert {line.split()[0] for line in (before, child, after)} == {"200"}
