"""Observers: who looks on while a receiver works, and never stands in its way.

Metrics and traces are observers. What one raises is logged, and changes no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import ParamSpec, TypeAlias, TypeVar

from hookrow import logs
from hookrow.http import Head
from hookrow.notification import Arrival, Outcome, Refusal
from hookrow.quiet import Quiet
from hookrow.retry import Attempt
from hookrow.stores.log import LogReader

P = ParamSpec("P")
R = TypeVar("R")

LOOK_EVERY = 15.0
"""In seconds; how often an observer is asked to look at what changes by itself."""

Ended: TypeAlias = Callable[[Sequence[Outcome]], object]
"""Hears how the arrivals of a group ended, in their order."""

Work: TypeAlias = Callable[[Sequence[Arrival]], list[Outcome]]


@dataclass(frozen=True, slots=True)
class Inside:
    """What an observer may look at, from any thread.

    `backlog` is how many notifications wait for a commit, `spooled` how many wait in the
    spool, `matched` how often each secret was used, by its place.
    """

    backlog: Callable[[], int]
    spooled: Callable[[], int]
    matched: Callable[[], Mapping[int, int]]
    log: LogReader | None


class Observer:
    """Looks on: a subclass overrides what it wants to know. All of it has to be quick."""

    def watch(self, inside: Inside) -> None:
        """Begin: called once, by the receiver that is being built."""

    def look(self) -> None:
        """Look at what is inside, every 15 seconds, in a thread of its own."""

    def refused(self, head: Head, refusal: Refusal) -> None:
        """Hear of a request that was refused before there was a notification to record."""

    def arrived(self, head: Head) -> object | None:
        """Hear of a request that was let in; what it returns comes back as `seen`."""

    def recording(self, arrivals: Sequence[Arrival], seen: Sequence[object | None]) -> Ended | None:
        """Hear that work on a group begins; what it returns is called in this thread at its end.

        `seen` has for each arrival what `arrived` returned, or None.
        """

    def attempted(self, error: Exception | None) -> None:
        """Hear of one try to record a group in a transaction: what it raised, or None."""


class Observers(Observer):
    """Several observers as one; what one of them raises is not the others' concern."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = [Guarded(observer) for observer in observers]

    def watch(self, inside: Inside) -> None:
        """Have each begin."""
        for observer in self._observers:
            observer.watch(inside)

    def look(self) -> None:
        """Have each look."""
        for observer in self._observers:
            observer.look()

    def refused(self, head: Head, refusal: Refusal) -> None:
        """Tell each."""
        for observer in self._observers:
            observer.refused(head, refusal)

    def arrived(self, head: Head) -> object:
        """Tell each; return what each of them returns."""
        return [observer.arrived(head) for observer in self._observers]

    def recording(self, arrivals: Sequence[Arrival], seen: Sequence[object | None]) -> Ended:
        """Tell each, with its own part of what was seen; the last that began ends first."""
        ends = []
        for number, observer in enumerate(self._observers):
            own = [each[number] if isinstance(each, list) else None for each in seen]
            ends.append(observer.recording(arrivals, own))

        def ended(outcomes: Sequence[Outcome]) -> None:
            for end in reversed(ends):
                end(outcomes)

        return ended

    def attempted(self, error: Exception | None) -> None:
        """Tell each."""
        for observer in self._observers:
            observer.attempted(error)


class Guarded(Observer):
    """Another observer, of which nothing that it raises comes out."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._quiet = Quiet()

    def watch(self, inside: Inside) -> None:
        """Have it begin. What it raises here is a mistake of configuration."""
        self._observer.watch(inside)

    def look(self) -> None:
        """Have it look."""
        self._try(self._observer.look)

    def refused(self, head: Head, refusal: Refusal) -> None:
        """Tell it."""
        self._try(self._observer.refused, head, refusal)

    def arrived(self, head: Head) -> object | None:
        """Tell it; return what it returns."""
        return self._try(self._observer.arrived, head)

    def recording(self, arrivals: Sequence[Arrival], seen: Sequence[object | None]) -> Ended:
        """Tell it; return what it returns, which raises nothing either."""
        ended = self._try(self._observer.recording, arrivals, seen)
        if ended is None:
            return _nobody
        return lambda outcomes: self._try(ended, outcomes)

    def attempted(self, error: Exception | None) -> None:
        """Tell it."""
        self._try(self._observer.attempted, error)

    def _try(self, call: Callable[P, R], *values: P.args, **more: P.kwargs) -> R | None:
        try:
            return call(*values, **more)
        except Exception as error:  # noqa: BLE001 - it only looks on
            # No traceback: it may quote what the notification says.
            self._quiet.error("An observer raised %s.", type(error).__name__)
            return None


def observed(work: Work, observer: Observer | None) -> Work:
    """Return the work on a group such that the observer, and the log at debug level, hear of it."""

    def observed_work(arrivals: Sequence[Arrival]) -> list[Outcome]:
        seen = [each.seen for each in arrivals]
        ended = observer.recording(arrivals, seen) if observer is not None else None
        began = perf_counter()
        outcomes = work(arrivals)
        if ended is not None:
            ended(outcomes)
        if logs.detailed():
            logs.tell_group(arrivals, outcomes, perf_counter() - began)
        return outcomes

    return observed_work


def attempted(attempt: Attempt, observer: Observer) -> Attempt:
    """Return the attempt such that the observer hears of each."""

    def observed_attempt(
        arrivals: Sequence[Arrival], *, skip_locked: bool = False
    ) -> list[Outcome]:
        try:
            outcomes = attempt(arrivals, skip_locked=skip_locked)
        except Exception as error:
            observer.attempted(error)
            raise
        observer.attempted(None)
        return outcomes

    return observed_attempt


def _nobody(outcomes: Sequence[Outcome]) -> None:
    """Tell nobody."""
