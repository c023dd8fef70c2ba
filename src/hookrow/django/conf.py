"""The settings: `HOOKROW = {...}` in the project's own, one property each, the default beside it.

They are read anew each time, so that what a test overrides counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from threading import TIMEOUT_MAX

from django.apps import apps
from django.conf import settings

from hookrow.errors import ConfigurationError
from hookrow.observing import Observer
from hookrow.schema import Schema, nearest
from hookrow.settings import schema_of


class Settings:
    """What the project set; each property raises `ConfigurationError` for what cannot work."""

    @property
    def secrets(self) -> Sequence[str]:
        """The secrets that are accepted: `SECRET` and, while one is rotated, `PREVIOUS_SECRET`."""
        if not self.secret:
            raise ConfigurationError(
                "hookrow has no secret: set HOOKROW = {'SECRET': ...} "
                "to the one that the provider sends as X-Provider-Secret."
            )
        return [each for each in (self.secret, self.previous_secret) if each]

    @property
    def secret(self) -> str | None:
        """What the provider sends as X-Provider-Secret."""
        return self._text("SECRET")

    @property
    def previous_secret(self) -> str | None:
        """Another one that is accepted, too."""
        return self._text("PREVIOUS_SECRET")

    @property
    def database(self) -> str:
        """The alias of the database that has the tables, the log's among them."""
        alias = self._text("DATABASE")
        return "default" if alias is None else alias

    @property
    def tables(self) -> Schema:
        """The models that play our roles: those of `hookrow.django.tables` by default."""
        given = self._given("TABLES", None)
        if given is None:
            if not apps.is_installed("hookrow.django.tables"):
                raise ConfigurationError(
                    "hookrow knows no tables: name your models in HOOKROW['TABLES'], "
                    "or add 'hookrow.django.tables' to INSTALLED_APPS."
                )
            given = Schema()
        schema = given if isinstance(given, Schema) else _schema(given)
        if schema.log not in {None, Schema().log}:
            raise ConfigurationError(
                f"HOOKROW['TABLES']: the log cannot be in {schema.log!r}, for it has a model: "
                "leave out 'log', or say None for no log."
            )
        return schema if self.log else replace(schema, log=None)

    @property
    def log(self) -> bool:
        """Whether every notification is kept in the log."""
        return self._flag("LOG", default=True)

    @property
    def keep_bodies(self) -> bool:
        """Whether the log has their bodies, without which none can be tried again."""
        return self._flag("KEEP_BODIES", default=True)

    @property
    def group_commit(self) -> bool:
        """Whether those that come at once share a commit, in a thread of their own."""
        return self._flag("GROUP_COMMIT", default=False)

    @property
    def sweep(self) -> bool:
        """Whether each process tries what is parked again, every minute."""
        return self._flag("SWEEP", default=False)

    @property
    def spool(self) -> str | PathLike[str] | None:
        """The file for what comes while the database cannot be reached."""
        value = self._given("SPOOL", None)
        return value if isinstance(value, PathLike) else self._text("SPOOL")

    @property
    def deadline(self) -> float:
        """The maximum time until each response, in seconds."""
        value = self._given("DEADLINE", 5.0)
        if isinstance(value, int | float) and value is not True and 0 < value <= TIMEOUT_MAX:
            return float(value)
        raise ConfigurationError("HOOKROW['DEADLINE'] is a number of seconds, more than 0.")

    @property
    def observer(self) -> Observer | None:
        """What looks on, such as `Metrics(registry)`."""
        value = self._given("OBSERVER", None)
        if value is not None and not isinstance(value, Observer):
            raise ConfigurationError(
                "HOOKROW['OBSERVER'] is an observer: Metrics(registry), for example."
            )
        return value

    def refuse_unknown(self) -> None:
        """Raise `ConfigurationError` for a setting that there is none of."""
        for name in self._all():
            if name not in NAMES:
                hint = nearest(str(name), NAMES)
                raise ConfigurationError(f"HOOKROW has no setting {name!r}.{hint}")

    def _all(self) -> Mapping[str, object]:
        given = getattr(settings, "HOOKROW", {})
        if not isinstance(given, Mapping):
            raise ConfigurationError("HOOKROW is a dict: {'SECRET': ...}, for example.")
        return given

    def _given(self, name: str, default: object) -> object:
        return self._all().get(name, default)

    def _text(self, name: str) -> str | None:
        value = self._given(name, None)
        if value is not None and not isinstance(value, str):
            raise ConfigurationError(f"HOOKROW[{name!r}] is text, not {type(value).__name__}.")
        return value

    def _flag(self, name: str, *, default: bool) -> bool:
        value = self._given(name, default)
        if not isinstance(value, bool):
            raise ConfigurationError(f"HOOKROW[{name!r}] is True or False.")
        return value


NAMES = (
    *("SECRET", "PREVIOUS_SECRET", "DATABASE", "TABLES", "LOG", "KEEP_BODIES"),
    *("GROUP_COMMIT", "SWEEP", "SPOOL", "DEADLINE", "OBSERVER"),
)
"""Every setting."""

conf = Settings()


def _schema(tables: object) -> Schema:
    try:
        return schema_of(tables)
    except ConfigurationError as error:
        raise ConfigurationError(f"HOOKROW['TABLES']: {error}") from error
