"""Describes model fields as columns of the SQL store.

Fields that store values unchanged need no conversion. All others use Django's own conversions, at
the same cost as in the ORM.
"""

# ruff: noqa: ANN401 - each field has its own type of values

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import (
    BooleanField,
    CharField,
    DateField,
    DateTimeField,
    DecimalField,
    Field,
    ForeignKey,
    IntegerField,
    TextField,
    TimeField,
    UUIDField,
)
from django.utils.timezone import get_default_timezone, is_naive, make_aware, make_naive

from hookrow._core.notification import Key
from hookrow._core.schema import Scalar
from hookrow._models import type_of_field
from hookrow.django._vendors import vendor_of
from hookrow.django.fields import UTCDateTimeField
from hookrow.errors import SchemaMismatch
from hookrow.stores.sql._columns import Column, Convert
from hookrow.stores.sql._needs import REFERENCES, Need, Use

AnyField: TypeAlias = "Field[Any, Any]"
MappedFields: TypeAlias = Mapping[tuple[str, str], AnyField]
"""The fields by role and by hookrow's name for the column."""


class NeedsORM(SchemaMismatch):
    """The mapping needs Django's ORM, which hookrow does not use: it executes SQL."""


def column(field: AnyField, connection: BaseDatabaseWrapper) -> Column:
    """Return the column of a field. Raises `NeedsORM` if it stores bytes that cannot be passed."""
    vendor, target = vendor_of(connection), target_of(field)
    # A table that Django does not manage may be wider.
    is_limited = vendor.enforces_lengths and field.model._meta.managed
    if vendor.refuses_bytes(target, connection):
        raise NeedsORM(f"{field} stores bytes: use a field for text, numbers or UUIDs.")
    return Column(
        column_name(field),
        vendor.parameter_type(field, connection),
        type_of_field(target),
        next((kind for each, kind in _KIND_OF_FIELD.items() if isinstance(target, each)), ""),
        nullable=field.null or not field.model._meta.managed,  # its table may differ from the model
        generated=getattr(field, "generated", False),
        default=False,
        holds_uuids=isinstance(target, UUIDField),
        ignores_case=vendor.ignores_case(target, connection),
        length=target.max_length if is_limited and isinstance(target, CharField) else None,
        read=_reader(target, connection),
        write=_writer(target, connection),
    )


def column_name(field: AnyField) -> str:
    """Return the name of a field's column, without the quotes that Django allows around it."""
    name = str(field.column)
    is_quoted = len(name) > 1 and name[0] == name[-1] and name[0] in '"`'
    return name[1:-1] if is_quoted else name


def literal(field: AnyField, value: Scalar, connection: BaseDatabaseWrapper) -> Scalar:
    """Return a value of `where` as its column stores it; None for null.

    False means null, unless the field is boolean.
    """
    if value is None or (value is False and not isinstance(field, BooleanField)):
        return None
    target = target_of(field)
    held = target.to_python(value)
    if isinstance(held, UUID) and _is_plain(target):
        return held.hex  # which every database reads; to choose, Django asks a server of MariaDB
    stored: Any = target.get_db_prep_value(held, connection)
    return stored if isinstance(stored, str | int) else str(stored)


def target_of(field: AnyField) -> AnyField:
    """Return the field that a foreign key refers to; return any other field itself."""
    while isinstance(field, ForeignKey):
        field = field.target_field
    return field


def check_references(fields: MappedFields) -> None:
    """Raise `SchemaMismatch` for a foreign key to a field other than the mapped one.

    An unmanaged model may be a view of the table to which the foreign key refers.
    """
    for one, other in REFERENCES:
        if one not in fields or other not in fields or not isinstance(fields[one], ForeignKey):
            continue
        if other[1] != "id" and not isinstance(fields[other], ForeignKey):
            continue
        target, key = target_of(fields[one]), target_of(fields[other])
        managed = all(each.model._meta.managed for each in (target, key))
        if managed and _place(target) != _place(key):
            raise SchemaMismatch(
                f"{fields[one]} refers to {target}, not to {key}: map another field or model."
            )


def _place(field: AnyField) -> tuple[str, str | None]:
    return field.model._meta.db_table, field.column


def check_plain(field: AnyField) -> None:
    """Raise `NeedsORM` for a field that converts its values, but is compared with text."""
    if not _is_plain(field):
        raise NeedsORM(
            f"{field} converts its values, but notifications are compared with the stored values: "
            "use a plain field."
        )


def check_value(field: AnyField, value: object, connection: BaseDatabaseWrapper) -> None:
    """Raise `SchemaMismatch` for a value that the field cannot hold in this database."""
    target = target_of(field)
    try:
        converted = target.to_python(value)
        target.run_validators(converted)
        _check_range(target, converted, connection)
    except (ValidationError, TypeError, ValueError):
        raise _cannot_hold(field, value) from None


def check_tenant(field: AnyField, tenant: Key, connection: BaseDatabaseWrapper) -> None:
    """Raise `SchemaMismatch` for a tenant that the field cannot hold, or that it would convert.

    Tenants are compared as text: to a `UUIDField`, 1 is a UUID, which is not equal to 1.
    """
    check_value(field, tenant, connection)
    held = target_of(field).to_python(tenant)
    is_uuid = isinstance(held, UUID) and isinstance(tenant, str)
    if str(held) != str(tenant) and not is_uuid:
        raise _cannot_hold(field, tenant)


