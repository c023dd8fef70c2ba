"""The endpoints of the API, except those of webhooks: the server, streams, messages, suppressions.

Responses are those of https://postmarkapp.com/developer/api/overview, but those about the server,
streams and messages have only the fields that hookrow reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, TypeAlias

from stand_in.state import EASTERN, Message, State, Stream, eastern

MOST_ROWS = 500
"""The largest `count` of a list."""

LAST_ROW = 10_000
"""The largest sum of `count` and `offset`."""

RETENTION_DAYS = 45
"""Older messages are unknown."""


class Refused(Exception):
    """The response to a request that the API rejects, usually with 422."""

    def __init__(
        self, code: int, message: str, status: int = HTTPStatus.UNPROCESSABLE_ENTITY
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body: Mapping[str, Any] = {"ErrorCode": code, "Message": message}


@dataclass(frozen=True, slots=True)
class Call:
    """A request: its path's variable parts, query (with names in lower case) and decoded body."""

    parts: Sequence[str]
    query: Mapping[str, str]
    body: Mapping[str, Any]


Route: TypeAlias = Callable[[State, Call], Mapping[str, Any]]


def stream_of(state: State, name: str) -> Stream:
    """Return a stream. Raises `Refused`."""
    if name not in state.streams:
        raise Refused(1226, "The message stream for the provided 'ID' was not found.")
    return state.streams[name]


def get_server(state: State, _: Call) -> Mapping[str, Any]:
    """Return the server."""
    return {"ID": state.server, "Name": "Stand-in", "TrackOpens": state.track_opens}


def list_streams(state: State, call: Call) -> Mapping[str, Any]:
    """Return the streams, of one type or all."""
    kind = call.query.get("messagestreamtype", "All")
    archived = call.query.get("includearchivedstreams", "false").lower() == "true"
    found = [
        {
            "ID": each.id,
            "MessageStreamType": each.kind,
            "ArchivedAt": each.archived_at and eastern(each.archived_at),
        }
        for each in state.streams.values()
        if kind in {"All", each.kind} and (archived or each.archived_at is None)
    ]
    return {"MessageStreams": found}


def dump_suppressions(state: State, call: Call) -> Mapping[str, Any]:
    """Return the suppressions of a stream, all in one response."""
    stream = stream_of(state, call.parts[0])
    return {
        "Suppressions": [
            {
                "EmailAddress": each.email,
                "SuppressionReason": each.reason,
                "Origin": each.origin,
                "CreatedAt": each.at.astimezone(EASTERN).isoformat(timespec="seconds"),
            }
            for (name, _), each in state.suppressions.items()
            if name == stream.id
        ]
    }


def get_message(state: State, call: Call) -> Mapping[str, Any]:
    """Return a message with its events."""
    for each in _kept(state):
        if each.id == call.parts[0]:
            events = [
                {
                    "Recipient": each.recipient,
                    "Type": name,
                    "ReceivedAt": eastern(at),
                }
                for name, at in each.events
            ]
            return {
                "MessageID": each.id,
                "MessageStream": each.stream,
                "Tag": "newsletter",
                "Metadata": {},
                "MessageEvents": events,
            }
    raise Refused(701, "This message was not found.")


def list_opens(state: State, call: Call) -> Mapping[str, Any]:
    """Return the first open of each message, newest first."""
    firsts = []
    for message in _kept(state):
        opened = [at for name, at in message.events if name == "Opened"]
        stream = call.query.get("messagestream", message.stream)
        if opened and message.stream == stream and _is_within(min(opened), call.query):
            firsts.append((min(opened), message))
    firsts.sort(key=lambda each: each[0], reverse=True)
    rows = [
        {
            "RecordType": "Open",
            "MessageID": message.id,
            "MessageStream": message.stream,
            "Recipient": message.recipient,
            "ReceivedAt": eastern(at),
        }
        for at, message in _page(call, firsts)
    ]
    return {"TotalCount": len(firsts), "Opens": rows}


def _kept(state: State) -> Iterable[Message]:
    """Return the messages within the retention."""
    messages = state.messages.values()
    return [each for each in messages if (state.now - each.sent_at).days < RETENTION_DAYS]


def _page(call: Call, rows: Sequence[Any]) -> Sequence[Any]:
    """Return the rows that `count` and `offset` select. Raises `Refused`."""
    count, offset = (_number(call, name) for name in ("count", "offset"))
    if count > MOST_ROWS:
        raise Refused(700, f"Parameter 'count' should be between 0 and {MOST_ROWS}.")
    if count + offset > LAST_ROW:
        raise Refused(700, f"Parameters 'count' and 'offset' should not exceed {LAST_ROW}.")
    return rows[offset : offset + count]


def _number(call: Call, name: str) -> int:
    text = call.query.get(name, "")
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise Refused(700, f"Parameter '{name}' is required.")
    return int(text)


def _is_within(at: datetime, query: Mapping[str, str]) -> bool:
    """Return whether a time is within `fromdate` and `todate`, which are in Eastern time.

    Both are texts in ISO 8601, to the second, which sort as the times do.
    """
    local = at.astimezone(EASTERN).replace(tzinfo=None).isoformat()
    return query.get("fromdate", local) <= local <= query.get("todate", local)
