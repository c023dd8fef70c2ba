"""Verifies that the database keeps the keys of rows unique, as far as it can.

A key that several rows share would let one notification change all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from hookrow._core.notification import Suppressible
from hookrow._core.schema import KEYS, WRITTEN, Schema
from hookrow._fault import Fault
from hookrow.stores.sql._catalogues.base import Catalogue, Uniqueness
from hookrow.stores.sql._role_tables import RoleTables


def keys(schema: Schema) -> Mapping[str, Sequence[str]]:
    """Return the columns, by hookrow's names, that must be unique together in each role's table.

    They are those of `changed_keys`, and the id of a message, which is only read: if two had the id
    of a dispatch's message, the dispatch would have two lists. Emails and message ids may occur
    several times, because `rules` chooses among their rows.
    """
    changed = changed_keys(schema)
    return {**changed, "messages": ("id",)} if "messages" in schema.roles else changed


def changed_keys(schema: Schema) -> Mapping[str, Sequence[str]]:
    """Return the columns by which the rows of each role that hookrow changes are locked and found.

    Subscriptions without suppression columns are not changed, so a pair may occur twice.
    """
    return {
        kind.value: KEYS[kind]
        for kind in Suppressible
        if kind.value in schema.roles and {*WRITTEN} & schema.columns(kind.value).keys()
    }


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


def effect(role: str) -> str:
    """Return what could happen if several rows had one key, for messages."""
    if role == "messages":
        return "one dispatch could have the lists of several messages"
    return "one notification could change several rows"


def described(tables: RoleTables, role: str, key: Sequence[str]) -> str:
    """Return the table's own names of the key's columns, and its table, for messages."""
    names = " and ".join(repr(tables.columns(role)[name].name) for name in key)
    columns = "column" if len(key) == 1 else "columns"
    return f"{columns} {names} of {tables.schema.roles[role].table!r}"


def _fault(
    catalogue: Catalogue,
    tables: RoleTables,
    role: str,
    key: Sequence[str],
    partial: str | None,
) -> Fault:
    is_not = "is not unique" if len(key) == 1 else "are not unique together"
    remedies = [f"run {catalogue.unique_advice(tables, role, key)}"]
    if len(key) == 1 and (primary := _primary_key(catalogue, tables, role)):
        remedies.insert(0, f'map the primary key, {{"{key[0]}": "{primary}"}}')
    if partial:
        remedies.insert(0, f"set `where` to the condition of the unique index {partial!r}")
    return Fault(
        f"The {described(tables, role, key)} {is_not}, so {effect(role)}: {', or '.join(remedies)}",
        tables.schema.roles[role].table,
    )


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
    names = [tables.columns(role)[field].name for field in key]
    names += [name for name, value in tables.selecting(role).items() if value is not None]
    return catalogue.examine_key(tables, role, key, names)
