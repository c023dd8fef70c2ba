"""System checks of the settings and of the models that they name.

docs/how-to/hosts/django.md lists the ids, which are stable. No check queries a database or creates
a file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import isinf
from pathlib import Path
from typing import TypeAlias

from django.apps import apps
from django.apps.config import AppConfig
from django.core.checks import CheckMessage, Error, Info, Warning  # noqa: A004 - Django's own
from django.db import connections, router

from hookrow._arguments import collected, spelled
from hookrow._core.known_entries import NO_ENTRIES, KnownEntries
from hookrow._diagnostics import CheckResult, Level
from hookrow._diagnostics.check import check_secrets
from hookrow._diagnostics.status import sweep_of
from hookrow._fault import Fault
from hookrow._receiver.options import needs_spool
from hookrow._receiver.receiver import Receiver
from hookrow.django._columns import NeedsORM
from hookrow.django._conf import OPTION_NAMES, SETTING_NAMES, conf
from hookrow.django._mapping import ModelMapping, map_models
from hookrow.django._providers import EXAMPLE
from hookrow.django._receiver import build_receiver
from hookrow.django._store import DjangoStore, check_alias
from hookrow.django._vendors import vendor_of
from hookrow.errors import ConfigurationError, SchemaMismatch

Messages: TypeAlias = list[CheckMessage]

_SETTINGS = f"The settings are {', '.join(SETTING_NAMES)}."
_DESCRIBED = "docs/how-to/hosts/django.md describes the settings."
_WITH_OTHER_IDS = {"SECRET", "PREVIOUS_SECRET", "DATABASE", "TABLES", "LOG"}
"""The settings that other checks examine."""


def check(app_configs: Sequence[AppConfig] | None, **_: object) -> Messages:
    """Return the mistakes in the settings and in the mapping of the models."""
    del app_configs
    messages: Messages = []
    _check_settings(messages)
    with _reporting(
        messages,
        ConfigurationError,
        hint="Set HOOKROW['DATABASE'] to an alias of DATABASES, on a supported database.",
        check_id="hookrow.E004",
    ):
        check_alias(conf.database)
        _check_models(messages)
    if not any(each.is_serious() for each in messages):
        with _reporting(messages, ConfigurationError, hint=_DESCRIBED, check_id="hookrow.E003"):
            _build_receiver()
        messages += _check_connect_timeout(conf.database, conf.deadline)
        messages += _check_spool()
    return [*map(_as_warning, messages)] if _is_migrating() else messages


def _is_migrating() -> bool:
    """Return whether this process writes or applies migrations, which may be what is missing.

    Without the app of the endpoint, its own tables would be missing afterwards.
    """
    return sys.argv[1:2] in _MIGRATING and apps.is_installed("hookrow.django")


_MIGRATING = (["makemigrations"], ["migrate"])
"""The commands that errors do not stop. Django runs their checks only from a command line."""


def _as_warning(message: CheckMessage) -> CheckMessage:
    """Return an error as a warning, with the same id."""
    if not message.is_serious():
        return message
    return Warning(message.msg, hint=message.hint, id=message.id)


def check_deployment(app_configs: Sequence[AppConfig] | None, **_: object) -> Messages:
    """Return a message if no notification of Postmark that arrives before its rows is retried."""
    del app_configs
    results = check_settings_sweep()
    return [Info(each.text, hint=each.remedy, id="hookrow.I001") for each in results]


def check_settings_sweep() -> Sequence[CheckResult]:
    """Return what `check_deployment` reports, without another receiver's spool."""
    with suppress(ConfigurationError, SchemaMismatch, NeedsORM):  # which `check` reports
        return [*sweep_of(_build_receiver())]
    return []


def _build_receiver() -> Receiver:
    """Return the receiver of the settings, without its spool, which it would create."""
    opened = DjangoStore(conf.tables, conf.database)
    receiver = build_receiver(opened, spool=None, acknowledge_spooled=False)
    if conf.acknowledge_spooled and not (conf.spool and receiver.options.sweeps):
        with spelled(OPTION_NAMES):
            raise needs_spool()
    return receiver


@contextmanager
def _reporting(
    messages: Messages, kind: type[Exception], *, hint: str | Callable[[str], str], check_id: str
) -> Iterator[None]:
    """Report an exception raised in the block as an error with this hint and id.

    The hint may be a function of the exception's text.
    """
    try:
        yield
    except kind as error:
        text = str(error)
        given = hint if isinstance(hint, str) else hint(text)
        messages.append(Error(text, hint=given, id=check_id))


def _check_settings(messages: Messages) -> None:
    messages += _check_secrets()
    with _reporting(messages, ConfigurationError, hint=_SETTINGS, check_id="hookrow.E003"):
        conf.check_names()
    with _reporting(messages, ConfigurationError, hint=_DESCRIBED, check_id="hookrow.E003"):
        faults: list[Fault] = []
        for name in SETTING_NAMES:
            if name not in _WITH_OTHER_IDS:
                with collected(faults):
                    getattr(conf, name.lower())
        if faults:
            raise ConfigurationError(*faults)


