"""Records what the webhooks missed: suppressions, opens and deliveries that Postmark's API knows.

Each event is given the body that the provider would have posted, and recorded as a late
notification, so that it never overrides a newer change. Events that change nothing are not logged.
A run keeps no state: events that an earlier run recorded change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from hookrow.core.notification import (
    Arrival,
    Change,
    LookupKeys,
    Recorded,
    SetTime,
    Source,
    Suppressible,
)
from hookrow.core.rules import affected_rows, decide, fold, is_message_id, lookup_keys
from hookrow.postmark_api import events
from hookrow.postmark_api.client import PostmarkAPI
from hookrow.postmark_api.errors import UNKNOWN_MESSAGE, APIError, unexpected
from hookrow.postmark_api.lists import ListReader, Window
from hookrow.postmark_api.webhooks import Stream
from hookrow.providers import BodyParser, limit_to
from hookrow.receiver.replay import GROUP, replay
from hookrow.stores import State, Store
from hookrow.stores.suppressions import Filter, Span

RETENTION = timedelta(days=45)
"""How long the provider keeps messages by default; suppressions are kept."""

INTERVAL = 0.1
"""In seconds, between two requests; the provider publishes no limit."""

SETTLED = timedelta(minutes=5)
"""A suppression that changed within this time before the list was read is not lifted."""

PAGE = 500
"""In rows; the size of pages of our suppressions."""

STEP = 10
"""The number of messages after whose requests their deliveries are recorded."""

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Reconciled:
    """What a run has recorded, or would record in a dry run.

    `lifted` are suppressions that no stream has any more. Of the provider's events, `unknown`
    belong to no row here. Of our dispatches, `undelivered` are not delivered according to the
    provider either, and `unknown_there` is the number of messages that it does not know. `failed`
    events were logged as failed. `incomplete` names the lists of which the provider did not return
    all rows.
    """

    suppressions: int = 0
    lifted: int = 0
    opens: int = 0
    deliveries: int = 0
    unknown: int = 0
    undelivered: int = 0
    unknown_there: int = 0
    failed: int = 0
    incomplete: list[str] = field(default_factory=list)


class Reconciliation:
    """Records events since a time that changes something here.

    `server` is the id of the provider's server, for the bodies. In a `dry_run`, nothing is
    recorded. `report` receives each event to be recorded.
    """

    def __init__(  # noqa: PLR0913 - the parts of a run
        self,
        api: PostmarkAPI,
        store: Store,
        parser: BodyParser,
        streams: Sequence[Stream],
        *,
        since: datetime,
        server: int = 0,
        dry_run: bool = False,
        report: Callable[[Arrival], object] = lambda _: None,
    ) -> None:
        self.result = Reconciled()
        self._api, self._store, self._parser, self._streams = api, store, parser, streams
        self._since, self._server, self._dry_run = since, server, dry_run
        self._report = report

    def steps(self, every_stream: Sequence[Stream] = ()) -> Iterator[None]:
        """Record suppressions, then opens and deliveries; yield after each group.

        With `every_stream`, lift the suppressions that none of these streams has. Raises
        `APIError` and `StoreError`; the events recorded until then are kept.
        """
        result, started = self.result, datetime.now(UTC)
        dumps = {each.id: self._dump(each.id) for each in {*self._streams, *every_stream}}
        rows = sorted((row for each in self._streams for row in dumps[each.id]), key=_created)
        recent = [events.suppression(each) for each in rows if _created(each) >= self._since]
        for group in _groups(recent, GROUP):
            result.suppressions += self._record(group)
            yield
        if every_stream:
            listed = {fold(row["EmailAddress"]) for rows in dumps.values() for row in rows}
            for page in self._absent(listed, started - SETTLED):
                for group in _groups(page, GROUP):
                    result.lifted += self._record(group)
                    yield
        window = Window.around(self._since, started)
        for stream in self._streams:
            opens = ListReader(self._api, "/messages/outbound/opens", "Opens", stream.id)
            for page in opens.read(window):
                for group in _groups([events.opening(each) for each in self._recent(page)], GROUP):
                    result.opens += self._record(group)
                yield
            messages = ListReader(self._api, "/messages/outbound", "Messages", stream.id)
            for page in messages.read(window):
                ids = self._undelivered(each["MessageID"] for each in self._recent(page))
                for some in _groups(ids, STEP):
                    result.deliveries += self._record([*self._deliveries(some)])
                    yield
            result.incomplete += [
                f"{each.name} of {stream.id}" for each in (opens, messages) if each.incomplete
            ]

    def _dump(self, stream: str) -> Sequence[Mapping[str, Any]]:
        """Return all suppressions of a stream."""
        path = f"/message-streams/{stream}/suppressions/dump"
        rows = self._api.get(path).get("Suppressions")
        if not isinstance(rows, list) or not all(map(_is_suppression, rows)):
            raise APIError(unexpected(path))
        return [{**each, "MessageStream": stream} for each in rows]

    def _absent(self, listed: set[str], at: datetime) -> Iterator[Sequence[Mapping[str, Any]]]:
        """Yield reactivations of the suppressed subscribers who are not listed, in pages."""
        reader = self._store.suppressions
        selected, span = reader.plan(Filter()), Span(oldest=True)
        while found := reader.read(span, selected, limit=PAGE):
            yield [
                events.reactivation(each.email, at)
                for each in found
                if fold(each.email) not in listed
            ]
            span = span._replace(after=found[-1].position)

    def _deliveries(self, message_ids: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Ask for each message; yield its deliveries."""
        for message_id in message_ids:
            try:
                found = self._api.get(f"/messages/outbound/{message_id}/details")
            except APIError as error:
                if error.code != UNKNOWN_MESSAGE:
                    raise
                self.result.unknown_there += 1
                continue
            deliveries = events.deliveries(message_id, found)
            self.result.undelivered += not deliveries
            yield from deliveries

    def _undelivered(self, message_ids: Iterable[str]) -> Sequence[str]:
        """Return the message ids of dispatches without a delivery, in the same order."""
        ids = [each for each in dict.fromkeys(message_ids) if is_message_id(each)]
        with self._store.reading() as reading:
            dispatches = reading.find(LookupKeys((), ids, ())).dispatches
            rows = {
                (Suppressible.DISPATCH, row.id) for found in dispatches.values() for row in found
            }
            states = reading.read(rows)
        return [
            each
            for each in ids
            if any(
                states.get((Suppressible.DISPATCH, row.id), {}).get("delivered_at") is None
                for row in dispatches.get(each, ())
            )
        ]

    def _recent(self, rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return the rows since the time of the run that have the fields of the API."""
        return [
            each
            for each in rows
            if isinstance(each.get("MessageID"), str)
            and (at := _time(each.get("ReceivedAt")))
            and at >= self._since
        ]

    def _arrival(self, payload: Mapping[str, Any]) -> Arrival:
        body = json.dumps({**payload, "ServerID": self._server}).encode()
        part = limit_to(self._parser.parse(body), self._store.recorded)
        return Arrival(
            part.notification,
            body,
            datetime.now(UTC),
            source=Source.RECONCILE,
            unsupported=part.unsupported,
            attempts=0,
            provider=self._parser.name,
        )

    def _record(self, payloads: Sequence[Mapping[str, Any]]) -> int:
        """Record those events of a group that change something; return their number."""
        arrivals = [self._arrival(each) for each in payloads]
        with self._store.reading() as reading:
            rows = reading.find(lookup_keys(arrivals))
            outcomes = [decide(each, rows) for each in arrivals]
            states = reading.read(affected_rows(outcomes))
        new = []
        for arrival, outcome in zip(arrivals, outcomes, strict=True):
            if not isinstance(outcome, Recorded):
                self.result.unknown += 1
            elif any(_is_new(each, states.get(each.row, {})) for each in outcome.changes):
                new.append(arrival)
                self._report(arrival)
        if self._dry_run or not new:
            return len(new)
        done = [isinstance(each, Recorded) for each in replay(self._store, new)]
        self.result.failed += done.count(False)
        return done.count(True)


def _is_new(change: Change, state: State) -> bool:
    """Return whether a late change would alter a row."""
    if isinstance(change, SetTime):
        at = state.get(change.column.value)
        return at is None or at < change.at
    suppressed = state.get("suppressed_at")
    known = [at for at in (suppressed, state.get("suppression_changed_at")) if at is not None]
    older = all(at < change.at for at in known)
    return older and (change.reason is not None or suppressed is not None)


def _groups(rows: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _is_suppression(row: object) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("EmailAddress"), str)
        and isinstance(row.get("SuppressionReason"), str)
        and _time(row.get("CreatedAt")) is not None
    )


def _created(row: Mapping[str, Any]) -> datetime:
    return _time(row["CreatedAt"]) or datetime.max.replace(tzinfo=UTC)


def _time(text: object) -> datetime | None:
    """Return a time in UTC, or None if it has no offset or is not valid."""
    try:
        at = datetime.fromisoformat(str(text))
        return at.astimezone(UTC) if at.tzinfo else None
    except (ValueError, OverflowError):
        return None
