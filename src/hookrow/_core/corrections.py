"""Corrections of a role whose columns its table lacks: what the mapping should say instead.

The caller knows the columns of the table, whether they come from a database or from a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from hookrow._core.notation import ModelNotation, Notation
from hookrow._core.optional import RECORDS
from hookrow._core.schema import (
    MAY_BE_NONE,
    OPTIONAL,
    REQUIRED,
    TOUCH,
    WRITTEN,
    ModelRole,
    Role,
    Schema,
    nearest,
    notation_of,
)
from hookrow._fault import Fault
from hookrow._models import MOST_LISTED, UNKNOWN_ATTRIBUTE, Model

YOUR_NAME = "..."
"""What a user has to replace in the lines to write: no column is known to be meant."""

_CONTENTS = {
    "id": "the key of a row",
    "email": "the addresses",
    "provider_message_id": "the provider's message ids",
    "subscriber_id": "the id of the subscriber",
    "list_id": "the id of the list",
    "message_id": "the id of the message",
    "suppressed_at": "the time of a suppression",
    "delivered_at": "the time of a delivery",
    "opened_at": "the time of an open",
}
"""What the required columns contain."""

OF_UPDATES = {"updated", "modified", "changed", "touched"}
"""Words in the names of columns with the time of the last write."""

_WORDS: Mapping[str, Collection[str]] = {
    "id": {"uid", "uuid", "pk", "key"},
    "email": {"email", "mail", "address"},
    "provider_message_id": {
        *("message", "provider", "external", "postmark", "sendgrid", "ses", "mailgun"),
        *("mandrill", "mailjet", "brevo", "resend", "postal"),
    },
    "subscriber_id": {
        *("subscriber", "person", "people", "user", "contact", "customer", "member"),
        *("recipient", "reader", "account"),
    },
    "list_id": {"list", "audience", "group", "newsletter", "segment"},
    "message_id": {"message", "campaign", "mailing", "mail", "broadcast", "newsletter"},
    "suppressed_at": {"suppressed", "muted", "blocked", "unsubscribed"},
    "suppression_reason": {"reason", "why"},
    "delivered_at": {"delivered", "arrived"},
    "opened_at": {"opened", "seen"},
    TOUCH: OF_UPDATES,
}
"""Words in the names that hosts give to columns."""

OF_IDS = {"id", "uid", "uuid", "guid", "key"}
"""Words in the names of columns with ids."""

_OF_TIMES = {"at", "on", "time", "date"}

_BOOKKEEPING = {"created", "updated", "modified", "deleted"}
"""Words in the names of times that the host sets itself, which nothing else should."""

_SIMILAR = 0.7
"""How similar a name must be to a required column, or to one that the mapping names wrongly."""

_HAS_WORD = 0.8
"""How similar a name is that contains one of `_WORDS`. An optional column that the mapping does not
name is suggested only from here on, because to leave it out is the better guess."""

Suits = Callable[[str, str], bool]
"""Returns whether a column, the second argument, can stand for one of hookrow's names."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table or a model, as far as it is needed to correct its role.

    `columns` are all names that a mapping may use, and `candidates` those that may be suggested if
    they suit; a user may also choose others that can hold the values. `key` is that of the primary
    key, if it has one. The `nouns` are the words for it and for its columns in messages.
    """

    name: str
    columns: Collection[str]
    candidates: Collection[str]
    suits: Suits
    can_hold: Suits
    key: str | None = None
    nouns: tuple[str, str] = ("table", "column")


def correct(
    schema: Schema, name: str, table: Table, notation: Notation | None
) -> tuple[Role, Sequence[Fault]]:
    """Return a role with other columns in place of those that its table lacks, and the faults.

    No other column is one that the mapping uses already, and none is used twice. A required column
    for which there is none remains as it is. Without a `notation`, the mapping is right, and only
    the table is wrong.
    """
    role, mapped = schema.roles[name], schema.columns(name)
    others = dict.fromkeys([*role.where, *filter(None, [role.tenant])])
    absent = {field: column for field, column in mapped.items() if column not in table.columns}
    wrong = [each for each in others if each not in table.columns]
    if notation is None:
        missing = [*absent.values(), *wrong]
        return role, [_fault(table, each, nearest(each, table.columns)) for each in missing]
    writing = notation_of(role, notation)
    used = {*mapped.values(), *others}
    unused = [each for each in table.candidates if each not in used and _can_name(writing, each)]
    suggested = _suggest(schema, name, table, absent, unused)
    unused = [each for each in unused if each not in suggested.values()]
    faults = [
        _fault(table, column, _hint(schema, name, field, suggested, unused, table, writing))
        for field, column in absent.items()
    ]
    corrected = _with_columns(schema, name, absent, suggested)
    for column in wrong:
        option = "tenant" if column == role.tenant else "where"
        hint = _origin(writing, column) or f" Correct `{option}`."
        if near := _nearest(column, unused):
            unused.remove(near)
            corrected = _renamed(corrected, column, near)
            line = writing.option(option, getattr(corrected, option))
            hint = f" Did you mean {near!r}? Write {line}."
        faults.append(_fault(table, column, hint))
    return corrected, faults


def _with_columns(
    schema: Schema, name: str, absent: Collection[str], suggested: Mapping[str, str]
) -> Role:
    """Return a role with the suggestions, and without the optional columns that have none."""
    role = schema.roles[name]
    columns = {**role.columns, **suggested}
    needed = required(schema, name)
    for field in absent:
        if field not in suggested and field not in needed:
            columns[field] = None
    touch = columns.pop(TOUCH, role.touch)
    if columns.get("bounced_at", "") is None and "bounce_type" in columns:
        columns["bounce_type"] = None  # which requires it
    has_reason = columns.get("suppression_reason", "") is not None
    empty = role.empty if has_reason else None
    return replace(role, columns=columns, empty=empty, touch=touch)


def _renamed(role: Role, column: str, other: str) -> Role:
    """Return a role with another column in place of one in `where` or of the tenant."""
    where = {other if each == column else each: value for each, value in role.where.items()}
    return replace(role, where=where, tenant=other if role.tenant == column else role.tenant)


def required(schema: Schema, name: str) -> Collection[str]:
    """Return hookrow's names of the columns that a role of the schema cannot do without."""
    names = {*REQUIRED[name]}
    if name == "dispatches":
        names |= {RECORDS[each][0] for each in schema.record}
        if schema.messages is not None:
            names.add("message_id")
    return names