def _check_secrets() -> Iterator[CheckMessage]:
    """Yield the mistakes in the secret, or in those of the entries."""
    try:
        entries = conf.providers
    except ConfigurationError:  # which `_check_settings` reports
        return
    hint = "For example: HOOKROW = {'SECRET': os.environ['HOOKROW_SECRET']}."
    results = [check_secrets(conf.secrets)]
    if entries:
        hint = f"For example: {EXAMPLE}."
        built_in = [each for each in entries if each.is_built_in]
        results = [check_secrets(each.secrets, entry=each.name) for each in built_in]
    for result in results:
        if result.level is Level.ERROR:
            yield Error(result.text, hint=hint, id="hookrow.E001")
        elif result.level is Level.WARNING:
            hint = "Change it here and in the webhook at the provider."
            yield Warning(f"The secret: {result.text}", hint=hint, id="hookrow.W001")


def _hint_for_models(text: str) -> str:
    """Return the hint for an error about models: the steps of Django that it leads to."""
    if "NOT NULL" in text:
        return "To drop NOT NULL, add null=True to the field, then run makemigrations and migrate."
    return "After a change of a model, run makemigrations and migrate."


def _hint_for_labels(text: str) -> str:
    """Return the hint for an error about models that the settings name."""
    labels = "HOOKROW['TABLES'] names models by label ('crm.Person') and columns by field."
    return f"{labels} {_hint_for_models(text)}"


def _hint_for_schema(text: str) -> str:
    """Return the hint for an error of a schema, which may also be about what its models declare."""
    example = "docs/how-to/hosts/django.md has an example of a Schema of models."
    return f"{example} {_hint_for_models(text)}"


def _check_models(messages: Messages) -> None:
    invalid: str | Callable[[str], str] = _hint_for_schema
    unsuitable = _hint_for_models
    if not conf.names_a_schema():
        invalid = "docs/how-to/hosts/django.md describes the keys of HOOKROW['TABLES']."
        unsuitable = _hint_for_labels
    limits = "docs/how-to/hosts/django.md describes the limits of HOOKROW['TABLES']."
    with (
        _reporting(messages, ConfigurationError, hint=invalid, check_id="hookrow.E003"),
        _reporting(messages, SchemaMismatch, hint=unsuitable, check_id="hookrow.E002"),
        _reporting(messages, NeedsORM, hint=limits, check_id="hookrow.E006"),
    ):
        mapping = map_models(conf.tables, conf.database, _known_entries())
        messages += _check_routers(mapping, conf.database)


def _known_entries() -> KnownEntries:
    """Return what the settings say about the entries; nothing if they are invalid."""
    with suppress(ConfigurationError):  # which `_check_settings` and `_build_receiver` report
        return conf.parsers().known
    return NO_ENTRIES


def _check_connect_timeout(using: str, deadline: float) -> Iterator[CheckMessage]:
    """Warn if connecting may take longer than a response may."""
    connection = connections[using]
    vendor = vendor_of(connection)
    seconds = vendor.connect_limit(connection)
    if seconds < deadline:
        return
    option = vendor.connect_option(connection)
    hint = f"Set {option} in DATABASES[{using!r}]['OPTIONS'], in seconds."
    if isinf(seconds):
        text = (
            f"DATABASES[{using!r}] has no time limit for connecting: if the server does not "
            "respond, a response may take minutes."
        )
    else:
        text = (
            f"Connecting to DATABASES[{using!r}] may take {seconds:g} seconds, but "
            f"HOOKROW['DEADLINE'] allows {deadline:g} for the whole response."
        )
        hint += " If this is still too long, raise HOOKROW['DEADLINE']."
    yield Warning(text, hint=hint, id="hookrow.W005")


def _check_spool() -> Iterator[CheckMessage]:
    if conf.spool is not None and (fault := _spool_fault(Path(conf.spool).absolute())):
        hint = (
            "Set HOOKROW['SPOOL'] to a file in a separate directory. If the server runs as another "
            "user, add hookrow.E005 to SILENCED_SYSTEM_CHECKS."
        )
        yield Error(fault, hint=hint, id="hookrow.E005")


def _spool_fault(path: Path) -> str | None:
    """Return why this user cannot use the spool, or None if it can. Does not create the spool."""
    from hookrow._receiver.spool import Spool  # noqa: PLC0415 - loads sqlite3 only if there is a spool

    if not os.access(path, os.F_OK):
        writable = os.access(path.parent, os.W_OK | os.X_OK)
        return None if writable else f"The spool {path} cannot be created: check its directory."
    try:
        Spool(path)
    except ConfigurationError as error:
        return str(error)
    return None


def _check_routers(mapping: ModelMapping, using: str) -> Iterator[CheckMessage]:
    """Warn about models for which the project and its admin use another database."""
    models = list(mapping.models.values())
    if mapping.log is not None:
        models.append(mapping.log)
        if not router.allow_migrate_model(using, mapping.log):
            yield Warning(
                f"DATABASE_ROUTERS does not allow the log's table in the database {using!r}.",
                hint="Allow the app 'hookrow' to migrate there, or set HOOKROW['LOG'] to False.",
                id="hookrow.W002",
            )
    labels = [each._meta.label for each in models if router.db_for_write(each) != using]
    if labels:
        yield Warning(
            f"HOOKROW['DATABASE'] is {using!r}, but DATABASE_ROUTERS uses another database for "
            f"{', '.join(labels)}.",
            hint="Add a router to DATABASE_ROUTERS: docs/how-to/hosts/django.md has an example.",
            id="hookrow.W003",
        )
