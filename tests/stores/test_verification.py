"""Tables that cannot work are rejected, with an error that names the remedy."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from typing import Any
from unittest.mock import Mock

import pytest
from contract import NOON, arrival, statuses
from homes import OURS
from host_tables import HOST, REST, make, people
from locations import own_engine
from sqlalchemy import Engine, event, make_url
from sqlalchemy.schema import CreateTable

from copying import replace
from databases import MARIADB, NAMES, POSTGRESQL, SQLITE, kind_of
from engines import create, database_user, opened, run
from hookrow import ConfigurationError, Role, Schema, SchemaMismatch, Suppressed
from hookrow._core.notation import Notation
from hookrow._core.schema import SUPPRESSION
from hookrow._receiver.recorder import record
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._dialects import DIALECTS
from hookrow.stores.sql._log_rows import LOG_COLUMNS
from hookrow.stores.sql._urls import open_database
from hookrow.stores.sql._verify import verify
from own_tables import attached
from postgres import Databases

TYPES = (
    "CREATE SCHEMA crm",
    "CREATE TABLE crm.readers (id integer)",
    "CREATE TYPE word AS ENUM ('bounced', 'other')",
    "CREATE TYPE blank AS ENUM ('', 'other')",
    "CREATE TYPE sole AS ENUM ('other')",
    "CREATE DOMAIN filled AS text NOT NULL",
    "CREATE DOMAIN address AS text CHECK (value LIKE '%@%')",
    "CREATE DOMAIN recent AS timestamptz CHECK (value > '2020-01-01')",
    "CREATE DOMAIN short AS text CHECK (length(value) < 20)",
)

ON_MARIADB = pytest.mark.parametrize("database", ["mariadb"], indirect=True)
ON_POSTGRES = pytest.mark.parametrize("database", ["postgres"], indirect=True)

ours = pytest.fixture(own_engine)


@pytest.fixture(scope="module", params=NAMES)
def database(
    request: pytest.FixtureRequest, new_database: Callable[[str], str]
) -> Iterator[Engine]:
    with opened(new_database(request.param)) as engine:
        yield engine


@pytest.fixture
def engine(database: Engine) -> Engine:
    """Return the database, empty; on PostgreSQL, with types of the host's own."""
    kind = kind_of(database)
    kind.clear(database)
    if kind is POSTGRESQL:
        run(database, *TYPES)
    return database


def hiding(**where: object) -> Schema:
    """Return the schema with some subscribers hidden."""
    return people(where=where)


def hiding_sends(state: str) -> Schema:
    """Return the schema with all dispatches hidden that are not in a state."""
    return replace(HOST, dispatches=replace(HOST.dispatches, where={"state": state}))


def bouncing() -> Schema:
    """Return the schema with columns for bounces."""
    columns = {**HOST.roles["dispatches"].columns, "bounced_at": "made", "bounce_type": "state"}
    return replace(HOST, dispatches=replace(HOST.dispatches, columns=columns))


def keeping(bounced: str | int, other: str | int | None = None) -> Schema:
    """Return the schema with one word or number for hard bounces, and one for all others."""
    others = {} if other is None else {"*": other}
    return replace(HOST, reasons={"HardBounce": bounced, **others})


EMPTY = 'set empty="" in its role to write an empty string instead of null'
NO_TIME = "on_recorded and on_refused"
NO_DATE = "without a log nothing stores when it last changed"
WHY = "people.suppression_reason"
BOUNCE = "sends.state"
WORDS = keeping("bounced", "other")
NUMBERS = keeping(1, 9)
BLANK = replace(people(empty=""), reasons={"*": "other"})
"""The empty text is no reason."""
GENERATED = "timestamp GENERATED ALWAYS AS (NULL) STORED"


def check(engine: Engine, schema: Schema, error: str) -> None:
    """Assert that the tables are refused with this text, or accepted if it is empty."""
    with pytest.raises(SchemaMismatch, match=re.escape(error)) if error else nullcontext():
        verify(open_database(engine), schema)


@pytest.mark.parametrize(
    ("types", "schema", "error"),
    [
        ({}, HOST, ""),
        # An unknown name is refused, with the nearest existing one.
        ({}, hiding(deletd_at=None), "no column 'deletd_at'. Did you mean 'deleted_at'?"),
        ({}, people("PEEPLE"), "no table 'PEEPLE' for the subscribers. Did you mean 'people'?"),
        ({}, people("crm.people"), "Did you mean 'people'?"),
        # A date or a generated column cannot hold a time that hookrow sets, and a flag needs one.
        ({"people.suppressed_at": "boolean"}, HOST, NO_DATE),
        ({"sends.opened_at": "boolean NOT NULL"}, HOST, ""),
        ({"sends.opened_at": "date"}, HOST, NO_TIME),
        ({"sends.opened_at": GENERATED}, HOST, "is generated, and cannot be written: name another"),
        # An optional record is verified like the others.
        ({BOUNCE: "text"}, bouncing(), ""),
        (
            {BOUNCE: "text", "sends.made": "boolean"},
            bouncing(),
            "nothing stores the time of the bo",
        ),
        ({BOUNCE: "integer"}, bouncing(), "cannot hold the type of a bounce: name a column of"),
        ({BOUNCE: "text NOT NULL"}, bouncing(), "not every bounce has a type: drop NOT NULL."),
        # A column has to hold every reason that the schema may write.
        ({WHY: "integer"}, NUMBERS, ""),
        ({WHY: "bigint"}, HOST, "BIGINT, which cannot hold the reasons 'HardBounce', "),
        ({WHY: "integer"}, keeping("bounced"), "cannot hold the reasons 'bounced', '"),
        ({}, NUMBERS, "cannot hold the reasons 1, 9: change its type, or correct `reasons`."),
        ({WHY: "text NOT NULL"}, BLANK, ""),
        ({WHY: "text"}, BLANK, ""),
        ({WHY: "integer NOT NULL"}, BLANK, "cannot hold an empty string: o"),
        # A condition that is never true would hide every row.
        ({}, hiding(deleted_at=None, state=1, active=True, tenant="acme"), ""),
        ({}, hiding(state="one"), "which never equals 'one'"),
        ({}, hiding(tenant=1), "which never equals 1"),
        ({}, hiding(deleted_at="2026-03-04"), ""),
    ],
)
def test_columns(engine: Engine, types: dict[str, str], schema: Schema, error: str) -> None:
    """An unsuitable column is named with a remedy."""
    check(make(engine, types), schema, error)