def correction_of(notation: Notation, schema: Schema, tables: Mapping[str, Collection[str]]) -> str:
    """Return the lines that define roles in a notation, given the columns of their tables."""
    roles = [_written(notation, schema, name, columns) for name, columns in tables.items()]
    lines = notation.separator.join(roles)
    unknown = [repr(each) for each in (YOUR_NAME, UNKNOWN_ATTRIBUTE) if each in lines]
    yours = f", with your names in place of {' and '.join(unknown)}" if unknown else ""
    return f"To correct the mapping, write {notation.place}{yours}:\n\n{lines}"


def map_role(schema: Schema, name: str) -> str:
    """Return the remedy for a role with hookrow's table if the others have tables of the host.

    No command creates that table beside them.
    """
    remedy = f"The mapping does not name it: map your table of {name}"
    if name in MAY_BE_NONE:
        remedy += f", or write {schema.form.option(name, None)} if you have none"
    return f"{remedy}."


def change_model(
    schema: Schema,
    fault: Fault,
    write: Callable[[Model], str] | None = None,
    *,
    differs: bool = False,
) -> str:
    """Return the remedy for an unsuitable column that a model declares, or an empty string.

    `write` returns what to write in the declaration, if that is known. If the table `differs` from
    the model, the model may be right.
    """
    for role in schema.roles.values():
        if isinstance(role, ModelRole) and role.table == fault.table:
            for attribute, column in role.model.columns.items():
                if column == fault.column:
                    declared = f"{role.model.name}.{attribute}"
                    if differs:
                        return f"{declared} declares it otherwise: {_RUN_MIGRATIONS}"
                    change = f"change {declared}"
                    if write is not None:
                        change = f"write {write(role.model)} for {declared}"
                    return f"To change the column, {change}, and run your migrations."
    return ""


