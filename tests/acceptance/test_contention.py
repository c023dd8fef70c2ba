"""Other transactions lock the same rows: the host's, and a second server's."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import psycopg
import pytest
from traffic import NEW_YEAR, Load, Posting, fill

from command import Command
from postgres import Databases
from wire import Connection, eventually, get, request

pytestmark = pytest.mark.never_flaky


def test_one_locked_row_in_a_group(postgres: Databases, postgres_url: str, tmp_path: Path) -> None:
    """The other 63 notifications are recorded; this one gets a 503, and a sweep records it."""
    load, command = Load(postgres_url, pause=0.02), Command(tmp_path)
    before, *group = [Posting(row, "opening", NEW_YEAR) for row in range(1000, 1065)]
    fill(postgres_url, [posting.row for posting in (before, *group)])
    count_outcomes = (  # without the notifications of the load
        "SELECT outcome, count(*) FROM hookrow_notifications "
        "WHERE length(message_id) > 4 GROUP BY outcome"
    )

    def outcomes() -> dict[str, int]:
        return dict(postgres.execute(count_outcomes, url=postgres_url))

    with (
        command.serving("--database-url", postgres_url) as serving,
        load.on(serving.port),
        _locked(postgres_url, group[0]),
        ExitStack() as stack,
    ):
        first, *connections = [
            stack.enter_context(Connection(serving.port)) for _ in (before, *group)
        ]
        with _locked(postgres_url, before):  # while the server waits for this row, a group forms
            first.send(request(before.body))
            postgres.wait_for_a_lock(postgres_url)
            for connection, posting in zip(connections, group, strict=True):
                connection.send(request(posting.body))
            assert get(serving.port, "/healthz").status == 200  # it has read those before
        answers = [connection.answer().status for connection in connections]
        assert answers == [503] + [200] * 63
        assert outcomes() == {"recorded": 64, "failed": 1}
        load.wait_for(100, 200)
    with _swept(command, postgres, postgres_url):
        eventually(lambda: outcomes() == {"recorded": 65})
    load.check(200, 503)
    print(f"one locked row in a group of 64: 63 responses of 200, one of 503; other load: {load}")


@contextmanager
def _swept(command: Command, postgres: Databases, url: str) -> Iterator[None]:
    """Make all parked notifications due, and run a server, which sweeps when it starts."""
    due = "UPDATE hookrow_notifications SET retry_at = now() WHERE retry_at IS NOT NULL"
    postgres.execute(due, url=url)
    with command.serving("--database-url", url):
        yield


@contextmanager
def _locked(url: str, posting: Posting) -> Iterator[None]:
    """Lock the dispatch of a notification in another transaction."""
    with psycopg.connect(url) as host:
        host.execute("SELECT FROM hookrow_dispatches WHERE id = %s FOR UPDATE", [posting.row])
        yield


def test_deadlocks(postgres: Databases, postgres_url: str, tmp_path: Path) -> None:
    """The host locks rows in the opposite order; hookrow retries deadlocked transactions."""
    load, command, over = Load(postgres_url, rows=2), Command(tmp_path), Event()

    def host() -> None:
        """Lock all rows one by one, last row first."""
        lock = "SELECT FROM hookrow_dispatches WHERE id = %s FOR UPDATE"
        with psycopg.connect(postgres_url) as connection:
            while not over.wait(0.2):
                with suppress(psycopg.errors.DeadlockDetected), connection.transaction():
                    for row in range(32, 0, -1):
                        connection.execute(lock, [row])
                        time.sleep(0.002)

    def deadlocks() -> int:
        counted = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ((number,),) = postgres.execute(counted, url=postgres_url)
        return int(number)

    thread = Thread(target=host)
    with command.serving("--database-url", postgres_url) as serving:
        with load.on(serving.port):
            thread.start()
            eventually(lambda: deadlocks() > 1, seconds=60)
        over.set()
        thread.join()
    print(f"{deadlocks()} deadlocks: {load}")
    load.check(200, 503)
    with _swept(command, postgres, postgres_url):
        load.wait_until_recorded()
    assert load.unposted() == []


def test_two_servers_write_the_same_rows(database_url: str, tmp_path: Path) -> None:
    """There are no errors and no lost updates: the rows are the result of some serial order."""
    load, command = Load(database_url, rows=50, shared=True), Command(tmp_path)
    with (
        command.serving("--database-url", database_url) as one,
        command.serving("--database-url", database_url) as another,
    ):
        with load.on(one.port, another.port):
            load.wait_for(1000, 200)
        assert get(one.port, "/readyz").status == get(another.port, "/readyz").status == 200
    load.check(200, 503)
    assert load.miscounted() == []
    print(load)
