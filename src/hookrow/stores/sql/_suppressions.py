"""Reads the suppressed subscribers of a database, and their changes in the log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from hookrow._core.log_entry import stored_recipient
from hookrow._core.notification import Key
from hookrow._core.result import SUBSCRIBER_FOUND
from hookrow._core.rules import effective_time
from hookrow._core.schema import OTHERWISE, Schema
from hookrow.stores.sql._connections import Database
from hookrow.stores.sql._conversions import converted
from hookrow.stores.sql._dialects.base import utc
from hookrow.stores.sql._log_rows import HAS_CHANGED, has_outcome
from hookrow.stores.sql._role_tables import ALIASES, RoleTables

_SMALL_LIST = 10_000
"""The number of subscriptions up to which a list's subscribers are looked up one by one."""

MAX_INDEXED = 64
"""Characters of the longest reason in the index, because PostgreSQL limits the rows of an index."""

_REASON_INDEX = "hookrow_subscribers_reason"
"""The index of hookrow's own table of subscribers by reason."""

MAX_READ_REASON = 1000
"""Characters of a reason that are read; the rest of a longer one is not."""


class SuppressionCursor(NamedTuple):
    """A position in the order of suppressions: a time as the table stores it, and a key.

    As text, a time is exact, and in the order of the column, in whatever format a host writes its
    times to SQLite.
    """

    suppressed_at: str
    id: Any

    def __str__(self) -> str:
        """Return the text from which `parse` restores the position."""
        match self.id:
            case int():
                key = f"i{self.id}"
            case bytes():
                key = f"x{self.id.hex()}"
            case _:
                key = f"s{self.id}"
        return f"{self.suppressed_at}/{key}"

    @classmethod
    def parse(cls, text: str) -> SuppressionCursor:
        """Return the position. Raises `ValueError` if the text is not one."""
        at, _, key = text.partition("/")
        match key[:1], key[1:]:
            case "i", digits:
                return cls(at, int(digits))
            case "x", digits:
                return cls(at, bytes.fromhex(digits))
            case "s", rest:
                return cls(at, rest)
        raise ValueError(text)


