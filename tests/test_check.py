"""`hookrow check`: what it finds, what it says to do, and that doing it helps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import SQLAlchemyError

from command import Command
from hookrow import Postmark, Receiver, Role, Schema, testing
from hookrow.check import check
from hookrow.finding import Explained, Finding, Level
from hookrow.migrations import upgrade
from hookrow.settings import Settings
from hookrow.stores.engines import open_engine, opened
from hookrow.stores.sql import SQLStore
from postgres import Server
from wire import SECRET

BARE = {"suppressed_at": None, "suppression_reason": None, "suppression_changed_at": None}
UNDATED = {"suppression_reason": None, "suppression_changed_at": None}

SENDS = {"provider_message_id": "postmark_id", "subscriber_id": "person_id"}
MEMBERS = {"list_id": "campaign_id", "subscriber_id": "person_id"}

THEIRS = Schema(
    subscribers=Role("people", {"email": "address", **UNDATED}),
    dispatches=Role("sends", {**SENDS, "list_id": "campaign_id", **BARE}),
    subscriptions=Role("members", {**MEMBERS, **BARE}),
    log=None,
)

THEIR_FILE = """
[tables.subscribers]
table = "people"
columns = { email = "address", suppression_reason = false, suppression_changed_at = false }

[tables.dispatches]
table = "sends"
[tables.dispatches.columns]
provider_message_id = "postmark_id"
subscriber_id = "person_id"
list_id = "campaign_id"
suppressed_at = false
suppression_reason = false
suppression_changed_at = false

[tables.subscriptions]
table = "members"
[tables.subscriptions.columns]
list_id = "campaign_id"
subscriber_id = "person_id"
suppressed_at = false
suppression_reason = false
suppression_changed_at = false
"""

PEOPLE = "CREATE TABLE people (id integer PRIMARY KEY, address text, suppressed_at timestamp)"
SENDS_TABLE = (
    "CREATE TABLE sends (id integer PRIMARY KEY, postmark_id text, person_id integer, "
    "campaign_id integer, delivered_at timestamp, opened_at timestamp)"
)
MEMBERS_TABLE = "CREATE TABLE members (campaign_id integer, person_id integer)"


def execute(url: str, *statements: str) -> None:
    """Run statements on a database."""
    engine = open_engine(url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def with_clock(url: str, now: str) -> str:
    """Give a PostgreSQL database a clock that says so; return the URL by which it has it."""
    for name in ("now", "clock_timestamp", "transaction_timestamp", "statement_timestamp"):
        execute(
            url,
            f"CREATE FUNCTION public.{name}() RETURNS timestamptz LANGUAGE sql AS "
            f"$$ SELECT ({now})::timestamptz $$",
        )
    path = {"options": "-csearch_path=public,pg_catalog"}
    return make_url(url).update_query_dict(path).render_as_string(hide_password=False)


def found(
    url: str, schema: Schema | None = None, secrets: tuple[str, ...] = (SECRET,)
) -> list[Finding]:
    """Check; return everything that was found."""
    schema = schema or Schema()
    return list(check(Settings(secrets=secrets, database_url=url, schema=schema)))


def about(findings: list[Finding], name: str) -> Finding:
    """Return the one finding about a thing."""
    (finding,) = (finding for finding in findings if finding.about == name)
    return finding


def looked_at(printed: str) -> list[str]:
    """Return the lines but for those that tell where settings came from, which end it."""
    lines = printed.splitlines()
    count = sum("setting " not in line and '"setting"' not in line for line in lines)
    assert not any("setting " in line or '"setting"' in line for line in lines[:count])
    return lines[:count]


def advised(findings: list[Finding]) -> list[str]:
    """Return the statements that the findings say to run."""
    return [
        finding.text.partition("Run: ")[2]
        for finding in findings
        if (finding.level, finding.about) == (Level.WARNING, "indexes")
    ]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return the command, in an empty folder."""
    return Command(tmp_path)


