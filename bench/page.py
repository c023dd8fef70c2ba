"""Writes docs/performance.md and its plots after a full run.

`python bench/page.py` writes them from the results of the last run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TypeAlias

import msgspec

from markdown import DOCS, table
from pgbench import ONE, THREE
from places import POSTGRESQL, SQLITE
from plots import Line, plot
from report import digits
from result import Failure, Result, Run, best
from subjects import ANYMAIL, FASTAPI, FLOOR, MOUNTED, SERVE, WSGI
from targets import Target, targets

RESULTS = DOCS / "performance" / "results.json"

Chosen: TypeAlias = tuple[str, str | None, bool]
"""A family, a database, and whether it is with the log."""

COLOURS = {
    SERVE.name: "#3b82f6",
    WSGI.name: "#0e9aa7",
    MOUNTED.name: "#a855f7",
    ANYMAIL.name: "#d9730d",
    FASTAPI.name: "#2e9e5b",
    ONE: "#ef4444",
    THREE: "#b58900",
    FLOOR.name: "#808080",
}

RATE_PLOTS: Mapping[str, Sequence[Chosen]] = {
    POSTGRESQL: [
        (FLOOR.name, None, False),
        (ONE, POSTGRESQL, False),
        (THREE, POSTGRESQL, False),
        (SERVE.name, POSTGRESQL, True),
        (SERVE.name, POSTGRESQL, False),
        (WSGI.name, POSTGRESQL, True),
        (ANYMAIL.name, POSTGRESQL, False),
        (FASTAPI.name, POSTGRESQL, False),
    ],
    SQLITE: [
        (SERVE.name, SQLITE, True),
        (SERVE.name, SQLITE, False),
        (WSGI.name, SQLITE, True),
        (MOUNTED.name, SQLITE, True),
        (ANYMAIL.name, SQLITE, False),
        (FASTAPI.name, SQLITE, False),
    ],
}
WAITING: Sequence[Chosen] = [
    (SERVE.name, POSTGRESQL, True),
    (ANYMAIL.name, POSTGRESQL, False),
    (FASTAPI.name, POSTGRESQL, False),
]

PAGE = """\
# Performance

*Written by `make bench-full` on {date}, except for the sections
on the store and on where the time goes.*

hookrow compared with common alternatives, on the same tables ({dispatches:,} dispatches,
{subscribers:,} subscribers), with the same notifications, in one run. Every notification is
new, and about a random dispatch. Each is on the disk before its response is sent: PostgreSQL
has its defaults, SQLite its write-ahead log and `synchronous = FULL`. After each load, a check
confirmed that the number of changed rows equals the number of responses, without an error;
a load that failed this check has no figures here. {failures}

## Ratios

Each server runs in the number of processes that suits it best, with 64 connections unless stated
otherwise; hookrow is `hookrow serve` with the log, which the others do not have. In the plots,
hookrow has its log unless stated otherwise.

{targets}

![Rate on PostgreSQL](performance/rate-postgresql.svg)

![Rate on SQLite](performance/rate-sqlite.svg)

![Latency on PostgreSQL](performance/latency.svg)

{sections}## Figures

Medians of the runs. The rate is in notifications per second, p50 and p99 are in milliseconds. The
next three columns are CPU seconds for a thousand notifications: of the server, of the database's
own processes, and of the load generator. **The load generator uses the same cores**, so that all
are slower than with a load from another machine. The memory is the peak of the server's largest
process until then, in MB. wrk corrects its percentiles for the requests that it would have
sent while it waited for a response, which makes them larger; pgbench does not.

{results}

## What was run

* **hookrow serve**, with and without the log, and without metrics, which is its default;
  **hookrow WSGI**: a `Receiver` under gunicorn with 64 threads; **hookrow Django**: its view in a
  Django project with `GROUP_COMMIT`.
