"""What columns must be able to hold: samples of the values that hookrow writes or compares. No I/O.

`_rehearsals` asks a database about them, and `django._mapping` the fields of models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from typing import Any, TypeAlias

from hookrow._core.column_rules import (
    MOST_NAMED,
    Obstacle,
    never_equals,
    of_type,
    reason_mistake,
    reason_values,
    too_short,
    unsuitable_use,
)
from hookrow._core.log_entry import (
    FINGERPRINT_SIZE,
    LONGEST_ENTRY_NAME,
    LONGEST_PROVIDER,
    LONGEST_REASON,
    LONGEST_RECORD_TYPE,
    LONGEST_TRACE_ID,
    UNNUMBERED,
)
from hookrow._core.notification import Key, Source, Suppressible
from hookrow._core.optional import LONGEST_BOUNCE_TYPE
from hookrow._core.result import Result
from hookrow._core.rules import LONGEST_EMAIL, LONGEST_MESSAGE_ID
from hookrow._core.schema import MAY_BE_FLAGS, TIMES, Scalar, Schema
from hookrow._fault import Fault
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._conversions import digits_of_guid, guid
from hookrow.stores.sql._log_rows import LOG_COLUMNS

Columns: TypeAlias = Mapping[str, Column]
"""The columns of one table, by the table's own names."""


class Use(Enum):
    """How hookrow uses a column, which determines what its type must do with the samples."""

    REASON = "written; there are no other values, so a domain's conditions apply to them, too"
    WRITTEN = "written; the samples stand for others"
    COMPARED = "compared with the provider's texts, of which any may be too long for the column"
    CONDITION = "compared with the value of `where`"
    TENANT = "compared with a tenant, as a text that must be the same as the column's value"
    OWN = "written to one of hookrow's own tables, and read from it without a conversion"


@dataclass(frozen=True, slots=True)
class Need:
    """Values that a column must hold and return unchanged, and the sentence if it does not.

    `values` are hookrow's, each with its form in the column, and `unwritable` are those that the
    conversion of the host's field refuses. `describe` returns the sentence for some of hookrow's,
    and for an obstacle other than the column's type if there is one.
    """

    table: str
    column: Column
    use: Use
    values: Mapping[Any, Any]
    describe: Callable[[Sequence[Any], Obstacle | None], str]
    unwritable: Sequence[Any] = ()

    def refusal(self, values: Sequence[Any], obstacle: Obstacle | None = None) -> Fault:
        """Return the fault if the column cannot hold some of the values."""
        return Fault(self.describe(values, obstacle), self.table, self.column.name)


REFERENCES = (
    (("dispatches", "subscriber_id"), ("subscribers", "id")),
    (("dispatches", "list_id"), ("subscriptions", "list_id")),
    (("dispatches", "message_id"), ("messages", "id")),
    (("messages", "list_id"), ("subscriptions", "list_id")),
    (("subscriptions", "subscriber_id"), ("subscribers", "id")),
)
"""Pairs of columns that hold the same keys."""

_SAMPLE_TIMES = tuple(
    datetime(year, 3, 4, 12, 34, 56, 123456, tzinfo=UTC) for year in (1, 2026, 9999)
)
"""The first and the last year, because the provider determines the times of events."""

_EMAIL = "ada@example.com"
_EXAMPLE_GUID = "b7bc2f4a-e38e-4336-af7d-e6c392c2f817"
_NO_GUID = "m-ada"

_SAMPLES: Mapping[str, tuple[Use, Sequence[Any]]] = {
    "email": (Use.COMPARED, [_EMAIL]),
    "provider_message_id": (Use.COMPARED, [_EXAMPLE_GUID, _NO_GUID]),
    **dict.fromkeys(TIMES, (Use.WRITTEN, _SAMPLE_TIMES)),
    "bounce_type": (Use.WRITTEN, ["x" * LONGEST_BOUNCE_TYPE]),
}
"""By hookrow's name of a column. Keys are the host's, and only compared with each other."""


def role_needs(schema: Schema, tables: Mapping[str, Columns]) -> Iterator[Need]:
    """Yield what the columns of the roles must hold, given the existing ones of each table."""
    for name, role in schema.roles.items():
        existing = tables.get(name, {})
        for field, column_name in schema.columns(name).items():
            column = existing.get(column_name)
            if column is None or (field in MAY_BE_FLAGS and column.kind == "boolean"):
                continue  # a flag can be true and false
            if field == "suppression_reason":
                yield _reasons(role.table, column, role.empty, schema)
            elif field in _SAMPLES:
                use, values = _SAMPLES[field]
                kept = [each for each in values if each != _NO_GUID or not column.holds_uuids]
                text = unsuitable_use(schema, name, field, existing)
                yield _need(role.table, column, use, kept, text)
        for column_name, value in role.where.items():
            column = existing.get(column_name)
            if column is None:
                continue
            if value is not None and (value is not False or column.kind == "boolean"):
                text = never_equals(role.table, column, value, schema.form)
                yield _need(role.table, column, Use.CONDITION, [value], text)


