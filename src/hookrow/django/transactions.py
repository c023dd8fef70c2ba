"""Transactions on the project's own connection, which raise errors as a `StoreError`.

hookrow's own transaction has a time limit: if the server does not respond, the connection is
closed. Inside a transaction of the project, hookrow uses a savepoint instead: it closes no
connection, and restores the project's limits at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError, atomic

from hookrow.django.vendors import close_if_lost, fetch_row, vendor_of
from hookrow.stores import Rejected, Unavailable
from hookrow.stores.errors import is_of_session, store_error


@contextmanager
def begin(using: str, *, recording: bool) -> Iterator[BaseDatabaseWrapper]:
    """Begin a transaction, and commit it at the end of the block. Raises a `StoreError`.

    It takes no longer than `limited_to` allows, except for connecting, which the driver's own
    `connect_timeout` limits. Inside a transaction of the project, this limit applies only to the
    statements of the block. For `recording`, see `Limits.transaction`.
    """
    connection = connections[using]
    with store_errors():
        if _is_idle(connection):
            transaction = _own_transaction(connection, recording=recording)
        elif connection.in_atomic_block:
            transaction = _savepoint(connection)
        else:
            raise Unavailable("The project has turned off autocommit: nothing would be committed.")
        with transaction:
            yield connection


@contextmanager
def reading(using: str) -> Iterator[BaseDatabaseWrapper]:
    """Connect for reading; replace a lost connection. Raises a `StoreError`.

    On PostgreSQL, a statement may take as long as `limited_to` allows.
    """
    connection = connections[using]
    vendor = vendor_of(connection)
    with store_errors(), ExitStack() as stack:
        if _is_idle(connection):
            limits = vendor.reading_limits()
            if limits is None:
                close_if_lost(connection)
            else:
                stack.enter_context(vendor.connected(connection))
                stack.enter_context(_atomic(connection))
                fetch_row(connection, limits)
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


def _is_idle(connection: BaseDatabaseWrapper) -> bool:
    """Return whether no transaction of the project may be open."""
    if connection.in_atomic_block:
        return False
    return connection.connection is None or connection.get_autocommit()


@contextmanager
def _savepoint(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Begin a savepoint in the project's transaction, with time limits until it is released.

    If its server may have become useless, such as a standby, Django closes the connection after
    the request.
    """
    try:
        with atomic(connection.alias), vendor_of(connection).savepoint_limits(connection):
            yield
    except Error as error:
        if _is_useless(error):
            connection.close_at = monotonic()
        raise


@contextmanager
def _own_transaction(connection: BaseDatabaseWrapper, *, recording: bool) -> Iterator[None]:
    """Begin hookrow's own transaction, on a new connection if the server closed the idle one."""
    was_connected = connection.connection is not None
    with ExitStack() as stack:
        try:
            stack.enter_context(_begun(connection, recording=recording))
        except Error:
            if not was_connected or connection.connection is not None:
                raise
            stack.enter_context(_begun(connection, recording=recording))
        yield


@contextmanager
def _begun(connection: BaseDatabaseWrapper, *, recording: bool) -> Iterator[None]:
    vendor = vendor_of(connection)
    with vendor.connected(connection), _atomic(connection):
        vendor.begin(connection, recording=recording)
        yield
        vendor.limit_commit(connection)


@contextmanager
def _atomic(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Begin an outermost `atomic` block, which does not connect again at its end.

    If the connection breaks when Django itself commits or rolls back, Django replaces it at once,
    although there may be no time left, and nothing would watch the new one. Therefore, the driver
    does both before the block ends, which leaves nothing to do for Django, and a useless connection
    is closed inside the block.
    """
    with atomic(connection.alias):
        try:
            yield
            if not connection.get_rollback():
                _end(connection, "commit")
        except BaseException as error:
            if _is_useless(error) or not _rolls_back(connection):
                connection.close()
            raise


def _end(connection: BaseDatabaseWrapper, how: str) -> None:
    with connection.wrap_database_errors:
        getattr(connection.connection, how)()


def _rolls_back(connection: BaseDatabaseWrapper) -> bool:
    """Roll back; return whether this succeeded."""
    try:
        _end(connection, "rollback")
    except Error:
        return False
    return True


def _is_useless(error: BaseException) -> bool:
    """Return whether an error concerns the session or its server, which may stay useless."""
    return isinstance(error, Error) and is_of_session(error.__cause__ or error)
