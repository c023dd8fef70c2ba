"""The statements that find, lock and change rows and add entries to the log, as SQL text.

Each is a template, written out for each database where they differ. `_role_tables` has the names
and the comparisons that fill it in. A parameter of a row has a name in a template, `%(name)s`: that
of its column, by hookrow's name, or `key_0` and `key_1` for the columns of its key.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from operator import itemgetter
from string import Template
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from hookrow._core.changes import WRITES, Write
from hookrow._core.log_entry import LogEntry
from hookrow._core.notification import EventTime, Key, Suppressible
from hookrow._core.result import PARKED, Result
from hookrow._core.schema import KEYS, TOUCH
from hookrow.stores._change_dates import CHANGE_DATE_COLUMNS
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._connections import Connection, Insert
from hookrow.stores.sql._log_rows import has_outcome
from hookrow.stores.sql._role_tables import ALIASES, OWNER, RoleTables
from hookrow.stores.sql._scripts import CHANGE_DATES_TABLE

_NAMED = re.compile(r"%(?:\((\w+)\)s|.)", re.DOTALL)


class Statement:
    """SQL text, and how to get the values of a row for it.

    `values` returns those with the given names, in order, from the values of a row by name. `kind`
    is that of the host's rows that it locks or changes; None for rows of other tables.
    """

    __slots__ = ("kind", "text", "values")

    def __init__(
        self, text: str, names: Sequence[str] = (), kind: Suppressible | None = None
    ) -> None:
        self.text, self.kind = text, kind
        self.values: Callable[[Mapping[str, Any]], Sequence[Any]] = _getter(names)

    def run(self, connection: Connection, parameters: Sequence[Any]) -> int:
        """Run it with the parameters of `Statements.parameters`; return how many rows it changed.

        The dialect has encoded all rows as these parameters.
        """
        return connection.execute(self.text, parameters)


class RowStatement(Statement):
    """A statement on one row, which is run once for each row of parameters."""

    __slots__ = ()

    def run(self, connection: Connection, parameters: Sequence[Any]) -> int:
        return connection.execute_many(self.text, parameters)


class InsertStatement(Statement):
    """An INSERT of values, of which some connections send many rows together."""

    __slots__ = ("insert",)

    def __init__(self, insert: Insert) -> None:
        super().__init__(insert.one)
        self.insert = insert

    def run(self, connection: Connection, parameters: Sequence[Any]) -> int:
        return connection.insert(self.insert, parameters)


def _getter(names: Sequence[str]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    match names:
        case []:
            return lambda _: ()
        case [name]:
            return lambda values: (values[name],)
        case _:
            return itemgetter(*names)


def positional(template: str) -> tuple[str, Sequence[str]]:
    """Return a template with `%s` for each parameter that has a name, and these names."""
    names = [name for name in _NAMED.findall(template) if name]
    return _NAMED.sub(lambda each: "%s" if each[1] else each[0], template), names


class Step(NamedTuple):
    """A statement, and the rows that it must change: their values, or entries of the log."""

    statement: Statement
    rows: Sequence[Any]


class Combined(ABC):
    """One text that locks the rows of each of the `kinds`, and then runs several statements.

    If it has not locked or changed each row, except those that a guard refuses, it raises an error
    for which `failed_check` returns True, before the commit.
    """

    def __init__(self, kinds: Sequence[Suppressible], text: str) -> None:
        self.kinds, self.text = kinds, text

    @abstractmethod
    def parameters(
        self, keys: Sequence[Sequence[Sequence[Any]]], steps: Sequence[Step]
    ) -> Sequence[Any] | None:
        """Return the parameters for the rows of each kind, and for those of each statement.

        The rows of a kind are their keys, each as the values of its columns. Returns None if the
        parameters are too large for one text.
        """


S = TypeVar("S", bound=Statement)


class Combining(ABC, Generic[S]):
    """Combines statements, so that a group is locked and written in one round trip."""

    combined: Callable[..., Combined]
    """Combines a tuple of statements; the other arguments are those of `_combined`."""

    def __init__(self) -> None:
        self.combined = cache(self._combined)

    @abstractmethod
    def accepts(self, *, autocommits: bool, repeats_rows: bool) -> bool:
        """Return whether one text can write a group.

        `autocommits` is that of the connection, and `repeats_rows` whether several of the changes
        concern the same row.
        """

    @abstractmethod
    def _combined(self, statements: tuple[S, ...], *, skip_locked: bool, commits: bool) -> Combined:
        """Combine statements that run in this order.

        The text skips locked rows, which then count as missing, or waits for them. If it `commits`,
        it is a whole transaction.
        """


_FIND_SUBSCRIBERS = Template("""\
SELECT $id, $email, NULL, NULL, NULL
FROM $subscribers
WHERE $is_any$visible""")

# By pairs: if many tenants send to the same people, two lists would select each of the people once
# for each tenant.
_FIND_SUBSCRIBERS_OF_TENANTS = Template("""\
SELECT $id, $email, NULL, NULL, NULL, $tenant, NULL
FROM $given $join_in_order $subscribers
WHERE $is_email$of_tenant$visible""")

_FIND_DISPATCHES = Template("""\
SELECT $subscriber_id, $email, $message_id, $id, $list_id$tenants
FROM $dispatches
LEFT JOIN $owners ON $is_owner$messages
WHERE $is_any$of_tenants$visible""")

_IS_VISIBLE_OWNER = Template("""\
$refers AND ($is_visible
    OR NOT EXISTS (SELECT 1 FROM $subscribers WHERE $of_dispatch$visible))""")

_FIND_SUBSCRIPTIONS = Template("""\
SELECT $subscriber_id, NULL, NULL, NULL, $list_id$tenants
FROM $dispatches$messages
JOIN $subscriptions ON $in_list AND $of_owner
WHERE $is_any$of_tenants$visible""")

_HOPEFUL = Template("""\
$of_entry$is_parked AND (
    $has_rows
)""")

# The dispatches of the message are read first: a person may have many dispatches.
_HAS_DISPATCH = Template("""\
EXISTS (SELECT 1 FROM $dispatches $join_in_order $subscribers
        WHERE $is_sent AND $is_owned AND $is_owner$is_of_tenant$visible)""")

_HAS_SUBSCRIBER = Template("""\
((n.reason IS NOT NULL OR n.record_type = 'SubscriptionChange')
        AND n.outcome = 'subscriber_not_found'
        AND EXISTS (SELECT 1 FROM $subscribers WHERE $is_recipient$has_tenant$visible))""")

_SELECT_DATES = Template("""\
SELECT row_key, changed_at FROM $dates WHERE role = '$role' AND $is_any""")


class Statements(ABC):
    """The statements of a store, in the tables of its roles."""

    selects_one: ClassVar[bool]
    """Whether a SELECT by keys has the key of one row; otherwise those of all rows."""
    combining: Combining[Any] | None = None
    """Combines the statements that write a group; None if each is sent separately."""

    finds_subscriptions: bool
    """Whether `find` can select subscriptions, because equal keys are equal in Python, too.

    The database may compare texts without regard to case, or keys of different types."""
    find: Callable[..., str]
    """Selects dispatches by message ids, and other rows only if they are needed.

    Without dispatches in the mapping, it selects only subscribers.
    With `subscribers`, also subscribers by emails, the first parameter; with `subscriptions`, also
    those of the dispatches with other message ids, the last parameter."""
    hopeful: str
    """The condition that the rows of an entry `n` of the log exist now."""
    of_entries: str
    """Joins the entries `n` of the log with the tenants of the receiver's entries, `given`, for
    `hopeful`; empty if the mapping has no tenants. `given_tenants` returns its parameters."""
    add_entries: Statement | None = None
    """Adds entries to the log, or merges those that arrived before; None without a log."""
    rehearse_entries: Statement | None = None
    """The same with ids that no entry has, so that none is taken from the sequence of ids, whose
    numbers are not given back by undoing the statement. None without a log."""
    register_writer: str | None = None
    """Registers the transaction with `Catalogue.open_writers`, before it adds entries to the log.

    None if the database itself knows these transactions."""
    select_pairs: Callable[[], str]
    """Selects the keys of subscriptions by pairs, followed by the pairs as they are given."""
    state: Callable[[Suppressible], str]
    """Selects by keys: each key, followed by the columns that notifications set."""
    dates: Callable[[Suppressible], str]
    """Selects the dates in the side table, by their `row_key`."""
    lock: Callable[..., Statement]
    """Locks rows by keys, in their order. Only for databases that lock rows."""
    set_time: Callable[..., Sequence[Statement]]
    """Sets a time of a dispatch; if `guarded`, only if the guard of `WRITES` holds."""
    set_suppression: Callable[..., Sequence[Statement]]
    """Sets or lifts the suppression of a kind of row; `guarded` as in `set_time`."""

    def __init__(self, tables: RoleTables) -> None:
        self.tables, self.dialect = tables, tables.dialect
        self.finds_subscriptions = self._can_find_subscriptions()
        self.find = cache(self._find)
        self.select_pairs = cache(self._select_pairs)
        self.hopeful = self._hopeful()
        self.of_entries = self._of_entries()
        if tables.schema.log:
            log = self.dialect.table(tables.schema.log)
            self.add_entries = self._add_entries(log)
            self.rehearse_entries = self._add_entries(log, id_=self.dialect.unused_id)
        self._dates = self.dialect.table(tables.schema.side_table(CHANGE_DATES_TABLE))
        self.state = cache(self._state)
        self.set_time = cache(self._set_time)
        self.set_suppression = cache(self._set_suppression)
        self.dates = cache(self._select_dates)

    @cached_property
    def with_hidden(self) -> Statements:
        """The same statements, which also find rows that `where` hides, to read them only."""
        return type(self)(self.tables.with_hidden())

    @abstractmethod
    def _select(self, kind: Suppressible, *columns: str) -> str:
        """Return the SELECT of the keys that exist among the given ones, and of more columns."""

    def parameters(self, step: Step) -> Sequence[Any]:
        """Return the parameters of a step's statement: for all rows, or a list for each."""
        if self.adds_entries(step.statement):
            return self.dialect.encode_entries(step.rows)
        return self.dialect.encode_rows(step.rows)

    def adds_entries(self, statement: Statement) -> bool:
        """Return whether a statement adds entries to the log."""
        return statement is self.add_entries or statement is self.rehearse_entries

    def is_complete(self, statement: Statement, count: int, size: int) -> bool:  # noqa: ARG002 - most databases count rows
        """Return whether a statement has changed all rows, given their number and the count.

        If not, the rows are read, because a guard may have refused to change some of them.
        """
        return count >= size

    @abstractmethod
    def probes(self) -> Iterable[str]:
        """Return statements that affect no row, but fail if a change would."""

    @abstractmethod
    def _update(
        self, kind: Suppressible, write: Write, *, guarded: bool, dated: bool = False
    ) -> Statement:
        """Return the statement that sets the columns which the table has.

        If `guarded`, rows are left unchanged unless the guard holds; if `dated`, unless the change
        has the date in the side table.
        """

    @abstractmethod
    def _set_date(self, kind: Suppressible) -> Statement:
        """Return the statement that dates changes in the side table, unless a row is missing.

        A newer date stays. The statement waits for another transaction that dates the same row, and
        then compares with its date.
        """

    @abstractmethod
    def _add_entries(self, log: str, *, id_: str = "") -> Statement:
        """Return the statement that adds entries to the log, or merges those that arrived before.

        The parameters are those of `Dialect.encode_entries`. `id_` is the expression for the ids of
        the entries, if the database is not to choose them.
        """

    def _can_find_subscriptions(self) -> bool:
        tables = self.tables
        if not tables.has("subscriptions") or tables.list_id() is None:
            return False
        own = tables.columns("subscriptions")
        lists = tables.columns("messages" if tables.has("messages") else "dispatches")
        pairs = (
            (own["list_id"], lists["list_id"]),
            (own["subscriber_id"], tables.columns("subscribers")["id"]),
        )
        return all(_are_equal_in_python(*pair) for pair in pairs)

    def _select_pairs(self) -> str:
        """Select the keys of subscriptions by pairs, followed by the pairs as they are given.

        If the table has a column of tenants, the tenant follows.
        """
        kind, dialect = Suppressible.SUBSCRIPTION, self.dialect
        columns = self.tables.columns(kind.value)
        pair = [
            dialect.select(dialect.given(key, columns[name], folds=False), columns[name])
            for key, name in key_parameters(kind).items()
        ]
        has_tenant = kind.value in self.tables.tenants
        return self._select(kind, *pair, *([self.tables.tenant(kind.value)] if has_tenant else []))

    def _find(self, *, subscribers: bool, subscriptions: bool) -> str:
        """Select subscribers (id, email), dispatches, and subscriptions of owners (owner, list).

        All are in the columns of dispatches: the owner, its email, the message id, the id and the
        list. If the mapping has tenants, that of the owner follows, and that of the dispatch or
        the subscription. The keys of each kind are a parameter. The tenants are the next one, if
        the table of the dispatches has a column for them. `given_emails` returns the parameters of
        the subscribers.
        """
        selects = []
        if subscribers:
            selects.append(self._find_subscribers())
        if self.tables.has("dispatches"):
            selects.append(self._find_dispatches())
        if subscriptions:
            selects.append(self._find_subscriptions())
        return "\nUNION ALL\n".join(selects)

    def _find_subscribers(self) -> str:
        tables, dialect, fold = self.tables, self.dialect, self.tables.schema.subscribers.fold
        found = {
            "id": tables.key("subscribers", "id"),
            "email": tables.text("subscribers", "email"),
            "subscribers": tables.table("subscribers"),
            "visible": tables.visible("subscribers"),
        }
        if not tables.tenants:
            return _FIND_SUBSCRIBERS.substitute(found, is_any=tables.email_is_any(fold))
        column = tables.columns("subscribers")["email"]
        types = {"email": dialect.text_type, "subscribers": tables.tenants["subscribers"].type}
        return _FIND_SUBSCRIBERS_OF_TENANTS.substitute(
            found,
            tenant=tables.tenant("subscribers"),
            given=self._relation(types),
            join_in_order=dialect.join_in_order,
            is_email=dialect.is_email(fold, ALIASES["subscribers"], column, "given.email"),
            of_tenant=tables.of_given_tenant("subscribers"),
        )

    def given_emails(self, emails: Collection[tuple[str, Key | None]]) -> Sequence[Any]:
        """Return the parameters of `find` for subscribers, given the email and tenant of each."""
        if not self.tables.tenants:
            return [self.dialect.encode({email for email, _ in emails})]
        of_tenants = [(email, tenant) for email, tenant in emails if tenant is not None]
        values = [self.tables.tenant_value("subscribers", tenant) for _, tenant in of_tenants]
        return self._related([[email for email, _ in of_tenants], values])

    def _find_dispatches(self) -> str:
        tables = self.tables
        tenants = of_tenants = ""
        if "dispatches" in tables.tenants:
            tenants = f", {tables.tenant('subscribers', OWNER)}, {tables.tenant('dispatches')}"
            of_tenants = tables.of_tenants("dispatches")
        elif tables.tenants:
            # No condition on the owners: the planner might read all those of a tenant.
            of_owner = tables.tenant("subscribers", OWNER)
            tenants = f", {of_owner}, {of_owner}"
        return _FIND_DISPATCHES.substitute(
            subscriber_id=self._visible_owner(),
            email=tables.text("subscribers", "email", OWNER),
            message_id=tables.text("dispatches", "provider_message_id"),
            id=tables.key("dispatches", "id"),
            list_id=tables.list_id() or "NULL",
            tenants=tenants,
            dispatches=tables.table("dispatches"),
            owners=tables.table("subscribers", OWNER),
            is_owner=self._is_owner(),
            messages=tables.joined_messages(),
            is_any=tables.any_of("dispatches", "provider_message_id"),
            of_tenants=of_tenants,
            visible=tables.visible("dispatches"),
        )

    def _visible_owner(self) -> str:
        """Return the key of a dispatch's owner, or null if it is hidden."""
        key = self.tables.key("subscribers", "id", OWNER)
        visible = self.tables.not_hidden("subscribers", OWNER).removeprefix(" AND ")
        return f"CASE WHEN {visible} THEN {key} END" if visible else key

    def _is_owner(self) -> str:
        """Compare a dispatch with its owner, which may be hidden.

        An id is unique only among visible rows: if another tenant's row has the id of a visible
        owner, it is not the owner.
        """
        tables = self.tables
        refers = tables.refers("dispatches", "subscriber_id", "subscribers", "id", OWNER)
        if not tables.hiding["subscribers"]:
            return refers
        return _IS_VISIBLE_OWNER.substitute(
            refers=refers,
            is_visible=tables.not_hidden("subscribers", OWNER).removeprefix(" AND "),
            subscribers=tables.table("subscribers"),
            of_dispatch=tables.refers("dispatches", "subscriber_id", "subscribers", "id"),
            visible=tables.visible("subscribers"),
        )

    def _find_subscriptions(self) -> str:
        tables = self.tables
        lists = "messages" if tables.has("messages") else "dispatches"
        own = tables.tenant("subscriptions") if "subscriptions" in tables.tenants else "NULL"
        return _FIND_SUBSCRIPTIONS.substitute(
            subscriber_id=tables.key("subscriptions", "subscriber_id"),
            list_id=tables.key("subscriptions", "list_id"),
            tenants=f", NULL, {own}" if tables.tenants else "",
            dispatches=tables.table("dispatches"),
            messages=tables.joined_messages(),
            subscriptions=tables.table("subscriptions"),
            in_list=tables.refers(lists, "list_id", "subscriptions", "list_id"),
            of_owner=tables.refers("dispatches", "subscriber_id", "subscriptions", "subscriber_id"),
            is_any=tables.any_of("dispatches", "provider_message_id"),
            of_tenants=tables.of_tenants("dispatches") if "dispatches" in tables.tenants else "",
            visible=tables.visible("dispatches", "subscriptions"),
        )

    def _hopeful(self) -> str:
        """Return the condition that the rows of an entry `n` of the log exist now.

        The log contains addresses in lower case, so a column that is compared by the exact spelling
        is searched for that one; an owner is found by the dispatch, and compared in lower case.
        """
        tables, dialect = self.tables, self.dialect
        email, fold = tables.columns("subscribers")["email"], tables.schema.subscribers.fold
        is_recipient = dialect.is_email(fold, ALIASES["subscribers"], email, "n.recipient")
        has_rows = _HAS_SUBSCRIBER.substitute(
            subscribers=tables.table("subscribers"),
            is_recipient=is_recipient,
            has_tenant=tables.of_given_tenant("subscribers") if tables.tenants else "",
            visible=tables.visible("subscribers"),
        )
        if tables.has("dispatches"):
            has_rows = f"{self._has_dispatch(is_recipient)}\n    OR {has_rows}"
        return _HOPEFUL.substitute(
            of_entry="given.entry = n.entry AND " if tables.tenants else "",
            is_parked=has_outcome("n", PARKED - {Result.FAILED}),
            has_rows=has_rows,
        )

    def _has_dispatch(self, is_recipient: str) -> str:
        """Return the condition that a dispatch of the message belongs to the recipient."""
        tables, dialect = self.tables, self.dialect
        is_owner = is_recipient
        if tables.schema.subscribers.fold == "exact":
            is_owner = f"lower({tables.text('subscribers', 'email')}) = lower(n.recipient)"
        own = [role for role in ("dispatches", "subscribers") if role in tables.tenants]
        return _HAS_DISPATCH.substitute(
            dispatches=tables.table("dispatches"),
            join_in_order=dialect.join_in_order,
            subscribers=tables.table("subscribers"),
            is_sent=dialect.is_message_id(
                ALIASES["dispatches"],
                tables.columns("dispatches")["provider_message_id"],
                "n.message_id",
            ),
            is_owned=tables.refers("dispatches", "subscriber_id", "subscribers", "id"),
            is_owner=is_owner,
            is_of_tenant="".join(map(tables.of_given_tenant, own)),
            visible=tables.visible("dispatches", "subscribers"),
        )

    def _of_entries(self) -> str:
        tables, dialect = self.tables, self.dialect
        if not tables.tenants:
            return ""
        types = {role: column.type for role, column in tables.tenants.items()}
        given = self._relation({"entry": dialect.text_type, **types})
        return f" {dialect.join_in_order} {given}"

    def given_tenants(self, tenants: Mapping[str, Key]) -> Sequence[Any]:
        """Return the parameters of `of_entries`, given the tenants by the names of entries."""
        roles = self.tables.tenants
        if not roles:
            return ()
        values = (
            [self.tables.tenant_value(role, tenant) for tenant in tenants.values()]
            for role in roles
        )
        return self._related([[*tenants], *values])

    @abstractmethod
    def _relation(self, types: Mapping[str, str]) -> str:
        """Return the relation `given`, for FROM, by the types of its columns."""

    @abstractmethod
    def _related(self, columns: Sequence[Sequence[Any]]) -> Sequence[Any]:
        """Return the parameters of `_relation`, given the values of each column."""

    def _state(self, kind: Suppressible) -> str:
        """Return the SELECT by keys of each key, and the columns that notifications set."""
        names = self.tables.written.get(kind, ())
        return self._select(kind, *(self.tables.state(kind.value, name) for name in names))

    def _set_time(self, time: EventTime, *, guarded: bool) -> Sequence[Statement]:
        """Return the statement for a time of a dispatch, and the type of a bounce with its time.

        A flag has no guard: whichever of two events counts, it is true.
        """
        if guarded and time.value in self.tables.time_flags[Suppressible.DISPATCH]:
            return self.set_time(time, guarded=False)
        return (self._update(Suppressible.DISPATCH, WRITES[time], guarded=guarded),)

    def _set_suppression(self, kind: Suppressible, *, guarded: bool) -> Sequence[Statement]:
        """Return the statements for the suppression columns of a table; none if it has none.

        If the side table has the dates of changes, the change is dated there first.
        """
        write = WRITES[kind]
        if not any(self.tables.has(kind.value, name) for name in write.columns):
            return ()
        if kind in self.tables.dated_in_side_table:
            update = self._update(kind, write, guarded=False, dated=True)
            return self._set_date(kind), update
        return (self._update(kind, write, guarded=guarded),)

    def _select_dates(self, kind: Suppressible) -> str:
        """Return the SELECT of the dates of rows of a kind, by their `row_key`."""
        is_any = self.dialect.any_of("row_key", self.dialect.text_type)
        return _SELECT_DATES.substitute(dates=self._dates, role=kind.value, is_any=is_any)

    def _insert_entries(self, log: str, rows: str, *, has_id: bool) -> str:
        """Return the INSERT of rows into the log, which does the same as `merge_entries`.

        With `has_id`, the rows begin with an id.
        """
        dialect = self.dialect
        old, new = partial(dialect.old, log), dialect.new
        recorded = f"'{Result.RECORDED.value}'"
        is_repeated = f"{old('outcome')} = {recorded} AND {new('outcome')} = {old('outcome')}"

        def kept_if(condition: str, name: str) -> str:
            return f"CASE WHEN {condition} THEN {old(name)} ELSE {new(name)} END"

        def filled(name: str) -> str:
            """Fill in a null if the notification arrived again; a replay restores nothing."""
            value = f"coalesce({old(name)}, {new(name)})"
            return f"CASE WHEN {new('attempts')} > 0 THEN {value} ELSE {old(name)} END"

        assignments = {
            **{name: kept_if(is_repeated, name) for name in ("ended_at", "source")},
            **{name: new(name) for name in ("outcome", "status", "retry_at")},
            **{name: filled(name) for name in _FILLED},
            "attempts": f"{old('attempts')} + {new('attempts')}",
            "change_number": f"coalesce({new('change_number')}, {old('change_number')})",
            "received_at": kept_if(f"{old('received_at')} < {new('received_at')}", "received_at"),
            "last_received_at": kept_if(
                f"{old('last_received_at')} > {new('last_received_at')}", "last_received_at"
            ),
        }
        columns = [*(["id"] if has_id else []), *ENTRY_FIELDS, "first_outcome"]
        return dialect.insert(log, columns, rows, ["fingerprint"], assignments)

    def _insert_dates(self, rows: str) -> str:
        """Return the INSERT of dates into the side table, in which newer ones stay."""
        dialect = self.dialect
        old, new = dialect.old(self._dates, "changed_at"), dialect.new("changed_at")
        assignments = {"changed_at": f"{dialect.greatest}({old}, {new})"}
        key = CHANGE_DATE_COLUMNS[:2]
        return dialect.insert(self._dates, CHANGE_DATE_COLUMNS, rows, key, assignments)

    def _changed_tables(self) -> Mapping[str, str]:
        """Return, for each table that is written, one of the columns that are set."""
        columns = {
            self.tables.name(kind.value): self.tables.columns(kind.value)[names[0]].name
            for kind, names in self.tables.written.items()
        }
        if self.tables.schema.log:
            columns[self.dialect.table(self.tables.schema.log)] = "attempts"
        return columns


