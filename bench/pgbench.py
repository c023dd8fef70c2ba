"""The rate of PostgreSQL with the same lookups and updates, without Python, HTTP and the log.

pgbench runs prepared statements, in one transaction per notification.
"""

from __future__ import annotations

import re
import subprocess
from datetime import UTC, datetime
from math import nan

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


def run(script: str, database: Database, rows: int, connections: int, seconds: int) -> Load:
    """Run a script. pgbench reports the average latency instead of quantiles."""
    at = datetime.now(UTC)
    output = _run(script, database, rows, connections, seconds)
    done = int(_find(r"actually processed: (\d+)", output))
    return Load(
        at=at,
        connections=connections,
        answered=done,
        seconds=done / float(_find(r"tps = ([\d.]+)", output)),
        p50=float(_find(r"latency average = ([\d.]+) ms", output)),
        p99=nan,
        errors=int(_find(r"failed transactions: (\d+)", output)),
    )


def _run(script: str, database: Database, rows: int, connections: int, seconds: int) -> str:
    values = {"dispatches": rows, "subscribers": subscribers(rows)}
    url = make_url(database.url)
    assert database.binaries is not None
    command = (
        *(database.binaries / "pgbench", "-n", "-M", "prepared", "-f", "/dev/stdin"),
        *("-c", connections, "-j", min(2, connections), "-T", seconds),
        *("-h", url.query["host"], "-U", url.username, url.database),
    )
    done = subprocess.run(
        list(map(str, command)),
        input=SCRIPTS[script].format_map(values),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.strip()
    return done.stdout


def _find(pattern: str, output: str) -> str:
    match = re.search(pattern, output)
    assert match is not None, output
    return match[1]
