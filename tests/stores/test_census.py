"""Counting in the tables of a host, where what the contract fills in does not reach."""

from __future__ import annotations

from contextlib import closing

import pytest
from contract import NOON
from homes import connect
from sqlalchemy import text

from hookrow import Role, Schema, SchemaMismatch
from hookrow.schema import SUPPRESSION
from hookrow.stores.sql import SQLStore

_PEOPLE = "CREATE TABLE people (id integer PRIMARY KEY, email text, suppressed_at timestamp)"
_SENDS = (
    "CREATE TABLE sends (id integer PRIMARY KEY, provider_message_id text, subscriber_id integer, "
    "delivered_at timestamp, opened_at timestamp, state integer, made timestamp, flag integer)"
)
_SENT = (
    "INSERT INTO sends (id, provider_message_id, state, made) VALUES "
    "(1, 'm-1', 1, '2026-03-04 12:00:00.123456'), (2, 'm-2', 1, NULL), "
    "(3, 'm-3', 0, '2026-03-04 12:00:00.123456')"
)


@pytest.fixture
def sends(empty_database_url: str) -> str:
    """Return a host's database: of two messages it is known when they were sent, one is a draft."""
    engine = connect(empty_database_url)
    with engine.begin() as connection:
        for statement in (_PEOPLE, _SENDS, _SENT):
            connection.execute(text(statement))
    engine.dispose()
    return empty_database_url


def schema(sent_at: str) -> Schema:
    """Return the schema of that host."""
    nothing = dict.fromkeys(SUPPRESSION)
    return Schema(
        subscribers=Role("people", dict.fromkeys(SUPPRESSION[1:])),
        dispatches=Role("sends", {"sent_at": sent_at, **nothing}, where={"state": 1}),
        subscriptions=None,
        log=None,
    )


def test_when_it_was_sent_is_read(sends: str) -> None:
    """In UTC where a column has no zone; not of hidden rows, nor where none is known."""
    with closing(SQLStore(sends, schema("made"))) as store:
        assert store.census.sent(["m-1", "m-2", "m-3"]) == {"m-1": NOON}


@pytest.mark.parametrize(
    ("column", "said"), [("mode", "Did you mean 'made'"), ("flag", "which holds no date-time")]
)
def test_a_column_that_does_not_fit_is_refused(sends: str, column: str, said: str) -> None:
    """When the store is built, by name."""
    with pytest.raises(SchemaMismatch, match=said):
        SQLStore(sends, schema(column))
