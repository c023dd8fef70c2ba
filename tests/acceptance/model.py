"""A model of provider and host, independent of hookrow: payloads, and the final rows and log."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, TypeAlias

from homes import COLUMNS, KEYS, SUPPRESSION, Row, Rows
from hypothesis import strategies as st

NOW = datetime.now(UTC)

BEFORE = NOW - timedelta(days=1)
"""When the events happened: so many seconds after this."""

Payload: TypeAlias = Mapping[str, Any]


def _rows(
    subscribers: Sequence[tuple[int, str]],
    dispatches: Sequence[tuple[int, str, int, int | None]],
    subscriptions: Sequence[tuple[int, int]],
) -> Rows:
    given = (("subscribers", subscribers), ("dispatches", dispatches))
    return {
        name: [dict(zip(COLUMNS[name], row, strict=False)) for row in rows]
        for name, rows in (*given, ("subscriptions", subscriptions))
    }


START = _rows(
    [(1, "ada@example.com"), (2, "bea@example.com")],
    [(1, "m-ada", 1, 1), (2, "m-ada-2", 1, 2), (3, "m-bea", 2, 1), (4, "m-alone", 2, None)],
    [(1, 1), (2, 1), (1, 2)],
)

LATE = {
    "m-late": _rows([], [(5, "m-late", 1, 1)], []),
    "m-cyd": _rows([(3, "cyd@example.com")], [(6, "m-cyd", 3, 2)], [(2, 3)]),
}
"""The rows that the host inserts later, by the message that arrives before them."""

# A change that names a dispatch which is not there yet is recorded without it, for good.
# Only Cyd's may do so: as there is no Cyd either, all of it waits.
CHANGED = ["m-ada", "m-ada", "m-ada-2", "m-bea", "m-alone", "m-nowhere"]
MESSAGES = [*CHANGED, *LATE]
KNOWN = ["ada@example.com", "ADA@example.com", "bea@example.com", "nobody@example.com"]
CYD = "cyd@example.com"
REASONS = ["HardBounce", "SpamComplaint", None]

TIMES = {
    "Delivery": "DeliveredAt",
    "Open": "ReceivedAt",
    "Bounce": "BouncedAt",
    "SubscriptionChange": "ChangedAt",
}
"""The field with the time of an event, by its type."""


def _at(second: int) -> str:
    return (BEFORE + timedelta(seconds=second)).isoformat()


def _event(kind: str, recipient: str, message_id: str, second: int) -> Payload:
    """Return an event; all deliveries of one message are of the same second."""
    at = _at(MESSAGES.index(message_id) if kind == "Delivery" else second)
    return {"RecordType": kind, "Recipient": recipient, "MessageID": message_id, TIMES[kind]: at}


def _change(reason: str | None, recipient: str, message_id: str, second: int) -> Payload:
    return {
        "RecordType": "SubscriptionChange",
        "Recipient": recipient,
        "MessageID": message_id,
        "ChangedAt": _at(second),
        "SuppressSending": reason is not None,
        "SuppressionReason": reason,
    }


def _makers(
    make: Callable[..., Payload], *choices: Sequence[Any]
) -> st.SearchStrategy[Callable[[int], Payload]]:
    """Draw a payload that only lacks the second of its event."""
    drawn = st.tuples(*map(st.sampled_from, choices))
    return drawn.map(lambda arguments: lambda second: make(*arguments, second))


def _deck(makers: Sequence[Callable[[int], Payload]], seconds: Sequence[int]) -> Sequence[Payload]:
    """Return three of each; no two are of the same second, except deliveries."""
    return [maker(second) for maker, second in zip(makers, seconds, strict=False)] * 3


makers = st.one_of(
    _makers(_event, ["Delivery"], [*KNOWN, CYD], MESSAGES),
    _makers(_event, ["Open"], [*KNOWN, CYD], MESSAGES),
    # Half of what arrives is about the same rows.
    _makers(_event, ["Open"], KNOWN[:1], ["m-ada", "m-late"]),
    _makers(_change, REASONS, KNOWN[:2], CHANGED[:3]),
    _makers(_change, REASONS, KNOWN, CHANGED),
    _makers(_change, REASONS, [CYD], [*CHANGED, "m-cyd"]),
    _makers(_event, ["Bounce"], KNOWN, MESSAGES),
)
decks = st.builds(
    _deck,
    st.lists(makers, min_size=4, max_size=12),
    st.lists(st.integers(0, 3600), min_size=12, max_size=12, unique=True),
).flatmap(st.permutations)


class Model:
    """The rows and the log as they have to be: one notification at a time, by the plain rules."""

    def __init__(self, *parts: Rows) -> None:
        self.rows: Rows = {name: [] for name in COLUMNS}
        self.log: dict[str, dict[str, Any]] = {}
        for part in parts:
            self.add(part)

    def add(self, rows: Rows) -> None:
        """Add rows that nothing has changed yet."""
        for name, added in rows.items():
            self.rows[name] += [dict.fromkeys(COLUMNS[name]) | row for row in added]

    def record(self, payload: Payload, *, live: bool) -> str:
        """Change the rows; return the outcome."""
        if payload["RecordType"] == "Bounce":
            return "unsupported"
        person = self._one("subscribers", email=payload["Recipient"].lower())
        if person is None:
            return "subscriber_not_found"
        dispatch = self._one("dispatches", provider_message_id=payload["MessageID"])
        if payload["RecordType"] == "SubscriptionChange":
            list_ = dispatch and dispatch["list_id"]
            member = self._one("subscriptions", list_id=list_, subscriber_id=person["id"])
            for row in filter(None, (person, dispatch, member)):
                _suppress(row, payload)
        elif dispatch is None:
            return "dispatch_not_found"
        elif dispatch["subscriber_id"] != person["id"]:
            return "recipient_mismatch"
        else:
            _set_time(dispatch, payload, live=live)
        return "recorded"

    def keep(self, payload: Payload, outcome: str, times: Sequence[datetime] = ()) -> None:
        """Note in the log the outcome of a notification that arrived at these times."""
        entry = self.log.setdefault(body_of(payload), {"first_outcome": outcome, "times": []})
        entry["payload"], entry["outcome"] = payload, outcome
        entry["times"] += times

    def sweep(self, *message_ids: str) -> int:
        """Record what is parked and can be recorded now, of all messages or of these."""
        swept = 0
        for entry in self.log.values():
            payload = entry["payload"]
            if (
                entry["outcome"] not in {"recorded", "unsupported"}
                and (not message_ids or payload["MessageID"] in message_ids)
                and self.record(payload, live=False) == "recorded"
            ):
                entry["outcome"] = "recorded"
                swept += 1
        return swept

    def sorted(self) -> Rows:
        """Return the rows in the order of their keys."""
        return {name: sorted(rows, key=itemgetter(*KEYS[name])) for name, rows in self.rows.items()}

    def logged(self) -> Mapping[str, Row]:
        """Return the log's entry of each body."""
        return {
            body: {
                "outcome": entry["outcome"],
                "first_outcome": entry["first_outcome"],
                "attempts": len(entry["times"]),
                "received_at": min(entry["times"]),
                "last_received_at": max(entry["times"]),
            }
            for body, entry in self.log.items()
        }

    def _one(self, name: str, **wanted: object) -> dict[str, Any] | None:
        return next((row for row in self.rows[name] if wanted.items() <= row.items()), None)


def _suppress(row: dict[str, Any], payload: Payload) -> None:
    at = datetime.fromisoformat(payload["ChangedAt"])
    if row["suppression_changed_at"] is None or row["suppression_changed_at"] <= at:
        reason = payload["SuppressionReason"]
        row.update(zip(SUPPRESSION, (at if reason else None, reason, at), strict=True))


def _set_time(row: dict[str, Any], payload: Payload, *, live: bool) -> None:
    column = {"Delivery": "delivered_at", "Open": "opened_at"}[payload["RecordType"]]
    at = datetime.fromisoformat(payload[TIMES[payload["RecordType"]]])
    if live or row[column] is None or row[column] < at:
        row[column] = at


def body_of(payload: Payload) -> str:
    """Return the body of the request."""
    return json.dumps(payload)
