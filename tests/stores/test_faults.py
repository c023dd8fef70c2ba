"""What a database's error means, by what is done about it."""

from __future__ import annotations

import pytest
from sqlalchemy import exc, text
from sqlalchemy.exc import SQLAlchemyError, StatementError

from hookrow.stores import Rejected, StoreError, Unavailable
from hookrow.stores.engines import opened
from hookrow.stores.faults import fault


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exc.TimeoutError("no connection is free"), Unavailable),
        (StatementError("a value that its type refuses", None, None, TypeError()), Rejected),
    ],
    ids=["pool", "type"],
)
def test_errors_that_no_database_sent(error: SQLAlchemyError, kind: type[StoreError]) -> None:
    """They are told by their name alone, for their text may quote a value."""
    assert type(fault(error)) is kind
    assert str(fault(error)) == type(error).__name__


def test_a_value_that_the_driver_refuses(postgres_url: str) -> None:
    """PostgreSQL takes no NUL, and its driver says so without a SQLSTATE: the data is at fault."""
    with opened(postgres_url) as engine, engine.connect() as connection:
        with pytest.raises(SQLAlchemyError) as raised:
            connection.execute(text("SELECT CAST(:email AS text)"), {"email": "ada\0@example.com"})
        assert type(fault(raised.value)) is Rejected
        assert "ada" not in str(fault(raised.value))
