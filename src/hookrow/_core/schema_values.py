"""A schema from plain values: the tables in `hookrow.toml` and in Django's settings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from typing import get_args, get_type_hints

import msgspec

from hookrow._core.notation import Notation
from hookrow._core.schema import ROLE_NAMES, Fold, Role, Schema, nearest_name
from hookrow._fault import Fault
from hookrow.errors import ConfigurationError


def schema_of(tables: object, notation: Notation = Notation.TOML) -> Schema:
    """Build a schema from plain values in a notation, in which False stands for None.

    In `where`, False is kept, because its meaning depends on the column. Raises
    `ConfigurationError` with all unknown names and invalid values.
    """
    if faults := [*_faults(tables)]:
        raise ConfigurationError(*faults)
    try:
        schema: Schema = msgspec.convert(_none_for_false(tables), Schema)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{error}.") from error
    return schema.written_in(notation)


def _faults(tables: object) -> Iterator[Fault | str]:
    if not isinstance(tables, Mapping):
        return
    known = [each.name for each in fields(Schema) if each.init]
    yield from _unknown("role", tables, known)
    types = get_type_hints(Schema)
    for name, value in tables.items():
        found = [*_faults_of_role(name, value)] if name in ROLE_NAMES and value else []
        yield from found or (_faults_of_value(name, value, types[name]) if name in known else ())


def _faults_of_role(name: str, role: object) -> Iterator[str]:
    unknown = [*_unknown("key of a role", role, [each.name for each in fields(Role)])]
    yield from unknown
    if not isinstance(role, Mapping) or ("table" not in role and not unknown):
        yield f"the role {name!r} has no table: set '{name}.table' to the table's name."
        return
    yield from _unknown("fold", [role.get("fold", "ascii")], get_args(Fold))


def _faults_of_value(name: str, value: object, type_: object) -> Iterator[Fault | str]:
    """Yield why a value is not of a type; the path in it begins with its name."""
    try:
        msgspec.convert(_none_for_false(value), type_)
    except msgspec.ValidationError as error:
        text = str(error)
        path = f"`$.{name}"
        yield f"{text.replace('`$', path)}." if "`$" in text else f"{text} - at {path}`."


def _unknown(kind: str, given: object, known: Collection[str]) -> Iterator[str]:
    free = [each for each in known if not isinstance(given, Mapping) or each not in given]
    for name in given if isinstance(given, Mapping | list) else ():
        if isinstance(name, str) and name not in known:
            near = nearest_name(name, free)
            hint = f" Did you mean {near!r}?" if near else ""
            free = [each for each in free if each != near]
            yield f"unknown {kind} {name!r}.{hint}"


def _none_for_false(value: object) -> object:
    if isinstance(value, Mapping):
        return {
            key: part if key == "where" else _none_for_false(part) for key, part in value.items()
        }
    return None if value is False else value
