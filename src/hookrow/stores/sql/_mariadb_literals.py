"""Values as literals in the SQL text of MariaDB and MySQL.

Most drivers escape values one by one in Python, which took half of a group's time.
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
"""Characters from which a text is written as hexadecimal digits at once: most have a character that
would need an escape, and digits take the server less time than quotes."""

_encode = msgspec.json.Encoder().encode


class Fragment(str):
    """SQL text in place of a parameter, for hookrow's own connections."""

    __slots__ = ()


def with_literals(sql: str, parameters: Sequence[Any]) -> str:
    """Return the text of a statement with its parameters."""
    return sql % tuple(map(literal, parameters))


def literal(value: Any) -> str:  # noqa: ANN401 - any type of a parameter
    """Return a value as SQL text, which is valid in every `sql_mode` without ANSI_QUOTES."""
    write = _WRITERS.get(type(value))
    if write is not None:
        return write(value)
    written = MARIADB.write(value)
    return _text(str(written)) if type(written) is type(value) else literal(written)


def row_literal(row: Sequence[Any]) -> str:
    """Return the values of a row in parentheses, as in VALUES.

    Texts, numbers and null are written as JSON writes them, all together.
    """
    raw = [
        msgspec.Raw(_digits(value).encode())
        if isinstance(value, bytes) or (isinstance(value, str) and len(value) > LONG_TEXT)
        else value
        for value in row
    ]
    encoded = _encode(raw).decode()
    if "\\" in encoded:  # SQL has other escapes
        return f"({', '.join(map(literal, row))})"
    return f"({encoded[1:-1]})"


def joined_rows(rows: Iterable[Sequence[Any]], most: int) -> Iterator[Fragment]:
    """Yield rows as in VALUES, as many together as have at most so many characters.

    A single row may have more.
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
        quoted = _encode(value).decode()
        if "\\" not in quoted:
            return quoted
    return _digits(value)


def _digits(value: str | bytes) -> str:
    """Return a text or bytes as hexadecimal digits, which need no escapes."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return f"_utf8mb4 x'{value.encode().hex()}'"


def _as_json(value: int | None) -> str:
    return _encode(value).decode()


_WRITERS: Mapping[type[object], Callable[[Any], str]] = {
    Fragment: str,
    str: _text,
    bytes: _digits,
    datetime: lambda value: f"'{time_as_text(value)}'",
    **dict.fromkeys((int, bool, type(None)), _as_json),
    Decimal: str,
}
"""By the type of a value; values of other types are converted first."""
