"""The rows and the notifications of every benchmark."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from itertools import count
from random import Random
from time import gmtime, strftime, time_ns

from hookrow import Arrival, Postmark
from hookrow._receiver.entries import POSTMARK
from hookrow._receiver.receiver import ArrivalReader

SECRET = "a-secret-for-the-benchmark"
LISTS = 10
ROWS = 20_000
"""The number of dispatches, if a benchmark has no option for it."""

WEIGHTS = {"Delivery": 45, "Open": 50, "SubscriptionChange": 5}
"""The share of each type, in percent."""

MAX_TARGETS = 2_000_000
"""The maximum number of dispatches with notifications. wrk keeps their numbers in memory."""

BASE = 10**7
"""Added to the number of every row, so that all notifications of a type have the same length."""

FIELDS: dict[str, dict[str, object]] = {
    "Delivery": {
        "DeliveredAt": "<S>.<T>7Z",
        "Details": "smtp;250 2.0.0 OK",
    },
    "Open": {
        "ReceivedAt": "<S>.<T>Z",
        "FirstOpen": True,
        "UserAgent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)",
        "Client": {"Name": "Chrome 135.0.0.0", "Company": "Google", "Family": "Chrome"},
        "Geo": {"CountryISOCode": "RS", "Country": "Serbia", "City": "Novi Sad"},
    },
    "SubscriptionChange": {
        "ChangedAt": "<S>.<T>Z",
        "SuppressSending": True,
        "SuppressionReason": "HardBounce",
        "Origin": "Recipient",
    },
}
"""The fields of each type, in addition to the common ones."""

_INSERTS = (
    "hookrow_lists (id, name) {numbers} SELECT n, 'list ' || n FROM numbers WHERE n < {lists}",
    """hookrow_subscribers (id, email)
       {numbers} SELECT n, 'subscriber-' || ({base} + n) || '@example.com'
       FROM numbers WHERE n < {subscribers}""",
    """hookrow_subscriptions (list_id, subscriber_id)
       {numbers} SELECT n % {lists}, n FROM numbers WHERE n < {subscribers}""",
    """hookrow_dispatches (id, provider_message_id, subscriber_id, list_id)
       {numbers}
       SELECT n, 'b7bc2f4a-e38e-4336-9af7-' || ({base} + n), n % {subscribers}, n % {lists}
       FROM numbers""",
)
_NUMBERS = """WITH RECURSIVE numbers (n) AS (
    SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {dispatches} - 1
)"""


def subscribers(rows: int) -> int:
    """Return the number of subscribers for a number of dispatches.

    It is a multiple of LISTS, so that all dispatches of a subscriber belong to the same list.
    """
    return max(1, rows // 4 // LISTS) * LISTS


def insert_statements(rows: int) -> list[str]:
    """Return SQL that fills hookrow's tables, on any database."""
    values = {
        "base": BASE,
        "lists": LISTS,
        "subscribers": subscribers(rows),
        "numbers": _NUMBERS.format(dispatches=rows),
    }
    return [f"INSERT INTO {each}".format_map(values) for each in _INSERTS]


@cache
def template(record_type: str) -> str:
    """Return a payload of this type with placeholders, about as long as Postmark's own.

    <R> is the recipient's number and <M> that of the dispatch, each with BASE added; <S> is the
    time to the second, and <T> its microseconds in six digits.
    """
    common: dict[str, object] = {
        "RecordType": record_type,
        "MessageID": "b7bc2f4a-e38e-4336-9af7-<M>",
        "Recipient": "subscriber-<R>@example.com",
        "ServerID": 23,
        "MessageStream": "outbound",
        "Tag": "welcome",
        "Metadata": {"campaign": "spring"},
    }
    return json.dumps(common | FIELDS[record_type])


@cache
def targets(rows: int) -> list[tuple[int, str]]:
    """Return the numbers of dispatches in random order, each with a type of notification."""
    random, length = Random(1), min(rows, MAX_TARGETS)
    types = random.choices(list(WEIGHTS), list(WEIGHTS.values()), k=length)
    return list(zip(random.sample(range(rows), length), types, strict=True))


def payloads(length: int = ROWS) -> list[bytes]:
    """Return notifications that the log does not contain, each about a different dispatch."""
    microseconds = count(time_ns() // 1000)
    return [payload(ROWS, *target, next(microseconds)) for target in targets(ROWS)[:length]]


def arrival(body: bytes) -> Arrival:
    """Return the arrival of a payload now."""
    reader, events = ArrivalReader(POSTMARK), [Postmark.parse(body)]
    return reader.arrivals(POSTMARK.default, events, datetime.now(UTC))[0]


def payload(rows: int, dispatch: int, record_type: str, microseconds: int) -> bytes:
    """Return a notification about a dispatch, at a time in microseconds since 1970."""
    seconds, fraction = divmod(microseconds, 10**6)
    values = {
        "R": BASE + dispatch % subscribers(rows),
        "M": BASE + dispatch,
        "S": strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds)),
        "T": f"{fraction:06}",
    }
    text = template(record_type)
    for placeholder, value in values.items():
        text = text.replace(f"<{placeholder}>", str(value))
    return text.encode()
