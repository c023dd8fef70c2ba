"""The figures within docs/scale.md, and its plots: `python bench/scale_page.py` writes them anew.

The prose is written by hand. What stands between `<!-- NAME -->` and `<!-- end -->` is
written by the run, of what docs/scale/results.json holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil, log
from statistics import mean, median

from growth import LEAST
from large import Relation
from markdown import DOCS, table
from places import POSTGRESQL
from receivers import CONNECTIONS
from report import digits
from sample import Sample, medians, ratio
from scale_plots import MB, plots
from scale_results import FOLDER, Measured, NotMeasured, read
from soak import Look, Soak, flatness, growth
from tuning import DEFAULTS

PAGE = DOCS / "scale.md"

BILLION = 10**9
FANOUT = 100
"""Pages to which an inner page of a B-tree leads, at the least: a key has some 60 bytes."""

_BLOCK = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def write() -> None:
    """Write the plots, and the figures within the page."""
    measured = Measured(read())
    for name, drawn in plots(measured):
        (FOLDER / f"{name}.svg").write_text(drawn)

    def filled(match: re.Match[str]) -> str:
        block = BLOCKS[match[2]]
        try:
            text = block(measured)
        except NotMeasured as part:
            text = f"*Not measured yet: `python bench/scale.py --only {part.args[0]}`.*"
        return f"{match[1]}\n{text}\n\n{match[3]}"

    PAGE.write_text(_BLOCK.sub(filled, PAGE.read_text()))


def _ratios(measured: Measured) -> str:
    rows = {
        "growth": _growth_ratios,
        "workers": _worker_ratios,
        "groups": _group_ratios,
        "soak": _soak_ratios,
    }
    found = [row for part, each in rows.items() if part in measured.parts for row in each(measured)]
    return table(("ratio", "measured", "asked"), found)


def _growth_ratios(measured: Measured) -> Iterator[Sequence[str]]:
    for what, grown in measured.growths().items():
        most = max((each.case for each in grown.samples), key=int)
        value = ratio(grown.samples, most, str(LEAST))
        asked = "at least 0.8" if what == POSTGRESQL else ""
        yield f"rate, {what}, {int(most):,} rows to {LEAST:,}", _bold(value), asked


def _worker_ratios(measured: Measured) -> Iterator[Sequence[str]]:
    for connections in CONNECTIONS:
        value = ratio(measured.turns("workers").samples, "2", "1", connections)
        yield f"rate, two processes to one, {connections} connections", _bold(value), ""


def _group_ratios(measured: Measured) -> Iterator[Sequence[str]]:
    for connections in CONNECTIONS:
        value = ratio(measured.turns("groups").samples, "256", "1", connections)
        yield f"rate, groups to single ones, {connections} connections", _bold(value), ""


def _soak_ratios(measured: Measured) -> Iterator[Sequence[str]]:
    soak = measured.soak()
    held = mean(each.rate for each in soak.looks) / soak.held
    yield "soak: rate held to 70 % of the peak", _bold(held), ""
    yield "soak: memory, last third to second", _bold(flatness(soak, _largest)), "at most 1.05"
    size = flatness(soak, lambda look: look.log + look.log_indexes)
    yield "soak: size of the log, last third to second", _bold(size), ""


def _largest(look: Look) -> float:
    return max(look.memory)


def _carries(measured: Measured) -> str:
    best = {
        case: max(_of(measured.turns("workers").samples, case), key=lambda each: each.rate)
        for case in ("1", "2")
    }
    rate = best["2"].rate
    return (
        f"Two processes took **{rate:,.0f} notifications a second** here at the best, one "
        f"{best['1'].rate:,.0f}, on cores that the database and the load share. That is "
        f"{rate * 3600 / 1e6:,.0f} million an hour: of a letter to a million people, two "
        f"notifications each are taken in after {2e6 / rate / 60:,.1f} minutes. A thousand "
        f"notifications cost {best['2'].cores:.2f} seconds on a core, server and database together."
    )


def _growth(measured: Measured) -> str:
    parts = []
    for what, grown in measured.growths().items():
        rows = [
            (
                f"{int(each.case):,}",
                _bold(ratio(grown.samples, each.case, str(LEAST))),
                *_figures(each),
                digits(grown.loading.get(each.case), 0),
            )
            for each in _ascending(medians(grown.samples))
        ]
        head = (what, f"to {LEAST:,}", *FIGURES, "made in s")
        parts.append(table(head, rows))
    turns = _many(measured.growths()[POSTGRESQL].samples)
    return "\n\n".join([f"The medians of {turns} turns:", *parts])


def _many(samples: Sequence[Sample]) -> int:
    return len({each.turn for each in samples})


def _turns(part: str, what: str, to: str) -> Callable[[Measured], str]:
    def block(measured: Measured) -> str:
        turns = measured.turns(part)
        rows = [
            (
                each.case,
                f"{each.connections:.0f}",  # a median of two is no whole number
                _bold(ratio(turns.samples, each.case, to, each.connections)),
                *_figures(each),
            )
            for each in medians(turns.samples)
        ]
        if to != DEFAULTS:
            rows.sort(key=lambda row: (int(row[1]), int(row[0])))
        lead = (
            f"On {turns.rows:,} dispatches and as many entries of the log, "
            f"the medians of {_many(turns.samples)} turns:"
        )
        return f"{lead}\n\n{table((what, 'connections', f'to {to}', *FIGURES), rows)}"

    return block


FIGURES = ("rate", "p50", "p99", "cores", "MB", "WAL", "a flush", "HOT", "errors")


def _figures(each: Sample) -> Sequence[str]:
    return (
        digits(each.rate, 0),
        digits(each.p50, 2),
        digits(each.p99, 2),
        digits(each.cores, 2),
        digits(each.memory, 0),
        digits(each.wal, 0),
        digits(each.flush, 1),
        "" if each.hot is None else f"{each.hot:.0%}",
        digits(each.errors, 0),
    )


def _soak(measured: Measured) -> str:
    soak = measured.soak()
    looks = soak.looks
    rows = [
        ("peak before, 1/s", digits(soak.peak, 0)),
        ("rate to be held, 1/s", digits(soak.held, 0)),
        ("rate held: median, lowest of 15 s", _two([each.rate for each in looks], min)),
        ("p50: median, highest, ms", _two([each.p50 for each in looks], max, 2)),
        ("p99: median, highest, ms", _two([each.p99 for each in looks], max, 2)),
        ("errors", str(sum(each.errors for each in looks))),
        ("largest worker: median, highest, MB", _two(list(map(_largest, looks)), max)),
        ("it grows, in the last two thirds, MB an hour", digits(growth(soak, _largest), 1)),
        ("log: median, highest, MB", _two([each.log / MB for each in looks], max)),
        ("its indexes: median, highest, MB", _two([each.log_indexes / MB for each in looks], max)),
        ("dead rows of the log: median, highest", _two([each.dead_log for each in looks], max)),
        ("pruned, entries a second of pruning", digits(_pruning(soak), 0)),
        ("dispatches, first and last, MB", _ends([each.dispatches / MB for each in looks])),
        (
            "their indexes, first and last, MB",
            _ends([each.dispatch_indexes / MB for each in looks]),
        ),
        ("updates that touched no index", _share([each.hot for each in looks])),
        ("WAL, GB an hour", digits(looks[-1].wal / looks[-1].at * 3600 / 1024**3, 1)),
    ]
    lead = f"{looks[-1].at / 60:.0f} minutes, on {soak.rows:,} dispatches:"
    return f"{lead}\n\n{table(('what', 'measured'), rows)}"


def _share(values: Iterable[float | None]) -> str:
    known = [each for each in values if each is not None]
    return f"{median(known):.0%}" if known else ""


def _pruning(soak: Soak) -> float | None:
    """Return how many entries a second go while pruning is at it; None where none went."""
    rates = [count / seconds for count, seconds in soak.pruned if count]
    return median(rates) if rates else None


def _billion(measured: Measured) -> str:
    found = measured.growths()[POSTGRESQL].relations
    most = max(found, key=int)
    times = BILLION / int(most)
    rows = [
        (
            f"`{each.name}`",
            digits(each.bytes / int(most), 0),
            digits(each.bytes * times / 1024**3, 0),
            "" if each.level is None else str(each.level + 1),
            "" if each.level is None else str(each.level + 1 + ceil(log(times, FANOUT))),
        )
        for each in _large(found[most])
    ]
    head = ("of as many rows", "bytes each", "a billion, GB", "levels now", "then at most")
    lead = f"Measured at {int(most):,} rows, and multiplied:"
    return f"{lead}\n\n{table(head, rows)}"


def _large(relations: Sequence[Relation]) -> Iterator[Relation]:
    """Leave out those of the tables that grow more slowly."""
    for each in relations:
        if each.name.startswith(("hookrow_dispatches", "hookrow_notifications")):
            yield each


def _machine(measured: Measured) -> str:
    parts = measured.parts
    if not parts:
        return "Nothing is measured yet."
    *_, last = (part["machine"] for part in parts.values())
    machine = [(name, value) for name, value in last.items() if name != "commit"]
    when = ", ".join(
        f"{name} on {part['date']} at {part['machine']['commit']}" for name, part in parts.items()
    )
    return f"{table(('what', 'which'), machine)}\n\nMeasured: {when}."


def _of(samples: Sequence[Sample], case: str) -> list[Sample]:
    return [each for each in medians(samples) if each.case == case]


def _ascending(samples: Sequence[Sample]) -> list[Sample]:
    return sorted(samples, key=lambda each: int(each.case))


def _bold(value: float | None) -> str:
    return f"**{digits(value, 2)}**" if value is not None else ""


def _two(
    values: Sequence[float], worst: Callable[[Sequence[float]], float], places: int = 0
) -> str:
    return f"{digits(median(values), places)}, {digits(worst(values), places)}"


def _ends(values: Sequence[float]) -> str:
    return f"{digits(values[0], 0)}, {digits(values[-1], 0)}"


BLOCKS: Mapping[str, Callable[[Measured], str]] = {
    "ratios": _ratios,
    "carries": _carries,
    "growth": _growth,
    "workers": _turns("workers", "processes", "1"),
    "groups": _turns("groups", "at the most", "256"),
    "settings": _turns("settings", "PostgreSQL", DEFAULTS),
    "soak": _soak,
    "billion": _billion,
    "machine": _machine,
}

if __name__ == "__main__":
    write()
