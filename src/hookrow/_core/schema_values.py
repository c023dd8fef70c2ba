"""A schema from plain values: the tables in `hookrow.toml` and in Django's settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import get_args

import msgspec

from hookrow._core.schema import ROLE_NAMES, Fold, Role, Schema, nearest
from hookrow.errors import ConfigurationError


def schema_of(tables: object, notation: Notation = Notation.TOML) -> Schema:
    """Build a schema from plain values in a notation, in which False stands for None.

    In `where`, False is kept, because its meaning depends on the column. Raises
    `ConfigurationError` for unknown names and invalid values.
    """
    _refuse_unknown("role", tables, [each.name for each in fields(Schema)])
    for name in ROLE_NAMES:
        if isinstance(tables, Mapping) and tables.get(name):
            _check_role(name, tables[name])
    try:
        schema: Schema = msgspec.convert(_none_for_false(tables), Schema)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{error}.") from error
    return schema


def _check_role(name: str, role: object) -> None:
    _refuse_unknown("key of a role", role, [each.name for each in fields(Role)])
    if not isinstance(role, Mapping) or "table" not in role:
        raise ConfigurationError(
            f"the role {name!r} has no table: set '{name}.table' to the table's name."
        )
    _refuse_unknown("fold", [role.get("fold", "ascii")], get_args(Fold))


def _refuse_unknown(kind: str, given: object, known: Collection[str]) -> None:
    for name in given if isinstance(given, Mapping | list) else ():
        if isinstance(name, str) and name not in known:
            raise ConfigurationError(f"unknown {kind} {name!r}.{nearest(name, known)}")


def _none_for_false(value: object) -> object:
    if isinstance(value, Mapping):
        return {
            key: part if key == "where" else _none_for_false(part) for key, part in value.items()
        }
    return None if value is False else value
