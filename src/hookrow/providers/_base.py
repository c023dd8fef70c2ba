"""The base class of email providers, which authenticates requests and reads their events."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType, NoneType
from typing import Any, NoReturn, Protocol, TypeAlias

import msgspec

from hookrow._arguments import check_counts, kind_of, reject_secret
from hookrow._core.log_entry import LONGEST_PROVIDER, RECORD_TYPES
from hookrow._core.notification import (
    Bounced,
    Clicked,
    Complained,
    Delivered,
    Notification,
    Opened,
    Reactivated,
    Suppressed,
    Unsupported,
)
from hookrow._core.optional import ALWAYS, Kinds
from hookrow._core.rules import UNSTORABLE
from hookrow._core.times import as_utc
from hookrow._http import MAX_BODY, Request, RequestHead, Response
from hookrow.errors import ConfigurationError

LONGEST_TEXT = 1000
"""The number of characters to which an address or message id is truncated: no row contains more."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event in a request, as its provider read it.

    It has one notification or, if it has several effects, several in `notifications`: for example,
    a bounce, and the suppression with which the provider follows it. An event that is not supported
    has none. The first one determines its type in the log. If there is none, `unsupported` has the
    fields for the log. `body` has the bytes of the event, from which the provider can read it
    again: the whole body, unless the request has several events. `event_id` identifies the event if
    its bytes do not, because the provider may change them between attempts. Events of different
    kinds must have different ids: two events with the same id whose times are in the same second
    are one entry of the log. `trace_id` is the provider's identification of all attempts to send
    the event.
    """

    notifications: Sequence[Notification]
    body: bytes
    unsupported: Unsupported = Unsupported()
    event_id: str | None = None
    trace_id: str | None = None


class Unauthentic(Exception):
    """The provider did not send the request. `challenge` is as in `Provider.admit`."""

    def __init__(self, challenge: str) -> None:
        super().__init__(challenge)
        self.challenge = challenge


class NotReady(Exception):
    """The provider cannot verify the request yet, for example because it fetches a certificate."""


class BodyParser(Protocol):
    """The part of a provider that reads stored bodies. It needs no secret."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The provider's name in the log, at most 32 characters."""

    @abstractmethod
    def parse(self, body: bytes) -> Event:
        """Return the event in the body of an `Event`, whether or not it is supported. Never raises.

        Its `event_id` and `trace_id` may be None, because only the request may contain them.
        """

    def explain(self, body: bytes) -> str | None:
        """Return why a body is not supported, in a sentence, or None if it is. Never raises.

        By default, None, because nothing is known about the body.
        """
        del body
        return None

    def field_names(self, notification: Notification) -> tuple[str, str]:
        """Return the names that the recipient and the message id have in a payload."""
        del notification
        return "recipient", "message ID"

    message_id_source: str = "the message ID that the provider returned"
    """What a host stores as `provider_message_id`, as a noun phrase, for advice."""

    @property
    def message_id_length(self) -> int | None:
        """The number of characters of its longest message ids; by default None, for unknown.

        A column of the host that is shorter is rejected, because it cannot hold every id.
        """
        return None

    def correct_message_id(self, stored: str) -> str | None:
        """Return a message id that a host has stored in the form in which events contain it.

        It is returned unchanged if events can contain it, and corrected if it is another form of
        such an id, for example with angle brackets. None means that no event can contain it. Never
        raises. By default, unchanged, because nothing is known about the form.
        """
        return stored


