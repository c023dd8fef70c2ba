"""The options of a receiver: the value that its parts take, checked when it is constructed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from datetime import datetime
from os import PathLike

from hookrow._arguments import check_counts, check_flags, check_functions, check_seconds, reject
from hookrow._core.notification import Outcome, Recorded, Refused
from hookrow._http import endpoint_path
from hookrow._observability.observer import Observer, check_observers
from hookrow._receiver.clock import check_clock
from hookrow._receiver.hooks import OnRecorded, OnRefused, SomeHooks
from hookrow.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverOptions:
    """The options of a receiver. `Receiver` describes them, and its signature has the defaults.

    Raises `ConfigurationError` if an option is invalid.
    """

    mount_path: str
    group: int
    backlog: int
    deadline: float

    sweep: bool
    """Needs a log and `keep_bodies`."""

    spool: str | PathLike[str] | None
    keep_bodies: bool
    acknowledge_tests: bool

    acknowledge_parked: bool
    """Needs `sweep`."""

    on_recorded: OnRecorded
    on_refused: OnRefused
    observer: Observer | Sequence[Observer] | None
    clock: Callable[[], datetime] | None

    has_log: InitVar[bool]
    """Whether the store has a log, which some options need."""

    def __post_init__(self, has_log: bool) -> None:
        """Check the options."""
        check_flags(
            sweep=self.sweep,
            keep_bodies=self.keep_bodies,
            acknowledge_tests=self.acknowledge_tests,
            acknowledge_parked=self.acknowledge_parked,
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

    def _check_retries(self, *, has_log: bool) -> None:
        if self.sweep and not has_log:
            raise ConfigurationError("The sweep needs a log: add a log, or omit `sweep`.")
        if self.sweep and not self.keep_bodies:
            raise ConfigurationError("The sweep needs bodies: keep them, or omit `sweep`.")
        if self.acknowledge_parked and not self.sweep:
            raise ConfigurationError(
                "`acknowledge_parked` needs the sweep, because the provider does not send an "
                "acknowledged notification again: add `sweep`, or omit `acknowledge_parked`."
            )


def _check_spool(path: object) -> None:
    line = 'spool="/var/lib/hookrow/spool.db"'
    if not isinstance(path, str | PathLike) or not path:
        reject("spool", "the path of a file", path, line)
    if str(path) == ":memory:" or "://" in str(path):
        raise ConfigurationError(
            f"The spool keeps notifications in a file, not in memory or at a URL: write {line}."
        )
