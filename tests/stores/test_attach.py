"""Our tables and a host's Alembic: a real autogenerate makes them, or leaves them alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import MetaData
from test_tables_page import blocks

from hookrow import ConfigurationError, Role, Schema
from hookrow.check import check
from hookrow.finding import Level
from hookrow.migrations import upgrade
from hookrow.settings import Settings
from hookrow.stores.engines import opened
from hookrow.stores.tables import attach, metadata

APART, ATTACHED, INDEX = blocks("python")[-3:]

ENV = """
from alembic import context
from sqlalchemy import Column, Integer, MetaData, Table, create_engine

target_metadata = MetaData()
Table("people", target_metadata, Column("id", Integer, primary_key=True))
{attached}
with create_engine({url!r}).connect() as connection:
{configure}
    with context.begin_transaction():
        context.run_migrations()
"""
CONFIGURE = "context.configure(connection=connection, target_metadata=target_metadata)\n"


class Project:
    """A host with a table of its own, and Alembic as `alembic init` makes it but for `env.py`."""

    def __init__(
        self, folder: Path, url: str, *, attached: str = "", configure: str = CONFIGURE
    ) -> None:
        self.folder = folder
        self.run("init", "migrations")
        indented = "".join(f"    {line}\n" for line in configure.splitlines())
        driver = url.replace("postgresql:", "postgresql+psycopg:")
        env = ENV.format(attached=attached, configure=indented, url=driver)
        (folder / "migrations" / "env.py").write_text(env)

    def run(self, *words: str) -> str:
        """Run the command; return what it says."""
        done = subprocess.run(
            [sys.executable, "-m", "alembic", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def generate(self) -> Path:
        """Write a migration of all that differs; return it."""
        self.run("revision", "--autogenerate", "-m", "made")
        [made] = (self.folder / "migrations" / "versions").glob("*_made.py")
        return made


def test_autogenerate_makes_them(tmp_path: Path, empty_database_url: str) -> None:
    """As they are written, they make what the store and the check ask for; then nothing differs."""
    project = Project(tmp_path, empty_database_url, attached=ATTACHED)
    made = project.generate()
    if empty_database_url.startswith("sqlite"):
        lines = made.read_text().replace("\n\n\ndef downgrade", f"\n    {INDEX}\n\ndef downgrade")
        made.write_text(lines)
    project.run("upgrade", "head")
    assert "No new upgrade operations" in project.run("check")
    findings = list(check(Settings(secrets=("a" * 16,), database_url=empty_database_url)))
    assert {finding.level for finding in findings} == {Level.OK}
    assert "Migrations of your own made our tables." in {finding.text for finding in findings}


@pytest.mark.parametrize("configure", [APART, CONFIGURE], ids=["apart", "not-apart"])
def test_autogenerate_leaves_them_alone(
    tmp_path: Path, empty_database_url: str, configure: str
) -> None:
    """With the snippet of the page; without it all of ours would be dropped."""
    with opened(empty_database_url) as engine:
        upgrade(engine, Schema())
    made = Project(tmp_path, empty_database_url, configure=configure).generate().read_text()
    assert "op.create_table('people'" in made
    upgraded = made.partition("def downgrade")[0]
    dropped = [name for name in metadata.tables if f"drop_table('{name}')" in upgraded]
    assert dropped == ([] if configure is APART else [*metadata.tables])


def test_what_a_schema_needs() -> None:
    """The four where all are ours, and the log by its name, beside what the host has."""
    theirs = Role("people")
    four = {*metadata.tables} - {"hookrow_notifications"}
    for schema, names in (
        (Schema(), {*metadata.tables}),
        (Schema(log=None), four),
        (Schema(subscribers=theirs), {"hookrow_notifications"}),
        (Schema(subscribers=theirs, log="mail.log"), {"mail.log"}),
        (Schema(subscribers=theirs, log=None), set()),
    ):
        host = MetaData()
        made = attach(host, schema)
        assert {table.fullname for table in made} == names == {*host.tables}
        assert attach(host, schema) == made


def test_metadata_of_a_schema() -> None:
    """Our tables are where the store looks for them, not where the host's are."""
    host = MetaData(schema="crm")
    with pytest.raises(ConfigurationError, match="schema='crm' would move our tables there"):
        attach(host, Schema())
    mine = Schema(subscribers=Role("crm.people"), log="crm.log")
    assert [table.fullname for table in attach(host, mine)] == ["crm.log"]
