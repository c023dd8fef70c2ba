"""Mailgun: verifies the signature in the body of a request, and reads the event.

The events are those of https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks. A
request has one, in JSON. Accounts of before June 2018 may still send forms (https://help.mailgun.com/hc/en-us/articles/14048832145051-Legacy-Webhooks).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from hmac import compare_digest, digest
from secrets import token_hex, token_urlsafe
from time import time
from typing import ClassVar, NamedTuple, Self

from hookrow._arguments import check_function
from hookrow._core.notification import (
    Bounced,
    Clicked,
    Complained,
    Delivered,
    Notification,
    Opened,
)
from hookrow._http import Request, RequestHead
from hookrow.providers._base import Event, text_of
from hookrow.providers._built_in import ProviderRequest
from hookrow.providers._events import (
    CLIENT_ADDRESS,
    CLIENT_AGENT,
    COMPLAINT,
    HARD_BOUNCE,
    LINK,
    MANUAL,
    PROBE_SUPPRESSION,
    UNKNOWN_USER,
    Effect,
    EventProvider,
    Fields,
    KindOfEvent,
    Reading,
    challenge_of,
    decode_object,
    id_of,
    kind_of_event,
    notifications_of,
    object_of,
    time_of_seconds,
)
from hookrow.providers._forms import decode_form, encode_keys
from hookrow.providers._json import encode
from hookrow.providers._message_ids import in_brackets

_OLDEST_SIGNATURE = 12 * 3600
"""Seconds for which a signature is accepted: Mailgun repeats a request for eight hours and, as
others report, with the original signature."""

_MOST_AHEAD = 300
"""Seconds by which the time of a signature may be ahead of this clock."""

_JSON_TYPE = b"application/json"
_MEDIA_TYPES = {_JSON_TYPE, b"application/x-www-form-urlencoded"}

_SIGNATURE_FIELDS = ("signature", "parent-signature")
"""An event of a subaccount also has the signature by the key of its main account."""

_EFFECTS: Mapping[str, Sequence[Effect]] = {
    "delivered": (Delivered,),
    "opened": (Opened,),
    "clicked": (Clicked,),
    "complained": (Complained, COMPLAINT),
    "unsubscribed": (MANUAL,),
}

_SUPPRESSED_REASONS = {
    "suppress-bounce": HARD_BOUNCE,
    "suppress-complaint": COMPLAINT,
    "suppress-unsubscribe": MANUAL,
}
_SUPPRESSED_CODES = {"605": HARD_BOUNCE, "606": MANUAL, "607": COMPLAINT}
"""The reasons of a suppression because of which Mailgun did not send an email, by the reason and by
the status code of the failure; a form has only the latter."""

_VISIT: Fields = {
    "ip": CLIENT_ADDRESS,
    "client-info": {"user-agent": CLIENT_AGENT, "client-type": "browser", "bot": None},
}

_PERMANENT = "permanent"
"""The type of all bounces that are recorded."""


def _compose_failure(reason: str, code: int, text: str, **more: object) -> Fields:
    status = {"code": code, "message": text, "description": None, "attempt-no": 1, **more}
    return {"event": "failed", "severity": "permanent", "reason": reason, "delivery-status": status}


_COMPOSED: Mapping[KindOfEvent, Fields] = {
    Delivered: {"event": "delivered", "delivery-status": {"code": 250, "message": "OK"}},
    Opened: {"event": "opened", **_VISIT},
    Clicked: {"event": "clicked", "url": LINK, **_VISIT},
    (Bounced, _PERMANENT): _compose_failure(
        "bounce", 550, UNKNOWN_USER, **{"bounce-type": "hard", "enhanced-code": "5.1.1"}
    ),
    Complained: {"event": "complained"},
    HARD_BOUNCE: _compose_failure(
        "suppress-bounce", 605, "Not delivering to previously bounced address"
    ),
    COMPLAINT: _compose_failure(
        "suppress-complaint", 607, "Not delivering to a user who marked your messages as spam"
    ),
    MANUAL: {"event": "unsubscribed", **_VISIT},
}
"""The fields of the event for each kind of notification, besides those of all events."""

_VISITS = {"opened", "clicked", "unsubscribed"}
"""The events whose only header is the message id."""

_LOG_LEVELS = {"failed": "error", "complained": "warn"}
"""The levels of composed events, unless it is "info"."""

_SOFT_CODES = {"552"}
_SOFT_ENHANCED_CODES = {"5.2.2", "4.2.2"}
"""The status codes of a full mailbox (RFC 5321, RFC 3463), which Mailgun does not suppress."""

_EXAMPLE_RECIPIENT = "alice@example.com"
_EXAMPLE_IDS = ("<20130503182626.18666.16540@", "<20130503192659.13651.20287@")
"""What the samples that Mailgun's page of webhooks posts have in common."""

