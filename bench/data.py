"""The rows and the notifications that every part of the benchmark uses."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import count
from random import Random
from time import time_ns

from sqlalchemy import Engine, text

from hookrow import Schema, migrations
from hookrow.core.notification import Arrival
from hookrow.providers.postmark import Postmark
from hookrow.stores.memory import MemoryStore

SECRET = "a-secret-for-the-benchmark"
LISTS = 10

KINDS: dict[str, dict[str, object]] = {
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
"""What the payloads have of their own, by type; `form` says what the blanks are."""

_LENGTHY = ("UserAgent", "Client", "Geo")
"""What a short payload leaves out."""

WEIGHTS = (45, 50, 5)
"""Of a hundred notifications, how many are of each kind."""

MENTIONED = 2_000_000
"""Of the dispatches; so many get notifications, where there are more. wrk holds them in memory."""

BASE = 10**7
"""Added to the number of a row, so that all are of one length, and with them all payloads."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows there are; the dispatches go to the subscribers in turn.

    LISTS divides the subscribers, so that all dispatches to one are of the same list.
    Where notifications are `short`, their bodies have about 300 bytes.
    """

    dispatches: int
    subscribers: int
    short: bool = False


SMALL = Size(20_000, 5_000)

_FILL = (
    "INSERT INTO hookrow_lists (id, name) SELECT n, 'list ' || n {lists}",
    """INSERT INTO hookrow_subscribers (id, email)
       SELECT n, 'subscriber-' || ({base} + n) || '@example.com' {subscribers}""",
    """INSERT INTO hookrow_subscriptions (list_id, subscriber_id)
       SELECT n % {each}, n {subscribers}""",
    """INSERT INTO hookrow_dispatches (id, provider_message_id, subscriber_id, list_id)
       SELECT n, 'b7bc2f4a-e38e-4336-9af7-' || ({base} + n), n % {people}, n % {each}
       {dispatches}""",
    "ANALYZE",  # PostgreSQL does it by itself within a minute
)
_NUMBERS = """FROM (
    WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {} - 1)
    SELECT n FROM numbers
) AS numbered"""


def fill(engine: Engine, size: Size = SMALL) -> None:
    """Make our own tables, with a row for all that the payloads mention."""
    migrations.upgrade(engine, Schema())
    names = {
        "base": BASE,
        "each": LISTS,
        "people": size.subscribers,
        "lists": _NUMBERS.format(LISTS),
        "subscribers": _NUMBERS.format(size.subscribers),
        "dispatches": _NUMBERS.format(size.dispatches),
    }
    with engine.begin() as connection:
        for statement in _FILL:
            connection.execute(text(statement.format_map(names)))


@cache
def form(kind: str, *, short: bool = False) -> str:
    """Return a payload of the kind, about as long as Postmark's own, with blanks to be filled.

    A short one has about 300 bytes.

    <R> is the recipient's number and <M> the dispatch's, each with BASE added; <S> is the
    time to the second and <T> the millionths of it, in six digits.
    """
    common: dict[str, object] = {
        "RecordType": kind,
        "MessageID": "b7bc2f4a-e38e-4336-9af7-<M>",
        "Recipient": "subscriber-<R>@example.com",
        "ServerID": 23,
        "MessageStream": "outbound",
        "Tag": "welcome",
        "Metadata": {"campaign": "spring"},
    }
    own = KINDS[kind]
    return json.dumps(common | {n: own[n] for n in own if not (short and n in _LENGTHY)})


@cache
def numbers(size: Size) -> list[tuple[int, str]]:
    """Return the numbers of dispatches in random order, each with a kind of notification.

    They are all dispatches, or MENTIONED of them.
    """
    random, many = Random(1), min(size.dispatches, MENTIONED)
    order = random.sample(range(size.dispatches), many)
    return list(zip(order, random.choices(list(KINDS), WEIGHTS, k=many), strict=True))


def payloads(many: int = SMALL.dispatches) -> list[bytes]:
    """Make notifications of now, each for another dispatch; none was made before.

    The log takes what has come before for the same notification: it is told by its time,
    among others.
    """
    serial = count(time_ns() // 1000)
    return [payload(number, kind, next(serial)) for number, kind in numbers(SMALL)[:many]]


def arrivals(many: int = SMALL.dispatches) -> list[Arrival]:
    """Return new payloads as they come to `record`."""
    parse = Postmark(SECRET).parse
    return [Arrival(parse(body), body, datetime.now(UTC)) for body in payloads(many)]


def memory(rows: int) -> MemoryStore:
    """Return a store that holds what the first `rows` payloads mention."""
    mentioned = [number for number, _ in numbers(SMALL)[:rows]]
    people = {number % SMALL.subscribers for number in mentioned}
    return MemoryStore(
        subscribers={n: {"email": f"subscriber-{BASE + n}@example.com"} for n in people},
        dispatches={
            n: {
                "provider_message_id": f"b7bc2f4a-e38e-4336-9af7-{BASE + n}",
                "subscriber_id": n % SMALL.subscribers,
                "list_id": n % LISTS,
            }
            for n in mentioned
        },
        subscriptions={(n % LISTS, n): {} for n in people},
    )


def payload(number: int, kind: str, microseconds: int, *, short: bool = False) -> bytes:
    """Make a payload for a dispatch; it tells of what was so many microseconds after 1970."""
    second, rest = divmod(microseconds, 10**6)
    at = datetime.fromtimestamp(second, UTC)
    blanks = {
        "R": BASE + number % SMALL.subscribers,
        "M": BASE + number,
        "S": f"{at:%Y-%m-%dT%H:%M:%S}",
        "T": f"{rest:06}",
    }
    text = form(kind, short=short)
    for blank, value in blanks.items():
        text = text.replace(f"<{blank}>", str(value))
    return text.encode()
