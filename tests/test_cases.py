"""The 150 cases: each on a fresh world, through a receiver, in every store.

What the rows must be afterwards is told by a plain model here, written from the
contract and from nothing else: it shares no line with `decide`.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NoReturn, Protocol, TypeAlias

import pytest
from sqlalchemy import Engine

import world
from hookrow import Head, Postmark, Receiver, Request, Response, Schema
from hookrow.migrations import upgrade
from hookrow.promise import Promise
from hookrow.stores.engines import open_engine
from hookrow.stores.memory import MemoryStore
from hookrow.stores.sql import SQLStore
from world import CASES, World

SECRET = "Zm9yIHRlc3RzIG9ubHk"
PATIENCE = 10.0
"""In seconds; an answer that takes longer is a failure."""

LONGEST_EMAIL, LONGEST_MESSAGE_ID = 320, 255


@dataclass(frozen=True)
class Case:
    """One line of `notifications.jsonl`."""

    name: str
    body: bytes
    accept: tuple[int, ...]

    @classmethod
    def read(cls, line: str) -> Case:
        """Read the line."""
        told = json.loads(line)
        body = told["body"].encode() if "body" in told else b64decode(told["body_base64"])
        return cls(told["name"], body, tuple(told["accept"]))


ALL = [Case.read(line) for line in (CASES / "notifications.jsonl").read_text().strip().split("\n")]


# -- the model ---------------------------------------------------------------------

NOW = "the time of arrival"
"""Stands for the one thing that the model cannot know."""

End: TypeAlias = tuple[int, str, World]
"""Status, text, and all rows."""

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII
)


class _UnsupportedError(Exception):
    """The model can make nothing of a body."""


def expect(start: World, body: bytes) -> End:
    """Tell how a notification must end, by the contract."""
    after = deepcopy(start)
    try:
        told = _read(body)
        kind, at, reason = _what(told)
    except _UnsupportedError:
        return 422, "Webhook payload not supported", after
    recipient = _text(told.get("Recipient"), LONGEST_EMAIL)
    subscriber = _subscriber(after, recipient)
    if subscriber is None:
        return 404, "Engine::Subscriber not found", after
    message_id = _text(told.get("MessageID"), LONGEST_MESSAGE_ID)
    dispatch = next(
        (
            row
            for row in after["dispatches"]
            if row["provider_message_id"] == message_id is not None
        ),
        None,
    )
    if kind in {"delivered_at", "opened_at"}:
        if dispatch is None:
            return 404, "Engine::Dispatch not found", after
        if dispatch["subscriber_id"] != subscriber["id"]:
            [owner] = [
                row for row in after["subscribers"] if row["id"] == dispatch["subscriber_id"]
            ]
            text = (
                f"Dispatch subscriber {owner['email']} "
                f"does not match payload recipient {told['Recipient']}"
            )
            return 400, text, after
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
        told = json.loads(body.decode(), parse_constant=refuse, parse_int=float)
        json.dumps(told, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise _UnsupportedError from error
    if not isinstance(told, dict):
        raise _UnsupportedError
    return told


def _what(told: dict[str, Any]) -> tuple[str, object, str | None]:
    """Return the kind of notification, its time, and its reason."""
    match told:
        case {"RecordType": "Delivery", "DeliveredAt": str(at)}:
            return "delivered_at", _time(at), None
        case {"RecordType": "Open", "ReceivedAt": str(at)}:
            return "opened_at", _time(at), None
        case {"RecordType": "SubscriptionChange", "SuppressSending": flag} if flag is False:
            return "lift", _changed(told.get("ChangedAt")), None
        case {
            "RecordType": "SubscriptionChange",
            "SuppressSending": flag,
            "SuppressionReason": str(reason),
        } if flag is True and reason.strip() and "\0" not in reason:
            return "suppress", _changed(told.get("ChangedAt")), reason
        case _:
            raise _UnsupportedError


def _changed(value: object) -> object:
    """Return when a change happened; the time of arrival where that is not to be believed."""
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
    """Return what can be looked for, None where no row can hold it."""
    if not isinstance(value, str) or not value or len(value) > longest or "\0" in value:
        return None
    return value


def _subscriber(rows: World, recipient: str | None) -> dict[str, Any] | None:
    if recipient is None:
        return None
    wanted = _lower(recipient)
    return next((row for row in rows["subscribers"] if _lower(row["email"]) == wanted), None)


def _lower(email: str) -> str:
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in email)


# -- the stores --------------------------------------------------------------------


class Site(Protocol):
    """A receiver and the rows behind it."""

    receiver: Receiver

    def fill(self) -> World:
        """Begin with a fresh world."""

    def rows(self) -> World:
        """Read all rows."""

    def close(self) -> None:
        """Close what was opened."""


class MemorySite:
    """A receiver with its rows in memory."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        self.receiver = Receiver(Postmark(SECRET), self._store)

    def fill(self) -> World:
        """Put the rows into the store's dicts."""
        self._start = world.start()
        rows = deepcopy(self._start)
        self._store.subscribers = {row["id"]: row for row in rows["subscribers"]}
        self._store.dispatches = {row["id"]: row for row in rows["dispatches"]}
        self._store.subscriptions = {
            (row["list_id"], row["subscriber_id"]): row for row in rows["subscriptions"]
        }
        return self._start

    def rows(self) -> World:
        """Read the store's dicts; it has no lists."""
        return {
            "subscribers": list(self._store.subscribers.values()),
            "lists": self._start["lists"],
            "subscriptions": list(self._store.subscriptions.values()),
            "dispatches": list(self._store.dispatches.values()),
        }

    def close(self) -> None:
        """End the receiver's thread."""
        self.receiver.close(PATIENCE)