ENTRY_FIELDS = LogEntry.__struct_fields__

_FILLED = ("recipient", "body", "reason", "provider", "trace_id")
"""The fields of an entry that another arrival fills in."""


def _are_equal_in_python(key: Column, other: Column) -> bool:
    """Return whether values of two columns are equal in Python if they are in the database."""
    if key.kind == "text" or key.collation:
        return False
    if {key.kind, other.kind} <= _NUMERIC_KINDS:
        return True
    return (key.type, key.type_name) == (other.type, other.type_name)


_NUMERIC_KINDS = {"number", "integer", "boolean"}
"""The kinds of columns whose values Python compares as numbers."""


def key_parameters(kind: Suppressible) -> dict[str, str]:
    """Return the names of the parameters with a key, each with its column by hookrow's name."""
    return {f"key_{number}": name for number, name in enumerate(KEYS[kind])}


def kinds_of(statements: Iterable[Statement]) -> Sequence[Suppressible]:
    """Return the kinds of rows that statements change, in the order of locking."""
    changed = {each.kind for each in statements}
    return [kind for kind in Suppressible if kind in changed]


def touched(tables: RoleTables, role: str, alias: str, values: Mapping[str, str]) -> str:
    """Return the new value of the column of `touch`, given those of the others by hookrow's names.

    The time of the write is one of the values. The column stays as it is if no other one changes.
    """
    differ = " OR ".join(
        tables.dialect.differs(tables.column(role, name, alias), value)
        for name, value in values.items()
        if name != TOUCH
    )
    return f"CASE WHEN {differ} THEN {values[TOUCH]} ELSE {tables.column(role, TOUCH, alias)} END"


def guard_holds(old: str, write: Write, new: str) -> str:
    """Return the condition that a guard holds, given its column and the new value."""
    return f"({old} IS NULL OR {old} {write.holds} {new})"
