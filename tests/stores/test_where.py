"""Rows that a host hides: nothing finds them, but for an owner who has to be named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from contract import NOON, arrival, opens
from homes import connect
from sqlalchemy import Engine, text

from hookrow import Reactivated, Refused, Role, Schema
from hookrow.notification import Outcome
from hookrow.recording import record
from hookrow.schema import SUPPRESSION
from hookrow.stores.indexes import missing
from hookrow.stores.sql import SQLStore
from hookrow.stores.verification import verify

UNDATED = {"suppression_reason": None, "suppression_changed_at": None}
HOST = Schema(
    subscribers=Role("people", UNDATED, where={"deleted_at": False, "kind": "reader's"}),
    dispatches=Role("sends", dict.fromkeys(SUPPRESSION), where={"state": 1}),
    subscriptions=None,
    log=None,
)


def run(engine: Engine, *statements: str) -> None:
    """Run statements as the host does."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in statements:
            connection.execute(text(statement))


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[Engine]:
    """Make a host's tables: Ada is there once and was once before, Bea has gone."""
    engine = connect(empty_database_url)
    run(
        engine,
        "CREATE TABLE people (id integer PRIMARY KEY, email text, kind text, "
        "suppressed_at timestamp, deleted_at timestamp)",
        "INSERT INTO people (id, email, kind, deleted_at) VALUES "
        "(1, 'ada@example.com', 'reader''s', '2026-03-04'), "
        "(2, 'ada@example.com', 'reader''s', NULL), "
        "(3, 'bea@example.com', 'reader''s', '2026-03-04'), "
        "(4, 'cai@example.com', 'writer''s', NULL)",
        "CREATE TABLE sends (id integer PRIMARY KEY, provider_message_id text, "
        "subscriber_id integer, state integer, delivered_at timestamp, opened_at timestamp)",
        "INSERT INTO sends (id, provider_message_id, subscriber_id, state) VALUES "
        "(1, 'm-ada', 2, 1), (2, 'm-bea', 3, 1), (3, 'm-draft', 2, 0)",
    )
    yield engine
    engine.dispose()


def ended(outcome: Outcome) -> str:
    """Return the text of a refusal, and else nothing."""
    return outcome.text if isinstance(outcome, Refused) else ""


def test_what_is_found(engine: Engine) -> None:
    """Null and `false` hide what is not null, a text and a number what is another."""
    told = [
        *(opens("ada@example.com", "m-ada"), opens("ada@example.com", "m-draft")),
        *(opens("bea@example.com", "m-bea"), opens("cai@example.com", "m-ada")),
    ]
    store = SQLStore(engine, HOST)
    assert [ended(each) for each in record(store, [arrival(each) for each in told])] == [
        *("", "Engine::Dispatch not found"),
        *["Engine::Subscriber not found"] * 2,
    ]


def test_a_hidden_owner_is_named(engine: Engine) -> None:
    """Whose dispatch it is the answer says, also of one who is gone."""
    [outcome] = record(SQLStore(engine, HOST), [arrival(opens("ada@example.com", "m-bea"))])
    assert ended(outcome) == (
        "Dispatch subscriber bea@example.com does not match payload recipient ada@example.com"
    )


def test_a_hidden_row_is_not_changed(engine: Engine) -> None:
    """Of two rows with one email that which counts is suppressed, or the other is lifted never."""
    run(engine, "UPDATE people SET suppressed_at = '2026-03-04'")
    told = Reactivated("ada@example.com", None, NOON)
    assert ended(*record(SQLStore(engine, HOST), [arrival(told)])) == ""
    with engine.connect() as connection:
        lifted = connection.scalars(text("SELECT id FROM people WHERE suppressed_at IS NULL"))
        assert lifted.all() == [2]


def test_an_index_on_the_rows_that_count_serves(engine: Engine) -> None:
    """It need not hold the others: the query says that it does not ask for them."""
    on = "lower(email)" if engine.dialect.name == "sqlite" else '(lower(email COLLATE "C"))'
    run(
        engine,
        f"CREATE INDEX emails ON people ({on}) WHERE deleted_at IS NULL AND kind = 'reader''s'",
        "CREATE INDEX messages ON sends (provider_message_id) WHERE state = 1",
    )
    with engine.connect() as connection:
        assert not list(missing(connection, verify(engine, HOST)))
