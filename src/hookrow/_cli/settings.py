"""The settings of commands: the file with their defaults, and where each setting comes from.

click decides which source takes precedence: a flag, a variable, the file, the default.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

from hookrow._core.schema import Schema, nearest
from hookrow._core.schema_values import schema_of
from hookrow._diagnostics import CheckResult, Level
from hookrow.errors import ConfigurationError

DEFAULT_FILE = Path("hookrow.toml")

_SECRET_NAME = re.compile(r"(^|[_.])(secret|key|credentials|password|token)$")
"""The names of settings whose values are not printed."""

_URL_PASSWORD = re.compile(r"^([\w+.-]+:/+[^:/@]*|[^:/@]*(?!:/)):.*@", re.DOTALL)
"""The part of a URL up to the host, with a password in it; the URL may be malformed."""

_QUERY_PASSWORD = re.compile(
    r"((?:^|[?&\s])[^=&\s]*(?:pass|pwd|secret|token|key)[^=&\s]*)=[^&#\s]*", re.IGNORECASE
)
"""An option of a URL, or of libpq's `name=value` form, that contains a secret."""


_STRONGEST_FIRST = {
    ParameterSource.COMMANDLINE: 0,
    ParameterSource.ENVIRONMENT: 1,
    ParameterSource.DEFAULT_MAP: 2,
}
"""The sources of a setting, and their ranks."""

_VARIABLE_PREFIX = "HOOKROW_"

_OF_DEVELOPMENT = {"HOOKROW_TEST_PG_BIN", "HOOKROW_SCREENSHOTS"}
"""The variables of hookrow's own tests (CONTRIBUTING.md), which no command reads."""

PROVIDER_TOKEN = "HOOKROW_PROVIDER_TOKEN"  # noqa: S105 - a name
"""The variable with the token of the provider's API, which no option or file may contain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingSource(CheckResult):
    """A setting, its value with secrets hidden (None if it is not set), and its source.

    `source` is "flag", "variable", "file" or "default", and `name` the name of the flag, the
    variable or the file; it is empty for a default.
    """

    setting: str
    value: str | None
    source: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The content of hookrow.toml: defaults of options, the mapping, and [providers].

    `defaults` is click's `default_map` for a command. `providers` are plain values; `read_entries`
    validates them, together with the variables that override them.
    """

    defaults: dict[str, Any] = field(default_factory=dict)
    schema: Schema = field(default_factory=Schema)
    providers: object = field(default_factory=dict, repr=False)  # they may contain secrets


def read_file(file: Path, command: click.Command) -> SettingsFile:
    """Return the settings in a file for a command.

    Raises `ConfigurationError` if the file cannot be read, if a setting is unknown, or if its
    option rejects the value: click's own error would not name the file.
    """
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}.") from error
    try:
        schema = schema_of(values.pop("tables", {}))
    except ConfigurationError as error:
        raise ConfigurationError(*error.faults, place=f"{file}: [tables]") from error
    providers = values.pop("providers", {})
    options = {each.name: each for each in _settings(command) if each.name}
    options.pop("config", None)  # which names the file
    for name, value in values.items():
        if name not in options:
            hint = nearest(name, [*options, "tables", "providers"])
            raise ConfigurationError(f"{file}: there is no setting {name!r}.{hint}")
        if fault := _fault(options[name], value):
            raise ConfigurationError(f"{file}: {name}: {fault}")
    return SettingsFile(_default_map(command, values), schema, providers)


def settings_sources(
    context: click.Context, command: click.Command, schema: Schema
) -> Iterator[SettingSource]:
    """Yield the source of each option and of the mapping, including flags of the running command.

    If the command would reject the value of a variable, the result is an error.
    """
    root = context.find_root()
    file = str(root.params.get("config") or DEFAULT_FILE)
    others = _resilient(root, command)
    for option in (*root.command.params, *command.params):
        if option.name and option.envvar:
            owner = next(each for each in (root, context, others) if option.name in each.params)
            yield _setting_source(owner, option, option.name, file)
    if schema != Schema():
        yield describe("tables", "set", "file", file)


def settings_of(context: click.Context, command: click.Command) -> Mapping[str, Any]:
    """Return the settings of a command by name; one that the command would reject is None."""
    return _resilient(context.find_root(), command).params


def _resilient(root: click.Context, command: click.Command) -> click.Context:
    """Return the context of another command without arguments.

    Resilient parsing reports no error; it keeps the source of a value that is rejected.
    """
    return command.make_context(command.name, [], parent=root, resilient_parsing=True)


def _setting_source(
    context: click.Context, option: click.Parameter, setting: str, file: str
) -> SettingSource:
    """Return the source of a setting, which is an option of the context's command."""
    match context.get_parameter_source(setting):
        case ParameterSource.COMMANDLINE:
            return describe(setting, context.params[setting], "flag", option.opts[0])
        case ParameterSource.ENVIRONMENT:
            name = next(each for each in _variables(option) if os.environ.get(each))
            fault = _fault(option, os.environ[name])
            return describe(setting, os.environ[name], "variable", name, fault)
        case ParameterSource.DEFAULT_MAP:
            return describe(setting, option.get_default(context), "file", file)
        case _:
            return describe(setting, option.get_default(context), "default")


