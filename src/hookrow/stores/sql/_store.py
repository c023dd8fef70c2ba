"""The store: transactions on a `Database` whose tables are verified first."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from hookrow._arguments import (
    check_age,
    check_counts,
    check_cursor,
    check_email,
    check_flags,
    reject,
)
from hookrow._core.column_rules import faults_of_declared_message_ids
from hookrow._core.known_entries import NO_ENTRIES, KnownEntries
from hookrow._core.notification import Key
from hookrow._core.optional import Kinds, recorded_kinds
from hookrow._core.schema import Schema, nearest
from hookrow._models import listed
from hookrow.errors import ConfigurationError, SchemaMismatch
from hookrow.stores._change_dates import warn_of_unguarded
from hookrow.stores._errors import Rejected, SchemaChanged, Unavailable, WrongMapping
from hookrow.stores._log import IDS_PER_BATCH, Forgotten, Prunable, Query, RecordedChange
from hookrow.stores._log_operations import Retention
from hookrow.stores.sql._connections import Connection, Database, server_time
from hookrow.stores.sql._log import SQLLog
from hookrow.stores.sql._mapping_record import REMEDY, MappingRecord, conditions_key
from hookrow.stores.sql._role_tables import RoleTables
from hookrow.stores.sql._row_counts import SQLRowCounts
from hookrow.stores.sql._row_search import SQLRowSearch
from hookrow.stores.sql._sqlite import SQLiteMemory
from hookrow.stores.sql._statements.base import Statements
from hookrow.stores.sql._suppressions import SQLSuppressions
from hookrow.stores.sql._transaction import SingleStatement, SQLReading, SQLTransaction, begun
from hookrow.stores.sql._urls import missing_file, open_database
from hookrow.stores.sql._verify import verify as verify_tables

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

logger = logging.getLogger("hookrow")

CLAIM_EVERY = 60.0
"""Seconds between two comparisons with the log's record, which a user may have replaced."""

VERIFY_EVERY = 1.0
"""Seconds between two verifications of tables that do not fit, at least."""


