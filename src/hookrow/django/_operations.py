"""The operation of hookrow's Django migrations."""

from __future__ import annotations

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import ProjectState

from hookrow.errors import ConfigurationError
from hookrow.stores.sql._dialects import DIALECTS, UNSUPPORTED_DATABASE
from hookrow.stores.sql._scripts import scripts


class CreateTable(migrations.CreateModel):
    """`CreateModel` for a table of hookrow's scripts, which executes their statements.

    Django's own statements would differ: in the conditions of indexes, which queries repeat, and
    in options of the tables. For the state of the migrations, it is a `CreateModel`.
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
        if connection.vendor not in DIALECTS:
            raise ConfigurationError(
                f"{UNSUPPORTED_DATABASE.format(connection.vendor)} Let a database router keep the "
                f"app {app_label!r} out of {connection.alias!r}."
            )
        table = model._meta.db_table
        [script] = [each for each in scripts(connection.vendor) if table in each.creates]
        for statement in script.statements_of(table):
            schema_editor.execute(statement, params=None)  # with parameters, % would be special
