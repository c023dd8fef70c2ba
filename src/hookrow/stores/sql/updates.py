"""The SQL that changes rows, and dates their changes beside the log, as text; see `queries`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hookrow.core.changes import WRITES, Write
from hookrow.core.notification import EventTime, Suppressible
from hookrow.core.schema import KEYS
from hookrow.stores import change_dates

if TYPE_CHECKING:
    from hookrow.stores.sql.queries import Queries

ALIASES = {"subscribers": "s", "dispatches": "d", "subscriptions": "b", "messages": "m"}
"""By role: the name of its table in a statement."""

_AWARE = "timestamp with time zone"
_NAIVE = "timestamp without time zone"
"""A type that ignores the offset of a time, which is therefore converted to UTC first."""

_NEW = "new_"
"""Precedes the name of a column in the name of the parameter with its new value."""

_DATE = {"row_key": "text", f"{_NEW}suppression_changed_at": _AWARE}
"""The parameters that date a change beside the log, and their types."""


class Statement:
    """SQL text, and how it becomes a part of a statement that locks and changes all rows.

    The text consists of a `head`, the relation `given` with the rows of parameters, if there is
    one, its conditions (`where`), after which a part gets one more condition, and the `rest`.
    `returning` is the clause by which other parts can count its rows, and `name` its name as a
    part if others refer to it. `kind` is that of the rows that it locks or changes, and `guard` the
    column, by hookrow's name, with which their guard compares.

    It must lock or change every row that is given, except those that a guard refuses. `expected` is
    the query that counts the others, with `{given}` for the name of the given rows, and `{locked}`
    for that of the part that has locked them; it is empty if there is no guard.
    """

    __slots__ = (
        *("expected", "given", "guard", "head", "is_lock", "kind", "name", "rest", "returning"),
        *("text", "where"),
    )

    def __init__(  # noqa: PLR0913 - keyword arguments, most with a default
        self,
        head: str,
        where: str = "",
        rest: str = "",
        *,
        kind: Suppressible | None = None,
        guard: str = "",
        given: str = "",
        returning: str = " RETURNING 1",
        name: str = "",
        expected: str = "",
        is_lock: bool = False,
    ) -> None:
        self.head, self.given, self.where, self.rest = head, given, where, rest
        self.kind, self.guard, self.returning, self.name = kind, guard, returning, name
        self.expected, self.is_lock = expected, is_lock
        self.text = f"{head}{given}{where}{rest}"


class Update:
    """A statement that writes many rows.

    `names` are those of each row's parameters, in order; `parameters` returns the parameters of a
    row from its values by name, in which that of a column has the column's name.
    """

    __slots__ = ("parameters", "statement")

    def __init__(self, statement: Statement, names: Sequence[str]) -> None:
        self.statement = statement
        self.parameters: Callable[[Mapping[str, Any]], Sequence[Any]] = itemgetter(
            *(name.removeprefix(_NEW) for name in names)
        )


class Updates:
    """The statements that change rows in the tables of `queries`."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._dates = queries.dialect.table(queries.schema.beside_log(change_dates.TABLE))
        self.set_time = cache(self._set_time)
        self.set_suppression = cache(self._set_suppression)
        self.dates = cache(self._select_dates)

    def _set_time(self, time: EventTime, *, guarded: bool) -> Sequence[Update]:
        """Set a time of a dispatch, and the type of a bounce if the table has a column for it."""
        return (self._update(Suppressible.DISPATCH, WRITES[time], guarded=guarded),)

    def _set_suppression(
        self, kind: Suppressible, *, guarded: bool, single: bool
    ) -> Sequence[Update]:
        """Set the suppression columns that the table has; nothing if it has none.

        If the last change is dated beside the log, it is dated first. With `single`, the two become
        parts of a single statement, in which the second does not see the first one's changes.
        """
        write = WRITES[kind]
        if not any(self._queries.has(kind.value, name) for name in write.columns):
            return ()
        if kind not in self._queries.dated_beside_log:
            return (self._update(kind, write, guarded=guarded),)
        dated = self._set_date(kind)
        relation = dated.statement.name if single else self._dates
        key, at = map(self._queries.value, _DATE)
        not_newer = (
            f" AND EXISTS (SELECT 1 FROM {relation} AS dated WHERE dated.role = '{kind.value}' "
            f"AND dated.row_key = {key} AND dated.changed_at {write.older} {at})"
        )
        expected = (
            f"SELECT count(*) FROM {{given}} AS given JOIN {dated.statement.name} AS dated "
            f"ON dated.row_key = given.row_key WHERE dated.changed_at {write.older} {at}"
        )
        update = self._update(kind, write, more=_DATE, condition=not_newer, expected=expected)
        return dated, update

    def _select_dates(self, kind: Suppressible) -> str:
        """Select the dates of rows of a kind, by their `row_key`."""
        is_any = self._queries.dialect.any_of("row_key", "text")
        return (
            f"SELECT row_key, changed_at FROM {self._dates} WHERE role = '{kind.value}' "
            f"AND {is_any}"
        )

    def _set_date(self, kind: Suppressible) -> Update:
        """Date a change beside the log, unless the row is missing; a newer date stays.

        This waits for another transaction that dates the same row, and then compares with its date.
        """
        queries, role = self._queries, kind.value
        keys = {f"key_{n}": ours for n, ours in enumerate(KEYS[kind])}
        types = {name: queries.columns(role)[ours].type for name, ours in keys.items()}
        rows = queries.dialect.rows(types | _DATE)
        columns = ", ".join(change_dates.COLUMNS)
        values = ", ".join(map(queries.value, _DATE))
        equal = " AND ".join(
            f"{queries.column(role, ours)} = {queries.value(name)}" for name, ours in keys.items()
        )
        head = f"INSERT INTO {self._dates} AS dated ({columns}) SELECT '{role}' AS role, {values}"
        statement = Statement(
            f"{head} FROM " if rows else head,
            f" WHERE EXISTS (SELECT 1 FROM {queries.table(role)} "
            f"WHERE {equal}{queries.visible(role)})",
            f"{' ORDER BY role, row_key' if rows else ''} ON CONFLICT (role, row_key) DO UPDATE "
            "SET changed_at = CASE WHEN dated.changed_at < excluded.changed_at "
            "THEN excluded.changed_at ELSE dated.changed_at END",
            given=rows,
            returning=f" RETURNING {columns}",
            name=f"hookrow_dated_{role}",
        )
        return Update(statement, [*keys, *_DATE] if rows else [*_DATE, *keys])

    def _update(
        self,
        kind: Suppressible,
        write: Write,
        *,
        guarded: bool = False,
        more: Mapping[str, str] = MappingProxyType({}),
        condition: str = "",
        expected: str = "",
    ) -> Update:
        """Set the columns that the table has to parameters.

        `more` are the types of further parameters, for another `condition`; `expected` is as in
        `Statement`.
        """
        queries, role = self._queries, kind.value
        columns, guard = queries.columns(role), write.guard
        keys = {ours: f"key_{n}" for n, ours in enumerate(KEYS[kind])}
        new = {ours: f"{_NEW}{ours}" for ours in write.columns if ours in columns}
        types = {name: columns[ours].type for ours, name in (keys | new).items()}
        types.update(more)
        values = {name: queries.value(name) for name in types}
        for name in [name for name in new.values() if types[name] == _NAIVE]:
            types[name] = _AWARE
            values[name] += " AT TIME ZONE 'UTC'"
        table = queries.dialect.table(queries.schema.roles[role].table)
        rows = queries.dialect.rows(types)
        # SQLite has no alias in an UPDATE of a view.
        alias = ALIASES[role] if rows else table.rpartition(".")[2]
        sets = ", ".join(
            f"{queries.dialect.quote(columns[ours].name)} = {values[name]}"
            for ours, name in new.items()
        )
        conditions = [
            f"{queries.column(role, ours, alias)} = {values[name]}" for ours, name in keys.items()
        ]
        if guarded:
            new_date = values[new[guard]]
            conditions.append(_guard(queries.column(role, guard, alias), write.older, new_date))
            equal = " AND ".join(f"locked.{name} = given.{name}" for name in keys.values())
            holds = _guard(f"locked.{guard}", write.older, new_date)
            expected = (
                "SELECT count(*) FROM {given} AS given JOIN {locked} AS locked "
                f"ON {equal} WHERE {holds}"
            )
        where = " AND ".join(conditions) + queries.not_hidden(role, alias) + condition
        if rows:
            statement = Statement(
                f"UPDATE {table} AS {alias} SET {sets} FROM ",
                f" WHERE {where}",
                kind=kind,
                guard=guard if guarded else "",
                given=rows,
                expected=expected,
            )
            return Update(statement, list(types))
        last = [new[guard]] if guarded else more
        text = f"UPDATE {table} SET {sets} WHERE {where}"
        return Update(Statement(text, kind=kind), [*new.values(), *keys.values(), *last])


