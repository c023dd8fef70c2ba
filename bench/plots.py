"""Plots, as SVG that can be read on white and on dark: it follows what the reader's page has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from typing import Protocol

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 180, 50, 50
PLACES = 8
"""The most places on the x axis that are written."""

STEPS = 8
"""The most on an axis of y that has equal ones."""

APART = 15
"""In pixels; how far the names of two lines are from each other at the least."""

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #57606a }
.title { font-size: 15px; font-weight: 600 }
.grid { stroke: #808080; stroke-opacity: 0.25 }
.line { fill: none; stroke-width: 2.5; stroke-linejoin: round }
.dashed { stroke-dasharray: 2 5; stroke-linecap: round }
@media (prefers-color-scheme: dark) { text { fill: #a7b0ba } }
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a plot: its values by the places on the x axis that it has.

    A colour that can be read has a contrast of 3 and more both to white and to black.
    """

    name: str
    values: Mapping[int, float]
    colour: str
    dashed: bool = False


def plot(
    title: str,
    axis: str,
    lines: Sequence[Line],
    *,
    across: str = "connections",
    from_zero: bool = False,
) -> str:
    """Draw the lines, on an axis of equal steps for x and one of powers of ten for y.

    `from_zero` makes y's steps equal, too.
    """
    lines = [line for line in lines if line.values]
    places = sorted({place for line in lines for place in line.values})
    values = [value for line in lines for value in line.values.values()] or [1.0]
    scale = _Scale(places, _Even(max(values)) if from_zero else _Powers(min(values), max(values)))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="24">{escape(title)}</text>',
        *_grid(scale, axis, across),
        *(_course(scale, line) for line in lines),
        *_names(scale, lines),
        "</svg>\n",
    ]
    return "\n".join(parts)


class _Axis(Protocol):
    """The axis of y: what is written beside it, and where a value is, from 0 to 1."""

    ticks: Sequence[float]

    def part(self, value: float) -> float: ...


class _Powers:
    """From one power of ten to another."""

    def __init__(self, least: float, most: float) -> None:
        self._low = floor(log10(least))
        self._high = max(self._low + 1, ceil(log10(most)))
        self.ticks: Sequence[float] = [10.0**power for power in range(self._low, self._high + 1)]

    def part(self, value: float) -> float:
        return (log10(value) - self._low) / (self._high - self._low)


class _Even:
    """From nothing, in equal steps of one, two or five of a power of ten."""

    def __init__(self, most: float) -> None:
        power = 10.0 ** floor(log10(most))
        step = next(each * power for each in (0.2, 0.5, 1, 2) if most <= STEPS * each * power)
        self.ticks: Sequence[float] = [step * n for n in range(ceil(most / step) + 1)]

    def part(self, value: float) -> float:
        return value / self.ticks[-1]


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where a value is drawn."""

    places: Sequence[int]
    axis: _Axis

    def x(self, place: int) -> float:
        step = (WIDTH - LEFT - RIGHT) / max(1, len(self.places) - 1)
        return LEFT + step * self.places.index(place)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - self.axis.part(value) * (HEIGHT - TOP - BOTTOM)


def _grid(scale: _Scale, axis: str, across: str) -> Iterator[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for tick in scale.axis.ticks:
        y = scale.y(tick)
        yield f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        label = f"{tick:,.0f}" if tick == int(tick) else f"{tick:g}"
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    for place in scale.places[:: max(1, ceil(len(scale.places) / PLACES))]:
        x = scale.x(place)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{place:,}</text>'
    middle = (LEFT + right) / 2
    name = escape(across)
    yield f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{name}</text>'
    yield f'<text x="{LEFT - 58}" y="{TOP - 10}">{escape(axis)}</text>'


def _course(scale: _Scale, line: Line) -> str:
    points = " ".join(
        f"{scale.x(place):.1f},{scale.y(value):.1f}" for place, value in sorted(line.values.items())
    )
    dashed = " dashed" if line.dashed else ""
    return f'<polyline class="line{dashed}" stroke="{line.colour}" points="{points}"/>'


def _names(scale: _Scale, lines: Sequence[Line]) -> Iterator[str]:
    """Write each line's name beside its end, with no two on each other."""
    ends = sorted((scale.y(line.values[max(line.values)]), n) for n, line in enumerate(lines))
    free = _apart([y for y, _ in ends])
    for y, (_, n) in zip(free, ends, strict=True):
        line = lines[n]
        x = WIDTH - RIGHT + 8
        yield (
            f'<text x="{x}" y="{y + 4:.1f}" style="fill: {line.colour}">{escape(line.name)}</text>'
        )


def _apart(wanted: Sequence[float]) -> list[float]:
    """Move places, which ascend, away from each other, and no lower than the plot ends."""
    moved = list(wanted)
    for n, _ in enumerate(pairwise(wanted), 1):
        moved[n] = max(moved[n], moved[n - 1] + APART)
    lowest = float(HEIGHT - BOTTOM)
    for n in reversed(range(len(moved))):
        moved[n] = min(moved[n], lowest)
        lowest = moved[n] - APART
    return moved
