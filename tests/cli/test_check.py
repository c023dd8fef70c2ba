"""`hookrow check`: what is found in the settings and the database, and that the advice helps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import SQLAlchemyError

from command import Command
from hookrow import Role, Schema
from hookrow.check import check
from hookrow.finding import Finding, Level
from hookrow.migrations import upgrade
from hookrow.settings import Settings
from hookrow.stores.engines import opened
from postgres import Databases
from wire import SECRET

BARE = {"suppressed_at": None, "suppression_reason": None, "suppression_changed_at": None}
UNDATED = {"suppression_reason": None, "suppression_changed_at": None}
SENDS = {"provider_message_id": "postmark_id", "subscriber_id": "person_id"}

MEMBERS = Role("members", {"list_id": "campaign_id", "subscriber_id": "person_id", **BARE})
HOST = Schema(
    subscribers=Role("people", {"email": "address", **UNDATED}),
    dispatches=Role("sends", {**SENDS, "list_id": "campaign_id", **BARE}),
    subscriptions=MEMBERS,
    log=None,
)

PEOPLE = "CREATE TABLE people (id integer PRIMARY KEY, address text, suppressed_at timestamp)"
SENDS_TABLE = (
    "CREATE TABLE sends (id integer PRIMARY KEY, postmark_id text, person_id integer, "
    "campaign_id integer, delivered_at timestamp, opened_at timestamp)"
)
MEMBERS_TABLE = "CREATE TABLE members (campaign_id integer, person_id integer)"


@pytest.fixture
def url(empty_sqlite_url: str) -> str:
    """Return the URL of an SQLite file with the host's tables, without any index."""
    execute(empty_sqlite_url, PEOPLE, SENDS_TABLE, MEMBERS_TABLE)
    return empty_sqlite_url


@pytest.fixture
def host_postgres_url(empty_postgres_url: str) -> str:
    """Return the URL of a PostgreSQL database with the same tables."""
    execute(empty_postgres_url, PEOPLE, SENDS_TABLE, MEMBERS_TABLE)
    return empty_postgres_url


def execute(url: str, *statements: str) -> None:
    """Run statements on a database."""
    with (
        opened(url) as engine,
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
    ):
        for statement in statements:
            connection.execute(text(statement))


def found(url: str, schema: Schema | None = None) -> list[Finding]:
    """Return all findings."""
    schema = schema or Schema()
    return list(check(Settings(secrets=(SECRET,), database_url=url, schema=schema)))


def about(findings: list[Finding], name: str) -> Finding:
    """Return the one finding about a subject."""
    (finding,) = (finding for finding in findings if finding.about == name)
    return finding


def warnings(url: str, schema: Schema, name: str) -> list[str]:
    """Return the texts of the warnings about a subject."""
    findings = found(url, schema)
    return [each.text for each in findings if (each.level, each.about) == (Level.WARNING, name)]


def follow(url: str, schema: Schema = HOST) -> None:
    """Run the statements that are advised for indexes; assert that no lookup lacks one then."""
    advised = warnings(url, schema, "indexes")
    execute(url, *(each.partition("Run: ")[2] for each in advised))
    assert about(found(url, schema), "indexes").level is Level.OK


@pytest.mark.parametrize(
    ("secrets", "level", "says"),
    [
        (("x" * 16, SECRET), Level.OK, "It is set."),
        ((SECRET, "x" * 15), Level.WARNING, "15 characters"),
        (("",), Level.ERROR, "missing or empty"),
        ((SECRET, "größe"), Level.ERROR, "visible ASCII"),
    ],
)
def test_secrets(secrets: tuple[str, ...], level: Level, says: str) -> None:
    """A missing or impossible secret is an error, a short one a warning; none is shown."""
    finding = next(check(Settings(secrets=secrets, database_url="")))
    assert (finding.about, finding.level) == ("secret", level)
    assert says in finding.text
    assert not any(secret and secret in finding.text for secret in secrets)


