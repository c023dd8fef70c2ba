"""The SQL of the page on performance runs, and a partitioned log fulfils the contract."""

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path

import psycopg
import pytest
from homes import OURS, Home
from log_contract import LogContract, entry, keep, reader
from sqlalchemy import make_url

from engines import database_user, run
from hookrow.stores._log import Query
from postgres import find_binaries

DOCS = Path(__file__).parents[2] / "docs" / "explanation"
PAGE = (DOCS / "performance.md").read_text(encoding="utf-8")
*SETTINGS, BACK, MONTHLY = re.findall(r"^ *```sql\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)

SCRIPT = (DOCS / "partition.sql").read_text()
BESIDE, LAST = SCRIPT.split("-- The last step")
"""The part that runs beside the receivers, and the part that blocks them."""

LEFT = """
    SELECT proname FROM pg_proc WHERE proname LIKE 'hookrow%'
    UNION SELECT relname FROM pg_class WHERE relname LIKE 'hookrow_before%'
    UNION SELECT conname FROM pg_constraint WHERE conname LIKE 'hookrow_before%'
"""
"""The names of the functions, tables and constraints that the script creates."""


def partition(url: str, script: str = SCRIPT, *, role: str = "postgres") -> str:
    """Run the script, or a part of it; return psql's error, if any."""
    binaries = find_binaries()
    assert binaries is not None
    done = subprocess.run(
        [binaries / "psql", url, "-Xq", "--command", f"SET ROLE {role}", "--file", "-"],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    assert bool(done.returncode) == ("ERROR" in done.stderr), done.stderr
    return "".join(re.findall(r"ERROR:  (.*)", done.stderr))


def first(after: int) -> date:
    """Return the first day of a month: of this one for 0, of the next one for 1."""
    today = datetime.now(UTC)
    years, month = divmod(today.year * 12 + today.month - 1 + after, 12)
    return date(years, month + 1, 1)


def month(after: int) -> str:
    """Return the name of a month's partition: of this month for 0, of the next one for 1."""
    return f"hookrow_notifications_{first(after):%Y_%m}"


@pytest.fixture(scope="module")
def home(new_database: Callable[[str], str]) -> Iterator[Home]:
    """Open a log that is partitioned."""
    with closing(Home(new_database("postgres"), OURS)) as home:
        assert partition(home.url) == ""
        yield home


class TestPartitionedLog(LogContract):
    pass


def test_partition_of_each_month(home: Home) -> None:
    """Entries go to the partition of their month; the page's statements create and drop one."""
    home.fill()
    for after in (0, 1, 2, 9):
        ((prefix,),) = home.run(f"SELECT hookrow_from('{first(after)}')")
        keep(home, entry(fingerprint=bytes(prefix) + after.to_bytes(12)))
    counts = "SELECT tableoid::regclass::text, count(*) FROM hookrow_notifications GROUP BY 1"
    named = ("hookrow_before", month(1), month(2), "hookrow_notifications_rest")
    assert dict(home.run(counts)) == dict.fromkeys(named, 1)
    statements = re.sub(r"\d{4}([-_])\d\d", rf"{first(5):%Y}\g<1>{first(5):%m}", MONTHLY)
    make, _, drop, _ = statements.split(";")  # a comment is the last
    home.run(make)
    there = f"SELECT to_regclass('{month(5)}') IS NOT NULL"
    assert home.run(there) == [(True,)]
    home.run(drop)
    assert home.run(there) == [(False,)]
    home.run(f"TRUNCATE {month(1)}")
    assert len(reader(home).newest(Query(), limit=9)) == 3


INDEXES = """
    SELECT regexp_replace(pg_get_indexdef(indexrelid), ' INDEX .* USING', ' INDEX USING')
    FROM pg_index WHERE indrelid = '{}'::regclass AND NOT indisprimary ORDER BY 1
"""
"""The indexes of a table without their names, and without that of the primary key."""


def test_indexes_of_each_partition(postgres_url: str) -> None:
    """The current partition and new ones have the indexes of the log."""
    indexes = run(postgres_url, INDEXES.format("hookrow_notifications"))
    by_id = ("CREATE INDEX USING btree (id)",)
    assert partition(postgres_url) == ""
    for each in ("hookrow_notifications", "hookrow_before", month(1)):
        assert run(postgres_url, INDEXES.format(each)) == sorted([*indexes, by_id])


def test_running_receiver(postgres_url: str) -> None:
    """Prepared statements still find the log after it was partitioned."""
    with closing(Home(postgres_url, OURS)) as home:
        for number in range(20):
            keep(home, entry(number))
        assert partition(postgres_url) == ""
        keep(home, entry(19))
        keep(home, entry(20))
        assert [each["attempts"] for each in home.logged()] == [1] * 19 + [2, 1]
    where = "SELECT DISTINCT tableoid::regclass::text FROM hookrow_notifications"
    assert run(postgres_url, where) == [("hookrow_before",)]


@pytest.mark.parametrize("whole", [True, False])
def test_repeated_script(postgres_url: str, *, whole: bool) -> None:
    """A reader's transaction stops the script; it can then be run again, or undone."""
    assert partition(postgres_url, BESIDE) == ""
    index = "indexrelid = 'hookrow_before_id'::regclass"
    run(postgres_url, f"UPDATE pg_index SET indisvalid = {not whole} WHERE {index}")
    script = SCRIPT if whole else f"\\set ON_ERROR_STOP on\n--{LAST}"
    with (
        closing(Home(postgres_url, OURS)) as home,
        closing(psycopg.connect(postgres_url)) as reader,
    ):
        reader.execute("SELECT FROM hookrow_notifications")
        assert partition(postgres_url, script) == "canceling statement due to lock timeout"
        keep(home, entry(1))
        reader.rollback()
        if whole:
            assert len(run(postgres_url, LEFT)) == 4
            run(postgres_url, BACK)
            assert run(postgres_url, LEFT) == []
        assert partition(postgres_url) == ""
        keep(home, entry(1), entry(2))
        assert len(home.logged()) == 2
    assert partition(postgres_url) == "The log is already partitioned."


@pytest.fixture
def role(postgres_url: str) -> Iterator[str]:
    """Create a role that owns nothing, but may create tables; return its name."""
    with database_user(postgres_url, "GRANT ALL ON SCHEMA public TO {}") as url:
        yield make_url(url).username or ""


PRIVILEGES = """
    SELECT '', aclexplode(relacl)::text FROM pg_class
    WHERE oid = 'hookrow_notifications'::regclass
    UNION SELECT attname, aclexplode(attacl)::text
    FROM pg_attribute WHERE attrelid = 'hookrow_notifications'::regclass ORDER BY 1, 2
"""


def test_privileges_and_settings(postgres_url: str, role: str) -> None:
    """No role loses a privilege, and each partition has the settings of the page."""
    run(
        postgres_url,
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}",
        f"GRANT SELECT (id, outcome) ON hookrow_notifications TO {role} WITH GRANT OPTION",
        "GRANT SELECT (id) ON hookrow_notifications TO PUBLIC",
        *SETTINGS,
    )
    before = run(postgres_url, PRIVILEGES)
    assert partition(postgres_url) == ""
    assert run(postgres_url, PRIVILEGES) == before
    with closing(Home(postgres_url.replace("postgres@", f"{role}@"), OURS)) as home:
        keep(home, entry())
    query = "SELECT unnest(reloptions) FROM pg_class WHERE oid = '{}'::regclass"
    options = {
        table: {option for (option,) in run(postgres_url, query.format(table))}
        for table in ("hookrow_dispatches", "hookrow_before", month(1))
    }
    assert "fillfactor=85" in options["hookrow_dispatches"]
    assert "autovacuum_vacuum_scale_factor=0.01" in options["hookrow_before"]
    assert options[month(1)] == options["hookrow_before"]


def test_owner(postgres_url: str, role: str) -> None:
    """Only the owner of the log can run the script, and owns the partitions."""
    run(postgres_url, f"ALTER TABLE hookrow_notifications OWNER TO {role}")
    error = f"The log and its partitions must have the same owner: run SET ROLE {role} first."
    assert partition(postgres_url) == error
    assert run(postgres_url, LEFT) == []
    assert partition(postgres_url, role=role) == ""
    owners = """
        SELECT DISTINCT relowner::regrole::text
        FROM pg_class JOIN pg_partition_tree('hookrow_notifications') ON oid = relid
    """
    assert run(postgres_url, owners) == [(role,)]
