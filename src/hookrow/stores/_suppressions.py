"""Values of suppressions: the arguments and results of `sql._suppressions.SQLSuppressions`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from hookrow._core.notification import Key

MAX_READ_REASON = 1000
"""Characters of a reason that are read; the rest of a longer one is not."""


class SuppressionCursor(NamedTuple):
    """A position in the order of suppressions: a time as the table stores it, and a key.

    As text, a time is exact, and in the order of the column, in whatever format a host writes its
    times to SQLite.
    """

    suppressed_at: str
    id: Any

    def __str__(self) -> str:
        """Return the text from which `parse` restores the position."""
        match self.id:
            case int():
                key = f"i{self.id}"
            case bytes():
                key = f"x{self.id.hex()}"
            case _:
                key = f"s{self.id}"
        return f"{self.suppressed_at}/{key}"

    @classmethod
    def parse(cls, text: str) -> SuppressionCursor:
        """Return the position. Raises `ValueError` if the text is not one."""
        at, _, key = text.partition("/")
        match key[:1], key[1:]:
            case "i", digits:
                return cls(at, int(digits))
            case "x", digits:
                return cls(at, bytes.fromhex(digits))
            case "s", rest:
                return cls(at, rest)
        raise ValueError(text)


class SuppressionRange(NamedTuple):
    """A range in the order: from after one position to the end position, which is included.

    None leaves that side open. The order is newest first, or oldest first if `oldest` is set.
    """

    after: SuppressionCursor | None = None
    end: SuppressionCursor | None = None
    oldest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Selects suppressed subscribers by every condition that is not None.

    `reason` is the text of the stored reason, empty for subscribers without one. `list` selects the
    subscribers of a list, and `since` those who were suppressed at that time or later. `direct` is
    set by `SQLSuppressions.plan`.
    """

    reason: str | None = None
    list: Key | None = None
    since: datetime | None = None
    direct: bool = False


class Suppression(NamedTuple):
    """A suppressed subscriber; `reason` is the provider's name for it, or empty."""

    email: str
    reason: str
    suppressed_at: datetime
    cursor: SuppressionCursor


class LoggedChange(NamedTuple):
    """A change of suppression in the log: its id, message and recipient, and its times."""

    id: int
    message_id: str | None
    recipient: str
    occurred_at: datetime | None
    received_at: datetime
    last_received_at: datetime
