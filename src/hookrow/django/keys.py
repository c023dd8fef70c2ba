"""Verifies that models declare the keys of rows unique; `stores.sql.keys` does so for databases."""

# ruff: noqa: SLF001 - `_meta` is a public name of Django

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model, Q, UniqueConstraint
from django.db.models.constants import LOOKUP_SEP

from hookrow.core.schema import Scalar
from hookrow.django.columns import AnyField, literal
from hookrow.errors import SchemaMismatch
from hookrow.stores.sql.keys import effect

_Where: TypeAlias = Mapping[AnyField, Scalar]
"""The fields of `where`, each with the value of the rows that are not hidden, as it is stored."""


def check_key(
    role: str,
    model: type[Model],
    key: Sequence[AnyField],
    where: _Where,
    connection: BaseDatabaseWrapper,
) -> None:
    """Raise `SchemaMismatch` unless the model declares that no two visible rows have the same key.

    A field that `where` fixes to a value is the same in all visible rows, so they may be unique
    together with it. A field that is null does not count, because nulls are distinct. An unmanaged
    model declares it, too; `manage.py hookrow check` asks the database.
    """
    given = [*key, *(field for field, value in where.items() if value is not None)]
    attributes = {field.attname for field in given}
    if any(field.unique for field in given) or any(
        attributes.issuperset(unique) for unique in _declared(model, key, where, connection)
    ):
        return
    label, quoted = model._meta.label, [repr(field.name) for field in key]
    if len(key) == 1:
        is_not = "is not unique"
        remedy = f"map id to {_primary_key(model)!r}, or add unique=True to the field"
    else:
        is_not = "are not unique together"
        remedy = f"add a UniqueConstraint(fields=[{', '.join(quoted)}], name=...) to its Meta"
    raise SchemaMismatch(
        f"{' and '.join(quoted)} of {label} {is_not}, so {effect(role)}: {remedy}."
    )


def _primary_key(model: type[Model]) -> str:
    return model._meta.pk.name


def _declared(
    model: type[Model], key: Sequence[AnyField], where: _Where, connection: BaseDatabaseWrapper
) -> Iterator[Collection[str]]:
    """Yield sets of fields, by attribute, that are unique together among the visible rows."""
    meta: Any = model._meta
    meta = meta.concrete_model._meta  # a proxy has no constraints of its own
    fields = _by_name(model)
    yield {field.attname for field in meta.pk_fields}
    for names in meta.unique_together:
        yield {fields[name].attname for name in names}
    for constraint in meta.constraints:
        # A constraint on expressions has no fields.
        if isinstance(constraint, UniqueConstraint) and constraint.fields:
            condition = constraint.condition or Q()
            if all(
                _is_implied(each, fields, key, where, connection) for each in _conjuncts(condition)
            ):
                yield {fields[name].attname for name in constraint.fields}


def _by_name(model: type[Model]) -> Mapping[str, AnyField]:
    """Return the fields by name and by attribute."""
    fields: dict[str, AnyField] = {}
    for field in model._meta.concrete_fields:
        fields[field.name] = fields[field.attname] = field
    return fields


def _conjuncts(condition: Q) -> Iterator[object]:
    """Yield the parts of a conjunction: lookups with their values, or anything else unchanged."""
    if condition.negated or (condition.connector != Q.AND and len(condition.children) > 1):
        yield condition
        return
    for child in condition.children:
        if isinstance(child, Q):
            yield from _conjuncts(child)
        else:
            yield child


def _is_implied(
    part: object,
    fields: Mapping[str, AnyField],
    key: Sequence[AnyField],
    where: _Where,
    connection: BaseDatabaseWrapper,
) -> bool:
    """Return whether a part of a condition holds for all visible rows that have a key.

    The parts `field=value` and `field__isnull=...` are understood; others are never implied.
    """
    path, value = part if isinstance(part, tuple) else ("", None)
    name, _, lookup = path.partition(LOOKUP_SEP)
    field = fields.get(name)
    if field is None:
        return False
    match lookup:
        case "" | "exact":
            return field in where and where[field] == literal(field, value, connection)
        case "isnull" if value:
            return field in where and where[field] is None
        case "isnull":
            return field in key or where.get(field) is not None
        case _:
            return False