class Provider(BodyParser):
    """Authenticates requests and reads their events: the base class of providers."""

    header: str | None = None
    """The header that contains the secret, if there is one."""

    max_body: int = MAX_BODY
    """The largest size of a request's body, in bytes; a longer one results in 413."""

    secrets: Sequence[str] = ()
    """The accepted secrets, the newest first, if they are known."""

    matched: Mapping[int, int] = MappingProxyType({})
    """The number of requests by the position of the secret, if they are counted; 0 is the newest.
    """

    old_matches: int = 0
    """The number of requests whose secret was not the newest; no reload of secrets resets it."""

    accepts_logged: bool = True
    """Whether an event gets a 200 once the log has it, whatever its outcome is.

    Most providers repeat a request for hours, discard it or disable the webhook after any other
    response, and one event that concerns nobody here would cause this for a whole batch. Events
    whose rows do not exist yet are then recorded by the sweep. If False, the responses are the
    contract's.
    """

    @abstractmethod
    def admit(self, head: RequestHead) -> str | None:
        """Return None to admit a request, or the challenge to an unauthenticated one.

        The challenge becomes the header WWW-Authenticate of the 401 (RFC 9110, section 11.6.1). A
        provider that signs the body admits the request here, and verifies it in `read`.
        """

    def probe(self, head: RequestHead) -> Response | None:
        """Return the response to a GET or HEAD request, or None if its method is not allowed.

        Some providers send one to check the URL before they use it. Such a request is not
        authenticated, so the response must contain nothing secret and change nothing. The response
        to HEAD is sent without its body. After a request with any other method, it is asked about
        both, for the header Allow of the 405. Never blocks, and never raises. By default, None.
        """
        del head
        return None

    def describe_unauthentic(self, head: RequestHead) -> str:
        """Return why a request got a 401, for the log: a clause without a full stop. Never raises.

        The clause must be one of a few constant texts, because log lines are limited by their text,
        and must contain no value of a header. It is called after `admit` or `read` has refused the
        request.
        """
        del head
        return "it has no valid secret"

    def is_test(self, event: Event) -> bool:
        """Return whether the provider sent the event to test the webhook. Never raises.

        By default, False.
        """
        del event
        return False

    def body_schema(self) -> Mapping[str, Any] | None:
        """Return the JSON Schema of a request's body for OpenAPI pages, or None if it has none.

        By default, None.
        """
        return None

    @abstractmethod
    def read(self, request: Request) -> Sequence[Event]:
        """Return the events in an admitted request, in order.

        Never blocks, because an event loop may call it. Raises `Unauthentic` if the signature of
        the body is not valid, `NotReady` if it cannot be verified yet, and nothing else. After
        `NotReady`, the response is 503, and the provider sends the request again.
        """

    def read_body(self, body: bytes) -> Sequence[Event]:
        """Return the events in the body of a request that is known to be authentic, in order.

        `Receiver.record_body` calls it. Never blocks, and never raises. By default, the body is
        that of a single event.
        """
        return [self.parse(body)]


_FieldTypes: TypeAlias = tuple[tuple[type, ...], str]
"""The types that a field may have, and their description."""

_TEXT: _FieldTypes = (str,), "a string"
_OPTIONAL_TEXT: _FieldTypes = (str, NoneType), "a string or None"

_ATTRIBUTES: Mapping[str, _FieldTypes] = {
    "name": _TEXT,
    "header": _OPTIONAL_TEXT,
    "secrets": ((Sequence,), "a sequence of strings"),
    "matched": ((Mapping,), "a mapping of numbers to numbers"),
    "old_matches": ((int,), "a number"),
    "accepts_logged": ((bool,), "True or False"),
    "message_id_length": ((int, NoneType), "a number or None"),
}
"""The attributes of a provider whose types are checked, besides `max_body`."""


def check_provider(provider: object, line: str = "Receiver(Postmark(secret), store)") -> Provider:
    """Return the provider of a receiver.

    Raises `ConfigurationError` for an object that is not a provider, with the line to write, and
    for an attribute of the wrong type: it would fail the tasks that all entries share.
    """
    if not isinstance(provider, Provider):
        raise ConfigurationError(
            "The provider must be an instance of a subclass of hookrow.providers.Provider, not "
            f"{kind_of(provider)}: write {line}."
        )
    class_ = type(provider).__name__
    for name, (types, expected) in _ATTRIBUTES.items():
        if not isinstance(found := getattr(provider, name), types):
            kind = type(found).__name__  # no value, because it may be a secret
            raise ConfigurationError(f"{class_}.{name} must be {expected}, not {kind}.")
    if not 0 < len(provider.name) <= LONGEST_PROVIDER or UNSTORABLE.search(provider.name):
        raise ConfigurationError(
            f"The name of a provider has 1 to {LONGEST_PROVIDER} characters, but that of {class_} "
            f"is {provider.name!r}: choose another one, without NUL and unpaired surrogates."
        )
    secrets = provider.secrets
    if isinstance(secrets, str) or not all(isinstance(each, str) for each in secrets):
        raise ConfigurationError(
            f'{class_}.secrets must be a sequence of strings: write secrets = ("the secret",).'
        )
    check_counts(**{f"{class_}.max_body": provider.max_body})
    if provider.message_id_length is not None:
        check_counts(**{f"{class_}.message_id_length": provider.message_id_length})
    return provider


