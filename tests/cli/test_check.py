"""`hookrow check`: faults of the settings and the database, and that the remedies work."""

import json
import os
import re
from base64 import b64encode
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from secrets import token_bytes, token_hex, token_urlsafe
from unittest.mock import Mock, patch
from uuid import uuid4

import msgspec
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from checking import check_at
from command import Command
from copying import replace
from databases import kind_of
from engines import create, database_user, opened, run
from hookrow import (
    Arrival,
    Delivered,
    Postmark,
    Recorded,
    Refusal,
    Role,
    Schema,
    SchemaMismatch,
    testing,
)
from hookrow._core.log_entry import log_entries
from hookrow._describe import format_time
from hookrow._diagnostics import CheckResult, Level
from hookrow._diagnostics.advice import WEAKNESSES, check_unauthentic, check_waiting
from hookrow._diagnostics.check import check_secrets
from hookrow._receiver.entries import POSTMARK, Entries, Entry, Parsers
from hookrow._receiver.recorder import record
from hookrow._receiver.spool import Spool
from hookrow._server.settings import EntrySettings
from hookrow.migrations import upgrade
from hookrow.providers._secrets import doubt_about
from hookrow.providers.resend import Resend
from hookrow.stores._errors import UPGRADE, Locked, StoreError, Unavailable
from hookrow.stores._log import RequestHour, RequestKind
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._transaction import SQLTransaction
from hookrow.stores.sql._verify import verify
from hookrow.stores.tables import attach
from received import arrival
from stand_in import PostmarkStandIn
from times import DAY, HOUR, MINUTE, NOON
from wire import ADA, SECRET

UNDATED = {"suppression_reason": None, "suppression_changed_at": None}
BARE = {"suppressed_at": None, **UNDATED}
SENDS = {"provider_message_id": "postmark_id", "subscriber_id": "person_id", **BARE}
HOST = Schema(
    subscribers=Role("people", {"email": "address", **UNDATED}),
    dispatches=Role("sends", {**SENDS, "list_id": "campaign_id"}),
    subscriptions=Role("members", {"list_id": "campaign_id", "subscriber_id": "person_id", **BARE}),
    log=None,
)
LOGGED = replace(HOST, log=Schema().log)
PEOPLE = "CREATE TABLE people (id integer PRIMARY KEY, address {name}, suppressed_at {timestamp})"
SENDS_TABLE = (
    "CREATE TABLE sends (id integer PRIMARY KEY, postmark_id {name}, person_id integer, "
    "campaign_id integer, delivered_at {timestamp}, opened_at {timestamp})"
)
MEMBERS_TABLE = "CREATE TABLE members (campaign_id integer, person_id integer)"


@pytest.fixture
def host_url(empty_sqlite_url: str) -> str:
    """Return the URL of an SQLite file with the host's tables, without any index."""
    create(empty_sqlite_url, PEOPLE, SENDS_TABLE, MEMBERS_TABLE)
    return empty_sqlite_url


@pytest.fixture
def host_postgres_url(empty_postgres_url: str) -> str:
    create(empty_postgres_url, PEOPLE, SENDS_TABLE, MEMBERS_TABLE)
    return empty_postgres_url


def found(url: str, schema: Schema = HOST) -> list[CheckResult]:
    return [*check_at(url, schema)]


def about(subject: str, url: str, schema: Schema = HOST) -> CheckResult:
    """Return the one result on a subject."""
    (result,) = (each for each in found(url, schema) if each.subject == subject)
    return result


def warnings(subject: str, url: str, schema: Schema = HOST) -> list[str]:
    """Return the warnings on a subject; assert that no error prevents its check."""
    results = found(url, schema)
    assert [each.text for each in results if each.level is Level.ERROR] == []
    return [each.text for each in results if (each.level, each.subject) == (Level.WARNING, subject)]


def follow(subject: str, url: str, schema: Schema = HOST) -> None:
    """Run the statements that are advised; assert that nothing is advised afterwards."""
    advised = warnings(subject, url, schema)
    assert advised
    run(url, *(re.split("run: ", each, flags=re.IGNORECASE)[1] for each in advised))
    assert not warnings(subject, url, schema)


