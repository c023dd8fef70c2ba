"""The progress of long commands, and how they end after Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

INTERRUPTED = 130
"""The exit status after Ctrl-C: 128 and the number of the signal, as in shells."""

COMMITTED = "What was committed remains. Run the command again to do the rest."
"""What a command that commits step by step prints after Ctrl-C."""


@contextmanager
def progress(
    label: str, length: int, *, hidden: bool = False, interrupted: str | None = None
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error; return the function that adds completed steps.

    `length` is the number of steps, or an estimate of it: at the end, the bar is at 100 %. The
    command prints `interrupted` after Ctrl-C in this block.
    """
    # Otherwise, click would print the label.
    hidden = hidden or sys.stderr is None or not sys.stderr.isatty()
    with click.progressbar(length=length, label=label, file=sys.stderr, hidden=hidden) as bar:
        try:
            yield bar.update
        except KeyboardInterrupt as error:
            if interrupted:
                error.add_note(interrupted)
            raise
        bar.update(max(length - bar.pos, 0))
