"""Operations on the log whose transactions conflict with those of another process.

This happens most often on a Galera cluster, in which a lock on a row exists on one node only, and
the second of two transactions fails at its commit.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from receiving import NOON, Database, people

from hookrow import testing
from hookrow._receiver.clock import Clock
from hookrow._receiver.entries import POSTMARK
from hookrow._receiver.recorder import record
from hookrow._receiver.replay import ParkedRetry
from hookrow.stores._errors import Conflict
from hookrow.stores.sql import _log as sql_log
from hookrow.stores.sql._connections import Connection
from hookrow.stores.sql._log import CONFLICT_PAUSES, SQLLog
from received import arrival
from wire import ADA

LATER = datetime.now(UTC) + timedelta(days=30)


@pytest.fixture
def database() -> Iterator[Database]:
    """Return a database with two parked notifications; the row of the first one exists now."""
    with closing(people("ada")) as database:
        for email in (ADA, "eve@example.com"):
            record(database, [arrival(testing.opening(email, "m-1", at=NOON))])
        database.tables.add_dispatch("m-1", subscriber=1)
        yield database


@pytest.fixture
def log(database: Database) -> SQLLog:
    """Return its log, whose entries are missing in the hourly counts."""
    log = database.log
    assert log is not None
    while log.count_hours():
        pass
    with log._database.transaction() as connection:
        connection.execute("DELETE FROM hookrow_hours")
    return log


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses, which take no time."""
    pauses: list[float] = []
    monkeypatch.setattr(sql_log, "sleep", pauses.append)
    return pauses


@pytest.fixture
def conflict(database: Database, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that lets a number of commits fail from now on."""
    begin = database.database.transaction
    left = [0]

    @contextmanager
    def transaction() -> Iterator[Connection]:
        with begin() as connection:
            yield connection
            if left[0]:
                left[0] -= 1
                raise Conflict("OperationalError 1213")

    monkeypatch.setattr(database.database, "transaction", transaction)

    def fail(number: int) -> None:
        left[0] = number

    return fail


def expire(log: SQLLog) -> object:
    return log.expire(LATER, origins=POSTMARK.origins)


def recount(log: SQLLog) -> object:
    return log.recount_hours()


def prune(log: SQLLog) -> object:
    return sum(log.prune(before=LATER, parked_before=LATER, bodies_only=False))


def forget(log: SQLLog) -> object:
    return log.forget(ADA).entries


@pytest.mark.parametrize(("work", "number"), [(expire, 2), (recount, 2), (prune, 1), (forget, 1)])
def test_other_operations_are_repeated_after_pauses(
    work: Callable[[SQLLog], object],
    number: int,
    log: SQLLog,
    conflict: Callable[[int], None],
    pauses: list[float],
) -> None:
    """With jitter, because two processes that conflicted would conflict again."""
    conflict(len(CONFLICT_PAUSES) + 1)
    with pytest.raises(Conflict):
        work(log)
    pauses.clear()
    conflict(len(CONFLICT_PAUSES))
    assert work(log) == number
    for pause, about in zip(pauses, CONFLICT_PAUSES, strict=True):
        assert about / 2 <= pause <= about * 1.5


def test_a_sweep_leaves_what_another_process_takes(
    database: Database, log: SQLLog, conflict: Callable[[int], None]
) -> None:
    """The sweep continues with other entries, and a later one retries what is still due."""
    retry = ParkedRetry(database, log, POSTMARK, lambda *_: None, Clock(database))
    with log._database.transaction() as connection:
        connection.execute("UPDATE hookrow_notifications SET retry_at = received_at")
    conflict(1)
    assert log.take([1], LATER) == []
    conflict(1)
    assert retry.retry_due() == 1  # not in the search, but after it
    assert [each.retries for each in database.logged()] == [1, 1]
