"""Imports the object that `--app` names; an error states the cause."""

from __future__ import annotations

import re
import sys
from inspect import isroutine
from pathlib import Path
from pkgutil import resolve_name
from traceback import walk_tb

from hookrow.errors import ConfigurationError

LONGEST_ERROR = 500
"""In characters; the longest text of an exception of the application."""


def load(reference: str) -> object:
    """Return the object at "module:name"; if that is a function, call it and return its result.

    The name may be dotted. The current directory is on the import path. Raises
    `ConfigurationError`, also if the application's own code raises an exception.
    """
    if not re.fullmatch(r"[\w.]+:[\w.]+", reference):
        raise ConfigurationError(
            f"The app {reference!r} is not module:name, such as shop.mail:receiver, which may also "
            "be a function that returns the receiver."
        )
    directory = str(Path.cwd())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        found = resolve_name(reference)
        return found() if isroutine(found) else found
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())[:LONGEST_ERROR]
        raise ConfigurationError(
            f"The app {reference} cannot be loaded{_location(error, reference)}: "
            f"{type(error).__name__}: {text}"
        ) from error


def _location(error: BaseException, reference: str) -> str:
    """Return the last line of the application's package that was running, if there is one."""
    package = re.split(r"[.:]", reference)[0]
    lines = [
        f", in {frame.f_code.co_filename}:{line}"
        for frame, line in walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package
    ]
    return lines[-1] if lines else ""
