"""The columns of MariaDB and MySQL, as their catalogue describes them, and advice about times."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta

import pytest
from contract import ADA, NOON, arrival, insistent, statuses
from host_tables import HOST, ON_MARIADB, make, people
from locations import empty_engine
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from copying import replace
from engines import run
from hookrow import Bounced, Delivered, Role, SchemaMismatch, Suppressed
from hookrow._diagnostics.advice import WEAKNESSES
from hookrow._diagnostics.indexes import missing_indexes
from hookrow._migrations import upgrade
from hookrow._receiver.recorder import record
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._catalogues.base import Catalogue
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._scripts import LOG_TABLE
from hookrow.stores.sql._urls import open_database
from hookrow.stores.sql._verify import verify

pytestmark = ON_MARIADB

engine = pytest.fixture(empty_engine)

UTF8 = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
ASCII = "CHARACTER SET ascii COLLATE ascii_bin"


@contextmanager
def opened_catalogue(engine: Engine) -> Iterator[Catalogue]:
    database = open_database(engine)
    with database.reading() as connection:
        yield catalogue_of(connection, database.dialect)


def columns(engine: Engine, definitions: str) -> Mapping[str, Column]:
    """Create a table; return its columns."""
    run(engine, f"CREATE TABLE made ({definitions})")
    with opened_catalogue(engine) as catalogue:
        return catalogue.columns("made")


@pytest.mark.parametrize(
    ("declared", "kind", "type_"),
    [
        ("varchar(10)", "text", f"varchar(11) {UTF8}"),
        ("varchar(4095)", "text", f"varchar(4096) {UTF8}"),
        ("varchar(4096)", "text", f"longtext {UTF8}"),
        ("char(8) CHARACTER SET ascii", "text", "varchar(9) CHARACTER SET ascii COLLATE ascii_gen"),
        ("text", "text", f"longtext {UTF8}"),
        ("enum('a', 'b%d')", "enum", f"varchar(4) {UTF8}"),
        ("set('a', 'b')", "set", f"varchar(4) {UTF8}"),
        ("binary(16)", "binary", f"varchar(33) {ASCII}"),
        ("bigint unsigned", "number", "bigint"),
        ("decimal(9, 2)", "number", "decimal(9,2)"),
        ("boolean", "boolean", "tinyint"),
        ("bit(1)", "boolean", "tinyint"),
        ("datetime", "datetime", "datetime(6)"),
        ("timestamp(3) NULL", "datetime", "datetime(6)"),
    ],
)
def test_types(engine: Engine, declared: str, kind: str, type_: str) -> None:
    """A value has room for one more character than a text, and bytes are hexadecimal digits."""
    column = columns(engine, f"it {declared}")["it"]
    assert column.kind == kind
    assert column.type.startswith(type_)


def test_value_that_is_too_long(engine: Engine) -> None:
    """The beginning of a longer text is not equal to the text of a column."""
    make(
        engine, {"sends.provider_message_id": "varchar(5)", "people.email": f"varchar({len(ADA)})"}
    )
    run(
        engine,
        f"INSERT INTO people (id, email) VALUES (1, '{ADA}')",
        "INSERT INTO sends (id, provider_message_id, subscriber_id) VALUES (1, 'abcde', 1)",
    )
    store = SQLStore(engine, HOST)
    longer = [(ADA, "abcdef"), (f"{ADA}x", "abcde")]
    arrivals = [arrival(Delivered(*each, NOON)) for each in (*longer, (ADA, "abcde"))]
    assert statuses(record(store, arrivals)) == [404, 404, 200]


KEYS = {
    "double": "0.1 + 0.2e0",
    "decimal(20, 2)": "123456789012345678.25",
    "date": "'2026-03-04'",
    "year": "2026",
    "datetime(6)": "'2026-03-04 05:06:07.123456'",
    "timestamp(6) NULL": "'2026-03-04 05:06:07.123456'",
    "enum('a', 'b')": "'b'",
    "set('a', 'b')": "'a,b'",
    "varbinary(9)": "'\\0a'",
    "bigint unsigned": "18446744073709551615",
    "int(7) zerofill": "7",
    "boolean": "1",
}
"""Types of keys, and values of them as SQL text."""


@pytest.mark.parametrize("supplied", [False, True], ids=["own", "supplied"])
@pytest.mark.parametrize("type_", KEYS)
def test_keys(engine: Engine, empty_database_url: str, type_: str, *, supplied: bool) -> None:
    """A row is found and changed by the key that was read from it."""
    make(engine, dict.fromkeys(("people.id", "sends.id", "sends.subscriber_id"), type_))
    key = KEYS[type_]
    run(
        engine,
        "ALTER TABLE members MODIFY subscriber_id " + type_,
        f"INSERT INTO people (id, email) VALUES ({key}, '{ADA}')",
        "INSERT INTO sends (id, provider_message_id, subscriber_id) "
        f"VALUES ({key}, 'm-ada', {key})",
    )
    sent = [
        arrival(Delivered(ADA, "m-ada", NOON)),
        arrival(Suppressed(ADA, "m-ada", NOON, "HardBounce")),
    ]
    with closing(SQLStore(engine if supplied else empty_database_url, HOST)) as store:
        assert statuses(record(store, sent)) == [200, 200]
    changed = "SELECT suppression_reason FROM people UNION ALL SELECT delivered_at FROM sends"
    assert [bool(value) for (value,) in run(engine, changed)] == [True, True]


@pytest.mark.parametrize("collation", ["utf8mb4_nopad_bin", "utf8mb4_0900_bin"])
def test_keys_that_differ_in_a_blank(
    engine: Engine, empty_database_url: str, collation: str
) -> None:
    """Each of their rows has a date of its own in the side table, whose keys are padded."""
    keys = "people.id", "sends.subscriber_id", "members.subscriber_id"
    try:
        make(engine, dict.fromkeys(keys, f"varchar(9) COLLATE {collation}"))
    except DBAPIError:
        pytest.skip(f"this server has no collation {collation}")
    schema = replace(HOST, log=LOG_TABLE)
    upgrade(empty_database_url, schema)
    times = {"a": NOON, "a ": NOON - timedelta(days=1)}
    for key in times:
        run(engine, f"INSERT INTO people (id, email) VALUES ('{key}', '{ADA}.{len(key)}')")
    arrivals = [
        arrival(Suppressed(f"{ADA}.{len(key)}", None, at, "HardBounce"))
        for key, at in times.items()
    ]
    with closing(SQLStore(empty_database_url, schema)) as store:
        assert statuses(record(store, arrivals)) == [200, 200]
    assert run(engine, "SELECT id FROM people WHERE suppressed_at IS NULL") == []


@pytest.mark.parametrize(
    "type_", ["bit(8)", "bit(1)", "float", "time(6)", "tinyblob", "inet6", "point NOT NULL"]
)
def test_type_that_cannot_be_a_key(engine: Engine, type_: str) -> None:
    """Its values do not find their rows."""
    make(engine)
    length = "(9)" if type_ == "tinyblob" else ""
    try:
        run(
            engine,
            "ALTER TABLE sends DROP COLUMN id",
            f"ALTER TABLE sends ADD id {type_}, ADD UNIQUE (id{length})",
        )
    except DBAPIError:
        pytest.skip("this server has no such type, or no unique index on it")
    name = type_.removesuffix(" NOT NULL").upper()
    text = f"The column 'id' of 'sends' is of the type {name}, which cannot be a key, because"
    with pytest.raises(SchemaMismatch, match=re.escape(text)):
        verify(open_database(engine), HOST)


@pytest.mark.parametrize(("type_", "value"), [("bit(8)", 129), ("year", 2026), ("bit(1)", True)])
def test_condition(engine: Engine, type_: str, *, value: int) -> None:
    """A condition may be on a column of any type that can be compared with its value."""
    make(engine, {"people.state": type_})
    emails = ADA, f"{ADA}x"
    run(
        engine,
        f"INSERT INTO people (id, email, state) VALUES (1, '{emails[0]}', {value})",
        f"INSERT INTO people (id, email, state) VALUES (2, '{emails[1]}', NULL)",
    )
    store = SQLStore(engine, people(where={"state": value}))
    arrivals = [arrival(Suppressed(each, None, NOON, "HardBounce")) for each in emails]
    assert statuses(record(store, arrivals)) == [200, 404]


def test_properties(engine: Engine) -> None:
    """A column may have a default, be generated, or set itself."""
    found = columns(
        engine,
        "id bigint AUTO_INCREMENT PRIMARY KEY, plain varchar(9), named varchar(9) DEFAULT 'x' "
        "NOT NULL, made datetime(3) DEFAULT CURRENT_TIMESTAMP(3), seen timestamp NULL DEFAULT NULL "
        "ON UPDATE CURRENT_TIMESTAMP, lower varchar(9) AS (lower(plain)) VIRTUAL",
    )
    assert [each for each in found if found[each].default] == ["id", "named", "made"]
    assert [each for each in found if found[each].generated] == ["lower"]
    assert [each for each in found if found[each].changes_itself] == ["seen"]
    assert [each for each in found if not found[each].nullable] == ["id", "named"]
    assert [each for each in found if found[each].is_timestamp] == ["seen"]
    assert (found["made"].fraction, found["seen"].fraction) == (3, 0)
    assert found["plain"].folded == found["lower"]
    assert not found["plain"].folds_ascii


@pytest.mark.parametrize(
    ("collation", "ignores_case", "lowers_ascii"),
    [
        ("utf8mb4_bin", False, True),
        ("utf8mb4_general_ci", True, True),
        ("utf8mb4_unicode_520_ci", True, True),
        ("latin1_general_cs", False, True),
        ("latin1_swedish_ci", True, True),
        ("latin1_german2_ci", True, True),
        # I and i are different letters, also to the binary collation of this character set.
        ("utf8mb4_turkish_ci", False, False),
        ("latin5_turkish_ci", False, False),
        ("latin5_bin", False, False),
        ("utf8mb4_tr_0900_ai_ci", False, True),
        ("utf8mb4_uca1400_turkish_ai_ci", False, False),
        # Two letters are one: to these collations, aa and aA, or ch and cH, are different.
        ("utf8mb4_danish_ci", False, True),
        ("utf8mb4_czech_ci", False, True),
        ("utf8mb4_hu_0900_ai_ci", False, True),
        # The function lower() leaves the T as it is.
        ("cp1256_general_ci", True, False),
        ("cp1256_bin", False, False),
    ],
)
class TestCollations:
    """Collations that differ in what they do with upper and lower case."""

    EMAILS = ("iris@example.com", "mchugh@example.com", "haakon@example.com", "tess@example.com")

    @pytest.fixture(autouse=True)
    def type_(self, engine: Engine, collation: str) -> str:
        """Return a type with the collation, which some servers lack."""
        exists = "SELECT collation({} 'x' COLLATE {})"
        charset = collation.partition("_")[0]
        try:
            run(engine, exists.format(f"_{charset}", collation))
        except DBAPIError:
            pytest.skip(f"this server has no collation {collation}")
        return f"varchar(320) CHARACTER SET {charset} COLLATE {collation}"

    def test_properties(
        self, engine: Engine, type_: str, collation: str, *, ignores_case: bool, lowers_ascii: bool
    ) -> None:
        """The server knows them. A generated column is not searched if lower() is of no use."""
        column = columns(engine, f"it {type_}, made {type_} AS (lower(it)) VIRTUAL")["it"]
        assert (column.folded is not None) is lowers_ascii
        assert (column.ignores_case, column.lowers_ascii) == (ignores_case, lowers_ascii)
        assert column.collation == collation

    @pytest.mark.parametrize("advised", [False, True])
    @pytest.mark.usefixtures("collation", "ignores_case", "lowers_ascii")
    def test_emails(
        self, engine: Engine, empty_database_url: str, type_: str, *, advised: bool
    ) -> None:
        """An email is found in any spelling, with the index that `check` advises, or without."""
        make(engine, {"people.email": type_})
        for number, email in enumerate(self.EMAILS):
            stored = email if number % 2 else email.upper()
            run(engine, f"INSERT INTO people (id, email) VALUES ({number}, '{stored}')")
        if advised:
            run(engine, *self.advised(engine))
            assert not self.advised(engine)
        mixed = str.maketrans("hait", "HAIT")
        given = [spelled for email in self.EMAILS for spelled in (email, email.translate(mixed))]
        arrivals = [arrival(Suppressed(each, None, NOON, "HardBounce")) for each in given]
        with closing(SQLStore(empty_database_url, HOST)) as store:
            assert statuses(record(store, arrivals)) == [200] * len(given)

    def advised(self, engine: Engine) -> Sequence[str]:
        """Return the statements that create an index of the emails, if it is missing."""
        database = open_database(engine)
        found = missing_indexes(database, verify(database, HOST).tables)
        statements = [each.partition("Run: ")[2] for each in found if "people" in each]
        return [each for advice in statements for each in advice.split("; ")]


NO_FOLDS = [
    "upper(plain)",
    "concat(lower(plain), '%')",
    "concat(lower(plain), lower(other))",
    "lower('`')",
    "json_value(plain, '$.name')",
    "lower(substring_index(plain, '@', -1))",
    "lower(regexp_replace(plain, '[+][^@]*@', '@'))",
    "replace(lower(plain), '.', '')",
    "if(plain LIKE '%@gmail.com', replace(lower(plain), '.', ''), lower(plain))",
    "trim(lower(plain))",
    "left(lower(plain), 8)",
    "lower(ifnull(plain, ''))",
    "lower(cast(plain AS char(8)))",
    "lower(convert(plain USING latin1))",
]
"""Expressions of which most return the same as lower() for some texts."""


@pytest.mark.parametrize("expression", NO_FOLDS)
def test_generated_column_that_is_no_fold(engine: Engine, expression: str) -> None:
    """A generated column is not searched for emails unless it has them in lower case."""
    made = f"plain varchar(9), other varchar(9), made varchar(30) AS ({expression}) VIRTUAL"
    try:
        found = columns(engine, made)
    except DBAPIError:
        pytest.skip("this server has no such function, or does not allow it here")
    assert found["plain"].folded is None


@pytest.mark.parametrize(
    "type_", ["varchar(8)", "varbinary(36)", "varchar(30) CHARACTER SET latin1"]
)
def test_generated_column_of_another_type(engine: Engine, type_: str) -> None:
    """It is not searched for emails unless it holds each character of them."""
    found = columns(engine, f"plain varchar(9), made {type_} AS (lower(plain)) VIRTUAL")
    assert found["plain"].folded is None


LOWERED_IN_ASCII = (
    "convert(cast(lower(convert(cast(plain AS binary) USING ascii)) AS binary) USING utf8mb4)"
)


@pytest.mark.parametrize(
    ("expression", "folds_ascii"),
    [
        ("lcase(plain)", False),
        ("lower(cast(plain AS char))", False),
        ("lower(cast(plain AS char(99)))", False),
        ("lower(convert(plain USING utf16)) COLLATE utf16_bin", False),
        ("lower(plain COLLATE utf8mb4_general_ci)", False),
        (LOWERED_IN_ASCII, True),
    ],
)
def test_generated_column_that_folds(engine: Engine, expression: str, *, folds_ascii: bool) -> None:
    """It may convert the text, too, without a loss."""
    made = columns(engine, f"plain varchar(99), made varchar(99) AS ({expression}) VIRTUAL")[
        "plain"
    ]
    assert made.folded is not None
    assert made.folds_ascii is folds_ascii


def test_generated_column_for_long_emails(engine: Engine) -> None:
    """It has room for each email, although the column of emails has room for a longer text."""
    found = columns(engine, "plain text, made varchar(320) AS (lower(plain)) VIRTUAL")
    assert found["plain"].folded == found["made"]


def test_generated_columns_with_indexes(engine: Engine) -> None:
    """A subscriber is found although there is also an index of the domains of emails."""
    make(engine)
    run(
        engine,
        "ALTER TABLE people ADD lowered varchar(255) AS (lower(email)) VIRTUAL, ADD INDEX (lowered)"
        ", ADD domain varchar(255) AS (lower(substring_index(email, '@', -1))) VIRTUAL, "
        "ADD INDEX (domain)",
        f"INSERT INTO people (id, email) VALUES (1, '{ADA.title()}')",
    )
    sent = arrival(Suppressed(ADA, None, NOON, "HardBounce"))
    assert statuses(record(SQLStore(engine, HOST), [sent])) == [200]


LATIN = "varchar(64) CHARACTER SET latin1"
LATIN_COLUMNS = {"people.suppression_reason": LATIN, "sends.state": LATIN}
WITH_BOUNCES = replace(
    HOST,
    dispatches=Role(
        "sends", {**HOST.roles["dispatches"].columns, "bounced_at": "made", "bounce_type": "state"}
    ),
)
FORMS = pytest.mark.parametrize("supplied", [False, True], ids=["own", "supplied"])


@FORMS
@pytest.mark.parametrize(
    ("types", "kept"),
    [
        (LATIN_COLUMNS, "Sp\xe9m\u20ac ? ?"),
        (
            {
                "people.suppression_reason": "text CHARACTER SET ucs2",
                "sends.state": "varchar(99) CHARACTER SET utf8mb3",
            },
            "Sp\xe9m\u20ac \N{SNOWMAN} ?",
        ),
    ],
    ids=["latin1", "others"],
)
def test_characters_that_a_column_lacks(
    engine: Engine,
    empty_database_url: str,
    types: Mapping[str, str],
    kept: str,
    *,
    supplied: bool,
) -> None:
    """A question mark stands for each of them, in any row of a group."""
    make(engine, types)
    emails = ADA, f"{ADA}x"
    for number, email in enumerate(emails):
        run(
            engine,
            f"INSERT INTO people (id, email) VALUES ({number}, '{email}')",
            "INSERT INTO sends (id, provider_message_id, subscriber_id) "
            f"VALUES ({number}, 'm-{number}', {number})",
        )
    text = "Sp\xe9m\u20ac \N{SNOWMAN} \N{GRINNING FACE}"
    sent = [
        arrival(Suppressed(emails[0], None, NOON, text)),
        arrival(Suppressed(emails[1], None, NOON, "plain")),
        arrival(Bounced(emails[0], "m-0", NOON, text)),
        arrival(Bounced(emails[1], "m-1", NOON, None)),
    ]
    with closing(SQLStore(engine if supplied else empty_database_url, WITH_BOUNCES)) as store:
        assert statuses(record(store, sent)) == [200] * 4
    assert run(engine, "SELECT suppression_reason FROM people ORDER BY id") == [(kept,), ("plain",)]
    assert run(engine, "SELECT state FROM sends ORDER BY id") == [(kept,), (None,)]


@FORMS
@pytest.mark.parametrize("charset", ["latin1", "utf8mb4"])
@pytest.mark.parametrize("length", [13, 14, 99])
def test_reason_that_is_too_long(
    engine: Engine, empty_database_url: str, charset: str, length: int, *, supplied: bool
) -> None:
    """It is rejected, and never stored as null or in part."""
    make(engine, {"people.suppression_reason": f"varchar(12) CHARACTER SET {charset}"})
    run(engine, f"INSERT INTO people (id, email) VALUES (1, '{ADA}')")
    reasons = {"ManualSuppression": "manual"}
    with closing(
        SQLStore(engine if supplied else empty_database_url, replace(HOST, reasons=reasons))
    ) as store:
        sent = [arrival(Suppressed(ADA, None, NOON, "x" * length))]
        assert statuses(insistent(store)(sent)) == [503]
    assert run(engine, "SELECT suppressed_at, suppression_reason FROM people") == [(None, None)]


def test_texts(engine: Engine) -> None:
    """Each column of reasons that lacks characters has a statement that changes it."""
    make(engine, LATIN_COLUMNS | {"people.email": LATIN})
    database = open_database(engine)
    found = [*WEAKNESSES["texts"](database, verify(database, WITH_BOUNCES).tables)]
    assert [each.partition(" ")[0] for each in found] == [
        "people.suppression_reason",
        "sends.state",
    ]
    mapped = replace(WITH_BOUNCES, reasons={"*": "other"})
    assert len([*WEAKNESSES["texts"](database, verify(database, mapped).tables)]) == 1
    for warning in found:
        [statement] = re.findall("run: (.*?)[.] Repeat", warning)
        run(engine, statement)
    assert not [*WEAKNESSES["texts"](database, verify(database, WITH_BOUNCES).tables)]


def test_names(engine: Engine) -> None:
    """A table is named with its database, and known by its name in the session's database."""
    run(engine, "CREATE TABLE `a``b%` (id integer)", "CREATE VIEW seen AS SELECT * FROM `a``b%`")
    database = engine.url.database
    with opened_catalogue(engine) as catalogue:
        assert sorted(catalogue.tables()) == ["a`b%", "seen"]
        for name in ("a`b%", f"{database}.a`b%"):
            assert catalogue.own_name(name) == (database, "a`b%")
            assert [*catalogue.columns(name)] == ["id"]
        for name in ("missing", "missing.seen"):
            assert catalogue.own_name(name) is None
            assert not catalogue.columns(name)


@pytest.mark.parametrize(
    ("type_", "text", "kept"),
    [
        ("datetime(3)", "has no microseconds: MariaDB truncates them, and MySQL rounds them", 12),
        ("timestamp(6) NULL", "is a TIMESTAMP, which holds no time before 1970 or after 2038", 7),
    ],
)
def test_times(engine: Engine, type_: str, text: str, kept: int) -> None:
    """Each column that loses a part of a time, or a later time, has a statement that changes it.

    It keeps the instants of a TIMESTAMP, of which each session sees the time in its own zone.
    """
    make(engine, {"people.suppressed_at": type_})
    database = open_database(engine)
    [warning] = WEAKNESSES["times"](database, verify(database, HOST).tables)
    assert warning.startswith(f"people.suppressed_at {text}")
    [statements] = re.findall("run: (.*?)[.] Repeat", warning)
    row = "INSERT INTO people (id, suppressed_at) VALUES (1, '2026-03-04 12:00:00')"
    run(engine, "SET time_zone = '+05:00'", row, *statements.split("; "))
    assert not [*WEAKNESSES["times"](database, verify(database, HOST).tables)]
    assert run(engine, "SELECT hour(suppressed_at) FROM people") == [(kept,)]