def _cannot_hold(field: AnyField, value: object) -> SchemaMismatch:
    kind = type(target_of(field)).__name__
    return SchemaMismatch(f"{field} cannot hold {value!r}: use a value for a {kind}.")


def holds(field: AnyField, need: Need, value: object, connection: BaseDatabaseWrapper) -> bool:
    """Return whether a field can store a value of a need.

    The driver accepts what the field writes, and the field reads the same value back. A time may
    lose its fraction of a second, and a text that stands for others may change its case. A
    conversion of the host's may store any reason in another form.
    """
    if value is None or (need.use is Use.REASON and need.column.write):
        return True
    try:
        held = _held(target_of(field), need, value, connection)
    except Exception:  # noqa: BLE001 - a field of the host may raise any error
        return False
    if isinstance(value, datetime):
        return isinstance(held, datetime) and _second(_from_time_zone(held)) == _second(value)
    if isinstance(value, str) and need.use is not Use.REASON:
        return str(held).casefold() == value.casefold()
    held = str(held) if isinstance(held, UUID) else held
    return held == value and isinstance(held, bool) == isinstance(value, bool)


def _held(target: AnyField, need: Need, value: object, connection: BaseDatabaseWrapper) -> object:
    """Return what a field reads after it wrote a value. Raises any error if it cannot."""
    column = need.column
    held: object = target.to_python(value)
    if isinstance(held, UUID) and _is_plain(target):
        return held  # to prepare it, Django asks a server of MariaDB
    stored = held if need.use is Use.REASON else value
    if need.use is not Use.REASON and not isinstance(target, UTCDateTimeField):
        stored = _prepared(target, value, connection)
        if not isinstance(stored, _OF_DRIVERS):
            raise TypeError(stored)
        stored = bytes(stored) if isinstance(stored, memoryview) else stored  # Django's form
        held = vendor_of(connection).read_back(target, stored)
        held = column.read(held) if column.read else held
    length = None if need.use is Use.COMPARED else column.length
    if length is not None and isinstance(stored, str) and len(stored) > length:
        raise ValueError(stored)
    return held


_OF_DRIVERS = (str, int, float, Decimal, bytes, memoryview, date, time, UUID)
"""The types of values that every driver accepts, alone and in the text of an array."""


def _second(at: datetime) -> datetime:
    return at.replace(microsecond=0)


def _check_range(field: AnyField, value: object, connection: BaseDatabaseWrapper) -> None:
    """Raise `ValueError` for an integer out of range; validators know the default database's."""
    if not isinstance(field, IntegerField) or not isinstance(value, int) or not _is_plain(field):
        return
    with suppress(KeyError):  # a type of the host's own
        least, most = connection.ops.integer_field_range(field.get_internal_type())
        if not least <= value <= most:
            raise ValueError(value)


_KIND_OF_FIELD: Mapping[type[AnyField], str] = {
    BooleanField: "boolean",
    DateTimeField: "datetime",
    DateField: "date",
    TimeField: "time",
    DecimalField: "number",
    IntegerField: "number",
    CharField: "text",
    TextField: "text",
    UUIDField: "uuid",
}
"""The kind of a column, by the first class that is that of its field or a base."""


def _is_plain(field: AnyField) -> bool:
    """Return whether a field has no conversions except Django's own."""
    return not hasattr(field, "from_db_value") and all(
        getattr(getattr(field, each), "__module__", None) in _DJANGO for each in _CONVERSIONS
    )


_CONVERSIONS = ("get_prep_value", "get_db_prep_value", "get_db_prep_save")
_DJANGO = {"django.db.models.fields", "django.db.models.fields.related"}


def _reader(field: AnyField, connection: BaseDatabaseWrapper) -> Convert | None:
    """Return the conversion of the driver's values: the same as in Django's SQL compiler."""
    if isinstance(field, UTCDateTimeField):
        return None  # it has the format of the SQL store
    expression = field.get_col(field.model._meta.db_table)
    steps = [
        *connection.ops.get_db_converters(expression),
        *field.get_db_converters(connection),
    ]
    is_naive = isinstance(field, DateTimeField) and vendor_of(connection).writes_times_as_text
    if not steps and not is_naive:
        return None

    def read(value: Any) -> Any:
        for step in steps:
            value = step(value, expression, connection)
        return _from_time_zone(value) if isinstance(value, datetime) else value

    return read


def _writer(field: AnyField, connection: BaseDatabaseWrapper) -> Convert | None:
    """Return the conversion of parameters."""
    is_text = isinstance(field, DateTimeField) and vendor_of(connection).writes_times_as_text
    if isinstance(field, UTCDateTimeField) or (_is_plain(field) and not is_text):
        return None

    def write(value: Any) -> Any:
        stored = _prepared(field, value, connection)
        # The text of an array cannot contain psycopg's own types for integers.
        return int(stored) if isinstance(stored, int) else stored

    return write


def _prepared(field: AnyField, value: Any, connection: BaseDatabaseWrapper) -> Any:
    """Return the form in which a field writes a value."""
    if isinstance(value, datetime) and not settings.USE_TZ:
        value = make_naive(value, get_default_timezone())
    prepared = field.get_prep_value(value)
    return field.get_db_prep_value(prepared, connection, prepared=True)


def _from_time_zone(at: datetime) -> datetime:
    """Return a time in UTC. Without USE_TZ, fields hold local times of TIME_ZONE."""
    if is_naive(at):
        at = make_aware(at, get_default_timezone())
    return at.astimezone(UTC)
