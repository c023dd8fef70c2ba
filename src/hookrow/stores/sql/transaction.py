"""Transactions, which find, lock and write rows with the SQL of `queries`, on any connection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from hookrow.core.changes import is_ignored, new_values
from hookrow.core.log_entry import LogEntry
from hookrow.core.notification import (
    Change,
    Dispatch,
    Key,
    LookupKeys,
    RowId,
    Rows,
    SetSuppression,
    SetTime,
    Subscriber,
    Suppressible,
)
from hookrow.core.rules import fold, subscription_keys
from hookrow.core.schema import KEYS, TIMES
from hookrow.stores import Conflict, Rejected, State, Unchanged, by_kind, row_key
from hookrow.stores.change_dates import key_text
from hookrow.stores.errors import failed_check, refuses_one_statement
from hookrow.stores.sql.connections import Connection
from hookrow.stores.sql.conversions import by_message_id, converted, message_ids_as_stored
from hookrow.stores.sql.dialects import known, utc
from hookrow.stores.sql.queries import Queries
from hookrow.stores.sql.updates import Statement, Update


@dataclass(eq=False)
class SQLReading:
    """A read-only view of the rows. It takes no locks and does not block writers.

    It finds and reads rows with a fixed number of SELECTs; SQLite needs one for each key.
    """

    _connection: Connection
    _queries: Queries

    def find(self, lookup: LookupKeys) -> Rows:
        """Find every row whose key `lookup` contains, in a fixed number of statements."""
        subscribers: defaultdict[str, list[Subscriber]] = defaultdict(list)
        sent: defaultdict[str, list[Dispatch]] = defaultdict(list)
        subscriptions: set[tuple[Key, Key]] = set()
        for person, email, message_id, id_, list_ in self._found(lookup):
            if message_id is not None:
                sent[message_id].append(Dispatch(id_, person, email or "", list_))
            elif email is not None:
                folded = email if email in lookup.emails else fold(email)
                subscribers[folded].append(Subscriber(person, email))
            else:
                subscriptions.add((list_, person))
        queries = self._queries
        dispatches = by_message_id(lookup.message_ids, sent) if queries.has_uuids else sent
        if lookup.changed:
            subscriptions |= self._find_pairs(lookup, subscribers, dispatches)
        return Rows(
            subscribers,
            dispatches,
            subscriptions,
            queries.undated,
            exact=queries.schema.subscribers.fold == "exact",
            first_opens=queries.first_opens,
        )

    def _find_pairs(
        self,
        lookup: LookupKeys,
        subscribers: Mapping[str, Sequence[Subscriber]],
        dispatches: Mapping[str, Sequence[Dispatch]],
    ) -> set[tuple[Key, Key]]:
        """Find the subscriptions that `Queries.find` does not return, as pairs of keys."""
        queries = self._queries
        if queries.pairs is None:
            return set()
        keys = set(subscription_keys(lookup, subscribers, dispatches))
        if queries.finds_subscriptions:
            keys -= _of_owners(lookup, dispatches)
        if not keys:
            return set()
        rows = self._fetch_keyed(Suppressible.SUBSCRIPTION, queries.pairs, keys)
        return {(list_, person) for list_, person in rows}

    def read(self, rows: Collection[RowId]) -> Mapping[RowId, State]:
        """Read the columns that notifications set, with the changes made so far in the block.

        Raises `Rejected` if a key is not unique.
        """
        states: dict[RowId, State] = {}
        for kind, keys in by_kind(rows).items():
            width, names = len(KEYS[kind]), self._queries.written.get(kind, ())
            found = self._fetch_keyed(kind, self._queries.state(kind), keys)
            if len(found) > len(keys):
                raise Rejected(_NOT_UNIQUE.format(kind.value))
            for row in found:
                state = {
                    name: utc(value) if name in TIMES else value
                    for name, value in zip(names, row[width:], strict=True)
                }
                if state.get("suppression_reason") == "" == self._queries.empty[kind]:
                    state["suppression_reason"] = None
                states[kind, row_key(row[:width])] = state
        return {row: states[row] for row in rows if row in states}

    def _found(self, lookup: LookupKeys) -> Sequence[Any]:
        if not lookup.emails and not lookup.message_ids:
            return ()
        queries, encode = self._queries, self._queries.dialect.encode
        emails = lookup.emails
        if queries.schema.subscribers.fold != "ascii":
            emails = {*emails, *lookup.recipients}
        message_ids = [lookup.message_ids]
        if queries.finds_subscriptions:
            message_ids.append(set(map(itemgetter(0), lookup.changed)))
        if queries.has_uuids:
            message_ids = [message_ids_as_stored(each) for each in message_ids]
        rows = self._connection.fetch(queries.find, [encode(emails), *map(encode, message_ids)])
        return (
            converted(rows, queries.conversions.found) if queries.conversions.are_needed else rows
        )

    def _fetch_keyed(self, kind: Suppressible, sql: str, keys: Collection[Any]) -> Sequence[Any]:
        """Return the rows with these keys; on SQLite one by one, because JSON cannot hold bytes."""
        parameters, fetch = self.keys(kind, keys), self._connection.fetch
        if self._queries.dialect.takes_rows:
            rows = fetch(sql, parameters)
        else:
            rows = [each for row in parameters for each in fetch(sql, row)]
        return converted(rows, self._queries.conversions.state.get(kind, {}))

    def keys(self, kind: Suppressible, keys: Collection[Any]) -> Sequence[Any]:
        """Return the parameters of a statement that selects rows by these keys."""
        return self._queries.dialect.encode_rows(self._queries.conversions.keys(kind, keys))


_NOT_UNIQUE = "Several rows of the {} have one key, so one change would concern all of them."
"""The error for the rows of a view, whose keys cannot be verified."""


class _Step(NamedTuple):
    """A statement, the parameters of one execution, or of `many`, and how many rows they are."""

    statement: Statement
    parameters: Sequence[Any]
    size: int
    many: bool = False


class SQLTransaction(SQLReading):
    """An atomic transaction: it is committed at the end of the block, or rolled back.

    It writes everything in a single statement if the database can.
    If the connection autocommits, the statement is pending until the end of the block, and commits
    by itself. BEGIN is sent only if one statement is not enough.

    If the database locks or changes fewer rows than it should, the transaction raises `Unchanged`
    before the commit. If it is `checked`, it uses separate statements, and reads the rows before
    and after them, because a count alone does not prove that a row lacks the change: a trigger may
    skip an update that would change nothing, and SQLite does not count the changes of views.
    """

    def __init__(
        self, connection: Connection, queries: Queries, *, skip_locked: bool, checked: bool = False
    ) -> None:
        super().__init__(connection, queries)
        self._begun, self._commits = not connection.autocommits, False
        self._skip_locked, self._checked = skip_locked, checked
        self._pending: tuple[str, Sequence[Any]] | None = None

    def read(self, rows: Collection[RowId]) -> Mapping[RowId, State]:
        """Read the columns that notifications set, after pending changes."""
        self._begin()
        return super().read(rows)

    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Lock the rows, kind by kind, in the same order in every process.

        Return the rows locked by other transactions: none, unless locked rows are skipped. On
        SQLite, the transaction locks the whole file anyway.
        """
        self._begin()
        locks = dict(self._locks(rows))
        held = {row for row in rows if row[0] in locks} if self._skip_locked else set()
        for kind, step in locks.items():
            locked = self._fetch_locked(kind, step)
            held.difference_update((kind, row_key(row)) for row in locked)
        return held

    def write(self, changes: Sequence[Change], entries: Sequence[LogEntry] = ()) -> None:
        """Lock the rows of the changes, apply the changes, and add the entries to the log.

        There is at most one change per row and column; each is applied only if its guard holds.
        There is at most one entry per fingerprint, and they are sorted by it. If the log already
        has an entry, the attempts are added to it, and the newer result replaces its own. Without
        a log, entries are ignored.
        """
        queries, dialect = self._queries, self._queries.dialect
        rows: Collection[RowId] = ()
        if dialect.locks_rows or self._checked:
            rows = {change.row for change in changes}
        # One statement cannot change a row twice.
        is_single = len(rows) == len(changes) and not self._pending and not self._checked
        single = queries.single_statement and is_single
        steps = self._updates(changes, single=single)
        if entries and queries.log_insert is not None:
            parameters = dialect.encode_entries(entries)
            many = not dialect.takes_rows
            steps.append(_Step(queries.log_insert, parameters, len(entries), many))
        if single:
            self._run_combined(rows, steps)
            return
        if self._pending or not self._begun:
            self._begin()
        for kind, step in self._locks(rows):
            locked = self._fetch_locked(kind, step)
            if len(locked) > step.size:
                raise Rejected(_NOT_UNIQUE.format(kind.value))
            if len(locked) < step.size and not self._checked:
                raise Unchanged(f"A row in {kind.value} could not be locked.")
        before = self.read(rows) if self._checked else None
        complete = [self._run_step(step) for step in steps]
        if self._checked or not all(complete):
            self._verify(changes, before)

    def probe(self) -> None:
        """Run a statement for each table that would lock or change its rows, if it selected any."""
        self._begin()
        for statement in self._queries.probes():
            self._connection.execute(statement)

    def end(self) -> None:
        """Run the pending statement, and commit if the transaction began here.

        Otherwise the `Database` commits at the end of its block.
        """
        if self._pending:
            self._flush()
        if self._commits:
            self._connection.execute("COMMIT")

    def _run_combined(self, rows: Collection[RowId], steps: Sequence[_Step]) -> None:
        """Lock the rows and run the steps in one statement.

        It runs now if a transaction has begun, otherwise at the end.
        """
        if not steps:
            return
        combined = self._queries.combined(
            tuple(step.statement for step in steps), skip_locked=self._skip_locked
        )
        parameters: list[Any] = []
        sizes: list[int] = []
        locked = by_kind(rows)
        for kind in combined.kinds:
            parameters += self.keys(kind, locked[kind])
            sizes.append(len(locked[kind]))
        for step in steps:
            parameters += step.parameters
            sizes.append(step.size)
        self._pending = combined.text, parameters + sizes
        if self._begun:
            self._flush()

    def _flush(self) -> None:
        pending, self._pending = self._pending, None
        if pending is None:
            return
        try:
            self._connection.execute(*pending)
        except Exception as error:
            if failed_check(error):
                raise Unchanged("A row was not locked or changed.") from error
            if not refuses_one_statement(error):
                raise
            self._queries.single_statement = False
            raise Conflict("From now on, the tables are changed in several statements.") from error

    def _begin(self) -> None:
        if not self._begun:
            self._connection.execute(self._queries.dialect.begin)
            self._begun = self._commits = True
        self._flush()

    def _run_step(self, step: _Step) -> bool:
        """Run a step; return whether it changed as many rows as it should."""
        run = self._connection.execute_many if step.many else self._connection.execute
        count = run(step.statement.text, step.parameters)
        if count > step.size and step.statement.kind is not None:
            raise Rejected(_NOT_UNIQUE.format(step.statement.kind.value))
        if count < step.size and step.statement is self._queries.log_insert:
            raise Unchanged("The log did not accept an entry.")
        return count >= step.size

    def _fetch_locked(self, kind: Suppressible, step: _Step) -> Sequence[Any]:
        rows = self._connection.fetch(step.statement.text, step.parameters)
        return converted(rows, self._queries.conversions.state[kind])

    def _verify(
        self, changes: Sequence[Change], before: Mapping[RowId, State] | None = None
    ) -> None:
        """Raise `Unchanged` unless each row has its changes, or a guard has refused them.

        The rows `before` the changes are known if the transaction is checked.
        """
        after, dates = self.read({change.row for change in changes}), self._read_dates(changes)
        for change in changes:
            row = change.row
            state = after.get(row)
            if not self._writes(change, single=False)[0]:  # its table has no column to change
                continue
            if state is None:
                raise Unchanged(f"A row in {row[0].value} was deleted.")
            earlier = None if before is None else before.get(row)
            new = new_values(change, self._queries.schema.reason)
            if is_ignored(change, new, state, earlier, last=dates.get(row)):
                raise Unchanged(f"The database ignored an update of a row in {row[0].value}.")

    def _read_dates(self, changes: Sequence[Change]) -> Mapping[RowId, datetime]:
        """Read the dates of suppressions that are kept beside the log."""
        queries, dates = self._queries, {}
        for kind in queries.dated_beside_log:
            texts = {
                self._suppression_values(each)["row_key"]: each.row
                for each in changes
                if isinstance(each, SetSuppression) and each.kind is kind
            }
            if texts:
                encoded = queries.dialect.encode(texts)
                rows = self._connection.fetch(queries.updates.dates(kind), [encoded])
                dates.update({texts[text]: known(at) for text, at in rows})
        return dates

    def _locks(self, rows: Collection[RowId]) -> Iterator[tuple[Suppressible, _Step]]:
        if self._queries.dialect.locks_rows:
            for kind, keys in by_kind(rows).items():
                if kind in self._queries.written:
                    lock = self._queries.lock(kind, skip_locked=self._skip_locked)
                    yield kind, _Step(lock, self.keys(kind, keys), len(keys))

    def _updates(self, changes: Sequence[Change], *, single: bool) -> list[_Step]:
        """Return the statements that apply the changes, one for all changes of a form."""
        dialect = self._queries.dialect
        forms: defaultdict[Statement, list[Sequence[Any]]] = defaultdict(list)
        for change in changes:
            updates, values = self._writes(change, single=single)
            for update in updates:
                forms[update.statement].append(update.parameters(values))
        # In a fixed order, because another order would be another statement to prepare. An INSERT
        # of dates precedes the UPDATE that depends on them.
        return [
            _Step(each, dialect.encode_rows(forms[each]), len(forms[each]), not dialect.takes_rows)
            for each in sorted(forms, key=attrgetter("text"))
        ]

    def _writes(
        self, change: Change, *, single: bool
    ) -> tuple[Sequence[Update], Mapping[str, Any]]:
        """Return the statements that apply a change, and the values of all their parameters."""
        queries = self._queries
        if isinstance(change, SetTime):
            values = new_values(change, queries.schema.reason)
            values["key_0"] = change.dispatch
            if queries.conversions.are_needed:
                values = queries.conversions.stored(Suppressible.DISPATCH, values)
            return queries.updates.set_time(change.column, guarded=change.guarded), values
        updates = queries.updates.set_suppression(
            change.kind, guarded=change.guarded, single=single
        )
        return updates, self._suppression_values(change)

    def _suppression_values(self, change: SetSuppression) -> Mapping[str, Any]:
        queries, kind = self._queries, change.kind
        values = new_values(change, queries.schema.reason, queries.empty.get(kind))
        if isinstance(change.key, tuple):
            values["key_0"], values["key_1"] = change.key
        else:
            values["key_0"] = change.key
        if queries.conversions.are_needed:
            values = queries.conversions.stored(kind, values)
        if kind in queries.dated_beside_log:
            values["row_key"] = key_text([values[f"key_{n}"] for n in range(len(KEYS[kind]))])
        return values


def _of_owners(lookup: LookupKeys, dispatches: Mapping[str, Sequence[Dispatch]]) -> set[Any]:
    """Return the pairs whose subscriptions `Queries.find` returns with the dispatches."""
    return {
        (dispatch.list, dispatch.owner)
        for message_id, _ in lookup.changed
        for dispatch in dispatches.get(message_id, ())
    }
