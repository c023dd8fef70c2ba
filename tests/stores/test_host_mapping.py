"""The contract that a host runs against its own mapping: it passes, and finds mistakes.

`docs/test_testing_page.py` runs it over a database.
"""

from collections.abc import Mapping
from contextlib import closing
from datetime import datetime

import pytest

from copying import replace
from engines import MEMORY
from hookrow import Key, Role, Schema
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._dialects.base import utc
from hookrow.testing import StoreContract

SUPPRESSION = "suppressed_at TIMESTAMP, suppression_reason TEXT, suppression_changed_at TIMESTAMP"
PEOPLE = f"CREATE TABLE people (id INTEGER PRIMARY KEY, team TEXT, email TEXT, {SUPPRESSION})"
SENDS = (
    "CREATE TABLE sends (id INTEGER PRIMARY KEY, provider_message_id TEXT, subscriber_id INTEGER, "
    f"list_id INTEGER, delivered_at TIMESTAMP, opened_at TIMESTAMP, {SUPPRESSION})"
)
MEMBERS = (
    "CREATE TABLE members (list_id INTEGER, subscriber_id INTEGER, "
    f"{SUPPRESSION}, PRIMARY KEY (list_id, subscriber_id))"
)
RECEIPTS = (
    SENDS.replace("sends", "receipts")
    .replace("TIMESTAMP", "BOOLEAN")
    .replace("changed_at BOOLEAN", "changed_at TIMESTAMP")
)
FIRST = "INSERT INTO people (id) VALUES (100)"
"""Makes the keys of people and lists differ."""

SCHEMA = Schema(subscribers=Role("people"), dispatches=Role("sends"), subscriptions=Role("members"))


class InMemory(StoreContract):
    """The contract over a host's tables, with lists, and values in the wrong columns."""

    has_lists: bool
    mistaken: Mapping[str, Key]
    store: SQLStore

    def add_subscriber(self, email: str) -> Key:
        key = self._insert("people", email=self.mistaken.get("email", email))
        return self.mistaken.get("id", key)

    def add_dispatch(self, message_id: str, subscriber: Key, list_: Key | None) -> Key:
        row = {"provider_message_id": message_id, "subscriber_id": subscriber, "list_id": list_}
        wrong = {name: self.mistaken[name] for name in row if name in self.mistaken}
        return self._insert("sends", **{**row, **wrong})

    def add_list(self) -> Key | None:
        return 1 if self.has_lists else None

    def add_subscription(self, list_: Key, subscriber: Key) -> None:
        self._insert("members", list_id=list_, subscriber_id=subscriber)

    def _insert(self, table: str, **row: Key | None) -> Key:
        """Insert a row; return its id."""
        marks = ", ".join(["%s"] * len(row))
        insert = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks}) RETURNING rowid"
        with self.store.database.transaction() as connection:
            ((key,),) = connection.fetch(insert, [*row.values()])
        return int(key)


class OfATenant(InMemory):
    """The contract over tables in which the subscribers have a tenant."""

    tenant = "acme"

    def add_subscriber(self, email: str) -> Key:
        return self._insert("people", email=email, team=self.mistaken.get("team", self.tenant))


class OnlyPeople(InMemory):
    """The contract over a host that has only people."""

    def add_dispatch(self, message_id: str, subscriber: Key, list_: Key | None) -> Key:
        raise NotImplementedError


class WithFlags(InMemory):
    """The contract over a table with flags in place of times."""

    def _insert(self, table: str, **row: Key | None) -> Key:
        return super()._insert("receipts" if table == "sends" else table, **row)


class Reading(InMemory):
    """The same contract, which reads dispatches without the mapping."""

    def read(self, role: str, key: Key | tuple[Key, Key], /) -> Mapping[str, object] | None:
        if role != "dispatches":
            return super().read(role, key)
        select = "SELECT delivered_at, opened_at FROM sends WHERE id = %s"
        with self.store.database.reading() as connection:
            [times] = connection.fetch(select, [key])
        return dict(zip(("delivered_at", "opened_at"), map(utc, times), strict=True))


