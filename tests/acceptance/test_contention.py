"""Other transactions lock the same rows: the host's, and a second server's."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event

import psycopg
import pytest
from traffic import NEW_YEAR, Load, Posting, fill

from command import Command
from postgres import Databases
from wire import Connection, eventually, get, request

pytestmark = pytest.mark.never_flaky


def test_one_locked_row_in_a_group(postgres: Databases, postgres_url: str, tmp_path: Path) -> None:
    """The other 63 notifications are recorded meanwhile, and this one as soon as it can be.

    If that takes too long, it gets a 503, and a sweep records it.
    """
    load, command = Load(postgres_url, pause=0.02), Command(tmp_path)
    group = [Posting(row, "opening", NEW_YEAR) for row in range(1000, 1064)]
    fill(postgres_url, [posting.row for posting in group])
    count_outcomes = (  # without the notifications of the load
        "SELECT outcome, count(*) FROM hookrow_notifications "
        "WHERE length(message_id) > 4 GROUP BY outcome"
    )

    def outcomes() -> dict[str, int]:
        return dict(postgres.execute(count_outcomes, url=postgres_url))

    def post(connections: Sequence[Connection]) -> None:
        for connection, posting in zip(connections, group, strict=True):
            connection.send(request(posting.body))

    with (
        command.serving("--database-url", postgres_url) as serving,
        load.on(serving.port),
        ExitStack() as stack,
    ):
        connections = [stack.enter_context(Connection(serving.port)) for _ in group]
        locked, *others = connections
        with _locked(postgres_url, group[0]):
            post(connections)
            assert {each.answer().status for each in others} == {200}
            time.sleep(1.0)
            assert not locked.is_readable()
            assert outcomes() == {"recorded": 63}
        assert locked.answer().status == 200
        assert outcomes() == {"recorded": 64}
        forget = "DELETE FROM hookrow_notifications WHERE length(message_id) > 4"
        postgres.execute(forget, url=postgres_url)
        with _locked(postgres_url, group[0]):
            post(connections)
            answers = [each.answer().status for each in connections]
            assert answers == [503] + [200] * 63
            assert outcomes() == {"recorded": 63, "failed": 1}
            load.wait_for(100, 200)
    with _swept(command, postgres, postgres_url):
        eventually(lambda: outcomes() == {"recorded": 64})
    load.check(200)
    print(f"one locked row in a group of 64; other load: {load}")


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


def test_the_opposite_order(postgres: Databases, postgres_url: str, tmp_path: Path) -> None:
    """The host locks rows in the opposite order: none of its transactions is aborted."""
    load = Load(postgres_url, rows=32, shared=True)
    command, over = Command(tmp_path), Event()
    hosts: list[Future[int]] = []

    def host() -> int:
        """Lock the first rows one by one, last row first; return the number of transactions."""
        number = 0
        with psycopg.connect(postgres_url) as connection:
            while not over.is_set():
                with connection.transaction():
                    for row in range(8, 0, -1):
                        connection.execute(
                            "SELECT FROM hookrow_dispatches WHERE id = %s FOR UPDATE", [row]
                        )
                        time.sleep(0.002)
                number += 1
        return number

    with command.serving("--database-url", postgres_url) as serving, ThreadPoolExecutor() as pool:
        with load.on(serving.port):
            hosts += [pool.submit(host) for _ in range(2)]
            began = time.monotonic()
            load.wait_for(1000, 200)
            seconds = time.monotonic() - began
            time.sleep(max(8.0 - seconds, 0.0))
        over.set()
    transactions = sum(each.result() for each in hosts)  # raises if one was aborted
    counted = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    ((deadlocks,),) = postgres.execute(counted, url=postgres_url)
    assert deadlocks == 0
    print(f"1,000 responses of 200 after {seconds:.1f} s, {transactions} of the host: {load}")
    load.check(200, 503)
    assert load.miscounted() == []


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
