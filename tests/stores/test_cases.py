"""The 150 cases: each on a fresh world, through a receiver, in every store.

A model that shares no line with `decide`, written from the contract alone, predicts the
response and all rows.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NoReturn, TypeAlias

import pytest
from sqlalchemy import Engine

import django_host
import world
from django_project.site import post
from hookrow import Head, Postmark, Receiver, Request, Schema
from hookrow.migrations import upgrade
from hookrow.migrations.engines import opened
from hookrow.promise import Promise
from hookrow.stores.memory import MemoryStore
from hookrow.stores.sql import SQLStore
from wire import PATIENCE, SECRET
from world import CASES, World

ALL = [json.loads(line) for line in (CASES / "notifications.jsonl").read_text().splitlines()]

LONGEST_EMAIL, LONGEST_MESSAGE_ID = 320, 255


def body_of(case: dict[str, str]) -> bytes:
    return b64decode(case["body_base64"]) if "body_base64" in case else case["body"].encode()


# -- the model ---------------------------------------------------------------------

NOW = "the time of arrival"
"""Stands for the only value that the model cannot know."""

End: TypeAlias = tuple[int, str, World]
"""Status, text and all rows."""

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII
)


class _UnsupportedError(Exception):
    """The body is not supported."""


def expect(start: World, body: bytes) -> End:
    """Return how a notification must end according to the contract."""
    after = deepcopy(start)
    try:
        payload = _read(body)
        kind, at, reason = _what(payload)
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
        # A number of any length is one, and half a surrogate pair is no text in UTF-8.
        payload = json.loads(body.decode(), parse_constant=refuse, parse_int=float)
        json.dumps(payload, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise _UnsupportedError from error
    if not isinstance(payload, dict):
        raise _UnsupportedError
    return payload


def _what(payload: dict[str, Any]) -> tuple[str, object, str | None]:
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
            return "suppress", _changed(payload.get("ChangedAt")), reason
        case _:
            raise _UnsupportedError


def _changed(value: object) -> object:
    """Return when a change happened; the time of arrival if that is not credible."""
    try:
        at = _time(value) if isinstance(value, str) else None
    except _UnsupportedError:
        return NOW
    return NOW if at is None or at > datetime.now(UTC) + timedelta(hours=24) else at


def _time(text: str) -> datetime:
    found = _TIME.fullmatch(text)
    if found is None:
        raise _UnsupportedError
    day, time, fraction, offset = found.groups()
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
    rows: list[dict[str, Any]], value: Callable[[dict[str, Any]], object], wanted: object
) -> dict[str, Any] | None:
    """Return the first row with that value; None never matches."""
    return next((row for row in rows if value(row) == wanted is not None), None)


def _lower(email: str | None) -> str | None:
    return email and "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in email)


# -- the stores --------------------------------------------------------------------

HEAD = Head("POST", "/mail/provider/webhooks", [(b"x-provider-secret", SECRET.encode())], "/mail")


class Site:
    """A receiver, or Django's view on the same database, and the rows behind it."""

    def __init__(self, receiver: Receiver | None, where: MemoryStore | Engine) -> None:
        self.receiver, self._where = receiver, where
        self._present: World = {}

    def fill(self) -> World:
        """Start with a fresh world: most cases leave it as it is."""
        start, before = world.start(), self._present
        self._present = {}
        return start if before == start else world.fill(self._where)

    def rows(self) -> World:
        self._present = deepcopy(world.rows(self._where))
        return self._present

    def post(self, body: bytes) -> tuple[int, str]:
        """Post a body; return the status and the text of the response."""
        if self.receiver is None:
            response = post(body)
            return response.status_code, response.content.decode()
        answer = self.receiver.answer(Request(HEAD, body))
        return answer.status, answer.body.decode()


STORES = ("memory", "sqlite", "postgres")


@pytest.fixture(scope="module", params=[*STORES, "django-sqlite", "django-postgres"])
def site(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Site]:
    django, _, place = request.param.rpartition("-")
    with ExitStack() as stack:
        memory = MemoryStore()
        store: MemoryStore | SQLStore = memory
        where: MemoryStore | Engine = memory
        if place != "memory":
            url = new_database(place)
            where = stack.enter_context(opened(url))
            upgrade(where, Schema())
            if django:
                stack.enter_context(django_host.project(url))
                yield Site(None, where)
                return
            store = stack.enter_context(closing(SQLStore(url)))
        yield Site(stack.enter_context(closing(Receiver(Postmark(SECRET), store))), where)


def _with_arrival(rows: World, begun: datetime, ended: datetime) -> World:
    """Replace every time of a suppression that lies within the arrival by `NOW`."""
    for row in (row for table in rows.values() for row in table):
        for column, value in row.items():
            if column.startswith("suppress") and isinstance(value, datetime):
                row[column] = NOW if begun <= value <= ended else value
    return rows


@pytest.mark.parametrize("case", ALL, ids=[case["name"] for case in ALL])
def test_a_case_ends_as_the_contract_says(site: Site, case: dict[str, Any]) -> None:
    """The status is an allowed one, and the text and all rows are those of the model."""
    status, text, after = expect(site.fill(), body_of(case))
    begun = datetime.now(UTC)
    response = site.post(body_of(case))
    rows = _with_arrival(deepcopy(site.rows()), begun, datetime.now(UTC))
    assert response == (status, text)
    assert rows == after
    assert status in case["accept"]


@pytest.mark.parametrize("site", STORES, indirect=True)
def test_all_cases_at_once(site: Site) -> None:
    """All cases in one queue have the same responses, and the receiver continues after them."""
    assert len({case["name"] for case in ALL}) == 150
    assert site.receiver is not None
    start = site.fill()
    bodies = [body_of(case) for case in [*ALL, ALL[0]]]
    promises = [site.receiver(Request(HEAD, body)) for body in bodies]
    responses = [
        promise.result(PATIENCE) if isinstance(promise, Promise) else promise
        for promise in promises
    ]
    assert [each.status for each in responses] == [expect(start, body)[0] for body in bodies]
