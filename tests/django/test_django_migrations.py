"""Django's migrations execute hookrow's scripts, and its models describe the same tables."""

import re
from collections.abc import Callable, Mapping
from io import StringIO
from typing import Any
from unittest.mock import Mock

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.test import override_settings

import django_host
import own_tables
from databases import kind_of
from django_project.site import post
from engines import opened, run
from hookrow import ConfigurationError, Schema
from hookrow._migrations import MIGRATIONS_TABLE, upgrade
from hookrow.django._operations import CreateTable
from hookrow.django._store import DjangoStore
from structure import structure, without_names
from wire import STRANGER, eventually

pytestmark = pytest.mark.filterwarnings(
    "ignore:Skipped unsupported reflection of expression-based index"  # `structure` reads them
)

NAMES = own_tables.metadata.tables.keys()

LABELS = ("hookrow", "hookrow_tables")
"""The apps of the log and of the four tables."""


class NoHookrow:
    """A database router that keeps both apps out of every database."""

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool | None:
        del db, hints
        return False if app_label in LABELS else None


def migrate(*arguments: str, **options: Any) -> None:  # noqa: ANN401 - call_command's own
    call_command("migrate", *arguments, verbosity=0, **options)


def own_tables_of(url: str) -> Mapping[str, Any]:
    """Return the structure of hookrow's tables in a database."""
    with opened(url) as engine:
        return {name: table for name, table in structure(engine).items() if name in NAMES}


def scripted_tables(url: str) -> Mapping[str, Any]:
    """Replace hookrow's tables, if there are any, by those of the scripts; return their structure.

    The structure includes the order of the columns and the names of the indexes.
    """
    with opened(url) as engine:
        own_tables.metadata.drop_all(engine)
        run(engine, f"DROP TABLE IF EXISTS {MIGRATIONS_TABLE}")
        upgrade(engine, Schema())
    tables = own_tables_of(url)
    assert len(tables) == len(NAMES)
    return tables


def test_migrate_executes_the_scripts(empty_database_url: str) -> None:
    """The tables are equal to those of `hookrow db upgrade`."""
    with django_host.default(empty_database_url):
        migrate()
    migrated = own_tables_of(empty_database_url)
    assert migrated == scripted_tables(empty_database_url)


def test_models_describe_the_scripts_tables(empty_database_url: str) -> None:
    """The tables that Django would create from the models differ only in the order of columns."""
    with django_host.default(empty_database_url):
        if not connection.features.supports_partial_indexes:
            pytest.skip("Django would leave out indexes, and those of the scripts are different")
        with connection.schema_editor() as editor:
            for label in LABELS:
                for model in apps.get_app_config(label).get_models():
                    editor.create_model(model)
    modelled = own_tables_of(empty_database_url)
    assert _comparable(modelled) == _comparable(scripted_tables(empty_database_url))


def _comparable(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        name: {
            **table,
            "columns": sorted(table["columns"]),
            # Django has no operator <>.
            "indexes": sorted(
                re.sub(r"not (first_outcome.*?) =", r"\1 <>", each) for each in table["indexes"]
            ),
        }
        for name, table in without_names(tables).items()
    }


