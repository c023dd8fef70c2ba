"""Verifies that the database keeps the keys of rows unique, as far as it can.

A key that several rows share would let one notification change all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from hookrow._core.keys import declare_unique, described, effect, is_not_unique, keys
from hookrow._core.schema import ModelRole, notation_of
from hookrow._fault import Fault
from hookrow.stores.sql._catalogues.base import Catalogue, Uniqueness
from hookrow.stores.sql._role_tables import RoleTables


def faults_of_keys(
    catalogue: Catalogue, tables: RoleTables, roles: Collection[str]
) -> Iterator[Fault]:
    """Yield those keys of these roles that can be declared unique in the catalogue, but are not."""
    for role, key in keys(tables.schema).items():
        if role in roles:
            uniqueness, partial = _examine(catalogue, tables, role, key)
            if uniqueness is Uniqueness.MISSING:
                yield _fault(catalogue, tables, role, key, partial)


def undeclarable_keys(catalogue: Catalogue, tables: RoleTables) -> Iterator[str]:
    """Yield the roles with a key that the database cannot keep unique, such as that of a view."""
    for role, key in keys(tables.schema).items():
        uniqueness, _ = _examine(catalogue, tables, role, key)
        if uniqueness is Uniqueness.UNDECLARABLE:
            yield role


def described_key(tables: RoleTables, role: str, key: Sequence[str]) -> str:
    """Return the table's own names of the key's columns, and its table, for messages."""
    return described(_names(tables, role, key), tables.schema.roles[role].table)


def _fault(
    catalogue: Catalogue,
    tables: RoleTables,
    role: str,
    key: Sequence[str],
    partial: str | None,
) -> Fault:
    mapped, columns = tables.schema.roles[role], _names(tables, role, key)
    remedies = [f"run {catalogue.unique_advice(tables, role, key)}"]
    if isinstance(mapped, ModelRole):
        remedies.insert(0, _change_model(mapped, columns))
    if len(key) == 1 and (primary := _primary_key(catalogue, tables, role)):
        line = f'{{"{key[0]}": "{primary}"}}'
        if isinstance(mapped, ModelRole) and primary in mapped.model.attributes:
            line = notation_of(mapped, tables.schema.form).entry(key[0], primary)
        remedies.insert(0, f"map the primary key, {line}")
    if partial:
        remedies.insert(0, f"set `where` to the condition of the unique index {partial!r}")
    return Fault(
        f"The {described(columns, mapped.table)} {is_not_unique(columns)}, so {effect(role)}: "
        f"{', or '.join(remedies)}",
        mapped.table,
    )


def _change_model(role: ModelRole, columns: Sequence[str]) -> str:
    """Return a clause with what makes the columns of a model unique.

    A later migration of the model would drop an index that it does not declare.
    """
    if any({*columns}.issuperset(unique) for unique in role.model.unique):
        return f"run your migrations, because {role.model.name} declares it"
    return f"{declare_unique(role, columns)} and run your migrations"


def _names(tables: RoleTables, role: str, key: Sequence[str]) -> Sequence[str]:
    return [tables.columns(role)[each].name for each in key]


def _primary_key(catalogue: Catalogue, tables: RoleTables, role: str) -> str | None:
    """Return the column of the table's primary key, unless it is mapped already or has several."""
    found = catalogue.primary_key(tables.schema.roles[role].table)
    mapped = {column.name for column in tables.columns(role).values()}
    return found[0] if len(found) == 1 and found[0] not in mapped else None


def _examine(
    catalogue: Catalogue, tables: RoleTables, role: str, key: Sequence[str]
) -> tuple[Uniqueness, str | None]:
    """Return what the database knows about a key; see `Catalogue.examine_key`.

    A column that `where` fixes to a value is the same in all visible rows, so a unique index may
    also be on such columns. A column that is null does not count, because nulls are distinct.
    """
    names = [*_names(tables, role, key)]
    names += [name for name, value in tables.selecting(role).items() if value is not None]
    return catalogue.examine_key(tables, role, key, names)
