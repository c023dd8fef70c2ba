"""What is printed: figures, loads, results and targets, each in a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from load import Load
from processes import memory
from result import Failure, Result, Run
from targets import targets

Row: TypeAlias = dict[str, Any]
T = TypeVar("T", bound=Result | Failure)

RESULTS = f"{'':36}conns      rate   p50 ms   p99 ms   server     base     load     MB  errors"


def figure(name: str, value: float, unit: str = "", target: str = "") -> Row:
    """Return a figure in a unit, or without one a ratio, and what it is to be."""
    return {"name": name, "value": value, "unit": unit, "target": target}


def loaded(what: str, load: Load, pid: int, *, ratio: float = 1.0) -> Row:
    """Return what a load measured, with a ratio to another and the server's memory."""
    measured = {"rate": load.rate, "p50": load.p50, "p99": load.p99, "errors": load.errors}
    return {"what": what, "clients": load.connections, "ratio": ratio, **measured, **memory(pid)}


def head(ratio: str) -> None:
    """Print the head of a table of loads."""
    print(f"\n{'load':26}clients      rate   p50 ms   p99 ms{ratio:>10}  errors     RSS    peak")


def show(row: Row) -> None:
    """Print a figure or a load."""
    if "name" in row:
        digits = 1 if row["unit"] else 2
        line = f"{row['name']:42}{row['value']:>12,.{digits}f} {row['unit']:4}{row['target']}"
    else:
        line = (
            "{what:26}{clients:>7}{rate:>10,.0f}{p50:>9.2f}{p99:>9.2f}{ratio:>10.2f}"
            "{errors:>8}{VmRSS:>8.0f}{VmHWM:>8.0f}".format_map(row)
        )
    print(line.rstrip(), flush=True)


def show_results(results: Iterable[T]) -> Iterator[T]:
    """Print results, and what failed, as they come, and pass them on.

    `server`, `base` and `load` are seconds on a core for a thousand notifications.
    """
    print(RESULTS, flush=True)
    for each in results:
        print(_line(each), flush=True)
        yield each


def _line(each: Result | Failure) -> str:
    if isinstance(each, Failure):
        return f"{each.name:36}failed: {each.why}"
    return (
        f"{each.name:36}{each.connections:>5}{each.rate:>10,.0f}"
        f"{each.p50:>9.2f}{each.p99:>9.2f}"
        f"{digits(each.server, 2):>9}{digits(each.base, 2):>9}{digits(each.load, 2):>9}"
        f"{digits(each.memory, 0):>7}{each.errors:>8}"
    )


def show_targets(results: Sequence[Result]) -> None:
    """Print what was to be reached and what was."""
    print(f"\n{'ratio':46}{'measured':>9}{'at least':>9}{'aim':>7}")
    for each in targets(results):
        print(
            f"{each.what:46}{digits(each.value, 2):>9}{each.least:>9}{each.aim or '':>7}"
            f"  {each.verdict}"
        )


def as_json(run: Run) -> bytes:
    """Return all that was measured, on what, and what was reached by it."""
    told = {"targets": targets(run.results), **msgspec.to_builtins(run)}
    return msgspec.json.format(msgspec.json.encode(told)) + b"\n"


def digits(value: float | None, places: int) -> str:
    """Return a number with so many digits behind the point; nothing for what there is not."""
    return "" if value is None else f"{value:,.{places}f}"