_RUN_MIGRATIONS = "run your migrations, or correct the model."


def _can_name(notation: Notation | ModelNotation, column: str) -> bool:
    return isinstance(notation, Notation) or column in notation.attributes


def _origin(notation: Notation | ModelNotation, column: str) -> str:
    """Return a sentence if a model declares the column, so that the database may be out of date."""
    if isinstance(notation, Notation) or column not in notation.attributes:
        return ""
    declared = f"{notation.model}.{notation.attributes[column]}"
    return f" {declared} declares it: {_RUN_MIGRATIONS}"


def _written(notation: Notation, schema: Schema, name: str, existing: Collection[str]) -> str:
    role = schema.roles[name]
    usual, mapped = Role(role.table), schema.columns(name)
    writing = notation_of(role, notation)
    columns = {
        field: role.column(field)
        for field in (*REQUIRED[name], *OPTIONAL[name])
        if field in role.columns
        or (writing is notation and role.column(field) != usual.column(field))
    }
    declared = {*existing}
    if isinstance(writing, ModelNotation):
        declared |= writing.attributes.keys()
    unknown = {field: YOUR_NAME for field, column in mapped.items() if column not in declared}
    options = {
        option: value
        for option in ("where", "fold", "empty", "tenant", TOUCH)
        if (value := getattr(role, option)) != getattr(usual, option)
    }
    return writing.role(name, role.table, {**columns, **unknown}, options)


def _fault(table: Table, column: str, hint: str) -> Fault:
    noun, part = table.nouns
    return Fault(f"The {noun} {table.name!r} has no {part} {column!r}.{hint}", table.name, column)


def _hint(
    schema: Schema,
    name: str,
    field: str,
    suggested: Mapping[str, str],
    unused: Sequence[str],
    table: Table,
    notation: Notation | ModelNotation,
) -> str:
    """Return the sentences about a column that follow the one that names it."""
    hint = _origin(notation, schema.columns(name)[field])
    written = notation.option if field == TOUCH else notation.entry
    if field in suggested:
        near = suggested[field]
        hint += f" Did you mean {near!r}? Write {written(field, near)}."
    unsuitable = "" if hint else _unsuitable(schema, name, field, unused, table)
    if field not in required(schema, name):
        without = written(field, None)
        effect = _effect(schema, name, field)
        return f"{hint}{unsuitable} It is optional: with {without}, {effect}."
    if hint:
        return hint
    part = table.nouns[1]
    meaning = _CONTENTS.get(field, "these times")
    possible = [each for each in unused if table.can_hold(field, each)]
    if not possible:
        add = f"No other {part} can hold {meaning}: add one, or name a view that has one."
        return f"{unsuitable} {add}"
    listed = ", ".join(map(repr, possible[:MOST_LISTED]))
    more = ", and others" if len(possible) > MOST_LISTED else ""
    return (
        f"{unsuitable} Name the {part} with {meaning}: {notation.entry(field, YOUR_NAME)}. It may "
        f"be one of those that are not mapped: {listed}{more}."
    )


def _unsuitable(schema: Schema, name: str, field: str, unused: Sequence[str], table: Table) -> str:
    """Return a sentence about the column that is meant by its name, if it cannot be used."""
    absent = {field: schema.columns(name)[field]}
    unsuitable = replace(table, suits=lambda field, each: not table.can_hold(field, each))
    found = _suggest(schema, name, unsuitable, absent, unused)
    if field not in found:
        return ""
    reasons = "because of its type, or because it is NOT NULL or generated"
    return f" {found[field]!r} cannot be used, {reasons}."


def _effect(schema: Schema, name: str, field: str) -> str:
    """Return what leaving an optional column out means."""
    if field == "suppression_changed_at" and schema.log is None:
        return "the change that arrives last counts"
    return _CONSEQUENCES[field].format(role=name)


_NO_LIST = "the list of a dispatch is not found, so no subscription is changed"