@ON_POSTGRES
@pytest.mark.parametrize(
    ("types", "schema", "error"),
    [
        ({}, people("readers"), "Did you mean 'crm.readers'?"),
        ({"people.suppressed_at": "text"}, HOST, "of the type TEXT, which cannot hold a date-time"),
        # A domain is checked like its base type.
        ({"people.email": "address"}, HOST, ""),
        ({WHY: "filled"}, HOST, "'suppression_reason' of 'people' is NOT NULL"),
        # An enum, and a text of limited length, have to hold every reason.
        ({WHY: "word"}, WORDS, ""),
        ({WHY: "word"}, keeping("bounced"), "for all others ('*')."),
        ({WHY: "word"}, HOST, "set `reasons`"),
        ({WHY: "word"}, keeping("bounce", "other"), "Did you mean 'bounced'?"),
        ({WHY: "blank NOT NULL"}, BLANK, ""),
        ({WHY: "sole NOT NULL"}, BLANK, "type enum sole, which cannot hold an empty string: omit"),
        ({WHY: "varchar(6)"}, WORDS, "cannot hold the reason 'bounced'"),
        ({BOUNCE: "varchar(64)"}, bouncing(), ""),
        (
            {BOUNCE: "varchar(63)"},
            bouncing(),
            "(63), which is too short: its values have up to 64 c",
        ),
        # An email and a message id are texts; a key has the type of the columns that refer to it.
        ({"people.email": "uuid"}, HOST, "'email' of 'people' is of the type UUID, but must be"),
        ({"sends.provider_message_id": "uuid"}, HOST, ""),
        (
            {"sends.provider_message_id": "integer"},
            HOST,
            "must be text or UUID, because it is compared with the provider's ids: name another",
        ),
        ({}, people(fold="citext"), "is of the type TEXT, not CITEXT"),
        ({"people.id": "bigint", "sends.subscriber_id": "smallint"}, HOST, ""),
        ({"campaigns.list_id": "text", "members.list_id": "char(36)"}, HOST, ""),
        ({"sends.subscriber_id": "text"}, HOST, "must have the same type"),
        ({"members.list_id": "uuid"}, HOST, "must have the same type"),
        ({"campaigns.id": "inet"}, HOST, "must have the same type"),
        # A condition may be a text that the database converts.
        ({BOUNCE: "uuid"}, hiding_sends("00000000-0000-0000-0000-000000000007"), ""),
        ({BOUNCE: "uuid"}, hiding_sends("7"), "UUID, which never equals '7'"),
        ({}, hiding(deleted_at="2026-03-04T05:06:07Z"), ""),
        ({}, hiding(deleted_at="yesterday"), "which never equals 'yesterday'"),
        ({}, hiding(state="1"), ""),
        ({}, hiding(state=2**31), "of the type INTEGER, which never equals 2147483648"),
        ({"people.tenant": "inet"}, hiding(tenant="10.0.0.1/32"), ""),
        # Whatever a type is called, it has to return the value unchanged, and to be comparable.
        ({BOUNCE: "name"}, bouncing(), "of the type NAME, which cannot hold the type of a bounce"),
        ({"people.suppressed_at": "timestamptz(0)"}, HOST, ""),
        ({"people.suppressed_at": "time"}, HOST, NO_TIME),
        ({"people.email": "json"}, HOST, "of the type JSON, but must be text"),
        ({"people.email": "varchar(9)", "sends.provider_message_id": "char(9)"}, HOST, ""),
        ({"sends.provider_message_id": "bytea"}, HOST, "of the type BYTEA, but must be text or"),
        ({"campaigns.id": "timestamp", "sends.campaign_id": "date"}, HOST, ""),
        # The samples of times need not fulfil the conditions of a domain.
        ({"people.suppressed_at": "recent"}, HOST, ""),
        ({BOUNCE: "short"}, bouncing(), ""),
    ],
)
def test_columns_on_postgres(
    engine: Engine, types: dict[str, str], schema: Schema, error: str
) -> None:
    """On PostgreSQL, types are compared strictly, and hosts define types of their own."""
    check(make(engine, types), schema, error)


ENUM = "enum('bounced', 'Other', 'it''s \\\\')"
IGNORING_CASE = "COLLATE utf8mb4_general_ci"


