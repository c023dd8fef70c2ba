"""Queries for the pages of notifications, subscribers and dispatches. They lock no row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from hookrow._core.changes import State, as_state, new_values
from hookrow._core.log_entry import RECORD_TYPES, StoredEntry
from hookrow._core.notification import (
    DispatchEvent,
    EventTime,
    FoundDispatch,
    Key,
    LookupKeys,
    Opened,
    Reactivated,
    Recorded,
    RowId,
    Suppressed,
    Suppressible,
)
from hookrow._core.result import Result
from hookrow._core.rules import decide, fold, is_message_id, lookup_keys
from hookrow._describe import describe_refusal, find_change, other_changes, superseding
from hookrow._receiver import manual
from hookrow._receiver.clock import measured_clock
from hookrow._receiver.entries import Parsers
from hookrow._receiver.replay import arrivals_of, parse_entry, read_entry
from hookrow._statistics import Statistics, search
from hookrow._statistics import find_beginnings as log_beginnings
from hookrow.dashboard._forms import BadRequest, Fields, NotFound, parse, required
from hookrow.providers._base import ProviderFault
from hookrow.stores._errors import StoreError, WrongMapping
from hookrow.stores._log import Query
from hookrow.stores._log_operations import with_bodies
from hookrow.stores._timeouts import limited_to
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._log import SQLLog
from hookrow.stores.sql._row_search import ListOfSubscriber, MessageOfSubscriber

PAGE_SIZE = 50
"""The number of entries on a page."""

MAX_ROWS_OF_SUBSCRIBER = 20
"""The largest number of messages, and of lists, on the page of a subscriber."""

MAX_FOUND = 20
"""The largest number of subscribers, and of messages, that a search by a beginning returns."""

ROWS_TIMEOUT = 0.4
"""Seconds after which a page omits rows for which the host's table may lack an index."""

MAX_RANGE = 50_000
"""The number of ids in the largest range that a page of newer entries reads."""

_TYPE_OF_COLUMN = {
    **{kind.column.value: RECORD_TYPES[kind] for kind in DispatchEvent.__subclasses__()},
    EventTime.FIRST_OPENED.value: RECORD_TYPES[Opened],
    **dict.fromkeys(("suppressed_at", "suppression_changed_at"), RECORD_TYPES[Suppressed]),
}
"""The type of the notifications that set a column."""


@dataclass(frozen=True, slots=True)
class Context:
    """The store, the arguments of `Dashboard`, and the command of the host."""

    store: SQLStore
    statistics: Statistics
    parsers: Parsers
    endpoint: str | None
    command: str
    provider_status: Callable[[], str | None]
    keep_bodies: bool

    @property
    def log(self) -> SQLLog:
        """The log. Raises `NotFound` if the store has none."""
        if self.store.log is None:
            raise NotFound("This store has no log.")
        return self.store.log

    def entry_choices(self, now: datetime) -> Mapping[str, str]:
        """Return the names of the receiver's entries, or those that the newest notifications have.

        Returns none if neither have names. The keys are the values of a form's field, and the
        values their texts.
        """
        names = self.parsers.names or sorted(self.statistics.present(now).entries)
        return {name: name for name in names}

    def tenant_of(self, entry: str | None) -> Key | None:
        """Return the tenant of an entry; None without an entry, and if there are no tenants.

        Raises `BadRequest` if the receiver has tenants, but no such entry.
        """
        tenants = self.parsers.tenants
        if entry is None or not tenants:
            return None
        if entry not in tenants:
            raise BadRequest(f"The receiver has no entry {entry!r}.")
        return tenants[entry]

    def names_with_tenant(self, entry: str | None) -> Collection[str]:
        """Return the names of the entries with the tenant of an entry; none without tenants."""
        tenants = self.parsers.tenants
        return [] if entry is None else [n for n in tenants if tenants[n] == tenants.get(entry)]

    def only_entry(self, names: Sequence[str]) -> str | None:
        """Return the first name if all are those of the same tenant, or None."""
        tenants = {self.parsers.tenants[name] for name in names}
        return names[0] if len(tenants) == 1 else None


