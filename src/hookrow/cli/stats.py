"""`hookrow stats`: the overview in the terminal, with small charts."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from operator import attrgetter
from typing import Any

import click
import msgspec

from hookrow.cli.app import App
from hookrow.cli.options import DATABASE_URL, JSON
from hookrow.describe import format_time, printable
from hookrow.statistics import Overview, Period, TableCounts, count_tables, read_overview

_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII = " .:-=+*#@"
"""Nine heights, from none to the highest; the last one also makes bars."""

_BAR = 30
"""In characters; the longest bar."""

_LISTS = 10
"""The most lists that are printed; JSON has all of them."""


@click.command()
@click.option(
    "--period",
    type=click.Choice(Period, case_sensitive=False),
    default=Period.DAY,
    show_default="day",
    help="The last hour by minute, day by hour, week by six hours, or month by day.",
)
@JSON
@DATABASE_URL
@click.pass_obj
def stats(app: App, *, period: Period, as_json: bool, database_url: str) -> None:
    """Show what was received, recorded, delivered, opened and suppressed.

    Notifications are counted by their first outcome. "recorded later" is the number of those that
    were refused at first and have been recorded since.
    """
    now = datetime.now(UTC)
    with app.open_store(database_url) as store:
        overview, tables = read_overview(store, period, now), count_tables(store, now)
    if as_json:
        click.echo(msgspec.json.encode(_as_json(overview, tables)).decode())
        return
    levels = _BLOCKS if _can_write(_BLOCKS) else _ASCII
    for line in (*_received(overview, levels), *_tables(overview, tables, levels)):
        click.echo(line)


def _received(overview: Overview, levels: str) -> Iterator[str]:
    """Describe the notifications of the period."""
    yield overview.health
    if overview.logged:
        start, end = format_time(overview.starts[0]), format_time(overview.now)
        yield ""
        yield f"{overview.total:,} notifications from {start} to {end}"
    if overview.complete_since:
        yield f"Those before {format_time(overview.complete_since)} are still being counted."
    if overview.total:
        outcomes = {each.value: row for each, row in overview.by_first_outcome.items()}
        yield from _series("type", overview.by_type, levels)
        yield from _series("first outcome", outcomes, levels)
        if overview.recovered:
            yield _line("recorded later", f"{overview.recovered:,}", "of those refused at first")
        yield from _reasons("suppressions", overview.by_reason, "in this period, by reason", levels)
    if overview.parked:
        yield ""
        yield _line("parked", f"{overview.parked:,}", "waiting for a retry")


def _tables(overview: Overview, tables: TableCounts, levels: str) -> Iterator[str]:
    """Describe the rows, of any age."""
    yield ""
    yield _line("sent", f"{tables.sent:,}", "in total, of which")
    for name, rate in (("delivered", tables.delivery_rate), ("opened", tables.open_rate)):
        if rate is not None:
            yield _line(name, f"{rate:.1%}", levels[-1] * round(rate * _BAR))
    if delays := overview.delays:
        rest = f"95 % within {_seconds(delays.p95)}, of the newest {delays.count:,}"
        yield _line("median", _seconds(delays.median), f"from sent to delivered; {rest}")
    yield from _reasons("suppressed", tables.suppressed, "of all subscribers, by reason", levels)
    if len(tables.lists) > 1:
        yield ""
        yield _line("list", "sent", f"{len(tables.lists):,} lists")
        for each in nlargest(_LISTS, tables.lists, attrgetter("sent")):
            name = "no list" if each.list is None else each.name or str(each.list)
            rest = f"{each.delivered:,} delivered, {each.opened:,} opened"
            yield _line(name, f"{each.sent:,}", rest)


def _series(name: str, counts: Mapping[str, Sequence[int]], levels: str) -> Iterator[str]:
    """Draw a chart for each row of counts, all to the same scale."""
    highest = max(map(max, counts.values()))
    yield ""
    yield _line(name, "count", f"at most {highest:,} at a time")
    for each, row in counts.items():
        chart = "".join(levels[_share(count, highest, len(levels) - 1)] for count in row)
        yield _line(each, f"{sum(row):,}", f"|{chart}|")


def _reasons(
    name: str, counts: Mapping[str, int] | Mapping[str | None, int], unit: str, levels: str
) -> Iterator[str]:
    """Draw a bar for each reason, the most frequent first."""
    yield ""
    yield _line(name, f"{sum(counts.values()):,}", unit)
    for reason, count in sorted(counts.items(), key=lambda each: -each[1]):
        bar = levels[-1] * _share(count, max(counts.values()), _BAR)
        yield _line(reason or "no reason", f"{count:,}", bar)


def _line(name: str, figure: str, rest: str) -> str:
    return f"{printable(name):20.20}{figure:>12}  {rest}".rstrip()


def _share(count: int, highest: int, length: int) -> int:
    """Return the height or width of a count; it is 0 only if the count is."""
    return -(-count * length // highest)


def _seconds(time: timedelta) -> str:
    return f"{time.total_seconds():,.1f} s"


def _can_write(text: str) -> bool:
    """Return whether the encoding of the terminal or the file has the characters."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _as_json(overview: Overview, tables: TableCounts) -> Mapping[str, Any]:
    """Return the object that is printed: delays in seconds, null for what is unknown."""
    logged, delays = overview.logged, overview.delays
    return {
        "health": overview.health,
        "period": overview.period.value,
        "now": overview.now,
        "starts": overview.starts,
        "total": overview.total if logged else None,
        "by_type": overview.by_type,
        "by_first_outcome": {each.value: row for each, row in overview.by_first_outcome.items()},
        "recovered": overview.recovered if logged else None,
        "by_reason": overview.by_reason,
        "complete_since": overview.complete_since,
        "last_received": overview.last_received,
        "parked": overview.parked if logged else None,
        "delay_median": delays and delays.median.total_seconds(),
        "delay_p95": delays and delays.p95.total_seconds(),
        "sent": tables.sent,
        "delivery_rate": tables.delivery_rate,
        "open_rate": tables.open_rate,
        "suppressed": {reason or "": count for reason, count in tables.suppressed.items()},
        "lists": [msgspec.to_builtins(each) for each in tables.lists],
    }