@ON_MARIADB
@pytest.mark.parametrize(
    ("types", "schema", "error"),
    [
        # A time may be without a fraction or of limited range, which `hookrow check` reports.
        ({"people.suppressed_at": "datetime"}, HOST, ""),
        ({"people.suppressed_at": "timestamp NULL"}, HOST, ""),
        ({"people.suppressed_at": "time"}, HOST, NO_TIME),
        ({"people.suppressed_at": "text"}, HOST, "of the type TEXT, which cannot hold a date-time"),
        (
            {"sends.opened_at": "timestamp NULL ON UPDATE CURRENT_TIMESTAMP"},
            HOST,
            "'opened_at' of 'sends' is set to the current time by each change of its row (ON UP",
        ),
        # An ENUM returns its own spelling; a text is truncated, and a number clipped.
        ({WHY: ENUM}, keeping("bounced", "Other"), ""),
        ({WHY: ENUM}, keeping("it's \\", "bounced"), ""),
        ({WHY: ENUM}, keeping("bounced"), "for all others ('*')."),
        ({WHY: ENUM}, HOST, "set `reasons`"),
        ({WHY: ENUM}, WORDS, "of the type ENUM, which cannot hold the reason 'other'"),
        ({WHY: ENUM}, keeping("bounce", "Other"), "Did you mean 'bounced'?"),
        ({WHY: "varchar(6)"}, WORDS, "cannot hold the reason 'bounced'"),
        ({WHY: "char(7)"}, WORDS, ""),
        ({WHY: "varchar(9) CHARACTER SET latin1"}, keeping("n\xe9", "\u20ac"), ""),
        (
            {WHY: "varchar(9) CHARACTER SET latin1"},
            keeping("\u6f22", "n"),
            "reason '\u6f22': change",
        ),
        ({WHY: "tinyint unsigned"}, keeping(0, 255), ""),
        ({WHY: "tinyint unsigned"}, keeping(-1, 256), "cannot hold the reasons -1, 256: change"),
        ({WHY: "int(9)"}, keeping(2**31, 0), "of the type INT, which cannot hold the reason 21"),
        ({WHY: "decimal(3, 1)"}, keeping(99, 1), ""),
        ({WHY: "decimal(3, 1)"}, keeping(100, 1), "of the type DECIMAL(3,1), which cannot hold th"),
        ({WHY: "varbinary(20)"}, HOST, "cannot hold the reasons 'HardBounce', 'SpamComplaint', 'M"),
        ({WHY: "json"}, HOST, "the reasons 'HardBounce', 'SpamComplaint', 'ManualSuppression': c"),
        ({BOUNCE: "varchar(63)"}, bouncing(), "(63), which is too short: its values have up to"),
        # To an integer, any text is the number 0.
        ({"people.email": "integer"}, HOST, "of the type INT, but must be text, because it is"),
        ({"people.email": "varbinary(320)"}, HOST, "of the type VARBINARY(320), but must be text"),
        ({"people.email": "varchar(9)", "sends.provider_message_id": "char(9)"}, HOST, ""),
        ({"sends.provider_message_id": "binary(16)"}, HOST, "BINARY(16), but must be text or UUID"),
        ({"sends.subscriber_id": "varchar(20)"}, HOST, "must have the same type"),
        ({"members.list_id": "binary(16)"}, HOST, "must have the same type"),
        ({"people.id": "bigint unsigned", "sends.subscriber_id": "smallint"}, HOST, ""),
        (
            {
                "campaigns.list_id": f"varchar(36) {IGNORING_CASE}",
                "members.list_id": "char(36) CHARACTER SET ascii",
            },
            HOST,
            "",
        ),
        # A condition is one that a value of the column can fulfil.
        ({}, hiding(state="1"), ""),
        ({}, hiding(state=2**31), "of the type INT, which never equals 2147483648"),
        ({}, hiding(deleted_at="yesterday"), "which never equals 'yesterday'"),
        ({}, hiding(tenant="too long a text"), "VARCHAR(8), which never equals 'too long a text'"),
        ({}, hiding(tenant=True), "VARCHAR(8), which never equals True"),
        ({"people.active": "bit(1)"}, hiding(active=True), ""),
        ({"people.tenant": ENUM}, hiding(tenant="OTHER"), "ENUM, which never equals 'OTHER'"),
        ({"people.tenant": f"{ENUM} {IGNORING_CASE}"}, hiding(tenant="OTHER"), ""),
        ({"people.tenant": "set('a', 'b')"}, hiding(tenant="a,b"), ""),
        ({"people.tenant": "set('a', 'b')"}, hiding(tenant="a,c"), "SET, which never equals 'a,c'"),
    ],
)
def test_columns_on_mariadb(
    engine: Engine, types: dict[str, str], schema: Schema, error: str
) -> None:
    """On MariaDB, what a conversion would change is refused, because it reports no error."""
    check(make(engine, types), schema, error)


@ON_MARIADB
def test_uuids_on_mariadb(engine: Engine) -> None:
    """A UUID is compared with texts, and equals no text of another form. MySQL has no such type."""
    if "MariaDB" not in run(engine, "SELECT version()")[0][0]:
        pytest.skip("MySQL has no type for UUIDs")
    keys = dict.fromkeys(["sends.provider_message_id", "people.id", BOUNCE], "uuid")
    make(engine, {**keys, "sends.subscriber_id": "char(36)", "members.subscriber_id": "uuid"})
    check(engine, HOST, "")
    check(engine, hiding_sends("00000000-0000-0000-0000-000000000007"), "")
    check(engine, hiding_sends("7"), "UUID, which never equals '7'")
    run(engine, "ALTER TABLE people MODIFY email uuid")
    check(engine, HOST, "'email' of 'people' is of the type UUID, but must be text")


@ON_MARIADB
def test_engine_without_transactions(engine: Engine) -> None:
    """A table whose changes cannot be rolled back is rejected."""
    run(make(engine), "ALTER TABLE sends ENGINE=MyISAM")
    check(
        engine,
        HOST,
        "The table 'sends' uses the engine MyISAM, which has no transactions: run ALTER TABLE "
        "`sends` ENGINE=InnoDB",
    )


@ON_MARIADB
@pytest.mark.parametrize(
    ("view", "is_rejected"),
    [
        ("SELECT * FROM `old``people`", True),
        ("SELECT * FROM seen", True),
        ("SELECT o.* FROM `old``people` AS o JOIN old AS p ON o.id = p.id", True),
        # It is unknown which of them is changed.
        ("SELECT o.* FROM `old``people` AS o JOIN (people AS p) ON o.id = p.id", False),
        ("SELECT * FROM people WHERE id IN (SELECT id FROM old)", False),
        ("SELECT * FROM people", False),
    ],
)
def test_tables_without_transactions_behind_a_view(
    engine: Engine, view: str, *, is_rejected: bool
) -> None:
    """A view of such tables is rejected, too, also one of a view."""
    run(
        make(engine),
        "CREATE TABLE `old``people` (PRIMARY KEY (id)) ENGINE=MyISAM AS SELECT * FROM people",
        "CREATE TABLE old (id int PRIMARY KEY) ENGINE=MyISAM",
        "CREATE VIEW seen AS SELECT * FROM `old``people`",
        f"CREATE VIEW shown AS {view}",
    )
    named = f"The table '{engine.url.database}.old`people' uses the engine MyISAM"
    role = replace(HOST.subscribers, table="shown")
    check(engine, replace(HOST, subscribers=role), named if is_rejected else "")


