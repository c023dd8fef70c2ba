"""The receiver: authenticates requests and queues their notifications."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING

from hookrow.concurrency import PeriodicTask, reset_after_fork
from hookrow.core.log_entry import memory_size
from hookrow.core.notification import Arrival, Outcome, Recorded, Refusal, Refused, Unsupported
from hookrow.core.sizes import CAPACITY, LARGEST_GROUP, TEXT_PER_BYTE, check_options
from hookrow.errors import ConfigurationError
from hookrow.http import Request, RequestHead, Response, endpoint_path, refuse
from hookrow.observability.logging import describe_bug, log_refusal
from hookrow.observability.observer import COLLECT_EVERY, Gauges, Observer, Observers
from hookrow.providers import Provider, secret_matches
from hookrow.receiver.batch import BatchWriter, QueueFull
from hookrow.receiver.hooks import Hook, Hooks
from hookrow.receiver.hourly import HourlyCount
from hookrow.receiver.responder import Responder, unavailable
from hookrow.receiver.retry import SWEEP_EVERY, ParkedRetry
from hookrow.stores import Store
from hookrow.stores.timeouts import limited_to

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from hookrow.receiver.spool import Spool

log = logging.getLogger("hookrow")


class Receiver:
    """Responds to `POST <mount path>/provider/webhooks`: a `LoopHandler` for any host.

    `mount_path` ("/mail") is for hosts that pass the whole path: a server, or a plain route. A host
    that mounts the receiver reports the mount's path. At most `group` notifications share a commit,
    and at most `backlog` wait for one. Each response is sent within `deadline` seconds after the
    body was read; a notification that got a 503 at the deadline may still be recorded.

    With `sweep`, parked notifications are retried every minute. `spool` is the path of a file
    that keeps notifications while the database is unavailable. Without `keep_bodies`, the log
    contains no bodies, and no notification in it can be retried. `on_recorded` and `on_refused`,
    which may be async, are called with an `Arrival` and its `Outcome`, in a separate thread after
    the commit, each time a notification is processed; a 503 is not an outcome. `observer` collects
    metrics or traces.

    Raises `ConfigurationError` if an option is invalid.
    """

    def __init__(  # noqa: PLR0913 - keyword arguments, each with a default
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
        check_options(group=group, backlog=backlog, deadline=deadline)
        if sweep and store.log is None:
            raise ConfigurationError("The sweep needs a log: add a log, or omit `sweep`.")
        if sweep and not keep_bodies:
            raise ConfigurationError("The sweep needs bodies: keep them, or omit `sweep`.")
        self.endpoint = endpoint_path(mount_path)
        """The path of the endpoint, below that of the host's mount."""
        self.provider, self.store = provider, store
        """The arguments, for `hookrow --app`."""
        self._deadline = deadline
        self._has_log = store.log is not None
        given: dict[type[Outcome], Hook | None] = {Recorded: on_recorded, Refused: on_refused}
        hooks = {kind: hook for kind, hook in given.items() if hook is not None}
        self._hooks = Hooks(hooks)
        self._observer = None if observer is None else Observers(observer)
        opened = _open_spool(spool) if spool is not None else None
        needs_outcomes = hooks or type(self).on_outcome is not Receiver.on_outcome
        self._responder = Responder(
            store,
            keep_bodies=keep_bodies,
            deadline=deadline,
            spool=opened.put if opened else None,
            observer=self._observer,
            on_outcome=self.on_outcome if needs_outcomes else None,
        )
        self._writers = self._create_writers(group, backlog, overflow=opened is not None)
        self._parked = self._hourly = None
        if store.log is not None:
            self._hourly = HourlyCount(store.log)
            self._parked = ParkedRetry(store, store.log, provider.parse, self._responder.notify)
        if self._observer is not None:
            self._observer.start(
                Gauges(
                    backlog=self._writers[0].waiting,
                    spooled=opened.count if opened else int,
                    secret_matches=partial(secret_matches, provider),
                    log=store.log,
                )
            )
        self._tasks = [*self._create_tasks(store, opened, bodies=keep_bodies, sweep=sweep)]
        self.reset()
        reset_after_fork(self)

    def admit(self, head: RequestHead) -> Response | None:
        """Check the path, the method and the secret, in this order; None admits the request."""
        if not head.is_at(self.endpoint):
            return self.refuse(head, Refusal.NO_SUCH_PATH)
        if head.method != "POST":
            return self.refuse(head, Refusal.METHOD_NOT_ALLOWED)
        if not self.provider.authentic(head):
            self.on_unauthentic()
            challenge = {"WWW-Authenticate": self.provider.challenge(head)}
            refused = self.refuse(head, Refusal.UNAUTHENTIC)
            return replace(refused, headers={**refused.headers, **challenge})
        return None

    def refuse(self, head: RequestHead, refusal: Refusal) -> Response:
        """Return the response to a request that was refused before parsing, and report it."""
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
        reply(self._responder.refuse_overflow([arrival])[0])

    def __call__(self, request: Request) -> Response:
        """Record an admitted request with those of other threads; wait for the response."""
        arrival = self._arrival(request)
        if arrival.notification is None and not self._has_log:
            return self._responder.refuse_unsupported(arrival)
        for writer in self._writers:
            try:
                return writer.wait(arrival)
            except QueueFull:
                continue
        return self._responder.refuse_overflow([arrival])[0]

    def record_directly(self, request: Request) -> Response:
        """Record an admitted request in the calling thread, within the deadline.

        In a transaction of the host, which no store may end, only single statements have a time
        limit: a database that stops responding blocks the call for longer. No task is started.
        """
        arrival = self._arrival(request, start=False)
        if arrival.notification is None and not self._has_log:
            return self._responder.refuse_unsupported(arrival)
        try:
            with limited_to(self._deadline * 0.9):  # the rest of the time is for the spool
                return self._responder.respond([arrival])[0]
        except Exception as error:  # noqa: BLE001 - after a 503, the provider sends it again
            log.error("Returned 503: %s", describe_bug(error))
            return unavailable(arrival)

    def start(self) -> None:
        """Start the periodic tasks, such as the sweep. The first queued request also does this."""
        started = [task.start() for task in self._tasks]
        self._started = all(started)

    def retry_now(self, *message_ids: str) -> Future[int]:
        """Retry the parked notifications of these messages, whose dispatches are now committed.

        The future's `result()` returns the number of recorded notifications, or raises a
        `StoreError`. The sweep retries the others later. Raises `ConfigurationError` without a log.
        """
        if self._parked is None:
            raise ConfigurationError("Without a log, no notification is parked: add a log.")
        return self._parked.retry_now(message_ids)

    def close(self, timeout: float | None = None) -> None:
        """Accept no more notifications, record those in the queue, and end all threads.

        Waits up to `timeout` seconds for each thread. Notifications that are not recorded by
        then are kept in the spool, if there is one; calls of hooks that have not ended are dropped.
        """
        writer, *overflow = self._writers
        writer.close(timeout)
        self._responder.spool_rest(writer.take_rest())
        for each in (*overflow, *self._tasks, self._parked, self._hooks):
            if each is not None:
                each.close(timeout)

    def reset(self) -> None:
        """Let the next request start the tasks again, because threads do not survive a fork."""
        self._started = False

    def on_outcome(self, arrival: Arrival, outcome: Outcome) -> None:
        """Call the hook for an outcome, after the commit. Subclasses may override this."""
        self._hooks(arrival, outcome)

    def on_unauthentic(self) -> None:
        """Count a request without a valid secret. Subclasses may override this."""
        if self._hourly is not None:
            self._hourly.add_unauthentic(datetime.now(UTC))

    def _arrival(self, request: Request, *, start: bool = True) -> Arrival:
        if start and not self._started:
            self.start()
        head = request.head
        context = None if self._observer is None else self._observer.admitted(head)
        return read(self.provider, request.body, datetime.now(UTC), head.request_id, context)

    def _create_writers(
        self, group: int, backlog: int, *, overflow: bool
    ) -> list[BatchWriter[Arrival, Response]]:
        """Create the writer and, if there is a spool, another that spools if the queue is full."""
        works = [self._responder.respond, self._responder.spool_overflow]
        return [
            BatchWriter[Arrival, Response](
                work,
                fallback=unavailable,
                deadline=self._deadline,
                group=group,
                backlog=backlog,
                capacity=CAPACITY // 2 if overflow else CAPACITY,
                largest=LARGEST_GROUP // TEXT_PER_BYTE,
                size=memory_size,
                on_late=self._responder.on_late,
            )
            for work in (works if overflow else works[:1])
        ]

    def _create_tasks(
        self, store: Store, spool: Spool | None, *, bodies: bool, sweep: bool
    ) -> Iterator[PeriodicTask]:
        task = PeriodicTask
        if self._hourly is not None:
            yield self._hourly
        if self._parked is not None and sweep:
            yield task(self._parked.retry_due, seconds=SWEEP_EVERY, name="sweep")
        if spool is not None:
            from hookrow.receiver.drain import DRAIN_EVERY, Drain  # noqa: PLC0415 - loads sqlite3

            read_body, notify = partial(read, self.provider), self._responder.notify
            drain = Drain(spool, store, read_body, notify, bodies=bodies, swept=sweep)
            yield task(drain, seconds=DRAIN_EVERY, name="draining of the spool")
        if self._observer is not None:
            yield task(self._observer.collect, seconds=COLLECT_EVERY, name="observer")


def read(
    provider: Provider,
    body: bytes,
    received_at: datetime,
    request_id: str = "",
    context: object | None = None,
) -> Arrival:
    """Parse a body, and return its arrival, whether or not the notification is supported."""
    notification = provider.parse(body)
    return Arrival(
        notification,
        body,
        received_at,
        unsupported=Unsupported() if notification is not None else provider.describe(body),
        provider=provider.name,
        request_id=request_id,
        context=context,
    )


def _open_spool(path: str | PathLike[str]) -> Spool:
    from hookrow.receiver.spool import Spool  # noqa: PLC0415 - loads sqlite3

    return Spool(path)
