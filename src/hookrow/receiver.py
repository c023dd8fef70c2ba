"""The receiver: takes authentic notifications and records them.

`record` is what it does; all else here is when, in which thread and how long.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from hookrow.batch import GroupCommit, Overloaded
from hookrow.deadline import Deadline
from hookrow.decide import decide, mentioned, merge, refuse_held, wanted
from hookrow.errors import ConfigurationError
from hookrow.http import Head, Request, Response, refuse, respond
from hookrow.notification import Arrival, Notification, Outcome, Refusal
from hookrow.retry import Retry
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

    def parse(self, body: bytes) -> Notification | None:
        """Read a body; None where it holds no supported notification. Never raises."""


def record(
    store: Store, arrivals: Sequence[Arrival], *, skip_locked: bool = False
) -> list[Outcome]:
    """Find what the arrivals mention, decide on each, merge and save: one transaction.

    With `skip_locked` those whose rows are held by others are refused instead of
    waited for. Raises a `StoreError`; then nothing is changed.
    """
    with store.transaction(skip_locked=skip_locked) as transaction:
        rows = transaction.find(mentioned(arrivals))
        outcomes = [decide(arrival, rows) for arrival in arrivals]
        held = transaction.lock(wanted(outcomes))
        outcomes = refuse_held(outcomes, held)
        transaction.save(merge(outcomes))
    return outcomes


class Receiver:
    """Answers `POST <mount path>/provider/webhooks`: mount it in any host.

    A host's mount tells where it is; `mount_path` ("/mail") is for one that does
    not: a server of its own, or a route that keeps the whole path.
    `group` is the most notifications that share a commit, `backlog` the most that
    wait for one. Every answer of a queued notification comes within `deadline`
    seconds; one that is 503 by then may yet be recorded.

    Raises `ConfigurationError` where one of these is not positive, and for a mount
    path that no request could have.
    """

    blocking = False

    def __init__(
        self,
        provider: Provider,
        store: Store,
        *,
        mount_path: str = "",
        group: int = 256,
        backlog: int = 4096,
        deadline: float = 5.0,
    ) -> None:
        for name, value in (("group", group), ("backlog", backlog), ("deadline", deadline)):
            if value <= 0:
                raise ConfigurationError(f"A receiver's {name} has to be more than {value}.")
        self._provider = provider
        self._endpoint = endpoint_path(mount_path)
        self._record = Retry(partial(record, store), seconds=deadline)
        self._commit = GroupCommit(
            self._respond, group=group, backlog=backlog, weigh=lambda arrival: len(arrival.body)
        )
        self._deadline = Deadline(deadline, late=refuse(Refusal.UNAVAILABLE))

    def admit(self, head: Head) -> Response | None:
        """Refuse a head for its path, method or secret, in this order; None admits it."""
        if not head.is_at(self._endpoint):
            return refuse(Refusal.NO_SUCH_PATH)
        if head.method != "POST":
            return refuse(Refusal.METHOD_NOT_ALLOWED)
        if not self._provider.authentic(head):
            return refuse(Refusal.UNAUTHENTIC)
        return None

    def __call__(self, request: Request) -> Response | Future[Response]:
        """Record an admitted request in the receiver's thread, with all that wait there."""
        arrival = self._read(request)
        if arrival is None:
            return refuse(Refusal.UNSUPPORTED)
        try:
            return self._deadline.watch(self._commit.submit(arrival))
        except Overloaded:
            return refuse(Refusal.UNAVAILABLE)

    def answer(self, request: Request) -> Response:
        """Record an admitted request in the calling thread, and start none.

        How long that can take is for the store's own time limits to say; a database
        that stopped without a word may hold it for longer than the deadline.
        """
        arrival = self._read(request)
        return self._respond([arrival])[0] if arrival else refuse(Refusal.UNSUPPORTED)

    def close(self, timeout: float | None = None) -> None:
        """Take no more, record what waits, end the thread; wait `timeout` seconds for it."""
        self._commit.close(timeout)

    def _read(self, request: Request) -> Arrival | None:
        """Read a request; None where there is nothing to record, with or without a database."""
        notification = self._provider.parse(request.body)
        if notification is None:
            return None
        return Arrival(notification, request.body, datetime.now(UTC))

    def _respond(self, arrivals: Sequence[Arrival]) -> list[Response]:
        return [respond(outcome) for outcome in self._record(arrivals)]
