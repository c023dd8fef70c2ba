"""The tally of a log: what it counts first, what it counts anew, and that nothing is missed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hookrow.entry import Ending, Entry
from hookrow.figures import tally
from hookrow.figures.tally import Tally
from hookrow.stores import Store
from hookrow.stores.log import Cell, LogReader
from hookrow.stores.memory import MemoryStore
from hookrow.stores.sql import SQLStore

NOW = datetime.now(UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
EVER = NOW - 4000 * DAY


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """Return a store with an empty log, of each kind."""
    if request.param == "memory":
        yield MemoryStore()
        return
    with closing(SQLStore(request.getfixturevalue(f"{request.param}_url"))) as store:
        yield store


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count in small chunks, and never rest."""
    for name, value in {"CHUNK": 10, "UNSETTLED": 3, "RECENT": 5, "REST": 0}.items():
        monkeypatch.setattr(tally, name, value)


def entry(number: int, came: datetime, **columns: Any) -> Entry:  # noqa: ANN401 - of any column
    """Return an entry; the number tells it apart."""
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


def keep(store: Store, *entries: Entry) -> LogReader:
    """Keep entries, each in a transaction of its own; return what reads the log."""
    for each in entries:
        with store.transaction() as transaction:
            transaction.write((), [each])
    assert store.log is not None
    return store.log


def work(made: Tally, now: datetime = NOW) -> None:
    """Count all that is not counted yet."""
    made.work(now)
    while made._due:
        made.work(now)


def counted(made: Tally) -> dict[tuple[str | None, Ending], int]:
    """Return what a tally has counted ever, by type and outcome."""
    found: dict[tuple[str | None, Ending], int] = {}
    for cell, count in made.cells(EVER).items():
        of = (cell.record_type, cell.outcome)
        found[of] = found.get(of, 0) + count
    return found


RECORDED = ("Open", Ending.RECORDED)
FAILED = ("Open", Ending.FAILED)


