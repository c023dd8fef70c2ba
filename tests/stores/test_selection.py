"""Which of a host's rows are found: how emails fold, and which rows a condition excludes."""

from collections.abc import Iterator
from typing import get_args

import pytest
from contract import NOON, arrival, opens
from homes import connect, run
from sqlalchemy import Engine, text

from copying import replace
from hookrow import Reactivated, Role, Schema
from hookrow.core.notification import Notification
from hookrow.core.schema import SUPPRESSION, Fold
from hookrow.diagnostics.advice import missing_indexes, repeated_emails
from hookrow.receiver.recorder import record
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql.urls import open_database
from hookrow.stores.sql.verify import verify

SENDS = """
    CREATE TABLE sends (id integer PRIMARY KEY, provider_message_id text, subscriber_id integer,
        state integer, delivered_at timestamp, opened_at timestamp)
"""
PEOPLE = """
    CREATE TABLE people (id integer PRIMARY KEY, email {}, kind text, suppressed_at timestamp,
        deleted_at timestamp)
"""
UNDATED = dict.fromkeys(SUPPRESSION[1:])
HOST = Schema(
    subscribers=Role("people", UNDATED, where={"deleted_at": False, "kind": "reader's"}),
    dispatches=Role("sends", dict.fromkeys(SUPPRESSION), where={"state": 1}),
    subscriptions=None,
    log=None,
)


def end(engine: Engine, schema: Schema, *notifications: Notification) -> list[str]:
    """Record the notifications; return the texts of the responses."""
    outcomes = record(SQLStore(engine, schema), [arrival(each) for each in notifications])
    return [getattr(outcome, "text", "") for outcome in outcomes]


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[Engine]:
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
    run(
        engine,
        PEOPLE.format(email_type(engine, fold)),
        SENDS,
        "INSERT INTO people (id, email) VALUES "
        "(0, 'ada@example.com'), (1, 'Bea@Example.com'), (2, 'ZOË@example.net')",
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


@pytest.fixture
def people(engine: Engine) -> Engine:
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
    return engine


def test_conditions(people: Engine) -> None:
    """Null and `False` exclude other values; an excluded owner of a dispatch is still named."""
    for name, message_id, expected in (
        ("ada", "m-ada", ""),
        ("ada", "m-draft", "Engine::Dispatch not found"),
        ("bea", "m-bea", "Engine::Subscriber not found"),
        ("cai", "m-ada", "Engine::Subscriber not found"),
        ("ada", "m-bea", "Dispatch subscriber bea@example.com does not match payload recipient "),
    ):
        recipient = f"{name}@example.com"
        [found] = end(people, HOST, opens(recipient, message_id))
        assert found.removesuffix("ada@example.com") == expected
    run(people, "UPDATE people SET suppressed_at = '2026-03-04'")
    assert end(people, HOST, Reactivated("ada@example.com", None, NOON)) == [""]
    with people.connect() as connection:
        lifted = connection.scalars(text("SELECT id FROM people WHERE suppressed_at IS NULL"))
        assert lifted.all() == [2]


def test_index_on_the_selected_rows(people: Engine) -> None:
    on = "lower(email)" if people.dialect.name == "sqlite" else '(lower(email COLLATE "C"))'
    run(
        people,
        f"CREATE INDEX emails ON people ({on}) WHERE deleted_at IS NULL AND kind = 'reader''s'",
        "CREATE INDEX messages ON sends (provider_message_id) WHERE state = 1",
    )
    database = open_database(people)
    queries = verify(database, HOST)
    assert not list(missing_indexes(database, queries))


def test_duplicates(people: Engine) -> None:
    """Emails that differ only by case are counted once each, among the selected rows."""
    database = open_database(people)
    queries = verify(database, HOST)
    assert not list(repeated_emails(database, queries))
    run(
        people,
        "INSERT INTO people (id, email, kind) VALUES "
        "(5, 'ADA@example.com', 'reader''s'), (6, 'b@x', 'reader''s'), (7, 'B@X', 'reader''s'), "
        "(8, 'b@X', 'reader''s'), (9, 'BEA@example.com', 'reader''s'), (10, NULL, 'reader''s')",
    )
    [warning] = repeated_emails(database, queries)
    assert warning.startswith("2 emails are in several rows that may differ by case, such as a***@")