class TestSecrets:
    @pytest.mark.parametrize(
        ("secrets", "level", "says"),
        [
            ((SECRET,), Level.OK, "It is set."),
            (("x" * 16, SECRET), Level.OK, "It is set."),
            (("x" * 15,), Level.WARNING, "15 characters"),
            ((SECRET, "x" * 15), Level.WARNING, "15 characters"),
            ((), Level.ERROR, "missing or empty"),
            (("",), Level.ERROR, "missing or empty"),
            (("with a space in it",), Level.ERROR, "without spaces"),
            ((SECRET, "größe"), Level.ERROR, "visible ASCII"),
        ],
    )
    def test_each(self, sqlite_url: str, secrets: tuple[str, ...], level: Level, says: str) -> None:
        """A missing secret or an impossible one is an error, a short one a warning."""
        finding = about(found(sqlite_url, secrets=secrets), "secret")
        assert finding.level is level
        assert says in finding.text
        assert not any(secret and secret in finding.text for secret in secrets)


class TestDatabase:
    def test_all_is_well(self, database_url: str) -> None:
        """On tables of our own everything is well."""
        findings = found(database_url)
        assert {finding.level for finding in findings} == {Level.OK}
        things = ["secret", "database", "migrations", "tables", "indexes"]
        assert [finding.about for finding in findings] == things

    def test_not_made(self, empty_database_url: str) -> None:
        """Where our tables are not there the command that makes them is named."""
        finding = found(empty_database_url)[-1]
        assert finding.level is Level.ERROR
        assert finding.text.endswith("Run: hookrow db upgrade")

    def test_looks_only(self, tmp_path: Path, empty_sqlite_url: str) -> None:
        """Looking makes no file."""
        found(empty_sqlite_url)
        assert list(tmp_path.iterdir()) == []

    def test_newer(self, database_url: str) -> None:
        """Where a later hookrow made the tables it says so, and advises no upgrade."""
        execute(
            database_url,
            "UPDATE hookrow_version SET version_num = '9999' WHERE version_num = '0001'",
        )
        finding = about(found(database_url), "migrations")
        assert finding.level is Level.ERROR
        assert "9999" in finding.text
        assert "hookrow db upgrade" not in finding.text

    def test_two_revisions(self, database_url: str) -> None:
        """A version table that nobody of us left like this is an error, not a traceback."""
        execute(database_url, "INSERT INTO hookrow_version VALUES ('0000')")
        assert found(database_url)[-1].level is Level.ERROR

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://ada:hunter2@127.0.0.1:1/mail",
            "postgresql://ada@127.0.0.1:1/mail?password=hunter2",
            "postgresql://ada:hunter2@/mail?host=/nonexistent",
        ],
    )
    def test_not_there(self, url: str) -> None:
        """A database that does not answer is one error, without the password."""
        finding = about(found(url), "database")
        assert finding.level is Level.ERROR
        assert "Start it, or set HOOKROW_DATABASE_URL." in finding.text
        assert "hunter2" not in finding.text

    @pytest.mark.parametrize(
        ("url", "says"),
        [
            ("mysql://ada:hunter2@db/mail", "PostgreSQL and SQLite, not on mysql"),
            ("hunter2", "This is no database URL"),
            ("postgresql://ada:hunter2@db:port/mail", "This is no database URL"),
            ("postgresql+nosuch://ada:hunter2@db/mail", "write postgresql:// instead"),
            ("postgresql+asyncpg://ada:hunter2@db/mail", "write postgresql:// instead"),
            ("sqlite+aiosqlite:///hunter2.db", "write sqlite:// instead"),
        ],
    )
    def test_unknown(self, url: str, says: str) -> None:
        """A database that hookrow does not know, or no URL at all, is an error without secrets."""
        finding = about(found(url), "database")
        assert finding.level is Level.ERROR
        assert says in finding.text
        assert "hunter2" not in finding.text

    def test_no_database_at_all(self, tmp_path: Path) -> None:
        """A file that is no database is an error."""
        (tmp_path / "x.db").write_text("This is a letter. " * 100)
        finding = about(found(f"sqlite:///{tmp_path}/x.db"), "database")
        assert finding.level is Level.ERROR
        assert "file is not a database" in finding.text

    def test_password_is_masked(self, postgres_url: str) -> None:
        """The database is named without its password, also where that is an option."""
        url = make_url(postgres_url).set(password="hunter2")
        for told in (url.render_as_string(hide_password=False), f"{postgres_url}&password=hunter2"):
            finding = about(found(told), "database")
            assert finding.level is Level.OK
            assert "hunter2" not in finding.text
            assert (url.database or "?") in finding.text


