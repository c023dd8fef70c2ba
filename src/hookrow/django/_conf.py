"""The settings: one property for each key of the project's dict `HOOKROW`.

The dict is read at each access, so that tests can override it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from types import UnionType
from typing import Any, TypeVar

from django.apps import apps
from django.conf import settings
from django.utils.module_loading import import_string

from hookrow._arguments import check_seconds, kind_of
from hookrow._core.notation import Notation
from hookrow._core.schema import ModelRole, Schema, nearest
from hookrow._core.schema_values import schema_of
from hookrow._faults import host_line
from hookrow._observability.observer import Observer, check_observers
from hookrow._receiver.entries import POSTMARK, Parsers, Providers
from hookrow.django._providers import (
    ProjectEntry,
    build_providers,
    parsers_of,
    read_entries,
)
from hookrow.errors import ConfigurationError
from hookrow.providers.postmark import Postmark

T = TypeVar("T")


class ProjectSettings:
    """The settings. Each property raises `ConfigurationError` if its value cannot be used."""

    @property
    def secret(self) -> str | None:
        """The secret that Postmark, the only provider, sends as X-Provider-Secret."""
        return self._get("SECRET", str | None, "text")

    @property
    def previous_secret(self) -> str | None:
        """A second secret that is also accepted, during a rotation."""
        return self._get("PREVIOUS_SECRET", str | None, "text")

    @property
    def providers(self) -> Sequence[ProjectEntry]:
        """The entries of the receiver; none if its only provider is Postmark."""
        providers = self._all().get("PROVIDERS")
        if providers is None:
            return ()
        for name in ("SECRET", "PREVIOUS_SECRET"):
            if self._all().get(name) is not None:
                raise ConfigurationError(
                    f"HOOKROW has both PROVIDERS and {name}, but each entry has its own: move it "
                    "into the entry in PROVIDERS."
                )
        return read_entries(providers)

    @property
    def database(self) -> str:
        """The alias of the database with the rows and the log."""
        alias: str | None = self._get("DATABASE", str | None, "text")
        return "default" if alias is None else alias

    @property
    def tables(self) -> Schema:
        """The models of the roles: by default, those of `hookrow.django.tables`.

        A string is the path of a `Schema` in a module that imports the models, as settings cannot.
        """
        tables = self._all().get("TABLES")
        if isinstance(tables, str):
            tables = _imported(tables)
        if tables is None:
            if not apps.is_installed("hookrow.django.tables"):
                raise ConfigurationError(
                    "hookrow has no tables: map your models in HOOKROW['TABLES'], "
                    "or add 'hookrow.django.tables' to INSTALLED_APPS."
                )
            tables = Schema()
        schema = tables if isinstance(tables, Schema) else _schema(tables)
        if schema.log not in {None, Schema().log}:
            raise ConfigurationError(
                f"HOOKROW['TABLES']: the log cannot use the table {schema.log!r}, because Django "
                "creates the log's table: remove 'log', or set it to None to disable the log."
            )
        return schema if self.log else schema.changed(log=None)

    @property
    def log(self) -> bool:
        """Whether the log keeps notifications."""
        return self._flag("LOG", default=True)

    @property
    def keep_bodies(self) -> bool:
        """Whether the log keeps the bodies of notifications, which retries and replays need."""
        return self._flag("KEEP_BODIES", default=True)

    @property
    def group_commit(self) -> bool:
        """Whether concurrent notifications share a commit, in a thread of the process."""
        return self._flag("GROUP_COMMIT", default=False)

    @property
    def sweep(self) -> bool | None:
        """Whether each process retries parked notifications every minute; see `Receiver`."""
        return self._get("SWEEP", bool | None, "True, False or None")

    @property
    def acknowledge_tests(self) -> bool:
        """Whether the provider's tests get a 200."""
        return self._flag("ACKNOWLEDGE_TESTS", default=False)

    @property
    def acknowledge_parked(self) -> bool | None:
        """Whether parked notifications, which the sweep retries, get a 200; see `Receiver`."""
        return self._get("ACKNOWLEDGE_PARKED", bool | None, "True, False or None")

    @property
    def acknowledge_spooled(self) -> bool:
        """Whether notifications in the spool get a 200."""
        return self._flag("ACKNOWLEDGE_SPOOLED", default=False)

    @property
    def spool(self) -> str | PathLike[str] | None:
        """The file that keeps notifications while the database is unavailable."""
        return self._get("SPOOL", str | PathLike | None, "text")

    @property
    def deadline(self) -> float:
        """The time limit for each response, in seconds."""
        value = self._all().get("DEADLINE", 5.0)
        check_seconds("HOOKROW['DEADLINE']", value)
        return float(value)

    @property
    def observer(self) -> Sequence[Observer] | None:
        """The observers of all notifications: one, such as `Metrics(registry)`, or a list."""
        value, line = self._all().get("OBSERVER"), "'OBSERVER': Metrics(registry)"
        return check_observers("HOOKROW['OBSERVER']", value, line) or None

    def secrets(self) -> Sequence[str]:
        """Return the secrets of Postmark, the only provider.

        Raises `ConfigurationError` if there is none, or if a header cannot contain one.
        """
        if not self.secret:
            raise ConfigurationError(
                "hookrow has no secret: set HOOKROW['SECRET'] to the value that the provider "
                "sends as X-Provider-Secret."
            )
        secrets = [each for each in (self.secret, self.previous_secret) if each]
        Postmark(*secrets)
        return secrets

    def build_providers(self) -> Providers:
        """Return the first argument of the receiver. Raises `ConfigurationError`."""
        entries = self.providers
        return build_providers(entries) if entries else Postmark(*self.secrets())

    def parsers(self) -> Parsers:
        """Return the entries that read the log, most of which need no secret.

        Raises `ConfigurationError`.
        """
        entries = self.providers
        return parsers_of(entries) if entries else POSTMARK

    def check_names(self) -> None:
        """Raise `ConfigurationError` for settings that do not exist."""
        unknown = [
            f"HOOKROW has no setting {name!r}.{nearest(str(name), SETTING_NAMES)}"
            for name in self._all()
            if name not in SETTING_NAMES
        ]
        if unknown:
            raise ConfigurationError(*unknown)

    def _all(self) -> Mapping[str, Any]:
        value = getattr(settings, "HOOKROW", {})
        if not isinstance(value, Mapping):
            raise ConfigurationError("HOOKROW must be a dict, for example {'SECRET': ...}.")
        return value

    def _get(
        self, name: str, types: type | UnionType, expected: str, default: T | None = None
    ) -> T | None:
        value: T | None = self._all().get(name, default)
        if isinstance(value, types):
            return value
        given = type(value).__name__
        raise ConfigurationError(f"HOOKROW[{name!r}] must be {expected}, not {given}.")

    def names_a_schema(self) -> bool:
        """Return whether `TABLES` is the path of a schema, which has models in place of labels."""
        return isinstance(self._all().get("TABLES"), str)

    def _flag(self, name: str, *, default: bool) -> bool:
        return bool(self._get(name, bool, "True or False", default))