@pytest.mark.parametrize(
    ("secrets", "level", "words"),
    [
        ((SECRET[:16], SECRET), Level.OK, "It is set."),
        ((SECRET, SECRET[:15]), Level.WARNING, "15 characters"),
        (("",), Level.ERROR, "missing or empty"),
        ((SECRET, "größe"), Level.ERROR, "contains a character that is not ASCII"),
        ((f"{SECRET}\n",), Level.ERROR, "ends with a line break"),
        ((f"{SECRET}\nx",), Level.ERROR, "contains a line break"),
        ((f" {SECRET}",), Level.ERROR, "begins with a space"),
        ((f"{SECRET}\t ",), Level.ERROR, "ends with a tab"),
        ((f"\ufeff{SECRET}",), Level.ERROR, "begins with a byte order mark"),
        ((f"{SECRET}\0",), Level.ERROR, "It is set in HOOKROW_SECRET, --secret or secret in"),
        ((SECRET, f'"{SECRET}"'), Level.WARNING, "is in quotes"),
        ((f"'{SECRET}'",), Level.WARNING, "is in quotes"),
        ((rf"{SECRET}\n",), Level.WARNING, "ends with a backslash and a letter"),
        ((f"HOOKROW_SECRET={SECRET}",), Level.WARNING, "begins with the name of a variable"),
        (("${HOOKROW_SECRET}",), Level.WARNING, "is a variable or a template"),
        (("<webhook-secret>",), Level.WARNING, "is a variable or a template"),
        (("your-webhook-secret-here",), Level.WARNING, "is a placeholder"),
        *(
            ((each,), Level.WARNING, "is a placeholder")
            for each in (
                *("change-me", "CHANGEME", "change_me_please", "test", "test-secret-123"),
                *("xxxxxxxx", "xxxx-xxxx-xxxx", "********", "my.super.secret.webhook.token"),
            )
        ),
        *(
            ((f"{name}=abc",), Level.WARNING, "begins with the name of a variable")
            for name in ("KEY_1", "KEY", "S3_KEY", "HOOKROW_SECRET_2")
        ),
        (("KQ8=",), Level.WARNING, "has 4 characters"),
        (("ABCDEFGHIJKLMNOPQRSTUVWXYZ2345==",), Level.OK, "It is set."),
        (("testament-horse-secret-battery",), Level.OK, "It is set."),
    ],
)
def test_secrets(secrets: tuple[str, ...], level: Level, words: str) -> None:
    """A missing or impossible secret is an error, a doubtful or short one a warning.

    The result names the fault, and shows no secret.
    """
    result = check_secrets(EntrySettings(credentials=secrets).read)
    assert (result.subject, result.level) == ("secret", level)
    assert words in result.text
    assert not any(secret and secret in result.text for secret in secrets)


@pytest.mark.parametrize(
    ("mode", "is_owner", "level"),
    [
        (0o600, True, Level.OK),
        (0o640, True, Level.WARNING),
        (0o440, False, Level.OK),
        (0o444, False, Level.WARNING),
    ],
)
def test_permissions_of_a_secret_file(
    mode: int, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_owner: bool
) -> None:
    """The group may read a file of another user, because this user may read it only as a member."""
    file = tmp_path / "secret"
    file.touch(mode)
    file.chmod(mode)
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + (not is_owner))
    assert check_secrets(lambda: [SECRET], str(file)).level is level


@pytest.mark.parametrize(
    "random_secret",
    [token_urlsafe, token_hex, uuid4, lambda: b64encode(token_bytes(32)).decode()],
)
def test_random_secrets(random_secret: Callable[[], object]) -> None:
    """No secret of a generator is doubted."""
    for _ in range(1000):
        assert doubt_about(str(random_secret())) is None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (
            "sqlite:///none.db",
            "none.db does not exist. If your application has its own tables, use its mapping",
        ),
        (
            "sqlite:///none.db",
            "restore it or mount its disk instead: `hookrow db upgrade` creates an empty one.",
        ),
        ("sqlite://", "in memory exists only in the process that opens it, for tests: name a file"),
        (
            "sqlite:///no/none.db",
            "no does not exist: create it. If your application has its own tables",
        ),
        (f"sqlite:///{__file__}/x.db", "x.db cannot be used: Not a directory. Name another file"),
        (f"sqlite:///{__file__}", "file is not a database. Name another file, or restore this"),
        ("postgresql://ada@127.0.0.1:1/mail?password=hunter2", "Start the database, or correct i"),
        ("mysql://ada:hunter2@127.0.0.1:1/mail", "Start the database, or correct i"),
        ("oracle://ada:hunter2@db/mail", "SQLite, MariaDB and MySQL, not on oracle"),
    ],
)
def test_unusable_database(command: Command, url: str, words: str) -> None:
    done = command.call("check", "--json", "--database-url", url, HOOKROW_SECRET=SECRET)
    [result] = (
        each for each in map(json.loads, done.stdout.splitlines()) if each["subject"] == "database"
    )
    assert (done.returncode, result["level"]) == (1, "error")
    assert words in f"{result['text']} {result['remedy']}"
    assert "hunter2" not in done.stdout


def test_a_table_of_revisions_that_is_not_hookrows(empty_sqlite_url: str) -> None:
    """The result is about the migrations, because the database itself works."""
    create(empty_sqlite_url, "CREATE TABLE hookrow_migrations (version integer)")
    [result] = found(empty_sqlite_url, Schema())
    assert (result.level, result.subject) == (Level.ERROR, "migrations")
    assert "has no column 'revision': it is not hookrow's" in result.text