class SQLStore:
    """Finds and writes the rows of a database in transactions, in the tables of the schema.

    `database` is a URL, for hookrow's own connections with time limits, or an engine that the
    host supplies, which is never closed or changed. Tables and columns are verified at the first
    use, so that a store can be constructed before they exist; with `verify`, immediately.

    `SQLStore("sqlite://")` is a database in memory, for tests: each store has its own, with
    hookrow's tables, until it is closed. Threads share one connection, and take turns.

    Raises `ConfigurationError` for an unsupported database. With `verify`, also raises
    `SchemaMismatch` if a table or column is missing or cannot work, `AccessDenied` if the database
    refuses the login, and `Unavailable` if it cannot be reached.
    """

    schema: Schema
    """The mapping."""

    log: SQLLog | None
    """The log, or None if the schema has no log."""

    recorded: Kinds
    """The kinds of notification that the schema has columns for; see `_core.optional`."""

    row_counts: SQLRowCounts
    """Counts the rows, which may take a long time."""

    suppressions: SQLSuppressions
    """Reads the suppressed subscribers."""

    row_search: SQLRowSearch
    """Finds rows by the beginning of a text, and those of a subscriber."""

    mapping_key: str
    """Identifies, in the spool, the conditions that hide rows (`where`) and the columns of tenants;
    empty without any."""

    known_entries: KnownEntries
    """What is known about the entries of the receivers that use the store."""

    _statements: Statements | None
    _claim_at: float

    def __init__(
        self,
        database: str | URL | Engine | Database,
        schema: Schema = Schema(),  # noqa: B008 - frozen
        *,
        verify: bool = False,
    ) -> None:
        check_flags(verify=verify)
        self._verifies_at_once = verify
        if not isinstance(schema, Schema):
            line = 'SQLStore(url, Schema(subscribers=Role("people"), ...))'
            reject("The schema of a store", "a Schema", schema, line)
        self._open(open_database(database), schema)
        if verify:
            self._statements = self._verify()

    @property
    def has_tenants(self) -> bool:
        """Whether the mapping has a column of tenants, so that every arrival needs a tenant."""
        return self.schema.has_tenants

    @property
    def tenants(self) -> Mapping[str, Key]:
        """The tenants of the receivers' entries, by the entry's name."""
        return self.known_entries.tenants

    def use_entries(self, entries: KnownEntries) -> None:
        """Add the entries of a receiver, for retries, verification and messages.

        Raises `ConfigurationError` if a name already stands for another tenant, or if a model
        declares too short a column for the message ids. The columns are verified to hold the
        tenants and the message ids at the next use of the store; if it was constructed with
        `verify`, immediately, which raises the errors of the constructor.
        """
        for name, tenant in entries.tenants.items():
            if (former := self.tenants.get(name, tenant)) != tenant:
                raise ConfigurationError(
                    f"The entry {name!r} stands for the tenants {former!r} and {tenant!r} in two "
                    "receivers of one store: rename one of the two."
                )
        known = self.known_entries
        self.known_entries = known.with_others(entries)
        lengths = self.known_entries.message_id_lengths
        if faults := [*faults_of_declared_message_ids(self.schema, lengths)]:
            raise ConfigurationError(*faults)
        if known.demands != self.known_entries.demands:
            self._verify_entries()

    @contextmanager
    def transaction(
        self, *, skip_locked: bool = False, checked: bool = False
    ) -> Iterator[SQLTransaction]:
        """Begin a transaction that commits when the block ends, and rolls back if it raises.

        With `skip_locked`, it does not wait for locked rows: `lock` returns them. If the number of
        locked or changed rows is too small, it raises `Unchanged` before the commit; if `checked`,
        it reads the rows before and after the changes, and raises `Unchanged` only if they show
        that the database ignored one. Raises a `StoreError`, including from within the block.
        """
        with self._session() as (connection, statements), begun(connection, statements.dialect):
            yield SQLTransaction(connection, statements, skip_locked=skip_locked, checked=checked)

    @contextmanager
    def recording(self, *, checked: bool = False) -> Iterator[SQLTransaction | SingleStatement]:
        """Find rows, and then write once, with the last call of the block.

        On hookrow's own connections to a server, this is usually one statement, which commits by
        itself; a group that changes a row twice is written in a transaction. The rest is as in
        `transaction`.
        """
        with self._session() as (connection, statements):
            if not connection.autocommits:
                yield SQLTransaction(connection, statements, checked=checked)
            elif statements.combining is not None and not checked:
                yield SingleStatement(connection, statements)
            else:
                with begun(connection, statements.dialect):
                    yield SQLTransaction(connection, statements, checked=checked)

    @contextmanager
    def reading(self, *, hidden: bool = False) -> Iterator[SQLReading]:
        """Open a read-only view for the block. Raises a `StoreError`, including from within.

        If `hidden`, it also finds rows that `where` hides; see `RoleTables.with_hidden`.
        """
        statements = self._verified()
        if hidden:
            statements = statements.with_hidden
        try:
            with self.database.reading() as connection:
                yield SQLReading(connection, statements)
        except SchemaChanged:
            self._statements = None
            raise

    def is_nested(self) -> bool:
        """Return whether this thread is inside a transaction of the host, and keeps its locks."""
        return False  # the connections are hookrow's own, or fresh ones of an engine

    def probe(self) -> None:
        """Raise a `StoreError` unless the database accepts changes of the tables now.

        Changes no row, but fails as a change would: on a server that is read-only, or without a
        privilege.
        """
        with self.transaction() as transaction:
            transaction.probe()

    def claim_log(self) -> None:
        """Record, about once a minute, that the log is written under this mapping.

        Does so in a separate transaction. Raises a `StoreError`.
        """
        if monotonic() < self._claim_at:
            return
        if MappingRecord(self.database, self.role_tables).claim():
            self._claim_at = monotonic() + CLAIM_EVERY

    def check_mapping(self) -> None:
        """Raise `WrongMapping` if any mapping recorded for the log differs from this one.

        Raises a `StoreError`.
        """
        if difference := self.mapping_difference():
            raise WrongMapping(f"{difference} {REMEDY}")

    def mapping_difference(self) -> str | None:
        """Return a sentence about how mappings recorded for the log differ from this one, or None.

        Raises a `StoreError`.
        """
        if self.schema.log is None:
            return None
        with suppress(SchemaChanged):  # without the table hookrow_meta, there is no record
            return MappingRecord(self.database, self.role_tables).difference()
        return None

    def time(self) -> datetime | None:
        """Return the time of the database's clock, in UTC, or None if it has no clock.

        Raises a `StoreError`.
        """
        return server_time(self.database)

    def changes(self, after: int = 0, *, limit: int = 100) -> Sequence[RecordedChange]:
        """Return the next changes of rows after a cursor, at most `limit`; none at the end.

        A change is an entry of the log whose notification changed rows, with its cursor. Fewer are
        returned if their bodies are large, and never more than 1,000. The next call passes the
        cursor of the last change that was processed; 0 is before the first change that the log has
        ever had. A change that is committed later never comes before a cursor that was returned,
        whatever transactions, processes and nodes of a cluster record at the same time. An entry
        that is recorded again, because its notification was repeated, retried or replayed, is
        another change, with a new cursor; only the last one is kept. Two changes that were recorded
        at about the same time may be in either order: read the rows, instead of applying the
        entries.

        Several consumers may read, each with its own cursor. The method writes the cursors to
        the log, and may wait for the database: in an event loop, call it with `asyncio.to_thread`;
        in Django, outside of `atomic`.

        Raises `MissingChanges`, which has the cursor after which to continue, if a change after the
        cursor was deleted by `prune`, or if the cursor is later than the last change;
        `ConfigurationError` without a log, or if an argument
        is no such number; and a `StoreError`.
        """
        check_cursor("after", after)
        check_counts(limit=limit)
        return self._require_log().changes(after, limit=min(limit, IDS_PER_BATCH))

    def forget(
        self, email: str, *, entries: Collection[str] | None = None, all_entries: bool = False
    ) -> Forgotten:
        """Erase a person's address, and the bodies that contain it, from the log.

        This is `hookrow log forget`, which describes what is erased and what is left. A spool is
        not searched. The rows of the person are the host's.

        `entries` are names of the receiver's entries: notifications of others are neither searched
        nor changed. If the mapping has tenants, they are required, because the address may be that
        of a person of each tenant; `all_entries=True` erases the people of all tenants instead.

        Waits for the database, for long if the log is large: in an event loop, call it with
        `asyncio.to_thread`. Raises `ConfigurationError` without a log, if an argument is invalid,
        or if neither a receiver of this store nor the log has an entry with one of the names; and a
        `StoreError`, after which what was erased before stays erased.
        """
        check_email(email)
        check_flags(all_entries=all_entries)
        log = self._require_log()
        if entries is None:
            if self.has_tenants and not all_entries:
                raise ConfigurationError(
                    "The entries of the receiver are tenants, and the address may be that of a "
                    'person of several of them: pass entries=["acme"], or all_entries=True to '
                    "erase the people of all tenants."
                )
        elif all_entries:
            raise ConfigurationError("Pass either entries or all_entries=True, not both.")
        else:
            self._check_entries(entries, log)
        return log.forget(email, entries=entries)

    def prune(
        self,
        *,
        keep: timedelta | None = None,
        keep_bodies: timedelta | None = None,
        sure: bool = False,
    ) -> int:
        """Delete log entries that last arrived longer ago than `keep`; return how many.

        Of those that arrived longer ago than `keep_bodies`, only the body is deleted, and the
        number includes them. This is `hookrow prune`, and `sure` is its option `--yes`: without it,
        nothing is deleted if the clock of this machine may be fast. Another process that is pruning
        ends the call early.

        Waits for the database, for long if much is deleted: in an event loop, call it with
        `asyncio.to_thread`; in Django, outside of `atomic`. Raises `DoubtfulClock`,
        `ConfigurationError` without a log or for an invalid argument, and a `StoreError`; what
        was deleted before stays deleted.
        """
        return sum(self._retention(keep, keep_bodies, sure=sure).prune())

    def prunable(
        self,
        *,
        keep: timedelta | None = None,
        keep_bodies: timedelta | None = None,
        sure: bool = False,
    ) -> Prunable:
        """Return what `prune` would delete, and change nothing. Raises the same exceptions."""
        return self._retention(keep, keep_bodies, sure=sure).prunable()

    def close(self) -> None:
        """Close the connections, unless the host supplies them; drop a database in memory."""
        self.database.close()

    def _open(self, database: Database, schema: Schema) -> None:
        self.database: Database = database
        self.schema: Schema = schema
        if isinstance(database, SQLiteMemory):
            database.create_tables(schema)
        self.recorded = recorded_kinds(schema.columns("dispatches"))
        warn_of_unguarded(schema.unguarded)
        self._statements = None
        self._mismatch, self._refused_at = "", float("-inf")
        self.mapping_key = conditions_key(schema)
        self.known_entries = NO_ENTRIES
        self._claim_at = inf if schema.log is None else 0.0
        self.log = SQLLog(database, schema, self._verified) if schema.log else None
        self.row_counts = SQLRowCounts(database, lambda: self.role_tables)
        self.suppressions = SQLSuppressions(database, schema, lambda: self.role_tables)
        self.row_search = SQLRowSearch(database, lambda: self.role_tables)

    def _check_entries(self, names: object, log: SQLLog) -> None:
        """Raise `ConfigurationError` unless these are names of entries that are known."""
        line = 'entries=["acme"]'
        if isinstance(names, str) or not isinstance(names, Collection):
            reject("entries", "a list of the names of entries", names, line)
        if not names:
            raise ConfigurationError(f"entries must not be empty: write {line}.")
        for name in names:
            if not isinstance(name, str):
                reject("The name of an entry", "a string", name, line)
            if name not in self.known_entries.names and not log.count(Query(entry=name), limit=1):
                raise ConfigurationError(
                    f"No receiver of this store has an entry {name!r}, and the log has no "
                    f"notification of one.{self._names_of_entries(name)}"
                )

    def _names_of_entries(self, wrong: str) -> str:
        """Return the sentences about known entries that follow one about a wrong name."""
        names = self.known_entries.names
        if not names:
            return ""
        hint = nearest(wrong, names)
        return f" The names of the entries: {listed([*map(repr, names)])}.{hint}"

    def _require_log(self) -> SQLLog:
        """Return the log. Raises `ConfigurationError` without one."""
        if self.log is None:
            raise ConfigurationError("The schema has no log (`log=None`): add one.")
        return self.log

    def _retention(
        self, keep: timedelta | None, keep_bodies: timedelta | None, *, sure: bool
    ) -> Retention:
        check_age("keep", keep)
        check_age("keep_bodies", keep_bodies)
        check_flags(sure=sure)
        if keep is None and keep_bodies is None:
            raise ConfigurationError(
                "Nothing is limited: write keep=timedelta(days=90), keep_bodies=..., or both."
            )
        log = self._require_log()
        return Retention(self, log, keep=keep, keep_bodies=keep_bodies, sure=sure)

    @contextmanager
    def _session(self) -> Iterator[tuple[Connection, Statements]]:
        """Connect to write. After an error that concerns the tables, verify them again."""
        statements = self._statements or self._verified()
        try:
            with self.database.recording() as connection:
                yield connection, statements
        except SchemaChanged as error:
            self.database.renew()
            self._statements = None
            self._verified()
            raise Rejected(str(error)) from error  # by a trigger, because the tables fit

    def _verify(self) -> Statements:
        if missing := missing_file(self.database, self.schema):
            raise SchemaMismatch(missing)
        return verify_tables(self.database, self.schema, self.known_entries)

    def _verify_entries(self) -> None:
        """Verify that the columns suit the entries, now or at the next use."""
        self._statements = self._verify() if self._verifies_at_once else None

    @property
    def role_tables(self) -> RoleTables:
        """The tables of the roles, verified at first use. Raises a `StoreError`."""
        return self._verified().tables

    def _verified(self) -> Statements:
        """Return the statements on the tables, which are verified if necessary.

        Raises `Unavailable` if they do not fit; they are verified again after a second.
        """
        statements = self._statements  # another thread may set it to None
        if statements is None:
            if monotonic() - self._refused_at < VERIFY_EVERY:
                raise Unavailable(self._mismatch)
            try:
                statements = self._statements = self._verify()
            except ConfigurationError as error:
                if self._mismatch != str(error):
                    logger.warning(f"No notification can be recorded: {error}")
                self._mismatch, self._refused_at = str(error), monotonic()
                raise Unavailable(self._mismatch) from error
            self._mismatch = ""
        return statements


def check_store(store: object) -> None:
    """Raise `ConfigurationError` for an object that is no store, such as a URL or an engine."""
    if not isinstance(store, SQLStore):
        line = 'SQLStore("postgresql://user@host/database") or SQLStore(engine)'
        if isinstance(getattr(store, "store", None), SQLStore):  # of a receiver
            line = "receiver.store"
        reject("The store", "an SQLStore", store, line)
