"""hookrow's own PostgreSQL sessions: their time limits, and lost connections."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from math import inf
from threading import Barrier
from unittest.mock import patch

import psycopg
import pytest
from contract import ADA, arrival, fill, insistent, opens, statuses
from homes import OURS, Home
from sqlalchemy import make_url

from copying import replace
from hookrow import Schema
from hookrow._core.rules import lookup_keys
from hookrow._receiver.recorder import record
from hookrow.stores._errors import Locked, StoreError, Unavailable
from hookrow.stores._timeouts import limited_to
from hookrow.stores._watchdog import watchdog
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._connections import Connection, Database
from hookrow.stores.sql._limits import PostgresLimits
from hookrow.stores.sql._postgres import PREPARED_AFTER
from hookrow.stores.sql._verify import verify
from postgres import Databases
from temporary_server import stopped
from wire import PATIENCE, eventually

OPENED = arrival(opens(ADA, "m-ada"))

COUNT = "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()"
"""The sessions besides the one that counts."""


@pytest.fixture
def store(postgres_url: str) -> Iterator[SQLStore]:
    """Open a store with a few rows."""
    with closing(Home(postgres_url, OURS)) as home:
        fill(home)
    with closing(SQLStore(postgres_url)) as store:
        yield store


def test_terminated(store: SQLStore, postgres: Databases, postgres_url: str) -> None:
    """Idle sessions that the server has terminated are replaced, and none is left open."""
    together = Barrier(4)

    def work(_: int) -> None:
        with store.transaction() as transaction:
            together.wait(PATIENCE)
            transaction.write([])

    for _ in range(2):
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))
        eventually(lambda: postgres.execute(COUNT, url=postgres_url) == [(4,)])
        postgres.terminate(postgres_url)
        assert statuses(record(store, [OPENED])) == [200]


def test_prepared_statements(store: SQLStore, postgres: Databases, postgres_url: str) -> None:
    """Statements are prepared again after a column's type or the number of columns changed."""
    retry = insistent(store)
    changes = {
        PREPARED_AFTER + 1: "ALTER TABLE hookrow_subscribers ALTER COLUMN email TYPE text",
        2 * PREPARED_AFTER: "ALTER TABLE hookrow_notifications ADD motto text",
    }
    for number in range(3 * PREPARED_AFTER):
        assert statuses(retry([replace(OPENED, body=b"%d" % number)])) == [200]
        if number in changes:
            postgres.execute(changes[number], url=postgres_url)


SLOW = """
    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$;
    CREATE TRIGGER slow BEFORE UPDATE ON hookrow_dispatches
        FOR EACH ROW EXECUTE FUNCTION slow()
"""