def test_retries(database_url: str) -> None:
    """Parked entries are counted; those that are long overdue or expired have a remedy.

    An entry without a recipient, which nothing can record, has not expired.
    """
    url = database_url

    def expect(level: Level, text: str) -> None:
        result = about("retries", url, Schema())
        assert (result.level, result.text) == (level, text)

    def set_entries(values: str) -> None:
        run(url, f"UPDATE hookrow_notifications SET {values}")

    def ago(duration: timedelta) -> str:
        zone = "+00" if kind_of(url).keeps_offsets else ""
        return f"'{datetime.now(UTC) - duration:%Y-%m-%d %H:%M:%S.%f}{zone}'"

    expect(Level.OK, "0 notifications in the log will be retried.")
    with closing(SQLStore(url)) as store:
        record(store, [arrival(testing.opening("eve@example.com", "m-1", at=datetime.now(UTC)))])
    expect(Level.OK, "1 notification in the log will be retried.")
    set_entries(f"retry_at = {ago(3 * MINUTE)}")
    due = "1 notification in the log will be retried; the oldest retry has been due for "
    expect(Level.OK, f"{due}3 min.")
    set_entries(f"retry_at = {ago(5 * HOUR)}")
    lacks = "No sweep is running, or it cannot keep up: run `hookrow replay --parked`."
    expect(Level.WARNING, f"{due}5 h. {lacks}")
    set_entries("retry_at = NULL")
    none, see = (
        "0 notifications in the log will be retried. 1 notification, of which ",
        (
            "for unknown addresses, could not be recorded in time: see `hookrow log --expired`. "
            "Once their rows exist, `hookrow replay --expired` records them."
        ),
    )
    expect(Level.OK, f"{none}1 {see}")
    set_entries("recipient = NULL")
    expect(Level.OK, "0 notifications in the log will be retried.")
    set_entries("recipient = 'eve@example.com'")
    set_entries("outcome = 'failed'")
    expect(Level.WARNING, f"{none}0 {see}")


def test_own_tables(postgres_url: str) -> None:
    """On hookrow's own tables everything is well."""
    results = found(postgres_url, Schema())
    assert [(each.level, each.subject) for each in results] == [
        (Level.OK, name) for name in ("database", "migrations", "tables", "indexes", "retries")
    ]
    assert (make_url(postgres_url).database or "?") in results[0].text


def test_migrations(empty_sqlite_url: str) -> None:
    """The own tables of hookrow need an upgrade if the log is turned on."""
    with opened(empty_sqlite_url) as engine:
        upgrade(engine, Schema(log=None))
    assert {each.level for each in found(empty_sqlite_url, Schema(log=None))} == {Level.OK}
    result = found(empty_sqlite_url, Schema())[-1]
    text = f"hookrow's tables are at 0001, not at 0001, 0002. Run {UPGRADE}."
    assert (result.level, result.text) == (Level.ERROR, text)


def test_migrations_of_a_newer_version(database_url: str) -> None:
    """They are a warning, unless a change fails or a revision is missing."""
    run(database_url, "INSERT INTO hookrow_migrations (revision) VALUES ('9999')")
    result = about("migrations", database_url, Schema())
    assert (result.level, "at revision 9999, which" in result.text) == (Level.WARNING, True)
    assert about("tables", database_url, Schema()).level is Level.OK
    run(database_url, "DELETE FROM hookrow_migrations WHERE revision = '0002'")
    result = about("migrations", database_url, Schema())
    assert (result.level, "does not know: install" in result.text) == (Level.ERROR, True)


def test_migrations_beside_tables_of_the_host(host_url: str) -> None:
    """The log needs a migration; without it, migrations are not mentioned."""
    assert "migrations" not in {each.subject for each in found(host_url)}
    missing = found(host_url, LOGGED)[-1]
    text = (
        f"hookrow's tables are not created yet. Run {UPGRADE}. If your own migrations create them, "
        "run those."
    )
    assert (missing.level, missing.text) == (Level.ERROR, text)
    with opened(host_url) as engine:
        upgrade(engine, LOGGED)
    text = "They are up to date (revision 0002)."
    assert about("migrations", host_url, LOGGED).text == text


def test_migrations_that_declare_the_log(host_url: str) -> None:
    """If the metadata of a model contains the log, its migrations come first, not the command."""

    class Base(DeclarativeBase):
        pass

    class Person(Base):
        __tablename__ = "people"
        id: Mapped[int] = mapped_column(primary_key=True)
        address: Mapped[str]
        suppressed_at: Mapped[datetime | None]

    schema = replace(LOGGED, subscribers=Role.of(Person, email=Person.address, fold="exact"))
    assert about("migrations", host_url, schema).text.startswith(
        "hookrow's tables are not created yet. Run `hookrow db upgrade`"
    )
    attach(Base.metadata, schema)
    text = about("migrations", host_url, schema).text
    assert "The metadata of your models contains hookrow's tables, so run your migrations." in text
    assert text.endswith(f"If these leave them out, run {UPGRADE}.")
    with pytest.raises(SchemaMismatch) as caught:
        SQLStore(host_url, schema, verify=True)
    [*_, fault] = caught.value.faults
    assert "so run your migrations. If" in fault.remedy


