"""The SQL that finds, locks and writes, as text: built once from a schema and its real types.

Every statement passes over the rows that a role's `where` hides, except for the owner of a
dispatch, whom a response may have to name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple, TypeAlias, TypeVar

from hookrow.entry import Ending, Entry, Logged
from hookrow.notification import EventTime, Suppressible
from hookrow.schema import KEYS, WRITTEN, Fold, Given, Schema
from hookrow.stores.sql.columns import Column, Convert
from hookrow.stores.sql.connections import Row
from hookrow.stores.sql.dialects import Dialect

_ALIASES = {"subscribers": "s", "dispatches": "d", "subscriptions": "b", "messages": "m"}
_OWNER = "o"

LOG_COLUMNS = Logged.__struct_fields__

_LIST_PLACE = 4
"""In the rows of `find`."""

K = TypeVar("K")
Converters: TypeAlias = Mapping[int, Convert]
"""Conversions of a row's values, by place."""


class Statement(NamedTuple):
    """SQL text in two parts: a further condition can follow the first one."""

    conditions: str
    rest: str = ""

    @property
    def text(self) -> str:
        """The whole text."""
        return self.conditions + self.rest


class Update(NamedTuple):
    """An UPDATE of many rows, and the names of each row's parameters, in order."""

    statement: Statement
    names: Sequence[str]


