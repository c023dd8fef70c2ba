"""The indexes that a host's tables lack, according to the database's planner."""

from collections.abc import Iterator

import pytest
from homes import OURS, connect, run
from sqlalchemy import Engine, text

from copying import replace
from hookrow import Role, Schema
from hookrow.core.schema import SUPPRESSION
from hookrow.diagnostics.advice import missing_indexes
from hookrow.stores.sql.urls import open_database
from hookrow.stores.sql.verify import verify

BARE = dict.fromkeys(SUPPRESSION)
HOST = Schema(
    subscribers=Role("people", {**BARE, "suppressed_at": "muted_at"}),
    dispatches=Role("sends", BARE),
    subscriptions=Role("members", BARE),
    log=None,
)
TABLES = """
    CREATE TABLE people (id INTEGER PRIMARY KEY, email TEXT, muted_at TIMESTAMP);
    CREATE TABLE sends (id INTEGER PRIMARY KEY, provider_message_id TEXT, subscriber_id INTEGER,
        list_id INTEGER, delivered_at TIMESTAMP, opened_at TIMESTAMP);
    CREATE TABLE members (list_id INTEGER, subscriber_id INTEGER)
"""


def _missing(engine: Engine, schema: Schema = HOST) -> list[str]:
    """Return the statements that are advised."""
    database = open_database(engine)
    texts = missing_indexes(database, verify(database, schema))
    found = [each.partition("Run: ")[2] for each in texts]
    with engine.connect() as connection:
        if connection.dialect.name == "postgresql":  # asking changed nothing of the session
            assert connection.scalar(text("SHOW enable_seqscan")) == "on"
    return found


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[Engine]:
    """Make a host's tables, with no indexes but those of their keys."""
    engine = connect(empty_database_url)
    run(engine, *TABLES.split(";"))
    yield engine
    engine.dispose()


def test_hookrows_own_tables_lack_none(database_url: str) -> None:
    """Every lookup has an index, even if the tables are empty."""
    engine = connect(database_url)
    assert _missing(engine, OURS) == []
    engine.dispose()


def test_each_missing_index(engine: Engine) -> None:
    """Emails, message ids and pairs need one each; the advised statements create them."""
    email, message_id, pair = _missing(engine)
    assert "ON people (lower(email" in email.replace('"', "")
    assert "ON sends (provider_message_id)" in message_id.replace('"', "")
    assert "ON members (list_id, subscriber_id)" in pair.replace('"', "")
    assert _missing(engine, replace(HOST, subscriptions=None)) == [email, message_id]
    run(engine, "CREATE INDEX plain ON people (email)")  # which does not fold
    for statement in (email, message_id, pair):
        run(engine, statement)
        assert statement not in _missing(engine)
    assert _missing(engine) == []


@pytest.mark.parametrize("columns", ["subscriber_id, list_id", "subscriber_id"])
def test_another_index_for_pairs(engine: Engine, columns: str) -> None:
    run(engine, f"CREATE INDEX pair ON members ({columns})")
    assert len(_missing(engine)) == 2
