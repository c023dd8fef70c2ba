"""Replay: records notifications from the log or the spool.

They are recorded by `record()`, as all notifications are, but they are not live: they do not
override newer changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, TypeAlias

from hookrow.core.log_entry import StoredEntry, body_of
from hookrow.core.notification import Arrival, Outcome, Recorded, Refusal, RowId, Source
from hookrow.core.result import Result
from hookrow.core.rules import affected_rows, decide, fail, lookup_keys, merge
from hookrow.core.sizes import TEXT_PER_BYTE, leading
from hookrow.faults import describe_bug, without_values
from hookrow.observability.logging import describe_arrival
from hookrow.providers import BodyParser, Part, limit_to
from hookrow.providers.postmark import Postmark
from hookrow.receiver.clock import measured_clock, utc_now
from hookrow.receiver.recorder import (
    RETRY_CONFLICTS_FOR,
    Attempts,
    keep_failed,
    repeat_for_locked,
)
from hookrow.stores import Conflict, State, StoreError, Unavailable, Unchanged
from hookrow.stores.log import Query

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore
    from hookrow.stores.sql.log import SQLLog

logger = logging.getLogger("hookrow")

GROUP = 64
"""The largest number of notifications in a transaction: live ones may wait for its locks."""

PAUSE = 0.02
"""In seconds; the pause between two groups, in which other writers can lock an SQLite file."""

OutcomesCallback: TypeAlias = Callable[[Sequence[Arrival], Sequence[Outcome]], object]
"""Receives the arrivals of a group and their outcomes, after the commit."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """The outcome of a dry run, and the affected rows before and after it."""

    outcome: Outcome
    before: Mapping[RowId, State]
    after: Mapping[RowId, State]


class _Rollback(Exception):
    """Rolls a transaction back."""


def parser_of(entry: StoredEntry, parser: BodyParser) -> BodyParser | None:
    """Return the parser for the body of an entry, or None if another provider is needed.

    Manual changes have no provider; their bodies are Postmark's.
    """
    known: Mapping[str | None, BodyParser] = {
        None: Postmark,
        Postmark.name: Postmark,
        parser.name: parser,
    }
    return known.get(entry.provider)


def parse_entry(entry: StoredEntry, parser: BodyParser) -> Part | None:
    """Return the event of an entry, or None if its body is missing or another provider's."""
    body, parser_ = body_of(entry), parser_of(entry, parser)
    return None if body is None or parser_ is None else parser_.parse(body)


def arrivals_of(
    store: SQLStore,
    entries: Iterable[StoredEntry],
    parser: BodyParser,
    now: datetime,
    *,
    any_mapping: bool = False,
) -> list[Arrival]:
    """Return the arrivals of log entries at a store, to be recorded now.

    Those without a readable body are omitted. Raises a `StoreError`: `WrongMapping` if the log was
    written under another mapping, unless `any_mapping` is true, because the user has accepted the
    mapping.
    """
    if not any_mapping:
        store.check_mapping()
    return [
        Arrival(
            part.notification,
            part.body,
            entry.received_at,
            source=Source.REPLAY,
            unsupported=part.unsupported,
            attempts=0,
            last_received_at=entry.last_received_at,
            applied_at=now,
            fingerprint=entry.fingerprint,
            provider=entry.provider,
            record_type=part.record_type,
            is_test=entry.first_outcome is Result.TEST,
        )
        for entry in entries
        if (read := parse_entry(entry, parser)) is not None
        for part in [limit_to(read, store.recorded)]
    ]


def matching_entries(reader: SQLLog, query: Query) -> Iterator[Sequence[StoredEntry]]:
    """Yield all entries that match the query, oldest first, in groups. Raises a `StoreError`."""
    last = 0
    while entries := reader.oldest(query, after=last, limit=GROUP):
        yield entries
        last = entries[-1].id
        sleep(PAUSE)


def replay(
    store: SQLStore,
    arrivals: Sequence[Arrival],
    *,
    bodies: bool = True,
    clock: Callable[[], datetime] = utc_now,
    patience: float | None = None,
) -> list[Outcome]:
    """Record arrivals that are not live.

    An arrival that the database rejects is logged as failed, and so is one whose rows are locked
    for a few seconds. With `patience`, these are waited for only for so many seconds, are not
    logged, and their outcome is `UNAVAILABLE`. If the log rejects it too, its
    outcome is `UNAVAILABLE`, and nothing stores it. Raises a `StoreError` if the database is
    unavailable.
    """
    outcomes: list[Outcome] = []
    while group := leading(arrivals[len(outcomes) :], lambda each: TEXT_PER_BYTE * len(each.body)):
        outcomes += _replay_group(store, group, bodies=bodies, clock=clock, patience=patience)
    return outcomes


