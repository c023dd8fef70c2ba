"""The contract that a host runs against its own mapping: it passes, and finds mistakes."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias
from unittest import TestCase

import pytest

from hookrow import Role, Schema
from hookrow.entry import Entry
from hookrow.notification import Change, Key
from hookrow.stores import Store
from hookrow.stores.memory import MemoryStore, MemoryTransaction
from hookrow.stores.sql import SQLStore
from hookrow.testing import StoreContract


class InMemory(StoreContract):
    """The contract over dicts."""

    store: MemoryStore

    def add_subscriber(self, email: str) -> Key:
        """Insert a subscriber."""
        return self._add(self.store.subscribers, email=email)

    def add_dispatch(self, message_id: str | None, subscriber: Key, list_: Key | None) -> Key:
        """Insert a dispatch."""
        named = {"provider_message_id": message_id, "subscriber_id": subscriber, "list_id": list_}
        return self._add(self.store.dispatches, **named)

    def _add(self, table: dict[Key, dict[str, Any]], **row: Key | None) -> Key:
        table[len(table) + 1] = row
        return len(table)


class TestUnderUnittest(InMemory, TestCase):
    """The contract runs without fixtures, as Django's tests do."""

    def setUp(self) -> None:
        """Start without rows."""
        self.store = MemoryStore()


def _found(contract: StoreContract) -> str:
    """Run every test of a contract; return the messages of those that fail."""
    failures = []
    for name in (name for name in dir(contract) if name.startswith("test_")):
        try:
            getattr(contract, name)()
        except (AssertionError, TypeError) as error:  # the latter from a faulty store
            failures.append(str(error))
    if isinstance(contract.store, SQLStore):
        contract.store.close()
    return "\n".join(failures)


TABLES = """
CREATE TABLE people (id INTEGER PRIMARY KEY, address TEXT, login TEXT, deleted INTEGER DEFAULT 0,
    suppressed_at, suppression_reason, suppression_changed_at);
CREATE TABLE members (group_id INTEGER, person_id INTEGER,
    suppressed_at, suppression_reason, suppression_changed_at);
CREATE TABLE sends (id INTEGER PRIMARY KEY, postmark_id TEXT, ticket TEXT, person_id INTEGER,
    author_id INTEGER, group_id INTEGER, team_id INTEGER, delivered_at, opened_at,
    suppressed_at, suppression_reason, suppression_changed_at);
"""


Mapped: TypeAlias = Mapping[str, Mapping[str, str | None] | None]
"""Of each table: which of its columns are others than usual, or None if it has no role."""

REST = dict.fromkeys(("suppressed_at", "suppression_reason", "suppression_changed_at"))
UNDATED: Mapped = {
    "people": {"suppression_changed_at": None, "suppression_reason": None},
    "sends": {"suppression_changed_at": None},
    "members": {"suppression_changed_at": None},
}
SPARSE: Mapped = {"sends": {"list_id": None, **REST}, "members": None}


class AtAHost(StoreContract):
    """The contract over the tables of a host, with a mapping that may be wrong."""

    def __init__(self, folder: Path, mapped: Mapped) -> None:
        self._file = folder / "host.db"
        with closing(self._connect()) as connection:
            connection.executescript(TABLES)
        self._save("people", id=100)  # so that keys of people and groups differ
        keys = {"list_id": "group_id", "subscriber_id": "person_id"}
        people, sends, members = (
            Role(table, {**columns, **each})
            if (each := mapped.get(table, {})) is not None
            else None
            for table, columns in (
                ("people", {"email": "address"}),
                ("sends", {"provider_message_id": "postmark_id", **keys}),
                ("members", keys),
            )
        )
        assert people is not None
        assert sends is not None
        schema = Schema(subscribers=people, dispatches=sends, subscriptions=members, log=None)
        self.store: Store = SQLStore(f"sqlite:///{self._file}", schema)
        self._has_lists = members is not None

    def add_subscriber(self, email: str) -> Key:
        """Insert a person."""
        return self._save("people", address=email, login=f"login-{email}")

    def add_dispatch(self, message_id: str | None, subscriber: Key, list_: Key | None) -> Key:
        """Insert a send, whose author is another person."""
        named = {"postmark_id": message_id, "person_id": subscriber, "group_id": list_}
        return self._save("sends", **named, ticket=f"t-{message_id}", author_id=100, team_id=9)

    def add_list(self) -> Key | None:
        """Name a group, for which there is no table."""
        return 1 if self._has_lists else None

    def add_subscription(self, list_: Key, subscriber: Key) -> None:
        """Insert a member."""
        self._save("members", group_id=list_, person_id=subscriber)

    def _save(self, table: str, **row: object) -> int:
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        with closing(self._connect()) as connection, connection:
            statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"
            return connection.execute(statement, list(row.values())).lastrowid or 0

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file)


WRITE = MemoryTransaction.write


class TestMistakes:
    @pytest.mark.parametrize("mapped", [{}, UNDATED, SPARSE], ids=["full", "undated", "sparse"])
    def test_none(self, tmp_path: Path, mapped: Mapped) -> None:
        """The contract passes for a right mapping, whatever columns and roles it has."""
        assert _found(AtAHost(tmp_path, mapped)) == ""

    @pytest.mark.parametrize(
        ("mapped", "said"),
        [
            ({"people": {"email": "login"}}, "Is the email of the subscribers the column"),
            ({"sends": {"provider_message_id": "ticket"}}, "Is the provider_message_id of the"),
            ({"sends": {"subscriber_id": "author_id"}}, "Is the subscriber_id of the dispatches"),
            (
                {"sends": {"list_id": "team_id"}},
                "After a suppression, suppressed_at of the subscriptions' row (1, 1",
            ),
            ({"people": {"id": "deleted"}}, "Among the subscribers the store finds no row"),
        ],
        ids=["email", "message-id", "owner", "list", "key"],
    )
    def test_a_wrong_column(self, tmp_path: Path, mapped: Mapped, said: str) -> None:
        """The message for a wrong column names the mapping to check."""
        assert said in _found(AtAHost(tmp_path, mapped))


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
    """The contract finds the mistakes of a custom store."""
    monkeypatch.setattr(MemoryTransaction, method, mistake)
    contract = InMemory()
    contract.store = MemoryStore()
    assert said in _found(contract)
