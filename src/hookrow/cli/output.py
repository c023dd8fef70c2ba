"""What commands print: text and JSON in which no character hides or controls the terminal.

Values come from notifications, from the database and from other servers, so any of them may contain
such characters.
"""

from __future__ import annotations

import json

import click
import msgspec

from hookrow.describe import printable


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
