"""The cost of open dashboards for `hookrow serve`: `python bench/dashboards.py`.

Loads without and with twenty open dashboards alternate on the same server: one of 400 notifications
per second, and one as fast as possible. Each dashboard shows the overview of one of the four
periods, and requests it every five seconds, like the script of the page (static/live.js). Prints
the CPU time of the server and of PostgreSQL for each notification, the rate and the latency; and
the CPU time of the server for the dashboards alone, which varies least if the machine is busy.

With `--entries N`, PostgreSQL's log is filled with N entries of 30 days instead, and the first and
second pages of each period and `hookrow stats --period month` are timed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from itertools import cycle, islice
from threading import Event, Thread
from time import monotonic, sleep

from data import BASE, ROWS, SECRET
from environment import (
    POSTGRESQL,
    ROOT,
    SQLITE,
    Database,
    cpu_seconds,
    databases,
    free_port,
    running,
)
from hookrow._statistics import Period
from hookrow.stores.sql import SQLStore
from load import post
from results import format_turns, measure

PASSWORD = "a-password-for-the-benchmark"
LOGIN = {"Authorization": f"Basic {b64encode(f'hookrow:{PASSWORD}'.encode()).decode()}"}

INTERVAL = 5.0
"""In seconds; how often an open page requests its figures."""

CONNECTIONS = 64

_PORTION = 1_000_000

_FILL = """
INSERT INTO hookrow_notifications (
    fingerprint, record_type, message_id, recipient, occurred_at, outcome, first_outcome, status,
    attempts, received_at, last_received_at, ended_at, body, reason, provider, source
)
SELECT decode(lpad(to_hex(extract(epoch FROM at)::bigint), 8, '0') || lpad(to_hex(n), 24, '0'),
        'hex'),
    type, 'b7bc2f4a-e38e-4336-9af7-' || ({base} + n % {rows}), 'person-' || n || '@example.com',
    at, outcome, outcome, CASE outcome WHEN 'recorded' THEN 200 ELSE 404 END,
    1, at, at, at + interval '5 ms', repeat('a body of 40 characters, ten times over ', 10),
    CASE type WHEN 'SubscriptionChange' THEN 'HardBounce' END, 'postmark', 'live'
FROM (
    SELECT n, now() - interval '30 days' * (1 - n::float / {entries}) AS at,
        CASE WHEN n % 20 = 0 THEN 'SubscriptionChange' WHEN n % 2 = 0 THEN 'Open'
            ELSE 'Delivery' END AS type,
        CASE n % 100 WHEN 0 THEN 'dispatch_not_found' ELSE 'recorded' END AS outcome
    FROM generate_series({first}, {last}) AS n
) AS entries
"""


def main() -> None:
    """Print the costs, or the durations in a large log."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=15, help="duration of a load")
    parser.add_argument("--rate", type=int, default=400, help="of the first load, per second")
    parser.add_argument("--dashboards", type=int, default=20)
    parser.add_argument("--entries", type=int, help="measure pages in a log of this length")
    options = parser.parse_args()
    names = (POSTGRESQL,) if options.entries else (POSTGRESQL, SQLITE)
    with databases(ROWS, names) as created:
        for database in created.values():
            if options.entries:
                fill(database, options.entries)
                print(*pages(database), sep="\n")
            else:
                print(*costs(database, options), sep="\n")


@contextmanager
def serving(database: Database) -> Iterator[tuple[int, int]]:
    """Run the server with its dashboard; yield its port and process id."""
    port = free_port()
    flags = ("--port", port, "--dashboard", "--no-sweep")
    command = (sys.executable, "-m", "hookrow", "serve", *flags)
    with running(command, port, _environment(database)) as pid:
        yield port, pid


def _environment(database: Database) -> Mapping[str, str]:
    return {
        "PYTHONPATH": os.fspath(ROOT / "src"),
        "HOOKROW_SECRET": SECRET,
        "HOOKROW_DATABASE_URL": database.url,
        "HOOKROW_DASHBOARD_PASSWORD": PASSWORD,
        "HOOKROW_LOG_LEVEL": "error",
    }


# -- the cost for the receiver -----------------------------------------------------------


