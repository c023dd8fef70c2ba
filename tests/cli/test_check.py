"""`hookrow check`: faults of the settings and the database, and that the remedies work."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from time import time
from unittest.mock import Mock

import pytest
from sqlalchemy import make_url, text

from command import Command
from copying import replace
from engines import opened
from hookrow import Role, Schema
from hookrow.diagnostics.check import check
from hookrow.diagnostics.result import CheckResult, Level
from hookrow.migrations import upgrade
from hookrow.server.settings import Settings
from hookrow.stores import Locked
from hookrow.stores.sql import SQLStore
from postgres import Databases
from wire import SECRET

UNDATED = {"suppression_reason": None, "suppression_changed_at": None}
BARE = {"suppressed_at": None, **UNDATED}
SENDS = {"provider_message_id": "postmark_id", "subscriber_id": "person_id", **BARE}
HOST = Schema(
    subscribers=Role("people", {"email": "address", **UNDATED}),
    dispatches=Role("sends", {**SENDS, "list_id": "campaign_id"}),
    subscriptions=Role("members", {"list_id": "campaign_id", "subscriber_id": "person_id", **BARE}),
    log=None,
)
PEOPLE = "CREATE TABLE people (id integer PRIMARY KEY, address text, suppressed_at timestamp)"
SENDS_TABLE = (
    "CREATE TABLE sends (id integer PRIMARY KEY, postmark_id text, person_id integer, "
    "campaign_id integer, delivered_at timestamp, opened_at timestamp)"
)
MEMBERS_TABLE = "CREATE TABLE members (campaign_id integer, person_id integer)"


def execute(url: str, *statements: str) -> None:
    with (
        opened(url) as engine,
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
    ):
        for statement in statements:
            connection.execute(text(statement))


@pytest.fixture
def host_url(empty_sqlite_url: str) -> str:
    """Return the URL of an SQLite file with the host's tables, without any index."""
    execute(empty_sqlite_url, PEOPLE, SENDS_TABLE, MEMBERS_TABLE)
    return empty_sqlite_url


@pytest.fixture
def host_postgres_url(empty_postgres_url: str) -> str:
    execute(empty_postgres_url, PEOPLE, SENDS_TABLE, MEMBERS_TABLE)
    return empty_postgres_url


def found(url: str, schema: Schema = HOST) -> list[CheckResult]:
    return list(check(Settings(secrets=(SECRET,), database_url=url, schema=schema)))


def about(name: str, url: str, schema: Schema = HOST) -> CheckResult:
    """Return the one result on a subject."""
    (result,) = (each for each in found(url, schema) if each.subject == name)
    return result


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def warnings(name: str, url: str, schema: Schema = HOST) -> list[str]:
    results = found(url, schema)
    return [each.text for each in results if (each.level, each.subject) == (Level.WARNING, name)]


@pytest.mark.parametrize(
    ("secrets", "level", "words"),
    [
        (("x" * 16, SECRET), Level.OK, "It is set."),
        ((SECRET, "x" * 15), Level.WARNING, "15 characters"),
        (("",), Level.ERROR, "missing or empty"),
        ((SECRET, "größe"), Level.ERROR, "visible ASCII"),
    ],
)
def test_secrets(secrets: tuple[str, ...], level: Level, words: str) -> None:
    """A missing or impossible secret is an error, a short one a warning; none is shown."""
    result = next(check(Settings(secrets=secrets, database_url="")))
    assert (result.subject, result.level) == ("secret", level)
    assert words in result.text
    assert not any(secret and secret in result.text for secret in secrets)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite:///none.db", "There is no none.db. Run: hookrow db upgrade"),
        (f"sqlite:///{__file__}", "file is not a database"),
        ("postgresql://ada@127.0.0.1:1/mail?password=hunter2", "Start it, or set HOOKROW_D"),
        ("mysql://ada:hunter2@db/mail", "PostgreSQL and SQLite, not on mysql"),
    ],
)
def test_unusable_database(url: str, words: str) -> None:
    result = about("database", url)
    assert result.level is Level.ERROR
    assert words in result.text
    assert "hunter2" not in result.text