@ON_MARIADB
def test_view_of_expressions(engine: Engine) -> None:
    """A view with columns of several tables is accepted, unless one of them is an expression."""
    run(
        make(engine),
        "CREATE VIEW readers AS SELECT people.*, upper(tenant) AS more FROM people JOIN sends",
    )
    check(engine, people("readers"), "")
    role = Role("readers", {**REST, "suppression_reason": "more"})
    error = "No row of 'readers' can be changed, because of a view or a rule"
    check(engine, replace(HOST, subscribers=role), error)


@ON_MARIADB
@pytest.mark.parametrize(
    ("grants", "error"),
    [
        (["SELECT, UPDATE ON {0}.*"], ""),
        (["SELECT ON {0}.*", "UPDATE ON {0}.people", "UPDATE ON {0}.sends"], ""),
        (["SELECT ON *.*"], "permission denied for table people: GRANT UPDATE ON `people` TO `"),
        (
            ["SELECT, UPDATE ON {0}.people", "SELECT, UPDATE (opened_at) ON {0}.sends"],
            "permission denied for table sends: GRANT UPDATE ON `sends` TO `verified`@`localhost`",
        ),
    ],
)
def test_privileges_on_mariadb(engine: Engine, grants: list[str], error: str) -> None:
    """Privileges on a column, a table, a database and the server count alike."""
    make(engine)
    user, database = "verified@localhost", engine.url.database
    statements = [f"GRANT {grant.format(database)} TO {user}" for grant in grants]
    run(engine, f"CREATE USER {user}", *statements)
    try:
        url = engine.url.set(username="verified").render_as_string(hide_password=False)
        with opened(url) as limited:
            check(limited, HOST, error)
    finally:
        run(engine, f"DROP USER {user}")


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (("shop", "utf8mb4", 2**22), ""),
        ((b"shop", b"utf8mb4", 2**22), ""),
        ((None, "utf8mb4", 2**22), "The connection has no database: name one in its URL."),
        (
            ("shop", "latin1", 2**22),
            "the character set latin1, which cannot represent every character",
        ),
        (
            ("shop", "utf8mb4", 2**20),
            "max_allowed_packet is 1048576 bytes, but must be at least 4194304: run SET GLOBAL",
        ),
    ],
)
def test_settings_of_mariadb(row: tuple[object, ...], error: str) -> None:
    """A connection that cannot send every notification is rejected."""
    connection = Mock(fetch=Mock(return_value=[row]))
    with pytest.raises(ConfigurationError, match=error) if error else nullcontext():
        catalogue_of(connection, DIALECTS["mariadb"]).check_server()


def test_all_columns_at_once(engine: Engine) -> None:
    """Every unsuitable column is named, whatever is wrong with it, in the log, too."""
    is_sqlite = engine.dialect.name == "sqlite"
    make_log(engine, "attempts", "attempts TEXT")
    run(
        engine,
        "ALTER TABLE people DROP COLUMN suppressed_at",
        "ALTER TABLE people ADD COLUMN suppressed_at date",
        "ALTER TABLE people DROP COLUMN suppression_reason",
        "ALTER TABLE people ADD COLUMN suppression_reason text CHECK (suppression_reason <> 'x')",
        "ALTER TABLE kept DROP COLUMN trace_id",
        "ALTER TABLE kept ADD COLUMN trace_id integer",
    )
    schema = replace(hiding(state="one"), log="kept", reasons={"*": "x"})
    with pytest.raises(SchemaMismatch) as caught:
        verify(open_database(engine), schema)
    text = str(caught.value)
    named = {*re.findall(r"The column '(\w+)' of '(\w+)'", text)}
    unsuitable = {"suppressed_at", "suppression_reason", "state"}
    log = {("attempts", "kept"), ("trace_id", "kept")}
    assert named == {*((each, "people") for each in unsuitable), *log}
    assert text.count("Create it like") == 1
    run(engine, "ALTER TABLE sends DROP COLUMN subscriber_id")
    run(engine, "ALTER TABLE sends ADD COLUMN subscriber_id text")
    with pytest.raises(SchemaMismatch) as caught:
        verify(open_database(engine), schema)
    named = {*re.findall(r"The column '(\w+)' of 'sends'", str(caught.value))}
    assert named == (set() if is_sqlite else {"subscriber_id"})  # which compares any values


def statements_of_check(engine: Engine, schema: Schema, error: str) -> list[str]:
    """Return the statements of a `check`."""
    asked: list[str] = []

    @event.listens_for(engine, "before_cursor_execute")
    def _note(*arguments: Any) -> None:  # noqa: ANN401 - SQLAlchemy's
        asked.append(arguments[2])

    try:
        check(engine, schema, error)
    finally:
        event.remove(engine, "before_cursor_execute", _note)
    return asked


@ON_POSTGRES
def test_what_the_server_is_asked(engine: Engine) -> None:
    """If all columns are suitable, the server is asked about all of them at once."""
    make_log(engine, UNIQUE, UNIQUE)
    asked = statements_of_check(engine, LOG, "")
    assert sum("jsonb_to_recordset" in each for each in asked) == 1
    assert sum("WHERE false" in each for each in asked) == 1


