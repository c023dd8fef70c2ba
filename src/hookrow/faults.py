"""What is done when a group fails: run it again, leave out, split, or give up for now.

A failed transaction changed nothing, so every answer here is either the outcome
of a commit or 503, which the provider takes as "send it again".
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from random import uniform
from time import monotonic, sleep
from typing import Protocol

from hookrow.notification import Arrival, Outcome, Refusal, Refused
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


class Persistence:
    """Makes attempts at a group until it is recorded, refused, or out of time.

    A group begins no further attempt once `seconds` have passed.
    """

    def __init__(self, attempt: Attempt, *, seconds: float) -> None:
        self._attempt = attempt
        self._seconds = seconds
        self._resting_until = 0.0

    def __call__(self, arrivals: Sequence[Arrival]) -> list[Outcome]:
        """Return an outcome for each arrival. Never raises."""
        if monotonic() < self._resting_until:
            return _unavailable(arrivals)
        try:
            return self._insist(arrivals)
        except Rejected as error:
            if len(arrivals) > 1:
                return [outcome for arrival in arrivals for outcome in self([arrival])]
            # No traceback: it may quote the row.
            log.error("The database refuses %s: %s", _describe(arrivals[0]), error)  # noqa: TRY400
        except (Conflict, Locked) as error:
            log.warning("Answering %d notifications 503: %s", len(arrivals), error)
        except StoreError as error:
            self._rest(arrivals, error)
        except Exception as error:
            log.exception("A fault of hookrow or of a store; please report it")
            self._rest(arrivals, error)
        return _unavailable(arrivals)

    def _insist(self, arrivals: Sequence[Arrival]) -> list[Outcome]:
        until = monotonic() + self._seconds
        skip_locked = False
        for pause in PAUSES:
            try:
                return self._attempt(arrivals, skip_locked=skip_locked)
            except Conflict:
                if monotonic() > until:
                    raise
                # Without jitter two groups that met would meet again.
                sleep(pause * uniform(0.5, 1.5))  # noqa: S311 - no secret hangs on it
            except Locked:
                if skip_locked:
                    raise
                skip_locked = True
        return self._attempt(arrivals, skip_locked=skip_locked)

    def _rest(self, arrivals: Sequence[Arrival], error: Exception) -> None:
        self._resting_until = monotonic() + REST
        log.error("Answering %d notifications 503: %s", len(arrivals), error)


def _unavailable(arrivals: Sequence[Arrival]) -> list[Outcome]:
    return [Refused(Refusal.UNAVAILABLE, Refusal.UNAVAILABLE.text)] * len(arrivals)


def _describe(arrival: Arrival) -> str:
    """Name a notification in a log, where no full address may stand."""
    notification = arrival.notification
    if notification is None:
        return "an unsupported notification"
    local, _, domain = (notification.recipient or "").rpartition("@")
    kind = type(notification).__name__
    return f"{kind} {notification.message_id!r} of {local[:1]}***@{domain}"