_is_timestamp = re.compile("[0-9]{1,12}").fullmatch
"""Whether a text is a time in seconds, of which that of the present has 10 digits."""


class _SignedEvent(NamedTuple):
    """The fields of a request: those that authenticate it, and those of its event."""

    signature: Fields
    event: object


class Mailgun(EventProvider):
    """Verifies signatures by an HTTP webhook signing key of Mailgun's, and reads its event.

    Several keys are accepted, the newest first, so that the key can be rotated. That of a main
    account also verifies the events of its subaccounts. `clock` returns the time in seconds since
    1970.

    Mailgun signs a time and a random token, but **not the event**: whoever sees one request can
    send any event with its signature, until this is 12 hours old. Serve the webhook over HTTPS
    only, and log no bodies in a proxy. The log of hookrow has the event without the signature.

    The message id is the `id` in the response to the request that sent the email, or its header
    `Message-Id`, including the angle brackets; all recipients share it.

    A permanent failure is a bounce, and a temporary one has no effect, because Mailgun tries again.
    Hard bounces, complaints and unsubscribes suppress the subscriber, because Mailgun then refuses
    all emails of the domain to the address; so do failures for one of these reasons. A full
    mailbox, a rejection as spam and a failure after the last attempt do not
    (https://documentation.mailgun.com/en/latest/api-suppressions.html). An unsubscribe may concern
    only the emails with a tag. Mailgun does not report that it sends to an address again.

    Mailgun repeats a request after any response other than 200 and 406, for about eight hours
    (https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/webhook-retries). That page
    exempts "the delivery notification", so a delivery may be lost during an outage.

    Raises `ConfigurationError` if a key is missing or was copied wrongly.
    """

    name = "mailgun"
    credential = "signing_key"
    setup = "Copy the HTTP webhook signing key of the account to the settings of hookrow."
    proof = "Content-Type"  # which says whether the body has a signature
    wrong_signature = "the key differs"  # nothing else is signed
    tolerance: ClassVar[str] = (
        f"{_OLDEST_SIGNATURE // 3600} hours ago, or {_MOST_AHEAD // 60} minutes ahead"
    )
    hard_bounce = _PERMANENT
    probe_change: ClassVar[Notification] = PROBE_SUPPRESSION
    message_id_source = "`id` of the response of its API, with the angle brackets"

    def __init__(self, *keys: str, clock: Callable[[], float] = time) -> None:
        check_function("clock", clock)
        self._clock = clock
        self.accept(*keys)

    def accept(self, *keys: str) -> None:
        """Accept these keys from now on, and no others. Raises `ConfigurationError`."""
        source = "the HTTP webhook signing key from the page of API keys at Mailgun"
        self._keys = encode_keys(self, keys, source)
        self.reset_matches(len(keys))

    @classmethod
    def generate(cls, **_: object) -> tuple[str, Self]:
        """Return a random key, and a provider that signs by it; see `BuiltIn`."""
        key = token_hex(16)
        return key, cls(key)

    def admit(self, head: RequestHead) -> str | None:
        """Return None if the body may have a signature, otherwise a challenge."""
        return None if _media_type(head) in _MEDIA_TYPES else challenge_of("missing")

    def describe_unauthentic(self, head: RequestHead) -> str:
        """Return which part of the signature is missing or wrong; see `Provider`."""
        if _media_type(head) not in _MEDIA_TYPES:
            return "its Content-Type is neither JSON nor a form, so it has no signature"
        match head.context.get(self):
            case "missing":
                return "its body has no signature: Mailgun did not send it, or it was changed"
            case "expired":
                return f"it was signed more than {self.tolerance}, by this machine's clock"
            case _:
                return f"its signature is wrong: {self.wrong_signature}"

    def read(self, request: Request) -> Sequence[Event]:
        """Return the event of a request. Raises `Unauthentic`."""
        return [self.parse(encode(self._verified(request).event))]

    def sign(self, body: bytes) -> ProviderRequest:
        """Return the request with an event, and a signature by the newest key in its body."""
        timestamp, token = str(int(self._clock())), token_hex(25)
        signature = {
            "timestamp": timestamp,
            "token": token,
            "signature": _sign(self._keys[0], timestamp, token),
        }
        whole = b'{"signature":%b,"event-data":%b}' % (encode(signature), body)
        headers = {self.proof: "application/json", "User-Agent": "mailgun/treq-22.2.0"}
        return ProviderRequest(headers, whole)

    def compose(self, notification: Notification) -> bytes | None:
        """Return the event in a body, without its signature; see `BuiltIn`.

        The message id has no angle brackets, as in Mailgun's events.
        """
        fields, at = _COMPOSED.get(kind_of_event(notification)), notification.at
        if fields is None or at is None:
            return None
        recipient = notification.recipient or ""
        headers = {}
        if fields["event"] not in _VISITS:
            headers = {"to": recipient, "from": "news@example.com", "subject": "News"}
        if notification.message_id is not None:
            headers["message-id"] = notification.message_id.removeprefix("<").removesuffix(">")
        event: dict[str, object] = {
            "id": token_urlsafe(16),
            "timestamp": at.timestamp(),
            "log-level": _LOG_LEVELS.get(fields["event"], "info"),
            "recipient": recipient,
            "recipient-domain": recipient.partition("@")[2],
            "recipient-provider": "Other",
            "message": {"headers": headers, "size": 1210},
            "tags": ["*"] if fields["event"] == "unsubscribed" else ["newsletter"],
            "campaigns": [],
            "user-variables": [],
        }
        return encode({**fields, **event})

    def split(self, body: bytes) -> Sequence[bytes]:
        """Return the event in a body, without its signature."""
        payload = _json_payload(body) or _form_payload(body)
        return [encode(payload.event)]

    @staticmethod
    def correct_message_id(stored: str) -> str | None:
        """Return a stored id with angle brackets; see `BodyParser`."""
        return in_brackets(stored)

    @staticmethod
    def field_names(notification: Notification) -> tuple[str, str]:
        """Return the names that the recipient and the message id have in an event in JSON."""
        del notification
        return "recipient", "message.headers.message-id"

    def read_event(self, fields: Fields) -> Reading:
        """Return what an event says, whose fields may be those of a form.

        Its identity is its content without its id, because duplicates may differ in that.
        """
        type_, recipient = text_of(fields.get("event")), text_of(fields.get("recipient"))
        message_id = _message_id(fields)
        notifications = notifications_of(
            _effects(fields),
            recipient,
            message_id,
            time_of_seconds(fields.get("timestamp")),
            bounce_type=_PERMANENT,
        )
        return Reading(type_, recipient, message_id, notifications, _identity(fields))

    def is_test(self, event: Event) -> bool:
        """Return whether the event is a sample that Mailgun's page of webhooks posts."""
        said = event.unsupported
        return said.recipient == _EXAMPLE_RECIPIENT and (said.message_id or "").startswith(
            _EXAMPLE_IDS
        )

    def _verified(self, request: Request) -> _SignedEvent:
        """Return the fields of an authentic request. Raises `Unauthentic`."""
        is_json = _media_type(request.head) == _JSON_TYPE
        payload = _json_payload(request.body) if is_json else _form_payload(request.body)
        if payload is None:
            raise self.refusal(request.head, "missing")
        timestamp = id_of(payload.signature.get("timestamp"))
        token = text_of(payload.signature.get("token"))
        given = [text_of(payload.signature.get(name)) for name in _SIGNATURE_FIELDS]
        if not timestamp or not token or not any(given):
            raise self.refusal(request.head, "missing")
        if not _is_timestamp(timestamp):
            raise self.refusal(request.head, "wrong")
        if not -_MOST_AHEAD <= self._clock() - int(timestamp) <= _OLDEST_SIGNATURE:
            raise self.refusal(request.head, "expired")
        for position, key in enumerate(self._keys):
            expected = _sign(key, timestamp, token).encode()
            if any([compare_digest(expected, _encode(each or "")) for each in given]):  # noqa: C419 - all of them
                self.count_match(position, request.head)
                return payload
        raise self.refusal(request.head, "wrong")


