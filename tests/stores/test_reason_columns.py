"""Columns that cannot hold a reason are rejected, and all that can hold every reason are accepted.

The tests write each value that a column must hold to a row, and compare the verification with the
result.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from enum import Enum
from typing import Any

import pytest
from contract import NOON, arrival, insistent, statuses
from host_tables import HOST, make, people
from sqlalchemy import Engine, event, make_url, text
from sqlalchemy.exc import DBAPIError, NotSupportedError

from copying import replace
from databases import MARIADB, NAMES, POSTGRESQL, kind_of
from engines import database_user, opened, run
from hookrow import Role, Schema, SchemaMismatch, Suppressed
from hookrow._core.column_rules import reason_values
from hookrow._core.notification import KNOWN_REASONS
from hookrow.providers.resend import _REASONS
from hookrow.stores._errors import Unavailable
from hookrow.stores.sql import SQLStore

WHY = "people.suppression_reason"


@pytest.fixture(scope="module", params=NAMES)
def url(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> str:
    return new_database(request.param)


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    """Return the database, empty."""
    with opened(url) as engine:
        kind_of(engine).clear(engine)
        yield engine


def only(*kinds: str) -> pytest.MarkDecorator:
    """Run a test on these kinds of databases only."""
    return pytest.mark.parametrize("url", kinds, indirect=True)


def mapped(**reasons: str | int) -> Schema:
    """Return the schema with values for reasons; `others` is the one for all others."""
    others = {"*": reasons.pop("others")} if "others" in reasons else {}
    return replace(HOST, reasons={**reasons, **others})


def refused_by_writes(engine: Engine, schema: Schema) -> list[object]:
    """Write each value that a column of reasons must hold; return those that the database refuses.

    They are written as hookrow does, by an assignment, which unlike a cast does not truncate.
    """
    values = reason_values(schema, schema.subscribers.empty)
    insert = "INSERT INTO people (id, email, suppression_reason) VALUES (1, 'ada@x', :value)"
    assert any(_is_written(engine, insert, value) for value in values)
    update = "UPDATE people SET suppression_reason = :value"
    return [value for value in values if not _is_written(engine, update, value)]


def _is_written(engine: Engine, sql: str, value: object) -> bool:
    try:
        with engine.begin() as connection:
            connection.execute(text(sql), {"value": value})
    except DBAPIError:
        return False
    return True


def assert_verified(engine: Engine, schema: Schema, error: str) -> None:
    """Assert that verification has this error, or none if it is empty, and that writes agree."""
    with pytest.raises(SchemaMismatch, match=re.escape(error)) if error else nullcontext():
        SQLStore(engine, schema, verify=True)
    assert bool(refused_by_writes(engine, schema)) is bool(error)


LONGEST = (
    "which cannot hold the reason 'ManualSuppression': change its type to a text of 17 characters "
    'or more, or set another value in `reasons`: {"ManualSuppression": "..."}.'
)
CONDITION = (
    "which cannot hold the reason 'ManualSuppression': change its type, or set another value in "
    '`reasons`: {"ManualSuppression": "..."}.'
)
SHORT = "CHECK (length(suppression_reason) <= 13)"
WORDS = "('HardBounce', 'SpamComplaint')"
REJECTED = (
    "which rejects the reason 'ManualSuppression': change the constraint, or set another value in "
    '`reasons`: {"ManualSuppression": "..."}.'
)
EMPTY = people(empty="")


def test_reasons_of_the_providers() -> None:
    """The longest reason has 17 characters, and every provider has the same ones."""
    assert max(map(len, KNOWN_REASONS)) == 17
    assert {*_REASONS.values()} == {*KNOWN_REASONS}


@only("postgres")
@pytest.mark.parametrize(
    ("type_", "schema", "error"),
    [
        ("varchar(17)", HOST, ""),
        ("char(17)", HOST, ""),
        ("varchar", HOST, ""),
        ("name", HOST, ""),
        ("varchar(13)", HOST, f"of the type CHARACTER VARYING(13), {LONGEST}"),
        ("char(13)", HOST, f"of the type CHARACTER(13), {LONGEST}"),
        ("word13", HOST, f"of the type CHARACTER VARYING(13), {LONGEST}"),
        ("short", HOST, f"of the type TEXT, {CONDITION}"),
        ("vowels", EMPTY, "cannot hold an empty string: omit `empty`, or change its type."),
        ("present", HOST, "cannot hold null, to which a reactivation sets it: change its type."),
        # A reason that is not mapped is written unchanged.
        ("varchar(7)", mapped(others="bounced"), ""),
        ("varchar(13)", mapped(HardBounce="bounced"), LONGEST),
        ("varchar(13)", mapped(HardBounce="bounced", ManualSuppression="manual"), ""),
        (
            "varchar(6)",
            mapped(HardBounce="bounced"),
            "cannot hold the reasons 'bounced', 'SpamComplaint', 'ManualSuppression': change its t",
        ),
        # A number has a range.
        ("smallint", mapped(HardBounce=-(2**15), others=2**15 - 1), ""),
        ("bigint", mapped(HardBounce=-(2**63), others=2**63 - 1), ""),
        ("numeric", mapped(others=2**63 - 1), ""),
        ("real", mapped(others=9), ""),
        (
            "smallint",
            mapped(HardBounce=1, others=2**15),
            "of the type SMALLINT, which cannot hold the reason 32768: change its type, or correct",
        ),
        ("integer", mapped(others=-(2**31) - 1), "INTEGER, which cannot hold the reason -214748"),
        ("numeric(3, 1)", mapped(others=100), "NUMERIC(3,1), which cannot hold the reason 100"),
        ("numeric(3, 1)", mapped(others=99), ""),
        ("digit", mapped(others=9), ""),
        ("digit", mapped(others=10), "of the type SMALLINT, which cannot hold the reason 10"),
    ],
)
def test_types(engine: Engine, type_: str, schema: Schema, error: str) -> None:
    """A type with a length, a range or a condition of its own has to hold every reason."""
    run(
        engine,
        "CREATE DOMAIN word13 AS varchar(13)",
        "CREATE DOMAIN short AS text CHECK (length(value) <= 13)",
        "CREATE DOMAIN vowels AS text CHECK (value LIKE '%a%' OR value LIKE '%o%')",
        "CREATE DOMAIN present AS text CHECK (value IS NOT NULL)",
        "CREATE DOMAIN digit AS smallint CHECK (value < 10)",
    )
    assert_verified(make(engine, {WHY: type_}), schema, error)


@only("postgres")
def test_citext(engine: Engine) -> None:
    """A type of an extension is accepted, and its own comparison applies to its constraints."""
    type_ = f"{POSTGRESQL.text_without_case(engine)} CHECK (suppression_reason <> 'spamcomplaint')"
    make(engine, {WHY: type_})
    assert_verified(engine, HOST, "which rejects the reason 'SpamComplaint'")


@only("postgres")
def test_collation(engine: Engine) -> None:
    """The collation of a column applies to its constraints."""
    collation = "provider = icu, locale = 'und-u-ks-level2', deterministic = false"
    try:
        run(engine, f'CREATE COLLATION "No case" ({collation})')
    except NotSupportedError:
        pytest.skip("this PostgreSQL was built without ICU")
    check = "CHECK (suppression_reason <> 'spamcomplaint')"
    make(engine, {WHY: f'varchar(20) COLLATE "No case" {check}'})
    assert_verified(engine, HOST, "which rejects the reason 'SpamComplaint'")


@pytest.mark.parametrize(
    ("column", "schema", "error"),
    [
        (f"text {SHORT}", HOST, REJECTED),
        (f"text {SHORT}", mapped(others="other"), ""),
        ("text CHECK (suppression_reason\n<> 'ManualSuppression')", HOST, REJECTED),
        ("text CHECK (suppression_reason NOT LIKE '%Man%')", HOST, REJECTED),
        (f"text CHECK (suppression_reason IN {WORDS})", HOST, REJECTED),
        (f"text CHECK (suppression_reason IN {WORDS})", mapped(others="HardBounce"), ""),
        (
            f"text CHECK (suppression_reason IN {WORDS})",
            mapped(HardBounce="bounced", others="SpamComplaint"),
            "which rejects the reason 'bounced': change the constraint, or correct `reasons`.",
        ),
        ("integer CHECK (suppression_reason > 0)", mapped(others=1), ""),
        ("integer CHECK (suppression_reason > 0)", mapped(others=0), "rejects the reason 0: chan"),
        ("text CHECK (suppression_reason <> '')", HOST, ""),
        (
            "text CHECK (suppression_reason <> '')",
            EMPTY,
            "rejects an empty string: omit `empty`, or",
        ),
        ("text CHECK (suppression_reason IS NOT NULL)", HOST, "rejects null, to which a react"),
    ],
)
def test_constraints(engine: Engine, column: str, schema: Schema, error: str) -> None:
    """A constraint has to admit every reason, and the value for no reason."""
    assert_verified(make(engine, {WHY: column}), schema, error)


@only("sqlite", "postgres")
def test_named_constraint(engine: Engine) -> None:
    """The error names the constraint."""
    make(engine, {WHY: f"text CONSTRAINT short\n{SHORT}"})
    assert_verified(engine, HOST, f"has the constraint short, {REJECTED}")


@only("sqlite", "postgres")
@pytest.mark.parametrize(
    "column",
    [
        "text CHECK (suppressed_at IS NULL OR suppression_reason IS NOT NULL)",
        "text CHECK (tenant IS NOT NULL OR length(suppression_reason) <= 13)",
        "text CHECK (people.suppression_reason <> '(' AND 'suppression_reason' <> '') -- CHECK (x",
        "text /* CHECK ( */ CHECK (suppression_reason <> 'it''s')",
        "text CHECK (\"suppression_reason\" <> '') CHECK ((length(email)) > 1)",
    ],
)
def test_constraints_that_are_not_evaluated(engine: Engine, column: str) -> None:
    """A constraint on other columns, too, is not evaluated, because their values are unknown."""
    make(engine, {WHY: f"{column}\n", "people.tenant": "varchar(8) DEFAULT 'acme' NOT NULL"})
    assert_verified(engine, HOST, "")


def test_reference(engine: Engine) -> None:
    """A table of reasons has to contain each of them."""
    assert_referring(engine, "varchar(20) REFERENCES whys (why)")


@only("sqlite", "postgres")
def test_reference_to_a_primary_key(engine: Engine) -> None:
    """A reference need not name the column."""
    assert_referring(engine, "varchar(20) REFERENCES whys")


def assert_referring(engine: Engine, column: str) -> None:
    """Assert that a column of reasons is rejected until the table `whys` has all of them."""
    run(engine, "CREATE TABLE whys (why varchar(20) PRIMARY KEY)")
    run(engine, "INSERT INTO whys VALUES ('HardBounce'), ('SpamComplaint')")
    make(engine, {WHY: column})
    error = "refers to whys, which lacks the reason 'ManualSuppression': complete that table, or "
    with pytest.raises(SchemaMismatch, match=error):
        SQLStore(engine, HOST, verify=True)
    run(engine, "INSERT INTO whys VALUES ('ManualSuppression')")
    assert_verified(engine, HOST, "")


@only("mariadb")
@pytest.mark.parametrize(
    ("constraint", "error"),
    [
        (f"short {SHORT}", f"has the constraint short, {REJECTED}"),
        (
            "odd CHECK (suppression_reason NOT IN ('it''s', 'a`b%', '\\\\', 'ManualSuppression'))",
            REJECTED,
        ),
        # One on other columns, too, is not evaluated, because their values are unknown.
        ("filled CHECK (suppressed_at IS NULL OR suppression_reason IS NOT NULL)", ""),
        ("own CHECK (tenant IS NOT NULL OR length(suppression_reason) <= 13)", ""),
    ],
)
def test_constraints_on_mariadb(engine: Engine, constraint: str, error: str) -> None:
    """A constraint of the table is evaluated like one of the column, if it is on no other one."""
    make(engine, {"people.tenant": "varchar(8) DEFAULT 'acme' NOT NULL"})
    run(engine, f"ALTER TABLE people ADD CONSTRAINT {constraint}")
    assert_verified(engine, HOST, error)


@only("mariadb")
def test_bits_on_mariadb(engine: Engine) -> None:
    """A BIT holds numbers, but not the ones that are written to it from a JSON array."""
    make(engine, {WHY: "bit(8)"})
    with pytest.raises(
        SchemaMismatch, match=r"of the type BIT\(8\), which cannot hold the reason 9"
    ):
        SQLStore(engine, mapped(others=9), verify=True)


@only("mariadb")
def test_constraints_after_a_trigger(engine: Engine) -> None:
    """A trigger that may replace a value runs before the constraints, which are not evaluated."""
    make(engine, {WHY: f"varchar(99) {SHORT}"})
    replaced = "SET NEW.suppression_reason = left(NEW.suppression_reason, 13)"
    run(engine, MARIADB.create_trigger("people", replaced))
    assert_verified(engine, HOST, "")


@only("mariadb")
def test_references_that_are_not_checked(engine: Engine) -> None:
    """A connection that checks no foreign keys is not restricted by them."""
    run(engine, "CREATE TABLE whys (why varchar(20) PRIMARY KEY)")
    make(engine, {WHY: "varchar(20) REFERENCES whys (why)"})
    with pytest.raises(SchemaMismatch, match="refers to whys, which lacks the reasons"):
        SQLStore(engine, HOST, verify=True)
    event.listen(engine, "connect", _check_no_foreign_keys)
    engine.dispose()
    assert_verified(engine, HOST, "")


def _check_no_foreign_keys(connection: Any, _: object) -> None:  # noqa: ANN401 - a driver's
    with connection.cursor() as cursor:
        cursor.execute("SET foreign_key_checks = 0")


@only("postgres")
def test_what_the_user_may_not_read(engine: Engine, url: str) -> None:
    """A constraint that the database user cannot evaluate is not evaluated."""
    run(engine, "CREATE TABLE whys (why text PRIMARY KEY)")
    make(engine, {WHY: "text REFERENCES whys"})
    tables = "GRANT SELECT, UPDATE ON people, sends, members, campaigns TO {}"
    with database_user(url, "GRANT USAGE ON SCHEMA public TO {}", tables) as limited:
        SQLStore(limited, HOST, verify=True)
        user = make_url(limited).username
        run(engine, f"GRANT SELECT ON whys TO {user}")
        with pytest.raises(SchemaMismatch, match="refers to whys, which lacks the reasons"):
            SQLStore(limited, HOST, verify=True)
        run(engine, "ALTER TABLE whys ENABLE ROW LEVEL SECURITY")  # the key itself ignores it
        SQLStore(limited, HOST, verify=True)


@only("postgres")
def test_a_reference_whose_triggers_are_off(engine: Engine, url: str) -> None:
    """A foreign key whose triggers are disabled, or do not run in the session, is not checked."""
    run(engine, "CREATE TABLE whys (why text PRIMARY KEY)")
    make(engine, {WHY: "text REFERENCES whys"})
    run(engine, "ALTER TABLE people DISABLE TRIGGER ALL")
    assert_verified(engine, HOST, "")
    run(engine, "ALTER TABLE people ENABLE TRIGGER ALL")
    is_replica = {"options": "-csession_replication_role=replica"}
    replica = make_url(url).update_query_dict(is_replica)
    with opened(replica.render_as_string(hide_password=False)) as other:
        SQLStore(other, HOST, verify=True)
    with pytest.raises(SchemaMismatch, match="refers to whys, which lacks the reasons"):
        SQLStore(engine, HOST, verify=True)


def partition(engine: Engine, *partitions: str, by: str = "id") -> None:
    """Make the subscribers a table that is partitioned by a column, with these partitions."""
    run(
        engine,
        "ALTER TABLE people RENAME TO plain",
        f"CREATE TABLE people (LIKE plain) PARTITION BY LIST ({by})",
        *(f"CREATE TABLE {each}" for each in partitions),
    )


@only("postgres")
def test_a_reference_of_partitions(engine: Engine) -> None:
    """The triggers of a foreign key may be disabled on one partition."""
    run(engine, "CREATE TABLE whys (why text PRIMARY KEY)")
    one = "one PARTITION OF people FOR VALUES IN (1)"
    partition(make(engine), one, "others PARTITION OF people DEFAULT")
    run(engine, "CREATE UNIQUE INDEX ON people (id)")
    run(engine, "ALTER TABLE people ADD FOREIGN KEY (suppression_reason) REFERENCES whys")
    with pytest.raises(SchemaMismatch, match="refers to whys, which lacks the reasons"):
        SQLStore(engine, HOST, verify=True)
    run(engine, "ALTER TABLE one DISABLE TRIGGER ALL")
    assert_verified(engine, HOST, "")


@only("postgres")
def test_constraints_of_partitions(engine: Engine) -> None:
    """One on all partitions is evaluated, but not one on a single one, which a row may leave."""
    check = "CHECK (suppression_reason IS {} NULL)"
    active = f"active PARTITION OF people (suppression_reason {check.format('')}) FOR VALUES IN"
    others = f"others PARTITION OF people (suppression_reason {check.format('NOT')}) DEFAULT"
    partition(make(engine), f"{active} (NULL)", others, by="suppression_reason")
    assert_verified(engine, HOST, "")
    run(engine, "DELETE FROM people", f"ALTER TABLE people ADD CONSTRAINT short {SHORT}")
    assert_verified(engine, HOST, f"of 'people' has the constraint short, {REJECTED}")


@only("postgres")
def test_a_reference_to_partitions(engine: Engine) -> None:
    """The reasons may be in several partitions of their table."""
    run(
        engine,
        "CREATE TABLE whys (why text PRIMARY KEY) PARTITION BY LIST (why)",
        "CREATE TABLE hard PARTITION OF whys FOR VALUES IN ('HardBounce')",
        "CREATE TABLE others PARTITION OF whys DEFAULT",
        "INSERT INTO whys VALUES ('HardBounce'), ('SpamComplaint')",
    )
    make(engine, {WHY: "text REFERENCES whys"})
    with pytest.raises(SchemaMismatch, match="whys, which lacks the reason 'ManualSuppression'"):
        SQLStore(engine, HOST, verify=True)
    run(engine, "INSERT INTO whys VALUES ('ManualSuppression')")
    assert_verified(engine, HOST, "")


@only("postgres")
@pytest.mark.parametrize("result", ["true", "reason <> 'SpamComplaint'"])
@pytest.mark.parametrize("where", ["column", "domain"])
def test_functions_that_write(engine: Engine, url: str, result: str, where: str) -> None:
    """What the function of a constraint writes is undone, also before the next evaluation."""
    run(
        engine,
        "CREATE TABLE seen (why text UNIQUE)",
        "CREATE FUNCTION ok(reason text) RETURNS boolean LANGUAGE plpgsql AS $$ "
        f"BEGIN INSERT INTO seen VALUES (reason); RETURN {result}; END $$",
        "CREATE DOMAIN seen_text AS text CHECK (ok(value))",
    )
    make(engine, {WHY: "text CHECK (ok(suppression_reason))" if where == "column" else "seen_text"})
    error = "the reason 'SpamComplaint':"
    passes = nullcontext() if result == "true" else pytest.raises(Unavailable, match=error)
    with closing(SQLStore(url, HOST)) as store, passes:
        store.probe()
    assert run(engine, "SELECT why FROM seen") == []


@only("postgres")
@pytest.mark.parametrize("kind", ["engine", "url"])
def test_a_connection_that_breaks(engine: Engine, url: str, kind: str) -> None:
    """A connection that ends while a constraint is evaluated is an outage, as its error says."""
    run(
        engine,
        "CREATE FUNCTION ok(reason text) RETURNS boolean LANGUAGE sql AS "
        "'SELECT pg_terminate_backend(pg_backend_pid())'",
    )
    make(engine, {WHY: "text CHECK (ok(suppression_reason))"})
    # Some versions of psycopg report the server's error, others the lost connection.
    with pytest.raises(Unavailable, match=r"57P01|terminating connection"):
        SQLStore(engine if kind == "engine" else url, HOST, verify=True)


@only("sqlite")
def test_a_reference_that_is_not_checked(engine: Engine) -> None:
    """On SQLite, an application may leave foreign keys unchecked."""
    run(engine, "CREATE TABLE whys (why text PRIMARY KEY)")
    make(engine, {WHY: "text REFERENCES whys"})

    @event.listens_for(engine, "connect")
    def connect(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA foreign_keys = OFF")

    engine.dispose()
    assert_verified(engine, HOST, "")


REPLACE = """
    CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.suppression_reason = left(NEW.suppression_reason, 5); RETURN NEW; END $$
