"""Rows in the tables of a database, on one connection: to read, and to change in a transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from hookrow.decide import fold, pairs
from hookrow.entry import Entry
from hookrow.notification import (
    Change,
    Dispatch,
    Key,
    Mentioned,
    RowId,
    Rows,
    SetTime,
    Subscriber,
    Suppressible,
)
from hookrow.schema import Schema
from hookrow.stores import Conflict, State, by_kind, row_key
from hookrow.stores.at_once import REFUSED, AtOnce
from hookrow.stores.causes import is_stale_plan
from hookrow.stores.faults import faults
from hookrow.stores.prepared import Prepared, Step, Values
from hookrow.stores.statements import Statements


class SQLReading:
    """What is there now: at the most two SELECTs to find, and one a kind of row to read."""

    def __init__(self, connection: Connection, statements: Statements, schema: Schema) -> None:
        self._connection = connection
        self._statements = statements
        self._schema = schema

    def find(self, mentioned: Mentioned) -> Rows:
        """Find every row that the group mentions."""
        subscribers = defaultdict(list)
        dispatches = defaultdict(list)
        subscriptions = set()
        for person, email, message_id, id_, list_ in self._found(mentioned):
            if message_id is not None:
                dispatches[message_id].append(Dispatch(id_, person, email or "", list_))
            elif email is not None:
                subscribers[fold(email)].append(Subscriber(person, email))
            else:
                subscriptions.add((list_, person))
        wanted = pairs(mentioned, subscribers, dispatches)
        if self._statements.find.has_subscriptions:
            wanted = set(wanted) - _of_owners(mentioned, dispatches)
        return Rows(
            subscribers,
            dispatches,
            subscriptions.union(self._subscriptions(wanted)),
            self._statements.undated,
            exact=self._schema.subscribers.fold == "exact",
        )

    def read(self, rows: Collection[RowId]) -> Mapping[RowId, State]:
        """Read what notifications set in the rows."""
        states: dict[RowId, State] = {}
        for kind, keys in by_kind(rows).items():
            width, names = len(self._statements.roles.key(kind)), self._statements.names(kind)
            statement = self._statements.state(kind)
            for row in self._connection.execute(statement, self._statements.by(keys)):
                states[kind, row_key(row[:width])] = dict(zip(names, row[width:], strict=True))
        return {row: states[row] for row in rows if row in states}

    def _found(self, mentioned: Mentioned) -> Sequence[Any]:
        if not mentioned.emails and not mentioned.message_ids:
            return ()
        find = self._statements.find
        return find(self._connection, find.mentioning(mentioned)).fetchall()

    def _subscriptions(self, wanted: Collection[tuple[Key, Key]]) -> Collection[tuple[Key, Key]]:
        statement = self._statements.subscriptions
        if statement is None or not wanted:
            return ()
        values = self._statements.by(wanted)
        rows: Iterable[Any] = (
            statement(self._connection, values)
            if isinstance(statement, Prepared)
            else self._connection.execute(statement, values)
        )
        return {(list_, subscriber) for list_, subscriber in rows}


def _of_owners(
    group: Mentioned, dispatches: Mapping[str, Sequence[Dispatch]]
) -> set[tuple[Key, Key]]:
    """Return those pairs whose subscriptions are found together with the dispatches."""
    return {
        (dispatch.list, dispatch.owner)
        for message_id, _ in group.changed
        for dispatch in dispatches.get(message_id, ())
        if dispatch.list is not None and dispatch.owner is not None
    }


class SQLTransaction(SQLReading):
    """A transaction that has begun: on PostgreSQL it writes by one statement, as a rule."""

    def __init__(
        self,
        connection: Connection,
        statements: Statements,
        schema: Schema,
        *,
        skip_locked: bool,
    ) -> None:
        super().__init__(connection, statements, schema)
        self._skip_locked = skip_locked

    @faults()
    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Lock what is written to, kind by kind; on SQLite the transaction holds the whole file."""
        locks = self._locks(rows)
        held = {row for row in rows if row[0] in locks} if self._skip_locked else set()
        for kind, (statement, values) in locks.items():
            got = statement(self._connection, values)
            if self._skip_locked:  # else to read what was locked is work for nothing
                held.difference_update((kind, row_key(row)) for row in got)
            got.close()
        return held

    @faults()
    def write(self, changes: Sequence[Change], entries: Sequence[Entry] = ()) -> None:
        """Lock, change and keep; at once where that can be, for no two changes meet in a row."""
        rows = {change.row for change in changes}
        steps = [*self._locks(rows).values(), *self._saves(changes)]
        keep, at_once = self._statements.keep, self._statements.at_once
        if keep is not None and entries:
            steps.append(keep(entries))
        if at_once is None or len(rows) < len(changes):
            self._one_by_one(steps)
        elif steps:
            statements, values = zip(*steps, strict=True)
            self._at_once(at_once(statements), values)

    def commit(self) -> None:
        """End it."""
        self._connection.commit()

    def _one_by_one(self, steps: Sequence[Step]) -> None:
        for statement, values in steps:
            statement(self._connection, values).close()

    def _at_once(self, statement: AtOnce, values: Sequence[Values]) -> None:
        try:
            statement(self._connection, values)
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in REFUSED or is_stale_plan(error.orig):
                raise
            self._statements.at_once = None
            raise Conflict("What is changed cannot be in one statement: now one by one.") from error

    def _locks(self, rows: Collection[RowId]) -> Mapping[Suppressible, Step]:
        if not self._statements.arrays:
            return {}
        written = [row for row in rows if row[0] in self._statements.written]
        return {
            kind: (
                self._statements.lock(kind, skip_locked=self._skip_locked),
                self._statements.by(keys),
            )
            for kind, keys in by_kind(written).items()
        }

    def _saves(self, changes: Sequence[Change]) -> Iterator[Step]:
        """Yield what applies the changes, those of one form in one go."""
        forms: defaultdict[Prepared, list[dict[str, Any]]] = defaultdict(list)
        for change in changes:
            form, parameters = self._save(change)
            if form is not None:
                forms[form].append(parameters)
        # In one order: each other would be a statement of its own, to be prepared by itself.
        for form in sorted(forms, key=attrgetter("text")):
            yield form, self._statements.of(forms[form])

    def _save(self, change: Change) -> tuple[Prepared | None, dict[str, Any]]:
        """Return the statement of the change's form, if anything is set, and its parameters."""
        guarded = change.guarded
        if isinstance(change, SetTime):
            form = self._statements.set_time(change.column, guarded=guarded)
            return form, {"key_0": change.dispatch, "new_at": change.at}
        key = change.key if isinstance(change.key, tuple) else (change.key,)
        return self._statements.set_suppression(change.kind, guarded=guarded), {
            **{f"key_{n}": part for n, part in enumerate(key)},
            "new_suppressed_at": None if change.reason is None else change.at,
            "new_suppression_reason": self._schema.reason(change.reason),
            "new_suppression_changed_at": change.at,
        }
