"""The cost of the dashboard's page of suppressions: `python bench/suppressions.py`.

Subscribers are suppressed for a common reason, for another one, and ten of them, the first ones,
for a rare reason. All belong to one list, some to a small list, and others that are not suppressed
to a third one. The log has the notification that suppressed each. Prints the duration of the first
and the next page with each filter, in milliseconds, and the number of results; and for a download
of all, its duration and size, and by how much it raises the peak of the server's memory (VmHWM in
/proc/PID/status). On SQLite, also prints the latency of 400 notifications per second without and
during a download.
"""

from __future__ import annotations

import argparse
import html
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection
from threading import Event, Thread
from time import monotonic
from urllib.parse import urlencode

from dashboards import CONNECTIONS, LOGIN, count_hours, serving
from data import ROWS
from environment import MARIADB, POSTGRESQL, SQLITE, Database, databases, peak_memory
from load import post

RATE = 400
"""Notifications per second during a download."""

_FIRST = 10**9
"""The lowest id of the suppressed subscribers."""

_LISTS = {"big": 101, "small": 102, "active": 103}

_FILL = (
    "INSERT INTO hookrow_lists (id, name) VALUES (101, 'big'), (102, 'small'), (103, 'active')",
    """INSERT INTO hookrow_subscribers (id, email, suppressed_at, suppression_reason)
       {numbers} SELECT {first} + n, 'suppressed-' || n || '@example.com', {at},
           CASE WHEN n < 10 THEN 'ManualSuppression' WHEN n % 10 = 0 THEN 'SpamComplaint'
               ELSE 'HardBounce' END
       FROM numbers""",
    """INSERT INTO hookrow_subscriptions (list_id, subscriber_id)
       SELECT 101, id FROM hookrow_subscribers WHERE id >= {first}""",
    """INSERT INTO hookrow_subscriptions (list_id, subscriber_id)
       SELECT 102, id FROM hookrow_subscribers WHERE id % 500 = 0 AND id >= {first}""",
    """INSERT INTO hookrow_subscriptions (list_id, subscriber_id)
       SELECT 103, id FROM hookrow_subscribers WHERE suppressed_at IS NULL""",
    """INSERT INTO hookrow_notifications (
           fingerprint, record_type, message_id, recipient, occurred_at, outcome, first_outcome,
           status, attempts, received_at, last_received_at, ended_at, body, reason,
           source
       )
       SELECT {fingerprint}, 'SubscriptionChange', 'b7bc2f4a-e38e-4336-9af7-' || id, email,
           suppressed_at, 'recorded', 'recorded', 200, 1, suppressed_at, suppressed_at,
           suppressed_at, '{{}}', suppression_reason, 'live'
       FROM hookrow_subscribers WHERE id >= {first} ORDER BY id""",
)
_NUMBERS = """WITH RECURSIVE numbers (n) AS (
    SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count} - 1
)"""
_FINGERPRINT = {
    POSTGRESQL: "decode(md5(email), 'hex')",
    SQLITE: "randomblob(16)",
    MARIADB: "unhex(md5(email))",
}
_TIMES = {
    POSTGRESQL: "timestamptz '2026-01-01' + n * interval '10 s'",
    SQLITE: "strftime('%Y-%m-%d %H:%M:%f000', '2026-01-01', (n * 10) || ' seconds')",
    MARIADB: "timestampadd(SECOND, n * 10, '2026-01-01')",
}

FILTERS: Mapping[str, Mapping[str, str | int]] = {
    "all": {},
    "a common reason": {"reason": "HardBounce"},
    "a rare reason": {"reason": "ManualSuppression"},
    "a reason of none": {"reason": "Unknown"},
    "no reason": {"reason": "(none)"},
    "a period": {"since": "2026-02-01"},
    "a rare reason, a period": {"reason": "ManualSuppression", "since": "2025-12-01"},
    "a big list": {"list": _LISTS["big"]},
    "a small list": {"list": _LISTS["small"]},
    "a list without suppressed ones": {"list": _LISTS["active"]},
    "a big list, a rare reason": {"list": _LISTS["big"], "reason": "ManualSuppression"},
    "a small list, a reason": {"list": _LISTS["small"], "reason": "SpamComplaint"},
}


