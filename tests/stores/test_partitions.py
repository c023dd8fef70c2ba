"""The SQL of the page on scale is run; a log in partitions, as it makes one, keeps the contract."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from homes import OURS, SQLHome
from log_contract import LogContract, entry, keep, reader

from hookrow import migrations
from hookrow.stores.engines import opened
from hookrow.stores.log import Query
from postgres import Server

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "scale.md").read_text(encoding="utf-8")
*SETTINGS, MONTHLY = re.findall(r"^ *```sql\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="class")
def url(postgres: Server, new_database: Callable[[str], str]) -> str:
    """Make a database whose log was put into partitions."""
    url = new_database("postgres")
    with opened(url) as engine:
        migrations.upgrade(engine, OURS)
    partition(url, postgres)
    return url


def partition(url: str, postgres: Server) -> None:
    """Run the script, a part at a time."""
    for part in (DOCS / "scale" / "partition.sql").read_text().split("\n\n"):
        postgres.execute(part, url=url)


@pytest.fixture(scope="class")
def home(url: str) -> Iterator[SQLHome]:
    """Open the log in partitions."""
    with closing(SQLHome(url, OURS)) as home:
        yield home


class TestPartitionedLog(LogContract):
    schema = OURS

    def test_each_month_has_its_own(self, home: SQLHome, url: str, postgres: Server) -> None:
        """What tells of another month goes to its partition; dropped with it, it is gone."""
        keep(home, *(entry(fingerprint=of(month, postgres, url)) for month in (0, 1, 2, 9)))
        counts = "SELECT tableoid::regclass::text, count(*) FROM hookrow_notifications GROUP BY 1"
        named = {
            "hookrow_before": 1,
            month(1): 1,
            month(2): 1,
            "hookrow_notifications_rest": 1,
        }
        assert dict(postgres.execute(counts, url=url)) == named
        postgres.execute(f"DROP TABLE {month(1)}", url=url)
        assert len(reader(home).newest(Query(), limit=9)) == 3


def test_a_receiver_goes_on(postgres_url: str, postgres: Server) -> None:
    """Statements that it has prepared find the log in its new place."""
    with closing(SQLHome(postgres_url, OURS)) as home:
        for number in range(20):
            keep(home, entry(number))
        partition(postgres_url, postgres)
        for number in (19, 20):
            keep(home, entry(number))
        attempts = [each["attempts"] for each in home.logged()]
    assert attempts == [1] * 19 + [2, 1]
    where = "SELECT DISTINCT tableoid::regclass::text FROM hookrow_notifications"
    assert postgres.execute(where, url=postgres_url) == [("hookrow_before",)]


def test_the_settings_are_taken(postgres_url: str, postgres: Server) -> None:
    """What the page tells our tables to have, they have."""
    for statement in SETTINGS:
        postgres.execute(statement, url=postgres_url)
    told = "SELECT unnest(reloptions) FROM pg_class WHERE oid = 'hookrow_{}'::regclass"
    options = {
        table: {option for (option,) in postgres.execute(told.format(table), url=postgres_url)}
        for table in ("dispatches", "notifications")
    }
    assert "fillfactor=85" in options["dispatches"]
    assert "autovacuum_vacuum_scale_factor=0.01" in options["notifications"]


def test_a_month_is_made_and_dropped(url: str, postgres: Server) -> None:
    """As the page says, but for which months they are."""
    statements = re.sub(r"\d{4}([-_])\d\d", rf"{first(5):%Y}\g<1>{first(5):%m}", MONTHLY)
    made, _, dropped, _ = statements.split(";")  # the last is what is said of it
    there = f"SELECT to_regclass('{month(5)}') IS NOT NULL"
    postgres.execute(made, url=url)
    assert postgres.execute(there, url=url) == [(True,)]
    postgres.execute(dropped, url=url)
    assert postgres.execute(there, url=url) == [(False,)]


def of(month: int, postgres: Server, url: str) -> bytes:
    """Return a fingerprint of so many months after this one."""
    ((prefix,),) = postgres.execute(f"SELECT hookrow_from('{first(month)}')", url=url)
    return bytes(prefix) + month.to_bytes(12)


def month(after: int) -> str:
    """Return the name of the partition of so many months after this one."""
    return f"hookrow_notifications_{first(after):%Y_%m}"


def first(after: int) -> date:
    """Return the first day of so many months after this one."""
    today = datetime.now(UTC)
    years, month = divmod(today.year * 12 + today.month - 1 + after, 12)
    return date(years, month + 1, 1)
