"""Comparing the database's clock with this machine's."""

from __future__ import annotations

import pytest

from hookrow import clocks
from hookrow.finding import Explained

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("ahead", "text", "risk"),
    [
        (3 * 86_400, "3 days behind", "more than 24 hours ahead of it is not trusted"),
        (70, "70 seconds behind", "is not trusted"),
        (-5 * 3600, "5 hours ahead of", "overrides newer changes"),
    ],
)
def test_difference(monkeypatch: pytest.MonkeyPatch, ahead: float, text: str, risk: str) -> None:
    """A difference of more than a minute is a warning with its size, risk and remedy."""
    monkeypatch.setattr(clocks, "time", lambda: NOW)
    [finding] = clocks.compare(lambda: NOW + ahead)
    assert isinstance(finding, Explained)
    assert finding.text == f"This machine's clock is {text} the database's."
    assert risk in finding.means
    assert "NTP" in finding.change


@pytest.mark.parametrize(("before", "after"), [(-60, -60), (60, 60), (-600, 600)])
def test_tolerance(monkeypatch: pytest.MonkeyPatch, before: float, after: float) -> None:
    """A difference of up to a minute is not reported, and neither is the query's duration."""
    times = iter([NOW + before, NOW + after])
    monkeypatch.setattr(clocks, "time", lambda: next(times))
    assert not list(clocks.compare(lambda: NOW))
