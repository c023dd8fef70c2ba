"""What an error of SQLAlchemy means: which `StoreError` it is.

Nothing that may quote a row leaves this module: what it returns is for a log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    SQLAlchemyError,
    StatementError,
)

from hookrow.stores import Rejected, StoreError, Unavailable
from hookrow.stores.causes import cause


@contextmanager
def faults(*, saving: bool = False) -> Iterator[None]:
    """Raise a `StoreError` for what SQLAlchemy or the driver raises in the block.

    `saving` is for a block that changes rows; see `causes.cause`.
    """
    try:
        yield
    except SQLAlchemyError as error:
        raise fault(error, saving=saving) from error
    except (UnicodeError, OverflowError) as error:  # the driver cannot write a value
        raise Rejected(type(error).__name__) from error


def fault(error: SQLAlchemyError, *, saving: bool = False) -> StoreError:
    """Return what the error means to us, with nothing in its text that a log must not hold."""
    if isinstance(error, DBAPIError):
        data = isinstance(error, DataError | IntegrityError)
        return cause(error.orig, data=data, saving=saving)
    # A StatementError that is none is a value that its type will not write.
    kind = Rejected if isinstance(error, StatementError) else Unavailable
    return kind(type(error).__name__)
