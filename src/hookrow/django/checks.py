"""System checks of the settings and of the models that they name.

docs/how-to/hosts/django.md lists the ids, which are stable. No check queries a database or creates
a file.
"""

# ruff: noqa: SLF001 - `_meta` is a public name of Django

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from django.apps.config import AppConfig
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - Django's own
from django.db import connections, router
from django.db.models import Index, Model, UniqueConstraint
from django.db.models.expressions import Expression
from django.db.models.functions import Collate, Lower

from hookrow.core.schema import Fold
from hookrow.diagnostics.check import check_secrets
from hookrow.diagnostics.result import Level
from hookrow.django.columns import NeedsORM
from hookrow.django.conf import NAMES, conf
from hookrow.django.fields import Folded
from hookrow.django.mapping import ModelMapping, map_models
from hookrow.django.receiver import build_receiver
from hookrow.django.store import DjangoStore, check_alias
from hookrow.errors import ConfigurationError, SchemaMismatch

Messages: TypeAlias = list[CheckMessage]

_SETTINGS = f"The settings are {', '.join(NAMES)}."
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
        hint="Set HOOKROW['DATABASE'] to an alias of DATABASES, on PostgreSQL or SQLite.",
        id="hookrow.E004",
    ):
        check_alias(conf.database)
        _check_models(messages)
    if not any(each.is_serious() for each in messages):
        with _reporting(messages, ConfigurationError, hint=_SETTINGS, id="hookrow.E003"):
            build_receiver(DjangoStore(conf.tables, conf.database), spool=None)
        messages += _spool()
    return messages


@contextmanager
def _reporting(messages: Messages, kind: type[Exception], **message: str) -> Iterator[None]:
    """Report an exception raised in the block as an error with this hint and id."""
    try:
        yield
    except kind as error:
        messages.append(Error(str(error), **message))


def _check_settings(messages: Messages) -> None:
    hint = "For example: HOOKROW = {'SECRET': os.environ['HOOKROW_SECRET']}."
    secret = check_secrets(conf.secrets)
    if secret.level is Level.ERROR:
        messages.append(Error(secret.text, hint=hint, id="hookrow.E001"))
    elif secret.level is Level.WARNING:
        hint = "Change it here and in the webhook at the provider."
        messages.append(Warning(f"The secret: {secret.text}", hint=hint, id="hookrow.W002"))
    with _reporting(messages, ConfigurationError, hint=_SETTINGS, id="hookrow.E003"):
        conf.check_names()
        for name in NAMES:
            if name not in _WITH_OTHER_IDS:
                getattr(conf, name.lower())


def _check_models(messages: Messages) -> None:
    invalid = "docs/how-to/hosts/django.md describes the keys of HOOKROW['TABLES']."
    unsuitable = (
        "HOOKROW['TABLES'] names models by label ('crm.Person') and columns by field. To drop NOT "
        "NULL, add null=True to the field, then run makemigrations and migrate."
    )
    limits = "docs/how-to/hosts/django.md describes the limits of HOOKROW['TABLES']."
    with (
        _reporting(messages, ConfigurationError, hint=invalid, id="hookrow.E003"),
        _reporting(messages, SchemaMismatch, hint=unsuitable, id="hookrow.E002"),
        _reporting(messages, NeedsORM, hint=limits, id="hookrow.E006"),
    ):
        mapping = map_models(conf.tables, conf.database)
        messages += _routers(mapping, conf.database)
        messages += _indexes(mapping, conf.database)


def _spool() -> Iterator[CheckMessage]:
    if conf.spool is not None and (fault := _spool_fault(Path(conf.spool).absolute())):
        hint = (
            "Set HOOKROW['SPOOL'] to a file in a separate directory. If the server runs as another "
            "user, add hookrow.E005 to SILENCED_SYSTEM_CHECKS."
        )
        yield Error(fault, hint=hint, id="hookrow.E005")


def _spool_fault(path: Path) -> str | None:
    """Return why this user cannot use the spool, or None if it can. Does not create the spool."""
    from hookrow.receiver.spool import Spool  # noqa: PLC0415 - loads sqlite3 only if there is a spool

    if not os.access(path, os.F_OK):
        writable = os.access(path.parent, os.W_OK | os.X_OK)
        return None if writable else f"The spool {path} cannot be created: check its directory."
    try:
        Spool(path)
    except ConfigurationError as error:
        return str(error)
    return None


