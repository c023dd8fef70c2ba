"""Statements that commit by themselves: what BEGIN and COMMIT would cost are two round trips.

Those are half of what a group takes on PostgreSQL. The time limits that come with BEGIN
elsewhere are the session's here, which nobody else may have: behind a pooler, which hands
sessions around, all is as elsewhere.
"""

from __future__ import annotations

import select
from collections.abc import Collection, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, event

from hookrow.notification import RowId
from hookrow.stores import State
from hookrow.stores.at_once import AtOnce
from hookrow.stores.faults import faults
from hookrow.stores.limits import set_limits
from hookrow.stores.prepared import Step, Values
from hookrow.stores.sql_rows import SQLTransaction

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy.pool import ConnectionPoolEntry

IDLE = 1.0
"""In seconds; so long is a server taken to be there, where it does not say otherwise."""

PREPARED_AFTER = 5
"""How often a statement is run before the server is to keep it: psycopg's own default."""

_LAST_USED = "hookrow_last_used"

_LIMITS = set_limits(local=False, prepared=True)


def enable(engine: Engine) -> None:
    """Have statements commit by themselves on an engine of our own, which nothing else is for."""
    if engine.dialect.driver == "psycopg" and hasattr(select, "poll"):  # not on Windows
        event.listen(engine, "connect", _enable)


def is_on(connection: Connection) -> bool:
    """Tell whether statements commit by themselves here."""
    return _LAST_USED in connection.info


class Transaction(SQLTransaction):
    """A transaction that begins only where one statement is not enough.

    Until then that one, which commits all by itself, waits for the end.
    """

    _begun = False
    _pending: tuple[AtOnce, Sequence[Values]] | None = None

    def read(self, rows: Collection[RowId]) -> Mapping[RowId, State]:
        """Read what notifications set in the rows, after what is written so far."""
        if self._pending is not None:
            self._begin()
        return super().read(rows)

    @faults(saving=True)
    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Lock what is written to, kind by kind."""
        self._begin()
        return super().lock(rows)

    def commit(self) -> None:
        """End it: with COMMIT, or by the one statement."""
        if self._begun:
            super().commit()
        elif self._pending is not None:
            super()._at_once(*self._pending)

    def _one_by_one(self, steps: Sequence[Step]) -> None:
        if steps:
            self._begin()
            super()._one_by_one(steps)

    def _at_once(self, statement: AtOnce, values: Sequence[Values]) -> None:
        if self._begun or self._pending is not None:
            self._begin()
            super()._at_once(statement, values)
        else:
            self._pending = statement, values

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._connection.exec_driver_sql("BEGIN")
            if self._pending is not None:
                super()._at_once(*self._pending)


def ping(connection: Connection) -> None:
    """Ask a server that let its connection idle, or has something to say, whether it is there.

    Unasked it only says that it leaves. Raises what SQLAlchemy does where it has left.
    """
    now = monotonic()
    if now - connection.info[_LAST_USED] > IDLE or _can_be_read(connection):
        connection.exec_driver_sql(_LIMITS)  # again: a trigger of the host's may have undone them
    connection.info[_LAST_USED] = now


def forget_prepared(connection: Connection) -> None:
    """Have the driver forget what it prepared, as it does by itself only after a rollback."""
    raw = connection.connection
    raw.cursor().execute("BEGIN")
    raw.rollback()


def _can_be_read(connection: Connection) -> bool:
    raw: Any = connection.connection.dbapi_connection
    poll = select.poll()
    poll.register(raw.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _enable(connection: psycopg.Connection, record: ConnectionPoolEntry) -> None:
    """Set the limits where the server itself answers: a pooler names a process that is not its."""
    found = connection.execute(f"{_LIMITS} WHERE pg_backend_pid() = {connection.info.backend_pid}")
    direct = found.fetchone() is not None
    connection.commit()
    if direct:
        connection.autocommit = True
        connection.prepare_threshold = PREPARED_AFTER
        record.info[_LAST_USED] = monotonic()
