"""A host's Alembic creates hookrow's tables, brings them up to date, or leaves them alone.

`docs/how-to/tables.md` describes how; its code about Alembic runs here.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from alembic import command
from sqlalchemy import Engine, MetaData, inspect
from sqlalchemy.schema import CreateTable

from alembic_host import create_project, migrate
from checking import check_at
from databases import ALL, KINDS, MARIADB, POSTGRESQL, SQLITE, kind_of
from engines import opened, run
from hookrow import Arrival, Recorded, Schema, Suppressed
from hookrow._diagnostics import Level
from hookrow._receiver.recorder import record
from hookrow.migrations import upgrade
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import attach
from own_tables import metadata
from session import read_blocks
from structure import structure
from wire import ADA, AT

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*expression-based index"  # SQLite's are not compared, according to the page
)

PAGE = "docs/how-to/tables.md"
*_, LEAVE, ATTACH, ATTACH_ANOTHER, INDEX, FREE_SPACE = read_blocks(PAGE, "python")

ATTACH_LOG = ATTACH.replace(
    "Schema()", "Schema(subscriptions=None, log='crm.hookrow_notifications')"
)

PEOPLE = """
from sqlalchemy import Column, Integer, MetaData, Table

target_metadata = MetaData({options})
Table("people", target_metadata, Column("id", Integer, primary_key=True))
"""
OURS = PEOPLE.format(options="")
NAMES = {kind: f"{kind}_%(constraint_name)s" for kind in ("ix", "uq", "ck", "fk")}
"""Patterns that SQLAlchemy also applies to what has a name; none of these may be without one."""
CONVENTION = PEOPLE.format(options=f"naming_convention={NAMES | {'pk': 'pk_%(table_name)s'}}")

CONFIGURE = "context.configure(connection=connection, target_metadata=target_metadata, {})"
STRICT = "compare_type=True, compare_server_default=True"
BATCH = f"{STRICT}, render_as_batch=True"


IS_OLD = sqlalchemy.__version__.startswith("2.0.")


def comparing(url: str, options: str) -> str:
    """Return Alembic's options for a database.

    With the oldest versions, equal defaults of times look different on MariaDB.
    """
    is_confused = kind_of(url) is MARIADB and IS_OLD
    return options.replace("default=True", "default=False") if is_confused else options


def missing(url: str) -> list[str]:
    """Return the statements that the page adds to a migration that creates the tables."""
    if kind_of(url) is SQLITE:
        return [INDEX]
    return [FREE_SPACE] if kind_of(url) is POSTGRESQL and IS_OLD else []


def attached(url: str, code: str = ATTACH) -> str:
    """Return the page's code that attaches the tables, with the argument for the database."""
    options = "".join(f", {name}={value}" for name, value in kind_of(url).attach_options.items())
    return code.replace("Schema())", f"Schema(){options})")


def prove(url: str) -> None:
    """Assert that a check reports no faults, and that a notification is recorded."""
    findings = check_at(url, Schema())
    faults = [each for each in findings if each.level is not Level.OK]
    assert [each.text for each in faults if each.subject != "retries"] == []
    assert "Your own migrations created hookrow's tables." in {each.text for each in findings}
    with closing(SQLStore(url)) as store:
        arrival = Arrival((Suppressed(ADA, None, AT, "HardBounce"),), b"{}", AT)
        [outcome] = record(store, [arrival])
    assert isinstance(outcome, Recorded)


def test_foreign_keys_have_the_order_of_their_columns() -> None:
    """The statements are the same in each process."""
    tables = {table.name: str(CreateTable(table)) for table in attach(MetaData())}
    for name, columns in (
        ("hookrow_subscriptions", ["list_id", "subscriber_id"]),
        ("hookrow_dispatches", ["subscriber_id", "list_id"]),
    ):
        assert re.findall(r"FOREIGN KEY\((\w+)\)", tables[name]) == columns


def constraints(engine: Engine) -> Mapping[str, Any]:
    """Return the names of constraints, and the storage of dispatches: only PostgreSQL has them."""
    inspector = inspect(engine)
    found = {
        name: (
            inspector.get_pk_constraint(name)["name"],
            sorted(str(key["name"]) for key in inspector.get_foreign_keys(name)),
            sorted(str(each["name"]) for each in inspector.get_unique_constraints(name)),
        )
        for name in metadata.tables
    }
    with engine.connect() as connection:
        storage = "SELECT reloptions FROM pg_class WHERE relname = 'hookrow_dispatches'"
        return {**found, "storage": connection.exec_driver_sql(storage).scalar()}


