"""Imports the object that `--app` names; an error states the cause and the remedy."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from inspect import iscoroutinefunction, signature
from pathlib import Path
from pkgutil import iter_modules
from traceback import extract_tb

from hookrow.core.schema import nearest
from hookrow.errors import ConfigurationError, HookrowError

LONGEST_ERROR = 500
"""In characters; the longest text of an exception of the application."""

_HOOKROW = f"{Path(__file__).parents[1]}{os.sep}"

_LIBRARIES = tuple(
    f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def load(reference: str) -> object:
    """Return the object at "module:name", with the current directory on the import path.

    The name may be dotted, and each of its parts may end with `()`, which calls a function. Raises
    `ConfigurationError`, also if the application's own code raises an exception.
    """
    module, _, name = reference.partition(":")
    if not (name and all(part.isidentifier() for part in module.split("."))):
        raise ConfigurationError(f"{reference!r} is not module:name, such as shop.mail:receiver.")
    directory = str(Path.cwd())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    value, path = _import(module), module
    for part in name.split("."):
        attribute = part.removesuffix("()")
        with _translated(f"{path}.{attribute}"):
            value = _attribute(value, path, attribute)
        path = f"{path}.{attribute}"
        if part.endswith("()"):
            value = call(value, path)
    return value


def call(function: object, name: str) -> object:
    """Call a function without arguments. Raises `ConfigurationError`."""
    if not callable(function):
        raise ConfigurationError(f"{name} is not a function: remove the parentheses.")
    if iscoroutinefunction(function):
        raise ConfigurationError(f"{name} is an async function: name a plain one.")
    try:
        signature(function).bind()
    except TypeError as error:
        raise ConfigurationError(f"{name} cannot be called without arguments: {error}.") from error
    with _translated(f"{name}()"):
        return function()


def _import(name: str) -> object:
    with _translated(name):
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if not f"{name}.".startswith(f"{missing}."):  # another one, which the module imports
                raise
            raise _NotFound(_describe_missing(missing)) from error


def _attribute(value: object, path: str, name: str) -> object:
    try:
        return getattr(value, name)
    except AttributeError as error:
        hint = nearest(name, dir(value))
        raise _NotFound(f"{path}.{name}: {error}.{hint}") from error


class _NotFound(ConfigurationError):
    """The reference names nothing; the application's code raised no exception."""


def _describe_missing(module: str) -> str:
    parent = module.rpartition(".")[0]
    prefix = f"{parent}." if parent else ""
    searched = getattr(sys.modules.get(parent), "__path__", []) if parent else [str(Path.cwd())]
    names = (f"{prefix}{each.name}" for each in iter_modules(searched))
    hint = nearest(module, names, prefix=prefix)
    return f"There is no module {module!r}: is it importable from this directory?{hint}"


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """Translate an exception of the application, raised in the block, into one sentence."""
    try:
        yield
    except _NotFound:
        raise
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())[:LONGEST_ERROR]
        kind = "" if isinstance(error, HookrowError) else f"{type(error).__name__}: "
        raise ConfigurationError(f"{name} failed{_location(error)}: {kind}{text}") from error


def _location(error: BaseException) -> str:
    """Return the last line of the application that raised the exception, or of a library."""
    if isinstance(error, SyntaxError):
        return f" in {error.filename}:{error.lineno}"
    frames = [
        each
        for each in extract_tb(error.__traceback__)
        if not each.filename.startswith((_HOOKROW, "<"))
    ]
    own = [each for each in frames if not each.filename.startswith(_LIBRARIES)]
    for frame in (own or frames)[-1:]:
        return f" in {frame.filename}:{frame.lineno}"
    return ""
