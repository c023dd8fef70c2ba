"""What is done when a group fails: run it again, leave out locked rows, split it, or answer 503.

A failed transaction changed nothing, so every answer here is either the outcome
of a commit or 503, which the provider takes as "send it again". What is answered
503 is kept all the same: in the log where the work failed, else in the spool.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from random import uniform
from time import monotonic, sleep
from traceback import format_tb
from typing import Protocol

from hookrow.core.notification import Arrival, Outcome, Refusal
from hookrow.core.rules import fail
from hookrow.stores import Conflict, Locked, Rejected, StoreError
from hookrow.stores.timeouts import left

log = logging.getLogger("hookrow")

PAUSES = (0.01, 0.03, 0.1, 0.3)
"""In seconds; how long a group that met another waits before it tries again."""

PATIENCE = 5.0
"""In seconds; how long what is done by a command or by hand, and meets others, is tried again."""

REST = 1.0
"""In seconds; how long a store that could not be reached is left alone."""

OUTAGE = 3
"""In notifications; if the store is unavailable to so many in succession, it is to all."""

_UNAVAILABLE = Refusal.UNAVAILABLE.refused()

_ANSWERING = "Answering %d notifications 503%s: %s"


class Attempt(Protocol):
    """Records a group in one transaction, or raises a `StoreError`."""

    def __call__(self, arrivals: Sequence[Arrival], *, skip_locked: bool = False) -> list[Outcome]:
        """Record them all; with `skip_locked` refuse those whose rows are held."""


class Retry:
    """Makes attempts at a group until it is recorded, refused, or out of time.

    A group begins no further attempt once `seconds` have passed. Arrivals whose work
    failed are handed to `fail`, which may raise a `StoreError`; those for which there
    is no database just now, to `spool`. If the store is unavailable to a group but
    `reachable`, some of the arrivals must be the cause: they are recorded one by one.
    """

    def __init__(
        self,
        attempt: Attempt,
        *,
        fail: Callable[[Sequence[Arrival]], object],
        reachable: Callable[[], bool],
        spool: Callable[[Sequence[Arrival]], object],
        seconds: float,
    ) -> None:
        self._attempt = attempt
        self._fail = fail
        self._reachable = reachable
        self._spool = spool
        self._seconds = seconds
        self._resting_until = 0.0

    def __call__(self, arrivals: Sequence[Arrival]) -> list[Outcome]:
        """Return an outcome for each arrival. Never raises."""
        return self._record(arrivals, until=monotonic() + min(self._seconds, left()))

    def _record(self, arrivals: Sequence[Arrival], until: float) -> list[Outcome]:
        now = monotonic()
        if now < self._resting_until or now > until:
            return self._unavailable(arrivals)
        try:
            return retry_on_conflict(self._attempt, arrivals, until=until)
        except (Conflict, Locked) as error:
            log.warning(_ANSWERING, *_told(arrivals), error, extra={"request_ids": ids(arrivals)})
        except Rejected as error:
            if len(arrivals) > 1:
                return self._record_singly(arrivals, until)
            self._refused(arrivals[0], error)
        except StoreError as error:
            if monotonic() > until or not self._reachable():
                self._rest(arrivals, str(error))
            elif len(arrivals) > 1:
                return self._record_singly(arrivals, until)
            else:
                self._refused(arrivals[0], error)
            return self._unavailable(arrivals)
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing is lost by a 503
            place = "".join(format_tb(error.__traceback__))
            self._rest(arrivals, f"{type(error).__name__}, a fault to be reported, at\n{place}")
        return self._failed(arrivals, until)

    def _record_singly(self, arrivals: Sequence[Arrival], until: float) -> list[Outcome]:
        """Record one by one, unless the store is unavailable to several in succession."""
        outcomes: list[Outcome] = []
        for number, arrival in enumerate(arrivals):
            if outcomes[-OUTAGE:] == [_UNAVAILABLE] * OUTAGE:
                return outcomes + self._unavailable(arrivals[number:])
            outcomes += self._record([arrival], until)
        return outcomes

    def _refused(self, arrival: Arrival, error: StoreError) -> None:
        # No traceback: it may quote the row.
        log.error(
            "The database refuses %s: %s",
            describe(arrival),
            error,
            extra={"request_id": arrival.request_id},
        )

    def _failed(self, arrivals: Sequence[Arrival], until: float) -> list[Outcome]:
        if monotonic() > until:
            return self._unavailable(arrivals)
        try:
            self._fail(arrivals)
        except Exception as error:  # noqa: BLE001 - there is still the spool
            log.error("The log cannot be written: %s: %s", type(error).__name__, error)
            self._spool(arrivals)
        return fail(arrivals)

    def _unavailable(self, arrivals: Sequence[Arrival]) -> list[Outcome]:
        self._spool(arrivals)
        return fail(arrivals, Refusal.UNAVAILABLE)

    def _rest(self, arrivals: Sequence[Arrival], why: str) -> None:
        self._resting_until = monotonic() + REST
        log.error(_ANSWERING, *_told(arrivals), why, extra={"request_ids": ids(arrivals)})


def retry_on_conflict(
    attempt: Attempt, arrivals: Sequence[Arrival], *, until: float, skip_locked: bool = False
) -> list[Outcome]:
    """Attempt until it is done or `until` has come (of `monotonic`). Raises a `StoreError`."""
    pauses = iter(PAUSES)
    while True:
        try:
            return attempt(arrivals, skip_locked=skip_locked)
        except Conflict:
            pause = next(pauses, None)
            if pause is None or monotonic() > until:
                raise
            # Without jitter two groups that met would meet again.
            sleep(pause * uniform(0.5, 1.5))  # noqa: S311 - no secret hangs on it
        except Locked:
            if skip_locked or monotonic() > until:
                raise
            skip_locked = True


def describe(arrival: Arrival) -> str:
    """Name a notification in a log: in one line, and without a full address."""
    notification = arrival.notification
    request = f", request {arrival.request_id}" if arrival.request_id else ""
    if notification is None:
        return f"an unsupported notification{request}"
    recipient = masked(notification.recipient or "")
    what = f"{type(notification).__name__} {notification.message_id!a:.80}"
    return f"{what} of {recipient!a:.80}{request}"


def ids(arrivals: Sequence[Arrival]) -> Sequence[str]:
    """Return what a log calls the requests; what comes from the log or the spool has none."""
    return [arrival.request_id for arrival in arrivals if arrival.request_id]


def _told(arrivals: Sequence[Arrival]) -> tuple[int, str]:
    """Return how many there are, and which."""
    named = ", ".join(ids(arrivals))
    return len(arrivals), f", requests {named}" if named else ""


def masked(email: str) -> str:
    """Return the address as it may be shown: its first letter, and where it is."""
    local, at, domain = email.rpartition("@")
    return f"{(local or domain)[:1]}***{at}{domain if at else ''}"
