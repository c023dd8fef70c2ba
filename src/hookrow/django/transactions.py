"""A transaction on the host's own connection, and what its errors mean.

A transaction of our own has a time limit: if the server does not respond, its connection is closed.
Inside a transaction of the host it is a savepoint: no connection is closed, and the host's limits
are restored at its end.
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
from django.db.transaction import TransactionManagementError, atomic

from hookrow.promise import Promise
from hookrow.stores import Rejected, Unavailable
from hookrow.stores.errors import store_error
from hookrow.stores.timeouts import (
    STATEMENT_TIMEOUT,
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

    It takes no longer than `limits.limited_to` allows, except for what `_savepoint` cannot limit.
    """
    with store_errors():
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
    with store_errors(), ExitStack() as stack:
        if connection.errors_occurred and not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
        limited = connection.vendor == "postgresql" and not isinf(left())
        if limited and not connection.in_atomic_block:
            stack.enter_context(_bounded(connection))
            stack.enter_context(atomic(using))
            _execute(connection, limit_statements())
        yield connection


@contextmanager
def store_errors() -> Iterator[None]:
    """Raise a `StoreError` for an error of Django's about a database in the block."""
    try:
        yield
    except TransactionManagementError as error:  # the host's transaction has failed before
        raise Unavailable(type(error).__name__) from error
    except Error as error:
        raise store_error(error.__cause__ or error) from error
    except (UnicodeError, OverflowError) as error:  # the driver cannot write a value
        raise Rejected(type(error).__name__) from error


@contextmanager
def _savepoint(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Begin a savepoint in the host's transaction, with time limits until it is released.

    Rolling back to it restores the former limits, but releasing it would keep ours.
    """
    limited = connection.vendor == "postgresql"
    with _waiting(connection), atomic(connection.alias):
        if not limited:
            yield
            return
        former = _execute(connection, lower_limits())
        with connection.execute_wrapper(_in_time):
            yield
        _execute(connection, restore_limits(), former[:2])


def _in_time(
    execute: Callable[..., Any],
    sql: str,
    values: Any,  # noqa: ANN401 - this and the result are the driver's own
    many: bool,  # noqa: FBT001 - Django passes it by its place
    context: dict[str, Any],
) -> Any:  # noqa: ANN401 - as above
    """Execute a statement within the time that is left. Raises `Unavailable` if there is none."""
    seconds = left()
    if seconds <= 0:
        raise Unavailable("There is no time left for another statement.")
    if seconds < STATEMENT_TIMEOUT:
        execute(lower_limits(), None, False, context)  # noqa: FBT003 - as Django passes it
    return execute(sql, values, many, context)


@contextmanager
def _own(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Begin a transaction of our own, with time limits."""
    with _bounded(connection):
        if connection.errors_occurred:
            connection.close_if_unusable_or_obsolete()
        with _waiting(connection), _begun(connection):
            yield
            _wait(connection)  # the commit, too, waits for readers of SQLite's file


def _begun(connection: BaseDatabaseWrapper) -> ExitStack:
    """Begin a transaction, on a new connection if the server closed the idle one."""
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
    """Execute a statement and return its row."""
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
    """Close the connection, or one that replaces it in the block, if it takes too long."""
    if connection.vendor != "postgresql":
        yield
        return
    with ExitStack() as stack:

        def watched(parameters: dict[str, Any]) -> Any:  # noqa: ANN401 - the driver's own
            # An abandoned attempt ends by itself.
            parameters.setdefault("connect_timeout", int(TRANSACTION_TIMEOUT))
            made = _connected(connection, partial(connect, parameters))
            stack.enter_context(watch.over_driver(made))
            return made

        connect = connection.get_new_connection
        # A hook of the host's, run as this commits, may begin a transaction of ours in this one.
        outer = vars(connection).get("get_new_connection")
        connection.get_new_connection = watched
        stack.callback(_restore, connection, outer)
        there = connection.connection
        if there is not None and not there.closed:
            stack.enter_context(watch.over_driver(there))
        yield


def _restore(connection: Any, connect: Callable[..., Any] | None) -> None:  # noqa: ANN401 - as above
    """Let the connection connect as it did before: as another block has it do, or by itself."""
    if connect is None:
        del connection.get_new_connection
    else:
        connection.get_new_connection = connect


def _connected(connection: Any, connect: Callable[[], Any]) -> Any:  # noqa: ANN401 - as above
    """Connect within the time that is left. Raises `Unavailable` if that is too short.

    A driver's own limit is in whole seconds and applies to each address of the server separately.
    A thread therefore connects, and is abandoned if it takes too long.
    """
    promise: Promise[Any] = Promise()

    def call() -> None:
        try:
            made = connect()
        except BaseException as error:  # noqa: BLE001 - passed on to the caller
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
    """Close a connection that came too late, or return it to Django's pool."""
    if connection.pool:
        connection.pool.putconn(made)
    else:
        made.close()


@contextmanager
def _waiting(connection: Any) -> Iterator[None]:  # noqa: ANN401 - as above
    """Limit SQLite's wait for its file to the remaining time, until the end of the block."""
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
