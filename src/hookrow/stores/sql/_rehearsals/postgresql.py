"""PostgreSQL's answers, from conversions and plans."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any, TypeVar

from hookrow._core.column_rules import MOST_NAMED
from hookrow._fault import Fault
from hookrow.stores._driver_errors import lacks_operator, store_error
from hookrow.stores._errors import Rejected, SchemaChanged
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._connections import Connection, Row, savepoint, undone
from hookrow.stores.sql._dialects.base import Dialect, count_parameters
from hookrow.stores.sql._needs import (
    Columns,
    Need,
    Use,
)
from hookrow.stores.sql._rehearsals.base import (
    Comparison,
    Rehearsal,
    broken_check,
    missing_reference,
)

_T = TypeVar("_T")


class PostgreSQLRehearsal(Rehearsal):
    """Lets the server convert values to the type of a column, and plan comparisons.

    If it can answer all questions at once, that is one round trip; else they are asked by halves.
    """

    def rejected(
        self,
        connection: Connection,
        dialect: Dialect,
        tables: Mapping[str, Columns],  # noqa: ARG002 - for SQLite
        needs: Sequence[Need],
    ) -> Iterator[Fault]:
        def hold(some: Sequence[Need]) -> bool | None:
            return self._hold(connection, some)

        with savepoint(connection):
            writable = [each for each in needs if not each.unwritable]
            failing = {id(each) for each in _failing(writable, hold)}
            for need in needs:
                refused = need.unwritable
                if id(need) in failing:
                    refused = self._refused(connection, need)
                if refused:
                    yield need.refusal(refused)
                elif need.use is Use.REASON:
                    yield from islice(_broken_constraints(connection, dialect, need), 1)

    def incomparable(
        self, connection: Connection, compared: Sequence[Comparison]
    ) -> Iterator[Fault]:
        with savepoint(connection):
            for each in _failing(compared, lambda some: self._can_compare(connection, some)):
                yield each.fault

    def _refused(self, connection: Connection, need: Need) -> Sequence[Any]:
        """Return the values that a column does not hold, of which it has at least one."""
        if need.use not in {Use.REASON, Use.TENANT}:
            return [*need.values]  # the others are samples

        def hold(some: Sequence[Any]) -> bool | None:
            values = {each: need.values[each] for each in some}
            return self._hold(connection, [replace(need, values=values)])

        return _first_failing([*need.values], hold)

    def _hold(self, connection: Connection, needs: Sequence[Need]) -> bool | None:
        """Return whether all columns hold their values; None if that cannot be known.

        The conversion is one from JSON, because a cast to a type with a length truncates.
        """
        questions = [_Question(f"c{number}", need) for number, need in enumerate(needs)]
        rows = [
            {name: value for each in questions for name, value in each.row(index).items()}
            for index in range(max(len(need.values) for need in needs))
        ]
        types = ", ".join(each.types for each in questions)
        selected = ", ".join(each.selected for each in questions)
        sql = f"SELECT {selected} FROM jsonb_to_recordset(%s::jsonb) AS given({types})"
        answers = _ask(connection, sql, [_json(rows)], rejected=False)
        if not isinstance(answers, list):
            return answers
        return all(
            question.is_unchanged(index, answer)
            for index, row in enumerate(answers)
            for question, answer in zip(questions, row, strict=True)
        )

    def _can_compare(self, connection: Connection, compared: Sequence[Comparison]) -> bool | None:
        """Return whether the server has all operators; None if that cannot be known."""
        tables = ", ".join({table: None for each in compared for table in each.tables})
        conditions = " OR ".join(f"({each.condition})" for each in compared)
        sql = f"SELECT 1 FROM {tables} WHERE false AND ({conditions})"
        # `rejected` knows unsuitable constants; a foreign table may not be usable now.
        answer = _ask(connection, sql, ["{}"] * count_parameters(sql), rejected=None)
        return True if isinstance(answer, list) else answer


def _failing(items: Sequence[_T], ask: Callable[[Sequence[_T]], bool | None]) -> Iterator[_T]:
    """Yield the items for which the answer is False, but not those for which it is None.

    For a few of many, the number of questions grows with the logarithm: each is a round trip, of
    which a slow connection allows only some within the time limit.
    """
    answer = ask(items) if items else True
    if len(items) > 1 and answer is not True:
        half = len(items) // 2
        yield from _failing(items[:half], ask)
        yield from _failing(items[half:], ask)
    elif answer is False:
        yield from items


def _first_failing(
    values: Sequence[Any], ask: Callable[[Sequence[Any]], bool | None]
) -> Sequence[Any]:
    """Return as many as an error names, and one more if there are others."""
    return [*islice(_failing(values, ask), MOST_NAMED + 1)]


def _ask(
    connection: Connection, sql: str, parameters: Sequence[Any], *, rejected: bool | None
) -> list[Row] | bool | None:
    """Return the rows of a statement in `savepoint`; False if the types have no such operator.

    Return `rejected` if the server rejects the statement's values or tables, and None if it fails
    for another reason, such as a privilege that the user lacks.
    """
    try:
        with undone(connection):
            return list(connection.fetch(sql, parameters))
    except Exception as error:
        if lacks_operator(error):
            return False
        cause = store_error(error)
        if isinstance(cause, Rejected):
            return rejected
        if isinstance(cause, SchemaChanged):
            return None
        raise


def _json(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as JSON without escaped letters, which SQL_ASCII cannot convert."""
    return json.dumps(rows, default=str, ensure_ascii=False)


