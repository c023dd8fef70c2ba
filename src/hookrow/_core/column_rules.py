"""Rules about columns that need no database, only what a model or a catalogue says about them.

`Schema` applies them to the models of `Role.of`, and stores to the columns of tables, with the same
sentences. What only a database can answer is not among them: see `stores.sql._needs`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from math import inf
from typing import NamedTuple, Protocol, TypeAlias

from hookrow._core.corrections import OF_UPDATES, YOUR_NAME, change_model, words_of
from hookrow._core.notation import ModelNotation, Notation
from hookrow._core.optional import LONGEST_BOUNCE_TYPE
from hookrow._core.schema import (
    MAY_BE_FLAGS,
    NULLED,
    OTHERWISE,
    TIMES,
    TOUCH,
    WRITTEN,
    ModelRole,
    Role,
    Scalar,
    Schema,
    nearest,
    notation_of,
)
from hookrow._core.spellings import MESSAGE_ID_LENGTHS
from hookrow._fault import Fault
from hookrow._models import Model, listed


class ColumnFacts(Protocol):
    """What the rules read of a column; `stores.sql._columns` describes its attributes."""

    @property
    def name(self) -> str: ...
    @property
    def type_name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def nullable(self) -> bool: ...
    @property
    def generated(self) -> bool: ...
    @property
    def length(self) -> int | None: ...
    @property
    def labels(self) -> Sequence[str]: ...


ColumnsOfTable: TypeAlias = Mapping[str, ColumnFacts]
"""The columns of one table, by the table's own names."""


class Obstacle(NamedTuple):
    """What prevents a column from holding a value: a verb phrase, and how to remove it."""

    text: str
    remedy: str


KINDS_OF_TIMES = {"datetime", "timestamptz"}
"""The kinds of columns that hold times, whatever the database."""

UNEXPECTED: Mapping[str, tuple[type[object], ...]] = {
    "boolean": (str, datetime),
    "integer": (str, datetime),
    "date": (str, datetime),
    "time": (str, datetime),
    "datetime": (str,),
    "text": (int,),
}
"""By the kind of a column: the classes of values for which it is not meant."""


_DEMANDS = {
    "email": ", but must be text, because it is compared with the provider's text: name another "
    "column, or change its type.",
    "provider_message_id": ", but must be text or UUID, because it is compared with the provider's "
    "ids: name another column, or change its type.",
    **dict.fromkeys(TIMES, ", which cannot hold a date-time: name a column that can."),
    **dict.fromkeys(
        MAY_BE_FLAGS,
        ", which cannot hold a date-time: name a column that can, or a boolean one. If you keep a "
        "status instead, set it in the hooks on_recorded and on_refused.",
    ),
    TOUCH: ", which cannot hold a date-time",
    "bounce_type": ", which cannot hold the type of a bounce: name a column of text for "
    f"{LONGEST_BOUNCE_TYPE} characters or more.",
}


_NOT_NULL = "NOT NULL, but a reactivation sets it to null: drop NOT NULL{or_none}."
_OR_NO_REASON = (
    ", set {empty} in its role to write an empty string instead of null, or map {no_reason} to "
    "keep no reason"
)
_NO_TYPE = "NOT NULL, but not every bounce has a type: drop NOT NULL."


def faults_of_declarations(schema: Schema, tables: Mapping[str, ColumnsOfTable]) -> Iterator[Fault]:
    """Yield the unsuitable columns of roles, given what their models declare.

    The declarations count, whatever the tables are, because migrations create tables from them:
    a text may be too short although SQLite enforces no lengths.
    Columns of unknown types have only faults that do not depend on the type.
    """
    forms = {name: notation_of(role, schema.form) for name, role in schema.roles.items()}
    for fault in faults_of_nulls(schema, tables, forms):
        yield replace(fault, remedy=change_model(schema, fault, allow_null))
    found = first_of_each(
        fault
        for name, declared in tables.items()
        for field, column_name in schema.columns(name).items()
        if column_name in declared
        for fault in _faults_of_declaration(schema, name, field, declared)
    )
    yield from found
    for fault in _faults_of_labels(schema, tables):
        yield replace(fault, remedy=change_model(schema, fault))


def allow_null(model: Model) -> str:
    """Return how a model declares that a column allows null."""
    return model.null


