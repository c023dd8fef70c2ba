"""The receiver: takes authentic notifications and records them.

`recording.record` is what it does; all else here is when, in which thread, how long,
and what becomes of those that cannot be recorded now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from os import PathLike
from threading import TIMEOUT_MAX
from typing import Protocol

from hookrow import logs
from hookrow.batch import GroupCommit, Overloaded
from hookrow.deadline import Deadline
from hookrow.decide import fail
from hookrow.errors import ConfigurationError
from hookrow.hooks import Hook
from hookrow.http import Head, Request, Response, refuse, respond
from hookrow.notification import (
    Arrival,
    Notification,
    Outcome,
    Recorded,
    Refusal,
    Refused,
    Unsupported,
)
from hookrow.observing import LOOK_EVERY, Guarded, Inside, Observer, attempted, observed
from hookrow.parked import SWEEP_EVERY, Parked
from hookrow.periodic import Periodic
from hookrow.quiet import Quiet
from hookrow.recording import keep_failed, record
from hookrow.retry import Attempt, Retry
from hookrow.stores import Store

ENDPOINT = "/provider/webhooks"


def endpoint_path(mount_path: str) -> str:
    """Return the endpoint's path below a mount path, with or without slashes at its ends.

    Raises `ConfigurationError` where no request could ever have it.
    """
    mount = mount_path.strip("/")
    if any(letter in "?#%" or letter.isspace() for letter in mount):
        raise ConfigurationError(
            f"The mount path {mount_path!r} is no path: write for example /mail."
        )
    return f"/{mount}{ENDPOINT}" if mount else ENDPOINT


class Provider(Protocol):
    """Knows who may come in and what a body says; `Postmark` is one."""

    def authentic(self, head: Head) -> bool:
        """Tell whether the head proves where it comes from."""

    def challenge(self, head: Head) -> str:
        """Say what a head lacks that is not authentic (RFC 9110, section 11.6.1)."""

    def parse(self, body: bytes) -> Notification | None:
        """Read a body; None where it holds no supported notification. Never raises."""

    def describe(self, body: bytes) -> Unsupported:
        """Say what an unsupported body is about, as far as it can be read. Never raises."""


class Receiver:
    """Answers `POST <mount path>/provider/webhooks`: mount it in any host.

    A host's mount tells where it is; `mount_path` ("/mail") is for one that does
    not: a server of its own, or a route that keeps the whole path.
    `group` is the most notifications that share a commit, `backlog` the most that
    wait for one. Every answer of a queued notification comes within `deadline`
    seconds; one that is 503 by then may yet be recorded.

    With `sweep` what the log has parked is tried again every minute. `spool` names
    a file for what comes while the database cannot be reached. `keep_bodies=False`
    keeps no body in the log, so that nothing of it can be tried again.
    `on_recorded` and `on_refused` are called after the commit with the `Arrival`
    and its `Outcome`, in a thread of their own, whenever a notification ends so, hence
    again for one that comes again; an answer of 503 is no end. An `observer` looks on.

    Raises `ConfigurationError` where one of these cannot work, and for a mount path
    that no request could have.
    """

    blocking = False

    def __init__(  # noqa: PLR0913 - keywords, each with a good default
        self,
        provider: Provider,
        store: Store,
        *,
        mount_path: str = "",
        group: int = 256,
        backlog: int = 4096,
        deadline: float = 5.0,
        sweep: bool = False,
        spool: str | PathLike[str] | None = None,
        keep_bodies: bool = True,
        on_recorded: Callable[[Arrival, Recorded], object] | None = None,
        on_refused: Callable[[Arrival, Refused], object] | None = None,
        observer: Observer | None = None,
    ) -> None:
        _check_positive(group=group, backlog=backlog, deadline=deadline)
        if sweep:
            _check_sweep(store, keep_bodies=keep_bodies)
        self._provider = provider
        self._endpoint = endpoint_path(mount_path)
        self._logs = store.log is not None
        self._parks = self._logs and keep_bodies
        self._tasks: list[Periodic] = []
        self._spool: Callable[[Sequence[Arrival]], object] = _leave
        self._overflow: GroupCommit[Arrival, Response] | None = None
        self._observer = Guarded(observer) if observer is not None else None
        spooled: Callable[[], int] = _none
        if spool is not None:
            from hookrow.drain import DRAIN_EVERY, Drain  # noqa: PLC0415 - sqlite3 is loaded where asked
            from hookrow.spool import Spool  # noqa: PLC0415 - as above

            opened = Spool(spool)
            self._spool, spooled = opened.put, opened.count
            self._overflow = GroupCommit(self._put_off, group=group, backlog=backlog, weigh=_size)
            drain = Drain(opened, store, self._read, self._tell, bodies=keep_bodies, swept=sweep)
            self._tasks.append(Periodic(drain, seconds=DRAIN_EVERY, name="emptying of the spool"))
        attempt: Attempt = partial(record, store, bodies=keep_bodies)
        retry = Retry(
            attempted(attempt, self._observer) if self._observer else attempt,
            fail=partial(keep_failed, store, bodies=keep_bodies),
            spool=self._spool,
            seconds=deadline,
        )
        self._record = observed(retry, self._observer)
        self._reject = observed(partial(fail, refusal=Refusal.UNSUPPORTED), self._observer)
        self._turn_away = observed(partial(fail, refusal=Refusal.UNAVAILABLE), self._observer)
        self._commit = GroupCommit(self._respond, group=group, backlog=backlog, weigh=_size)
        self._deadline = Deadline[Response](deadline)
        self._on_recorded = Hook(on_recorded, "on_recorded") if on_recorded else None
        self._on_refused = Hook(on_refused, "on_refused") if on_refused else None
        self._parked = Parked(store, store.log, provider.parse, self._tell) if store.log else None
        if self._parked is not None and sweep:
            self._tasks.append(Periodic(self._parked.sweep, seconds=SWEEP_EVERY, name="sweep"))
        if self._observer is not None:
            self._observer.watch(
                Inside(self._commit.waiting, spooled, partial(_matched, provider), store.log)
            )
            look = self._observer.look
            self._tasks.append(Periodic(look, seconds=LOOK_EVERY, name="observer"))
        self._quiet = Quiet()

    def admit(self, head: Head) -> Response | None:
        """Refuse a head for its path, method or secret, in this order; None admits it."""
        if not head.is_at(self._endpoint):
            return self.refuse(head, Refusal.NO_SUCH_PATH)
        if head.method != "POST":
            return self.refuse(head, Refusal.METHOD_NOT_ALLOWED)
        if not self._provider.authentic(head):
            self._quiet.warning(
                "Somebody came without the secret, and was answered 401: request %s.",
                head.request_id,
                request_id=head.request_id,
            )
            challenge = {"WWW-Authenticate": self._provider.challenge(head)}
            refused = self.refuse(head, Refusal.UNAUTHENTIC)
            return replace(refused, headers={**refused.headers, **challenge})
        return None

    def refuse(self, head: Head, refusal: Refusal) -> Response:
        """Return the response of a refusal for which there is nothing to record, and tell of it."""
        if self._observer is not None:
            self._observer.refused(head, refusal)
        if refusal is not Refusal.UNAUTHENTIC and logs.detailed():
            self._quiet.debug(
                f"Answered {refusal.status}, {refusal.name.lower()}: request %s",
                head.request_id,
                request_id=head.request_id,
            )
        return refuse(refusal)

    def __call__(self, request: Request) -> Response | Future[Response]:
        """Record an admitted request in the receiver's thread, with all that wait there."""
        self.start()
        arrival = self._arrive(request)
        if arrival.notification is None and not self._logs:
            return self._refuse(arrival)
        late = _UNAVAILABLE if arrival.notification else _UNSUPPORTED
        try:
            answer = self._commit.submit(arrival)
        except Overloaded:
            return self._spill(arrival, late)
        return self._deadline.watch(answer, late=late, request_id=arrival.request_id)

    def answer(self, request: Request) -> Response:
        """Record an admitted request in the calling thread, and start none.

        How long that can take is for the store's own time limits to say; a database
        that stopped without a word may hold it for longer than the deadline. To sweep,
        and to empty the spool, call `start` besides.
        """
        arrival = self._arrive(request)
        if arrival.notification is None and not self._logs:
            return self._refuse(arrival)
        return self._respond([arrival])[0]

    def start(self) -> None:
        """Start to sweep and to empty the spool, where asked for: a queued request does so, too."""
        for task in self._tasks:
            task.start()

    def revisit(self, *message_ids: str) -> Future[int]:
        """Try again what is parked for these messages: call it when their dispatches are committed.

        It is done in a thread of its own; the future is how many were recorded, or a
        `StoreError`. What cannot be done now, or is being refused at this moment, is
        left to the sweep. Raises `ConfigurationError` where there is no log.
        """
        if self._parked is None:
            raise ConfigurationError("Without a log nothing is parked.")
        try:
            return self._parked.revisit(message_ids)
        except Overloaded:
            none: Future[int] = Future()
            none.set_result(0)
            return none

    def close(self, timeout: float | None = None) -> None:
        """Take no more, record what waits, end the threads; wait `timeout` seconds for each."""
        for task in (self._commit, self._overflow, *self._tasks, self._parked):
            if task is not None:
                task.close(timeout)
        for hook in (self._on_recorded, self._on_refused):
            if hook is not None:
                hook.close(timeout)

    def _arrive(self, request: Request) -> Arrival:
        head = request.head
        seen = self._observer.arrived(head) if self._observer is not None else None
        return self._read(request.body, datetime.now(UTC), request_id=head.request_id, seen=seen)

    def _read(
        self, body: bytes, received_at: datetime, *, request_id: str = "", seen: object = None
    ) -> Arrival:
        notification = self._provider.parse(body)
        unsupported = _SUPPORTED if notification is not None else self._provider.describe(body)
        return Arrival(
            notification,
            body,
            received_at,
            unsupported=unsupported,
            request_id=request_id,
            seen=seen,
        )

    def _refuse(self, arrival: Arrival) -> Response:
        """Refuse at once what is unsupported: there is no log that has to keep it first."""
        outcomes = self._reject([arrival])
        self._tell([arrival], outcomes)
        return respond(outcomes[0])

    def _respond(self, arrivals: Sequence[Arrival]) -> list[Response]:
        outcomes = self._record(arrivals)
        if not self._parks:
            self._spool_failed(arrivals, outcomes)
        self._tell(arrivals, outcomes)
        return [respond(outcome) for outcome in outcomes]

    def _spool_failed(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> None:
        """Keep in the spool what failed and no log tries again; a log that is there counted it."""
        failed = [
            replace(arrival, attempts=0)
            for arrival, outcome in zip(arrivals, outcomes, strict=True)
            if isinstance(outcome, Refused) and outcome.refusal is Refusal.FAILED
        ]
        if failed:
            self._spool(failed)

    def ended(self, arrival: Arrival, outcome: Outcome) -> None:
        """Hear how a notification ended, after the commit: calls the hook, off this thread.

        It is the one place for a host that tells its own code in another way.
        """
        if isinstance(outcome, Recorded):
            if self._on_recorded is not None:
                self._on_recorded(arrival, outcome)
        elif self._on_refused is not None:
            self._on_refused(arrival, outcome)

    def _tell(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> None:
        """Tell how they ended. What is answered 503 has not: it comes again."""
        for arrival, outcome in zip(arrivals, outcomes, strict=True):
            match outcome:
                case Refused(Refusal.FAILED | Refusal.UNAVAILABLE):
                    pass
                case _:
                    self.ended(arrival, outcome)

    def _spill(self, arrival: Arrival, late: Response) -> Response | Future[Response]:
        """Keep in the spool what the backlog has no room for, and answer then."""
        self._quiet.warning(
            "No more notifications can be taken just now: answering 503, request %s.",
            arrival.request_id,
            request_id=arrival.request_id,
        )
        if self._overflow is not None:
            with suppress(Overloaded):
                answer = self._overflow.submit(arrival)
                return self._deadline.watch(answer, late=late, request_id=arrival.request_id)
        self._turn_away([arrival])
        return late

    def _put_off(self, arrivals: Sequence[Arrival]) -> list[Response]:
        self._spool(arrivals)
        return [respond(each) for each in self._turn_away(arrivals)]


_SUPPORTED = Unsupported()

_UNAVAILABLE = refuse(Refusal.UNAVAILABLE)
_UNSUPPORTED = refuse(Refusal.UNSUPPORTED)


def _leave(arrivals: Sequence[Arrival]) -> None:
    """Leave it to the provider to send the arrivals again: there is no spool."""


def _none() -> int:
    """Return how many wait in the spool: there is none."""
    return 0


def _matched(provider: Provider) -> Mapping[int, int]:
    """Return how often each secret was used, where the provider counts that, as ours does."""
    return getattr(provider, "matched", {})


def _size(arrival: Arrival) -> int:
    return len(arrival.body)


def _check_positive(**numbers: float) -> None:
    for name, value in numbers.items():
        if not 0 < value <= TIMEOUT_MAX:
            raise ConfigurationError(f"A receiver's {name} is a number above 0, not {value}.")


def _check_sweep(store: Store, *, keep_bodies: bool) -> None:
    if store.log is None:
        raise ConfigurationError("Without a log nothing is parked: leave out the sweep.")
    if not keep_bodies:
        raise ConfigurationError("Without bodies nothing can be tried again: no sweep, then.")
