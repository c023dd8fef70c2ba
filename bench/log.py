"""Measures a long log: `python bench/log.py [--rows N]`, with ten million where not said.

That takes some minutes, and 8 GB of disk; `bench/run.py` does it with fewer.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from random import randbytes
from statistics import median
from time import perf_counter, time

from sqlalchemy import ColumnElement, Engine, delete, func, select, text, update

from data import SECRET, SMALL, arrivals
from hookrow import Postmark, Recorded
from hookrow.core.log_entry import entries
from hookrow.receiver.recorder import keep_failed
from hookrow.receiver.retry import MOST, ParkedRetry
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import notifications
from load import load
from machine import facts, told
from places import databases, opened, server, settle
from report import Row, figure, loaded, show

FEW = 10_000
GROUP = 256
BATCH = 100_000
FAILED = notifications.c.outcome == "failed"

_COLUMNS = ", ".join(column.name for column in notifications.columns if column.name != "id")

_UTC = "strftime('%Y-%m-%d %H:%M:%f000', {}, 'unixepoch')"

# What is told of happened up to ten seconds before; entries lie in the order in which they came.
_FILL = {
    "postgresql": f"""
        INSERT INTO hookrow_notifications ({_COLUMNS})
        SELECT int4send(extract(epoch FROM happened)::int)
                || substring(uuid_send(gen_random_uuid()) FOR 12),
            'Open', md5(n::text), 'subscriber-' || n % 5000 || '@example.com', happened,
            :outcome, :outcome, :status, 1, came, came, came,
            now() + CAST(:parked AS int) * (1 + random()) * interval '1 hour',
            :body
        FROM (
            SELECT n, came, came - random() * interval '10 s' AS happened
            FROM generate_series(CAST(:first AS int), CAST(:last AS int)) AS n, LATERAL (
                SELECT now() - (:all - n) * (interval '90 days' / :all) AS came
            ) AS arrived
        ) AS new
    """,
    "sqlite": f"""
        WITH RECURSIVE
            numbers (n) AS (SELECT :first UNION ALL SELECT n + 1 FROM numbers WHERE n < :last),
            seconds (n, came) AS (
                SELECT n, :now - (:all - n) * 90 * 86400 / :all FROM numbers
            ),
            times (n, came, happened) AS (
                SELECT n, {_UTC.format("came")}, came - abs(random() % 10) FROM seconds
            )
        INSERT INTO hookrow_notifications ({_COLUMNS})
        SELECT fingerprint(happened), 'Open', printf('%032x', n),
            'subscriber-' || n % 5000 || '@example.com', {_UTC.format("happened")},
            :outcome, :outcome, :status, 1, came, came, came,
            {_UTC.format(":now + :parked * (3600 + abs(random() % 3600))")}, :body
        FROM times
    """,
}


def growing(name: str, url: str, rows: int) -> Iterator[Row]:
    """Keep new entries in a log of ten thousand, and in one of `rows`, in microseconds each."""
    with opened(url) as engine, closing(SQLStore(url)) as store:
        with engine.begin() as connection:
            connection.execute(delete(notifications))
        costs = []
        for size in (FEW, rows):
            fill_log(engine, size - _count(engine))
            costs.append(_cost(store))
            yield figure(f"keep, {name}, {size:,} in the log", costs[-1] * 1e6, "us")
        yield figure(f"keep, {name}, growth", costs[1] / costs[0], target="<= 1.5")


def sweeping(name: str, url: str, parked: int) -> Iterator[Row]:
    """Sweep a thousand that are due among so many parked: with nobody there, and under load."""
    with opened(url) as engine, closing(SQLStore(url)) as store:
        fill_log(engine, parked, parked=True)
        _park(store)
        _make_due(engine, timedelta(0))
        assert store.log is not None
        sweep = ParkedRetry(store, store.log, Postmark(SECRET).parse, _tell).retry_due
        seconds = []
        for _ in range(3):
            begin = perf_counter()
            assert sweep() == MOST, "not all that is due could be recorded"
            seconds.append(perf_counter() - begin)
        with server(url) as (port, pid):
            quiet = load(port, 16)
            yield loaded(f"{name}, quiet", quiet, pid)
        with server(url, "--sweep") as (port, pid):
            _make_due(engine, timedelta(seconds=2))  # when the load has warmed up
            swept = load(port, 16)
            yield loaded(f"{name}, swept", swept, pid, ratio=swept.p99 / quiet.p99)
        what = f"sweep of {MOST:,}, {name}, {parked:,} parked"
        yield figure(what, median(seconds) * 1000, "ms", "< 1000")
        left = _count(engine, FAILED)
        yield figure(
            f"swept meanwhile, {name}", SMALL.dispatches - len(seconds) * MOST - left, "rows"
        )


def _cost(store: SQLStore) -> float:
    """Return how long it takes to keep a new entry, in seconds: the best of five courses."""
    costs = []
    for _ in range(5):
        new = arrivals(20 * GROUP)
        begin = perf_counter()
        for start in range(0, len(new), GROUP):
            group = new[start : start + GROUP]
            kept = entries(group, [Recorded(())] * GROUP, datetime.now(UTC))
            with store.transaction() as transaction:
                transaction.write((), kept)
        costs.append((perf_counter() - begin) / len(new))
    return min(costs)


def fill_log(engine: Engine, rows: int, *, parked: bool = False, body: str = "{}") -> None:
    """Add to the log what was recorded in 90 days, or what is parked.

    Longer bodies take longer to write.
    """
    values = {
        "all": rows,
        "now": int(time()),
        "outcome": "dispatch_not_found" if parked else "recorded",
        "status": 404 if parked else 200,
        "parked": 1 if parked else None,
        "body": body,
    }
    for first in range(1, rows + 1, BATCH):
        with engine.begin() as connection:
            if engine.dialect.name == "sqlite":
                driver = connection.connection.driver_connection
                assert driver is not None
                driver.create_function("fingerprint", 1, _fingerprint)
            last = min(first + BATCH - 1, rows)
            statement = text(_FILL[engine.dialect.name])
            connection.execute(statement, values | {"first": first, "last": last})
    settle(engine)


def _park(store: SQLStore) -> None:
    """Park what can be recorded: one for each dispatch."""
    new = arrivals()
    for start in range(0, len(new), GROUP):
        keep_failed(store, new[start : start + GROUP])


def _fingerprint(second: int) -> bytes:
    return second.to_bytes(4) + randbytes(12)


def _make_due(engine: Engine, after: timedelta) -> None:
    due = update(notifications).where(FAILED)
    with engine.begin() as connection:
        connection.execute(due.values(retry_at=datetime.now(UTC) + after))


def _count(engine: Engine, *only: ColumnElement[bool]) -> int:
    count = select(func.count()).select_from(notifications).where(*only)
    with engine.connect() as connection:
        return connection.execute(count).scalar_one()


def _tell(arrivals: object, outcomes: object) -> None:
    """Be told what was recorded."""


def main() -> None:
    """Measure the growth on each database."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    with databases() as urls:
        print(told(facts(urls["postgresql"])), end="\n\n", flush=True)
        for name, url in urls.items():
            for row in growing(name, url, rows):
                show(row)


if __name__ == "__main__":
    main()
