"""The receiver's entries in settings: the tables [providers.NAME], and their variables."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from hookrow._cli.settings import (
    Ranked,
    SettingSource,
    choose,
    choose_secrets,
    describe,
    is_typed,
    read_token,
    read_token_file,
)
from hookrow._core.log_entry import LONGEST_ENTRY_NAME, is_entry_name
from hookrow._core.schema import nearest
from hookrow._receiver.entries import Entry, no_such_entry, similar_entry_name, tenant_fault
from hookrow._server.settings import (
    AnyEntrySettings,
    EntrySettings,
    OwnEntrySettings,
    variable_of,
)
from hookrow.errors import ConfigurationError
from hookrow.providers._built_in import BuiltIn, Option, OptionValue, credential_settings
from hookrow.providers._loading import is_reference
from hookrow.providers._registry import PROVIDER_NAMES, built_in
from hookrow.providers.postmark import Postmark

if TYPE_CHECKING:
    from hookrow._diagnostics.probe import Sender

TOKEN_SETTINGS = "token", "token_file"
"""The settings of an entry of Postmark's that have the token of the API, or its file."""

_COMMON_SETTINGS = "provider", "tenant"
"""The settings of every entry, which have no variable."""

_ENVIRONMENT, _FILE = range(2)
"""The ranks of the sources of a setting: a variable overrides the file."""


@dataclass(frozen=True, slots=True)
class ConfiguredEntries:
    """The settings of the entries, in order; the sources of their values; and their variables.

    `tables` have the values in the file, from which the tokens of the provider's API are read.
    """

    entries: Sequence[AnyEntrySettings] = ()
    sources: Sequence[SettingSource] = ()
    variables: Collection[str] = ()
    tables: Sequence[EntryTable] = field(default=(), repr=False)  # they may contain secrets


def read_entries(providers: object, environment: Mapping[str, str], file: str) -> ConfiguredEntries:
    """Return the entries that the table [providers] of a file describes.

    A variable of the environment overrides a setting in the file, unless it is empty. Raises
    `ConfigurationError`, which begins with the name of the file.
    """
    try:
        tables = [EntryTable.read(name, each) for name, each in _named(providers)]
        variables = _variables(tables)
        _check_tenants(tables)
    except ConfigurationError as error:
        raise ConfigurationError(f"{file}: {error}") from error
    return ConfiguredEntries(
        [each.settings(environment) for each in tables],
        [source for each in tables for source in each.sources(environment, file)],
        variables,
        tables,
    )


def read_tokens(
    context: click.Context, names: Sequence[str | None], file: str | None
) -> Mapping[str | None, str]:
    """Return the tokens of Postmark's API for entries of Postmark's, by name.

    An entry's own token takes precedence over the one that is set for all, unless its `file` is on
    the command line. The one for all is used only if there is one name, because a token belongs to
    one server of Postmark. Raises `ConfigurationError`.
    """
    tokens: dict[str | None, str | None] = {}
    if not is_typed(context, "provider_token_file"):
        tokens = {name: _own_token(context, name) for name in names if name is not None}
    if len(names) == 1 and not any(tokens.values()):
        tokens = {names[0]: read_token(context, file)}
    return {name: token for name, token in tokens.items() if token is not None}


def token_variables(environment: Iterable[str]) -> Collection[str]:
    """Return the variables that have the token of an entry, or its file, if there is such an entry.

    The entries of an application are not known before it is imported.
    """
    patterns = [variable_of("*", each) for each in TOKEN_SETTINGS]
    return [name for name in environment if any(fnmatchcase(name, each) for each in patterns)]


def _own_token(context: click.Context, name: str) -> str | None:
    """Return the token of an entry, or None if only the one for all may be set."""
    configured: ConfiguredEntries = context.obj.configured
    # An application has no table, and the host's own provider may have another setting `token`.
    without = EntryTable(name, Postmark.name, {})
    named = (each for each in configured.tables if each.name == name and not each.is_own)
    return next(named, without).token(os.environ)


def entries_of(
    context: click.Context,
    *,
    secret: str | None,
    previous_secret: str | None = None,
    secret_file: str | None,
) -> Sequence[AnyEntrySettings]:
    """Return the entries of the settings; without [providers], Postmark with a command's secrets.

    Raises `ConfigurationError` if both are set.
    """
    configured: ConfiguredEntries = context.obj.configured
    given = {"secret": secret, "previous_secret": previous_secret, "secret_file": secret_file}
    if not configured.entries:
        credentials, file = choose_secrets(context, **given)
        return [EntrySettings(credentials=credentials, file=file)]
    if names := [name for name, value in given.items() if value]:
        raise ConfigurationError(
            f"Both [providers] and {names[0]} are set, but each entry has its own: move it to "
            f"{names[0]} in [providers.NAME], or to HOOKROW_PROVIDERS_NAME_{names[0].upper()}."
        )
    return configured.entries


