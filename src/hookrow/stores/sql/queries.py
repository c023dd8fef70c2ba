"""The SQL that finds and locks rows, as text: built once from a schema and the columns' types.

Every statement ignores the rows that a role's `where` hides, except for the owner of a dispatch,
whose email a response may contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from hookrow.core.notification import EventTime, Suppressible
from hookrow.core.result import PARKED, Result
from hookrow.core.schema import KEYS, WRITTEN, Fold, Scalar, Schema
from hookrow.stores.sql.columns import Column
from hookrow.stores.sql.conversions import Conversions
from hookrow.stores.sql.dialects import Dialect
from hookrow.stores.sql.log_rows import has_outcome, log_insert
from hookrow.stores.sql.updates import ALIASES, Statement, Updates, combined

_OWNER = "o"


def parameter(type_: str) -> str:
    """Return a parameter with a cast to the type, unless that is empty, as on SQLite."""
    return f"%s::{type_}" if type_ else "%s"


class Combined(NamedTuple):
    """One statement, whose first parts lock the rows of these kinds, in this order."""

    kinds: Sequence[Suppressible]
    text: str


class Queries:
    """The statements of a store.

    `columns` are those of each role's table, by the table's own names. `single_statement` is
    whether one statement can change all tables; it becomes false if the database rejects that.
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
        self.hiding = {
            name: [(columns[name][theirs], value) for theirs, value in role.where.items()]
            for name, role in schema.roles.items()
        }
        """By role: the columns of `where`, each with the value of the rows that are not hidden."""
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
        """The columns of each kind of row that notifications set, by hookrow's names."""
        self.empty = {kind: schema.roles[kind.value].empty for kind in self.written}
        """The value that stands for no reason, by kind of row."""
        self.has_uuids = self._columns["dispatches"]["provider_message_id"].holds_uuids
        """Whether the message ids of dispatches are UUIDs; see `conversions`."""
        self.first_opens = self.has("dispatches", EventTime.FIRST_OPENED.value)
        """Whether the first open of a dispatch is recorded."""
        self.finds_subscriptions = self.has("subscriptions") and self.list_id() is not None
        self.find = self._find()
        self.pairs = self._keyed(Suppressible.SUBSCRIPTION) if self.has("subscriptions") else None
        self.log_insert = log_insert(dialect, schema.log) if schema.log else None
        self.is_hopeful = self._is_hopeful()
        self.lock = cache(self._lock)
        self.combined = cache(self._combined)
        self.state = cache(self._state)
        self.updates = Updates(self)
        self.undated, self.dated_beside_log = schema.undated, schema.dated_beside_log
        self.conversions = Conversions(self._columns, self.written)

    def has(self, role: str, column: str | None = None) -> bool:
        """Return whether there is such a role, and its table has such a column."""
        return role in self._columns and (column is None or column in self._columns[role])

    def columns(self, role: str) -> Mapping[str, Column]:
        """Return the columns of a role, by hookrow's names."""
        return self._columns[role]

    def table(self, role: str, alias: str | None = None) -> str:
        """Return the table of a role with its alias, for FROM."""
        return f"{self.dialect.table(self.schema.roles[role].table)} AS {alias or ALIASES[role]}"

    def column(self, role: str, ours: str, alias: str | None = None) -> str:
        """Return a column of a role, by hookrow's name for it."""
        return f"{alias or ALIASES[role]}.{self.dialect.quote(self._columns[role][ours].name)}"

    def key(self, role: str, ours: str) -> str:
        """Return a column that holds a key, for SELECT."""
        return self.dialect.select(self.column(role, ours), self._columns[role][ours].type)

    def text(self, role: str, ours: str, alias: str | None = None) -> str:
        """Return a column that holds text or UUIDs, as text for SELECT."""
        column = self.column(role, ours, alias)
        return self.dialect.text(column, self._columns[role][ours].type)

    def visible(self, *roles: str) -> str:
        """Return the conditions that exclude hidden rows, to follow another condition."""
        return "".join(self.not_hidden(role, ALIASES[role]) for role in roles)

    def any_of(self, role: str, ours: str) -> str:
        """Compare a column with the values of one parameter, so that its index is used."""
        return self.dialect.any_of(self.column(role, ours), self._columns[role][ours].type)

    def email_is_any(self, fold: Fold) -> str:
        """Compare the subscribers' emails with those of one parameter, by the index of a fold.

        This may find more rows than `rules.fold` considers equal; `rules.decide` chooses.
        """
        type_ = self._columns["subscribers"]["email"].type
        return self.dialect.email_is_any(fold, self.column("subscribers", "email"), type_)

    def reason(self) -> str:
        """Return the reason of a subscriber's suppression as text, empty if there is none."""
        if not self.has("subscribers", "suppression_reason"):
            return "CAST('' AS text)"
        return f"coalesce(CAST({self.column('subscribers', 'suppression_reason')} AS text), '')"

    def list_id(self) -> str | None:
        """Return the column with the list of a dispatch or of its message, for SELECT."""
        role = "messages" if self.has("messages") else "dispatches"
        return self.key(role, "list_id") if self.has(role, "list_id") else None

    def joined_messages(self) -> str:
        """Return the join of the dispatches with their messages, if there is such a role."""
        if not self.has("messages"):
            return ""
        same = self.refers("dispatches", "message_id", "messages", "id")
        return f" LEFT JOIN {self.table('messages')} ON {same}{self.visible('messages')}"

    def not_hidden(self, role: str, alias: str) -> str:
        """Return the conditions that exclude a table's hidden rows, to follow another condition."""
        return "".join(
            f" AND {alias}.{self.dialect.quote(column.name)} {self.equals(column, value)}"
            for column, value in self.hiding[role]
        )

    def equals(self, column: Column, value: Scalar) -> str:
        """Return the rest of a condition of `where`, to follow the column."""
        selected = _selected(column, value)
        return "IS NULL" if selected is None else f"= {self.dialect.literal(selected)}"

    def selecting(self, role: str) -> Mapping[str, Scalar]:
        """Return the values of columns that select the rows of a role; None stands for null."""
        return {column.name: _selected(column, value) for column, value in self.hiding[role]}

    def value(self, name: str) -> str:
        """Return the SQL of a named parameter in a row of values."""
        return f"given.{name}" if self.dialect.takes_rows else "%s"

    def probes(self) -> Iterable[str]:
        """Return statements that select no row, but need what changes of rows need.

        On PostgreSQL, they are locks, because an update would fire the host's triggers for each
        statement, as often as /readyz is requested.
        """
        changed = {
            self.dialect.table(self.schema.roles[kind.value].table): self._columns[kind.value][
                names[0]
            ].name
            for kind, names in self.written.items()
        }
        if self.schema.log:
            changed[self.dialect.table(self.schema.log)] = "attempts"
        for table, name in changed.items():
            if self.dialect.locks_rows:
                yield f"SELECT FROM {table} WHERE 1 = 0 FOR NO KEY UPDATE"
                continue
            column = self.dialect.quote(name)
            yield f"UPDATE {table} SET {column} = {column} WHERE 1 = 0"

    def refers(self, role: str, ours: str, other: str, key: str, alias: str | None = None) -> str:
        """Compare a reference with a key, so that the key's index is used."""
        return f"{self.column(other, key, alias)} = {self.reference(role, ours, other, key)}"

    def reference(self, role: str, ours: str, other: str, key: str) -> str:
        """Return a reference to a key. CHAR and text need a cast to be compared with it."""
        type_ = self._columns[other][key].type
        reference = self.column(role, ours)
        needs_cast = "bpchar" in {type_, self._columns[role][ours].type}
        return f"{reference}::{type_}" if needs_cast else reference

    def time(self, role: str, ours: str) -> str:
        """Return a parameter to compare with a column of times; its value is `stored`."""
        type_ = self._columns[role][ours].type
        if type_ == "timestamp without time zone":
            return f"{parameter('timestamp with time zone')} AT TIME ZONE 'UTC'"
        return parameter(type_)

    def stored(self, role: str, ours: str, value: Any) -> Any:  # noqa: ANN401 - of a column
        """Return a value as a column stores it."""
        write = self._columns[role][ours].write
        return self.dialect.write(write(value) if write else value)

    def _find(self) -> str:
        """Select rows by emails, by message ids, and by the message ids of suppression changes.

        The result has subscribers (id, email), dispatches (owner, the owner's email, message id,
        id, list), and subscriptions of owners (subscriber, list), all in the columns of dispatches.
        """
        selects = [self._find_subscribers(), self._find_dispatches()]
        if self.finds_subscriptions:
            selects.append(self._find_subscriptions())
        return " UNION ALL ".join(selects)

    def _find_subscribers(self) -> str:
        is_any = self.email_is_any(self.schema.subscribers.fold)
        return (
            f"SELECT {self.key('subscribers', 'id')}, {self.text('subscribers', 'email')}, "
            f"NULL, NULL, NULL FROM {self.table('subscribers')} "
            f"WHERE {is_any}{self.visible('subscribers')}"
        )

    def _find_dispatches(self) -> str:
        owner = self._is_owner()
        return (
            f"SELECT {self.key('dispatches', 'subscriber_id')}, "
            f"{self.text('subscribers', 'email', _OWNER)}, "
            f"{self.text('dispatches', 'provider_message_id')}, {self.key('dispatches', 'id')}, "
            f"{self.list_id() or 'NULL'} FROM {self.table('dispatches')} LEFT JOIN "
            f"{self.table('subscribers', _OWNER)} ON {owner}{self.joined_messages()} "
            f"WHERE {self.any_of('dispatches', 'provider_message_id')}{self.visible('dispatches')}"
        )

    def _is_owner(self) -> str:
        """Compare a dispatch with its owner, which may be hidden.

        An id is unique only among visible rows: if another tenant's row has the id of a visible
        owner, it is not the owner.
        """
        refers = self.refers("dispatches", "subscriber_id", "subscribers", "id", _OWNER)
        if not self.hiding["subscribers"]:
            return refers
        alias = ALIASES["subscribers"]
        of_dispatch = self.refers("dispatches", "subscriber_id", "subscribers", "id")
        is_visible = self.not_hidden("subscribers", _OWNER).removeprefix(" AND ")
        return (
            f"{refers} AND ({is_visible} OR NOT EXISTS (SELECT 1 FROM "
            f"{self.table('subscribers', alias)} WHERE {of_dispatch}{self.visible('subscribers')}))"
        )

    def _find_subscriptions(self) -> str:
        lists = "messages" if self.has("messages") else "dispatches"
        in_list = self.refers(lists, "list_id", "subscriptions", "list_id")
        of_owner = self.refers("dispatches", "subscriber_id", "subscriptions", "subscriber_id")
        return (
            f"SELECT {self.key('subscriptions', 'subscriber_id')}, NULL, NULL, NULL, "
            f"{self.key('subscriptions', 'list_id')} FROM {self.table('dispatches')}"
            f"{self.joined_messages()} JOIN {self.table('subscriptions')} "
            f"ON {in_list} AND {of_owner} "
            f"WHERE {self.any_of('dispatches', 'provider_message_id')}"
            f"{self.visible('dispatches', 'subscriptions')}"
        )

    def _is_hopeful(self) -> str:
        """Return the condition that the rows of an entry `n` of the log exist now.

        The log contains addresses in lower case, so a column that is compared by the exact spelling
        is searched for that one; an owner is found by the dispatch, and compared in lower case.
        """
        dialect, email = self.dialect, self._columns["subscribers"]["email"]
        column, fold = self.column("subscribers", "email"), self.schema.subscribers.fold
        address = dialect.is_email(fold, column, "n.recipient", email.type)
        same = address
        if fold == "exact":
            same = f"lower({self.text('subscribers', 'email')}) = lower(n.recipient)"
        is_sent = dialect.is_message_id(
            self.column("dispatches", "provider_message_id"),
            "n.message_id",
            self._columns["dispatches"]["provider_message_id"].type,
            uuids=self.has_uuids,
        )
        owner = self.refers("dispatches", "subscriber_id", "subscribers", "id")
        # SQLite reads the tables of a CROSS JOIN in this order: a person may have many dispatches.
        is_owned = (
            f"EXISTS (SELECT 1 FROM {self.table('dispatches')} CROSS JOIN "
            f"{self.table('subscribers')} WHERE {is_sent} AND {owner} AND {same}"
            f"{self.visible('dispatches', 'subscribers')})"
        )
        is_known = (
            f"EXISTS (SELECT 1 FROM {self.table('subscribers')} "
            f"WHERE {address}{self.visible('subscribers')})"
        )
        is_suppression = "(n.reason IS NOT NULL OR n.record_type = 'SubscriptionChange')"
        found = has_outcome("n", PARKED - {Result.FAILED})
        return f"{found} AND ({is_owned} OR ({is_suppression} AND {is_known}))"

    def _keyed(self, kind: Suppressible, more: Iterable[str] = ()) -> str:
        """Select the keys that exist among the parameters, and more columns."""
        role, keys = kind.value, {ours: f"key_{n}" for n, ours in enumerate(KEYS[kind])}
        rows = self.dialect.rows(
            {name: self._columns[role][ours].type for ours, name in keys.items()}
        )
        tables = ", ".join(filter(None, [rows, self.table(role)]))
        selected = ", ".join([*(self.key(role, ours) for ours in keys), *more])
        equal = " AND ".join(
            f"{self.column(role, ours)} = {self.value(name)}" for ours, name in keys.items()
        )
        return f"SELECT {selected} FROM {tables} WHERE {equal}{self.visible(role)}"

    def _state(self, kind: Suppressible) -> str:
        """Select by keys: each key, followed by the columns that notifications set."""
        return self._keyed(kind, (self.column(kind.value, name) for name in self.written[kind]))

    def _lock(
        self, kind: Suppressible, *, skip_locked: bool, guards: tuple[str, ...] = ()
    ) -> Statement:
        """Lock rows by keys, in the order of the keys, as every process does.

        A sorted UPDATE alone could deadlock, because the planner may reorder it. With `guards`,
        select these columns, too, for the check of a combined statement.
        """
        role = kind.value
        more = []
        if guards:
            more = [f"{self.column(role, ours)} AS key_{n}" for n, ours in enumerate(KEYS[kind])]
            more += [f"{self.column(role, ours)} AS {ours}" for ours in guards]
        keyed = self._keyed(kind, more)
        if len(KEYS[kind]) == 1:  # its index has the order
            (ours,) = KEYS[kind]
            selected = ", ".join([self.key(role, ours), *more])
            keyed = (
                f"SELECT {selected} FROM {self.table(role)} "
                f"WHERE {self.any_of(role, ours)}{self.visible(role)}"
            )
        order = ", ".join(self.column(role, ours) for ours in KEYS[kind])
        skip = " SKIP LOCKED" if skip_locked else ""
        lock = f" ORDER BY {order} FOR NO KEY UPDATE OF {ALIASES[role]}{skip}"
        return Statement(keyed, rest=lock, kind=kind, returning="", is_lock=True)

    def _combined(self, statements: tuple[Statement, ...], *, skip_locked: bool) -> Combined:
        """Lock the rows that statements change, then run these, all in one statement."""
        changed = {each.kind for each in statements}
        kinds = [kind for kind in Suppressible if kind in changed]
        locks = [
            self.lock(
                kind,
                skip_locked=skip_locked,
                guards=tuple(
                    sorted({each.guard for each in statements if each.kind is kind and each.guard})
                ),
            )
            for kind in kinds
        ]
        return Combined(kinds, combined([*locks, *statements]))


def _selected(column: Column, value: Scalar) -> Scalar:
    """Return the value of a condition: False also means null, unless the column is boolean."""
    return None if value is False and column.kind != "boolean" else value
