"""The tally of a log, and the search that it shortens: each entry counts once, none is missed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hookrow.entry import Ending, Entry
from hookrow.figures import Heard, searching, tally
from hookrow.figures.searching import Found, search
from hookrow.figures.tally import Tally
from hookrow.stores.log import Query
from hookrow.stores.memory import MemoryStore
from hookrow.stores.memory_log import MemoryLog

NOW = datetime.now(UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
EVER = NOW - 4000 * DAY
RECORDED, FAILED = ("Open", Ending.RECORDED), ("Open", Ending.FAILED)
UNSUPPORTED = Query(outcome=Ending.UNSUPPORTED)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count in small chunks, look through few entries at a time, and never rest."""
    for name, value in {"CHUNK": 10, "UNSETTLED": 3, "RECENT": 5, "REST": 0, "TURN": 60.0}.items():
        monkeypatch.setattr(tally, name, value)
    monkeypatch.setattr(searching, "NARROWEST", 3)
    monkeypatch.setattr(searching, "BUDGET", 60.0)


@pytest.fixture
def store() -> MemoryStore:
    """Return a store with an empty log."""
    return MemoryStore()


def entry(number: int, came: datetime, **columns: Any) -> Entry:  # noqa: ANN401 - of any column
    """Return an entry that is identified by its number."""
    given = Entry(
        fingerprint=number.to_bytes(16),
        record_type="Open",
        message_id=f"m-{number}",
        recipient="ada@example.com",
        occurred_at=came,
        outcome=Ending.RECORDED,
        status=200,
        attempts=1,
        received_at=came,
        last_received_at=came,
        ended_at=came,
        retry_at=None,
        body=None,
    )
    return replace(given, **columns)


def keep(store: MemoryStore, *entries: Entry) -> MemoryLog:
    """Write entries, each in a transaction of its own; return the log."""
    for each in entries:
        with store.transaction() as transaction:
            transaction.write((), [each])
    assert store.log is not None
    return store.log


def work(made: Tally, now: datetime = NOW, times: int = 1) -> None:
    """Count everything that is not counted yet, and so many times something anew."""
    for _ in range(times):
        made.work(now)
        while made._due:
            made.work(now)


def counted(made: Tally) -> dict[tuple[str | None, Ending], int]:
    """Return all counts, by type and outcome."""
    found: Counter[tuple[str | None, Ending]] = Counter()
    for cell, count in made.cells(EVER).items():
        found[cell.record_type, cell.outcome] += count
    return dict(found)


def minute(at: datetime) -> datetime:
    """Return the beginning of a minute."""
    return at.replace(second=0, microsecond=0)


def test_counts(store: MemoryStore) -> None:
    """Every entry is counted once, by hour and in the last hour by minute."""
    came = [NOW - 40 * DAY + n * 29 * HOUR for n in range(33)]
    came += [NOW - 59 * MINUTE + n * 7 * MINUTE for n in range(8)]
    made = Tally(keep(store, *(entry(n, at) for n, at in enumerate(came))))
    assert (made.heard, made.complete(EVER, NOW)) == (None, 0.0)
    work(made)
    assert (counted(made), made.complete(EVER, NOW)) == ({RECORDED: 41}, 1.0)
    hours = {minute(at).replace(minute=0) for at in came[:33]}
    assert {cell.at for cell in made.cells(EVER)} == hours | {minute(at) for at in came[33:]}


def test_new_entries(store: MemoryStore) -> None:
    """Each turn adds what is new, also to an empty log, and how the newest entries ended."""
    made = Tally(keep(store))
    work(made)
    assert (counted(made), made.complete(EVER, NOW)) == ({}, 1.0)
    keep(store, *(entry(n, NOW - MINUTE) for n in range(25)))
    work(made)
    late = entry(30, NOW, outcome=Ending.FAILED, retry_at=NOW + HOUR)
    keep(store, *(entry(n, NOW) for n in range(25, 30)), late)
    work(made, NOW + SECOND)
    assert counted(made) == {RECORDED: 30, FAILED: 1}
    recent = {Ending.RECORDED: 4, Ending.FAILED: 1}
    assert made.heard == Heard(as_of=NOW + SECOND, last=NOW, recent=recent, parked=1)


def test_pruned_entries(store: MemoryStore) -> None:
    """Entries that were pruned are no longer counted after some turns."""
    log = keep(store, *(entry(n, NOW - (40 - n) * DAY) for n in range(40)))
    made = Tally(log)
    for before, count in ((EVER, 40), (NOW - 15 * DAY, 15), (NOW, 0)):
        sum(log.prune(before=before, parked_before=before, bodies_only=False))
        work(made, times=3)
        assert sum(counted(made).values()) == count
    keep(store, entry(1, NOW))
    work(made)
    assert counted(made) == {RECORDED: 1}


def test_changed_outcome(store: MemoryStore) -> None:
    """Each turn counts the oldest counts anew, so that a changed outcome is noticed."""
    first = entry(1, NOW - 9 * DAY, outcome=Ending.FAILED)
    made = Tally(keep(store, first, *(entry(n, NOW) for n in range(2, 40))))
    work(made)
    assert counted(made) == {RECORDED: 38, FAILED: 1}
    keep(store, replace(first, outcome=Ending.RECORDED))
    work(made, times=4)
    assert counted(made) == {RECORDED: 39}


def test_committed_late(store: MemoryStore) -> None:
    """An entry with a lower id than the newest, committed later, is noticed."""
    log = keep(store, *(entry(n, NOW) for n in range(1, 13)))
    late = log.entries.pop((9).to_bytes(16))
    made = Tally(log)
    work(made)
    assert counted(made) == {RECORDED: 11}
    log.entries[late.fingerprint] = late
    work(made, times=2)
    assert counted(made) == {RECORDED: 12}


def ids(found: Found) -> list[int]:
    """Return the ids of the entries."""
    return [each.id for each in found.entries]


class TestSearch:
    @pytest.fixture
    def log(self, store: MemoryStore) -> MemoryLog:
        """Return a log of 100 entries, one a minute; numbers 7, 50 and 55 are unsupported."""
        odd = {"outcome": Ending.UNSUPPORTED, "record_type": "Bounce"}
        columns = {n: odd if n in {7, 50, 55} else {} for n in range(1, 101)}
        return keep(store, *(entry(n, NOW + n * MINUTE, **more) for n, more in columns.items()))

    @pytest.mark.parametrize(("limit", "budget"), [(2, 60.0), (50, 0.0)])
    def test_pages(
        self, log: MemoryLog, monkeypatch: pytest.MonkeyPatch, limit: int, budget: float
    ) -> None:
        """All pages together have each entry once and in order, however short the time is."""
        monkeypatch.setattr(searching, "BUDGET", budget)
        half, end = NOW + 50 * MINUTE, NOW + 100 * MINUTE
        for query, expected in (
            (Query(), [*range(100, 0, -1)]),
            (UNSUPPORTED, [55, 50, 7]),
            (Query(recipient="nobody@example.com"), []),
            (Query(since=half, outcome=Ending.UNSUPPORTED), [55, 50]),
            (Query(until=half, record_type="Bounce"), [7]),
            (Query(since=end - 2 * MINUTE, until=end), [99, 98]),
        ):
            found = search(log, query, limit=limit)
            all_ids = ids(found)
            while found.before is not None:
                found = search(log, query, before=found.before, limit=limit)
                assert len(found.entries) <= limit
                all_ids += ids(found)
            assert all_ids == expected
