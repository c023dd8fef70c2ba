"""Dates beside the log: concurrent changes of a row, deleted rows, and stores without a log."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from uuid import UUID

import pytest
from contract import ADA, NOON, arrival, fill, statuses
from django_home import BARE
from homes import FORGETFUL, UNDATED, SQLHome
from locations import open_home
from sqlalchemy import text

from copying import replace
from hookrow import Arrival, Reactivated, Suppressed
from hookrow.core.rules import affected_rows, decide, lookup_keys, merge
from hookrow.receiver.recorder import record
from hookrow.stores import Transaction
from hookrow.stores.change_dates import key_text
from hookrow.stores.memory import MemoryStore
from hookrow.stores.sql import SQLStore
from postgres import Databases
from wire import PATIENCE

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[SQLHome]:
    schema = BARE if request.param.startswith("django") else UNDATED
    with closing(open_home(request.param, schema, new_database)) as home:
        assert isinstance(home, SQLHome)
        yield home


@pytest.fixture
def home(shared: SQLHome) -> SQLHome:
    fill(shared)
    return shared


def write(transaction: Transaction, sent: Arrival) -> None:
    """Write what a notification changes, and keep the transaction open."""
    outcome = decide(sent, transaction.find(lookup_keys([sent])))
    transaction.lock(affected_rows([outcome]))
    transaction.write(merge([outcome]))


def suppressed(at: timedelta) -> Arrival:
    return arrival(Suppressed(ADA, "m-ada", NOON + at, "HardBounce"))


REACTIVATED = arrival(Reactivated(ADA, "m-ada", NOON))
ORDERS = pytest.mark.parametrize(
    ("at", "wins"),
    [(-HOUR, False), (timedelta(0), True), (HOUR, True)],
    ids=["older", "equal", "newer"],
)


def expect(home: SQLHome, at: timedelta, *, wins: bool) -> None:
    """Assert that the suppression applies in every table, or in none."""
    for rows in home.rows().values():
        assert rows[0]["suppressed_at"] == (NOON + at if wins else None)
    assert {last for *_, last in home.dates()} == {NOON + at if wins else NOON}
    assert len(home.dates()) == 3


@ORDERS
@pytest.mark.parametrize("single", [True, False], ids=["one statement", "several statements"])
@pytest.mark.parametrize(
    "shared", ["postgres", "lent-postgres", "django-postgres"], indirect=True, scope="module"
)
def test_waiting_for_a_row(
    postgres: Databases, home: SQLHome, at: timedelta, *, single: bool, wins: bool
) -> None:
    """A suppression that waits for the rows of a reactivation has no effect if it is older."""
    home.store.queries.single_statement = single
    with ThreadPoolExecutor() as threads:
        with home.store.transaction() as transaction:
            write(transaction, REACTIVATED)
            waiting = threads.submit(record, home.store, [suppressed(at)])
            postgres.wait_for_a_lock(home.url)
        assert statuses(waiting.result(PATIENCE)) == [200]
    expect(home, at, wins=wins)


@ORDERS
@pytest.mark.parametrize(
    "shared", ["sqlite", "lent-sqlite", "django-sqlite"], indirect=True, scope="module"
)
def test_waiting_for_a_file(home: SQLHome, at: timedelta, *, wins: bool) -> None:
    """The same on SQLite, where a transaction waits for the whole file."""
    begun = threading.Event()

    def record_next() -> list[int]:
        begun.set()
        return statuses(record(home.store, [suppressed(at)]))

    with ThreadPoolExecutor() as threads:
        with home.store.transaction() as transaction:
            write(transaction, REACTIVATED)
            waiting = threads.submit(record_next)
            begun.wait(PATIENCE)
        assert waiting.result(PATIENCE) == [200]
    expect(home, at, wins=wins)


@pytest.mark.parametrize("shared", ["postgres", "sqlite"], indirect=True, scope="module")
def test_deleted_row(home: SQLHome) -> None:
    """A row that is deleted after it was found is not dated."""
    sent = suppressed(HOUR)
    with home.store.reading() as reading:
        changes = merge([decide(sent, reading.find(lookup_keys([sent])))])
    with home._engine.begin() as host:
        host.execute(text("DELETE FROM sends WHERE provider_message_id = 'm-ada'"))
    with home.store.transaction() as transaction:
        transaction.write(changes)
    assert [role for role, *_ in home.dates()] == ["subscribers", "subscriptions"]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ([17], "17"),
        (["a key"], "a key"),
        ([UUID(int=1)], f"{1:032}"),
        ([UUID(int=1).bytes], f"{1:032}"),
        ([1, 2], '["1","2"]'),
        (['"', UUID(int=1)], f'["\\"","{1:032}"]'),
    ],
)
def test_key_text(key: list[object], expected: str) -> None:
    """The text of a key does not depend on the types of the database and the driver."""
    assert key_text(key) == expected


@pytest.mark.parametrize("store", [SQLStore, MemoryStore])
def test_without_a_log(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, store: type[SQLStore | MemoryStore]
) -> None:
    """A store warns once that the last change to arrive wins, and names the roles."""
    if store is SQLStore:
        SQLStore(sqlite_url, UNDATED)
        SQLStore(sqlite_url, replace(FORGETFUL, subscriptions=None))
    else:
        MemoryStore(undated=FORGETFUL.undated)
        MemoryStore(undated=replace(FORGETFUL, subscriptions=None).undated, log=None)
    [warning] = caplog.messages
    assert "the suppression of the subscribers, dispatches last changed" in warning
    assert "name a column for suppression_changed_at, or turn on the log." in warning
