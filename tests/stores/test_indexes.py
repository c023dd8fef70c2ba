"""Which indexes a host's tables lack, asked of the database itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from homes import connect
from sqlalchemy import Engine, text

from hookrow import Role, Schema
from hookrow.stores.indexes import missing
from hookrow.stores.verification import verify

BARE = dict.fromkeys(("suppressed_at", "suppression_reason", "suppression_changed_at"))
HOST = Schema(
    subscribers=Role("people", {**BARE, "suppressed_at": "muted_at"}),
    dispatches=Role("sends", BARE),
    subscriptions=Role("members", BARE),
    log=None,
)
TABLES = """
    CREATE TABLE people (id INTEGER PRIMARY KEY, email TEXT, muted_at TIMESTAMP);
    CREATE TABLE sends (
        id INTEGER PRIMARY KEY, provider_message_id TEXT, subscriber_id INTEGER, list_id INTEGER,
        delivered_at TIMESTAMP, opened_at TIMESTAMP
    );
    CREATE TABLE members (list_id INTEGER, subscriber_id INTEGER)
"""


def _run(engine: Engine, *statements: str) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in statements:
            connection.execute(text(statement))


def _missing(engine: Engine, schema: Schema) -> list[str]:
    statements = verify(engine, schema)
    with engine.connect() as connection:
        return [each.statement for each in missing(connection, statements)]


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[Engine]:
    """Make a host's tables, without any index but those of their keys."""
    engine = connect(empty_database_url)
    _run(engine, *TABLES.split(";"))
    yield engine
    engine.dispose()


def test_our_own_tables_lack_none(database_url: str) -> None:
    """Every lookup has an index, whatever a planner would think of an empty table."""
    engine = connect(database_url)
    assert _missing(engine, Schema()) == []
    engine.dispose()


def test_each_missing_index_is_told(engine: Engine) -> None:
    """One for emails as they are compared, one for message ids, one for pairs."""
    email, message_id, pair = _missing(engine, HOST)
    assert "ON people (lower(email" in email
    assert "ON sends (provider_message_id)" in message_id
    assert "ON members (list_id, subscriber_id)" in pair


def test_what_is_told_helps(engine: Engine) -> None:
    """Each statement runs as it stands, and then nothing is missing."""
    for statement in _missing(engine, HOST):
        _run(engine, statement)
        assert statement not in _missing(engine, HOST)
    assert _missing(engine, HOST) == []


def test_an_index_on_plain_emails_does_not_serve(engine: Engine) -> None:
    """Emails are compared without regard to case: an index on them as they are is no use."""
    _run(engine, "CREATE INDEX plain ON people (email)")
    assert "ON people (lower(email" in _missing(engine, HOST)[0]


@pytest.mark.parametrize(
    "index",
    [
        "CREATE UNIQUE INDEX pair ON members (list_id, subscriber_id)",
        "CREATE UNIQUE INDEX pair ON members (subscriber_id, list_id)",
        "CREATE INDEX pair ON members (subscriber_id)",
    ],
)
def test_any_index_that_serves_will_do(engine: Engine, index: str) -> None:
    """The planner may find pairs by an index in another order, or on the subscriber alone."""
    _run(engine, index)
    assert not [each for each in _missing(engine, HOST) if "members" in each]


def test_a_host_without_subscriptions_needs_two(engine: Engine) -> None:
    """What is not looked up needs no index."""
    schema = replace(HOST, subscriptions=None)
    assert len(_missing(engine, schema)) == 2


def test_asking_leaves_the_connection_as_it_was(engine: Engine) -> None:
    """What was set to ask is gone with the transaction."""
    with engine.connect() as connection:
        list(missing(connection, verify(engine, HOST)))
        connection.rollback()
        if connection.dialect.name == "postgresql":
            assert connection.scalar(text("SHOW enable_seqscan")) == "on"
