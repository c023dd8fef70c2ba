"""What a change of subscription says of itself: of all others the type says it."""

from __future__ import annotations

import msgspec

from hookrow.core.log_entry import RECORD_TYPES, StoredEntry, body_of
from hookrow.core.notification import Reactivated, Suppressed
from hookrow.providers import Parse
from hookrow.receiver.manual import ORIGIN

CHANGES = {RECORD_TYPES[Suppressed], RECORD_TYPES[Reactivated]}
"""The types of changes of subscription."""


class _ByHand(msgspec.Struct, rename="pascal"):
    """What a body has besides, where somebody changed it by hand."""

    origin: str = ""
    changed_by: str = ""
    note: str | None = None


def said(entry: StoredEntry, parse: Parse) -> str | None:
    """Tell what was suppressed or lifted, why, and who did it by hand; None of all else."""
    body = body_of(entry)
    match parse(body) if body else None:
        case Suppressed(reason=reason):
            return f"suppressed for {reason}{_by_hand(body)}"
        case Reactivated():
            return f"suppression lifted{_by_hand(body)}"
        case _:
            return None


def _by_hand(body: bytes | None) -> str:
    try:
        told = msgspec.json.decode(body or b"", type=_ByHand)
    except msgspec.MsgspecError:
        return ""
    if told.origin != ORIGIN:
        return ""
    return f", by {told.changed_by}: {told.note}" if told.note else f", by {told.changed_by}"
