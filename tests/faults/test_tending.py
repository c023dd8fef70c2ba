"""Many processes sweep and prune one log at the same moment, while notifications come."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import insert, text
from traffic import Load, report

from command import Command
from hookrow import Arrival, testing
from hookrow.postmark import parse
from hookrow.recording import record
from hookrow.stores.engines import opened
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import dispatches
from wire import PATIENCE

PROCESSES, PARKED, OLD = 5, 2000, 5000

_TEND = """
import sys
from datetime import timedelta
from hookrow.parked import Parked
from hookrow.postmark import parse
from hookrow.retention import pruned
from hookrow.stores.sql import SQLStore
store = SQLStore(sys.argv[1])
parked = Parked(store, store.log, parse, lambda *told: None)
print("ready", flush=True)
sys.stdin.readline()
print(parked.sweep(), sum(pruned(store.log, keep=timedelta(days=90), keep_bodies=None)))
"""

_OLD = """
    INSERT INTO hookrow_notifications (fingerprint, outcome, first_outcome, status, attempts,
                                       received_at, last_received_at, ended_at)
    SELECT decode(lpad(to_hex(n), 32, '0'), 'hex'), 'recorded', 'recorded', 200, 1, at, at, at
    FROM generate_series(1, :number) AS n, (SELECT now() - interval '200 days') AS long_ago (at)
"""

_DUE = "UPDATE hookrow_notifications SET retry_at = received_at WHERE status <> 200"


def fill(url: str) -> None:
    """Put into the log what is too old, and what is due and can be recorded now."""
    now = datetime.now(UTC)
    messages = {n: f"m{n}" for n in range(1001, 1001 + PARKED)}
    payloads = [testing.opening("s1@example.com", each, at=now) for each in messages.values()]
    bodies = [json.dumps(each).encode() for each in payloads]
    rows = [
        {"id": n, "provider_message_id": each, "subscriber_id": 1} for n, each in messages.items()
    ]
    with opened(url) as engine:
        with engine.begin() as connection:
            connection.execute(text(_OLD), {"number": OLD})
        record(SQLStore(engine), [Arrival(parse(body), body, now) for body in bodies])
        with engine.begin() as connection:
            connection.execute(insert(dispatches), rows)
            connection.execute(text(_DUE))


class Tending:
    """A process that sweeps and prunes once, when it is told to."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _TEND, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def begin(self) -> None:
        """Tell it."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def done(self) -> Sequence[int]:
        """Return how many it has swept, and how many pruned."""
        return [int(count) for count in self._process.communicate(timeout=4 * PATIENCE)[0].split()]


@pytest.mark.slow
def test_at_the_same_moment(postgres_url: str, tmp_path: Path) -> None:
    """Each entry is swept or pruned by one of them, and what comes meanwhile is answered 200."""
    load = Load(postgres_url, pause=0.002)
    fill(postgres_url)
    processes = [Tending(postgres_url) for _ in range(PROCESSES)]
    receiving = Command(tmp_path).serving(
        "--no-sweep", "--keep", "forever", "--database-url", postgres_url
    )
    with receiving as receiver, load.on(receiver.port):
        for each in processes:
            each.begin()
        swept, pruned = zip(*(each.done() for each in processes), strict=True)
    report(f"Swept {swept}, pruned {pruned}: {load.told()}")
    assert (sum(swept), sum(pruned)) == (PARKED, OLD)
    assert set(load.statuses()) == {200}
    assert load.lost() == []