"""
TRIGGER = "CREATE TRIGGER t {} UPDATE ON people FOR EACH ROW EXECUTE FUNCTION f()"


@only("postgres")
def test_triggers_that_run_first(engine: Engine) -> None:
    """A trigger may replace a value before its constraint is checked, but not for its type."""
    make(engine, {WHY: f"text {SHORT}"})
    run(engine, REPLACE, TRIGGER.format("AFTER"))
    with pytest.raises(SchemaMismatch, match="which rejects the reason 'ManualSuppression'"):
        SQLStore(engine, HOST, verify=True)
    run(engine, TRIGGER.format("BEFORE").replace("TRIGGER t", "TRIGGER first"))
    assert_verified(engine, HOST, "")
    run(engine, "ALTER TABLE people ALTER suppression_reason TYPE varchar(13)")
    with pytest.raises(SchemaMismatch, match="of the type CHARACTER VARYING"):
        SQLStore(engine, HOST, verify=True)


@only("postgres")
def test_names_that_need_quotes(engine: Engine) -> None:
    """Types, columns and constraints may have any name."""
    run(engine, "CREATE DOMAIN \"100%s\" AS text CHECK (value LIKE '%e%' OR value LIKE '%o%')")
    make(
        engine, {WHY: '"100%s" CONSTRAINT "a %s" CHECK (suppression_reason NOT LIKE \'%Manual%\')'}
    )
    run(engine, 'ALTER TABLE people RENAME suppression_reason TO "Why? 100%"')
    role = Role("people", {**HOST.subscribers.columns, "suppression_reason": "Why? 100%"})
    with pytest.raises(
        SchemaMismatch, match=r"'Why\? 100%' of 'people' has the constraint a %s, wh"
    ):
        SQLStore(engine, replace(HOST, subscribers=role), verify=True)


@only("sqlite")
@pytest.mark.parametrize(
    ("column", "schema", "error"),
    [
        ("varchar(12)", HOST, ""),
        ("char(1)", HOST, ""),
        ("smallint", mapped(others=2**15), ""),
        ("", HOST, ""),
        ("numeric", HOST, ""),
        # The collation and the affinity of the column apply to its constraints.
        ("text COLLATE NOCASE CHECK (suppression_reason NOT IN ('hardbounce'))", HOST, "HardBounc"),
        ("varchar(9) CHECK (typeof(suppression_reason) <> 'integer')", HOST, ""),
        ('text CHECK ("suppression_reason" <> "it\'s")', HOST, ""),
        ("text CHECK ([suppression_reason] <> `suppression_reason` || 'x')", HOST, ""),
    ],
)
def test_columns_on_sqlite(engine: Engine, column: str, schema: Schema, error: str) -> None:
    """SQLite ignores lengths, and stores texts and numbers in columns of almost any type."""
    assert_verified(make(engine, {WHY: column}), schema, error)


@only("sqlite")
@pytest.mark.parametrize("key", ["rowid", "_rowid_", "OID", '"rowid"'])
def test_row_ids(engine: Engine, key: str) -> None:
    """SQLite has three more names for the key of a row, which is unknown."""
    column = f"text CHECK (suppression_reason IS NULL OR {key} > 0)"
    make(engine, {"people.id": "integer PRIMARY KEY", WHY: column})
    assert_verified(engine, HOST, "")


@only("sqlite")
@pytest.mark.parametrize("key", ["rowid", "_rowid_", "oid"])
def test_a_column_named_like_a_row_id(engine: Engine, key: str) -> None:
    """A column may have such a name."""
    make(engine, {WHY: f"text {SHORT}"})
    run(engine, f"ALTER TABLE people RENAME suppression_reason TO {key}")
    role = Role("people", {**HOST.subscribers.columns, "suppression_reason": key})
    with pytest.raises(SchemaMismatch, match="which rejects the reason 'ManualSuppression'"):
        SQLStore(engine, replace(HOST, subscribers=role), verify=True)


GENERATED = "AS (CASE suppression_reason WHEN 'HardBounce' THEN nullif(state, 0) ELSE 'x' END)"


@pytest.mark.parametrize(
    ("column", "generated", "error"),
    [
        (f"text {SHORT}", "AS (lower(email)) STORED", REJECTED),
        (f"text {SHORT}", "AS (lower(suppression_reason)) STORED", REJECTED),
        ("text", "AS (lower(email)) STORED", ""),
        ("text", "AS (lower(email)) STORED CHECK (shown IS NULL OR shown <> '')", ""),
        ("text", "AS (lower(email)) STORED, CHECK (suppression_reason <> shown)", ""),
    ],
)
def test_generated_columns(engine: Engine, column: str, generated: str, error: str) -> None:
    """A table may have generated columns, on which no constraint is evaluated."""
    make(engine, {WHY: column, "people.tenant": f"text, shown text GENERATED ALWAYS {generated}"})
    assert_verified(engine, HOST, error)


@only("sqlite")
@pytest.mark.parametrize("more", ["", "VIRTUAL", "STORED"])
def test_generated_columns_that_are_required(engine: Engine, more: str) -> None:
    """The value of a generated column may depend on others, so that nothing is known."""
    make(engine, {"people.tenant": f"text, shown text NOT NULL {GENERATED} {more}"})
    run(engine, "INSERT INTO people (id, email, state) VALUES (1, 'ada@x', 1)")
    SQLStore(engine, HOST, verify=True)
    run(engine, "UPDATE people SET suppression_reason = 'HardBounce'")


@only("sqlite")
def test_functions_of_the_host(engine: Engine) -> None:
    """A constraint with a function that only the host's connections have is not evaluated."""

    @event.listens_for(engine, "connect")
    def connect(connection: sqlite3.Connection, _: object) -> None:
        connection.create_function("is_known", 1, lambda it: it != "HardBounce", deterministic=True)

    engine.dispose()
    make(engine, {WHY: "text CHECK (is_known(suppression_reason))"})
    SQLStore(engine, HOST, verify=True)