OPTION_NAMES = {
    "log": "'LOG'",
    "keep_bodies": "'KEEP_BODIES'",
    "sweep": "'SWEEP'",
    "spool": "'SPOOL'",
    "acknowledge_parked": "'ACKNOWLEDGE_PARKED'",
    "no_acknowledge_parked": "'ACKNOWLEDGE_PARKED': False",
    "acknowledge_spooled": "'ACKNOWLEDGE_SPOOLED'",
    "tenant": "'TENANT': 1 in each entry of HOOKROW['PROVIDERS']",
    "tenant_column": "'tenant': 'team_id' in HOOKROW['TABLES']['subscribers']",
}
"""The settings for options of a receiver and of a mapping, in the form of errors (`spelled`)."""


def option_names() -> Mapping[str, str]:
    """Return `OPTION_NAMES`, with the class of the subscribers if the mapping has models."""
    role = conf.tables.subscribers
    if not isinstance(role, ModelRole):
        return OPTION_NAMES
    return {**OPTION_NAMES, "tenant_column": f"Schema(subscribers={role.line_with_tenant})"}


SETTING_NAMES = tuple(
    name.upper() for name, each in vars(ProjectSettings).items() if isinstance(each, property)
)
"""The names of all settings."""

conf = ProjectSettings()


def _imported(path: str) -> Schema:
    """Return the schema at a dotted path. Raises `ConfigurationError` if there is none."""
    setting = f"HOOKROW['TABLES'] is {path!r}"
    try:
        found = import_string(path)
    except ImportError as error:
        fault = _import_fault(error, path)
        raise ConfigurationError(f"{setting}, which cannot be imported: {fault}.") from error
    if not isinstance(found, Schema):
        raise ConfigurationError(f"{setting}, which is not a Schema, but {kind_of(found)}.")
    return found


def _import_fault(error: ImportError, path: str) -> str:
    """Describe why Django's `import_string` failed, for the middle of a sentence.

    Django reports any `AttributeError` as a name that the module lacks, also one that the module
    raised, such as for a misspelled field of a model.
    """
    cause, name = error.__cause__, path.rpartition(".")[2]
    if not isinstance(cause, AttributeError) or cause.name == name:
        return str(error)
    line = host_line(cause)
    return f"{cause} ({line})" if line else str(cause)


def _schema(tables: object) -> Schema:
    try:
        return schema_of(tables, Notation.DJANGO)
    except ConfigurationError as error:
        raise ConfigurationError(*error.faults, place="HOOKROW['TABLES']") from error
