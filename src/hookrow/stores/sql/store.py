"""The store: it finds, locks and writes rows by `queries`, on whatever carries the SQL."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import astuple

from hookrow.decide import fold, pairs
from hookrow.entry import Entry
from hookrow.errors import ConfigurationError
from hookrow.notification import (
    Change,
    Dispatch,
    Mentioned,
    RowId,
    Rows,
    SetTime,
    Subscriber,
    Suppressible,
)
from hookrow.schema import KEYS, TIMES, Schema
from hookrow.stores import (
    AccessDenied,
    Conflict,
    Rejected,
    SchemaChanged,
    State,
    Unavailable,
    by_kind,
    row_key,
)
from hookrow.stores.errors import refuses_one_statement
from hookrow.stores.sql.census import SQLCensus
from hookrow.stores.sql.connections import Connection, Database
from hookrow.stores.sql.dialects import utc
from hookrow.stores.sql.log import SQLLog
from hookrow.stores.sql.queries import Queries, Statement, Update, converted
from hookrow.stores.sql.urls import open_database
from hookrow.stores.sql.verify import verify as verify_tables

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

log = logging.getLogger("hookrow")

VERIFY_EVERY = 1.0
"""In seconds; how often the tables are verified again at most."""

_encode = msgspec.json.Encoder().encode


class SQLReading:
    """What is there now: at most two SELECTs to find, and one for each kind of row to read."""

    def __init__(self, connection: Connection, queries: Queries) -> None:
        self._connection, self._queries = connection, queries

    def find(self, mentioned: Mentioned) -> Rows:
        """Find every row that the group mentions."""
        subscribers, dispatches = defaultdict(list), defaultdict(list)
        subscriptions = set()
        for person, email, message_id, id_, list_ in self._found(mentioned):
            if message_id is not None:
                dispatches[message_id].append(Dispatch(id_, person, email or "", list_))
            elif email is not None:
                subscribers[fold(email)].append(Subscriber(person, email))
            else:
                subscriptions.add((list_, person))
        queries = self._queries
        if queries.pairs is not None and mentioned.changed:
            wanted = set(pairs(mentioned, subscribers, dispatches))
            if queries.finds_subscriptions:
                wanted -= _of_owners(mentioned, dispatches)
            if wanted:
                found = self._fetch_keyed(Suppressible.SUBSCRIPTION, queries.pairs, wanted)
                subscriptions.update((list_, person) for list_, person in found)
        return Rows(
            subscribers,
            dispatches,
            subscriptions,
            queries.schema.undated,
            exact=queries.schema.subscribers.fold == "exact",
        )

    def read(self, rows: Collection[RowId]) -> Mapping[RowId, State]:
        """Read what notifications set in the rows."""
        states: dict[RowId, State] = {}
        for kind, keys in by_kind(rows).items():
            width, names = len(KEYS[kind]), self._queries.written.get(kind, ())
            for row in self._fetch_keyed(kind, self._queries.state(kind), keys):
                values = (
                    utc(value) if name in TIMES else value
                    for name, value in zip(names, row[width:], strict=True)
                )
                states[kind, row_key(row[:width])] = dict(zip(names, values, strict=True))
        return {row: states[row] for row in rows if row in states}

    def _found(self, mentioned: Mentioned) -> Sequence[Any]:
        if not mentioned.emails and not mentioned.message_ids:
            return ()
        queries, encode = self._queries, self._queries.dialect.encode
        emails = mentioned.emails
        if queries.schema.subscribers.fold != "ascii":
            emails = {*emails, *mentioned.recipients}
        parameters = [encode(emails), encode(mentioned.message_ids)]
        if queries.finds_subscriptions:
            parameters.append(encode({message_id for message_id, _ in mentioned.changed}))
        return converted(self._connection.fetch(queries.find, parameters), queries.found_reads)

    def _fetch_keyed(self, kind: Suppressible, sql: str, keys: Collection[Any]) -> Sequence[Any]:
        """Return the rows of these keys; on SQLite one by one, for its JSON has no bytes."""
        dialect, rows = self._queries.dialect, self._keys(kind, keys)
        if dialect.single_statement_write:
            found = self._connection.fetch(sql, dialect.encode_rows(rows))
        else:
            fetched = (self._connection.fetch(sql, list(map(dialect.write, row))) for row in rows)
            found = [row for rows in fetched for row in rows]
        return converted(found, self._queries.reads.get(kind, {}))

    def _keys(self, kind: Suppressible, keys: Collection[Any]) -> Sequence[Sequence[Any]]:
        """Return the parts of each key, as they are written."""
        rows = [key if isinstance(key, tuple) else (key,) for key in keys]
        writes = self._queries.writes.get(kind)
        if not writes:
            return rows
        converters = [writes.get(f"key_{n}", _unchanged) for n in range(len(KEYS[kind]))]
        return [
            [convert(part) for convert, part in zip(converters, row, strict=True)] for row in rows
        ]


def _unchanged(value: object) -> object:
    return value


def _of_owners(mentioned: Mentioned, dispatches: Mapping[str, Sequence[Dispatch]]) -> set[Any]:
    """Return those pairs whose subscriptions are found together with the dispatches."""
    return {
        (dispatch.list, dispatch.owner)
        for message_id, _ in mentioned.changed
        for dispatch in dispatches.get(message_id, ())
    }


class _Step(NamedTuple):
    """A statement and its parameters, or those of `many` rows."""

    statement: Statement
    parameters: Sequence[Any]
    many: bool = False


class SQLTransaction(SQLReading):
    """A transaction in which all that is written is one statement, where that is possible.

    Unless it has `begun`, it begins only when one statement is not enough. Until then the
    statement waits for the end of the block, and commits by itself.
    """

    def __init__(
        self, connection: Connection, queries: Queries, *, begun: bool, skip_locked: bool
    ) -> None:
        super().__init__(connection, queries)
        self._begun, self._commits = begun, False
        self._skip_locked = skip_locked
        self._waiting: _Step | None = None

    def read(self, rows: Collection[RowId]) -> Mapping[RowId, State]:
        """Read what notifications set in the rows, after what is written so far."""
        self._begin()
        return super().read(rows)

    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Lock what is written to, kind by kind; on SQLite the transaction holds the whole file."""
        self._begin()
        locks = dict(self._locks(rows))
        held = {row for row in rows if row[0] in locks} if self._skip_locked else set()
        for kind, step in locks.items():
            got = self._connection.fetch(step.statement.text, step.parameters)
            got = converted(got, self._queries.reads[kind])
            held.difference_update((kind, row_key(row)) for row in got)
        return held

    def write(self, changes: Sequence[Change], entries: Sequence[Entry] = ()) -> None:
        """Lock, change and keep."""
        rows = {change.row for change in changes}
        steps = [step for _, step in self._locks(rows)]
        steps += [*self._updates(changes), *self._log_entries(entries)]
        # One statement cannot change a row twice.
        if not self._queries.single_statement or len(rows) < len(changes) or self._waiting:
            self._begin()
            for step in steps:
                self._run(step)
        elif steps:
            text = self._queries.at_once(tuple(step.statement for step in steps))
            parameters = [each for step in steps for each in step.parameters]
            self._waiting = _Step(Statement(text), parameters)
            if self._begun:
                self._flush()

    def end(self) -> None:
        """Run the statement that is waiting, and commit what has begun here."""
        self._flush()
        if self._commits:
            self._connection.execute("COMMIT")

    def _flush(self) -> None:
        step, self._waiting = self._waiting, None
        if step is None:
            return
        try:
            self._run(step)
        except Exception as error:
            if not refuses_one_statement(error):
                raise
            self._queries.single_statement = False
            raise Conflict("The tables are now changed in several statements.") from error

    def _begin(self) -> None:
        if not self._begun:
            self._connection.execute("BEGIN")
            self._begun = self._commits = True
        self._flush()

    def _run(self, step: _Step) -> None:
        if step.many:
            self._connection.execute_many(step.statement.text, step.parameters)
        else:
            self._connection.execute(step.statement.text, step.parameters)

    def _locks(self, changed: Collection[RowId]) -> Iterator[tuple[Suppressible, _Step]]:
        if self._queries.dialect.locks_rows:
            for kind, keys in by_kind(changed).items():
                if kind in self._queries.written:
                    statement = self._queries.lock(kind, skip_locked=self._skip_locked)
                    rows = self._keys(kind, keys)
                    yield kind, _Step(statement, self._queries.dialect.encode_rows(rows))

    def _updates(self, changes: Sequence[Change]) -> Iterator[_Step]:
        """Yield what applies the changes, those of one form in one go."""
        forms: defaultdict[Statement, list[list[Any]]] = defaultdict(list)
        for change in changes:
            update, parameters = self._update(change)
            if writes := self._queries.writes.get(change.row[0]):
                parameters = {
                    name: writes[name](value) if name in writes and value is not None else value
                    for name, value in parameters.items()
                }
            if update is not None:
                forms[update.statement].append([parameters[name] for name in update.names])
        # In one order: each other one would be a statement of its own, to be prepared by itself.
        for statement in sorted(forms):
            yield self._step(statement, forms[statement])

    def _update(self, change: Change) -> tuple[Update | None, Mapping[str, Any]]:
        """Return the UPDATE that applies a change, if its row has what it sets."""
        if isinstance(change, SetTime):
            update = self._queries.set_time(change.column, guarded=change.guarded)
            return update, {"key_0": change.dispatch, f"new_{change.column.value}": change.at}
        keys = change.key if isinstance(change.key, tuple) else (change.key,)
        return self._queries.set_suppression(change.kind, guarded=change.guarded), {
            **{f"key_{n}": part for n, part in enumerate(keys)},
            "new_suppressed_at": None if change.reason is None else change.at,
            "new_suppression_reason": self._queries.schema.reason(change.reason),
            "new_suppression_changed_at": change.at,
        }

    def _log_entries(self, entries: Sequence[Entry]) -> Iterator[_Step]:
        keep = self._queries.keep
        if keep is None or not entries:
            return
        if self._queries.dialect.single_statement_write:
            yield _Step(keep, [_encode(entries).decode()])
        else:
            yield self._step(keep, [[*astuple(entry), entry.outcome] for entry in entries])

    def _step(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> _Step:
        dialect = self._queries.dialect
        if dialect.single_statement_write:
            return _Step(statement, dialect.encode_rows(rows))
        return _Step(statement, [list(map(dialect.write, row)) for row in rows], many=True)


class SQLStore:
    """The rows of a database, in the tables that the schema names; see `stores.Store`.

    `database` is a URL, for connections of hookrow's own with time limits, or an engine that the
    host supplies, which is never closed or changed. Tables and columns are verified now, or at
    the first connection if the database cannot be reached; with `verify` that is an error, too.

    Raises `SchemaMismatch` if one is missing, `ConfigurationError` for a database that hookrow
    does not know, `AccessDenied` for a wrong password, and `Unavailable` with `verify`.
    """

    _queries: Queries | None

    def __init__(
        self,
        database: str | URL | Engine | Database,
        schema: Schema = Schema(),  # noqa: B008 - frozen
        *,
        verify: bool = False,
    ) -> None:
        self._open(open_database(database), schema)
        try:
            self._queries = self._verify()
        except Unavailable as error:
            if verify or isinstance(error, AccessDenied):
                raise
            log.warning("The database cannot be reached yet: %s", error)

    @contextmanager
    def transaction(self, *, skip_locked: bool = False) -> Iterator[SQLTransaction]:
        """Begin a transaction; see `Store.transaction`."""
        queries = self._verified()
        try:
            with self.database.session() as (connection, begun):
                transaction = SQLTransaction(
                    connection, queries, begun=begun, skip_locked=skip_locked
                )
                yield transaction
                transaction.end()
        except SchemaChanged as error:
            self._verify_again()
            raise Rejected(str(error)) from error  # by a trigger: the tables are as they should be

    @contextmanager
    def reading(self) -> Iterator[SQLReading]:
        """Look at rows; see `Store.reading`."""
        queries = self._verified()
        with self.database.reading() as connection:
            yield SQLReading(connection, queries)

    def close(self) -> None:
        """Close the connections, unless they are the host's."""
        self.database.close()

    def _open(self, database: Database, schema: Schema) -> None:
        self.database, self._schema = database, schema
        self._queries = None
        self._verified_at = float("-inf")
        self.log = SQLLog(database, schema.log, self._verified) if schema.log else None
        self.census = SQLCensus(database, self._verified)

    def _verify(self) -> Queries:
        return verify_tables(self.database, self._schema)

    @property
    def queries(self) -> Queries:
        """The SQL for the tables, verified at first use. Raises a `StoreError`."""
        return self._verified()

    def _verified(self) -> Queries:
        queries = self._queries  # which another thread may take away
        if queries is None:
            self._verified_at = monotonic()
            try:
                queries = self._queries = self._verify()
            except ConfigurationError as error:
                raise Unavailable(str(error)) from error
        return queries

    def _verify_again(self) -> None:
        """Verify the tables, at most once a second. Raises a `StoreError` if they do not fit."""
        if monotonic() - self._verified_at >= VERIFY_EVERY:
            self._queries = None
            self._verified()
