"""Interprets the rows of `information_schema.columns` of MariaDB and MySQL. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from string import ascii_lowercase
from typing import NamedTuple
from uuid import UUID

from hookrow.stores.sql._columns import Column, Convert
from hookrow.stores.sql._conversions import uuid_of_digits

COLUMN_FIELDS = """column_name, data_type, column_type, is_nullable = 'YES', extra,
    column_default IS NOT NULL AND column_default <> 'NULL',
    character_maximum_length, character_octet_length, character_set_name, collation_name,
    datetime_precision, privileges, generation_expression"""
"""The expressions that select a `ColumnRow`."""


class ColumnRow(NamedTuple):
    """A row of `information_schema.columns`."""

    name: str
    data_type: str
    """The name of the type, such as `int`."""
    declared: str
    """The type as it is declared, such as `int(11) unsigned`."""
    nullable: int
    extra: str
    has_default: int
    length: int | None
    """Characters of the longest text."""
    size: int | None
    """Bytes of the longest text."""
    charset: str | None
    collation: str | None
    fraction: int | None
    """Digits of the fraction of a second."""
    privileges: str
    """The privileges of the user, in lower case, separated by commas."""
    expression: str | None
    """The expression of a generated column."""


class Collation(NamedTuple):
    """How a collation treats ASCII letters, wherever they are in a text."""

    ignores_case: bool
    """Whether a capital letter equals its lower-case form.

    Many collations whose names end with `_ci` distinguish some: to a Turkish one, I is the capital
    of a dotless letter; to a Danish one, aa is a single letter, as Aa and AA are, but aA is not.
    """
    lowers_ascii: bool
    """Whether the function lower() converts every capital letter to its lower-case form."""


COMPLETE_CHARSET = "utf8mb4"
"""The character set in UTF-8 with all characters of Unicode."""

UNICODE_BINARY = Collation(ignores_case=False, lowers_ascii=True)
"""The properties of the binary collation of Unicode."""


def collation_query(collations: Iterable[tuple[str, str]]) -> tuple[str, Sequence[str]]:
    """Return a query and its parameters, given the names of collations and their character sets.

    It returns, for each collation, a row with its name and the fields of its `Collation`.
    """
    selects = (
        f"SELECT '{name}', CONVERT(small USING {charset}) COLLATE {name} "
        f"= CONVERT(mixed USING {charset}), "
        f"CONVERT(lower(CONVERT(mixed USING {charset}) COLLATE {name}) USING utf8mb4) "
        "= small COLLATE utf8mb4_bin FROM given"
        for name, charset in collations
    )
    sql = f"WITH given AS (SELECT %s AS small, %s AS mixed) {' UNION ALL '.join(selects)}"
    return sql, [_SMALL, _MIXED]


def column_of(row: ColumnRow, collation: Collation | None) -> Column:
    """Return the column that a row describes, given the properties of its collation."""
    name, data_type, charset = row.name, row.data_type, row.charset
    kind = "boolean" if row.declared in _BOOLEANS else _KINDS.get(data_type, data_type)
    labels = _labels(row.declared) if data_type in {"enum", "set"} else ()
    declared = row.declared.replace("%", "%%")
    collated = f" CHARACTER SET {charset} COLLATE {row.collation}" if charset else ""
    granted = row.privileges.upper().split(",")
    return Column(
        name,
        _type_of_value(kind, declared, row.length or 0, row.size or 0) + collated,
        data_type.upper() if labels else _WIDTH.sub("INT", declared.upper()),
        kind,
        nullable=bool(row.nullable),
        generated=" GENERATED" in row.extra,
        default=bool(row.has_default) or "auto_increment" in row.extra,
        holds_uuids=data_type == "uuid" or declared == "char(32)",
        read_key=_READ_KEY.get(declared),
        ignores_case=collation is not None and collation.ignores_case,
        lowers_ascii=collation is None or collation.lowers_ascii,
        finds_rows=data_type in _TYPES_OF_KEYS,
        length=row.length if data_type in _SHORT_TEXTS else None,
        labels=labels,
        denied=[each for each in ("SELECT", "UPDATE") if each not in granted],
        declared=declared + collated,
        charset=charset or "",
        lacks_characters=charset not in {None, COMPLETE_CHARSET},
        collation=row.collation or "",
        is_timestamp=data_type == "timestamp",
        # With null in a UNION, the server returns these as decimal numbers.
        read=int if _IS_LARGE_INTEGER.fullmatch(declared) else None,
        fraction=row.fraction,
        changes_itself="on update" in row.extra.lower(),
    )


def _type_of_value(kind: str, declared: str, length: int, size: int) -> str:
    """Return the type of a value to compare with a column, without the character set of a text.

    JSON_TABLE truncates a text without an error, so the type has room for one more character: a
    value that is too long must not become equal. `length` is in characters, `size` in bytes.
    """
    if kind == "text" and size > _LONGEST_VARCHAR:
        return "longtext"
    if kind in {"text", "enum", "set"}:
        # A CHAR(32) may hold the digits of a UUID, which has 36 characters as a text.
        return (
            f"varchar({max(length, 36) + 1})"
            if declared == "char(32)"
            else f"varchar({length + 1})"
        )
    if kind == "binary":
        return f"varchar({2 * length + 1}) {_HEXADECIMAL}"
    return _TYPES_OF_VALUES.get(kind, declared)


def _labels(declared: str) -> Sequence[str]:
    """Return the values of an ENUM or a SET, given its declaration."""
    quoted = re.findall(r"'((?:[^']|'')*)'", declared)
    return [each.replace("''", "'").replace("\\\\", "\\") for each in quoted]


def _pairs(first: Callable[[str], str], second: Callable[[str], str]) -> str:
    """Return all pairs of ASCII letters, in upper or lower case."""
    return " ".join(first(a) + second(b) for a, b in product(ascii_lowercase, repeat=2))


_SMALL = " ".join([_pairs(str.lower, str.lower)] * 3)
"""Every pair of small letters, because a collation may regard two letters as one."""

_MIXED = " ".join(
    [
        _pairs(str.lower, str.upper),
        _pairs(str.upper, str.lower),
        _pairs(str.upper, str.upper),
    ]
)
"""The same pairs in all other spellings, in the same order."""

_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")

_DATETIMES = ("datetime", "timestamp")

_BYTES = ("binary", "varbinary")

_KINDS = {
    **dict.fromkeys(_TEXTS, "text"),
    **dict.fromkeys((*_INTEGERS, "decimal", "float", "double"), "number"),
    **dict.fromkeys(_DATETIMES, "datetime"),
    **dict.fromkeys(_BYTES, "binary"),
}
"""The kind of a column, by its type; that of other types is their name."""

_TYPES_OF_KEYS = {
    *(*_TEXTS, *_INTEGERS, *_DATETIMES, *_BYTES),
    *("decimal", "double", "date", "year", "enum", "set", "uuid"),
}
"""The types of keys: a value of them that a driver returns finds its row, also through JSON_TABLE.