def replay_entries(
    store: SQLStore,
    log: SQLLog,
    entries: Sequence[StoredEntry],
    parser: BodyParser,
    *,
    bodies: bool = True,
    any_mapping: bool = False,
) -> list[Outcome]:
    """Record entries of a store's log again, and count a retry of each; return their outcomes.

    Those without a readable body have no outcome. For the other arguments and errors, see `replay`
    and `arrivals_of`.
    """
    clock = measured_clock(store)
    arrivals = arrivals_of(store, entries, parser, clock(), any_mapping=any_mapping)
    if not arrivals:
        return []
    readable = {each.fingerprint for each in arrivals}
    log.count_retries([each.id for each in entries if each.fingerprint in readable])
    return replay(store, arrivals, bodies=bodies, clock=clock)


def replay_ready(
    store: SQLStore,
    arrivals: Sequence[Arrival],
    clock: Callable[[], datetime] = utc_now,
    *,
    patience: float | None = None,
) -> tuple[Sequence[Arrival], Sequence[Outcome]]:
    """Record the arrivals whose rows exist now; return these arrivals and their outcomes."""
    with store.reading() as reading:
        rows = reading.find(lookup_keys(arrivals))
    ready = [each for each in arrivals if isinstance(decide(each, rows), Recorded)]
    return ready, replay(store, ready, clock=clock, patience=patience) if ready else []


def dry_run(store: SQLStore, arrival: Arrival) -> DryRun:
    """Record an arrival in a transaction that is rolled back; return the changes.

    Raises a `StoreError`: `Unchanged` if the database would ignore a change.
    """
    with suppress(_Rollback), store.transaction(checked=True) as transaction:
        outcome = decide(arrival, transaction.find(lookup_keys([arrival])))
        rows = affected_rows([outcome])
        transaction.lock(rows)
        before = transaction.read(rows)
        transaction.write(merge([outcome]))
        result = DryRun(outcome, before, transaction.read(rows))
        raise _Rollback
    return result


def _replay_group(
    store: SQLStore,
    arrivals: Sequence[Arrival],
    *,
    bodies: bool,
    clock: Callable[[], datetime],
    patience: float | None,
) -> list[Outcome]:
    attempts, now = Attempts(store, bodies, clock), monotonic()
    until = now + RETRY_CONFLICTS_FOR
    try:
        outcomes = attempts.retry_on_conflict(arrivals, until=until, skip_locked=True)
        again = partial(attempts.retry_on_conflict, until=until, skip_locked=True)
        end = until if patience is None else now + patience
        outcomes = repeat_for_locked(again, arrivals, outcomes, until=end)
    except (Conflict, Unchanged, Unavailable):
        raise
    except Exception as error:  # bad data or a bug must not stop the other arrivals
        if len(arrivals) > 1:
            return _replay_singly(store, arrivals, bodies=bodies, clock=clock, patience=patience)
        is_bug = not isinstance(error, StoreError)
        logger.error(
            "Cannot record %s: %s",
            describe_arrival(arrivals[0]),
            describe_bug(error) if is_bug else error,
            exc_info=without_values(error) if is_bug else None,
        )
        return _keep_failed(store, arrivals, bodies=bodies, clock=clock)
    missing = [arrivals[n] for n, outcome in enumerate(outcomes) if outcome is None]
    ends = iter(fail(missing, Refusal.UNAVAILABLE))
    if missing and patience is None:
        ends = iter(_keep_failed(store, missing, bodies=bodies, clock=clock))
    return [next(ends) if outcome is None else outcome for outcome in outcomes]


def _replay_singly(
    store: SQLStore,
    arrivals: Sequence[Arrival],
    *,
    bodies: bool,
    clock: Callable[[], datetime],
    patience: float | None,
) -> list[Outcome]:
    """Record arrivals one by one; those after a `StoreError` are unavailable."""
    outcomes: list[Outcome] = []
    with suppress(StoreError):
        for each in arrivals:
            outcomes += replay(store, [each], bodies=bodies, clock=clock, patience=patience)
    return outcomes + fail(arrivals[len(outcomes) :], Refusal.UNAVAILABLE)


def _keep_failed(
    store: SQLStore, arrivals: Sequence[Arrival], *, bodies: bool, clock: Callable[[], datetime]
) -> list[Outcome]:
    try:
        return keep_failed(store, arrivals, bodies=bodies, clock=clock)
    except StoreError:
        return fail(arrivals, Refusal.UNAVAILABLE)
