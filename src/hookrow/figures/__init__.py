"""The figures of a store: of its log and of its rows, counted in the background."""

from __future__ import annotations

from hookrow.figures.overview import Counts, Delays, Heard, Overview
from hookrow.figures.period import Period

__all__ = ["Counts", "Delays", "Heard", "Overview", "Period"]
