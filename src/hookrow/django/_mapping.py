"""Finds the models and fields that a `Schema` names, and describes their tables and columns.

In the schema, a role's table is the label of a model ("crm.Person"), and its columns are fields;
`Role.of` has the model itself, with the table and the columns.
Nothing here queries a database, so whether the keys of rows are unique is known from what the
models declare; `stores.sql._keys` asks a database.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from django.apps import apps
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Field, Model, Q, UniqueConstraint
from django.db.models.constants import LOOKUP_SEP
from django.db.models.expressions import OrderBy

from hookrow._core.column_rules import (
    fault_of_message_ids,
    faults_of_nulls,
    first_of_each,
    is_flag,
)
from hookrow._core.corrections import Table, correct, correction_of
from hookrow._core.keys import effect, is_not_unique, keys
from hookrow._core.known_entries import NO_ENTRIES, KnownEntries
from hookrow._core.notation import ModelNotation, Notation
from hookrow._core.notification import Key
from hookrow._core.schema import (
    OPTIONAL,
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
from hookrow._fault import Fault
from hookrow._models import DJANGO_TEXT
from hookrow.django._columns import (
    AnyField,
    MappedFields,
    NeedsORM,
    check_plain,
    check_references,
    check_tenant,
    check_value,
    column,
    column_name,
    holds,
    literal,
    target_of,
)
from hookrow.django._vendors import vendor_of
from hookrow.errors import SchemaMismatch
from hookrow.stores.sql._column_rules import (
    can_hold,
    faults_of_columns,
    suits,
)
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._needs import REFERENCES, cannot_compare, role_needs

LOG_MODEL = "hookrow.Notification"

_OWN_MODELS = {
    "hookrow_subscribers": "hookrow_tables.Subscriber",
    "hookrow_dispatches": "hookrow_tables.Dispatch",
    "hookrow_subscriptions": "hookrow_tables.Subscription",
}
"""The models of hookrow's own tables, to which a schema refers by default."""

_INSTALL = {
    "hookrow": " Add 'hookrow.django' to INSTALLED_APPS.",
    "hookrow_tables": " Add 'hookrow.django.tables' to INSTALLED_APPS.",
}

_Where: TypeAlias = Mapping[AnyField, Scalar]
"""The fields of `where`, each with the value of the rows that are not hidden, as it is stored."""


@dataclass(frozen=True, slots=True)
class ModelMapping:
    """The models of a schema by role, and their fields by role and hookrow's name.

    `schema` is the same schema with the names of tables and columns in the database; `columns`
    contains the columns by role and name, and `tenants` the fields with the tenants of rows.
    """

    schema: Schema
    columns: Mapping[str, Mapping[str, Column]]
    models: Mapping[str, type[Model]]
    fields: MappedFields
    tenants: Mapping[str, AnyField]
    log: type[Model] | None

    def check_tenant(self, tenant: Key, using: str) -> None:
        """Raise `SchemaMismatch` for a tenant that a field cannot hold in a database."""
        for field in self.tenants.values():
            check_tenant(field, tenant, connections[using])

    def fault_of_message_ids(self, entries: KnownEntries) -> Fault | None:
        """Return the fault of a field that is too short for the message ids of the entries."""
        field = self.fields.get(("dispatches", "provider_message_id"))
        if field is None:
            return None
        described = self.columns["dispatches"].get(column_name(field))
        if described is None or described.holds_uuids:
            return None
        return fault_of_message_ids(
            self.models["dispatches"]._meta.label,
            described,
            entries.message_id_lengths,
            f"write {DJANGO_TEXT} in the field, then run makemigrations and migrate",
        )

    @property
    def has_separate_rows(self) -> bool:
        """Whether no two models share rows, as models of views may."""
        written = [
            self.models[role]._meta
            for role in {role for role, name in self.fields if name in WRITTEN}
        ]
        tables = {each.db_table for each in written}
        return all(each.managed for each in written) and len(tables) == len(written)


