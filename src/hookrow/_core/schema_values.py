"""A schema from plain values: the tables in `hookrow.toml` and in Django's settings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from typing import get_args, get_type_hints

import msgspec

from hookrow._core.notation import Notation
from hookrow._core.schema import (
    OPTIONAL,
    REQUIRED,
    ROLE_NAMES,
    Fold,
    Role,
    Schema,
    nearest_name,
)
from hookrow._fault import Fault
from hookrow._models import listed
from hookrow.errors import ConfigurationError


def schema_of(tables: object, notation: Notation = Notation.TOML) -> Schema:
    """Build a schema from plain values in a notation, in which False stands for None.

    In `where`, False is kept, because its meaning depends on the column. Raises
    `ConfigurationError` with all unknown names and invalid values.
    """
    if faults := [*_faults(tables, notation)]:
        raise ConfigurationError(*faults)
    try:
        schema: Schema = msgspec.convert(_none_for_false(tables), Schema)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{error}.") from error
    return schema.written_in(notation)


def _faults(tables: object, notation: Notation) -> Iterator[Fault | str]:
    if not isinstance(tables, Mapping):
        return
    known = [each.name for each in fields(Schema) if each.init]
    yield from _unknown("role", tables, known)
    types = get_type_hints(Schema)
    for name, value in tables.items():
        found = [*_faults_of_role(name, value, notation)] if name in ROLE_NAMES and value else []
        yield from found or (_faults_of_value(name, value, types[name]) if name in known else ())


def _faults_of_role(name: str, role: object, notation: Notation) -> Iterator[str]:
    if not isinstance(role, Mapping):
        remedy = f"set '{name}.table' to the table's name"
        if isinstance(role, str):
            remedy = f"write {notation.entry(name, {'table': role})}"
        yield f"the role {name!r} has no table: {remedy}."
        return
    columns = {each: role[each] for each in (*REQUIRED[name], *OPTIONAL[name]) if each in role}
    if columns:
        yield _fault_of_place(name, role, columns, notation)
    others = {each: value for each, value in role.items() if each not in columns}
    if "model" in role and "table" not in role:
        yield (
            f"the role {name!r} names its model with the key 'model': write "
            f"{notation.entry('table', others.pop('model'))}."
        )
        others["table"] = ""
    unknown = [*_unknown("key of a role", others, [each.name for each in fields(Role)])]
    yield from unknown
    if "table" not in others and not unknown:
        yield f"the role {name!r} has no table: set '{name}.table' to the table's name."
    yield from _unknown("fold", [role.get("fold", "ascii")], get_args(Fold))


def _fault_of_place(
    name: str, role: Mapping[str, object], columns: Mapping[str, object], notation: Notation
) -> str:
    """Return the fault of columns beside the table instead of in `columns`, with the line."""
    given = role.get("columns")
    mapped = {**(given if isinstance(given, Mapping) else {}), **columns}
    mapped = {each: None if column is False else column for each, column in mapped.items()}
    names = listed([*map(repr, columns)])
    is_one = len(columns) == 1
    return (
        f"the role {name!r} has the {'column' if is_one else 'columns'} {names} beside its table: "
        f"write {notation.entry('columns', mapped)}."
    )


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