class SuppressionRange(NamedTuple):
    """A range in the order: from after one position to the end position, which is included.

    None leaves that side open. The order is newest first, or oldest first if `oldest` is set.
    """

    after: SuppressionCursor | None = None
    end: SuppressionCursor | None = None
    oldest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Selects suppressed subscribers by every condition that is not None.

    `reason` is the text of the stored reason, empty for subscribers without one. `list` selects the
    subscribers of a list, `since` those who were suppressed at that time or later (none if the
    table has only a flag), and `tenant` those of a tenant. `entry` selects those whom an event
    suppressed that this entry of the receiver received, as far as the log has it; without a log,
    none. `direct` is set by
    `SQLSuppressions.plan`.
    """

    reason: str | None = None
    list: Key | None = None
    since: datetime | None = None
    tenant: Key | None = None
    entry: str | None = None
    direct: bool = False


class Suppression(NamedTuple):
    """A suppressed subscriber; `reason` is the provider's name for it, or empty.

    `suppressed_at` is None if the table has a flag instead. Then, `changed_at` is the time of the
    last recorded change, if the table has it; the host may have set the flag since.
    """

    email: str
    reason: str
    suppressed_at: datetime | None
    cursor: SuppressionCursor
    changed_at: datetime | None = None


class LoggedChange(NamedTuple):
    """A change of suppression in the log: its id, message and recipient, its entry and its times.

    `reason` is None if it lifts the suppression.
    """

    id: int
    message_id: str | None
    recipient: str
    reason: str | None
    entry: str | None
    occurred_at: datetime | None
    received_at: datetime
    last_received_at: datetime

    @property
    def changed_at(self) -> datetime:
        """The time of the change, as rows have it."""
        return effective_time(self.occurred_at, self.last_received_at, self.last_received_at)


class SQLSuppressions:
    """Reads the suppressed subscribers that the schema does not hide. Raises a `StoreError`.

    Each call is its own transaction. The order is that of `suppressed_at` and the key, which an
    index supports: `step` takes about 1 ms for 5,000 rows, but a filter reads every row of a range
    unless it is direct. If the table has a flag instead of the time, the order is that of the key.

    hookrow's own table has an index for the order, and one for the order of each reason, on the
    rows that are suppressed. Only the first is expected of a host's table. `tables` returns the
    SQL for the tables.
    """

    def __init__(
        self, database: Database, schema: Schema, tables: Callable[[], RoleTables]
    ) -> None:
        self._database, self._schema, self._tables = database, schema, tables

    @property
    def has_tenants(self) -> bool:
        """Whether several subscribers, of different tenants, may have one address."""
        return self._schema.has_tenants

    def plan(self, selected: Filter) -> Filter:
        """Return the filter for the other methods, which is `direct` if it reads no other rows.

        It then takes a short time to read the first rows of any range.
        """
        if selected.list is not None:
            direct = self._is_small(selected)
        else:
            length = len(selected.reason or "")
            has_index = self._schema.is_own and 0 < length <= MAX_INDEXED
            # The rows of a tenant or an entry may be few.
            direct = has_index and selected.tenant is None and selected.entry is None
        return replace(selected, direct=direct)

    def step(
        self, bounds: SuppressionRange, rows: int, since: datetime | None
    ) -> SuppressionCursor | None:
        """Return the position `rows` rows after the start of a range; None if the range is shorter.

        Hidden rows are counted, too, because it reads only the index.
        """
        tables = self._tables()
        where, values = _where(tables, bounds, Filter(since=since))
        alias, columns = ALIASES["subscribers"], ", ".join(_columns(tables))
        # PostgreSQL would compute the text of each row that it skips.
        last = (
            f"SELECT {columns} FROM {tables.table('subscribers')} WHERE {where} "
            f"ORDER BY {_order(tables, bounds)} LIMIT 1 OFFSET {rows - 1}"
        )
        sql = f"SELECT {_position(tables)} FROM ({last}) AS {alias}"
        with self._database.reading() as connection:
            found = connection.fetch(sql, values)
        return SuppressionCursor(*found[0]) if found else None

    def read(
        self, bounds: SuppressionRange, selected: Filter, *, limit: int
    ) -> Sequence[Suppression]:
        """Return the first suppressions of a range."""
        tables = self._tables()
        sql, values = _select(tables, bounds, selected, limit)
        with self._database.reading() as connection:
            rows = connection.fetch(sql, values)
        if read := tables.conversions.read("subscribers", tables.suppressed_since or ""):
            rows = converted(rows, {0: read})
        has_flag = tables.has_flag("subscribers", "suppressed_at")
        return [
            Suppression(
                email or "",
                self.reason_name(reason),
                None if has_flag else utc(time),
                SuppressionCursor(*position),
                utc(time) if has_flag else None,
            )
            for time, email, reason, *position in rows
        ]

    def count(self, bounds: SuppressionRange, selected: Filter, *, limit: int) -> int:
        """Count the suppressions of a range, up to a limit."""
        tables = self._tables()
        where, values = _where(tables, bounds, selected)
        rows = (
            f"SELECT 1 FROM {_subscribers(tables, selected)} "
            f"WHERE {where}{tables.visible('subscribers')} "
            f"ORDER BY {_order(tables, bounds)} LIMIT {limit}"  # so that it reads the index
        )
        with self._database.reading() as connection:
            ((count,),) = connection.fetch(f"SELECT count(*) FROM ({rows}) AS found", values)
        return int(count)

    def lists(self, *, limit: int) -> Mapping[Key, str]:
        """Return the names of lists, in order, or their keys if hookrow does not know the names.

        Returns nothing if the schema has no subscriptions. It searches an index once for each list.
        """
        tables = self._tables()
        if not tables.has("subscriptions"):
            return {}
        is_own = tables.schema.is_own
        sql = "SELECT id, name FROM hookrow_lists ORDER BY name, id" if is_own else _lists(tables)
        with self._database.reading() as connection:
            rows = connection.fetch(f"{sql} LIMIT {limit}")
        if read := tables.conversions.read("subscriptions", "list_id"):
            rows = converted(rows, {0: read})
        return {key: str(name[0] if name else key) for key, *name in rows}

    def changes(self, recipients: Collection[str], *, limit: int) -> Iterable[LoggedChange]:
        """Return the newest changes that the log has of the recipients.

        The recipients are those of `stored_recipient`. Returns nothing without a log.
        """
        if self._schema.log is None or not recipients:
            return ()
        dialect = self._database.dialect
        # A parameter for each: for one that holds all, MariaDB may read the whole log. The order is
        # that of an expression, so that the index of the recipients is used, not the primary key.
        marks = ", ".join(["%s"] * len(recipients))
        sql = (
            f"SELECT {', '.join(LoggedChange._fields)} FROM {dialect.table(self._schema.log)} "
            f"WHERE {HAS_CHANGED} AND {dialect.changed_recipient} IN ({marks}) "
            f"ORDER BY id + 0 DESC LIMIT {limit}"
        )
        with self._database.reading() as connection:
            rows = connection.fetch(sql, [*recipients])
        return [LoggedChange(*row[:5], *map(utc, row[5:])) for row in rows]

    def reason_name(self, stored: str) -> str:
        """Return the provider's name for a reason as the table stores it, if there is one.

        It is "other" for the value of every other reason in the schema's mapping.
        """
        reasons = self._schema.reasons or {}
        names = [name for name, value in reasons.items() if str(value) == stored]
        return " or ".join("other" if name == OTHERWISE else name for name in names) or stored

    def _is_small(self, selected: Filter) -> bool:
        tables = self._tables()
        where, values = _is_of_list(tables, selected)
        rows = f"SELECT 1 FROM {tables.table('subscriptions')} WHERE {where} LIMIT {_SMALL_LIST}"
        with self._database.reading() as connection:
            ((count,),) = connection.fetch(f"SELECT count(*) FROM ({rows}) AS found", values)
        return bool(count < _SMALL_LIST)


def find_causes(
    reader: SQLSuppressions, found: Sequence[Suppression]
) -> Mapping[SuppressionCursor, LoggedChange]:
    """Find the notifications that suppressed these subscribers, if the log has them.

    A suppression has the time of its event or, if the event has none, of its arrival. Beside a
    flag, that time is the one of the last change, which may have lifted an earlier one. Without a
    time, the newest change is the cause, unless it lifts the suppression: then the host has set the
    flag. With tenants, there is no cause either if several entries of the receiver changed people
    with this address, who may be those of several tenants.
    """
    by_recipient: dict[str, list[LoggedChange]] = {}
    recipients = {each.cursor: stored_recipient(each.email) or "" for each in found}
    for change in reader.changes({*recipients.values()}, limit=_MOST_CHANGES * len(found)):
        by_recipient.setdefault(change.recipient, []).append(change)
    causes = {}
    for each in found:
        changes = sorted(by_recipient.get(recipients[each.cursor], ()), key=attrgetter("id"))
        at = each.suppressed_at or each.changed_at
        if at is not None:
            cause = _cause_at(changes, at)
        elif reader.has_tenants and len({change.entry for change in changes}) > 1:
            cause = None
        else:
            cause = _newest_cause(changes)
        if cause is not None:
            causes[each.cursor] = cause
    return causes


def _newest_cause(changes: Sequence[LoggedChange]) -> LoggedChange | None:
    """Return the newest change if it suppresses; of several at one time, the last in the log."""
    newest = max(changes, key=attrgetter("changed_at", "id"), default=None)
    return None if newest is None or newest.reason is None else newest


def _cause_at(changes: Sequence[LoggedChange], at: datetime) -> LoggedChange | None:
    """Return the suppression at a time: that of an event rather than that of an arrival."""
    suppressing = [each for each in changes if each.reason is not None]
    return next((each for each in suppressing if each.occurred_at == at), None) or next(
        (each for each in suppressing if at in {each.received_at, each.last_received_at}), None
    )


_MOST_CHANGES = 20
"""How many changes of each subscriber are read from the log, on average."""


def newest(tables: RoleTables) -> tuple[str, Sequence[Any]]:
    """Return the statement that reads the newest suppression, and its parameters."""
    return _select(tables, SuppressionRange(), Filter(), 1)


def _select(
    tables: RoleTables, bounds: SuppressionRange, selected: Filter, limit: int
) -> tuple[str, Sequence[Any]]:
    """Return the SELECT of the columns of suppressions."""
    where, values = _where(tables, bounds, selected)
    since = tables.suppressed_since
    sql = (
        f"SELECT {tables.column('subscribers', since) if since else 'NULL'}, "
        f"{tables.text('subscribers', 'email')}, "
        f"substr({tables.reason()}, 1, {MAX_READ_REASON}), {_position(tables)} "
        f"FROM {_subscribers(tables, selected)} WHERE {where}{tables.visible('subscribers')} "
        f"ORDER BY {_order(tables, bounds)} LIMIT {limit}"
    )
    return sql, values


def _subscribers(tables: RoleTables, selected: Filter) -> str:
    """Return the table, and the index of a filter by reason if it is direct."""
    table = tables.table("subscribers")
    if selected.direct and selected.list is None:
        table += tables.dialect.by_index(_REASON_INDEX)
    return table


def _where(
    tables: RoleTables, bounds: SuppressionRange, selected: Filter
) -> tuple[str, Sequence[Any]]:
    """Return the conditions that select rows, except that they are visible."""
    columns = _columns(tables)
    place = [tables.parameter("subscribers", name) for name in order_of(tables)]
    forward, back = (">", "<=") if bounds.oldest else ("<", ">=")
    conditions, values = [tables.is_set("subscribers", "suppressed_at")], list[Any]()
    for operator, position in ((forward, bounds.after), (back, bounds.end)):
        if position is not None:
            values_of_place = position[-len(columns) :]
            condition, compared = tables.dialect.compare(columns, operator, place, values_of_place)
            conditions.append(condition)
            values += compared
    since = tables.suppressed_since
    if selected.since is not None and since is None:
        conditions.append("1 = 0")
    elif selected.since is not None and since is not None:
        column = tables.column("subscribers", since)
        conditions.append(f"{column} >= {tables.time('subscribers', since)}")
        values.append(tables.stored("subscribers", since, selected.since))
    if selected.reason is not None:
        conditions.append(_has_reason(tables, selected.reason))
        values.append(selected.reason)
    if selected.tenant is not None:
        of_tenant, compared = tables.of_tenant("subscribers", selected.tenant)
        conditions.append(of_tenant)
        values += compared
    if selected.list is not None:
        in_list, list_ = _in_list(tables, selected)
        conditions.append(in_list)
        values += list_
    if selected.entry is not None:
        of_entry, name = _of_entry(tables, selected.entry)
        conditions.append(of_entry)
        values += name
    return " AND ".join(conditions), values


def order_of(tables: RoleTables) -> Sequence[str]:
    """Return the columns of the order, by hookrow's names: the key alone if the other is a flag."""
    return ("id",) if tables.has_flag("subscribers", "suppressed_at") else ("suppressed_at", "id")


