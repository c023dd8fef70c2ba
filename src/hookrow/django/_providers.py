"""The receiver's entries in the settings: `HOOKROW["PROVIDERS"]`, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.module_loading import import_string

from hookrow._arguments import kind_of
from hookrow._core.log_entry import LONGEST_ENTRY_NAME, is_entry_name
from hookrow._core.notification import Key
from hookrow._core.schema import nearest
from hookrow._receiver.entries import (
    Entries,
    Entry,
    Parsers,
    Providers,
    Tenant,
    tenant_fault,
)
from hookrow.errors import ConfigurationError
from hookrow.providers import BodyParser, Provider
from hookrow.providers._built_in import BuiltIn, OptionValue, credential_settings
from hookrow.providers._registry import PROVIDER_NAMES, built_in

EXAMPLE = "{'acme': {'PROVIDER': 'postmark', 'SECRET': os.environ['ACME_SECRET']}}"

_KEYS_OF_FACTORY = ["PROVIDER", "TENANT", "OPTIONS"]
"""The settings of an entry whose provider is the path of a class or a function."""


@dataclass(frozen=True, slots=True)
class ProjectEntry:
    """An entry of the settings, whose keys and types are valid. Errors contain no secret."""

    name: str
    provider: str
    values: Mapping[str, Any]

    @classmethod
    def read(cls, name: object, values: object) -> ProjectEntry:
        """Validate the settings of an entry. Raises `ConfigurationError`."""
        if not (isinstance(name, str) and is_entry_name(name)):
            raise ConfigurationError(
                f"HOOKROW['PROVIDERS'] has the name {name!r}, but a name is text with 1 to "
                f'{LONGEST_ENTRY_NAME} lower-case ASCII letters, digits, "-" and "_", because it '
                "is part of a URL."
            )
        place = f"HOOKROW['PROVIDERS'][{name!r}]"
        if not isinstance(values, Mapping):
            raise ConfigurationError(
                f"{place} must be a dict, not {kind_of(values)}: write {EXAMPLE}."
            )
        provider = values.get("PROVIDER", name if name in PROVIDER_NAMES else None)
        if not isinstance(provider, str):
            raise ConfigurationError(
                f"{place} has no PROVIDER: set it to one of {', '.join(PROVIDER_NAMES)}, or to the "
                "path of your own, such as 'crm.courier.Courier'."
            )
        try:
            known = _KEYS_OF_FACTORY if "." in provider else _keys_of(built_in(provider))
        except ConfigurationError as error:
            raise ConfigurationError(f"{place}: {error}") from error
        for key in values:
            if key not in known:
                hint = nearest(str(key), known)
                raise ConfigurationError(f"{place}: {provider} has no setting {key!r}.{hint}")
        if values.get("TENANT") is not None and (fault := tenant_fault(values["TENANT"])):
            raise ConfigurationError(f"{place}: TENANT {fault}.")
        return cls(name, provider, values)

    @property
    def tenant(self) -> Key | None:
        """The value of the tenant; None if the entry is not a tenant."""
        tenant: Key | None = self.values.get("TENANT")
        return tenant

    @property
    def is_built_in(self) -> bool:
        """Whether hookrow has the provider."""
        return "." not in self.provider

    def build(self) -> Provider:
        """Return the provider. Raises `ConfigurationError`."""
        try:
            return self._build_in() if self.is_built_in else self._call()
        except ConfigurationError as error:
            raise ConfigurationError(f"HOOKROW['PROVIDERS'][{self.name!r}]: {error}") from error

    def secrets(self) -> Sequence[str]:
        """Return the secrets in the credentials of a built-in provider, which it accepts.

        Raises `ConfigurationError`.
        """
        return self.build().secrets or self._credentials()

    def parser(self) -> BodyParser:
        """Return the parser for the log; that of a built-in provider needs no secret."""
        return (
            built_in(self.provider).parser(**self._options()) if self.is_built_in else self.build()
        )

    def _credentials(self) -> Sequence[str]:
        newest, previous, _ = _credential_keys(built_in(self.provider))
        return [self.values[key] for key in (newest, previous) if self.values.get(key) is not None]

    def _build_in(self) -> Provider:
        provider, options = built_in(self.provider), self._options()
        for key in _credential_keys(provider):
            if not isinstance(self.values.get(key), str | None):
                kind = type(self.values[key]).__name__  # no number, which may be a secret
                raise ConfigurationError(f"{key} must be text, not {kind}.")
        for name, option in provider.options.items():
            if option.is_required and name not in options:
                raise ConfigurationError(f"{name.upper()} is missing: set it to a string.")
        return provider(*self._credentials(), **options)

    def _options(self) -> Mapping[str, OptionValue]:
        """Return the options that are set. Raises `ConfigurationError` for one of another type."""
        options: dict[str, OptionValue] = {}
        for name, option in built_in(self.provider).options.items():
            value = self.values.get(name.upper())
            if value is None or value == "":
                continue
            if fault := option.fault(value):
                raise ConfigurationError(f"{name.upper()} {fault}.")
            options[name] = value
        return options

    def _call(self) -> Provider:
        """Call the class or the function of the project."""
        try:
            factory: Callable[..., object] = import_string(self.provider)
        except ImportError as error:
            raise ConfigurationError(f"PROVIDER cannot be imported: {error}.") from error
        try:
            found = factory(**self.values.get("OPTIONS", {}))
        except TypeError as error:
            raise ConfigurationError(
                f"{self.provider} does not accept the keyword arguments in OPTIONS: {error}."
            ) from error
        if not isinstance(found, Provider):
            raise ConfigurationError(
                f"{self.provider} returns {kind_of(found)}, which is no instance of a subclass of "
                "hookrow.providers.Provider."
            )
        return found


def read_entries(providers: object) -> Sequence[ProjectEntry]:
    """Return the entries of the setting. Raises `ConfigurationError`."""
    if not isinstance(providers, Mapping) or not providers:
        raise ConfigurationError(
            f"HOOKROW['PROVIDERS'] must be a dict with an entry for each provider: write {EXAMPLE}."
        )
    entries = [ProjectEntry.read(name, values) for name, values in providers.items()]
    without = [each.name for each in entries if each.tenant is None]
    if without and len(without) < len(entries):
        raise ConfigurationError(
            f"HOOKROW['PROVIDERS'][{without[0]!r}] has no TENANT, but other entries have one, "
            "so it would change the rows of every tenant."
        )
    return entries


def build_providers(entries: Sequence[ProjectEntry]) -> Providers:
    """Return the first argument of a receiver. Raises `ConfigurationError`."""
    tenants = {
        each.name: Tenant(each.build(), each.tenant) for each in entries if each.tenant is not None
    }
    return tenants or {each.name: each.build() for each in entries}


def parsers_of(entries: Sequence[ProjectEntry]) -> Parsers:
    """Return the entries as far as they are needed to read the log."""
    return Entries(*(Entry(each.name, each.parser(), each.tenant) for each in entries))


def _keys_of(provider: type[BuiltIn]) -> list[str]:
    """Return the keys of the settings of a built-in provider; a project reads files itself."""
    newest, previous, _ = _credential_keys(provider)
    options = [each.upper() for each in provider.options]
    return ["PROVIDER", "TENANT", newest, previous, *options]


def _credential_keys(provider: type[BuiltIn]) -> Sequence[str]:
    return [each.upper() for each in credential_settings(provider.credential)]
