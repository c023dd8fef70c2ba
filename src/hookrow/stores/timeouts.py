"""Time limits of transactions, and the SQL that sets them on PostgreSQL."""

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

_LIMITS = {"lock_timeout": LOCK_TIMEOUT, "statement_timeout": STATEMENT_TIMEOUT}

NO_LIMITS = (
    "SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true)"
)
"""The SELECT that lifts the limits of a transaction, whoever set them."""

_TUNING = {"plan_cache_mode": "force_generic_plan", "TimeZone": "UTC"}
"""In another time zone, times of the first or the last day that there is could not be read."""


def set_limits(*, local: bool = True, tuned: bool = False) -> str:
    """Return the SELECT that sets the limits: `local` to a transaction, else to the session.

    In a block of `limited_to` they are shorter if less time is left. With `tuned`, plans are
    generic, so that the length of an array does not cause replanning, and the time zone is UTC.
    """
    settings = _limits() | (_TUNING if tuned else {})
    return "SELECT " + ", ".join(
        f"set_config('{name}', '{value}', {str(local).lower()})" for name, value in settings.items()
    )


def lower_limits() -> str:
    """Return the SELECT that sets the limits where those of the transaction are longer or none.

    Its row begins with the former values, in the order of `restore_limits`.
    """
    limits = _limits()
    former = ", ".join(f"current_setting('{name}') AS {name}" for name in limits)
    lower = ", ".join(
        # PostgreSQL has 0 for no limit, and its units of time are those of an interval.
        f"set_config('{name}', CASE WHEN {name}::interval > '0' AND {name}::interval < '{value}' "
        f"THEN {name} ELSE '{value}' END, true)"
        for name, value in limits.items()
    )
    # Materialized, so that each value is read before it is changed.
    return (
        f"WITH former AS MATERIALIZED (SELECT {former}) SELECT {', '.join(limits)}, {lower} "  # noqa: S608 - names are ours
        "FROM former"
    )


def restore_limits() -> str:
    """Return the SELECT that sets the limits of a transaction to two given values."""
    return "SELECT " + ", ".join(f"set_config('{name}', %s, true)" for name in _LIMITS)


def limit_statements() -> str:
    """Return the SELECT that gives each statement of the transaction the time that is left."""
    return f"SELECT set_config('statement_timeout', '{milliseconds(inf)}ms', true)"


def milliseconds(seconds: float) -> int:
    """Return a time in milliseconds, or 90 % of what is left if that is less; at least 1."""
    return max(int(min(seconds, left() * 0.9) * 1000), 1)


def _limits() -> dict[str, str]:
    return {name: f"{milliseconds(seconds)}ms" for name, seconds in _LIMITS.items()}


DEADLINE: ContextVar[float] = ContextVar("DEADLINE", default=inf)
"""The time, of `monotonic`, at which the calls of a store have to end; set by `limited_to`."""


@contextmanager
def limited_to(seconds: float) -> Iterator[None]:
    """Limit all calls of a store in the block, in this thread, to so many seconds.

    A call that takes longer raises a `StoreError`. On SQLite only readings are interrupted.
    """
    token = DEADLINE.set(min(monotonic() + seconds, DEADLINE.get()))
    try:
        yield
    finally:
        DEADLINE.reset(token)


def left() -> float:
    """Return how many seconds are left of that time: infinity outside a block."""
    return DEADLINE.get() - monotonic()
