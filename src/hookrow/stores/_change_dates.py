"""When the suppression of a row last changed, if the host's table has no column for that date.

The table `hookrow_suppression_changes`, which accompanies the log, holds these dates by role and
key. Without a log, there are no dates, and the change that arrives last wins.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from uuid import UUID

import msgspec

from hookrow._core.notification import Suppressible

logger = logging.getLogger("hookrow")

CHANGE_DATE_COLUMNS = ("role", "row_key", "changed_at")
"""The table's columns; the first two are its primary key."""


def key_text(parts: Sequence[object]) -> str:
    """Return the `row_key` of a row. `parts` are the columns of its key, as they are stored.

    The text is the same in every store: a number in digits, text unchanged, a UUID as 32
    hexadecimal digits, and a key of two columns as a JSON array of their texts. A text that ends
    with a blank is in JSON, because MariaDB ignores blanks at the end; and so is one that begins
    with a quotation mark, so that it does not equal another one's JSON.
    """
    texts = [_text(part) for part in parts]
    if len(texts) > 1:
        return msgspec.json.encode(texts).decode()
    [text] = texts
    is_plain = not text.endswith(" ") and not text.startswith('"')
    return text if is_plain else msgspec.json.encode(text).decode()


def warn_of_unguarded(kinds: Collection[Suppressible]) -> None:
    """Log a warning if there are kinds of row for which no date of the last change is kept."""
    if kinds:
        names = ", ".join(kind.value for kind in Suppressible if kind in kinds)
        logger.warning(
            f"No column records when the suppression of the {names} last changed, so an old "
            "notification that arrives late overrides a newer one: name a column for "
            "suppression_changed_at, or turn on the log."
        )


def _text(part: object) -> str:
    if isinstance(part, UUID):
        return part.hex
    return part.hex() if isinstance(part, bytes) else str(part)