@dataclass(frozen=True, slots=True)
class LogPage:
    """A page of log entries without bodies, newest first.

    Other entries may follow after the id `newer` and before the id `older`. A long log is searched
    in several steps, so a page may have fewer than `PAGE_SIZE` entries although more follow.
    """

    entries: Sequence[StoredEntry] = ()
    newer: int | None = None
    older: int | None = None

    @property
    def complete(self) -> bool:
        """Whether the page is full, or the search reached the end of the log."""
        return len(self.entries) == PAGE_SIZE or self.older is None

    @property
    def whole(self) -> bool:
        """Whether the log has no other such entries."""
        return self.newer is None and self.older is None

    @property
    def empty(self) -> bool:
        """Whether the whole log has no such entry."""
        return self.whole and not self.entries


@dataclass(frozen=True, slots=True)
class RowHistory:
    """A row and the columns that notifications set; for a dispatch, also its owner and list.

    `causes` maps each time to the id of the notification that set it, or to None if the log does
    not contain that notification. It omits times whose notification may be on another page.
    """

    id: RowId
    state: State
    causes: Mapping[str, int | None]
    dispatch: FoundDispatch | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """A value that a notification sets in a row, and the row's current value.

    They differ if a newer notification, or the host itself, has set a different value.
    """

    row: RowId
    column: str
    value: Any
    current: Any


def find_entry(context: Context, fields: Fields) -> StoredEntry:
    """Return the entry with the `id` in the fields. Raises `BadRequest`."""
    id_ = required(fields, "id")
    entries = context.log.newest(Query(ids=[parse(fields, "id")]), limit=1)
    if not entries:
        raise NotFound(f"The log has no notification with the ID {id_}.")
    return entries[0]


def list_entries(context: Context, query: Query, fields: Fields) -> LogPage:
    """List the newest entries, or those before or after the id in `before` or `after`.

    Without a log, the listing is empty. Raises `BadRequest`.
    """
    before, after = parse(fields, "before"), parse(fields, "after")
    if context.store.log is None:
        return LogPage()
    log = context.store.log
    if after is None:
        page = search(log, query, before=before, limit=PAGE_SIZE)
        newer = None if before is None else max(before - 1, 0)
        return LogPage(page.entries, newer, page.before)
    last = last_id(log)
    end = min(last, after + MAX_RANGE)
    in_range = replace(query, ids=range(after + 1, end + 1))
    entries = log.oldest(in_range, limit=PAGE_SIZE, bodies=False)
    reached = entries[-1].id if len(entries) == PAGE_SIZE else end
    return LogPage(entries[::-1], reached if reached < last else None, after + 1)


def list_newer(log: SQLLog, query: Query, after: int, last: int) -> Sequence[StoredEntry]:
    """Return the newest entries after the id `after`, up to the id `last`, within `MAX_RANGE`."""
    ids = range(max(after, last - MAX_RANGE) + 1, last + 1)
    return log.newest(replace(query, ids=ids), limit=PAGE_SIZE, bodies=False) if ids else []


def last_id(log: SQLLog) -> int:
    """Return the id of the newest entry, or 0 if the log is empty."""
    newest = log.newest(Query(), limit=1, bodies=False)
    return newest[0].id if newest else 0


def find_superseding(context: Context, entry: StoredEntry) -> StoredEntry | None:
    """Find a newer change of the entry's subscriber among the newest entries of the log."""
    query = other_changes(entry, context.parsers)
    if query is None:
        return None
    newer = superseding(entry, search(context.log, query, limit=PAGE_SIZE).entries)
    return next(with_bodies(context.log, [newer]), None) if newer else None


class SubscriberRows(NamedTuple):
    """The newest messages and the lists of a subscriber, with the state of each row.

    Either has at most `MAX_ROWS_OF_SUBSCRIBER` rows, and there are others if `more_messages` or
    `more_lists` is set.
    """

    messages: Sequence[tuple[MessageOfSubscriber, State]]
    lists: Sequence[tuple[ListOfSubscriber, State]]
    more_messages: bool
    more_lists: bool


