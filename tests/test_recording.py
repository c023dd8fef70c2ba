"""Recording: one transaction for rows and log, and what is kept where the work fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread

import psycopg
import pytest
from sqlalchemy import insert

from hookrow import Arrival, Opened, Recorded, Schema
from hookrow.entry import Ending, Logged
from hookrow.migrations import upgrade
from hookrow.notification import Refusal
from hookrow.recording import keep_failed, record
from hookrow.stores import Locked, Unavailable
from hookrow.stores.engines import opened
from hookrow.stores.limits import limited_to
from hookrow.stores.log import Query
from hookrow.stores.memory import MemoryStore, MemoryTransaction
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import dispatches, subscribers

PATIENCE = 20.0
"""In seconds; how long a test waits for what should come at once, on a machine that is busy."""

ADA, BEA = "ada@example.com", "bea@example.com"


def arrivals(*names: tuple[str, str]) -> list[Arrival]:
    """Return opens of these recipients and messages, which arrive now."""
    now = datetime.now(UTC)
    return [Arrival(Opened(*each, now), repr(each).encode(), now) for each in names]


def filled(url: str) -> SQLStore:
    """Open a store with a dispatch to each of the two."""
    with opened(url) as engine, engine.begin() as connection:
        connection.execute(insert(subscribers), [{"email": email} for email in (ADA, BEA)])
        sent = [{"provider_message_id": f"m-{n}", "subscriber_id": n} for n in (1, 2)]
        connection.execute(insert(dispatches), sent)
    return SQLStore(url)


@pytest.fixture
def store(database_url: str) -> Iterator[SQLStore]:
    """Open a store on each kind of database."""
    with closing(filled(database_url)) as store:
        yield store


def logged(store: SQLStore | MemoryStore) -> list[Logged]:
    """Read the log, oldest first."""
    assert store.log is not None
    return [*store.log.oldest(Query(), limit=99)]


def test_an_outcome_each_in_the_order_of_arrival(store: SQLStore) -> None:
    """And each in the log, with when it ended."""
    begun = datetime.now(UTC)
    told = arrivals((ADA, "m-1"), (BEA, "m-1"), (BEA, "m-2"), ("nobody@example.com", "m-1"))
    outcomes = record(store, told)
    assert [type(each) is Recorded for each in outcomes] == [True, False, True, False]
    assert sorted(each.outcome.value for each in logged(store)) == [
        *("recipient_mismatch", "recorded", "recorded", "subscriber_not_found")
    ]
    assert all(begun <= each.ended_at <= datetime.now(UTC) for each in logged(store))


def test_without_bodies_none_is_kept(store: SQLStore) -> None:
    """What was said of it is, and nothing is parked."""
    record(store, arrivals((ADA, "m-1"), (ADA, "m-nowhere")), bodies=False)
    keep_failed(store, arrivals((BEA, "m-2")), bodies=False)
    assert {(each.body, each.retry_at) for each in logged(store)} == {(None, None)}
    assert {each.message_id for each in logged(store)} == {"m-1", "m-2", "m-nowhere"}


def test_what_is_held_fails_and_is_parked(postgres_url: str) -> None:
    """Its neighbours are recorded in the same transaction."""
    told = arrivals((ADA, "m-1"), (BEA, "m-2"))
    with closing(filled(postgres_url)) as store:
        with psycopg.connect(postgres_url) as host:
            host.execute("SELECT FROM hookrow_dispatches WHERE id = 1 FOR UPDATE")
            [held, recorded] = record(store, told, skip_locked=True)
        kept = {each.message_id: each for each in logged(store)}
    assert held == Refusal.FAILED.refused()
    assert isinstance(recorded, Recorded)
    assert (kept["m-1"].outcome, kept["m-2"].outcome) == (Ending.FAILED, Ending.RECORDED)
    assert kept["m-1"].retry_at is not None


def test_a_database_that_is_gone_is_told(tmp_path: Path) -> None:
    """Nothing is recorded, and nothing kept."""
    url = f"sqlite:///{tmp_path}/hookrow.db"
    with opened(url) as engine:
        upgrade(engine, Schema())
    with closing(filled(url)) as store:
        (tmp_path / "hookrow.db").rename(tmp_path / "elsewhere.db")
        (tmp_path / "hookrow.db").mkdir()
        for work in (record, keep_failed):
            with pytest.raises(Unavailable):
                work(store, arrivals((ADA, "m-1")))
    with closing(SQLStore(f"sqlite:///{tmp_path}/elsewhere.db")) as store:
        assert logged(store) == []


def test_a_store_without_a_log_records(store: SQLStore) -> None:
    """There is nothing to be kept, and nothing wrong with that."""
    memory = MemoryStore(subscribers={1: {"email": ADA}}, log=None)
    told = arrivals((ADA, "m-1"))
    assert record(memory, told) == [Refusal.DISPATCH_NOT_FOUND.refused()]
    keep_failed(memory, told)
    assert memory.log is None
    assert logged(store) == []


def test_one_large_notification_at_a_time() -> None:
    """Another large one waits until it is written, and no longer than there is time."""

    class Slow(MemoryStore):
        @contextmanager
        def transaction(self, *, skip_locked: bool = False) -> Iterator[MemoryTransaction]:
            begun.set()
            assert released.wait(PATIENCE)
            with super().transaction(skip_locked=skip_locked) as transaction:
                yield transaction

    begun, released = Event(), Event()
    small = Arrival(None, b"{}", datetime.now(UTC))
    large = replace(small, body=b"\xff" * 1024 * 1024)
    slow, other = Slow(), MemoryStore()
    thread = Thread(target=record, args=(slow, [large]))
    thread.start()
    assert begun.wait(PATIENCE)
    assert len(record(other, [small])) == 1
    with limited_to(0.02), pytest.raises(Locked):
        record(other, [large])
    released.set()
    thread.join(PATIENCE)
    assert len(record(other, [large])) == 1
    assert [each.log and len(each.log.entries) for each in (slow, other)] == [1, 2]
