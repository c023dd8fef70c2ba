"""Plans: what a comparison runs, and how long that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import subjects
from data import Size
from pgbench import SCRIPTS
from subjects import Subject

BETWEEN = 1.0
"""In seconds; what a load takes besides: requests are made before it, rows are counted after."""

AROUND = 6.0
"""In seconds; to empty the log, and to start a server, warm it up and end it."""

FILLED = 30_000
"""Rows that are made a second, before anything is measured."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: loads of so many seconds. One of a second goes before, to warm up."""

    subjects: Sequence[Subject]
    scripts: Sequence[str]
    size: Size
    connections: Sequence[int]
    seconds: int
    turns: int

    def __str__(self) -> str:
        """Say what is run, and about how long it takes, as was seen on two cores."""
        loads = len(self.connections) * (self.seconds + BETWEEN)
        turn = len(self.subjects) * (AROUND + loads) + len(self.scripts) * loads
        minutes = (self.size.dispatches / FILLED + self.turns * turn) / 60
        return (
            f"{len(self.subjects)} subjects and {len(self.scripts)} scripts of pgbench over "
            f"{', '.join(map(str, self.connections))} connections, {self.turns} times: "
            f"about {minutes:.0f} minutes."
        )


QUICK = Plan(list(subjects.quick()), list(SCRIPTS), Size(200_000, 20_000), (1, 64, 256), 2, 1)
FULL = Plan(list(subjects.full()), list(SCRIPTS), Size(1_000_000, 100_000), (1, 16, 64, 256), 2, 3)