def costs(database: Database, options: argparse.Namespace) -> Iterator[str]:
    """Put the server under both loads, without and with dashboards; compare the medians."""
    turns: defaultdict[str, list[tuple[float, ...]]] = defaultdict(list)
    pauses = {f"{options.rate} per second": 1000 * CONNECTIONS // options.rate, "full load": 0}
    with serving(database) as (port, pid):
        post(port, CONNECTIONS, options.seconds)  # to warm up, and to fill the log
        for turn in range(options.turns):
            for load, pause in pauses.items():
                both = []
                for number in (0, options.dashboards):
                    with opened(port, number):
                        given = partial(post, port, CONNECTIONS, options.seconds, pause=pause)
                        both.append(measure(given, pid, database.pid)[1])
                for what in both[0]:
                    values = tuple(each[what] for each in both)
                    turns[f"{database.name}, {load}: {what}"].append(values)
            idle = [measure_idle(port, pid, n, options.seconds) for n in (0, options.dashboards)]
            turns[f"{database.name}, dashboards alone: ms per second"].append((idle[1] - idle[0],))
            print(f"turn {turn + 1} of {options.turns}", file=sys.stderr)
    for name, measured in turns.items():
        yield f"{name:48} {format_turns(measured)}"


def measure_idle(port: int, pid: int, dashboards: int, seconds: int) -> float:
    """Return the server's CPU time without a load, in milliseconds per second."""
    with opened(port, dashboards):
        before = cpu_seconds(pid)
        sleep(seconds)
        return (cpu_seconds(pid) - before) / seconds * 1000


@contextmanager
def opened(port: int, number: int) -> Iterator[None]:
    """Open dashboards during the block, evenly distributed over the interval and the periods."""
    end, failed = Event(), list[Exception]()
    threads = [
        Thread(target=_refresh, args=(port, period, INTERVAL * n / number, end, failed))
        for n, period in enumerate(islice(cycle(Period), number))
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        end.set()
        for thread in threads:
            thread.join()
    assert not failed, failed


def _refresh(port: int, period: Period, delay: float, end: Event, failed: list[Exception]) -> None:
    """Request a page at each interval until the end."""
    start = monotonic() + delay
    try:
        while not end.wait(max(start - monotonic(), 0)):
            # The server closes connections that are idle for longer.
            with closing(HTTPConnection("127.0.0.1", port, timeout=INTERVAL)) as connection:
                get(connection, period)
            start += INTERVAL
    except (AssertionError, OSError, HTTPException) as error:
        failed.append(error)


def get(connection: HTTPConnection, period: Period) -> None:
    """Request the overview of a period."""
    connection.request("GET", f"/dashboard/?period={period.value}", headers=LOGIN)
    response = connection.getresponse()
    body = response.read()
    assert response.status == HTTPStatus.OK, body


# -- pages in a large log -------------------------------------------------------------------


def fill(database: Database, entries: int) -> None:
    """Fill the log with entries of 30 days, and count them by hour."""
    for first in range(1, entries + 1, _PORTION):
        last = min(first + _PORTION - 1, entries)
        database.execute(
            _FILL.format(base=BASE, rows=ROWS, entries=entries, first=first, last=last)
        )
        print(f"{last:,} of {entries:,} entries", file=sys.stderr)
    database.settle()
    count_hours(database)


def count_hours(database: Database) -> None:
    """Count all entries of the log by hour, as the server would."""
    with closing(SQLStore(database.url)) as store:
        assert store.log is not None
        while store.log.count_hours():
            pass


def pages(database: Database) -> Iterator[str]:
    """Time the pages of two servers, and the command; durations are in milliseconds.

    The first page of a period reads its figures; the next one gets them from the cache.
    """
    for server in (1, 2):
        with (
            serving(database) as (port, _),
            closing(HTTPConnection("127.0.0.1", port)) as connection,
        ):
            for period in reversed(Period):
                first, cached = (timed(get, connection, period) for _ in range(2))
                yield f"{f'server {server}, {period.value}':48} {first:9.1f} {cached:9.1f}"
    command = [sys.executable, "-m", "hookrow", "stats", "--period", "month"]
    environment, output = os.environ | _environment(database), subprocess.DEVNULL
    run = partial(subprocess.run, command, env=environment, stdout=output, check=True)
    yield f"{'hookrow stats --period month':48} {timed(run):9.1f}"


def timed(function: Callable[..., object], *arguments: object) -> float:
    """Call a function; return the milliseconds that it took."""
    began = monotonic()
    function(*arguments)
    return (monotonic() - began) * 1000


if __name__ == "__main__":
    main()
