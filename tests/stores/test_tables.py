"""hookrow's own tables: how they keep times, and how a host's metadata gets them."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone

import psycopg
import pytest
from homes import connect
from sqlalchemy import MetaData, insert, make_url, select

from hookrow import ConfigurationError, Role, Schema
from hookrow.stores.tables import attach, metadata, subscribers

NEPAL = timezone(timedelta(hours=5, minutes=45))

TIMES = {
    "2026-03-04 05:06:07.000000": datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC),
    "2026-03-04 05:06:07.000001": datetime(2026, 3, 4, 5, 6, 7, 1, tzinfo=UTC),
    "2026-03-04 05:06:07.100000": datetime(2026, 3, 4, 5, 6, 7, 100_000, tzinfo=UTC),
    "2026-03-03 23:21:07.999999": datetime(2026, 3, 4, 5, 6, 7, 999_999, tzinfo=NEPAL),
}
"""By the text of the instant in UTC."""

IN_UTC = "to_char(suppressed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"


def test_times(database_url: str) -> None:
    """Times are read in UTC, to the microsecond, whatever the session's time zone is.

    SQLite holds text of one form, which a guard can compare.
    """
    on_postgres = database_url.startswith("postgres")
    options = {"options": "-c timezone=Asia/Kathmandu"} if on_postgres else {}
    engine = connect(database_url, connect_args=options)
    rows = [
        {"email": f"{number}@example.com", "suppressed_at": at}
        for number, at in enumerate([*TIMES.values(), None])
    ]
    with engine.begin() as connection:
        connection.execute(insert(subscribers), rows)
        query = select(subscribers.c.suppressed_at).order_by("id")
        *found, null = connection.scalars(query)
    engine.dispose()
    assert found == [*TIMES.values()]
    assert {at and at.tzinfo for at in found} == {UTC}
    assert null is None
    texts = (
        f"SELECT {IN_UTC if on_postgres else 'suppressed_at'} FROM hookrow_subscribers ORDER BY id"
    )
    if on_postgres:
        with psycopg.connect(database_url) as other:
            held = [at for (at,) in other.execute(texts.encode())]
    else:
        with closing(sqlite3.connect(make_url(database_url).database or "")) as file:
            held = [at for (at,) in file.execute(texts)]
    assert held == [*TIMES, None]


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
    """A host gets the four tables if all are ours, and the log and its companions, once."""
    host = MetaData()
    made = attach(host, schema)
    assert {table.fullname for table in made} == names == {*host.tables}
    assert attach(host, schema) == made


def test_attach_to_metadata_with_a_schema() -> None:
    """A default schema of the metadata does not move hookrow's tables."""
    host = MetaData(schema="crm")
    with pytest.raises(ConfigurationError, match="schema='crm' would move our tables there"):
        attach(host, Schema())
    mine = Schema(subscribers=Role("crm.people"), log="crm.log")
    assert {table.schema for table in attach(host, mine)} == {"crm"}
