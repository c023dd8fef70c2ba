"""Log lines: what is said of each request and each group at debug level, and lines in JSON.

No line has a secret or a full address in it. Each that is about a request names its id.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from threading import RLock
from time import monotonic
from typing import Any

from hookrow.concurrency import reset_after_fork
from hookrow.core.notification import Arrival, Outcome, Recorded

log = logging.getLogger("hookrow")

INTERVAL = 10.0
"""In seconds; how long a warning or an error is not logged again."""

_MOST = 1000
"""How many messages are remembered."""


class RateLimitFilter(logging.Filter):
    """Drops a warning or an error that was logged in the last 10 seconds, whatever its values.

    When the message is logged again, it says how many were dropped. Messages are told apart by
    their templates: a message whose values matter has them in its template. What is logged at a
    lower level is not limited.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reset()

        reset_after_fork(self)

    def reset(self) -> None:
        """Forget what was logged, and create a lock, which a fork may have left held."""
        # Reentrant: a signal handler may log while its thread holds the lock.
        self._lock: AbstractContextManager[object] = RLock()
        self._limited_until: dict[tuple[int, str], float] = {}
        self._dropped: Counter[tuple[int, str]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log it."""
        if record.levelno < logging.WARNING:
            return True
        key = record.levelno, str(record.msg)
        with self._lock:
            now = monotonic()
            if now < self._limited_until.get(key, 0.0):
                self._dropped[key] += 1
                return False
            if len(self._limited_until) >= _MOST:
                self._limited_until.clear()
            self._limited_until[key] = now + INTERVAL
            if dropped := self._dropped.pop(key, 0):
                record.msg = f"{record.msg} ({dropped} more since the last one)"
            return True


rate_limit = RateLimitFilter()
log.addFilter(rate_limit)


class JSONFormatter(logging.Formatter):
    """One JSON object a line: `time` (RFC 3339, UTC), `level`, `logger`, `message`.

    A line about a request has its `request_id`, one about a group their `request_ids`;
    `error` is a traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)
        line = {
            "time": f"{at.isoformat(timespec='microseconds')}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in ("request_id", "request_ids"):
            if value := getattr(record, name, None):
                line[name] = value
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configuration(level: str, style: str) -> dict[str, Any]:
    """Return a configuration of our loggers and uvicorn's, and of no other.

    `style` is "line" or "json".
    """
    logger = {"handlers": ["stderr"], "level": level.upper(), "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {"format": "%(asctime)s %(levelname)-8s %(name)s: %(message)s"},
            "json": {"()": JSONFormatter},
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": style}},
        "filters": {"rate_limit": {"()": RateLimitFilter}},
        "loggers": {
            "hookrow": logger,
            "uvicorn": logger,
            "uvicorn.error": {"filters": ["rate_limit"]},  # it tells of every bad request
        },
    }


def detailed() -> bool:
    """Tell whether each request and each group has a line."""
    return log.isEnabledFor(logging.DEBUG)


def tell_group(arrivals: Sequence[Arrival], outcomes: Sequence[Outcome], seconds: float) -> None:
    """Say how a group ended, and of each that was refused what it was."""
    for arrival, outcome in zip(arrivals, outcomes, strict=True):
        if not isinstance(outcome, Recorded):
            log.debug(
                "Answered %d, %s: %s",
                outcome.refusal.status,
                ending(outcome),
                describe(arrival),
                extra={"request_id": arrival.request_id},
            )
    ends = Counter(map(ending, outcomes))
    requests = ids(arrivals)
    log.debug(
        "A group of %d took %.1f ms: %s; requests %s",
        len(arrivals),
        seconds * 1000,
        ", ".join(f"{count} {name}" for name, count in ends.most_common()),
        ", ".join(requests),
        extra={"request_ids": requests},
    )


def ending(outcome: Outcome) -> str:
    """Return in a word how a notification ended."""
    return "recorded" if isinstance(outcome, Recorded) else outcome.refusal.name.lower()


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


def masked(email: str) -> str:
    """Return the address as it may be shown: its first letter, and where it is."""
    local, at, domain = email.rpartition("@")
    return f"{(local or domain)[:1]}***{at}{domain if at else ''}"
