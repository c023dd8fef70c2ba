"""The SQL that changes rows, and dates their changes beside the log, as text; see `queries`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hookrow.core.notification import EventTime, Suppressible
from hookrow.core.schema import KEYS, SUPPRESSION
from hookrow.stores import change_dates

if TYPE_CHECKING:
    from hookrow.stores.sql.queries import Queries

ALIASES = {"subscribers": "s", "dispatches": "d", "subscriptions": "b", "messages": "m"}
"""By role: the name of its table in a statement."""

_AWARE = "timestamp with time zone"
_NAIVE = "timestamp without time zone"
"""A type that ignores the offset of a time, which is therefore converted to UTC first."""

_DATE = {"row_key": "text", "new_suppression_changed_at": _AWARE}
"""The parameters that date a change beside the log, and their types."""

_OLDER = {EventTime.FIRST_OPENED: ">", EventTime.BOUNCED: "<="}
"""The operator of a time's guard, if it is not `<`: of equal bounces, the last one's type wins."""

_RETURNING = {"UPDATE": " RETURNING 1", "INSERT": f" RETURNING {', '.join(change_dates.COLUMNS)}"}
"""The result of each part of a statement. An INSERT that other parts follow inserts dates."""


class Statement:
    """SQL text in two parts, between which a further condition can be inserted.

    As a part of another statement, it is called `name` if other parts need its result.
    """

    __slots__ = ("conditions", "name", "rest", "text")

    def __init__(self, conditions: str, rest: str = "", name: str = "") -> None:
        self.conditions, self.rest, self.name = conditions, rest, name
        self.text = conditions + rest


class Update:
    """A statement that writes many rows.

    `names` are those of each row's parameters, in order; `parameters` returns the parameters of a
    row from its values by name.
    """

    __slots__ = ("names", "parameters", "statement")

    def __init__(self, statement: Statement, names: Sequence[str]) -> None:
        self.statement, self.names = statement, names
        self.parameters: Callable[[Mapping[str, Any]], Sequence[Any]] = itemgetter(*names)


class Updates:
    """The statements that change rows in the tables of `queries`."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._dates = queries.dialect.table(queries.schema.beside_log(change_dates.TABLE))
        self.set_time = cache(self._set_time)
        self.set_suppression = cache(self._set_suppression)
        self.combined = cache(_combined)

    def _set_time(self, time: EventTime, *, guarded: bool) -> Update:
        """Set a time of a dispatch, and the type of a bounce if the table has a column for it."""
        has_type = time is EventTime.BOUNCED and self._queries.has("dispatches", "bounce_type")
        written = ["bounce_type", time.value] if has_type else [time.value]
        older = _OLDER.get(time, "<") if guarded else None
        return self._update(Suppressible.DISPATCH, written, older)

    def _set_suppression(
        self, kind: Suppressible, *, guarded: bool, single: bool
    ) -> Sequence[Update]:
        """Set the suppression columns that the table has; nothing if it has none.

        If the last change is dated beside the log, it is dated first. With `single`, the two become
        parts of a single statement, in which the second does not see the first one's changes.
        """
        written = [name for name in self._queries.written.get(kind, ()) if name in SUPPRESSION]
        if not written:
            return ()
        if kind not in self._queries.dated_beside_log:
            return (self._update(kind, written, "<=" if guarded else None),)
        dated, update = self._set_date(kind), self._update(kind, written, more=_DATE)
        relation = dated.statement.name if single else self._dates
        key, at = map(self._queries.value, _DATE)
        not_newer = (
            f" AND EXISTS (SELECT 1 FROM {relation} AS dated WHERE dated.role = '{kind.value}' "
            f"AND dated.row_key = {key} AND dated.changed_at <= {at})"
        )
        return dated, Update(Statement(update.statement.conditions + not_newer), update.names)

    def _set_date(self, kind: Suppressible) -> Update:
        """Date a change beside the log, unless the row is missing or its last change is newer.

        This waits for another transaction that dates the same row, and then compares with its date.
        """
        queries, role = self._queries, kind.value
        keys = {f"key_{n}": ours for n, ours in enumerate(KEYS[kind])}
        types = {name: queries.columns(role)[ours].type for name, ours in keys.items()}
        rows = queries.dialect.rows(types | _DATE)
        relation, order = (f" FROM {rows}", " ORDER BY role, row_key") if rows else ("", "")
        equal = " AND ".join(
            f"{queries.column(role, ours)} = {queries.value(name)}" for name, ours in keys.items()
        )
        return Update(
            Statement(
                f"INSERT INTO {self._dates} AS dated ({', '.join(change_dates.COLUMNS)}) "
                f"SELECT '{role}' AS role, {', '.join(map(queries.value, _DATE))}{relation} "
                f"WHERE EXISTS (SELECT 1 FROM {queries.table(role)} "
                f"WHERE {equal}{queries.visible(role)})",
                f"{order} ON CONFLICT (role, row_key) DO UPDATE "
                "SET changed_at = excluded.changed_at "
                "WHERE dated.changed_at <= excluded.changed_at",
                f"hookrow_dated_{role}",
            ),
            [*keys, *_DATE] if rows else [*_DATE, *keys],
        )

    def _update(
        self,
        kind: Suppressible,
        written: Sequence[str],
        older: str | None = None,
        *,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> Update:
        """Set columns to parameters.

        With an operator for `older`, a row is changed only if the last of the columns is null, or
        if the operator holds between it and its new value. `more` are the types of further
        parameters, for a condition that follows.
        """
        queries, role = self._queries, kind.value
        columns, guard = queries.columns(role), written[-1]
        keys = {ours: f"key_{n}" for n, ours in enumerate(KEYS[kind])}
        new = {ours: f"new_{ours}" for ours in written}
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
        if older:
            old = queries.column(role, guard, alias)
            conditions.append(f"({old} IS NULL OR {old} {older} {values[new[guard]]})")
        where = " AND ".join(conditions) + queries.not_hidden(role, alias)
        if rows:
            text = f"UPDATE {table} AS {alias} SET {sets} FROM {rows} WHERE {where}"
            return Update(Statement(text), list(types))
        last = [new[guard]] if older else more
        text = f"UPDATE {table} SET {sets} WHERE {where}"
        return Update(Statement(text), [*new.values(), *keys.values(), *last])


def _combined(statements: tuple[Statement, ...]) -> Statement:
    """Return one statement in which each part waits for the previous one.

    All parts see the rows as they were at its beginning, so no two may change the same row
    (PostgreSQL's manual, section 7.8.4).
    """
    names = [each.name or f"hookrow_part_{number}" for number, each in enumerate(statements)]
    parts = [
        f"{each.conditions} AND (SELECT count(*) FROM {previous}) >= 0{each.rest}"
        for previous, each in zip(names, statements[1:], strict=False)
    ]
    *others, last = [statements[0].text, *parts]
    named = [
        f"{name} AS MATERIALIZED ({each}{_RETURNING.get(each.split()[0], '')})"
        for name, each in zip(names, others, strict=False)
    ]
    return Statement(f"WITH {', '.join(named)} {last}" if named else last)