class SQLSite:
    """A receiver with its rows in a database."""

    def __init__(self, url: str) -> None:
        self._engine: Engine = open_engine(url)
        upgrade(self._engine, Schema())
        self._store = SQLStore(url)
        self.receiver = Receiver(Postmark(SECRET), self._store)

    def fill(self) -> World:
        """Put the rows into the tables."""
        return world.fill(self._engine)

    def rows(self) -> World:
        """Read the tables."""
        return world.rows(self._engine)

    def close(self) -> None:
        """End the receiver's thread, close all connections."""
        self.receiver.close(PATIENCE)
        self._store.close()
        self._engine.dispose()


@pytest.fixture(scope="module", params=["memory", "sqlite", "postgres"])
def site(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Site]:
    """Make one receiver a store for all cases."""
    place: str = request.param
    new = MemorySite() if place == "memory" else SQLSite(new_database(place))
    with closing[Site](new) as site:
        yield site


def _head(*secrets: str) -> Head:
    headers = [(b"x-provider-secret", secret.encode()) for secret in secrets]
    return Head("POST", "/mail/provider/webhooks", headers, root="/mail")


def _post(receiver: Receiver, body: bytes) -> Response:
    head = _head(SECRET)
    assert receiver.admit(head) is None
    answer = receiver(Request(head, body))
    return answer.result(PATIENCE) if isinstance(answer, Promise) else answer


def _with_arrival(rows: World, begun: datetime, ended: datetime) -> World:
    """Write NOW for every time of a suppression that lies within the time of the arrival."""
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
    """The status is one of those allowed, the text and all rows are what the model tells."""
    status, text, after = expect(site.fill(), case.body)
    begun = datetime.now(UTC)
    response = _post(site.receiver, case.body)
    rows = _with_arrival(site.rows(), begun, datetime.now(UTC))
    assert response.status in case.accept
    assert (response.status, response.body.decode()) == (status, text)
    assert rows == after


def test_there_are_150_cases() -> None:
    """All of them are here, each under a name of its own."""
    assert len({case.name for case in ALL}) == 150


@pytest.mark.parametrize("secrets", [(), ("wrong",), (SECRET[:-1],), ("",), (SECRET, SECRET)])
def test_without_the_secret_every_case_is_refused(site: Site, secrets: tuple[str, ...]) -> None:
    """It is refused by its head alone, whatever the body would be, and nothing changes."""
    before = site.fill()
    refused = site.receiver.admit(_head(*secrets))
    assert refused is not None
    assert (refused.status, refused.body) == (401, b"Cannot verify webhook")
    assert site.rows() == before


def test_the_receiver_goes_on_after_every_case(site: Site) -> None:
    """All cases at once, in one queue: each is answered as it is alone, and then comes one more."""
    start = site.fill()
    answers = [site.receiver(Request(_head(SECRET), case.body)) for case in ALL]
    statuses = [
        (answer.result(PATIENCE) if isinstance(answer, Promise) else answer).status
        for answer in answers
    ]
    assert statuses == [expect(start, case.body)[0] for case in ALL]
    after = _post(
        site.receiver,
        b'{"RecordType": "Open", "ReceivedAt": "2026-03-04T05:06:07Z", "Recipient": '
        b'"ada@example.com", "MessageID": "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"}',
    )
    assert (after.status, after.body) == (200, b"")
    assert site.rows()["dispatches"][0]["opened_at"] == datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
