"""Checks that the fields of a project's models can hold what is written, and can be compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import (
    CharField,
    DateTimeField,
    DecimalField,
    Field,
    ForeignKey,
    IntegerField,
    TextField,
    UUIDField,
)

from hookrow.errors import SchemaMismatch
from hookrow.schema import REFERENCES, TIMES, Fold

AnyField: TypeAlias = "Field[Any, Any]"

_TEXT = frozenset({"email", "provider_message_id"})


class NeedsORM(SchemaMismatch):
    """A mapping that only Django's ORM can follow, while hookrow writes SQL."""


def check_types(
    fields: Mapping[tuple[str, str], AnyField], reasons: Mapping[str, str | int] | None
) -> None:
    """Raise `SchemaMismatch` for the first field of a wrong type, by role and our name."""
    for (_, ours), field in fields.items():
        if ours in TIMES and not isinstance(field, DateTimeField):
            raise SchemaMismatch(f"{field} has to be a DateTimeField: it keeps {ours}.")
        if ours in _TEXT and not isinstance(field, CharField | TextField):
            raise SchemaMismatch(f"{field} has to be text: it is compared as it came.")
        if ours in _TEXT and not is_plain(field):
            raise NeedsORM(
                f"{field} changes its values as it stores or reads them, and notifications are "
                "compared with what is stored: use a plain CharField or TextField."
            )
        if ours == "suppression_reason":
            _check_reasons(field, reasons or {})
    for one, other in REFERENCES:
        if one in fields and other in fields:
            _check_reference(fields[one], fields[other], is_key=other[1] == "id")


def check_value(field: AnyField, value: object) -> None:
    """Raise `SchemaMismatch` for a value that the field cannot hold."""
    end = end_of(field)
    try:
        end.run_validators(end.to_python(value))
    except (ValidationError, TypeError, ValueError):
        raise SchemaMismatch(
            f"{field} cannot hold {value!r}: write what fits a {type(end).__name__}."
        ) from None


def end_of(field: AnyField) -> AnyField:
    """Return the field whose values it holds: for a foreign key the one that it leads to."""
    while isinstance(field, ForeignKey):
        field = field.target_field
    return field


def is_plain(field: AnyField) -> bool:
    """Return whether a field stores its values by Django's own conversions only."""
    return not hasattr(field, "from_db_value") and all(
        getattr(getattr(field, each), "__module__", None) in _DJANGO for each in _CONVERSIONS
    )


_CONVERSIONS = ("get_prep_value", "get_db_prep_value", "get_db_prep_save")
_DJANGO = {"django.db.models.fields", "django.db.models.fields.related"}


def check_fold(email: AnyField, fold: Fold, using: str) -> None:
    """Raise `SchemaMismatch` for the fold `citext` of a field whose case PostgreSQL respects.

    A notification would then find the rows of another in its group. No database is queried.
    """
    connection = connections[using]
    if fold != "citext" or connection.vendor == "sqlite":
        return
    collation = getattr(email, "db_collation", None)
    if email.db_type(connection) != "citext" and (
        not collation or _PREDEFINED.fullmatch(collation)
    ):
        raise SchemaMismatch(
            f"{email} is neither CITEXT nor of a db_collation that ignores case: "
            "write another fold, lower for example."
        )


_PREDEFINED = re.compile(r"C|POSIX|default|ucs_basic|unicode|pg_.*|.*-x-icu|[a-z]{2,3}_[A-Z]{2}.*")
"""PostgreSQL's own collations, all of which respect case."""


def _check_reasons(field: AnyField, reasons: Mapping[str, str | int]) -> None:
    family = _family(field)
    if family not in {"text", None} and not any(isinstance(each, int) for each in reasons.values()):
        raise SchemaMismatch(
            f"{field} holds {family}s: say which in `reasons`, "
            "{'HardBounce': 1, '*': 9} for example."
        )
    if family == "text" and any(isinstance(each, int) for each in reasons.values()):
        raise SchemaMismatch(f"{field} holds text: say text in `reasons`, or leave them out.")
    for kept in reasons.values():
        check_value(field, kept)


def _check_reference(field: AnyField, other: AnyField, *, is_key: bool) -> None:
    """Raise `SchemaMismatch` for two fields that do not hold the same keys.

    A bare key says nothing of a model, nor does the model of a view of whose it is.
    """
    end, other_end = end_of(field), end_of(other)
    if isinstance(field, ForeignKey) and (is_key or isinstance(other, ForeignKey)):
        managed = all(each.model._meta.managed for each in (end, other_end))  # noqa: SLF001 - Django's public name
        if managed and _column(end) != _column(other_end):
            raise SchemaMismatch(
                f"{field} leads to {end}, not to {other_end}: name a field or a model that fits."
            )
    elif None not in (families := {_family(end), _family(other_end)}) and len(families) > 1:
        raise SchemaMismatch(
            f"{field} holds a {type(end).__name__}, and {other} a {type(other_end).__name__}: "
            "they cannot be compared, and have to be of one type."
        )


def _column(field: AnyField) -> tuple[str, str | None]:
    return field.model._meta.db_table, field.column  # noqa: SLF001 - as above


def _family(field: AnyField) -> Literal["number", "text", "uuid"] | None:
    """Return what can be compared with each other; None where only the field knows."""
    match end_of(field):
        case IntegerField() | DecimalField():
            return "number"
        case CharField() | TextField():
            return "text"
        case UUIDField():
            return "uuid"
        case _:
            return None
