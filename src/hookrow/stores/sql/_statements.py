"""The statements that find, lock and change rows and add entries to the log, as SQL text.

Each is a template, written out for each database where they differ. `_role_tables` has the names
and the comparisons that fill it in. A parameter of a row has a name in a template, `%(name)s`: that
of its column, by hookrow's name, or `key_0` and `key_1` for the columns of its key.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from operator import itemgetter
from string import Template
from typing import Any, ClassVar, NamedTuple

from hookrow._core.changes import WRITES, Write
from hookrow._core.log_entry import LogEntry
from hookrow._core.notification import EventTime, Suppressible
from hookrow._core.result import PARKED, Result
from hookrow._core.schema import KEYS
from hookrow.stores.sql._dialects import AWARE, NAIVE
from hookrow.stores.sql._log_rows import has_outcome
from hookrow.stores.sql._role_tables import ALIASES, OWNER, RoleTables
from hookrow.stores.sql._scripts import CHANGE_DATES_TABLE

_NAMED = re.compile(r"%(?:\((\w+)\)s|.)", re.DOTALL)


class Statement:
    """SQL text, and how to get its parameters.

    `text` has `%s` for each parameter that has a name in the template, and `parameters` returns
    these, in order, from the values of a row by name. `kind` is that of the rows that it locks or
    changes; None for rows of hookrow's own.
    """

    __slots__ = ("kind", "parameters", "text")

    def __init__(self, template: str, kind: Suppressible | None = None) -> None:
        self.text, self.kind = _positional(template), kind
        names = [name for name in _NAMED.findall(template) if name]
        self.parameters: Callable[[Mapping[str, Any]], Sequence[Any]] = (
            itemgetter(*names) if names else _without_names
        )


def _positional(template: str) -> str:
    """Return a template with `%s` for each parameter that has a name."""
    return _NAMED.sub(lambda each: "%s" if each[1] else each[0], template)


def _without_names(_: Mapping[str, Any]) -> Sequence[Any]:
    return ()


class Combined(NamedTuple):
    """One statement that writes a group.

    Its parameters are the keys of the rows of each of the `kinds`, which it locks, then those of
    the statements that it combines, and then the number of rows of each of these parts.
    """

    kinds: Sequence[Suppressible]
    text: str


_FIND_SUBSCRIBERS = Template("""\
SELECT $id, $email, NULL, NULL, NULL
FROM $subscribers
WHERE $is_any$visible""")

_FIND_DISPATCHES = Template("""\
SELECT $subscriber_id, $email, $message_id, $id, $list_id
FROM $dispatches
LEFT JOIN $owners ON $is_owner$messages
WHERE $is_any$visible""")

_IS_VISIBLE_OWNER = Template("""\
$refers AND ($is_visible
    OR NOT EXISTS (SELECT 1 FROM $subscribers WHERE $of_dispatch$visible))""")

_FIND_SUBSCRIPTIONS = Template("""\
SELECT $subscriber_id, NULL, NULL, NULL, $list_id
FROM $dispatches$messages
JOIN $subscriptions ON $in_list AND $of_owner
WHERE $is_any$visible""")

# SQLite reads the tables of a CROSS JOIN in this order: a person may have many dispatches.
_HOPEFUL = Template("""\
$is_parked AND (
    EXISTS (SELECT 1 FROM $dispatches CROSS JOIN $subscribers
        WHERE $is_sent AND $is_owned AND $is_owner$visible)
    OR ((n.reason IS NOT NULL OR n.record_type = 'SubscriptionChange')
        AND EXISTS (SELECT 1 FROM $subscribers WHERE $is_recipient$visible_subscribers))
)""")

_SELECT_DATES = Template("""\
SELECT row_key, changed_at FROM $dates WHERE role = '$role' AND $is_any""")


class Statements(ABC):
    """The statements of a store, in the tables of its roles."""

    per_row: ClassVar[bool]
    """Whether a statement on given rows is run once for each row; otherwise once for all."""
    combined: Callable[..., Combined] | None = None
    """Combines statements that write a group; None if one statement cannot change several tables.

    The arguments are a tuple of statements and `skip_locked`.
    """

    find: str
    """Selects rows by emails, by message ids, and by the message ids of suppression changes."""
    hopeful: str
    """The condition that the rows of an entry `n` of the log exist now."""
    add_entries: Statement | None = None
    """Adds entries to the log, or merges those that arrived before; None without a log."""
    select: Callable[[Suppressible], str]
    """Selects the keys that exist among given ones."""
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
        self.finds_subscriptions = tables.has("subscriptions") and tables.list_id() is not None
        self.find = self._find()
        self.hopeful = self._hopeful()
        if tables.schema.log:
            self.add_entries = self._add_entries(self.dialect.table(tables.schema.log))
        self._dates = self.dialect.table(tables.schema.side_table(CHANGE_DATES_TABLE))
        self.select = cache(self._select)
        self.state = cache(self._state)
        self.set_time = cache(self._set_time)
        self.set_suppression = cache(self._set_suppression)
        self.dates = cache(self._select_dates)

    @abstractmethod
    def _select(self, kind: Suppressible, *columns: str) -> str:
        """Return the SELECT of the keys that exist among the given ones, and of more columns."""

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
    def _add_entries(self, log: str) -> Statement:
        """Return the statement that adds entries to the log, or merges those that arrived before.

        The parameters are those of `Dialect.encode_entries`.
        """

    def _find(self) -> str:
        """Select rows by emails, by message ids, and by the message ids of suppression changes.

        The result has subscribers (id, email), dispatches (owner, the owner's email, message id,
        id, list), and subscriptions of owners (subscriber, list), all in the columns of dispatches.
        """
        selects = [self._find_subscribers(), self._find_dispatches()]
        if self.finds_subscriptions:
            selects.append(self._find_subscriptions())
        return "\nUNION ALL\n".join(selects)

    def _find_subscribers(self) -> str:
        tables = self.tables
        return _FIND_SUBSCRIBERS.substitute(
            id=tables.key("subscribers", "id"),
            email=tables.text("subscribers", "email"),
            subscribers=tables.table("subscribers"),
            is_any=tables.email_is_any(tables.schema.subscribers.fold),
            visible=tables.visible("subscribers"),
        )

    def _find_dispatches(self) -> str:
        tables = self.tables
        return _FIND_DISPATCHES.substitute(
            subscriber_id=tables.key("dispatches", "subscriber_id"),
            email=tables.text("subscribers", "email", OWNER),
            message_id=tables.text("dispatches", "provider_message_id"),
            id=tables.key("dispatches", "id"),
            list_id=tables.list_id() or "NULL",
            dispatches=tables.table("dispatches"),
            owners=tables.table("subscribers", OWNER),
            is_owner=self._is_owner(),
            messages=tables.joined_messages(),
            is_any=tables.any_of("dispatches", "provider_message_id"),
            visible=tables.visible("dispatches"),
        )

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
        return _FIND_SUBSCRIPTIONS.substitute(
            subscriber_id=tables.key("subscriptions", "subscriber_id"),
            list_id=tables.key("subscriptions", "list_id"),
            dispatches=tables.table("dispatches"),
            messages=tables.joined_messages(),
            subscriptions=tables.table("subscriptions"),
            in_list=tables.refers(lists, "list_id", "subscriptions", "list_id"),
            of_owner=tables.refers("dispatches", "subscriber_id", "subscriptions", "subscriber_id"),
            is_any=tables.any_of("dispatches", "provider_message_id"),
            visible=tables.visible("dispatches", "subscriptions"),
        )

    def _hopeful(self) -> str:
        """Return the condition that the rows of an entry `n` of the log exist now.

        The log contains addresses in lower case, so a column that is compared by the exact spelling
        is searched for that one; an owner is found by the dispatch, and compared in lower case.
        """
        tables, dialect = self.tables, self.dialect
        email, fold = tables.columns("subscribers")["email"], tables.schema.subscribers.fold
        is_recipient = is_owner = dialect.is_email(
            fold, tables.column("subscribers", "email"), "n.recipient", email.type
        )
        if fold == "exact":
            is_owner = f"lower({tables.text('subscribers', 'email')}) = lower(n.recipient)"
        return _HOPEFUL.substitute(
            is_parked=has_outcome("n", PARKED - {Result.FAILED}),
            dispatches=tables.table("dispatches"),
            subscribers=tables.table("subscribers"),
            is_sent=dialect.is_message_id(
                tables.column("dispatches", "provider_message_id"),
                "n.message_id",
                tables.columns("dispatches")["provider_message_id"].type,
                uuids=tables.has_uuids,
            ),
            is_owned=tables.refers("dispatches", "subscriber_id", "subscribers", "id"),
            is_owner=is_owner,
            visible=tables.visible("dispatches", "subscribers"),
            is_recipient=is_recipient,
            visible_subscribers=tables.visible("subscribers"),
        )

    def _state(self, kind: Suppressible) -> str:
        """Select by keys: each key, followed by the columns that notifications set."""
        names = self.tables.written.get(kind, ())
        return self._select(kind, *(self.tables.column(kind.value, name) for name in names))

    def _set_time(self, time: EventTime, *, guarded: bool) -> Sequence[Statement]:
        """Set a time of a dispatch, and the type of a bounce if the table has a column for it."""
        return (self._update(Suppressible.DISPATCH, WRITES[time], guarded=guarded),)

    def _set_suppression(self, kind: Suppressible, *, guarded: bool) -> Sequence[Statement]:
        """Set the suppression columns that the table has; nothing if it has none.

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
        """Select the dates of rows of a kind, by their `row_key`."""
        is_any = self.dialect.any_of("row_key", "text")
        return _SELECT_DATES.substitute(dates=self._dates, role=kind.value, is_any=is_any)

    def _changed_tables(self) -> Mapping[str, str]:
        """Return, for each table that is written, one of the columns that are set."""
        columns = {
            self.tables.name(kind.value): self.tables.columns(kind.value)[names[0]].name
            for kind, names in self.tables.written.items()
        }
        if self.tables.schema.log:
            columns[self.dialect.table(self.tables.schema.log)] = "attempts"
        return columns