class TestCounting:
    def test_an_empty_log_is_complete(self, store: Store) -> None:
        """And nobody was heard of; before the first look nothing is known at all."""
        made = Tally(keep(store))
        assert (made.heard, made.complete(NOW - DAY, NOW)) == (None, 0.0)
        work(made)
        assert made.heard is not None
        assert (made.heard.last, dict(made.heard.recent), made.heard.parked) == (None, {}, 0)
        assert (dict(made.cells(EVER)), made.complete(EVER, NOW)) == ({}, 1.0)

    def test_every_entry_is_counted_once(self, store: Store) -> None:
        """By hour, and in the last hour by minute; over the borders of chunks."""
        came = [NOW - 40 * DAY + n * 29 * HOUR for n in range(33)]
        came += [NOW - 59 * MINUTE + n * 7 * MINUTE for n in range(8)]
        made = Tally(keep(store, *(entry(n, at) for n, at in enumerate(came))))
        work(made)
        assert counted(made) == {RECORDED: 41}
        starts = {cell.at for cell in made.cells(EVER)}
        hours = {_minute(at).replace(minute=0) for at in came[:33]}
        assert starts == hours | {_minute(at) for at in came[33:]}
        assert made.complete(EVER, NOW) == 1.0

    def test_what_is_new_is_added(self, store: Store) -> None:
        """With each turn; the present is told too: who came last, and how the newest ended."""
        log = keep(store, *(entry(n, NOW - MINUTE) for n in range(25)))
        made = Tally(log)
        work(made)
        late = entry(30, NOW, outcome=Ending.FAILED, retry_at=NOW + HOUR)
        keep(store, *(entry(n, NOW) for n in range(25, 30)), late)
        work(made, NOW + SECOND)
        assert counted(made) == {RECORDED: 30, FAILED: 1}
        assert made.heard is not None
        assert made.heard.last == NOW
        assert made.heard.recent == {Ending.RECORDED: 4, Ending.FAILED: 1}
        assert (made.heard.parked, made.heard.as_of) == (1, NOW + SECOND)

    def test_the_newest_comes_first(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        """A turn that ends early has counted it; the share of the period is told."""
        monkeypatch.setattr(tally, "TURN", 0.0)
        came = [NOW - 20 * DAY, NOW - 10 * DAY, NOW - 5 * MINUTE, NOW]
        made = Tally(keep(store, *(entry(n, came[n // 10]) for n in range(1, 40))))
        made.work(NOW)
        assert set(made.cells(EVER)) == {Cell(_minute(NOW), *RECORDED)}
        made.work(NOW)
        assert made.complete(NOW - HOUR, NOW) == pytest.approx(1 / 12, abs=0.02)
        made.work(NOW)
        assert made.complete(NOW - 40 * DAY, NOW) == pytest.approx(1 / 4, abs=0.01)
        assert made.complete(NOW - DAY, NOW) == 1.0
        made.work(NOW)
        assert counted(made) == {RECORDED: 39}
        assert made.complete(EVER, NOW) == 1.0

    def test_what_was_pruned_is_gone(self, store: Store) -> None:
        """Chunks at once, of the first that is left when it is its turn; a log may become empty."""
        log = keep(store, *(entry(n, NOW - (40 - n) * DAY) for n in range(40)))
        made = Tally(log)
        work(made)

        def prune(before: datetime) -> None:
            sum(log.prune(before=before, parked_before=before, bodies_only=False))
            work(made)

        prune(NOW - 15 * DAY)
        assert counted(made) == {RECORDED: 21}
        for _ in range(2):
            work(made)
        assert counted(made) == {RECORDED: 15}
        prune(NOW)
        assert counted(made) == {}
        keep(store, *(entry(n, NOW) for n in range(3)))
        work(made)
        assert counted(made) == {RECORDED: 3}


class TestCountingAnew:
    def test_what_ended_otherwise_is_noticed(self, store: Store) -> None:
        """Each time what was counted longest ago is counted anew, and so in turn all."""
        first = entry(1, NOW - 9 * DAY, outcome=Ending.FAILED)
        made = Tally(keep(store, first, *(entry(n, NOW) for n in range(2, 40))))
        work(made)
        assert counted(made) == {RECORDED: 38, FAILED: 1}
        keep(store, replace(first, outcome=Ending.RECORDED))
        for _ in range(4):
            work(made)
        assert counted(made) == {RECORDED: 39}

    @pytest.mark.parametrize("more", [0, 1])
    def test_what_was_committed_late_is_noticed(self, more: int) -> None:
        """An id may turn up behind the newest, of a transaction that took longer.

        Also where nothing comes any more.
        """
        store = MemoryStore()
        log = keep(store, *(entry(n, NOW) for n in range(1, 13)))
        late = store.log.entries.pop((10).to_bytes(16)) if store.log else None
        made = Tally(log)
        work(made)
        assert counted(made) == {RECORDED: 11}
        assert late is not None
        assert store.log is not None
        store.log.entries[late.fingerprint] = late
        keep(store, *(entry(13 + n, NOW) for n in range(more)))
        for _ in range(2):
            work(made)
        assert counted(made) == {RECORDED: 12 + more}

    def test_it_rests_far_longer_than_it_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """So that it takes a tenth of the time, however long a statement takes."""
        store, times, at = MemoryStore(), [], [0.0]
        log = keep(store, entry(1, NOW))

        def count() -> int:
            times.append(at[0])
            at[0] += 1.0
            return 7

        monkeypatch.setattr(tally, "REST", 9)
        monkeypatch.setattr(tally, "monotonic", lambda: at[0])
        monkeypatch.setattr(type(log), "count_parked", lambda _: count())
        made = Tally(log)
        for _ in range(15):
            made.work(NOW)
            at[0] += 2.0
        assert made.heard is not None
        assert (made.heard.parked, times) == (7, [0.0, 11.0, 22.0])


def test_made_up_types_are_bounded() -> None:
    """However many types a sender makes up: the most frequent are told apart."""
    types = {f"Made-{n}": n + 1 for n in range(tally.TYPES + 20)}
    cells = {Cell(_minute(NOW), name, Ending.UNSUPPORTED): count for name, count in types.items()}
    bounded = tally._bounded(cells, NOW)
    assert len(bounded) == tally.TYPES + 1
    assert bounded[Cell(_minute(NOW), None, Ending.UNSUPPORTED)] == sum(range(1, 21))
    assert sum(bounded.values()) == sum(types.values())


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)
