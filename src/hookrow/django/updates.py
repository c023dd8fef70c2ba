"""How a change is written to a host's model: one UPDATE, where the guard allows.

An UPDATE is put into SQL once for all changes of a form: to have Django do so for every
notification would take it longer than the database takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model, Q, QuerySet
from django.db.models.sql import UpdateQuery

from hookrow.django.mapping import Mapped, Models
from hookrow.django.times import given
from hookrow.notification import Change, SetTime
from hookrow.schema import KEYS


class Updates:
    """The UPDATEs of changes, for the models in any database."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._sql: dict[object, str | None] = {}

    def __call__(
        self, change: Change, connection: BaseDatabaseWrapper
    ) -> tuple[str, Sequence[Any]] | None:
        """Return SQL and parameters that set what fields there are; None where there is none."""
        kind, _ = change.row
        mapped = self._models.roles[kind.value]
        values = {
            name: given(value, mapped.fields[name])
            for name, value in self._new(change).items()
            if name in mapped.paths
        }
        if not values:
            return None
        parameters = _parameters(change, mapped, values, connection)
        form = kind, change.guarded, *((name, values[name] is None) for name in values)
        if form not in self._sql:
            sql, said = _compiled(change, mapped, values, connection)
            self._sql[form] = sql if list(said) == parameters else None
        kept = self._sql[form]
        if kept is None:  # a field says in a way of its own what it is given
            return _compiled(change, mapped, values, connection)
        return kept, parameters

    def _new(self, change: Change) -> Mapping[str, object]:
        if isinstance(change, SetTime):
            return {change.column.value: change.at}
        return {
            "suppressed_at": None if change.reason is None else change.at,
            "suppression_reason": self._models.schema.reason(change.reason),
            "suppression_changed_at": change.at,
        }


def _parameters(
    change: Change, mapped: Mapped, values: Mapping[str, object], connection: BaseDatabaseWrapper
) -> list[Any]:
    """List what takes the place of each `%s`, in the order in which Django writes them."""
    fields, key = mapped.fields, _key(change)
    new = {name: fields[name].get_db_prep_save(values[name], connection) for name in values}
    found = [fields[name].get_db_prep_value(key[name], connection) for name in key]
    guard = [new[_guard(change)[0]]] if change.guarded else []
    return [*(value for value in new.values() if value is not None), *found, *guard]


def _compiled(
    change: Change, mapped: Mapped, values: Mapping[str, object], connection: BaseDatabaseWrapper
) -> tuple[str, Sequence[Any]]:
    """Have Django put the change into SQL."""
    found: QuerySet[Model] = QuerySet(mapped.model, using=connection.alias)
    for name, part in _key(change).items():
        found = found.filter(**{mapped.paths[name]: part})
    if change.guarded:
        name, lookup = _guard(change)
        path = mapped.paths[name]
        unset = Q(**{f"{path}__isnull": True})
        found = found.filter(unset | Q(**{f"{path}__{lookup}": values[name]}))
    update: Any = found.query.chain(UpdateQuery)
    update.add_update_values({mapped.paths[name]: value for name, value in values.items()})
    sql, parameters = update.get_compiler(connection.alias).as_sql()
    return sql, parameters


def _key(change: Change) -> Mapping[str, object]:
    """Return what identifies the row, by our names."""
    kind, key = change.row
    return dict(zip(KEYS[kind], key if isinstance(key, tuple) else (key,), strict=True))


def _guard(change: Change) -> tuple[str, str]:
    """Return the field that guards against the change, and how it has to compare with it."""
    if isinstance(change, SetTime):
        return change.column.value, "lt"
    return "suppression_changed_at", "lte"
