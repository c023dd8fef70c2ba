"""`hookrow stats`: the overview in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hookrow._cli.app import App, check_entry
from hookrow._cli.options import DATABASE_URL, JSON, entry_name
from hookrow._cli.output import echo, echo_json
from hookrow._describe import format_time, pluralize, printable
from hookrow._statistics import (
    Overview,
    Period,
    Present,
    Rate,
    TableCounts,
    count_tables,
    read_overview,
    read_present,
)
from hookrow.errors import HookrowError

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore

_MAX_LISTS = 10
"""The maximum number of lists printed; JSON has all of them."""

_NAME_WIDTH = 20
"""The width of the names in most sections, in characters."""

_MAX_NAME_WIDTH = 36
"""That of the names of lists, which may be UUIDs. Longer ones are cut."""

_MAX_ENTRIES = 10
"""The same for entries of the receiver with requests that had no valid secret."""


@click.command(short_help="Show counts of notifications, results and rows.")
@click.option(
    "--period",
    type=click.Choice(Period, case_sensitive=False),
    default=Period.DAY,
    show_default="day",
    help="The last hour by minute, day by hour, week by six hours, or month by day.",
)
@click.option(
    "--entry",
    type=entry_name,
    metavar="NAME",
    help="Only notifications of this entry of the receiver, and the rows of its tenant.",
)
@JSON
@DATABASE_URL
@click.pass_obj
def stats(app: App, *, period: Period, entry: str | None, as_json: bool, database_url: str) -> None:
    """Show what was received, recorded, delivered, opened and suppressed.

    The first lines are the status: OK, attention or broken, with the reasons and the remedies.
    They are also printed if the figures cannot be read.

    Notifications are counted by their first outcome. "recorded later" is the number of those that
    were refused at first and have been recorded since.
    """
    from hookrow._diagnostics.status import describe_status, read_status, status_as_json

    now = datetime.now(UTC)
    with app.open_store(database_url, verified=False) as store:
        status = read_status(app.status_source(store), now)
    if not as_json:
        echo(*describe_status(status), "")
    try:
        with app.open_store(database_url) as store:
            check_entry(entry, app, store.log)
            present = read_present(store, now, entry)
            overview = read_overview(store, period, now, entry)
            tables = _count_tables(store, now, entry)
    except HookrowError:
        if as_json:
            echo_json({"status": status_as_json(status)})
        raise
    if as_json:
        echo_json({"status": status_as_json(status), **_as_json(present, overview, tables)})
        return
    echo(*_received(present, overview), "", *_rows(overview, tables))


def _count_tables(store: SQLStore, now: datetime, entry: str | None) -> TableCounts | None:
    """Count the rows, or those of the entry's tenant; return None if it is not a tenant."""
    if entry is None:
        return count_tables(store, now)
    tenant = store.tenants.get(entry)
    return None if tenant is None else count_tables(store, now, tenant=tenant)


def _received(present: Present, overview: Overview) -> Iterator[str]:
    """Describe the present state, and the notifications of the period."""
    yield present.health
    if present.logged:
        start, end = format_time(overview.starts[0]), format_time(overview.now)
        of_entry = f" of the entry {overview.entry}" if overview.entry else ""
        yield ""
        yield f"{pluralize(overview.total, 'notification')}{of_entry} from {start} to {end}"
    if overview.complete_since:
        since = format_time(overview.complete_since)
        yield f"{overview.why_incomplete}: figures before {since} are incomplete."
    if overview.total:
        outcomes = {each.value: row for each, row in overview.by_first_outcome.items()}
        yield from _series("type", overview.by_type)
        yield from _series("first outcome", outcomes)
        if overview.recovered:
            yield _line("recorded later", f"{overview.recovered:,}", "of those refused at first")
        yield from _reasons("suppressions", overview.by_reason, "in this period, by reason")
        yield from _rates(overview.rates)
    if present.parked or present.expired or present.unauthentic or present.unavailable:
        yield ""
    if present.parked:
        yield _line("parked", f"{present.parked:,}", "waiting for a retry")
    if present.expired:
        yield _line("expired", f"{present.expired:,}", "not recorded, and not retried any more")
    for name, requests in islice(present.unauthentic.items(), _MAX_ENTRIES):
        to_entry = f", to the entry {name}" if name else ""
        rest = f"with a missing or wrong secret in the last day{to_entry}"
        first = f"the first after {format_time(requests.first)}"
        yield _line("unauthentic", f"{requests.number:,}", f"{rest}; {first}")
    for name, requests in islice(present.unavailable.items(), _MAX_ENTRIES):
        to_entry = f", at the entry {name}" if name else ""
        first = f"the first after {format_time(requests.first)}"
        rest = f"notifications that got a 503 in the last day{to_entry}; {first}"
        yield _line("unavailable", f"{requests.number:,}", rest)


