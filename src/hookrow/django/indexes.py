"""Which indexes a host's models lack: lookups without one read a whole table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections
from django.db.models import Index, Model, UniqueConstraint
from django.db.models.expressions import Expression
from django.db.models.functions import Collate, Lower

from hookrow.django.fields import Folded
from hookrow.django.mapping import ModelMapping
from hookrow.schema import Fold


@dataclass(frozen=True, slots=True)
class Missing:
    """A lookup by fields of a model that no index of its Meta serves, and one that would."""

    model: type[Model]
    fields: Sequence[str]
    index: str


def missing(mapping: ModelMapping, using: str) -> Iterator[Missing]:
    """Look at the models, at no database."""
    models, fields = mapping.models, mapping.fields
    people, sends = models["subscribers"], models["dispatches"]
    email, fold = fields["subscribers", "email"].name, mapping.schema.subscribers.fold
    if not _folded(people, email, fold, using):
        yield Missing(people, [email], _SERVING[fold].format(email))
    message_id = fields["dispatches", "provider_message_id"].name
    if not _leading(sends, [message_id]):
        yield Missing(sends, [message_id], f"Index(fields=[{message_id!r}], name=...)")
    if "subscriptions" in models:
        members = models["subscriptions"]
        pair = [fields["subscriptions", name].name for name in ("list_id", "subscriber_id")]
        if not (_leading(members, pair) or _leading(members, pair[1:])):
            yield Missing(members, pair, f"UniqueConstraint(fields={pair!r}, name=...)")


_SERVING: dict[Fold, str] = {
    "ascii": "Index(Folded({!r}), name=...) of hookrow.django.fields",
    "lower": "Index(Lower({!r}), name=...)",
    "exact": "Index(fields=[{!r}], name=...)",
    "citext": "Index(fields=[{!r}], name=...)",
}


def _folded(model: type[Model], name: str, fold: Fold, using: str) -> bool:
    """Tell whether an index serves the lookup of emails, each by the fold that it is made of."""
    if fold in {"exact", "citext"}:
        return _leading(model, [name])
    serving: list[Expression] = [Lower(name)]
    if fold == "ascii" and connections[using].vendor != "sqlite":
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
