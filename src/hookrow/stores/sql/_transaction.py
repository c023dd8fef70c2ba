"""Transactions, which find, lock and write rows with `_statements`, on any connection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

from msgspec.structs import replace

from hookrow._core.changes import State, is_ignored, new_values
from hookrow._core.log_entry import LogEntry, log_entries
from hookrow._core.notification import (
    Arrival,
    Change,
    FoundDispatch,
    Key,
    LookupKeys,
    Reactivated,
    Recorded,
    RowId,
    Rows,
    SetSuppression,
    SetTime,
    Suppressible,
)
from hookrow._core.rules import PROBE, subscription_keys
from hookrow._core.schema import KEYS, TIMES, TOUCH
from hookrow.stores._change_dates import key_text
from hookrow.stores._driver_errors import failed_check, refuses_one_statement
from hookrow.stores._errors import Conflict, Rejected, Unchanged
from hookrow.stores.sql._connections import Connection, Row, savepoint, undone
from hookrow.stores.sql._conversions import converted, message_ids_as_stored
from hookrow.stores.sql._dialects.base import Dialect, read_time, utc
from hookrow.stores.sql._found import FoundRows
from hookrow.stores.sql._newest import newest_that_contain
from hookrow.stores.sql._role_tables import RoleTables
from hookrow.stores.sql._statements.base import Statement, Statements, Step

REHEARSED_SIZE = 2048
"""The length of the body of a rehearsed entry. Most notifications are shorter."""


@dataclass(eq=False)
class SQLReading:
    """A read-only view of the rows. It takes no locks and does not block writers.

    It finds and reads rows with a fixed number of SELECTs; SQLite needs one for each key.
    """

    _connection: Connection
    _statements: Statements

    def find(self, lookup: LookupKeys) -> Rows:
        """Find every row that `decide` needs.

        Most notifications concern the owner of their dispatch, so the owners are found first, with
        the dispatches. For the other notifications, all rows are found together: those of each one
        are from one snapshot.

        Raises `Rejected` for an arrival without a tenant if the mapping has tenants, and for one
        with a tenant if it has none: its rows could be another tenant's.
        """
        tables = self._statements.tables
        _check_tenants(tables, lookup.tenants)
        found = FoundRows(tables, lookup.tenants)
        if lookup.message_ids and tables.has("dispatches"):
            found.add(self._found(lookup, subscribers=False), lookup.message_ids)
        others = found.add_owners(lookup)
        if others.addressed:
            found.add(self._found(others, subscribers=True), others.message_ids)
        if lookup.changed:
            self._find_pairs(lookup, found)
        return Rows(
            found.subscribers,
            found.dispatches,
            found.subscriptions,
            tables.unguarded,
            exact=tables.schema.subscribers.fold == "exact",
            first_opens=tables.first_opens,
            has_dispatches=tables.has("dispatches"),
            tenants=found.tenants,
            suppressible=tables.schema.suppressible,
        )

    def containing(
        self, role: str, name: str, parts: Collection[str], tenant: Key | None
    ) -> Collection[str]:
        """Return the values of a column in the newest rows that contain one of the `parts`.

        They are those of a tenant, or of all rows if there are no tenants.
        """
        sql, values = newest_that_contain(self._statements.tables, role, name, parts, tenant)
        return {text for (text,) in self._connection.fetch(sql, values)}

    def read(self, rows: Collection[RowId]) -> Mapping[RowId, State]:
        """Read the columns that notifications set, with the changes made so far in the block.

        Raises `Rejected` if a key is not unique.
        """
        tables = self._statements.tables
        states: dict[RowId, State] = {}
        for kind, keys in _by_kind(rows).items():
            width, names = len(KEYS[kind]), tables.written.get(kind, ())
            flags = tables.time_flags.get(kind, ())
            rows_of_kind = self._fetch_keyed(self._statements.state(kind), self._keys(kind, keys))
            found = converted(rows_of_kind, tables.conversions.state.get(kind, {}))
            if len(found) > len(keys):
                raise Rejected(_NOT_UNIQUE.format(kind.value))
            for row in found:
                state = {
                    name: utc(value) if name in TIMES and name not in flags else value
                    for name, value in zip(names, row[width:], strict=True)
                }
                state.update({name: bool(state[name]) for name in flags})
                if state.get("suppression_reason") == "" == tables.empty[kind]:
                    state["suppression_reason"] = None
                states[kind, _row_key(row[:width])] = state
        return {row: states[row] for row in rows if row in states}

    def _found(self, lookup: LookupKeys, *, subscribers: bool) -> Sequence[Row]:
        """Return the rows of `Statements.find`, with all `subscribers` or only owners."""
        statements, tables = self._statements, self._statements.tables
        subscriptions = bool(lookup.changed) and statements.finds_subscriptions
        parameters: list[Any] = []
        if subscribers:
            parameters += statements.given_emails(self._emails(lookup))
        message_ids = [lookup.message_ids] if tables.has("dispatches") else []
        if subscriptions:
            message_ids.append({message_id for message_id, _ in lookup.changed})
        of_tenants = tables.tenant_values("dispatches", lookup.tenants)
        for each in message_ids:
            stored = message_ids_as_stored(each) if tables.has_uuids else each
            parameters += map(tables.dialect.encode, (stored, *of_tenants))
        sql = statements.find(subscribers=subscribers, subscriptions=subscriptions)
        rows = self._connection.fetch(sql, parameters)
        return converted(rows, tables.conversions.found)

    def _emails(self, lookup: LookupKeys) -> Collection[tuple[str, Key | None]]:
        """Return the emails to search, each with its tenant.

        They are in ASCII-lowered form and, if it matters, in their own, too.
        """
        emails = {(email, tenant) for _, email, _, tenant in lookup.addressed}
        if self._statements.tables.schema.subscribers.fold != "ascii":
            emails |= {(recipient, tenant) for _, _, recipient, tenant in lookup.addressed}
        return emails

    def _find_pairs(self, lookup: LookupKeys, found: FoundRows) -> None:
        """Add the subscriptions that `Statements.find` does not return."""
        statements, kind = self._statements, Suppressible.SUBSCRIPTION
        if not statements.tables.has(kind.value):
            return
        keys = set(subscription_keys(lookup, found.subscribers, found.dispatches))
        if statements.finds_subscriptions:
            keys -= _of_owners(lookup, found.dispatches)
        if not keys:
            return
        rows = self._fetch_keyed(statements.select_pairs(), self._keys(kind, keys))
        found_pairs = converted(rows, statements.tables.conversions.pairs)
        for key_0, key_1, list_, subscriber, *tenants in found_pairs:
            found.add_subscription((list_, subscriber), (key_0, key_1), *tenants)

    def _fetch_keyed(self, sql: str, parameters: Sequence[Any]) -> Sequence[Row]:
        """Return the rows with these keys, as `_keys` returns them."""
        fetch = self._connection.fetch
        if self._statements.selects_one:
            return [each for row in parameters for each in fetch(sql, row)]
        return fetch(sql, parameters)

    def _keys(self, kind: Suppressible, keys: Collection[Any]) -> Sequence[Any]:
        """Return the parameters of a statement that selects rows by these keys."""
        tables = self._statements.tables
        return self._statements.dialect.encode_rows(tables.conversions.keys(kind, keys))


def _check_tenants(tables: RoleTables, tenants: Collection[Key | None]) -> None:
    """Raise `Rejected` unless the mapping and all arrivals have tenants, or none does."""
    if tables.tenants:
        if None in tenants:
            raise Rejected(_NO_TENANT)
    elif not _WITHOUT.issuperset(tenants):
        raise Rejected(_NO_COLUMN)


_WITHOUT = frozenset({None})

_NO_TENANT = "The arrival has no tenant, but the mapping names a column of tenants."
_NO_COLUMN = "The arrival has a tenant, but the mapping names no column of tenants."

_NOT_UNIQUE = "Several rows of the {} have one key, so one change would concern all of them."
"""The error for the rows of a view, whose keys cannot be verified."""


class _Writing(SQLReading):
    """What both kinds of transaction do with changes."""

    def _steps(self, changes: Sequence[Change], entries: Sequence[LogEntry]) -> list[Step]:
        """Return the statements that apply the changes, each for many rows, and add the entries."""
        statements = self._statements
        touch = self._touch_values()
        rows_of: defaultdict[Statement, list[Sequence[Any]]] = defaultdict(list)
        for change in changes:
            updates, values = self._writes(change)
            if touch:
                values = {**values, **touch.get(change.row[0], {})}
            for update in updates:
                rows_of[update].append(update.values(values))
        # Dates come first, because updates depend on them. The order is fixed, because another one
        # would be another statement to prepare.
        ordered = sorted(rows_of, key=lambda each: (each.kind is not None, each.text))
        steps = [Step(each, rows_of[each]) for each in ordered]
        if entries and statements.add_entries is not None:
            steps.append(Step(statements.add_entries, entries))
        return steps

    def _touch_values(self) -> Mapping[Suppressible, Mapping[str, Any]]:
        """Return the time of the write as the column of each kind of row stores it."""
        tables = self._statements.tables
        if not tables.touched:
            return {}
        now = datetime.now(UTC)
        return {kind: {TOUCH: tables.stored(kind.value, TOUCH, now)} for kind in tables.touched}

    def _writes(self, change: Change) -> tuple[Sequence[Statement], Mapping[str, Any]]:
        """Return the statements that apply a change, and the values of all their parameters."""
        statements, tables = self._statements, self._statements.tables
        if isinstance(change, SetTime):
            values = new_values(change, tables.schema.reason)
            values["key_0"] = change.dispatch
            if tables.conversions.are_needed:
                values = tables.conversions.stored(Suppressible.DISPATCH, values)
            return statements.set_time(change.column, guarded=change.guarded), values
        updates = statements.set_suppression(change.kind, guarded=change.guarded)
        return updates, self._suppression_values(change)

    def _suppression_values(self, change: SetSuppression) -> Mapping[str, Any]:
        tables, kind = self._statements.tables, change.kind
        values = new_values(change, tables.schema.reason, tables.empty.get(kind))
        if isinstance(change.key, tuple):
            values["key_0"], values["key_1"] = change.key
        else:
            values["key_0"] = change.key
        if tables.conversions.are_needed:
            values = tables.conversions.stored(kind, values)
        if kind in tables.dated_in_side_table:
            values["row_key"] = key_text([values[f"key_{n}"] for n in range(len(KEYS[kind]))])
        return values

    def _run_combined(
        self,
        changes: Sequence[Change],
        entries: Sequence[LogEntry],
        *,
        skip_locked: bool = False,
        commits: bool = False,
    ) -> bool:
        """Lock the rows and write at once if possible; return whether it was."""
        combining, rows = self._statements.combining, {change.row for change in changes}
        if combining is None or not combining.accepts(
            autocommits=self._connection.autocommits, repeats_rows=len(rows) < len(changes)
        ):
            return False
        steps = self._steps(changes, entries)
        if not steps:
            return True
        parts = tuple(step.statement for step in steps)
        combined = combining.combined(parts, skip_locked=skip_locked, commits=commits)
        by_kind = _by_kind(rows)
        stored_keys = self._statements.tables.conversions.keys
        keys = [stored_keys(kind, by_kind[kind]) for kind in combined.kinds]
        parameters = combined.parameters(keys, steps)
        if parameters is None:
            return False
        try:
            self._connection.execute(combined.text, parameters)
        except Exception as error:
            if failed_check(error):
                raise Unchanged("A row was not locked or changed.") from error
            if not refuses_one_statement(error):
                raise
            self._statements.combining = None
            raise Conflict("From now on, the tables are changed in several statements.") from error
        return True


class SingleStatement(_Writing):
    """Finds rows, and writes a group in one round trip if it can.

    The connection autocommits, so that the round trips of BEGIN and COMMIT are saved.
    """

    def write(self, changes: Sequence[Change], entries: Sequence[LogEntry] = ()) -> None:
        """Lock and change the rows, add the entries to the log, and commit."""
        if self._run_combined(changes, entries, commits=True):
            return
        with begun(self._connection, self._statements.dialect):
            SQLTransaction(self._connection, self._statements).write(changes, entries)


class SQLTransaction(_Writing):
    """An atomic transaction that has begun: it commits when the block of the store ends.

    If the database locks or changes fewer rows than it should, the transaction raises `Unchanged`
    before the commit. If it is `checked`, it uses separate statements, and reads the rows before
    and after them, because a count alone does not prove that a row lacks the change: a trigger may
    skip an update that would change nothing, and SQLite does not count the changes of views.
    """

    def __init__(
        self,
        connection: Connection,
        statements: Statements,
        *,
        skip_locked: bool = False,
        checked: bool = False,
    ) -> None:
        super().__init__(connection, statements)
        self._skip_locked, self._checked = skip_locked, checked

    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Lock the rows, in the same order in every process.

        Return the rows that could not be locked: none, unless locked rows are skipped. Another
        transaction may hold them, or they were deleted, or the user may not lock them. On SQLite,
        the transaction locks the whole file anyway.
        """
        locks = dict(self._locks(rows))
        held = {row for row in rows if row[0] in locks} if self._skip_locked else set()
        for kind, keys in locks.items():
            locked = self._fetch_locked(kind, keys)
            held.difference_update((kind, _row_key(row)) for row in locked)
        return held

    def write(self, changes: Sequence[Change], entries: Sequence[LogEntry] = ()) -> None:
        """Lock the rows of the changes, apply the changes, and add the entries to the log.

        There is at most one change per row and column; each is applied only if its guard holds.
        There is at most one entry per fingerprint, and they are sorted by it. If the log already
        has an entry, the attempts are added to it, and the newer result replaces its own. Without
        a log, entries are ignored.
        """
        if not self._checked and self._run_combined(
            changes, entries, skip_locked=self._skip_locked
        ):
            return
        rows = {change.row for change in changes}
        steps = self._steps(changes, entries)
        for kind, keys in self._locks(rows):
            locked = self._fetch_locked(kind, keys)
            if len(locked) > len(keys):
                raise Rejected(_NOT_UNIQUE.format(kind.value))
            if len(locked) < len(keys) and not self._checked:
                raise Unchanged(f"A row in {kind.value} could not be locked.")
        before = self.read(rows) if self._checked else None
        if entries and self._statements.register_writer:
            self._connection.execute(self._statements.register_writer)
        complete = [self._run(step) for step in steps]
        if self._checked or not all(complete):
            self._verify(changes, before)

    def probe(self) -> None:
        """Run a statement for each table that would lock or change its rows, if it selected any."""
        for statement in self._statements.probes():
            self._connection.execute(statement)

    def rehearse(self) -> None:
        """Write an entry to the log, if there is one, and undo this; the commit is a real one.

        Unlike `probe`, it fails if the disk is full. The entry is larger than those of most
        notifications, so that it fails no later than theirs. It is undone before the commit, and
        not by rolling back: SQLite writes no page before the commit.
        """
        statements = self._statements
        if statements.rehearse_entries is None:
            return
        with savepoint(self._connection), undone(self._connection):
            if statements.register_writer:
                self._connection.execute(statements.register_writer)
            self._run(Step(statements.rehearse_entries, [_rehearsed_entry()]))

    def _run(self, step: Step) -> bool:
        """Run a step; return whether it changed as many rows as it should."""
        statement, size = step.statement, len(step.rows)
        count = statement.run(self._connection, self._statements.parameters(step))
        if count > size and statement.kind is not None:
            raise Rejected(_NOT_UNIQUE.format(statement.kind.value))
        complete = self._statements.is_complete(statement, count, size)
        if not complete and self._statements.adds_entries(statement):
            raise Unchanged("The log did not accept an entry.")
        return complete

    def _locks(self, rows: Collection[RowId]) -> Iterator[tuple[Suppressible, Sequence[Any]]]:
        """Yield the keys of the rows to lock, by kind."""
        if not self._statements.dialect.locks_rows:  # the transaction holds the whole database
            return
        for kind, keys in _by_kind(rows).items():
            if kind in self._statements.tables.written:
                yield kind, keys

    def _fetch_locked(self, kind: Suppressible, keys: Sequence[Any]) -> Sequence[Any]:
        lock = self._statements.lock(kind, skip_locked=self._skip_locked)
        rows = self._connection.fetch(lock.text, self._keys(kind, keys))
        return converted(rows, self._statements.tables.conversions.state[kind])

    def _verify(self, changes: Sequence[Change], before: Mapping[RowId, State] | None) -> None:
        """Raise `Unchanged` unless each row has its changes, or a guard has refused them.

        The rows `before` the changes are known if the transaction is checked.
        """
        after, dates = self.read({change.row for change in changes}), self._read_dates(changes)
        for change in changes:
            row = change.row
            state = after.get(row)
            if not self._writes(change)[0]:  # its table has no column to change
                continue
            if state is None:
                raise Unchanged(f"A row in {row[0].value} was deleted.")
            earlier = None if before is None else before.get(row)
            new = new_values(change, self._statements.tables.schema.reason)
            if is_ignored(change, new, state, earlier, last=dates.get(row)):
                raise Unchanged(f"The database ignored an update of a row in {row[0].value}.")

    def _read_dates(self, changes: Sequence[Change]) -> Mapping[RowId, datetime]:
        """Read the dates of suppressions in the side table."""
        statements, dates = self._statements, {}
        for kind in statements.tables.dated_in_side_table:
            texts = {
                self._suppression_values(each)["row_key"]: each.row
                for each in changes
                if isinstance(each, SetSuppression) and each.kind is kind
            }
            if texts:
                encoded = statements.dialect.encode(texts)
                rows = self._connection.fetch(statements.dates(kind), [encoded])
                dates.update({texts[text]: read_time(at) for text, at in rows})
        return dates


