"""Payloads as arrivals and as entries of the log, without a server."""

from contextlib import closing
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from hookrow import Arrival, Outcome, Postmark
from hookrow._core.log_entry import log_entries
from hookrow._receiver.entries import POSTMARK
from hookrow._receiver.receiver import ArrivalReader
from hookrow.stores.sql import SQLStore


def arrival(payload: object, at: datetime | None = None) -> Arrival:
    """Return the arrival of a payload or a raw body, now or at another time."""
    body = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
    [arrived] = ArrivalReader(POSTMARK).arrivals(
        POSTMARK.default, [Postmark.parse(body)], at or datetime.now(UTC)
    )
    return arrived


def keep(
    url: str,
    payload: object,
    outcome: Outcome,
    at: datetime | None = None,
    *,
    entry: str | None = None,
) -> None:
    """Log a payload or a raw body with an outcome, regardless of the rows.

    It arrived at the receiver's entry with this name, if there is one.
    """
    arrived = replace(arrival(payload, at), entry=entry)
    with closing(SQLStore(url)) as store:
        store.claim_log()
        with store.transaction() as transaction:
            transaction.write((), log_entries([arrived], [outcome], arrived.received_at))
