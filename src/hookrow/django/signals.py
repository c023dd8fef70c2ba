"""Signals for the project's code, sent after the commit.

The sender is `hookrow.Receiver`; the arguments are `arrival` (a `hookrow.Arrival`) and `outcome`.
Exceptions raised by a listener are logged, and do not change the response.
"""

from __future__ import annotations

from django.dispatch import Signal

from hookrow._core.notification import Arrival, Outcome
from hookrow._faults import describe_fault, log_fault
from hookrow._receiver.receiver import Receiver


class NotificationSignal(Signal):
    """Logs exceptions of listeners without their text, which Django would log."""

    def notify(self, arrival: Arrival, outcome: Outcome) -> None:
        """Send the signal. Never raises."""
        try:
            self.send_robust(Receiver, arrival=arrival, outcome=outcome)
        except Exception as error:  # noqa: BLE001 - Django cannot call an async listener in every thread
            _log(error)

    def _log_robust_failure(self, receiver: object, err: Exception) -> None:
        del receiver
        _log(err)


notification_recorded: NotificationSignal = NotificationSignal()
"""A notification was recorded; `outcome` is a `Recorded`."""

notification_refused: NotificationSignal = NotificationSignal()
"""A notification was refused; `outcome` is a `Refused`. It is not sent for a 503."""


def _log(error: Exception) -> None:
    # The template has the line, so that the rate limit does not drop another listener's.
    log_fault(error, f"A signal listener raised {describe_fault(error)}.")
