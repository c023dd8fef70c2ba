"""Recording what came earlier: from the log, or from the spool.

It goes the way of every notification, through `record()`; only that it is not live,
so that it never takes the place of something newer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic, sleep
from typing import TypeAlias

from hookrow.core.log_entry import StoredEntry, body_of, written_size
from hookrow.core.notification import (
    Arrival,
    Notification,
    Outcome,
    Recorded,
    Refusal,
    RowId,
    Source,
)
from hookrow.core.rules import affected_rows, decide, fail, lookup_keys, merge
from hookrow.observability.logging import describe_arrival
from hookrow.receiver.recorder import PATIENCE, Attempt, keep_failed, record, retry_on_conflict
from hookrow.receiver.sizes import leading
from hookrow.stores import Conflict, Locked, State, Store, StoreError, Unavailable
from hookrow.stores.log import LogReader, Query

log = logging.getLogger("hookrow")

GROUP = 64
"""How many notifications share a transaction: fewer than live ones, whom it must not hold up."""

PAUSE = 0.02
"""In seconds, between two groups: on SQLite a waiting writer polls, and may find it taken."""

Parse: TypeAlias = Callable[[bytes], Notification | None]

Tell: TypeAlias = Callable[[Sequence[Arrival], Sequence[Outcome]], object]
"""Hears of arrivals, and how they ended."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """How a notification would end, and the rows before and after it, by what they are."""

    outcome: Outcome
    before: Mapping[RowId, State]
    after: Mapping[RowId, State]


class _Undone(Exception):
    """Ends a transaction whose changes are not wanted."""


def arrivals_of(entries: Iterable[StoredEntry], parse: Parse) -> list[Arrival]:
    """Return notifications as they arrive again, but for those whose body is not there."""
    return [
        Arrival(
            parse(body),
            body,
            entry.received_at,
            source=Source.REPLAY,
            attempts=0,
            fingerprint=entry.fingerprint,
            provider=entry.provider,
        )
        for entry in entries
        if (body := body_of(entry)) is not None
    ]


def record_late(store: Store, arrivals: Sequence[Arrival], *, bodies: bool = True) -> list[Outcome]:
    """Record arrivals that came earlier. What the database refuses is kept as failed.

    Where the log refuses it, too, it ends as unavailable: nothing keeps it. Raises a
    `StoreError` where nothing can be recorded just now.
    """
    outcomes: list[Outcome] = []
    while group := leading(arrivals[len(outcomes) :], written_size):
        outcomes += _record_group(store, group, bodies=bodies)
    return outcomes


def _record_group(store: Store, arrivals: Sequence[Arrival], *, bodies: bool) -> list[Outcome]:
    attempt = partial(record, store, bodies=bodies)
    try:
        outcomes = retry_on_conflict(
            attempt, arrivals, until=monotonic() + PATIENCE, skip_locked=True
        )
    except (Conflict, Locked, Unavailable):
        raise
    except Exception as error:  # noqa: BLE001 - the data, or a fault of ours: the others go on
        if len(arrivals) > 1:
            return _record_singly(store, arrivals, bodies=bodies)
        fault = error if isinstance(error, StoreError) else type(error).__name__
        log.error("Cannot record %s: %s", describe_arrival(arrivals[0]), fault)
        return _kept(store, arrivals, bodies=bodies)
    return _waited_for(attempt, arrivals, outcomes)


def record_ready(
    store: Store, arrivals: Sequence[Arrival]
) -> tuple[Sequence[Arrival], Sequence[Outcome]]:
    """Record those arrivals whose rows exist now; return them, and how they ended."""
    with store.reading() as reading:
        rows = reading.find(lookup_keys(arrivals))
    ready = [each for each in arrivals if isinstance(decide(each, rows), Recorded)]
    return ready, record_late(store, ready) if ready else []


def dry_run(store: Store, arrival: Arrival) -> DryRun:
    """Record an arrival and undo it: tell how it would end, and what it would change."""
    with suppress(_Undone), store.transaction() as transaction:
        outcome = decide(arrival, transaction.find(lookup_keys([arrival])))
        rows = affected_rows([outcome])
        transaction.lock(rows)
        before = transaction.read(rows)
        transaction.write(merge([outcome]))
        rehearsal = DryRun(outcome, before, transaction.read(rows))
        raise _Undone
    return rehearsal


def matching(reader: LogReader, query: Query) -> Iterator[Sequence[StoredEntry]]:
    """Yield all entries that are meant, oldest first, in groups."""
    last = 0
    while found := reader.oldest(query, after=last, limit=GROUP):
        yield found
        last = found[-1].id
        sleep(PAUSE)


def _waited_for(
    attempt: Attempt, arrivals: Sequence[Arrival], outcomes: list[Outcome]
) -> list[Outcome]:
    """Wait for the rows that others held: live traffic holds them for a moment only.

    By now this transaction holds no other row, for which live traffic might wait.
    """
    held = [n for n, outcome in enumerate(outcomes) if outcome == Refusal.FAILED.refused()]
    if held:
        with suppress(StoreError):  # the log has them as failed already
            again = [replace(arrivals[n], attempts=0) for n in held]
            ended = retry_on_conflict(attempt, again, until=monotonic() + PATIENCE)
            for n, outcome in zip(held, ended, strict=True):
                outcomes[n] = outcome
    return outcomes


def _record_singly(store: Store, arrivals: Sequence[Arrival], *, bodies: bool) -> list[Outcome]:
    """Record a group that failed one by one, as far as the database goes along."""
    outcomes: list[Outcome] = []
    with suppress(StoreError):
        for each in arrivals:
            outcomes += record_late(store, [each], bodies=bodies)
    return outcomes + fail(arrivals[len(outcomes) :], Refusal.UNAVAILABLE)


def _kept(store: Store, arrivals: Sequence[Arrival], *, bodies: bool) -> list[Outcome]:
    try:
        keep_failed(store, arrivals, bodies=bodies)
    except StoreError:
        return fail(arrivals, Refusal.UNAVAILABLE)
    return fail(arrivals)
