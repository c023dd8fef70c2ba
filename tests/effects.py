"""A provider whose events may have several effects, such as a bounce that suppresses."""

import json
from datetime import datetime

from hookrow import Bounced, Complained, Delivered, Opened, Reactivated, Suppressed
from hookrow._core.notification import Notification
from hookrow.providers import Event
from hookrow.providers._base import BodyParser


class Effects(BodyParser):
    """Reads bodies as `body_of` writes them."""

    name = "effects"

    @staticmethod
    def parse(body: bytes) -> Event:
        """Return the event with its effects, in order."""
        sent = json.loads(body)
        given = sent["recipient"], sent["message_id"], datetime.fromisoformat(sent["at"])
        return Event(tuple(_effect(name, *given) for name in sent["effects"]), body)


def body_of(*effects: str, recipient: str, message_id: str | None, at: datetime) -> str:
    """Return the body of an event; a suppression is named by its reason."""
    fields = {"recipient": recipient, "message_id": message_id, "at": at.isoformat()}
    return json.dumps({**fields, "effects": effects})


def _effect(name: str, recipient: str, message_id: str | None, at: datetime) -> Notification:
    kinds = {kind.__name__: kind for kind in (Bounced, Complained, Delivered, Opened, Reactivated)}
    if kind := kinds.get(name):
        return kind(recipient, message_id, at)
    return Suppressed(recipient, message_id, at, name)
