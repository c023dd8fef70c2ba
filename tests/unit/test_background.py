"""Work that is repeated in a thread."""

from __future__ import annotations

import pytest
from receiving import LIMIT

from hookrow.periodic import Periodic
from wire import eventually


def test_periodic_work(caplog: pytest.LogCaptureFixture) -> None:
    """Work is repeated until it is closed; a failure is logged once and does not end it."""
    times: list[int] = []

    def work() -> None:
        times.append(len(times))
        if len(times) < 3:
            raise ValueError("what")

    periodic = Periodic(work, seconds=0.001, name="sweep")
    periodic.start()
    eventually(lambda: len(times) >= 5, seconds=LIMIT)
    periodic.close(LIMIT)
    count = len(times)
    periodic.start()
    periodic.close(LIMIT)
    assert len(times) == count
    assert caplog.messages == ["The sweep failed: ValueError: what"]