def _rows(overview: Overview, tables: TableCounts | None) -> Iterator[str]:
    """Describe the rows, regardless of their age, and how fast dispatches are delivered."""
    if tables is not None:
        yield from _sent(tables)
    if delays := overview.delays:
        rest = f"95 % within {_seconds(delays.p95)}; newest {delays.count:,}"
        yield _line("median", _seconds(delays.median), f"from sent to delivered; {rest}")
    if tables is not None:
        yield from _suppressed(tables)


def _sent(tables: TableCounts) -> Iterator[str]:
    yield _line("sent", f"{tables.sent:,}", "in total, of which")
    for name, rate in (("delivered", tables.delivery_rate), ("opened", tables.open_rate)):
        if rate is not None:
            yield _line(name, f"{rate:.1%}")
    if tables.undelivered is not None:
        rest = "sent more than an hour and at most 7 days ago"
        yield _line("undelivered", f"{tables.undelivered:,}", rest)


def _suppressed(tables: TableCounts) -> Iterator[str]:
    yield from _reasons("suppressed", tables.suppressed, "of all subscribers, by reason")
    if len(tables.lists) > 1:
        yield ""
        largest = nlargest(_MAX_LISTS, tables.lists, attrgetter("sent"))
        names = [
            "no list" if each.list is None else each.name or str(each.list) for each in largest
        ]
        width = max(_NAME_WIDTH, *(min(len(name), _MAX_NAME_WIDTH) for name in names))
        yield _line("list", "sent", f"{len(tables.lists):,} lists", width)
        for name, each in zip(names, largest, strict=True):
            rest = f"{each.delivered:,} delivered, {each.opened:,} opened"
            yield _line(name, f"{each.sent:,}", rest, width)


def _series(name: str, counts: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Describe the sum of each row of counts."""
    yield ""
    yield _line(name, "count")
    for each, row in counts.items():
        yield _line(each, f"{sum(row):,}")


def _reasons(
    name: str, counts: Mapping[str, int] | Mapping[str | None, int], unit: str
) -> Iterator[str]:
    """Describe the count of each reason, the most frequent first."""
    yield ""
    yield _line(name, f"{sum(counts.values()):,}", unit)
    for reason, count in sorted(counts.items(), key=lambda each: -each[1]):
        yield _line(reason or "no reason", f"{count:,}")


def _rates(rates: Mapping[str, Rate]) -> Iterator[str]:
    """Describe the rates of the period and of the one before."""
    yield ""
    yield _line("rate", "share", "of the deliveries; in the previous period")
    for name, rate in rates.items():
        yield _line(name, _percent(rate.current), _percent(rate.previous))


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.2%}"


def _line(name: str, figure: str, rest: str = "", width: int = _NAME_WIDTH) -> str:
    return f"{printable(name):{width}.{width}}{figure:>12}  {rest}".rstrip()


def _seconds(time: timedelta) -> str:
    return f"{time.total_seconds():,.1f} s"


def _as_json(present: Present, overview: Overview, tables: TableCounts | None) -> Mapping[str, Any]:
    """Return the object that is printed: delays are in seconds, unknown values null."""
    logged, delays = present.logged, overview.delays
    return {
        "health": present.health,
        "entry": overview.entry,
        "period": overview.period.value,
        "now": overview.now,
        "starts": overview.starts,
        "total": overview.total if logged else None,
        "by_type": overview.by_type,
        "by_first_outcome": {each.value: row for each, row in overview.by_first_outcome.items()},
        "recovered": overview.recovered if logged else None,
        "by_reason": overview.by_reason,
        "rates": {name: rate._asdict() for name, rate in overview.rates.items()},
        "complete_since": overview.complete_since,
        "last_received": present.last_received,
        "parked": present.parked if logged else None,
        "expired": present.expired if logged else None,
        "unauthentic": {name: each._asdict() for name, each in present.unauthentic.items()}
        if logged
        else None,
        "unavailable": {name: each._asdict() for name, each in present.unavailable.items()}
        if logged
        else None,
        "delay_median": delays and delays.median.total_seconds(),
        "delay_p95": delays and delays.p95.total_seconds(),
        "sent": tables and tables.sent,
        "delivery_rate": tables and tables.delivery_rate,
        "open_rate": tables and tables.open_rate,
        "undelivered": tables and tables.undelivered,
        "suppressed": tables and {name or "": n for name, n in tables.suppressed.items()},
        "lists": tables and [msgspec.to_builtins(each) for each in tables.lists],
    }