def main() -> None:
    """Print the durations and the costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suppressions", type=int, default=1_000_000)
    parser.add_argument("--database", choices=tuple(_TIMES))
    parser.add_argument("--seconds", type=int, default=20, help="duration of a load")
    parser.add_argument("--only", choices=("pages", "load", "download"))
    options = parser.parse_args()
    names = [options.database] if options.database else list(_TIMES)
    with databases(ROWS, names) as created:
        for database in created.values():
            fill(database, options.suppressions)
            with serving(database) as (port, pid):
                if options.only in {None, "pages"}:
                    print(*pages(database.name, port), sep="\n", flush=True)
                if options.only in {None, "load"} and database.name == SQLITE:
                    print(*load(port, pid, options.seconds), sep="\n", flush=True)
                if options.only in {None, "download"}:
                    print(f"{database.name}, download: {download(port, pid)}", flush=True)


def fill(database: Database, count: int) -> None:
    """Insert the suppressed subscribers, their subscriptions and notifications."""
    fingerprint, at = _FINGERPRINT[database.name], _TIMES[database.name]
    numbers = _NUMBERS.format(count=count)
    values = {"first": _FIRST, "at": at, "numbers": numbers, "fingerprint": fingerprint}
    for statement in _FILL:
        database.execute(statement.format_map(values))
    database.settle()
    count_hours(database)


def pages(name: str, port: int) -> Iterator[str]:
    """Time the pages of one server, each filter's second page after its first."""
    with closing(HTTPConnection("127.0.0.1", port)) as connection:
        _timed_get(connection, "")  # to load the templates, and to start the count of the reasons
        for title, fields in FILTERS.items():
            first, page = _timed_get(connection, urlencode(fields))
            [count] = re.findall(r'<p class="live">(.+?) suppressed', page)
            next_page = re.findall(r'rel="next" href="\?(.+?)"', page)
            later = _timed_get(connection, html.unescape(next_page[0]))[0] if next_page else 0
            yield f"{name}, {title:34} {first:7.0f} {later:7.0f}  {count:>8}"


def _timed_get(connection: HTTPConnection, query: str) -> tuple[float, str]:
    """Return the milliseconds that a page took, and the page."""
    began = monotonic()
    connection.request("GET", f"/dashboard/suppressions?{query}", headers=LOGIN)
    response = connection.getresponse()
    page = response.read().decode()
    assert response.status == HTTPStatus.OK, page
    return (monotonic() - began) * 1000, page


def download(port: int, pid: int, end: Event | None = None) -> str:
    """Download all suppressions, or until an event; describe the duration, size and memory."""
    before, began, size = peak_memory(pid), monotonic(), 0
    with closing(HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", "/dashboard/suppressions.csv", headers=LOGIN)
        response = connection.getresponse()
        while (chunk := response.read1()) and not (end and end.is_set()):
            size += len(chunk)
    more = peak_memory(pid) - before
    return f"{monotonic() - began:.0f} s, {size / 1e6:.1f} MB, peak of memory +{more:.1f} MB"


def load(port: int, pid: int, seconds: int) -> Iterator[str]:
    """Measure the latency of notifications without and during a download, twice."""
    post(port, CONNECTIONS, seconds, pause=1000 * CONNECTIONS // RATE)  # to warm up
    for during in (False, True) * 2:
        end = Event()
        other = Thread(target=download, args=(port, pid, end)) if during else None
        if other:
            other.start()
        result = post(port, CONNECTIONS, seconds, pause=1000 * CONNECTIONS // RATE)
        end.set()
        if other:
            other.join()
        assert not result.errors, "not every response was 200"
        what = "during a download" if during else "without a download"
        yield f"{SQLITE}, {RATE} notifications/s {what}: p50 {result.p50} p99 {result.p99} ms"


if __name__ == "__main__":
    main()
