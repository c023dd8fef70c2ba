"""The settings of `hookrow serve`. The command line reads them from several sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, ClassVar, TypeAlias

from hookrow._arguments import spelled
from hookrow._core.known_entries import KnownEntries
from hookrow._core.notification import Key
from hookrow._core.schema import Schema
from hookrow._http import ENDPOINT, endpoint_path
from hookrow._postmark_api import ADDRESS
from hookrow._receiver.entries import (
    POSTMARK,
    Entries,
    Entry,
    Parsers,
    Providers,
    Tenant,
    match_tenants,
)
from hookrow.errors import ConfigurationError
from hookrow.providers import Provider
from hookrow.providers._base import check_provider
from hookrow.providers._built_in import BuiltIn, OptionValue, credential_settings
from hookrow.providers._loading import load_provider
from hookrow.providers._registry import built_in
from hookrow.providers.postmark import Postmark

_VARIABLES = "HOOKROW_PROVIDERS_"
"""The beginning of the names of the environment variables for the settings of entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySettings:
    """The settings of an entry of the receiver; its name is None if it is the only one.

    `provider` is the name of a built-in provider. Its `credentials` are given, the newest first, or
    are in a `file`. `options` are the values of its other settings. The errors state where each is
    set, and contain no credential.
    """

    name: str | None = None
    provider: str = Postmark.name
    credentials: tuple[str, ...] = field(default=(), repr=False)
    file: str | None = None
    options: Mapping[str, OptionValue] = field(default_factory=dict, repr=False)
    tenant: Key | None = None

    @property
    def provider_class(self) -> type[BuiltIn]:
        """The class of the provider."""
        return built_in(self.provider)

    @property
    def accepts_logged(self) -> bool:
        """Whether the provider accepts what the log has."""
        return self.provider_class.accepts_logged

    def parser(self) -> BuiltIn:
        """Return a provider that reads the log, which needs no credential."""
        return self.provider_class.parser(**self.options)

    def build(self) -> BuiltIn:
        """Return the provider.

        Raises `ConfigurationError` as `given` does, if there is no credential, and if the provider
        rejects a setting.
        """
        return self._build(self.given())

    def read(self) -> Sequence[str]:
        """Return the credentials, which the provider accepts. Raises as `build` does."""
        given = self.given()
        self._build(given)
        return given

    def secrets(self) -> Sequence[str]:
        """Return the secrets in the credentials, such as passwords. Raises as `build` does."""
        given = self.given()
        return self._build(given).secrets or given

    def given(self) -> Sequence[str]:
        """Return the credentials, if any; if they are in a file, read it at each call.

        The file has one per line, the newest first. Lines that repeat one are ignored: `hookrow
        provider rotate` would wait until the newest is rejected.

        Raises `ConfigurationError` if the file cannot be read or is empty, or if credentials are
        also set: the command line passes both only if neither takes precedence.
        """
        if self.file is None:
            return self.credentials
        setting, previous, file = self._names
        if self.credentials:
            where = "" if self.name is None else f" for the entry {self.name}"
            raise ConfigurationError(
                f"Both {file} and {setting} (or {previous}) are set{where}, and neither takes "
                f"precedence; use only one. A {setting} file may have several lines, the newest "
                "first."
            )
        try:
            lines = Path(self.file).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeError) as error:
            raise ConfigurationError(
                f"The {setting} file cannot be read: {error}. Correct {self._places(file)}."
            ) from error
        if not (found := [*dict.fromkeys(line.strip() for line in lines if line.strip())]):
            raise ConfigurationError(
                f"The {setting} file {self.file} is empty: write one {setting} per line, the "
                f"newest first, or correct {self._places(file)}."
            )
        return found

    def _build(self, credentials: Sequence[str]) -> BuiltIn:
        setting, _, file = self._names
        if not all(credentials) or not credentials:
            raise ConfigurationError(self._missing(setting, f", or {setting} or {file} in"))
        for name in self.provider_class.required_settings():
            if name != self.provider_class.credential and not self.options.get(name):
                raise ConfigurationError(self._missing(name, f" or {name} in"))
        try:
            return self.provider_class(*credentials, **self.options)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{error} It is set in {self.file or self._places(setting)}."
            ) from error

    @property
    def _names(self) -> tuple[str, str, str]:
        """The settings with the credentials; without a name, those of the command."""
        return credential_settings(
            "secret" if self.name is None else self.provider_class.credential
        )

    def _missing(self, setting: str, in_table: str) -> str:
        """Return the error for a setting without a value; `in_table` names it in the file."""
        if self.name is None:
            return (
                "The webhook secret is missing or empty: set HOOKROW_SECRET, --secret or "
                "--secret-file, for example to a secret from "
                "`python -c 'import secrets; print(secrets.token_urlsafe())'`."
            )
        return (
            f"The entry {self.name} has no {setting}, or it is empty: set "
            f"{variable_of(self.name, setting)}{in_table} [providers.{self.name}]."
        )

    def _places(self, setting: str) -> str:
        """Return where a setting can be set."""
        if self.name is None:
            flag = f"--{setting.replace('_', '-')}"
            return f"HOOKROW_{setting.upper()}, {flag} or {setting} in hookrow.toml"
        return f"{variable_of(self.name, setting)}, or {setting} in [providers.{self.name}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnEntrySettings:
    """The settings of an entry whose `provider` is the "module:name" of a class or a function.

    It is called with the `options`. What it returns verifies requests by itself, so hookrow knows
    neither its credentials nor their file.
    """

    name: str
    provider: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tenant: Key | None = None
    file: ClassVar[None] = None

    @property
    def accepts_logged(self) -> bool:
        """Whether the provider accepts what the log has. Raises as `build` does."""
        return self.build().accepts_logged

    def build(self) -> Provider:
        """Return a new provider. Raises `ConfigurationError`, which contains no option."""
        try:
            return check_provider(load_provider(self.provider, self.options))
        except ConfigurationError as error:
            raise ConfigurationError(f"[providers.{self.name}]: {error}") from error

    def parser(self) -> Provider:
        """Return the provider, which needs its options even to read the log; see `build`."""
        return self.build()

    def given(self) -> Sequence[str]:
        """Return the secrets that the provider states, if any; see `build`."""
        return self.build().secrets

    secrets = given


