"""Values as literals in the SQL text of MariaDB and MySQL.

Most drivers escape values one by one in Python, which took half of a group's time. Here, msgspec
writes them as JSON: texts in double quotes, integers, true, false and null are the same in SQL,
unless a text needs an escape. Such a text is written as hexadecimal digits, like bytes.

The literals are valid in every `sql_mode` without ANSI_QUOTES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

from hookrow.stores.sql._dialects.mariadb import MARIADB
from hookrow.stores.sql._dialects.times_as_text import time_as_text

LONG_TEXT = 200
"""Characters from which a text is written as hexadecimal digits without trying JSON first.

Most longer ones need an escape, and the server reads digits faster than a text in quotes.
"""

_BACKSLASH = "\\"
"""Begins every escape in JSON, which would mean something else in SQL."""

_encode = msgspec.json.Encoder().encode


class Fragment(str):
    """SQL text in place of a parameter, for hookrow's own connections."""

    __slots__ = ()


def with_literals(sql: str, parameters: Sequence[Any]) -> str:
    """Return the text of a statement with its parameters."""
    return sql % tuple(map(literal, parameters))


def literal(value: Any) -> str:  # noqa: ANN401 - any type of a parameter
    """Return a value as SQL text."""
    write = _WRITERS.get(type(value))
    if write is not None:
        return write(value)
    written = MARIADB.write(value)
    # The server converts the text of a value to the type of its column.
    return _text(str(written)) if type(written) is type(value) else literal(written)


def row_literal(row: Sequence[Any]) -> str:
    """Return the values of a row in parentheses, as in VALUES.

    They are texts, integers, bytes and null, as `Dialect.encode_entries` returns them. Most rows
    are written with one call of the encoder, because no text needs an escape.
    """
    encoded = _json(
        [
            msgspec.Raw(_digits(value).encode())
            if isinstance(value, bytes) or (isinstance(value, str) and len(value) > LONG_TEXT)
            else value
            for value in row
        ]
    )
    if _BACKSLASH in encoded:
        return f"({', '.join(map(literal, row))})"
    return f"({encoded[1:-1]})"  # instead of the brackets of a JSON array


def joined_rows(rows: Iterable[Sequence[Any]], most: int) -> Iterator[Fragment]:
    """Yield texts with rows as in VALUES, each of at most `most` characters.

    A text with a single row may have more.
    """
    literals: list[str] = []
    size = 0
    for row in map(row_literal, rows):
        if literals and size + len(row) > most:
            yield Fragment(", ".join(literals))
            literals, size = [], 0
        literals.append(row)
        size += len(row) + len(", ")
    if literals:
        yield Fragment(", ".join(literals))


def _text(value: str) -> str:
    if len(value) <= LONG_TEXT:
        quoted = _json(value)
        if _BACKSLASH not in quoted:
            return quoted
    return _digits(value)


def _digits(value: str | bytes) -> str:
    """Return a text or bytes as hexadecimal digits."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return f"_utf8mb4 x'{value.encode().hex()}'"


def _json(value: object) -> str:
    return _encode(value).decode()


_WRITERS: Mapping[type[object], Callable[[Any], str]] = {
    Fragment: str,
    str: _text,
    bytes: _digits,
    datetime: lambda value: f"'{time_as_text(value)}'",
    **dict.fromkeys((int, bool, type(None)), _json),
    Decimal: str,
}
"""By the type of a value. Values of other types are converted by the dialect first."""
