"""The contract that a host runs against its own mapping: it passes, and finds mistakes."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import TestCase

import pytest

from hookrow import Role, Schema
from hookrow.entry import Entry
from hookrow.notification import Change, Key
from hookrow.schema import SUPPRESSION
from hookrow.stores.memory import MemoryStore, MemoryTransaction
from hookrow.stores.sql import SQLStore
from hookrow.testing import StoreContract


class InMemory(StoreContract):
    """The contract over dicts."""

    store: MemoryStore

    def add_subscriber(self, email: str) -> Key:
        return self._add(self.store.subscribers, email=email)

    def add_dispatch(self, message_id: str | None, subscriber: Key, list_: Key | None) -> Key:
        named = {"provider_message_id": message_id, "subscriber_id": subscriber, "list_id": list_}
        return self._add(self.store.dispatches, **named)

    def _add(self, table: dict[Key, dict[str, Any]], **row: Key | None) -> Key:
        table[len(table) + 1] = row
        return len(table)


class TestUnderUnittest(InMemory, TestCase):
    """The contract runs without fixtures, as Django's tests do."""

    def setUp(self) -> None:
        self.store = MemoryStore()


def _found(contract: StoreContract) -> str:
    """Run every test of a contract; return the messages of those that fail."""
    failures = []
    for name in (name for name in dir(contract) if name.startswith("test_")):
        try:
            getattr(contract, name)()
        except (AssertionError, TypeError) as error:  # the latter from a faulty store
            failures.append(str(error))
    return "\n".join(failures)


TABLES = """
CREATE TABLE people (id INTEGER PRIMARY KEY, address TEXT, login TEXT, deleted INTEGER DEFAULT 0,
    suppressed_at, suppression_reason, suppression_changed_at);
CREATE TABLE members (group_id INTEGER, person_id INTEGER,
    suppressed_at, suppression_reason, suppression_changed_at);
CREATE TABLE sends (id INTEGER PRIMARY KEY, postmark_id TEXT, ticket TEXT, person_id INTEGER,
    author_id INTEGER, group_id INTEGER, team_id INTEGER, delivered_at, opened_at,
    suppressed_at, suppression_reason, suppression_changed_at);
INSERT INTO people (id) VALUES (100); -- so that keys of people and groups differ
"""

Columns = Mapping[str, str | None]

KEYS = {"list_id": "group_id", "subscriber_id": "person_id"}


class AtAHost(StoreContract):
    """The contract over the tables of a host, with a mapping that may be wrong."""

    def __init__(
        self, folder: Path, people: Columns, sends: Columns, members: Columns | None
    ) -> None:
        self._file = folder / "host.db"
        with closing(sqlite3.connect(self._file)) as connection:
            connection.executescript(TABLES)
        schema = Schema(
            subscribers=Role("people", {"email": "address", **people}),
            dispatches=Role("sends", {"provider_message_id": "postmark_id", **KEYS, **sends}),
            subscriptions=None if members is None else Role("members", {**KEYS, **members}),
            log=None,
        )
        self.store = self.sql = SQLStore(f"sqlite:///{self._file}", schema)
        self._has_lists = members is not None

    def add_subscriber(self, email: str) -> Key:
        return self._save("people", address=email, login=f"login-{email}")

    def add_dispatch(self, message_id: str | None, subscriber: Key, list_: Key | None) -> Key:
        """Insert a send, whose author is another person."""
        named = {"postmark_id": message_id, "person_id": subscriber, "group_id": list_}
        return self._save("sends", **named, ticket=f"t-{message_id}", author_id=100, team_id=9)

    def add_list(self) -> Key | None:
        """Name a group, for which there is no table."""
        return 1 if self._has_lists else None

    def add_subscription(self, list_: Key, subscriber: Key) -> None:
        self._save("members", group_id=list_, person_id=subscriber)

    def _save(self, table: str, **row: object) -> int:
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        with closing(sqlite3.connect(self._file)) as connection, connection:
            statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"
            return connection.execute(statement, list(row.values())).lastrowid or 0


UNDATED = {"suppression_changed_at": None}


@pytest.mark.parametrize(
    ("people", "sends", "members", "said"),
    [
        ({}, {}, {}, ""),
        ({**UNDATED, "suppression_reason": None}, UNDATED, UNDATED, ""),
        ({}, {"list_id": None, **dict.fromkeys(SUPPRESSION)}, None, ""),
        ({"email": "login"}, {}, {}, "Is the email of the subscribers the column"),
        ({}, {"provider_message_id": "ticket"}, {}, "Is the provider_message_id of the"),
        ({}, {"subscriber_id": "author_id"}, {}, "Is the subscriber_id of the dispatches"),
        (
            *({}, {"list_id": "team_id"}, {}),
            "After a suppression, suppressed_at of the subscriptions' row (1, 1",
        ),
        ({"id": "deleted"}, {}, {}, "Among the subscribers the store finds no row"),
    ],
    ids=["full", "undated", "sparse", "email", "message-id", "owner", "list", "key"],
)
def test_mapping(
    tmp_path: Path, people: Columns, sends: Columns, members: Columns | None, said: str
) -> None:
    """A right mapping passes, whatever columns and roles it has; a wrong column is named."""
    contract = AtAHost(tmp_path, people, sends, members)
    found = _found(contract)
    contract.sql.close()
    assert said in found
    assert bool(found) == bool(said)


def test_nothing_defined() -> None:
    """A subclass that does not say how to insert rows is told what to define."""
    contract = StoreContract()
    with pytest.raises(NotImplementedError, match=r"Set self\.store, in a fixture"):
        _ = contract.store
    with pytest.raises(NotImplementedError, match="add_subscriber"):
        contract.test_a_delivery_sets_its_time()
    with pytest.raises(NotImplementedError, match="add_dispatch"):
        contract.add_dispatch(None, 1, None)
    with pytest.raises(NotImplementedError, match="add_subscription"):
        contract.add_subscription(1, 1)


WRITE = MemoryTransaction.write


def _unguarded(
    transaction: MemoryTransaction, changes: list[Change], entries: Sequence[Entry] = ()
) -> None:
    """Write changes whatever is there already."""
    for change in changes:
        object.__setattr__(change, "guarded", False)
    WRITE(transaction, changes, entries)


@pytest.mark.parametrize(
    ("method", "mistake", "said"),
    [
        ("rollback", lambda _: None, "After a transaction that failed, suppressed_at"),
        ("write", _unguarded, "After a replay of something older"),
        ("write", None, "The log of `hookrow` says what went wrong"),
    ],
    ids=["no-rollback", "no-guards", "error"],
)
def test_a_faulty_store(
    monkeypatch: pytest.MonkeyPatch, method: str, mistake: object, said: str
) -> None:
    monkeypatch.setattr(MemoryTransaction, method, mistake)
    contract = InMemory()
    contract.store = MemoryStore()
    assert said in _found(contract)
