"""A model of the provider and the host, independent of hookrow: payloads, final rows and log."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, TypeAlias

from homes import COLUMNS, KEYS, SUPPRESSION, Row, Rows
from hypothesis import strategies as st

NOW = datetime.now(UTC)

BEFORE = NOW - timedelta(days=1)
"""The time of second 0 of all events."""

Payload: TypeAlias = Mapping[str, Any]


def _subscriber(id_: int, email: str) -> Row:
    return {"id": id_, "email": email}


def _dispatch(id_: int, message_id: str, subscriber: int, list_: int | None) -> Row:
    ids = {"subscriber_id": subscriber, "list_id": list_}
    return {"id": id_, "provider_message_id": message_id, **ids}


def _subscription(list_: int, subscriber: int) -> Row:
    return {"list_id": list_, "subscriber_id": subscriber}


START = {
    "subscribers": [_subscriber(1, "ada@example.com"), _subscriber(2, "bea@example.com")],
    "dispatches": [
        _dispatch(1, "m-ada", 1, 1),
        _dispatch(2, "m-ada-2", 1, 2),
        _dispatch(3, "m-bea", 2, 1),
        _dispatch(4, "m-alone", 2, None),
    ],
    "subscriptions": [_subscription(1, 1), _subscription(2, 1), _subscription(1, 2)],
}

LATE = {
    "m-late": {"dispatches": [_dispatch(5, "m-late", 1, 1)]},
    "m-cyd": {
        "subscribers": [_subscriber(3, "cyd@example.com")],
        "dispatches": [_dispatch(6, "m-cyd", 3, 2)],
        "subscriptions": [_subscription(2, 3)],
    },
}
"""The rows that the host inserts late, by the message whose notifications may arrive earlier."""

# A change for a message whose dispatch does not exist yet is recorded without the dispatch, and
# not retried. Only Cyd's changes have such a message: they are parked, because Cyd does not exist.
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
    "OpenAndDrop": "ReceivedAt",
    "DropAndOpen": "ReceivedAt",
}
"""The field with the time of an event, by record type."""

TWO_EFFECTS = ("OpenAndDrop", "DropAndOpen")
"""Events that are an open and a suppression, by another provider."""

Draft: TypeAlias = tuple[str, str, str, str | None]
"""Record type, recipient, message id and reason: everything except the time."""


def _drafts(
    kind: str,
    recipients: Sequence[str],
    messages: Sequence[str],
    reasons: Sequence[str | None] = (None,),
) -> st.SearchStrategy[Draft]:
    return st.tuples(st.just(kind), *map(st.sampled_from, (recipients, messages, reasons)))


def _payload(draft: Draft, second: int) -> Payload:
    """Return a payload; all deliveries of one message have the same time."""
    kind, recipient, message_id, reason = draft
    if kind == "Delivery":
        second = MESSAGES.index(message_id)
    at = (BEFORE + timedelta(seconds=second)).isoformat()
    payload = {"RecordType": kind, "Recipient": recipient, "MessageID": message_id, TIMES[kind]: at}
    if kind not in {"SubscriptionChange", *TWO_EFFECTS}:
        return payload
    return {**payload, "SuppressSending": reason is not None, "SuppressionReason": reason}


def _deck(drafts: Sequence[Draft], seconds: Sequence[int]) -> Sequence[Payload]:
    """Return three copies of each payload; apart from deliveries, no two have the same time."""
    return [_payload(*each) for each in zip(drafts, seconds, strict=False)] * 3


drafts = st.one_of(
    _drafts("Delivery", [*KNOWN, CYD], MESSAGES),
    _drafts("Open", [*KNOWN, CYD], MESSAGES),
    # Half of the notifications concern the same rows.
    _drafts("Open", KNOWN[:1], ["m-ada", "m-late"]),
    _drafts("SubscriptionChange", KNOWN[:2], CHANGED[:3], REASONS),
    _drafts("SubscriptionChange", KNOWN, CHANGED, REASONS),
    _drafts("SubscriptionChange", [CYD], [*CHANGED, "m-cyd"], REASONS),
    _drafts("Bounce", KNOWN, MESSAGES),
    *(_drafts(kind, [*KNOWN, CYD], MESSAGES, REASONS[:2]) for kind in TWO_EFFECTS),
)
decks = st.builds(
    _deck,
    st.lists(drafts, min_size=4, max_size=12),
    st.lists(st.integers(0, 3600), min_size=12, max_size=12, unique=True),
).flatmap(st.permutations)


class Model:
    """The expected rows and log: applies the rules to one notification at a time."""

    def __init__(self, *parts: Mapping[str, Sequence[Row]]) -> None:
        self.rows: Rows = {name: [] for name in COLUMNS}
        self.log: dict[str, dict[str, Any]] = {}
        for part in parts:
            self.add(part)

    def add(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """Add rows that nothing has changed yet."""
        for name, added in rows.items():
            self.rows[name] += [{**dict.fromkeys(COLUMNS[name]), **row} for row in added]

    def record(self, payload: Payload, *, live: bool) -> str:
        """Change the rows; return the outcome, which is that of the effect that was refused."""
        if payload["RecordType"] == "Bounce":
            return "unsupported"
        person = self._one("subscribers", email=payload["Recipient"].lower())
        if person is None:
            return "subscriber_not_found"
        dispatch = self._one("dispatches", provider_message_id=payload["MessageID"])
        if payload["RecordType"] in {"SubscriptionChange", *TWO_EFFECTS}:
            list_ = dispatch and dispatch["list_id"]
            member = self._one("subscriptions", list_id=list_, subscriber_id=person["id"])
            for row in filter(None, (person, dispatch, member)):
                _suppress(row, payload)
        if payload["RecordType"] == "SubscriptionChange":
            return "recorded"
        if dispatch is None:
            return "dispatch_not_found"
        if dispatch["subscriber_id"] != person["id"]:
            return "recipient_mismatch"
        _set_time(dispatch, payload, live=live)
        return "recorded"

    def keep(self, payload: Payload, outcome: str, times: Sequence[datetime] = ()) -> None:
        """Log the outcome of a notification that arrived at these times."""
        entry = self.log.setdefault(body_of(payload), {"first_outcome": outcome, "times": []})
        entry["payload"], entry["outcome"] = payload, outcome
        entry["times"] += times

    def sweep(self, *message_ids: str) -> int:
        """Record the parked notifications, of all messages or of these, whose rows exist now.

        Return how many have been recorded completely.
        """
        swept = 0
        for entry in self.log.values():
            payload = entry["payload"]
            if entry["outcome"] in {"recorded", "unsupported"} or (
                message_ids and payload["MessageID"] not in message_ids
            ):
                continue
            outcome = self.record(payload, live=False)
            has_changed = payload["RecordType"] in TWO_EFFECTS and outcome != "subscriber_not_found"
            if outcome == "recorded" or has_changed:
                entry["outcome"] = outcome
            swept += outcome == "recorded"
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

    def _one(self, name: str, **conditions: object) -> dict[str, Any] | None:
        return next((row for row in self.rows[name] if conditions.items() <= row.items()), None)


def happened(payload: Payload) -> datetime:
    """Return the time of the event."""
    return datetime.fromisoformat(payload[TIMES[payload["RecordType"]]])


def body_of(payload: Payload) -> str:
    """Return the body of the request."""
    return json.dumps(payload)


def _suppress(row: dict[str, Any], payload: Payload) -> None:
    at, reason = happened(payload), payload["SuppressionReason"]
    if row["suppression_changed_at"] is None or row["suppression_changed_at"] <= at:
        row.update(zip(SUPPRESSION, (at if reason else None, reason, at), strict=True))


def _set_time(row: dict[str, Any], payload: Payload, *, live: bool) -> None:
    column = "delivered_at" if payload["RecordType"] == "Delivery" else "opened_at"
    at = happened(payload)
    if live or row[column] is None or row[column] < at:
        row[column] = at
