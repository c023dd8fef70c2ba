"""What is posted: notifications that can change nothing, and can be told in the log."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from hookrow.http import LARGEST_BODY
from hookrow.testing import payloads

NOBODY = "check@hookrow.invalid"
"""Nobody's address: no name ends so (RFC 2606)."""

MESSAGE = "hookrow-check"
"""Of no message: what is about it is the check's."""

SMALL = 64 * 1024
"""In bytes; more than a notification has that is not stuffed with metadata."""


def delivery() -> bytes:
    """Return a delivery to nobody, of this moment."""
    return msgspec.json.encode(payloads.delivery(NOBODY, MESSAGE, at=datetime.now(UTC)))


def filled(size: int) -> bytes:
    """Return a body of so many bytes that is of no type that is supported.

    It is always the same, so that the log keeps it once, however often it comes.
    """
    start = b'{"RecordType":"HookrowCheck","Recipient":"%b","Filler":"' % NOBODY.encode()
    return start + b"x" * (size - len(start) - 2) + b'"}'


LARGEST = LARGEST_BODY - 1
"""In bytes; just within the limit."""

TOO_LARGE = LARGEST_BODY + 1
"""In bytes; just over it."""
