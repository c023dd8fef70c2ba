"""Amazon SES: reads the events that it publishes to a topic of Amazon SNS.

The events are those of
https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-contents.html, and those
of identities, https://docs.aws.amazon.com/ses/latest/dg/notification-contents.html. A request has
one event, which may have several recipients.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hookrow._core.notification import (
    Bounced,
    Clicked,
    Complained,
    Delivered,
    Notification,
    Opened,
    Reactivated,
)
from hookrow.providers._base import Event, text_of
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
    Fields,
    KindOfEvent,
    Reading,
    address_of,
    decode_object,
    kind_of_event,
    notifications_of,
    object_of,
    rfc3339,
    time_of,
)
from hookrow.providers._json import encode
from hookrow.providers._message_ids import without_domain
from hookrow.providers._sns import SNS

_DETAILS = {
    "Bounce": "bounce",
    "Click": "click",
    "Complaint": "complaint",
    "Delivery": "delivery",
    "DeliveryDelay": "deliveryDelay",
    "Open": "open",
    "Reject": "reject",
    "Rendering Failure": "failure",
    "Send": "send",
    "Subscription": "subscription",
}
"""The field with the details of an event, by its type."""

_RECIPIENTS = {
    "Bounce": "bouncedRecipients",
    "Complaint": "complainedRecipients",
    "Delivery": "recipients",
    "DeliveryDelay": "delayedRecipients",
}
"""The field of the details that lists the recipients. The other types concern all of
`mail.destination`, because they do not say which of them."""

_EFFECTS: Mapping[str, Sequence[Effect]] = {
    "Delivery": (Delivered,),
    "Open": (Opened,),
    "Click": (Clicked,),
    "Complaint": (Complained, COMPLAINT),
}
"""The effects of events that have the same ones regardless of their details."""

_VISIT: Fields = {"ipAddress": CLIENT_ADDRESS, "userAgent": CLIENT_AGENT}
_MTA = "a8-50.smtp-out.eu-west-1.amazonses.com"
_FEEDBACK_ID = "0102018f6c1e0000-0f0e0d0c-0000-4000-8000-000000000000-000000"


def _compose_bounce(type_: str, subtype: str, status: str, diagnosis: str) -> Fields:
    return {
        "feedbackId": _FEEDBACK_ID,
        "bounceType": type_,
        "bounceSubType": subtype,
        "bouncedRecipients": [
            {"action": "failed", "status": status, "diagnosticCode": f"smtp; {diagnosis}"}
        ],
        "reportingMTA": f"dns; {_MTA}",
    }


def _compose_preferences(*, unsubscribe: bool) -> Fields:
    old, new = (
        {"unsubscribeAll": each, "topicSubscriptionStatus": []}
        for each in (not unsubscribe, unsubscribe)
    )
    return {
        "contactList": "subscribers",
        "source": "UnsubscribeHeader",
        "newTopicPreferences": new,
        "oldTopicPreferences": old,
    }


_HARD_BOUNCE_EVENT: tuple[str, Fields] = (
    "Bounce",
    _compose_bounce("Permanent", "General", "5.1.1", f"550 {UNKNOWN_USER}"),
)
_COMPLAINT_EVENT: tuple[str, Fields] = (
    "Complaint",
    {
        "feedbackId": _FEEDBACK_ID,
        "complaintSubType": None,
        "complainedRecipients": [{}],
        "userAgent": "Yahoo!-Mail-Feedback/2.0",
        "complaintFeedbackType": "abuse",
    },
)

_COMPOSED: Mapping[KindOfEvent, tuple[str, Fields]] = {
    Delivered: (
        "Delivery",
        {"processingTimeMillis": 712, "smtpResponse": "250 2.0.0 OK", "reportingMTA": _MTA},
    ),
    Opened: ("Open", _VISIT),
    Clicked: ("Click", {"link": LINK, "linkTags": None, **_VISIT}),
    (Bounced, "Permanent"): _HARD_BOUNCE_EVENT,
    (Bounced, "Transient"): (
        "Bounce",
        _compose_bounce("Transient", "MailboxFull", "5.2.2", "552 5.2.2 The mailbox is full."),
    ),
    (Bounced, "Undetermined"): (
        "Bounce",
        _compose_bounce("Undetermined", "Undetermined", "5.0.0", "554 5.0.0 It failed."),
    ),
    Complained: _COMPLAINT_EVENT,
    HARD_BOUNCE: _HARD_BOUNCE_EVENT,
    COMPLAINT: _COMPLAINT_EVENT,
    MANUAL: ("Subscription", _compose_preferences(unsubscribe=True)),
    Reactivated: ("Subscription", _compose_preferences(unsubscribe=False)),
}
"""The type and the details of the event for each kind of notification, without its recipient."""

_MOST_RECIPIENTS = 50
"""SES's limit for an email (https://docs.aws.amazon.com/ses/latest/dg/quotas.html)."""

