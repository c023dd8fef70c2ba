"""The endpoints of the API, except those of webhooks: the server, streams, messages, suppressions.

Responses are those of https://postmarkapp.com/developer/api/overview.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, TypeAlias

from hookrow.testing.postmark_api.state import EASTERN, Message, State, Stream, eastern

MOST_ROWS = 500
"""The largest `count` of a list."""

LAST_ROW = 10_000
"""The largest sum of `count` and `offset`."""

MOST_SUPPRESSIONS = 50
"""The largest number of addresses in one request."""

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
    body: Any
    token: str


Route: TypeAlias = Callable[[State, Call], Mapping[str, Any]]


def stream_of(state: State, name: str) -> Stream:
    """Return a stream. Raises `Refused`."""
    if name not in state.streams:
        raise Refused(1226, "The message stream for the provided 'ID' was not found.")
    return state.streams[name]


def get_server(state: State, call: Call) -> Mapping[str, Any]:
    """Return the server."""
    return {
        "ID": state.server,
        "Name": "Stand-in",
        "ApiTokens": [call.token],
        "Color": "red",
        "SmtpApiActivated": True,
        "RawEmailEnabled": False,
        "DeliveryType": "Live",
        "ServerLink": f"https://postmarkapp.com/servers/{state.server}/streams",
        "PostFirstOpenOnly": False,
        "TrackOpens": state.track_opens,
        "TrackLinks": "None",
        "IncludeBounceContentInHook": False,
        "EnableSmtpApiErrorHooks": False,
    }


def list_streams(state: State, call: Call) -> Mapping[str, Any]:
    """Return the streams, of one type or all."""
    kind = call.query.get("messagestreamtype", "All")
    archived = call.query.get("includearchivedstreams", "false").lower() == "true"
    found = [
        {
            "ID": each.id,
            "ServerID": state.server,
            "Name": each.id.capitalize(),
            "Description": "",
            "MessageStreamType": each.kind,
            "CreatedAt": "2020-07-01T00:00:00-04:00",
            "UpdatedAt": None,
            "ArchivedAt": each.archived_at and eastern(each.archived_at),
            "ExpectedPurgeDate": None,
            "SubscriptionManagementConfiguration": {"UnsubscribeHandlingType": "None"},
        }
        for each in state.streams.values()
        if kind in {"All", each.kind} and (archived or each.archived_at is None)
    ]
    return {"MessageStreams": found, "TotalCount": len(found)}


def dump_suppressions(state: State, call: Call) -> Mapping[str, Any]:
    """Return the suppressions of a stream, all in one response."""
    stream = stream_of(state, call.parts[0])
    found = [
        each
        for (name, _), each in state.suppressions.items()
        if name == stream.id
        and _is_within(each.at, call.query)
        and call.query.get("suppressionreason") in {None, each.reason}
        and call.query.get("origin") in {None, each.origin}
        and call.query.get("emailaddress") in {None, each.email}
    ]
    return {
        "Suppressions": [
            {
                "EmailAddress": each.email,
                "SuppressionReason": each.reason,
                "Origin": each.origin,
                "CreatedAt": each.at.astimezone(EASTERN).isoformat(timespec="seconds"),
            }
            for each in found
        ]
    }


def addresses(call: Call) -> Sequence[str]:
    """Return the addresses in the body of a request. Raises `Refused`."""
    listed = call.body.get("Suppressions") if isinstance(call.body, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise Refused(402, "Invalid JSON.")
    if len(listed) > MOST_SUPPRESSIONS:
        raise Refused(1410, f"You may only pass up to {MOST_SUPPRESSIONS} suppressions.")
    return [str(each.get("EmailAddress")) for each in listed]


def changed_suppression(email: str, status: str, message: str | None = None) -> Mapping[str, Any]:
    """Return the result for one address."""
    return {"EmailAddress": email, "Status": status, "Message": message}


def list_messages(state: State, call: Call) -> Mapping[str, Any]:
    """Return the messages of a stream within a window, newest first."""
    found = [
        each
        for each in _kept(state)
        if each.stream == call.query.get("messagestream", "outbound")
        and _is_within(each.sent_at, call.query)
        and call.query.get("recipient") in {None, each.recipient}
    ]
    found.sort(key=lambda each: each.sent_at, reverse=True)
    return {"TotalCount": len(found), "Messages": [_summary(each) for each in _page(call, found)]}


def get_message(state: State, call: Call) -> Mapping[str, Any]:
    """Return a message with its events."""
    for each in _kept(state):
        if each.id == call.parts[0]:
            events = [
                {
                    "Recipient": each.recipient,
                    "Type": name,
                    "ReceivedAt": eastern(at),
                    "Details": details,
                }
                for name, at, details in each.events
            ]
            texts = {"TextBody": "Hello", "HtmlBody": "", "Body": "SMTP dump"}
            return {**_summary(each), **texts, "MessageEvents": events}
    raise Refused(701, "This message was not found.")


def list_opens(state: State, call: Call) -> Mapping[str, Any]:
    """Return the first open of each message, newest first."""
    firsts = []
    for message in _kept(state):
        opened = [at for name, at, _ in message.events if name == "Opened"]
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
            "Tag": "newsletter",
            "Platform": "Unknown",
            "ReadSeconds": 0,
            "UserAgent": "Mozilla/5.0",
            "Client": {},
            "OS": {},
            "Geo": {},
        }
        for at, message in _page(call, firsts)
    ]
    return {"TotalCount": len(firsts), "Opens": rows}


def _kept(state: State) -> Iterable[Message]:
    """Return the messages within the retention."""
    messages = state.messages.values()
    return [each for each in messages if (state.now - each.sent_at).days < RETENTION_DAYS]


def _summary(message: Message) -> Mapping[str, Any]:
    return {
        "Tag": "newsletter",
        "MessageID": message.id,
        "MessageStream": message.stream,
        "To": [{"Email": message.recipient, "Name": ""}],
        "Cc": [],
        "Bcc": [],
        "Recipients": [message.recipient],
        "ReceivedAt": eastern(message.sent_at),
        "From": '"News" <news@example.com>',
        "Subject": "News",
        "Attachments": [],
        "Status": "Sent",
        "TrackOpens": True,
        "TrackLinks": "None",
        "Metadata": {},
        "Sandboxed": False,
    }


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

    A date without a time includes the whole day. Raises `Refused`.
    """
    local = at.astimezone(EASTERN).replace(tzinfo=None)
    try:
        first, last = (query.get(name) for name in ("fromdate", "todate"))
        after = first is None or local >= datetime.fromisoformat(first)
        if last is None:
            return after
        end = datetime.fromisoformat(last)
        is_date = "T" not in last
        return after and (local.date() <= end.date() if is_date else local <= end)
    except ValueError as error:
        raise Refused(700, "A date is not valid.") from error
