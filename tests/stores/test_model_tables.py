"""Models in the databases where their tables may be: in another schema, or as views."""

from datetime import datetime

import pytest
from contract import NOON, arrival, statuses
from sqlalchemy import DateTime, ForeignKey
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from engines import opened, run
from hookrow import Delivered, Role, Schema, SchemaMismatch, Suppressed
from hookrow._receiver.recorder import record
from hookrow.stores.sql import SQLStore
from wire import ADA


class Base(DeclarativeBase):
    """The base of the models."""

    type_annotation_map = {datetime: DateTime(timezone=True)}  # noqa: RUF012 - SQLAlchemy's form


class Person(Base):
    """A model in a schema, which the search path does not have."""

    __tablename__ = "people"
    __table_args__ = {"schema": "crm"}  # noqa: RUF012 - SQLAlchemy's form

    id: Mapped[int] = mapped_column(primary_key=True)
    address: Mapped[str]
    suppressed_at: Mapped[datetime | None]


class Mailing(Base):
    """A model whose foreign key refers to another schema."""

    __tablename__ = "mailings"

    id: Mapped[int] = mapped_column(primary_key=True)
    postmark_id: Mapped[str | None]
    person_id: Mapped[int] = mapped_column(ForeignKey("crm.people.id"))
    delivered_at: Mapped[datetime | None]
    opened_at: Mapped[datetime | None]


class Reachable(Base):
    """A model of a view."""

    __tablename__ = "reachable"

    id: Mapped[int] = mapped_column(primary_key=True)
    address: Mapped[str]
    suppressed_at: Mapped[datetime | None]


MAILINGS = Role.of(
    Mailing, provider_message_id=Mailing.postmark_id, subscriber_id=Mailing.person_id
)
SCHEMA = Schema(
    subscribers=Role.of(Person, email=Person.address),
    dispatches=MAILINGS,
    subscriptions=None,
    log=None,
)
VIEWED = Schema(
    subscribers=Role.of(Reachable, email=Reachable.address),
    dispatches=MAILINGS,
    subscriptions=None,
    log=None,
)
VIEW = "CREATE VIEW reachable AS SELECT id, address, suppressed_at FROM crm.people WHERE id < 9"


@pytest.fixture
def url(empty_postgres_url: str) -> str:
    """Return the URL of a database with the tables, and a person with a mailing."""
    run(empty_postgres_url, "CREATE SCHEMA crm")
    with opened(empty_postgres_url) as engine:
        Base.metadata.create_all(engine, [Person.__table__, Mailing.__table__])  # type: ignore[list-item]
    run(
        empty_postgres_url,
        f"INSERT INTO crm.people (id, address) VALUES (1, '{ADA}')",
        "INSERT INTO mailings (id, postmark_id, person_id) VALUES (1, 'm-1', 1)",
        VIEW,
    )
    return empty_postgres_url


@pytest.mark.parametrize("schema", [SCHEMA, VIEWED], ids=["schema", "view"])
def test_rows_are_changed(url: str, schema: Schema) -> None:
    store = SQLStore(url, schema, verify=True)
    changes = Delivered(ADA, "m-1", NOON), Suppressed(ADA, "m-1", NOON, "HardBounce")
    assert statuses(record(store, [arrival(each) for each in changes])) == [200, 200]
    assert run(url, "SELECT suppressed_at FROM crm.people") == [(NOON,)]
    assert run(url, "SELECT delivered_at FROM mailings") == [(NOON,)]


def test_a_view_that_accepts_no_changes(url: str) -> None:
    run(url, "DROP VIEW reachable", VIEW.replace("SELECT", "SELECT DISTINCT"))
    with pytest.raises(SchemaMismatch, match="No row of 'reachable' can be changed, because of a"):
        SQLStore(url, VIEWED, verify=True)


def test_a_schema_that_the_database_lacks(url: str) -> None:
    run(url, "ALTER TABLE crm.people SET SCHEMA public", "DROP SCHEMA crm")
    with pytest.raises(SchemaMismatch) as caught:
        SQLStore(url, SCHEMA, verify=True)
    assert str(caught.value) == (
        "The database has no table 'crm.people' for the subscribers. Did you mean 'people'? Person "
        "declares it: run your migrations, or correct the model."
    )
