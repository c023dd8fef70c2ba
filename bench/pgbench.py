"""The rate of PostgreSQL with the same lookups and updates, without Python, HTTP and the log.

pgbench runs prepared statements, in one transaction per notification.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from sqlalchemy import make_url

from data import BASE, subscribers
from environment import Database
from load import Load

_VARIABLES = f"""
\\set number random(0, {{dispatches}} - 1)
\\set message {BASE} + :number
\\set recipient {BASE} + :number % {{subscribers}}
"""
_EMAIL = "'subscriber-' || :recipient::bigint || '@example.com'"
_MESSAGE = "'b7bc2f4a-e38e-4336-9af7-' || :message::bigint"

SCRIPTS = {
    "pgbench three": f"""{_VARIABLES}
BEGIN;
SELECT id AS subscriber FROM hookrow_subscribers
WHERE lower(email COLLATE "C") = {_EMAIL} \\gset
SELECT id AS dispatch, subscriber_id AS owner FROM hookrow_dispatches
WHERE provider_message_id = {_MESSAGE} \\gset
UPDATE hookrow_dispatches SET opened_at = now() WHERE id = :dispatch;
COMMIT;
""",
    "pgbench one": f"""{_VARIABLES}
UPDATE hookrow_dispatches SET opened_at = now() FROM hookrow_subscribers
WHERE provider_message_id = {_MESSAGE} AND lower(email COLLATE "C") = {_EMAIL}
    AND hookrow_subscribers.id = subscriber_id;
""",
}

MAX_CONNECTIONS = 64
"""By default, PostgreSQL allows a hundred."""

SAMPLING_RATE = 0.1
"""The share of transactions whose latency pgbench logs."""

STATISTICS_DELAY = 5.0
"""In seconds; how long PostgreSQL may take to count the updates of sessions that have ended."""


def run(script: str, database: Database, rows: int, connections: int, seconds: int) -> Load:
    """Run a script, and check that each of its transactions updated a row."""
    at, updated = datetime.now(UTC), _updates(database)
    with TemporaryDirectory() as name:
        folder = Path(name)
        output = _run(script, database, rows, connections, seconds, folder)
        latencies = quantiles(_latencies(folder), n=100)
    done = int(_find(r"actually processed: (\d+)", output))
    until = monotonic() + STATISTICS_DELAY
    while (updates := _updates(database) - updated) < done and monotonic() < until:
        sleep(0.1)
    assert updates >= done, f"only {updates} of {done} transactions updated a row"
    return Load(
        at=at,
        connections=connections,
        answered=done,
        seconds=done / float(_find(r"tps = ([\d.]+)", output)),
        p50=latencies[49] / 1000,
        p99=latencies[98] / 1000,
        errors=int(_find(r"failed transactions: (\d+)", output)),
    )


def _run(
    script: str, database: Database, rows: int, connections: int, seconds: int, folder: Path
) -> str:
    file, url = folder / "script.sql", make_url(database.url)
    values = {"dispatches": rows, "subscribers": subscribers(rows)}
    file.write_text(SCRIPTS[script].format_map(values))
    assert database.binaries is not None
    command = (
        *(database.binaries / "pgbench", "-n", "-M", "prepared", "-f", file),
        *("-c", connections, "-j", min(2, connections), "-T", seconds),
        *("-l", "--log-prefix", folder / "log", "--sampling-rate", SAMPLING_RATE),
        *("-h", url.query["host"], "-U", url.username, url.database),
    )
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr.strip()
    return done.stdout


def _latencies(folder: Path) -> Iterator[float]:
    """Read the latencies in microseconds, the third field of each line (pgbench(1))."""
    for file in folder.glob("log.*"):
        for line in file.read_text().splitlines():
            yield float(line.split()[2])


def _updates(database: Database) -> int:
    """Return the number of updates of dispatches that ended sessions have reported."""
    [(updates,)] = database.execute(
        "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'hookrow_dispatches'"
    )
    return int(updates)


def _find(pattern: str, output: str) -> str:
    match = re.search(pattern, output)
    assert match is not None, output
    return match[1]
