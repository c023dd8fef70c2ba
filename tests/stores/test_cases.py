"""The 150 cases: each on a fresh world, through a receiver, in every store.

A model that shares no line with `decide`, written from the contract alone, predicts the
response and all rows.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NoReturn, TypeAlias

import pytest
from django.test import Client
from sqlalchemy import Engine

import django_host
import world
from hookrow import Head, Postmark, Receiver, Request, Schema
from hookrow.migrations import upgrade
from hookrow.promise import Promise
from hookrow.stores.engines import open_engine
from hookrow.stores.memory import MemoryStore
from hookrow.stores.sql import SQLStore
from wire import SECRET
from world import CASES, World

PATIENCE = 20.0
"""In seconds; a response that takes longer is a failure."""

LONGEST_EMAIL, LONGEST_MESSAGE_ID = 320, 255


@dataclass(frozen=True)
class Case:
    """One line of `notifications.jsonl`."""

    name: str
    body: bytes
    accept: tuple[int, ...]

    @classmethod
    def read(cls, line: str) -> Case:
        """Parse the line."""
        case = json.loads(line)
        body = case["body"].encode() if "body" in case else b64decode(case["body_base64"])
        return cls(case["name"], body, tuple(case["accept"]))


ALL = [Case.read(line) for line in (CASES / "notifications.jsonl").read_text().strip().split("\n")]


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
        changed.append(dispatch)
        changed += [
            row
            for row in after["subscriptions"]
            if row["list_id"] == dispatch["list_id"] and row["subscriber_id"] == subscriber["id"]
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


class Site:
    """A receiver and the rows behind it."""

    def __init__(self, store: MemoryStore | SQLStore, where: MemoryStore | Engine) -> None:
        self._store, self._where = store, where
        self._present: World = {}
        self.receiver = Receiver(Postmark(SECRET), store)

    def fill(self) -> World:
        """Start with a fresh world: most cases leave it as it is."""
        start, before = world.start(), self._present
        self._present = {}
        return start if before == start else world.fill(self._where)

    def rows(self) -> World:
        """Read all rows."""
        self._present = deepcopy(world.rows(self._where))
        return self._present

    def post(self, body: bytes) -> tuple[int, str]:
        """Post a body; return the status and the text of the response."""
        assert self.receiver.admit(HEAD) is None
        response = self.receiver.answer(Request(HEAD, body))
        return response.status, response.body.decode()

    def close(self) -> None:
        """End the receiver's thread, and close all connections."""
        self.receiver.close(PATIENCE)
        for each in (self._store, self._where):
            if isinstance(each, SQLStore):
                each.close()
            elif isinstance(each, Engine):
                each.dispose()


class DjangoSite(Site):
    """Django's view, which records in the database."""

    def post(self, body: bytes) -> tuple[int, str]:
        """Post a body with Django's test client."""
        client = Client(headers={"X-Provider-Secret": SECRET})
        response: Any = client.post(HEAD.path, body, "application/json")
        return response.status_code, response.content.decode()


STORES = ("memory", "sqlite", "postgres")


@pytest.fixture(scope="module", params=[*STORES, "django-sqlite", "django-postgres"])
def site(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Site]:
    """Return a receiver for all cases, on each store."""
    django, _, place = request.param.rpartition("-")
    if place == "memory":
        memory = MemoryStore()
        with closing(Site(memory, memory)) as site:
            yield site
        return
    url = new_database(place)
    engine = open_engine(url)
    upgrade(engine, Schema())
    project = django_host.project(url) if django else nullcontext()
    with closing((DjangoSite if django else Site)(SQLStore(url), engine)) as site, project:
        yield site


HEAD = Head("POST", "/mail/provider/webhooks", [(b"x-provider-secret", SECRET.encode())], "/mail")


def _with_arrival(rows: World, begun: datetime, ended: datetime) -> World:
    """Replace every time of a suppression that lies within the arrival by `NOW`."""
    return {
        name: [
            {
                column: NOW
                if column.startswith("suppress")
                and isinstance(value, datetime)
                and begun <= value <= ended
                else value
                for column, value in row.items()
            }
            for row in table
        ]
        for name, table in rows.items()
    }


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_a_case_ends_as_the_contract_says(site: Site, case: Case) -> None:
    """The status is an allowed one, and the text and all rows are those of the model."""
    status, text, after = expect(site.fill(), case.body)
    begun = datetime.now(UTC)
    response = site.post(case.body)
    rows = _with_arrival(site.rows(), begun, datetime.now(UTC))
    assert response == (status, text)
    assert rows == after
    assert status in case.accept


@pytest.mark.parametrize("site", STORES, indirect=True)
def test_all_cases_at_once(site: Site) -> None:
    """All cases in one queue have the same responses, and the receiver continues after them."""
    assert len({case.name for case in ALL}) == 150
    start = site.fill()
    first = next(case for case in ALL if 200 in case.accept)
    cases = [*ALL, first]
    promises = [site.receiver(Request(HEAD, case.body)) for case in cases]
    responses = [
        promise.result(PATIENCE) if isinstance(promise, Promise) else promise
        for promise in promises
    ]
    assert [each.status for each in responses] == [expect(start, case.body)[0] for case in cases]