_IS_REPEATED = f"kept.outcome = '{Result.RECORDED.value}' AND excluded.outcome = kept.outcome"


def _filled(name: str) -> str:
    """Fill in a null if the notification arrived again; a replay restores nothing."""
    filled = f"coalesce(kept.{name}, excluded.{name})"
    return f"CASE WHEN excluded.attempts > 0 THEN {filled} ELSE kept.{name} END"


_MERGE = f"""\
ON CONFLICT (fingerprint) DO UPDATE SET
ended_at = CASE WHEN {_IS_REPEATED} THEN kept.ended_at ELSE excluded.ended_at END,
source = CASE WHEN {_IS_REPEATED} THEN kept.source ELSE excluded.source END,
outcome = excluded.outcome, status = excluded.status, retry_at = excluded.retry_at,
recipient = {_filled("recipient")},
body = {_filled("body")},
reason = {_filled("reason")},
provider = {_filled("provider")},
trace_id = {_filled("trace_id")},
attempts = kept.attempts + excluded.attempts,
received_at = CASE WHEN kept.received_at < excluded.received_at
    THEN kept.received_at ELSE excluded.received_at END,
last_received_at = CASE WHEN kept.last_received_at > excluded.last_received_at
    THEN kept.last_received_at ELSE excluded.last_received_at END"""