* **Django anymail**: the Postmark view of django-anymail, and a receiver of its signal that
  records with the ORM in a transaction, under gunicorn with 16 threads. Without the secret, its
  response is 400 instead of 401.
* **FastAPI ORM**: pydantic, and SQLAlchemy's async ORM in a transaction for each request, under
  uvicorn with uvloop and httptools.
* **floor**: an application that reads the body and returns 200, under the same uvicorn or
  gunicorn.
* **pgbench**: the same lookups and the update of a time as prepared statements, three in a
  transaction or one. It has at most 64 connections, because PostgreSQL allows a hundred.

`x2` means two processes. The sources are in `bench/peers/`, and the figures as JSON in
[performance/results.json](performance/results.json).

## The machine

{machine}
"""


def write() -> None:
    """Write the page and its plots, and keep the page's sections that are written by hand."""
    run = msgspec.json.decode(RESULTS.read_bytes(), type=Run)
    lines = {
        f"rate-{database.lower()}": (
            f"Notifications a second, {database}",
            "1/s",
            list(_rates(run.results, chosen)),
        )
        for database, chosen in RATE_PLOTS.items()
    }
    lines["latency"] = (
        f"Latency, {POSTGRESQL} (dotted: p99)",
        "ms",
        list(_latencies(run.results)),
    )
    for name, (title, axis, drawn) in lines.items():
        (RESULTS.parent / f"{name}.svg").write_text(plot(title, axis, drawn))
    file = DOCS / "performance.md"
    text = PAGE.format(
        date=run.date,
        dispatches=run.size.dispatches,
        subscribers=run.size.subscribers,
        targets=_targets(targets(run.results)),
        failures=_failures(run.failures),
        sections=_by_hand(file.read_text()),
        results=_results(run.results),
        machine=table(("what", "which"), run.machine.items()),
    )
    file.write_text(text)


def _by_hand(page: str) -> str:
    """Return the sections of the page on the store and on where the time goes."""
    return page[page.index("## The store") : page.index("## Figures")]


def _rates(results: Sequence[Result], chosen: Sequence[Chosen]) -> Iterator[Line]:
    for family, database, log in chosen:
        course = best(results, family, database, log=log)
        values = {connections: each.rate for connections, each in course.items()}
        silent = not log and (family, database, True) in chosen
        name = f"{family}, no log" if silent else family
        yield Line(name, values, COLOURS[family], dashed=silent)


def _latencies(results: Sequence[Result]) -> Iterator[Line]:
    for family, database, log in WAITING:
        course = best(results, family, database, log=log)
        for figure in ("p50", "p99"):
            values = {n: attrgetter(figure)(each) for n, each in course.items()}
            yield Line(f"{family}, {figure}", values, COLOURS[family], dashed=figure == "p99")


def _targets(reached: Iterable[Target]) -> str:
    return table(
        ("ratio", "measured", "at least", "aim", ""),
        (
            (
                each.what,
                "" if each.value is None else f"**{digits(each.value, 2)}**",
                f"{each.least:g}",
                f"{each.aim:g}" if each.aim else "",
                each.verdict,
            )
            for each in reached
        ),
    )


def _failures(failures: Sequence[Failure]) -> str:
    if not failures:
        return "Nothing failed."
    told = "\n".join(f"* {each.name}: {each.why}" for each in failures)
    return f"**These could not be measured to their end:**\n\n{told}"


def _results(results: Iterable[Result]) -> str:
    return table(
        ("what", "connections", "rate", "p50", "p99", "server", "database", "load", "MB", "errors"),
        (
            (
                each.name,
                str(each.connections),
                digits(each.rate, 0),
                digits(each.p50, 2),
                digits(each.p99, 2),
                digits(each.server, 3),
                digits(each.base, 3),
                digits(each.load, 3),
                digits(each.memory, 0),
                str(each.errors),
            )
            for each in results
        ),
    )


if __name__ == "__main__":
    write()
