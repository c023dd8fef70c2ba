"""Turns groups of arrivals into responses: records, spools, logs and notifies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from msgspec.structs import replace

from hookrow._core.log_entry import is_parked, memory_size
from hookrow._core.notification import Arrival, Outcome, Recorded, Refusal, Refused
from hookrow._core.rules import fail, is_probe
from hookrow._core.sizes import LARGEST_GROUP, QUEUE_CAPACITY, TEXT_PER_BYTE
from hookrow._faults import describe_fault, log_fault
from hookrow._http import RECORDED, Response, respond
from hookrow._observability.logging import log_group, request_ids
from hookrow._observability.observer import Observer
from hookrow._receiver.batch import BatchWriter
from hookrow._receiver.clock import Clock
from hookrow._receiver.locked import LockedRows
from hookrow._receiver.options import ReceiverOptions
from hookrow._receiver.recorder import LOCK_WAIT_SHARE, GroupRecorder
from hookrow._receiver.results import RecentResults
from hookrow.providers._base import Provider

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore

U = TypeVar("U", bound="Outcome | None")

OutcomeCallback: TypeAlias = Callable[[Arrival, Outcome], object]
"""Called with each processed arrival and its outcome, after the commit."""

logger = logging.getLogger("hookrow")


class Responses:
    """The responses to outcomes: the contract's, unless one of these applies.

    With `acknowledge_parked`, a notification that the log retries gets a 200. The provider may have
    responses that differ from the contract's.
    """

    def __init__(self, provider: Provider, *, acknowledge_parked: bool) -> None:
        self._acknowledge_parked = acknowledge_parked
        self._own = provider.responses
        self.are_usual = not acknowledge_parked and not self._own
        """Whether all responses are the contract's."""

    def __call__(self, arrival: Arrival, outcome: Outcome) -> Response:
        """Return the response to an arrival. The log, if there is one, contains its outcome."""
        if isinstance(outcome, Recorded):
            return RECORDED
        is_final = outcome.refusal.status != Refusal.UNAVAILABLE.status
        if self._acknowledge_parked and is_final and is_parked(arrival, outcome):
            return RECORDED
        return self._own.get(outcome.refusal) or respond(outcome)

    def unavailable(self, arrival: Arrival) -> Response:
        """Return the response to an arrival that is not recorded now: 503 if it is supported."""
        [outcome] = fail([arrival], Refusal.UNAVAILABLE)
        return self(arrival, outcome)


