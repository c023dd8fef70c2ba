"""Looks for emails that two subscribers have, whatever the case, which reads a whole table."""

from __future__ import annotations

from time import monotonic
from typing import Any

from sqlalchemy import Connection, func, select, text

from hookrow.stores.limits import STATEMENT_TIMEOUT
from hookrow.stores.statements import Statements
from hookrow.stores.tables import folded

_STEPS = 10_000
"""Of SQLite's machine: how many it takes between two looks at the clock."""


def duplicates(
    connection: Connection, statements: Statements, *, seconds: float = STATEMENT_TIMEOUT
) -> tuple[int, str]:
    """Return how many emails are there more than once, and one of them, else nothing.

    Raises an `SQLAlchemyError` where it takes longer than `seconds`.
    """
    _limit(connection, seconds)
    email = folded(statements.roles["subscribers"]["email"]).label("email")
    twice = (
        select(email)
        .where(email.is_not(None), *statements.roles.visible["subscribers"])
        .group_by(email)
        .having(func.count() > 1)
        .subquery()
    )
    count, example = connection.execute(select(func.count(), func.min(twice.c.email))).one()
    return count, example or ""


def _limit(connection: Connection, seconds: float) -> None:
    if connection.dialect.name == "postgresql":
        limit = {"limit": f"{seconds * 1000:.0f}ms"}
        connection.execute(text("SELECT set_config('statement_timeout', :limit, true)"), limit)
        return
    sqlite: Any = connection.connection.dbapi_connection
    until = monotonic() + seconds
    sqlite.set_progress_handler(lambda: monotonic() > until, _STEPS)