def _routers(mapping: ModelMapping, using: str) -> Iterator[CheckMessage]:
    """Warn about models for which the project and its admin use another database."""
    models = list(mapping.models.values())
    if mapping.log is not None:
        models.append(mapping.log)
        if not router.allow_migrate_model(using, mapping.log):
            yield Warning(
                f"DATABASE_ROUTERS does not allow the log's table in the database {using!r}.",
                hint="Allow the app 'hookrow' to migrate there, or set HOOKROW['LOG'] to False.",
                id="hookrow.W003",
            )
    labels = [each._meta.label for each in models if router.db_for_write(each) != using]
    if labels:
        yield Warning(
            f"HOOKROW['DATABASE'] is {using!r}, but DATABASE_ROUTERS uses another database for "
            f"{', '.join(labels)}.",
            hint="Add a router to DATABASE_ROUTERS: docs/how-to/hosts/django.md has an example.",
            id="hookrow.W004",
        )


def _indexes(mapping: ModelMapping, using: str) -> Iterator[CheckMessage]:
    for model, names, index in _missing_indexes(mapping, using):
        yield Warning(
            f"No index supports the lookup by {' and '.join(names)}: it reads the whole table.",
            hint=(
                f"Add to its Meta: {index}. If the database has an index that the model does not "
                "declare, add hookrow.W001 to SILENCED_SYSTEM_CHECKS."
            ),
            obj=model,
            id="hookrow.W001",
        )


def _missing_indexes(
    mapping: ModelMapping, using: str
) -> Iterator[tuple[type[Model], Sequence[str], str]]:
    """Yield the model and the fields of each lookup without an index, and a suitable index."""
    names = {key: field.name for key, field in mapping.fields.items()}
    model, email = mapping.models["subscribers"], names["subscribers", "email"]
    fold = mapping.schema.subscribers.fold
    plain = "Index(fields=[{!r}], name=...)"
    if not _has_folded_index(model, email, fold, using):
        yield model, [email], _FOLDED_INDEX.get(fold, plain).format(email)
    model, message_id = mapping.models["dispatches"], names["dispatches", "provider_message_id"]
    if not _has_index(model, [message_id]):
        yield model, [message_id], plain.format(message_id)
    if "subscriptions" in mapping.models:
        model = mapping.models["subscriptions"]
        pair = [names["subscriptions", "list_id"], names["subscriptions", "subscriber_id"]]
        if not (_has_index(model, pair) or _has_index(model, pair[1:])):
            yield model, pair, f"UniqueConstraint(fields={pair!r}, name=...)"


_FOLDED_INDEX: dict[Fold, str] = {
    "ascii": "Index(Folded({!r}), name=...) of hookrow.django.fields",
    "lower": "Index(Lower({!r}), name=...)",
}


def _has_folded_index(model: type[Model], name: str, fold: Fold, using: str) -> bool:
    """Return whether an index supports the comparison of emails by this fold."""
    if fold in {"exact", "citext"}:
        return _has_index(model, [name])
    expressions: list[Expression] = [Lower(name)]
    if fold == "ascii":
        is_sqlite = connections[using].vendor == "sqlite"
        expressions = [Folded(name), Lower(name if is_sqlite else Collate(name, "C"))]
    return any(index.expressions[:1] == (it,) for index in _declared(model) for it in expressions)


def _has_index(model: type[Model], names: Sequence[str]) -> bool:
    """Return whether an index begins with these fields, in any order."""
    meta = model._meta
    field: Any = meta.get_field(names[0])
    if len(names) == 1 and (field.primary_key or field.unique or field.db_index):
        return True
    indexed: list[Sequence[str]] = [[each.name for each in meta.pk_fields], *meta.unique_together]
    indexed += [[name.removeprefix("-") for name in each.fields] for each in _declared(model)]
    return any(set(each[: len(names)]) == set(names) for each in indexed)


def _declared(model: type[Model]) -> list[Any]:
    """Return the indexes and the unique constraints that a model declares."""
    meta = model._meta
    constraints = [each for each in meta.constraints if isinstance(each, UniqueConstraint)]
    return [*(each for each in meta.indexes if isinstance(each, Index)), *constraints]