def test_statement_timeout(
    store: SQLStore, postgres: Databases, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that takes too long, here because of a trigger, is ended by the server."""
    postgres.execute(SLOW, url=postgres_url)
    with monkeypatch.context() as limited:
        limited.setitem(PostgresLimits.RECORDING, "statement_timeout", 0.5)
        store.close()  # its session has the limits of the time when it was opened
        with pytest.raises(Locked):
            record(store, [OPENED])
    store.close()
    postgres.execute("DROP FUNCTION slow CASCADE", url=postgres_url)
    assert statuses(record(store, [OPENED])) == [200]


@pytest.mark.parametrize("where", ["database", "url"])
def test_isolation(postgres: Databases, postgres_url: str, where: str) -> None:
    """Every statement and transaction is READ COMMITTED, regardless of the default."""
    url, default = postgres_url, "default_transaction_isolation"
    if where == "url":
        url += f"&options=-c%20{default}%3Dserializable"
    else:
        postgres.execute(f"ALTER DATABASE {make_url(url).database} SET {default} = serializable")
    level, committed = "SELECT current_setting('transaction_isolation')", [("read committed",)]
    with closing(SQLStore(url)) as store:
        with store.transaction() as transaction:
            connection = transaction._connection
            assert connection.fetch(level) == committed
            transaction.lock([])  # begins
            assert connection.fetch(level) == committed
        for block in (store.database.transaction, store.database.reading):
            with block() as connection:
                assert connection.fetch(level) == committed


def test_style_of_dates(store: SQLStore, postgres: Databases, postgres_url: str) -> None:
    """Times are read and checked, whatever form of dates the database has by default."""
    name = make_url(postgres_url).database
    postgres.execute(f"ALTER DATABASE {name} SET datestyle = 'SQL, DMY'")
    assert store.time() is not None
    assert statuses(record(store, [OPENED], checked=True)) == [200]


@contextmanager
def frozen(database: Database) -> Iterator[None]:
    """Stop the server's process of the next session."""
    with database.reading() as connection:
        pid = pid_of(connection)
    with stopped(pid):
        yield


def pid_of(connection: Connection) -> int:
    """Return the id of the server's process for this session."""
    ((pid,),) = connection.fetch("SELECT pg_backend_pid()")
    return int(pid)


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply no time limit but those of the test: without one, a stopped process continues first."""
    monkeypatch.setattr("hookrow.stores._watchdog.TRANSACTION_TIMEOUT", 2 * PATIENCE)


def test_no_session_is_opened_for_a_new_store(postgres_url: str) -> None:
    """A store can be created while the server does not respond."""
    with patch("psycopg.connect") as connect, closing(SQLStore(postgres_url)):
        pass
    connect.assert_not_called()


@pytest.mark.usefixtures("unlimited")
def test_frozen_server(store: SQLStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read and a verification end in time if the server does not respond."""
    with (
        frozen(store.database),
        pytest.raises(Unavailable),
        limited_to(0.1),
        store.reading() as reading,
    ):
        reading.read([])
    with monkeypatch.context() as limited:
        limited.setattr("hookrow.stores.sql._verify.STATEMENT_TIMEOUT", 0.1)
        with frozen(store.database), pytest.raises(Unavailable):
            verify(store.database, Schema())
    assert statuses(record(store, [OPENED])) == [200]


@pytest.mark.usefixtures("unlimited")
def test_an_idle_session_that_does_not_respond_uses_the_time_of_a_new_one(
    store: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connecting to a server that does not respond, too, would end after the time limit."""
    monkeypatch.setattr("hookrow.stores.sql._connections.IDLE", -1.0)
    with (
        frozen(store.database),
        patch("psycopg.connect") as connect,
        pytest.raises(Unavailable, match="No time is left to connect"),
        limited_to(0.1),
        store.database.recording(),
    ):
        pass
    connect.assert_not_called()


@pytest.mark.parametrize(
    ("option", "seconds", "expected"),
    [
        ("", inf, 3),
        ("", 2.5, 2),
        ("", 0.5, 1),
        ("connect_timeout=2", inf, "2"),
        ("connect_timeout=2", 9.5, 2),
        ("connect_timeout=9", 5.5, 5),
        ("connect_timeout=0", 5.5, 5),
        ("connect_timeout=soon", 5.5, "soon"),
    ],
)
def test_connecting_takes_no_longer_than_the_time_limit(
    option: str, seconds: float, expected: object
) -> None:
    refused = psycopg.OperationalError("refused")
    with (
        closing(SQLStore(f"postgresql://127.0.0.1/mail?{option}")) as store,
        patch("psycopg.connect", side_effect=refused) as connect,
        pytest.raises(StoreError),
        limited_to(seconds),
        store.database.recording(),
    ):
        pass
    assert connect.call_args.kwargs["connect_timeout"] == expected


@pytest.mark.usefixtures("unlimited")
def test_server_that_freezes_while_reading(store: SQLStore) -> None:
    """A read ends in time if the server stops responding in the middle."""
    with pytest.raises(Unavailable), limited_to(0.5), store.database.reading() as connection:  # noqa: SIM117 - stops in it
        with stopped(pid_of(connection)):
            connection.fetch("SELECT 1")


@pytest.mark.usefixtures("unlimited")
def test_new_session_without_a_response(store: SQLStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first statement of a session ends in time, for example behind a pooler that waits."""
    slow = f"SELECT FROM pg_sleep({PATIENCE})"
    monkeypatch.setattr(PostgresLimits, "session", lambda _: slow)
    store.close()
    with pytest.raises(Unavailable), limited_to(0.1), store.database.recording():
        pass


def test_session_that_freezes_while_writing(
    store: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction ends although the server does not respond, and the next one succeeds."""
    with monkeypatch.context() as limited:
        limited.setattr("hookrow.stores._watchdog.TRANSACTION_TIMEOUT", 0.5)
        with pytest.raises(Unavailable), store.transaction() as transaction:  # noqa: SIM117 - stops in it
            with stopped(pid_of(transaction._connection)):
                transaction.find(lookup_keys([OPENED]))
    assert statuses(record(store, [OPENED])) == [200]


def test_nested_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of an inner block leaves the connection watched by the outer one."""
    monkeypatch.setattr("hookrow.stores._watchdog.TRANSACTION_TIMEOUT", 0.05)
    monkeypatch.setattr("hookrow.stores._watchdog.GRACE", 0)
    ours, theirs = socket.socketpair()
    with ours, theirs, watchdog.watch_socket(ours):
        with watchdog.watch_socket(ours):
            pass
        theirs.settimeout(PATIENCE)
        assert theirs.recv(1) == b""
