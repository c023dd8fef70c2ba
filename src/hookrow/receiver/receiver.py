"""The receiver: authenticates requests, and has their notifications recorded."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from os import PathLike
from threading import TIMEOUT_MAX
from traceback import format_tb
from typing import TYPE_CHECKING, Any

from hookrow.concurrency import PeriodicTask, reset_after_fork
from hookrow.core.log_entry import held_size
from hookrow.core.notification import Arrival, Outcome, Recorded, Refusal, Refused, Unsupported
from hookrow.core.sizes import CAPACITY, LARGEST_GROUP, TEXT_PER_BYTE
from hookrow.errors import ConfigurationError
from hookrow.http import Request, RequestHead, Response, endpoint_path, refuse
from hookrow.observability.logging import log_refusal
from hookrow.observability.observer import COLLECT_EVERY, Gauges, Observer, Observers
from hookrow.providers import Provider
from hookrow.receiver.batch import BatchWriter, QueueFull
from hookrow.receiver.hooks import Hook
from hookrow.receiver.responder import Responder, unavailable
from hookrow.receiver.retry import SWEEP_EVERY, ParkedRetry
from hookrow.stores import Store
from hookrow.stores.timeouts import limited_to

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from hookrow.receiver.spool import Spool

COUNT_EVERY = 60.0
"""In seconds; how often the entries of the log are counted by hour."""

RECORDING = 0.9
"""The part of the deadline that recording in the calling thread may take; the spool needs time."""

log = logging.getLogger("hookrow")


class Receiver:
    """Responds to `POST <mount path>/provider/webhooks`: a `LoopHandler` for any host.

    `mount_path` ("/mail") is for hosts that pass the whole path: a server, or a plain route. A
    host's mount reports its own path. At most `group` notifications share a commit, and at most
    `backlog` wait for one. Each response is sent within `deadline` seconds after the body was read;
    a notification that gets a 503 then may still be recorded.

    With `sweep`, parked notifications are retried every minute. `spool` is the path of a file
    that keeps notifications while the database is unavailable. Without `keep_bodies`, the log
    keeps no bodies, and nothing in it can be retried. `on_recorded` and `on_refused` are called
    with an `Arrival` and its `Outcome` after the commit, in a separate thread, each time a
    notification is processed; a 503 is not an outcome. `observer` collects metrics or traces.

    Raises `ConfigurationError` if one of the options cannot work.
    """

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
        _check_limits(group=group, backlog=backlog, deadline=deadline)
        if sweep:
            _check_sweep(store, keep_bodies=keep_bodies)
        self._provider = provider
        self.endpoint = endpoint_path(mount_path)
        """The path of the endpoint, below that of the host's mount."""
        self._hooks: dict[type[Outcome], Hook[Any]] = {}
        if on_recorded is not None:
            self._hooks[Recorded] = Hook(on_recorded, "on_recorded")
        if on_refused is not None:
            self._hooks[Refused] = Hook(on_refused, "on_refused")
        self._observer = None if observer is None else Observers(observer)
        self._has_log = store.log is not None
        opened = _open_spool(spool) if spool is not None else None
        wants_outcomes = self._hooks or type(self).on_outcome is not Receiver.on_outcome
        self._responder = Responder(
            store,
            keep_bodies=keep_bodies,
            deadline=deadline,
            spool=opened.put if opened else None,
            observer=self._observer,
            on_outcome=self.on_outcome if wants_outcomes else None,
        )
        writer = partial(
            BatchWriter[Arrival, Response],
            fallback=unavailable,
            deadline=deadline,
            group=group,
            backlog=backlog,
            capacity=CAPACITY // 2 if opened else CAPACITY,
            largest=LARGEST_GROUP // TEXT_PER_BYTE,
            size=held_size,
            on_late=self._responder.on_late,
        )
        self._deadline = deadline
        self._writer = writer(self._responder.respond)
        # The second one spools notifications if the queue of the first one is full.
        self._writers = [self._writer, *([writer(self._responder.put_off)] if opened else [])]
        self._tasks: list[PeriodicTask] = []
        self._parked = None
        if store.log is not None:
            self._parked = ParkedRetry(store, store.log, provider.parse, self._responder.notify)
            self._add_task(store.log.count_hours, COUNT_EVERY, "hourly count", later=True)
            if sweep:
                self._add_task(self._parked.retry_due, SWEEP_EVERY, "sweep")
        if opened is not None:
            self._drain(opened, store, bodies=keep_bodies, swept=sweep)
        if self._observer is not None:
            self._start_observer(self._observer, store, opened)
        self.reset()
        reset_after_fork(self)

    def admit(self, head: RequestHead) -> Response | None:
        """Check the path, the method and the secret, in this order; None admits the request."""
        if not head.is_at(self.endpoint):
            return self.refuse(head, Refusal.NO_SUCH_PATH)
        if head.method != "POST":
            return self.refuse(head, Refusal.METHOD_NOT_ALLOWED)
        if not self._provider.authentic(head):
            challenge = {"WWW-Authenticate": self._provider.challenge(head)}
            refused = self.refuse(head, Refusal.UNAUTHENTIC)
            return replace(refused, headers={**refused.headers, **challenge})
        return None

    def refuse(self, head: RequestHead, refusal: Refusal) -> Response:
        """Return the response to a request without a notification, and report the refusal."""
        if self._observer is not None:
            self._observer.refused(head, refusal)
        log_refusal(head, refusal)
        return refuse(refusal)

    def submit(
        self, request: Request, loop: AbstractEventLoop, reply: Callable[[Response], object]
    ) -> None:
        """Record an admitted request; pass the response to `reply` in the thread of the loop."""
        arrival = self._arrival(request)
        if arrival.notification is None and not self._has_log:
            reply(self._responder.refuse_unsupported(arrival))
            return
        for writer in self._writers:
            try:
                writer.submit(arrival, loop, reply)
            except QueueFull:
                continue
            return
        reply(self._responder.turn_away([arrival])[0])

    def __call__(self, request: Request) -> Response:
        """Record an admitted request, together with those of other threads, and wait: for WSGI."""
        arrival = self._arrival(request)
        if arrival.notification is None and not self._has_log:
            return self._responder.refuse_unsupported(arrival)
        for writer in self._writers:
            try:
                return writer.wait(arrival)
            except QueueFull:
                continue
        return self._responder.turn_away([arrival])[0]

    def record_directly(self, request: Request) -> Response:
        """Record an admitted request in the calling thread, within the deadline.

        In a transaction of the host, which no store may end, only each statement has a time
        limit: a database that stopped responding blocks it for longer. No task is started.
        """
        arrival = self._arrival(request, start=False)
        if arrival.notification is None and not self._has_log:
            return self._responder.refuse_unsupported(arrival)
        try:
            with limited_to(self._deadline * RECORDING):
                return self._responder.respond([arrival])[0]
        except Exception as error:  # noqa: BLE001 - a 503 loses nothing, whatever it is
            place = "".join(format_tb(error.__traceback__))  # its text may quote the notification
            log.error("Returned 503: %s, a bug, raised at\n%s", type(error).__name__, place)
            return unavailable(arrival)

    def start(self) -> None:
        """Start to retry parked notifications and to empty the spool, if configured.

        The first queued request does so, too.
        """
        started = [task.start() for task in self._tasks]
        self._started = all(started)

    def retry_now(self, *message_ids: str) -> Future[int]:
        """Retry the parked notifications of these messages, after their dispatches are committed.

        The future's result is the number that were recorded, or a `StoreError`. Notifications
        that cannot be recorded now are left to the sweep. Raises `ConfigurationError` if there
        is no log.
        """
        if self._parked is None:
            raise ConfigurationError("Without a log, nothing is parked.")
        return self._parked.retry_now(message_ids)

    def close(self, timeout: float | None = None) -> None:
        """Accept no more notifications, record those in the queue, and end all threads.

        Waits up to `timeout` seconds for each thread. Notifications that are not recorded by
        then are kept in the spool, if there is one.
        """
        self._writer.close(timeout)
        self._responder.keep_rest(self._writer.take_rest())
        for each in (*self._writers[1:], *self._tasks, self._parked, *self._hooks.values()):
            if each is not None:
                each.close(timeout)

    def reset(self) -> None:
        """Start the tasks again with the next request: threads do not survive a fork."""
        self._started = False

    def on_outcome(self, arrival: Arrival, outcome: Outcome) -> None:
        """Call the hook for an outcome, after the commit; a subclass may do something else."""
        hook = self._hooks.get(type(outcome))
        if hook is not None:
            hook(arrival, outcome)

    def _arrival(self, request: Request, *, start: bool = True) -> Arrival:
        if start and not self._started:
            self.start()
        head = request.head
        context = None if self._observer is None else self._observer.admitted(head)
        return read(self._provider, request.body, datetime.now(UTC), head.request_id, context)

    def _drain(self, spool: Spool, store: Store, *, bodies: bool, swept: bool) -> None:
        """Empty the spool from time to time."""
        from hookrow.receiver.drain import DRAIN_EVERY, Drain  # noqa: PLC0415 - loads sqlite3

        arrive, notify = partial(read, self._provider), self._responder.notify
        drain = Drain(spool, store, arrive, notify, bodies=bodies, swept=swept)
        self._add_task(drain, DRAIN_EVERY, "emptying of the spool")

    def _start_observer(self, observer: Observer, store: Store, spool: Spool | None) -> None:
        gauges = Gauges(
            backlog=self._writer.waiting,
            spooled=spool.count if spool else int,
            secret_matches=lambda: getattr(self._provider, "matched", {}),  # of Postmark
            log=store.log,
        )
        observer.start(gauges)
        self._add_task(observer.collect, COLLECT_EVERY, "observer")

    def _add_task(
        self, work: Callable[[], object], seconds: float, name: str, *, later: bool = False
    ) -> None:
        self._tasks.append(PeriodicTask(work, seconds=seconds, name=name, later=later))