@only("sqlite")
@pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 37), reason="STRICT needs SQLite 3.37")
@pytest.mark.parametrize(
    ("type_", "schema", "error"),
    [
        ("TEXT", HOST, ""),
        ("ANY", HOST, ""),
        ("INTEGER", mapped(others=9), ""),
        ("BLOB", HOST, "of the type BLOB, which cannot hold the reasons 'HardBounce', 'Spam"),
        ("REAL", HOST, "of the type REAL, which cannot hold the reasons 'HardBounce', 'Spam"),
    ],
)
def test_strict_tables(engine: Engine, type_: str, schema: Schema, error: str) -> None:
    """A strict table of SQLite accepts only values of the column's type."""
    make(engine)
    run(
        engine,
        "DROP TABLE people",
        f"CREATE TABLE people (id INTEGER PRIMARY KEY, email TEXT NOT NULL, suppressed_at TEXT, "
        f"photo BLOB DEFAULT x'00' NOT NULL, suppression_reason {type_}) STRICT",
    )
    assert_verified(engine, schema, error)


@only("postgres")
def test_an_enum_that_lacks_some_of_many_reasons(engine: Engine) -> None:
    """Of several hundred values, one that is unsuitable is found with few statements.

    If many are, the error names some.
    """
    words = [f"word {index}" for index in range(500)]
    run(engine, f"CREATE TYPE words AS ENUM ({', '.join(map(repr, words[1:]))})")
    make(engine, {WHY: "words"})
    asked: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    schema = mapped(**{each.title(): each for each in words}, others=words[-1])
    with pytest.raises(SchemaMismatch, match=r"cannot hold the reason 'word 0': .* `reasons`\."):
        SQLStore(engine, schema, verify=True)
    assert len(asked) < 150
    asked.clear()
    schema = mapped(**{each.title(): each.upper() for each in words}, others=words[-1])
    with pytest.raises(SchemaMismatch, match=r"'WORD 0', .*, 'WORD 9', and others: change its ty"):
        SQLStore(engine, schema, verify=True)
    assert len(asked) < 150