@pytest.mark.parametrize("encoding", ["UTF8", "LATIN1", "SQL_ASCII"])
def test_encodings(postgres: Databases, encoding: str) -> None:
    """A value with other letters than those of ASCII is found and written in any encoding."""
    url = postgres.create(f"template0 ENCODING '{encoding}' LOCALE 'C'")
    try:
        as_utf8 = make_url(url).update_query_dict({"client_encoding": "utf8"})
        with opened(as_utf8.render_as_string(hide_password=False)) as engine:
            make(engine, {"people.tenant": "varchar(9)", WHY: "varchar(9)"})
            run(engine, "INSERT INTO people (id, email, tenant) VALUES (1, 'ada@x', 'gelöscht')")
        schema = replace(hiding(tenant="gelöscht"), reasons={"*": "gelöscht"})
        with closing(SQLStore(url, schema, verify=True)) as store:
            suppressed = Suppressed("ada@x", None, NOON, "HardBounce")
            assert statuses(record(store, [arrival(suppressed)])) == [200]
    finally:
        postgres.drop(url)


@ON_POSTGRES
def test_one_column_of_many(engine: Engine) -> None:
    """One unsuitable column of several hundred is found with few statements.

    The same goes for one of which nothing is known.
    """
    numbers = [f"n{index}" for index in range(400)]
    run(engine, "CREATE TYPE crm.mood AS ENUM ('glad', 'sad')")
    make_log(engine, UNIQUE, UNIQUE)
    run(
        engine,
        f"ALTER TABLE people {', '.join(f'ADD COLUMN {each} integer' for each in numbers)}, "
        "ADD COLUMN mood crm.mood",
    )
    known = dict.fromkeys(numbers, 1)
    schema = replace(hiding(**known), log="kept")
    wrong = replace(hiding(**{**known, "n200": "one"}), log="kept")
    unknown = replace(hiding(mood="glad", **known), log="kept")
    usual = len(statements_of_check(engine, schema, ""))
    assert len(statements_of_check(engine, wrong, "which never equals 'one'")) < usual + 50
    statements = (
        "GRANT USAGE ON SCHEMA public TO {}",
        "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {}",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {}",
    )
    url = engine.url.render_as_string(hide_password=False)
    with database_user(url, *statements) as limited, opened(limited) as user:
        assert len(statements_of_check(user, unknown, "")) < usual + 100


@ON_POSTGRES
def test_settings_of_the_server(engine: Engine) -> None:
    """The server's time zone and the form in which it shows dates make no difference."""
    make_log(engine, UNIQUE, UNIQUE)
    name = engine.url.database
    settings = {"timezone": "America/New_York", "datestyle": "German"}
    run(engine, *(f"ALTER DATABASE {name} SET {each} = '{settings[each]}'" for each in settings))
    try:
        with opened(engine.url.render_as_string(hide_password=False)) as other:
            check(other, LOG, "")
            run(other, "ALTER TABLE kept ALTER ended_at TYPE timestamp")
            check(other, LOG, "'ended_at' of 'kept' is of the type TIMESTAMP WITHOUT TIME ZONE")
    finally:
        run(engine, *(f"ALTER DATABASE {name} RESET {each}" for each in settings))


@ON_POSTGRES
def test_a_type_that_the_user_may_not_use(engine: Engine) -> None:
    """Nothing is known about such a column, which passes; the others are verified all the same."""
    run(engine, "CREATE TYPE crm.mood AS ENUM ('glad', 'sad')")
    make(engine, {"people.tenant": "crm.mood", "people.state": "varchar(9)"})
    statements = ("GRANT USAGE ON SCHEMA public TO {}", WRITES[0])
    url = engine.url.render_as_string(hide_password=False)
    with database_user(url, *statements) as limited, opened(limited) as user:
        check(user, hiding(tenant="glad"), "")
        check(user, hiding(tenant="glad", state="too long a text"), "(9), which never equals 'too")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 37), reason="STRICT needs SQLite 3.37")
def test_strict_tables(engine: Engine) -> None:
    """A strict table of SQLite rejects times in a column of another type."""
    run(
        make(engine),
        "DROP TABLE people",
        "CREATE TABLE people (id INTEGER PRIMARY KEY, email TEXT, suppressed_at REAL, "
        "suppression_reason TEXT) STRICT",
    )
    check(engine, HOST, "'suppressed_at' of 'people' is of the type REAL, which cannot hold a date")


@pytest.mark.parametrize("type_", ["datetime", "date", "time", "blob", "json"])
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_conditions_that_are_never_true(engine: Engine, type_: str) -> None:
    """On SQLite, True is a number, which the values of some types never equal."""
    make(engine, {"people.tenant": type_, "people.state": "tinyint"})
    check(engine, hiding(state=True), "")
    never = f"{type_.upper()}, which never equals"
    check(engine, hiding(tenant=True), f"{never} True: correct `where`")
    check(engine, hiding(tenant=True).written_in(Notation.TOML), f"{never} true: correct `where`")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_times_on_sqlite(engine: Engine) -> None:
    """On SQLite, a column of any other type can hold a time."""
    make(engine, {"people.suppressed_at": "", "sends.opened_at": "varchar(32)"})
    check(engine, HOST, "")


@pytest.mark.parametrize(
    ("role", "column", "remedy"),
    [
        ("subscribers", "suppressed_at", "drop NOT NULL."),
        (
            *("dispatches", "suppression_reason"),
            f'drop NOT NULL, {EMPTY}, or map "suppression_reason": None to keep no reason.',
        ),
        ("subscriptions", "suppression_changed_at", ""),
    ],
)
def test_not_null(engine: Engine, role: str, column: str, remedy: str) -> None:
    """A column that a reactivation sets to null, in any role, must not be NOT NULL."""
    table = HOST.roles[role].table
    kind = "text" if column == "suppression_reason" else "timestamp"
    default = "DEFAULT ''" if kind_of(engine).requires_default else ""
    run(make(engine), f"ALTER TABLE {table} ADD COLUMN filled {kind} NOT NULL {default}")
    columns = {**HOST.roles[role].columns, column: "filled"}
    schema = replace(HOST, **{role: Role(table, columns)})
    refusal = f"The column 'filled' of '{table}' is NOT NULL, but a reactivation sets it to null: "
    check(engine, schema, remedy and refusal + remedy)


