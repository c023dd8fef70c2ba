"""Mailjet: authenticates the requests of its event API, and reads the events.

The events are those of https://dev.mailjet.com/email/guides/webhooks/. A request has several if
they are grouped, and otherwise one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hookrow._core.notification import (
    Bounced,
    Clicked,
    Complained,
    Delivered,
    Notification,
    Opened,
)
from hookrow.providers._base import text_of
from hookrow.providers._credentials import CredentialProvider
from hookrow.providers._events import (
    COMPLAINT,
    HARD_BOUNCE,
    MANUAL,
    Effect,
    Fields,
    Reading,
    id_of,
    identity_of,
    notifications_of,
    split_array,
    time_of_seconds,
)

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
    max_body = 8 * 1024 * 1024  # a group has all events of a second

    def split(self, body: bytes) -> Sequence[bytes]:
        """Return the bytes of each event in a group, or of the only event."""
        return split_array(body)

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