class Word(str, Enum):  # noqa: UP042 - as hosts for Python 3.10 define them
    """A host's reasons, as members of an enum whose `str` is their name."""

    BOUNCED = "bounced"
    OTHER = "other"


class Number(int, Enum):
    """The same as numbers."""

    BOUNCED = 1
    OTHER = 2


@pytest.mark.parametrize(
    ("type_", "members", "kept"), [("text", Word, "bounced"), ("integer", Number, 1)]
)
def test_members_of_enums(
    engine: Engine, type_: str, members: type[Word | Number], kept: object
) -> None:
    """The members of a host's enums are verified, written and compared like their values."""
    make(engine, {WHY: type_, "people.tenant": type_})
    run(engine, f"INSERT INTO people (id, email, tenant) VALUES (1, 'ada@x', '{kept}')")
    reasons = {"HardBounce": members.BOUNCED, "*": members.OTHER}
    schema = replace(people(where={"tenant": members.BOUNCED}), reasons=reasons)
    store = SQLStore(engine, schema, verify=True)
    assert statuses(insistent(store)([arrival(Suppressed("ada@x", None, NOON, "HardBounce"))])) == [
        200
    ]
    assert run(engine, "SELECT suppression_reason FROM people") == [(kept,)]


def test_all_columns_at_once(engine: Engine) -> None:
    """Every unsuitable column is named, in any role."""
    make(engine, {WHY: f"text {SHORT}"})
    run(engine, f"ALTER TABLE members ADD COLUMN suppression_reason text {SHORT}")
    schema = replace(HOST, subscriptions=Role("members", {"suppression_changed_at": None}))
    with pytest.raises(SchemaMismatch) as caught:
        SQLStore(engine, schema, verify=True)
    assert re.findall("of '(people|members)' has", str(caught.value)) == ["people", "members"]


