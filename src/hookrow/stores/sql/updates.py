"""The SQL that changes rows, and dates their changes beside the log, as text; see `queries`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hookrow.core.notification import EventTime, Suppressible
from hookrow.core.schema import KEYS, SUPPRESSION
from hookrow.stores import dates

if TYPE_CHECKING:
    from hookrow.stores.sql.queries import Queries

ALIASES = {"subscribers": "s", "dispatches": "d", "subscriptions": "b", "messages": "m"}
"""By role: the name of its table in a statement."""

_NAIVE = "timestamp without time zone"
"""A type that ignores the offset of a time, which is therefore converted to UTC first."""

_DATE = {"row_key": "text", "new_suppression_changed_at": "timestamp with time zone"}
"""The parameters that date a change beside the log, and their types."""

_RETURNING = {"UPDATE": " RETURNING 1", "INSERT": f" RETURNING {', '.join(dates.COLUMNS)}"}
"""What the parts of a statement return. Only dates are inserted by one that others follow."""


class Statement:
    """SQL text in two parts, between which a further condition can be inserted.

    As a part of another statement it has the `name`, if other parts need what it returns.
    """

    __slots__ = ("conditions", "name", "rest", "text")

    def __init__(self, conditions: str, rest: str = "", name: str = "") -> None:
        self.conditions, self.rest, self.name = conditions, rest, name
        self.text = conditions + rest


class Update:
    """A statement that writes many rows.

    `names` are those of each row's parameters, in order, and `parameters` returns a row's from
    its values by name.
    """

    __slots__ = ("names", "parameters", "statement")

    def __init__(self, statement: Statement, names: Sequence[str]) -> None:
        self.statement, self.names = statement, names
        self.parameters: Callable[[Mapping[str, Any]], Sequence[Any]] = itemgetter(*names)


class Updates:
    """The statements that change the rows of tables of which `queries` has the columns."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._dates = queries.dialect.table(queries.schema.beside_log(dates.TABLE))
        self.set_time = cache(self._set_time)
        self.set_suppression = cache(self._set_suppression)
        self.at_once = cache(_at_once)

    def _set_time(self, time: EventTime, *, guarded: bool) -> Update:
        """Set a time."""
        older, new = "<" if guarded else None, {time.value: f"new_{time.value}"}
        return self._update(Suppressible.DISPATCH, new, time.value, older)

    def _set_suppression(
        self, kind: Suppressible, *, guarded: bool, at_once: bool
    ) -> Sequence[Update]:
        """Set the suppression columns that the table has; nothing if it has none.

        If the last change is dated beside the log, it is dated first. With `at_once`, the two are
        parts of one statement, in which the second does not see what the first has written.
        """
        written = self._queries.written.get(kind, ())
        new = {name: f"new_{name}" for name in written if name in SUPPRESSION}
        if not new:
            return ()
        if kind not in self._queries.dated_beside_log:
            return (self._update(kind, new, "suppression_changed_at", "<=" if guarded else None),)
        dated, update = self._set_date(kind), self._update(kind, new, more=_DATE)
        relation = dated.statement.name if at_once else self._dates
        key, at = map(self._queries.value, _DATE)
        not_newer = (
            f" AND EXISTS (SELECT 1 FROM {relation} AS dated WHERE dated.role = '{kind.value}' "
            f"AND dated.row_key = {key} AND dated.changed_at <= {at})"
        )
        return dated, Update(Statement(update.statement.conditions + not_newer), update.names)

    def _set_date(self, kind: Suppressible) -> Update:
        """Date a change beside the log, unless the row is gone or its last change is newer.

        This waits for another transaction that dates the same row, and then compares with its date.
        """
        queries, role, relation, order = self._queries, kind.value, "", ""
        keys = {f"key_{n}": ours for n, ours in enumerate(KEYS[kind])}
        if queries.dialect.takes_rows:
            types = {name: queries.columns(role)[ours].type for name, ours in keys.items()}
            relation = f" FROM {queries.dialect.rows(types | _DATE)}"
            order = " ORDER BY role, row_key"
        equal = " AND ".join(
            f"{queries.column(role, ours)} = {queries.value(name)}" for name, ours in keys.items()
        )
        return Update(
            Statement(
                f"INSERT INTO {self._dates} AS dated ({', '.join(dates.COLUMNS)}) "
                f"SELECT '{role}' AS role, {', '.join(map(queries.value, _DATE))}{relation} "
                f"WHERE EXISTS (SELECT 1 FROM {queries.table(role)} "
                f"WHERE {equal}{queries.visible(role)})",
                f"{order} ON CONFLICT (role, row_key) DO UPDATE "
                "SET changed_at = excluded.changed_at "
                "WHERE dated.changed_at <= excluded.changed_at",
                f"hookrow_dated_{role}",
            ),
            [*keys, *_DATE] if queries.dialect.takes_rows else [*_DATE, *keys],
        )

    def _update(
        self,
        kind: Suppressible,
        new: dict[str, str],
        guard: str = "",
        older: str | None = None,
        *,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> Update:
        """Set columns to parameters.

        With an operator for `older`, this is only done if the `guard` column is null or older.
        `more` are the types of further parameters, for a condition that follows.
        """
        queries, role = self._queries, kind.value
        columns = queries.columns(role)
        table = queries.dialect.table(queries.schema.roles[role].table)
        keys = {ours: f"key_{n}" for n, ours in enumerate(KEYS[kind])}
        names = [*new.values(), *keys.values()]
        values = {name: queries.value(name) for name in names}
        alias = table.rpartition(".")[2]  # SQLite knows no alias in an UPDATE of a view
        renamed = relation = ""
        if queries.dialect.takes_rows:
            types = {name: columns[ours].type for ours, name in (keys | new).items()}
            types.update(more)
            for name in (name for name in new.values() if types[name] == _NAIVE):
                types[name] = "timestamp with time zone"
                values[name] += " AT TIME ZONE 'UTC'"
            alias, names = ALIASES[role], list(types)
            renamed, relation = f" AS {alias}", f" FROM {queries.dialect.rows(types)}"
        else:
            names += [new[guard]] if older else more
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
        return Update(
            Statement(f"UPDATE {table}{renamed} SET {sets}{relation} WHERE {where}"), names
        )


def _at_once(statements: tuple[Statement, ...]) -> Statement:
    """Return one statement in which each part waits for the previous one (manual, 7.8.4).

    All parts see the rows as they were at its beginning, so no two may change the same row.
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
