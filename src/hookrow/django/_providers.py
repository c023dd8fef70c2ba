"""The receiver's entries in the settings: `HOOKROW["PROVIDERS"]`, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from hookrow._arguments import collected, kind_of
from hookrow._core.log_entry import LONGEST_ENTRY_NAME, is_entry_name
from hookrow._core.notification import Key
from hookrow._core.schema import nearest
from hookrow._fault import Fault
from hookrow._models import listed
from hookrow._receiver.entries import (
    Entries,
    Entry,
    Parsers,
    Providers,
    Tenant,
    similar_entry_name,
    tenant_fault,
)
from hookrow.errors import ConfigurationError
from hookrow.providers import BodyParser, Provider
from hookrow.providers._built_in import BuiltIn, Option, OptionValue, credential_settings
from hookrow.providers._loading import create_provider, is_reference, loading
from hookrow.providers._registry import PROVIDER_NAMES, built_in

_LINE_OF_ENTRY = "{{'{}': {{'PROVIDER': 'postmark', 'SECRET': os.environ['ACME_SECRET']}}}}"

EXAMPLE = _LINE_OF_ENTRY.format("acme")

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
                f"is part of a URL: write {_LINE_OF_ENTRY.format(similar_entry_name(str(name)))}."
            )
        place = f"HOOKROW['PROVIDERS'][{name!r}]"
        if not isinstance(values, Mapping):
            raise ConfigurationError(
                f"{place} must be a dict, not {kind_of(values)}: write {EXAMPLE}."
            )
        _check_case(place, values)
        provider = values.get("PROVIDER", name if name in PROVIDER_NAMES else None)
        if not isinstance(provider, str):
            found = "no PROVIDER" if provider is None else f"{kind_of(provider)} as PROVIDER"
            raise ConfigurationError(
                f"{place} has {found}: set it to one of {', '.join(map(repr, PROVIDER_NAMES))}, or "
                "to the path of your own, such as 'crm.courier.Courier'."
            )
        try:
            known = _known_keys(provider)
        except ConfigurationError as error:
            raise ConfigurationError(f"{place}: {error}") from error
        if unknown := [
            f"{place}: {provider} has no setting {key!r}.{nearest(str(key), known)} It has these: "
            f"{', '.join(known)}."
            for key in values
            if key not in known
        ]:
            raise ConfigurationError(*unknown)
        if values.get("TENANT") is not None and (fault := tenant_fault(values["TENANT"])):
            raise ConfigurationError(f"{place}: TENANT {fault}: write, for example, 'TENANT': 1.")
        options = values.get("OPTIONS", {})
        if not (isinstance(options, Mapping) and all(isinstance(each, str) for each in options)):
            raise ConfigurationError(
                f"{place}: OPTIONS must be a dict whose keys are the names of keyword arguments: "
                f"write 'OPTIONS': {{'key': os.environ['ACME_KEY']}}."
            )
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
        newest, *others = _credential_keys(provider)
        for key in (newest, *others):
            value = self.values.get(key)
            if value is not None and (fault := _fault(key, Option(), value)):
                hint = f" Write the older one as '{others[0]}'." if isinstance(value, list) else ""
                raise ConfigurationError(f"{fault}{hint}")
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
            if fault := _fault(name.upper(), option, value):
                raise ConfigurationError(fault)
            options[name] = value
        return options

    def _call(self) -> Provider:
        """Call the class or the function of the project."""
        with loading(f"The provider {self.provider}"):
            factory = resolve_name(_reference(self.provider))
        return create_provider(
            self.provider, factory, self.values.get("OPTIONS", {}), named="OPTIONS"
        )


def read_entries(providers: object) -> Sequence[ProjectEntry]:
    """Return the entries of the setting. Raises `ConfigurationError` with the faults of all."""
    if not isinstance(providers, Mapping) or not providers:
        raise ConfigurationError(
            f"HOOKROW['PROVIDERS'] must be a dict with an entry for each provider: write {EXAMPLE}."
        )
    entries: list[ProjectEntry] = []
    faults: list[Fault] = []
    for name, values in providers.items():
        with collected(faults):
            entries.append(ProjectEntry.read(name, values))
    if faults:
        raise ConfigurationError(*faults)
    without = [each.name for each in entries if each.tenant is None]
    if without and len(without) < len(entries):
        raise ConfigurationError(
            f"HOOKROW['PROVIDERS'][{without[0]!r}] has no TENANT, but other entries have one, "
            "so it would change the rows of every tenant: add, for example, 'TENANT': 1."
        )
    return entries


def _check_case(place: str, values: Mapping[object, object]) -> None:
    """Raise `ConfigurationError` for names in lower case, as in `hookrow.toml`."""
    lowered = [each for each in values if isinstance(each, str) and each != each.upper()]
    if lowered and all(each == each.lower() for each in lowered):
        raise ConfigurationError(
            f"{place} has {listed([*map(repr, lowered)])}, but in Django, settings have capitals: "
            f"write {listed([repr(each.upper()) for each in lowered])}."
        )


def build_providers(entries: Sequence[ProjectEntry]) -> Providers:
    """Return the first argument of a receiver. Raises `ConfigurationError`."""
    tenants = {
        each.name: Tenant(each.build(), each.tenant) for each in entries if each.tenant is not None
    }
    return tenants or {each.name: each.build() for each in entries}


def parsers_of(entries: Sequence[ProjectEntry]) -> Parsers:
    """Return the entries as far as they are needed to read the log."""
    return Entries(*(Entry(each.name, each.parser(), each.tenant) for each in entries))


def _fault(key: str, option: Option, value: object) -> str | None:
    """Return the message for a value of the wrong type, with the line to write, or None."""
    fault = option.fault(value)
    line = f"'{key}': True" if option.type is bool else f"'{key}': os.environ['ACME_{key}']"
    return fault and f"{key} {fault}: write {line}."


def _known_keys(provider: str) -> Sequence[str]:
    """Return the keys of the settings of an entry with this provider.

    Raises `ConfigurationError` if it is neither built in nor the path of a class or a function.
    """
    if "." not in provider and ":" not in provider:
        return _keys_of(built_in(provider))
    if ":" in provider or not is_reference(_reference(provider)):
        raise ConfigurationError(
            f"PROVIDER is {provider!r}, which is not the path of a class or a function: write, for "
            "example, 'PROVIDER': 'crm.courier.Courier'."
        )
    return _KEYS_OF_FACTORY


def _reference(path: str) -> str:
    """Return the dotted path of an object as "module:name"."""
    return ":".join(path.rsplit(".", 1))


def _keys_of(provider: type[BuiltIn]) -> list[str]:
    """Return the keys of the settings of a built-in provider; a project reads files itself."""
    newest, previous, _ = _credential_keys(provider)
    options = [each.upper() for each in provider.options]
    return ["PROVIDER", "TENANT", newest, previous, *options]


def _credential_keys(provider: type[BuiltIn]) -> Sequence[str]:
    return [each.upper() for each in credential_settings(provider.credential)]