class Responder:
    """Records groups of arrivals and returns their responses.

    The `clock` dates the arrivals, before they are recorded or spooled. `spool` keeps arrivals
    while the database is unavailable. `on_outcome` is None if nothing uses the outcomes.
    """

    def __init__(
        self,
        store: SQLStore,
        options: ReceiverOptions,
        *,
        clock: Clock,
        responses: Responses,
        spool: Callable[[Sequence[Arrival]], object] | None,
        observer: Observer | None,
        on_outcome: OutcomeCallback | None,
    ) -> None:
        self._options = options
        self._responses = responses
        self._clock = clock
        self._spool = spool or _discard
        self._observer = observer
        self._on_outcome = on_outcome
        self._parks = store.log is not None and options.keep_bodies
        self.results = RecentResults(has_log=store.log is not None)
        """Whether the last notifications were kept."""
        self._recorder = GroupRecorder(
            store,
            bodies=options.keep_bodies,
            clock=clock,
            seconds=options.deadline,
            spool=self._spool,
            observer=observer,
        )
        self.locked = LockedRows(
            self._resume,
            self._give_up,
            seconds=options.deadline * LOCK_WAIT_SHARE,
            unavailable=responses.unavailable,
        )
        """The notifications whose rows another transaction has locked."""

    def create_writers(self) -> list[BatchWriter[Arrival, Response]]:
        """Create the writer and, if there is a spool, another that spools if the queue is full.

        Their queues share the capacity.
        """
        works: list[Callable[[Sequence[Arrival]], Sequence[Response | None]]] = [self.respond]
        if self._spool is not _discard:
            works.append(self._spool_overflow)
        return [
            BatchWriter[Arrival, Response](
                work,
                fallback=self._responses.unavailable,
                deadline=self._options.deadline,
                group=self._options.group,
                backlog=self._options.backlog,
                capacity=QUEUE_CAPACITY // len(works),
                largest=LARGEST_GROUP // TEXT_PER_BYTE,
                size=memory_size,
                on_late=self._report_late,
                defer=self.locked.add,
            )
            for work in works
        ]

    def respond(self, arrivals: Sequence[Arrival]) -> list[Response | None]:
        """Record a group, and return the responses; None for those whose rows are locked."""
        if not self._recorder.is_paused:
            self._clock.measure()
        return self._respond(self._recorder, self._clock.date(arrivals))

    def wait(self, arrivals: Sequence[Arrival]) -> list[Response]:
        """Record a group, and return the responses; wait for locked rows in this thread."""
        if not self._recorder.is_paused:
            self._clock.measure()
        responses = self._respond(self._recorder.wait, self._clock.date(arrivals))
        return [each for each in responses if each is not None]

    def _resume(self, arrivals: Sequence[Arrival]) -> list[Response | None]:
        """Try again to record arrivals; only those that end are reported to the observer."""
        dated = self._clock.date(arrivals)
        outcomes = self._recorder.resume(dated)
        ends = [outcome for outcome in outcomes if outcome is not None]
        if not ends:
            return [None] * len(arrivals)
        ended = [a for a, outcome in zip(dated, outcomes, strict=True) if outcome is not None]
        return _align(self._respond(lambda _: ends, ended), outcomes)

    def _give_up(self, arrivals: Sequence[Arrival]) -> list[Response]:
        responses = self._respond(self._recorder.give_up, self._clock.date(arrivals))
        return [each for each in responses if each is not None]

    def _respond(
        self,
        record: Callable[[Sequence[Arrival]], Sequence[Outcome | None]],
        arrivals: Sequence[Arrival],
    ) -> list[Response | None]:
        paused = self._recorder.is_paused
        if self._observer is None and not logger.isEnabledFor(logging.DEBUG):
            outcomes = record(arrivals)
        else:
            outcomes = self._observed(record, arrivals)
        ends = [outcome for outcome in outcomes if outcome is not None]
        ended = arrivals
        if len(ends) < len(outcomes):
            ended = [
                arrival
                for arrival, outcome in zip(arrivals, outcomes, strict=True)
                if outcome is not None
            ]
        if not paused:  # otherwise, nothing was attempted, because a probe failed a moment ago
            self.results.add(ended, ends, self._recorder.reason)
        if ended is arrivals:
            return [*self._end(arrivals, ends)]
        return _align(self._end(ended, ends), outcomes)

    def _end(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> Sequence[Response]:
        """Pass outcomes to the hooks; return the responses."""
        if not self._parks:
            self._spool_failed(arrivals, outcomes)
        self.notify(arrivals, outcomes)
        if self._responses.are_usual:
            return [respond(outcome) for outcome in outcomes]
        return [*map(self._responses, arrivals, outcomes)]

    def _spool_overflow(self, arrivals: Sequence[Arrival]) -> list[Response]:
        """Spool and refuse arrivals because the queue is full."""
        self._spool(self._clock.date(arrivals))
        return self.refuse_overflow(arrivals)

    def spool_rest(self, arrivals: Sequence[Arrival]) -> None:
        """Spool the arrivals that are not recorded when the receiver stops."""
        if arrivals:
            # The template has the number, so that the rate limit does not drop the second line.
            logger.warning(f"Stopped; notifications that were not recorded: {len(arrivals)}.")
            self._spool(self._clock.date(arrivals))

    def refuse_overflow(self, arrivals: Sequence[Arrival]) -> list[Response]:
        """Refuse arrivals because the queue is full or closed. No hook is called."""
        requests = request_ids(arrivals)
        logger.warning(
            "The queue is full or closed; returned 503 (requests %s).",
            ", ".join(requests),
            extra={"request_ids": requests},
        )
        return self._refuse(arrivals, Refusal.UNAVAILABLE)

    def refuse_unsupported(self, arrival: Arrival) -> Response:
        """Refuse an unsupported notification without queueing it, because there is no log."""
        [response] = self._refuse([arrival], Refusal.UNSUPPORTED)
        self.notify([arrival], [Refusal.UNSUPPORTED.refused()])
        return response

    def _refuse(self, arrivals: Sequence[Arrival], refusal: Refusal) -> list[Response]:
        outcomes = self._observed(partial(fail, refusal=refusal), arrivals)
        return [*map(self._responses, arrivals, outcomes)]

    def _observed(
        self, work: Callable[[Sequence[Arrival]], Sequence[U]], arrivals: Sequence[Arrival]
    ) -> Sequence[U]:
        """Process a group with `work`, and report it to the observer and the debug log."""
        end_group, began = None, perf_counter()
        if self._observer is not None:
            end_group = self._observer.begin_group(arrivals, [each.context for each in arrivals])
        outcomes = work(arrivals)
        if end_group is not None:
            end_group(outcomes)
        log_group(arrivals, outcomes, perf_counter() - began)
        return outcomes

    def _spool_failed(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> None:
        """Spool the failed arrivals, which no log can retry; their attempts are already counted."""
        failed = [
            replace(arrival, attempts=0)
            for arrival, outcome in zip(arrivals, outcomes, strict=True)
            if isinstance(outcome, Refused) and outcome.refusal is Refusal.FAILED
        ]
        if failed:
            self._spool(failed)

    def notify(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> None:
        """Call `on_outcome`, except for tests, refused probes, and 503s.

        After a 503, the provider sends the notification again.
        """
        if self._on_outcome is None:
            return
        for arrival, outcome in zip(arrivals, outcomes, strict=True):
            match outcome:
                case Refused(Refusal.FAILED | Refusal.UNAVAILABLE | Refusal.TEST):
                    continue
                case Refused() if is_probe(arrival):
                    continue  # `hookrow check URL` expects the refusal
            try:
                self._on_outcome(arrival, outcome)
            except KeyboardInterrupt:  # the user ends the process
                raise
            except BaseException as error:  # noqa: BLE001 - a SystemExit of the host must not end a thread
                log_fault(
                    error,
                    "Receiver.on_outcome failed; responses are not affected: %s",
                    describe_fault(error),
                )

    def _report_late(self, arrival: Arrival) -> None:
        """Report a response that is sent at the deadline, before the outcome is known."""
        if self._observer is not None:
            self._observer.late()
        self.results.add_late(arrival, f"Not recorded within {self._options.deadline:g} s.")
        logger.warning(
            "Not recorded within %s s; returned %d (request %s).",
            self._options.deadline,
            self._responses.unavailable(arrival).status,
            arrival.request_id,
            extra={"request_id": arrival.request_id},
        )


class ResponseCollector:
    """Collects the responses to the events of a request, and replies once it has all of them."""

    def __init__(self, count: int, reply: Callable[[Response], object]) -> None:
        self._missing = count
        self._reply = reply
        self._responses: list[Response] = []

    def __call__(self, response: Response) -> None:
        """Take the next response; all calls are made in the same thread."""
        self._responses.append(response)
        self._missing -= 1
        if not self._missing:
            self._reply(combine(self._responses))


def combine(responses: Sequence[Response]) -> Response:
    """Return the response to a request from those to its events.

    A 503 comes first, because the provider then sends all of them again; then any other refusal. A
    request without events gets 200.
    """
    if len(responses) == 1:
        return responses[0]
    refused = [each for each in responses if each.status != RECORDED.status]
    repeated = [each for each in refused if each.status == Refusal.UNAVAILABLE.status]
    return (repeated or refused or [RECORDED])[0]


def _align(
    responses: Iterable[Response | None], outcomes: Sequence[Outcome | None]
) -> list[Response | None]:
    """Return the responses at the positions of their outcomes, and None at those without any."""
    rest = iter(responses)
    return [None if outcome is None else next(rest) for outcome in outcomes]


def _discard(arrivals: Sequence[Arrival]) -> None:
    """Do nothing, because there is no spool: the provider sends the arrivals again."""
