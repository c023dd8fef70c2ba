"""The SQL store: PostgreSQL and SQLite through SQLAlchemy Core, on an engine or a URL.

It finds, locks and saves; what a change means is decided in `decide`.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from hookrow.errors import ConfigurationError, MissingExtra

try:
    from sqlalchemy import URL, Connection, Engine, Update
    from sqlalchemy.exc import DBAPIError
except ImportError as error:
    raise MissingExtra("The SQL store", "sql") from error

from hookrow.decide import fold, pairs
from hookrow.entry import Entry
from hookrow.forks import renew_after_fork
from hookrow.notification import (
    Change,
    Dispatch,
    Key,
    Mentioned,
    RowId,
    Rows,
    SetTime,
    Subscriber,
)
from hookrow.schema import Schema
from hookrow.stores import State, Unavailable, by_kind, row_key
from hookrow.stores.engines import begin, open_engine, reading, supported
from hookrow.stores.faults import faults
from hookrow.stores.sql_census import SQLCensus
from hookrow.stores.sql_log import SQLLog
from hookrow.stores.statements import Statements
from hookrow.stores.verification import verify
from hookrow.stores.watch import watch

log = logging.getLogger("hookrow")

_NO_DATABASE = (
    "A store takes a database URL, or an sqlalchemy.Engine that is not async, but no {}: "
    'pass create_engine("postgresql+psycopg://..."), or that URL as text.'
)


class SQLStore:
    """The rows of a database, in the tables that the schema names.

    `database` is a URL, for an engine of our own with time limits, or an engine
    that the host lends, which is never closed or changed. Tables and columns are
    verified now, or at the first connection where the database cannot be reached.

    Raises `SchemaMismatch` where one is missing, and `ConfigurationError` for a
    database that hookrow does not know.
    """

    def __init__(self, database: str | URL | Engine, schema: Schema = Schema()) -> None:  # noqa: B008 - frozen
        if isinstance(database, Engine):
            supported(database.dialect.name, is_async=database.dialect.is_async)
            self._engine, self._own = database, False
        elif isinstance(database, str | URL):
            self._engine, self._own = open_engine(database), True
            renew_after_fork(self)
        else:
            raise ConfigurationError(_NO_DATABASE.format(type(database).__name__))
        self._schema = schema
        self._statements: Statements | None = None
        self.log = SQLLog(self._engine, schema.log, self._committed) if schema.log else None
        self.census = SQLCensus(self._reading, self._verified, ours=schema.ours)
        try:
            self._statements = verify(self._engine, schema)
        except Unavailable as error:
            log.warning("The database cannot be reached yet: %s", error)

    @contextmanager
    def transaction(self, *, skip_locked: bool = False) -> Iterator[SQLTransaction]:
        """Begin a transaction; see `Store.transaction`."""
        with self._committed() as connection:
            yield SQLTransaction(
                connection, self._verified(), self._schema, skip_locked=skip_locked
            )

    @contextmanager
    def _committed(self) -> Iterator[Connection]:
        """Begin a transaction on tables that are verified, and commit it at the end."""
        with faults():
            self._verified()
            with self._begun() as connection:
                yield connection
                with faults(saving=True):  # of what is checked at the end
                    connection.commit()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Connect without time limits, and on SQLite without keeping anyone from writing."""
        with faults(), reading(self._engine) as connection:
            yield connection

    def _verified(self) -> Statements:
        if self._statements is None:
            try:
                self._statements = verify(self._engine, self._schema)
            except ConfigurationError as error:
                raise Unavailable(str(error)) from error
        return self._statements

    @contextmanager
    def _begun(self) -> Iterator[Connection]:
        """Begin a transaction, on a new connection where the server left the one that idled."""
        try:
            connection = self._begin()
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            connection = self._begin()
        try:
            with watch.over(connection), _rolled_back(connection):
                yield connection
        finally:
            connection.close()

    def _begin(self) -> Connection:
        connection = self._engine.connect()
        try:
            with watch.over(connection):
                begin(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close the engine, where it is our own."""
        if self._own:
            self._engine.dispose()

    def renew(self) -> None:
        """Leave the connections of our own engine to the process that forked us."""
        self._engine.dispose(close=False)


class SQLTransaction:
    """One transaction: at the most two SELECTs to find, three to lock, and the UPDATEs."""

    def __init__(
        self,
        connection: Connection,
        statements: Statements,
        schema: Schema,
        *,
        skip_locked: bool,
    ) -> None:
        self._connection = connection
        self._statements = statements
        self._schema = schema
        self._skip_locked = skip_locked

    def find(self, mentioned: Mentioned) -> Rows:
        """Find every row that the group mentions."""
        subscribers = defaultdict(list)
        dispatches = defaultdict(list)
        for person, email, message_id, id_, list_ in self._found(mentioned):
            if message_id is None:
                subscribers[fold(email)].append(Subscriber(person, email))
            else:
                dispatches[message_id].append(Dispatch(id_, person, email or "", list_))
        return Rows(
            subscribers,
            dispatches,
            self._subscriptions(pairs(mentioned, subscribers, dispatches)),
            self._statements.undated,
            exact=self._schema.subscribers.fold == "exact",
        )

    @faults(saving=True)
    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Lock what is written to, kind by kind; on SQLite the transaction holds the whole file."""
        if self._connection.dialect.name == "sqlite":
            return ()
        rows = [row for row in rows if row[0] in self._statements.written]
        held = set(rows) if self._skip_locked else set()
        for kind, keys in by_kind(rows).items():
            statement = self._statements.lock(kind, skip_locked=self._skip_locked)
            got = self._connection.execute(statement, self._statements.by(keys))
            if self._skip_locked:  # else to read what was locked is work for nothing
                held.difference_update((kind, row_key(row)) for row in got)
            got.close()
        return held

    @faults(saving=True)
    def save(self, changes: Sequence[Change]) -> None:
        """Apply the changes, those of one form in one go."""
        forms: defaultdict[Update, list[dict[str, Any]]] = defaultdict(list)
        for change in changes:
            if (form := self._form(change)) is not None:
                forms[form].append(self._parameters(change))
        for form, rows in forms.items():
            self._connection.execute(form, self._statements.of(rows))

    def keep(self, entries: Sequence[Entry]) -> None:
        """Add the entries to the log, where there is one."""
        if self._statements.keep is not None and entries:
            self._connection.execute(*self._statements.keep(entries))

    def read(self, rows: Collection[RowId]) -> Mapping[RowId, State]:
        """Read what notifications set in the rows."""
        states: dict[RowId, State] = {}
        for kind, keys in by_kind(rows).items():
            width, names = len(self._statements.key(kind)), self._statements.names(kind)
            statement = self._statements.state(kind)
            for row in self._connection.execute(statement, self._statements.by(keys)):
                states[kind, row_key(row[:width])] = dict(zip(names, row[width:], strict=True))
        return {row: states[row] for row in rows if row in states}

    def _form(self, change: Change) -> Update | None:
        if isinstance(change, SetTime):
            return self._statements.set_time(change.column, guarded=change.guarded)
        return self._statements.set_suppression(change.kind, guarded=change.guarded)

    def _parameters(self, change: Change) -> dict[str, Any]:
        if isinstance(change, SetTime):
            return {"key_0": change.dispatch, "new_at": change.at}
        key = change.key if isinstance(change.key, tuple) else (change.key,)
        return {
            **{f"key_{n}": part for n, part in enumerate(key)},
            "new_suppressed_at": None if change.reason is None else change.at,
            "new_suppression_reason": self._schema.reason(change.reason),
            "new_suppression_changed_at": change.at,
        }

    def _found(self, mentioned: Mentioned) -> Sequence[Any]:
        if not mentioned.emails and not mentioned.message_ids:
            return ()
        parameters = self._statements.mentioning(mentioned)
        return self._connection.execute(self._statements.find, parameters).all()

    def _subscriptions(self, wanted: Collection[tuple[Key, Key]]) -> Collection[tuple[Key, Key]]:
        statement = self._statements.subscriptions
        if statement is None or not wanted:
            return ()
        rows = self._connection.execute(statement, self._statements.by(wanted))
        return {(list_, subscriber) for list_, subscriber in rows}


@contextmanager
def _rolled_back(connection: Connection) -> Iterator[None]:
    """Roll back what the block began, where it raises."""
    try:
        yield
    except BaseException:
        if not connection.invalidated:  # SQLAlchemy takes one whose commit failed for ended
            with suppress(connection.dialect.loaded_dbapi.Error):
                connection.connection.rollback()
        raise