class ProviderFault(ConfigurationError):
    """A method of a provider raised an exception, or returned a value of the wrong type.

    The message names the class and the method, and quotes no text of a notification. The cause is
    the exception, if the method raised one.
    """


def provider_class(provider: BodyParser) -> str:
    """Return the name of a provider's class. Stored bodies may also be read by the class itself."""
    return provider.__name__ if isinstance(provider, type) else type(provider).__name__


def check_challenge(provider: Provider, challenge: object) -> str:
    """Return the challenge of `Provider.admit`. Raises `ProviderFault` for another type."""
    if not isinstance(challenge, str):
        expected = "None to admit the request, or the challenge, a string"
        _reject_returned(provider, "admit", challenge, expected)
    return challenge


def check_refusal(provider: Provider, error: Unauthentic) -> None:
    """Raise `ProviderFault` if the challenge of an `Unauthentic` from `read` is not a string."""
    if not isinstance(error.challenge, str):
        raise ProviderFault(
            f"{provider_class(provider)}.read raised Unauthentic with "
            f"{kind_of(error.challenge)}, but the challenge must be a string."
        )


def check_clause(provider: Provider, clause: object) -> str:
    """Return what `describe_unauthentic` has returned. Raises `ProviderFault` for another type."""
    if not isinstance(clause, str):
        _reject_returned(provider, "describe_unauthentic", clause, "a string")
    return clause


def check_response(provider: Provider, response: object) -> Response | None:
    """Return what `Provider.probe` has returned. Raises `ProviderFault` for another type.

    The types of the fields are checked, because a host could not send others.
    """
    if response is None:
        return None
    if not isinstance(response, Response):
        expected = 'None or a response, such as Response(200, b"", {})'
        _reject_returned(provider, "probe", response, expected)
    for name, (types, expected) in _RESPONSE_FIELDS.items():
        if not isinstance(found := getattr(response, name), types):
            wrong = type(found).__name__
            _reject_part(provider, "probe", "a response", f"{name} is {wrong}", expected)
    if not all(isinstance(each, str) for header in response.headers.items() for each in header):
        fault = "headers has a name or a value of another type"
        _reject_part(provider, "probe", "a response", fault, "a mapping of strings to strings")
    return response


def check_events(provider: Provider, method: str, events: object) -> Sequence[Event]:
    """Return what a method of a provider has read. Raises `ProviderFault` for anything but events.

    A generator is refused, too, because it would verify the request only later. The types of all
    fields are checked, because those of one request could otherwise fail the whole group in which
    it is recorded.
    """
    expected = "a sequence of events: write `return [Event(...)]`"
    if not isinstance(events, Sequence):
        _reject_returned(provider, method, events, expected)
    for event in events:
        if not isinstance(event, Event):
            name, kind = provider_class(provider), kind_of(event)
            raise ProviderFault(
                f"{name}.{method} returned a sequence with {kind}, but must return {expected}."
            )
        _check_event(provider, method, event)
    return events


def check_event(provider: BodyParser, event: object) -> Event:
    """Return what `BodyParser.parse` has returned. Raises `ProviderFault` for another type."""
    if not isinstance(event, Event):
        _reject_returned(provider, "parse", event, "an event: write `return Event(...)`")
    _check_event(provider, "parse", event)
    return event


def _check_event(provider: BodyParser, method: str, event: Event) -> None:
    """Raise `ProviderFault` for a field of the wrong type in an event."""
    _check_fields(provider, method, event, Event)
    if not event.notifications:  # otherwise, the log does not use these fields
        _check_fields(provider, method, event.unsupported, Unsupported)
    for each in event.notifications:
        kind = type(each)
        if kind not in RECORD_TYPES:
            fault = f"Event.notifications contains {kind.__name__}"
            _reject_part(provider, method, "an event", fault, "a sequence of notifications")
        _check_fields(provider, method, each, kind)
        if each.at is not None and (wrong := _time_fault(each.at)):
            _reject_part(provider, method, "an event", f"{kind.__name__}.at {wrong}", "in UTC")


_TIME: _FieldTypes = (datetime,), "a datetime"
_OPTIONAL_TIME: _FieldTypes = (datetime, NoneType), "a datetime or None"

_ADDRESSED = {"recipient": _OPTIONAL_TEXT, "message_id": _OPTIONAL_TEXT}

