"""Mandrill (Mailchimp Transactional): verifies the signatures of webhooks, and reads the events.

The events are those of https://mailchimp.com/developer/transactional/docs/webhooks. A request is a
form whose only field is a JSON array of events.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hmac import compare_digest, digest
from secrets import token_urlsafe
from types import MappingProxyType
from typing import Any, ClassVar, Self
from urllib.parse import urlencode, urlsplit

from hookrow._arguments import reject
from hookrow._core.notification import (
    Bounced,
    Clicked,
    Complained,
    Delivered,
    DispatchEvent,
    Notification,
    Opened,
    Reactivated,
)
from hookrow._http import Request, RequestHead, Response, plain
from hookrow.errors import ConfigurationError
from hookrow.providers._base import Event, Unauthentic, text_of
from hookrow.providers._built_in import Option, ProviderRequest
from hookrow.providers._events import (
    CLIENT_ADDRESS,
    CLIENT_AGENT,
    COMPLAINT,
    HARD_BOUNCE,
    LINK,
    MANUAL,
    PROBE_REACTIVATION,
    UNKNOWN_USER,
    Effect,
    EventProvider,
    Fields,
    KindOfEvent,
    Reading,
    challenge_of,
    id_of,
    kind_of_event,
    notifications_of,
    object_of,
    seconds_of,
    split_array,
    time_of_seconds,
)
from hookrow.providers._forms import decode_form, encode_keys
from hookrow.providers._json import encode
from hookrow.providers._message_ids import as_hex

_SIGNATURE_HEADER = "X-Mandrill-Signature"
_EVENTS_FIELD = "mandrill_events"

_CHECK_KEY = b"test-webhook"
"""The key that signs the request by which Mandrill checks a new URL: the same for everybody."""

_CHECK_FORM = [(_EVENTS_FIELD, "[]")]

_EFFECTS: Mapping[str, Sequence[Effect]] = {
    "delivered": (Delivered,),
    "open": (Opened,),
    "click": (Clicked,),
    "hard_bounce": (Bounced,),
    "soft_bounce": (Bounced,),
    "spam": (Complained,),
    "unsub": (MANUAL,),
}
"""The effects of the events of messages. Those that put an address on the denylist are followed by
an event of the list."""

_DENYLIST_NAMES = {"blacklist", "denylist"}
"""Both names of the list; the documentation uses the second one."""

_REASONS: Mapping[str, Sequence[Effect]] = {
    "hard-bounce": (HARD_BOUNCE,),
    "spam": (COMPLAINT,),
    "unsub": (MANUAL,),
    "custom": (MANUAL,),
}
"""The reasons of entries of the denylist. A soft bounce is not one of them: its entry expires after
a day, and no event reports this."""

_VISIT: Fields = {
    "ip": CLIENT_ADDRESS,
    "user_agent": CLIENT_AGENT,
    "location": None,
    "user_agent_parsed": None,
}

_COMPOSED: Mapping[KindOfEvent, Fields] = {
    Delivered: {"event": "delivered"},
    Opened: {"event": "open", **_VISIT},
    Clicked: {"event": "click", "url": LINK, **_VISIT},
    (Bounced, "hard_bounce"): {
        "event": "hard_bounce",
        "msg": {
            "state": "bounced",
            "bounce_description": "bad_mailbox",
            "diag": f"smtp;550 {UNKNOWN_USER}",
        },
    },
    (Bounced, "soft_bounce"): {
        "event": "soft_bounce",
        "msg": {
            "state": "soft-bounced",
            "bounce_description": "mailbox_full",
            "diag": "smtp;452 4.2.2 The mailbox is full.",
        },
    },
    Complained: {"event": "spam", "msg": {"state": "spam"}},
}
"""The fields of the event of a message for each kind of notification, besides those of all."""

_COMPOSED_ENTRIES: Mapping[KindOfEvent, tuple[str, str]] = {
    HARD_BOUNCE: ("add", "hard-bounce"),
    COMPLAINT: ("add", "spam"),
    MANUAL: ("add", "custom"),
    Reactivated: ("remove", "hard-bounce"),
}
"""The action and the reason of the event of the denylist for each kind of notification."""

_EXAMPLE_URL = "https://example.com/mail/provider/webhooks"

_SAMPLE_RECIPIENT = "example.webhook@mandrillapp.com"
"""The recipient in the samples that Mandrill's page of webhooks posts."""

_CHECKED = plain(200, "")