def test_no_migration_is_missing(
    empty_database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with django_host.default(empty_database_url):
        call_command("makemigrations", check_changes=True, dry_run=True)
    assert capsys.readouterr().out == "No changes detected\n"


def test_fake_initial(empty_database_url: str) -> None:
    """Existing tables are adopted with their rows, and those that are missing are created."""
    upgrade(empty_database_url, Schema(log=None))
    run(empty_database_url, "INSERT INTO hookrow_lists (name) VALUES ('news')")
    with django_host.default(empty_database_url):
        migrate(fake_initial=True)
    assert run(empty_database_url, "SELECT name FROM hookrow_lists") == [("news",)]
    adopted = own_tables_of(empty_database_url)
    assert adopted == scripted_tables(empty_database_url)


def test_router(empty_database_url: str) -> None:
    """No table is created or dropped in a database that a router forbids."""
    with (
        django_host.default(empty_database_url),
        override_settings(DATABASE_ROUTERS=["test_django_migrations.NoHookrow"]),
    ):
        migrate()
        assert own_tables_of(empty_database_url) == {}
        created = scripted_tables(empty_database_url)
        for label in LABELS:
            migrate(label, "zero")
    assert own_tables_of(empty_database_url) == created


def test_sqlmigrate(empty_database_url: str) -> None:
    """The printed statements create the same tables."""
    with django_host.default(empty_database_url):
        for label in reversed(LABELS):
            output = StringIO()
            call_command("sqlmigrate", label, "0001", stdout=output)
            kind_of(empty_database_url).execute(empty_database_url, output.getvalue())
    created = own_tables_of(empty_database_url)
    assert created == scripted_tables(empty_database_url)


def test_reversal(empty_database_url: str) -> None:
    """`migrate APP zero` drops the tables, and `migrate` creates them again."""
    with django_host.default(empty_database_url):
        migrate()
        for label in LABELS:
            migrate(label, "zero")
        assert own_tables_of(empty_database_url) == {}
        migrate()
    again = own_tables_of(empty_database_url)
    assert again == scripted_tables(empty_database_url)


@pytest.mark.parametrize("label", LABELS)
def test_interruptions(empty_mariadb_url: str, label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`migrate` continues after an interruption before each table, in both directions."""
    with django_host.default(empty_mariadb_url):
        for target in ("0001", "zero"):
            for number in range(4):
                with monkeypatch.context() as patch:
                    interrupt_after(number, patch)
                    with pytest.raises(KeyboardInterrupt):
                        migrate(label, target)
            migrate(label, target)
        assert own_tables_of(empty_mariadb_url) == {}
        migrate(label)
    migrated = own_tables_of(empty_mariadb_url)
    scripted = scripted_tables(empty_mariadb_url)
    assert migrated == {name: scripted[name] for name in migrated}
    assert len(migrated) == 4


def interrupt_after(number: int, patch: pytest.MonkeyPatch) -> None:
    """Let a migration be interrupted after a number of tables."""
    remaining = iter(range(number))

    def interrupted(run: Callable[..., None]) -> Callable[..., None]:
        def limited(*arguments: object) -> None:
            if next(remaining, None) is None:
                raise KeyboardInterrupt
            run(*arguments)

        return limited

    for name in ("database_forwards", "database_backwards"):
        patch.setattr(CreateTable, name, interrupted(getattr(CreateTable, name)))


def test_a_table_of_the_project(empty_mariadb_url: str) -> None:
    """A table that no interrupted migration has created is not adopted."""
    run(empty_mariadb_url, "CREATE TABLE hookrow_hours (hour DATETIME(6), entries INT)")
    with (
        django_host.default(empty_mariadb_url),
        pytest.raises(ConfigurationError, match=r"'hookrow_hours' exists, .* no column 'record_ty"),
    ):
        migrate()


def test_unsupported_database() -> None:
    """The error names the database, and the router that would avoid it."""
    state = MigrationLoader(None).project_state()
    operations = MigrationLoader(None).disk_migrations["hookrow", "0001_initial"].operations
    editor = Mock(connection=Mock(alias="default", vendor="oracle"))
    with pytest.raises(
        ConfigurationError, match=r"not on oracle\. Let a database router keep the app"
    ):
        operations[0].database_forwards("hookrow", editor, state, state)


def test_migrate_while_the_endpoint_serves(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It responds with 503 until the tables exist, and then records without a restart."""
    monkeypatch.setattr("hookrow.stores.sql._store.VERIFY_EVERY", 0.1)
    monkeypatch.setattr("hookrow._receiver.recorder.PAUSE_AFTER_OUTAGE", 0.1)
    with django_host.default(empty_database_url):
        assert post(STRANGER).status_code == 503
        migrate()
        eventually(lambda: post(STRANGER).status_code == 404)


def test_hookrow_does_not_upgrade_a_project(sqlite_url: str) -> None:
    with django_host.alias(sqlite_url) as alias:
        store = DjangoStore(Schema(), alias)
        with pytest.raises(ConfigurationError, match=r"run manage\.py migrate"):
            upgrade(store.database, store.schema)