_FIELDS: Mapping[type, Mapping[str, _FieldTypes]] = {
    Event: {
        # A tuple and a list are recognized much faster than other sequences.
        "notifications": ((tuple, list, Sequence), "a sequence of notifications"),
        "body": ((bytes,), "bytes"),
        "unsupported": ((Unsupported,), "an Unsupported"),
        "event_id": _OPTIONAL_TEXT,
        "trace_id": _OPTIONAL_TEXT,
    },
    Unsupported: {"record_type": _OPTIONAL_TEXT, **_ADDRESSED},
    Delivered: {**_ADDRESSED, "at": _TIME},
    Opened: {**_ADDRESSED, "at": _TIME},
    Clicked: {**_ADDRESSED, "at": _TIME},
    Bounced: {**_ADDRESSED, "at": _TIME, "type": _OPTIONAL_TEXT},
    Complained: {**_ADDRESSED, "at": _TIME},
    Suppressed: {**_ADDRESSED, "at": _OPTIONAL_TIME, "reason": _TEXT},
    Reactivated: {**_ADDRESSED, "at": _OPTIONAL_TIME},
}
"""The fields of each struct, in its order, because `astuple` returns them in that order."""

_RESPONSE_FIELDS: Mapping[str, _FieldTypes] = {
    "status": ((int,), "a number"),
    "body": ((bytes,), "bytes"),
    "headers": ((Mapping,), "a mapping of strings to strings"),
    "stream": ((Iterator, NoneType), "an iterator or None"),
}

_ALLOWED_TYPES = {kind: [types for types, _ in fields.values()] for kind, fields in _FIELDS.items()}


def _time_fault(at: datetime) -> str | None:
    """Return why no row can contain the time of a notification, as a predicate, or None."""
    if at.tzinfo is None:
        return "has no time zone"
    return "is out of range" if utc(at) is None else None


def _check_fields(provider: BodyParser, method: str, value: msgspec.Struct, kind: type) -> None:
    """Raise `ProviderFault` if a field of a value of this kind has another type."""
    values = msgspec.structs.astuple(value)
    if all(map(isinstance, values, _ALLOWED_TYPES[kind])):  # without Python code for each field
        return
    for (name, (types, expected)), found in zip(_FIELDS[kind].items(), values, strict=False):
        if not isinstance(found, types):
            fault = f"{kind.__name__}.{name} is {type(found).__name__}"  # no value, for the log
            _reject_part(provider, method, "an event", fault, expected)


def _reject_returned(provider: BodyParser, method: str, found: object, expected: str) -> NoReturn:
    name = f"{provider_class(provider)}.{method}"
    raise ProviderFault(f"{name} returned {kind_of(found)}, but must return {expected}.")


def _reject_part(
    provider: BodyParser, method: str, whole: str, fault: str, expected: str
) -> NoReturn:
    name = f"{provider_class(provider)}.{method}"
    raise ProviderFault(f"{name} returned {whole} in which {fault}, but must be {expected}.")


def check_secrets(provider: Provider, secrets: Sequence[object]) -> None:
    """Raise `ConfigurationError` for a secret that is not a string, such as a list of secrets."""
    for each in secrets:
        if not isinstance(each, str):
            line = f"{type(provider).__name__}(new_secret, old_secret)"
            reject_secret("A secret", each, line)


def mask(event: Event, recorded: Kinds) -> tuple[Event, str | None]:
    """Return the event with only those notifications whose kind is recorded, and its record type.

    An event of which none is left is unsupported, unless it is a delivery or an open: without
    dispatches, its response is the contract's. The record type is None unless the first
    notification was removed, and others were not.
    """
    if recorded.issuperset(map(type, event.notifications)):
        return event, None
    kept = tuple(each for each in event.notifications if type(each) in recorded)
    kept = kept or tuple(each for each in event.notifications if type(each) in ALWAYS)
    first = event.notifications[0]
    record_type = RECORD_TYPES[type(first)]
    if kept:
        masked = msgspec.structs.replace(event, notifications=kept)
        return masked, None if kept[0] is first else record_type
    unsupported = Unsupported(record_type, first.recipient, first.message_id)
    return msgspec.structs.replace(event, notifications=(), unsupported=unsupported), None


def text_of(value: object) -> str | None:
    """Return a string, truncated if it is long, or None for a value of another type."""
    return value[:LONGEST_TEXT] if isinstance(value, str) else None


def utc(at: datetime | None) -> datetime | None:
    """Return a time as `as_utc` does, or None if there is none, or if it is out of range."""
    if at is None or at.tzinfo is UTC:
        return at
    try:
        return as_utc(at)
    except OverflowError:
        return None