def _guard(old: str, older: str, new: str) -> str:
    return f"({old} IS NULL OR {old} {older} {new})"


def combined(statements: Sequence[Statement]) -> str:
    """Return one statement in which each part waits for the previous one.

    All parts see the rows as they were at its beginning, so no two may change the same row
    (PostgreSQL's manual, section 7.8.4). At its end, the numbers of rows that the parts have locked
    and changed are compared with those that are given (the parameters that follow those of the
    parts, one for each part), or with what the guards admit. If they differ, the division by zero
    rolls everything back, before the commit.
    """
    parts: list[str] = []
    checks: list[str] = []
    locks: dict[Suppressible | None, str] = {}
    previous = ""
    for number, each in enumerate(statements):
        name, given = each.name or f"hookrow_part_{number}", each.given
        if each.is_lock:
            locks[each.kind] = name
        if "{given}" in each.expected:  # read twice
            given = f"hookrow_given_{number}"
            parts.append(f"{given} AS MATERIALIZED (SELECT * FROM {each.given})")
        wait = f" AND (SELECT count(*) FROM {previous}) >= 0" if previous else ""
        relation = f"{given} AS given" if given != each.given else given
        text = f"{each.head}{relation}{each.where}{wait}{each.rest}{each.returning}"
        parts.append(f"{name} AS MATERIALIZED ({text})")
        count = f"(SELECT count(*) FROM {name})"
        check = f"{count} = %s"
        if each.expected:  # which is evaluated only if a guard has refused a row
            expected = each.expected.replace("{given}", given)
            expected = expected.replace("{locked}", locks.get(each.kind, ""))
            check = f"({check} OR {count} = ({expected}))"
        checks.append(check)
        previous = name
    return f"WITH {', '.join(parts)} SELECT 1 / CASE WHEN {' AND '.join(checks)} THEN 1 ELSE 0 END"