_MESSAGE_ID = re.compile(r"[0-9A-Za-z-]+")
"""The form of SES's message ids, which contain no @."""

_ADDRESS_FIELDS = {"headers", "commonHeaders"}
"""The fields of `mail` that contain the addresses of all recipients."""

_SET_UP = b"Successfully validated SNS topic"
"""The beginning of the text that SES publishes when it is set up to publish events."""

_SET_UP_TYPE = "AmazonSnsSubscriptionSucceeded"
"""The type of what SES publishes when a topic is set for an identity."""

_SIMULATOR = "@simulator.amazonses.com"
"""The domain of recipients for tests
(https://docs.aws.amazon.com/ses/latest/dg/send-an-email-from-console.html)."""


class AmazonSES(SNS):
    """Verifies messages of these topics of Amazon SNS, and reads SES's events in them.

    `fetch` returns the body of a URL of Amazon's, of a certificate or of the confirmation of a
    subscription, in bytes; by default, with the standard library. `clock` returns the time in
    seconds since 1970. Subscribe the URL of the endpoint to a topic by HTTPS, without raw message
    delivery, which is not signed; the subscription is confirmed in the background.

    The message id is `MessageId` in the response of `SendEmail`, without angle brackets; all
    recipients share it. The events may come from a configuration set (event publishing) or from an
    identity; the same event by both is one entry of the log. An event with several recipients is
    one event for each.

    Permanent bounces and complaints suppress the subscriber, because SES adds the address to the
    suppression list of the account, unless that is turned off
    (https://docs.aws.amazon.com/ses/latest/dg/sending-email-suppression-list.html). A transient or
    undetermined bounce does not. An unsubscribe from all topics of the contact list suppresses, and
    its end reactivates. An open or a click of an email with several recipients is recorded for
    all of them, and a complaint for all who may have made it. `Send`, `Reject`, `Rendering Failure`
    and `DeliveryDelay` have no effect.

    SNS makes three more attempts, 20 seconds apart, after a 503 or if there is no response, and
    none after a 401 or another 4xx; without a dead-letter queue, the event is then lost
    (https://docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html). The first message
    after a start results in a 503 while the certificate of SNS is fetched.

    Raises `ConfigurationError` if a topic is missing, or is not the ARN of one.
    """

    name = "amazon_ses"
    probe_change: ClassVar[Notification] = PROBE_REACTIVATION
    own_test = "send an email to success@simulator.amazonses.com from Amazon SES"
    message_id_source = "`MessageId` of the response of `SendEmail`, without angle brackets"

    def split_message(self, message: bytes) -> Sequence[bytes]:
        """Return the event once for each recipient, or unchanged if it has at most one."""
        event = decode_object(message)
        if event is None:
            return [message]
        listed, sent_to = _recipients(event), object_of(event.get("mail")).get("destination")
        is_alone = len(listed) <= 1 and not (isinstance(sent_to, list) and len(sent_to) > 1)
        if is_alone or not 1 <= len(listed) <= _MOST_RECIPIENTS:
            return [message]
        return [encode(_with_recipient(event, each)) for each in listed]

    @staticmethod
    def correct_message_id(stored: str) -> str | None:
        """Return a stored id without brackets and SES's domain; see `BodyParser`."""
        text = without_domain(stored, "amazonses.com")
        return text if _MESSAGE_ID.fullmatch(text) else None

    def read_event(self, fields: Fields) -> Reading:
        """Return what an event says about its only recipient.

        Its identity consists of its content, because the message of SNS differs if both a
        configuration set and an identity publish the event.
        """
        type_, details, mail = _type(fields), _details(fields), object_of(fields.get("mail"))
        listed = _recipients(fields)
        recipient = _address(listed[0]) if listed else None
        message_id = text_of(mail.get("messageId"))
        effects = _effects(fields) if len(listed) <= 1 else ()
        notifications = notifications_of(
            effects,
            recipient,
            message_id,
            time_of(details.get("timestamp")),
            bounce_type=text_of(details.get("bounceType")),
        )
        identity = None
        if type_ in _DETAILS and len(listed) <= 1:
            content = (type_, message_id, recipient, _differences(details))
            identity = " ".join(map(str, content))
        return Reading(type_, recipient, message_id, notifications, identity)

    def compose(self, notification: Notification) -> bytes | None:
        """Return the body of an event that a configuration set publishes; see `BuiltIn`."""
        composed = _COMPOSED.get(kind_of_event(notification))
        at, recipient = notification.at, notification.recipient
        if composed is None or at is None:
            return None
        type_, fields = composed
        details = {"timestamp": rfc3339(at), **fields}
        if name := _RECIPIENTS.get(type_):
            [about] = fields.get(name, [None])
            details[name] = [recipient if about is None else {"emailAddress": recipient, **about}]
        mail: dict[str, object] = {
            "timestamp": rfc3339(at),
            "source": "news@example.com",
            "sendingAccountId": "123456789012",
            "messageId": notification.message_id,
            "destination": [recipient],
            "headersTruncated": False,
            "headers": [
                {"name": "From", "value": "news@example.com"},
                {"name": "To", "value": recipient},
                {"name": "Subject", "value": "News"},
            ],
            "commonHeaders": {
                "from": ["news@example.com"],
                "to": [recipient],
                "subject": "News",
            },
            "tags": {"ses:configuration-set": ["mail"], "ses:from-domain": ["example.com"]},
        }
        return encode({"eventType": type_, "mail": mail, _DETAILS[type_]: details})

    def explain(self, body: bytes) -> str | None:
        """Return why a body is not supported, in a sentence, or None if it is. Never raises."""
        if len(_recipients(decode_object(body) or {})) > 1:
            return f"The event has more than {_MOST_RECIPIENTS} recipients."
        return super().explain(body)

    def is_test(self, event: Event) -> bool:
        """Return whether SES published the event when it was set up, or for its simulator."""
        return (
            event.body.startswith(_SET_UP)
            or event.unsupported.record_type == _SET_UP_TYPE
            or any(
                (each.recipient or "").lower().endswith(_SIMULATOR) for each in event.notifications
            )
        )

    def field_names(self, notification: Notification) -> tuple[str, str]:
        """Return the names that the recipient and the message id have in an event."""
        type_ = type(notification).__name__
        lists = {
            "Bounced": "bounce.bouncedRecipients",
            "Complained": "complaint.complainedRecipients",
            "Delivered": "delivery.recipients",
        }
        return lists.get(type_, "mail.destination"), "mail.messageId"


