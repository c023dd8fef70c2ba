"""The base class of providers whose requests contain JSON objects, each an event.

The values of an event are read leniently: a field of another type is as good as none, because no
response helps against what a provider sends, and a replay may read the body after a correction.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parseaddr
from typing import Any, TypeAlias

import msgspec

from hookrow._core.notification import (
    Bounced,
    DispatchEvent,
    Notification,
    Reactivated,
    Suppressed,
    Unsupported,
)
from hookrow._core.rules import PROBE
from hookrow._http import RequestHead
from hookrow.providers._base import Event, Unauthentic, text_of, utc
from hookrow.providers._built_in import BuiltIn
from hookrow.providers._json import decode, replace_surrogates, split_by_brackets
from hookrow.providers._unreadable import explain_unreadable

CLIENT_AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
CLIENT_ADDRESS = "192.0.2.1"
LINK = "https://example.com/news"
UNKNOWN_USER = "5.1.1 The email account that you tried to reach does not exist."
"""Values in events that are composed; the address is reserved (RFC 5737)."""

HARD_BOUNCE = "HardBounce"
COMPLAINT = "SpamComplaint"
MANUAL = "ManualSuppression"
"""The reasons of suppressions: Postmark's, which `Schema.reasons` and the statistics use."""

Effect: TypeAlias = type[DispatchEvent | Reactivated] | str
"""One of the things that an event says about its recipient: a kind of notification, or the reason
for which the provider has suppressed the address."""

Fields: TypeAlias = Mapping[str, Any]
"""A decoded JSON object."""

KindOfEvent: TypeAlias = type[Notification] | tuple[type[Bounced], str | None] | str
"""A kind of notification; with its type for a bounce; for a suppression, its reason alone."""

_object_decoder = msgspec.json.Decoder(dict[str, Any])
_raw_decoder = msgspec.json.Decoder(list[msgspec.Raw])


class Reading(msgspec.Struct, frozen=True, gc=False):
    """What an event says: its type in the provider's words, and its notifications, if any.

    The recipient and the message id are for the log of an event that is not supported. `id` is as
    `Event.event_id`.
    """

    type: str | None
    recipient: str | None = None
    message_id: str | None = None
    notifications: Sequence[Notification] = ()
    id: str | None = None


class EventProvider(BuiltIn):
    """Splits the body of a request into events, and reads each of them."""

    def read_body(self, body: bytes) -> Sequence[Event]:
        """Return the events in the body of an authentic request, in order. Never raises."""
        return [self.parse(each) for each in self.split(body)]

    def parse(self, body: bytes) -> Event:
        """Return the event in the body of an `Event`. Never raises."""
        fields = decode_object(body)
        if fields is None:
            return Event((), body)
        read = self.read_event(fields)
        unsupported = Unsupported(read.type, read.recipient, read.message_id)
        return Event(tuple(read.notifications), body, unsupported, event_id=read.id)

    def explain(self, body: bytes) -> str | None:
        """Return why a body is not supported, in a sentence, or None if it is. Never raises."""
        fields = decode_object(body)
        if fields is None:
            return explain_unreadable(body) or "The event is nested too deeply."
        read = self.read_event(fields)
        if read.notifications:
            return None
        if read.type is None:
            return "The event has no type."
        return (
            f"The event {replace_surrogates(read.type)} has no effect that hookrow records, or its "
            "time is missing."
        )

    def refusal(self, head: RequestHead, error: str) -> Unauthentic:
        """Return the exception to raise; keep the error for `describe_unauthentic`."""
        head.context[self] = error
        return Unauthentic(challenge_of(error))

    def split(self, body: bytes) -> Sequence[bytes]:
        """Return the bytes of each event in the body of a request. Never raises.

        By default, the events are the elements of an array, or the body is the only one.
        """
        return split_array(body)

    @abstractmethod
    def read_event(self, fields: Fields) -> Reading:
        """Return what an event says. Its fields may be of any type. Never raises."""


def challenge_of(error: str) -> str:
    """Return the challenge to a request whose signature has an error, such as "wrong"."""
    return f'Signature error="{error}"'