UNFIT = Schema(
    subscribers=Role("people", {"email": "address", "suppressed_at": "muted_at"}),
    dispatches=LOGGED.dispatches,
    subscriptions=LOGGED.subscriptions,
)
"""A mapping with a column that the table lacks."""


def test_tables_of_the_host_before_migrations(host_url: str) -> None:
    """Faults of the host's tables are reported although hookrow's own do not exist yet."""
    *_, migrations, tables = found(host_url, UNFIT)
    assert (migrations.level, migrations.subject) == (Level.ERROR, "migrations")
    assert (tables.level, tables.subject) == (Level.ERROR, "tables")
    assert "'muted_at'" in tables.text
    assert "hookrow_" not in tables.text


def test_tables_of_the_host_after_migrations_of_the_host(host_url: str) -> None:
    """Faults of the host's tables do not hide that its migrations created hookrow's own."""
    with opened(host_url) as engine:
        upgrade(engine, UNFIT)
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE hookrow_migrations")
    *_, migrations, tables = found(host_url, UNFIT)
    assert migrations.text == "Your own migrations created hookrow's tables."
    assert "'muted_at'" in tables.text
    with opened(host_url) as engine, engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE hookrow_notifications DROP COLUMN trace_id")
    *_, migrations, tables = found(host_url, UNFIT)
    assert migrations.level is Level.OK
    assert "'muted_at'" in tables.text
    assert "The table 'hookrow_notifications' lacks trace_id. Run" in tables.text


@pytest.mark.parametrize(
    ("subject", "error", "level"),
    [
        ("emails", Locked, "warning"),
        ("emails", Unavailable, "error"),
        ("indexes", Locked, "error"),
    ],
)
def test_weakness_that_cannot_be_checked(
    host_url: str,
    monkeypatch: pytest.MonkeyPatch,
    subject: str,
    error: type[StoreError],
    level: str,
) -> None:
    """The other checks follow. If a lookup has no plan or the database fails, that is an error."""
    monkeypatch.setitem(WEAKNESSES, subject, Mock(side_effect=error("why")))
    result = about(subject, host_url)
    assert (result.level.value, result.text) == (level, "It cannot be checked: why")
    assert found(host_url)[-1].subject == "indexes"


@pytest.mark.parametrize(
    ("statement", "subject", "words"),
    [
        (
            "INSERT INTO people (id, address) VALUES (1, 'a@b.test'), (2, 'A@B.test')",
            "emails",
            "1 email is in several rows that differ only by case, such as a***@b.test",
        ),
        (
            "INSERT INTO people (id, address) VALUES (1, 'a@b.test'), (2, 'a@b.test')",
            "emails",
            "1 email is in several rows with the same spelling, such as a***@b.test: hookrow uses",
        ),
        (
            """INSERT INTO hookrow_meta VALUES ('mapping', '[{"subscribers":{"table":"old"}}]')""",
            "mapping",
            "The log was written for tables other than those mapped now: subscribers in old, ",
        ),
        ("DROP TABLE hookrow_meta", "mapping", "It cannot be checked: OperationalError: no such t"),
        ("DROP TABLE hookrow_hours", "counts", "Notifications are not counted by hour."),
    ],
)
def test_rows(host_url: str, statement: str, subject: str, words: str) -> None:
    with opened(host_url) as engine:
        upgrade(engine, LOGGED)
    assert not warnings(subject, host_url, LOGGED)
    run(host_url, statement)
    [warning] = warnings(subject, host_url, LOGGED)
    assert warning.startswith(words)


