"""Looking through a log: nothing is missed, and no page takes long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from hookrow.entry import Ending
from hookrow.figures import Figures, searching, tally
from hookrow.figures.searching import Found, search
from hookrow.figures.tally import Tally
from hookrow.stores.log import LATE, LogReader, Query
from hookrow.stores.memory import MemoryStore
from test_figures_tally import entry, keep, work

NOW = datetime.now(UTC)
MINUTE = timedelta(minutes=1)
ODD = Query(outcome=Ending.UNSUPPORTED)
BOUNCES = Query(record_type="Bounce")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look through few entries at a time."""
    monkeypatch.setattr(searching, "NARROWEST", 3)
    monkeypatch.setattr(searching, "BUDGET", 60.0)
    monkeypatch.setattr(tally, "CHUNK", 10)
    monkeypatch.setattr(tally, "UNSETTLED", 3)
    monkeypatch.setattr(tally, "REST", 0)


@pytest.fixture
def log() -> LogReader:
    """Return a log of a hundred: the 7th, the 50th and the 55th are odd, a minute between each."""
    odd = {"outcome": Ending.UNSUPPORTED, "record_type": "Bounce"}
    return keep(
        MemoryStore(),
        *(
            entry(n, NOW + n * MINUTE, **(odd if n in {7, 50, 55} else {}))
            for n in range(1, 101)
        ),
    )  # fmt: skip


def ids(found: Found) -> list[int]:
    """Return the ids of what was found."""
    return [each.id for each in found.entries]


def pages(log: LogReader, query: Query, *, limit: int) -> Iterator[list[int]]:
    """Turn the pages to the end."""
    found = search(log, query, limit=limit)
    yield ids(found)
    while found.before is not None:
        found = search(log, query, before=found.before, limit=limit)
        yield ids(found)


@pytest.mark.parametrize("budget", [60.0, 0.0])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(), [*range(100, 0, -1)]),
        (ODD, [55, 50, 7]),
        (Query(recipient="nobody@example.com"), []),
        (Query(since=NOW + 50 * MINUTE, outcome=Ending.UNSUPPORTED), [55, 50]),
        (Query(until=NOW + 50 * MINUTE, record_type="Bounce"), [7]),
        (Query(since=NOW + 98 * MINUTE, until=NOW + 100 * MINUTE), [99, 98]),
    ],
)
@pytest.mark.parametrize("limit", [2, 50])
def test_page_by_page_everything_is_found(
    log: LogReader, monkeypatch: pytest.MonkeyPatch, budget: float, query: Query,
    expected: list[int], limit: int,
) -> None:  # fmt: skip
    """Once and in order, however little time there is for a page."""
    monkeypatch.setattr(searching, "BUDGET", budget)
    found = list(pages(log, query, limit=limit))
    assert [id_ for page in found for id_ in page] == expected
    assert max(map(len, found)) <= limit


def test_a_page_ends_with_its_time(log: LogReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Full or not; it says from where to look on."""
    assert search(log, ODD, limit=9) == Found(log.newest(ODD, limit=9), None)
    monkeypatch.setattr(searching, "BUDGET", 0.0)
    assert search(log, ODD, limit=9) == Found([], 98)
    assert search(log, ODD, before=53, limit=9) == Found(log.newest(ODD, before=53, limit=1), 50)
    assert search(log, ODD, before=3, limit=9) == Found([], None)


def test_an_empty_log_has_nothing() -> None:
    """And no page after that."""
    assert search(keep(MemoryStore()), ODD, limit=9) == Found([], None)


class TestWithATally:
    @pytest.mark.parametrize("query", [ODD, BOUNCES])
    def test_what_holds_none_is_passed_over(self, log: LogReader, query: Query) -> None:
        """But for the newest, where some may have come since they were counted."""
        made, everything = Tally(log), [(1, 100)]
        assert list(made.runs(query, 1, 100)) == everything
        work(made, NOW + 100 * MINUTE)
        assert list(made.runs(query, 1, 100)) == [(90, 100), (50, 59), (1, 9)]
        assert list(made.runs(query, 4, 55)) == [(50, 55), (4, 9)]
        assert list(made.runs(Query(), 1, 100)) == everything
        assert list(made.runs(Query(outcome=Ending.FAILED), 1, 80)) == []
        assert list(made.runs(query, 1, 0)) == []

    def test_what_came_since_is_found(self) -> None:
        """And what was there before, with and without a log."""
        store = MemoryStore()
        keep(store, *(entry(n, NOW, outcome=Ending.UNSUPPORTED) for n in range(3)))
        with closing(Figures(store)) as made:
            assert ids(made.search(ODD, limit=9)) == [3, 2, 1]
            assert ids(made.search(ODD, before=2, limit=9)) == [1]
        store.log = None
        with closing(Figures(store)) as made:
            assert made.search(ODD, limit=9) == Found([], None)


def test_the_end_of_time_is_no_mistake(log: LogReader) -> None:
    """Nothing comes after it."""
    last = datetime.max.replace(tzinfo=UTC)
    for until in (last, last - LATE):
        assert len(search(log, Query(until=until), limit=200).entries) == 100
