"""The operation of hookrow's Django migrations."""

from __future__ import annotations

from collections.abc import Collection

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import ProjectState
from django.db.models import Model

from hookrow.django._vendors import VENDORS
from hookrow.errors import ConfigurationError
from hookrow.stores.sql._dialects import UNSUPPORTED_DATABASE
from hookrow.stores.sql._scripts import scripts


class CreateTable(migrations.CreateModel):
    """`CreateModel` for a table of hookrow's scripts, which executes their statements.

    Django's own statements would differ: in the conditions of indexes, which queries repeat, and
    in options of the tables. For the state of the migrations, it is a `CreateModel`.

    If each statement is committed, a migration that was interrupted leaves tables behind. The
    next one keeps those that have all columns, because a statement creates a table completely or
    not at all.
    """

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Create the table and its indexes. Raises `ConfigurationError` on other databases."""
        del from_state
        connection = schema_editor.connection
        model = to_state.apps.get_model(app_label, self.name)
        if not self.allow_migrate_model(connection.alias, model):
            return
        if connection.vendor not in VENDORS:
            raise ConfigurationError(
                f"{UNSUPPORTED_DATABASE.format(connection.vendor)} Let a database router keep the "
                f"app {app_label!r} out of {connection.alias!r}."
            )
        if _exists(schema_editor, model):
            return
        table = model._meta.db_table
        dialect = VENDORS[connection.vendor].dialect.name
        [script] = [each for each in scripts(dialect) if table in each.creates]
        for statement in script.statements_of(table):
            schema_editor.execute(statement, params=None)  # with parameters, % would be special

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Drop the table, unless an interrupted migration has dropped it."""
        model = from_state.apps.get_model(app_label, self.name)
        if _may_be_interrupted(schema_editor) and not _columns(schema_editor, model):
            return
        super().database_backwards(app_label, schema_editor, from_state, to_state)


def _exists(schema_editor: BaseDatabaseSchemaEditor, model: type[Model]) -> bool:
    """Return whether a migration that was interrupted has created the table of a model.

    Raises `ConfigurationError` if another table has its name.
    """
    if not _may_be_interrupted(schema_editor):
        return False
    found = _columns(schema_editor, model)
    missing = [
        each.column for each in model._meta.local_concrete_fields if each.column not in found
    ]
    if found and missing:
        raise ConfigurationError(
            f"The table {model._meta.db_table!r} exists, but hookrow did not create it: it has no "
            f"column {missing[0]!r}. Rename it, and run manage.py migrate again."
        )
    return not missing


def _may_be_interrupted(schema_editor: BaseDatabaseSchemaEditor) -> bool:
    """Return whether each statement is committed, so that an interrupted migration leaves tables.

    This does not matter to statements that are only printed.
    """
    return not (schema_editor.connection.features.can_rollback_ddl or schema_editor.collect_sql)


def _columns(schema_editor: BaseDatabaseSchemaEditor, model: type[Model]) -> Collection[str]:
    """Return the names of the columns of a model's table; none if it does not exist."""
    introspection, table = schema_editor.connection.introspection, model._meta.db_table
    with schema_editor.connection.cursor() as cursor:
        if table not in introspection.table_names(cursor):
            return set()
        return {each.name for each in introspection.get_table_description(cursor, table)}
