"""Django's migrations create the same tables as hookrow's own."""

import pytest
from django.core.management import call_command

import django_host
import own_tables
from django_project.site import post
from engines import opened
from hookrow import ConfigurationError, Schema
from hookrow.django.store import DjangoStore
from hookrow.migrations import upgrade
from structure import structure, without_names
from wire import STRANGER, eventually

NAMES = own_tables.metadata.tables.keys()


@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
def test_both_migrations_create_the_same_tables(empty_database_url: str) -> None:
    with django_host.default(empty_database_url):
        call_command("migrate", verbosity=0)
    with opened(empty_database_url) as engine:
        from_django = {name: table for name, table in structure(engine).items() if name in NAMES}
        own_tables.metadata.drop_all(engine)
        upgrade(engine, Schema())
        expected = {name: table for name, table in structure(engine).items() if name in NAMES}
    assert len(expected) == len(NAMES)
    assert without_names(from_django) == without_names(expected)


def test_migrate_while_the_endpoint_serves(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It responds with 503 until the tables exist, and then records without a restart."""
    monkeypatch.setattr("hookrow.stores.sql.store.VERIFY_EVERY", 0.1)
    monkeypatch.setattr("hookrow.receiver.recorder.PAUSE_AFTER_OUTAGE", 0.1)
    with django_host.default(empty_database_url):
        assert post(STRANGER).status_code == 503
        call_command("migrate", verbosity=0)
        eventually(lambda: post(STRANGER).status_code == 404)


def test_hookrow_does_not_upgrade_a_project(sqlite_url: str) -> None:
    with django_host.alias(sqlite_url) as alias:
        store = DjangoStore(using=alias)
        with pytest.raises(ConfigurationError, match=r"run manage\.py migrate"):
            upgrade(store.database, store.schema)


def test_no_migration_is_missing(empty_sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with django_host.default(empty_sqlite_url):
        call_command("makemigrations", check_changes=True, dry_run=True)
    assert capsys.readouterr().out == "No changes detected\n"
