"""The database goes away and comes back: 503 in time, and well again by itself."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from contract import NOON, arrival, fill, opens, statuses
from homes import OURS, SQLHome

from hookrow import Head, Postmark, Receiver, Request
from hookrow.decide import mentioned
from hookrow.notification import EventTime, SetTime
from hookrow.promise import Promise
from hookrow.recording import record
from hookrow.stores import Unavailable
from hookrow.stores.sql import SQLStore
from hookrow.testing import opening
from postgres import Server

PATIENCE = 15.0
"""In seconds; what takes longer hangs."""

SLACK = 2.0
"""In seconds; how much later than its deadline an answer may be on a busy machine."""

REQUEST = Request(
    Head("POST", "/provider/webhooks", [(b"X-Provider-Secret", b"secret")]),
    json.dumps(opening("ada@example.com", "m-ada", at=NOON)).encode(),
)


def post(receiver: Receiver) -> int:
    """Post an open of Ada's; return the status."""
    answer = receiver(REQUEST)
    return (answer.result(PATIENCE) if isinstance(answer, Promise) else answer).status


def recovers(receiver: Receiver) -> bool:
    """Post until one is recorded."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if post(receiver) == 200:
            return True
        time.sleep(0.1)
    return False


@pytest.fixture
def url(empty_postgres_url: str) -> str:
    """Fill a database on PostgreSQL with a few rows."""
    with closing(SQLHome(empty_postgres_url, OURS)) as home:
        fill(home)
    return empty_postgres_url


@pytest.fixture
def store(url: str) -> Iterator[SQLStore]:
    """Open a store with an engine of its own."""
    with closing(SQLStore(url)) as store:
        yield store


@pytest.fixture
def receiver(store: SQLStore) -> Iterator[Receiver]:
    """Record in the database, with a short deadline."""
    receiver = Receiver(Postmark("secret"), store, deadline=1.0)
    yield receiver
    receiver.close(PATIENCE)


class TestLostConnections:
    def test_an_idle_connection_that_was_cut_costs_nothing(
        self, receiver: Receiver, postgres: Server, url: str
    ) -> None:
        """A connection is looked at before it is used, and replaced."""
        assert post(receiver) == 200
        assert postgres.terminate(url) == 1
        assert post(receiver) == 200

    def test_a_connection_cut_in_the_middle_costs_one_answer(
        self, receiver: Receiver, postgres: Server, url: str
    ) -> None:
        """The notification under way is answered 503 at once; soon the next is recorded."""
        with psycopg.connect(url) as host:
            host.execute("SELECT FROM hookrow_dispatches WHERE id = 1 FOR UPDATE")
            answer = receiver(REQUEST)
            assert isinstance(answer, Promise)
            waiting = postgres.wait_for_a_lock(url)
            postgres.execute("SELECT pg_terminate_backend(%s)", waiting)
            assert answer.result(PATIENCE).status == 503
        assert recovers(receiver)

    def test_a_transaction_that_lost_its_connection_changes_nothing(
        self, store: SQLStore, postgres: Server, url: str
    ) -> None:
        """The store says that the database is unavailable, and what was saved is not."""
        change = SetTime(1, EventTime.OPENED, NOON, guarded=False)
        with pytest.raises(Unavailable), store.transaction() as transaction:  # noqa: PT012
            transaction.lock([change.row])
            transaction.write([change])
            postgres.terminate(url)
        opened_at = "SELECT opened_at FROM hookrow_dispatches WHERE id = 1"
        assert postgres.execute(opened_at, url=url) == [(None,)]
        assert statuses(record(store, [arrival(opens("ada@example.com", "m-ada"))])) == [200]

    def test_a_restart_costs_nothing_where_nothing_is_under_way(
        self, receiver: Receiver, postgres: Server
    ) -> None:
        """The server comes back before the next notification: nobody notices."""
        assert post(receiver) == 200
        postgres.restart()
        assert post(receiver) == 200

    def test_a_column_that_the_host_alters_costs_an_answer_at_most(
        self, receiver: Receiver, postgres: Server, url: str
    ) -> None:
        """Prepared statements that no longer fit are prepared anew."""
        for _ in range(10):  # psycopg prepares what it has seen five times
            assert post(receiver) == 200
        postgres.execute("ALTER TABLE hookrow_subscribers ALTER email TYPE text", url=url)
        assert recovers(receiver)
        assert post(receiver) == 200


class TestServerDown:
    def test_down_and_up_again(self, receiver: Receiver, postgres: Server) -> None:
        """While the server is down 503, and then well again without anybody's help."""
        assert post(receiver) == 200
        postgres.stop()
        try:
            begun = time.monotonic()
            assert [post(receiver) for _ in range(3)] == [503] * 3
            assert time.monotonic() - begun < 1.0 + SLACK
        finally:
            postgres.start()
        assert recovers(receiver)

    def test_down_at_the_beginning(
        self, postgres: Server, url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Construction warns; tables are looked for when the server is there."""
        postgres.stop()
        try:
            with caplog.at_level(logging.WARNING, "hookrow"):
                store = SQLStore(url)
            assert "cannot be reached yet" in caplog.text
            receiver = Receiver(Postmark("secret"), store, deadline=1.0)
            assert post(receiver) == 503
        finally:
            postgres.start()
        assert recovers(receiver)
        receiver.close(PATIENCE)
        store.close()

    def test_a_schema_that_does_not_fit_is_found_when_the_server_comes(
        self, postgres: Server, url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Until the table is there the log names it, and every answer is 503."""
        postgres.stop()
        try:
            store = SQLStore(url)
        finally:
            postgres.start()
        postgres.execute("ALTER TABLE hookrow_dispatches RENAME TO sends", url=url)
        receiver = Receiver(Postmark("secret"), store, deadline=1.0)
        assert post(receiver) == 503
        assert "no table 'hookrow_dispatches'" in caplog.text
        postgres.execute("ALTER TABLE sends RENAME TO hookrow_dispatches", url=url)
        assert recovers(receiver)
        receiver.close(PATIENCE)
        store.close()

    def test_a_folder_that_is_not_there_yet(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """An SQLite file out of reach is a warning too."""
        with caplog.at_level(logging.WARNING, "hookrow"):
            store = SQLStore(f"sqlite:///{tmp_path}/no/such/folder/hookrow.db")
        assert "cannot be reached yet" in caplog.text
        with pytest.raises(Unavailable):
            record(store, [arrival(opens("ada@example.com", "m-ada"))])


class TestFrozenServer:
    def test_answers_come_within_the_deadline(self, receiver: Receiver, postgres: Server) -> None:
        """A server that stands still costs 503s in time, and is well again when it goes on."""
        assert post(receiver) == 200
        with postgres.frozen():
            begun = time.monotonic()
            answers = [receiver(REQUEST) for _ in range(5)]
            told = [
                (answer.result(PATIENCE) if isinstance(answer, Promise) else answer).status
                for answer in answers
            ]
            assert told == [503] * 5
            assert time.monotonic() - begun < 1.0 + SLACK
        assert recovers(receiver)

    def test_a_transaction_gives_up(
        self, postgres: Server, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What waits for a server that says nothing ends, and the next one is well again."""
        monkeypatch.setattr("hookrow.stores.watch.TRANSACTION_TIMEOUT", 0.5)
        told = [arrival(opens("ada@example.com", "m-ada"))]
        with closing(SQLStore(url)) as store:
            with pytest.raises(Unavailable), store.transaction() as transaction, postgres.frozen():
                transaction.find(mentioned(told))
            assert statuses(record(store, told)) == [200]

    def test_a_first_connection_gives_up(self, postgres: Server, url: str) -> None:
        """Where the server takes a connection and says nothing, construction does not hang."""
        with postgres.frozen():
            begun = time.monotonic()
            store = SQLStore(url)
            assert time.monotonic() - begun < 3.0 + SLACK
        assert statuses(record(store, [arrival(opens("ada@example.com", "m-ada"))])) == [200]
        store.close()


_FORK = """
import os, sys, traceback
from hookrow.promise import Promise
from hookrow import Postmark, Receiver
from hookrow.stores.sql import SQLStore
from sqlalchemy import text
from test_outages import REQUEST, PATIENCE

store = SQLStore(sys.argv[1])
receiver = Receiver(Postmark("secret"), store)

def post():
    return receiver(REQUEST).result(PATIENCE).status

def backend():
    with store.engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            return id(connection.connection.dbapi_connection)
        return connection.scalar(text("SELECT pg_backend_pid()"))

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

say("parent", post(), backend())
child = os.fork()
if child == 0:
    try:
        say("child", post(), backend())
        receiver.close(PATIENCE)
        store.close()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
status = os.waitpid(child, 0)[1]
say("parent", post(), backend())
receiver.close(PATIENCE)
store.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_fork_gets_connections_of_its_own(kind: str, request: pytest.FixtureRequest) -> None:
    """After a fork child and parent both go on, and neither uses what is the other's."""
    url: str = request.getfixturevalue(f"empty_{kind}_url")
    with closing(SQLHome(url, OURS)) as home:
        fill(home)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORK, url],
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, child, after = (line.split() for line in done.stdout.splitlines())
    assert [before[:2], child[:2], after[:2]] == [
        ["parent", "200"],
        ["child", "200"],
        ["parent", "200"],
    ]
    assert before[2] == after[2] != child[2]
