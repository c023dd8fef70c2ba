"""Misspelled keywords: type checkers report each, and the call is an error.

mypy and pyright also report a comment that ignores an error where there is none, so each comment
here is a test of both; `make check` runs them.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlmodel import Field, SQLModel

from engines import MEMORY
from hookrow import ConfigurationError, Postmark, Receiver, Role, Schema
from hookrow.stores.sql import SQLStore
from hookrow.testing import Tables
from wire import SECRET

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


class Base(DeclarativeBase):
    """The base of the models of SQLAlchemy."""


class Person(Base):
    """A model of SQLAlchemy."""

    __tablename__ = "people"

    id: Mapped[int] = mapped_column(primary_key=True)
    address: Mapped[str]
    suppressed_at: Mapped[datetime | None]
    team_id: Mapped[int]


class Member(SQLModel, table=True):
    """A model of SQLModel, whose attributes have the types of their values for type checkers."""

    id: int | None = Field(default=None, primary_key=True)
    address: str
    suppressed_at: datetime | None = None
    deleted_at: datetime | None = None


@pytest.fixture
def tables() -> Tables:
    return Tables(SQLStore(MEMORY))


def test_the_right_keywords(tables: Tables) -> None:
    for role in (
        Role("people", {"email": "address"}, where={"deleted_at": None}, fold="lower", empty=""),
        Role.of(Person, email=Person.address, suppressed_at=Person.suppressed_at),
        Role.of(Person, email="address", where={Person.team_id: 1}, tenant=Person.team_id),
        Role.of(Member, email=Member.address, where={Member.deleted_at: None}, fold="exact"),
    ):
        assert role.column("email") == "address"
    ada = tables.add_subscriber("ada@example.com", suppressed_at=NOON, suppression_reason="x")
    tables.add_dispatch("m-1", ada, delivered_at=NOON, bounce_type=None)


MISTAKES: dict[str, Callable[[], object]] = {
    "wher": lambda: Role("people", wher={"deleted_at": None}),  # type: ignore[call-arg]
    "folds": lambda: Role("people", folds="lower"),  # type: ignore[call-arg]
    "subscriber": lambda: Schema(subscriber=Role("people")),  # type: ignore[call-arg]
    "swep": lambda: Receiver(Postmark(SECRET), SQLStore(MEMORY), swep=True),  # type: ignore[call-arg]
}


@pytest.mark.parametrize("call", MISTAKES.values(), ids=MISTAKES)
def test_a_misspelled_keyword(call: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        call()


def test_a_misspelled_column_of_a_model() -> None:
    """`Role.of` does not know which role it is for, so the schema reports it."""
    role = Role.of(Person, emial=Person.address)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match=r"no column 'emial'\. Did you mean 'email'\?"):
        Schema(subscribers=role)


def test_a_misspelled_option_of_a_model() -> None:
    role = Role.of(Person, email=Person.address, tenants=Person.team_id)  # type: ignore[call-arg]
    expected = "no column 'tenants'. Did you mean 'tenant'? Write tenant=Person.team_id."
    with pytest.raises(ConfigurationError, match=re.escape(expected)):
        Schema(subscribers=role)


def test_a_misspelled_option_that_is_no_attribute() -> None:
    """Its value is not reported as an attribute without a column."""
    role = Role.of(Person, email=Person.address, wehre={Person.team_id: 1}, flod="lower")  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError) as caught:
        Schema(subscribers=role)
    assert [each.text for each in caught.value.faults] == [
        "The role 'subscribers' has no column 'wehre'. Did you mean 'where'?",
        "The role 'subscribers' has no column 'flod'. Did you mean 'fold'?",
    ]


def test_an_unknown_fold() -> None:
    role = Role.of(Person, email=Person.address, fold="upper")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="has the fold 'upper': use ascii, lower"):
        Schema(subscribers=role)


def test_misspelled_columns_of_hookrows_tables(tables: Tables) -> None:
    with pytest.raises(ConfigurationError, match="Did you mean 'suppressed_at'"):
        tables.add_subscriber("a@example.com", suppresed_at=NOON)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="Did you mean 'opened_at'"):
        tables.add_dispatch("m-1", 1, open_at=NOON)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="no column 'delivered_at'"):
        tables.add_subscription(1, 1, delivered_at=NOON)  # type: ignore[call-arg]