def _faults_of_declaration(
    schema: Schema, name: str, field: str, declared: ColumnsOfTable
) -> Iterator[Fault]:
    """Yield the faults of a column, except that it is NOT NULL, with what to write in the model."""
    column = declared[schema.columns(name)[field]]
    for fault in faults_of_use(schema, name, field, column):
        yield replace(fault, remedy=change_model(schema, fault))
    longest = LONGEST_BOUNCE_TYPE if field == "bounce_type" else longest_reason(schema)
    for fault in _faults_of_type(schema, name, field, declared):
        write = _write_text(longest) if field in _WITH_TEXT else _write_time
        yield replace(fault, remedy=change_model(schema, fault, write))


_WITH_TEXT = {"suppression_reason", "bounce_type"}
"""The columns of which it is known how long their texts are."""


def _write_text(length: int) -> Callable[[Model], str]:
    return lambda model: model.text_type.format(length=length)


def _write_time(model: Model) -> str:
    return model.time_type


def differs(role: Role, existing: ColumnFacts) -> bool:
    """Return whether a table has a column that is not as the role's model declares it.

    Databases have their own names for types, and some enforce no lengths.
    """
    declared = role.model.declared.get(existing.name) if isinstance(role, ModelRole) else None
    if declared is None:
        return False
    kinds = [_COMMON_KINDS.get(each.kind, each.kind) for each in (declared, existing)]
    has_other_length = existing.length not in {None, declared.length}
    if declared.length is None:  # any text; MariaDB's TEXT has a length, too
        has_other_length = "CHAR" in existing.type_name.upper()
    return (
        (declared.nullable and not existing.nullable)
        or (all(kinds) and kinds[0] != kinds[1])
        or (declared.kind == "text" and has_other_length)
    )


_COMMON_KINDS = {"timestamptz": "datetime", "number": "integer", "enum": ""}
"""The kinds of columns that models declare by other names. An enum is a text on some databases."""


def doubts_of_message_ids(schema: Schema) -> Iterator[Fault]:
    """Yield the fault of a model whose column is too short for the message ids of some providers.

    Only the receiver knows which ones are used.
    """
    if isinstance(schema.dispatches, ModelRole):
        yield from _faults_of_declared_length(
            schema,
            schema.dispatches,
            MESSAGE_ID_LENGTHS,
            "unless all of your notifications come from other providers, ",
        )


def faults_of_declared_message_ids(schema: Schema, lengths: Mapping[str, int]) -> Iterator[Fault]:
    """Yield the fault of a model that declares too short a column for message ids.

    As in `faults_of_declarations`, the declaration counts, and for Django's models, the system
    checks find it. `lengths` are as in `fault_of_message_ids`.
    """
    role = schema.dispatches
    if not isinstance(role, ModelRole) or role.model.label is not None:
        return
    yield from _faults_of_declared_length(schema, role, lengths)


def _faults_of_declared_length(
    schema: Schema, role: ModelRole, lengths: Mapping[str, int], condition: str = ""
) -> Iterator[Fault]:
    name = schema.columns("dispatches").get("provider_message_id", "")
    column = role.model.declared.get(name)
    if column is not None:
        remedy = f"{condition}write {role.model.text_type}"
        if fault := fault_of_message_ids(role.table, column, lengths, remedy):
            yield replace(fault, remedy=change_model(schema, fault))


def _faults_of_type(
    schema: Schema, name: str, field: str, declared: ColumnsOfTable
) -> Iterator[Fault]:
    """Yield the fault of a type that is not meant for hookrow's values."""
    role, column = schema.roles[name], declared[schema.columns(name)[field]]
    text = ""
    if field == "suppression_reason":
        values = [each for each in schema.known_values.values() if isinstance(each, str)]
        distinct = [*dict.fromkeys(values)]
        refused = [each for each in distinct if _is_refused(column, each)]
        if column.kind == "enum":
            refused = [each for each in distinct if each not in column.labels]
        text = reason_mistake(role.table, column, schema, refused) if refused else ""
    elif field == "bounce_type" and is_unexpected(column, str):
        text = unsuitable_use(schema, name, field, declared)
    elif field == "bounce_type" and _is_refused(column, "x" * LONGEST_BOUNCE_TYPE):
        text = too_short(role.table, column, LONGEST_BOUNCE_TYPE)
    elif field in TIMES and not is_flag(field, column) and is_unexpected(column, datetime):
        text = unsuitable_use(schema, name, field, declared)
    if text:
        yield Fault(text, role.table, column.name)


def _faults_of_labels(schema: Schema, tables: Mapping[str, ColumnsOfTable]) -> Iterator[Fault]:
    """Yield the values in `where` that an enum does not have."""
    for name, declared in tables.items():
        role = schema.roles[name]
        for column_name, value in role.where.items():
            column = declared.get(column_name)
            if column is None or column.kind != "enum" or not isinstance(value, str):
                continue
            if value not in column.labels:
                text = never_equals(role.table, column, value, schema.form)
                yield Fault(text, role.table, column.name)


