"""Records the suppressions, opens and deliveries that the webhooks missed, from Postmark's API.

Each event is given the body that the provider would have posted, and recorded as a late
notification, so that it never overrides a newer change. Events that change nothing are neither
recorded nor logged. The API has no list of deliveries, so the details of each message whose
dispatch has no delivery are requested. A run keeps no state: events that an earlier run recorded
change nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypeVar

from hookrow._core.changes import is_news
from hookrow._core.notification import Arrival, Key, Recorded, Source
from hookrow._core.rules import affected_rows, decide, fold, lookup_keys
from hookrow._postmark_api.client import PostmarkAPI
from hookrow._postmark_api.errors import UNKNOWN_MESSAGE, APIError, unexpected
from hookrow._postmark_api.webhooks import Stream
from hookrow._receiver.clock import Clock, measured_clock
from hookrow._receiver.replay import MAX_REPLAY_GROUP, replay
from hookrow.errors import ConfigurationError
from hookrow.providers._base import BodyParser, mask
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._suppressions import Filter, SuppressionRange

RETENTION = timedelta(days=45)
"""How long the provider keeps messages by default; suppressions are kept."""

DEFERRED_FOR = timedelta(days=5)
"""How long before a delivery its message may have been sent.

The provider does not publish how long it defers a message; mail servers should give up after 4 to 5
days (RFC 5321, section 4.5.4.1).
"""

REQUEST_INTERVAL = 0.1
"""Seconds between two requests; the provider publishes no limit."""

SETTLED_AFTER = timedelta(minutes=5)
"""A suppression that changed within this time before the list was read is not lifted."""

ROWS_PER_PAGE = 500
"""The number of suppressions and of dispatches that are read at once."""

MESSAGES_PER_STEP = 10
"""The number of messages whose deliveries are recorded together."""

_POSSIBLE_ID = re.compile(r"[\w-]+", re.ASCII)
"""The characters of the provider's message ids, which are GUIDs: all may be part of a path."""

T = TypeVar("T")

EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
"""Before any message at the provider; near the year 1, a margin cannot be subtracted."""

OPENS_PATH = "/messages/outbound/opens"

MAX_OPENS_PER_PAGE = 500
"""The largest page of opens."""

MAX_OPENS_PER_WINDOW = 10_000
"""The number of opens that the API returns for one window of time."""

SHORTEST_WINDOW = timedelta(seconds=2)
"""A shorter window is not split."""

WINDOW_MARGIN = timedelta(days=1)
"""More than the offset of any time zone: it replaces the conversion to Eastern time."""

OpenRows: TypeAlias = Sequence[Mapping[str, Any]]


