"""Parameters of MariaDB and MySQL as literals in the text of a statement.

The drivers do the same, but most in Python, value by value: that took half of the time of a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from hookrow.stores.sql._dialects.mariadb import Rows

LONG_TEXT = 200
"""Characters from which a text is written as hexadecimal digits at once: most have a character that
would need an escape, and digits take the server less time than quotes."""

_encode = msgspec.json.Encoder().encode


def with_literals(sql: str, parameters: Sequence[Any]) -> str:
    """Return the text of a statement with its parameters."""
    return sql % tuple(map(_parameter, parameters))


def row_literal(row: Sequence[Any]) -> str:
    """Return the values of a row in parentheses, as in VALUES.

    JSON writes values as SQL does, except for special characters, which have other escapes.
    """
    raw = [
        msgspec.Raw(_digits(value).encode())
        if isinstance(value, bytes) or (isinstance(value, str) and len(value) > LONG_TEXT)
        else value
        for value in row
    ]
    encoded = _encode(raw).decode()
    if "\\" in encoded:
        return f"({', '.join(map(literal, row))})"
    return f"({encoded[1:-1]})"


def literal(value: Any) -> str:  # noqa: ANN401 - any type of a parameter
    """Return a value as a literal that is the same in every `sql_mode` without ANSI_QUOTES."""
    if isinstance(value, bytes):
        return _digits(value)
    if not isinstance(value, str):  # a number, a boolean or None: JSON's null is SQL's
        return _encode(value).decode()
    if len(value) <= LONG_TEXT:
        quoted = _encode(value).decode()
        if "\\" not in quoted:
            return quoted
    return _digits(value)


def joined(rows: Iterable[Sequence[Any]], most: int) -> Iterator[str]:
    """Yield the literals of rows, as many together as have at most so many bytes.

    A single row may have more.
    """
    literals: list[str] = []
    size = 0
    for row in map(row_literal, rows):
        if literals and size + len(row) > most // _WIDEST:
            yield ", ".join(literals)
            literals, size = [], 0
        literals.append(row)
        size += len(row) + len(", ")
    if literals:
        yield ", ".join(literals)


_WIDEST = 4
"""Bytes of the widest character in UTF-8."""


def _parameter(value: Any) -> str:  # noqa: ANN401 - any type of a parameter
    if isinstance(value, Rows):
        return ", ".join(map(row_literal, value))
    return literal(value)


def _digits(value: str | bytes) -> str:
    """Return a text or bytes as hexadecimal digits, which need no escapes."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return f"_utf8mb4 x'{value.encode().hex()}'"