@pytest.mark.parametrize("database", ["postgres", "mariadb"], indirect=True)
def test_statement_that_allows_null(engine: Engine) -> None:
    """It is complete: after it, the column is suitable."""
    columns = {**HOST.roles["subscribers"].columns, "suppression_reason": "filled in"}
    schema = replace(HOST, subscribers=replace(HOST.subscribers, columns=columns))
    quote = "`" if kind_of(engine) is MARIADB else '"'
    filled = f"{quote}filled in{quote} varchar(40) NOT NULL"
    run(make(engine), f"ALTER TABLE people ADD COLUMN {filled}")
    with pytest.raises(SchemaMismatch) as caught:
        SQLStore(engine, schema, verify=True)
    [fault] = caught.value.faults
    run(engine, fault.remedy.removeprefix("Run: ").partition(". Repeat")[0])
    check(engine, schema, "")


@ON_POSTGRES
def test_domain_that_is_not_null(engine: Engine) -> None:
    """No statement about the column lets it be null."""
    make(engine, {"people.suppression_reason": "filled"})
    with pytest.raises(SchemaMismatch) as caught:
        SQLStore(engine, HOST, verify=True)
    assert [each.remedy for each in caught.value.faults] == [""]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("type_", "remedy"),
    [
        ("text NOT NULL", 'set empty = "" in its role to write an empty string instead of null'),
        ("text NOT NULL", "or map suppression_reason = false to keep no reason."),
        (
            "text CHECK (length(suppression_reason) <= 13)",
            'set another value in `reasons`: { ManualSuppression = "..." }.',
        ),
    ],
)
def test_remedies_in_a_file(engine: Engine, type_: str, remedy: str) -> None:
    """In hookrow.toml, as it writes options, columns and tables."""
    make(engine, {"people.suppression_reason": type_})
    check(engine, HOST.written_in(Notation.TOML), remedy)


@ON_POSTGRES
def test_citext_key(engine: Engine) -> None:
    """A key that only the database compares ignoring case is rejected: rows would not be found."""
    make(engine, {"people.id": POSTGRESQL.text_without_case(engine), "sends.subscriber_id": "text"})
    check(engine, HOST, "of the type CITEXT; keys are case-sensitive: use TEXT.")


@ON_POSTGRES
@pytest.mark.parametrize(
    ("key", "reference"),
    [("bigint", "char(5)"), ("uuid", "char(36)"), ("char(36)", "uuid"), ("char(5)", "bigint")],
)
def test_a_key_and_a_reference_of_different_kinds(engine: Engine, key: str, reference: str) -> None:
    """CHAR is compared with other types of text only: a cast alone would let lookups fail."""
    make(engine, {"people.id": key, "sends.subscriber_id": reference})
    check(engine, HOST, "they cannot be compared, and must have the same type")


@ON_POSTGRES
@pytest.mark.parametrize(
    ("name", "type_"),
    [("key_0", "bigint"), ("since", "timestamp"), ("given", "timestamptz")],
)
def test_keys_with_unusual_names_and_types(engine: Engine, name: str, type_: str) -> None:
    """A key may have the name of a parameter, and be a time."""
    keys = ("people.id", "sends.subscriber_id", "members.subscriber_id")
    make(engine, dict.fromkeys(keys, type_))
    run(
        engine,
        f"ALTER TABLE people RENAME id TO {name}",
        "ALTER TABLE people ADD changed_at timestamptz",
    )
    columns = {"id": name, "suppression_changed_at": "changed_at"}
    schema = replace(HOST, subscribers=Role("people", columns))
    value = "1" if type_ == "bigint" else "'2026-03-04'"
    run(engine, f"INSERT INTO people ({name}, email) VALUES ({value}, 'a')")
    sent = arrival(Suppressed("a", None, NOON, "HardBounce"))
    assert statuses(record(SQLStore(engine, schema), [sent])) == [200]
    assert run(engine, "SELECT suppression_reason FROM people") == [("HardBounce",)]


@ON_POSTGRES
@pytest.mark.parametrize("type_", ["word", '"100%s"'])
def test_reasons_in_an_enum(engine: Engine, type_: str) -> None:
    """The enum's word for the reason is written, or its word for all others."""
    run(engine, """CREATE TYPE "100%s" AS ENUM ('bounced', 'other')""")
    make(engine, {WHY: type_})
    run(engine, "INSERT INTO people (id, email) VALUES (1, 'a'), (2, 'b')")
    sent = [Suppressed("a", None, NOON, "HardBounce"), Suppressed("b", None, NOON, "Spite")]
    record(SQLStore(engine, WORDS), [arrival(each) for each in sent])
    kept = run(engine, "SELECT suppression_reason FROM people ORDER BY id")
    assert kept == [("bounced",), ("other",)]


CHANGE = "UPDATE people SET suppressed_at = new.suppressed_at WHERE id = old.id"

VIEWS = {
    SQLITE.name: (
        "SELECT * FROM people",
        f"CREATE TRIGGER t INSTEAD OF UPDATE ON {{}} BEGIN {CHANGE}; END",
    ),
    POSTGRESQL.name: (
        "SELECT people.* FROM people JOIN sends ON sends.subscriber_id = people.id",
        f"CREATE RULE r AS ON UPDATE TO {{}} DO INSTEAD {CHANGE}",
    ),
    MARIADB.name: (
        "SELECT DISTINCT * FROM people",
        "CREATE OR REPLACE VIEW {} AS SELECT people.* FROM people JOIN sends",
    ),
}
"""A read-only view, and the statement that makes `{}` writable."""


