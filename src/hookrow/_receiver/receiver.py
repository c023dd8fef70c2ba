"""The receiver: authenticates requests and queues their notifications."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Never

import msgspec

from hookrow._arguments import check_email, check_texts, reject, several
from hookrow._concurrency import PeriodicTask, reset_after_fork
from hookrow._core.notification import Arrival, Key, Outcome, Refusal
from hookrow._core.optional import ALWAYS, Kinds
from hookrow._core.rules import UNSTORABLE, is_for_probes
from hookrow._faults import describe_bug, log_fault
from hookrow._http import (
    PROBE_AGENT,
    Request,
    RequestHead,
    Response,
    endpoint_path,
    refuse,
    reject_call,
)
from hookrow._observability.logging import log_refusal, log_unauthentic
from hookrow._observability.observer import COLLECT_EVERY, Gauges, Observer, Observers
from hookrow._receiver.batch import QueueFull
from hookrow._receiver.clock import Clock
from hookrow._receiver.entries import (
    NAMED_LINE,
    Entries,
    Entry,
    Parsers,
    Providers,
    Unread,
    introduce,
    log_provider_fault,
    read_entries,
    why_unread,
)
from hookrow._receiver.hooks import Hooks, OnRecorded, OnRefused
from hookrow._receiver.hourly import HourlyCount
from hookrow._receiver.manual import MAX_ENTERED_REASON, change_suppression
from hookrow._receiver.options import ReceiverOptions
from hookrow._receiver.recorder import (
    Responder,
    ResponseCollector,
    Responses,
    combine,
)
from hookrow._receiver.replay import SWEEP_EVERY, ParkedRetry
from hookrow._receiver.results import RecentResults
from hookrow.errors import ConfigurationError
from hookrow.providers._base import (
    BodyParser,
    Event,
    NotReady,
    Provider,
    ProviderFault,
    Unauthentic,
    mask,
)
from hookrow.providers._secrets import DOUBTFUL, doubt_about
from hookrow.stores._log import Origin, RequestKind
from hookrow.stores._timeouts import limited_to

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from hookrow._receiver.spool import Spool, SpoolEntry, SpoolState
    from hookrow.stores.sql import SQLStore

logger = logging.getLogger("hookrow")

PROBE_METHODS = ("GET", "HEAD")
"""The methods of requests that a provider may send to check the URL."""

DIRECT_SHARE = 0.9
"""The share of the deadline for the database, without a queue; the rest is for the spool."""


class Receiver:
    """Responds to `POST <mount path>/provider/webhooks` on any host.

    The first argument is a provider, or a mapping of several, each with a name: 1 to 64 lower-case
    ASCII letters, digits, "-" and "_". The requests of each then go to
    `<mount path>/provider/webhooks/<name>`, and those to `<mount path>/provider/webhooks` are the
    first one's. The values of a mapping may also be tenants (`Tenant`).

    The options are keyword arguments:

    * `mount_path=""` ("/mail") is for hosts that pass the whole path: a server, or a plain route. A
      host that mounts the receiver reports the mount's path.
    * `group=256`: the largest number of notifications that share a commit.
    * `backlog=4096`: the number of waiting notifications at which requests get a 503.
    * `deadline=5.0`: seconds after the body was read within which each response is sent. A
      notification that got a 503 at the deadline may still be recorded.
    * `sweep=None`: whether parked notifications are retried every minute. By default, they are if
      some provider's events get a 200 once the log has them, as those of all but Postmark do.
    * `spool=None`: the path of a file that keeps notifications while the database is unavailable.
    * `keep_bodies=True`: whether the log contains the bodies. Without its body, no notification in
      it can be retried.
    * `acknowledge_tests=False`: whether the provider's tests get a 200 instead of a 404.
    * `acknowledge_parked=None`: whether a notification that the sweep will retry gets a 200. By
      default, the provider decides (`Provider.accepts_logged`): Postmark's notifications do not.
    * `acknowledge_spooled=False`: whether a notification gets a 200 while the database is
      unavailable, once it is in the spool, for providers that do not repeat a request after a 503.
      A fifth of the deadline is then kept for the spool.
    * `on_recorded=None`, `on_refused=None`: functions, which may be async, or lists of functions.
      They are called with an `Arrival` and its `Outcome`, in a separate thread after the commit,
      each time a notification is processed; neither a 503 nor a test is an outcome.
    * `observer=None`: an observer, which collects metrics or traces, or a list of observers. The
      items of a list are called in its order.
    * `clock=None`: a function that returns a UTC datetime, for tests that freeze time. By default,
      the process's clock is corrected by the database's if they differ by more than an hour.

    Raises `ConfigurationError` if an argument is invalid.
    """

    _hourly: HourlyCount | None
    _parked: ParkedRetry | None

    def __init__(  # noqa: PLR0913 - the options, with the defaults that users see
        self,
        providers: Providers,
        store: SQLStore,
        *others: Never,
        mount_path: str = "",
        group: int = 256,
        backlog: int = 4096,
        deadline: float = 5.0,
        sweep: bool | None = None,
        spool: str | PathLike[str] | None = None,
        keep_bodies: bool = True,
        acknowledge_tests: bool = False,
        acknowledge_parked: bool | None = None,
        acknowledge_spooled: bool = False,
        on_recorded: OnRecorded = None,
        on_refused: OnRefused = None,
        observer: Observer | Sequence[Observer] | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        if others:
            raise ConfigurationError(
                "A receiver has one provider, or a mapping of several, and one store; its options "
                f"are keyword arguments: write {NAMED_LINE}."
            )
        self.entries: Entries[Provider] = read_entries(providers)
        """The providers, by name."""
        _check_parts(self.entries, store)
        self.store: SQLStore = store
        """The store that it records in."""
        self.options: ReceiverOptions = ReceiverOptions(
            mount_path=mount_path,
            group=group,
            backlog=backlog,
            deadline=deadline,
            sweep=sweep,
            spool=spool,
            keep_bodies=keep_bodies,
            acknowledge_tests=acknowledge_tests,
            acknowledge_parked=acknowledge_parked,
            acknowledge_spooled=acknowledge_spooled,
            on_recorded=on_recorded,
            on_refused=on_refused,
            observer=observer,
            clock=clock,
            has_log=store.log is not None,
            accepts_logged=any(each.provider.accepts_logged for each in self.entries),
        )
        """The validated options."""
        options = self.options
        self.endpoint: str = endpoint_path(options.mount_path)
        """The path of the endpoint, below that of the host's mount, without the name of an entry.
        """
        self.clock: Clock = Clock(store, options.clock)
        """The time by which arrivals and retries are dated."""
        self._reader = ArrivalReader(
            self.entries, store.recorded, acknowledge_tests=options.acknowledge_tests
        )
        self._hooks = Hooks(options.hooks)
        observers = several(options.observer)
        self._observer = Observers(*observers) if observers else None
        self._spool = _open_spool(options, store)
        self._responses = Responses(
            self.entries, acknowledge_parked=self.options.acknowledge_parked
        )
        self._responder = self._create_responder()
        self.results: RecentResults = self._responder.results
        """Whether the database kept the last notifications, for `hookrow serve`."""
        self._writers = self._responder.create_writers()
        self._hourly, self._parked = self._create_log_tasks()
        self._tasks = [*self._create_tasks()]
        self._start_observer()
        self.reset()
        reset_after_fork(self)

    def admit(self, head: RequestHead) -> Response | None:
        """Check the path, the method and the secret, in this order; None admits the request."""
        entry = self.entries.default if head.is_at(self.endpoint) else self._named(head)
        if entry is None:
            return self._refuse(head, Refusal.NO_SUCH_PATH, None)
        if head.method != "POST":
            return self._respond_to_probe(head, entry)
        try:
            challenge = entry.admit(head)
        except ProviderFault as fault:
            return self._refuse_faulty(head, entry, fault)
        if challenge is not None:
            return self._refuse_unauthentic(head, entry, challenge)
        if self.entries.have_names:
            head.context[self] = entry
        return None

    def max_body(self, head: RequestHead) -> int:
        """Return the largest size of the body of an admitted request, in bytes."""
        return self._entry_of(head).provider.max_body

    def refuse(self, head: RequestHead, refusal: Refusal) -> Response:
        """Return the response to a request that an entry refuses before parsing, and report it."""
        return self._refuse(head, refusal, self._entry_of(head).name)

    def submit(
        self, request: Request, loop: AbstractEventLoop, reply: Callable[[Response], object]
    ) -> None:
        """Record an admitted request; pass the response to `reply` in the thread of the loop."""
        arrivals = self._arrivals(request)
        if isinstance(arrivals, Response):
            reply(arrivals)
            return
        if len(arrivals) > 1:
            reply = ResponseCollector(len(arrivals), reply)
        kept = self._refuse_unlogged(arrivals, reply)
        for writer in self._writers if kept else ():
            try:
                writer.submit(kept, loop, reply)
            except QueueFull:
                continue
            return
        for response in self._responder.refuse_overflow(kept) if kept else ():
            reply(response)

    def __call__(self, request: Request, *others: object) -> Response:
        """Record an admitted request with those of other threads; wait for the response."""
        if others or not isinstance(request, Request):
            return reject_call("receiver", self, request, *others)
        arrivals = self._arrivals(request)
        if isinstance(arrivals, Response):
            return arrivals
        responses: list[Response] = []
        kept = self._refuse_unlogged(arrivals, responses.append)
        return combine(responses + self._wait(kept))

    def record_directly(self, request: Request) -> Response:
        """Record an admitted request in the calling thread, within the deadline.

        In a transaction of the host, which no store may end, only single statements have a time
        limit: a database that stops responding blocks the call for longer. No task is started.
        """
        arrivals = self._arrivals(request, start=False)
        return arrivals if isinstance(arrivals, Response) else self._record_directly(arrivals)

    def record_body(self, body: bytes, entry: str | None = None) -> Response:
        """Record the events in the body of a request that other code has authenticated.

        `entry` is the name of the entry whose provider reads the body: by default, the first one.
        **Nothing is verified**, so pass no body that anyone else may have sent. The events are
        recorded as by `record_directly`, with its limits. The response is a 503 if the provider
        fails to read the body. Raises `ConfigurationError` if no entry has the name.
        """
        named = self.entries.default if entry is None else self.entries.named(entry)
        if named is None:
            names = ", ".join(map(repr, self.entries.names))
            remedy = f"use {names}" if names else "its only provider has no name, so pass none"
            raise ConfigurationError(f"The receiver has no entry {entry!r}: {remedy}.")
        now = self.clock.uncorrected()
        try:
            arrivals = self._reader.arrivals(named, named.read_body(body), now)
        except ProviderFault as fault:
            log_provider_fault(fault, "Returned 503: %s")
            return refuse(Refusal.NOT_READY)
        return self._record_directly(arrivals)

    def can_spool(self) -> bool:
        """Return whether there is a spool, and the last write to it, if any, succeeded."""
        return self._spool is not None and self._spool.accepts

    def spool_state(self) -> SpoolState | None:
        """Return the state of the spool, or None without one. Raises one of `SPOOL_ERRORS`."""
        return None if self._spool is None else self._spool.state()

    def start(self) -> None:
        """Start the periodic tasks, such as the sweep. The first queued request also does this."""
        started = [task.start() for task in self._tasks]
        self._started = all(started)

    def retry_now(self, *message_ids: str) -> Future[int]:
        """Retry the parked notifications of these messages, whose dispatches are now committed.

        The future's `result()` returns the number of recorded notifications, or raises a
        `StoreError`. The sweep retries the others later. Raises `ConfigurationError` without a log,
        and if an id is not a string.
        """
        if self._parked is None:
            raise ConfigurationError("Without a log, no notification is parked: add a log.")
        for each in message_ids:
            if not isinstance(each, str):
                reject("A message id", "a string", each, "receiver.retry_now(*message_ids)")
        return self._parked.retry_now(message_ids)

    def suppress(
        self,
        email: str,
        *,
        reason: str,
        by: str,
        message_id: str | None = None,
        entry: str | None = None,
    ) -> Outcome:
        """Suppress a subscriber, as a user of the dashboard does; return the outcome.

        The change is recorded as a notification: the same rules apply, the log has it, and a replay
        repeats it. `reason` is stored on the row, and has at most 200 characters; `by` names the
        author in the log. With a message id, its dispatch and the subscription to the dispatch's
        list are suppressed, too, if they exist. If the receiver has several entries, the log has
        the name `entry`; if these are tenants, it is required, and only rows of its tenant change.
        The provider is not told, and no hook is called.

        The outcome is a `Recorded`, or a `Refused`, for example without such a subscriber. A change
        that is refused is parked like a notification: if the subscriber is added within three days,
        a sweep or a replay records the change. The method waits for the database, and for rows
        that others have locked: in an event loop, call it with `asyncio.to_thread`. Raises
        `ConfigurationError` for an invalid argument, and a `StoreError` if the change cannot be
        recorded now, or if the database rejects it, because the reason is too long for its column
        for example.
        """
        return self._change(email, reason, by, message_id, entry, suppress=True)

    def lift(
        self,
        email: str,
        *,
        reason: str,
        by: str,
        message_id: str | None = None,
        entry: str | None = None,
    ) -> Outcome:
        """Lift the suppression of a subscriber, as `suppress` suppresses; return the outcome.

        The log has the `reason`; the row then has none.
        """
        return self._change(email, reason, by, message_id, entry, suppress=False)

    def close(self, timeout: float | None = None) -> None:
        """Accept no more notifications, record those in the queue, and end all threads.

        Waits up to `timeout` seconds for each thread. Notifications that are not recorded by
        then are kept in the spool, if there is one; calls of hooks that have not ended are dropped.
        """
        writer, *overflow = self._writers
        writer.close(timeout)
        self._responder.spool_rest(writer.drain_queue())
        self._responder.locked.close(timeout)
        self._responder.spool_rest(self._responder.locked.drain_queue())
        # Closing the retries first also ends the sweep, which is one of the tasks. The hooks come
        # last, because the others call them.
        for each in (*overflow, self._parked, *self._tasks, self._hooks):
            if each is not None:
                each.close(timeout)

    def reset(self) -> None:
        """Let the next request start the tasks again, because threads do not survive a fork."""
        self._started = False

    def on_outcome(self, arrival: Arrival, outcome: Outcome) -> None:
        """Call the hook for an outcome, after the commit. Subclasses may override this."""
        self._hooks(arrival, outcome)

    def _count_requests(self, kind: RequestKind, entry: str | None, number: int = 1, /) -> None:
        """Count requests that the log does not show. Subclasses may override this.

        `entry` is the name of the entry, or None if the receiver has a single provider.
        """
        if self._hourly is not None:
            self._hourly.add(kind, entry, self.clock(), number)

    def _create_responder(self) -> Responder:
        is_overridden = type(self).on_outcome is not Receiver.on_outcome
        return Responder(
            self.store,
            self.options,
            clock=self.clock,
            responses=self._responses,
            spool=self._spool.put if self._spool else None,
            observer=self._observer,
            on_outcome=self.on_outcome if self._hooks or is_overridden else None,
            count_unavailable=partial(self._count_requests, RequestKind.UNAVAILABLE),
        )

    def _create_log_tasks(self) -> tuple[HourlyCount, ParkedRetry] | tuple[None, None]:
        """Create the count and the retries of the log, if there is one."""
        store, log, entries = self.store, self.store.log, self.entries
        if log is None:
            return None, None
        hourly = HourlyCount(
            log, lambda: {each.name: each.provider.old_matches for each in entries}, self.clock
        )
        return hourly, ParkedRetry(store, log, entries, self._responder.notify, self.clock)

    def _create_tasks(self) -> Iterator[PeriodicTask]:
        """Yield the tasks that run from the first request until `close`."""
        if self._hourly is not None:
            yield self._hourly
        if self._parked is not None and self.options.sweeps:
            yield PeriodicTask(self._parked.retry_due, seconds=SWEEP_EVERY, name="sweep")
        if self._observer is not None:
            yield PeriodicTask(self._observer.collect, seconds=COLLECT_EVERY, name="observer")
        if self._spool is not None:
            yield self._create_drain(self._spool)

    def _create_drain(self, spool: Spool) -> PeriodicTask:
        from hookrow._receiver import spool as spools  # noqa: PLC0415 - loads sqlite3

        drain = spools.Drain(
            spool,
            self.store,
            self._reader.parse,
            self._responder.notify,
            self.clock,
            bodies=self.options.keep_bodies,
            swept=self.options.sweeps,
        )
        return PeriodicTask(
            drain,
            seconds=spools.DRAIN_EVERY,
            name="draining of the spool",
            expected=spools.SPOOL_ERRORS,
        )

    def _start_observer(self) -> None:
        """Pass the gauges to the observer."""
        if self._observer is None:
            return
        gauges = Gauges(
            backlog=self._writers[0].waiting,
            spooled=self._spool.count if self._spool else int,
            secret_matches=lambda: {each.name: each.provider.matched for each in self.entries},
            log=self.store.log,
        )
        self._observer.start(gauges)

    def _change(
        self,
        email: str,
        reason: str,
        by: str,
        message_id: str | None,
        entry: str | None,
        *,
        suppress: bool,
    ) -> Outcome:
        check_email(email)
        texts = {"reason": reason, "by": by}
        if message_id is not None:
            texts["message_id"] = message_id
        check_texts(**texts)
        for name, text in {"email": email, **texts}.items():
            if UNSTORABLE.search(text):
                raise ConfigurationError(
                    f"{name} contains NUL or an unpaired surrogate, which no row can contain."
                )
        if len(reason) > MAX_ENTERED_REASON:
            raise ConfigurationError(
                f"reason must have at most {MAX_ENTERED_REASON} characters, not {len(reason)}."
            )
        return change_suppression(
            self.store,
            email,
            reason=reason if suppress else None,
            by=by,
            at=self.clock(),
            message_id=message_id,
            note=reason,
            bodies=self.options.keep_bodies,
            entry=entry,
            tenant=self._tenant_of(entry),
        )

    def _tenant_of(self, name: str | None) -> Key | None:
        """Return the tenant of an entry. Raises `ConfigurationError` if the name is no entry's."""
        names = ", ".join(repr(each.name) for each in self.entries if each.name is not None)
        if name is None:
            if self.entries.have_tenants:
                raise ConfigurationError(f"Each entry is a tenant: pass entry=, one of {names}.")
            return None
        found = self.entries.named(name)
        if found is None:
            known = f"its entries are {names}" if names else "it has a single provider"
            raise ConfigurationError(f"The receiver has no entry {name!r}: {known}.")
        return found.tenant

    def _named(self, head: RequestHead) -> Entry[Provider] | None:
        """Return the entry whose name is in the path of a request, or None."""
        name = head.path.removesuffix("/").rpartition("/")[2]
        entry = self.entries.named(name)
        return entry if entry is not None and head.is_at(f"{self.endpoint}/{name}") else None

    def _entry_of(self, head: RequestHead) -> Entry[Provider]:
        """Return the entry of an admitted request.

        Raises `ConfigurationError` if `admit` has not admitted it, because a request for one entry
        must never change the rows of another.
        """
        if not self.entries.have_names:
            return self.entries.default
        entry: Entry[Provider] | None = head.context.get(self)
        if entry is None:
            raise ConfigurationError(
                "The receiver has not admitted this request, so its entry is not known: call "
                "receiver.admit(head) first, and pass the same head with the body if the result is "
                "None."
            )
        return entry

    def _respond_to_probe(self, head: RequestHead, entry: Entry[Provider]) -> Response:
        """Return the response to a request that is not a POST: the provider's, or a 405."""
        try:
            if head.method in PROBE_METHODS and (response := entry.probe(head)) is not None:
                return response
            allowed = [
                method
                for method in PROBE_METHODS
                if method != head.method
                and entry.probe(msgspec.structs.replace(head, method=method)) is not None
            ]
        except ProviderFault as fault:
            return self._refuse_faulty(head, entry, fault)
        refused = self._refuse(head, Refusal.METHOD_NOT_ALLOWED, entry.name)
        return replace(refused, headers={**refused.headers, "Allow": ", ".join([*allowed, "POST"])})

    def _refuse(self, head: RequestHead, refusal: Refusal, entry: str | None) -> Response:
        """Return the response to a request, and report the refusal by the entry of this name."""
        if self._observer is not None:
            self._observer.refused(head, refusal, entry)
        log_refusal(head, refusal)
        return refuse(refusal)

    def _refuse_unauthentic(
        self, head: RequestHead, entry: Entry[Provider], challenge: str
    ) -> Response:
        if head.header("User-Agent") != PROBE_AGENT:
            self._count_requests(_unauthentic_kind(challenge), entry.name)
        if self._observer is not None:
            self._observer.refused(head, Refusal.UNAUTHENTIC, entry.name)
        log_unauthentic(head, entry.name, _describe_unauthentic(head, entry))
        refused = refuse(Refusal.UNAUTHENTIC)
        return replace(refused, headers={**refused.headers, "WWW-Authenticate": challenge})

    def _arrivals(self, request: Request, *, start: bool = True) -> Sequence[Arrival] | Response:
        """Return the arrivals in a request, at least one, or the response to a request without."""
        if start and not self._started:
            self.start()
        head = request.head
        entry = self._entry_of(head)
        context = None if self._observer is None else self._observer.admitted(head)
        now = self.clock.uncorrected()
        try:
            events = entry.read(request)
            arrivals = self._reader.arrivals(entry, events, now, head.request_id, context)
        except Unauthentic as error:
            return self._refuse_unauthentic(head, entry, error.challenge)
        except NotReady:
            return self._refuse(head, Refusal.NOT_READY, entry.name)
        except ProviderFault as fault:
            return self._refuse_faulty(head, entry, fault)
        if len(arrivals) == 1 and is_for_probes(arrivals[0]):
            is_probe = head.header("User-Agent") == PROBE_AGENT
            arrivals = [msgspec.structs.replace(arrivals[0], is_probe=is_probe)]
        return arrivals or combine([])

    def _refuse_faulty(
        self, head: RequestHead, entry: Entry[Provider], fault: ProviderFault
    ) -> Response:
        """Return a 503, after which the provider sends the request again; log the fault."""
        log_provider_fault(fault, "Returned 503: %s")
        return self._refuse(head, Refusal.NOT_READY, entry.name)

    def _refuse_unlogged(
        self, arrivals: Sequence[Arrival], reply: Callable[[Response], object]
    ) -> Sequence[Arrival]:
        """Reply to the arrivals that only a log could keep; return the others."""
        if self.store.log is not None:
            return arrivals
        for each in arrivals:
            if not each.notifications:
                reply(self._responder.refuse_unsupported(each))
        return [each for each in arrivals if each.notifications]

    def _record_directly(self, arrivals: Sequence[Arrival]) -> Response:
        """Record arrivals in the calling thread; return the response to all of them."""
        responses: list[Response] = []
        kept = self._refuse_unlogged(arrivals, responses.append)
        try:
            seconds = min(self.options.deadline * DIRECT_SHARE, self.options.database_seconds)
            with limited_to(seconds):
                return combine(responses + (self._responder.wait(kept) if kept else []))
        except Exception as error:  # noqa: BLE001 - after a 503, the provider sends it again
            log_fault(error, "Returned 503: %s", describe_bug(error))
            return combine([*map(self._responses.unavailable, arrivals)])

    def _wait(self, arrivals: Sequence[Arrival]) -> list[Response]:
        """Record the arrivals of a request together; wait for the responses."""
        if not arrivals:
            return []
        for writer in self._writers:
            with suppress(QueueFull):
                return writer.wait(arrivals)
        return self._responder.refuse_overflow(arrivals)