def _columns(tables: RoleTables) -> Sequence[str]:
    return [tables.column("subscribers", name) for name in order_of(tables)]


def _order(tables: RoleTables, bounds: SuppressionRange) -> str:
    return ", ".join(f"{each} {'ASC' if bounds.oldest else 'DESC'}" for each in _columns(tables))


def _position(tables: RoleTables) -> str:
    """Return the columns of a `SuppressionCursor`."""
    is_dated = "suppressed_at" in order_of(tables)
    at = tables.text("subscribers", "suppressed_at") if is_dated else "''"
    return f"{at}, {tables.key('subscribers', 'id')}"


def _has_reason(tables: RoleTables, reason: str) -> str:
    """Return the condition that a subscriber has a reason, which is the next parameter."""
    column = tables.columns("subscribers").get("suppression_reason")
    if not reason or column is None or column.kind != "text":
        return f"{tables.reason()} = %s"
    name = tables.column("subscribers", "suppression_reason")
    condition = f"{name} = {tables.parameter('subscribers', 'suppression_reason')}"
    if len(reason) <= MAX_INDEXED:
        condition += f" AND {tables.dialect.characters(name)} <= {MAX_INDEXED}"  # as in the index
    return condition


def _in_list(tables: RoleTables, selected: Filter) -> tuple[str, Sequence[Any]]:
    """Return the condition that a subscriber has a subscription to a list.

    For a small list, its subscribers are looked up, and otherwise the subscriptions of each
    suppressed subscriber. A planner could choose the other way.
    """
    of_list, values = _is_of_list(tables, selected)
    if selected.direct:
        subscriber = tables.reference("subscriptions", "subscriber_id", "subscribers", "id")
        members = f"SELECT {subscriber} FROM {tables.table('subscriptions')} WHERE {of_list}"
        key = tables.column("subscribers", "id")
        return tables.dialect.selected_by(key, members), values
    refers = tables.refers("subscriptions", "subscriber_id", "subscribers", "id")
    condition = (
        f"(SELECT 1 FROM {tables.table('subscriptions')} WHERE {of_list} AND {refers} LIMIT 1) = 1"
    )
    return condition, values