class TestMigrations:
    def test_healthy(self, postgres_url: str) -> None:
        """On hookrow's own tables everything is well; the URL's password is not shown."""
        results = found(f"{postgres_url}&password=hunter2", Schema())
        assert [(each.level, each.subject) for each in results] == [
            (Level.OK, name) for name in ("secret", "database", "migrations", "tables", "indexes")
        ]
        assert (make_url(postgres_url).database or "?") in results[1].text
        assert "hunter2" not in results[1].text

    def test_own_tables_without_a_log(self, empty_sqlite_url: str) -> None:
        """They need an upgrade, unless the log is turned off."""
        with opened(empty_sqlite_url) as engine:
            upgrade(engine, Schema(log=None))
        result = found(empty_sqlite_url, Schema())[-1]
        outdated = (
            "hookrow's tables are at 0001, 0003, 0004, "
            "not at 0001, 0002, 0003, 0004, 0005, 0006, 0007. Run: hookrow db upgrade"
        )
        assert (result.level, result.text) == (Level.ERROR, outdated)
        assert {each.level for each in found(empty_sqlite_url, Schema(log=None))} == {Level.OK}

    def test_log_beside_tables_of_the_host(self, host_url: str) -> None:
        """The log needs a migration; without it, migrations are not mentioned."""
        assert "migrations" not in {each.subject for each in found(host_url)}
        schema = replace(HOST, log=Schema().log)
        result = found(host_url, schema)[-1]
        missing = "hookrow's tables are not created yet. Run: hookrow db upgrade"
        assert (result.level, result.text) == (Level.ERROR, missing)
        with opened(host_url) as engine:
            upgrade(engine, schema)
        result = about("migrations", host_url, schema)
        assert result.text == "They are up to date (revisions 0002, 0005, 0006, 0007)."


@pytest.mark.parametrize(
    ("theirs", "clock", "words"),
    [
        ("'1970-01-01 00:00:01Z'", time, r"This machine's clock is \d\d,\d+ days ahead of the "),
        ("now()", lambda: 1.0, r"This machine's clock is \d\d,\d+ days behind the database's."),
        ("(1 / 0)::text", time, "The clocks cannot be compared: "),
    ],
)
def test_clock(
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    theirs: str,
    clock: Callable[[], float],
    words: str,
) -> None:
    """A clock that stands in 1970, or cannot be read, is a warning; the other checks follow."""
    monkeypatch.setattr("hookrow.diagnostics.clock.time", clock)
    execute(
        postgres_url,
        "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
        f"$$ SELECT ({theirs})::timestamptz $$",
    )
    url = f"{postgres_url}&options=-csearch_path%3Dpublic,pg_catalog"
    [warning] = warnings("clock", url, Schema())
    assert re.match(words, warning)
    assert about("indexes", url, Schema()).level is Level.OK


def test_encoding(postgres: Databases, caplog: pytest.LogCaptureFixture) -> None:
    """An encoding that lacks characters is a warning, also at the first use of a store."""
    url = postgres.create("template0 ENCODING 'LATIN1' LOCALE 'C'")
    execute(url, PEOPLE, SENDS_TABLE, MEMBERS_TABLE)
    [warning] = warnings("encoding", url)
    assert warning == (
        "The encoding of the database is LATIN1, not UTF8: a notification with a character that "
        "it lacks, such as an emoji in a reason, gets 503."
    )
    assert caplog.messages == []
    with closing(SQLStore(url, HOST, verify=True)) as store:
        store._queries = None
        assert store.queries is not None
    assert caplog.messages.count(warning) == 1
    postgres.drop(url)


def test_mapping(host_url: str) -> None:
    """A log that was written for other tables is a warning, and so is a record that is missing."""
    schema = replace(HOST, log="hookrow_notifications")
    with opened(host_url) as engine:
        upgrade(engine, schema)
    assert not warnings("mapping", host_url, schema)
    execute(host_url, """INSERT INTO hookrow_meta VALUES ('mapping', '{"subscribers":"old"}')""")
    [warning] = warnings("mapping", host_url, schema)
    assert "other tables than those mapped now: subscribers in old, dispatches in no" in warning
    execute(host_url, "DROP TABLE hookrow_meta")
    [warning] = warnings("mapping", host_url, schema)
    assert "The record of the mapping cannot be read: OperationalError: no such table" in warning