A FLOAT is rounded when it is read, a driver returns a TIME as a duration, and a BIT as bytes."""

_SHORT_TEXTS = {"char", "varchar", "tinytext", "text"}
"""The types whose length matters; that of the others exceeds any value of hookrow's."""

_LONGEST_VARCHAR = 16_383
"""Bytes of the longest text that is a VARCHAR as a value: those of one row have 65,535 together."""

_HEXADECIMAL = "CHARACTER SET ascii COLLATE ascii_bin"
"""The character set of digits; that of a host's tables may be one that takes more bytes."""

_TYPES_OF_VALUES = {
    "boolean": "tinyint",
    "datetime": "datetime(6)",
    "uuid": f"varchar(37) {_HEXADECIMAL}",
}
"""The types of values that differ from those of their columns, by the kind of column.

A text is converted to a UUID, by whose index it is found; JSON_TABLE has no such type.
"""

_READ_KEY: Mapping[str, Convert] = {"uuid": UUID, "char(32)": uuid_of_digits}
"""The conversions of keys to UUIDs, by the declaration of the column."""

_WIDTH = re.compile(r"INT\((?!1\))\d+\)")
"""The width of an integer in MariaDB's catalogue, which has no effect; 1 stands for BOOLEAN."""

_BOOLEANS = {"tinyint(1)", "bit(1)"}
"""The type to which BOOLEAN is an alias, and the one that some libraries use for it."""

_IS_LARGE_INTEGER = re.compile(r"\w*int(\(\d+\))? unsigned.*|decimal\(\d+,0\).*")
"""The integers that do not fit into a signed number of the same size."""
