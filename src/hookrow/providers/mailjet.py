"""Mailjet: authenticates the requests of its event API, and reads the events.

The events are those of https://dev.mailjet.com/email/guides/webhooks/. A request has several if
they are grouped, and otherwise one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import ClassVar
from uuid import uuid4

from hookrow._core.notification import (
    Bounced,
    Clicked,
    Complained,
    Delivered,
    Notification,
    Opened,
)
from hookrow._core.spellings import MESSAGE_ID_LENGTHS
from hookrow.providers._base import text_of
from hookrow.providers._credentials import CredentialProvider
from hookrow.providers._events import (
    CLIENT_ADDRESS,
    CLIENT_AGENT,
    COMPLAINT,
    HARD_BOUNCE,
    LINK,
    MANUAL,
    Effect,
    Fields,
    KindOfEvent,
    Reading,
    id_of,
    identity_of,
    kind_of_event,
    notifications_of,
    seconds_of,
    time_of_seconds,
)
from hookrow.providers._json import encode
from hookrow.providers._message_ids import without_brackets

_EFFECTS: Mapping[str, Sequence[Effect]] = {
    "sent": (Delivered,),  # the recipient's server has accepted the email
    "open": (Opened,),
    "click": (Clicked,),
    "spam": (Complained, COMPLAINT),
    "unsub": (MANUAL,),
}

_BLOCKED: Mapping[str, Sequence[Effect]] = {
    "user unknown": (HARD_BOUNCE,),
    "mailbox inactive": (HARD_BOUNCE,),
    "invalid domain": (HARD_BOUNCE,),
    "no mail host": (HARD_BOUNCE,),
    "spam reporter": (COMPLAINT,),
    "blacklisted": (MANUAL,),
}
"""The errors of emails that Mailjet did not send because it has blocked the address.

The other errors concern the email, the sender or a campaign, or may pass.
"""

_VISIT: Fields = {"ip": CLIENT_ADDRESS, "geo": "DE", "agent": CLIENT_AGENT}


def _compose_bounce(error: str, related_to: str, *, is_hard: bool) -> Fields:
    bounce = {"event": "bounce", "blocked": is_hard, "hard_bounce": is_hard, "comment": ""}
    return {**bounce, "error_related_to": related_to, "error": error}


def _compose_blocked(error: str) -> Fields:
    return {"event": "blocked", "error_related_to": "recipient", "error": error}


_COMPOSED: Mapping[KindOfEvent, Fields] = {
    Delivered: {"event": "sent", "smtp_reply": "sent (250 2.0.0 OK)"},
    Opened: {"event": "open", **_VISIT},
    Clicked: {"event": "click", "url": LINK, **_VISIT},
    (Bounced, "user unknown"): _compose_bounce("user unknown", "recipient", is_hard=True),
    (Bounced, "mailbox inactive"): _compose_bounce("mailbox inactive", "recipient", is_hard=True),
    (Bounced, "invalid domain"): _compose_bounce("invalid domain", "domain", is_hard=True),
    (Bounced, "quota exceeded"): _compose_bounce("quota exceeded", "recipient", is_hard=False),
    (Bounced, "connection issue"): _compose_bounce("connection issue", "system", is_hard=False),
    Complained: {"event": "spam", "source": "JMRPP"},
    HARD_BOUNCE: _compose_blocked("user unknown"),
    COMPLAINT: _compose_blocked("spam reporter"),
    MANUAL: {"event": "unsub", "mj_list_id": 0, **_VISIT},
}
"""The fields of the event for each kind of notification, besides those of all events."""

_is_id = re.compile("[1-9][0-9]{0,18}").fullmatch
"""Whether a text is the id of a message."""


class Mailjet(CredentialProvider):
    """Admits requests with credentials, and reads Mailjet's events, grouped or not.

    Credentials are `user:password`, as in the URL of the webhook at Mailjet, which signs nothing:
    `https://user:password@example.com/...`. Several are accepted, the newest first, so that they
    can be rotated.

    The message id is the `MessageID` of the recipient in the response of the Send API, an integer
    of up to 19 digits, as text. Each recipient of an email has another one.

    `sent` is a delivery: the recipient's server has accepted the email. A `bounce` suppresses the
    subscriber if it is `blocked`, which is to say that Mailjet no longer sends to the address; a
    bounce by greylisting is ignored unless it is a hard one, because Mailjet sends the email again.
    `spam` and `unsub` suppress, too, and so does `blocked` if its error states why the address is:
    a hard bounce before, a spam report, or an entry in the account's blacklist. Other emails that
    Mailjet did not send, such as those that are `preblocked`, have no effect. Mailjet sends no
    event when it unblocks an address.

    Mailjet repeats a request after any response other than 200, every 30 seconds for 24 hours, and
    then discards it (https://dev.mailjet.com/email/guides/webhooks/; an older version of the page
    states 10 attempts, every 10 minutes). It may suspend a URL that keeps failing.

    Raises `ConfigurationError` if credentials are missing or not valid.
    """

    name = "mailjet"
    hard_bounce = "user unknown"
    precision: ClassVar[timedelta] = timedelta(seconds=1)
    message_id_source = "`MessageID` of the recipient in the response of its API"
    message_id_length: ClassVar[int | None] = MESSAGE_ID_LENGTHS["mailjet"]
    max_body = 8 * 1024 * 1024  # a group has all events of a second

    def compose(self, notification: Notification) -> bytes | None:
        """Return the body of an event that is not grouped; see `BuiltIn`."""
        fields, at = _COMPOSED.get(kind_of_event(notification)), notification.at
        if fields is None or at is None:
            return None
        event: dict[str, object] = {
            "time": seconds_of(at),
            "email": notification.recipient,
            "mj_campaign_id": 7257,
            "mj_contact_id": 4,
            "customcampaign": "",
            "CustomID": "",
            "Payload": "",
        }
        if id_ := notification.message_id:
            number = int(id_) if _is_id(id_) else id_
            event |= {"MessageID": number, "Message_GUID": str(uuid4()), "mj_message_id": id_}
        return encode({**fields, **event})

    @staticmethod
    def correct_message_id(stored: str) -> str | None:
        """Return a stored id that consists of digits; see `BodyParser`."""
        text = without_brackets(stored)
        return text if text.isascii() and text.isdecimal() else None

    def read_event(self, fields: Fields) -> Reading:
        """Return what an event says."""
        type_, recipient = text_of(fields.get("event")), text_of(fields.get("email"))
        # Events in old samples have the id only as a text.
        message_id = id_of(fields.get("MessageID")) or id_of(fields.get("mj_message_id"))
        at, error = time_of_seconds(fields.get("time")), text_of(fields.get("error"))
        notifications = notifications_of(
            _effects(fields), recipient, message_id, at, bounce_type=error
        )
        identity = identity_of(type_, recipient, message_id, at, fields.get("url"), error)
        return Reading(type_, recipient, message_id, notifications, identity)

    def field_names(self, notification: Notification) -> tuple[str, str]:
        """Return the names that the recipient and the message id have in an event."""
        del notification
        return "email", "MessageID"


def _effects(fields: Fields) -> Sequence[Effect]:
    error = str(text_of(fields.get("error"))).lower()
    match fields.get("event"):
        case "bounce" if fields.get("blocked") is True:
            return Bounced, HARD_BOUNCE
        case "bounce" if error == "greylisted" and fields.get("hard_bounce") is not True:
            return ()
        case "bounce":
            return (Bounced,)
        case "blocked":
            return _BLOCKED.get(error, ())
        case str() as type_:
            return _EFFECTS.get(type_, ())
        case _:
            return ()
