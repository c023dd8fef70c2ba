"""Figures of real databases: the tally of the log and the counts of hookrow's own tables."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

import world
from hookrow import Arrival, Schema, testing
from hookrow.entry import Ending
from hookrow.figures.counting import counted
from hookrow.figures.tally import Tally
from hookrow.postmark import parse
from hookrow.recording import record
from hookrow.stores.sql import SQLStore

ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize("log", [True, False])
def test_own_tables(database_url: str, *, log: bool) -> None:
    """A delivery is counted in its list and in the tally, with the time since its row was made."""
    world.fill(database_url)
    now = datetime.now(UTC)
    body = msgspec.json.encode(testing.delivery(ADA, ADAS, at=now + MINUTE))
    with closing(SQLStore(database_url, Schema() if log else Schema(log=None))) as store:
        record(store, [Arrival(parse(body), body, now)])
        counts = counted(store, now)
        assert counts.suppressed == {"HardBounce": 1}
        assert [(each.sent, each.delivered) for each in counts.lists] == [(6, 1), (0, 0)]
        assert (counts.delays is None) is not log
        if counts.delays is not None and store.log is not None:
            assert MINUTE / 2 < counts.delays.p95 < 2 * MINUTE
            made = Tally(store.log)
            made.work(now)
            ((cell, number),) = made.cells(now - MINUTE).items()
            assert (cell.record_type, cell.outcome, number) == ("Delivery", Ending.RECORDED, 1)
            assert made.complete(now - timedelta(days=9), now) == 1.0
