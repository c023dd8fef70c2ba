"""Transactions: they find, lock and write rows with the SQL of `queries`, on any connection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import astuple

from hookrow.core.log_entry import LogEntry
from hookrow.core.notification import Change, RowId, SetTime, Suppressible
from hookrow.stores import Conflict, State, by_kind, row_key
from hookrow.stores.dates import key_text
from hookrow.stores.errors import refuses_one_statement
from hookrow.stores.sql.connections import Connection
from hookrow.stores.sql.conversions import converted
from hookrow.stores.sql.log_insert import Statement
from hookrow.stores.sql.queries import Queries
from hookrow.stores.sql.reading import SQLReading
from hookrow.stores.sql.updates import Update

_encode = msgspec.json.Encoder().encode


class _Step(NamedTuple):
    """A statement and its parameters: those of one execution, or of `many`."""

    statement: Statement
    parameters: Sequence[Any]
    many: bool = False


class SQLTransaction(SQLReading):
    """A transaction that writes everything in one statement if possible.

    Unless it has `begun`, it begins only if one statement is not enough. Until then the
    statement is pending until the end of the block, and commits by itself.
    """

    def __init__(
        self, connection: Connection, queries: Queries, *, begun: bool, skip_locked: bool
    ) -> None:
        super().__init__(connection, queries)
        self._begun, self._commits = begun, False
        self._skip_locked = skip_locked
        self.has_entries = False
        """Whether it added entries to the log."""
        self._pending: _Step | None = None

    def read(self, rows: Collection[RowId]) -> Mapping[RowId, State]:
        """Read the columns that notifications set, after pending changes."""
        self._begin()
        return super().read(rows)

    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Lock rows kind by kind; on SQLite the transaction holds the whole file."""
        self._begin()
        locks = dict(self._locks(rows))
        held = {row for row in rows if row[0] in locks} if self._skip_locked else set()
        for kind, step in locks.items():
            got = self._connection.fetch(step.statement.text, step.parameters)
            got = converted(got, self._queries.conversions.state[kind])
            held.difference_update((kind, row_key(row)) for row in got)
        return held

    def write(self, changes: Sequence[Change], entries: Sequence[LogEntry] = ()) -> None:
        """Lock and change the rows, and add the entries to the log."""
        rows = {change.row for change in changes}
        # One statement cannot change a row twice.
        single = self._queries.single_statement and len(rows) == len(changes) and not self._pending
        steps = [step for _, step in self._locks(rows)]
        steps += [*self._updates(changes, at_once=single), *self._log_entries(entries)]
        if not single:
            self._begin()
            for step in steps:
                self._run(step)
        elif steps:
            text = self._queries.updates.at_once(tuple(step.statement for step in steps))
            parameters = [each for step in steps for each in step.parameters]
            self._pending = _Step(Statement(text), parameters)
            if self._begun:
                self._flush()

    def end(self) -> None:
        """Run the pending statement, and commit if the transaction began here."""
        self._flush()
        if self._commits:
            self._connection.execute("COMMIT")

    def _flush(self) -> None:
        pending, self._pending = self._pending, None
        if pending is None:
            return
        try:
            self._run(pending)
        except Exception as error:
            if not refuses_one_statement(error):
                raise
            self._queries.single_statement = False
            raise Conflict("The tables are now changed in several statements.") from error

    def _begin(self) -> None:
        if not self._begun:
            self._connection.execute(self._queries.dialect.begin)
            self._begun = self._commits = True
        self._flush()

    def _run(self, step: _Step) -> None:
        if step.many:
            self._connection.execute_many(step.statement.text, step.parameters)
        else:
            self._connection.execute(step.statement.text, step.parameters)

    def _locks(self, rows: Collection[RowId]) -> Iterator[tuple[Suppressible, _Step]]:
        if self._queries.dialect.locks_rows:
            for kind, keys in by_kind(rows).items():
                if kind in self._queries.written:
                    statement = self._queries.lock(kind, skip_locked=self._skip_locked)
                    yield kind, _Step(statement, self.keys(kind, keys))

    def _updates(self, changes: Sequence[Change], *, at_once: bool) -> Iterator[_Step]:
        """Yield the statements that apply the changes, one for all changes of a form."""
        forms: defaultdict[Statement, list[list[Any]]] = defaultdict(list)
        for change in changes:
            updates, values = self._writes(change, at_once=at_once)
            for statement, names in updates:
                forms[statement].append([values[name] for name in names])
        # Always in the same order, because any other would be another statement to prepare. An
        # INSERT of dates precedes the UPDATE that depends on them.
        for statement in sorted(forms):
            yield self._step(statement, forms[statement])

    def _writes(
        self, change: Change, *, at_once: bool
    ) -> tuple[Sequence[Update], Mapping[str, Any]]:
        """Return the statements that apply a change, and the values of all their parameters."""
        queries = self._queries
        values: dict[str, Any]
        if isinstance(change, SetTime):
            values = {"key_0": change.dispatch, f"new_{change.column.value}": change.at}
            stored = queries.conversions.stored(Suppressible.DISPATCH, values)
            return [queries.updates.set_time(change.column, guarded=change.guarded)], stored
        kind, keys = change.kind, change.key if isinstance(change.key, tuple) else (change.key,)
        named = {f"key_{n}": part for n, part in enumerate(keys)}
        reason = queries.schema.reason(change.reason)
        values = {
            **named,
            "new_suppressed_at": None if change.reason is None else change.at,
            "new_suppression_reason": queries.empty.get(kind) if reason is None else reason,
            "new_suppression_changed_at": change.at,
        }
        stored = queries.conversions.stored(kind, values)
        if kind in queries.dated_beside_log:
            stored = {**stored, "row_key": key_text([stored[name] for name in named])}
        updates = queries.updates.set_suppression(kind, guarded=change.guarded, at_once=at_once)
        return updates, stored

    def _log_entries(self, entries: Sequence[LogEntry]) -> Iterator[_Step]:
        keep = self._queries.keep
        if keep is None or not entries:
            return
        self.has_entries = True
        if self._queries.dialect.takes_rows:
            yield _Step(keep, [_encode(entries).decode()])
        else:
            yield self._step(keep, [(*astuple(entry), entry.outcome) for entry in entries])

    def _step(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> _Step:
        dialect = self._queries.dialect
        return _Step(statement, dialect.encode_rows(rows), many=not dialect.takes_rows)
