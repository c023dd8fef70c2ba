"""Which of a host's rows are found: how emails fold, and which rows a condition excludes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import pytest
from contract import NOON, arrival, opens
from homes import connect, run
from sqlalchemy import Engine, text

from hookrow import Reactivated, Role, Schema
from hookrow.notification import Notification
from hookrow.recording import record
from hookrow.schema import SUPPRESSION, Fold
from hookrow.stores.duplicates import duplicates
from hookrow.stores.indexes import missing
from hookrow.stores.sql import SQLStore
from hookrow.stores.verification import verify

UNDATED = {"suppression_reason": None, "suppression_changed_at": None}
SENDS = """
    CREATE TABLE sends (
        id integer PRIMARY KEY, provider_message_id text, subscriber_id integer, state integer,
        delivered_at timestamp, opened_at timestamp
    )
"""
PEOPLE = """
    CREATE TABLE people (
        id integer PRIMARY KEY, email {}, kind text, suppressed_at timestamp, deleted_at timestamp
    )
"""


HOST = Schema(
    subscribers=Role("people", UNDATED, where={"deleted_at": False, "kind": "reader's"}),
    dispatches=Role("sends", dict.fromkeys(SUPPRESSION), where={"state": 1}),
    subscriptions=None,
    log=None,
)


def end(engine: Engine, schema: Schema, *told: Notification) -> list[str]:
    """Record the notifications; return the texts of the responses."""
    outcomes = record(SQLStore(engine, schema), [arrival(each) for each in told])
    return [getattr(outcome, "text", "") for outcome in outcomes]


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[Engine]:
    """Open an empty database."""
    engine = connect(empty_database_url)
    yield engine
    engine.dispose()


def email_type(engine: Engine, fold: Fold) -> str:
    """Return the type of a column for the fold. Without citext's extension, skip the test."""
    if fold != "citext":
        return "text"
    if engine.dialect.name == "sqlite":
        return "text COLLATE NOCASE"
    with engine.connect() as connection:
        there = text("SELECT 1 FROM pg_available_extensions WHERE name = 'citext'")
        if not connection.scalar(there):
            pytest.skip("this PostgreSQL has no citext: install its contrib modules")
    run(engine, "CREATE EXTENSION citext")
    return "citext"


@pytest.mark.parametrize("fold", get_args(Fold))
def test_fold(engine: Engine, fold: Fold) -> None:
    """ASCII case is ignored, but `exact` finds an email only as received or in lower case."""
    emails = enumerate(["ada@example.com", "Bea@Example.com", "ZOË@example.net"])
    rows = ", ".join(f"({number}, '{email}')" for number, email in emails)
    run(
        engine,
        PEOPLE.format(email_type(engine, fold)),
        SENDS,
        f"INSERT INTO people (id, email) VALUES {rows}",
    )
    is_folded = fold != "exact"
    expected = {
        "ada@example.com": True,
        "Bea@Example.com": True,
        "ADA@EXAMPLE.COM": True,
        "bea@example.com": is_folded,
        "ZOË@EXAMPLE.NET": is_folded,
        "zoë@example.net": False,
        "eve@example.com": False,
    }
    schema = replace(HOST, subscribers=Role("people", UNDATED, fold=fold))
    found = end(engine, schema, *(opens(recipient, "m") for recipient in expected))
    assert found == [
        f"Engine::{'Dispatch' if found else 'Subscriber'} not found" for found in expected.values()
    ]


class TestWhere:
    """Excluded rows are never found, except as the owner of a dispatch."""

    @pytest.fixture(autouse=True)
    def _rows(self, engine: Engine) -> None:
        """Insert Ada twice, once deleted, Bea, who is deleted, and Cai, who is no reader."""
        run(
            engine,
            PEOPLE.format("text"),
            SENDS,
            "INSERT INTO people (id, email, kind, deleted_at) VALUES "
            "(1, 'ada@example.com', 'reader''s', '2026-03-04'), "
            "(2, 'ada@example.com', 'reader''s', NULL), "
            "(3, 'bea@example.com', 'reader''s', '2026-03-04'), "
            "(4, 'cai@example.com', 'writer''s', NULL)",
            "INSERT INTO sends (id, provider_message_id, subscriber_id, state) VALUES "
            "(1, 'm-ada', 2, 1), (2, 'm-bea', 3, 1), (3, 'm-draft', 2, 0)",
        )

    def test_rows(self, engine: Engine) -> None:
        """Null and `False` exclude every other value; only the selected row is changed."""
        told = [("ada", "m-ada"), ("ada", "m-draft"), ("bea", "m-bea"), ("cai", "m-ada")]
        assert end(engine, HOST, *(opens(f"{name}@example.com", m) for name, m in told)) == [
            *("", "Engine::Dispatch not found"),
            *["Engine::Subscriber not found"] * 2,
        ]
        assert end(engine, HOST, opens("ada@example.com", "m-bea")) == [
            "Dispatch subscriber bea@example.com does not match payload recipient ada@example.com"
        ]
        run(engine, "UPDATE people SET suppressed_at = '2026-03-04'")
        assert end(engine, HOST, Reactivated("ada@example.com", None, NOON)) == [""]
        with engine.connect() as connection:
            lifted = connection.scalars(text("SELECT id FROM people WHERE suppressed_at IS NULL"))
            assert lifted.all() == [2]

    def test_partial_index(self, engine: Engine) -> None:
        """An index on only the selected rows serves."""
        on = "lower(email)" if engine.dialect.name == "sqlite" else '(lower(email COLLATE "C"))'
        run(
            engine,
            f"CREATE INDEX emails ON people ({on}) WHERE deleted_at IS NULL AND kind = 'reader''s'",
            "CREATE INDEX messages ON sends (provider_message_id) WHERE state = 1",
        )
        with engine.connect() as connection:
            assert not list(missing(connection, verify(engine, HOST)))

    def test_duplicates(self, engine: Engine) -> None:
        """Emails that differ only by case are counted once each, among the selected rows."""
        statements = verify(engine, HOST)
        with engine.connect() as connection:
            assert duplicates(connection, statements) == (0, "")
        emails = ("ADA@example.com", "b@x", "B@X", "b@X", "BEA@example.com")
        rows = ", ".join(
            f"({number}, '{email}', 'reader''s')" for number, email in enumerate(emails, 5)
        )
        run(engine, f"INSERT INTO people (id, email, kind) VALUES {rows}, (10, NULL, 'reader''s')")
        with engine.connect() as connection:
            assert duplicates(connection, statements) == (2, "ada@example.com")
