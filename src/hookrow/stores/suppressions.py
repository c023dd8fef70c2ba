"""The protocol for reading the suppressed subscribers, in the order of their suppression."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from hookrow.core.log_entry import stored_recipient
from hookrow.core.notification import Key

MAX_REASON_LENGTH = 1000
"""In characters; the rest of a longer reason is not read."""


class Position(NamedTuple):
    """A place in the order of suppressions: a time as the table stores it, and a key.

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
    def parse(cls, text: str) -> Position:
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


class Span(NamedTuple):
    """A range in the order: from after one position to the end position, which is included.

    None leaves that side open. The order is newest first, or oldest first if `oldest` is set.
    """

    after: Position | None = None
    end: Position | None = None
    oldest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Selects suppressed subscribers by every condition that is not None.

    `reason` is the text of the stored reason, empty for subscribers without one. `list` selects the
    subscribers of a list, and `since` those who were suppressed at that time or later. `direct` is
    set by `SuppressionReader.plan`.
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
    position: Position


class LoggedChange(NamedTuple):
    """A change of suppression in the log: its id, message and recipient, and its times."""

    id: int
    message_id: str | None
    recipient: str
    occurred_at: datetime | None
    received_at: datetime
    last_received_at: datetime


class SuppressionReader(Protocol):
    """Reads the suppressed subscribers that the schema does not hide. Raises a `StoreError`.

    Each call is its own transaction. The order is that of `suppressed_at` and the key, which an
    index supports: `step` takes about 1 ms for 5,000 rows, but a filter reads every row of a span
    unless it is direct.
    """

    def plan(self, selected: Filter) -> Filter:
        """Return the filter for the other methods, which is `direct` if it reads no other rows.

        It then takes a short time to read the first rows of any span.
        """

    def step(self, span: Span, rows: int, since: datetime | None) -> Position | None:
        """Return the position `rows` rows after the start of a span; None if the span is shorter.

        Hidden rows are counted, too.
        """

    def read(self, span: Span, selected: Filter, *, limit: int) -> Sequence[Suppression]:
        """Return the first suppressions of a span."""

    def count(self, span: Span, selected: Filter, *, limit: int) -> int:
        """Count the suppressions of a span, up to a limit."""

    def lists(self, *, limit: int) -> Mapping[Key, str]:
        """Return the names of lists, in order, or their keys if hookrow does not know the names.

        Returns nothing if the schema has no subscriptions.
        """

    def changes(self, recipients: Collection[str], *, limit: int) -> Iterable[LoggedChange]:
        """Return recorded changes of the recipients from the log, in any order.

        The recipients are those of `stored_recipient`. Returns nothing without a log.
        """

    def reason_name(self, stored: str) -> str:
        """Return the provider's name for a reason as the table stores it, if there is one."""


def find_causes(
    reader: SuppressionReader, found: Sequence[Suppression]
) -> Mapping[Position, LoggedChange]:
    """Find the notifications that suppressed these subscribers, if the log has them.

    A suppression has the time of its event or, if the event has none, of its arrival.
    """
    by_recipient: dict[str, list[LoggedChange]] = {}
    recipients = {each.position: stored_recipient(each.email) or "" for each in found}
    for change in reader.changes({*recipients.values()}, limit=_CHANGES * len(found)):
        by_recipient.setdefault(change.recipient, []).append(change)
    causes = {}
    for each in found:
        changes = sorted(by_recipient.get(recipients[each.position], ()))
        cause = next((c for c in changes if c.occurred_at == each.suppressed_at), None) or next(
            (c for c in changes if each.suppressed_at in {c.received_at, c.last_received_at}), None
        )
        if cause is not None:
            causes[each.position] = cause
    return causes


_CHANGES = 20
"""How many changes of each subscriber are read from the log, on average."""