def senders_of(entries: Sequence[AnyEntrySettings]) -> Sequence[Sender]:
    """Return the entries as far as their requests can be sent; some may have no credential.

    Raises `ConfigurationError` for a credential that is not valid.
    """
    from hookrow._diagnostics.probe import Sender

    return [
        Sender.of(Entry(each.name, each.build()))
        if isinstance(each, OwnEntrySettings)
        else Sender(each.name, each.provider_class, each.build() if each.given() else None)
        for each in entries
    ]


def choose_entry(senders: Sequence[Sender], name: str | None) -> Sender:
    """Return the entry with a name, or the first one. Raises `UsageError`."""
    if name is None:
        return senders[0]
    for each in senders:
        if each.name == name:
            return each
    names = [each.name for each in senders if each.name is not None]
    raise click.UsageError(no_such_entry(name, names))


@dataclass(frozen=True, slots=True)
class EntryTable:
    """A table [providers.NAME], whose keys and types are valid."""

    name: str
    provider: str
    values: Mapping[str, Any]

    @classmethod
    def read(cls, name: str, values: Mapping[str, Any]) -> EntryTable:
        """Validate a table. Raises `ConfigurationError`."""
        provider = values.get("provider", name if name in PROVIDER_NAMES else None)
        if not isinstance(provider, str):
            inner = next((key for key, each in values.items() if isinstance(each, Mapping)), None)
            if inner is not None:
                line = f"[providers.{similar_entry_name(f'{name}-{inner}')}]"
                raise ConfigurationError(
                    f"[providers.{name}.{inner}] is a table in the entry {name}, which has no "
                    f"provider. If it is an entry, its name has no dot: write {line}."
                )
            raise ConfigurationError(
                f'[providers.{name}] has no provider: write provider = "postmark", or another of '
                f"these: {', '.join(PROVIDER_NAMES)}; or that of your own, such as "
                '"shop.courier:Courier".'
            )
        if "tenant" in values and (fault := _tenant_fault(values["tenant"])):
            raise ConfigurationError(
                f"[providers.{name}]: tenant {fault}: write, for example, tenant = 1."
            )
        if "." in provider or ":" in provider:
            if not is_reference(provider):
                raise ConfigurationError(
                    f"[providers.{name}]: the provider {provider!r} is not module:name, such as "
                    "shop.courier:Courier."
                )
        else:
            cls._check_built_in(name, provider, values)
        return cls(name, provider, values)

    @staticmethod
    def _check_built_in(name: str, provider: str, values: Mapping[str, Any]) -> None:
        """Check the keys and the types of the settings of a provider that hookrow has."""
        try:
            known = [*_COMMON_SETTINGS, *_settings_of(provider)]
        except ConfigurationError as error:
            raise ConfigurationError(f"[providers.{name}]: {error}") from error
        for key, value in values.items():
            if key not in known:
                raise ConfigurationError(
                    f"[providers.{name}]: {provider} has no setting {key!r}.{nearest(key, known)} "
                    f"It has these: {', '.join(known)}."
                )
            option = built_in(provider).options.get(key, Option())
            if key != "tenant" and (fault := option.fault(value)):
                line = f"{key} = true" if option.type is bool else f'{key} = "..."'
                hint = _several(provider, key, value)
                raise ConfigurationError(f"[providers.{name}]: {key} {fault}: write {line}.{hint}")

    @property
    def is_own(self) -> bool:
        """Whether the provider is a class or a function of the host's own."""
        return is_reference(self.provider)

    @property
    def provider_class(self) -> type[BuiltIn]:
        return built_in(self.provider)

    def variables(self) -> Mapping[str, str]:
        """Return the name of the variable for each setting that may have one.

        hookrow knows the settings of the host's own provider only by the keys of the table.
        """
        own = [each for each in self.values if each not in _COMMON_SETTINGS]
        names = own if self.is_own else _settings_of(self.provider)
        return {each: variable_of(self.name, each) for each in names}

    def settings(self, environment: Mapping[str, str]) -> AnyEntrySettings:
        """Return the settings of the entry, some of which variables may override."""
        given = {name: self._ranked(name, environment) for name in self.variables()}
        if self.is_own:
            return OwnEntrySettings(
                name=self.name,
                provider=self.provider,
                options={name: each.value for name, each in given.items()},
                tenant=self.values.get("tenant"),
            )
        names = credential_settings(self.provider_class.credential)
        credentials, file = choose(*(given[name] for name in names))
        return EntrySettings(
            name=self.name,
            provider=self.provider,
            credentials=credentials,
            file=file,
            options=dict(self._options(environment)),
            tenant=self.values.get("tenant"),
        )

    def token(self, environment: Mapping[str, str]) -> str | None:
        """Return the token of the provider's API, or None. Raises `ConfigurationError`."""
        token, file = (self._ranked(each, environment) for each in TOKEN_SETTINGS)
        found, path = choose(token, Ranked(None, None), file)
        if path is None:
            return next((each.strip() for each in found), None) or None
        place = f"{variable_of(self.name, 'token_file')}, or token_file in [providers.{self.name}]"
        if found:
            raise ConfigurationError(
                f"Both token and token_file are set for the entry {self.name}, and neither takes "
                "precedence; use only one."
            )
        return read_token_file(path, place)

    def sources(self, environment: Mapping[str, str], file: str) -> Iterator[SettingSource]:
        """Yield the source of each setting that is set."""
        variables = self.variables()
        for setting in (*_COMMON_SETTINGS, *variables):
            name, variable = f"providers.{self.name}.{setting}", variables.get(setting, "")
            hidden = "set" if self.is_own and variable else None  # any of them may be a secret
            if value := environment.get(variable):
                yield describe(name, hidden or value, "variable", variable)
            elif setting in self.values:
                yield describe(name, hidden or self.values[setting], "file", file)

    def _options(self, environment: Mapping[str, str]) -> Iterator[tuple[str, OptionValue]]:
        """Yield the options that are set. Raises `ConfigurationError` for a variable of no flag."""
        for name, option in self.provider_class.options.items():
            variable = variable_of(self.name, name)
            if (text := environment.get(variable)) and option.type is bool:
                yield name, _flag(variable, text)
            elif value := text or self.values.get(name):
                yield name, value

    def _ranked(self, setting: str, environment: Mapping[str, str]) -> Ranked:
        if value := environment.get(variable_of(self.name, setting)):
            return Ranked(value, _ENVIRONMENT)
        return Ranked(self.values.get(setting), _FILE)


