"""Observers: who looks on while a receiver works, and never stands in its way.

Metrics and traces are observers. What one raises is logged, and changes no answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeAlias, TypeVar

from hookrow.core.notification import Arrival, Outcome, Refusal
from hookrow.http import RequestHead
from hookrow.stores.log import LogReader

log = logging.getLogger("hookrow")

P = ParamSpec("P")
R = TypeVar("R")

LOOK_EVERY = 15.0
"""In seconds; how often an observer is asked to look at what changes by itself."""

Ended: TypeAlias = Callable[[Sequence[Outcome]], object]
"""Hears how the arrivals of a group ended, in their order."""


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

    def refused(self, head: RequestHead, refusal: Refusal) -> None:
        """Hear of a request that was refused before there was a notification to record."""

    def arrived(self, head: RequestHead) -> object | None:
        """Hear of a request that was let in; what it returns comes back as `seen`."""

    def recording(self, arrivals: Sequence[Arrival], seen: Sequence[object | None]) -> Ended | None:
        """Hear that work on a group begins; what it returns is called in this thread at its end.

        `seen` has for each arrival what `arrived` returned, or None.
        """

    def attempted(self, arrivals: Sequence[Arrival], error: Exception | None) -> None:
        """Handle the end of an attempt to record arrivals: its exception, or None.

        None means that they are committed. They are a group or, after it failed, a part of it.
        """

    def late(self) -> None:
        """Hear that a notification was answered by the deadline, though its group goes on."""


class Observers(Observer):
    """Observers as one, of which nothing comes out that one of them raises.

    That is logged, and changes neither an answer nor what the others hear.
    """

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def watch(self, inside: Inside) -> None:
        """Have each begin. What it raises here is a mistake of configuration."""
        for observer in self._observers:
            observer.watch(inside)

    def look(self) -> None:
        """Have each look."""
        self._each(lambda observer: observer.look())

    def refused(self, head: RequestHead, refusal: Refusal) -> None:
        """Tell each."""
        self._each(lambda observer: observer.refused(head, refusal))

    def arrived(self, head: RequestHead) -> Sequence[object | None]:
        """Tell each; return what each of them returns."""
        return [self._try(observer.arrived, head) for observer in self._observers]

    def recording(self, arrivals: Sequence[Arrival], seen: Sequence[object | None]) -> Ended:
        """Tell each, with its own part of what was seen; the last that began ends first."""
        ends = []
        for number, observer in enumerate(self._observers):
            own = [each[number] if isinstance(each, list) else None for each in seen]
            ends.append(self._try(observer.recording, arrivals, own))

        def ended(outcomes: Sequence[Outcome]) -> None:
            for end in filter(None, reversed(ends)):
                self._try(end, outcomes)

        return ended

    def attempted(self, arrivals: Sequence[Arrival], error: Exception | None) -> None:
        """Tell each."""
        self._each(lambda observer: observer.attempted(arrivals, error))

    def late(self) -> None:
        """Tell each."""
        self._each(lambda observer: observer.late())

    def _each(self, tell: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            self._try(tell, observer)

    def _try(self, call: Callable[P, R], *values: P.args, **more: P.kwargs) -> R | None:
        try:
            return call(*values, **more)
        except KeyboardInterrupt:  # of who ends the process
            raise
        except BaseException as error:  # noqa: BLE001 - it only looks on
            # No traceback: it may quote what the notification says.
            log.error("An observer raised %s.", type(error).__name__)
            return None
