"""The SQL, Python, settings, command and Alembic snippets of the page on tables run."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from textwrap import indent
from typing import Any, get_args

import pytest
from alembic import command
from alembic.config import Config

from command import Command
from engines import opened
from hookrow import Arrival, Recorded, Role, Schema, Suppressed
from hookrow.check import check
from hookrow.finding import Level
from hookrow.migrations import upgrade
from hookrow.recording import record
from hookrow.schema import Fold
from hookrow.settings import Settings, read
from own_tables import metadata
from session import ROOT, read_blocks

PAGE = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*expression-based index"  # SQLite's are not compared, as the page says
)

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def blocks(language: str) -> list[str]:
    return read_blocks("docs/tables.md", language)


*PYTHON, APART, ATTACHED, INDEX = blocks("python")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("shop.db")) as connection:
        connection.executescript(blocks("sql")[0])
    (tmp_path / "hookrow.toml").write_text(blocks("toml")[0])
    return tmp_path


def test_the_python_runs(shop: Path) -> None:
    names: dict[str, Any] = {}
    for block in PYTHON:
        exec(block, names)
    with closing(sqlite3.connect(shop / "shop.db")) as connection:
        connection.executescript(
            """
            INSERT INTO people (id, address, deleted_at) VALUES
                (1, 'Ada@example.com', '2026'), (2, 'Ada@example.com', NULL);
            INSERT INTO campaigns VALUES (7, 70);
            INSERT INTO sends (postmark_id, person_id, campaign_id) VALUES ('m-1', 2, 7);
            INSERT INTO audience_people (audience_id, person_id) VALUES (70, 1), (70, 2);
            """
        )
        told = Suppressed("ada@example.com", "m-1", NOON, "SpamComplaint")
        [outcome] = record(names["store"], [Arrival(told, b"{}", NOON)])
        assert isinstance(outcome, Recorded)
        people = "SELECT id, why FROM people WHERE suppressed_at IS NOT NULL"
        assert connection.execute(people).fetchall() == [(2, 2)]
        members = "SELECT person_id FROM audience_people WHERE suppressed_at IS NOT NULL"
        assert connection.execute(members).fetchall() == [(2,)]
    names["receiver"].close()


def test_the_settings_equal_the_python(shop: Path) -> None:
    names: dict[str, Any] = {}
    exec(PYTHON[0], names)
    _, schema = read(shop / "hookrow.toml", ())
    assert schema.subscribers.where == {"deleted_at": False}
    assert repr(schema).replace("False", "None") == repr(names["schema"])


def test_the_command_prints_what_the_page_shows(shop: Path) -> None:
    line, _, printed = blocks("console")[0].partition("\n")
    words = line.removeprefix("$ hookrow ").split()
    told = Command(shop).call(*words).stdout
    assert told.partition("ok       setting ")[0] == printed
    with closing(sqlite3.connect(shop / "shop.db")) as connection:
        connection.execute(printed.partition("Run: ")[2])
    assert "Every lookup has an index." in Command(shop).call(*words).stdout


def test_every_column_and_fold_is_documented() -> None:
    schema = Schema(messages=Role("messages"))
    for name in schema.roles:
        assert f"| `{name}`" in PAGE
        for column in schema.columns(name):
            assert f"`{column}`" in PAGE
    for fold in get_args(Fold):
        assert f'| `"{fold}"` |' in PAGE


ENV = """
from alembic import context
from sqlalchemy import Column, Integer, MetaData, Table, create_engine

target_metadata = MetaData()
Table("people", target_metadata, Column("id", Integer, primary_key=True))
{attached}
engine = create_engine({url!r})
with engine.connect() as connection:
{configure}
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
"""
CONFIGURE = "context.configure(connection=connection, target_metadata=target_metadata)\n"


def generate(
    folder: Path, url: str, *, attached: str = "", configure: str = CONFIGURE
) -> tuple[Config, Path]:
    """Return the configuration of a host with a table of its own, and a migration for all of it.

    Alembic is as `alembic init` makes it, except `env.py`.
    """
    config = Config(folder / "alembic.ini", stdout=StringIO())
    command.init(config, str(folder / "migrations"))
    driver = url.replace("postgresql:", "postgresql+psycopg:")
    env = ENV.format(attached=attached, configure=indent(configure, "    "), url=driver)
    (folder / "migrations" / "env.py").write_text(env)
    command.revision(config, "made", autogenerate=True)
    [made] = (folder / "migrations" / "versions").glob("*_made.py")
    return config, made


def test_autogenerate_makes_the_tables(tmp_path: Path, empty_database_url: str) -> None:
    config, made = generate(tmp_path, empty_database_url, attached=ATTACHED)
    if empty_database_url.startswith("sqlite"):
        lines = made.read_text().replace("\n\n\ndef downgrade", f"\n    {INDEX}\n\ndef downgrade")
        made.write_text(lines)
    command.upgrade(config, "head")
    command.check(config)
    findings = list(check(Settings(secrets=("a" * 16,), database_url=empty_database_url)))
    assert {finding.level for finding in findings} == {Level.OK}
    assert "Your own migrations created hookrow's tables." in {finding.text for finding in findings}


@pytest.mark.parametrize("configure", [APART, CONFIGURE], ids=["apart", "not-apart"])
def test_autogenerate_leaves_the_tables_alone(
    tmp_path: Path, empty_sqlite_url: str, configure: str
) -> None:
    with opened(empty_sqlite_url) as engine:
        upgrade(engine, Schema())
    _, made = generate(tmp_path, empty_sqlite_url, configure=configure)
    upgraded = made.read_text().partition("def downgrade")[0]
    assert "op.create_table('people'" in upgraded
    dropped = [name for name in metadata.tables if f"drop_table('{name}')" in upgraded]
    assert dropped == ([] if configure is APART else [*metadata.tables])