def test_views(engine: Engine) -> None:
    """A read-only view is rejected, and one that changes the table behind it is changed like it."""
    select, remedy = VIEWS[kind_of(engine).name]
    quoted = engine.dialect.identifier_preparer.quote("Readers")
    run(make(engine), f"CREATE VIEW {quoted} AS {select}")
    check(
        engine,
        people("Readers"),
        "No row of 'Readers' can be changed, because of a view or a rule: name the",
    )
    run(
        engine,
        remedy.format(quoted),
        "INSERT INTO people (id, email) VALUES (1, 'ada@x'), (2, 'eve@x')",
        "INSERT INTO sends (subscriber_id) VALUES (1)",
    )
    check(engine, people("Readers"), "")
    sent = [arrival(Suppressed(f"{each}@x", None, NOON, "HardBounce")) for each in ("ada", "bea")]
    assert statuses(record(SQLStore(engine, people("Readers")), sent)) == [200, 404]
    assert run(engine, "SELECT id FROM people WHERE suppressed_at IS NOT NULL") == [(1,)]


COMPUTED = """
    CREATE VIEW people AS
    SELECT id, email, coalesce(suppressed_at) AS suppressed_at, suppression_reason FROM everyone
"""


@ON_POSTGRES
@pytest.mark.parametrize(
    ("statements", "error"),
    [
        (
            ["CREATE RULE r AS ON UPDATE TO people DO INSTEAD NOTHING"],
            "No row of 'people' can be changed, because of a view or a rule",
        ),
        (
            ["ALTER TABLE people RENAME TO everyone", COMPUTED],
            "The rows of 'people' cannot be locked and changed: FeatureNotSupported",
        ),
    ],
    ids=["rule", "expression"],
)
def test_updates_without_effect(engine: Engine, statements: list[str], error: str) -> None:
    """A table whose rows an UPDATE would not change is rejected."""
    run(make(engine), *statements)
    check(engine, HOST, error)


WRITES = (
    "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {}",
    "GRANT USAGE ON SCHEMA public TO {}",
)
"""The privileges of a receiver's user."""


def test_row_level_security(postgres_url: str) -> None:
    """A database user is rejected if the policies do not allow it to change rows."""
    policies = (
        "ALTER TABLE hookrow_dispatches ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY seen ON hookrow_dispatches FOR SELECT TO {} USING (true)",
    )
    with (
        database_user(postgres_url, *WRITES, *policies) as url,
        closing(open_database(url)) as database,
    ):
        with pytest.raises(SchemaMismatch, match=r"Row-level security .* 'hookrow_dispatches'"):
            verify(database, OURS)
        policy = "CREATE POLICY changed ON hookrow_dispatches FOR UPDATE USING (true)"
        run(postgres_url, policy)
        verify(database, OURS)


def test_view_that_is_only_read(engine: Engine) -> None:
    """A role without suppression columns is never written, so any view is accepted."""
    run(make(engine), "CREATE VIEW pairs AS SELECT DISTINCT * FROM members")
    check(engine, replace(HOST, subscriptions=Role("pairs", dict.fromkeys(SUPPRESSION))), "")


LOG = replace(HOST, log="kept")
DATES = (
    "CREATE TABLE hookrow_suppression_changes (role VARCHAR(32) NOT NULL, row_key {name} NOT NULL, "
    "changed_at {time} NOT NULL, PRIMARY KEY (role, row_key))"
)
UNIQUE = ", CONSTRAINT hookrow_notifications_fingerprint UNIQUE (fingerprint)"


def make_log(engine: Engine, old: str, new: str) -> None:
    """Make the tables, and a log of which one part, or a column with its type, is replaced."""
    table = str(CreateTable(attached(LOG, kind_of(engine)).tables["kept"]).compile(engine))
    table = re.sub(r"\s+", " ", table)
    if old in LOG_COLUMNS:
        old = re.findall(rf"(?<=\W)`?{old}`? [A-Z][^,]*", table)[0]
    assert old in table
    run(make(engine), table.replace(old, new))
    create(engine, DATES)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (UNIQUE, UNIQUE, ""),
        (UNIQUE, "", "'kept' has no unique index on exactly 'fingerprint'"),
        (UNIQUE, ", UNIQUE (fingerprint, outcome)", "has no unique index on exactly"),
        ("id", "id BIGINT NOT NULL", "'id' of 'kept' is without a default"),
        ("attempts", "attempts TEXT", "'attempts' of 'kept' is of the type TEXT, which"),
        ("body", "body SMALLINT", "'body' of 'kept' is of the type SMALLINT, which"),
        ("body", "body TEXT NOT NULL", "'body' of 'kept' is NOT NULL"),
    ],
)
def test_log(engine: Engine, old: str, new: str, error: str) -> None:
    """A log that cannot be written is rejected, and the error names a remedy."""
    make_log(engine, old, new)
    check(engine, LOG, error)
    check(engine, LOG, error and "Create it like hookrow_notifications in the output of `hookrow ")


@ON_POSTGRES
@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("id BIGSERIAL NOT NULL", "id bigint GENERATED ALWAYS AS IDENTITY", ""),
        ("fingerprint BYTEA", "fingerprint TEXT", "'fingerprint' of 'kept' is of the type TEXT"),
        ("attempts BIGINT", "attempts NUMERIC", "of the type NUMERIC"),
        ("at TIMESTAMP WITH TIME ZONE", "at TIMESTAMP", "of the type TIMESTAMP WITHOUT"),
        (
            "recipient VARCHAR(320)",
            "recipient VARCHAR(319)",
            "(319), which is too short: its values have up to 320 characters. Create it",
        ),
        (
            "body TEXT",
            "body VARCHAR(65535)",
            "(65535), which is too short: a body may have any length",
        ),
        ("received_at TIMESTAMP WITH TIME ZONE", "received_at timestamptz(3)", ""),
        ("received_at TIMESTAMP WITH TIME ZONE", "received_at timestamptz(0)", ""),
        ("received_at TIMESTAMP WITH TIME ZONE", "received_at date", "of the type DATE, which"),
        ("received_at TIMESTAMP WITH TIME ZONE", "received_at text", "of the type TEXT, which"),
        ("body TEXT", "body JSON", "of the type JSON"),
        (UNIQUE, f"{UNIQUE} DEFERRABLE", "has no unique index"),
        ("body TEXT", "body TEXT GENERATED ALWAYS AS ('') STORED", "is generated"),
    ],
)
def test_log_on_postgres(engine: Engine, old: str, new: str, error: str) -> None:
    """PostgreSQL converts no values, and ON CONFLICT needs a constraint that is not deferrable."""
    make_log(engine, old, new)
    check(engine, LOG, error)


