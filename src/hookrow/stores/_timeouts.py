"""Time limits of transactions; `sql._limits` has the SQL that sets them on a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from time import monotonic

ROW_LOCK_TIMEOUT = 0.1
"""Seconds that a transaction that records notifications waits for the lock of a row.

A transaction that has waited for `deadlock_timeout`, a second, looks for a deadlock, and PostgreSQL
aborts it if there is one. hookrow's wait ends earlier, so the host's transaction is never the one
that is aborted."""

LOCK_TIMEOUT = 2
"""Seconds that other transactions wait for the lock of a row: those that maintain hookrow's
own tables, which no host locks, and those inside a transaction of the host. On SQLite, how long
each transaction waits for the file, or for the connection to a database in memory."""

STATEMENT_TIMEOUT = 4
"""Seconds that one statement may take."""

STORE_DEADLINE: ContextVar[float] = ContextVar("STORE_DEADLINE", default=inf)
"""When the calls of a store must end, on the clock of `monotonic`; set by `limited_to`."""


@contextmanager
def limited_to(seconds: float) -> Iterator[None]:
    """Limit all calls of stores in the block, in this thread, to a total of `seconds`.

    A call that takes longer raises a `StoreError`. On SQLite, a write is not interrupted.
    """
    token = STORE_DEADLINE.set(min(monotonic() + seconds, STORE_DEADLINE.get()))
    try:
        yield
    finally:
        STORE_DEADLINE.reset(token)


@contextmanager
def extended_by(seconds: float) -> Iterator[None]:
    """Extend the time limit of `limited_to` in the block: by the time that was kept for it."""
    token = STORE_DEADLINE.set(STORE_DEADLINE.get() + seconds)
    try:
        yield
    finally:
        STORE_DEADLINE.reset(token)


def left() -> float:
    """Return the seconds that are left until the deadline: infinity outside of `limited_to`."""
    return STORE_DEADLINE.get() - monotonic()


def milliseconds(seconds: float) -> int:
    """Return a time limit in milliseconds, at least 1 and at most 90 % of the time left."""
    return max(int(min(seconds, left() * 0.9) * 1000), 1)
