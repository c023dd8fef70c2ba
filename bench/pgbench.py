"""The limit: what PostgreSQL does of the same lookups and updates, driven by its own pgbench.

No Python, no HTTP, no log: prepared statements, a transaction for each notification.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from sqlalchemy import make_url, text

from data import BASE, Size
from places import Place, opened
from processes import cores
from proof import Unproved
from result import Result

THREE, ONE = "pgbench three", "pgbench one"

_DRAWN = f"""
\\set number random(0, {{dispatches}} - 1)
\\set message {BASE} + :number
\\set recipient {BASE} + :number % {{subscribers}}
"""
_EMAIL = "'subscriber-' || :recipient::bigint || '@example.com'"
_MESSAGE = "'b7bc2f4a-e38e-4336-9af7-' || :message::bigint"

SCRIPTS = {
    THREE: f"""{_DRAWN}
BEGIN;
SELECT id AS subscriber FROM hookrow_subscribers
WHERE lower(email COLLATE "C") = {_EMAIL} \\gset
SELECT id AS dispatch, subscriber_id AS owner FROM hookrow_dispatches
WHERE provider_message_id = {_MESSAGE} \\gset
UPDATE hookrow_dispatches SET opened_at = now() WHERE id = :dispatch;
COMMIT;
""",
    ONE: f"""{_DRAWN}
UPDATE hookrow_dispatches SET opened_at = now() FROM hookrow_subscribers
WHERE provider_message_id = {_MESSAGE} AND lower(email COLLATE "C") = {_EMAIL}
    AND hookrow_subscribers.id = subscriber_id;
""",
}

MOST = 64
"""Connections; PostgreSQL's default allows a hundred to all."""

SAMPLED = 0.1
"""Of the transactions; so many are written down, for the percentiles."""

ENDING = 5
"""In seconds; how long backends may take to end, at which each says what it did."""

_DONE = re.compile(r"actually processed: (\d+)")
_FAILED = re.compile(r"failed transactions: (\d+)")
_RATE = re.compile(r"tps = ([\d.]+)")


def limit(script: str, place: Place, size: Size, clients: int, seconds: int) -> Result:
    """Run a script, and see that each of its transactions updated a row. Raises `Unproved`."""
    assert place.pid is not None
    updated, base, own = _updated(place), cores(place.pid), _own()
    with TemporaryDirectory() as folder:
        said = _run(script, place, size, clients, seconds, Path(folder))
        latencies = quantiles(_latencies(Path(folder)), n=100)
    done, failed = int(_found(_DONE, said)), int(_found(_FAILED, said))
    until = monotonic() + ENDING
    while (updates := _updated(place) - updated) < done and monotonic() < until:
        sleep(0.1)
    if failed or updates < done:
        raise Unproved(f"{script}: {failed} transactions failed, {updates} of {done} updated.")
    return Result(
        name=script,
        family=script,
        database=place.name,
        processes=min(2, clients),
        log=False,
        connections=clients,
        rate=float(_found(_RATE, said)),
        p50=latencies[49] / 1000,
        p99=latencies[98] / 1000,
        server=None,
        base=(cores(place.pid) - base) / done * 1000,
        load=(_own() - own) / done * 1000,
        memory=None,
        errors=failed,
    )


def _run(script: str, place: Place, size: Size, clients: int, seconds: int, folder: Path) -> str:
    file = folder / "script.sql"
    file.write_text(
        SCRIPTS[script].format(dispatches=size.dispatches, subscribers=size.subscribers)
    )
    url = make_url(place.url)
    assert place.binaries is not None
    command = (
        *(place.binaries / "pgbench", "-n", "-M", "prepared", "-f", file),
        *("-c", clients, "-j", min(2, clients), "-T", seconds),
        *("-l", "--log-prefix", folder / "log", "--sampling-rate", SAMPLED),
        *("-h", url.query["host"], "-U", url.username, url.database),
    )
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unproved(f"{script}: {done.stderr.strip()}")
    return done.stdout


def _own() -> float:
    """Return for how long children that have ended, as pgbench has, kept cores busy."""
    usage = getrusage(RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _latencies(folder: Path) -> Iterator[float]:
    """Read what was written down, in microseconds: the third of the fields (pgbench(1))."""
    for file in folder.glob("log.*"):
        for line in file.read_text().splitlines():
            yield float(line.split()[2])


def _updated(place: Place) -> int:
    """Return how many rows of dispatches were ever updated, as those say that have ended."""
    question = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'hookrow_dispatches'"
    with opened(place.url) as engine, engine.connect() as connection:
        return int(connection.execute(text(question)).scalar_one())


def _found(pattern: re.Pattern[str], said: str) -> str:
    match = pattern.search(said)
    assert match is not None, said
    return match[1]