class _Question:
    """The JSON values that a need sends to the server, and the expressions that it selects."""

    def __init__(self, name: str, need: Need) -> None:
        column, use = need.column, need.use
        self._held, self._given = name, f"{name}_as_given"
        self._stored = list(need.values.values())
        self._kind = next((type(value) for value in need.values if value is not None), str)
        self._is_own = use is Use.OWN
        # The store reads these as they are, so the driver must return the type of the value.
        self._is_read = self._is_own and self._kind in {int, str}
        # `incomparable` compares constants; the form of a host's conversion is not hookrow's.
        self._is_returned = use is not Use.CONDITION and not column.write
        declared = dict.fromkeys((Use.REASON, Use.CONDITION, Use.TENANT), column.declared)
        type_ = column.type if use is Use.COMPARED else declared.get(use, column.sized)
        self.types = f"{name} {type_}"
        if self._is_returned:
            self.types += f", {self._given} {_PARAMETERS[self._kind]}"
        self.selected = self._select() if self._is_returned else "true"

    def _select(self) -> str:
        held, given = self._held, self._given
        if self._is_read:
            return f"CASE WHEN {held} = {given} THEN {held} END"
        if self._kind is datetime:  # a type may have less than six digits
            cast = "" if self._is_own else "::timestamp"
            seconds = (f"date_trunc('second', {each}{cast})" for each in (held, given))
            return f"{' = '.join(seconds)} AND ({held} < {given}) IS NOT NULL"
        if self._is_own:
            return f"{held} = {given}"
        if self._kind is str:
            return f"{held}::text IS NOT DISTINCT FROM {given}"
        return f"{held} IS NOT DISTINCT FROM {given}"

    def row(self, index: int) -> Mapping[str, Any]:
        """Return the values of a row by name. The last value is repeated."""
        held = given = self._value(index)
        if isinstance(held, bytes):
            held = given = rf"\x{held.hex()}"
        elif isinstance(held, datetime) and self._is_own:
            # A type without a zone ignores the offset, so not all values remain equal.
            offset = timedelta(hours=5 if index % 2 else -3)
            held, given = str(held.astimezone(timezone(offset))), str(held)
        elif isinstance(held, datetime):
            held = given = str(held.replace(tzinfo=None))
        return {self._held: held, self._given: given}

    def is_unchanged(self, index: int, answer: object) -> bool:
        """Return whether the answer in a row is the right one."""
        if not self._is_read:
            return answer is True
        return type(answer) is self._kind and answer == self._value(index)

    def _value(self, index: int) -> Any:  # noqa: ANN401 - of any column
        return self._stored[min(index, len(self._stored) - 1)]


