"""Finds the models and fields that a `Schema` names, and describes them as tables and columns.

A role's table is a model's label ("crm.Person"), its columns are fields. No database is queried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.apps import apps
from django.db import connections
from django.db.models import BooleanField, Field, Model
from django.db.models.constants import LOOKUP_SEP

from hookrow.django.columns import column, literal
from hookrow.django.field_types import AnyField, NeedsORM, check_types, check_value
from hookrow.errors import SchemaMismatch
from hookrow.schema import NULLED, WRITTEN, Given, Role, Schema, nearest
from hookrow.stores.sql.columns import Column

LOG = "hookrow.Notification"

OURS = {
    "hookrow_subscribers": "hookrow_tables.Subscriber",
    "hookrow_dispatches": "hookrow_tables.Dispatch",
    "hookrow_subscriptions": "hookrow_tables.Subscription",
}
"""The models of hookrow's own tables, which a schema names by default."""

NOT_NULL = "{} does not allow null, but a reactivation sets it to null."


@dataclass(frozen=True, slots=True)
class ModelMapping:
    """The models of a schema, by role, and their fields, by role and hookrow's name for them.

    `schema` names tables and columns instead, and `columns` has these columns, by role and name.
    """

    schema: Schema
    columns: Mapping[str, Mapping[str, Column]]
    models: Mapping[str, type[Model]]
    fields: Mapping[tuple[str, str], AnyField]
    log: type[Model] | None

    @property
    def is_written_apart(self) -> bool:
        """Whether no row of one model can also be a row of another, as one of a view can be."""
        written = [
            self.models[role]._meta  # noqa: SLF001 - Django's public name
            for role in {role for role, ours in self.fields if ours in WRITTEN}
        ]
        tables = {each.db_table for each in written}
        return all(each.managed for each in written) and len(tables) == len(written)

    def not_null(self, *, managed: bool = True) -> Sequence[AnyField]:
        """Return the fields that must allow null but do not, of managed models or of others.

        What an unmanaged model states may not be true of its table or view.
        """
        nulled = [field for (_, ours), field in self.fields.items() if ours in NULLED]
        return [each for each in nulled if not each.null and each.model._meta.managed is managed]  # noqa: SLF001 - as above


def map_models(schema: Schema, using: str) -> ModelMapping:
    """Find every model and field. Raises `SchemaMismatch` for the first that cannot work."""
    schema = _with_messages(schema)
    models = {
        name: find_model(OURS.get(role.table, role.table)) for name, role in schema.roles.items()
    }
    fields = {
        (name, ours): _mapped_field(models[name], role, ours, path)
        for name, role in schema.roles.items()
        for ours, path in schema.columns(name).items()
    }
    hiding = {
        (name, path): _hiding_field(models[name], role, path, value)
        for name, role in schema.roles.items()
        for path, value in role.where.items()
    }
    for name, role in schema.roles.items():
        _check_hiding(role, name, fields, hiding)
    check_types(fields, schema.reasons)
    log = find_model(LOG) if schema.log else None
    connection = connections[using]
    roles: dict[str, Role] = {}
    columns: dict[str, dict[str, Column]] = {}
    for name, role in schema.roles.items():
        of_role = {ours: field for (of, ours), field in fields.items() if of == name}
        where = {
            field: literal(field, role.where[path], connection)
            for (of, path), field in hiding.items()
            if of == name
        }
        roles[name] = _in_names(role, models[name], of_role, where)
        columns[name] = {
            each.name: each
            for each in (column(field, connection) for field in (*of_role.values(), *where))
        }
    named = replace(
        schema,
        subscribers=roles["subscribers"],
        dispatches=roles["dispatches"],
        subscriptions=roles.get("subscriptions"),
        messages=roles.get("messages"),
        log=log._meta.db_table if log else None,  # noqa: SLF001 - Django's public name
    )
    return ModelMapping(named, columns, models, fields, log)


def find_model(label: str) -> type[Model]:
    """Return the model of that label, also one that Django made for a many-to-many relation."""
    app, _, name = label.rpartition(".")
    if not app:
        raise SchemaMismatch(f"The model {label!r} needs its app: write {_labelled(label)!r}.")
    if app not in apps.app_configs:
        hint = _INSTALL.get(app) or nearest(app, apps.app_configs)
        raise SchemaMismatch(f"There is no app {app!r} for the model {label!r}.{hint}")
    config = apps.get_app_config(app)
    known = list(config.get_models(include_auto_created=True, include_swapped=True))
    for found in known:
        if found._meta.model_name == name.lower():  # noqa: SLF001 - as above
            if swapped := found._meta.swapped:  # noqa: SLF001 - as above
                raise SchemaMismatch(
                    f"The settings replace the model {label!r} by {swapped!r}: name that one."
                )
            return found
    names = [str(each._meta.object_name) for each in known]  # noqa: SLF001 - as above
    raise SchemaMismatch(f"The app {app!r} has no model {name!r}.{nearest(name, names)}")