def _describe_unauthentic(head: RequestHead, entry: Entry[Provider]) -> str | None:
    """Return why a request got a 401, or None if the provider does not describe it; log that."""
    try:
        return entry.describe_unauthentic(head)
    except ProviderFault as fault:
        log_provider_fault(fault, "%s")
        return None


def _unauthentic_kind(challenge: str) -> RequestKind:
    """Return the kind of a request that got a 401, by the error that the challenge states.

    The challenges of the built-in providers state one.
    """
    for kind, error in _ERRORS.items():
        if f'error="{error}"' in challenge:
            return kind
    return RequestKind.WRONG_SECRET


_ERRORS = {RequestKind.MISSING_SECRET: "missing", RequestKind.EXPIRED: "expired"}
"""The errors in challenges, besides wrong secrets and signatures."""


def _check_parts(entries: Entries[Provider], store: SQLStore) -> None:
    """Raise `ConfigurationError` for a store that does not fit; warn of doubtful secrets."""
    from hookrow.stores.sql._store import check_store  # noqa: PLC0415 - loads sqlite3

    check_store(store)
    introduce(entries, store)
    if entries.have_tenants:
        _warn_of_shared_secrets(entries)
    secrets = [secret for each in entries for secret in each.provider.secrets]
    for doubt in filter(None, map(doubt_about, secrets)):
        logger.warning(DOUBTFUL.format(doubt))


