"""Converts values between columns and hookrow, where a column stores them in a form of its own.

Only the columns of a host's own types of fields have conversions; all others cost nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from hookrow.core.notification import Suppressible
from hookrow.core.schema import KEYS
from hookrow.stores.sql.columns import Column, Convert
from hookrow.stores.sql.connections import Row

K = TypeVar("K")

Converters: TypeAlias = Mapping[int, Convert]
"""The conversions of a row's values, by place."""

LIST = 4
"""The place of a list's key in the rows of `Queries.find`."""


class Conversions:
    """The conversions of all roles' columns; `written` are those that notifications set."""

    def __init__(
        self,
        columns: Mapping[str, Mapping[str, Column]],
        written: Mapping[Suppressible, Sequence[str]],
    ) -> None:
        self._columns = columns
        lists = "messages" if "messages" in columns else "dispatches"
        self.found = _present(
            {
                0: self.read("subscribers", "id"),
                3: self.read("dispatches", "id"),
                LIST: self.read(lists, "list_id"),
            }.items()
        )
        """Of the rows of `Queries.find`."""
        self.state = {
            kind: _present(enumerate(self.read(kind.value, each) for each in (*KEYS[kind], *names)))
            for kind, names in written.items()
        }
        """Of the rows of `Queries.state`, which begin as those of `Queries.pairs` and locks do."""
        self._writes = {
            kind: _present(
                [
                    *((f"key_{n}", self._write(kind, ours)) for n, ours in enumerate(KEYS[kind])),
                    *((f"new_{ours}", self._write(kind, ours)) for ours in names),
                ]
            )
            for kind, names in written.items()
        }
        self.are_needed = any(
            (self.found, *self.state.values(), *self._writes.values()),
        )

    def read(self, role: str, ours: str) -> Convert | None:
        """Return the conversion of what a column holds, if the role has it and it needs one."""
        column = self._columns[role].get(ours)
        return column.read if column else None

    def keys(self, kind: Suppressible, keys: Collection[Any]) -> Sequence[Sequence[Any]]:
        """Return the parts of each key, as their columns store them."""
        rows = [key if isinstance(key, tuple) else (key,) for key in keys]
        if not self._writes.get(kind):
            return rows
        named = [{f"key_{n}": part for n, part in enumerate(row)} for row in rows]
        return [list(self.stored(kind, each).values()) for each in named]

    def stored(self, kind: Suppressible, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return parameters, by the names that `Update` has for them, as columns store them."""
        writes = self._writes.get(kind)
        if not writes:
            return values
        return {
            name: writes[name](value) if name in writes and value is not None else value
            for name, value in values.items()
        }

    def _write(self, kind: Suppressible, ours: str) -> Convert | None:
        return self._columns[kind.value][ours].write


def converted(rows: Sequence[Row], converters: Converters) -> Sequence[Row]:
    """Return rows with their values converted. None stays None."""
    if not converters:
        return rows
    return [
        [
            converters[place](value) if place in converters and value is not None else value
            for place, value in enumerate(row)
        ]
        for row in rows
    ]


def _present(converters: Iterable[tuple[K, Convert | None]]) -> dict[K, Convert]:
    return {place: convert for place, convert in converters if convert is not None}