def _rehearsed_entry() -> LogEntry:
    """Return an entry that no notification has; its body is random, and thus its fingerprint.

    Each index of the log contains it: on SQLite, a commit needs room for each changed page.
    """
    now = datetime.now(UTC)
    arrival = Arrival(
        (Reactivated(PROBE, None, None),), token_hex(REHEARSED_SIZE // 2).encode(), now
    )
    [entry] = log_entries([arrival], [Recorded(())], now)
    return replace(entry, message_id=entry.fingerprint.hex(), retry_at=now)


@contextmanager
def begun(connection: Connection, dialect: Dialect) -> Iterator[None]:
    """Begin a transaction unless one has begun, and commit at the end of the block.

    If the block raises, the connection's `Database` rolls back.
    """
    if not connection.autocommits:  # the database begins and commits
        yield
        return
    connection.execute(dialect.begin)
    yield
    connection.execute("COMMIT")


def _of_owners(lookup: LookupKeys, dispatches: Mapping[str, Sequence[FoundDispatch]]) -> set[Any]:
    """Return the pairs whose subscriptions `Statements.find` returns with the dispatches."""
    return {
        (dispatch.list, dispatch.owner)
        for message_id, _ in lookup.changed
        for dispatch in dispatches.get(message_id, ())
    }


def _by_kind(rows: Collection[RowId]) -> Mapping[Suppressible, Sequence[Key | tuple[Key, Key]]]:
    """Return the keys by kind, in the order of locking, omitting kinds that have none."""
    keys: dict[Suppressible, list[Key | tuple[Key, Key]]] = {kind: [] for kind in Suppressible}
    for kind, key in rows:
        keys[kind].append(key)
    return {kind: of_kind for kind, of_kind in keys.items() if of_kind}


def _row_key(columns: Sequence[Key]) -> Key | tuple[Key, Key]:
    """Return the key in the form of `RowId`: one column by itself, two as a pair."""
    return (columns[0], columns[1]) if len(columns) > 1 else columns[0]
