"""hookrow's own tables in a host's metadata, and the lookup of an email."""

import pytest
from sqlalchemy import MetaData, insert, select

from engines import opened
from hookrow import ConfigurationError, Role, Schema
from hookrow.stores.tables import attach, folded
from own_tables import metadata, subscribers

LOGS = {"hookrow_notifications", "hookrow_hours", "hookrow_meta", "hookrow_suppression_changes"}
MAIL = {"mail.log", "mail.hookrow_hours", "mail.hookrow_meta", "mail.hookrow_suppression_changes"}
FOUR = {*metadata.tables} - LOGS


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        (Schema(), {*metadata.tables}),
        (Schema(log=None), FOUR),
        (Schema(subscribers=Role("people"), log="mail.log"), MAIL),
        (Schema(subscribers=Role("people"), log=None), set()),
    ],
)
def test_attach(schema: Schema, names: set[str]) -> None:
    """`attach` adds the tables that the schema needs, once."""
    host = MetaData()
    made = attach(host, schema)
    assert {table.fullname for table in made} == names == {*host.tables}
    assert attach(host, schema) == made


def test_attach_to_metadata_with_a_schema() -> None:
    """A default schema of the metadata does not move hookrow's tables."""
    host = MetaData(schema="crm")
    with pytest.raises(ConfigurationError, match=r"schema='crm'\) would move hookrow's tables"):
        attach(host, Schema())
    mine = Schema(subscribers=Role("crm.people"), log="crm.log")
    assert {table.schema for table in attach(host, mine)} == {"crm"}


EXPLAIN = {
    "postgresql": "EXPLAIN",
    "sqlite": "EXPLAIN QUERY PLAN",
}


def test_folded(database_url: str) -> None:
    """An email is found by the index, ignoring the case of ASCII letters."""
    query = select(subscribers.c.email).where(folded(subscribers.c.email) == folded("ZOë@b.org"))
    with opened(database_url) as engine, engine.begin() as connection:
        emails = ("zoë@B.org", "ZOË@B.org")
        connection.execute(insert(subscribers), [{"email": email} for email in emails])
        assert connection.scalars(query).all() == ["zoë@B.org"]
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SET enable_seqscan = off")
        sql = query.compile(engine, compile_kwargs={"literal_binds": True})
        plan = connection.exec_driver_sql(f"{EXPLAIN[engine.dialect.name]} {sql}")
        assert "hookrow_subscribers_email" in str(plan.all())
