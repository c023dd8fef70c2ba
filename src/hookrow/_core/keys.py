"""The keys of rows, which must be unique: otherwise one notification could change several rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hookrow._core.notification import Suppressible
from hookrow._core.schema import KEYS, WRITTEN, ModelRole, Schema
from hookrow._fault import Fault


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


def effect(role: str) -> str:
    """Return what could happen if several rows had one key, for messages."""
    if role == "messages":
        return "one dispatch could have the lists of several messages"
    return "one notification could change several rows"


def described(columns: Sequence[str], table: str) -> str:
    """Return the columns of a key and their table, for messages."""
    noun = "column" if len(columns) == 1 else "columns"
    return f"{noun} {' and '.join(map(repr, columns))} of {table!r}"


def is_not_unique(columns: Sequence[str]) -> str:
    """Return the predicate for the columns of a key that several rows may share."""
    return "is not unique" if len(columns) == 1 else "are not unique together"


def declare_unique(role: ModelRole, columns: Sequence[str]) -> str:
    """Return a clause with what to add to a model so that columns are unique together."""
    model = role.model
    attributes = [model.attributes.get(each, each) for each in columns]
    if any(value is None for value in role.where.values()):
        return f"declare them unique in {model.name}, among the rows that `where` does not hide"
    if len(attributes) == 1:
        return f"add unique=True to {model.name}.{attributes[0]}"
    return f"add {model.unique_line(columns)}"


def faults_of_declared_keys(schema: Schema) -> Iterator[Fault]:
    """Yield the keys that a model does not declare unique.

    Its table may have an index that the model does not declare, or be a view, so that only the
    database knows whether the key is unique.
    """
    for name, key in keys(schema).items():
        role, mapped = schema.roles[name], schema.columns(name)
        if not isinstance(role, ModelRole):
            continue
        columns = [mapped.get(each) or _proposed(role, each) for each in key]
        if "" in columns:
            continue
        fixed = {column for column, value in role.where.items() if value is not None}
        model = role.model
        if any({*columns, *fixed} >= {*each} for each in [*model.unique, *model.partly_unique]):
            continue
        text = (
            f"{model.name} does not declare that the {described(columns, role.table)} "
            f"{is_not_unique(columns).replace(' not', '')}, so {effect(name)}: "
            f"{declare_unique(role, columns)}, unless the table has a unique index already."
        )
        yield Fault(text, role.table)


def _proposed(role: ModelRole, field: str) -> str:
    """Return the column in the line to write for a mistaken argument, or an empty string."""
    return next((each.column for each in role.mistakes.get(field, ()) if each.column), "")
