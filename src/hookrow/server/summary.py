"""The line that `serve` logs each minute about the notifications it received."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from threading import Lock

from hookrow.core.notification import Arrival, Outcome, Refusal
from hookrow.describe import pluralize
from hookrow.http import RequestHead
from hookrow.observability.logging import outcome_name
from hookrow.observability.observer import GroupEnd, Observer

logger = logging.getLogger("hookrow")


class MinuteSummary(Observer):
    """Counts outcomes by group, and requests without a valid secret, until `log_counts`."""

    def __init__(self) -> None:
        self._lock = Lock()  # for the writer's thread, the event loop and that of the task
        self._outcomes: Counter[str] = Counter()
        self._unauthentic = 0

    def refused(self, head: RequestHead, refusal: Refusal) -> None:
        """Count a request without a valid secret."""
        del head
        if refusal is Refusal.UNAUTHENTIC:
            with self._lock:
                self._unauthentic += 1

    def begin_group(
        self, arrivals: Sequence[Arrival], contexts: Sequence[object | None]
    ) -> GroupEnd:
        """Return the function that counts the outcomes of the group."""
        del arrivals, contexts
        return self._count

    def log_counts(self) -> None:
        """Log the counts since the last call, one minute ago, unless there are none."""
        with self._lock:
            outcomes, self._outcomes = self._outcomes, Counter()
            unauthentic, self._unauthentic = self._unauthentic, 0
        if not outcomes and not unauthentic:
            return
        text = f"Received {pluralize(outcomes.total(), 'notification')} in the last minute"
        if outcomes:
            text += ": " + ", ".join(f"{count:,} {name}" for name, count in outcomes.most_common())
        if unauthentic:
            text += f"; {pluralize(unauthentic, 'request')} without a valid secret"
        logger.info("%s.", text)

    def _count(self, outcomes: Sequence[Outcome | None]) -> None:
        with self._lock:
            self._outcomes.update(outcome_name(each) for each in outcomes if each is not None)