def _warn_of_shared_secrets(entries: Entries[Provider]) -> None:
    """Warn of a secret that several tenants use: a request at the wrong path is then another's."""
    first: dict[str, Entry[Provider]] = {}
    for entry in entries:
        for secret in entry.provider.secrets:
            other = first.setdefault(secret, entry)
            if other.tenant != entry.tenant:
                logger.warning(
                    "The entries %s and %s have the same secret, although they are different "
                    "tenants: a webhook with the wrong URL would change the other one's rows. Use "
                    "a separate secret for each.",
                    other.name,
                    entry.name,
                )


def _open_spool(options: ReceiverOptions, store: SQLStore) -> Spool | None:
    """Return the spool of a store, if there is one. Raises `ConfigurationError`."""
    if options.spool is None:
        return None
    from hookrow._receiver.spool import Spool  # noqa: PLC0415 - loads sqlite3

    return Spool(options.spool, store.mapping_key)


class ArrivalReader:
    """Turns events into arrivals, which are unsupported unless their kind is `recorded`.

    `parsers` are the receiver's entries.
    """

    def __init__(
        self, parsers: Parsers, recorded: Kinds = ALWAYS, *, acknowledge_tests: bool = False
    ) -> None:
        self._parsers = parsers
        self._recorded = recorded
        self._acknowledge_tests = acknowledge_tests

    def parse(self, spooled: SpoolEntry, received_at: datetime) -> Arrival:
        """Return the arrival of an event in the spool. Raises `Unread` and `ProviderFault`."""
        entry = self._parsers.find(spooled.entry, spooled.provider)
        if entry is None:
            why, remedy = why_unread(Origin(spooled.entry, spooled.provider), self._parsers)
            raise Unread(f"{why}. {remedy}, or start a receiver that has it with this spool.")
        [arrival] = self.arrivals(entry, [entry.parse(spooled.body)], received_at)
        return arrival

    def arrivals(
        self,
        entry: Entry[BodyParser],
        events: Sequence[Event],
        received_at: datetime,
        request_id: str = "",
        context: object | None = None,
    ) -> list[Arrival]:
        """Return the arrivals of events at an entry, supported or not. Raises `ProviderFault`."""
        arrivals = []
        for event in events:
            kept, record_type = mask(event, self._recorded)
            arrival = Arrival(
                kept.notifications,
                kept.body,
                received_at,
                unsupported=kept.unsupported,
                provider=entry.provider.name,
                entry=entry.name,
                tenant=entry.tenant,
                request_id=request_id,
                context=context,
                event_id=kept.event_id,
                record_type=record_type,
                trace_id=kept.trace_id,
                is_test=self._acknowledge_tests and entry.is_test(kept),
            )
            arrivals.append(arrival)
        return arrivals


def check_receiver(name: str, value: object) -> None:
    """Raise `ConfigurationError` for an argument of the function `name` that is no receiver."""
    if not isinstance(value, Receiver):
        reject(f"The argument of {name}()", "a receiver", value, f"{name}(receiver)")
