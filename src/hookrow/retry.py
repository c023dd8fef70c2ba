"""What is done when a group fails: run it again, leave out locked rows, split it, or answer 503.

A failed transaction changed nothing, so every answer here is either the outcome
of a commit or 503, which the provider takes as "send it again".
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from random import uniform
from time import monotonic, sleep
from traceback import format_tb
from typing import Protocol

from hookrow.notification import Arrival, Outcome, Refusal
from hookrow.stores import Conflict, Locked, Rejected, StoreError

log = logging.getLogger("hookrow")

PAUSES = (0.01, 0.03, 0.1, 0.3)
"""In seconds; how long a group that met another waits before it tries again."""

REST = 1.0
"""In seconds; how long a store that could not be reached is left alone."""


class Attempt(Protocol):
    """Records a group in one transaction, or raises a `StoreError`."""

    def __call__(self, arrivals: Sequence[Arrival], *, skip_locked: bool = False) -> list[Outcome]:
        """Record them all; with `skip_locked` refuse those whose rows are held."""


class Retry:
    """Makes attempts at a group until it is recorded, refused, or out of time.

    A group begins no further attempt once `seconds` have passed.
    """

    def __init__(self, attempt: Attempt, *, seconds: float) -> None:
        self._attempt = attempt
        self._seconds = seconds
        self._resting_until = 0.0

    def __call__(self, arrivals: Sequence[Arrival]) -> list[Outcome]:
        """Return an outcome for each arrival. Never raises."""
        return self._record(arrivals, until=monotonic() + self._seconds)

    def _record(self, arrivals: Sequence[Arrival], until: float) -> list[Outcome]:
        now = monotonic()
        if now < self._resting_until or now > until:
            return _unavailable(arrivals)
        try:
            return self._insist(arrivals, until)
        except Rejected as error:
            if len(arrivals) > 1:
                return [outcome for one in arrivals for outcome in self._record([one], until)]
            # No traceback: it may quote the row.
            log.error("The database refuses %s: %s", _describe(arrivals[0]), error)  # noqa: TRY400
        except (Conflict, Locked) as error:
            log.warning("Answering %d notifications 503: %s", len(arrivals), error)
        except StoreError as error:
            self._rest(arrivals, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing is lost by a 503
            place = "".join(format_tb(error.__traceback__))
            self._rest(arrivals, f"{type(error).__name__}, a fault to be reported, at\n{place}")
        return _unavailable(arrivals)

    def _insist(self, arrivals: Sequence[Arrival], until: float) -> list[Outcome]:
        pauses = iter(PAUSES)
        skip_locked = False
        while True:
            try:
                return self._attempt(arrivals, skip_locked=skip_locked)
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

    def _rest(self, arrivals: Sequence[Arrival], why: str) -> None:
        self._resting_until = monotonic() + REST
        log.error("Answering %d notifications 503: %s", len(arrivals), why)


def _unavailable(arrivals: Sequence[Arrival]) -> list[Outcome]:
    return [Refusal.UNAVAILABLE.refused()] * len(arrivals)


def _describe(arrival: Arrival) -> str:
    """Name a notification in a log: in one line, and without a full address."""
    notification = arrival.notification
    if notification is None:
        return "an unsupported notification"
    local, at, domain = (notification.recipient or "").rpartition("@")
    masked = f"{(local or domain)[:1]}***{at}{domain if at else ''}"
    return f"{type(notification).__name__} {notification.message_id!a:.80} of {masked!a:.80}"
