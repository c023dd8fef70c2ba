"""What an error of SQLAlchemy means: which `StoreError` it is.

Nothing that may quote a row leaves this module: what it returns is for a log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError

from hookrow.stores import Rejected, StoreError, Unavailable
from hookrow.stores.causes import cause


@contextmanager
def faults() -> Iterator[None]:
    """Raise a `StoreError` for what SQLAlchemy or the driver raises in the block."""
    try:
        yield
    except SQLAlchemyError as error:
        raise fault(error) from error
    except (UnicodeError, OverflowError) as error:  # the driver cannot write a value
        raise Rejected(type(error).__name__) from error


def message(error: SQLAlchemyError) -> str:
    """Return the first line of the database's own message, for a terminal and never for a log."""
    orig = error.orig if isinstance(error, DBAPIError) else error
    return f"{type(orig).__name__}: {str(orig).strip().partition(chr(10))[0]}"


def fault(error: SQLAlchemyError) -> StoreError:
    """Return what the error means to us, with nothing in its text that a log must not hold."""
    if isinstance(error, DBAPIError) and error.orig is not None:
        return cause(error.orig)
    # A StatementError that is none is a value that its type will not write.
    kind = Rejected if isinstance(error, StatementError) else Unavailable
    return kind(type(error).__name__)
