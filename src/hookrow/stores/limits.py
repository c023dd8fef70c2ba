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

_LIMITS = {"lock_timeout": f"{LOCK_TIMEOUT}s", "statement_timeout": f"{STATEMENT_TIMEOUT}s"}

_PREPARED = {"plan_cache_mode": "force_generic_plan"}


def set_limits(*, local: bool = True, prepared: bool = False) -> str:
    """Return the SELECT that sets the limits: `local` to a transaction, else to the session.

    With `prepared` statements are planned once, though their arrays are of many lengths.
    """
    settings = _LIMITS | (_PREPARED if prepared else {})
    return "SELECT " + ", ".join(
        f"set_config('{name}', '{value}', {str(local).lower()})" for name, value in settings.items()
    )


LIMIT_STATEMENTS = "SELECT set_config('statement_timeout', '{:.0f}ms', true)"
"""For the transaction that it is sent in, with a limit in milliseconds."""

_until: ContextVar[float] = ContextVar("until", default=inf)


@contextmanager
def limited_to(seconds: float) -> Iterator[None]:
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
