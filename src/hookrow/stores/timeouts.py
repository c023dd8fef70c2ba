"""Time limits of transactions, and the SQL that sets them on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from time import monotonic

ROW_LOCK_TIMEOUT = 0.1
"""In seconds; how long a transaction that records notifications waits for the lock of a row.

PostgreSQL looks for a deadlock when a transaction has waited for a second (`deadlock_timeout`), and
aborts the one that has. With a shorter limit, this is never a transaction of the host."""

LOCK_TIMEOUT = 2
"""In seconds; how long other transactions wait for the lock of a row: those that maintain hookrow's
own tables, which no host locks, and those inside a transaction of the host. On SQLite, how long
each transaction waits for the file, or for the connection to a database in memory."""

STATEMENT_TIMEOUT = 4
"""In seconds; how long one statement may take."""

_LIMITS = {"lock_timeout": LOCK_TIMEOUT, "statement_timeout": STATEMENT_TIMEOUT}
_RECORDING = {"lock_timeout": ROW_LOCK_TIMEOUT, "statement_timeout": STATEMENT_TIMEOUT}

NO_LIMITS = (
    "SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true)"
)
"""The SELECT that lifts the limits of a transaction."""

_TUNING = {"plan_cache_mode": "force_generic_plan", "TimeZone": "UTC"}
"""Generic plans, as `set_limits` describes, and UTC, because drivers cannot represent the earliest
and the latest times in other zones."""

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


def left() -> float:
    """Return the seconds that are left until the deadline: infinity outside of `limited_to`."""
    return STORE_DEADLINE.get() - monotonic()


def milliseconds(seconds: float) -> int:
    """Return a time limit in milliseconds, at least 1 and at most 90 % of the time left."""
    return max(int(min(seconds, left() * 0.9) * 1000), 1)


def set_limits(*, local: bool = True, tuned: bool = False, recording: bool = True) -> str:
    """Return the SELECT that sets the limits of a transaction or, if not `local`, of a session.

    It is for `recording` notifications, or for hookrow's own tables. The limits are shorter if less
    time is left. With `tuned`, plans are generic, so that the length of an array does not cause
    replanning, and the time zone is UTC.
    """
    settings = _limits(_RECORDING if recording else _LIMITS) | (_TUNING if tuned else {})
    return "SELECT " + ", ".join(
        f"set_config('{name}', '{value}', {str(local).lower()})" for name, value in settings.items()
    )


def lower_limits() -> str:
    """Return the SELECT that lowers the transaction's limits to hookrow's, if they are longer.

    Its row begins with the former values, in the order of the parameters of `restore_limits`.
    """
    limits = _limits(_LIMITS)
    former = ", ".join(f"current_setting('{name}') AS {name}" for name in limits)
    lower = ", ".join(
        # In PostgreSQL, 0 means no limit, and the units of time are those of an interval.
        f"set_config('{name}', CASE WHEN {name}::interval > '0' AND {name}::interval < '{value}' "
        f"THEN {name} ELSE '{value}' END, true)"
        for name, value in limits.items()
    )
    # Materialized, so that each value is read before it is changed.
    return (
        f"WITH former AS MATERIALIZED (SELECT {former}) SELECT {', '.join(limits)}, {lower} "  # noqa: S608 - constant names
        "FROM former"
    )


def restore_limits() -> str:
    """Return the SELECT that sets the transaction's limits to its two parameters."""
    return "SELECT " + ", ".join(f"set_config('{name}', %s, true)" for name in _LIMITS)


def limit_statements() -> str:
    """Return the SELECT that limits each statement of the transaction to the time left."""
    return f"SELECT set_config('statement_timeout', '{milliseconds(inf)}ms', true)"


def _limits(limits: Mapping[str, float]) -> dict[str, str]:
    return {name: f"{milliseconds(seconds)}ms" for name, seconds in limits.items()}
