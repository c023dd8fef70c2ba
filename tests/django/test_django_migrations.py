"""Django's migrations: they make the very tables that Alembic's and `stores/tables.py` make."""

from __future__ import annotations

from pathlib import Path

import pytest

from django_project.manage import Manage
from hookrow import Schema
from hookrow.migrations import upgrade
from hookrow.stores import tables
from hookrow.stores.engines import opened
from structure import structure, without_names

NAMES = tables.metadata.tables.keys()

pytestmark = pytest.mark.filterwarnings(
    "ignore:Skipped unsupported reflection of expression-based index"  # `structure` reads them
)


def test_all_migrations_make_the_same_tables(empty_database_url: str, tmp_path: Path) -> None:
    """Columns, types, nullability, keys, uniqueness, indexes: as Alembic's, which equal ours."""
    done = Manage(tmp_path, empty_database_url).run("migrate", "--verbosity=0")
    assert done.returncode == 0, done.stderr
    with opened(empty_database_url) as engine:
        made = {name: table for name, table in structure(engine).items() if name in NAMES}
        tables.metadata.drop_all(engine)
        upgrade(engine, Schema())
        wanted = {name: table for name, table in structure(engine).items() if name in NAMES}
    assert len(wanted) == len(NAMES)
    assert without_names(made) == without_names(wanted)


def test_no_migration_is_missing(empty_sqlite_url: str, tmp_path: Path) -> None:
    """`makemigrations` has nothing to make."""
    done = Manage(tmp_path, empty_sqlite_url).run("makemigrations", "--check", "--dry-run")
    assert (done.returncode, done.stdout) == (0, "No changes detected\n"), done.stderr
