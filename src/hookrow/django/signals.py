"""Signals: the host's own code hears how a notification ended, after the commit.

Each is sent with `arrival` (a `hookrow.Arrival`) and `outcome`, by `hookrow.Receiver`.
What a receiver of one raises is logged by Django, and changes no answer.
"""

from __future__ import annotations

import logging

from django.dispatch import Signal

from hookrow.notification import Arrival, Outcome, Recorded
from hookrow.receiver import Receiver

log = logging.getLogger("hookrow")

notification_recorded = Signal()
"""It was processed; `outcome` is a `Recorded`."""

notification_refused = Signal()
"""It was not; `outcome` is a `Refused`. What is answered 503 has not ended, and is not sent."""


def heard(outcome: Outcome) -> bool:
    """Tell whether anybody listens to how it ended."""
    return _of(outcome).has_listeners(Receiver)


def send(arrival: Arrival, outcome: Outcome) -> None:
    """Tell whoever listens. Never raises."""
    try:
        _of(outcome).send_robust(Receiver, arrival=arrival, outcome=outcome)
    except Exception as error:  # noqa: BLE001 - Django cannot log what an object without a name raises
        log.error("A receiver of a signal raised %s.", type(error).__name__)  # noqa: TRY400 - a traceback may quote what it says


def _of(outcome: Outcome) -> Signal:
    return notification_recorded if isinstance(outcome, Recorded) else notification_refused
