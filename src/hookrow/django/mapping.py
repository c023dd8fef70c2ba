"""Which models and fields play our roles: what a `Schema` names, found among the project's.

A role's table is a model's label ("crm.Person"), its columns are fields. No database
is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.apps import apps
from django.db.models import BooleanField, Field, Model
from django.db.models.constants import LOOKUP_SEP

from hookrow.django.field_types import AnyField, check_types, check_value
from hookrow.errors import SchemaMismatch
from hookrow.schema import NULLED, WRITTEN, Fold, Role, Schema, nearest

LOG = "hookrow.Notification"

OURS = {
    "hookrow_subscribers": "hookrow_tables.Subscriber",
    "hookrow_dispatches": "hookrow_tables.Dispatch",
    "hookrow_subscriptions": "hookrow_tables.Subscription",
}
"""Our own tables, which a schema names where it says nothing else."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """A model that plays a role. `paths` are its fields, and `fields` what they end in.

    Both by our names for them: a foreign key is named by what it holds
    ("subscriber_id"). `where` holds the lookups that hide its other rows.
    """

    model: type[Model]
    paths: Mapping[str, str]
    fields: Mapping[str, AnyField]
    where: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a schema, by the names of their roles, and the log's."""

    schema: Schema
    roles: Mapping[str, Mapped]
    log: type[Model] | None

    @property
    def fold(self) -> Fold:
        """How emails are indexed."""
        return self.schema.subscribers.fold

    def not_null(self, *, managed: bool = True) -> Sequence[AnyField]:
        """Return the fields that must allow null but do not, of managed models or of others.

        What an unmanaged model says may not be true of its table, or of its view.
        """
        nulled = [
            role.fields[ours]
            for role in self.roles.values()
            for ours in NULLED
            if ours in role.fields
        ]
        return [each for each in nulled if not each.null and each.model._meta.managed is managed]  # noqa: SLF001 - Django's public name


NOT_NULL = "{} does not allow null, but a reactivation sets it to null."


def check_null(found: Models) -> None:
    """Raise `SchemaMismatch` for the first field that must allow null but does not."""
    for field in found.not_null():
        raise SchemaMismatch(f"{NOT_NULL.format(field)} Add null=True to it.")


def models(schema: Schema) -> Models:
    """Find every model and field. Raises `SchemaMismatch` for what there is none of."""
    roles = {name: _mapped(schema, name, role) for name, role in schema.roles.items()}
    log = model(LOG) if schema.log else None
    fields = {
        (name, ours): field for name, role in roles.items() for ours, field in role.fields.items()
    }
    check_types(fields, schema.reasons)
    return Models(schema, roles, log)


def model(label: str) -> type[Model]:
    """Return the model of that label; also one that Django made, between two others."""
    app, _, name = label.rpartition(".")
    if not app:
        raise SchemaMismatch(f"The model {label!r} needs its app: write {_labelled(label)!r}.")
    if app not in apps.app_configs:
        hint = _INSTALL.get(app) or nearest(app, apps.app_configs)
        raise SchemaMismatch(f"There is no app {app!r} for the model {label!r}.{hint}")
    known = {each._meta.object_name: each for each in _of(app)}  # noqa: SLF001 - Django's public name
    for found in known.values():
        if found._meta.model_name == name.lower():  # noqa: SLF001 - as above
            return found
    names = [each for each in known if each]
    raise SchemaMismatch(f"The app {app!r} has no model {name!r}.{nearest(name, names)}")


_INSTALL = {
    "hookrow": " Add 'hookrow.django' to INSTALLED_APPS.",
    "hookrow_tables": " Add 'hookrow.django.tables' to INSTALLED_APPS.",
}


def _labelled(name: str) -> str:
    """Return the label of a model of that name, or how one is written."""
    labels = {each._meta.model_name: each._meta.label for each in apps.get_models()}  # noqa: SLF001 - as above
    return labels.get(name.lower(), f"app.{name}")


def _of(app: str) -> Sequence[type[Model]]:
    return list(apps.get_app_config(app).get_models(include_auto_created=True))


def _mapped(schema: Schema, name: str, role: Role) -> Mapped:
    found = model(OURS.get(role.table, role.table))
    paths: dict[str, str] = {}
    fields: dict[str, AnyField] = {}
    for ours, theirs in schema.columns(name).items():
        path = "pk" if ours == "id" and "id" not in role.columns else theirs
        paths[ours], fields[ours] = _path(found, path)
        if LOOKUP_SEP in paths[ours] and (name, ours) != ("dispatches", "list_id"):
            raise SchemaMismatch(
                f"{role.table}: {ours} is changed or joined by, and cannot be "
                f"reached through others as {theirs!r}."
            )
        _check_place(found, ours, fields[ours])
    where = dict(_condition(found, path, value) for path, value in role.where.items())
    _check_where(role, where, paths)
    return Mapped(found, paths, fields, where)


def _condition(model: type[Model], path: str, value: object) -> tuple[str, object]:
    """Return a lookup and its value; False of a field that is not boolean is null, too."""
    found, field = _path(model, path)
    if value is None or (value is False and not isinstance(field, BooleanField)):
        return f"{found}{LOOKUP_SEP}isnull", True
    check_value(field, value)
    return found, value


def _path(model: type[Model], path: str) -> tuple[str, AnyField]:
    """Follow a path; return it with its end named by what it holds, and the field there."""
    *steps, last = path.split(LOOKUP_SEP)
    for step in steps:
        related = _field(model, step).related_model
        if not isinstance(related, type):
            raise SchemaMismatch(f"{model._meta.label}.{step} leads to no other model.")  # noqa: SLF001 - Django's public name
        model = related
    field = _field(model, last)
    return LOOKUP_SEP.join([*steps, field.attname]), field


def _field(model: type[Model], name: str) -> AnyField:
    meta = model._meta  # noqa: SLF001 - Django's public name
    if name == "pk" and isinstance(meta.pk, Field):
        return meta.pk
    fields = {**{each.attname: each for each in meta.concrete_fields}}
    fields |= {each.name: each for each in meta.concrete_fields}
    if name not in fields:
        raise SchemaMismatch(
            f"The model {meta.label!r} has no field {name!r}.{nearest(name, fields)}"
        )
    return fields[name]


def _check_place(model: type[Model], ours: str, field: AnyField) -> None:
    """Raise `SchemaMismatch` for what is changed and is in the table of a parent model."""
    table = field.model._meta.db_table  # noqa: SLF001 - Django's public name
    if ours in WRITTEN and table != model._meta.db_table:  # noqa: SLF001 - as above
        raise SchemaMismatch(
            f"{field} is in another table than {model.__name__}: name the model that has all."
        )


def _check_where(role: Role, where: Iterable[str], paths: Mapping[str, str]) -> None:
    """Raise `SchemaMismatch` for hiding rows by what is changed, whichever name it goes by."""
    hiding = {path.removesuffix(f"{LOOKUP_SEP}isnull") for path in where}
    for ours, path in paths.items():
        if ours in WRITTEN and path in hiding:
            raise SchemaMismatch(
                f"{role.table} hides rows by {path!r}, which notifications set: "
                "hide them by another field."
            )
