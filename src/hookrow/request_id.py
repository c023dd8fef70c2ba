"""The request id: what ties a request, its answer and the log lines about it together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import getrandbits

HEADER = "X-Request-Id"
"""Of a request, from a proxy that makes ids; of each answer."""

_SAFE = re.compile(rb"[A-Za-z0-9._-]{1,64}")


def request_id(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """Return the id that a request came with, where that is short and harmless, else a new one.

    It is no secret, and nobody is asked to prove that it is theirs.
    """
    given = [value for name, value in headers if name.lower() == b"x-request-id"]
    if len(given) == 1 and _SAFE.fullmatch(given[0]):
        return given[0].decode()
    return f"{getrandbits(64):016x}"
