"""Emails that differ by case only are counted, in rows that count, for no longer than allowed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from homes import connect
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from hookrow import Role, Schema
from hookrow.schema import SUPPRESSION
from hookrow.stores.duplicates import duplicates
from hookrow.stores.statements import Statements
from hookrow.stores.verification import verify

HOST = Schema(
    subscribers=Role(
        "people",
        {"suppression_reason": None, "suppression_changed_at": None},
        where={"deleted_at": None},
    ),
    dispatches=Role("sends", dict.fromkeys(SUPPRESSION)),
    subscriptions=None,
    log=None,
)

TABLES = (
    "CREATE TABLE people (id integer, email text, suppressed_at timestamp, deleted_at timestamp)",
    """CREATE TABLE sends (
        id integer, provider_message_id text, subscriber_id integer,
        delivered_at timestamp, opened_at timestamp
    )""",
)


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[Engine]:
    """Make a host's tables with emails in many spellings."""
    engine = connect(empty_database_url)
    emails = ("a@x.example", "A@x.example", "b@x.example", "B@X.example", "b@x.EXAMPLE", "c", "C")
    with engine.begin() as connection:
        for statement in (
            *TABLES,
            *(f"INSERT INTO people (email) VALUES ('{email}')" for email in emails),
            "UPDATE people SET deleted_at = '2026-03-04' WHERE email = 'C'",
            "INSERT INTO people (email) VALUES (NULL), (NULL)",
        ):
            connection.execute(text(statement))
    yield engine
    engine.dispose()


@pytest.fixture
def statements(engine: Engine) -> Statements:
    """Build the statements."""
    return verify(engine, HOST)


def test_counted(engine: Engine, statements: Statements) -> None:
    """Each email counts once, however often it is there; what is hidden or null not at all."""
    with engine.connect() as connection:
        assert duplicates(connection, statements) == (2, "a@x.example")


def test_none(engine: Engine, statements: Statements) -> None:
    """Where there is none there is no example either."""
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM people"))
        assert duplicates(connection, statements) == (0, "")


def test_no_longer_than_allowed(engine: Engine, statements: Statements) -> None:
    """What takes longer ends with an error: on a table that is large, or that is held."""
    with engine.connect() as holder, engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            holder.execute(text("LOCK people"))
        else:
            holder.execute(text(MANY))
            holder.commit()
        with pytest.raises(SQLAlchemyError, match=r"timeout|interrupted"):
            duplicates(connection, statements, seconds=0.001)
        connection.detach()


MANY = """
    INSERT INTO people (email) WITH RECURSIVE counted (n) AS
    (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 20000) SELECT n || '@' FROM counted
"""
