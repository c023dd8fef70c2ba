"""System checks: what is wrong or slow, said by `manage.py check` and before a server starts.

Ids are stable. `hookrow.E001` no usable secret, `E002` no such app, model or field,
`E003` a setting that there is none of or that cannot work, `E004` a database that cannot
be used, `E005` a spool that cannot be written; `W001` no index for a lookup, `W002` a
short secret, `W003` no table for the log, `W004` models that are kept in another database.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from django.apps.config import AppConfig
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - Django's own
from django.db import connections, router
from django.db.models import Index, Model, UniqueConstraint
from django.db.models.expressions import Expression
from django.db.models.functions import Collate, Lower

from hookrow.django.conf import NAMES, conf
from hookrow.django.fields import Folded
from hookrow.django.lookups import check_fold
from hookrow.django.mapping import Models, models
from hookrow.django.receiving import built
from hookrow.django.store import DjangoStore, supported
from hookrow.errors import ConfigurationError, SchemaMismatch
from hookrow.postmark import SHORTEST_SECRET, Postmark
from hookrow.schema import Fold


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
    looks: list[Callable[[], object]] = [
        conf.refuse_unknown,
        lambda: (conf.keep_bodies, conf.group_commit, conf.sweep, conf.spool, conf.deadline),
    ]
    for look in looks:
        try:
            look()
        except ConfigurationError as error:
            yield _unworkable(error)
            return


def _start() -> Iterator[CheckMessage]:
    """Build what a server builds when it starts, but for the spool."""
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
        supported(conf.database)
    except ConfigurationError as error:
        hint = "HOOKROW['DATABASE'] is an alias of DATABASES, on PostgreSQL or SQLite."
        yield Error(str(error), hint=hint, id="hookrow.E004")


def _tables() -> Iterator[CheckMessage]:
    try:
        found = models(conf.tables)
        check_fold(found, conf.database)
    except SchemaMismatch as error:
        hint = "A role's table is a model's label ('crm.Person'), its columns are fields of it."
        yield Error(str(error), hint=hint, id="hookrow.E002")
    except ConfigurationError as error:
        yield Error(
            str(error), hint="docs/hosts/django.md shows what TABLES may say.", id="hookrow.E003"
        )
    else:
        yield from _indexes(found)
        yield from _log(found)
        yield from _elsewhere(found)


def _log(found: Models) -> Iterator[CheckMessage]:
    if found.log is not None and not router.allow_migrate_model(conf.database, found.log):
        yield Warning(
            f"DATABASE_ROUTERS keep the log's table out of the database {conf.database!r}.",
            hint="Let them migrate the app 'hookrow' there, or set LOG to False.",
            id="hookrow.W003",
        )


def _elsewhere(found: Models) -> Iterator[CheckMessage]:
    """Warn of models that the project itself, and its admin, look for in another database."""
    everyone = [role.model for role in found.roles.values()] + ([found.log] if found.log else [])
    names = [each._meta.label for each in everyone if router.db_for_write(each) != conf.database]  # noqa: SLF001 - Django's public name
    if names:
        yield Warning(
            f"HOOKROW['DATABASE'] is {conf.database!r}, and the project keeps "
            f"{', '.join(names)} in another database.",
            hint="Add a router to DATABASE_ROUTERS: docs/hosts/django.md has one to copy.",
            id="hookrow.W004",
        )


def _indexes(found: Models) -> Iterator[CheckMessage]:
    """Warn of each lookup that would read a whole table."""
    people, sends = found.roles["subscribers"], found.roles["dispatches"]
    email, fold = people.fields["email"].name, found.fold
    if not _folded(people.model, email, fold):
        yield _slow(people.model, email, _HINTS[fold].format(email))
    message_id = sends.fields["provider_message_id"].name
    if not _leading(sends.model, [message_id]):
        yield _slow(sends.model, message_id, f"Index(fields=[{message_id!r}], name=...)")
    if "subscriptions" in found.roles:
        members = found.roles["subscriptions"]
        pair = [members.fields[name].name for name in ("list_id", "subscriber_id")]
        if not (_leading(members.model, pair) or _leading(members.model, pair[1:])):
            hint = f"UniqueConstraint(fields={pair!r}, name=...)"
            yield _slow(members.model, " and ".join(pair), hint)


_HINTS: dict[Fold, str] = {
    "ascii": "Index(Folded({!r}), name=...) of hookrow.django.fields",
    "lower": "Index(Lower({!r}), name=...)",
    "exact": "Index(fields=[{!r}], name=...)",
    "citext": "Index(fields=[{!r}], name=...)",
}


def _slow(model: type[Model], names: str, index: str) -> CheckMessage:
    return Warning(
        f"No index serves the lookup by {names}: it reads the whole table.",
        hint=f"Add to its Meta: {index}. Or one in the database, and silence this.",
        obj=model,
        id="hookrow.W001",
    )


def _folded(model: type[Model], name: str, fold: Fold) -> bool:
    """Tell whether an index serves the lookup of emails, each by the fold that it is made of."""
    if fold in {"exact", "citext"}:
        return _leading(model, [name])
    serving: list[Expression] = [Lower(name)]
    if fold == "ascii" and connections[conf.database].vendor != "sqlite":
        serving = [Folded(name), Lower(Collate(name, "C"))]
    elif fold == "ascii":
        serving = [Folded(name), Lower(name)]
    return any(each.expressions[:1] == (it,) for each in _of(model) for it in serving)


def _leading(model: type[Model], names: Sequence[str]) -> bool:
    """Tell whether an index begins with these fields, in whatever order."""
    meta = model._meta  # noqa: SLF001 - Django's public name
    field: Any = meta.get_field(names[0])
    if len(names) == 1 and (field.primary_key or field.unique or field.db_index):
        return True
    indexed: list[Sequence[str]] = [[each.name for each in meta.pk_fields], *meta.unique_together]
    indexed += [[name.removeprefix("-") for name in each.fields] for each in _of(model)]
    return any(set(each[: len(names)]) == set(names) for each in indexed)


def _of(model: type[Model]) -> list[Any]:
    meta = model._meta  # noqa: SLF001 - as above
    unique = [each for each in meta.constraints if isinstance(each, UniqueConstraint)]
    return [*(each for each in meta.indexes if isinstance(each, Index)), *unique]