class Mandrill(EventProvider):
    """Verifies signatures by the key of a webhook at Mandrill, and reads its events.

    `url` is the URL of the webhook exactly as it was entered at Mandrill, which is part of what
    Mandrill signs: with the query, the credentials and the slash at the end, if it has them.
    Several keys are accepted, the newest first, so that the key can be rotated. Mandrill shows the
    key only after it has checked the URL, which is possible with any random text as the key.

    The message id is the `_id` in the response to the request that sent the email, of which each
    recipient has one.

    The events of the denylist suppress and reactivate the subscriber: enable them in the webhook.
    They have the exact state, so hard bounces and spam complaints suppress nobody by themselves; an
    unsubscribe does. Entries for soft bounces suppress nobody, because they expire after a day. The
    others expire, too, after a week or a year, which Mandrill does not report
    (https://mailchimp.com/developer/transactional/docs/reputation-rejections). An entry may concern
    the emails of one subaccount only.

    Mandrill repeats a failed request, with the same events, until somebody gives up on it
    (https://mandrill.zendesk.com/hc/en-us/articles/205583277), and sends later events after it. The
    page states neither the interval nor an end.

    Raises `ConfigurationError` if a key or the URL is missing or was copied wrongly.
    """

    name = "mandrill"
    credential = "key"
    setup = (
        "Copy the key of the webhook, which exists once it is created, to the settings of hookrow."
    )
    options: ClassVar[Mapping[str, Option]] = MappingProxyType({"url": Option(is_required=True)})
    proof = _SIGNATURE_HEADER
    wrong_signature = (
        "the key differs, or the URL is not exactly the one that was entered at Mandrill, or the "
        "body was changed on its way"
    )
    hard_bounce = "hard_bounce"
    precision: ClassVar[timedelta] = timedelta(seconds=1)
    probe_change: ClassVar[Notification] = PROBE_REACTIVATION
    message_id_source = "`_id` of the recipient in the response of its API"
    max_body = 8 * 1024 * 1024  # 1,000 events, of 1 to 3 kB in the encoding of a form

    def __init__(self, *keys: str, url: str) -> None:
        self._url = _check_url(url).encode()
        self.accept(*keys)

    def accept(self, *keys: str) -> None:
        """Accept these keys from now on, and no others. Raises `ConfigurationError`."""
        encoded = encode_keys(self, keys, "the key of the webhook from the page at Mandrill")
        if _CHECK_KEY in encoded:
            raise ConfigurationError(
                f"The key {_CHECK_KEY.decode()} is the same for everybody: copy the key of the "
                "webhook from the page at Mandrill."
            )
        self._keys = encoded
        self.reset_matches(len(keys))

    @classmethod
    def generate(cls, **options: Any) -> tuple[str, Self]:  # noqa: ANN401 - of `options`
        """Return a random key, and a provider that signs by it; see `BuiltIn`."""
        key = token_urlsafe()
        return key, cls(key, **{"url": _EXAMPLE_URL, **options})

    def admit(self, head: RequestHead) -> str | None:
        """Return None if the head has a signature, otherwise a challenge."""
        return None if head.header(_SIGNATURE_HEADER) else challenge_of("missing")

    def probe(self, head: RequestHead) -> Response | None:
        """Return 200 to a HEAD request, by which Mandrill checks a new URL."""
        return _CHECKED if head.method == "HEAD" else None

    def describe_unauthentic(self, head: RequestHead) -> str:
        """Return whether the signature is missing or wrong; see `Provider`."""
        if not head.header(_SIGNATURE_HEADER):
            return f"it has no {_SIGNATURE_HEADER}"
        return f"its signature is wrong: {self.wrong_signature}"

    def read(self, request: Request) -> Sequence[Event]:
        """Return the events of a request. Raises `Unauthentic`."""
        return [self.parse(body) for body in _events(self._verified(request))]

    def sign(self, body: bytes) -> ProviderRequest:
        """Return the request with an event, signed by the newest key."""
        value = b"[%b]" % body
        content = self._url + _EVENTS_FIELD.encode() + value
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "User-Agent": "Mandrill-Webhook/1.0",
            self.proof: _sign(self._keys[0], content).decode(),
        }
        return ProviderRequest(headers, urlencode({_EVENTS_FIELD: value}).encode())

    def compose(self, notification: Notification) -> bytes | None:
        """Return the body of an event of a message or of the denylist; see `BuiltIn`."""
        kind, at = kind_of_event(notification), notification.at
        if at is None:
            return None
        if kind == MANUAL and notification.message_id is not None:
            fields = {"event": "unsub", "msg": {"state": "unsub"}}
            return _compose_message(fields, notification, at)
        if kind in _COMPOSED:
            return _compose_message(_COMPOSED[kind], notification, at)
        if kind in _COMPOSED_ENTRIES:
            return _compose_entry(*_COMPOSED_ENTRIES[kind], notification.recipient, at)
        return None

    def split(self, body: bytes) -> Sequence[bytes]:
        """Return the bytes of each event in the form of a request."""
        return _events(decode_form(body))

    def doubt_about_url(self, url: str) -> str | None:
        """Return a doubt if a URL is not the one that is signed, apart from its credentials."""
        parts = urlsplit(self._url.decode())
        signed = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        if url == signed:
            return None
        return (
            f"Mandrill signs the URL that was entered there, which is {signed} by the setting url, "
            "and not the URL of this check."
        )

    @staticmethod
    def correct_message_id(stored: str) -> str | None:
        """Return a stored id without hyphens; see `BodyParser`."""
        return as_hex(stored)

    @staticmethod
    def field_names(notification: Notification) -> tuple[str, str]:
        """Return the names that the recipient and the message id have in an event."""
        is_of_message = notification.message_id is not None or isinstance(
            notification, DispatchEvent
        )
        return "msg.email" if is_of_message else "reject.email", "_id"

    def read_event(self, fields: Fields) -> Reading:
        """Return what an event of a message or of the denylist says."""
        if "event" not in fields and "type" in fields:
            return _read_entry(fields)
        message = object_of(fields.get("msg"))
        type_, recipient = text_of(fields.get("event")), text_of(message.get("email"))
        message_id = id_of(fields.get("_id")) or id_of(message.get("_id"))
        notifications = notifications_of(
            _EFFECTS.get(type_ or "", ()),
            recipient,
            message_id,
            time_of_seconds(fields.get("ts")),
            bounce_type=type_,
        )
        return Reading(type_, recipient, message_id, notifications)

    def is_test(self, event: Event) -> bool:
        """Return whether the event is a sample that Mandrill's page of webhooks posts."""
        return event.unsupported.recipient == _SAMPLE_RECIPIENT

    def _verified(self, request: Request) -> Sequence[tuple[str, str]]:
        """Return the form of an authentic request. Raises `Unauthentic`."""
        given = request.head.header(_SIGNATURE_HEADER) or b""
        form = sorted(decode_form(request.body))
        if len({name for name, _ in form}) < len(form):  # no webhook repeats a field
            raise Unauthentic(challenge_of("wrong"))
        fields = "".join(name + value for name, value in form)
        content = self._url + fields.encode(errors="surrogateescape")
        for position, key in enumerate(self._keys):
            if compare_digest(_sign(key, content), given):
                self.count_match(position, request.head)
                return form
        if form == _CHECK_FORM and compare_digest(_sign(_CHECK_KEY, content), given):
            return form
        raise Unauthentic(challenge_of("wrong"))


