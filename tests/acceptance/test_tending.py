"""Several stores sweep and prune one log at the same moment, while notifications arrive."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier

from traffic import Load, fill, report

from command import Command
from hookrow import Arrival, testing
from hookrow.parked import Parked
from hookrow.postmark import parse
from hookrow.recording import record
from hookrow.retention import pruned
from hookrow.stores.sql import SQLStore
from postgres import Databases

STORES, PARKED, OLD = 3, 1000, 4000

AGED = f"""
    INSERT INTO hookrow_notifications (fingerprint, outcome, first_outcome, status, attempts,
                                       received_at, last_received_at, ended_at)
    SELECT decode(lpad(to_hex(n), 32, '0'), 'hex'), 'recorded', 'recorded', 200, 1, at, at, at
    FROM generate_series(1, {OLD}) AS n, (SELECT now() - interval '200 days') AS long_ago (at)
"""
DUE = "UPDATE hookrow_notifications SET retry_at = received_at WHERE status <> 200"


def test_at_the_same_moment(postgres: Databases, postgres_url: str, tmp_path: Path) -> None:
    """Each entry is swept or pruned once, and everything that arrives meanwhile is answered 200."""
    load, together = Load(postgres_url, pause=0.01), Barrier(STORES)
    rows, now = range(1001, 1001 + PARKED), datetime.now(UTC)
    payloads = [testing.opening(f"s{n}@example.com", f"m{n}", at=now) for n in rows]
    bodies = [json.dumps(each).encode() for each in payloads]
    postgres.execute(AGED, url=postgres_url)
    with closing(SQLStore(postgres_url)) as store:
        record(store, [Arrival(parse(body), body, now) for body in bodies])
    fill(postgres_url, rows)
    postgres.execute(DUE, url=postgres_url)

    def tend(_: int) -> tuple[int, int]:
        """Sweep and prune once; return how many entries each did."""
        with closing(SQLStore(postgres_url)) as store:
            assert store.log is not None
            parked = Parked(store, store.log, parse, lambda *_: None)
            together.wait(60)
            swept = parked.sweep()
            return swept, sum(pruned(store.log, keep=timedelta(days=90), keep_bodies=None))

    arguments = ("--no-sweep", "--keep", "forever", "--database-url", postgres_url)
    with Command(tmp_path).serving(*arguments) as serving, load.on(serving.port):
        load.wait_for(50, 200)
        with ThreadPoolExecutor(STORES) as threads:
            counts = list(threads.map(tend, range(STORES)))
    report(f"swept and pruned by each: {counts}; {load}")
    assert tuple(map(sum, zip(*counts, strict=True))) == (PARKED, OLD)
    load.check(200)
