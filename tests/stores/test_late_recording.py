"""Replays and changes by hand on PostgreSQL: a row that another transaction has locked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from sqlalchemy import insert

from hookrow import Arrival, Outcome, Recorded, Suppressed
from hookrow.byhand import change_by_hand
from hookrow.quiet import Quiet
from hookrow.replay import matching, record_late
from hookrow.stores import limits
from hookrow.stores.engines import opened
from hookrow.stores.log import Query
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import subscribers
from postgres import Databases

LIMIT = 60.0
"""In seconds; how long a test waits for something that usually comes at once."""

NAMES = ("ada", "bea", "zoe")
HOLD_ADA = "SELECT FROM hookrow_subscribers WHERE id = 1 FOR UPDATE"
AT = datetime.now(UTC) - timedelta(hours=1)


def suppressions(*names: str) -> list[Arrival]:
    """Return suppressions of these people that came an hour ago."""
    told = [Suppressed(f"{name}@example.com", None, AT, "HardBounce") for name in names]
    return [Arrival(each, repr(each).encode(), AT, live=False) for each in told]


@pytest.fixture
def store(postgres_url: str) -> Iterator[SQLStore]:
    """Open a store with three subscribers on PostgreSQL."""
    with opened(postgres_url) as engine, engine.begin() as connection:
        connection.execute(
            insert(subscribers), [{"email": f"{name}@example.com"} for name in NAMES]
        )
    with closing(SQLStore(postgres_url)) as store:
        yield store


def wait_longer_for_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have transactions wait for a row as long as a test may take."""
    longer = {"lock_timeout": LIMIT, "statement_timeout": LIMIT}
    monkeypatch.setattr(limits, "_LIMITS", longer)
    for module, local in (("autocommit", False), ("engines", True)):
        statement = limits.set_limits(local=local, prepared=True)
        monkeypatch.setattr(f"hookrow.stores.{module}._LIMITS", statement)


def record_two_late(store: SQLStore) -> list[Outcome]:
    """Record two suppressions that came earlier."""
    return record_late(store, suppressions("ada", "bea"), quiet=Quiet())


def change_one(store: SQLStore) -> list[Outcome]:
    """Suppress one subscriber by hand."""
    return [change_by_hand(store, "ada@example.com", reason="a letter", by="eve", at=AT)]


@pytest.mark.parametrize("work", [record_two_late, change_one])
def test_row_that_is_locked_for_a_moment(
    store: SQLStore,
    postgres_url: str,
    postgres: Databases,
    work: Callable[[SQLStore], list[Outcome]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The row is waited for, and the notification is counted once."""
    wait_longer_for_rows(monkeypatch)
    with psycopg.connect(postgres_url) as host, ThreadPoolExecutor() as threads:
        host.execute(HOLD_ADA)
        outcomes = threads.submit(work, store)
        postgres.wait_for_a_lock(postgres_url)
        host.rollback()
        assert all(isinstance(each, Recorded) for each in outcomes.result(LIMIT))
    assert store.log is not None
    assert {each.attempts for group in matching(store.log, Query()) for each in group} == {1}
