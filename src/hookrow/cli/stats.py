"""`hookrow stats`: the overview in the terminal, with small charts."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hookrow.cli.options import DATABASE_URL, JSON
from hookrow.cli.source import Source
from hookrow.describe import format_time, printable
from hookrow.statistics.period import Period

if TYPE_CHECKING:
    from hookrow.statistics import Counts, Overview
    from hookrow.stores.census import ListCount

_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII = " .:-=+*#@"
"""Nine heights, from none to the highest; the last makes bars, too."""

_WIDEST = 30
"""In characters, of a bar."""

_LISTS = 10
"""How many are told of; a machine is told of all."""


@click.command()
@click.option(
    "--period",
    type=click.Choice(Period, case_sensitive=False),
    default=Period.DAY,
    show_default="day",
    help="The time up to now: by minute, hour, six hours, or day.",
)
@JSON
@DATABASE_URL
@click.pass_obj
def stats(source: Source, *, period: Period, as_json: bool, database_url: str) -> None:
    """Show what came, how it ended, and how many were delivered, opened and suppressed."""
    from hookrow.statistics.reading import read

    with source.opened(database_url) as store:
        seen = read(store, period, datetime.now(UTC))
    if as_json:
        click.echo(msgspec.json.encode(_as_json(seen)).decode())
        return
    levels = _BLOCKS if _writes(_BLOCKS) else _ASCII
    for line in _lines(seen, levels):
        click.echo(line)


def _lines(seen: Overview, levels: str) -> Iterator[str]:
    yield seen.health
    if seen.logged:
        yield ""
        start, end = format_time(seen.starts[0]), format_time(seen.now)
        yield f"{seen.total:,} notifications from {start} to {end}"
    if seen.total:
        yield from _series("type", seen.by_type, levels)
        outcomes = {each.value: counts for each, counts in seen.by_outcome.items()}
        yield from _series("outcome", outcomes, levels)
    if seen.heard and seen.heard.parked:
        yield ""
        yield _line("parked", f"{seen.heard.parked:,}", "tried again until they can be recorded")
    if seen.counts:
        yield from _rates(seen.counts, levels)
        yield from _suppressed(seen.counts.suppressed, levels)
        yield from _lists(seen.counts.lists)


def _series(name: str, counts: Mapping[str, Sequence[int]], levels: str) -> Iterator[str]:
    """Draw each row of counts, all to one scale."""
    highest = max(map(max, counts.values()))
    yield ""
    yield _line(name, "count", f"at most {highest:,} at a time").rstrip()
    for each, row in counts.items():
        drawn = "".join(levels[_height(count, highest)] for count in row)
        yield _line(each, f"{sum(row):,}", f"|{drawn}|")


def _rates(counts: Counts, levels: str) -> Iterator[str]:
    yield ""
    yield _line("sent", f"{counts.sent:,}", "in all, of which")
    for name, rate in (("delivered", counts.delivery_rate), ("opened", counts.open_rate)):
        if rate is not None:
            yield _line(name, f"{rate:.1%}", levels[-1] * round(rate * _WIDEST))
    if counts.delays:
        within = f"from sent to delivered; 95 % within {_long(counts.delays.p95)}"
        of = f"of the newest {counts.delays.count:,}"
        yield _line("median", _long(counts.delays.median), f"{within}, {of}")


def _suppressed(reasons: Mapping[str | None, int], levels: str) -> Iterator[str]:
    yield ""
    yield _line("suppressed", f"{sum(reasons.values()):,}", "subscribers")
    for reason, count in sorted(reasons.items(), key=lambda each: -each[1]):
        width = -(-count * _WIDEST // max(reasons.values()))
        yield _line(reason or "no reason", f"{count:,}", levels[-1] * width)


def _lists(lists: Sequence[ListCount]) -> Iterator[str]:
    """Tell of those lists to which the most was sent; of one alone all has been said."""
    if len(lists) > 1:
        yield ""
        yield _line("list", "sent", f"{len(lists):,} lists")
        for each in nlargest(_LISTS, lists, attrgetter("sent")):
            name = "no list" if each.list is None else each.name or str(each.list)
            rest = f"{each.delivered:,} delivered, {each.opened:,} opened"
            yield _line(name, f"{each.sent:,}", rest)


def _line(name: str, figure: str, rest: str) -> str:
    return f"{printable(name):20.20}{figure:>12}  {rest}".rstrip()


def _height(count: int, highest: int) -> int:
    """Return a height of 0 to 8, which is 0 of nothing only."""
    return -(-count * (len(_BLOCKS) - 1) // highest)


def _long(time: timedelta) -> str:
    return f"{time.total_seconds():,.1f} s"


def _writes(text: str) -> bool:
    """Tell whether the terminal, or the file, can hold the text."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _as_json(seen: Overview) -> Mapping[str, Any]:
    """Return what is printed for a machine; delays in seconds."""
    heard, counts = seen.heard, seen.counts
    delays = counts.delays if counts else None
    return {
        "health": seen.health,
        "period": seen.period.value,
        "now": seen.now,
        "starts": seen.starts,
        "total": seen.total if seen.logged else None,
        "by_type": seen.by_type,
        "by_outcome": {each.value: row for each, row in seen.by_outcome.items()},
        "last_heard": heard and heard.last,
        "parked": heard and heard.parked,
        "sent": counts and counts.sent,
        "delivery_rate": counts and counts.delivery_rate,
        "open_rate": counts and counts.open_rate,
        "delay_median": delays and delays.median.total_seconds(),
        "delay_p95": delays and delays.p95.total_seconds(),
        "suppressed": counts and {each or "": n for each, n in counts.suppressed.items()},
        "lists": counts and [msgspec.to_builtins(each) for each in counts.lists],
    }
