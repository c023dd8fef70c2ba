"""Logging: lines about requests and groups, the JSON format, and the rate limit.

No line contains a secret or a full email address. Each line about a request contains its id.
All lines go to the logger `hookrow`, which the host configures.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from hookrow._core.notification import Arrival, Outcome, Recorded, Refusal, Refused, first_of
from hookrow._http import RequestHead

logger = logging.getLogger("hookrow")

REPEAT_AFTER = 10.0
"""Seconds in which each warning or error is logged at most once."""


class RateLimitFilter(logging.Filter):
    """Drops a warning or an error if the same message was logged in the last 10 seconds.

    The next line that passes contains the number of dropped ones. Two messages are the same if
    their level and template are, whatever their arguments: arguments that distinguish messages
    belong in the template, if they have few values. Lower levels are not limited. If two
    threads log the same message at the same moment, both may be logged.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reset()

    def reset(self) -> None:
        """Forget all messages, so that each is logged again."""
        self._limited_until: dict[tuple[int, str], float] = {}
        self._dropped: Counter[tuple[int, str]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log the record."""
        if record.levelno < logging.WARNING:
            return True
        key = record.levelno, str(record.msg)
        now = monotonic()
        if now < self._limited_until.get(key, 0.0):
            self._dropped[key] += 1
            return False
        self._limited_until[key] = now + REPEAT_AFTER
        if dropped := self._dropped.pop(key, 0):
            record.msg = f"{record.msg} ({dropped} more since the last one)"
        return True


rate_limit = RateLimitFilter()
logger.addFilter(rate_limit)


class JSONFormatter(logging.Formatter):
    """Formats a record as one line of JSON: `time` (RFC 3339, UTC), `level`, `logger`, `message`.

    A line about a request also has `request_id`, a line about a group `request_ids`, and a line
    with a traceback `error`.
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
    """Return a configuration for `dictConfig` of hookrow's and uvicorn's loggers, and no others.

    `style` is "line" or "json".
    """
    shared = {"handlers": ["stderr"], "level": level.upper(), "propagate": False}
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
            "hookrow": shared,
            "uvicorn": shared,
            "uvicorn.error": {"filters": ["rate_limit"]},  # it logs every bad request
        },
    }


def log_refusal(head: RequestHead, refusal: Refusal) -> None:
    """Log, at debug level, a request that was refused because of its head."""
    logger.debug(
        "Returned %d: %s for request %s",
        refusal.status,
        refusal.name.lower(),
        head.request_id,
        extra={"request_id": head.request_id},
    )


def log_unauthentic(head: RequestHead, entry: str | None, reason: str | None) -> None:
    """Log a 401 and its reason (see `Provider.describe_unauthentic`) as a warning.

    `entry` is the name of the receiver's entry, if it has several. The reason is None if it is not
    known.
    """
    place = f" at {entry}" if entry else ""
    # In the template, so that the rate limit shows each reason; it has few constant texts.
    clause = f": {reason.replace('%', '%%')}" if reason else ""
    template = f"Returned 401 to request %s{place}{clause}."
    logger.warning(template, head.request_id, extra={"request_id": head.request_id})


def log_group(
    arrivals: Sequence[Arrival], outcomes: Sequence[Outcome | None], seconds: float
) -> None:
    """Log, at debug level, the time and the outcomes of a group, and each refusal in it.

    Without an outcome, a notification waits for locked rows.
    """
    if not logger.isEnabledFor(logging.DEBUG):
        return
    for arrival, outcome in zip(arrivals, outcomes, strict=True):
        if isinstance(outcome, Refused):
            logger.debug(
                "Refused %s: %s",
                describe_arrival(arrival),
                outcome_name(outcome),
                extra={"request_id": arrival.request_id},
            )
    counts = Counter("locked" if each is None else outcome_name(each) for each in outcomes)
    requests = request_ids(arrivals)
    logger.debug(
        "Processed a group of %d in %.1f ms: %s; requests %s",
        len(arrivals),
        seconds * 1000,
        ", ".join(f"{count} {name}" for name, count in counts.most_common()),
        ", ".join(requests),
        extra={"request_ids": requests},
    )


def outcome_name(outcome: Outcome) -> str:
    """Return `recorded` or the refusal's name in lower case."""
    return "recorded" if isinstance(outcome, Recorded) else outcome.refusal.name.lower()


def describe_arrival(arrival: Arrival) -> str:
    """Describe a notification for a log line: type, message id, masked recipient, request."""
    notification = first_of(arrival.notifications)
    request = f", request {arrival.request_id}" if arrival.request_id else ""
    if notification is None:
        return f"an unsupported notification{request}"
    kind = type(notification).__name__
    recipient = mask_email(notification.recipient or "")
    # ASCII only, so that no control character breaks the line, and at most 80 characters each.
    return f"{kind} {notification.message_id!a:.80} of {recipient!a:.80}{request}"


def request_ids(arrivals: Sequence[Arrival]) -> Sequence[str]:
    """Return the request ids of arrivals; those from the log or the spool have none."""
    return [arrival.request_id for arrival in arrivals if arrival.request_id]


def mask_email(email: str) -> str:
    """Return the first letter and the domain of an address: `a***@example.com`."""
    local, at, domain = email.rpartition("@")
    return f"{(local or domain)[:1]}***{at}{domain if at else ''}"
