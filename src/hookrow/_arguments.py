"""Checks of the arguments of a host: the error for each mistake shows the line to write.

No message quotes a value that may be a secret or contain one, such as a URL.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from inspect import (
    Parameter,
    isasyncgenfunction,
    isclass,
    iscoroutinefunction,
    isgeneratorfunction,
    signature,
)
from threading import TIMEOUT_MAX
from types import FunctionType, MethodType
from typing import Any, NoReturn

from hookrow._fault import Fault
from hookrow.errors import ConfigurationError

LONGEST_AGE = timedelta(days=365_000)
"""The longest age of an entry; the current date minus a longer one might not exist."""

_LARGEST_NUMBER = 2**63 - 1
"""The largest number in a column of the log."""


class OptionsError(ConfigurationError):
    """Options that contradict each other.

    The message is a format string whose fields are the options, because users know them by the
    names of their settings. Those of Python's arguments are the default.
    """

    def __init__(self, template: str, names: Mapping[str, str]) -> None:
        super().__init__(template.format_map(names))
        self.template = template
        self.names = names


@contextmanager
def spelled(names: Mapping[str, str]) -> Iterator[None]:
    """Raise an `OptionsError` in the block as one with these names of the options."""
    try:
        yield
    except OptionsError as error:
        raise OptionsError(error.template, {**error.names, **names}) from error


@contextmanager
def collected(faults: list[Fault]) -> Iterator[None]:
    """Add the faults of a `ConfigurationError` that the block raises."""
    try:
        yield
    except ConfigurationError as error:
        faults += error.faults


def refuse_windows(feature: str, remedy: str) -> None:
    """Raise `ConfigurationError` on Windows, which lacks what the feature needs.

    docs/how-to/windows.md lists these features.
    """
    if sys.platform == "win32":
        raise ConfigurationError(f"{feature} is not available on Windows: {remedy}.")


def kind_of(value: object) -> str:
    """Describe a value of the wrong type: a number as itself, anything else by its type."""
    if value is None or isinstance(value, int | float):
        return repr(value)
    if isclass(value):
        return f"the class {value.__name__}"
    return type(value).__name__


def name_of(function: object) -> str:
    """Return the name of a function, or that of the type of a callable object."""
    try:
        name = getattr(function, "__qualname__", None)
    except Exception:  # noqa: BLE001 - raised by a property of the host
        name = None
    return name if isinstance(name, str) else type(function).__qualname__


def reject(name: str, expected: str, value: object, line: str = "") -> NoReturn:
    """Raise `ConfigurationError` for an argument of the wrong type, with the line to write."""
    raise ConfigurationError(rejection(name, expected, value, line))


def rejection(name: str, expected: str, value: object, line: str = "") -> str:
    """Return the sentence about an argument of the wrong type, with the line to write."""
    write = f": write {line}." if line else "."
    return f"{name} must be {expected}, not {kind_of(value)}{write}"


def reject_secret(name: str, value: object, line: str) -> NoReturn:
    """Raise `ConfigurationError` for a secret that is not a string, without quoting a number."""
    kind = type(value).__name__
    raise ConfigurationError(f"{name} must be a string, not {kind}: write {line}.")


def has_members(value: object, members: Collection[str]) -> bool:
    """Return whether a value has these attributes and is not a class."""
    return not isclass(value) and all(hasattr(value, each) for each in members)


def check_flags(**flags: object) -> None:
    """Check options that are True or False: "false" from a variable would count as true."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            reject(name, "True or False", value)


def check_counts(**counts: object) -> None:
    """Check options that are integers of at least 1."""
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigurationError(f"{name} must be an integer of at least 1, not {value!r}.")


def check_cursor(name: str, value: object) -> None:
    """Check a cursor, which is a number of the log, or 0 for the beginning."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST_NUMBER:
        raise ConfigurationError(
            f"{name} must be an integer from 0 to {_LARGEST_NUMBER}, not {kind_of(value)}."
        )


def check_texts(**texts: object) -> None:
    """Check strings that must contain more than whitespace."""
    for name, value in texts.items():
        if not isinstance(value, str):
            reject(name, "a string", value)
        if not value.strip():
            raise ConfigurationError(f"{name} must not be blank.")


def check_email(value: object) -> None:
    """Check the email address of a person."""
    if not isinstance(value, str):
        reject("The email address", "a string", value)
    if "@" not in value:
        raise ConfigurationError("The email address has no @.")


def check_age(name: str, value: object) -> None:
    """Check an age, of which None stands for no limit."""
    if value is None or (isinstance(value, timedelta) and timedelta() <= value <= LONGEST_AGE):
        return
    line = f"write {name}=timedelta(days=90)."
    if not isinstance(value, timedelta):
        raise ConfigurationError(
            f"{name} must be a timedelta or None, not {kind_of(value)}: {line}"
        )
    raise ConfigurationError(
        f"{name} must be neither negative nor longer than {LONGEST_AGE.days} days: {line}"
    )


def check_seconds(name: str, value: object) -> None:
    """Check a duration that a lock or a socket can wait for."""
    if isinstance(value, bool) or not (isinstance(value, int | float) and 0 < value <= TIMEOUT_MAX):
        raise ConfigurationError(
            f"{name} must be a number of seconds greater than 0 and at most "
            f"{TIMEOUT_MAX:.0f}, not {value!r}."
        )


def check_function(
    name: str, value: object, *parameters: str, expected: str = "a function"
) -> None:
    """Check a function that is called with these arguments.

    A callable whose parameters are unknown, such as those of some built-in functions, is accepted.
    """
    form = f"def {name}({', '.join(parameters)})"
    if not callable(value) or isclass(value):
        reject(name, expected, value, form)
    if _is_plain(value) and (isgeneratorfunction(value) or isasyncgenfunction(value)):
        raise ConfigurationError(
            f"{name} is a generator function, whose body would never run: remove `yield`."
        )
    if not _accepts(value, len(parameters)):
        raise ConfigurationError(
            f"{name} ({name_of(value)}) does not accept the arguments with which it is called: "
            f"write {form}."
        )


def is_async(function: object) -> bool:
    """Return whether calling a function returns a coroutine; False for a mock."""
    return _is_plain(function) and iscoroutinefunction(function)


def check_functions(name: str, value: object, *parameters: str) -> None:
    """Check an argument that is a function, a list of functions, or None."""
    for each in several(value):
        check_function(name, each, *parameters, expected="a function, or a list of functions")


def several(value: Any) -> Sequence[Any]:  # noqa: ANN401 - of a host
    """Return the items of a list or tuple; any other value as the only item; none for None."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _is_plain(function: object) -> bool:
    """Return whether a callable is a function, or a method or a partial call of one.

    A mock does not count, although it has the same attributes and `__class__`.
    """
    while type(function) in {partial, MethodType}:
        function = function.func if isinstance(function, partial) else function.__func__  # type: ignore[attr-defined] # of a method
    return type(function) is FunctionType


def _accepts(function: Callable[..., object], count: int) -> bool:
    """Return whether a function can be called with so many positional arguments."""
    try:
        parameters = signature(function)
    except Exception:  # noqa: BLE001 - raised by a property of the host, too
        return True
    try:
        parameters.bind(*[Parameter.empty] * count)
    except TypeError:
        return False
    return True