_INSTALL = {
    "hookrow": " Add 'hookrow.django' to INSTALLED_APPS.",
    "hookrow_tables": " Add 'hookrow.django.tables' to INSTALLED_APPS.",
}


def _labelled(name: str) -> str:
    """Return the label of a model of that name, or how one is written."""
    labels = {each._meta.model_name: each._meta.label for each in apps.get_models()}  # noqa: SLF001 - as above
    return labels.get(name.lower(), f"app.{name}")


def _with_messages(schema: Schema) -> Schema:
    """Return the schema with the role `messages` for a list that a foreign key leads to."""
    role = schema.dispatches
    step, lookup, last = (role.columns.get("list_id") or "").partition(LOOKUP_SEP)
    if not lookup or schema.subscriptions is None:
        return schema
    if LOOKUP_SEP in last:
        raise NeedsORM(
            f"{role.table}: the list of a dispatch can be reached over one foreign key, not over "
            f"several as {step}{LOOKUP_SEP}{last}."
        )
    key = _field(find_model(OURS.get(role.table, role.table)), step)
    message = _related(key)
    columns = {ours: theirs for ours, theirs in role.columns.items() if ours != "list_id"}
    return replace(
        schema,
        dispatches=replace(role, columns={**columns, "message_id": key.attname}),
        messages=Role(
            message._meta.label,  # noqa: SLF001 - as above
            {"id": key.target_field.attname, "list_id": last},  # type: ignore[attr-defined] # a foreign key's
        ),
    )


def _mapped_field(model: type[Model], role: Role, ours: str, path: str) -> AnyField:
    if ours == "id" and "id" not in role.columns:
        path = "pk"
    if LOOKUP_SEP in path:
        raise SchemaMismatch(
            f"{role.table}: {ours} is changed or joined by, and cannot be reached through other "
            f"models as {path!r}."
        )
    field = _field(model, path)
    _check_table(model, field)
    return field


def _hiding_field(model: type[Model], role: Role, path: str, value: Given) -> AnyField:
    """Return the field that hides rows unless it equals the value."""
    step, lookup, _ = path.partition(LOOKUP_SEP)
    field = _field(model, step)
    if lookup:
        _related(field)
        raise NeedsORM(
            f"{role.table}: `where` hides rows by {path!r}, a field of another model: hide them by "
            "a field of their own."
        )
    _check_table(model, field)
    if value is not None and (value is not False or isinstance(field, BooleanField)):
        check_value(field, value)
    return field


def _check_table(model: type[Model], field: AnyField) -> None:
    """Raise `NeedsORM` for a field that a model inherits, which is in its parent's table."""
    if field.model._meta.db_table != model._meta.db_table:  # noqa: SLF001 - as above
        raise NeedsORM(
            f"{field} is in another table than {model.__name__}: name the model that has all."
        )


def _check_hiding(
    role: Role,
    name: str,
    fields: Mapping[tuple[str, str], AnyField],
    hiding: Mapping[tuple[str, str], AnyField],
) -> None:
    """Raise `SchemaMismatch` if a role's rows are hidden by a field that notifications set."""
    written = {fields[name, ours] for ours in WRITTEN if (name, ours) in fields}
    for (of, _), field in hiding.items():
        if of == name and field in written:
            raise SchemaMismatch(
                f"{role.table} hides rows by {field.attname!r}, which notifications set: "
                "hide them by another field."
            )


def _in_names(
    role: Role,
    model: type[Model],
    fields: Mapping[str, AnyField],
    where: Mapping[AnyField, Given],
) -> Role:
    """Return the role by the names of its table and its columns."""
    named = Role(
        model._meta.db_table,  # noqa: SLF001 - as above
        where={str(field.column): value for field, value in where.items()},
        fold=role.fold,
    )
    columns: dict[str, str | None] = {
        ours: None for ours, theirs in role.columns.items() if theirs is None
    }
    columns |= {
        ours: field.column for ours, field in fields.items() if named.column(ours) != field.column
    }
    return replace(named, columns=columns)


def _field(model: type[Model], name: str) -> AnyField:
    meta = model._meta  # noqa: SLF001 - as above
    if name == "pk" and isinstance(meta.pk, Field):
        return meta.pk
    fields = {**{each.attname: each for each in meta.concrete_fields}}
    fields |= {each.name: each for each in meta.concrete_fields}
    if name not in fields:
        raise SchemaMismatch(
            f"The model {meta.label!r} has no field {name!r}.{nearest(name, fields)}"
        )
    return fields[name]


def _related(field: AnyField) -> type[Model]:
    related = field.related_model
    if not isinstance(related, type):
        raise SchemaMismatch(f"{field} leads to no other model.")
    return related
