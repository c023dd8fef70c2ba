"""What a fork leaves behind: threads do not cross it, and a lock may stay held for good."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Renewable(Protocol):
    """Owns threads, locks or connections that a child process must not use."""

    def renew(self) -> None:
        """Begin anew, as if just built."""


def renew_after_fork(thing: Renewable) -> None:
    """Renew the thing in every child process that is forked while it lives."""
    _things.add(thing)


def _renew() -> None:
    for thing in list(_things):
        thing.renew()


_things: WeakSet[Renewable] = WeakSet()

if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew)