def _compose_message(fields: Fields, notification: Notification, at: datetime) -> bytes:
    message_id, seconds = notification.message_id, seconds_of(at)
    message = {
        "ts": seconds,
        "_id": message_id,
        "state": "sent",
        "subject": "News",
        "email": notification.recipient,
        "sender": "news@example.com",
        "tags": ["newsletter"],
        "opens": [],
        "clicks": [],
        "metadata": {},
        "template": None,
        **fields.get("msg", {}),
    }
    return encode({**fields, "_id": message_id, "msg": message, "ts": seconds})


def _compose_entry(action: str, reason: str, recipient: str | None, at: datetime) -> bytes:
    entry = {
        "reason": reason,
        "detail": None,
        "email": recipient,
        "last_event_at": f"{at:%Y-%m-%d %H:%M:%S}",
        "created_at": f"{at:%Y-%m-%d %H:%M:%S}",
        "expires_at": f"{at + timedelta(days=7):%Y-%m-%d %H:%M:%S}",
        "expired": False,
        "subaccount": None,
        "sender": None,
    }
    fields = {"type": "denylist", "action": action, "reject": entry, "ts": seconds_of(at)}
    return encode(fields)


def _sign(key: bytes, content: bytes) -> bytes:
    return b64encode(digest(key, content, "sha1"))


def _events(form: Sequence[tuple[str, str]]) -> Sequence[bytes]:
    return split_array(dict(form).get(_EVENTS_FIELD, "").encode(errors="surrogateescape"))


def _read_entry(fields: Fields) -> Reading:
    """Return what an event of the denylist or the allowlist says about an address."""
    entry = object_of(fields.get("reject"))
    list_, action = text_of(fields.get("type")), text_of(fields.get("action"))
    recipient = text_of(entry.get("email"))
    effects: Sequence[Effect] = ()
    if list_ in _DENYLIST_NAMES and action == "remove":
        effects = (Reactivated,)
    elif (
        list_ in _DENYLIST_NAMES
        and action in {"add", "change"}
        and entry.get("expired") is not True
    ):
        effects = _REASONS.get(text_of(entry.get("reason")) or "", ())
    at = time_of_seconds(fields.get("ts"))
    type_ = f"{list_} {action}" if list_ and action else list_
    return Reading(type_, recipient, None, notifications_of(effects, recipient, None, at))


def _check_url(url: object) -> str:
    """Return the URL of a webhook. Raises `ConfigurationError`, which quotes no credentials."""
    line = f'Mandrill(key, url="{_EXAMPLE_URL}")'
    if not isinstance(url, str):
        reject("url", "a string", url, line)
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        is_url = False
    if not is_url or not all("!" <= each <= "~" for each in url):
        raise ConfigurationError(
            "url must be the URL of the webhook, exactly as it was entered at Mandrill: write "
            f"{line}."
        )
    return url
