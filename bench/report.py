"""What is printed: a figure in a line, or a load in a line of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from places import memory_of

Row: TypeAlias = dict[str, Any]


def figure(name: str, value: float, unit: str = "", target: str = "") -> Row:
    """Return a figure in a unit, or without one a ratio, and what it is to be."""
    return {"name": name, "value": value, "unit": unit, "target": target}


def loaded(
    what: str, clients: int, measured: Mapping[str, float], pid: int, *, ratio: float = 1.0
) -> Row:
    """Return what a load measured, with a ratio to another and the server's memory."""
    return {"what": what, "clients": clients, "ratio": ratio, **measured, **memory_of(pid)}


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
