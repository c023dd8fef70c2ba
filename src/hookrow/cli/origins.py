"""Where each setting came from: a flag, a variable, the file or the default."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import click
from click.core import ParameterSource

from hookrow.core.schema import Schema
from hookrow.diagnostics.result import CheckResult, Level
from hookrow.server.settings import DEFAULT_FILE

_HIDDEN = re.compile(r"(^|_)(secret|password|token)$")
"""Names of settings whose values nobody may see."""

_PASSWORD = re.compile(r"^([\w+.-]+:/+[^:/@]*|[^:/@]*(?!:/)):.*@", re.DOTALL)
"""In an address, with whatever letters it has, and however the address is mistyped."""

_QUERIED = re.compile(
    r"((?:^|[?&\s])[^=&\s]*(?:pass|pwd|secret|token|key)[^=&\s]*)=[^&#\s]*", re.IGNORECASE
)
"""The same, among the options of an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin(CheckResult):
    """A setting: its value as it may be shown, None where it has none, and its `source`.

    `name` is that of the flag, the variable or the file; empty for the default.
    """

    setting: str
    value: str | None
    source: str
    name: str = ""


def origins(context: click.Context, command: click.Command, schema: Schema) -> Iterator[Origin]:
    """Tell where the settings of a command come from, and flags from the one that runs.

    A value that the command would refuse is an error.
    """
    root = context.find_root()
    file = str(root.params.get("config") or DEFAULT_FILE)
    flags = {**_flags(root), **_flags(context)}
    given = root.default_map or {}
    for option in (*root.command.params, *command.params):
        if option.name and option.envvar:
            source, name, value = _source(context, option, flags, (file, given.get(option.name)))
            yield _checked(option, source, name, value)
    if schema != Schema():
        yield _told("tables", _tables(schema), "file", file)


def summed_up(told: Iterable[Origin]) -> Iterator[CheckResult]:
    """Tell each setting that was made, and in a line each the defaults and those without one."""
    defaults, unset = [], []
    for origin in told:
        if origin.source != "default":
            yield origin
        elif origin.value is None:
            unset.append(origin.setting)
        else:
            defaults.append(f"{origin.setting} {origin.value}")
    if defaults:
        yield CheckResult(Level.OK, "setting", f"By default: {', '.join(defaults)}.")
    if unset:
        yield CheckResult(Level.OK, "setting", f"Not set: {', '.join(unset)}.")


def concealed(setting: str, value: str) -> str:
    """Return a value as it may be shown: no secret, and no password in an address."""
    if _HIDDEN.search(setting):
        return "***"
    return _QUERIED.sub(r"\1=***", _PASSWORD.sub(r"\1:***@", value))


def _flags(context: click.Context) -> dict[str, object]:
    return {
        name: value
        for name, value in context.params.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }


def _source(
    context: click.Context,
    option: click.Parameter,
    flags: dict[str, object],
    from_file: tuple[str, object],
) -> tuple[str, str, object]:
    """Return the source, its name and the value; the order is that of click, and documented."""
    if option.name in flags:
        return "flag", option.opts[0], flags[option.name]
    for variable in _variables(option):
        if value := os.environ.get(variable):
            return "variable", variable, value
    if from_file[1] is not None:
        return "file", *from_file
    default = option.get_default(context)
    return "default", "", default if isinstance(default, str | int) else None


def _variables(option: click.Parameter) -> Sequence[str]:
    return [option.envvar] if isinstance(option.envvar, str) else option.envvar or ()


def _checked(option: click.Parameter, source: str, name: str, value: object) -> Origin:
    setting = option.name or ""
    if value is None or value == "":
        text = f"{setting} is not set."
        return Origin(Level.OK, "setting", text, setting=setting, value=None, source=source)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if source == "variable":  # the others were read already
        try:
            option.type.convert(value, option, None)
        except click.BadParameter as error:
            return _told(setting, text, source, name, f": {concealed(setting, error.message)}")
    return _told(setting, text, source, name)


def _told(setting: str, value: str, source: str, name: str, fault: str = "") -> Origin:
    value = concealed(setting, value)
    where = f"from the {source} {name}" if name else "by default"
    level = Level.ERROR if fault else Level.OK
    text = f"{setting} is {value}, {where}{fault or '.'}"
    return Origin(level, "setting", text, setting=setting, value=value, source=source, name=name)


def _tables(schema: Schema) -> str:
    """Return which table plays which role, and which is the log."""
    tables = {name: role.table for name, role in schema.roles.items()}
    return ", ".join(
        f"{name} in {table}" for name, table in {**tables, "log": schema.log}.items() if table
    )
