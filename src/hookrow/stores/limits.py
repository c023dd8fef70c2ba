"""How long a transaction may wait, and how to tell PostgreSQL, whatever library asks it."""

from __future__ import annotations

LOCK_TIMEOUT = 2
"""In seconds; how long a row, or SQLite's file, is waited for."""

STATEMENT_TIMEOUT = 4
"""In seconds; how long one statement may take."""

SET_LIMITS = (
    f"SELECT set_config('lock_timeout', '{LOCK_TIMEOUT}s', true), "
    f"set_config('statement_timeout', '{STATEMENT_TIMEOUT}s', true)"
)
"""For the transaction that it is sent in, and no longer."""