def test_a_connection_of_hookrow(engine: Engine, url: str) -> None:
    """The tables behind a URL are verified like those of an engine, at the first use."""
    make(engine, {WHY: f"text {SHORT}"})
    with closing(SQLStore(url, HOST)) as store:
        for _ in range(2):
            with pytest.raises(Unavailable, match="rejects the reason 'ManualSuppression'"):
                store.probe()
    with pytest.raises(SchemaMismatch, match="rejects the reason 'ManualSuppression'"):
        SQLStore(url, HOST, verify=True)


def test_an_unknown_reason(engine: Engine) -> None:
    """A longer reason that the column rejects fails alone, and is not truncated."""
    make(engine, {WHY: "text CHECK (length(suppression_reason) <= 17)"})
    run(engine, "INSERT INTO people (id, email) VALUES (1, 'ada@x'), (2, 'bea@x')")
    sent = [
        arrival(Suppressed("ada@x", None, NOON, "a reason of the provider's")),
        arrival(Suppressed("bea@x", None, NOON, "ManualSuppression")),
    ]
    store = SQLStore(engine, HOST, verify=True)
    assert statuses(insistent(store)(sent)) == [503, 200]
    kept = run(engine, "SELECT suppression_reason FROM people ORDER BY id")
    assert kept == [(None,), ("ManualSuppression",)]
