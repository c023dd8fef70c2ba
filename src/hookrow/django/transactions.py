"""Transactions on the project's own connection, and their errors as a `StoreError`.

hookrow's own transaction has a time limit: if the server does not respond, its connection is
closed. Inside a transaction of the project it is a savepoint: no connection is closed, and the
project's limits are restored at its end.
"""

# ruff: noqa: ANN401 - connections are those of any backend, with names that only one has

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from functools import partial
from math import isinf
from threading import Thread
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError, atomic

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
def begin(using: str) -> Iterator[BaseDatabaseWrapper]:
    """Begin a transaction, and commit it at the end of the block. Raises a `StoreError`.

    It takes no longer than `limited_to` allows, except for what `_savepoint` cannot limit.
    """
    with store_errors():
        connection = connections[using]
        if not connection.in_atomic_block and not connection.get_autocommit():
            raise Unavailable("The project has turned off autocommit: nothing would be committed.")
        begin = _savepoint if connection.in_atomic_block else _own
        with begin(connection):
            yield connection


@contextmanager
def reading(using: str) -> Iterator[BaseDatabaseWrapper]:
    """Connect to read, on a new connection if the last one was lost. Raises a `StoreError`.

    Django replaces lost connections between requests, which hookrow's own threads do not have.
    On PostgreSQL a statement may take as long as `limited_to` allows.
    """
    connection = connections[using]
    with store_errors(), ExitStack() as stack:
        if not connection.in_atomic_block:
            _replace_if_lost(connection)
            if connection.vendor == "postgresql" and not isinf(left()):
                stack.enter_context(_bounded(connection))
                stack.enter_context(atomic(using))
                _execute(connection, limit_statements())
        yield connection


@contextmanager
def store_errors() -> Iterator[None]:
    """Raise a `StoreError` for a database error of the block."""
    try:
        yield
    except TransactionManagementError as error:  # the project's transaction has failed before
        raise Unavailable(type(error).__name__) from error
    except Error as error:
        raise store_error(error.__cause__ or error) from error
    except (UnicodeError, OverflowError) as error:  # the driver cannot write a value
        raise Rejected(type(error).__name__) from error


@contextmanager
def _savepoint(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Begin a savepoint in the project's transaction, with time limits until it is released.

    A rollback to the savepoint restores the former limits, but releasing it does not.
    """
    if connection.vendor != "postgresql":
        with _sqlite_timeout(connection), atomic(connection.alias):
            yield
        return
    with atomic(connection.alias):
        former = _execute(connection, lower_limits())
        with connection.execute_wrapper(_execute_in_time):
            yield
        _execute(connection, restore_limits(), former[:2])


def _execute_in_time(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
    """Execute a statement within the time that is left. Raises `Unavailable` if there is none."""
    seconds = left()
    if seconds <= 0:
        raise Unavailable("There is no time left for another statement.")
    if seconds < STATEMENT_TIMEOUT:
        execute(lower_limits(), None, False, rest[-1])  # noqa: FBT003 - as Django passes it
    return execute(sql, *rest)


@contextmanager
def _own(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Begin hookrow's own transaction, with time limits."""
    with _bounded(connection):
        _replace_if_lost(connection)
        with _sqlite_timeout(connection), _begun(connection):
            yield
            _limit_busy_timeout(connection)  # because the commit may wait for readers


def _begun(connection: BaseDatabaseWrapper) -> ExitStack:
    """Begin a transaction, on a new connection if the server closed the idle one."""
    idle = connection.connection
    try:
        return _begin_once(connection)
    except Error:
        # Django has replaced or closed the connection if it was lost.
        if idle is None or connection.connection is idle:
            raise
        return _begin_once(connection)


def _begin_once(connection: BaseDatabaseWrapper) -> ExitStack:
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


def _replace_if_lost(connection: BaseDatabaseWrapper) -> None:
    if connection.errors_occurred:
        connection.close_if_unusable_or_obsolete()


@contextmanager
def _bounded(connection: Any) -> Iterator[None]:
    """Close the connection, or one that replaces it in the block, if it takes too long."""
    if connection.vendor != "postgresql":
        yield
        return
    with ExitStack() as stack:
        connect = connection.get_new_connection

        def connect_bounded(parameters: dict[str, Any]) -> Any:
            # A thread that is abandoned ends by itself.
            parameters.setdefault("connect_timeout", int(TRANSACTION_TIMEOUT))
            made = _connect_in_time(connection, partial(connect, parameters))
            stack.enter_context(watch.over_driver(made))
            return made

        stack.enter_context(_connecting_by(connection, connect_bounded))
        there = connection.connection
        if there is not None and not there.closed:
            stack.enter_context(watch.over_driver(there))
        yield


@contextmanager
def _connecting_by(connection: Any, connect: Callable[..., Any]) -> Iterator[None]:
    """Replace the method that connects, during the block."""
    outer = vars(connection).get("get_new_connection")
    connection.get_new_connection = connect
    try:
        yield
    finally:
        del connection.get_new_connection
        if outer is not None:  # blocks are nested if a hook of the project's runs at the commit
            connection.get_new_connection = outer


def _connect_in_time(connection: Any, connect: Callable[[], Any]) -> Any:
    """Connect within the time that is left. Raises `Unavailable` if that is too short.

    A driver's own limit is in whole seconds and applies to each address of the server separately.
    A thread therefore connects, and is abandoned if it takes too long.
    """
    future: Future[Any] = Future()

    def call() -> None:
        try:
            future.set_result(connect())
        except BaseException as error:  # noqa: BLE001 - passed on to the caller
            future.set_exception(error)

    late = Unavailable("The server took too long to connect.")
    seconds = min(TRANSACTION_TIMEOUT, left())
    if seconds <= 0:
        raise late
    Thread(target=copy_context().run, args=(call,), name="hookrow-connect", daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        future.add_done_callback(partial(_discard, connection))
        raise late from None


def _discard(connection: Any, future: Future[Any]) -> None:
    """Close a connection that was made too late, or return it to Django's pool."""
    if future.exception() is not None:
        return
    if connection.pool:
        connection.pool.putconn(future.result())
    else:
        future.result().close()


@contextmanager
def _immediate(connection: Any) -> Iterator[None]:
    """Take SQLite's write lock at the beginning, because a later request for it may fail."""
    connection.ensure_connection()  # sets the project's own mode
    mode = connection.transaction_mode
    connection.transaction_mode = "IMMEDIATE"
    try:
        yield
    finally:
        connection.transaction_mode = mode


@contextmanager
def _sqlite_timeout(connection: Any) -> Iterator[None]:
    """Limit SQLite's wait for its file to the remaining time, until the end of the block."""
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    file = connection.connection
    (former,) = file.execute(_BUSY_TIMEOUT).fetchone()
    _limit_busy_timeout(connection)
    try:
        yield
    finally:
        with suppress(sqlite3.ProgrammingError):  # Django has closed it
            file.execute(f"{_BUSY_TIMEOUT} = {former}")


def _limit_busy_timeout(connection: Any) -> None:
    if connection.vendor == "sqlite":
        (now,) = connection.connection.execute(_BUSY_TIMEOUT).fetchone()
        connection.connection.execute(f"{_BUSY_TIMEOUT} = {milliseconds(now / 1000)}")


_BUSY_TIMEOUT = "PRAGMA busy_timeout"
