"""Receivers: how many processes there are, and how many notifications share a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import TypeAlias

from large import fill_large, sized
from places import POSTGRESQL, Place, postgres, server
from sample import Running, Turns, in_turns, serving

WORKERS = (1, 2, 3, 4)
GROUPS = (1, 4, 16, 64, 256)
CONNECTIONS = (64, 256)
MOST = 1_000_000
"""Rows."""

SECONDS = 4

Starting: TypeAlias = Callable[[Place], AbstractContextManager[Running]]


def crowding(rows: int, turns: int) -> Turns:
    """Measure `hookrow serve` in one to four processes, in turns."""
    return _measured(rows, turns, {str(n): partial(serving, workers=n) for n in WORKERS})


def grouping(rows: int, turns: int) -> Turns:
    """Measure one process with groups of one notification to 256, in turns."""
    return _measured(rows, turns, {str(n): partial(_grouped, n) for n in GROUPS})


@contextmanager
def _grouped(group: int, place: Place) -> Iterator[Running]:
    with server(place.url, "--group", str(group)) as (port, pid):
        yield Running(port, pid, place)


def _measured(rows: int, turns: int, starting: Mapping[str, Starting]) -> Turns:
    rows = min(rows, MOST)
    with postgres() as base, ExitStack() as stack:
        place = Place(POSTGRESQL, base.create(), base.pid)
        fill_large(place, rows)
        cases = {name: stack.enter_context(start(place)) for name, start in starting.items()}
        sizes = dict.fromkeys(cases, sized(rows))
        samples = in_turns(cases, sizes, connections=CONNECTIONS, seconds=SECONDS, turns=turns)
        return Turns(rows, list(samples))