def fault_of_message_ids(
    table: str, column: ColumnFacts, lengths: Mapping[str, int], remedy: str
) -> Fault | None:
    """Return the fault of a column that is too short for the message ids of some providers.

    `lengths` are those of their longest ids, by name. The `remedy` is a clause, with {length} for
    that of the longest one.
    """
    longer = {name: each for name, each in lengths.items() if each > (column.length or inf)}
    if not longer:
        return None
    length = max(longer.values())
    text = (
        f"The column {column.name!r} of {table!r} can hold {column.length} characters, but the "
        f"message ids of {listed([*longer])} have up to {length}, and the column would have to "
        f"hold them unchanged: {remedy.format(length=length)}."
    )
    return Fault(text, table, column.name)


def _is_refused(column: ColumnFacts, text: str) -> bool:
    is_longer = column.length is not None and len(text) > column.length
    return is_longer or is_unexpected(column, str)


def may_be(name: str, column: ColumnFacts) -> bool:
    """Return whether nothing that is known excludes a column for one of hookrow's names.

    A reason that is NOT NULL is not excluded: `empty` may be the value for no reason.
    """
    if name in {*WRITTEN, TOUCH} and column.generated:
        return False
    if is_flag(name, column):
        return True
    is_excluded = name in TIMES and is_unexpected(column, datetime)
    return not is_excluded and (column.nullable or name != "suppressed_at")


def is_unexpected(column: ColumnFacts, cls: type[object]) -> bool:
    """Return whether a column is not meant for the values of a class."""
    return issubclass(cls, UNEXPECTED.get(column.kind, ()))


def faults_of_use(schema: Schema, name: str, field: str, column: ColumnFacts) -> Iterator[Fault]:
    """Yield the faults of a column with one of hookrow's names, except those of its type."""
    if field in {*WRITTEN, TOUCH} and column.generated:
        yield fault_of(schema.roles[name].table, column, _NEVER_WRITTEN)
    if is_flag(field, column):
        yield from _faults_of_flag(schema, name, field, column)
    is_enum = field == "suppression_reason" and column.kind == "enum"
    if is_enum and OTHERWISE not in (schema.reasons or {}):
        yield fault_of(schema.roles[name].table, column, _NO_REASONS)


_NO_REASONS = (
    "of the type {type_name}: set `reasons`, with one of its values for each of the provider's "
    "reasons and for all others ('*')."
)
_OF_ITS_TYPE = "of the type {type_name}"
_NEVER_WRITTEN = "generated, and cannot be written: name another."


def is_flag(name: str, column: ColumnFacts) -> bool:
    """Return whether a column is boolean in place of a time, by hookrow's name."""
    return name in MAY_BE_FLAGS and column.kind == "boolean"


def faults_of_nulls(
    schema: Schema,
    tables: Mapping[str, ColumnsOfTable],
    forms: Mapping[str, Notation | ModelNotation],
) -> Iterator[Fault]:
    """Yield the columns that are NOT NULL although hookrow sets them to null.

    They may have another fault, too, because it has another cause. `forms` are those in which the
    roles are written.
    """
    for name, role in schema.roles.items():
        existing, form = tables.get(name, {}), forms[name]
        for field, column_name in schema.columns(name).items():
            column = existing.get(column_name)
            if column is None or column.nullable:
                continue
            if field == "bounce_type":
                yield fault_of(role.table, column, _NO_TYPE)
            is_filled = is_flag(field, column) or (
                field == "suppression_reason" and role.empty is not None
            )
            if field not in NULLED or is_filled:
                continue
            or_none = ""
            if field == "suppression_reason":
                empty, no_reason = form.option("empty", ""), form.entry(field, None)
                or_none = _OR_NO_REASON.format(empty=empty, no_reason=no_reason)
            yield fault_of(role.table, column, _NOT_NULL.format(or_none=or_none))


def _faults_of_flag(schema: Schema, name: str, field: str, column: ColumnFacts) -> Iterator[Fault]:
    """Yield the fault of a flag whose changes nothing dates."""
    table, columns = schema.roles[name].table, schema.columns(name)
    if field == "suppressed_at" and "suppression_changed_at" not in columns and not schema.log:
        line = schema.form.option("log", "hookrow_notifications")
        text = (
            f"{_OF_ITS_TYPE}, and without a log nothing stores when it last changed, so an old "
            f"notification that arrives late would override a newer one: write {line}, or map "
            "suppression_changed_at to a column that can hold a date-time."
        )
        yield fault_of(table, column, text)
    if field == "bounced_at" and "bounce_type" in columns:
        line = schema.form.entry("bounce_type", None)
        text = (
            f"{_OF_ITS_TYPE}, and nothing stores the time of the bounce whose type is in "
            f"bounce_type: name a column that can hold a date-time, or write {line}."
        )
        yield fault_of(table, column, text)