def _of_entry(tables: RoleTables, name: str) -> tuple[str, Sequence[Any]]:
    """Return the condition that an event of the receiver's entry suppressed a subscriber.

    The event is looked up for each subscriber, by the log's index of changes. A planner could
    instead read all suppressions of the log.
    """
    dialect, log = tables.dialect, tables.schema.log
    if log is None:
        return "1 = 0", []
    address = dialect.as_recipient(tables.text("subscribers", "email"))
    condition = (
        f"(SELECT 1 FROM {dialect.table(log)} AS n WHERE n.reason IS NOT NULL "
        f"AND n.{dialect.changed_recipient} = {address} AND n.entry = %s "
        f"AND {has_outcome('n', SUBSCRIBER_FOUND)} LIMIT 1) = 1"
    )
    return condition, [name]


def _is_of_list(tables: RoleTables, selected: Filter) -> tuple[str, Sequence[Any]]:
    """Return the condition that a subscription is visible and belongs to a list."""
    column = tables.column("subscriptions", "list_id")
    list_ = tables.parameter("subscriptions", "list_id")
    values = [tables.stored("subscriptions", "list_id", selected.list)]
    return f"{column} = {list_}{tables.visible('subscriptions')}", values


def _lists(tables: RoleTables) -> str:
    """Return the SELECT of the lists that have subscriptions: each is the next one in an index."""
    column = tables.column("subscriptions", "list_id")
    listed = tables.columns("subscriptions")["list_id"]

    def next_one(condition: str) -> str:
        select = (
            f"(SELECT {column} FROM {tables.table('subscriptions')} WHERE {column} {condition} "
            f"ORDER BY {column} LIMIT 1)"
        )
        return tables.dialect.cast(select, listed.type)

    return (
        f"WITH RECURSIVE found (list_id) AS (SELECT {next_one('IS NOT NULL')} UNION ALL "
        f"SELECT {next_one('> found.list_id')} FROM found WHERE list_id IS NOT NULL) "
        f"SELECT {tables.dialect.select('list_id', listed)} FROM found WHERE list_id IS NOT NULL"
    )