@ON_POSTGRES
def test_a_log_without_fractions(engine: Engine) -> None:
    """A log that keeps times to the second records notifications."""
    make_log(engine, "received_at TIMESTAMP WITH TIME ZONE", "received_at timestamptz(0)")
    times = [each for each in LOG_COLUMNS if each.endswith("_at")]
    run(engine, *(f"ALTER TABLE kept ALTER {each} TYPE timestamptz(0)" for each in times))
    run(engine, "INSERT INTO people (id, email) VALUES (1, 'ada@x')")
    store = SQLStore(engine, LOG, verify=True)
    suppressed = Suppressed("ada@x", None, NOON, "HardBounce")
    assert statuses(record(store, [arrival(suppressed)])) == [200]
    assert run(engine, "SELECT outcome FROM kept") == [("recorded",)]


@ON_POSTGRES
def test_indexes_of_a_log(engine: Engine) -> None:
    """A partial or an invalid index is not sufficient."""
    make_log(engine, UNIQUE, "")
    index = "CREATE UNIQUE INDEX {} ON kept (fingerprint) {}"
    run(engine, index.format("parked", "WHERE retry_at IS NOT NULL"))
    check(engine, LOG, "has no unique index")
    run(engine, index.format("whole", ""))
    check(engine, LOG, "")
    run(engine, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'whole'::regclass")
    check(engine, LOG, "has no unique index")
    run(engine, "CREATE VIEW seen AS SELECT * FROM kept")
    check(engine, replace(HOST, log="seen"), "")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("", "", ""),
        ("_changes", "", "no table 'hookrow_suppression_changes' for the dates of changes."),
        ("changed_at", "changed", "'hookrow_suppression_changes' lacks changed_at."),
        ("row_key {name}", "row_key DATE", "'row_key' of 'hookrow_suppression_changes' is of the "),
        ("{time}", "DATE", "'changed_at' of 'hookrow_suppression_changes' is"),
        (", PRIMARY KEY (role, row_key)", "", "no unique index on exactly 'role' and 'row_key'."),
        ("KEY (role, row_key)", "KEY (role)", "no unique index on exactly 'role' and 'row_key'."),
    ],
)
def test_dates(engine: Engine, old: str, new: str, error: str) -> None:
    """Dates beside the log are verified if a role needs them; the error names a remedy."""
    make_log(engine, UNIQUE, UNIQUE)
    create(engine, f"DROP TABLE {DATES.split()[2]}", DATES.replace(old, new))
    check(engine, LOG, error)
    check(engine, LOG, error and "Create it like hookrow_suppression_changes in the output of ")
    dated = Role("people", {"suppression_changed_at": "deleted_at"})
    check(engine, replace(LOG, subscribers=dated), "")


@ON_POSTGRES
def test_privileges_on_dates(engine: Engine) -> None:
    """Missing privileges on the table of dates are named."""
    make_log(engine, UNIQUE, UNIQUE)
    revoke = "REVOKE INSERT, UPDATE ON hookrow_suppression_changes FROM {}"
    with (
        database_user(engine.url.render_as_string(), *WRITES, revoke) as url,
        opened(url) as user,
    ):
        check(user, LOG, 'GRANT INSERT, UPDATE ON "hookrow_suppression_changes" TO ')


OWN = "hookrow_notifications"


@pytest.mark.parametrize(
    ("statement", "log", "error"),
    [
        (f"DROP TABLE {OWN}", OWN, f"no table '{OWN}' for the log. Run `hookrow db upgrade`,"),
        (f"ALTER TABLE {OWN} DROP COLUMN attempts", OWN, f"'{OWN}' lacks attempts. Run `hookrow"),
        (f"ALTER TABLE {OWN} DROP COLUMN entry", OWN, f"'{OWN}' lacks entry. Run `hookrow"),
        (f"ALTER TABLE {OWN} RENAME TO kept; CREATE TABLE {OWN} AS SELECT * FROM kept", OWN, "Run"),
        ("SELECT 1", "hookrow_notification", f"Did you mean '{OWN}'? Create it like {OWN} in the"),
        ("SELECT 1", "journal", " To use no log, set Schema(log=None)."),
    ],
)
def test_log_of_hookrows_own(ours: Engine, statement: str, log: str, error: str) -> None:
    """The error names the command that creates the log, or the nearest name."""
    run(ours, *statement.split("; "))
    check(ours, Schema(log=log), error)


@pytest.mark.parametrize("change", ["DROP TABLE {}", "ALTER TABLE {} DROP COLUMN attempts"])
@pytest.mark.parametrize(
    ("notation", "line"),
    [
        (Notation.PYTHON, "set Schema(log=None)."),
        (Notation.TOML, "set `log = false` in [tables] in hookrow.toml."),
        (None, "set HOOKROW['LOG'] to False."),
    ],
)
def test_errors_of_the_log_name_the_setting_that_disables_it(
    ours: Engine, change: str, notation: Notation | None, line: str
) -> None:
    run(ours, change.format(OWN))
    check(ours, Schema().written_in(notation), f" To use no log, {line}")
