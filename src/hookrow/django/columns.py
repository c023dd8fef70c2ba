"""Describes a model's field as the column that the SQL store reads and writes.

A field that only stores what it is given needs no conversion. Others are converted by Django's
own means, which costs as much as the ORM spends on them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, DateTimeField
from django.utils.timezone import get_default_timezone, is_naive, make_aware, make_naive

from hookrow.django.field_types import AnyField, end_of, is_plain
from hookrow.django.fields import UTCDateTimeField
from hookrow.schema import Given
from hookrow.stores.sql.columns import Column, Convert


def column(field: AnyField, connection: BaseDatabaseWrapper) -> Column:
    """Return the column of a field."""
    end = end_of(field)
    is_ours = isinstance(field, UTCDateTimeField)  # which stores what the SQL store does
    return Column(
        str(field.column),
        _type(field, connection),
        "",
        "boolean" if isinstance(field, BooleanField) else "",
        nullable=field.null,
        generated=False,
        default=False,
        read=None if is_ours else _reader(end, connection),
        write=None if is_ours else _writer(end, connection),
    )


def literal(field: AnyField, value: Given, connection: BaseDatabaseWrapper) -> Given:
    """Return the value that the column of a field has to equal; None for null.

    False is null for a field that is not boolean.
    """
    if value is None or (value is False and not isinstance(field, BooleanField)):
        return None
    end = end_of(field)
    stored: Any = end.get_db_prep_value(end.to_python(value), connection)
    return str(stored) if isinstance(stored, UUID) else stored


def _type(field: AnyField, connection: BaseDatabaseWrapper) -> str:
    """Return the type that values are passed as: without a length, so that none is cut."""
    if connection.vendor != "postgresql":
        return ""
    plain = re.sub(r"\(.*?\)", "", field.db_type(connection) or "")
    return _TYPES.get(plain, plain).replace("%", "%%")


_TYPES = {"varchar": "character varying", "char": "bpchar"}


def _reader(field: AnyField, connection: BaseDatabaseWrapper) -> Convert | None:
    """Return the conversion of what the driver reads, as Django's compiler has it."""
    expression = field.get_col(field.model._meta.db_table)  # noqa: SLF001 - Django's public name
    steps = [
        *connection.ops.get_db_converters(expression),
        *field.get_db_converters(connection),
    ]
    if not steps:
        return None

    def read(value: Any) -> Any:  # noqa: ANN401 - the field's own
        for step in steps:
            value = step(value, expression, connection)
        return _aware(value) if isinstance(value, datetime) else value

    return read


def _writer(field: AnyField, connection: BaseDatabaseWrapper) -> Convert | None:
    """Return the conversion of what the driver is passed."""
    # SQLite has no type for times, so Django's own field has a format of its own.
    is_formatted = isinstance(field, DateTimeField) and connection.vendor == "sqlite"
    if is_plain(field) and not is_formatted:
        return None

    def write(value: Any) -> Any:  # noqa: ANN401 - the field's own
        if isinstance(value, datetime) and not settings.USE_TZ:
            value = make_naive(value, get_default_timezone())
        prepared = field.get_prep_value(value)
        stored: Any = field.get_db_prep_value(prepared, connection, prepared=True)
        # psycopg's types for integers cannot be a part of an array's text.
        return int(stored) if isinstance(stored, int) else stored

    return write


def _aware(time: datetime) -> datetime:
    """Return a time in UTC; without USE_TZ fields have those of TIME_ZONE."""
    if is_naive(time):
        time = make_aware(time, get_default_timezone())
    return time.astimezone(UTC)
