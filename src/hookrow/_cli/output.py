"""What commands print: text, JSON and progress bars, and what remains after Ctrl-C.

No character in text or JSON hides others or controls the terminal: values come from notifications,
from the database and from other servers, so any of them may contain such characters.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
import msgspec

from hookrow._describe import printable

INTERRUPTED = 130
"""The exit status after Ctrl-C: 128 and the number of the signal, as in shells."""

COMMITTED = "What was committed remains. Run the command again to do the rest."
"""What a command that commits step by step prints after Ctrl-C."""


def echo(*lines: str, err: bool = False) -> None:
    """Print lines; unprintable characters in them, line breaks included, become visible."""
    click.echo("\n".join(map(printable, lines)), err=err)


def echo_json(value: object) -> None:
    """Print a value as one line of JSON, in which unprintable characters are escape sequences.

    A parser therefore returns exactly the value. It may be anything that msgspec converts.
    """
    plain = msgspec.to_builtins(value, str_keys=True)
    # Unlike msgspec, this module encodes the unpaired surrogates of an argument that is not UTF-8.
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    if not text.isprintable():
        text = "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
    click.echo(text)


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
