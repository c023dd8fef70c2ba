"""A transaction on the host's own connection, and what its errors mean.

One of our own ends in time: where the server says nothing, its connection is cut. Inside a
block of the host's it is a savepoint, where nothing is cut, and what the host has set holds again
at its end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from functools import partial
from math import isinf
from threading import Thread
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import atomic

from hookrow.promise import Promise
from hookrow.stores import Rejected, SchemaChanged, Unavailable
from hookrow.stores.causes import cause
from hookrow.stores.limits import (
    left,
    limit_statements,
    lower_limits,
    milliseconds,
    restore_limits,
    set_limits,
)
from hookrow.stores.watch import TRANSACTION_TIMEOUT, watch


@contextmanager
def begun(using: str) -> Iterator[BaseDatabaseWrapper]:
    """Begin a transaction, and commit it at the end of the block. Raises a `StoreError`.

    It takes no longer than `limits.limited_to` allows, but for what `_savepoint` cannot limit.
    """
    with faults():
        connection = connections[using]
        begin = _savepoint if connection.in_atomic_block else _own
        with begin(connection):
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
            _execute(connection, limit_statements())
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


@contextmanager
def _savepoint(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Begin a savepoint in the host's transaction, with time limits until it is released.

    To roll back to it restores the former limits, but to release it would keep ours.
    """
    limited = connection.vendor == "postgresql"
    with _waiting(connection), atomic(connection.alias):
        former = _execute(connection, lower_limits()) if limited else ()
        yield
        if limited:
            _execute(connection, restore_limits(), former[:2])


@contextmanager
def _own(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Begin a transaction of our own, with time limits."""
    with _bounded(connection):
        if connection.errors_occurred:
            connection.close_if_unusable_or_obsolete()
        with _waiting(connection), _begun(connection):
            yield
            _wait(connection)  # for who reads SQLite's file as this commits


def _begun(connection: BaseDatabaseWrapper) -> ExitStack:
    """Begin a transaction, on a new connection where the server left the one that idled."""
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


def _execute(
    connection: BaseDatabaseWrapper, statement: str, values: Sequence[Any] = ()
) -> Sequence[Any]:
    """Return the row of a statement that has one."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        row: Sequence[Any] = cursor.fetchone()
        return row


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


@contextmanager
def _bounded(connection: Any) -> Iterator[None]:  # noqa: ANN401 - of any backend
    """Cut the connection, and any that replaces it in the block, where they take too long."""
    if connection.vendor != "postgresql":
        yield
        return
    with ExitStack() as stack:

        def watched(parameters: dict[str, Any]) -> Any:  # noqa: ANN401 - the driver's own
            # What is given up ends by itself some time.
            parameters.setdefault("connect_timeout", int(TRANSACTION_TIMEOUT))
            made = _connected(connection, partial(connect, parameters))
            stack.enter_context(watch.over_driver(made))
            return made

        connect = connection.get_new_connection
        connection.get_new_connection = watched
        stack.callback(delattr, connection, "get_new_connection")
        there = connection.connection
        if there is not None and not there.closed:
            stack.enter_context(watch.over_driver(there))
        yield


def _connected(connection: Any, connect: Callable[[], Any]) -> Any:  # noqa: ANN401 - as above
    """Connect within the time that is left. Raises `Unavailable` if that is too short.

    A driver's own limit is of whole seconds, for each address of the server's name anew, so a
    thread does it, which is left alone where it takes too long.
    """
    promise: Promise[Any] = Promise()

    def call() -> None:
        try:
            made = connect()
        except BaseException as error:  # noqa: BLE001 - it belongs to who waits
            promise.set_exception(error)
        else:
            if not promise.set_result(made):
                _drop(connection, made)

    seconds = min(TRANSACTION_TIMEOUT, left())
    late = Unavailable("The server took too long to connect.")
    if seconds <= 0:
        raise late
    Thread(target=copy_context().run, args=(call,), name="hookrow-connect", daemon=True).start()
    try:
        return promise.result(seconds)
    except TimeoutError:
        promise.set_exception(late)
        return promise.result()


def _drop(connection: Any, made: Any) -> None:  # noqa: ANN401 - as above
    """Close what nobody waits for any more, or give it back to Django's pool."""
    if connection.pool:
        connection.pool.putconn(made)
    else:
        made.close()


@contextmanager
def _waiting(connection: Any) -> Iterator[None]:  # noqa: ANN401 - as above
    """Have SQLite wait for its file no longer than there is time, until the end of the block."""
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    file = connection.connection
    (former,) = file.execute(_BUSY_TIMEOUT).fetchone()
    _wait(connection)
    try:
        yield
    finally:
        with suppress(sqlite3.ProgrammingError):  # Django has closed it
            file.execute(f"{_BUSY_TIMEOUT} = {former}")


def _wait(connection: Any) -> None:  # noqa: ANN401 - as above
    if connection.vendor == "sqlite":
        (now,) = connection.connection.execute(_BUSY_TIMEOUT).fetchone()
        connection.connection.execute(f"{_BUSY_TIMEOUT} = {milliseconds(now / 1000)}")


_BUSY_TIMEOUT = "PRAGMA busy_timeout"