@dataclass(slots=True, kw_only=True)
class Reconciled:
    """What a run has recorded, or would record in a dry run.

    `lifted` are suppressions that no stream has any more. Of the provider's events, `unknown`
    match no row here. Of our dispatches, `undelivered` are not delivered according to the provider
    either, and `unknown_there` are not known to it, for example because it no longer keeps them.
    `failed` events were logged as failed. `incomplete` names the lists of which the provider did
    not return all rows.
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


@dataclass(slots=True)
class Reconciliation:
    """Records events since a time that change something here.

    Suppressions and opens are those of `streams`; so are deliveries, if they are `chosen`.
    `server` is the id of the provider's server, for the bodies. In a `dry_run`, nothing is
    recorded. `report` receives each event to be recorded. `entry` is the name of the receiver's
    entry for this server, if it has several, and `tenant` its tenant, whose rows alone are read and
    changed.
    """

    api: PostmarkAPI
    store: SQLStore
    parser: BodyParser
    streams: Sequence[Stream]
    _: KW_ONLY
    since: datetime
    chosen: bool = False
    server: int = 0
    dry_run: bool = False
    report: Callable[[Arrival], object] = lambda _: None
    entry: str | None = None
    tenant: Key | None = None
    result: Reconciled = field(default_factory=Reconciled, init=False)
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        """Limit the rate of requests, and compare the clock with the database's."""
        self.api.interval = REQUEST_INTERVAL
        self.clock = measured_clock(self.store)

    @property
    def _sent_since(self) -> datetime:
        """The earliest time of sending of the messages whose details are requested."""
        return max(self.since, EARLIEST) - DEFERRED_FOR

    def count_undelivered(self) -> tuple[int, bool]:
        """Return the number of dispatches to ask about, and whether it counts only recent ones.

        If the time of sending is mapped, a dispatch without one is not counted, but the provider is
        queried for it.
        """
        recent = self.store.row_counts.undelivered(self._sent_since, tenant=self.tenant)
        if recent is not None:
            return recent, True
        return self.store.row_counts.undelivered(tenant=self.tenant) or 0, False

    def steps(self, every_stream: Sequence[Stream] = ()) -> Iterator[int]:
        """Record suppressions, opens, then deliveries; yield the number of messages asked about.

        With `every_stream`, lift the suppressions that none of these streams has. Raises
        `ConfigurationError` if one of them is archived, and `APIError` and `StoreError`; the events
        recorded until then are kept.
        """
        if archived := ", ".join(each.id for each in every_stream if each.archived_at):
            raise ConfigurationError(
                f"The provider may not list the suppressions of archived message streams "
                f"({archived}), so no suppression can be lifted: restore them, or omit --lift."
            )
        started = self.clock()
        dumps = {each.id: self._dump(each.id) for each in {*self.streams, *every_stream}}
        rows = sorted((row for each in self.streams for row in dumps[each.id]), key=_created)
        recent = [_suppression_payload(each) for each in rows if _created(each) >= self.since]
        for group in _groups(recent, MAX_REPLAY_GROUP):
            self.result.suppressions += self._record(group)
            yield 0
        if every_stream:
            listed = {fold(row["EmailAddress"]) for rows in dumps.values() for row in rows}
            yield from self._lift(listed, started - SETTLED_AFTER)
        for stream in self.streams:
            yield from self._record_opens(stream, started)
        yield from self._record_deliveries()

    def _lift(self, listed: set[str], at: datetime) -> Iterator[int]:
        """Reactivate the suppressed subscribers who are not listed."""
        reader = self.store.suppressions
        selected, bounds = reader.plan(Filter(tenant=self.tenant)), SuppressionRange(oldest=True)
        while found := reader.read(bounds, selected, limit=ROWS_PER_PAGE):
            absent = [each.email for each in found if fold(each.email) not in listed]
            for group in _groups(
                [_reactivation_payload(each, at) for each in absent], MAX_REPLAY_GROUP
            ):
                self.result.lifted += self._record(group)
                yield 0
            bounds = bounds._replace(after=found[-1].cursor)

    def _record_opens(self, stream: Stream, until: datetime) -> Iterator[int]:
        name = f"Opens of {stream.id}"

        def note_incomplete() -> None:
            if name not in self.result.incomplete:
                self.result.incomplete.append(name)

        for page in read_opens(self.api, stream.id, self.since, until, note_incomplete):
            for group in _groups(
                [_open_payload(each) for each in self._recent(page)], MAX_REPLAY_GROUP
            ):
                self.result.opens += self._record(group)
            yield 0

    def _record_deliveries(self) -> Iterator[int]:
        """Ask about the dispatches without a delivery, the oldest first."""
        row_counts, after = self.store.row_counts, None
        while page := row_counts.list_undelivered(
            self._sent_since, after=after, limit=ROWS_PER_PAGE, tenant=self.tenant
        ):
            for some in _groups(page, MESSAGES_PER_STEP):
                ids = dict.fromkeys(each.message_id for each in some)  # recipients may share one
                deliveries = [each for id_ in ids for each in self._deliveries(id_)]
                self.result.deliveries += self._record(deliveries)
                yield len(some)
            after = page[-1].cursor

    def _dump(self, stream: str) -> Sequence[Mapping[str, Any]]:
        """Return all suppressions of a stream."""
        path = f"/message-streams/{stream}/suppressions/dump"
        rows = self.api.get(path).get("Suppressions")
        if not isinstance(rows, list) or not all(map(_is_suppression, rows)):
            raise APIError(unexpected(path))
        return [{**each, "MessageStream": stream} for each in rows]

    def _deliveries(self, message_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the deliveries of a message."""
        found = self._details(message_id)
        if found is None:
            self.result.unknown_there += 1
            return ()
        if self.chosen and found.get("MessageStream") not in {each.id for each in self.streams}:
            return ()
        deliveries = _delivery_payloads(message_id, found)
        self.result.undelivered += not deliveries
        return self._recent(deliveries, "DeliveredAt")

    def _details(self, message_id: str) -> Mapping[str, Any] | None:
        """Return the details of a message, or None if the provider does not know it."""
        if not _POSSIBLE_ID.fullmatch(message_id):  # it is of another provider
            return None
        try:
            return self.api.get(f"/messages/outbound/{message_id}/details")
        except APIError as error:
            if error.code != UNKNOWN_MESSAGE:
                raise
            return None

    def _recent(
        self, rows: Sequence[Mapping[str, Any]], name: str = "ReceivedAt"
    ) -> Sequence[Mapping[str, Any]]:
        """Return the rows since the time of the run that have the fields of the API."""
        return [
            each
            for each in rows
            if isinstance(each.get("MessageID"), str)
            and (at := _time(each.get(name)))
            and at >= self.since
        ]

    def _arrival(self, payload: Mapping[str, Any]) -> Arrival:
        body = json.dumps({**payload, "ServerID": self.server}).encode()
        event, _ = mask(self.parser.parse(body), self.store.recorded)
        now = self.clock()
        return Arrival(
            event.notifications,
            body,
            now,
            source=Source.RECONCILE,
            unsupported=event.unsupported,
            attempts=0,
            provider=self.parser.name,
            entry=self.entry,
            tenant=self.tenant,
        )

    def _record(self, payloads: Sequence[Mapping[str, Any]]) -> int:
        """Record those events of a group that change something; return their number."""
        arrivals = [self._arrival(each) for each in payloads]
        with self.store.reading() as reading:
            rows = reading.find(lookup_keys(arrivals))
            outcomes = [decide(each, rows) for each in arrivals]
            states = reading.read(affected_rows(outcomes))
        new = []
        for arrival, outcome in zip(arrivals, outcomes, strict=True):
            if not isinstance(outcome, Recorded):
                self.result.unknown += 1
            elif any(is_news(each, states.get(each.row, {})) for each in outcome.changes):
                new.append(arrival)
                self.report(arrival)
        if self.dry_run or not new:
            return len(new)
        done = [isinstance(each, Recorded) for each in replay(self.store, new, clock=self.clock)]
        self.result.failed += done.count(False)
        return done.count(True)


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


def _suppression_payload(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the payload of a suppression in a stream's list, which names no message."""
    return {
        "RecordType": "SubscriptionChange",
        "MessageStream": row["MessageStream"],
        "MessageID": None,
        "Recipient": row["EmailAddress"],
        "ChangedAt": row["CreatedAt"],
        "Origin": row.get("Origin"),
        "SuppressSending": True,
        "SuppressionReason": row["SuppressionReason"],
    }


def _reactivation_payload(email: str, at: datetime) -> Mapping[str, Any]:
    """Return the payload of a reactivation at a time."""
    return {
        "RecordType": "SubscriptionChange",
        "MessageID": None,
        "Recipient": email,
        "ChangedAt": at.isoformat(),
        "Origin": "Customer",
        "SuppressSending": False,
        "SuppressionReason": None,
    }


def _open_payload(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the payload of an open in the list of opens, which has only first ones."""
    return {**row, "RecordType": "Open", "FirstOpen": True}


def _delivery_payloads(message_id: str, details: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the payloads of the deliveries in a message's details, one for each recipient."""
    listed = details.get("MessageEvents")
    return [
        {
            "RecordType": "Delivery",
            "MessageStream": details.get("MessageStream"),
            "MessageID": message_id,
            "Recipient": each.get("Recipient"),
            "DeliveredAt": each.get("ReceivedAt"),
            "Tag": details.get("Tag"),
            "Metadata": details.get("Metadata"),
        }
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, dict) and each.get("Type") == "Delivered"
    ]


def read_opens(
    api: PostmarkAPI,
    stream: str,
    since: datetime,
    until: datetime,
    on_incomplete: Callable[[], object],
) -> Iterator[OpenRows]:
    """Yield the first opens of a stream between two times, in portions, the oldest first.

    Some rows may be outside this period, and some may occur twice. `on_incomplete` is called if
    the API did not return all rows. Raises `APIError`.

    The API (https://postmarkapp.com/developer/api/messages-api) returns the newest rows first, and
    at most 10,000 for one window of time, so a window with more is split. The limits of windows are
    local times in the US Eastern zone.
    """

    def read_page(first: datetime, last: datetime, offset: int) -> tuple[int, OpenRows]:
        """Return the number of rows in a window, and the rows after an offset."""
        found = api.get(
            OPENS_PATH,
            count=min(MAX_OPENS_PER_PAGE, MAX_OPENS_PER_WINDOW - offset),
            offset=offset,
            messagestream=stream,
            fromdate=first.isoformat(),
            todate=last.isoformat(),
        )
        total, rows = found.get("TotalCount"), found.get("Opens")
        if not isinstance(total, int) or not isinstance(rows, list):
            raise APIError(unexpected(OPENS_PATH))
        return total, [each for each in rows if isinstance(each, dict)]

    def read(first: datetime, last: datetime, total: int, rows: OpenRows) -> Iterator[OpenRows]:
        """Yield the rows of a window whose first page was read."""
        if total > MAX_OPENS_PER_WINDOW and last - first > SHORTEST_WINDOW:
            middle = (first + (last - first) / 2).replace(microsecond=0)
            older, newer = read_page(first, middle, 0), read_page(middle, last, 0)
            # Copies of the API's documentation differ in whether all lists have windows.
            if older[0] + newer[0] < 2 * total:
                yield from read(first, middle, *older)
                yield from read(middle, last, *newer)
                return
        pages = [rows]
        done = len(rows)
        while rows and done < min(total, MAX_OPENS_PER_WINDOW):
            count, rows = read_page(first, last, done)
            # Each new row shifts the older ones, so that as many rows are read twice.
            total = max(total, count)
            pages.append(rows)
            done += len(rows)
        if total > MAX_OPENS_PER_WINDOW:
            on_incomplete()
        for page in reversed(pages):
            yield page[::-1]

    first = (max(since, EARLIEST) - WINDOW_MARGIN).replace(tzinfo=None, microsecond=0)
    last = (until + WINDOW_MARGIN).replace(tzinfo=None, microsecond=0)
    yield from read(first, last, *read_page(first, last, 0))
