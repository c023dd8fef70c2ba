"""SendGrid: verifies the signatures of its event webhook, and reads the events.

The events are those of https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event. A
request has several.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from secrets import token_urlsafe
from time import time
from types import MappingProxyType
from typing import Any, ClassVar, Self

from hookrow._arguments import check_flags, check_function, reject
from hookrow._core.notification import (
    Bounced,
    Clicked,
    Complained,
    Delivered,
    Notification,
    Opened,
    Reactivated,
)
from hookrow._http import Request, RequestHead
from hookrow.errors import ConfigurationError, MissingExtra
from hookrow.providers._base import Event, Unauthentic, text_of
from hookrow.providers._built_in import Option, ProviderRequest
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
    kind_of_event,
    notifications_of,
    seconds_of,
    time_of_seconds,
)
from hookrow.providers._json import encode
from hookrow.providers._message_ids import without_brackets

try:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import (
        ECDSA,
        SECP256R1,
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
        generate_private_key,
    )
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_der_public_key,
    )
except ModuleNotFoundError as _error:
    if _error.name is None or _error.name.partition(".")[0] != "cryptography":
        raise
    raise MissingExtra("hookrow.providers.sendgrid", "signatures") from _error

_OLDEST_SIGNATURE = 25 * 3600
"""Seconds for which a signed request is accepted: SendGrid repeats it for 24 hours, and does not
document whether each repetition has a new signature."""

_MOST_AHEAD = 300
"""Seconds by which the time of a signature may be ahead of this clock."""

_SIGNATURE_HEADER = "X-Twilio-Email-Event-Webhook-Signature"
_TIME_HEADER = "X-Twilio-Email-Event-Webhook-Timestamp"

_DROP_REASONS = {
    "bounced address": HARD_BOUNCE,
    "spam reporting address": COMPLAINT,
    "unsubscribed address": MANUAL,
}
"""The reasons for which SendGrid drops emails to a suppressed address, in lower case."""

_EFFECTS: Mapping[str, Sequence[Effect]] = {
    "delivered": (Delivered,),
    "open": (Opened,),
    "click": (Clicked,),
    "spamreport": (Complained, COMPLAINT),
    "unsubscribe": (MANUAL,),
}
_GROUP_EFFECTS: Mapping[str, Sequence[Effect]] = {
    "group_unsubscribe": (MANUAL,),
    "group_resubscribe": (Reactivated,),
}
"""The effects of the other events, by their type; the latter concern only some emails."""

_VISIT: Fields = {"useragent": CLIENT_AGENT, "ip": CLIENT_ADDRESS}

_COMPOSED: Mapping[KindOfEvent, Fields] = {
    Delivered: {"event": "delivered", "response": "250 2.0.0 OK", "tls": 1},
    Opened: {"event": "open", "sg_content_type": "html", "sg_machine_open": False, **_VISIT},
    Clicked: {"event": "click", "url": LINK, "url_offset": {"index": 0, "type": "html"}, **_VISIT},
    (Bounced, "bounce"): {
        "event": "bounce",
        "type": "bounce",
        "bounce_classification": "Invalid Address",
        "reason": f"550 {UNKNOWN_USER}",
        "status": "5.1.1",
    },
    (Bounced, "blocked"): {
        "event": "bounce",
        "type": "blocked",
        "bounce_classification": "Reputation",
        "reason": "550 5.7.1 The message was blocked.",
        "status": "5.7.1",
    },
    Complained: {"event": "spamreport"},
    HARD_BOUNCE: {"event": "dropped", "reason": "Bounced Address", "status": "5.0.0"},
    COMPLAINT: {"event": "dropped", "reason": "Spam Reporting Address", "status": "5.0.0"},
    MANUAL: {"event": "unsubscribe"},
}
_GROUP_COMPOSED: Mapping[KindOfEvent, Fields] = {
    Reactivated: {"event": "group_resubscribe", "asm_group_id": 10, **_VISIT},
}
"""The fields of the event for each kind of notification, besides those of all events. The latter
have an effect only with `groups`."""

_WITHOUT_SMTP_ID = {"open", "click", "unsubscribe"}
"""The events that do not have the header `Message-ID` of the email, which is that of its sender if
it was sent by SMTP."""

_IDENTIFYING = (
    "event",
    "sg_message_id",
    "email",
    "timestamp",
    "type",
    "reason",
    "url",
    "asm_group_id",
)
"""The fields that distinguish events; see `SendGrid.read_event`."""

_TEST_RECIPIENT = "example@test.com"
"""The recipient of the events of "Test Your Integration"."""

_MOST_DIGITS = 12
"""The largest number of digits of a time in seconds; that of the present has 10."""

_MESSAGE_ID = re.compile(r"([A-Za-z0-9_-]+)(\.[^@]*)?(@.*ismtpd.*)?")
"""A message id, and what `sg_message_id` and `smtp-id` append to it."""

_LINE = 'SendGrid("MFkwEwYH...")'


class SendGrid(EventProvider):
    """Verifies requests by a verification key of SendGrid's, and reads its events.

    A key is the DER encoding of the public key in bytes, or its base64 text, as SendGrid shows it.
    Several keys are accepted, the newest first, so that it can be rotated. `clock` returns the time
    in seconds since 1970.

    The message id is the header `X-Message-Id` of the response to the request that sent the email,
    which is the part of `sg_message_id` before the first dot; all recipients share it. With
    `message_id_key`, it is instead the value of this custom argument of the email: "anymail_id" for
    emails that django-anymail has sent. An unsubscribe from a group, which ends only some emails,
    suppresses nobody unless `groups` is True.

    Hard bounces, spam reports and unsubscribes suppress the subscriber, because SendGrid then drops
    all emails to the address; so do drops for one of these reasons. Its temporary blocks do not. A
    bounce after the email was accepted has no message id, so it only suppresses
    (https://support.sendgrid.com/hc/en-us/articles/9624271234331). SendGrid reports nothing if an
    address is removed from its lists.

    After any response but a 2xx, SendGrid repeats the whole request for 24 hours, and then discards
    it (https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event).

    Raises `ConfigurationError` if a key is missing or not valid.
    """

    name = "sendgrid"
    credential = "public_key"
    setup = "Enable the signature, and copy the verification key to the settings of hookrow."
    options: ClassVar[Mapping[str, Option]] = MappingProxyType(
        {"message_id_key": Option(), "groups": Option(bool)}
    )
    proof = _SIGNATURE_HEADER
    wrong_signature = "the key differs, or the body was changed on its way"
    tolerance: ClassVar[str] = (
        f"{_OLDEST_SIGNATURE // 3600} hours ago, or {_MOST_AHEAD // 60} minutes ahead"
    )
    hard_bounce = "bounce"
    precision: ClassVar[timedelta] = timedelta(seconds=1)
    probe_change: ClassVar[Notification] = PROBE_SUPPRESSION
    own_test = 'choose "Test Your Integration" on the page of the event webhook at SendGrid'
    message_id_source: str = "the header `X-Message-Id` of the response of its API"
    max_body = 4 * 1024 * 1024  # batches are small, but their size is not documented

    def __init__(
        self,
        *keys: bytes | str,
        message_id_key: str | None = None,
        groups: bool = False,
        clock: Callable[[], float] = time,
    ) -> None:
        check_function("clock", clock)
        check_flags(groups=groups)
        _check_name(message_id_key)
        self._message_id_key = message_id_key
        if message_id_key is not None:
            self.message_id_source = f"the value of the custom argument `{message_id_key}`"
        self._groups = groups
        self._clock = clock
        self._private_key: EllipticCurvePrivateKey | None = None
        self.accept(*keys)

    @classmethod
    def generate(cls, **options: Any) -> tuple[str, Self]:  # noqa: ANN401 - of `options`
        """Return the public key of a new pair, and a provider that signs by it; see `BuiltIn`."""
        private = generate_private_key(SECP256R1())
        der = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        public = b64encode(der).decode()
        provider = cls(public, **options)
        provider._private_key = private
        return public, provider

    def accept(self, *keys: bytes | str) -> None:
        """Accept these keys from now on, and no others. Raises `ConfigurationError`."""
        if not keys or not all(keys):
            raise ConfigurationError(
                "The verification key is missing or empty: copy it from the event webhook at "
                "SendGrid."
            )
        self._keys = [_public_key(each) for each in keys]
        self.reset_matches(len(keys))

    def admit(self, head: RequestHead) -> str | None:
        """Return None if the head has a signature and its time, otherwise a challenge."""
        if not head.header(_SIGNATURE_HEADER) or (timestamp := head.header(_TIME_HEADER)) is None:
            return challenge_of("missing")
        age = self._age(timestamp)
        if age is None:
            return challenge_of("wrong")
        return challenge_of("expired") if age > _OLDEST_SIGNATURE or age < -_MOST_AHEAD else None

    def describe_unauthentic(self, head: RequestHead) -> str:
        """Return which header is missing or wrong, or that no key fits; see `Provider`."""
        for name in (_SIGNATURE_HEADER, _TIME_HEADER):
            if not head.header(name):
                return f"it has no {name}: turn on the signed event webhook at SendGrid"
        age = self._age(head.header(_TIME_HEADER) or b"")
        if age is None:
            return f"its {_TIME_HEADER} is not a number of seconds"
        if age < -_MOST_AHEAD:
            return "it was signed in the future, by this machine's clock"
        if age > _OLDEST_SIGNATURE:
            return "it was signed more than a day ago, by this machine's clock"
        return f"its signature is wrong: {self.wrong_signature}"

    def read(self, request: Request) -> Sequence[Event]:
        """Return the events in a request. Raises `Unauthentic`."""
        self.verify(request)
        return self.read_body(request.body)

    def verify(self, request: Request) -> None:
        """Raise `Unauthentic` if no key verifies the signature."""
        try:
            signature = b64decode(request.head.header(_SIGNATURE_HEADER) or b"", validate=True)
        except (binascii.Error, ValueError):
            raise Unauthentic(challenge_of("wrong")) from None
        content = (request.head.header(_TIME_HEADER) or b"") + request.body
        for position, key in enumerate(self._keys):
            try:
                key.verify(signature, content, ECDSA(SHA256()))
            except InvalidSignature:
                continue
            self.count_match(position, request.head)
            return
        raise Unauthentic(challenge_of("wrong"))

    def sign(self, body: bytes) -> ProviderRequest | None:
        """Return the request with an event, if `generate` returned the provider; see `BuiltIn`."""
        if self._private_key is None:
            return None
        array, timestamp = b"[%b]\r\n" % body, str(int(self._clock()))
        signature = self._private_key.sign(timestamp.encode() + array, ECDSA(SHA256()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "SendGrid Event API",
            _SIGNATURE_HEADER: b64encode(signature).decode(),
            _TIME_HEADER: timestamp,
        }
        return ProviderRequest(headers, array)

    def compose(self, notification: Notification) -> bytes | None:
        """Return the body of an event; see `BuiltIn`."""
        kind, at, id_ = kind_of_event(notification), notification.at, notification.message_id
        composed = {**_COMPOSED, **_GROUP_COMPOSED} if self._groups else _COMPOSED
        fields = composed.get(kind)
        if fields is None or at is None:
            return None
        event: dict[str, object] = {
            "email": notification.recipient,
            "timestamp": seconds_of(at),
            "category": ["newsletter"],
            "sg_event_id": token_urlsafe(16),
        }
        if id_ is not None and self._message_id_key is not None:
            event[self._message_id_key] = id_
        elif id_ is not None:
            event["sg_message_id"] = f"{id_}.recvd-6b9f8c7d5-x2x4x-1-67400000-1.0"
            if fields["event"] not in _WITHOUT_SMTP_ID:
                event["smtp-id"] = f"<{id_}@geopod-ismtpd-1>"
        return encode({**event, **fields})

    def read_event(self, fields: Fields) -> Reading:
        """Return what an event says.

        Its identity consists of its content, because duplicates may differ in `sg_event_id`
        (https://github.com/sendgrid/sendgrid-nodejs/issues/1435).
        """
        type_, recipient = text_of(fields.get("event")), text_of(fields.get("email"))
        message_id = self._message_id(fields)
        notifications = notifications_of(
            self._effects(fields),
            recipient,
            message_id,
            _time_of(fields.get("timestamp")),
            bounce_type=text_of(fields.get("type")),
        )
        identity = None
        if type_ is not None:
            content = [message_id, *map(fields.get, _IDENTIFYING)]
            identity = " ".join(map(str, content))
        return Reading(type_, recipient, message_id, notifications, identity)

    def is_test(self, event: Event) -> bool:
        """Return whether the event is one of those of "Test Your Integration"; see `Provider`."""
        return event.unsupported.recipient == _TEST_RECIPIENT

    def field_names(self, notification: Notification) -> tuple[str, str]:
        """Return the names that the recipient and the message id have in an event."""
        del notification
        return "email", self._message_id_key or "sg_message_id"

    def correct_message_id(self, stored: str) -> str | None:
        """Return a stored id up to the first dot, unless it is a custom argument of the email.

        See `BodyParser`.
        """
        if self._message_id_key is not None:
            return stored
        found = _MESSAGE_ID.fullmatch(without_brackets(stored))
        return found and found[1]

    def _message_id(self, fields: Fields) -> str | None:
        if self._message_id_key is not None:
            return text_of(fields.get(self._message_id_key))
        id_ = text_of(fields.get("sg_message_id"))
        return id_ and id_.partition(".")[0]

    def _effects(self, fields: Fields) -> Sequence[Effect]:
        match fields.get("event"):
            case "bounce":
                # After a block or an expiry, SendGrid tries the next email to the address.
                is_hard = text_of(fields.get("type")) in {"bounce", None}
                return (Bounced, HARD_BOUNCE) if is_hard else (Bounced,)
            case "dropped":
                reason = _DROP_REASONS.get(str(fields.get("reason")).lower())
                return (reason,) if reason else ()
            case str() as type_:
                effects = {**_EFFECTS, **_GROUP_EFFECTS} if self._groups else _EFFECTS
                return effects.get(type_, ())
            case _:
                return ()

    def _age(self, timestamp: bytes) -> float | None:
        """Return the age of a signature in seconds, or None if its time is not a number."""
        if not timestamp.isdigit() or len(timestamp) > _MOST_DIGITS:
            return None
        return self._clock() - int(timestamp)


def _time_of(timestamp: object) -> datetime | None:
    """Return the time of an event, which has seconds.

    In SendGrid's samples of marketing campaigns, it has milliseconds, which are beyond any time in
    seconds.
    """
    return time_of_seconds(timestamp) or time_of_seconds(timestamp, per_second=1000)


def _check_name(name: object) -> None:
    """Raise `ConfigurationError` if the name of a custom argument is empty or not a string."""
    if name == "" or not isinstance(name, str | None):
        reject("message_id_key", "the name of a custom argument", name)


def _public_key(key: object) -> EllipticCurvePublicKey:
    """Return a verification key. Raises `ConfigurationError` if it is not valid."""
    if not isinstance(key, bytes | str):
        reject("A verification key", "bytes or a string", key, _LINE)
    try:
        encoded = b64decode(key, validate=True) if isinstance(key, str) else key
        loaded = load_der_public_key(encoded)
    except (binascii.Error, ValueError, UnsupportedAlgorithm):
        loaded = None
    if not isinstance(loaded, EllipticCurvePublicKey):
        raise ConfigurationError(
            "The verification key is not valid: copy all of it, in base64, from the event webhook "
            "at SendGrid."
        )
    return loaded