class Truncating(InMemory):
    """The same contract on times without fractions of a second, as in MariaDB's DATETIME."""

    def read(self, role: str, key: Key | tuple[Key, Key], /) -> Mapping[str, object] | None:
        row = super().read(role, key) or {}
        return {
            name: value.replace(microsecond=0) if isinstance(value, datetime) else value
            for name, value in row.items()
        }


def _failures(
    mistaken: Mapping[str, Key],
    *,
    has_lists: bool = True,
    kind: type[InMemory] = InMemory,
    schema: Schema = SCHEMA,
) -> list[str]:
    """Run every test of the contract, without fixtures; return the messages of those that fail."""
    failures = []
    for name in (name for name in dir(kind) if name.startswith("test_")):
        contract = kind()
        contract.mistaken, contract.has_lists = mistaken, has_lists
        with closing(SQLStore(MEMORY, schema)) as contract.store:
            for statement in (PEOPLE, SENDS, RECEIPTS, MEMBERS, FIRST):
                with contract.store.database.transaction() as connection:
                    connection.execute(statement)
            try:
                getattr(contract, name)()
            except AssertionError as error:
                failures.append(str(error))
    return failures


@pytest.mark.parametrize("has_lists", [True, False])
def test_the_right_columns(*, has_lists: bool) -> None:
    assert _failures({}, has_lists=has_lists) == []


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("email", "a login", "Is the email mapped to the column"),
        ("provider_message_id", "a ticket", "Is provider_message_id mapped to the"),
        ("subscriber_id", 99, "Is subscriber_id mapped to the column"),
        ("list_id", 9, "suppressed_at of the row (1, 1"),
        ("id", 0, "The store finds no row with the key 0 in subscribers"),
    ],
)
def test_a_wrong_column(column: str, value: Key, message: str) -> None:
    """The message names the mapping to check."""
    assert any(message in failure for failure in _failures({column: value}))


def test_no_dispatches() -> None:
    """The contract needs no method that saves one."""
    schema = replace(SCHEMA, dispatches=None, subscriptions=None)
    assert _failures({}, has_lists=False, schema=schema, kind=OnlyPeople) == []


def test_flags() -> None:
    """Flags are compared with what the times would be."""
    assert _failures({}, schema=replace(SCHEMA, dispatches=Role("receipts")), kind=WithFlags) == []
    swapped = {"delivered_at": "opened_at", "opened_at": "delivered_at"}
    schema = replace(SCHEMA, dispatches=Role("receipts", swapped))
    assert _failures({"id": 0}, schema=schema, kind=WithFlags)


def test_tenants() -> None:
    """The rows are those of the contract's tenant, and a receiver finds no others."""
    schema = replace(SCHEMA, subscribers=Role("people", tenant="team"))
    assert _failures({}, kind=OfATenant, schema=schema) == []
    assert _failures({"team": "another"}, kind=OfATenant, schema=schema)


def test_times_without_fractions_of_a_second() -> None:
    """The message names the type to declare."""
    failures = _failures({}, kind=Truncating)
    assert failures
    assert all(
        each.endswith("On MariaDB and MySQL, declare it as DATETIME(6).") for each in failures
    )


def test_swapped_columns() -> None:
    """The store reads them as it writes them, so only the host's own `read` detects them."""
    swapped = {"delivered_at": "opened_at", "opened_at": "delivered_at"}
    schema = replace(SCHEMA, dispatches=Role("sends", swapped))
    assert _failures({}, schema=schema) == []
    assert _failures({}, kind=Reading) == []
    failures = _failures({}, kind=Reading, schema=schema)
    assert any("After a Delivery" in each and "delivered_at" in each for each in failures)


def test_nothing_defined() -> None:
    """The errors of an incomplete subclass name the missing definitions."""
    contract = StoreContract()
    with pytest.raises(NotImplementedError, match="add_subscriber"):
        contract.test_delivery()
    with pytest.raises(NotImplementedError, match="add_dispatch"):
        contract.add_dispatch("m-1", 1, None)
    with pytest.raises(NotImplementedError, match="add_subscription"):
        contract.add_subscription(1, 1)