def _type(event: Fields) -> str | None:
    """Return the type of an event, whose field has another name if an identity publishes it."""
    return text_of(event.get("eventType")) or text_of(event.get("notificationType"))


def _details(event: Fields) -> Fields:
    return object_of(event.get(_DETAILS.get(_type(event) or "", "")))


def _recipients(event: Fields) -> Sequence[Any]:
    """Return the recipients that an event is about: addresses, or objects with one."""
    name = _RECIPIENTS.get(_type(event) or "")
    if name is None:
        listed = object_of(event.get("mail")).get("destination")
    else:
        listed = _details(event).get(name)
    return listed if isinstance(listed, list) else ()


def _with_recipient(event: Fields, recipient: object) -> Fields:
    """Return the event with one of its recipients, and without the addresses of the others."""
    address = _address(recipient)
    kept = {
        key: each
        for key, each in object_of(event.get("mail")).items()
        if key not in _ADDRESS_FIELDS
    }
    alone = {**event, "mail": {**kept, "destination": [address]}}
    type_ = _type(event) or ""
    if name := _RECIPIENTS.get(type_):
        alone[_DETAILS[type_]] = {**_details(event), name: [recipient]}
    return alone


def _address(recipient: object) -> str | None:
    """Return the address of a recipient, without a name."""
    return address_of(recipient.get("emailAddress") if isinstance(recipient, dict) else recipient)


def _effects(event: Fields) -> Sequence[Effect]:
    type_, details = _type(event), _details(event)
    match type_:
        case "Bounce":
            return _bounce_effects(details)
        case "Subscription":
            return _changes(details)
        case "Complaint" if details.get("complaintFeedbackType") == "not-spam":
            return ()  # the recipient took the email out of the spam folder
        case _:
            return _EFFECTS.get(type_ or "", ())


def _bounce_effects(bounce: Fields) -> Sequence[Effect]:
    if bounce.get("bounceType") != "Permanent":
        return (Bounced,)
    is_unsubscribed = bounce.get("bounceSubType") == "UnsubscribedRecipient"
    return Bounced, MANUAL if is_unsubscribed else HARD_BOUNCE


def _changes(subscription: Fields) -> Sequence[Effect]:
    """Return the effect of changed preferences: that of a single topic concerns some emails."""
    old, new = (
        object_of(subscription.get(name)).get("unsubscribeAll")
        for name in ("oldTopicPreferences", "newTopicPreferences")
    )
    if new is True:
        return (MANUAL,)
    return (Reactivated,) if old is True and new is False else ()


def _differences(details: Fields) -> Sequence[str]:
    """Return what distinguishes the events of a type about an email and a recipient."""
    names = (
        "timestamp",
        "bounceType",
        "bounceSubType",
        "complaintFeedbackType",
        "link",
        "oldTopicPreferences",
        "newTopicPreferences",
    )
    return [str(details.get(name)) for name in names]
