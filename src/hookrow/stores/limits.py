"""How long a transaction may wait, and how to tell PostgreSQL, whatever library asks it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from time import monotonic

LOCK_TIMEOUT = 2
"""In seconds; how long a row, or SQLite's file, is waited for."""

STATEMENT_TIMEOUT = 4
"""In seconds; how long one statement may take."""

SET_LIMITS = (
    f"SELECT set_config('lock_timeout', '{LOCK_TIMEOUT}s', true), "
    f"set_config('statement_timeout', '{STATEMENT_TIMEOUT}s', true)"
)
"""For the transaction that it is sent in, and no longer."""

LIMIT_STATEMENTS = "SELECT set_config('statement_timeout', '{:.0f}ms', true)"
"""As above, with a limit in milliseconds."""

_until: ContextVar[float] = ContextVar("until", default=inf)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Give all that this thread asks the SQL store in the block so many seconds.

    What takes longer raises a `StoreError`. In SQLite's files nothing is cut short.
    """
    token = _until.set(monotonic() + seconds)
    try:
        yield
    finally:
        _until.reset(token)


def left() -> float:
    """Return how many seconds are left of that time: infinitely many outside of any block."""
    return _until.get() - monotonic()
