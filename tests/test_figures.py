"""The figures of a store: from its log and its tables, while somebody asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from threading import active_count
from time import monotonic
from typing import Any

import msgspec
import pytest

import world
from hookrow import Arrival, Schema, figures, testing
from hookrow.entry import Ending
from hookrow.figures import Figures, Period, counting
from hookrow.figures.counting import Counting, counted
from hookrow.notification import Key
from hookrow.postmark import parse
from hookrow.recording import record
from hookrow.stores import Store, Unavailable
from hookrow.stores.memory import MemoryStore
from hookrow.stores.sql import SQLStore
from wire import eventually

ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
NOW = datetime.now(UTC)
SECOND = timedelta(seconds=1)


def post(store: Store, *payloads: object) -> None:
    """Record payloads as they come."""
    for payload in payloads:
        body = msgspec.json.encode(payload)
        record(store, [Arrival(parse(body), body, datetime.now(UTC))])


def memory() -> MemoryStore:
    """Return a store with a hundred messages, that of number n delivered after n seconds."""
    sent = {n: {"provider_message_id": f"m-{n}", "subscriber_id": 1} for n in range(100)}
    store = MemoryStore(
        subscribers={1: {"email": ADA}},
        dispatches={n: {**row, "sent_at": NOW - n * SECOND} for n, row in sent.items()},
    )
    post(store, *(testing.delivery(ADA, f"m-{n}", at=NOW) for n in range(100)))
    return store


class TestFigures:
    @pytest.fixture
    def made(self) -> Iterator[Figures]:
        """Make the figures of a store in memory."""
        with closing(Figures(memory())) as made:
            yield made

    def test_who_asks_first_sees_what_there_is(self, made: Figures) -> None:
        """The log at once, the tables in a moment; nothing runs before that."""
        threads = active_count()
        seen = made.overview(Period.HOUR, datetime.now(UTC))
        assert active_count() == threads + 2
        assert ([*seen.by_type], seen.total, seen.complete) == (["Delivery"], 100, 1.0)
        assert seen.health.endswith(" ago; none of the last 100 was refused.")
        eventually(lambda: made.counts() is not None)
        counts = made.overview(Period.DAY, datetime.now(UTC)).counts
        assert counts is not None
        assert (counts.sent, counts.delivery_rate, counts.open_rate) == (100, 1.0, 0.0)

    def test_a_store_without_a_log_tells_what_it_can(self) -> None:
        """The tables; and that it has none."""
        store = memory()
        store.log = None
        with closing(Figures(store)) as made:
            eventually(lambda: made.counts() is not None)
            seen = made.overview(Period.MONTH, NOW)
        assert (seen.logged, seen.total, seen.heard) == (False, 0, None)
        assert seen.health == "There is no log, which would tell what came."
        assert seen.counts is not None
        assert (seen.counts.sent, seen.counts.delays) == (100, None)

    def test_nothing_is_counted_that_nobody_asks_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A while after the last question, until the next."""
        made = Figures(memory())
        made._asked = monotonic()
        for seconds, known in ((-1.0, False), (60.0, True)):
            monkeypatch.setattr(figures, "ASKED", seconds)
            made._tallied()
            made._counted()
            assert made._tally is not None
            assert (made._tally.heard is not None) is known
            assert (made._counting.counts is not None) is known

    def test_who_asks_after_a_rest_sees_the_present(
        self, made: Figures, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not what was counted when somebody asked the last time."""
        made.overview(Period.DAY, datetime.now(UTC))
        monkeypatch.setattr(made, "_asked", -figures.ASKED)
        post(made._store, testing.delivery(ADA, "m-1", at=NOW - SECOND))
        assert made.overview(Period.DAY, datetime.now(UTC)).total == 101

    def test_who_asks_is_not_kept_waiting(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the database does not answer it is told that nothing is known yet."""

        def fail(*_: object) -> None:
            raise Unavailable

        store = memory()
        monkeypatch.setattr(type(store.log), "bounds", fail)
        with closing(Figures(store)) as made:
            seen = made.overview(Period.DAY, NOW)
        assert (seen.health, seen.complete) == ("The log is being read.", 0.0)


class TestCounted:
    def test_how_long_a_delivery_took(self) -> None:
        """From when it was sent, of the newest deliveries."""
        delays = counted(memory(), NOW).delays
        assert delays is not None
        assert (delays.median, delays.count) == (49.5 * SECOND, 100)
        assert delays.p95 == 94.05 * SECOND

    def test_it_is_that_of_the_newest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As many as are to be taken, and no further back than is to be looked."""
        monkeypatch.setattr(counting, "_STEP", 7)
        for name, value in {"DELIVERIES": 10, "FURTHEST": 14}.items():
            monkeypatch.setattr(counting, name, value)
            delays = counted(memory(), NOW).delays
            assert delays is not None
            assert (delays.count, delays.median) == (value, (100 - (value + 1) / 2) * SECOND)
            monkeypatch.setattr(counting, name, 10**6)

    @pytest.mark.parametrize("way", [1, -1])
    def test_it_is_counted_seldom(self, way: int) -> None:
        """Again only when some minutes have passed, or the clock was set back by as many."""
        store = memory()
        made = Counting(store)
        assert made.counts is None
        made.work(NOW)
        store.dispatches.clear()
        for later, sent in ((counting.EVERY - SECOND, 100), (counting.EVERY, 0)):
            made.work(NOW + way * later)
            assert made.counts is not None
            assert made.counts.sent == sent

    def test_made_up_reasons_are_bounded(self) -> None:
        """The most frequent are told apart, and all others together; every row is counted."""
        reasons = [None, "", "Bounce", "Bounce", *[counting.OTHERS] * 2, *map(str, range(30))]
        people: dict[Key, dict[str, Any]] = {
            n: {"email": f"{n}@example.com", "suppressed_at": NOW, "suppression_reason": reason}
            for n, reason in enumerate(reasons)
        }
        suppressed = counted(MemoryStore(subscribers=people), NOW).suppressed
        assert len(suppressed) <= counting.REASONS
        assert sum(suppressed.values()) == len(reasons)
        assert (suppressed[None], suppressed["Bounce"], suppressed[counting.OTHERS]) == (2, 2, 16)

    @pytest.mark.parametrize("log", [True, False])
    def test_our_own_tables(self, database_url: str, *, log: bool) -> None:
        """On either database: a delivery took as long as its row was there before."""
        world.fill(database_url)
        schema = Schema() if log else Schema(log=None)
        with closing(SQLStore(database_url, schema)) as store:
            soon = datetime.now(UTC) + 60 * SECOND
            post(store, testing.delivery(ADA, ADAS, at=soon))
            counts = counted(store, NOW)
        assert counts.suppressed == {"HardBounce": 1}
        assert [(each.sent, each.delivered) for each in counts.lists] == [(6, 1), (0, 0)]
        assert (counts.delays is None) is not log
        if counts.delays:
            assert 50 * SECOND < counts.delays.p95 < 70 * SECOND


def test_what_is_refused_is_told_apart() -> None:
    """By outcome, in the words of the log."""
    store = memory()
    post(store, testing.opening(ADA, "not-saved", at=NOW), {"RecordType": "Bounce"})
    with closing(Figures(store)) as made:
        seen = made.overview(Period.WEEK, datetime.now(UTC))
    ends = {each: sum(counts) for each, counts in seen.by_outcome.items()}
    assert ends == {Ending.RECORDED: 100, Ending.DISPATCH_NOT_FOUND: 1, Ending.UNSUPPORTED: 1}
    assert seen.heard is not None
    assert seen.heard.parked == 1
