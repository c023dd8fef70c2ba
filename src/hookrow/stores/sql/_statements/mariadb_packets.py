"""Packets of MariaDB and MySQL: a group is locked and written in one round trip.

A packet is a text of several statements. The server runs one after the other, and stops at the
first error:

    BEGIN;
    SET @hookrow_check = IF((SELECT count(*) FROM ... FOR UPDATE) = 2, 1, ...);
    UPDATE ...;
    SELECT ... LOCK IN SHARE MODE;
    INSERT INTO hookrow_notifications ...;
    COMMIT

A SET is a check, which raises an error if a row was not locked or changed, so that the server does
not reach the COMMIT. The packet contains all values as literals (`_mariadb_literals`). It has as
few statements as possible, because each one costs the server and the driver a response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from hookrow._core.notification import Suppressible
from hookrow.stores.sql._dialects.base import Dialect
from hookrow.stores.sql._dialects.mariadb import CHECK, SMALLEST_PACKET
from hookrow.stores.sql._mariadb_literals import Fragment, row_literal
from hookrow.stores.sql._statements.base import (
    Combined,
    Combining,
    InsertStatement,
    Statement,
    Statements,
    Step,
    kinds_of,
    positional,
)
from hookrow.stores.sql._statements.mariadb_rows import KeyedRows, RowUpdate

_FOR_STATEMENTS = 64 * 1024
"""Bytes of a packet that are left for its statements."""

_LONGEST_NUMBER = 20
"""Bytes of the longest number."""


class _PacketPart(NamedTuple):
    """A statement as a part of a packet, with its checks, and its parameters for given rows."""

    text: str
    parameters: Callable[[Step], Iterable[Any]]


class Packet(Combined):
    """A text that locks the rows of each kind, checks their numbers, and then runs its parts."""

    def __init__(
        self,
        dialect: Dialect,
        kinds: Sequence[Suppressible],
        text: str,
        parts: Sequence[_PacketPart],
    ) -> None:
        super().__init__(kinds, text)
        self._dialect, self._parts = dialect, parts

    def parameters(
        self, keys: Sequence[Sequence[Sequence[Any]]], steps: Sequence[Step]
    ) -> Sequence[Any] | None:
        encode = self._dialect.encode_rows
        locked = (each for of_kind in keys for each in (*encode(of_kind), len(of_kind)))
        pairs = zip(self._parts, steps, strict=True)
        given = (each for part, step in pairs for each in part.parameters(step))
        parameters = [*locked, *given]
        size = sum(map(_largest_size, parameters))
        return parameters if size < SMALLEST_PACKET - _FOR_STATEMENTS else None


class Packets(Combining[Statement]):
    """Combines the statements of a store into packets."""

    def __init__(self, statements: Statements) -> None:
        super().__init__()
        self._statements = statements

    def accepts(self, *, autocommits: bool, repeats_rows: bool) -> bool:  # noqa: ARG002 - a statement finds the changes of earlier ones
        """Accept groups on hookrow's own connections: those of a host run single statements."""
        return autocommits

    def _combined(
        self, statements: tuple[Statement, ...], *, skip_locked: bool, commits: bool
    ) -> Packet:
        tables, dialect = self._statements.tables, self._statements.dialect
        kinds, parts = kinds_of(statements), [*self._parts(statements)]
        texts = [part.text for part in parts]
        if kinds:
            locks = (
                KeyedRows(tables, kind).lock("count(*)", skip_locked=skip_locked) for kind in kinds
            )
            texts.insert(0, CHECK.format("\nAND ".join(f"({each}) = %s" for each in locks)))
        if commits:
            texts = [dialect.begin, *texts, "COMMIT"]
        return Packet(dialect, kinds, ";\n".join(texts), parts)

    def _parts(self, statements: Iterable[Statement]) -> Iterator[_PacketPart]:
        is_first = True
        for each in statements:
            match each:
                case RowUpdate() if not each.rows.may_hide:
                    yield _updating(each)
                    is_first = False
                case RowUpdate():
                    yield _updating_visible(each, is_first=is_first)
                    is_first = False
                case InsertStatement():
                    yield self._inserting(each)
                case _:
                    yield _PacketPart(each.text, self._statements.parameters)

    def _inserting(self, insert: InsertStatement) -> _PacketPart:
        """Return the INSERT of entries into the log, after the registration of the writer."""
        texts = [self._statements.register_writer, insert.insert.many]
        return _PacketPart(";\n".join(filter(None, texts)), self._values)

    def _values(self, step: Step) -> Sequence[Fragment]:
        """Return the rows as in VALUES, which are the only parameter."""
        return [Fragment(", ".join(map(row_literal, self._statements.parameters(step))))]


def _updating(update: RowUpdate) -> _PacketPart:
    """Return an UPDATE of rows that are locked."""
    text, names = positional(update.by_cases)
    return _PacketPart(text, lambda step: update.cases.parameters(names, step.rows))


def _updating_visible(update: RowUpdate, *, is_first: bool) -> _PacketPart:
    """Return an UPDATE that fails unless it finds each row.

    All rows are locked, but an earlier UPDATE may have hidden one of them, through a view or a
    trigger. If a guard may refuse some, so that ROW_COUNT() does not show whether it found all,
    they are counted again first.
    """
    rows, cases = update.rows, update.cases
    texts = [update.by_cases]
    if not update.may_refuse:
        texts.append(CHECK.format(f"ROW_COUNT() = {cases.number}"))
    elif not is_first:
        found = f"SELECT count(*) FROM {rows.table} WHERE {cases.is_any}{rows.visible}"
        texts.insert(0, CHECK.format(f"({found}) = {cases.number}"))
    text, names = positional(";\n".join(texts))
    return _PacketPart(text, lambda step: cases.parameters(names, step.rows))


def _largest_size(parameter: object) -> int:
    """Return the largest size of a parameter in a text, in bytes."""
    if isinstance(parameter, Fragment):
        return len(parameter) if parameter.isascii() else len(parameter.encode())
    # Hexadecimal digits of UTF-8.
    return 2 * len(parameter.encode()) if isinstance(parameter, str) else _LONGEST_NUMBER
