"""The page of documentation that a full run writes: docs/performance.md, and its plots.

`python bench/page.py` writes it of the results that there are: those of a run that was ended.
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

*Written by `make bench-full` on {date}, except for the section
on the store.*

hookrow beside what one would write instead, on the same tables ({dispatches:,} dispatches,
{subscribers:,} subscribers), under the same notifications, in one run. Every notification is
new and about a dispatch in random order. Each is on the disk before it is answered: PostgreSQL
has its defaults, SQLite its write-ahead log and `synchronous = FULL`. After each load it was
counted that as many rows had changed as notifications were answered, with no error among them;
what did not pass that has no figures here. {failures}

## Ratios

Each family is taken in its best number of processes, over 64 connections where nothing else is
said; hookrow is `hookrow serve` with the log, which no other keeps. In the plots hookrow has its
log, too, where they do not say otherwise.

{targets}

![Rate on PostgreSQL](performance/rate-postgresql.svg)

![Rate on SQLite](performance/rate-sqlite.svg)

![Latency on PostgreSQL](performance/latency.svg)

What a notification costs step by step, and what stands in the way of more, is in
[hot-path](hot-path.md).

## The store

`record()` alone, which finds, decides, writes and logs a group of 32 notifications in one
transaction: microseconds of CPU for each notification, of the thread that records and of
PostgreSQL's own processes. *before* is the first edition (34495fe), which built its SQL with
SQLAlchemy's expressions and, in Django, with the ORM. Medians of eight turns (Django: six) of
before and now, measured on 2026-11-22 at ab373e9 with a raised priority, because two cores were
busy with other work: `nice -n -19 python bench/record.py --against 34495fe --turns 8`, and the same
with `--django --turns 6`.

| | before | now | ratio | ratios of the turns |
| --- | ---: | ---: | ---: | --- |
| PostgreSQL | 35.3 | 25.8 | **0.73** | 0.66 to 1.07 |
| its own processes | 50.2 | 51.0 | **1.01** | 0.82 to 1.32 |
| SQLite | 95.0 | 70.6 | **0.74** | 0.71 to 0.83 |
| Django on PostgreSQL | 165.4 | 58.7 | **0.35** | 0.29 to 0.44 |
| its own processes | 136.0 | 120.0 | **0.88** | 0.79 to 1.07 |
| Django on SQLite | 143.9 | 90.4 | **0.63** | 0.54 to 0.77 |

## Figures

Medians of the runs. The rate is in notifications a second, p50 and p99 in milliseconds. Then
come seconds on a core for a thousand notifications: of the server, of the database's own
processes, and of the load. **The load takes its part of the same cores from everybody**, and
so all are slower than with the load elsewhere. The memory is the most that the server's largest
process had until then, in MB. wrk corrects its percentiles for the requests that it would have
sent while it waited for an answer, which makes them larger; pgbench does not.

{results}

## What was run

* **hookrow serve**, with the log and without it, and without metrics, as is its default;
  **hookrow WSGI**: a `Receiver` under gunicorn with 64 threads; **hookrow Django**: its view in a
  Django project with `GROUP_COMMIT`.
* **Django anymail**: the Postmark view of django-anymail, and a receiver of its signal that
  records by the ORM in a transaction, under gunicorn with 16 threads. What it refuses without
  the secret it answers 400, not 401.
* **FastAPI ORM**: pydantic, and SQLAlchemy's async ORM in a transaction for each request, under
  uvicorn with uvloop and httptools.
* **floor**: an application that reads the body and answers 200, under the same uvicorn or
  gunicorn.
* **pgbench**: the same lookups and the update of a time by prepared statements, as three in a
  transaction or as one. It has no more than 64 connections, for PostgreSQL allows a hundred.

`x2` means two processes. The sources are in `bench/peers/`, and the figures as JSON in
[performance/results.json](performance/results.json).

## The machine

{machine}
"""


def write() -> None:
    """Write the page and its plots, of the results."""
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
    text = PAGE.format(
        date=run.date,
        dispatches=run.size.dispatches,
        subscribers=run.size.subscribers,
        targets=_targets(targets(run.results)),
        failures=_failures(run.failures),
        results=_results(run.results),
        machine=table(("what", "which"), run.machine.items()),
    )
    (DOCS / "performance.md").write_text(text)


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
