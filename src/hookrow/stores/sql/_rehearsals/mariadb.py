"""The answers of MariaDB and MySQL, from conversions by JSON_TABLE and the types of columns."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from hookrow._core.log_entry import FINGERPRINT_SIZE
from hookrow._fault import Fault
from hookrow.stores._driver_errors import store_error
from hookrow.stores._errors import Rejected, SchemaChanged
from hookrow.stores.sql._catalogues.mariadb import MariaDBCatalogue
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._connections import Connection
from hookrow.stores.sql._conversions import digits_of_guid
from hookrow.stores.sql._dialects.base import Dialect
from hookrow.stores.sql._needs import Columns, Need, Use
from hookrow.stores.sql._rehearsals.base import (
    Comparison,
    Rehearsal,
    broken_check,
    missing_reference,
)


class MariaDBRehearsal(Rehearsal):
    """Lets JSON_TABLE convert values to the type of a column, and compares the results with them.

    JSON_TABLE has only some types, and converts what does not suit them: MariaDB truncates a text,
    and converts a word to the number 0. It reports no errors, so that one statement answers all
    questions.
    """

    def rejected(
        self,
        connection: Connection,
        dialect: Dialect,
        tables: Mapping[str, Columns],  # noqa: ARG002 - for SQLite
        needs: Sequence[Need],
    ) -> Iterator[Fault]:
        changed = _changed(connection, needs)
        catalogue = MariaDBCatalogue(connection, dialect)
        for need, texts in zip(needs, changed, strict=True):
            refused = need.unwritable or [
                value
                for value, stored in need.values.items()
                if str(stored) in texts or not _is_suitable(need, stored)
            ]
            if refused:
                yield need.refusal(refused)
            elif need.use is Use.REASON:
                yield from _broken_constraints(catalogue, need)

    def incomparable(
        self,
        connection: Connection,  # noqa: ARG002 - the server compares any values
        compared: Sequence[Comparison],
    ) -> Iterator[Fault]:
        # To compare a text with a number, it would convert the text to the number 0.
        for each in compared:
            kinds = {_COMPARABLE.get(column.kind, column.kind) for column in each.columns}
            if len(kinds) > 1:
                yield each.fault


_COMPARABLE = {
    **dict.fromkeys(("boolean", "number"), "number"),
    **dict.fromkeys(("enum", "set", "text", "uuid"), "text"),
    **dict.fromkeys(("date", "datetime"), "datetime"),
}
"""Kinds of columns whose values are compared with each other as they are."""

_WIDE = "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
"""A type that holds any text."""

_CHANGED = """\
SELECT {number}, value FROM JSON_TABLE(%s, '$[*]' COLUMNS (
    held {type_} PATH '$', value {wide} PATH '$')) AS given WHERE NOT {is_unchanged}"""

_IS_UNCHANGED = {
    # As bytes: to most collations, blanks at the end of a text make no difference.
    "text": "CAST(CONVERT(held USING utf8mb4) AS binary) <=> CAST(value AS binary)",
    **dict.fromkeys(("boolean", "number"), "held <=> CAST(value AS decimal(65, 20))"),
}
"""By the kind of a column: the condition that a value is the same after its conversion."""


def _changed(connection: Connection, needs: Sequence[Need]) -> Sequence[Collection[str]]:
    """Return, for each need, the values that are changed by a conversion to the column's type."""
    questions: list[str] = []
    parameters: list[str] = []
    changed: list[set[str]] = [set() for _ in needs]
    for number, need in enumerate(needs):
        kind = need.column.kind
        is_unchanged = _IS_UNCHANGED.get(kind)
        if is_unchanged and need.use is Use.TENANT:
            is_unchanged = _IS_UNCHANGED["text"]
        texts = [_as_text(each) for each in need.values.values() if isinstance(each, str | int)]
        if is_unchanged and texts and need.use is not Use.COMPARED:
            questions.append(
                _CHANGED.format(
                    number=number,
                    # In MariaDB, a BIT would hold the digit's code, so a boolean has another type.
                    type_=need.column.type if kind == "boolean" else need.column.declared,
                    wide=_WIDE,
                    is_unchanged=is_unchanged,
                )
            )
            parameters.append(json.dumps(texts, ensure_ascii=False))
    if questions:
        for number, value in connection.fetch("\nUNION ALL\n".join(questions), parameters):
            changed[number].add(value)
    return changed