def tenant_needs(table: str, column: Column, tenants: Mapping[str, Key]) -> Iterator[Need]:
    """Yield what a column of tenants must hold, given the tenants by the names of entries."""
    names: dict[str, str] = {}
    for name, tenant in tenants.items():
        text = str(tenant)
        if column.holds_uuids:  # the form in which the database returns them
            text = digits_of_guid(text) if column.kind == "text" else guid(text)
        names[text] = name

    def describe(values: Sequence[Any], _: Obstacle | None) -> str:
        entries = ", ".join(repr(names[each]) for each in values[:MOST_NAMED])
        given = ", ".join(repr(tenants[names[each]]) for each in values[:MOST_NAMED])
        return (
            f"{of_type(table, column)}, which never equals the value of the tenant of {entries}: "
            f"correct the value {given}."
        )

    if names:
        yield Need(table, column, Use.TENANT, {each: each for each in names}, describe)


def _need(table: str, column: Column, use: Use, values: Iterable[Any], text: str) -> Need:
    kept = {each: each for each in values}
    longest = max((len(each) for each in kept if isinstance(each, str)), default=0)
    length = column.length if use in {Use.WRITTEN, Use.OWN} else None
    if length is not None and longest > length:
        text = too_short(table, column, longest)
    return Need(table, column, use, kept, lambda _, __: text)


def _reasons(table: str, column: Column, empty: str | None, schema: Schema) -> Need:
    stored: dict[Scalar, Any] = {}
    unwritable: list[Scalar] = []
    values = reason_values(schema, empty)
    if not column.nullable:  # `faults_of_nulls` reports it, whatever else the column cannot hold
        values = [each for each in values if each is not None]
    for value in values:
        try:
            stored[value] = column.write(value) if column.write and value is not None else value
        except Exception:  # noqa: BLE001 - a field of the host may raise any error
            unwritable.append(value)
    describe = partial(reason_mistake, table, column, schema)
    return Need(table, column, Use.REASON, stored, describe, unwritable)


def cannot_compare(table: str, column: Column, other_table: str, key: Column) -> Fault:
    """Return the fault for one of `REFERENCES`."""
    text = (
        f"{of_type(table, column)}, and {key.name!r} of {other_table!r} is {key.type_name}: they "
        "cannot be compared, and must have the same type."
    )
    return Fault(text, table, column.name)


_LONGEST_TEXTS = {
    "record_type": LONGEST_RECORD_TYPE,
    "message_id": LONGEST_MESSAGE_ID,
    "recipient": LONGEST_EMAIL,
    "reason": LONGEST_REASON,
    "provider": LONGEST_PROVIDER,
    "entry": LONGEST_ENTRY_NAME,
    "trace_id": LONGEST_TRACE_ID,
    "source": max(len(each.value) for each in Source),
    **dict.fromkeys(("outcome", "first_outcome"), max(len(each.value) for each in Result)),
}
"""Characters of the longest value of each text of the log, except the body."""

_LOG_SAMPLES: Mapping[str, Sequence[Any]] = {
    **{name: _SAMPLE_TIMES for name in LOG_COLUMNS if name.endswith("_at")},
    **dict.fromkeys(("id", "status", "attempts", "retries"), (2**15 - 1,)),
    **{name: ["x", "x" * longest] for name, longest in _LONGEST_TEXTS.items()},
    "change_number": [UNNUMBERED, 2**63 - 1],
    "body": ["x"],
    "fingerprint": [bytes(range(FINGERPRINT_SIZE))],
}
"""By column of the log. A short text is returned with blanks by a CHAR."""

_DATE_SAMPLES: Mapping[str, Sequence[Any]] = {
    "role": ["x", max((kind.value for kind in Suppressible), key=len)],
    "row_key": ["x"],
    "changed_at": _SAMPLE_TIMES,
}
"""By column of the table of the dates of changes."""


def log_needs(log: str, columns: Columns) -> Iterator[Need]:
    """Yield what the columns of the log must hold."""
    return _own_needs(log, columns, _LOG_SAMPLES)


def date_needs(table: str, columns: Columns) -> Iterator[Need]:
    """Yield what the columns of the table of the dates of changes must hold."""
    return _own_needs(table, columns, _DATE_SAMPLES)


def _own_needs(
    table: str, columns: Columns, samples: Mapping[str, Sequence[Any]]
) -> Iterator[Need]:
    for name, values in samples.items():
        text = f"{of_type(table, columns[name])}, which cannot hold its values."
        yield _need(table, columns[name], Use.OWN, values, text)