class TestRows:
    @pytest.fixture
    def restricted_url(self, postgres: Databases, host_postgres_url: str) -> Iterator[str]:
        name = f"restricted_{make_url(host_postgres_url).database}"
        postgres.execute(f"CREATE ROLE {name} LOGIN")
        yield host_postgres_url.replace("//postgres@", f"//{name}@")
        execute(host_postgres_url, f"DROP OWNED BY {name}")
        postgres.execute(f"DROP ROLE {name}")

    def test_privileges(self, restricted_url: str, host_postgres_url: str) -> None:
        """Each that is missing is named with the GRANT to run, until none is missing."""
        people = replace(HOST.subscribers, table="crm.people")
        schema = replace(HOST, subscribers=people, log=Schema().log)
        with opened(host_postgres_url) as engine:
            upgrade(engine, schema)
        execute(host_postgres_url, "CREATE SCHEMA crm", "ALTER TABLE people SET SCHEMA crm")
        grants = []
        while (result := found(restricted_url, schema)[-1]).level is Level.ERROR:
            said, grant = re.fullmatch(r"(permission denied .*): (GRANT .*)", result.text).groups()  # type: ignore[union-attr] # or it fails
            assert said not in grants
            grants.append(said)
            execute(host_postgres_url, grant)
        assert [said.removeprefix("permission denied for ") for said in grants] == [
            *("table hookrow_migrations", "schema crm", "table crm.people", "table sends"),
            *("table members", "table hookrow_notifications"),
            *("sequence public.hookrow_notifications_id_seq", "table hookrow_suppression_changes"),
        ]

    def test_ambiguous_emails(self, host_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Emails that differ by case only are a warning; so is a table too large to compare."""
        values = "(1, 'ada@example.com'), (2, 'ADA@example.com'), (3, 'bea@example.com'), (4, NULL)"
        execute(host_url, f"INSERT INTO people (id, address) VALUES {values}")
        [warning] = warnings("emails", host_url)
        assert (
            "1 email is in several rows that may differ by case, such as a***@example.com"
            in warning
        )
        monkeypatch.setattr(
            "hookrow.diagnostics.check.repeated_emails", Mock(side_effect=Locked("slow"))
        )
        uncompared = ["They cannot be compared: slow"]
        assert warnings("emails", host_url) == uncompared
        assert warnings("indexes", host_url)

    def test_times_without_zone(self, host_postgres_url: str) -> None:
        """A column without a time zone is a warning; its statement keeps the instants."""
        url = host_postgres_url
        execute(url, "INSERT INTO people VALUES (1, 'a', '2026-03-04 05:06:07')")
        warned = warnings("times", url)
        assert len(warned) == 3
        execute(url, *(each.partition("run: ")[2] for each in warned))
        assert not warnings("times", url)
        with opened(url) as engine, engine.connect() as connection:
            kept = connection.scalar(text("SELECT suppressed_at FROM people"))
        assert kept == datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)

    def test_ids_that_are_not_ascending(self, postgres_url: str) -> None:
        """Sessions that reserve ids assign lower ones later; the statement makes them ascend."""
        schema = Schema()
        execute(postgres_url, "ALTER SEQUENCE hookrow_notifications_id_seq CACHE 10")
        [warning] = warnings("log", postgres_url, schema)
        execute(postgres_url, warning.partition("Run: ")[2])
        assert not warnings("log", postgres_url, schema)


class TestIndexes:
    """A lookup without an index is a warning with the statement that creates it."""

    def follow(self, url: str, schema: Schema = HOST) -> None:
        """Run the statements that are advised; assert that no lookup lacks an index then."""
        advised = warnings("indexes", url, schema)
        assert advised
        execute(url, *(each.partition("Run: ")[2] for each in advised))
        assert about("indexes", url, schema).level is Level.OK

    def test_names_and_types(self, empty_postgres_url: str) -> None:
        """The statements run whatever tables and columns are called, and whatever their types."""
        url = empty_postgres_url
        table, email = 'The 100% "People"' + "p" * 40, '%-"Mail"' + "a" * 50
        people = PEOPLE.replace("people", quoted(table)).replace("address", quoted(email))
        sends = SENDS_TABLE.replace("postmark_id", '"select"')
        for created in (people, sends, MEMBERS_TABLE):
            types = created.replace("id integer", "id uuid").replace(" text", " char(36)")
            execute(url, types.replace("timestamp", "timestamptz"))
        columns = {**SENDS, "provider_message_id": "select", "list_id": "campaign_id"}
        role = Role(table, {"email": email, **UNDATED})
        self.follow(url, replace(HOST, subscribers=role, dispatches=Role("sends", columns)))

    def test_other_fold(self, host_url: str) -> None:
        """If emails have an index for another fold, that is named; partial ones are enough."""
        partial = "CREATE INDEX sent ON sends (postmark_id) WHERE postmark_id IS NOT NULL"
        execute(host_url, "CREATE INDEX plain ON people (address)", partial)
        [warning] = [each for each in warnings("indexes", host_url) if "address" in each]
        assert 'An index for fold="exact" exists: set that, or add one. Run: C' in warning
        exact = replace(HOST, subscribers=replace(HOST.subscribers, fold="exact"))
        assert len(warnings("indexes", host_url, exact)) == 1

    def test_partitioned(self, empty_postgres_url: str) -> None:
        """On a partitioned table no index can be created CONCURRENTLY; the remedy says how."""
        url = empty_postgres_url
        sends = SENDS_TABLE.replace(" PRIMARY KEY", "")
        part = "CREATE TABLE part PARTITION OF sends FOR VALUES WITH (MODULUS 1, REMAINDER 0)"
        execute(url, PEOPLE, f"{sends} PARTITION BY HASH (id)", MEMBERS_TABLE, part)
        texts = [each for each in warnings("indexes", url) if 'ON "sends" (' in each]
        assert len(texts) == 2
        for each in texts:
            assert 'attach it; or, which blocks all writers, run: CREATE INDEX "h' in each
            execute(url, each.partition(", run: ")[2])
        self.follow(url)

    def test_view(self, host_postgres_url: str) -> None:
        url = host_postgres_url
        execute(url, "CREATE VIEW pairs AS SELECT * FROM members")
        schema = replace(HOST, subscriptions=replace(HOST.roles["subscriptions"], table="pairs"))
        [advice] = [each for each in warnings("indexes", url, schema) if "pairs" in each]
        assert "It is behind a view, which cannot have an index" in advice
        execute(url, advice.partition("and run: ")[2].replace('ON "pairs"', 'ON "members"'))
        self.follow(url, schema)

    def test_no_primary_keys(self, host_url: str) -> None:
        """A table without a primary key needs an index, and so do the messages of a list."""
        people = PEOPLE.replace(" PRIMARY KEY", "")
        mailings = "CREATE TABLE mailings (id integer, campaign_id integer)"
        execute(host_url, "DROP TABLE people", people, mailings)
        schema = replace(
            HOST,
            dispatches=Role("sends", {**SENDS, "message_id": "campaign_id"}),
            messages=Role("mailings", {"list_id": "campaign_id"}),
        )
        texts = " ".join(warnings("indexes", host_url, schema)).replace('"', "")
        assert "ON people (id)" in texts
        assert "ON mailings (id)" in texts
        self.follow(host_url, schema)


def test_command(command: Command) -> None:
    """A line, or an object, for each result; a warning leaves the status at 0, an error is 1."""
    command.call("db", "upgrade")
    done = command.call("check", HOOKROW_SECRET="short")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("warning  secret      It has 5 characters")
    assert "\nok       database    sqlite:///hookrow.db responds.\n" in done.stdout
    (command.folder / "hookrow.toml").write_text("[tables.subscribers]\ntable = 'people'")
    done = command.call("check", "--json", HOOKROW_SECRET=SECRET)
    first, *others = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, done.stderr) == (1, "")
    assert first == {
        "level": "ok",
        "subject": "secret",
        "text": "It is set.",
        "meaning": "",
        "remedy": "",
    }
    [error] = [each for each in others if each["level"] == "error"]
    assert "no table 'people'" in error["text"]