def test_secret_file(tmp_path: Path) -> None:
    """A secret file that other users may read is a warning."""
    file = tmp_path / "secrets"
    file.write_text(SECRET)
    for mode, level in ((0o600, Level.OK), (0o640, Level.WARNING)):
        file.chmod(mode)
        finding = next(check(Settings(secret_file=str(file), database_url="")))
        assert finding.level is level
    assert f"chmod 600 {file}" in finding.text


class TestDatabase:
    def test_healthy(self, postgres_url: str) -> None:
        """On hookrow's own tables everything is well; the URL's password is not shown."""
        findings = found(f"{postgres_url}&password=hunter2")
        assert [(each.level, each.about) for each in findings] == [
            (Level.OK, name) for name in ("secret", "database", "migrations", "tables", "indexes")
        ]
        assert (make_url(postgres_url).database or "?") in findings[1].text
        assert "hunter2" not in findings[1].text

    def test_newer(self, sqlite_url: str) -> None:
        """Tables of a later version are an error that does not advise an upgrade."""
        execute(sqlite_url, "INSERT INTO hookrow_version VALUES ('9999')")
        finding = about(found(sqlite_url), "migrations")
        assert (finding.level, "9999" in finding.text) == (Level.ERROR, True)
        assert "hookrow db upgrade" not in finding.text

    def test_no_log(self, empty_sqlite_url: str) -> None:
        """Tables without a log need an upgrade, unless the log is turned off."""
        with opened(empty_sqlite_url) as engine:
            upgrade(engine, Schema(log=None))
        finding = found(empty_sqlite_url)[-1]
        assert (finding.level, finding.text) == (
            Level.ERROR,
            "Our tables are at 0001, not at 0001 and 0002. Run: hookrow db upgrade",
        )
        assert {each.level for each in found(empty_sqlite_url, Schema(log=None))} == {Level.OK}

    @pytest.mark.parametrize(
        ("url", "says"),
        [
            ("sqlite:///none.db", "There is no none.db. Run: hookrow db upgrade"),
            (f"sqlite:///{__file__}", "file is not a database"),
            ("postgresql://ada:hunter2@127.0.0.1:1/mail", "Start it, or set HOOKROW_DATABASE_URL."),
            ("postgresql://ada@127.0.0.1:1/mail?password=hunter2", "Start it, or set HOOKROW_D"),
            ("postgresql+asyncpg://ada:hunter2@db/mail", "write postgresql:// instead"),
            ("mysql://ada:hunter2@db/mail", "PostgreSQL and SQLite, not on mysql"),
            ("postgresql://ada:hunter2@db:port/mail", "This is no database URL"),
        ],
    )
    def test_unusable(self, url: str, says: str) -> None:
        """A database that cannot be used is an error, without the password."""
        finding = about(found(url), "database")
        assert finding.level is Level.ERROR
        assert says in finding.text
        assert "hunter2" not in finding.text


@pytest.mark.parametrize(
    ("now", "text"),
    [
        ("'1970-01-01 00:00:01Z'", "This machine's clock is 20,"),
        ("(1 / 0)::text", "It could not be compared: "),
    ],
)
def test_clock(postgres_url: str, now: str, text: str) -> None:
    """A clock that is wrong, or cannot be read, is a warning, and the other checks follow."""
    for name in ("now", "clock_timestamp", "transaction_timestamp", "statement_timestamp"):
        execute(
            postgres_url,
            f"CREATE FUNCTION public.{name}() RETURNS timestamptz LANGUAGE sql AS "
            f"$$ SELECT ({now})::timestamptz $$",
        )
    findings = found(f"{postgres_url}&options=-csearch_path%3Dpublic,pg_catalog")
    assert about(findings, "clock").level is Level.WARNING
    assert about(findings, "clock").text.startswith(text)
    assert about(findings, "indexes").level is Level.OK