AnyEntrySettings: TypeAlias = EntrySettings | OwnEntrySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a server, which it passes to its worker processes.

    The log keeps entries for `keep`, and their bodies for `keep_bodies` (zero: not at all); None
    means forever. Without a `dashboard_password`, the dashboard requires the `generated_password`,
    which is new for each server. The dashboard shows the status of the webhooks at Postmark of the
    entries that have one of the `provider_tokens`.
    """

    entries: Sequence[AnyEntrySettings]
    database_url: str = field(repr=False)  # may have a password
    host: str = "127.0.0.1"
    port: int = 8000
    mount_path: str = ""
    sweep: bool = True
    acknowledge_tests: bool = False
    acknowledge_parked: bool | None = None
    acknowledge_spooled: bool = False
    spool: str | None = None
    keep: timedelta | None = timedelta(days=90)
    keep_bodies: timedelta | None = None
    dashboard: bool = False
    dashboard_password: str | None = field(default=None, repr=False)
    generated_password: str = field(default_factory=token_urlsafe, repr=False)
    metrics: bool = False
    provider_tokens: Mapping[str | None, str] = field(default_factory=dict, repr=False)
    provider_api: str = ADDRESS
    schema: Schema = field(default_factory=Schema)

    @property
    def known_entries(self) -> KnownEntries:
        """What a store needs to know about the entries."""
        return parsers_of(self.entries).known

    @property
    def bodies(self) -> bool:
        """Whether the log keeps bodies at all."""
        return self.keep_bodies != timedelta(0)

    @property
    def dashboard_path(self) -> str:
        """The path of the dashboard, without a trailing slash."""
        return f"{endpoint_path(self.mount_path).removesuffix(ENDPOINT)}/dashboard"

    @property
    def sweeps(self) -> bool:
        """Whether parked notifications are retried, which requires a log with their bodies.

        Raises `ConfigurationError` if some are acknowledged although they are not retried.
        """
        missing = {
            "`sweep = false`, --no-sweep or HOOKROW_SWEEP": self.sweep,
            '`keep_bodies = "none"`, --keep-bodies or HOOKROW_KEEP_BODIES': self.bodies,
            "`log = false` in [tables]": self.schema.log is not None,
        }
        remove = "; and ".join(setting for setting, is_on in missing.items() if not is_on)
        if not remove:
            return True
        needs = "needs the sweep, the log and its bodies"
        for name in ("acknowledge_parked", "acknowledge_spooled"):
            if getattr(self, name):
                raise ConfigurationError(
                    f"{name} {needs}, because the provider does not send an acknowledged "
                    f"notification again: remove {remove}; or remove {name}."
                )
        names = {each.provider for each in self.entries if each.accepts_logged}
        if names and self.acknowledge_parked is None:
            raise ConfigurationError(
                f"Every event of {' and '.join(sorted(names))} that the log has gets a 200, which "
                f"{needs}: remove {remove}; or set `acknowledge_parked = false`, with which an "
                "event whose rows are missing gets a 404 or 400."
            )
        return False


def variable_of(entry: str, setting: str) -> str:
    """Return the name of the environment variable for a setting of an entry."""
    return f"{_VARIABLES}{entry.replace('-', '_')}_{setting}".upper()


def parsers_of(entries: Sequence[AnyEntrySettings]) -> Parsers:
    """Return the entries as far as they are needed to read the log; Postmark if there are none."""
    if not entries:
        return POSTMARK
    return Entries(*(Entry(each.name, each.parser(), each.tenant) for each in entries))


def check_tenants(entries: Sequence[AnyEntrySettings], schema: Schema) -> None:
    """Raise `ConfigurationError` if only the entries or only the mapping has tenants."""
    names = {
        "tenant": "[providers.NAME] with `tenant`, for example `tenant = 1`",
        "tenant_column": '`tenant = "team_id"` in [tables.subscribers]',
    }
    with spelled(names):
        match_tenants(parsers_of(entries), schema)


def providers_of(entries: Sequence[AnyEntrySettings], built: Sequence[Provider]) -> Providers:
    """Return the first argument of a receiver with these entries, whose providers are `built`."""
    first = entries[0]
    if first.name is None:
        return built[0]
    pairs = [
        (str(each.name), each.tenant, provider)
        for each, provider in zip(entries, built, strict=True)
    ]
    if first.tenant is None:
        return {name: provider for name, _, provider in pairs}
    return {
        name: Tenant(provider, tenant) for name, tenant, provider in pairs if tenant is not None
    }


def origin(host: str, port: int) -> str:
    """Return the beginning of the server's URLs, without a trailing slash."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
