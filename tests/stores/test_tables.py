"""hookrow's own tables: how they keep times, and how a host's metadata gets them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone

import psycopg
import pytest
from homes import connect
from sqlalchemy import Engine, MetaData, insert, make_url, select

from hookrow import ConfigurationError, Role, Schema
from hookrow.stores.tables import attach, metadata, subscribers

NEPAL = timezone(timedelta(hours=5, minutes=45))

TIMES = {
    "2026-03-04 05:06:07.000000": datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC),
    "2026-03-04 05:06:07.000001": datetime(2026, 3, 4, 5, 6, 7, 1, tzinfo=UTC),
    "2026-03-04 05:06:07.100000": datetime(2026, 3, 4, 5, 6, 7, 100_000, tzinfo=UTC),
    "2026-03-03 23:21:07.999999": datetime(2026, 3, 4, 5, 6, 7, 999_999, tzinfo=NEPAL),
    "0001-01-01 00:00:00.000000": datetime.min.replace(tzinfo=UTC),
    "9999-12-31 23:59:59.999999": datetime.max.replace(tzinfo=UTC),
}
"""By the text that SQLite must hold."""


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """Open a database with hookrow's tables."""
    engine = connect(database_url)
    yield engine
    engine.dispose()


def _store(engine: Engine, *times: datetime | None) -> list[datetime | None]:
    """Store the times of subscribers; return them as they are read back."""
    rows = [{"email": f"{n}@example.com", "suppressed_at": at} for n, at in enumerate(times)]
    with engine.begin() as connection:
        connection.execute(insert(subscribers), rows)
        return list(connection.scalars(select(subscribers.c.suppressed_at).order_by("id")))


def test_times_are_read_as_they_were_written(engine: Engine) -> None:
    """Times are read to the microsecond, in UTC; null is None."""
    found = _store(engine, *TIMES.values(), None)
    assert found == [*TIMES.values(), None]
    assert {at.tzinfo for at in found if at is not None} == {UTC}


def test_sqlite_holds_utc_with_six_digits(sqlite_url: str) -> None:
    """SQLite holds text of one form, which a guard can compare."""
    engine = connect(sqlite_url)
    _store(engine, *TIMES.values())
    with closing(sqlite3.connect(make_url(sqlite_url).database or "")) as other:
        found = other.execute("SELECT suppressed_at FROM hookrow_subscribers ORDER BY id")
        assert [at for (at,) in found] == list(TIMES)
    engine.dispose()


def test_postgresql_holds_the_instant(postgres_url: str) -> None:
    """The time zone of the session changes nothing."""
    engine = connect(postgres_url, connect_args={"options": "-c timezone=Asia/Kathmandu"})
    at = datetime(2026, 3, 4, 5, 6, 7, 123456, tzinfo=NEPAL)
    assert _store(engine, at) == [at]
    with psycopg.connect(postgres_url) as other:
        query = "SELECT (suppressed_at AT TIME ZONE 'UTC')::text FROM hookrow_subscribers"
        assert other.execute(query).fetchall() == [("2026-03-03 23:21:07.123456",)]
    engine.dispose()


FOUR = {*metadata.tables} - {"hookrow_notifications"}


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        (Schema(), {*metadata.tables}),
        (Schema(log=None), FOUR),
        (Schema(subscribers=Role("people"), log="mail.log"), {"mail.log"}),
        (Schema(subscribers=Role("people"), log=None), set()),
    ],
)
def test_attach(schema: Schema, names: set[str]) -> None:
    """A host's metadata gets the four tables if all are ours, and the log by its name, once."""
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
    assert [table.fullname for table in attach(host, mine)] == ["crm.log"]