class TestTables:
    @pytest.fixture
    def restricted(self, postgres: Databases, host_postgres_url: str) -> Iterator[str]:
        """Return a URL whose user may not read the host's tables."""
        name = f"restricted_{make_url(host_postgres_url).database}"
        postgres.execute(f"CREATE ROLE {name} LOGIN")
        execute(host_postgres_url, f"GRANT USAGE ON SCHEMA public TO {name}")
        yield host_postgres_url.replace("//postgres@", f"//{name}@")
        execute(host_postgres_url, f"DROP OWNED BY {name}", f"DROP ROLE {name}")

    def test_permission(self, restricted: str) -> None:
        """Tables that the user may not read are an error."""
        finding = found(restricted, HOST)[-1]
        assert finding.level is Level.ERROR
        assert "permission denied" in finding.text

    def test_host(self, url: str) -> None:
        """On the host's tables without a log, migrations are not mentioned; a log needs one."""
        assert {"tables", "indexes"} < {each.about for each in found(url, HOST)}
        assert "migrations" not in {each.about for each in found(url, HOST)}
        schema = replace(HOST, log=Schema().log)
        finding = found(url, schema)[-1]
        assert finding.level is Level.ERROR
        assert finding.text == "Our tables are not made yet. Run: hookrow db upgrade"
        with opened(url) as engine:
            upgrade(engine, schema)
        assert about(found(url, schema), "migrations").text == "Our tables are at 0002, the newest."

    def test_missing_column(self, url: str) -> None:
        """A missing column is an error that names a similar one."""
        role = Role("people", {"email": "adress", **UNDATED})
        finding = about(found(url, replace(HOST, subscribers=role)), "tables")
        assert finding.level is Level.ERROR
        assert "Did you mean 'address'?" in finding.text

    def test_ambiguous_emails(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Emails that differ by case only are a warning; so is a table too large to compare."""
        values = "(1, 'ada@example.com'), (2, 'ADA@example.com'), (3, 'bea@example.com'), (4, NULL)"
        execute(url, f"INSERT INTO people (id, address) VALUES {values}")
        [finding] = warnings(url, HOST, "emails")
        assert "of 1 email, such as a***@example.com" in finding
        assert "the lowest id" in finding
        monkeypatch.setattr("hookrow.check.duplicates", Mock(side_effect=SQLAlchemyError("slow")))
        assert warnings(url, HOST, "emails") == [
            "They could not be compared: SQLAlchemyError: slow"
        ]
        assert warnings(url, HOST, "indexes")

    def test_times_without_zone(self, host_postgres_url: str) -> None:
        """A column without a time zone is a warning; its statement keeps the instants."""
        url = host_postgres_url
        execute(url, "INSERT INTO people VALUES (1, 'a', '2026-03-04 05:06:07')")
        warned = warnings(url, HOST, "times")
        assert len(warned) == 3
        execute(url, *(each.partition("run: ")[2] for each in warned))
        assert not warnings(url, HOST, "times")
        with opened(url) as engine, engine.connect() as connection:
            assert connection.scalar(text("SELECT suppressed_at FROM people")) == datetime(
                2026, 3, 4, 5, 6, 7, tzinfo=UTC
            )


class TestIndexes:
    """A lookup without an index is a warning with the statement that creates it."""

    def test_names_and_types(self, empty_postgres_url: str) -> None:
        """The statements run whatever tables and columns are called, and whatever their types."""
        url, table, email = empty_postgres_url, "The 100% People" + "p" * 40, "%-Mail" + "a" * 50
        people = PEOPLE.replace("people", f'"{table}"').replace("address", f'"{email}"')
        sends = SENDS_TABLE.replace("postmark_id", '"select"')
        for created in (people, sends, MEMBERS_TABLE):
            types = created.replace("id integer", "id uuid").replace(" text", " char(36)")
            execute(url, types.replace("timestamp", "timestamptz"))
        columns = {**SENDS, "provider_message_id": "select", "list_id": "campaign_id", **BARE}
        role = Role(table, {"email": email, **UNDATED})
        follow(url, replace(HOST, subscribers=role, dispatches=Role("sends", columns)))

    def test_other_fold(self, url: str) -> None:
        """If emails have an index for another fold, that is named; partial ones are enough."""
        partial = "CREATE INDEX sent ON sends (postmark_id) WHERE postmark_id IS NOT NULL"
        execute(url, "CREATE INDEX plain ON people (address)", partial)
        [finding] = [each for each in warnings(url, HOST, "indexes") if "address" in each]
        assert 'There is an index for fold="exact": write that, or another. Run: C' in finding
        exact = replace(HOST, subscribers=replace(HOST.subscribers, fold="exact"))
        assert len(warnings(url, exact, "indexes")) == 1

    def test_partitioned(self, empty_postgres_url: str) -> None:
        """On a partitioned table no index can be created CONCURRENTLY; the advice says how."""
        url = empty_postgres_url
        sends = SENDS_TABLE.replace(" PRIMARY KEY", "")
        part = "CREATE TABLE part PARTITION OF sends FOR VALUES WITH (MODULUS 1, REMAINDER 0)"
        execute(url, PEOPLE, f"{sends} PARTITION BY HASH (id)", MEMBERS_TABLE, part)
        texts = [each for each in warnings(url, HOST, "indexes") if "ON sends (" in each]
        assert len(texts) == 2
        for each in texts:
            assert "attach to it; or, which holds up every writer, run: CREATE INDEX h" in each
            execute(url, each.partition(", run: ")[2])
        follow(url)

    def test_view(self, host_postgres_url: str) -> None:
        """A view has no index: the table behind it needs it."""
        url = host_postgres_url
        execute(url, "CREATE VIEW pairs AS SELECT * FROM members")
        schema = replace(HOST, subscriptions=replace(MEMBERS, table="pairs"))
        [advice] = [each for each in warnings(url, schema, "indexes") if "pairs" in each]
        assert "It is behind a view, which has no index: name that table in this" in advice
        execute(url, advice.partition("and run: ")[2].replace("ON pairs", "ON members"))
        follow(url, schema)

    def test_no_primary_keys(self, url: str) -> None:
        """A table without a primary key needs an index, and so do the messages of a list."""
        people = PEOPLE.replace(" PRIMARY KEY", "")
        mailings = "CREATE TABLE mailings (id integer, campaign_id integer)"
        execute(url, "DROP TABLE people", people, mailings)
        schema = replace(
            HOST,
            dispatches=Role("sends", {**SENDS, "message_id": "campaign_id", **BARE}),
            messages=Role("mailings", {"list_id": "campaign_id"}),
        )
        texts = " ".join(warnings(url, schema, "indexes"))
        assert "ON people (id)" in texts
        assert "ON mailings (id)" in texts
        follow(url, schema)


class TestCommand:
    def lines(
        self, command: Command, *arguments: str, secret: str = SECRET
    ) -> tuple[int, list[str]]:
        """Run the command; return its status, and the lines before those about settings."""
        done = command.call("check", *arguments, HOOKROW_SECRET=secret)
        assert done.stderr == ""
        return done.returncode, [each for each in done.stdout.splitlines() if "setting" not in each]

    def test_healthy(self, command: Command, sqlite_url: str) -> None:
        """A line has the level, the subject and the text; a warning leaves the status at 0."""
        status, [warning, *lines] = self.lines(command, secret="short")
        assert (status, warning[:38]) == (0, "warning  secret      It has 5 characte")
        assert lines == [
            "ok       database    sqlite:///hookrow.db answers.",
            "ok       migrations  Our tables are at 0001 and 0002, the newest.",
            "ok       tables      All tables and columns are there.",
            "ok       indexes     Every lookup has an index.",
        ]
        _, lines = self.lines(command, "--json")
        objects = [json.loads(line) for line in lines]
        assert objects[0] == {"level": "ok", "about": "secret", "text": "It is set."}
        assert [each["level"] for each in objects] == ["ok"] * 5
        execute(sqlite_url, "DROP INDEX hookrow_subscribers_email")
        follow(sqlite_url, Schema())

    def test_file(self, command: Command, sqlite_url: str) -> None:
        """The tables that hookrow.toml names are checked."""
        (command.folder / "hookrow.toml").write_text("[tables.subscribers]\ntable = 'people'")
        status, lines = self.lines(command, "--database-url", sqlite_url)
        assert status == 1
        assert "no table 'people'" in lines[-1]
