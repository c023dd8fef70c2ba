"""The statements on PostgreSQL: on arrays of rows, and combined into one that writes a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from string import Template
from typing import Any

from hookrow._core.changes import Write
from hookrow._core.notification import Suppressible
from hookrow._core.schema import TOUCH
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._dialects.postgresql import AWARE, NAIVE
from hookrow.stores.sql._role_tables import ALIASES, RoleTables
from hookrow.stores.sql._statements.base import (
    ENTRY_FIELDS,
    Combined,
    Combining,
    Statement,
    Statements,
    Step,
    guard_holds,
    key_parameters,
    kinds_of,
    positional,
    touched,
)

_POSTGRES_LOCK = Template("""\
SELECT $columns
FROM $rows
WHERE $is_any$visible$after
ORDER BY $order FOR NO KEY UPDATE OF $alias$skip""")

_POSTGRES_SELECT = Template("""\
SELECT $columns
FROM $given, $table
WHERE $is_key$visible""")

_POSTGRES_UPDATE = Template("""\
UPDATE $table AS $alias SET $assignments
FROM $given
WHERE $is_key$guard$visible$dated$after""")

_POSTGRES_NEW_DATES = Template("""\
SELECT '$role' AS role, given.row_key, given.suppression_changed_at
FROM $given
WHERE EXISTS (SELECT 1 FROM $table WHERE $is_key$visible)$after
ORDER BY role, row_key""")

_POSTGRES_NEW_ENTRIES = Template("""\
SELECT $values, outcome
FROM json_to_recordset(%s::json) AS given($types)
WHERE true$after""")

_POSTGRES_IS_DATED = Template("""
AND EXISTS (SELECT 1 FROM $dates AS dated WHERE dated.role = '$role'
    AND dated.row_key = given.row_key AND dated.changed_at $older given.suppression_changed_at)""")

_POSTGRES_GUARDED = Template("""\
SELECT count(*) FROM $given AS given JOIN $locked AS locked ON $is_key WHERE $guard""")

_POSTGRES_DATED = Template("""\
SELECT count(*) FROM $given AS given JOIN $dated AS dated ON dated.row_key = given.row_key
    WHERE dated.changed_at $older given.suppression_changed_at""")

_POSTGRES_JSON_TYPES = {
    **dict.fromkeys(("occurred_at", "received_at", "last_received_at", "ended_at"), "timestamptz"),
    "retry_at": "timestamptz",
    "status": "smallint",
    **dict.fromkeys(("attempts", "change_number"), "bigint"),
}
"""The types of the fields of an entry; all others are text."""


class _Part(Statement):
    """A statement that writes given rows, and can be a part of one that writes a whole group.

    `as_part(given, after)` returns its text as a part: `given` is the relation of its rows, and
    `after` a condition that waits for the previous part. `name` is the name of the part if other
    parts refer to it, and `returning` what it returns for each row. `guard` is the column, by
    hookrow's name, with which the guard compares.

    The part must change each of the given rows, except those that a guard refuses:
    `expected(given, locked)` returns the query that counts the others, given the names of the part
    with its rows and of the part that locks them.
    """

    __slots__ = ("as_part", "expected", "given", "guard", "name", "returning")

    def __init__(  # noqa: PLR0913 - keyword arguments, most with a default
        self,
        template: str,
        as_part: Callable[[str, str], str],
        *,
        kind: Suppressible | None = None,
        given: str = "",
        guard: str = "",
        name: str = "",
        returning: str = "1",
        expected: Callable[[str, str], str] | None = None,
    ) -> None:
        text, names = positional(template)
        super().__init__(text, names, kind)
        self.as_part, self.given, self.guard = as_part, given, guard
        self.name, self.returning, self.expected = name, returning, expected


class PostgresStatements(Statements):
    """Statements on arrays of rows, which can be combined into one."""

    selects_one = False

    def __init__(self, tables: RoleTables) -> None:
        super().__init__(tables)
        self.lock = cache(self._lock)
        self.combining = PostgresCombining(self)

    def _select(self, kind: Suppressible, *columns: str) -> str:
        keys, tables = key_parameters(kind), self.tables
        template = _POSTGRES_SELECT.substitute(
            columns=", ".join(
                [*(tables.key(kind.value, name) for name in keys.values()), *columns]
            ),
            given=_given(self._types(kind, keys)),
            table=tables.table(kind.value),
            is_key=self._is_key(kind),
            visible=tables.visible(kind.value),
        )
        return positional(template)[0]

    def probes(self) -> Iterable[str]:
        # An UPDATE would fire the host's triggers, as often as /readyz is requested.
        for table in self._changed_tables():
            yield f"SELECT FROM {table} WHERE 1 = 0 FOR NO KEY UPDATE"

    def _lock(self, kind: Suppressible, *, skip_locked: bool) -> Statement:
        # A sorted UPDATE alone could deadlock, because the planner may reorder it.
        text = self.lock_text(kind, skip_locked=skip_locked)
        return Statement(*positional(text), kind)

    def lock_text(
        self,
        kind: Suppressible,
        *,
        skip_locked: bool,
        guards: Sequence[str] = (),
        after: str = "",
    ) -> str:
        """Return the text that locks rows; for `after`, see `_Part`.

        It also selects the columns of `guards`, for the check of a combined statement.
        """
        role, tables, keys = kind.value, self.tables, key_parameters(kind)
        columns = [tables.key(role, name) for name in keys.values()]
        if guards:  # under names that no column of the table can repeat
            columns = [f"{tables.column(role, name)} AS {key}" for key, name in keys.items()]
            columns += [f"{tables.column(role, name)} AS {name}" for name in guards]
        rows, is_any = tables.table(role), self._is_key(kind)
        if len(keys) == 1:  # the index of the key has its order
            is_any = tables.any_of(role, keys["key_0"])
        else:
            rows = f"{_given(self._types(kind, keys))}, {rows}"
        return _POSTGRES_LOCK.substitute(
            columns=", ".join(columns),
            rows=rows,
            is_any=is_any,
            visible=tables.visible(role),
            after=after,
            order=", ".join(tables.column(role, name) for name in keys.values()),
            alias=ALIASES[role],
            skip=" SKIP LOCKED" if skip_locked else "",
        )

    def _update(
        self, kind: Suppressible, write: Write, *, guarded: bool, dated: bool = False
    ) -> Statement:
        role, tables, keys = kind.value, self.tables, key_parameters(kind)
        columns = tables.columns(role)
        written = {field: field for field in (*write.columns, TOUCH) if field in columns}
        types = self._types(kind, keys | written)
        values = {field: f"given.{field}" for field in written}
        for field in written:
            if types[field] == NAIVE:
                types[field] = AWARE
                values[field] += " AT TIME ZONE 'UTC'"
        assigned = dict(values)
        if TOUCH in values:
            stored = {field: _as_stored(value, columns[field]) for field, value in values.items()}
            assigned[TOUCH] = touched(tables, role, ALIASES[role], stored)
        if dated:
            types |= _DATE_TYPES
        guard = tables.column(role, write.guard) if guarded else ""

        def text(given: str, after: str, *, dates: str) -> str:
            is_dated = _POSTGRES_IS_DATED.substitute(dates=dates, role=role, older=write.holds)
            return _POSTGRES_UPDATE.substitute(
                table=tables.name(role),
                alias=ALIASES[role],
                assignments=", ".join(
                    f"{self.dialect.quote(columns[field].name)} = {value}"
                    for field, value in assigned.items()
                ),
                given=given,
                is_key=self._is_key(kind),
                guard=f" AND {guard_holds(guard, write, values[write.guard])}" if guarded else "",
                visible=tables.not_hidden(role, ALIASES[role]),
                dated=is_dated if dated else "",
                after=after,
            )

        def expected(given: str, locked: str) -> str:
            if dated:
                name = _dated_part(kind)
                return _POSTGRES_DATED.substitute(given=given, dated=name, older=write.holds)
            is_key = " AND ".join(f"locked.{key} = given.{key}" for key in keys)
            holds = guard_holds(f"locked.{write.guard}", write, values[write.guard])
            return _POSTGRES_GUARDED.substitute(
                given=given, locked=locked, is_key=is_key, guard=holds
            )

        given = _given(types)
        return _Part(
            text(given, "", dates=self._dates),
            partial(text, dates=_dated_part(kind)),
            kind=kind,
            given=given,
            guard=write.guard if guarded else "",
            expected=expected if guarded or dated else None,
        )

    def _set_date(self, kind: Suppressible) -> Statement:
        tables, keys = self.tables, key_parameters(kind)

        def text(given: str, after: str) -> str:
            rows = _POSTGRES_NEW_DATES.substitute(
                role=kind.value,
                given=given,
                table=tables.table(kind.value),
                is_key=self._is_key(kind),
                visible=tables.visible(kind.value),
                after=after,
            )
            return self._insert_dates(rows)

        given = _given(self._types(kind, keys) | _DATE_TYPES)
        return _Part(
            text(given, ""),
            text,
            given=given,
            name=_dated_part(kind),
            returning="role, row_key, changed_at",
        )

    def _add_entries(self, log: str, *, id_: str = "") -> Statement:
        types = {name: _POSTGRES_JSON_TYPES.get(name, "text") for name in ENTRY_FIELDS}

        def text(_: str, after: str) -> str:
            rows = _POSTGRES_NEW_ENTRIES.substitute(
                values=", ".join([*filter(None, [id_]), *ENTRY_FIELDS]).replace(
                    "fingerprint", "decode(fingerprint, 'base64')"
                ),
                types=", ".join(f"{name} {type_}" for name, type_ in types.items()),
                after=after,
            )
            if id_:  # which a column that is GENERATED ALWAYS would not accept otherwise
                rows = f"OVERRIDING SYSTEM VALUE\n{rows}"
            return self._insert_entries(log, rows, has_id=bool(id_))

        return _Part(text("", ""), text)

    def _relation(self, types: Mapping[str, str]) -> str:
        return positional(_given(types))[0]

    def _related(self, columns: Sequence[Sequence[Any]]) -> Sequence[Any]:
        return list(map(self.dialect.encode, columns))

    def _types(self, kind: Suppressible, names: Mapping[str, str]) -> dict[str, str]:
        """Return the types of given values by name, from their columns by name."""
        columns = self.tables.columns(kind.value)
        return {name: columns[field].type for name, field in names.items()}

    def _is_key(self, kind: Suppressible) -> str:
        """Return the condition that the key of a row is the given one."""
        return " AND ".join(
            f"{self.tables.column(kind.value, name)} = given.{key}"
            for key, name in key_parameters(kind).items()
        )


class CombinedStatement(Combined):
    """One statement that locks rows and then runs its parts, each after the other.

    No part sees what another one changes, so no two may change the same row (PostgreSQL's manual,
    section 7.8.4). A part that locks or changes a row sees its newest version. At the end, the
    numbers of rows that the parts have locked and changed are compared with those that are given,
    or with what the guards admit. If they differ, the division by zero rolls everything back,
    before the commit.
    """

    def __init__(
        self, statements: PostgresStatements, kinds: Sequence[Suppressible], text: str
    ) -> None:
        super().__init__(kinds, text)
        self._statements = statements

    def parameters(
        self, keys: Sequence[Sequence[Sequence[Any]]], steps: Sequence[Step]
    ) -> Sequence[Any]:
        """Return the keys, the parameters of the statements, and the numbers of rows of both."""
        encode = self._statements.dialect.encode_rows
        locked = (each for of_kind in keys for each in encode(of_kind))
        given = (each for step in steps for each in self._statements.parameters(step))
        numbers = (len(of_kind) for of_kind in keys)
        return [*locked, *given, *numbers, *(len(step.rows) for step in steps)]


class PostgresCombining(Combining[_Part]):
    """Combines the parts of a group into one statement."""

    def __init__(self, statements: PostgresStatements) -> None:
        super().__init__()
        self._statements = statements

    def accepts(self, *, autocommits: bool, repeats_rows: bool) -> bool:  # noqa: ARG002 - any connection runs one statement
        """Refuse to change a row twice in one statement."""
        return not repeats_rows

    def _combined(
        self,
        statements: tuple[_Part, ...],
        *,
        skip_locked: bool,
        commits: bool,  # noqa: ARG002 - one statement commits by itself
    ) -> CombinedStatement:
        kinds = kinds_of(statements)
        parts: list[str] = []
        checks: list[str] = []
        after = ""
        for kind in kinds:
            guards = {each.guard for each in statements if each.kind is kind} - {""}
            lock = self._statements.lock_text(
                kind, skip_locked=skip_locked, guards=sorted(guards), after=after
            )
            parts.append(f"{_locked_part(kind)} AS MATERIALIZED (\n{lock})")
            checks.append(f"{_count(_locked_part(kind))} = %s")
            after = _after(_locked_part(kind))
        for number, each in enumerate(statements):
            name, given = each.name or f"hookrow_changed_{number}", each.given
            check = f"{_count(name)} = %s"
            if each.expected:  # which reads the given rows again, if a guard has refused one
                rows = f"hookrow_given_{number}"
                parts.append(f"{rows} AS MATERIALIZED (SELECT * FROM {given})")
                given = f"{rows} AS given"
                locked = _locked_part(each.kind) if each.kind else ""
                check = f"({check} OR {_count(name)} = (\n    {each.expected(rows, locked)}))"
            text = f"{each.as_part(given, after)}\nRETURNING {each.returning}"
            parts.append(f"{name} AS MATERIALIZED (\n{text})")
            checks.append(check)
            after = _after(name)
        template = _POSTGRES_COMBINED.substitute(
            parts=",\n".join(parts), checks="\nAND ".join(checks)
        )
        return CombinedStatement(self._statements, kinds, positional(template)[0])


_POSTGRES_COMBINED = Template("""\
WITH $parts
SELECT 1 / CASE WHEN $checks
THEN 1 ELSE 0 END""")

_DATE_TYPES = {"row_key": "text", "suppression_changed_at": AWARE}
"""The types of the parameters that date a change in the side table."""


def _as_stored(value: str, column: Column) -> str:
    """Return a value with the precision that its column has."""
    is_rounded = column.kind == "datetime" and column.sized not in {"", column.type}
    return f"({value})::{column.sized}" if is_rounded else value


def _given(types: Mapping[str, str]) -> str:
    """Return the rows of parallel arrays, each of which is one parameter, as the relation `given`.

    JSON instead of arrays would double the time that the server needs.
    """
    arrays = ", ".join(f"%({name})s::{type_}[]" for name, type_ in types.items())
    return f"unnest({arrays}) AS given({', '.join(types)})"


def _locked_part(kind: Suppressible) -> str:
    return f"hookrow_locked_{kind.value}"


def _dated_part(kind: Suppressible) -> str:
    return f"hookrow_dated_{kind.value}"


def _count(part: str) -> str:
    return f"(SELECT count(*) FROM {part})"


def _after(part: str) -> str:
    """Return the condition that makes a part wait for another one."""
    return f"\nAND {_count(part)} >= 0"
