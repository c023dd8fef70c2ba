"""Message ids in a column of UUIDs: the provider's are GUIDs, so a host may store them as such.

Only the canonical form, with hyphens and in any case, is one: the provider sends no other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")

_CANONICAL = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def as_stored(message_ids: Iterable[str]) -> Collection[str]:
    """Return the ids that are UUIDs, as they are and as 32 digits: SQLite may store either."""
    uuids = {each for each in message_ids if _CANONICAL.fullmatch(each)}
    return uuids | {_digits(each) for each in uuids}


def as_sent(message_ids: Iterable[str], found: Mapping[str, T]) -> dict[str, T]:
    """Return the findings by message id, spelled as the provider did."""
    by_digits = {_digits(uuid): each for uuid, each in found.items()}
    return {
        message_id: by_digits[_digits(message_id)]
        for message_id in message_ids
        if _CANONICAL.fullmatch(message_id) and _digits(message_id) in by_digits
    }


def _digits(uuid: str) -> str:
    return uuid.replace("-", "").lower()