_PARAMETERS: Mapping[type[object], str] = {
    datetime: "timestamp with time zone",
    int: "bigint",
    str: "text",
    bytes: "bytea",
}
"""The types in which hookrow's values are compared with columns."""

_CONSTRAINTS = """
SELECT contype = 'f', CASE contype WHEN 'f' THEN confrelid::regclass::text ELSE conname END,
    CASE contype WHEN 'f' THEN format(
        'given.%%1$I IS NULL OR EXISTS (SELECT FROM %%2$s AS o WHERE o.%%3$I = given.%%1$I)',
        a.attname, confrelid::regclass, o.attname
    ) ELSE pg_get_expr(conbin, conrelid) END
FROM pg_constraint AS con JOIN pg_class AS c ON c.oid = conrelid
JOIN pg_attribute AS a ON a.attrelid = conrelid AND conkey = ARRAY[a.attnum]
LEFT JOIN pg_attribute AS o ON o.attrelid = confrelid AND o.attnum = confkey[1]
WHERE conrelid = to_regclass(%s) AND a.attname = %s AND contype IN ('c', 'f')
    AND relkind IN ('r', 'p') AND NOT relhasrules
    AND coalesce((to_jsonb(con) ->> 'conenforced')::boolean, true)
    AND NOT (CASE contype WHEN 'f' THEN row_security_active(confrelid) ELSE false END)
    AND NOT EXISTS (
        SELECT FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 16 <> 0
        AND (contype = 'f' OR tgtype & 3 = 3)
        AND tgrelid IN (SELECT conrelid UNION SELECT relid FROM pg_partition_tree(conrelid))
    )
    AND (contype = 'c' OR (
        SELECT bool_and(tgenabled IN ('A', CASE current_setting('session_replication_role')
            WHEN 'replica' THEN 'R' ELSE 'O' END))
        FROM pg_trigger WHERE tgisinternal AND tgconstrrelid = confrelid AND tgtype & 16 <> 0
        AND tgrelid IN (SELECT conrelid UNION SELECT relid FROM pg_partition_tree(conrelid))
    ))
ORDER BY conname
"""
"""The constraints on a column alone: whether each is a foreign key, its name or the other table,
and its condition.

A trigger for updates (the bit 16) that runs for each row before the change (the bits 1 and 2) may
replace a value before its constraint is checked, and any trigger may add a row that a foreign key
needs. `conenforced` exists from version 18 on.

A foreign key is checked by internal triggers, which may be disabled, on each partition. One to a
partitioned table has further rows for the partitions of that table, which have no such triggers.

Constraints of single partitions are left out: the mapping may hide the rows of a partition, and a
row moves to another one when a change of its time or reason requires it.
"""


def _broken_constraints(connection: Connection, dialect: Dialect, need: Need) -> Iterator[Fault]:
    """Yield the faults of constraints on a column of reasons alone, evaluated by the server."""
    column = need.column
    name = dialect.quote(column.name)
    named = [*catalogue_of(connection, dialect).named(need.table), column.name]
    for is_reference, text, condition in connection.fetch(_CONSTRAINTS, named):
        escaped = condition.replace("%", "%%")
        sql = (
            f"SELECT bool_and(coalesce({escaped}, true)) "
            f"FROM jsonb_to_recordset(%s::jsonb) AS given({name} {column.declared})"
        )

        def hold(some: Sequence[Any], sql: str = sql) -> bool:
            rows = [{column.name: need.values[value]} for value in some]
            answer = _ask(connection, sql, [_json(rows)], rejected=False)
            return answer[0][0] if isinstance(answer, list) else answer is None

        if refused := _first_failing([*need.values], hold):
            describe = missing_reference if is_reference else broken_check
            yield need.refusal(refused, describe(text))