def first_of_each(found: Iterable[Fault]) -> Collection[Fault]:
    """Return the first fault of each column, because the others may have the same cause."""
    first: dict[tuple[str, str], Fault] = {}
    for fault in found:
        first.setdefault((fault.table, fault.column), fault)
    return first.values()


def fault_of(table: str, column: ColumnFacts, text: str) -> Fault:
    text = text.format(type_name=column.type_name)
    return Fault(f"The column {column.name!r} of {table!r} is {text}", table, column.name)


def unsuitable_use(schema: Schema, name: str, field: str, existing: ColumnsOfTable) -> str:
    """Return the sentence for a column by its use, with the line to write for `touch`."""
    table, column = schema.roles[name].table, existing[schema.columns(name)[field]]
    text = unsuitable(table, column, field)
    return text + _line_for_touch(schema, name, existing) if field == TOUCH else text


def _line_for_touch(schema: Schema, name: str, existing: ColumnsOfTable) -> str:
    """Return the end of the sentence for a column of `touch`: the line to write instead."""
    used = {*schema.columns(name).values()}
    others = [
        each
        for each, column in existing.items()
        if column.kind in KINDS_OF_TIMES and each not in used and OF_UPDATES & {*words_of(each)}
    ]
    return f": write {schema.form.option(TOUCH, others[0] if others else None)}."


def reason_values(schema: Schema, empty: str | None) -> Sequence[Scalar]:
    """Return the values that a column of reasons must hold: the one for no reason is the first."""
    return [*dict.fromkeys([empty, *schema.known_values.values()])]


def longest_reason(schema: Schema) -> int:
    """Return the number of characters of the longest text that is written for a known reason."""
    return max(len(each) for each in [*schema.known_values.values(), ""] if isinstance(each, str))


MOST_NAMED = 10
"""How many unsuitable reasons an error names: to find each takes further questions."""


def reason_mistake(
    table: str,
    column: ColumnFacts,
    schema: Schema,
    values: Sequence[Scalar],
    obstacle: Obstacle | None = None,
) -> str:
    """Return the sentence for some of the `reason_values` of a column."""
    text = f"is of the type {column.type_name}, which cannot hold"
    known = schema.known_values.values()
    remedy = "change its type"
    longest = longest_reason(schema)
    if column.length is not None and column.length < longest:
        remedy = f"change its type to a text of {longest} characters or more"
    obstacle = obstacle or Obstacle(text, remedy)
    more = ", and others" if len(values) > MOST_NAMED else ""
    values = values[:MOST_NAMED]
    remedies = [obstacle.remedy]
    if values[0] is None:
        what = "null, to which a reactivation sets it"
    elif values[0] not in known:
        what = "an empty string"
        remedies.insert(0, "omit `empty`")
    else:
        noun = "reason" if len(values) == 1 else "reasons"
        what = f"the {noun} {', '.join(map(repr, values))}{more}"
        given = [*(schema.reasons or {}).values()]
        unset = {value: YOUR_NAME for value in values if value not in given}
        others = f"set another value in `reasons`: {schema.form.value_of(unset)}"
        remedies.append(others if unset else "correct `reasons`")
    near = nearest(str(values[0]), column.labels)
    return (
        f"The column {column.name!r} of {table!r} {obstacle.text} {what}: "
        f"{', or '.join(remedies)}.{near}"
    )


def unsuitable(table: str, column: ColumnFacts, name: str) -> str:
    """Return the sentence for a column whose type does not suit its use, by hookrow's name."""
    return f"{of_type(table, column)}{_DEMANDS[name]}"


def never_equals(table: str, column: ColumnFacts, value: Scalar, notation: Notation) -> str:
    """Return the sentence for a value of `where`."""
    near = nearest(str(value), column.labels)
    written = repr(value) if isinstance(value, str) else notation.value_of(value)
    return f"{of_type(table, column)}, which never equals {written}: correct `where`.{near}"


def too_short(table: str, column: ColumnFacts, longest: int) -> str:
    """Return the sentence for a text that is shorter than the longest of its values."""
    return (
        f"{of_type(table, column)}, which is too short: its values have up to {longest} characters."
    )


def of_type(table: str, column: ColumnFacts) -> str:
    return f"The column {column.name!r} of {table!r} is of the type {column.type_name}"