def _sign(key: bytes, timestamp: str, token: str) -> str:
    return digest(key, _encode(timestamp + token), "sha256").hex()


def _media_type(head: RequestHead) -> bytes:
    return (head.header("Content-Type") or b"").partition(b";")[0].strip().lower()


def _encode(text: str) -> bytes:
    return text.encode(errors="replace")


def _json_payload(body: bytes) -> _SignedEvent | None:
    """Return the payload in a JSON object, or None if the body is not one."""
    fields = decode_object(body)
    if fields is None:
        return None
    rest = {name: value for name, value in fields.items() if name != "signature"}
    return _SignedEvent(object_of(fields.get("signature")), fields.get("event-data", rest))


def _form_payload(body: bytes) -> _SignedEvent:
    """Return the payload in a form, in which variables of the sender have the same names.

    Mailgun's value is the first one of each name, but the last one of the signature's fields.
    """
    form = decode_form(body)
    first, last = dict(reversed(form)), dict(form)
    signature = {name: last.get(name) for name in ("timestamp", "token", "signature")}
    event = {name: value for name, value in first.items() if name not in {"token", "signature"}}
    if "timestamp" in last:
        event["timestamp"] = last["timestamp"]
    return _SignedEvent(signature, event)


def _identity(fields: Fields) -> str:
    """Return a hash of an event without its id."""
    content = encode({name: value for name, value in fields.items() if name != "id"})
    return sha256(content).hexdigest()


