"""Says a thing once in ten seconds; `Quiet` also counts what it left out."""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import AbstractContextManager
from threading import RLock
from time import monotonic

from hookrow.forks import renew_after_fork

SILENCE = 10.0
"""In seconds; how long the same message is not logged again."""


class _Said:
    """What was logged in the last `seconds`, by any thread."""

    _lock: AbstractContextManager[object]

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._silent_until: dict[object, float] = {}
        self.renew()
        renew_after_fork(self)

    def is_new(self, what: object) -> bool:
        """Return whether it was not logged just now; from then on it was."""
        with self._lock:
            until, now = self._silent_until.get(what, 0.0), monotonic()
            if now < until:
                return False
            self._silent_until[what] = now + self._seconds
            return True

    def renew(self) -> None:
        """Create a lock, reentrant because a signal handler may log while its thread holds it."""
        self._lock = RLock()


class Quiet:
    """A logger that leaves out messages which were logged just now, whatever their values."""

    def __init__(self, *, seconds: float = SILENCE) -> None:
        self._logger = logging.getLogger("hookrow")
        self._said = _Said(seconds)
        self._left_out: Counter[tuple[int, str]] = Counter()

    def error(self, message: str, *values: object, **extra: object) -> None:
        """Log what needs somebody to look; `extra` are fields of the record."""
        self._log(logging.ERROR, message, values, extra)

    def warning(self, message: str, *values: object, **extra: object) -> None:
        """Log what may mend itself; `extra` are fields of the record."""
        self._log(logging.WARNING, message, values, extra)

    def debug(self, message: str, *values: object, **extra: object) -> None:
        """Log what only who looks for a fault wants to know; `extra` are fields of the record."""
        self._log(logging.DEBUG, message, values, extra)

    def _log(
        self, level: int, message: str, values: tuple[object, ...], extra: dict[str, object]
    ) -> None:
        key = level, message
        if not self._said.is_new(key):
            self._left_out[key] += 1
            return
        left_out = self._left_out.pop(key, 0)
        more = f" (and {left_out} times more before)" if left_out else ""
        self._logger.log(level, f"{message}%s", *values, more, extra=extra)  # noqa: G004 - a template still


class Once(logging.Filter):
    """Lets a message through that was not let through just now, whatever its values."""

    def __init__(self) -> None:
        super().__init__()
        self._said = _Said(SILENCE)

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether to log it; what only informs is logged always."""
        return record.levelno < logging.WARNING or self._said.is_new(str(record.msg))
