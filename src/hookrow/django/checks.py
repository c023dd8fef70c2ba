"""System checks: what is wrong or slow, reported by `manage.py check` and `runserver`.

Ids are stable. `hookrow.E001` no usable secret, `E002` no such app, model or field,
`E003` a setting that there is none of or that cannot work, `E004` a database that cannot
be used, `E005` a spool that cannot be written, `E006` a field that must allow null, `E007` a
mapping that needs the ORM; `W001` no index for a lookup, `W002` a short secret, `W003` no table for
the log, `W004` models that are kept in another database, `W005` a field of an unmanaged model that
does not allow null.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from django.apps.config import AppConfig
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - Django's own
from django.db import router

from hookrow.django.conf import NAMES, conf
from hookrow.django.field_types import NeedsORM, check_fold
from hookrow.django.indexes import missing
from hookrow.django.mapping import NOT_NULL, ModelMapping, map_models
from hookrow.django.receiver import built
from hookrow.django.store import DjangoStore, check_alias
from hookrow.errors import ConfigurationError, SchemaMismatch
from hookrow.postmark import SHORTEST_SECRET, Postmark


def check(app_configs: Sequence[AppConfig] | None, **_: object) -> list[CheckMessage]:
    """Look at the settings and the models, at no database."""
    del app_configs
    found, database = [*_secret(), *_settings()], [*_database()]
    found += database or _tables()
    return found if any(each.is_serious() for each in found) else [*found, *_start(), *_spool()]


def _secret() -> Iterator[CheckMessage]:
    try:
        secrets = conf.secrets
        Postmark(*secrets)
    except ConfigurationError as error:
        hint = "HOOKROW = {'SECRET': os.environ['HOOKROW_SECRET']}, for example."
        yield Error(str(error), hint=hint, id="hookrow.E001")
        return
    shortest = min(map(len, secrets))
    if shortest < SHORTEST_SECRET:
        yield Warning(
            f"The secret has {shortest} characters and can be guessed.",
            hint=f"Take {SHORTEST_SECRET} or more, the same as in the provider's webhook.",
            id="hookrow.W002",
        )


def _settings() -> Iterator[CheckMessage]:
    try:
        conf.refuse_unknown()
        for name in ("keep_bodies", "group_commit", "sweep", "spool", "deadline", "observer"):
            getattr(conf, name)
    except ConfigurationError as error:
        yield _unworkable(error)


def _start() -> Iterator[CheckMessage]:
    """Build what the first request builds, except the spool and the observer."""
    try:
        built(DjangoStore(conf.tables, conf.database), spool=None)
    except ConfigurationError as error:
        yield _unworkable(error)


def _unworkable(error: ConfigurationError) -> CheckMessage:
    return Error(str(error), hint=f"The settings are {', '.join(NAMES)}.", id="hookrow.E003")


def _spool() -> Iterator[CheckMessage]:
    if conf.spool is not None and (fault := _unwritable(Path(conf.spool).absolute())):
        hint = "Name a file in a folder of its own, or silence this where another runs the server."
        yield Error(fault, hint=hint, id="hookrow.E005")


def _unwritable(path: Path) -> str | None:
    """Say why there can be no such spool. No file is made: who runs a command may be another."""
    from hookrow.spool import Spool  # noqa: PLC0415 - sqlite3 is loaded where asked

    if not os.access(path, os.F_OK):
        there = os.access(path.parent, os.W_OK | os.X_OK)
        return None if there else f"The spool {path} cannot be made in its folder."
    try:
        Spool(path)
    except ConfigurationError as error:
        return str(error)
    return None


def _database() -> Iterator[CheckMessage]:
    try:
        check_alias(conf.database)
    except ConfigurationError as error:
        hint = "HOOKROW['DATABASE'] is an alias of DATABASES, on PostgreSQL or SQLite."
        yield Error(str(error), hint=hint, id="hookrow.E004")


def _tables() -> Iterator[CheckMessage]:
    try:
        tables = conf.tables
        found = map_models(tables, conf.database)
        check_fold(found.fields["subscribers", "email"], tables.subscribers.fold, conf.database)
    except NeedsORM as error:
        hint = "hookrow writes SQL and does not use the ORM: docs/hosts/django.md names the limits."
        yield Error(str(error), hint=hint, id="hookrow.E007")
    except SchemaMismatch as error:
        hint = "A role's table is a model's label ('crm.Person'), its columns are fields of it."
        yield Error(str(error), hint=hint, id="hookrow.E002")
    except ConfigurationError as error:
        yield Error(
            str(error), hint="docs/hosts/django.md shows what TABLES may say.", id="hookrow.E003"
        )
    else:
        yield from _nulls(found)
        yield from _indexes(found)
        yield from _log(found)
        yield from _elsewhere(found)


def _nulls(found: ModelMapping) -> Iterator[CheckMessage]:
    for field in found.not_null():
        yield Error(
            NOT_NULL.format(field),
            hint=f"Add null=True to {field}, then run makemigrations and migrate.",
            obj=field.model,
            id="hookrow.E006",
        )
    for field in found.not_null(managed=False):
        yield Warning(
            NOT_NULL.format(field),
            hint=f"Let the column be null in the database, and add null=True to {field}.",
            obj=field.model,
            id="hookrow.W005",
        )


def _log(found: ModelMapping) -> Iterator[CheckMessage]:
    if found.log is not None and not router.allow_migrate_model(conf.database, found.log):
        yield Warning(
            f"DATABASE_ROUTERS keep the log's table out of the database {conf.database!r}.",
            hint="Let them migrate the app 'hookrow' there, or set LOG to False.",
            id="hookrow.W003",
        )


def _elsewhere(found: ModelMapping) -> Iterator[CheckMessage]:
    """Warn of models that the project itself, and its admin, look for in another database."""
    everyone = [*found.models.values(), *([found.log] if found.log else [])]
    names = [each._meta.label for each in everyone if router.db_for_write(each) != conf.database]  # noqa: SLF001 - Django's public name
    if names:
        yield Warning(
            f"HOOKROW['DATABASE'] is {conf.database!r}, and the project keeps "
            f"{', '.join(names)} in another database.",
            hint="Add a router to DATABASE_ROUTERS: docs/hosts/django.md has one to copy.",
            id="hookrow.W004",
        )


def _indexes(found: ModelMapping) -> Iterator[CheckMessage]:
    """Warn of each lookup that would read a whole table."""
    for each in missing(found, conf.database):
        yield Warning(
            f"No index serves the lookup by {' and '.join(each.fields)}: it reads the whole table.",
            hint=f"Add to its Meta: {each.index}. Or one in the database, and silence this.",
            obj=each.model,
            id="hookrow.W001",
        )