def map_models(schema: Schema, using: str, entries: KnownEntries = NO_ENTRIES) -> ModelMapping:
    """Find all models and fields, which must suit the entries of a receiver.

    Raises `SchemaMismatch` with all faults of the mapping: the rest is examined as if the names of
    fields had already been corrected. If any of them needs Django's ORM, raises `NeedsORM`.
    """
    connection, found = connections[using], _Faults()
    notation, given = schema.notation, schema
    schema = _with_labels(schema)
    models = _models_of(schema, found)
    if schema.dispatches is not None and "dispatches" in models:
        with found.collected():
            schema = _with_messages(schema, schema.dispatches)
            if "messages" not in models and schema.messages is not None:
                models["messages"] = _model_of(schema.messages)
    schema, changed = _with_corrections(schema, models, notation, connection, found)
    mapping, hiding = _examine(schema, models, connection, found)
    with found.collected():
        log = find_model(LOG_MODEL) if schema.log else None
        table = log._meta.db_table if log else None
        mapping = replace(mapping, log=log, schema=mapping.schema.changed(log=table))
    forms = {
        name: notation_of(given.roles.get(name, role), schema.form)
        for name, role in schema.roles.items()
    }
    _check_fields(mapping, connection, notation, forms, found)
    if fault := mapping.fault_of_message_ids(entries):
        found.add(fault)
    for name, key in keys(schema).items():
        fields = [mapping.fields.get((name, own_name)) for own_name in key]
        fields_of_key = [field for field in fields if field is not None]
        if name in models and len(fields_of_key) == len(key):
            with found.collected():
                _check_key(name, models[name], fields_of_key, hiding[name], connection)
    if found.errors:
        raise found.error(_correction(given, schema, changed, notation))
    return replace(mapping, schema=mapping.schema.written_in(None))