class Queries:
    """`columns` are those of each role's table, by the table's own names.

    `single_statement` is whether one statement can change all the tables. It becomes false if
    the database refuses that.
    """

    def __init__(
        self,
        schema: Schema,
        columns: Mapping[str, Mapping[str, Column]],
        dialect: Dialect,
        *,
        single_statement: bool,
    ) -> None:
        self.schema, self.dialect, self.single_statement = schema, dialect, single_statement
        self._hiding = {
            name: [(columns[name][theirs], value) for theirs, value in role.where.items()]
            for name, role in schema.roles.items()
        }
        self._columns = {
            name: {ours: columns[name][theirs] for ours, theirs in schema.columns(name).items()}
            for name in schema.roles
        }
        self.written = {
            kind: names
            for kind in Suppressible
            if kind.value in self._columns
            and (names := [name for name in WRITTEN if name in self._columns[kind.value]])
        }
        """Of each kind of row: what notifications set in it, by our names."""
        self.finds_subscriptions = self.has("subscriptions") and self.list_id() is not None
        self.find = self._find()
        self.pairs = self._keyed(Suppressible.SUBSCRIPTION) if self.has("subscriptions") else None
        self.keep = _keep(dialect, schema.log) if schema.log else None
        self.lock = cache(self._lock)
        self.state = cache(self._state)
        self.set_time = cache(self._set_time)
        self.set_suppression = cache(self._set_suppression)
        self.at_once = cache(_at_once)
        self.reads = {kind: self._reads(kind) for kind in self.written}
        self.writes = {kind: self._writes(kind) for kind in self.written}
        self.found_reads = self._found_reads()
        list_reader = self.found_reads.get(_LIST_PLACE)
        self.list_reads = {0: list_reader} if list_reader else {}

    def has(self, role: str, column: str | None = None) -> bool:
        """Return whether there is such a role, and its table has such a column."""
        return role in self._columns and (column is None or column in self._columns[role])

    def columns(self, role: str) -> Mapping[str, Column]:
        """Return the columns of a role, by our names."""
        return self._columns[role]

    def table(self, role: str, alias: str | None = None) -> str:
        """Return the table of a role, for FROM."""
        return f"{self.dialect.table(self.schema.roles[role].table)} AS {alias or _ALIASES[role]}"

    def column(self, role: str, ours: str, alias: str | None = None) -> str:
        """Return a column of a role, by our name for it."""
        return f"{alias or _ALIASES[role]}.{self.dialect.quote(self._columns[role][ours].name)}"

    def key(self, role: str, ours: str) -> str:
        """Return a column that holds a key, for SELECT."""
        return self.dialect.select(self.column(role, ours), self._columns[role][ours].type)

    def visible(self, *roles: str) -> str:
        """Return what is true of the rows that are not hidden, to follow a condition."""
        return "".join(self._not_hidden(role, _ALIASES[role]) for role in roles)

    def any_of(self, role: str, ours: str) -> str:
        """Compare a column with the values of a parameter, by its index."""
        return self.dialect.any_of(self.column(role, ours), self._columns[role][ours].type)

    def email_is_any(self, fold: Fold) -> str:
        """Compare the subscribers' emails with those of a parameter, by the index of a fold.

        That may find more than `decide.fold` takes for equal; the latter has the last word.
        """
        email = self.dialect.fold(fold, self.column("subscribers", "email"))
        if fold == "lower" and self.dialect.name == "postgresql":
            # Both sides are lowered by the database, whose locale may do more than Python.
            return f"{email} = ANY(ARRAY(SELECT lower(unnest(%s::text[]))))"
        type_ = self._columns["subscribers"]["email"].type
        return self.dialect.any_of(email, "text" if fold in {"ascii", "lower"} else type_)

    def list_id(self) -> str | None:
        """Return the column of a dispatch's list, its own or that of its message, for SELECT."""
        role = "messages" if self.has("messages") else "dispatches"
        return self.key(role, "list_id") if self.has(role, "list_id") else None

    def joined_messages(self) -> str:
        """Return the join of the dispatches' messages, if this host has any."""
        if not self.has("messages"):
            return ""
        same = self._refers("dispatches", "message_id", "messages", "id")
        return f" LEFT JOIN {self.table('messages')} ON {same}{self.visible('messages')}"

    def reader(self, role: str, ours: str) -> Convert | None:
        """Return the conversion of a column's values, if the role has it and it needs one."""
        return self._columns[role][ours].read if self.has(role, ours) else None

    def _reads(self, kind: Suppressible) -> Converters:
        """Return the conversions of `state`'s rows, which begin as those of `pairs` and `lock`."""
        names = (*KEYS[kind], *self.written[kind])
        return _present(enumerate(self.reader(kind.value, name) for name in names))

    def _writes(self, kind: Suppressible) -> Mapping[str, Convert]:
        """Return the conversions of parameters, by the names that `Update` has for them."""
        columns = self._columns[kind.value]
        named = [(f"key_{n}", ours) for n, ours in enumerate(KEYS[kind])]
        named += [(f"new_{ours}", ours) for ours in self.written[kind]]
        return _present((name, columns[ours].write) for name, ours in named)

    def _found_reads(self) -> Converters:
        """Return the conversions of the rows of `find`."""
        lists = "messages" if self.has("messages") else "dispatches"
        converts = (
            self.reader("subscribers", "id"),
            None,
            None,
            self.reader("dispatches", "id"),
            self.reader(lists, "list_id"),
        )
        return _present(enumerate(converts))

    def _not_hidden(self, role: str, alias: str) -> str:
        return "".join(
            f" AND {alias}.{self.dialect.quote(column.name)} {self._equals(column, value)}"
            for column, value in self._hiding[role]
        )

    def _equals(self, column: Column, value: Given) -> str:
        if value is None or (value is False and column.kind != "boolean"):
            return "IS NULL"
        return f"= {self.dialect.literal(value)}"

    def _refers(self, role: str, ours: str, other: str, key: str, alias: str | None = None) -> str:
        """Compare a reference with a key, by whose index CHAR and text would not be compared."""
        type_ = self._columns[other][key].type
        reference = self.column(role, ours)
        if "bpchar" in {type_, self._columns[role][ours].type}:
            reference = f"{reference}::{type_}"
        return f"{self.column(other, key, alias)} = {reference}"

    def _text(self, role: str, ours: str, alias: str | None = None) -> str:
        column = self.column(role, ours, alias)
        return self.dialect.text(column, self._columns[role][ours].type)

    def _find(self) -> str:
        """By emails, message ids, and message ids of suppressions.

        It returns subscribers (id, email), dispatches (owner, the owner's email, message id, id,
        list), and subscriptions of owners (subscriber, list), all with the columns of dispatches.
        """
        list_id = self.list_id() or "NULL"
        owner = self._refers("dispatches", "subscriber_id", "subscribers", "id", _OWNER)
        is_any = self.email_is_any(self.schema.subscribers.fold)
        subscribers = (
            f"SELECT {self.key('subscribers', 'id')}, {self._text('subscribers', 'email')}, "
            f"NULL, NULL, NULL FROM {self.table('subscribers')} "
            f"WHERE {is_any}{self.visible('subscribers')}"
        )
        dispatches = (
            f"SELECT {self.key('dispatches', 'subscriber_id')}, "
            f"{self._text('subscribers', 'email', _OWNER)}, "
            f"{self._text('dispatches', 'provider_message_id')}, {self.key('dispatches', 'id')}, "
            f"{list_id} FROM {self.table('dispatches')} LEFT JOIN "
            f"{self.table('subscribers', _OWNER)} ON {owner}{self.joined_messages()} "
            f"WHERE {self.any_of('dispatches', 'provider_message_id')}{self.visible('dispatches')}"
        )
        found = [subscribers, dispatches]
        if self.finds_subscriptions:
            lists = "messages" if self.has("messages") else "dispatches"
            in_list = self._refers(lists, "list_id", "subscriptions", "list_id")
            of_owner = self._refers("dispatches", "subscriber_id", "subscriptions", "subscriber_id")
            found.append(
                f"SELECT {self.key('subscriptions', 'subscriber_id')}, NULL, NULL, NULL, "
                f"{self.key('subscriptions', 'list_id')} FROM {self.table('dispatches')}"
                f"{self.joined_messages()} JOIN {self.table('subscriptions')} "
                f"ON {in_list} AND {of_owner} "
                f"WHERE {self.any_of('dispatches', 'provider_message_id')}"
                f"{self.visible('dispatches', 'subscriptions')}"
            )
        return " UNION ALL ".join(found)

    def _given(self, kind: Suppressible) -> tuple[dict[str, str], str]:
        """Return the types of a key's parts, and the condition that a row has the key."""
        types = {
            f"key_{n}": self._columns[kind.value][ours].type for n, ours in enumerate(KEYS[kind])
        }
        equal = " AND ".join(
            f"{self.column(kind.value, ours)} = given.key_{n}" for n, ours in enumerate(KEYS[kind])
        )
        return types, equal

    def _keyed(self, kind: Suppressible, more: Iterable[str] = ()) -> str:
        """By keys, on SQLite by one: those that exist, and more columns of their rows."""
        selected = ", ".join(chain((self.key(kind.value, ours) for ours in KEYS[kind]), more))
        table, visible = self.table(kind.value), self.visible(kind.value)
        if not self.dialect.single_statement_write:
            equal = " AND ".join(f"{self.column(kind.value, ours)} = %s" for ours in KEYS[kind])
            return f"SELECT {selected} FROM {table} WHERE {equal}{visible}"
        types, equal = self._given(kind)
        rows = self.dialect.rows(types)
        return f"SELECT {selected} FROM {rows} JOIN {table} ON {equal} WHERE true{visible}"

    def _state(self, kind: Suppressible) -> str:
        """By keys: each key, and then what notifications set."""
        return self._keyed(kind, (self.column(kind.value, name) for name in self.written[kind]))

    def _lock(self, kind: Suppressible, *, skip_locked: bool) -> Statement:
        """By keys: lock rows in the order of their keys, the order in which every process does.

        A sorted UPDATE alone would deadlock, for the planner may reorder it.
        """
        order = ", ".join(self.column(kind.value, ours) for ours in KEYS[kind])
        keyed = self._keyed(kind)
        if len(KEYS[kind]) == 1:  # its index has the order
            (ours,) = KEYS[kind]
            keyed = (
                f"SELECT {self.key(kind.value, ours)} FROM {self.table(kind.value)} "
                f"WHERE {self.any_of(kind.value, ours)}{self.visible(kind.value)}"
            )
        skip = " SKIP LOCKED" if skip_locked else ""
        lock = f" ORDER BY {order} FOR NO KEY UPDATE OF {_ALIASES[kind.value]}{skip}"
        return Statement(keyed, lock)

    def _set_time(self, time: EventTime, *, guarded: bool) -> Update:
        """Set the time to `new_` and its name."""
        guard = "{old} IS NULL OR {old} < {new}" if guarded else ""
        new = {time.value: f"new_{time.value}"}
        return self._update(Suppressible.DISPATCH, new, time.value, guard)

    def _set_suppression(self, kind: Suppressible, *, guarded: bool) -> Update | None:
        """Set those of the suppression columns that there are; None if there are none."""
        new = {
            name: f"new_{name}"
            for name in self.written.get(kind, ())
            if name.startswith("suppress")
        }
        guard = "{old} IS NULL OR {old} <= {new}" if guarded else ""
        return self._update(kind, new, "suppression_changed_at", guard) if new else None

    def _update(
        self, kind: Suppressible, new: Mapping[str, str], guarded: str, guard: str
    ) -> Update:
        """Set columns to parameters where the `guarded` column and its parameter allow it."""
        role, table = kind.value, self.dialect.table(self.schema.roles[kind.value].table)
        keys = {f"key_{n}": ours for n, ours in enumerate(KEYS[kind])}
        at_once = self.dialect.single_statement_write
        # SQLite knows no alias in an UPDATE of a view.
        alias = _ALIASES[role] if at_once else table.rpartition(".")[2]
        parameter = "given.{}" if at_once else "%s"
        sets = ", ".join(
            f"{self.dialect.quote(self._columns[role][ours].name)} = {parameter.format(name)}"
            for ours, name in new.items()
        )
        conditions = [
            f"{self.column(role, ours, alias)} = {parameter.format(name)}"
            for name, ours in keys.items()
        ]
        names = [*keys, *new.values()] if at_once else [*new.values(), *keys]
        if guard:
            old, value = self.column(role, guarded, alias), parameter.format(new[guarded])
            conditions.append(f"({guard.format(old=old, new=value)})")
            names += [] if at_once else [new[guarded]]
        named = ""
        if at_once:
            types = {
                name: self._columns[role][ours].type
                for name, ours in [*keys.items(), *((name, ours) for ours, name in new.items())]
            }
            named = f" AS {alias} SET {sets} FROM {self.dialect.rows(types)}"
        where = " AND ".join(conditions) + self._not_hidden(role, alias)
        return Update(Statement(f"UPDATE {table}{named or f' SET {sets}'} WHERE {where}"), names)


