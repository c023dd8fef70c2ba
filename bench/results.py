"""The figures of loads, their medians and ratios."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import TypeAlias

from environment import cpu_seconds, peak_memory
from load import Load

Figures: TypeAlias = Mapping[str, float]
"""The figures of a load, by the headings of their columns."""

Names: TypeAlias = tuple[str, str]
"""The names of a server, and of the database with which it is compared."""

BUSY = 64
"""The number of connections at which rates and CPU times are compared."""

SERVE = "hookrow serve"

FORMATS = {
    "rate": "8,.0f",
    "p50": "9,.2f",
    "p99": "9,.2f",
    "server": "7,.0f",
    "database": "8,.0f",
    "MB": "5,.0f",
}
"""The headings, with the format of their figures."""

HEADINGS = f"{'subject':36} {'conns':>5} " + " ".join(
    f"{name:>{each.partition(',')[0]}}" for name, each in FORMATS.items()
)


class Unproven(Exception):
    """A server did not do the work for which it was measured."""


def measure(
    load: Callable[[], Load], pid: int | None, postgres: int | None
) -> tuple[Load, Figures]:
    """Put a server under load; return its figures. Raises `Unproven` unless all responses are 200.

    The rate is in notifications per second, p50 and p99 in milliseconds, the CPU time of the server
    and of PostgreSQL in microseconds per notification, and the peak memory of the server's largest
    process in MB. If there is no such process, its figures are 0.
    """
    before = cpu_seconds(pid), cpu_seconds(postgres)
    loaded = load()
    after = cpu_seconds(pid), cpu_seconds(postgres)
    if loaded.errors or not loaded.answered:
        raise Unproven(f"{loaded.answered} responses of 200, {loaded.errors} errors")
    return loaded, {
        "rate": loaded.answered / loaded.seconds,
        "p50": loaded.p50,
        "p99": loaded.p99,
        "server": (after[0] - before[0]) / loaded.answered * 1e6,
        "database": (after[1] - before[1]) / loaded.answered * 1e6,
        "MB": peak_memory(pid) if pid else 0.0,
    }


def format_row(name: str, connections: int, figures: Figures) -> str:
    """Return a row of the table."""
    cells = " ".join(f"{figures[each]:{form}}" for each, form in FORMATS.items())
    return f"{name:36} {connections:5} {cells}"


def medians(turns: Sequence[Figures]) -> Figures:
    """Return the median of each figure."""
    return {name: median(turn[name] for turn in turns) for name in turns[0]}


def ratios(results: Mapping[Names, Mapping[int, Figures]]) -> Iterator[str]:
    """Compare `hookrow serve`, with its best number of processes, with each other subject."""
    yield f"{'hookrow serve compared with':36} {'rate':>7} {'p50, 1 conn':>12} {'CPU':>7}"
    for (name, database), other in results.items():
        serves = [
            loads
            for (each, its), loads in results.items()
            if each.startswith(SERVE) and its == database and BUSY in loads
        ]
        if name.startswith(SERVE) or not serves or BUSY not in other:
            continue
        ours = max(serves, key=lambda loads: loads[BUSY]["rate"])
        rate = ours[BUSY]["rate"] / other[BUSY]["rate"]
        cpu = _cpu(other[BUSY]) / _cpu(ours[BUSY])
        p50 = f"{other[1]['p50'] / ours[1]['p50']:.2f}" if 1 in ours and 1 in other else ""
        yield f"{name:36} {rate:7.2f} {p50:>12} {cpu:7.2f}"
    yield "(rate: hookrow's to the other's; p50 and CPU time: the other's to hookrow's)"


def _cpu(figures: Figures) -> float:
    return figures["server"] + figures["database"]


def format_turns(turns: Sequence[tuple[float, ...]]) -> str:
    """Return the median of each column and, if there are two, their ratio and that of each turn."""
    columns = [median(column) for column in zip(*turns, strict=True)]
    text = " ".join(f"{each:9.2f}" for each in columns)
    if len(columns) == 1 or not all(before for before, _ in turns):
        return text
    each = " ".join(f"{ratio:.2f}" for ratio in sorted(after / before for before, after in turns))
    return f"{text} {columns[1] / columns[0]:6.2f}  {each}"