def unknown_variables(
    command: click.Command, environment: Iterable[str], of_entries: Collection[str] = ()
) -> Iterator[str]:
    """Yield a sentence for each variable HOOKROW_* that no option of the command reads.

    `of_entries` are the variables for the settings of the receiver's entries.
    """
    known = {name for each in _settings(command) for name in _variables(each)}
    known |= {PROVIDER_TOKEN, *of_entries}
    known = {name for name in known if name.startswith(_VARIABLE_PREFIX)}
    for name in sorted(environment):
        if name.startswith(_VARIABLE_PREFIX) and name not in known | _OF_DEVELOPMENT:
            hint = nearest(name, known, prefix=_VARIABLE_PREFIX)
            yield f"The variable {name} is not a setting of hookrow, and is ignored.{hint}"


def choose_secrets(
    context: click.Context,
    *,
    secret: str | None,
    previous_secret: str | None = None,
    secret_file: str | None,
) -> tuple[tuple[str, ...], str | None]:
    """Return the secrets and the secret file that the options of a command have; see `choose`."""
    given = (secret, previous_secret, secret_file)
    sources = map(context.get_parameter_source, ("secret", "previous_secret", "secret_file"))
    return choose(
        *(
            Ranked(value, None if source is None else _STRONGEST_FIRST.get(source))
            for value, source in zip(given, sources, strict=True)
        )
    )


class Ranked(NamedTuple):
    """The value of a setting, and the rank of its source: 0 is that of the strongest."""

    value: str | None
    rank: int | None


def choose(newest: Ranked, previous: Ranked, file: Ranked) -> tuple[tuple[str, ...], str | None]:
    """Return the credentials and their file that are used.

    If both are set, the one from the stronger source is used, but a previous credential alone never
    overrides a file: the newest one would be rejected. Both are returned if neither overrides the
    other, which `EntrySettings.given` rejects.
    """
    credentials = tuple(each.value for each in (newest, previous) if each.value is not None)
    ranks = [each.rank for each in (newest, previous) if each.value and each.rank is not None]
    if file.value and file.rank is not None and ranks:
        if file.rank < min(ranks):
            return (), file.value
        if newest.value and newest.rank is not None and newest.rank < file.rank:
            return credentials, None
    return credentials, file.value


def read_token(context: click.Context, file: str | None) -> str | None:
    """Return the token of the API, or None if it is not set. Raises `ConfigurationError`."""
    token = os.environ.get(PROVIDER_TOKEN, "").strip()
    if file is None or (token and not is_typed(context, "provider_token_file")):
        return token or None
    return read_token_file(
        file, "--provider-token-file, HOOKROW_PROVIDER_TOKEN_FILE or provider_token_file"
    )


def is_typed(context: click.Context, option: str) -> bool:
    """Return whether an option is on the command line."""
    return context.get_parameter_source(option) is ParameterSource.COMMANDLINE


def read_token_file(file: str, settings: str) -> str:
    """Return the token in a file, which one of the `settings` names.

    Raises `ConfigurationError`.
    """
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(
            f"The token file {file} cannot be read: {reason}. Correct {settings}."
        ) from error
    if not token:
        raise ConfigurationError(f"The token file {file} is empty: write the token into it.")
    return token


def hide_secrets(setting: str, value: str) -> str:
    """Return the value of a setting, with asterisks in place of a secret or a URL's password."""
    if _SECRET_NAME.search(setting):
        return "***"
    return _QUERY_PASSWORD.sub(r"\1=***", _URL_PASSWORD.sub(r"\1:***@", value))


def _settings(command: click.Command) -> Iterator[click.Parameter]:
    """Yield the options of a command and its subcommands that also have a variable."""
    yield from (each for each in command.params if each.envvar)
    if isinstance(command, click.Group):
        for member in command.commands.values():
            yield from _settings(member)


def _variables(option: click.Parameter) -> Sequence[str]:
    return [option.envvar] if isinstance(option.envvar, str) else option.envvar or ()


def _default_map(command: click.Command, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values as click expects them: by command, those of its settings.

    A command may also have parameters with the same name that are no settings, such as a URL.
    """
    settings = {each.name for each in command.params if each.envvar}
    own = {name: value for name, value in values.items() if name in settings}
    members = command.commands if isinstance(command, click.Group) else {}
    return {**own, **{name: _default_map(each, values) for name, each in members.items()}}


def _fault(option: click.Parameter, value: object) -> str:
    """Return why the option rejects a value, or an empty string if it accepts it."""
    is_flag = isinstance(option.type, click.types.BoolParamType)
    if not isinstance(value, str | int) or (isinstance(value, bool) and not is_flag):
        return f"must be {'true or false' if is_flag else 'text or a whole number'}."
    try:
        option.type.convert(value, option, None)
    except click.BadParameter as error:
        return error.message
    return ""


def describe(
    setting: str, value: object, source: str, name: str = "", fault: str = ""
) -> SettingSource:
    """Return a setting with a sentence about its value and source; `fault` is why it is wrong."""
    if not isinstance(value, str | int | Path) or value == "":
        text, printed, level = f"{setting} is not set.", None, Level.OK
    else:
        plain = str(value).lower() if isinstance(value, bool) else str(value)
        printed = hide_secrets(setting, plain)
        where = f"from the {source} {name}" if name else "by default"
        end = f": {hide_secrets(setting, fault)}" if fault else "."
        text, level = f"{setting} is {printed}, {where}{end}", Level.ERROR if fault else Level.OK
    return SettingSource(
        level, "setting", text, setting=setting, value=printed, source=source, name=name
    )
