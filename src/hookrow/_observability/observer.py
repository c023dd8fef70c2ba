"""Observers receive an event for everything that a receiver does, and change nothing.

The observers for metrics and traces are in `metrics` and `tracing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ParamSpec, TypeAlias, TypeVar

from hookrow._arguments import has_members, reject, several
from hookrow._core.notification import Arrival, Outcome, Refusal
from hookrow._faults import describe_fault, log_fault
from hookrow._http import RequestHead

if TYPE_CHECKING:
    from hookrow.stores.sql._log import SQLLog

P = ParamSpec("P")
R = TypeVar("R")

COLLECT_EVERY = 15.0
"""Seconds between two calls of `Observer.collect` by a receiver."""

GroupEnd: TypeAlias = Callable[[Sequence[Outcome | None]], object]
"""Called with the outcomes of a group, in the order of its arrivals.

An arrival whose rows another transaction has locked has no outcome yet: it is part of a later
group again."""


@dataclass(frozen=True, slots=True)
class Gauges:
    """Values of a receiver that can be read at any time, from any thread.

    `backlog` returns the number of notifications waiting for a commit, and `spooled` the number in
    the spool; the latter raises `OSError`, `sqlite3.Error` or `ConfigurationError` if the file
    cannot be read. `secret_matches` returns the number of requests that each secret has
    authenticated, by the name of the receiver's entry, which is None for a single provider, and by
    the position of the secret; 0 is the newest. `log` is None if there is no log; its methods are
    internal.
    """

    backlog: Callable[[], int]
    spooled: Callable[[], int]
    secret_matches: Callable[[], Mapping[str | None, Mapping[int, int]]]
    log: SQLLog | None


class Observer:
    """Base class of observers: subclasses override the events that they need.

    Every method must return quickly: all except `collect` are called while a request waits.
    """

    def start(self, gauges: Gauges) -> None:
        """Receive the gauges; called once, when the receiver is constructed."""

    def collect(self) -> None:
        """Read the gauges; called every 15 seconds, in a separate thread."""

    def refused(self, head: RequestHead, refusal: Refusal, entry: str | None) -> None:
        """Handle a request that was refused before its body was parsed.

        `entry` is the name of the receiver's entry, or None if the receiver has a single provider,
        and for a path without an entry.
        """

    def admitted(self, head: RequestHead) -> object | None:
        """Handle an authenticated request.

        `begin_group` receives the return value in `contexts`.
        """

    def begin_group(
        self, arrivals: Sequence[Arrival], contexts: Sequence[object | None]
    ) -> GroupEnd | None:
        """Handle the start of a group; the receiver calls the return value at its end.

        Both calls are made in the same thread. `contexts` has the context of each arrival, or None.
        """

    def attempted(self, arrivals: Sequence[Arrival], error: Exception | None) -> None:
        """Handle the end of an attempt to record arrivals, which was committed if `error` is None.

        The arrivals are a group or, after the group failed, a part of it.
        """

    def late(self) -> None:
        """Handle a response sent at the deadline, before its group has completed."""


def check_observers(name: str, value: object, line: str) -> Sequence[Observer]:
    """Return the observers in an argument or setting: one, a list of them, or None.

    Raises `ConfigurationError` with the line to write for any other object.
    """
    observers: Sequence[Observer] = several(value)
    for each in observers:
        _check_observer(name, "an observer, or a list of observers", each, line)
    return observers


def _check_observer(name: str, expected: str, value: object, line: str) -> None:
    if not has_members(value, _METHODS):
        reject(name, expected, value, line)


_METHODS = ("start", "collect", "refused", "admitted", "begin_group", "attempted", "late")


class Observers(Observer):
    """Combines observers, and logs the exceptions that they raise.

    A receiver combines a list of observers by itself: `observer=[Metrics(registry), Tracing()]`.
    This class is for code that returns several observers as one, or that adds something to an
    event for all of them, as a subclass. An exception changes neither a response nor the events
    that other observers receive, except that one raised by `start` propagates.

    Raises `ConfigurationError` for an argument that is not an observer.
    """

    def __init__(self, *observers: Observer) -> None:
        line = "Observers(Metrics(registry), Tracing())"
        for each in observers:
            _check_observer("Each argument of Observers", "an observer", each, line)
        self._observers = observers
        self._have_contexts = any(
            getattr(type(each), "admitted", None) is not Observer.admitted for each in observers
        )

    def start(self, gauges: Gauges) -> None:
        """Start each observer. An exception is a configuration error, and propagates."""
        for observer in self._observers:
            observer.start(gauges)

    def collect(self) -> None:
        """Notify each observer."""
        for observer in self._observers:
            _call(observer.collect)

    def refused(self, head: RequestHead, refusal: Refusal, entry: str | None) -> None:
        """Notify each observer."""
        for observer in self._observers:
            _call(observer.refused, head, refusal, entry)

    def admitted(self, head: RequestHead) -> Sequence[object | None] | None:
        """Notify each observer; return the context of each, or None if none of them has any."""
        if not self._have_contexts:  # this event precedes each notification, others each group
            return None
        return [_call(observer.admitted, head) for observer in self._observers]

    def begin_group(
        self, arrivals: Sequence[Arrival], contexts: Sequence[object | None]
    ) -> GroupEnd:
        """Notify each observer with its own contexts; notify them of the end in reverse order."""
        ends = []
        for position, observer in enumerate(self._observers):
            own = [each[position] if isinstance(each, list) else None for each in contexts]
            ends.append(_call(observer.begin_group, arrivals, own))

        def end_group(outcomes: Sequence[Outcome | None]) -> None:
            for end in filter(None, reversed(ends)):
                _call(end, outcomes)

        return end_group

    def attempted(self, arrivals: Sequence[Arrival], error: Exception | None) -> None:
        """Notify each observer."""
        for observer in self._observers:
            _call(observer.attempted, arrivals, error)

    def late(self) -> None:
        """Notify each observer."""
        for observer in self._observers:
            _call(observer.late)


def _call(event: Callable[P, R], *values: P.args, **named: P.kwargs) -> R | None:
    """Call an observer. If it raises an exception, log it and return None."""
    try:
        return event(*values, **named)
    except KeyboardInterrupt:  # the user ends the process
        raise
    except BaseException as error:  # noqa: BLE001 - an observer's SystemExit must not end a thread
        # The template has the line, so that the rate limit does not drop another observer's.
        log_fault(error, f"An observer raised {describe_fault(error)}.")
        return None
