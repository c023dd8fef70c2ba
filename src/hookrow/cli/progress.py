"""The progress bar of long commands, which Ctrl-C ends after the current step."""

from __future__ import annotations

import signal
import sys
from threading import current_thread, main_thread
from types import FrameType
from typing import Self

import click

INTERRUPTED = 130
"""The exit status after Ctrl-C: 128 and the number of the signal, as in shells."""


class Progress:
    """A progress bar on standard error, for a loop that ends if `interrupted` is True.

    `interrupted` is set by the first Ctrl-C, so that the command can complete its current step and
    print what it has done. A second Ctrl-C ends the process at once. `length` is the number of
    steps, or an estimate of it.
    """

    interrupted = False

    def __init__(self, label: str, length: int, *, hidden: bool = False) -> None:
        self._rest = length
        hidden = hidden or not sys.stderr.isatty()  # click would print the label
        self._bar = click.progressbar(length=length, label=label, file=sys.stderr, hidden=hidden)

    def __enter__(self) -> Self:
        """Show the bar and handle Ctrl-C, which only the main thread of a process can do."""
        self._handler = signal.getsignal(signal.SIGINT)
        if current_thread() is main_thread():
            signal.signal(signal.SIGINT, self._interrupt)
        self._bar.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the bar, at 100 % unless the loop was interrupted or failed."""
        if kind is None and not self.interrupted:
            self.update(self._rest)
        self._bar.__exit__(None, None, None)
        if current_thread() is main_thread():
            signal.signal(signal.SIGINT, self._handler)

    def update(self, steps: int) -> None:
        """Add completed steps; more than `length` in total are not shown."""
        shown = min(steps, self._rest)
        self._rest -= shown
        self._bar.update(shown)

    def exit_if_interrupted(self) -> None:
        """End the command with the status `INTERRUPTED` after Ctrl-C."""
        if self.interrupted:
            raise click.exceptions.Exit(INTERRUPTED)

    def _interrupt(self, number: int, _: FrameType | None) -> None:
        if self.interrupted:
            self._bar.__exit__(None, None, None)  # which shows the cursor again
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.interrupted = True
