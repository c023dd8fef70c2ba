"""From a group of arrivals to its responses: recording, the spool, and reports of what happened."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from traceback import format_tb
from typing import TypeAlias

from msgspec.structs import replace

from hookrow.core.notification import Arrival, Outcome, Refusal, Refused
from hookrow.core.rules import fail, is_probe
from hookrow.http import Response, refuse, respond
from hookrow.observability.logging import log_group, request_ids
from hookrow.observability.observer import Observer
from hookrow.receiver.recorder import Attempt, GroupRecorder, is_reachable, keep_failed, record
from hookrow.stores import Store

OutcomeCallback: TypeAlias = Callable[[Arrival, Outcome], object]
"""Called with each arrival that was processed, after the commit."""

log = logging.getLogger("hookrow")


class Responder:
    """Records groups of arrivals and returns their responses.

    `keep_bodies` and `deadline` are those of the receiver, `spool` keeps arrivals while the
    database is unavailable. `on_outcome` is None if nothing needs the outcomes.
    """

    def __init__(
        self,
        store: Store,
        *,
        keep_bodies: bool,
        deadline: float,
        spool: Callable[[Sequence[Arrival]], object] | None,
        observer: Observer | None,
        on_outcome: OutcomeCallback | None,
    ) -> None:
        self._deadline = deadline
        self._spool = spool or _leave
        self._observer = observer
        self._on_outcome = on_outcome
        self._parks = store.log is not None and keep_bodies
        self._recorder = GroupRecorder(
            _attempt(store, observer, bodies=keep_bodies),
            keep_failed=partial(keep_failed, store, bodies=keep_bodies),
            reachable=partial(is_reachable, store),
            spool=self._spool,
            seconds=deadline,
        )

    def respond(self, arrivals: Sequence[Arrival]) -> list[Response]:
        """Record a group, and return the responses."""
        if self._observer is None and not log.isEnabledFor(logging.DEBUG):
            outcomes = self._recorder(arrivals)
        else:
            outcomes = self._observed(self._recorder, arrivals)
        if not self._parks:
            self._spool_failed(arrivals, outcomes)
        if self._on_outcome is not None:
            self.notify(arrivals, outcomes)
        return [respond(outcome) for outcome in outcomes]

    def put_off(self, arrivals: Sequence[Arrival]) -> list[Response]:
        """Keep arrivals in the spool, because the queue is full."""
        self._spool(arrivals)
        return self.turn_away(arrivals)

    def keep_rest(self, arrivals: Sequence[Arrival]) -> None:
        """Spool the arrivals that may not be recorded when the receiver stops."""
        if arrivals:
            log.warning(f"Stopped before {len(arrivals)} notifications were recorded.")
            self._spool(arrivals)

    def turn_away(self, arrivals: Sequence[Arrival]) -> list[Response]:
        """Refuse arrivals because the queue is full or closed. No hook is called."""
        log.warning(
            "The queue is full or closed; returned 503 (request %s).",
            arrivals[0].request_id,
            extra={"request_ids": request_ids(arrivals)},
        )
        return self._refuse(arrivals, Refusal.UNAVAILABLE)

    def refuse_unsupported(self, arrival: Arrival) -> Response:
        """Refuse an unsupported notification immediately, because no log has to keep it."""
        [response] = self._refuse([arrival], Refusal.UNSUPPORTED)
        self.notify([arrival], [Refusal.UNSUPPORTED.refused()])
        return response

    def _refuse(self, arrivals: Sequence[Arrival], refusal: Refusal) -> list[Response]:
        outcomes = self._observed(partial(fail, refusal=refusal), arrivals)
        return [respond(outcome) for outcome in outcomes]

    def _observed(
        self, work: Callable[[Sequence[Arrival]], list[Outcome]], arrivals: Sequence[Arrival]
    ) -> list[Outcome]:
        """Work on a group, and report it to the observer and, at debug level, to the log."""
        end_group, began = None, perf_counter()
        if self._observer is not None:
            end_group = self._observer.begin_group(arrivals, [each.context for each in arrivals])
        outcomes = work(arrivals)
        if end_group is not None:
            end_group(outcomes)
        log_group(arrivals, outcomes, perf_counter() - began)
        return outcomes

    def _spool_failed(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> None:
        """Keep in the spool what failed, if no log can retry it; a log has counted the attempt."""
        failed = [
            replace(arrival, attempts=0)
            for arrival, outcome in zip(arrivals, outcomes, strict=True)
            if isinstance(outcome, Refused) and outcome.refusal is Refusal.FAILED
        ]
        if failed:
            self._spool(failed)

    def notify(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> None:
        """Report outcomes to the host, but no 503, after which the notification comes again."""
        if self._on_outcome is None:
            return
        for arrival, outcome in zip(arrivals, outcomes, strict=True):
            match outcome:
                case Refused(Refusal.FAILED | Refusal.UNAVAILABLE):
                    continue
                case Refused() if is_probe(arrival):
                    continue  # `hookrow check URL` is refused on purpose
            try:
                self._on_outcome(arrival, outcome)
            except Exception as error:  # noqa: BLE001 - a subclass of the host
                place = "".join(format_tb(error.__traceback__))  # its text may quote the arrival
                log.error(
                    "Receiver.on_outcome raised %s; responses are not affected. "
                    "It was raised at\n%s",
                    type(error).__name__,
                    place,
                )

    def on_late(self, arrival: Arrival) -> None:
        """Report a response that is sent at the deadline, before the outcome is known."""
        if self._observer is not None:
            self._observer.late()
        log.warning(
            "Not recorded within %s s; returned 503 (request %s).",
            self._deadline,
            arrival.request_id,
            extra={"request_id": arrival.request_id},
        )


def _attempt(store: Store, observer: Observer | None, *, bodies: bool) -> Attempt:
    """Return the attempt to record a group, reported to the observer if there is one."""
    attempt = partial(record, store, bodies=bodies)
    if observer is None:
        return attempt

    def observed_attempt(
        arrivals: Sequence[Arrival], *, skip_locked: bool = False
    ) -> list[Outcome]:
        try:
            outcomes = attempt(arrivals, skip_locked=skip_locked)
        except Exception as error:
            observer.attempted(arrivals, error)
            raise
        observer.attempted(arrivals, None)
        return outcomes

    return observed_attempt


def _leave(arrivals: Sequence[Arrival]) -> None:
    """Leave it to the provider to send the arrivals again, because there is no spool."""


def unavailable(arrival: Arrival) -> Response:
    """Return 503, or 422 to an unsupported notification."""
    return _UNAVAILABLE if arrival.notification else _UNSUPPORTED


_UNAVAILABLE = refuse(Refusal.UNAVAILABLE)
_UNSUPPORTED = refuse(Refusal.UNSUPPORTED)
