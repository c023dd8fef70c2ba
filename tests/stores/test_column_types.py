"""Whatever the types of a host's columns, what is recorded reaches the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
FILLED = {
    "people": ["id"],
    "sends": ["id", "subscriber_id", "list_id"],
    "members": ["list_id", "subscriber_id"],
}
TEXTS: dict[str, Callable[[int], dict[str, object]]] = {
    "people": lambda number: {"email": f"{number}@example.com"},
    "sends": lambda number: {"provider_message_id": str(number)},
    "members": lambda _: {},
}


def _check(url: str, keys: Sequence[object], **types: str) -> None:
    """Suppress what has the first key, beside the second: alone, and in a group."""
    engine = connect(url)
    with engine.begin() as connection:
        for statement in TABLES.format(**types).split(";"):
            connection.execute(text(statement))
        for number, key in enumerate(keys):
            for table, columns in FILLED.items():
                row = {**dict.fromkeys(columns, key), **TEXTS[table](number)}
                names, values = ", ".join(row), ", ".join(f":{name}" for name in row)
                connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({values})"), row)
    told = [
        arrival(Suppressed("0@example.com", "0", NOON, "HardBounce")),
        arrival(opens("0@EXAMPLE.com", "0")),
        arrival(opens("0@example.com", "1")),
        arrival(opens("0@example.com", "0.0")),
    ]
    store = SQLStore(engine, HOST)
    for size in (1, len(told)):
        with engine.begin() as connection:
            for table in FILLED:
                connection.execute(text(f"UPDATE {table} SET suppressed_at = NULL"))
        groups = [told[start : start + size] for start in range(0, len(told), size)]
        found = [each for group in groups for each in record(store, group)]
        assert statuses(found) == [200, 200, 400, 404]
        with engine.connect() as connection:
            for table in FILLED:
                count = text(f"SELECT count(*) FROM {table} WHERE suppressed_at IS NOT NULL")
                assert connection.scalar(count) == 1
    engine.dispose()


@pytest.mark.parametrize("kind", ["", "uuid", "string", "blob", "date", "json", "char(4)", "bool"])
@pytest.mark.parametrize("keys", [(1, 2), ("a1", "a2"), (b"1", b"2")], ids=["int", "text", "bytes"])
def test_sqlite(empty_sqlite_url: str, kind: str, keys: Sequence[object]) -> None:
    """SQLite keeps anything anywhere, and a type that it does not know as one of numbers."""
    _check(empty_sqlite_url, keys, key=kind, reference=kind, text=kind)


@pytest.mark.parametrize(
    ("key", "reference"),
    [
        *(("char(4)", "char(4)"), ("char(4)", "text"), ("text", "char(9)"), ("char(4)", "char(9)")),
        *(("varchar(4)", "text"), ("bytea", "bytea"), ("numeric", "integer"), ("name", "name")),
        *(("inet", "inet"), ("date", "date"), ("macaddr", "macaddr")),
    ],
)
def test_postgres(empty_postgres_url: str, key: str, reference: str) -> None:
    """CHAR is padded with blanks, which do not count; all else is kept as it was given."""
    keys = {
        "bytea": (b"1", b"2"),
        "date": (date(2026, 3, 4), date(2026, 3, 5)),
        "inet": ("10.0.0.1", "10.0.0.2"),
        "macaddr": ("08:00:2b:01:02:03", "08:00:2b:01:02:04"),
        "numeric": (1, 2),
    }
    _check(
        empty_postgres_url,
        keys.get(key, ("a1", "a2")),
        key=key,
        reference=reference,
        text="char(20)",
    )