def _as_text(value: str | int) -> str:
    return value if isinstance(value, str) else str(int(value))  # a bool is a number


_INTEGER = re.compile(r"\w*INT\b.*")
_SUITS_FINGERPRINT = re.compile(rf"BINARY\({FINGERPRINT_SIZE}\)|VARBINARY\(\d{{2,}}\)")
_HEX_DIGITS = re.compile(r"([0-9a-f]{2})+")
_NUMERAL = re.compile(r"-?\d+(\.\d+)?")

_KINDS_OF_TEXT = {
    Use.REASON: {"boolean", "enum", "number", "set", "text"},
    Use.COMPARED: {"text", "uuid"},
    Use.WRITTEN: {"text"},
    Use.OWN: {"text"},
    Use.TENANT: {"binary", "boolean", "date", "enum", "number", "set", "text", "uuid", "year"},
}
"""By use: the kinds of columns that may hold a text. A condition may compare one with any kind."""


def _is_suitable(need: Need, value: Any) -> bool:  # noqa: ANN401 - of any column
    """Return whether the type of the column is meant for such a value.

    `_changed` knows whether it has room for it.
    """
    column, use = need.column, need.use
    match value:
        case datetime():
            # The provider determines the times in the log, too; `check` warns about a host's.
            return column.kind == "datetime" and not (use is Use.OWN and column.is_timestamp)
        case bytes():
            return _SUITS_FINGERPRINT.fullmatch(column.type_name) is not None
        case int() if use is Use.OWN:  # a driver returns another number as a Decimal
            return _INTEGER.fullmatch(column.type_name) is not None
        case int():
            # From JSON_TABLE, a BIT would get the codes of the digits, and drivers return bytes.
            is_number = column.kind in {"boolean", "number", "year"}
            return is_number or (column.kind == "bit" and use is Use.CONDITION)
        case str():
            kinds = _KINDS_OF_TEXT.get(use)
            return (kinds is None or column.kind in kinds) and _is_spelled(column, use, value)
        case _:  # null, or what a host's conversion returns
            return True


def _is_spelled(column: Column, use: Use, text: str) -> bool:
    """Return whether a text is a value of a column of a kind other than text."""
    labels = column.labels
    if use is Use.CONDITION and column.collation.endswith("_ci"):  # some ignore only some cases
        text, labels = text.casefold(), [*map(str.casefold, labels)]
    match column.kind:
        case "boolean" | "number":
            return _NUMERAL.fullmatch(text) is not None
        case "enum":
            return text in labels
        case "set":
            return {*text.split(",")} <= {*labels, ""}
        case "uuid":
            return _is_uuid(text)
        case "binary" if use is Use.TENANT:
            return _HEX_DIGITS.fullmatch(digits_of_guid(text)) is not None
        case _:
            return True


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


_BROKEN_CHECK = """\
SELECT place FROM JSON_TABLE(%s, '$[*]' COLUMNS (
    place FOR ORDINALITY, {column} {type_} PATH '$')) AS {alias}
WHERE NOT coalesce({condition}, true)"""

_MISSING_REFERENCE = """\
SELECT place FROM JSON_TABLE(%s, '$[*]' COLUMNS (
    place FOR ORDINALITY, value {type_} PATH '$')) AS given
WHERE value IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {other} AS o WHERE o.{key} = given.value)"""


def _broken_constraints(catalogue: MariaDBCatalogue, need: Need) -> Iterator[Fault]:
    """Yield the faults of constraints on a column of reasons alone, evaluated by the server."""
    table, column, quote = need.table, need.column, catalogue.dialect.quote
    questions = [
        (
            broken_check(name),
            _BROKEN_CHECK.format(
                column=quote(column.name), type_=column.type, alias=alias, condition=condition
            ),
        )
        for name, alias, condition in catalogue.checks(table, column.name)
    ]
    questions += [
        (
            missing_reference(other),
            _MISSING_REFERENCE.format(
                type_=column.type, other=catalogue.dialect.table(other), key=quote(key)
            ),
        )
        for other, key in catalogue.references(table, column.name)
    ]
    values = json.dumps([*need.values.values()])
    for obstacle, sql in questions:
        try:
            found = catalogue.connection.fetch(sql, [values])
        except Exception as error:
            if not isinstance(store_error(error), Rejected | SchemaChanged):
                raise
            continue  # the user may not read the other table, for example
        if found:
            reasons = [*need.values]
            yield need.refusal([reasons[place - 1] for (place,) in found], obstacle)
