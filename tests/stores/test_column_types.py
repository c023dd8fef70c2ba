"""A notification reaches the right rows, whatever the types of a host's columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pytest
from contract import NOON, arrival, opens, statuses
from homes import connect
from sqlalchemy import text

from hookrow import Role, Schema, Suppressed
from hookrow.recording import record
from hookrow.stores.sql import SQLStore

REST = {"suppression_reason": None, "suppression_changed_at": None}
HOST = Schema(
    subscribers=Role("people", REST),
    dispatches=Role("sends", REST),
    subscriptions=Role("members", REST),
    log=None,
)
TABLES = """
    CREATE TABLE people (id {key} PRIMARY KEY, email {text}, suppressed_at timestamp);
    CREATE TABLE sends (
        id {key} PRIMARY KEY, provider_message_id {text}, subscriber_id {reference},
        list_id {reference}, delivered_at timestamp, opened_at timestamp, suppressed_at timestamp
    );
    CREATE TABLE members (list_id {key}, subscriber_id {reference}, suppressed_at timestamp)
"""
TOLD = [
    arrival(Suppressed("0@example.com", "0", NOON, "HardBounce")),
    arrival(opens("0@EXAMPLE.com", "0")),
    arrival(opens("0@example.com", "1")),
    arrival(opens("0@example.com", "0.0")),
]


def _check(url: str, keys: Sequence[object], **types: str) -> None:
    """Suppress the rows with the first key, beside the second: one by one, and in a group."""
    engine = connect(url)
    with engine.begin() as connection:
        for statement in TABLES.format(**types).split(";"):
            connection.execute(text(statement))
        for number, key in enumerate(keys):
            ids = {"subscriber_id": key, "list_id": key}
            for table, row in (
                ("people", {"id": key, "email": f"{number}@example.com"}),
                ("sends", {"id": key, "provider_message_id": str(number), **ids}),
                ("members", ids),
            ):
                names, values = ", ".join(row), ", ".join(f":{name}" for name in row)
                connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({values})"), row)
    store = SQLStore(engine, HOST)
    for size in (1, len(TOLD)):
        groups = [TOLD[start : start + size] for start in range(0, len(TOLD), size)]
        outcomes = [each for group in groups for each in record(store, group)]
        assert statuses(outcomes) == [200, 200, 400, 404]
        with engine.begin() as connection:
            for table in ("people", "sends", "members"):
                lift = f"UPDATE {table} SET suppressed_at = NULL WHERE suppressed_at IS NOT NULL"
                assert connection.execute(text(lift)).rowcount == 1
    engine.dispose()


@pytest.mark.parametrize("kind", ["", "uuid", "blob", "date", "char(4)"])
@pytest.mark.parametrize("keys", [(1, 2), ("a1", "a2"), (b"1", b"2")], ids=["int", "text", "bytes"])
def test_sqlite(empty_sqlite_url: str, kind: str, keys: Sequence[object]) -> None:
    """SQLite accepts any value in any column, and numbers in one of an unknown type."""
    _check(empty_sqlite_url, keys, key=kind, reference=kind, text=kind)


@pytest.mark.parametrize(
    ("key", "reference", "keys"),
    [
        ("char(4)", "text", ("a1", "a2")),
        ("text", "char(9)", ("a1", "a2")),
        ("char(4)", "char(9)", ("a1", "a2")),
        ("bytea", "bytea", (b"1", b"2")),
        ("numeric", "integer", (1, 2)),
        ("inet", "inet", ("10.0.0.1", "10.0.0.2")),
        ("date", "date", (date(2026, 3, 4), date(2026, 3, 5))),
    ],
)
def test_postgres(
    empty_postgres_url: str, key: str, reference: str, keys: Sequence[object]
) -> None:
    """Blanks that pad a CHAR are ignored; anything else is compared as it is."""
    _check(empty_postgres_url, keys, key=key, reference=reference, text="char(20)")
