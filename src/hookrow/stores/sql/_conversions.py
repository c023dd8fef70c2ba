"""Converts values between hookrow and columns that store them in another form.

Conversions exist only for a host's custom field types and for columns of UUIDs. These may be keys,
which have one type in Python on every database, and a host may store message ids in them, because
the provider's are GUIDs. All other columns cost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from hookrow._core.notification import Suppressible
from hookrow._core.schema import KEYS
from hookrow.stores.sql._columns import Column, Convert
from hookrow.stores.sql._connections import Row
from hookrow.stores.sql._dialects.base import GUID_PATTERN

K = TypeVar("K")
T = TypeVar("T")

Converters: TypeAlias = Mapping[int, Convert]
"""The conversions of a row's values, by their index in the row."""

LIST = 4
"""The index of a list's key in the rows of `Statements.find`."""

_TENANTS = (5, 6)
"""The indexes of tenants in the same rows."""

_SAME_KEYS = (
    (("subscribers", "id"), ("dispatches", "subscriber_id"), ("subscriptions", "subscriber_id")),
    (("dispatches", "id"),),
    (("dispatches", "list_id"), ("messages", "list_id"), ("subscriptions", "list_id")),
)
"""The columns that hold the same keys, which are compared in Python."""

_DIGITS_FORMAT = re.compile("[0-9a-f]{32}")
"""The form in which SQLAlchemy and Django store a UUID in a column of text."""

_GUID_FORMAT = re.compile(GUID_PATTERN, re.IGNORECASE)
"""The canonical form, in upper or lower case: the provider sends no other."""


class Conversions:
    """The conversions of all roles' columns.

    `written` are the columns that notifications set, `tenants` those with the tenants of rows, and
    `flags` the boolean columns in place of times.
    """

    def __init__(
        self,
        columns: Mapping[str, Mapping[str, Column]],
        written: Mapping[Suppressible, Sequence[str]],
        tenants: Mapping[str, Column],
        flags: Mapping[Suppressible, Collection[str]] = MappingProxyType({}),
    ) -> None:
        self._columns = columns
        self._readers = _readers_of_keys(columns)
        lists = "messages" if "messages" in columns else "dispatches"
        are_uuids = any(each.holds_uuids or each.kind == "binary" for each in tenants.values())
        self.tenant: Callable[[str], str] | None = digits_of_guid if are_uuids else None
        """The conversion of the text of a tenant; None if the texts are compared as they are."""
        self.found: Converters = _present(
            {
                0: self.read("subscribers", "id"),
                3: self.read("dispatches", "id"),
                LIST: self.read(lists, "list_id"),
                **dict.fromkeys(_TENANTS, self.tenant),
            }.items()
        )
        """The conversions of the rows of `Statements.find`."""
        self.state: dict[Suppressible, Converters] = {}
        """The conversions of the rows of `Statements.state` and `lock`, keys first."""
        self._writes: dict[Suppressible, Mapping[str, Convert]] = {}
        for kind, names in written.items():
            named = {f"key_{n}": columns[kind.value][field] for n, field in enumerate(KEYS[kind])}
            named |= {field: columns[kind.value][field] for field in names}
            fields = [*KEYS[kind], *names]
            self.state[kind] = _present(enumerate(self.read(kind.value, each) for each in fields))
            self._writes[kind] = _present((name, column.write) for name, column in named.items())
        self._flags = {kind: names for kind, names in flags.items() if names}
        self.pairs: Converters = self._pairs()
        """The conversions of the rows of `Statements.select_pairs`."""
        self.are_needed: bool = any(
            (self.found, self._flags, *self.state.values(), *self._writes.values())
        )
        """Whether any column has a conversion."""

    def read(self, role: str, name: str) -> Convert | None:
        """Return the conversion of a column's values; None if there is none, or no such column."""
        column = self._columns.get(role, {}).get(name)
        return self._readers.get((role, name), column.read) if column else None

    def keys(self, kind: Suppressible, keys: Collection[Any]) -> Sequence[Sequence[Any]]:
        """Return the parts of each key, as the columns store them."""
        rows = [key if isinstance(key, tuple) else (key,) for key in keys]
        if not self._writes.get(kind):
            return rows
        named = [{f"key_{n}": part for n, part in enumerate(row)} for row in rows]
        return [list(self.stored(kind, each).values()) for each in named]

    def stored(self, kind: Suppressible, values: dict[str, Any]) -> dict[str, Any]:
        """Return values, by the names of parameters in `_statements`, as columns store them."""
        for name in self._flags.get(kind, ()):
            if name in values:  # a number, because MariaDB reads the flags of JSON as text
                values[name] = int(values[name] is not None)
        writes = self._writes.get(kind)
        if not writes:
            return values
        return {
            name: writes[name](value) if name in writes and value is not None else value
            for name, value in values.items()
        }

    def _pairs(self) -> Converters:
        kind = Suppressible.SUBSCRIPTION
        if kind.value not in self._columns:
            return {}
        key = [self.read(kind.value, name) for name in KEYS[kind]]
        return _present(enumerate([*key, *key, self.tenant]))


