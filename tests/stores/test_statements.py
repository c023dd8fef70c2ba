"""The statements of the SQL store: how many there are, and by which index they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from copy import copy
from typing import Any

import pytest
from contract import NOON, arrival, opens, statuses
from homes import OURS, THEIRS, Home, SQLHome, connect
from sqlalchemy import Engine, Select, event, text

from hookrow import Arrival, Delivered, Opened, Reactivated, Suppressed
from hookrow.notification import Mentioned, Suppressible
from hookrow.recording import record
from hookrow.stores.autocommit import Session
from hookrow.stores.indexes import Explain
from hookrow.stores.prepared import Prepared
from hookrow.stores.sql import SQLStore
from hookrow.stores.statements import Statements
from hookrow.stores.verification import verify

EXPLAIN = {"sqlite": "EXPLAIN QUERY PLAN", "postgresql": "EXPLAIN"}

ROWS = ("SELECT", "UPDATE", "INSERT", "WITH")

MANY = 1000
"""Rows in each table."""


def _fill(home: Home) -> None:
    numbers = range(1, MANY + 1)
    home.fill(
        subscribers=[{"id": home.key(n), "email": f"S{n}@example.com"} for n in numbers],
        subscriptions=[{"list_id": home.key(1), "subscriber_id": home.key(n)} for n in numbers],
        dispatches=[
            {
                "id": home.key(n),
                "provider_message_id": f"m{n}",
                "subscriber_id": home.key(n),
                "list_id": home.key(1),
            }
            for n in numbers
        ],
    )


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Engine]:
    """Fill a database with many rows, in our own tables."""
    url = new_database(request.param)
    with closing(SQLHome(url, OURS)) as home:
        _fill(home)
    engine = connect(url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))
    yield engine
    engine.dispose()


@contextmanager
def _counted(engine: Engine) -> Iterator[list[str]]:
    """Collect the first word of every statement that is run on the engine."""
    words: list[str] = []

    def count(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        words.append(statement.split(maxsplit=1)[0])

    event.listen(engine, "before_cursor_execute", count)
    yield words
    event.remove(engine, "before_cursor_execute", count)


def _group(size: int) -> list[Arrival]:
    """Return arrivals of every kind, each for rows of its own."""
    group: list[Arrival] = []
    for n in range(1, size + 1, 4):
        names = [(f"s{m}@example.com", f"m{m}") for m in range(n, n + 4)]
        group += [
            arrival(Opened(*names[0], NOON)),
            arrival(Delivered(*names[1], NOON)),
            arrival(Suppressed(*names[2], NOON, "HardBounce")),
            arrival(Reactivated(*names[3], NOON)),
        ]
    return group


def test_a_group_of_any_size_costs_the_same_statements(engine: Engine) -> None:
    """On PostgreSQL one finds, and one does all else: it locks WITH all that it changes."""
    store = SQLStore(engine)
    for size in (4, 40, 1000):
        with _counted(engine) as words:
            assert statuses(record(store, _group(size))) == [200] * size
        assert _rows_of(words) == (
            {"SELECT": 1, "WITH": 1}
            if engine.dialect.name == "postgresql"
            else {"SELECT": 2, "UPDATE": 5, "INSERT": 1}
        )


def test_an_engine_of_our_own_has_statements_commit(
    empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEGIN and COMMIT are not sent, but where one statement cannot write it all."""
    with closing(SQLHome(empty_postgres_url, OURS)) as home:
        _fill(home)
    names = "s1@example.com", "m1"
    one_row = [arrival(Delivered(*names, NOON)), arrival(Opened(*names, NOON))]
    words: list[str] = []
    run = Session.exec_driver_sql

    def count(session: Session, text: str, values: Sequence[Any] = ()) -> object:
        words.append(text.split(maxsplit=1)[0])
        return run(session, text, values)

    monkeypatch.setattr(Session, "exec_driver_sql", count)
    with closing(SQLStore(empty_postgres_url)) as store:
        assert statuses(record(store, _group(40))) == [200] * 40
        assert words == ["SELECT", "WITH"]
        words.clear()
        assert statuses(record(store, one_row)) == [200, 200]
        assert words == ["SELECT", "BEGIN", "SELECT", "UPDATE", "UPDATE", "INSERT", "COMMIT"]


