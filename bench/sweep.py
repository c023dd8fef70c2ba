"""Measures sweeps of a log that is full of hopeless entries: `python bench/sweep.py [--entries N]`.

For each database and each mixture, the log gets entries that are due and cannot be recorded: for
strangers, for known people without the dispatch, or with the dispatch of another person. Then a
server sweeps under a live load. Every five seconds, a due entry is added whose rows exist. Prints
the longest time until one of these was recorded, in seconds, and the latency of the live
notifications in milliseconds, also that with an empty log.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep

from data import BASE, ROWS
from environment import MARIADB, POSTGRESQL, SQLITE, Database, databases
from load import Load, post
from subjects import SERVE

_PERSON = f"'subscriber-' || ({BASE} + n % 1000) || '@example.com'"

MIXTURES: Mapping[str, tuple[str, str, str]] = {
    "strangers": ("'stranger-' || n || '@elsewhere.example'", "'none-' || n", "subscriber"),
    "known people": (_PERSON, "'none-' || n", "dispatch"),
    "mismatches": (_PERSON, f"'b7bc2f4a-e38e-4336-9af7-' || ({BASE} + 1 + n % 1000)", "mismatch"),
}
"""The recipient and the message id of entry number n, and what is wrong with it."""

HOPEFUL = (_PERSON, f"'b7bc2f4a-e38e-4336-9af7-' || ({BASE} + n % 1000)", "dispatch")

OUTCOMES = {
    "subscriber": "subscriber_not_found",
    "dispatch": "dispatch_not_found",
    "mismatch": "recipient_mismatch",
}

_DIGESTS = {
    POSTGRESQL: "decode(md5(random()::text || n), 'hex')",
    SQLITE: "randomblob(16)",
    MARIADB: "unhex(md5(rand() || '-' || n))",
}
_TIMES = {
    POSTGRESQL: "timestamptz '{0}+00' - n * interval '0.1 s'",
    SQLITE: "strftime('%Y-%m-%d %H:%M:%S', '{0}', '-' || (n / 10) || ' seconds') || "
    "'.' || printf('%06d', n % 10 * 100000)",
    MARIADB: "timestampadd(MICROSECOND, n * -100000, '{0}')",
}

EVERY = 5.0
"""In seconds; the interval between two entries whose rows exist."""

CONNECTIONS, PAUSE = 4, 80
"""The live load: connections, and the milliseconds between a response and the next request."""


def fill(database: Database, kind: tuple[str, str, str], first: int, last: int) -> None:
    """Add numbered entries that arrived within the last day and are due."""
    recipient, message_id, fault = kind
    now = datetime.now(UTC)
    digest = _DIGESTS[database.name]

    def time(offset: timedelta) -> str:
        text = f"{now - offset:%Y-%m-%d %H:%M:%S}.000000"
        return _TIMES[database.name].format(text)

    arrived = time(timedelta(minutes=2))
    database.execute(
        f"""INSERT INTO hookrow_notifications (fingerprint, record_type, message_id, recipient,
            occurred_at, outcome, first_outcome, status, attempts, received_at, last_received_at,
            ended_at, retry_at, body, provider, source)
        WITH RECURSIVE numbers (n) AS (
            SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n < {last}
        ) SELECT {digest}, 'Open', {message_id}, {recipient}, {arrived}, '{OUTCOMES[fault]}',
            '{OUTCOMES[fault]}', 404, 1, {arrived}, {arrived}, {arrived},
            {time(timedelta(minutes=1))},
            '{{"RecordType": "Open", "ReceivedAt": "2026-03-04T05:06:07Z", "FirstOpen": true, '
            || '"MessageID": "' || {message_id} || '", "Recipient": "' || {recipient}
            || '", "Note": "{"x" * 600}"}}', 'postmark', 'live' FROM numbers"""
    )


def times_until_recorded(database: Database, first: int, until: float) -> Iterator[float]:
    """Add an entry whose rows exist every few seconds; yield how long each took, in seconds."""
    added: dict[int, float] = {}
    number = first
    is_parked = (
        "SELECT count(*) FROM hookrow_notifications WHERE retry_at IS NOT NULL AND "
        "first_outcome = 'dispatch_not_found' AND message_id = 'b7bc2f4a-e38e-4336-9af7-{}'"
    )
    while monotonic() < until or added:
        if monotonic() < until and monotonic() >= max(added.values(), default=0.0) + EVERY:
            fill(database, HOPEFUL, number, number)
            added[number] = monotonic()
            number += 1
        for each, at in list(added.items()):
            ((left,),) = database.execute(is_parked.format(BASE + each % 1000))
            if not left:
                yield monotonic() - at
                del added[each]
        sleep(0.5)


def measure(
    database: Database, entries: int, seconds: int, mixture: str = ""
) -> tuple[float, Load]:
    """Return the longest time until an entry was recorded, in seconds, and the live load."""
    database.empty_log()
    if mixture:
        fill(database, MIXTURES[mixture], 1, entries)
    database.settle()
    with SERVE(database=database.name).running(database) as (port, _), ThreadPoolExecutor() as pool:
        load: Future[Load] = pool.submit(post, port, CONNECTIONS, seconds, rows=ROWS, pause=PAUSE)
        until = monotonic() + seconds - 60
        longest = max(times_until_recorded(database, 500, until)) if mixture else 0.0
        return longest, load.result()


def main() -> None:
    """Print a row for each database and mixture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=600_000, help="hopeless entries in the log")
    parser.add_argument("--seconds", type=int, default=180, help="the duration of each load")
    options = parser.parse_args()
    print(f"{'database':12} {'mixture':14} {'recorded':>9} {'p50':>8} {'p99':>8} {'errors':>7}")
    with databases(ROWS) as created:
        for name, database in created.items():
            for mixture in ("", *MIXTURES):
                seconds = options.seconds if mixture else 30
                longest, load = measure(database, options.entries, seconds, mixture)
                print(
                    f"{name:12} {mixture or 'empty':14} {longest:7.1f} s {load.p50:8.2f} "
                    f"{load.p99:8.2f} {load.errors:7}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
