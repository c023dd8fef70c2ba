"""Others want the same rows at the same time: the host's transactions, a second server."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import psycopg
import pytest
from traffic import NEW_YEAR, Load, Note, fill, report

from command import Command
from postgres import Server
from wire import Connection, eventually, get, request

HELD = 10.0
"""In seconds; how long another transaction keeps a row."""


@pytest.mark.slow
def test_a_row_is_held_for_10_seconds(postgres: Server, postgres_url: str, tmp_path: Path) -> None:
    """Its 63 neighbours in the group are recorded meanwhile; it is answered 503 and kept.

    The log has it as failed, and the sweep records it once the row is free. The
    sweep's time is brought forward here, for it comes after a minute.
    """
    url = postgres_url
    load = Load(url, pause=0.02)
    before, *group = [Note(row, "opened_at", NEW_YEAR) for row in range(1000, 1065)]
    fill(url, [note.row for note in (before, *group)])
    command = Command(tmp_path)
    with (
        command.serving("--database-url", url) as serving,
        load.on(serving.port),
        _holding(url, group[0]),
        ExitStack() as stack,
    ):
        until = time.monotonic() + HELD
        first, *connections = [
            stack.enter_context(Connection(serving.port)) for _ in (before, *group)
        ]
        with _holding(url, before):  # while the server waits for this row the group gathers
            first.send(request(before.body))
            postgres.wait_for_a_lock(url)
            for connection, note in zip(connections, group, strict=True):
                connection.send(request(note.body))
            time.sleep(0.5)
        answers = [connection.answer().status for connection in connections]
        assert answers == [503] + [200] * 63
        assert _endings(postgres, url) == {"recorded": 64, "failed": 1}
        time.sleep(max(0.0, until - time.monotonic()))
    assert set(load.statuses()) <= {200, 503}, load.told()
    with _swept(command, postgres, url):
        eventually(lambda: _endings(postgres, url) == {"recorded": 65})
    assert load.lost() == []
    report(f"a group of 64, one row held: {Counter(answers)}; beside it {load.told()}")


@contextmanager
def _swept(command: Command, postgres: Server, url: str) -> Iterator[None]:
    """Make due what is parked, and run a server, whose first sweep comes at once."""
    due = "UPDATE hookrow_notifications SET retry_at = now() WHERE retry_at IS NOT NULL"
    postgres.execute(due, url=url)
    with command.serving("--database-url", url):
        yield


@contextmanager
def _holding(url: str, note: Note) -> Iterator[None]:
    """Lock the dispatch of a notification in another transaction."""
    with psycopg.connect(url) as host:
        host.execute("SELECT FROM hookrow_dispatches WHERE id = %s FOR UPDATE", [note.row])
        yield


def _endings(postgres: Server, url: str) -> dict[str, int]:
    """Count how those ended that are not of the load."""
    counted = (
        "SELECT outcome, count(*) FROM hookrow_notifications "
        "WHERE length(message_id) > 4 GROUP BY outcome"
    )
    return dict(postgres.execute(counted, url=url))


@pytest.mark.slow
def test_rows_are_taken_in_the_opposite_order(
    postgres: Server, postgres_url: str, tmp_path: Path
) -> None:
    """The host's transactions and ours deadlock; ours try again, and no answer tells of it."""
    load = Load(postgres_url, rows=2)
    over = Event()
    taken: Counter[str] = Counter()

    def host() -> None:
        """Take all rows one by one, the last one first."""
        with psycopg.connect(postgres_url) as connection:
            while not over.is_set():
                with suppress(psycopg.errors.DeadlockDetected), connection.transaction():
                    for row in range(32, 0, -1):
                        connection.execute(
                            "SELECT FROM hookrow_dispatches WHERE id = %s FOR UPDATE", [row]
                        )
                        time.sleep(0.002)
                    taken["all"] += 1
                over.wait(0.3)

    before = _deadlocks(postgres, postgres_url)
    thread = Thread(target=host)
    command = Command(tmp_path)
    with command.serving("--database-url", postgres_url) as serving:
        with load.on(serving.port):
            thread.start()
            time.sleep(8)
        over.set()
        thread.join()
    eventually(lambda: _deadlocks(postgres, postgres_url) > before, seconds=20)
    deadlocks = _deadlocks(postgres, postgres_url) - before
    report(f"{deadlocks} deadlocks, the host took all rows {taken['all']} times: {load.told()}")
    assert set(load.statuses()) <= {200, 503}, load.told()
    assert load.lost() == []
    with _swept(command, postgres, postgres_url):
        load.wait_until_recorded(seconds=20)
    assert load.unposted() == []


def _deadlocks(postgres: Server, url: str) -> int:
    """Return how many deadlocks there were in the database; it says so with some delay."""
    counted = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    ((deadlocks,),) = postgres.execute(counted, url=url)
    return int(deadlocks)


def test_two_servers_at_the_same_50_rows(database_url: str, tmp_path: Path) -> None:
    """The rows end as if the notifications had come one by one: no error, no update lost."""
    load = Load(database_url, rows=50, shared=True)
    command = Command(tmp_path)
    with (
        command.serving("--database-url", database_url) as one,
        command.serving("--database-url", database_url) as another,
    ):
        with load.on(one.port, another.port):
            time.sleep(5)
        assert get(one.port, "/readyz").status == get(another.port, "/readyz").status == 200
    assert set(load.statuses()) <= {200, 503}, load.told()
    assert load.lost() == []
    assert load.unposted() == []
    assert load.miscounted() == []
    report(load.told())