def test_changes_of_one_row_are_made_one_by_one(engine: Engine) -> None:
    """Within one statement the second would not see the first."""
    store = SQLStore(engine)
    names = "s7@example.com", "m7"
    group = [arrival(Delivered(*names, NOON)), arrival(Opened(*names, NOON))]
    with _counted(engine) as words:
        assert statuses(record(store, group)) == [200, 200]
    locks = 1 if engine.dialect.name == "postgresql" else 0
    assert _rows_of(words) == {"SELECT": 1 + locks, "UPDATE": 2, "INSERT": 1}
    row = Suppressible.DISPATCH, 7
    with store.reading() as reading:
        state = reading.read([row])[row]
    assert (state["delivered_at"], state["opened_at"]) == (NOON, NOON)


def _rows_of(words: Sequence[str]) -> dict[str, int]:
    """Count the statements that read or change rows."""
    return {word: words.count(word) for word in ROWS if word in words}


def test_what_is_not_mentioned_is_not_looked_for(engine: Engine) -> None:
    """An unknown Recipient costs one SELECT; nothing is locked, and only the log is written."""
    store = SQLStore(engine)
    with _counted(engine) as words:
        record(store, [arrival(opens("nobody@example.com", "m-nowhere"))])
    assert _rows_of(words) == {"SELECT": 1, "INSERT": 1}


def looked_for(
    statements: Statements, emails: Sequence[str], message_ids: Sequence[str]
) -> dict[str, Any]:
    """Return the parameters that find these."""
    return statements.find.mentioning(Mentioned(emails, message_ids, ()))


def explained(engine: Engine, statement: Prepared | Select[Any], parameters: dict[str, Any]) -> str:
    """Return how the database would run the statement, in its own words.

    PostgreSQL reads a table of this size whole, indexed or not: that is not asked.
    """
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        if isinstance(statement, Prepared):
            explain = copy(statement)
            explain.text = f"{EXPLAIN[engine.dialect.name]} {statement.text}"
            rows = explain(connection, parameters)
        else:
            rows = connection.execute(Explain(statement), parameters)
        return "\n".join(str(row[-1]) for row in rows)


@pytest.mark.parametrize("size", [1, 100])
class TestIndexes:
    """The planner is asked, for one key and for a group's, with statistics up to date."""

    @pytest.fixture
    def statements(self, engine: Engine) -> Statements:
        """Build the statements for our own tables."""
        return verify(engine, OURS)

    def test_a_subscriber_is_found_by_the_index_on_folded_emails(
        self, engine: Engine, statements: Statements, size: int
    ) -> None:
        """The expression in the query is the one in the index."""
        emails = [f"s{n}@example.com" for n in range(1, size + 1)]
        plan = explained(engine, statements.find, looked_for(statements, emails, ["m1"]))
        assert "hookrow_subscribers_email" in plan
        assert not _reads_whole_table(plan)

    def test_a_dispatch_is_found_by_its_message_id(
        self, engine: Engine, statements: Statements, size: int
    ) -> None:
        """And its owner by id, whatever the index is called."""
        message_ids = [f"m{n}" for n in range(1, size + 1)]
        plan = explained(engine, statements.find, looked_for(statements, ["x"], message_ids))
        assert not _reads_whole_table(plan)

    def test_a_subscription_is_found_by_list_and_subscriber(
        self, engine: Engine, statements: Statements, size: int
    ) -> None:
        """The pairs of a group are looked up, not searched for."""
        assert statements.subscriptions is not None
        pairs = [(1, n) for n in range(1, size + 1)]
        plan = explained(engine, statements.subscriptions, statements.by(pairs))
        assert not _reads_whole_table(plan)


def _reads_whole_table(plan: str) -> bool:
    return "Seq Scan" in plan or "SCAN hookrow" in plan


def test_a_name_that_needs_quotes_is_quoted(empty_database_url: str) -> None:
    """A host's tables and columns may be named as they please, reserved words and % included."""
    with closing(SQLHome(empty_database_url, THEIRS)):
        engine = connect(empty_database_url)
        statements = verify(engine, THEIRS)
        assert '"e-mail"' in statements.find.text
        assert '"People"' in statements.find.text
        engine.dispose()