class TestOwnMigrations:
    """The host's migrations create and change the tables."""

    @pytest.mark.parametrize("empty_database_url", [each.name for each in ALL], indirect=True)
    @pytest.mark.parametrize(
        ("template", "people", "options"),
        [("generic", OURS, ""), ("generic", CONVENTION, BATCH), ("async", CONVENTION, STRICT)],
        ids=["plain", "convention", "async"],
    )
    def test_create(
        self,
        tmp_path: Path,
        empty_database_url: str,
        new_database: Callable[[str], str],
        template: str,
        people: str,
        options: str,
    ) -> None:
        """The tables equal those of the scripts, and a second autogenerate finds no difference."""
        url = empty_database_url
        configure = CONFIGURE.format(comparing(url, options))
        project = create_project(
            tmp_path, url, people + attached(url), configure, template=template
        )
        migrate(project, *missing(url))
        kind = kind_of(url)
        scripted = new_database(kind.name)
        upgrade(scripted, Schema())
        with opened(url) as engine, opened(scripted) as other:
            made, expected = structure(engine), structure(other)
            assert {name: made[name] for name in metadata.tables} == {
                name: expected[name] for name in metadata.tables
            }
            if kind is POSTGRESQL:
                assert constraints(engine) == constraints(other)
            run(engine, f"INSERT INTO hookrow_subscribers (email) VALUES ('{ADA}')")
        if kind in KINDS:  # the others have no store yet
            prove(url)
        command.downgrade(project, "base")
        with opened(url) as engine:
            assert inspect(engine).get_table_names() == ["alembic_version"]

    @pytest.mark.parametrize(
        ("attach", "schema"),
        [
            (ATTACH.partition("attach(")[0] + ATTACH_ANOTHER, "public"),
            (ATTACH_LOG, "crm"),
        ],
        ids=["another-metadata", "qualified-log"],
    )
    def test_schema(
        self, tmp_path: Path, empty_postgres_url: str, attach: str, schema: str
    ) -> None:
        """If the host's metadata has a schema, hookrow's tables are in the store's schema."""
        url = empty_postgres_url
        run(url, "CREATE SCHEMA crm")
        setup = PEOPLE.format(options="schema='crm'") + attach
        project = create_project(tmp_path, url, setup, CONFIGURE.format("include_schemas=True"))
        migrate(project, *missing(url) if schema == "public" else ())
        with opened(url) as engine:
            assert inspect(engine).has_table("people", "crm")
            assert inspect(engine).has_table("hookrow_notifications", schema)


@pytest.mark.parametrize("database_url", [each.name for each in ALL], indirect=True)
@pytest.mark.parametrize("code", ["", ATTACH], ids=["apart", "attached"])
def test_tables_of_the_command(tmp_path: Path, database_url: str, code: str) -> None:
    """With the page's lines, autogenerate ignores the tables that `hookrow db upgrade` created."""
    include_name, _, configure = LEAVE.partition("\n\n\n")
    setup = f"{CONVENTION}{attached(database_url, code)}\n{include_name}\n"
    configure = configure.strip().removesuffix(")") + f", {comparing(database_url, STRICT)})"
    project = create_project(tmp_path, database_url, setup, configure)
    assert migrate(project) == ["create_table"]  # the host's own


USUAL_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
"""The patterns that SQLAlchemy's documentation recommends."""

MODELS = """
from datetime import datetime

from sqlalchemy import Enum, ForeignKey, MetaData, String, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from hookrow import Role, Schema
from hookrow.stores.tables import attach


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention={convention})


class Dated:
    made_at: Mapped[datetime]


class Team(Dated, Base):
    __tablename__ = "teams"

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(Enum("club", "shop", name="kinds"))


class Person(Dated, Base):
    __tablename__ = "people"
    __table_args__ = (UniqueConstraint("team_id", "email"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    team_id: Mapped[int] = mapped_column(ForeignKey(Team.id), index=True)
    email: Mapped[str] = mapped_column(String(320))
    suppressed_at: Mapped[datetime | None]
    sends: Mapped[list["Send"]] = relationship(back_populates="person")
    {added}


class Send(Base):
    __tablename__ = "sends"

    id: Mapped[int] = mapped_column(primary_key=True)
    message_id: Mapped[str] = mapped_column(String(64), unique=True)
    person_id: Mapped[int] = mapped_column(ForeignKey(Person.id))
    delivered_at: Mapped[datetime | None]
    opened_at: Mapped[datetime | None]
    person: Mapped[Person] = relationship(back_populates="sends")


schema = Schema(
    subscribers=Role.of(Person, tenant=Person.team_id),
    dispatches=Role.of(Send, provider_message_id=Send.message_id, subscriber_id=Send.person_id),
    subscriptions=None,
)
hookrow_tables = MetaData()
attach(hookrow_tables, schema{options})
target_metadata = [Base.metadata, hookrow_tables]
"""


def test_models_of_a_host_beside_the_log(tmp_path: Path, empty_database_url: str) -> None:
    """Autogenerate creates both, in two metadata, and proposes only what the host changes later."""
    url = empty_database_url
    options = "".join(f", {name}={value}" for name, value in kind_of(url).attach_options.items())

    def models(added: str = "") -> str:
        return MODELS.format(convention=USUAL_NAMES, added=added, options=options)

    configure = CONFIGURE.format(comparing(url, BATCH))
    project = create_project(tmp_path, url, models(), configure)
    created = migrate(project)
    assert created.count("create_table") == 3 + len(attach(MetaData(), Schema(subscriptions=None)))
    namespace: dict[str, Any] = {"__name__": "models"}
    exec(models(), namespace)
    with closing(SQLStore(url, namespace["schema"], verify=True)) as store:
        store.probe()
    env = tmp_path / "migrations" / "env.py"
    changed = models("nickname: Mapped[str | None] = mapped_column(String(40))")
    env.write_text(env.read_text().replace(models(), changed))
    assert migrate(project) == ["add_column"]
