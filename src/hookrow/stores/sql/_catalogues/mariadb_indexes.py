"""Interprets the rows of `information_schema.statistics` of MariaDB and MySQL. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import dropwhile, groupby, takewhile
from operator import attrgetter
from typing import NamedTuple

_INDEX_FIELDS = """index_name, non_unique = 0, index_type = 'BTREE' AND {is_visible}, column_name,
    {expression}, sub_part IS NULL"""

MARIADB_INDEX_FIELDS = _INDEX_FIELDS.format(is_visible="ignored = 'NO'", expression="NULL")
"""The expressions that select an `IndexRow` on MariaDB."""

MYSQL_INDEX_FIELDS = _INDEX_FIELDS.format(is_visible="is_visible = 'YES'", expression="expression")
"""The expressions that select an `IndexRow` on MySQL."""


class IndexRow(NamedTuple):
    """A row of `information_schema.statistics`: a part of an index."""

    name: str
    """The name of the index."""
    is_unique: int
    is_usable: int
    column: str | None
    expression: str
    """The expression of the part, if it is not a column."""
    is_whole: int


class TableIndex(NamedTuple):
    """An index: its columns, or the expressions that it is on, as SQL text.

    `is_whole` is whether it has whole texts, not only their beginnings, and `is_usable` whether the
    planner may search it. One that is invisible or ignored keeps its columns unique all the same.
    """

    parts: Sequence[str]
    is_unique: bool
    is_whole: bool
    is_usable: bool

    def finds(self, part: str, fixed: Collection[str]) -> bool:
        """Return whether the index finds rows by one of its parts.

        The other parts before it are `fixed`: a condition compares them with values, too.
        """
        return self.is_usable and part in takewhile(fixed.__contains__, self.parts)

    def sorts(self, order: Sequence[str], fixed: Collection[str], primary: Sequence[str]) -> bool:
        """Return whether the index has the rows in an order, if some parts are `fixed`.

        The columns of the primary key follow those of any other index.
        """
        rest = [*dropwhile(fixed.__contains__, [*self.parts, *primary])]
        return self.is_usable and self.is_whole and rest[: len(order)] == [*order]


def indexes_of(rows: Iterable[IndexRow], part: Callable[[IndexRow], str]) -> Sequence[TableIndex]:
    """Return the indexes, given the rows in order, and how to write a part as SQL text."""
    found = []
    for _, grouped in groupby(rows, attrgetter("name")):
        of_index = [*grouped]
        is_unique, is_usable = bool(of_index[0].is_unique), bool(of_index[0].is_usable)
        is_whole = all(row.is_whole for row in of_index)
        found.append(TableIndex([*map(part, of_index)], is_unique, is_whole, is_usable))
    return found