class _Faults:
    """Collects the errors of a mapping."""

    def __init__(self) -> None:
        self.errors: list[SchemaMismatch] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Collect the `SchemaMismatch` that the block raises."""
        try:
            yield
        except SchemaMismatch as error:
            self.errors.append(error)

    def add(self, *faults: Fault) -> None:
        self.errors += map(SchemaMismatch, faults)

    def error(self, correction: str) -> SchemaMismatch:
        """Return one error for all faults."""
        faults = dict.fromkeys(fault for error in self.errors for fault in error.faults)
        needs_orm = any(isinstance(each, NeedsORM) for each in self.errors)
        kind = NeedsORM if needs_orm else SchemaMismatch
        return kind(*faults, correction=correction if len(faults) > 1 else "")


def _models_of(schema: Schema, found: _Faults) -> dict[str, type[Model]]:
    """Return the models of the roles that have one."""
    models: dict[str, type[Model]] = {}
    for name, role in schema.roles.items():
        with found.collected():
            models[name] = _model_of(role)
    return models


def _with_corrections(
    schema: Schema,
    models: Mapping[str, type[Model]],
    notation: Notation | None,
    connection: BaseDatabaseWrapper,
    found: _Faults,
) -> tuple[Schema, Mapping[str, Collection[str]]]:
    """Return the schema with other fields in place of those that its models lack.

    Also return the names of the fields of each model that lacks some, by role.
    """
    corrected: dict[str, Any] = {}
    changed: dict[str, Collection[str]] = {}
    for name, model in models.items():
        table = _described(schema, name, model, connection)
        role, faults = correct(schema, name, table, notation or Notation.DJANGO)
        if faults:
            corrected[name], changed[name] = role, table.columns
            found.add(*faults)
    return schema.changed(**corrected), changed


def _described(
    schema: Schema, name: str, model: type[Model], connection: BaseDatabaseWrapper
) -> Table:
    """Describe a model for `correct`.

    Paths to other models count as its fields, because other errors describe them.
    """
    role, fields = schema.roles[name], _by_name(model)
    given = {*schema.columns(name).values(), *role.where, *filter(None, [role.tenant])}
    paths = {each for each in given if LOOKUP_SEP in each and each not in fields}
    implied = {"pk"} if "id" in role.columns else {"pk", "id"}  # the primary key by default
    used = {fields[each] for each in given if each in fields}
    candidates = {
        field.name: field
        for field in model._meta.concrete_fields
        if field not in used and field.column is not None
    }

    def obeys(rule: Callable[[str, Column], bool], own_name: str, name: str) -> bool:
        try:
            described = column(candidates[name], connection)
        except NeedsORM:
            return False
        if own_name in TIMES:
            is_time = described.kind == "datetime" or is_flag(own_name, described)
            return is_time and rule(own_name, described)
        return rule(own_name, described)

    return Table(
        model._meta.label,
        {*fields, *paths, *implied},
        [*candidates],
        lambda own_name, name: obeys(
            can_hold if candidates[name].is_relation else suits, own_name, name
        ),
        partial(obeys, can_hold),
        nouns=("model", "field"),
    )


def _correction(
    given: Schema,
    corrected: Schema,
    changed: Mapping[str, Collection[str]],
    notation: Notation | None,
) -> str:
    """Return the lines to write, in which a list may be found by a foreign key, as before."""
    path = given.dispatches.columns.get("list_id") if given.dispatches else None
    role = corrected.dispatches
    if role is not None and path is not None and LOOKUP_SEP in path:
        columns = {each: name for each, name in role.columns.items() if each != "message_id"}
        role = replace(role, columns={**columns, "list_id": path})
        changed = {name: columns for name, columns in changed.items() if name != "messages"}
        corrected = corrected.changed(dispatches=role, messages=None)
        changed = {
            name: {*fields, path} if name == "dispatches" else fields
            for name, fields in changed.items()
        }
    return correction_of(notation or Notation.DJANGO, corrected, changed) if changed else ""


def _examine(
    schema: Schema,
    models: Mapping[str, type[Model]],
    connection: BaseDatabaseWrapper,
    found: _Faults,
) -> tuple[ModelMapping, Mapping[str, _Where]]:
    """Return the fields that exist, and the conditions that hide rows, by role."""
    fields: dict[tuple[str, str], AnyField] = {}
    roles: dict[str, Role] = {}
    columns: dict[str, dict[str, Column]] = {}
    hiding: dict[str, _Where] = {}
    tenants: dict[str, AnyField] = {}
    for name, model in models.items():
        role, before = schema.roles[name], len(found.errors)
        with found.collected():
            _check_table_name(model, connection)
        mapped: dict[str, AnyField] = {}
        for own_name, path in schema.columns(name).items():
            if _is_known(model, role, own_name, path):
                with found.collected():
                    mapped[own_name] = _mapped_field(model, role, own_name, path)
        fields |= {(name, own_name): field for own_name, field in mapped.items()}
        hiding[name] = {}
        with found.collected():
            hiding[name] = _where(model, role, mapped, connection)
        used = [*mapped.values(), *hiding[name]]
        if role.tenant is not None:
            with found.collected():
                tenants[name] = _tenant(model, role.tenant)
                used.append(tenants[name])
        roles[name] = _database_role(role, model, mapped, hiding[name], tenants.get(name))
        columns[name] = {}
        for field in used:
            with found.collected():
                columns[name][column_name(field)] = column(field, connection)
        if any(isinstance(each, NeedsORM) for each in found.errors[before:]):
            columns[name] = {}  # other faults of this model may follow from the first
            fields = {key: field for key, field in fields.items() if key[0] != name}
    of_database: dict[str, Any] = {**roles}
    mapping = ModelMapping(schema.changed(**of_database), columns, models, fields, tenants, None)
    return mapping, hiding


def _is_known(model: type[Model], role: Role, own_name: str, path: str) -> bool:
    """Return whether a field exists, or an error other than that of `correct` describes it."""
    is_key = path == "pk" or (own_name == "id" and "id" not in role.columns)
    return is_key or LOOKUP_SEP in path or path in _by_name(model)


def _check_fields(
    mapping: ModelMapping,
    connection: BaseDatabaseWrapper,
    notation: Notation | None,
    forms: Mapping[str, Notation | ModelNotation],
    found: _Faults,
) -> None:
    """Find unsuitable fields. Errors name models by label, and options in the forms of the roles.

    The fields themselves convert the values; `_where` has checked those of `where`.
    """
    roles: dict[str, Any] = {
        name: replace(role, table=mapping.models[name]._meta.label, where={})
        for name, role in mapping.schema.roles.items()
        if name in mapping.models
    }
    schema = mapping.schema.changed(**roles).written_in(notation)
    found.add(*faults_of_nulls(schema, mapping.columns, forms))
    faults = [*faults_of_columns(schema, mapping.columns)]
    fields = {
        (roles[name].table, column_name(field)): field
        for (name, _), field in mapping.fields.items()
    }
    for need in role_needs(schema, mapping.columns):
        field = fields[need.table, need.column.name]
        if refused := [each for each in need.values if not holds(field, need, each, connection)]:
            faults.append(need.refusal(refused))
    for (name, own_name), (other, key) in REFERENCES:
        columns = [
            mapping.columns[role].get(column_name(mapping.fields[role, each]))
            for role, each in ((name, own_name), (other, key))
            if (role, each) in mapping.fields
        ]
        both = [each for each in columns if each is not None]
        if len({each.kind for each in both} - {""}) > 1:
            faults.append(cannot_compare(roles[name].table, both[0], roles[other].table, both[1]))
    if faults:
        found.add(*first_of_each(faults))
    else:
        _check_values(mapping, connection, found)


def _check_values(mapping: ModelMapping, connection: BaseDatabaseWrapper, found: _Faults) -> None:
    """Find fields that do not store what they are given, or refer to another model."""
    for (name, own_name), field in mapping.fields.items():
        if is_flag(own_name, mapping.columns[name][column_name(field)]):
            with found.collected():
                check_plain(field)
        if own_name == "suppression_reason":
            for reason in (mapping.schema.reasons or {}).values():
                with found.collected():  # a number may be out of the field's range
                    check_value(field, reason, connection)
    with found.collected():
        check_references(mapping.fields)
    for role_and_name in (("subscribers", "email"), ("dispatches", "provider_message_id")):
        if role_and_name in mapping.fields:
            with found.collected():
                check_plain(mapping.fields[role_and_name])


def find_model(label: str) -> type[Model]:
    """Return the model with a label, including models that Django created for relations."""
    try:
        model = apps.get_model(label)
    except (LookupError, ValueError):
        app = label.partition(".")[0]
        hint = "" if app in apps.app_configs else _INSTALL.get(app)
        models = apps.get_models(include_auto_created=True)
        hint = hint or nearest(label, (each._meta.label for each in models))
        raise SchemaMismatch(f"There is no model {label!r}.{hint}") from None
    if swapped := model._meta.swapped:
        raise SchemaMismatch(
            f"The settings replace the model {label!r} with {swapped!r}: use that model."
        )
    return model


def _model_of(role: Role) -> type[Model]:
    return find_model(_OWN_MODELS.get(role.table, role.table))


def _with_labels(schema: Schema) -> Schema:
    """Return the schema with labels and fields instead of the tables and columns of `Role.of`."""
    roles: dict[str, Any] = {
        name: _labelled(name, role, schema.columns(name))
        for name, role in schema.roles.items()
        if isinstance(role, ModelRole)
    }
    return schema.changed(**roles)


def _labelled(name: str, role: ModelRole, columns: Mapping[str, str]) -> Role:
    label = role.model.label
    if label is None:
        raise SchemaMismatch(
            f"The role {name!r} has {role.model.name}, which is not a model of Django: map one."
        )
    fields = {field.column: field.attname for field in find_model(label)._meta.concrete_fields}
    named = {own_name: fields[column] for own_name, column in columns.items()}
    touch = named.pop(TOUCH, None)
    return Role(
        label,
        {**dict.fromkeys(OPTIONAL[name]), **named},
        where={fields[column]: value for column, value in role.where.items()},
        fold=role.fold,
        empty=role.empty,
        tenant=None if role.tenant is None else fields[role.tenant],
        touch=touch,
    )


def _with_messages(schema: Schema, role: Role) -> Schema:
    """Return the schema with the role `messages` if the list is reached by a foreign key.

    `role` is that of the dispatches.
    """
    step, lookup, last = (role.columns.get("list_id") or "").partition(LOOKUP_SEP)
    if not lookup or schema.subscriptions is None:
        return schema
    if LOOKUP_SEP in last:
        raise NeedsORM(
            f"{role.table}: list_id can follow only one foreign key; "
            f"{step}{LOOKUP_SEP}{last} follows several."
        )
    key = _field(_model_of(role), step)
    message = _related_model(key)
    columns = {name: column for name, column in role.columns.items() if name != "list_id"}
    return schema.changed(
        dispatches=replace(role, columns={**columns, "message_id": key.attname}),
        messages=Role(
            message._meta.label,
            {"id": key.target_field.attname, "list_id": last},  # type: ignore[attr-defined] # a foreign key's
        ),
    )


def _mapped_field(model: type[Model], role: Role, name: str, path: str) -> AnyField:
    if name == "id" and "id" not in role.columns:
        path = "pk"
    if LOOKUP_SEP in path:
        raise SchemaMismatch(
            f"{role.table}: {name} must be a field of this model; "
            f"{path!r} belongs to another model."
        )
    return _own_field(model, path)


def _where(
    model: type[Model],
    role: Role,
    mapped: Mapping[str, AnyField],
    connection: BaseDatabaseWrapper,
) -> _Where:
    """Return the fields that select rows, and the value that each of their columns must equal."""
    written = [field for name, field in mapped.items() if name in WRITTEN]
    where: dict[AnyField, Scalar] = {}
    for path, value in role.where.items():
        step, lookup, _ = path.partition(LOOKUP_SEP)
        if lookup:
            _related_model(_field(model, step))
            raise NeedsORM(
                f"{role.table}: `where` names {path!r}, a field of another model: use a field of "
                "this model."
            )
        field = _own_field(model, path)
        if field in written:
            raise SchemaMismatch(
                f"{role.table}: `where` names {field.attname!r}, which notifications set: use "
                "another field."
            )
        if value is not None and (value is not False or isinstance(field, BooleanField)):
            check_value(field, value, connection)
        where[field] = literal(field, value, connection)
    return where


def _tenant(model: type[Model], path: str) -> AnyField:
    """Return the field with the tenant of a row, such as a foreign key to the model of tenants."""
    if LOOKUP_SEP in path:
        raise NeedsORM(
            f"{model._meta.label}: `tenant` names {path!r}, a field of another model: use a field "
            "of this model."
        )
    field = _own_field(model, path)
    check_plain(target_of(field))
    return field


def _database_role(
    role: Role,
    model: type[Model],
    mapped: Mapping[str, AnyField],
    where: _Where,
    tenant: AnyField | None,
) -> Role:
    """Return the role with the name of its table, and of each column that needs one."""
    names = {own_name: column_name(field) for own_name, field in mapped.items()}
    touch = names.pop(TOUCH, None)
    named = Role(
        model._meta.db_table,
        where={column_name(field): value for field, value in where.items()},
        fold=role.fold,
        empty=role.empty,
        tenant=None if tenant is None else column_name(tenant),
        touch=touch,
    )
    columns = {own_name: None for own_name, column in role.columns.items() if column is None}
    renamed = {own_name: name for own_name, name in names.items() if named.column(own_name) != name}
    return replace(named, columns={**columns, **renamed})


def _check_table_name(model: type[Model], connection: BaseDatabaseWrapper) -> None:
    table = model._meta.db_table
    if vendor_of(connection).dot_names_database and "." in table.replace('"."', ""):
        raise NeedsORM(
            f"{model.__name__} has the db_table {table!r}: in this kind of database, hookrow reads "
            "the part before the dot as the name of another database. Rename the table."
        )


def _own_field(model: type[Model], name: str) -> AnyField:
    """Return a field, which must be in the model's own table, not in a parent's."""
    field = _field(model, name)
    if field.model._meta.db_table != model._meta.db_table:
        raise NeedsORM(
            f"{field} is not in the table of {model.__name__}: map a model that has all fields."
        )
    if field.column is None:
        raise SchemaMismatch(
            f"The primary key of {model.__name__} is composite: map one of its fields."
        )
    return field


def _field(model: type[Model], name: str) -> AnyField:
    meta = model._meta
    if name == "pk" and isinstance(meta.pk, Field):
        return meta.pk
    fields = _by_name(model)
    if name not in fields:
        raise SchemaMismatch(
            f"The model {meta.label!r} has no field {name!r}.{nearest(name, fields)}"
        )
    return fields[name]


def _related_model(field: AnyField) -> type[Model]:
    related = field.related_model
    if not isinstance(related, type):
        raise SchemaMismatch(f"{field} is not a foreign key.")
    return related


def _check_key(
    role: str,
    model: type[Model],
    key: Sequence[AnyField],
    where: _Where,
    connection: BaseDatabaseWrapper,
) -> None:
    """Raise `SchemaMismatch` unless the model declares that no two visible rows have the same key.

    A field that `where` fixes to a value is the same in all visible rows, so they may be unique
    together with it. A field that is null does not count, because nulls are distinct. An unmanaged
    model declares it, too; `manage.py hookrow check` asks the database.
    """
    given = [*key, *(field for field, value in where.items() if value is not None)]
    attributes = {field.attname for field in given}
    if any(field.unique for field in given) or any(
        attributes.issuperset(unique) for unique in _declared(model, key, where, connection)
    ):
        return
    label, quoted = model._meta.label, [repr(field.name) for field in key]
    if len(key) == 1:
        remedy = f"map id to {_primary_key(model)!r}, or add unique=True to the field"
    else:
        remedy = f"add a UniqueConstraint(fields=[{', '.join(quoted)}], name=...) to its Meta"
    raise SchemaMismatch(
        f"{' and '.join(quoted)} of {label} {is_not_unique(quoted)}, so {effect(role)}: {remedy}."
    )


def _primary_key(model: type[Model]) -> str:
    return model._meta.pk.name


def _declared(
    model: type[Model], key: Sequence[AnyField], where: _Where, connection: BaseDatabaseWrapper
) -> Iterator[Collection[str]]:
    """Yield sets of fields, by attribute, that are unique together among the visible rows."""
    meta: Any = model._meta
    meta = meta.concrete_model._meta  # the constraints of a proxy are those of its concrete model
    fields = _by_name(model)
    yield {field.attname for field in meta.pk_fields}
    for names in meta.unique_together:
        yield {fields[name].attname for name in names}
    for constraint in meta.constraints:
        names = _fields_of(constraint) if isinstance(constraint, UniqueConstraint) else ()
        if names and fields.keys() >= {*names}:
            condition = constraint.condition or Q()
            if all(
                _is_implied(each, fields, key, where, connection) for each in _conjuncts(condition)
            ):
                yield {fields[name].attname for name in names}


def _fields_of(constraint: UniqueConstraint) -> Sequence[str]:
    """Return the fields of a constraint; none if it is on other expressions than fields.

    `UniqueConstraint("list", "person", ...)` has expressions, each of which is a field, like
    `F("list").asc()`.
    """
    parts = [
        each.expression if isinstance(each, OrderBy) else each for each in constraint.expressions
    ]
    named: list[Any] = [each for each in parts if isinstance(each, F)]
    is_plain = len(named) == len(parts)
    return constraint.fields or ([each.name for each in named] if is_plain else ())


def _by_name(model: type[Model]) -> Mapping[str, AnyField]:
    """Return the fields by name and by attribute."""
    fields: dict[str, AnyField] = {}
    for field in model._meta.concrete_fields:
        fields[field.name] = fields[field.attname] = field
    return fields


def _conjuncts(condition: Q) -> Iterator[object]:
    """Yield the parts of a conjunction: lookups with their values, or anything else unchanged."""
    if condition.negated or (condition.connector != Q.AND and len(condition.children) > 1):
        yield condition
        return
    for child in condition.children:
        if isinstance(child, Q):
            yield from _conjuncts(child)
        else:
            yield child


def _is_implied(
    part: object,
    fields: Mapping[str, AnyField],
    key: Sequence[AnyField],
    where: _Where,
    connection: BaseDatabaseWrapper,
) -> bool:
    """Return whether a part of a condition holds for all visible rows that have a key.

    The parts `field=value` and `field__isnull=...` are understood; others are never implied.
    """
    path, value = part if isinstance(part, tuple) else ("", None)
    name, _, lookup = path.partition(LOOKUP_SEP)
    field = fields.get(name)
    if field is None:
        return False
    match lookup:
        case "" | "exact":
            return field in where and where[field] == literal(field, value, connection)
        case "isnull" if value:
            return field in where and where[field] is None
        case "isnull":
            return field in key or where.get(field) is not None
        case _:
            return False
