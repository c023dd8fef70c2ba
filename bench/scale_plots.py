"""The plots of docs/scale.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from places import POSTGRESQL, SQLITE
from plots import Line, plot
from receivers import CONNECTIONS
from sample import medians
from scale_results import Measured
from soak import WORKERS, Look, Soak

BLUE, ORANGE, GREEN, PURPLE, GREY = "#3b82f6", "#d9730d", "#2e9e5b", "#a855f7", "#808080"
COLOURS = (BLUE, ORANGE)
UNITS = {"rate": "1/s", "p99": "ms"}
MB = 1024**2


def plots(measured: Measured) -> Iterator[tuple[str, str]]:
    """Draw what was measured; yield each plot's name, and its SVG."""
    for part, draw in _PARTS.items():
        if part in measured.parts:
            yield from draw(measured)


def _growth(measured: Measured) -> Iterator[tuple[str, str]]:
    across = "dispatches, and as many entries of the log"
    samples = {
        database: medians(measured.growths()[database].samples) for database in (POSTGRESQL, SQLITE)
    }
    for figure, unit in UNITS.items():
        lines = [
            Line(database, {int(each.case): getattr(each, figure) for each in found}, colour)
            for (database, found), colour in zip(samples.items(), COLOURS, strict=False)
        ]
        title = f"The {figure} over 64 connections"
        yield f"growth-{figure}", plot(title, unit, lines, across=across, from_zero=True)


def _turns(part: str, across: str) -> Callable[[Measured], Iterator[tuple[str, str]]]:
    def draw(measured: Measured) -> Iterator[tuple[str, str]]:
        found = medians(measured.turns(part).samples)
        for figure, unit in UNITS.items():
            lines = [
                Line(
                    f"{connections} connections",
                    {
                        int(each.case): getattr(each, figure)
                        for each in found
                        if each.connections == connections
                    },
                    colour,
                )
                for connections, colour in zip(CONNECTIONS, COLOURS, strict=False)
            ]
            title = f"The {figure} by {across}"
            yield f"{part}-{figure}", plot(title, unit, lines, across=across, from_zero=True)

    return draw


def _soak(measured: Measured) -> Iterator[tuple[str, str]]:
    soak = measured.soak()
    drawn: Mapping[str, tuple[str, str, Sequence[Line]]] = {
        "rate": (
            "Rate over 64 connections",
            "1/s",
            [
                _line(soak, "held", BLUE, lambda it: it.rate),
                _line(soak, "to be held", GREY, lambda _: soak.held, dashed=True),
            ],
        ),
        "latency": (
            "Latency at 70 % of the peak",
            "ms",
            [
                _line(soak, "p50", BLUE, lambda it: it.p50),
                _line(soak, "p99", ORANGE, lambda it: it.p99),
            ],
        ),
        "memory": (
            "Resident memory of each worker",
            "MB",
            [
                Line(
                    f"worker {n + 1}",
                    {round(look.at): look.memory[n] for look in soak.looks},
                    COLOURS[n],
                )
                for n in range(WORKERS)
            ],
        ),
        "size": (
            "Sizes, while the log is pruned",
            "MB",
            [
                _line(soak, "log", BLUE, lambda it: it.log / MB),
                _line(soak, "its indexes", ORANGE, lambda it: it.log_indexes / MB),
                _line(soak, "dispatches", GREEN, lambda it: it.dispatches / MB),
                _line(soak, "their indexes", PURPLE, lambda it: it.dispatch_indexes / MB),
            ],
        ),
        "dead": (
            "Dead rows, while the log is pruned",
            "thousands",
            [
                _line(soak, "of the log", BLUE, lambda it: it.dead_log / 1000),
                _line(soak, "of the dispatches", GREEN, lambda it: it.dead_dispatches / 1000),
            ],
        ),
    }
    for name, (title, unit, lines) in drawn.items():
        yield f"soak-{name}", plot(title, unit, lines, across="seconds", from_zero=True)


def _line(
    soak: Soak, name: str, colour: str, of: Callable[[Look], float], *, dashed: bool = False
) -> Line:
    return Line(name, {round(each.at): of(each) for each in soak.looks}, colour, dashed)


_PARTS = {
    "growth": _growth,
    "workers": _turns("workers", "processes"),
    "groups": _turns("groups", "the most that share a commit"),
    "soak": _soak,
}