def _message_id(fields: Fields) -> str | None:
    """Return the message id with angle brackets, which only the API's response always has."""
    headers = object_of(object_of(fields.get("message")).get("headers"))
    found = (headers.get("message-id"), fields.get("Message-Id"), fields.get("message-id"))
    id_ = next(filter(None, map(text_of, found)), None)
    if id_ is None or id_.startswith("<"):
        return id_
    return text_of(f"<{id_}>")


def _effects(fields: Fields) -> Sequence[Effect]:
    type_ = text_of(fields.get("event"))
    is_failure = type_ == "failed" and fields.get("severity") == "permanent"
    if is_failure or type_ in {"bounced", "dropped"}:  # the latter are those of forms
        reason = _suppression(fields)
        return (Bounced, reason) if reason else (Bounced,)
    return _EFFECTS.get(type_ or "", ())


def _suppression(fields: Fields) -> str | None:
    """Return the reason for which Mailgun has suppressed the recipient of a failure, or None."""
    status = object_of(fields.get("delivery-status")) or fields
    code, reason = id_of(status.get("code")) or "", text_of(fields.get("reason"))
    if found := _SUPPRESSED_REASONS.get(reason or "") or _SUPPRESSED_CODES.get(code):
        return found
    is_bounce = reason == "bounce" or fields.get("event") == "bounced"
    return HARD_BOUNCE if is_bounce and not _is_soft(status, code) else None


def _is_soft(status: Fields, code: str) -> bool:
    """Return whether a bounce is not the fault of the address, which Mailgun then keeps."""
    if kind := text_of(status.get("bounce-type")):
        return kind != "hard"
    return code in _SOFT_CODES or text_of(status.get("enhanced-code")) in _SOFT_ENHANCED_CODES
