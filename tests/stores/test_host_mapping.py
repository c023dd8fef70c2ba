"""The contract that a host runs against its own mapping: it holds, and it finds mistakes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from unittest import TestCase

import pytest
from homes import OURS, SPARSE, THEIRS, UNDATED, Home, MemoryHome, SQLHome

from hookrow import Role, Schema
from hookrow.entry import Entry
from hookrow.notification import Change, Key, Mentioned, RowId, Rows, Suppressible
from hookrow.stores import State, Store
from hookrow.stores.memory import MemoryStore, MemoryTransaction
from hookrow.stores.sql import SQLStore
from hookrow.testing import StoreContract


@pytest.fixture(
    scope="class",
    params=[
        *(("memory", OURS), ("memory", UNDATED)),
        *(("sqlite", OURS), ("sqlite", THEIRS), ("sqlite", UNDATED), ("sqlite", SPARSE)),
        *(("postgres", OURS), ("postgres", THEIRS)),
    ],
    ids=lambda param: f"{param[0]}-{param[1].subscribers.table}-{param[1].log}",
)
def home(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Home]:
    """Make our own tables and those of hosts, in every place."""
    place, schema = request.param
    if place == "memory":
        yield MemoryHome(schema)
        return
    with closing(SQLHome(new_database(place), schema)) as home:
        yield home


class TestMappings(StoreContract):
    """The contract over every home."""

    @pytest.fixture(autouse=True)
    def mapped(self, home: Home) -> None:
        """Begin without rows."""
        self.place, self.store, self.numbers = home, home.store, count(1)
        home.fill()

    def add_subscriber(self, email: str) -> Key:
        """Save a subscriber."""
        return self._add("subscribers", email=email)

    def add_dispatch(self, message_id: str | None, subscriber: Key, list_: Key | None) -> Key:
        """Save a dispatch."""
        named = {"provider_message_id": message_id, "subscriber_id": subscriber, "list_id": list_}
        return self._add("dispatches", **named)

    def add_list(self) -> Key | None:
        """Name a list, where there are lists: a home makes those that rows name."""
        has_lists = "subscriptions" in self.place.schema.roles
        return self.place.key(next(self.numbers)) if has_lists else None

    def add_subscription(self, list_: Key, subscriber: Key) -> None:
        """Save a subscription."""
        self._add("subscriptions", list_id=list_, subscriber_id=subscriber)

    def _add(self, name: str, **row: Any) -> Key:  # noqa: ANN401 - whatever a column holds
        key, rows = self.place.key(next(self.numbers)), self.place.rows()
        rows[name].append({"id": key, **row})
        self.place.fill(**rows)
        return key


class InMemory(StoreContract):
    """The contract over dicts; the store may be a faulty one."""

    store: MemoryStore

    def add_subscriber(self, email: str) -> Key:
        """Save a subscriber."""
        key = len(self.store.subscribers) + 1
        self.store.subscribers[key] = {"email": email}
        return key

    def add_dispatch(self, message_id: str | None, subscriber: Key, list_: Key | None) -> Key:
        """Save a dispatch."""
        key = len(self.store.dispatches) + 1
        named = {"provider_message_id": message_id, "subscriber_id": subscriber, "list_id": list_}
        self.store.dispatches[key] = named
        return key


class TestUnderUnittest(InMemory, TestCase):
    """It runs without a fixture, as Django's tests do."""

    def setUp(self) -> None:
        """Begin without rows."""
        self.store = MemoryStore()


TABLES = """
CREATE TABLE people (id INTEGER PRIMARY KEY, address TEXT, login TEXT, deleted INTEGER DEFAULT 0,
    suppressed_at, suppression_reason, suppression_changed_at);
CREATE TABLE members (group_id INTEGER, person_id INTEGER,
    suppressed_at, suppression_reason, suppression_changed_at);
CREATE TABLE sends (id INTEGER PRIMARY KEY, postmark_id TEXT, ticket TEXT, person_id INTEGER,
    author_id INTEGER, group_id INTEGER, team_id INTEGER, delivered_at, opened_at,
    suppressed_at, suppression_reason, suppression_changed_at);
"""


class AtAHost(StoreContract):
    """The contract over the tables of a host, with a mapping that may be wrong.

    There are people before there are groups, so that no two keys are the same.
    """

    def __init__(self, folder: Path, mapped: dict[str, dict[str, str]]) -> None:
        self._file = folder / "host.db"
        with closing(self._connect()) as connection:
            connection.executescript(TABLES)
        self._save("people", id=100)
        people, sends, members = (mapped.get(name, {}) for name in ("people", "sends", "members"))
        named = {"provider_message_id": "postmark_id", "subscriber_id": "person_id"}
        keys = {"list_id": "group_id", "subscriber_id": "person_id"}
        self.store: Store = SQLStore(
            f"sqlite:///{self._file}",
            Schema(
                subscribers=Role("people", {"email": "address"} | people),
                dispatches=Role("sends", named | {"list_id": "group_id"} | sends),
                subscriptions=Role("members", keys | members),
                log=None,
            ),
        )

    def add_subscriber(self, email: str) -> Key:
        """Save a person."""
        return self._save("people", address=email, login=f"login-{email}")

    def add_dispatch(self, message_id: str | None, subscriber: Key, list_: Key | None) -> Key:
        """Save a send, of which the author is somebody else."""
        named = {"postmark_id": message_id, "person_id": subscriber, "group_id": list_}
        return self._save("sends", **named, ticket=f"t-{message_id}", author_id=100, team_id=9)

    def add_list(self) -> Key:
        """Name a group, of which there is no table."""
        return 1

    def add_subscription(self, list_: Key, subscriber: Key) -> None:
        """Save a member."""
        self._save("members", group_id=list_, person_id=subscriber)

    def _save(self, table: str, **row: object) -> int:
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        with closing(self._connect()) as connection, connection:
            statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"
            return connection.execute(statement, list(row.values())).lastrowid or 0

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file)