def notifications_of(
    effects: Sequence[Effect],
    recipient: str | None,
    message_id: str | None,
    at: datetime | None,
    *,
    bounce_type: str | None = None,
) -> Sequence[Notification]:
    """Return the notification of each effect at a time (UTC); none if the time is not known.

    Unpaired surrogates in the type of a bounce are replaced, because it is stored.
    """
    if at is None:
        return ()
    stored_type = bounce_type and replace_surrogates(bounce_type)
    found: list[Notification] = []
    for effect in effects:
        if isinstance(effect, str):
            found.append(Suppressed(recipient, message_id, at, effect))
        elif issubclass(effect, Bounced):
            found.append(Bounced(recipient, message_id, at, stored_type))
        else:
            found.append(effect(recipient, message_id, at))
    return found


PROBE_SUPPRESSION = Suppressed(PROBE, None, datetime(2000, 1, 1, tzinfo=UTC), MANUAL)
"""The `BuiltIn.probe_change` of providers that report no reactivation."""

PROBE_REACTIVATION = Reactivated(PROBE, None, PROBE_SUPPRESSION.at)
"""The `BuiltIn.probe_change` of the others, whose events must have a time."""


def kind_of_event(notification: Notification) -> KindOfEvent:
    """Return the key of a notification in a provider's table of the events that it composes."""
    match notification:
        case Suppressed(reason=reason):
            return reason
        case Bounced(type=bounce_type):
            return Bounced, bounce_type
        case _:
            return type(notification)


def seconds_of(at: datetime) -> int:
    """Return the whole seconds of a time since 1970."""
    return int(at.timestamp())


def identity_of(
    type_: str | None,
    recipient: str | None,
    message_id: str | None,
    at: datetime | None,
    *details: object,
) -> str | None:
    """Return the identity of an event that has no id, or None if its bytes are a better one.

    `details` distinguish events of the same type at the same time, such as clicks.
    """
    if type_ is None or message_id is None or at is None:
        return None
    parts = (type_, message_id, recipient, at.isoformat(), *map(text_of, details))
    return " ".join(map(str, parts))


def split_array(body: bytes) -> Sequence[bytes]:
    """Return the bytes of each element of a JSON array, or the body if it is not an array.

    An element may be nested too deeply, or not be JSON in UTF-8; the others are the same.
    """
    try:
        return [bytes(each) for each in _raw_decoder.decode(body)]
    except (ValueError, RecursionError):
        return split_by_brackets(body)


def decode_object(body: bytes) -> Fields | None:
    """Return the JSON object in a body, or None if it is not one in UTF-8."""
    try:
        body.decode()
        return decode(body, _object_decoder)
    except (ValueError, RecursionError):
        return None


def object_of(value: object) -> Fields:
    """Return a JSON object, or an empty one for a value of another type."""
    return value if isinstance(value, dict) else {}


def address_of(value: object) -> str | None:
    """Return the address of a recipient, which may have a display name (RFC 5322, section 3.4).

    Returns None if it is not a string, and the whole text if it is not an address.
    """
    text = text_of(value)
    return text and (parseaddr(text)[1] or text)


def id_of(value: object) -> str | None:
    """Return an id that is a string or an integer of any size, as text, or None."""
    if isinstance(value, int) and not isinstance(value, bool):
        return text_of(str(value))
    return text_of(value)


def time_of(value: object) -> datetime | None:
    """Return the time in an RFC 3339 text, or None."""
    if not isinstance(value, str):
        return None
    try:
        return utc(msgspec.convert(value, datetime))
    except ValueError:  # a surrogate raises UnicodeEncodeError
        return None


def rfc3339(at: datetime) -> str:
    """Return a time (UTC) as an RFC 3339 text with milliseconds."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_of_seconds(value: object, *, per_second: int = 1) -> datetime | None:
    """Return the time of a number since 1970, which may be a text, or None.

    There are `per_second` of its units in a second.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return datetime.fromtimestamp(float(value) / per_second, UTC)
    except (ValueError, OverflowError, OSError):
        return None