def read(
    provider: Provider,
    body: bytes,
    received_at: datetime,
    request_id: str = "",
    context: object | None = None,
) -> Arrival:
    """Return the arrival of a body, supported or not."""
    notification = provider.parse(body)
    return Arrival(
        notification,
        body,
        received_at,
        unsupported=_SUPPORTED if notification is not None else provider.describe(body),
        provider=provider.name,
        request_id=request_id,
        context=context,
    )


def _open_spool(path: str | PathLike[str]) -> Spool:
    from hookrow.receiver.spool import Spool  # noqa: PLC0415 - loads sqlite3

    return Spool(path)


def _check_limits(*, group: object, backlog: object, deadline: object) -> None:
    for name, value in (("group", group), ("backlog", backlog)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigurationError(f"{name} must be an integer of at least 1, not {value!r}.")
    if isinstance(deadline, bool) or not (
        isinstance(deadline, int | float) and 0 < deadline <= TIMEOUT_MAX
    ):
        raise ConfigurationError(
            "deadline must be a number of seconds greater than 0 and at most "
            f"{TIMEOUT_MAX:.0f}, not {deadline!r}."
        )


def _check_sweep(store: Store, *, keep_bodies: bool) -> None:
    if store.log is None:
        raise ConfigurationError("Without a log, nothing is parked: leave out the sweep.")
    if not keep_bodies:
        raise ConfigurationError("Without bodies, nothing can be retried: leave out the sweep.")


_SUPPORTED = Unsupported()
