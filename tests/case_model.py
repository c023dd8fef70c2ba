"""The 150 cases and their expected results.

A model that is independent of `decide`, and based on the contract alone, predicts the response and
all rows.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NoReturn, TypeAlias

from world import CASES, World

ALL = [json.loads(line) for line in (CASES / "notifications.jsonl").read_text().splitlines()]

LONGEST_EMAIL, LONGEST_MESSAGE_ID = 320, 255
DEEPEST = 500  # before Python 3.14, the JSON parser stops at about 1,000


def body_of(case: dict[str, str]) -> bytes:
    return b64decode(case["body_base64"]) if "body_base64" in case else case["body"].encode()


NOW = "the time of arrival"
"""Stands for the time of arrival, which the model does not know."""

End: TypeAlias = tuple[int, str, World]
"""Status, text and all rows."""

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII
)


class _UnsupportedError(Exception):
    """The body is not supported."""


def expect(start: World, body: bytes) -> End:
    """Return the result of a notification according to the contract."""
    after = deepcopy(start)
    try:
        payload = _read(body)
        kind, at, reason = _classify(payload)
    except _UnsupportedError:
        return 422, "Webhook payload not supported", after
    recipient = _text(payload.get("Recipient"), LONGEST_EMAIL)
    subscriber = _first(after["subscribers"], lambda row: _lower(row["email"]), _lower(recipient))
    if subscriber is None:
        return 404, "Engine::Subscriber not found", after
    message_id = _text(payload.get("MessageID"), LONGEST_MESSAGE_ID)
    dispatch = _first(after["dispatches"], lambda row: row["provider_message_id"], message_id)
    if kind in {"delivered_at", "opened_at"}:
        if dispatch is None:
            return 404, "Engine::Dispatch not found", after
        if dispatch["subscriber_id"] != subscriber["id"]:
            owner = _first(after["subscribers"], lambda row: row["id"], dispatch["subscriber_id"])
            assert owner is not None
            text = f"Dispatch subscriber {owner['email']} does not match payload recipient "
            return 400, text + payload["Recipient"], after
        dispatch[kind] = at
        return 200, "", after
    changed = [subscriber]
    if dispatch is not None:
        pair = dispatch["list_id"], subscriber["id"]
        changed.append(dispatch)
        changed += [
            row for row in after["subscriptions"] if (row["list_id"], row["subscriber_id"]) == pair
        ]
    for row in changed:
        row["suppressed_at"] = None if reason is None else at
        row["suppression_reason"] = reason
        row["suppression_changed_at"] = at
    return 200, "", after


def _read(body: bytes) -> dict[str, Any]:
    def refuse(_: str) -> NoReturn:
        raise _UnsupportedError

    try:
        # A number may have any length.
        payload = json.loads(body.decode(), parse_constant=refuse, parse_int=float)
    except (ValueError, RecursionError) as error:
        raise _UnsupportedError from error
    if not isinstance(payload, dict) or _levels(payload) > DEEPEST:
        raise _UnsupportedError
    return payload


def _levels(payload: dict[str, Any]) -> int:
    """Return how many levels of arrays and objects a payload has."""
    levels = 0
    level: list[dict[str, Any] | list[Any]] = [payload]
    while level:
        levels += 1
        values = [
            value for each in level for value in (each.values() if isinstance(each, dict) else each)
        ]
        level = [value for value in values if isinstance(value, dict | list)]
    return levels


def _classify(payload: dict[str, Any]) -> tuple[str, object, str | None]:
    """Return the kind of notification, its time, and its reason."""
    match payload:
        case {"RecordType": "Delivery", "DeliveredAt": str(at)}:
            return "delivered_at", _time(at), None
        case {"RecordType": "Open", "ReceivedAt": str(at)}:
            return "opened_at", _time(at), None
        case {"RecordType": "SubscriptionChange", "SuppressSending": flag} if flag is False:
            return "lift", _changed(payload.get("ChangedAt")), None
        case {
            "RecordType": "SubscriptionChange",
            "SuppressSending": flag,
            "SuppressionReason": str(reason),
        } if flag is True and reason.strip() and "\0" not in reason:
            stored = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in reason)
            return "suppress", _changed(payload.get("ChangedAt")), stored
        case _:
            raise _UnsupportedError


def _changed(value: object) -> object:
    """Return the time of a change, or the time of arrival if it is not plausible."""
    try:
        at = _time(value) if isinstance(value, str) else None
    except _UnsupportedError:
        return NOW
    return NOW if at is None or at > datetime.now(UTC) + timedelta(hours=24) else at


def _time(text: str) -> datetime:
    match = _TIME.fullmatch(text)
    if match is None:
        raise _UnsupportedError
    day, time, fraction, offset = match.groups()
    if time.startswith("24"):  # which Python 3.14 accepts
        raise _UnsupportedError
    microseconds = (Decimal(f"0.{fraction or 0}") * 10**6).to_integral_value(ROUND_HALF_UP)
    zone = "+00:00" if offset in {None, "Z", "z"} else offset
    try:
        local = datetime.fromisoformat(f"{day}T{time}{zone}")
        return (local + timedelta(microseconds=int(microseconds))).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _UnsupportedError from error


def _text(value: object, longest: int) -> str | None:
    """Return a text that a row can hold, or None."""
    if not isinstance(value, str) or not value or len(value) > longest or "\0" in value:
        return None
    return value


def _first(
    rows: list[dict[str, Any]], value: Callable[[dict[str, Any]], object], expected: object
) -> dict[str, Any] | None:
    """Return the first row with this value; None never matches."""
    return next((row for row in rows if value(row) == expected is not None), None)


def _lower(email: str | None) -> str | None:
    return email and "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in email)
