"""A transaction on the host's own connection, and what its errors mean.

Inside a block of the host's it is a savepoint, and the host's settings are let be; so is, on
SQLite, how long the file is waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import isinf
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import atomic

from hookrow.stores import Rejected, SchemaChanged, Unavailable
from hookrow.stores.causes import cause
from hookrow.stores.limits import LIMIT_STATEMENTS, left, set_limits


@contextmanager
def begun(using: str) -> Iterator[BaseDatabaseWrapper]:
    """Begin a transaction, and commit it at the end of the block. Raises a `StoreError`."""
    with faults():
        connection = connections[using]
        with atomic(using) if connection.in_atomic_block else _own(connection):
            yield connection


@contextmanager
def reading(using: str) -> Iterator[BaseDatabaseWrapper]:
    """Read on a new connection where the one that there was is lost. Raises a `StoreError`.

    In a thread of its own there is no request at whose end Django would look at that.
    On PostgreSQL a statement may take as long as `limits.within` says.
    """
    connection = connections[using]
    with faults(), ExitStack() as stack:
        if connection.errors_occurred and not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
        limited = connection.vendor == "postgresql" and not isinf(left())
        if limited and not connection.in_atomic_block:
            stack.enter_context(atomic(using))
            _execute(connection, LIMIT_STATEMENTS.format(max(left() * 1000, 1)))
        yield connection


@contextmanager
def faults(*, saving: bool = False) -> Iterator[None]:
    """Raise a `StoreError` for what Django raises of a database in the block.

    In a block that is `saving` the rows were found, so that the tables are there: a statement
    that does not fit any table must be a trigger's.
    """
    try:
        yield
    except Error as error:
        meant = cause(error.__cause__ or error)
        if isinstance(meant, SchemaChanged):
            meant = (Rejected if saving else Unavailable)(str(meant))
        raise meant from error
    except (UnicodeError, OverflowError) as error:  # the driver cannot write a value
        raise Rejected(type(error).__name__) from error


def _own(connection: BaseDatabaseWrapper) -> ExitStack:
    """Begin one of our own, on a new connection where the server left the one that idled."""
    if connection.errors_occurred:
        connection.close_if_unusable_or_obsolete()
    idled = connection.connection
    try:
        return _entered(connection)
    except Error:
        # Django has replaced or closed one that was lost.
        if idled is None or connection.connection is idled:
            raise
        return _entered(connection)


def _entered(connection: BaseDatabaseWrapper) -> ExitStack:
    with ExitStack() as stack:
        if connection.vendor == "sqlite":
            stack.enter_context(_immediate(connection))
        stack.enter_context(atomic(connection.alias))
        if connection.vendor == "postgresql":
            _execute(connection, set_limits())
        return stack.pop_all()


def _execute(connection: BaseDatabaseWrapper, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@contextmanager
def _immediate(connection: Any) -> Iterator[None]:  # noqa: ANN401 - SQLite's alone has the mode
    """Have SQLite take the file for writing at once: to ask for that later may fail."""
    connection.ensure_connection()  # which sets the host's own mode
    mode = connection.transaction_mode
    connection.transaction_mode = "IMMEDIATE"
    try:
        yield
    finally:
        connection.transaction_mode = mode
