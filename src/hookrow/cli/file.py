"""The file of settings: what it says becomes the defaults of the commands' options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from hookrow.core.schema import Schema
from hookrow.errors import ConfigurationError
from hookrow.server import settings
from hookrow.server.settings import Value


def read(file: Path, command: click.Command) -> tuple[dict[str, Any], Schema]:
    """Return what the file says, as click wants the defaults of a command, and its schema.

    Raises `ConfigurationError` for a file that cannot be read, and for a value that the
    option would refuse.
    """
    options = _options(command)
    values, schema = settings.read(file, options)
    for name, value in values.items():
        _check_value(file, options[name], value)
    return _defaults(command, values), schema


def _options(command: click.Command) -> dict[str, click.Parameter]:
    """Return what may stand in a file: every option that has a variable, by name."""
    options = {
        parameter.name: parameter
        for parameter in command.params
        if parameter.name and parameter.envvar and parameter.name != "config"
    }
    for member in command.commands.values() if isinstance(command, click.Group) else ():
        options.update(_options(member))
    return options


def _check_value(file: Path, option: click.Parameter, value: Value) -> None:
    """Check a file's value now: click would blame the environment for a mistake in it."""
    if isinstance(value, bool) and not isinstance(option.type, click.types.BoolParamType):
        raise ConfigurationError(f"{file}: {option.name} is neither text nor a whole number.")
    try:
        option.type.convert(value, option, None)
    except click.BadParameter as error:
        raise ConfigurationError(f"{file}: {option.name}: {error.message}") from error


def _defaults(command: click.Command, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values as click wants them: for each command by itself."""
    members = command.commands if isinstance(command, click.Group) else {}
    return {**values, **{name: _defaults(member, values) for name, member in members.items()}}
