"""A model of the providers and the host, independent of hookrow: events, final rows and log."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

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


class Event(NamedTuple):
    """An event at an entry of the receiver: what its provider posts, and what it says.

    `payloads` are Postmark's notifications of the same effects, each recorded by the schema, or one
    that is not supported. `fields` are those of the log that follow from the event.
    """

    body: str
    payloads: tuple[Payload, ...]
    entry: str | None = None
    fields: Payload = MappingProxyType({})

    @property
    def key(self) -> tuple[str | None, str]:
        """Its identity in the log: the same body at two entries is two events."""
        return self.entry, self.body


TIMES = {
    "Delivery": "DeliveredAt",
    "Open": "ReceivedAt",
    "Bounce": "BouncedAt",
    "SubscriptionChange": "ChangedAt",
}
"""The field with the time of an event, by record type."""

TWO_EFFECTS = ("OpenAndDrop", "DropAndOpen")
"""Drafts of an open and a suppression in one event, which Postmark does not have."""

Draft: TypeAlias = tuple[str, str, str, str | None]
"""Record type, recipient, message id and reason: everything except the time."""

Post: TypeAlias = Callable[[Draft, int], Event]
"""Returns the event that a provider posts for a draft at a second."""


def _drafts(
    kind: str,
    recipients: Sequence[str],
    messages: Sequence[str],
    reasons: Sequence[str | None] = (None,),
) -> st.SearchStrategy[Draft]:
    return st.tuples(st.just(kind), *map(st.sampled_from, (recipients, messages, reasons)))


def payload_of(draft: Draft, second: int) -> Payload:
    """Return a payload of Postmark; all deliveries of one message have the same time."""
    kind, recipient, message_id, reason = draft
    if kind == "Delivery":
        second = MESSAGES.index(message_id)
    at = (BEFORE + timedelta(seconds=second)).isoformat()
    payload = {"RecordType": kind, "Recipient": recipient, "MessageID": message_id, TIMES[kind]: at}
    if kind != "SubscriptionChange":
        return payload
    return {**payload, "SuppressSending": reason is not None, "SuppressionReason": reason}


def payloads_of(draft: Draft, second: int) -> tuple[Payload, ...]:
    """Return the payload of each effect of a draft."""
    kind, recipient, message_id, reason = draft
    if kind not in TWO_EFFECTS:
        return (payload_of(draft, second),)
    opened = payload_of(("Open", recipient, message_id, None), second)
    dropped = payload_of(("SubscriptionChange", recipient, message_id, reason), second)
    return (opened, dropped) if kind == "OpenAndDrop" else (dropped, opened)


def by_itself(draft: Draft, second: int) -> Event:
    """Return the event of a receiver's only provider; its body is a list of Postmark's payloads."""
    payloads = payloads_of(draft, second)
    return Event(json.dumps(payloads), payloads)


def _deck(
    drafts: Sequence[tuple[Draft, Sequence[Post]]], seconds: Sequence[int]
) -> Sequence[Event]:
    """Return three copies of each event, which several providers may post.

    Apart from deliveries, no two have the same time, except those of one draft.
    """
    drawn = zip(drafts, seconds, strict=False)
    return [post(draft, second) for (draft, posts), second in drawn for post in posts] * 3


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


def decks(*posts: Post) -> st.SearchStrategy[Sequence[Event]]:
    """Return a strategy for shuffled events; one or two of these providers post each draft."""
    posted = st.tuples(
        drafts, st.lists(st.sampled_from(posts), min_size=1, max_size=2, unique=True)
    )
    return st.builds(
        _deck,
        st.lists(posted, min_size=4, max_size=12),
        st.lists(st.integers(0, 3600), min_size=12, max_size=12, unique=True),
    ).flatmap(st.permutations)


class Model:
    """The expected rows and log of a tenant: applies the rules to one notification at a time."""

    def __init__(self, *parts: Mapping[str, Sequence[Row]]) -> None:
        self.rows: Rows = {name: [] for name in COLUMNS}
        self.log: dict[tuple[str | None, str], dict[str, Any]] = {}
        for part in parts:
            self.add(part)

    def add(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """Add rows that nothing has changed yet."""
        for name, added in rows.items():
            self.rows[name] += [{**dict.fromkeys(COLUMNS[name]), **row} for row in added]

    def record(self, event: Event, *, live: bool) -> str:
        """Change the rows as each notification says; return the first refusal, if there is one."""
        return _first_refusal(self._record(payload, live=live) for payload in event.payloads)

    def _record(self, payload: Payload, *, live: bool) -> str:
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

    def keep(self, event: Event, outcome: str, times: Sequence[datetime] = ()) -> None:
        """Log the outcome of an event that arrived at these times."""
        entry = self.log.setdefault(event.key, {"first_outcome": outcome, "times": []})
        entry["event"], entry["outcome"] = event, outcome
        entry["times"] += times

    def sweep(self, *message_ids: str) -> int:
        """Record the parked events, of all messages or of these, whose rows exist now.

        Returns how many were recorded completely.
        """
        swept = 0
        for entry in self.log.values():
            event = entry["event"]
            if entry["outcome"] in {"recorded", "unsupported"}:
                continue
            if message_ids and event.payloads[0]["MessageID"] not in message_ids:
                continue
            outcomes = [self._record(payload, live=False) for payload in event.payloads]
            if "recorded" in outcomes:
                entry["outcome"] = _first_refusal(outcomes)
                swept += entry["outcome"] == "recorded"
        return swept

    def sorted(self) -> Rows:
        """Return the rows in the order of their keys."""
        return {name: sorted(rows, key=itemgetter(*KEYS[name])) for name, rows in self.rows.items()}

    def logged(self) -> Mapping[tuple[str | None, str], Row]:
        """Return the log's entry of each event, by its key."""
        return {
            key: {
                **entry["event"].fields,
                "outcome": entry["outcome"],
                "first_outcome": entry["first_outcome"],
                "attempts": len(entry["times"]),
                "received_at": min(entry["times"]),
                "last_received_at": max(entry["times"]),
            }
            for key, entry in self.log.items()
        }

    def _one(self, name: str, **conditions: object) -> dict[str, Any] | None:
        return next((row for row in self.rows[name] if conditions.items() <= row.items()), None)


def _first_refusal(outcomes: Iterable[str]) -> str:
    return next((each for each in [*outcomes] if each != "recorded"), "recorded")


def happened(event: Event) -> datetime:
    """Return the time of an event."""
    return _time(event.payloads[0])


def _time(payload: Payload) -> datetime:
    return datetime.fromisoformat(payload[TIMES[payload["RecordType"]]])


def _suppress(row: dict[str, Any], payload: Payload) -> None:
    at, reason = _time(payload), payload["SuppressionReason"]
    if row["suppression_changed_at"] is None or row["suppression_changed_at"] <= at:
        row.update(zip(SUPPRESSION, (at if reason else None, reason, at), strict=True))


def _set_time(row: dict[str, Any], payload: Payload, *, live: bool) -> None:
    column = {"Delivery": "delivered_at", "Open": "opened_at"}[payload["RecordType"]]
    at = _time(payload)
    if live or row[column] is None or row[column] < at:
        row[column] = at
