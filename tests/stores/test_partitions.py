"""The SQL of the page on scale is run; a log in partitions, as it makes one, keeps the contract."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path

import psycopg
import pytest
from homes import OURS, SQLHome
from log_contract import LogContract, entry, keep, reader

from hookrow import migrations
from hookrow.stores.engines import opened
from hookrow.stores.log import Query
from postgres import Server

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "scale.md").read_text(encoding="utf-8")
*SETTINGS, BACK, MONTHLY = re.findall(r"^ *```sql\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)

SCRIPT = (DOCS / "scale" / "partition.sql").read_text()
BESIDE, LAST = SCRIPT.split("-- The last step")
"""What goes on beside the receivers, and what holds them up."""

LEFT = """
    SELECT proname FROM pg_proc WHERE proname LIKE 'hookrow%%'
    UNION SELECT relname FROM pg_class WHERE relname LIKE 'hookrow_before%%'
    UNION SELECT conname FROM pg_constraint WHERE conname LIKE 'hookrow_before%%'
"""
"""The names of what the script has made of its own."""


@pytest.fixture(scope="class")
def url(postgres: Server, new_database: Callable[[str], str]) -> str:
    """Make a database whose log was put into partitions."""
    url = new_database("postgres")
    with opened(url) as engine:
        migrations.upgrade(engine, OURS)
    assert partition(url, postgres) == ""
    return url


def partition(url: str, postgres: Server, script: str = SCRIPT, *, role: str = "postgres") -> str:
    """Run the script, or a part of it; return what psql complains of."""
    command = (postgres.binaries / "psql", url, "--no-psqlrc", "--quiet")
    done = subprocess.run(
        [*command, "--command", f"SET ROLE {role}", "--file", "-"],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    assert bool(done.returncode) == ("ERROR" in done.stderr), done.stderr
    return "".join(re.findall(r"ERROR:  (.*)", done.stderr))


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
        assert partition(postgres_url, postgres) == ""
        for number in (19, 20):
            keep(home, entry(number))
        attempts = [each["attempts"] for each in home.logged()]
    assert attempts == [1] * 19 + [2, 1]
    where = "SELECT DISTINCT tableoid::regclass::text FROM hookrow_notifications"
    assert postgres.execute(where, url=postgres_url) == [("hookrow_before",)]


@pytest.fixture
def half(postgres_url: str, postgres: Server) -> str:
    """Make a database on which the script stopped before its last step."""
    assert partition(postgres_url, postgres, BESIDE) == ""
    return postgres_url


@pytest.mark.parametrize("script", [SCRIPT, f"\\set ON_ERROR_STOP on\n--{LAST}"])
@pytest.mark.parametrize("valid", [True, False])
def test_it_is_run_again(half: str, postgres: Server, script: str, *, valid: bool) -> None:
    """A reader's transaction ends it and receivers go on; later it does all, whatever is left."""
    postgres.execute(
        "UPDATE pg_index SET indisvalid = %s WHERE indexrelid = 'hookrow_before_id'::regclass",
        valid,
        url=half,
    )
    with closing(SQLHome(half, OURS)) as home, closing(psycopg.connect(half)) as reader:
        reader.execute("SELECT FROM hookrow_notifications")
        assert partition(half, postgres, script) == "canceling statement due to lock timeout"
        keep(home, entry(1))
        reader.rollback()
        assert partition(half, postgres) == ""
        keep(home, entry(1), entry(2))
        assert len(home.logged()) == 2
    assert partition(half, postgres) == "The log is in partitions already."


def test_it_is_given_up(half: str, postgres: Server) -> None:
    """What the page says leaves nothing of it."""
    assert len(postgres.execute(LEFT, url=half)) == 4
    postgres.execute(BACK, url=half)
    assert postgres.execute(LEFT, url=half) == []


@pytest.fixture
def role(postgres_url: str, postgres: Server) -> Iterator[str]:
    """Make a role that owns nothing, but may make tables; return its name."""
    postgres.execute("CREATE ROLE app LOGIN; GRANT ALL ON SCHEMA public TO app", url=postgres_url)
    yield "app"
    postgres.execute("DROP OWNED BY app CASCADE; DROP ROLE app", url=postgres_url)


def test_who_may_do_what(postgres_url: str, postgres: Server, role: str) -> None:
    """Nobody loses a privilege: receivers with a role of their own write the log still."""
    postgres.execute(
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};"
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role};"
        f"GRANT SELECT (id, outcome) ON hookrow_notifications TO {role} WITH GRANT OPTION;"
        "GRANT SELECT (id) ON hookrow_notifications TO PUBLIC",
        url=postgres_url,
    )
    privileges = """
        SELECT '', aclexplode(relacl)::text FROM pg_class WHERE oid = '{0}'::regclass
        UNION SELECT attname, aclexplode(attacl)::text
        FROM pg_attribute WHERE attrelid = '{0}'::regclass ORDER BY 1, 2
    """
    before = postgres.execute(privileges.format("hookrow_notifications"), url=postgres_url)
    assert partition(postgres_url, postgres) == ""
    after = postgres.execute(privileges.format("hookrow_notifications"), url=postgres_url)
    assert after == before
    with closing(SQLHome(postgres_url.replace("postgres@", f"{role}@"), OURS)) as home:
        keep(home, entry())


def test_whose_it_is(postgres_url: str, postgres: Server, role: str) -> None:
    """Only the owner runs it, whose the partitions are then, too."""
    postgres.execute(f"ALTER TABLE hookrow_notifications OWNER TO {role}", url=postgres_url)
    told = "The log is owned by app, and so its partitions have to be: SET ROLE app first."
    assert partition(postgres_url, postgres) == told
    assert postgres.execute(LEFT, url=postgres_url) == []
    assert partition(postgres_url, postgres, role=role) == ""
    owners = """
        SELECT DISTINCT relowner::regrole::text
        FROM pg_class JOIN pg_partition_tree('hookrow_notifications') ON oid = relid
    """
    assert postgres.execute(owners, url=postgres_url) == [(role,)]


def test_the_settings_are_taken(postgres_url: str, postgres: Server) -> None:
    """What the page tells our tables to have, they have; so has each partition of the log."""
    for statement in SETTINGS:
        postgres.execute(statement, url=postgres_url)
    assert partition(postgres_url, postgres) == ""
    told = "SELECT unnest(reloptions) FROM pg_class WHERE oid = '{}'::regclass"
    options = {
        table: {option for (option,) in postgres.execute(told.format(table), url=postgres_url)}
        for table in ("hookrow_dispatches", "hookrow_before", month(1))
    }
    assert "fillfactor=85" in options["hookrow_dispatches"]
    assert "autovacuum_vacuum_scale_factor=0.01" in options["hookrow_before"]
    assert options[month(1)] == options["hookrow_before"]


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