def rows_of_subscriber(store: SQLStore, subscriber: Key) -> SubscriberRows | None:
    """Return the rows that refer to a subscriber; None if they cannot be found in a short time.

    The column with the reference needs an index, which hookrow's own tables have.
    """
    most, search_rows = MAX_ROWS_OF_SUBSCRIBER, store.row_search
    with suppress(StoreError), limited_to(ROWS_TIMEOUT):
        messages = search_rows.messages(subscriber, limit=most + 1)
        lists = search_rows.subscriptions(subscriber, limit=most + 1)
        dispatches = {each: (Suppressible.DISPATCH, each.id) for each in messages[:most]}
        subscriptions = {
            each: (Suppressible.SUBSCRIPTION, (each.list, each.subscriber)) for each in lists[:most]
        }
        with store.reading() as reading:
            states = reading.read([*dispatches.values(), *subscriptions.values()])
        return SubscriberRows(
            [(each, states.get(row, {})) for each, row in dispatches.items()],
            [(each, states.get(row, {})) for each, row in subscriptions.items()],
            len(messages) > most,
            len(lists) > most,
        )
    return None


class Beginnings(NamedTuple):
    """The addresses and the message ids of rows and of the log that begin with a text.

    Of either, there may be more if there are `MAX_FOUND`. They are None if they could not be
    searched in a short time.
    """

    emails: Sequence[str] | None = ()
    message_ids: Sequence[str] | None = ()


def find_beginnings(store: SQLStore, text: str) -> Beginnings:
    """Find the addresses and message ids that begin with a text, in the rows and in the log.

    In a long log, only some are found: see `log_search.find_beginnings`.
    """
    found: list[Sequence[str] | None] = [None, None]
    rows = store.row_search
    for n, (name, search_rows) in enumerate(
        {"recipient": rows.emails, "message_id": rows.message_ids}.items()
    ):
        with suppress(StoreError), limited_to(ROWS_TIMEOUT):
            in_log: Sequence[str] = ()
            if store.log is not None:
                in_log = log_beginnings(store.log, name, text, limit=MAX_FOUND)
            in_rows = search_rows(text, limit=MAX_FOUND)
            # The log has addresses in lower case; a row's spelling takes precedence.
            folded = fold if name == "recipient" else str
            spellings = {folded(each): each for each in (*in_log, *in_rows)}
            found[n] = sorted(spellings.values())[:MAX_FOUND]
    return Beginnings(*found)


class RowsOfTenant(NamedTuple):
    """The rows of one tenant, without causes, or of all if the mapping has no tenants.

    `entry` is the chosen name of an entry or, if only one tenant has such rows, a name of that one.
    `names` are those of the entries whose tenants have such rows. If several tenants have them and
    none was chosen, there are no `rows`.
    """

    rows: Sequence[RowHistory]
    entry: str | None = None
    names: Sequence[str] = ()


def find_subscriber(context: Context, email: str, entry: str | None) -> RowsOfTenant:
    """Find the subscriber to whom a notification at an entry for the address would apply."""
    tenants = context.parsers.tenants
    chosen = context.tenant_of(entry)
    with context.store.reading() as reading:
        found = manual.find_subscribers(reading, email, {*tenants.values()} or {None})
        names = [name for name, tenant in tenants.items() if tenant in found]
        if entry is None and names and (entry := context.only_entry(names)):
            chosen = tenants[entry]
        id_ = found.get(chosen)
        state = None if id_ is None else reading.read([id_]).get(id_)
    rows = [] if id_ is None or state is None else [RowHistory(id_, state, {})]
    return RowsOfTenant(rows, entry, names)


def find_dispatches(context: Context, message_id: str, entry: str | None) -> RowsOfTenant:
    """Find the dispatches with the message id: one for each recipient of the message."""
    tenants = context.parsers.tenants
    chosen = context.tenant_of(entry)
    if not is_message_id(message_id):
        return RowsOfTenant([], entry)
    with context.store.reading() as reading:
        found = reading.find(LookupKeys({message_id}, tenants={*tenants.values()}))
        dispatches = found.dispatches.get(message_id, ())
        having = {each.tenant for each in dispatches}
        names = [name for name, tenant in tenants.items() if found.tenants[tenant] in having]
        if entry is None and names and (entry := context.only_entry(names)):
            chosen = tenants[entry]
        if tenants:
            text = None if chosen is None else found.tenants[chosen]
            dispatches = [each for each in dispatches if text and each.tenant == text]
        rows = {(Suppressible.DISPATCH, each.id): each for each in dispatches}
        states = reading.read(list(rows))
    histories = [RowHistory(id_, states.get(id_, {}), {}, each) for id_, each in rows.items()]
    return RowsOfTenant(histories, entry, names)


