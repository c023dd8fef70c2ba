"""SendGrid: verifies the signatures of its event webhook, and reads the events.

The events are those of https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event. A
request has several.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from time import time

from hookrow._arguments import check_flags, check_function, reject
from hookrow._core.notification import (
    Bounced,
    Clicked,
    Complained,
    Delivered,
    Opened,
    Reactivated,
)
from hookrow._http import Request, RequestHead
from hookrow.errors import ConfigurationError, MissingExtra
from hookrow.providers._base import Unauthentic, text_of
from hookrow.providers._events import (
    COMPLAINT,
    HARD_BOUNCE,
    MANUAL,
    Effect,
    EventProvider,
    Fields,
    Reading,
    notifications_of,
    split_array,
    time_of_seconds,
)

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_der_public_key
except ImportError as error:
    raise MissingExtra("hookrow.providers.sendgrid", "signatures") from error

MAX_AGE = 25 * 3600
"""Seconds for which a signed request is accepted: SendGrid repeats it for 24 hours, and does not
say whether it signs it again."""

MAX_AHEAD = 300
"""Seconds by which the time of a signature may be ahead of this clock."""

_SIGNATURE = "X-Twilio-Email-Event-Webhook-Signature"
_TIMESTAMP = "X-Twilio-Email-Event-Webhook-Timestamp"

_DROPPED = {
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

_LONGEST_TIMESTAMP = 12
"""The largest number of digits of a time in seconds; that of the present has 10."""

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
    all emails to the address; so do drops for one of these reasons. Its temporary blocks do not.

    Raises `ConfigurationError` if a key is missing or not valid.
    """

    name = "sendgrid"
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
        self._message_id_key = message_id_key
        self._groups = groups
        self._clock = clock
        self.accept(*keys)

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
        if not head.header(_SIGNATURE) or (timestamp := head.header(_TIMESTAMP)) is None:
            return 'Signature error="missing"'
        age = self._age(timestamp)
        if age is None:
            return 'Signature error="wrong"'
        return 'Signature error="expired"' if age > MAX_AGE or age < -MAX_AHEAD else None

    def describe_unauthentic(self, head: RequestHead) -> str:
        """Return which header is missing or wrong, or that no key fits; see `Provider`."""
        for name in (_SIGNATURE, _TIMESTAMP):
            if not head.header(name):
                return f"it has no {name}: turn on the signed event webhook at SendGrid"
        age = self._age(head.header(_TIMESTAMP) or b"")
        if age is None:
            return f"its {_TIMESTAMP} is not a number of seconds"
        if age < -MAX_AHEAD:
            return "it was signed in the future, by this machine's clock"
        if age > MAX_AGE:
            return "it was signed more than a day ago, by this machine's clock"
        return "its signature is wrong: the key differs, or the body was changed on its way"

    def verify(self, request: Request) -> None:
        """Raise `Unauthentic` if no key verifies the signature."""
        try:
            signature = b64decode(request.head.header(_SIGNATURE) or b"", validate=True)
        except (binascii.Error, ValueError):
            raise Unauthentic('Signature error="wrong"') from None
        content = (request.head.header(_TIMESTAMP) or b"") + request.body
        for position, key in enumerate(self._keys):
            try:
                key.verify(signature, content, ECDSA(SHA256()))
            except InvalidSignature:
                continue
            self.count_match(position)
            return
        raise Unauthentic('Signature error="wrong"')

    def split(self, body: bytes) -> Sequence[bytes]:
        """Return the bytes of each event in the array of a request."""
        return split_array(body)

    def read_event(self, fields: Fields) -> Reading:
        """Return what an event says.

        Its identity consists of its content, because duplicates may differ in `sg_event_id`
        (https://github.com/sendgrid/sendgrid-nodejs/issues/1435).
        """
        type_, recipient = text_of(fields.get("event")), text_of(fields.get("email"))
        message_id = self._message_id(fields)
        names = ("event", "sg_message_id", "email", "timestamp", "type", "url", "asm_group_id")
        identity = " ".join(str(fields.get(name)) for name in names)
        notifications = notifications_of(
            self._effects(fields),
            recipient,
            message_id,
            time_of_seconds(fields.get("timestamp")),
            bounce_type=text_of(fields.get("type")),
        )
        return Reading(type_, recipient, message_id, notifications, identity)

    def _message_id(self, fields: Fields) -> str | None:
        if self._message_id_key is not None:
            return text_of(fields.get(self._message_id_key))
        id_ = text_of(fields.get("sg_message_id"))
        return id_ and id_.partition(".")[0]

    def _effects(self, fields: Fields) -> Sequence[Effect]:
        match fields.get("event"):
            case "bounce":
                # After a block, SendGrid tries the next email to the address.
                return (Bounced,) if fields.get("type") == "blocked" else (Bounced, HARD_BOUNCE)
            case "dropped":
                reason = _DROPPED.get(str(fields.get("reason")).lower())
                return (reason,) if reason else ()
            case str() as type_:
                effects = {**_EFFECTS, **_GROUP_EFFECTS} if self._groups else _EFFECTS
                return effects.get(type_, ())
            case _:
                return ()

    def _age(self, timestamp: bytes) -> float | None:
        """Return the age of a signature in seconds, or None if its time is not a number."""
        if not timestamp.isdigit() or len(timestamp) > _LONGEST_TIMESTAMP:
            return None
        return self._clock() - int(timestamp)


def _public_key(key: object) -> EllipticCurvePublicKey:
    """Return a verification key. Raises `ConfigurationError` if it is not valid."""
    if not isinstance(key, bytes | str):
        reject("A verification key", "bytes or a string", key, _LINE)
    try:
        encoded = b64decode(key, validate=True) if isinstance(key, str) else key
        loaded = load_der_public_key(encoded)
    except (binascii.Error, ValueError):
        loaded = None
    if not isinstance(loaded, EllipticCurvePublicKey):
        raise ConfigurationError(
            "The verification key is not valid: copy all of it, in base64, from the event webhook "
            "at SendGrid."
        )
    return loaded
