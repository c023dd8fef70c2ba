"""The receiver: takes authentic notifications and records them.

It lets in, and does what has to be done besides; the intake takes what was let in to its end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from os import PathLike
from threading import TIMEOUT_MAX
from traceback import format_tb
from typing import TYPE_CHECKING, Any

from hookrow.concurrency import PeriodicTask
from hookrow.core.notification import Arrival, Outcome, Recorded, Refusal, Refused
from hookrow.core.rules import is_probe
from hookrow.errors import ConfigurationError
from hookrow.http import Request, RequestHead, Response, refuse
from hookrow.observability.logging import log_refusal
from hookrow.observability.observer import COLLECT_EVERY, Gauges, Observer, Observers
from hookrow.promise import Promise
from hookrow.providers import Provider, read
from hookrow.receiver.batch import QueueFull
from hookrow.receiver.hooks import Hook
from hookrow.receiver.intake import Intake
from hookrow.receiver.retry import SWEEP_EVERY, Parked
from hookrow.stores import Store

if TYPE_CHECKING:
    from hookrow.receiver.spool import Spool

log = logging.getLogger("hookrow")

ENDPOINT = "/provider/webhooks"

COUNT_EVERY = 60.0
"""In seconds; how often the entries of the log are counted by hour."""


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
        _check_limits(group=group, backlog=backlog, deadline=deadline)
        if sweep:
            _check_sweep(store, keep_bodies=keep_bodies)
        self._provider = provider
        self.endpoint = endpoint_path(mount_path)
        """The path at which it answers, below that of its host's mount."""
        self._hooks: dict[type[Outcome], Hook[Any]] = {}
        if on_recorded is not None:
            self._hooks[Recorded] = Hook(on_recorded, "on_recorded")
        if on_refused is not None:
            self._hooks[Refused] = Hook(on_refused, "on_refused")
        self._observer = Observers(observer) if observer is not None else Observer()
        self._tasks: list[PeriodicTask] = []
        opened = None
        if spool is not None:
            opened = self._open(spool, store, bodies=keep_bodies, swept=sweep)
        self._intake = Intake(
            store,
            spool=opened,
            observer=self._observer,
            tell=self._tell,
            group=group,
            backlog=backlog,
            deadline=deadline,
            bodies=keep_bodies,
        )
        self._parked = Parked(store, store.log, provider.parse, self._tell) if store.log else None
        if self._parked is not None and sweep:
            self._tasks.append(PeriodicTask(self._parked.sweep, seconds=SWEEP_EVERY, name="sweep"))
        if store.log is not None:
            count = store.log.count_hours
            every = COUNT_EVERY
            self._tasks.append(PeriodicTask(count, seconds=every, name="hourly count", later=True))
        if observer is not None:
            self._be_watched(store, opened)

    def admit(self, head: RequestHead) -> Response | None:
        """Refuse a head for its path, method or secret, in this order; None admits it."""
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
        """Return the response of a refusal for which there is nothing to record, and tell of it."""
        self._observer.refused(head, refusal)
        log_refusal(head, refusal)
        return refuse(refusal)

    def __call__(self, request: Request) -> Response | Promise[Response]:
        """Record an admitted request in the receiver's thread, with all that wait there."""
        self.start()
        return self._intake.submit(self._arrive(request))

    def answer(self, request: Request) -> Response:
        """Record an admitted request in the calling thread, within the deadline.

        In a transaction of the host's, which no store may cut, only each statement is limited:
        a database that stopped without a word holds it for longer. To sweep, and to empty
        the spool, call `start` besides.
        """
        return self._intake.answer(self._arrive(request))

    def start(self) -> None:
        """Start to sweep and to empty the spool, where asked for: a queued request does so, too."""
        for task in self._tasks:
            task.start()

    def revisit(self, *message_ids: str) -> Promise[int]:
        """Try again what is parked for these messages: call it when their dispatches are committed.

        It is done in a thread of its own; the promise is how many were recorded, or a
        `StoreError`. What cannot be done now, or is being refused at this moment, is
        left to the sweep. Raises `ConfigurationError` where there is no log.
        """
        if self._parked is None:
            raise ConfigurationError("Without a log nothing is parked.")
        try:
            return self._parked.revisit(message_ids)
        except QueueFull:
            none: Promise[int] = Promise()
            none.set_result(0)
            return none

    def close(self, timeout: float | None = None) -> None:
        """Take no more, record what waits, end the threads; wait `timeout` seconds for each."""
        for each in (self._intake, *self._tasks, self._parked, *self._hooks.values()):
            if each is not None:
                each.close(timeout)

    def ended(self, arrival: Arrival, outcome: Outcome) -> None:
        """Hear how a notification ended, after the commit: calls the hook, off this thread.

        It is the one place for a host that tells its own code in another way.
        """
        hook = self._hooks.get(type(outcome))
        if hook is not None:
            hook(arrival, outcome)

    def _tell(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> None:
        """Tell how they ended. What is answered 503 has not: it comes again."""
        for arrival, outcome in zip(arrivals, outcomes, strict=True):
            match outcome:
                case Refused(Refusal.FAILED | Refusal.UNAVAILABLE):
                    pass
                case Refused() if is_probe(arrival):
                    pass  # `hookrow check URL` is refused on purpose
                case _:
                    self._try_ended(arrival, outcome)

    def _try_ended(self, arrival: Arrival, outcome: Outcome) -> None:
        """Call `ended`; log what it raises, because the notification is committed already."""
        try:
            self.ended(arrival, outcome)
        except Exception as error:  # noqa: BLE001 - of a host that overrides it
            place = "".join(format_tb(error.__traceback__))  # its text may quote a notification
            log.error(
                "Receiver.ended raised %s; responses are not affected. It was raised at\n%s",
                type(error).__name__,
                place,
            )

    def _arrive(self, request: Request) -> Arrival:
        head = request.head
        context = self._observer.admitted(head)
        return read(self._provider, request.body, datetime.now(UTC), head.request_id, context)

    def _open(self, path: str | PathLike[str], store: Store, *, bodies: bool, swept: bool) -> Spool:
        """Open the spool, and have it emptied."""
        from hookrow.receiver.drain import DRAIN_EVERY, Drain  # noqa: PLC0415 - sqlite3 is loaded where asked
        from hookrow.receiver.spool import Spool  # noqa: PLC0415 - as above

        spool, arrive = Spool(path), partial(read, self._provider)
        drain = Drain(spool, store, arrive, self._tell, bodies=bodies, swept=swept)
        self._tasks.append(PeriodicTask(drain, seconds=DRAIN_EVERY, name="emptying of the spool"))
        return spool

    def _be_watched(self, store: Store, spool: Spool | None) -> None:
        """Pass the gauges to the observer, and have it collect them."""
        gauges = Gauges(
            backlog=self._intake.waiting,
            spooled=spool.count if spool else int,
            secret_matches=lambda: getattr(self._provider, "matched", {}),  # ours counts them
            log=store.log,
        )
        self._observer.start(gauges)
        self._tasks.append(
            PeriodicTask(self._observer.collect, seconds=COLLECT_EVERY, name="observer")
        )


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
        raise ConfigurationError("Without a log nothing is parked: leave out the sweep.")
    if not keep_bodies:
        raise ConfigurationError("Without bodies nothing can be tried again: no sweep, then.")
