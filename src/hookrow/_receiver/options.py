"""The options of a receiver: the value that its parts take, checked when it is constructed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from datetime import datetime
from os import PathLike

from hookrow._arguments import (
    OptionsError,
    check_counts,
    check_flags,
    check_functions,
    check_seconds,
    reject,
)
from hookrow._core.notification import Outcome, Recorded, Refused
from hookrow._http import endpoint_path
from hookrow._observability.observer import Observer, check_observers
from hookrow._receiver.clock import check_clock
from hookrow._receiver.hooks import OnRecorded, OnRefused, SomeHooks
from hookrow.errors import ConfigurationError

PYTHON_NAMES = {
    "log": "a log",
    "keep_bodies": "`keep_bodies`",
    "sweep": "`sweep`",
    "spool": "`spool`",
    "acknowledge_parked": "`acknowledge_parked`",
    "no_acknowledge_parked": "`acknowledge_parked=False`",
    "acknowledge_spooled": "`acknowledge_spooled`",
}
"""The options in the errors of `check_retries`, as arguments of a receiver."""


SPOOL_SHARE = 0.2
"""The share of the deadline that is kept for the spool if a 200 states that it has notifications.

The database has the rest, and `GRACE` of the watchdog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverOptions:
    """The options of a receiver. `Receiver` describes them, and its signature has the defaults.

    Raises `ConfigurationError` if an option is invalid.
    """

    mount_path: str
    group: int
    backlog: int
    deadline: float

    sweep: bool | None
    """Needs a log and `keep_bodies`. None means that it is on if `acknowledges_logged`."""

    spool: str | PathLike[str] | None
    keep_bodies: bool
    acknowledge_tests: bool

    acknowledge_parked: bool | None
    """Needs `sweep`. None means that `Provider.accepts_logged` decides."""

    acknowledge_spooled: bool
    """Needs `spool` and `sweep`."""

    on_recorded: OnRecorded
    on_refused: OnRefused
    observer: Observer | Sequence[Observer] | None
    clock: Callable[[], datetime] | None

    has_log: InitVar[bool]
    """Whether the store has a log, which some options need."""

    accepts_logged: bool
    """Whether there is a provider that `accepts_logged`."""

    def __post_init__(self, has_log: bool) -> None:
        """Check the options."""
        optional = {"sweep": self.sweep, "acknowledge_parked": self.acknowledge_parked}
        check_flags(
            keep_bodies=self.keep_bodies,
            acknowledge_tests=self.acknowledge_tests,
            acknowledge_spooled=self.acknowledge_spooled,
            **{name: value for name, value in optional.items() if value is not None},
        )
        check_counts(group=self.group, backlog=self.backlog)
        check_seconds("deadline", self.deadline)
        self._check_retries(has_log=has_log)
        endpoint_path(self.mount_path)
        if self.clock is not None:
            check_clock(self.clock)
        check_functions("on_recorded", self.on_recorded, "arrival", "outcome")
        check_functions("on_refused", self.on_refused, "arrival", "outcome")
        check_observers("observer", self.observer, "observer=Metrics(registry)")
        if self.spool is not None:
            _check_spool(self.spool)

    @property
    def hooks(self) -> Mapping[type[Outcome], SomeHooks]:
        """The hooks for each type of outcome."""
        return {Recorded: self.on_recorded, Refused: self.on_refused}

    @property
    def database_seconds(self) -> float:
        """The seconds of the deadline for the database; the rest is for the spool."""
        return self.deadline * (1 - SPOOL_SHARE) if self.acknowledge_spooled else self.deadline

    @property
    def acknowledges_logged(self) -> bool:
        """Whether events of some provider get a 200 once the log has them."""
        return self.accepts_logged and self.acknowledge_parked is not False

    @property
    def sweeps(self) -> bool:
        """Whether parked notifications are retried."""
        return self.acknowledges_logged if self.sweep is None else self.sweep

    def _check_retries(self, *, has_log: bool) -> None:
        if self.acknowledges_logged and not (self.sweeps and has_log and self.keep_bodies):
            raise OptionsError(
                "Every event that the log has gets a 200, because only Postmark sends single "
                "events again after another response. This needs {log}, {keep_bodies} and {sweep}, "
                "which records events whose rows are missing at first: add them, or set "
                "{no_acknowledge_parked}, with which such events get a 404 or 400.",
                PYTHON_NAMES,
            )
        if self.sweep and not has_log:
            raise OptionsError("{sweep} needs {log}: add it, or omit {sweep}.", PYTHON_NAMES)
        if self.sweep and not self.keep_bodies:
            raise OptionsError(
                "{sweep} needs {keep_bodies}: keep the bodies, or omit {sweep}.", PYTHON_NAMES
            )
        if self.acknowledge_parked and not self.sweeps:
            raise OptionsError(
                "{acknowledge_parked} needs {sweep}, because the provider does not send an "
                "acknowledged notification again: add {sweep}, or omit {acknowledge_parked}.",
                PYTHON_NAMES,
            )
        if self.acknowledge_spooled and not (self.spool and self.sweeps):
            raise needs_spool()


def needs_spool() -> OptionsError:
    """Return the error for a receiver that acknowledges what it may not record."""
    return OptionsError(
        "{acknowledge_spooled} needs {spool}, and {sweep}, which retries notifications from the "
        "spool whose rows do not exist yet: add both, or omit {acknowledge_spooled}.",
        PYTHON_NAMES,
    )


def _check_spool(path: object) -> None:
    line = 'spool="/var/lib/hookrow/spool.db"'
    if not isinstance(path, str | PathLike) or not path:
        reject("spool", "the path of a file", path, line)
    if str(path) == ":memory:" or "://" in str(path):
        raise ConfigurationError(
            f"The spool keeps notifications in a file, not in memory or at a URL: write {line}."
        )
