"""Hooks: the host's own functions, called when a notification has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Generic, TypeVar

from hookrow.batch import GroupCommit, Overloaded
from hookrow.notification import Arrival, Outcome
from hookrow.quiet import Quiet

BACKLOG = 10_000
"""How many calls of a hook may wait; what comes when so many do is left out."""

SLOW = 30.0
"""In seconds; a call that takes longer is counted as hung, and logged at the next one."""

End = TypeVar("End", bound=Outcome)


class Hook(Generic[End]):
    """Calls a function in a thread of its own, one call after the other.

    What it raises is logged; where it is too slow, calls are left out. Neither
    changes an answer. `failed`, `hung` and `left_out` count the calls.
    """

    def __init__(self, function: Callable[[Arrival, End], object], name: str) -> None:
        self._function = function
        self._name = name
        self._calls: GroupCommit[tuple[Arrival, End], None] = GroupCommit(
            self._call, group=1, backlog=BACKLOG, size=lambda call: len(call[0].body)
        )
        self._quiet = Quiet()
        self._began: float | None = None
        self.failed = 0
        self.hung = 0
        self.left_out = 0

    def __call__(self, arrival: Arrival, outcome: End) -> None:
        """Have the function called, soon. Never raises and never waits."""
        try:
            self._calls.submit((arrival, outcome))
        except Overloaded:
            self.left_out += 1
            self._quiet.warning("%s is too slow, or closed: calls are left out.", self._name)
        began = self._began
        if began is not None and monotonic() - began > SLOW:
            self._began = None
            self.hung += 1
            self._quiet.warning("A call of %s takes more than %s s.", self._name, SLOW)

    def close(self, timeout: float | None = None) -> None:
        """Take no more calls, make those that wait; wait `timeout` seconds for them."""
        self._calls.close(timeout)

    def _call(self, calls: Sequence[tuple[Arrival, End]]) -> Sequence[None]:
        for arrival, outcome in calls:
            self._began = monotonic()
            try:
                self._function(arrival, outcome)
            except BaseException as error:  # noqa: BLE001 - it is the host's, and may exit
                self.failed += 1
                # No traceback: it may quote what the notification says.
                self._quiet.error("%s raised %s.", self._name, type(error).__name__)
            finally:
                self._began = None
        return [None] * len(calls)
