"""Operations of hookrow's Django migrations."""

from __future__ import annotations

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import ProjectState

from hookrow.django.store import CursorConnection
from hookrow.stores.sql.scripts import scripts


class BuildIndex(migrations.AddIndex):
    """`AddIndex` for an index that one of hookrow's scripts may already have created.

    PostgreSQL builds it concurrently, so the migration must not be atomic.
    """

    atomic = False

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Create the index, unless it exists."""
        connection = schema_editor.connection
        model = to_state.apps.get_model(app_label, self.model_name)
        if schema_editor.collect_sql or not self.allow_migrate_model(connection.alias, model):
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        if connection.vendor == "postgresql":
            indexes = (each.index for each in scripts("postgresql") if each.index)
            [index] = [each for each in indexes if each.name == self.index.name]
            index.build(CursorConnection(connection))
            return
        with connection.cursor() as cursor:
            built = connection.introspection.get_constraints(cursor, model._meta.db_table)  # noqa: SLF001 - Django's own way
            if self.index.name not in built:
                statements = (text for each in scripts("sqlite") for text in each.statements())
                [create] = [text for text in statements if f"INDEX {self.index.name}\n" in text]
                cursor.execute(create)


class AddColumn(migrations.AddField):
    """`AddField` for a column with a default in the database.

    On SQLite, Django would create the table again, and its indexes with other conditions than those
    of hookrow's queries. Therefore, the statement of hookrow's script is executed there.
    """

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Add the column."""
        connection = schema_editor.connection
        model = to_state.apps.get_model(app_label, self.model_name)
        if connection.vendor != "sqlite" or not self.allow_migrate_model(connection.alias, model):
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        statements = (text for each in scripts("sqlite") for text in each.statements())
        [add] = [text for text in statements if f" ADD COLUMN {self.name} " in text]
        schema_editor.execute(add)