_CONSEQUENCES = {
    "suppressed_at": "suppressions are not recorded on {role}",
    "suppression_reason": "no reason is stored",
    "suppression_changed_at": "hookrow keeps the time of the last change itself",
    "list_id": _NO_LIST,
    "message_id": _NO_LIST,
    "sent_at": "there are no figures about how long deliveries take",
    **{time: f"no {each.replace('_', ' ')} is recorded" for each, (time, *_) in RECORDS.items()},
    "bounce_type": "the type of a bounce is not stored",
    TOUCH: "no column has the time of the last write",
}
"""What leaving an optional column out means."""


def _suggest(
    schema: Schema,
    name: str,
    table: Table,
    absent: Mapping[str, str],
    unused: Sequence[str],
) -> Mapping[str, str]:
    """Return the columns that are probably meant, each for one of hookrow's names."""
    found = sorted(
        _scores(schema, name, table, absent, unused), key=lambda each: each[0], reverse=True
    )
    suggested: dict[str, str] = {}
    for _, field, column in found:
        if field not in suggested and column not in suggested.values():
            suggested[field] = column
    return suggested


def find(schema: Schema, name: str, fields: Collection[str], table: Table) -> Mapping[str, str]:
    """Return the columns of a table that probably stand for some of hookrow's names of a role.

    The schema may lack the role.
    """
    return _suggest(schema, name, table, {each: each for each in fields}, [*table.candidates])


def _scores(
    schema: Schema,
    name: str,
    table: Table,
    absent: Mapping[str, str],
    unused: Sequence[str],
) -> Iterator[tuple[float, str, str]]:
    """Yield the columns that may be meant, with their similarity and hookrow's names."""
    for field, mapped in absent.items():
        named = schema.roles[name].columns if name in schema.roles else ()
        is_guess = field not in {TOUCH, *required(schema, name), *named}
        least = _HAS_WORD if is_guess else _SIMILAR
        words = {*_WORDS.get(field, ()), *_words_of_table(schema, _REFERRED.get(field))}
        for column in unused:
            if not table.suits(field, column):
                continue
            score = max(
                _similarity(mapped, column),
                _share_of_words(field, words, column),
                float(field == "id" and column == table.key),
            )
            if score >= least and not (field in WRITTEN and _BOOKKEEPING & {*words_of(column)}):
                yield score, field, column


_REFERRED = {"subscriber_id": "subscribers", "message_id": "messages"}
"""The roles to which columns refer."""


def _words_of_table(schema: Schema, role: str | None) -> Collection[str]:
    """Return the last word in the name of a role's table, in the plural and in the singular."""
    if role is None or role not in schema.roles:
        return ()
    *_, word = words_of(schema.roles[role].table) or [""]
    return {word, word.removesuffix("s")}


def words_of(name: str) -> Sequence[str]:
    """Return the words of a name in lower case: of `person_id`, `personId` and `crm.Person`."""
    return [each.lower() for each in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)]


def _nearest(name: str, names: Collection[str]) -> str | None:
    """Return the most similar name, or None if none is similar."""
    score, found = max(((_similarity(name, each), each) for each in names), default=(0.0, None))
    return found if score >= _SIMILAR else None


def _similarity(name: str, other: str) -> float:
    """Return the similarity of two names, between 0 and 1, without words like `at` and `id`."""
    one, two = ("".join(_stem(each)) or each.lower() for each in (name, other))
    return SequenceMatcher(None, one, two).ratio()


def _stem(name: str) -> Sequence[str]:
    return [each for each in words_of(name) if each not in OF_IDS | _OF_TIMES]


def _share_of_words(field: str, words: Collection[str], column: str) -> float:
    """Return a similarity of at least `_HAS_WORD` if the name of a column has a word of a field."""
    names = words_of(column)
    stem = names if field == "id" else _stem(column)
    common = [each for each in stem if each in words]
    if not common:
        return 0.0
    share = len(common) / len(stem)
    if field == "email" and share < 1 and not {"email", "mail"} & {*common}:
        return 0.0  # a postal address
    return _HAS_WORD + (1 - _HAS_WORD) / 2 * share
