"""The rows and the notifications that every part of the benchmark uses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count, cycle, islice
from random import Random
from time import time_ns

from sqlalchemy import Engine, insert, text

from hookrow import Schema, migrations
from hookrow.notification import Arrival
from hookrow.postmark import Postmark
from hookrow.stores import tables
from hookrow.stores.memory import MemoryStore

SECRET = "a-secret-for-the-benchmark"
DISPATCHES = 20_000
SUBSCRIBERS = 5_000
LISTS = 10
SPREAD = timedelta(seconds=10)
"""How long before they come things happened, at the most."""

_NOW = datetime.now(UTC)
_BLANK = "-" * 16
_COMMON = {
    "ServerID": 23,
    "MessageStream": "outbound",
    "Tag": "welcome",
    "Metadata": {"campaign": _BLANK},
}
_DELIVERY = {
    "RecordType": "Delivery",
    "DeliveredAt": "%Y-%m-%dT%H:%M:%S.1234567Z",
    "Details": "smtp;250 2.0.0 OK",
}
_OPEN = {
    "RecordType": "Open",
    "ReceivedAt": "%Y-%m-%dT%H:%M:%SZ",
    "FirstOpen": True,
    "UserAgent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)",
    "Client": {"Name": "Chrome 135.0.0.0", "Company": "Google", "Family": "Chrome"},
    "Geo": {"CountryISOCode": "RS", "Country": "Serbia", "City": "Novi Sad", "IP": "188.2.95.4"},
}
_CHANGE = {
    "RecordType": "SubscriptionChange",
    "ChangedAt": "%Y-%m-%dT%H:%M:%SZ",
    "SuppressSending": True,
    "SuppressionReason": "HardBounce",
}


def payloads(size: int = DISPATCHES) -> list[bytes]:
    """Make notifications, each for another dispatch in random order; none was made before.

    45 % are deliveries, 50 % opens, 5 % subscription changes, all of the last seconds;
    about as long as Postmark's own.
    """
    return list(islice(fresh(templates()), size))


@cache
def templates() -> list[bytes]:
    """Make the payloads, each with a blank that `fresh` fills."""
    random = Random(1)
    numbers = random.sample(range(DISPATCHES), DISPATCHES)
    kinds = random.choices((_DELIVERY, _OPEN, _CHANGE), (45, 50, 5), k=DISPATCHES)
    return [
        (_NOW - random.random() * SPREAD)
        .strftime(
            json.dumps(_COMMON | kind | {"Recipient": _email(n), "MessageID": _message_id(n)})
        )
        .encode()
        for n, kind in zip(numbers, kinds, strict=True)
    ]


def fresh(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the texts again and again, each time with something else in its blank.

    The log takes what has come before for the same notification.
    """
    parts = [text.split(_BLANK.encode()) for text in texts]
    for serial, (before, after) in zip(count(time_ns()), cycle(parts), strict=False):
        yield b"%b%016x%b" % (before, serial, after)


def arrivals(size: int = DISPATCHES) -> list[Arrival]:
    """Return new payloads as they come to `record`."""
    parse = Postmark(SECRET).parse
    return [Arrival(parse(body), body, datetime.now(UTC)) for body in payloads(size)]


def fill(engine: Engine) -> None:
    """Make our own tables, with a row for all that the payloads mention."""
    migrations.upgrade(engine, Schema())
    with engine.begin() as connection:
        for table, rows in (
            (tables.lists, [{"id": n, "name": f"list {n}"} for n in range(LISTS)]),
            (tables.subscribers, [{"id": n, "email": _email(n)} for n in range(SUBSCRIBERS)]),
            (tables.dispatches, [_dispatch(n) | {"id": n} for n in range(DISPATCHES)]),
            (tables.subscriptions, [_subscription(n) for n in range(SUBSCRIBERS)]),
        ):
            connection.execute(insert(table), rows)
        connection.execute(text("ANALYZE"))  # PostgreSQL does it by itself within a minute


def memory(rows: int) -> MemoryStore:
    """Return a store that holds what the first `rows` payloads mention."""
    mentioned = {int(json.loads(body)["MessageID"], 16) for body in payloads(rows)}
    return MemoryStore(
        subscribers={n % SUBSCRIBERS: {"email": _email(n)} for n in mentioned},
        dispatches={n: _dispatch(n) for n in mentioned},
        subscriptions={(n % LISTS, n % SUBSCRIBERS): {} for n in mentioned},
    )


def _email(number: int) -> str:
    return f"subscriber-{number % SUBSCRIBERS}@example.com"


def _message_id(number: int) -> str:
    return f"{number:032x}"


def _dispatch(number: int) -> dict[str, object]:
    return {
        "provider_message_id": _message_id(number),
        "subscriber_id": number % SUBSCRIBERS,
        "list_id": number % LISTS,
    }


def _subscription(number: int) -> dict[str, object]:
    # LISTS divides SUBSCRIBERS, so that a subscriber's dispatches are all of one list.
    return {"list_id": number % LISTS, "subscriber_id": number}
