"""The intake: takes what arrived to its end, in groups, and says how each is answered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from traceback import format_tb
from typing import TYPE_CHECKING

from hookrow.core.log_entry import held_size, written_size
from hookrow.core.notification import Arrival, Outcome, Refusal, Refused
from hookrow.core.rules import fail
from hookrow.deadline import Deadline
from hookrow.http import Response, refuse, respond
from hookrow.observability.observer import Observer
from hookrow.promise import Promise
from hookrow.receiver.batch import GroupCommit, QueueFull
from hookrow.receiver.recorder import Retry, attempted, is_reachable, keep_failed, observed, record
from hookrow.receiver.replay import Tell
from hookrow.receiver.sizes import CAPACITY
from hookrow.stores import Store
from hookrow.stores.timeouts import limited_to

if TYPE_CHECKING:
    from hookrow.receiver.spool import Spool

log = logging.getLogger("hookrow")

RECORDING = 0.9
"""Which part of the deadline recording in the calling thread may take; the rest is the spool's."""


class Intake:
    """Records arrivals, or refuses them, or puts them off into the spool where there is one.

    `group`, `backlog` and `deadline` are those of the receiver; without `bodies` nothing can be
    tried again from the log. `tell` hears how each group ended.
    """

    def __init__(  # noqa: PLR0913 - keywords, all of them the receiver's
        self,
        store: Store,
        *,
        spool: Spool | None,
        observer: Observer,
        tell: Tell,
        group: int,
        backlog: int,
        deadline: float,
        bodies: bool,
    ) -> None:
        self._logs = store.log is not None
        self._parks = self._logs and bodies
        self._spool: Callable[[Sequence[Arrival]], object] = spool.put if spool else _leave
        self._tell = tell
        retry = Retry(
            attempted(partial(record, store, bodies=bodies), observer),
            fail=partial(keep_failed, store, bodies=bodies),
            reachable=partial(is_reachable, store),
            spool=self._spool,
            seconds=deadline,
        )
        self._recorded = observed(retry, observer)
        self._rejected = observed(partial(fail, refusal=Refusal.UNSUPPORTED), observer)
        self._turned_away = observed(partial(fail, refusal=Refusal.UNAVAILABLE), observer)
        queue = partial(GroupCommit[Arrival, Response], group=group, backlog=backlog)
        half = CAPACITY // 2 if spool else CAPACITY
        self._commit = queue(self._respond, capacity=half, size=held_size, work_size=written_size)
        self._overflow = (
            queue(self._put_off, capacity=half, size=held_size, work_size=held_size)
            if spool
            else None
        )
        self._deadline = Deadline[Response](deadline, observer.late)
        self._seconds = deadline * RECORDING

    def submit(self, arrival: Arrival) -> Response | Promise[Response]:
        """Record an arrival in the intake's thread, with all that wait there."""
        if arrival.notification is None and not self._logs:
            return self._reject(arrival)
        try:
            answer = self._commit.submit(arrival)
        except QueueFull:
            return self._spill(arrival)
        return self._in_time(answer, arrival)

    def answer(self, arrival: Arrival) -> Response:
        """Record an arrival in the calling thread, within the deadline as far as the store can."""
        if arrival.notification is None and not self._logs:
            return self._reject(arrival)
        return self._respond([arrival], seconds=self._seconds)[0]

    def waiting(self) -> int:
        """Return how many wait for a commit."""
        return self._commit.waiting()

    def close(self, timeout: float | None = None) -> None:
        """Take no more into a thread, record what waits; wait `timeout` seconds for each thread."""
        for queue in (self._commit, self._overflow):
            if queue is not None:
                queue.close(timeout)

    def _respond(self, arrivals: Sequence[Arrival], *, seconds: float = inf) -> list[Response]:
        """Record arrivals; 503 for all of them if that raises, which is a bug."""
        try:
            return self._record(arrivals, seconds)
        except Exception as error:  # noqa: BLE001 - the thread and the other groups go on
            place = "".join(format_tb(error.__traceback__))  # its text may quote a notification
            log.error("Answering 503: %s, a bug, at\n%s", type(error).__name__, place)
            return self._turn_away(arrivals)

    def _record(self, arrivals: Sequence[Arrival], seconds: float) -> list[Response]:
        with limited_to(seconds):
            outcomes = self._recorded(arrivals)
            if not self._parks:
                self._spool_failed(arrivals, outcomes)
        self._tell(arrivals, outcomes)
        return [respond(outcome) for outcome in outcomes]

    def _reject(self, arrival: Arrival) -> Response:
        """Refuse at once what is unsupported: there is no log that has to keep it first."""
        [outcome] = outcomes = self._rejected([arrival])
        self._tell([arrival], outcomes)
        return respond(outcome)

    def _spool_failed(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> None:
        """Keep in the spool what failed and no log tries again; a log that is there counted it."""
        failed = [
            replace(arrival, attempts=0)
            for arrival, outcome in zip(arrivals, outcomes, strict=True)
            if isinstance(outcome, Refused) and outcome.refusal is Refusal.FAILED
        ]
        if failed:
            self._spool(failed)

    def _spill(self, arrival: Arrival) -> Response | Promise[Response]:
        """Keep in the spool what the backlog has no room for, and answer then."""
        log.warning(
            "No more notifications can be taken just now: answering 503, request %s.",
            arrival.request_id,
            extra={"request_id": arrival.request_id},
        )
        try:
            if self._overflow is not None:
                return self._in_time(self._overflow.submit(arrival), arrival)
        except QueueFull:
            pass
        return self._turn_away([arrival])[0]

    def _put_off(self, arrivals: Sequence[Arrival]) -> list[Response]:
        self._spool(arrivals)
        return self._turn_away(arrivals)

    def _turn_away(self, arrivals: Sequence[Arrival]) -> list[Response]:
        """Answer 503, or 422: that is no end, of which somebody would be told."""
        return [respond(outcome) for outcome in self._turned_away(arrivals)]

    def _in_time(self, answer: Promise[Response], arrival: Arrival) -> Promise[Response]:
        late = _UNAVAILABLE if arrival.notification else _UNSUPPORTED
        return self._deadline.watch(answer, late=late, request_id=arrival.request_id)


_UNAVAILABLE = refuse(Refusal.UNAVAILABLE)
_UNSUPPORTED = refuse(Refusal.UNSUPPORTED)


def _leave(arrivals: Sequence[Arrival]) -> None:
    """Leave it to the provider to send the arrivals again: there is no spool."""
