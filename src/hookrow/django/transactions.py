"""Transactions on the project's own connection, which raise errors as a `StoreError`.

hookrow's own transaction has a time limit: if the server does not respond, the connection is
closed. Inside a transaction of the project, hookrow uses a savepoint instead: it closes no
connection, and restores the project's limits at the end.
"""

# ruff: noqa: ANN401 - connections of different backends have different attributes

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import copy_context
from functools import partial
from math import isinf
from threading import Thread
from time import monotonic
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError, atomic

from hookrow.stores import Rejected, Unavailable
from hookrow.stores.errors import is_of_session, store_error
from hookrow.stores.timeouts import (
    STATEMENT_TIMEOUT,
    left,
    limit_statements,
    lower_limits,
    milliseconds,
    restore_limits,
    set_limits,
)
from hookrow.stores.watchdog import TRANSACTION_TIMEOUT, watchdog


@contextmanager
def begin(using: str, *, recording: bool) -> Iterator[BaseDatabaseWrapper]:
    """Begin a transaction, and commit it at the end of the block. Raises a `StoreError`.

    It takes no longer than `limited_to` allows. Inside a transaction of the project, this limit
    applies only to the statements of the block. For `recording`, see `timeouts.set_limits`.
    """
    with store_errors():
        connection = connections[using]
        if not connection.in_atomic_block and not connection.get_autocommit():
            raise Unavailable("The project has turned off autocommit: nothing would be committed.")
        transaction = (
            _savepoint(connection)
            if connection.in_atomic_block
            else _own_transaction(connection, recording=recording)
        )
        try:
            with transaction:
                yield connection
        except Error as error:
            if is_of_session(error.__cause__ or error):
                _close_soon(connection)
            raise


@contextmanager
def reading(using: str) -> Iterator[BaseDatabaseWrapper]:
    """Connect for reading; replace a lost connection. Raises a `StoreError`.

    On PostgreSQL, a statement may take as long as `limited_to` allows.
    """
    connection = connections[using]
    with store_errors(), ExitStack() as stack:
        if not connection.in_atomic_block:
            _close_if_lost(connection)
            if connection.vendor == "postgresql" and not isinf(left()):
                stack.enter_context(_connections_watched(connection))
                stack.enter_context(atomic(using))
                _fetch_row(connection, limit_statements())
        yield connection


@contextmanager
def store_errors() -> Iterator[None]:
    """Convert a database error in the block to a `StoreError`."""
    try:
        yield
    except TransactionManagementError as error:  # an earlier statement of the project has failed
        raise Unavailable(type(error).__name__) from error
    except Error as error:
        raise store_error(error.__cause__ or error) from error
    except (UnicodeError, OverflowError) as error:  # the driver cannot encode a value
        raise Rejected(type(error).__name__) from error


def _close_soon(connection: BaseDatabaseWrapper) -> None:
    """Close a connection whose server may have become useless, such as a standby.

    Inside a transaction of the project, leave it to Django, which closes it after the request.
    """
    if connection.in_atomic_block:
        connection.close_at = monotonic()
    else:
        connection.close()


@contextmanager
def _savepoint(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Begin a savepoint in the project's transaction, with time limits until it is released.

    A rollback to the savepoint restores the previous limits, but releasing it does not.
    """
    if connection.vendor == "sqlite":
        with _sqlite_timeout(connection), atomic(connection.alias):
            yield
        return
    with atomic(connection.alias):
        former = _fetch_row(connection, lower_limits())
        with connection.execute_wrapper(_execute_in_time):
            yield
        _fetch_row(connection, restore_limits(), former[:2])


def _execute_in_time(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
    """Execute a statement within the remaining time. Raises `Unavailable` if there is none."""
    seconds = left()
    if seconds <= 0:
        raise Unavailable("There was no time left for another statement.")
    if seconds < STATEMENT_TIMEOUT:
        execute(lower_limits(), None, False, rest[-1])  # noqa: FBT003 - as Django passes it
    return execute(sql, *rest)


@contextmanager
def _own_transaction(connection: BaseDatabaseWrapper, *, recording: bool) -> Iterator[None]:
    """Begin hookrow's own transaction, with time limits."""
    watched = _connections_watched if connection.vendor == "postgresql" else nullcontext
    with watched(connection):
        _close_if_lost(connection)
        with _sqlite_timeout(connection), _begin(connection, set_limits(recording=recording)):
            yield
            _limit_busy_timeout(connection)  # because the commit may wait for readers


def _begin(connection: BaseDatabaseWrapper, limits: str) -> ExitStack:
    """Begin a transaction, on a new connection if the server has closed the idle one."""
    idle = connection.connection
    try:
        return _begin_once(connection, limits)
    except Error:
        # Django has replaced or closed the connection if it was lost.
        if idle is None or connection.connection is idle:
            raise
        return _begin_once(connection, limits)


def _begin_once(connection: BaseDatabaseWrapper, limits: str) -> ExitStack:
    with ExitStack() as stack:
        if connection.vendor == "sqlite":
            stack.enter_context(_immediate(connection))
        stack.enter_context(atomic(connection.alias))
        if connection.vendor == "postgresql":
            _fetch_row(connection, limits)
        return stack.pop_all()


def _fetch_row(
    connection: BaseDatabaseWrapper, statement: str, values: Sequence[Any] = ()
) -> Sequence[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        row: Sequence[Any] = cursor.fetchone()
        return row


def _close_if_lost(connection: BaseDatabaseWrapper) -> None:
    """Close a lost connection. Django does so only between requests."""
    if connection.errors_occurred:
        connection.close_if_unusable_or_obsolete()


@contextmanager
def _connections_watched(connection: Any) -> Iterator[None]:
    """Close the PostgreSQL connection, or one that replaces it in the block, at the time limit.

    The method that connects is patched for the whole block: at the end of a transaction, Django
    connects again if the connection was lost.
    """
    connect, patched = connection.get_new_connection, "get_new_connection" in vars(connection)
    with ExitStack() as stack:

        def connect_in_time(parameters: dict[str, Any]) -> Any:
            # This limit also ends an abandoned thread.
            parameters.setdefault("connect_timeout", int(TRANSACTION_TIMEOUT))
            made = _connect_in_time(connection, partial(connect, parameters))
            stack.enter_context(watchdog.watch(made))
            return made

        current = connection.connection
        if current is not None and not current.closed:
            stack.enter_context(watchdog.watch(current))
        connection.get_new_connection = connect_in_time
        try:
            yield
        finally:
            del connection.get_new_connection
            if patched:  # by an outer block: a hook at the commit may record, too
                connection.get_new_connection = connect


def _connect_in_time(connection: Any, connect: Callable[[], Any]) -> Any:
    """Connect within the remaining time. Raises `Unavailable` if the time is too short.

    The driver's own limit is in whole seconds and applies to each address of the server separately.
    Therefore, a thread connects; it is abandoned if it takes too long.
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
    """Close a connection that was opened too late, or return it to Django's pool."""
    if future.exception() is not None:
        return
    if connection.pool:
        connection.pool.putconn(future.result())
    else:
        future.result().close()


@contextmanager
def _immediate(connection: Any) -> Iterator[None]:
    """Take SQLite's write lock at the beginning, because a later attempt to take it may fail."""
    connection.ensure_connection()  # sets the project's own mode
    mode = connection.transaction_mode
    connection.transaction_mode = "IMMEDIATE"
    try:
        yield
    finally:
        connection.transaction_mode = mode


@contextmanager
def _sqlite_timeout(connection: Any) -> Iterator[None]:
    """Limit the time that SQLite waits for file locks to the remaining time."""
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