def _several(provider: str, key: str, value: object) -> str:
    """Return the hint for a list of credentials in the file, or an empty text."""
    newest, previous, _ = credential_settings(built_in(provider).credential)
    is_list = isinstance(value, list) and key in (newest, previous)
    return f" Write the older one as {previous}." if is_list else ""


def _tenant_fault(value: object) -> str | None:
    """Return why a value of the file cannot be that of a tenant, or None."""
    if not isinstance(value, int | str) or isinstance(value, bool):
        return "must be text or a whole number"
    return tenant_fault(value)


def _settings_of(provider: str) -> Sequence[str]:
    """Return the names of the settings of a built-in provider. Raises `ConfigurationError`."""
    names = built_in(provider).setting_names()
    return [*names, *TOKEN_SETTINGS] if provider == Postmark.name else [*names]


def _flag(variable: str, text: str) -> bool:
    """Return the value of a variable for a flag. Raises `ConfigurationError`."""
    try:
        return bool(click.BOOL.convert(text, None, None))
    except click.BadParameter as error:
        raise ConfigurationError(f"{variable} must be true or false.") from error


def _named(providers: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name of each table in [providers]. Raises `ConfigurationError`."""
    if not isinstance(providers, Mapping):
        raise ConfigurationError("providers must be tables, such as [providers.acme].")
    for name, table in providers.items():
        if not isinstance(table, Mapping):
            raise ConfigurationError(
                f"providers.{name} must be a table: move it to a table such as [providers.acme]."
            )
        if not is_entry_name(name):
            raise ConfigurationError(
                f"[providers.{name}]: the name of an entry has 1 to {LONGEST_ENTRY_NAME} "
                'lower-case ASCII letters, digits, "-" and "_", because it is part of a URL: write '
                f"[providers.{similar_entry_name(name)}]."
            )
        yield name, table


def _variables(tables: Sequence[EntryTable]) -> Collection[str]:
    """Return the variables of all entries.

    Raises `ConfigurationError` if two settings have the same, as those of `a-b` and `a_b`.
    """
    owners: dict[str, str] = {}
    for table in tables:
        for variable in table.variables().values():
            other = owners.setdefault(variable, table.name)
            if other != table.name:
                raise ConfigurationError(
                    f"[providers.{other}] and [providers.{table.name}] have the same variable, "
                    f"{variable}: rename one of the two."
                )
    return owners.keys()


def _check_tenants(tables: Sequence[EntryTable]) -> None:
    """Raise `ConfigurationError` if some entries have a tenant, and others do not."""
    without = [each.name for each in tables if "tenant" not in each.values]
    if without and len(without) < len(tables):
        raise ConfigurationError(
            f"[providers.{without[0]}] has no tenant, but other entries have, so it would change "
            "the rows of every tenant: add, for example, tenant = 1, or receive from it with "
            "another server."
        )