"""`log_entry.merge_entries` in SQL, for PostgreSQL and SQLite.

A column is set after those that depend on it, because some databases assign from left to right.
"""

_ENTRY_FIELDS = LogEntry.__struct_fields__


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

_POSTGRES_SET_DATE = Template("""\
INSERT INTO $dates AS kept (role, row_key, changed_at)
SELECT '$role' AS role, given.row_key, given.suppression_changed_at
FROM $given
WHERE EXISTS (SELECT 1 FROM $table WHERE $is_key$visible)$after
ORDER BY role, row_key
ON CONFLICT (role, row_key) DO UPDATE
SET changed_at = greatest(kept.changed_at, excluded.changed_at)""")

_POSTGRES_ADD_ENTRIES = Template("""\
INSERT INTO $log AS kept ($fields, first_outcome)
SELECT $values, outcome
FROM json_to_recordset(%s::json) AS given($types)
WHERE true$after
$merge""")

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
    "attempts": "bigint",
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
        super().__init__(template, kind)
        self.as_part, self.given, self.guard = as_part, given, guard
        self.name, self.returning, self.expected = name, returning, expected


class PostgresStatements(Statements):
    """Statements on arrays of rows, which can be combined into one."""

    per_row = False

    def __init__(self, tables: RoleTables) -> None:
        super().__init__(tables)
        self.lock = cache(self._lock)
        self.combined = cache(self._combined)

    def _select(self, kind: Suppressible, *columns: str) -> str:
        """Join the given keys."""
        keys, tables = _keys(kind), self.tables
        template = _POSTGRES_SELECT.substitute(
            columns=", ".join(
                [*(tables.key(kind.value, name) for name in keys.values()), *columns]
            ),
            given=_given(self._types(kind, keys)),
            table=tables.table(kind.value),
            is_key=self._is_key(kind),
            visible=tables.visible(kind.value),
        )
        return _positional(template)

    def probes(self) -> Iterable[str]:
        """Lock: an update would fire the host's triggers, as often as /readyz is requested."""
        for table in self._changed_tables():
            yield f"SELECT FROM {table} WHERE 1 = 0 FOR NO KEY UPDATE"

    def _lock(self, kind: Suppressible, *, skip_locked: bool) -> Statement:
        """Lock rows by keys, in the order of the keys, as every process does.

        A sorted UPDATE alone could deadlock, because the planner may reorder it.
        """
        return Statement(self._lock_text(kind, skip_locked=skip_locked), kind)

    def _lock_text(
        self,
        kind: Suppressible,
        *,
        skip_locked: bool,
        guards: Sequence[str] = (),
        after: str = "",
    ) -> str:
        """Return the text that locks rows; for `after`, see `_Part`.

        With `guards`, select these columns, too, for the check of a combined statement.
        """
        role, tables, keys = kind.value, self.tables, _keys(kind)
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
        role, tables, keys = kind.value, self.tables, _keys(kind)
        columns = tables.columns(role)
        written = {field: field for field in write.columns if field in columns}
        types = self._types(kind, keys | written)
        values = {field: f"given.{field}" for field in written}
        for field in written:
            if types[field] == NAIVE:
                types[field] = AWARE
                values[field] += " AT TIME ZONE 'UTC'"
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
                    for field, value in values.items()
                ),
                given=given,
                is_key=self._is_key(kind),
                guard=f" AND {_guard(guard, write, values[write.guard])}" if guarded else "",
                visible=tables.not_hidden(role, ALIASES[role]),
                dated=is_dated if dated else "",
                after=after,
            )

        def expected(given: str, locked: str) -> str:
            if dated:
                name = _dated_part(kind)
                return _POSTGRES_DATED.substitute(given=given, dated=name, older=write.holds)
            is_key = " AND ".join(f"locked.{key} = given.{key}" for key in keys)
            holds = _guard(f"locked.{write.guard}", write, values[write.guard])
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
        tables, keys = self.tables, _keys(kind)

        def text(given: str, after: str) -> str:
            return _POSTGRES_SET_DATE.substitute(
                dates=self._dates,
                role=kind.value,
                given=given,
                table=tables.table(kind.value),
                is_key=self._is_key(kind),
                visible=tables.visible(kind.value),
                after=after,
            )

        given = _given(self._types(kind, keys) | _DATE_TYPES)
        return _Part(
            text(given, ""),
            text,
            given=given,
            name=_dated_part(kind),
            returning="role, row_key, changed_at",
        )

    def _add_entries(self, log: str) -> Statement:
        types = {name: _POSTGRES_JSON_TYPES.get(name, "text") for name in _ENTRY_FIELDS}

        def text(_: str, after: str) -> str:
            return _POSTGRES_ADD_ENTRIES.substitute(
                log=log,
                fields=", ".join(_ENTRY_FIELDS),
                values=", ".join(_ENTRY_FIELDS).replace(
                    "fingerprint", "decode(fingerprint, 'base64')"
                ),
                types=", ".join(f"{name} {type_}" for name, type_ in types.items()),
                after=after,
                merge=_MERGE,
            )

        return _Part(text("", ""), text)

    def _combined(self, statements: tuple[_Part, ...], *, skip_locked: bool) -> Combined:
        """Return one statement that locks rows and then runs statements, each after the other.

        No part sees what another one changes, so no two may change the same row (PostgreSQL's
        manual, section 7.8.4). A part that locks or changes a row sees its newest version. At its
        end, the numbers of rows that the parts have locked and changed are compared with those that
        are given, or with what the guards admit. If they differ, the division by zero rolls
        everything back, before the commit.
        """
        changed = {each.kind for each in statements}
        kinds = [kind for kind in Suppressible if kind in changed]
        parts: list[str] = []
        checks: list[str] = []
        after = ""
        for kind in kinds:
            guards = {each.guard for each in statements if each.kind is kind} - {""}
            lock = self._lock_text(
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
        return Combined(kinds, _positional(template))

    def _types(self, kind: Suppressible, names: Mapping[str, str]) -> dict[str, str]:
        """Return the types of given values by name, from their columns by name."""
        columns = self.tables.columns(kind.value)
        return {name: columns[field].type for name, field in names.items()}

    def _is_key(self, kind: Suppressible) -> str:
        """Compare the key of a row with the given one."""
        return " AND ".join(
            f"{self.tables.column(kind.value, name)} = given.{key}"
            for key, name in _keys(kind).items()
        )


_POSTGRES_COMBINED = Template("""\
WITH $parts
SELECT 1 / CASE WHEN $checks
THEN 1 ELSE 0 END""")

_DATE_TYPES = {"row_key": "text", "suppression_changed_at": AWARE}
"""The types of the parameters that date a change in the side table."""


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


_SQLITE_SELECT = Template("""\
SELECT $columns
FROM $table
WHERE $is_key$visible""")

_SQLITE_UPDATE = Template("""\
UPDATE $table SET $assignments
WHERE $is_key$guard$visible$dated""")

_SQLITE_SET_DATE = Template("""\
INSERT INTO $dates AS kept (role, row_key, changed_at)
SELECT '$role' AS role, %(row_key)s, %(suppression_changed_at)s
WHERE EXISTS (SELECT 1 FROM $table WHERE $is_key$visible)
ON CONFLICT (role, row_key) DO UPDATE
SET changed_at = max(kept.changed_at, excluded.changed_at)""")

_SQLITE_ADD_ENTRIES = Template("""\
INSERT INTO $log AS kept ($fields, first_outcome)
VALUES ($values)
$merge""")

_SQLITE_IS_DATED = Template("""
AND EXISTS (SELECT 1 FROM $dates AS dated WHERE dated.role = '$role'
    AND dated.row_key = %(row_key)s AND dated.changed_at $older %(suppression_changed_at)s)""")


class SQLiteStatements(Statements):
    """Statements on one row each: the driver's `executemany` is faster than rows from JSON.

    A transaction holds the whole database from its beginning, so no rows are locked.
    """

    per_row = True

    def _select(self, kind: Suppressible, *columns: str) -> str:
        """Compare with one key, because JSON cannot hold bytes."""
        keys, tables = KEYS[kind], self.tables
        template = _SQLITE_SELECT.substitute(
            columns=", ".join([*(tables.key(kind.value, name) for name in keys), *columns]),
            table=tables.table(kind.value),
            is_key=self._is_key(kind, ALIASES[kind.value]),
            visible=tables.visible(kind.value),
        )
        return _positional(template)

    def probes(self) -> Iterable[str]:
        """Update no row: SQLite's triggers run for each row only."""
        for table, name in self._changed_tables().items():
            column = self.dialect.quote(name)
            yield f"UPDATE {table} SET {column} = {column} WHERE 1 = 0"

    def _update(
        self, kind: Suppressible, write: Write, *, guarded: bool, dated: bool = False
    ) -> Statement:
        role, tables = kind.value, self.tables
        columns, table = tables.columns(role), tables.name(role)
        alias = table.rpartition(".")[2]  # an UPDATE of a view can have no other alias
        guard = is_dated = ""
        if guarded:
            column = tables.column(role, write.guard, alias)
            guard = f" AND {_guard(column, write, f'%({write.guard})s')}"
        if dated:
            is_dated = _SQLITE_IS_DATED.substitute(dates=self._dates, role=role, older=write.holds)
        template = _SQLITE_UPDATE.substitute(
            table=table,
            assignments=", ".join(
                f"{self.dialect.quote(columns[name].name)} = %({name})s"
                for name in write.columns
                if name in columns
            ),
            is_key=self._is_key(kind, alias),
            guard=guard,
            visible=tables.not_hidden(role, alias),
            dated=is_dated,
        )
        return Statement(template, kind)

    def _set_date(self, kind: Suppressible) -> Statement:
        template = _SQLITE_SET_DATE.substitute(
            dates=self._dates,
            role=kind.value,
            table=self.tables.table(kind.value),
            is_key=self._is_key(kind, ALIASES[kind.value]),
            visible=self.tables.visible(kind.value),
        )
        return Statement(template)

    def _add_entries(self, log: str) -> Statement:
        template = _SQLITE_ADD_ENTRIES.substitute(
            log=log,
            fields=", ".join(_ENTRY_FIELDS),
            values=", ".join(["%s"] * (len(_ENTRY_FIELDS) + 1)),
            merge=_MERGE,
        )
        return Statement(template)

    def _is_key(self, kind: Suppressible, alias: str) -> str:
        """Compare the key of a row with the given one."""
        return " AND ".join(
            f"{self.tables.column(kind.value, name, alias)} = %({key})s"
            for key, name in _keys(kind).items()
        )


def _keys(kind: Suppressible) -> dict[str, str]:
    """Return the names of the parameters with a key, each with its column by hookrow's name."""
    return {f"key_{number}": name for number, name in enumerate(KEYS[kind])}


def _guard(old: str, write: Write, new: str) -> str:
    """Return the condition that a guard holds, given its column and the new value."""
    return f"({old} IS NULL OR {old} {write.holds} {new})"


STATEMENTS: Mapping[str, type[Statements]] = {
    "postgresql": PostgresStatements,
    "sqlite": SQLiteStatements,
}
"""The statements of each dialect, by its name."""
