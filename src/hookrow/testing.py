"""Sample payloads, as the provider writes them, and a way to post one.

For tests of a host, `hookrow simulate` and the demo. The shapes are those of
https://postmarkapp.com/developer/webhooks/webhooks-overview.
"""

from __future__ import annotations

from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

import msgspec

from hookrow.errors import ConfigurationError, HookrowError

Payload: TypeAlias = dict[str, Any]


class NotPosted(HookrowError):
    """No answer came: nobody listens there, or what answers does not speak HTTP."""


def delivery(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of a delivery at `at`."""
    return {
        "RecordType": "Delivery",
        "MessageStream": "broadcast",
        "ServerID": 23,
        "MessageID": message_id,
        "Recipient": recipient,
        "Tag": "newsletter",
        "DeliveredAt": _time(at),
        "Details": "smtp;250 2.0.0 OK",
        "Metadata": {},
    }


def opening(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of an open at `at`."""
    return {
        "RecordType": "Open",
        "MessageStream": "broadcast",
        "ServerID": 23,
        "FirstOpen": True,
        "MessageID": message_id,
        "Recipient": recipient,
        "Tag": "newsletter",
        "ReceivedAt": _time(at),
        "Platform": "Desktop",
        "ReadSeconds": 5,
        "UserAgent": "Mozilla/5.0",
        "Client": {},
        "OS": {},
        "Geo": {},
        "Metadata": {},
    }


def suppression(
    recipient: str, message_id: str | None, *, at: datetime, reason: str = "HardBounce"
) -> Payload:
    """Return the payload of a subscription change at `at` that suppresses the recipient."""
    return {
        **_subscription_change(recipient, message_id, at),
        "Origin": "Recipient",
        "SuppressSending": True,
        "SuppressionReason": reason,
    }


def reactivation(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of a subscription change at `at` that lifts the suppression."""
    return {
        **_subscription_change(recipient, message_id, at),
        "Origin": "Customer",
        "SuppressSending": False,
        "SuppressionReason": None,
    }


def post(
    url: str, payload: object, *, secret: str | None, timeout: float = 10.0
) -> tuple[int, str]:
    """Post a payload as the provider would; return the answer's status and text.

    Without a secret the header is left out. No redirect is followed and no proxy
    asked. Raises `ConfigurationError` for what cannot be posted, and `NotPosted`
    where no answer comes within `timeout` seconds.
    """
    headers = {"Content-Type": "application/json", "User-Agent": "Postmark"}
    if secret is not None:
        headers["X-Provider-Secret"] = secret
    try:
        body = msgspec.json.encode(payload)
    except ValueError as error:
        raise ConfigurationError(f"The payload cannot be written as JSON: {error}.") from error
    connection, path = _connect(url, timeout)
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    except (OSError, HTTPException) as error:
        raise NotPosted(f"No answer from {url}: {error!s:.200}") from error
    except ValueError:
        # Its own text would quote the header.
        raise ConfigurationError("The secret has a character that no header carries.") from None
    finally:
        connection.close()


def _connect(url: str, timeout: float) -> tuple[HTTPConnection, str]:
    """Return a connection that is not open yet, and the path to ask it for."""
    try:
        parts = urlsplit(url)
        kind = {"http": HTTPConnection, "https": HTTPSConnection}[parts.scheme]
        connection = kind(parts.hostname or "", parts.port, timeout=timeout)
        if parts.username is not None:
            raise ConfigurationError("Leave the user and the password out of the web address.")
    except (KeyError, ValueError, HTTPException):
        raise ConfigurationError(
            f"{url!r} is no web address: begin it with http:// or https://."
        ) from None
    target = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
    return connection, quote(target, safe="/%?&=+:;,@!$'()*~")


def _subscription_change(recipient: str, message_id: str | None, at: datetime) -> Payload:
    return {
        "RecordType": "SubscriptionChange",
        "MessageID": message_id,
        "ServerID": 23,
        "MessageStream": "broadcast",
        "ChangedAt": _time(at),
        "Recipient": recipient,
        "Tag": None,
        "Metadata": {},
    }


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
