"""Objects of the host that settings name as "module:name": its application, and its providers."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from inspect import iscoroutinefunction, signature
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from hookrow._arguments import kind_of
from hookrow._faults import host_line, type_name
from hookrow.errors import ConfigurationError
from hookrow.providers import Provider

LONGEST_ERROR = 500
"""Characters of the longest text of an exception of the host."""

_DOTTED = r"[^\W\d]\w*(\.[^\W\d]\w*)*"


def is_reference(text: str) -> bool:
    """Return whether a text is "module:name"; both may be dotted."""
    return re.fullmatch(rf"{_DOTTED}:{_DOTTED}", text) is not None


def load_object(reference: str) -> object:
    """Import the object at "module:name". The current directory is on the import path.

    Raises any exception of the host's code; see `loading`.
    """
    directory = str(Path.cwd())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    return resolve_name(reference)


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Raise `ConfigurationError`, which begins with `what`, for an exception in the block.

    All faults of hookrow's own errors remain, in lines of their own.
    """
    try:
        yield
    except ConfigurationError as error:
        place = f"{what} cannot be loaded: {type_name(error)}{_place(error)}"
        raise ConfigurationError(*error.faults, place=place, correction=error.correction) from error
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())[:LONGEST_ERROR]
        raise ConfigurationError(
            f"{what} cannot be loaded: {type_name(error)}{_place(error)}: {text}"
        ) from error


def load_provider(reference: str, options: Mapping[str, Any]) -> Provider:
    """Import a class or a function, and call it with keyword arguments to get a provider.

    Raises `ConfigurationError`, which quotes no option: it may be a secret.
    """
    with loading(f"The provider {reference}"):
        factory = load_object(reference)
    return create_provider(reference, factory, options)


def create_provider(
    reference: str, factory: object, options: Mapping[str, Any], *, named: str = "these settings"
) -> Provider:
    """Call a class or a function with keyword arguments to get a provider.

    `reference` and `named` are what the settings call the factory and the options. Raises as
    `load_provider` does.
    """
    if not callable(factory) or iscoroutinefunction(factory):
        kind = "an async function" if callable(factory) else kind_of(factory)
        raise ConfigurationError(
            f"The provider {reference} is {kind}: name a subclass of hookrow.providers.Provider, "
            "or a plain function that returns an instance of one."
        )
    with suppress(ValueError):  # a class in C may have no signature
        try:
            signature(factory).bind(**options)
        except TypeError as error:
            raise ConfigurationError(
                f"The provider {reference} does not accept {named} as its keyword arguments: "
                f"{error}."
            ) from error
    try:
        found = factory(**options)
    except ConfigurationError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigurationError(
            f"The provider {reference} cannot be created: {type_name(error)}{_place(error)}. Its "
            "text is not shown, because it may contain a secret."
        ) from error
    if not isinstance(found, Provider):
        raise ConfigurationError(
            f"The provider {reference} returns {kind_of(found)}, which is no instance of a "
            "subclass of hookrow.providers.Provider."
        )
    return found


def _place(error: BaseException) -> str:
    line = host_line(error)
    return f" in {line}" if line else ""