def converted(rows: Sequence[Row], converters: Converters) -> Sequence[Row]:
    """Return rows with their values converted. None stays None."""
    if not converters:
        return rows
    return [
        [
            converters[index](value) if index in converters and value is not None else value
            for index, value in enumerate(row)
        ]
        for row in rows
    ]


def _readers_of_keys(
    columns: Mapping[str, Mapping[str, Column]],
) -> Mapping[tuple[str, str], Convert]:
    """Return the conversions of keys to UUIDs, by role and column.

    Keys are texts if any column that refers to them holds other texts, such as a CHAR(36).
    """
    readers: dict[tuple[str, str], Convert] = {}
    for same in _SAME_KEYS:
        present = [(role, name) for role, name in same if name in columns.get(role, ())]
        read = {(role, name): columns[role][name].read_key for role, name in present}
        if None not in read.values():
            readers |= _present(read.items())
    return readers


def _present(converters: Iterable[tuple[K, Convert | None]]) -> dict[K, Convert]:
    return {key: convert for key, convert in converters if convert is not None}


def message_ids_as_stored(message_ids: Iterable[str]) -> Collection[str]:
    """Return the GUIDs among the ids, unchanged and as 32 digits: SQLite may store either."""
    guids = {each for each in message_ids if _GUID_FORMAT.fullmatch(each)}
    return guids | {_digits(each) for each in guids}


def by_message_id(message_ids: Iterable[str], values: Mapping[str, T]) -> dict[str, T]:
    """Return values by message id in the provider's spelling, given values by stored GUID."""
    by_digits = {_digits(guid): each for guid, each in values.items()}
    return {
        message_id: by_digits[_digits(message_id)]
        for message_id in message_ids
        if _GUID_FORMAT.fullmatch(message_id) and _digits(message_id) in by_digits
    }


def uuid_of_digits(stored: Any) -> Any:  # noqa: ANN401 - of a column without a type
    """Return 32 hexadecimal digits in lower case as a UUID; another value is returned unchanged."""
    if isinstance(stored, str) and _DIGITS_FORMAT.fullmatch(stored):
        return UUID(stored)
    return stored


def guid(stored: str) -> str:
    """Return a stored GUID in the provider's spelling; another text is returned unchanged."""
    try:
        return str(UUID(stored))
    except ValueError:
        return stored


def digits_of_guid(text: str) -> str:
    """Return a GUID as its digits, which a column of bytes or of 32 characters stores.

    Another text is returned unchanged, so that different tenants stay different.
    """
    return _digits(text) if _GUID_FORMAT.fullmatch(text) else text


def _digits(guid: str) -> str:
    return guid.replace("-", "").lower()