def converted(rows: Sequence[Row], converters: Converters) -> Sequence[Row]:
    """Return rows with their values converted, by place. None stays None."""
    if not converters:
        return rows
    return [
        [
            converters[place](value) if place in converters and value is not None else value
            for place, value in enumerate(row)
        ]
        for row in rows
    ]


def _present(converters: Iterable[tuple[K, Convert | None]]) -> dict[K, Convert]:
    return {place: convert for place, convert in converters if convert is not None}


_JSON_TYPES = {
    **dict.fromkeys(("occurred_at", "received_at", "last_received_at", "ended_at"), "timestamptz"),
    "retry_at": "timestamptz",
    "status": "smallint",
    "attempts": "bigint",
}

_ADD_UP = f"""ON CONFLICT (fingerprint) DO UPDATE SET
outcome = excluded.outcome, status = excluded.status, retry_at = excluded.retry_at,
ended_at = CASE WHEN kept.outcome = '{Ending.RECORDED.value}'
    AND excluded.outcome = '{Ending.RECORDED.value}' THEN kept.ended_at ELSE excluded.ended_at END,
recipient = CASE WHEN excluded.attempts > 0
    THEN coalesce(kept.recipient, excluded.recipient) ELSE kept.recipient END,
body = CASE WHEN excluded.attempts > 0
    THEN coalesce(kept.body, excluded.body) ELSE kept.body END,
attempts = kept.attempts + excluded.attempts,
received_at = CASE WHEN kept.received_at < excluded.received_at
    THEN kept.received_at ELSE excluded.received_at END,
last_received_at = CASE WHEN kept.last_received_at > excluded.last_received_at
    THEN kept.last_received_at ELSE excluded.last_received_at END"""