class SeesForItself(AtAHost):
    """Reads rows by a way that is not the store's."""

    def read(self, row: RowId) -> State | None:
        """Read the times of a send, or nothing."""
        kind, key = row
        if kind is not Suppressible.DISPATCH:
            return {}
        with closing(self._connect()) as connection:
            select = "SELECT delivered_at, opened_at FROM sends WHERE id = ?"
            found = connection.execute(select, [key]).fetchone()
        return dict(zip(("delivered_at", "opened_at"), map(bool, found), strict=True))


def _names(contract: type[StoreContract]) -> list[str]:
    return [name for name in dir(contract) if name.startswith("test_")]


def _found(contract: StoreContract) -> str:
    """Run every test of a contract; return what it says is wrong."""
    said = []
    for name in _names(type(contract)):
        try:
            getattr(contract, name)()
        except AssertionError as error:
            said.append(str(error))
    return "\n".join(said)


class TestMistakes:
    def test_a_right_mapping(self, tmp_path: Path) -> None:
        """Nothing is said of a mapping that is right, whatever other columns there are."""
        assert _found(AtAHost(tmp_path, {})) == ""

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
            (
                {"members": {"list_id": "person_id", "subscriber_id": "group_id"}},
                "Among the subscriptions the store finds no row with the key (1, 1",
            ),
            ({"people": {"id": "deleted"}}, "Among the subscribers the store finds no row"),
        ],
    )
    def test_a_wrong_column(
        self, tmp_path: Path, mapped: dict[str, dict[str, str]], said: str
    ) -> None:
        """A column taken for another is found, and the message says where to look."""
        assert said in _found(AtAHost(tmp_path, mapped))

    def test_two_columns_taken_for_each_other(self, tmp_path: Path) -> None:
        """The store reads them as it wrote them; a way of one's own to read finds it."""
        swapped = {"sends": {"delivered_at": "opened_at", "opened_at": "delivered_at"}}
        said = _found(SeesForItself(tmp_path, swapped))
        assert "After a delivery, delivered_at of the dispatches' row" in said

    def test_what_has_to_be_defined_is_told(self) -> None:
        """A subclass that does not say how rows are saved is told what to define."""
        contract = StoreContract()
        with pytest.raises(NotImplementedError, match=r"Set self\.store, in a fixture"):
            _ = StoreContract().store
        with pytest.raises(NotImplementedError, match="add_subscriber"):
            contract.test_a_delivery_sets_its_time()
        with pytest.raises(NotImplementedError, match="add_dispatch"):
            contract.add_dispatch(None, 1, None)
        with pytest.raises(NotImplementedError, match="add_subscription"):
            contract.add_subscription(1, 1)


class TestFaultyStores:
    """Mistakes that a store of one's own could make."""

    def _found(self) -> str:
        contract = InMemory()
        contract.store = MemoryStore()
        return _found(contract)

    def test_it_takes_back_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A transaction that fails and leaves what it saved is found."""
        monkeypatch.setattr(MemoryTransaction, "rollback", lambda _: None)
        assert "After a transaction that failed, suppressed_at" in self._found()

    def test_it_guards_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Changes that apply whatever is there already are found."""
        write = MemoryTransaction.write

        def unguarded(
            transaction: MemoryTransaction, changes: list[Change], entries: Sequence[Entry] = ()
        ) -> None:
            for change in changes:
                object.__setattr__(change, "guarded", False)
            write(transaction, changes, entries)

        monkeypatch.setattr(MemoryTransaction, "write", unguarded)
        said = self._found()
        assert "After a suppression that came late, suppressed_at of the subscribers'" in said
        assert "After a replay of something older" in said

    def test_it_is_not_exact(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Message ids that match in another case are found."""
        find = MemoryTransaction.find

        def lax(transaction: MemoryTransaction, mentioned: Mentioned) -> Rows:
            ids = {each.lower() for each in mentioned.message_ids}
            found = find(transaction, replace(mentioned, message_ids=ids))
            by_id = {each: found.dispatches.get(each.lower(), ()) for each in mentioned.message_ids}
            return replace(found, dispatches=by_id)

        monkeypatch.setattr(MemoryTransaction, "find", lax)
        assert "has to be (404, 'Engine::Dispatch not found')" in self._found()

    def test_it_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A store that raises answers 503, and the message says where the reason is."""
        monkeypatch.setattr(MemoryTransaction, "write", None)
        contract = InMemory()
        contract.store = MemoryStore()
        with pytest.raises(AssertionError, match="The log of `hookrow` says what went wrong"):
            contract.test_a_delivery_sets_its_time()
