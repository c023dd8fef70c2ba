"""The columns of the log's entries, for SELECT, and the conversion of rows to entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hookrow.core.log_entry import StoredEntry
from hookrow.core.notification import Source
from hookrow.core.result import Result
from hookrow.stores.sql.dialects import utc

_FIELDS = StoredEntry.__struct_fields__

ALL = ", ".join(_FIELDS)
"""All columns of an entry."""

BODILESS = ", ".join("NULL" if name == "body" else name for name in _FIELDS)
"""All columns of an entry except the body."""

_READ: Mapping[str, Callable[[Any], Any]] = {
    **{name: utc for name in _FIELDS if name.endswith("_at")},
    **dict.fromkeys(("outcome", "first_outcome"), Result),
    "fingerprint": bytes,
    "source": lambda value: None if value is None else Source(value),
}
"""The conversions of the driver's values by column; other values need none."""


def stored_entry(row: Sequence[Any]) -> StoredEntry:
    """Return the entry in a row of `ALL` or `BODILESS`."""
    named = zip(_FIELDS, row, strict=True)
    return StoredEntry(*(_READ[name](value) if name in _READ else value for name, value in named))