class TestClock:
    @pytest.mark.parametrize(
        ("seconds", "says"),
        [
            ("3 days", "3 days behind"),
            ("90 minutes", "90 minutes behind"),
            ("70 seconds", "70 seconds behind"),
            ("-1 day", "24 hours ahead of"),
        ],
    )
    def test_they_differ(self, postgres_url: str, seconds: str, says: str) -> None:
        """By how much and in which direction, what it leads to, and what to do."""
        url = with_clock(postgres_url, f"pg_catalog.clock_timestamp() + '{seconds}'::interval")
        finding = about(found(url), "clock")
        assert isinstance(finding, Explained)
        assert finding.level is Level.WARNING
        assert finding.text == f"This machine's clock is {says} the database's."
        assert "ChangedAt" in finding.means
        assert "NTP" in finding.change

    @pytest.mark.parametrize("seconds", [-40, 0, 40])
    def test_they_hardly_differ(self, postgres_url: str, seconds: int) -> None:
        """A difference of less than a minute is none."""
        url = with_clock(postgres_url, f"pg_catalog.clock_timestamp() + '{seconds} s'::interval")
        assert {finding.level for finding in found(url)} == {Level.OK}

    def test_a_slow_query(self, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """The duration of the query is excluded."""
        now = iter([datetime.now(UTC).timestamp() - 600, datetime.now(UTC).timestamp() + 600])
        monkeypatch.setattr("hookrow.clocks.time", lambda: next(now))
        assert {finding.level for finding in found(postgres_url)} == {Level.OK}

    def test_it_cannot_be_read(self, postgres_url: str) -> None:
        """That is a warning, and everything else is looked at."""
        findings = found(with_clock(postgres_url, "(1 / 0)::text::timestamptz"))
        assert about(findings, "clock").text.startswith("It could not be compared: ")
        assert about(findings, "indexes").level is Level.OK

    def test_1970(self, command: Command, empty_postgres_url: str) -> None:
        """A database in the year 1970 is a clear finding, and records all the same."""
        url = with_clock(empty_postgres_url, "'1970-01-01 00:00:01Z'")
        told = ("--database-url", url)
        assert command.run("db", "upgrade", *told).returncode == 0
        execute(url, "INSERT INTO hookrow_subscribers (email) VALUES ('ada@example.com')")
        sent = "INSERT INTO hookrow_dispatches (provider_message_id, subscriber_id) VALUES ('m', 1)"
        execute(url, sent)
        with opened(url) as engine, engine.connect() as connection:
            created = text("SELECT created_at FROM hookrow_dispatches")
            assert connection.scalar(created) == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
        with closing(SQLStore(url)) as store:
            receiver = Receiver(Postmark(SECRET), store, sweep=True)
            for payload, status in (
                (testing.delivery("ada@example.com", "m", at=datetime.now(UTC)), 200),
                (testing.opening("ada@example.com", "n", at=datetime.now(UTC)), 404),
            ):
                assert testing.post(receiver, payload, secret=SECRET)[0] == status
        done = command.run("check", *told, HOOKROW_SECRET=SECRET)
        assert (done.returncode, done.stderr) == (0, "")
        assert "warning  clock       This machine's clock is 20," in done.stdout
        for looking in ("stats", "log", "prune"):
            assert command.run(looking, *told).returncode == 0


class TestTables:
    @pytest.fixture
    def onlooker(self, postgres: Server, empty_postgres_url: str) -> Iterator[str]:
        """Return a database with a host's tables as a user may see who must not read them."""
        execute(empty_postgres_url, PEOPLE, SENDS_TABLE, MEMBERS_TABLE)
        postgres.execute("CREATE ROLE onlooker LOGIN")
        execute(empty_postgres_url, "GRANT USAGE ON SCHEMA public TO onlooker")
        yield empty_postgres_url.replace("//postgres@", "//onlooker@")
        execute(empty_postgres_url, "DROP OWNED BY onlooker", "DROP ROLE onlooker")

    def test_not_to_be_read(self, onlooker: str) -> None:
        """Tables that are there and must not be read are an error."""
        finding = found(onlooker, THEIRS)[-1]
        assert finding.level is Level.ERROR
        assert "permission denied" in finding.text

    @pytest.fixture
    def url(self, empty_database_url: str) -> str:
        """Return a database with tables of a host's own, without any index."""
        execute(empty_database_url, PEOPLE, SENDS_TABLE, MEMBERS_TABLE)
        return empty_database_url

    def test_theirs(self, url: str) -> None:
        """On tables of a host's own, and no log, nothing is said of migrations."""
        findings = found(url, THEIRS)
        assert about(findings, "tables").level is Level.OK
        assert "migrations" not in {finding.about for finding in findings}

    def test_theirs_and_the_log(self, url: str) -> None:
        """Beside tables of a host's own the log is looked at, and the advice makes it."""
        schema = replace(THEIRS, log=Schema().log)
        finding = found(url, schema)[-1]
        assert finding.level is Level.ERROR
        assert finding.text == "Our tables are not made yet. Run: hookrow db upgrade"
        with opened(url) as engine:
            upgrade(engine, schema)
        findings = found(url, schema)
        assert about(findings, "migrations").text == "Our tables are at 0002, the newest."
        assert about(findings, "tables").level is Level.OK

    def test_ours_without_the_log(self, empty_database_url: str) -> None:
        """Tables of a version that had no log are told to be upgraded, unless it is left out."""
        without = Schema(log=None)
        with opened(empty_database_url) as engine:
            upgrade(engine, without)
        finding = found(empty_database_url)[-1]
        assert finding.level is Level.ERROR
        assert finding.text == (
            "Our tables are at 0001, not at 0001 and 0002. Run: hookrow db upgrade"
        )
        assert {each.level for each in found(empty_database_url, without)} == {Level.OK}

    @pytest.mark.parametrize(
        ("role", "says"),
        [
            (Role("persons", {"email": "address", **UNDATED}), "no table 'persons'"),
            (Role("peeple", {"email": "address", **UNDATED}), "Did you mean 'people'?"),
            (Role("people", {"email": "adress", **UNDATED}), "Did you mean 'address'?"),
            (Role("people", {"email": "address"}), "no column 'suppression_reason'"),
        ],
    )
    def test_missing(self, url: str, role: Role, says: str) -> None:
        """A missing table or column is named, with the nearest that there is."""
        finding = about(found(url, replace(THEIRS, subscribers=role)), "tables")
        assert finding.level is Level.ERROR
        assert says in finding.text

    def test_ours_without_its_index(self, database_url: str) -> None:
        """An index of ours that somebody dropped is missed, and comes back."""
        execute(database_url, "DROP INDEX hookrow_subscribers_email")
        (statement,) = advised(found(database_url))
        execute(database_url, statement)
        assert about(found(database_url), "indexes").level is Level.OK

    def test_half_of_a_pair(self, url: str) -> None:
        """An index on the list alone does not count: a list may have a million members."""
        execute(url, "CREATE INDEX half ON members (campaign_id)")
        assert [one for one in advised(found(url, THEIRS)) if "members" in one]

    def test_partial_index(self, url: str) -> None:
        """An index on the dispatches that were sent serves, for only those are looked for."""
        execute(url, "CREATE INDEX sent ON sends (postmark_id) WHERE postmark_id IS NOT NULL")
        assert not [one for one in advised(found(url, THEIRS)) if "sends" in one]

    def test_names_that_need_quotes(self, empty_database_url: str) -> None:
        """What is advised can be run whatever the tables are called."""
        execute(
            empty_database_url,
            PEOPLE.replace("people", '"The 100% People"').replace("address", '"%-Mail"'),
            SENDS_TABLE.replace("postmark_id", '"select"'),
        )
        schema = Schema(
            subscribers=Role("The 100% People", {"email": "%-Mail", **UNDATED}),
            dispatches=Role(
                "sends", {**SENDS, "provider_message_id": "select", "list_id": None, **BARE}
            ),
            subscriptions=None,
            log=None,
        )
        findings = found(empty_database_url, schema)
        execute(empty_database_url, *advised(findings))
        if make_url(empty_database_url).get_backend_name() == "postgresql":
            zoned = [each.text.partition("run: ")[2] for each in findings if each.about == "times"]
            execute(empty_database_url, *zoned)
        findings = found(empty_database_url, schema)
        assert {each.level for each in findings} == {Level.OK}

    def test_long_names(self, empty_database_url: str) -> None:
        """What is advised can be run however long the names are that a database takes."""
        table, column = "p" * 60, "a" * 60
        execute(
            empty_database_url,
            PEOPLE.replace("people", table).replace("address", column),
            SENDS_TABLE,
        )
        schema = Schema(
            subscribers=Role(table, {"email": column, **UNDATED}),
            dispatches=Role("sends", {**SENDS, "list_id": None, **BARE}),
            subscriptions=None,
            log=None,
        )
        execute(empty_database_url, *advised(found(empty_database_url, schema)))
        assert about(found(empty_database_url, schema), "indexes").level is Level.OK

    @pytest.mark.parametrize("kind", ["", "clob", "varchar(36)", "uuid", "string", "blob", "date"])
    def test_types(self, empty_sqlite_url: str, kind: str) -> None:
        """On SQLite a column may be of any type, or of none."""
        execute(
            empty_sqlite_url,
            PEOPLE.replace("address text", f"address {kind}"),
            SENDS_TABLE.replace("postmark_id text", f"postmark_id {kind}"),
            MEMBERS_TABLE.replace("integer", kind),
        )
        execute(empty_sqlite_url, *advised(found(empty_sqlite_url, THEIRS)))
        assert about(found(empty_sqlite_url, THEIRS), "indexes").level is Level.OK

    @pytest.mark.parametrize(
        ("key", "kind"),
        [
            *(("uuid", "text"), ("bigint", "varchar(36)"), ("text", "char(36)")),
            *(("numeric", "text"), ("bytea", "text"), ("inet", "text")),
        ],
    )
    def test_types_of_postgres(self, empty_postgres_url: str, key: str, kind: str) -> None:
        """On PostgreSQL keys may be UUIDs or text, and names of any kind of text."""
        execute(
            empty_postgres_url,
            PEOPLE.replace("integer", key).replace("address text", f"address {kind}"),
            SENDS_TABLE.replace("integer", key).replace("postmark_id text", f"postmark_id {kind}"),
            MEMBERS_TABLE.replace("integer", key),
        )
        execute(empty_postgres_url, *advised(found(empty_postgres_url, THEIRS)))
        assert about(found(empty_postgres_url, THEIRS), "indexes").level is Level.OK


class TestHosts:
    """What works on a host's tables, and could be better."""

    @pytest.fixture
    def url(self, empty_database_url: str) -> str:
        """Return a database with tables of a host's own, and all the indexes that they need."""
        execute(empty_database_url, PEOPLE, SENDS_TABLE, MEMBERS_TABLE)
        execute(empty_database_url, *advised(found(empty_database_url, THEIRS)))
        return empty_database_url

    def test_another_fold(self, empty_database_url: str) -> None:
        """Where emails have another index, its fold is named beside the index that lacks."""
        execute(empty_database_url, PEOPLE, SENDS_TABLE, MEMBERS_TABLE)
        execute(empty_database_url, "CREATE INDEX plain ON people (address)")
        [finding] = [each for each in found(empty_database_url, THEIRS) if "address" in each.text]
        assert 'There is an index for fold="exact": write that, or another. Run: C' in finding.text
        role = replace(THEIRS.subscribers, fold="exact")
        assert len(advised(found(empty_database_url, replace(THEIRS, subscribers=role)))) == 2

    def test_partitioned(self, empty_postgres_url: str) -> None:
        """No index can be made CONCURRENTLY on a partitioned table: how else is said."""
        sends = SENDS_TABLE.replace(" PRIMARY KEY", "")
        execute(empty_postgres_url, PEOPLE, f"{sends} PARTITION BY HASH (id)", MEMBERS_TABLE)
        part = "CREATE TABLE part PARTITION OF sends FOR VALUES WITH (MODULUS 1, REMAINDER 0)"
        execute(empty_postgres_url, part)
        findings = found(empty_postgres_url, THEIRS)
        partitioned = [each.text for each in findings if "ON sends (" in each.text]
        assert len(partitioned) == 2
        for said in partitioned:
            assert "attach to it; or, which holds up every writer, run: CREATE INDEX h" in said
            execute(empty_postgres_url, said.partition(", run: ")[2])
        assert "sends" not in "".join(advised(found(empty_postgres_url, THEIRS)))

    def test_view(self, empty_database_url: str) -> None:
        """A view has no index: the table behind it is to have one."""
        execute(empty_database_url, PEOPLE, SENDS_TABLE, MEMBERS_TABLE)
        execute(empty_database_url, "CREATE VIEW pairs AS SELECT * FROM members")
        assert THEIRS.subscriptions is not None
        schema = replace(THEIRS, subscriptions=replace(THEIRS.subscriptions, table="pairs"))
        [said] = [each.text for each in found(empty_database_url, schema) if "pairs" in each.text]
        assert "It is behind a view, which has no index: name that table in this" in said
        execute(
            empty_database_url, said.partition("and run: ")[2].replace("ON pairs", "ON members")
        )
        assert "pairs" not in "".join(each.text for each in found(empty_database_url, schema))

    def test_messages(self, url: str) -> None:
        """Where a list hangs on a message, that is found by an index too."""
        execute(url, "CREATE TABLE mailings (id integer, campaign_id integer)")
        columns = {**SENDS, "message_id": "campaign_id", **BARE}
        schema = replace(
            THEIRS,
            dispatches=Role("sends", columns),
            messages=Role("mailings", {"list_id": "campaign_id"}),
        )
        [statement] = advised(found(url, schema))
        assert "ON mailings (id)" in statement
        execute(url, statement)
        assert about(found(url, schema), "indexes").level is Level.OK

    def test_without_keys(self, url: str) -> None:
        """A table needs no primary key, but an index by which a row is changed."""
        execute(url, "ALTER TABLE people RENAME TO readers")
        execute(url, "CREATE TABLE people AS SELECT * FROM readers")
        key, email = sorted(advised(found(url, THEIRS)), key=len)
        assert "ON people (id)" in key
        assert "address" in email

    def test_emails_that_differ_by_case(self, url: str) -> None:
        """How many, one of them without its name, and which row is taken."""
        values = "(1, 'ada@example.com'), (2, 'ADA@example.com'), (3, 'bea@example.com'), (4, NULL)"
        execute(url, f"INSERT INTO people (id, address) VALUES {values}")
        finding = about(found(url, THEIRS), "emails")
        assert finding.level is Level.WARNING
        assert "of 1 email, such as a***@example.com" in finding.text
        assert "the lowest id" in finding.text

    def test_a_table_too_large_to_read(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """What takes too long is a warning, and the rest is looked at."""
        slow = SQLAlchemyError("too long")
        monkeypatch.setattr("hookrow.check.duplicates", Mock(side_effect=slow))
        findings = found(url, THEIRS)
        assert about(findings, "emails").text.startswith("They could not be compared")
        assert about(findings, "indexes").level is Level.OK

    def test_times_without_a_zone(self, empty_postgres_url: str) -> None:
        """Each is named with the statement that keeps the instant, and that helps."""
        execute(empty_postgres_url, PEOPLE, SENDS_TABLE, MEMBERS_TABLE)
        execute(empty_postgres_url, "INSERT INTO people VALUES (1, 'a', '2026-03-04 05:06:07')")
        warned = [each for each in found(empty_postgres_url, THEIRS) if each.about == "times"]
        assert len(warned) == 3
        execute(empty_postgres_url, *(each.text.partition("run: ")[2] for each in warned))
        assert "times" not in {each.about for each in found(empty_postgres_url, THEIRS)}
        with opened(empty_postgres_url) as engine, engine.connect() as connection:
            assert connection.scalar(text("SELECT suppressed_at FROM people")) == datetime(
                2026, 3, 4, 5, 6, 7, tzinfo=UTC
            )


class TestCommand:
    def test_text(self, command: Command, sqlite_url: str) -> None:
        """A line says how bad, about what, and what; where nothing is wrong the status is 0."""
        done = command.run("check", HOOKROW_SECRET=SECRET, HOOKROW_DATABASE_URL=sqlite_url)
        assert (done.returncode, done.stderr) == (0, "")
        assert looked_at(done.stdout) == [
            "ok       secret      It is set.",
            f"ok       database    {sqlite_url} answers.",
            "ok       migrations  Our tables are at 0001 and 0002, the newest.",
            "ok       tables      All tables and columns are there.",
            "ok       indexes     Every lookup has an index.",
        ]

    def test_json(self, command: Command, postgres_url: str) -> None:
        """With --json each line is an object."""
        variables = {"HOOKROW_SECRET": SECRET, "HOOKROW_DATABASE_URL": postgres_url}
        done = command.run("check", "--json", **variables)
        assert (done.returncode, done.stderr) == (0, "")
        objects = [json.loads(line) for line in looked_at(done.stdout)]
        assert objects[0] == {"level": "ok", "about": "secret", "text": "It is set."}
        assert [one["level"] for one in objects] == ["ok"] * 5

    @pytest.mark.parametrize("options", [(), ("--json",)])
    def test_error(self, command: Command, empty_postgres_url: str, options: tuple[str]) -> None:
        """Where there is an error the status is 1, and everything else is looked at still."""
        done = command.run("check", "--database-url", empty_postgres_url, *options)
        assert (done.returncode, done.stderr) == (1, "")
        lines = looked_at(done.stdout)
        assert ["error" in line for line in lines] == [True, False, True]

    def test_warning(self, command: Command, sqlite_url: str) -> None:
        """A warning alone leaves the status at 0."""
        done = command.run("check", "--secret", "short", "--database-url", sqlite_url)
        assert done.returncode == 0
        assert done.stdout.startswith("warning  secret      It has 5 characters")

    def test_theirs(self, command: Command, empty_postgres_url: str) -> None:
        """The tables that hookrow.toml names are looked at, and the advice helps."""
        execute(empty_postgres_url, PEOPLE, SENDS_TABLE, MEMBERS_TABLE)
        (command.folder / "hookrow.toml").write_text(THEIR_FILE)
        variables = {"HOOKROW_SECRET": SECRET, "HOOKROW_DATABASE_URL": empty_postgres_url}
        refused = command.run("check", **variables)
        assert refused.returncode == 1
        assert looked_at(refused.stdout)[-1].endswith("Run: hookrow db upgrade")
        command.run("db", "upgrade", **variables)
        done = command.run("check", **variables)
        assert done.returncode == 0
        advice = [line.partition("Run: ")[2] for line in looked_at(done.stdout)[4:]]
        execute(empty_postgres_url, *advice)
        assert "ok       indexes" in command.run("check", **variables).stdout