"""What `entry.followed` does, in SQL."""


def _keep(dialect: Dialect, log: str) -> Statement:
    """Add entries to the log; one that is there adds up what came, and ends as newly.

    By one parameter, all entries as JSON, or by a parameter for each field of an entry.
    """
    fields = Entry.__struct_fields__
    into = f"INSERT INTO {dialect.table(log)} AS kept ({', '.join(fields)}, first_outcome) "
    if not dialect.single_statement_write:
        values = ", ".join(["%s"] * (len(fields) + 1))
        return Statement(f"{into}VALUES ({values})", f" {_ADD_UP}")
    types = ", ".join(f"{name} {_JSON_TYPES.get(name, 'text')}" for name in fields)
    given = ", ".join(
        "decode(fingerprint, 'base64')" if name == "fingerprint" else name for name in fields
    )
    rows = f"json_to_recordset(%s::json) AS given({types})"
    return Statement(f"{into}SELECT {given}, outcome FROM {rows} WHERE true", f" {_ADD_UP}")


def _at_once(statements: tuple[Statement, ...]) -> str:
    """Return one statement of which each part waits for the one before (manual, section 7.8.4).

    All see the rows as they were at its beginning, so that no two may change the same row.
    """
    parts = []
    for number, each in enumerate(statements):
        waits = f" AND (SELECT count(*) FROM hookrow_part_{number - 1}) >= 0" if number else ""
        parts.append(each.conditions + waits + each.rest)
    *others, last = parts
    named = [
        f"hookrow_part_{number} AS MATERIALIZED "
        f"({each}{' RETURNING 1' * each.startswith('UPDATE')})"
        for number, each in enumerate(others)
    ]
    return f"WITH {', '.join(named)} {last}" if named else last