def test_a_read_only_database(postgres_url: str) -> None:
    """A server that responds, but accepts no changes, is an error until it does."""
    name = make_url(postgres_url).database
    run(postgres_url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    *_, tables, error = found(postgres_url, Schema())
    assert (tables.subject, tables.level) == ("tables", Level.OK)
    assert (error.subject, error.level) == ("changes", Level.ERROR)
    assert error.text.startswith("The database accepts no changes: ReadOnlySqlTransaction 25006")
    assert error.meaning == "Until it does, notifications get a 503."
    assert error.remedy.startswith("Connect to the primary server")
    writable = "BEGIN READ WRITE; ALTER DATABASE {} RESET default_transaction_read_only; COMMIT"
    run(postgres_url, *writable.format(name).split("; "))
    assert {each.level for each in found(postgres_url, Schema())} == {Level.OK}


def test_hosts_that_are_all_read_only(empty_postgres_url: str) -> None:
    """The remedy is not to start a server that responds."""
    url = make_url(empty_postgres_url)
    run(empty_postgres_url, f"ALTER DATABASE {url.database} SET default_transaction_read_only = on")
    folder = url.query["host"]
    twice = url.set(query={"host": f"{folder},{folder}"})
    [error] = found(twice.render_as_string(hide_password=False), Schema())
    assert (error.subject, error.level) == ("database", Level.ERROR)
    assert error.text.endswith(" failed: session is read-only.")
    assert error.remedy.startswith("Connect to the primary server")


def test_a_locked_table(postgres_url: str) -> None:
    """The server responds, so the remedy is not to start it."""
    with opened(postgres_url) as engine, engine.begin() as connection:
        connection.execute(text("LOCK TABLE hookrow_subscribers"))
        error = found(postgres_url, Schema())[-1]
    assert (error.subject, error.level) == ("database", Level.ERROR)
    assert error.text == "Another transaction blocks hookrow's: LockNotAvailable 55P03."
    assert error.remedy.startswith("Find the transaction that has locked the table")


def test_a_locked_file(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts no changes, either; its tables can still be read."""
    monkeypatch.setattr("hookrow.stores.sql._sqlite.LOCK_TIMEOUT", 0.05)
    with opened(sqlite_url) as engine, engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        *_, tables, error = found(sqlite_url, Schema())
    assert (tables.subject, tables.level) == ("tables", Level.OK)
    assert (error.subject, error.level) == ("changes", Level.ERROR)
    assert error.remedy.startswith("Find the transaction that has locked")


def test_times_without_zone(host_postgres_url: str) -> None:
    """The statement keeps the instants."""
    run(host_postgres_url, "INSERT INTO people VALUES (1, 'a', '2026-03-04 05:06:07')")
    follow("times", host_postgres_url)
    kept = run(host_postgres_url, "SELECT suppressed_at FROM people")
    assert kept == [(datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC),)]


def test_ids_that_are_not_ascending(postgres_url: str) -> None:
    """Sessions that reserve ids assign lower ones later."""
    run(postgres_url, "ALTER SEQUENCE hookrow_notifications_id_seq CACHE 10")
    follow("log", postgres_url, Schema())


def test_privileges(host_postgres_url: str) -> None:
    """All that are missing are named at once, each with the GRANT to run.

    Those of the tables in a schema are known only to a user who may use the schema.
    """
    schema = replace(LOGGED, subscribers=replace(HOST.subscribers, table="crm.people"))
    with opened(host_postgres_url) as engine:
        upgrade(engine, schema)
    run(host_postgres_url, "CREATE SCHEMA crm", "ALTER TABLE people SET SCHEMA crm")
    denied = []
    with database_user(host_postgres_url) as restricted_url:
        while (result := found(restricted_url, schema)[-1]).level is Level.ERROR:
            reasons = {}
            for line in result.text.split("\n"):
                if "GRANT" in line:
                    reason, _, grant = line.removeprefix("- ").partition(": ")
                    reasons[reason.removeprefix("permission denied for ")] = grant
            assert reasons
            denied.append([*reasons])
            run(host_postgres_url, *reasons.values())
            assert (result.subject, result.remedy[:15]) == ("access", "Run each GRANT ")
    assert denied == [
        ["table hookrow_migrations"],
        [
            *("schema crm", "table sends", "table members", "table hookrow_notifications"),
            *("table hookrow_meta", "sequence public.hookrow_notifications_id_seq"),
            "table hookrow_suppression_changes",
        ],
        ["table crm.people"],
    ]


def test_a_schema_that_the_user_may_not_use(postgres_url: str) -> None:
    """Its tables are invisible to the user, but they must not be created again."""
    run(postgres_url, "REVOKE USAGE ON SCHEMA public FROM PUBLIC")
    with database_user(postgres_url) as restricted_url:
        result = found(restricted_url, Schema())[-1]
    assert (result.subject, result.level) == ("access", Level.ERROR)
    assert result.text.startswith("permission denied for schema public: GRANT USAGE ON SCHEMA pub")


def test_a_sequence_that_the_user_may_only_update(postgres_url: str) -> None:
    """PostgreSQL's `nextval` needs either of the two privileges."""
    tables = "GRANT ALL ON ALL TABLES IN SCHEMA public TO {}"
    sequences = "GRANT UPDATE ON ALL SEQUENCES IN SCHEMA public TO {}"
    with database_user(postgres_url, tables, sequences) as restricted_url:
        assert {each.level for each in found(restricted_url, Schema())} == {Level.OK}


def test_key_of_a_view(empty_database_url: str) -> None:
    """No index can keep the keys of a view unique, so they are reported."""
    url = empty_database_url
    letters = "CREATE TABLE letters (id integer, campaign_id integer)"
    create(url, PEOPLE, SENDS_TABLE, MEMBERS_TABLE, letters)
    run(url, "CREATE VIEW mailings AS SELECT * FROM letters")
    schema = replace(
        HOST,
        dispatches=Role("sends", {**SENDS, "message_id": "campaign_id"}),
        messages=Role("mailings", {"list_id": "campaign_id"}),
    )
    assert warnings("keys", url, HOST) == []
    [warning] = warnings("keys", url, schema)
    assert warning.startswith(
        "No index keeps the column 'id' of 'mailings' unique, because this is"
    )
    assert warning.endswith("otherwise, one dispatch could have the lists of several messages.")


def test_keys_of_changed_rows(host_postgres_url: str) -> None:
    """If several rows of a view have the same key, their notifications get a 503."""
    url = host_postgres_url
    run(url, "ALTER TABLE people RENAME TO everyone", "CREATE VIEW people AS TABLE everyone")
    [warning] = warnings("keys", url)
    assert warning.endswith(
        "one notification could change several rows, and would get a 503 instead."
    )


def test_row_level_security(host_postgres_url: str) -> None:
    """Tables with policies that may exclude rows are named, until the advice is followed."""
    url = host_postgres_url
    grants = (
        "GRANT SELECT, UPDATE ON people, sends, members TO {}",
        *(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY" for table in ("people", "members")),
        "CREATE POLICY own ON people USING (id > 1)",
        "CREATE POLICY own ON members USING (person_id > 1)",
    )
    with database_user(url, *grants) as restricted:
        assert not warnings("policies", url)  # the owner bypasses the policies
        people, members = warnings("policies", restricted)
        user = make_url(restricted).username
        assert people.startswith(
            f"Row-level security is active for 'people' and the user {user}: rows that its "
            "policies hide are not found, and notifications get a 503 if a policy forbids the "
            "update. Connect as a role with BYPASSRLS, or run: CREATE POLICY hookrow_sel"
        )
        assert "'members'" in members
        assert "503" not in members, "the rows are only read"
        for each in (people, members):
            run(url, *each.partition("run: ")[2].split("; "))
        assert not warnings("policies", restricted)
        run(url, "CREATE POLICY less ON people AS RESTRICTIVE FOR UPDATE USING (id > 2)")
        assert [each[:48] for each in warnings("policies", restricted)] == [people[:48]]
        run(url, f"ALTER ROLE {user} BYPASSRLS")
        assert not warnings("policies", restricted)


class TestIndexes:
    """A lookup without an index is a warning with the statement that creates it."""

    def test_types(self, empty_postgres_url: str) -> None:
        """The statements run whatever the types of the columns, and however long their names."""
        address = "a" * 60
        people = PEOPLE.replace("address", address)
        for created in (people, SENDS_TABLE, MEMBERS_TABLE):
            types = created.replace("id integer", "id uuid").replace("{name}", "char(36)")
            create(empty_postgres_url, types.replace("timestamp", "time"))
        role = Role("people", {"email": address, **UNDATED})
        follow("indexes", empty_postgres_url, replace(HOST, subscribers=role))

    def test_other_fold(self, host_url: str) -> None:
        """If emails have an index for another fold, that is named; partial ones are enough."""
        partial = "CREATE INDEX sent ON sends (postmark_id) WHERE postmark_id IS NOT NULL"
        run(host_url, "CREATE INDEX plain ON people (address)", partial)
        [warning] = [each for each in warnings("indexes", host_url) if "address" in each]
        assert 'An index for fold="exact" exists: set this fold, or add an index. Run: C' in warning
        exact = replace(HOST, subscribers=replace(HOST.subscribers, fold="exact"))
        assert len(warnings("indexes", host_url, exact)) == 1

    def test_partitioned(self, empty_postgres_url: str) -> None:
        """On a partitioned table no index can be created CONCURRENTLY; the remedy says how."""
        sends = SENDS_TABLE.replace(" PRIMARY KEY", "")
        part = "CREATE TABLE part PARTITION OF sends FOR VALUES WITH (MODULUS 1, REMAINDER 0)"
        create(
            empty_postgres_url,
            PEOPLE,
            f"{sends} PARTITION BY HASH (person_id)",
            MEMBERS_TABLE,
            part,
        )
        advised = [each for each in warnings("indexes", empty_postgres_url) if '"sends" (' in each]
        assert len(advised) == 2
        for each in advised:
            assert 'attach it; or, which blocks all writers, run: CREATE INDEX "h' in each
        follow("indexes", empty_postgres_url)

    def test_view(self, host_postgres_url: str) -> None:
        url = host_postgres_url
        run(url, "CREATE VIEW pairs AS SELECT * FROM members")
        schema = replace(HOST, subscriptions=replace(HOST.roles["subscriptions"], table="pairs"))
        [advice] = [each for each in warnings("indexes", url, schema) if "pairs" in each]
        assert "It is behind a view, which cannot have an index" in advice
        run(url, advice.partition("and run: ")[2].replace('ON "pairs"', 'ON "members"'))
        follow("indexes", url, schema)

    def test_keys(self, empty_postgres_url: str) -> None:
        """A key that cannot be declared unique needs an index, and so do the messages of a list."""
        people = PEOPLE.replace(" PRIMARY KEY", "") + " PARTITION BY HASH (address)"
        mailings = (
            "CREATE TABLE mailings (id integer, campaign_id integer) "
            "PARTITION BY HASH (campaign_id)"
        )
        parts = (
            f"CREATE TABLE {each}_1 PARTITION OF {each} FOR VALUES WITH (MODULUS 1, REMAINDER 0)"
            for each in ("people", "mailings")
        )
        create(empty_postgres_url, people, SENDS_TABLE, MEMBERS_TABLE, mailings, *parts)
        schema = replace(
            HOST,
            dispatches=Role("sends", {**SENDS, "message_id": "campaign_id"}),
            messages=Role("mailings", {"list_id": "campaign_id"}),
        )
        texts = " ".join(warnings("indexes", empty_postgres_url, schema)).replace('"', "")
        assert "ON people (id)" in texts
        assert "ON mailings (id)" in texts
        follow("indexes", empty_postgres_url, schema)


@pytest.mark.parametrize(
    ("file", "variables", "words"),
    [
        ("", {}, None),
        ("sweep = false", {}, "turn on the sweep: `sweep = true`"),
        ("", {"HOOKROW_SWEEP": "0"}, "Unless another process sweeps this log"),
        ("sweep = false", {"HOOKROW_SWEEP": "1"}, None),
        ("keep_bodies = 'none'", {}, "The log keeps no bodies"),
        ("[tables]\nlog = false", {}, "Without a log, one that arrives before its rows"),
    ],
)
def test_sweep(command: Command, file: str, variables: dict[str, str], words: str | None) -> None:
    """Unless `hookrow serve` would retry parked notifications, the line to write is printed.

    It is no fault, as long as no notification has arrived before its rows.
    """
    (command.folder / "hookrow.toml").write_text(file)
    command.call("db", "upgrade")
    done = command.call("check", "--json", HOOKROW_SECRET=SECRET, **variables)
    found = [each for each in map(json.loads, done.stdout.splitlines()) if "setting" not in each]
    assert (done.returncode, {each["level"] for each in found}) == (0, {"ok"})
    sweeps = [each for each in found if each["subject"] == "sweep"]
    assert len(sweeps) == bool(words)
    for each in sweeps:
        assert (words or "") in f"{each['text']} {each['remedy']}"
        assert each["remedy"]


FINE = "OK: notifications are recorded, and nothing needs attention."


def test_command(command: Command) -> None:
    """A line, or an object, for each result; a warning leaves the status at 0, an error is 1."""
    command.call("db", "upgrade")
    done = command.call("check", HOOKROW_SECRET="short")
    assert (done.returncode, done.stderr) == (0, "")
    first, second, *_ = done.stdout.splitlines()
    assert first == f"ok       status      {FINE}"
    assert second.startswith("warning  secret      The webhook secret has 5 characters")
    assert "\nok       database    sqlite:///hookrow.db responds.\n" in done.stdout
    (command.folder / "hookrow.toml").write_text("[tables.subscribers]\ntable = 'people'")
    done = command.call("check", "--json", HOOKROW_SECRET=SECRET)
    status, first, *others = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, done.stderr) == (1, "")
    ok = {"level": "ok", "subject": "secret", "text": "It is set.", "meaning": "", "remedy": ""}
    assert first == ok
    assert (status["level"], status["subject"]) == ("error", "status")
    assert status["text"].startswith("Broken: 1 finding.\n- writes: ")
    assert "no table 'people'" in status["text"]
    [error] = [each for each in others if each["level"] == "error"]
    assert "no table 'people'" in error["text"]


def test_the_status(command: Command) -> None:
    """It has what a finding says, a spool of another process, and the webhooks at the provider."""
    command.call("db", "upgrade")
    spool = command.folder / "spool.db"
    Spool(spool).put([arrival({"RecordType": "Open"}, NOON)])
    with PostmarkStandIn() as api:
        variables = {"HOOKROW_PROVIDER_TOKEN": api.token, "HOOKROW_PROVIDER_API": api.address}
        done = command.call(
            "check", "--json", HOOKROW_SECRET=SECRET, HOOKROW_SPOOL=str(spool), **variables
        )
    status, *others = map(json.loads, done.stdout.splitlines())
    assert status["text"].splitlines()[0] == "Broken: 2 findings."
    [provider] = [each for each in others if each["subject"] == "provider"]
    assert (provider["level"], provider["text"]) == (
        "error",
        "Stand-in: no webhook posts to hookrow.",
    )
    assert "\n- provider: Stand-in: no webhook posts to hookrow." in status["text"]
    assert f"\n- spool: 1 notification in the spool {spool}" in status["text"]
    assert done.returncode == 1


def test_a_token_that_cannot_be_read(command: Command) -> None:
    """The status is without the webhooks, and another result says why."""
    command.call("db", "upgrade")
    variables = {"HOOKROW_SECRET": SECRET, "HOOKROW_PROVIDER_TOKEN_FILE": "missing"}
    done = command.call("check", "--json", **variables)
    status, *others = map(json.loads, done.stdout.splitlines())
    [provider] = [each for each in others if each["subject"] == "provider"]
    assert (done.returncode, status["text"], provider["level"]) == (1, FINE, "error")
    assert "missing cannot be read: No such file or directory" in provider["text"]


def test_one_rehearsal(command: Command) -> None:
    """The status and the details are about the same check of the database."""
    command.call("db", "upgrade")
    with patch.object(SQLTransaction, "rehearse", autospec=True) as rehearse:
        assert command.call("check", HOOKROW_SECRET=SECRET).returncode == 0
    rehearse.assert_called_once()


# -- entries of the log that the receiver cannot read ------------------------------------

ENTRIES = Entries(Entry("acme", Postmark), Entry("globex", Resend))


@pytest.mark.parametrize(
    ("logged", "parsers", "text", "remedy"),
    [
        (("acme", "postmark"), ENTRIES, None, ""),
        ((None, "resend"), ENTRIES, None, ""),
        (("globex", None), ENTRIES, None, ""),
        (
            ("initech", "resend"),
            ENTRIES,
            "2 parked or expired notifications: the receiver has no entry 'initech' (resend).",
            "If the entry was renamed, name it 'initech' again, or replay them with a rec",
        ),
        (
            ("acme", "resend"),
            ENTRIES,
            "the entry 'acme' had the provider resend then, and has another one now.",
            "Give the entry 'acme' this provider again, and the other one a new name",
        ),
        (
            (None, "sendgrid"),
            ENTRIES,
            "it was stored without the name of an entry, with the provider sendgrid.",
            "Add an entry with this provider",
        ),
        (
            (None, "postmark"),
            Entries(Entry("acme", Postmark, 1)),
            "it was stored without the name of an entry, so its tenant is not known.",
            "Prune it",
        ),
        (("acme", None), POSTMARK, "has no entry 'acme' (manual changes).", "If the en"),
    ],
)
def test_entries_of_the_log_that_no_entry_reads(
    database_url: str,
    logged: tuple[str | None, str | None],
    parsers: Parsers,
    text: str | None,
    remedy: str,
) -> None:
    """Parked and expired ones are counted; those that were recorded need no entry any more."""
    name, provider = logged
    now = datetime.now(UTC)
    delivered = Delivered(ADA, "m-1", now)
    arrivals = [
        Arrival((delivered,), bytes([n]), now - n * DAY, provider=provider, entry=name)
        for n in range(3)
    ]
    parked = Refusal.DISPATCH_NOT_FOUND.refused()
    with closing(SQLStore(database_url)) as store:
        with store.transaction() as transaction:
            entries = log_entries(arrivals, [parked, Recorded(()), parked], now)
            expired = msgspec.structs.replace(entries[2], retry_at=None)
            transaction.write((), [*entries[:2], expired])
        statements = verify(store.database, store.schema)
        retries, *results = check_waiting(store.database, statements, parsers)
    if text is None:
        assert retries.text.startswith("1 notification in the log will be retried")
        assert "1 notification, of which 0 for unknown addresses, could not" in retries.text
        assert results == []
        return
    assert retries.text == "0 notifications in the log will be retried."
    [result] = results
    assert result.level is Level.WARNING
    assert text in result.text
    assert result.remedy.startswith(remedy)


def test_requests_without_a_valid_secret(database_url: str) -> None:
    """Those of the last day are a warning, which names the entries of the receiver, if any."""
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    unauthentic = partial(RequestHour, RequestKind.WRONG_SECRET)
    with closing(SQLStore(database_url)) as store:
        statements = verify(store.database, store.schema)
        check = partial(check_unauthentic, store.database, statements)
        assert store.log is not None
        store.log.add_requests({unauthentic("", hour - 2 * DAY): 1})
        assert not list(check())
        store.log.add_requests({unauthentic("", hour): 1})
        [result] = check()
        assert (result.level, result.subject) == (Level.WARNING, "requests")
        at = format_time(hour)
        assert result.text == (
            "1 request with a missing or wrong secret in the last day, the first in the hour from "
            f"{at}, the last in that from {at}."
        )
        store.log.add_requests({unauthentic("sendgrid", hour - HOUR): 2})
        [result] = check()
        assert result.text == (
            "3 requests with a missing or wrong secret in the last day (sendgrid: 2, without a "
            f"name: 1), the first in the hour from {format_time(hour - HOUR)}, the last in that "
            f"from {at}."
        )