class Preview(NamedTuple):
    """The values that a replay sets, and the text of its refusal, which is empty without one.

    Both are present if only some of the notifications in an event can be recorded.
    """

    effects: Sequence[Effect]
    refusal: str = ""


def preview_replay(store: SQLStore, entry: StoredEntry, parsers: Parsers) -> Preview | None:
    """Return what a replay of a notification does, or None if its body cannot be replayed."""
    try:
        read_entry(entry, parsers)
        arrivals = arrivals_of(store, [entry], parsers, measured_clock(store)())
    except (WrongMapping, ProviderFault) as error:
        return Preview((), str(error))
    if not arrivals:
        return None
    with store.reading() as reading:
        outcome = decide(arrivals[0], reading.find(lookup_keys(arrivals)))
        states = reading.read({change.row for change in outcome.changes})
    effects = [
        Effect(change.row, column, value, state[column])
        for change in outcome.changes
        for state in [states.get(change.row, {})]
        for column, value in as_state(new_values(change, store.schema.reason), state).items()
        if column in state
    ]
    if isinstance(outcome, Recorded):
        return Preview(effects)
    return Preview(effects, describe_refusal(outcome, entry, parsers))


class _ManualFields(msgspec.Struct, rename="pascal"):
    """The additional fields in the body of a manual change."""

    origin: str = ""
    changed_by: str = ""
    note: str | None = None


def describe_suppression(entry: StoredEntry, parsers: Parsers) -> str | None:
    """Describe a change of suppression and, if it was manual, its author; None for other types."""
    if not entry.is_change:
        return None
    match find_change(entry, parsers):
        case Suppressed(reason=reason):
            return f"suppressed for {reason}{_author(entry)}"
        case Reactivated():
            return f"suppression lifted{_author(entry)}"
        case None:
            return None


def _author(entry: StoredEntry) -> str:
    try:
        fields = msgspec.json.decode(entry.body or "", type=_ManualFields)
    except msgspec.MsgspecError:
        return ""
    if fields.origin != manual.ORIGIN:
        return ""
    return f", by {fields.changed_by}{f': {fields.note}' if fields.note else ''}"


def with_causes(
    context: Context, listing: LogPage, row: RowHistory, entry: str | None
) -> RowHistory:
    """Add the causes of a row's times. The row was read before its entries, which are listed.

    If the receiver has tenants, the row's is that of `entry`, whose notifications are listed.
    """
    if context.store.log is None:
        return row
    names = context.names_with_tenant(entry)
    times = {
        column: time
        for column in _TYPE_OF_COLUMN
        if isinstance(time := row.state.get(column), datetime)
    }
    at_these = [
        each
        for each in listing.entries
        if not _times(each).isdisjoint(times.values()) and (not names or each.entry in names)
    ]
    read = [
        (entry, _recorded_types(entry, context.parsers))
        for entry in with_bodies(context.log, at_these)
    ]
    found = {
        column: next(
            (
                entry.id
                for entry, types in read
                if _TYPE_OF_COLUMN[column] in types and time in _times(entry)
            ),
            None,
        )
        for column, time in times.items()
    }
    complete = listing.whole and len(names) <= 1
    causes = {column: id_ for column, id_ in found.items() if id_ is not None or complete}
    return replace(row, causes=causes)


def _times(entry: StoredEntry) -> set[datetime | None]:
    """Return the times that an entry may have set."""
    return {entry.occurred_at, entry.received_at, entry.last_received_at}


def _recorded_types(entry: StoredEntry, parsers: Parsers) -> Collection[str | None]:
    """Return the types of the notifications of an event that were recorded.

    Without its body, an event is known by its first notification, and by its reason.
    """
    change = {RECORD_TYPES[Suppressed]} if entry.has_changed else set()
    if entry.outcome is not Result.RECORDED:
        return change
    event = parse_entry(entry, parsers)
    notifications = event.notifications if event else ()
    return {*change, entry.record_type, *(RECORD_TYPES[type(each)] for each in notifications)}
