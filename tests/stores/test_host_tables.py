"""A host's tables: their names, types, views, schemas, conditions and indexes."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from datetime import date, timedelta, timezone
from itertools import cycle
from typing import get_args
from uuid import UUID

import pytest
from contract import ADA, NOON, arrival, fill, insistent, opens, statuses
from homes import COLUMNS, OURS, Home
from host_tables import HOST, ON_MARIADB, WITH_PARTIAL_INDEXES, drop_key, make, people
from locations import empty_engine, own_engine
from sqlalchemy import UUID as UUID_TYPE
from sqlalchemy import (
    Column,
    DateTime,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    Uuid,
    insert,
    make_url,
    select,
    text,
)
from sqlalchemy.types import TypeEngine

from copying import replace
from databases import ALL, KINDS, kind_of
from engines import run
from hookrow import ConfigurationError, Reactivated, Role, Schema, SchemaMismatch, Suppressed
from hookrow._core.log_entry import log_entries
from hookrow._core.notification import (
    EventTime,
    Key,
    LookupKeys,
    Notification,
    Refusal,
    SetTime,
    Suppressible,
)
from hookrow._core.rules import fail
from hookrow._core.schema import SUPPRESSION, Fold
from hookrow._diagnostics import indexes
from hookrow._diagnostics.advice import repeated_emails
from hookrow._diagnostics.indexes import missing_indexes
from hookrow._diagnostics.stored_values import check_message_ids
from hookrow._postmark_api.register import triggers_of
from hookrow._receiver.entries import POSTMARK
from hookrow._receiver.recorder import record, record_unlocked
from hookrow.migrations import upgrade
from hookrow.stores._log import START, Origin, Query
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._dialects import DIALECTS
from hookrow.stores.sql._urls import open_database
from hookrow.stores.sql._verify import verify
from hookrow.stores.tables import attach, folded
from own_tables import add_ada, attached, metadata, suppressed_at
from times import DAY, SECOND

engine = pytest.fixture(empty_engine)
"""A database for a host's tables."""

ours = pytest.fixture(own_engine)
"""A database with hookrow's tables."""

BARE = dict.fromkeys(SUPPRESSION)
UNDATED = dict.fromkeys(SUPPRESSION[1:])
WITHOUT_LISTS = replace(HOST, dispatches=Role("sends", BARE), subscriptions=None, messages=None)
SUPPRESSED = arrival(Suppressed(ADA, "m-ada", NOON, "HardBounce"))


def respond(engine: Engine, schema: Schema, *notifications: Notification) -> list[str]:
    """Record the notifications; return the texts of the responses."""
    outcomes = record(SQLStore(engine, schema), [arrival(each) for each in notifications])
    return [getattr(outcome, "text", "") for outcome in outcomes]


def unquoted(statement: str) -> str:
    """Return a statement without quotes."""
    return statement.replace('"', "").replace("`", "")


def missing(engine: Engine, schema: Schema) -> list[str]:
    """Return the statements for the indexes that the tables lack."""
    database = open_database(engine)
    warnings = missing_indexes(database, verify(database, schema).tables)
    found = [each.partition("Run: ")[2] for each in warnings]
    if engine.dialect.name == "postgresql":  # the search changed nothing of the session
        assert run(engine, "SHOW enable_seqscan") == [("on",)]
    return found


NAMES = [
    *("order", "Mixed Case", " ", "naïve ß 名前", "😀", "1st", "a-b", "tab\there", "line\nbreak"),
    *('"', '""', "'", "''", "`", "[x]", "\\", "\\'", "/* */", "--", ";", "a;b"),
    *("%", "%s", "%%", "%(x", ":x", "::x", "$1", "?", "{}", "{0}", "@x", "#"),
    *("s", "d", "b", "m", "o", "given", "key_0", "new_at", "kept", "excluded", "value", "name"),
    *("hookrow_part_0", "SELECT", "x ORDER BY y", " WHERE true", "), ("),
]


@pytest.mark.parametrize("supplied", [False, True], ids=["own", "supplied"])
@pytest.mark.parametrize("first", range(0, len(NAMES), 7))
def test_every_name(empty_database_url: str, first: int, *, supplied: bool) -> None:
    """Tables and columns may have any name that the database accepts."""
    kind = kind_of(empty_database_url)
    names = cycle(filter(kind.accepts_name, NAMES[first:] + NAMES[:first]))
    roles = {
        role: Role(f"{next(names)} table", {each: next(names) for each in columns})
        for role, columns in COLUMNS.items()
    }
    schema = Schema(**roles, log=next(names))  # type: ignore[arg-type] # has other arguments, too
    with closing(Home(empty_database_url, schema, supplied=supplied)) as home:
        fill(home)
        assert statuses(record(home.store, [arrival(opens(ADA, "m-ada")), SUPPRESSED])) == [200] * 2
        rows = home.rows()
        assert rows["dispatches"][0]["opened_at"] == NOON
        changed = [rows[kind.value][0]["suppression_reason"] for kind in Suppressible]
        assert changed == ["HardBounce"] * 3
        assert [entry["attempts"] for entry in home.logged()] == [2]  # of one body
        statements = missing(home._engine, schema)
        assert statements
        for statement in statements:
            kind.execute(empty_database_url, statement.replace("CONCURRENTLY ", ""))


UID = UUID("b7bc2f4a-e38e-4336-af7d-e6c392c2f817")


def is_mariadb(engine: Engine) -> bool:
    return "MariaDB" in run(engine, "SELECT version()")[0][0]


def on_every(type_: str) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(DIALECTS, (type_, type_))


DIGITS_AS_TEXT = {"sqlite": ("char(32)", "char(32)"), "mariadb": ("char(32)", "char(32)")}
KEYS: Sequence[tuple[Mapping[str, tuple[str, str]], str, set[Key]]] = [
    (on_every("integer"), "7", {7}),
    (on_every("bigint"), str(2**40 + 7), {2**40 + 7}),
    (on_every("varchar(40)"), "key-7", {"key-7"}),
    (on_every("varchar(32)"), UID.hex, {UID.hex}),
    (on_every("char(36)"), str(UID), {str(UID)}),
    ({**DIGITS_AS_TEXT, "postgresql": ("uuid", "uuid")}, UID.hex, {UID}),
    (DIGITS_AS_TEXT, UID.hex.upper(), {UID.hex.upper()}),
    (DIGITS_AS_TEXT, "key-7", {"key-7"}),
    ({"sqlite": ("uuid", "uuid")}, UID.hex, {UID}),
    ({"sqlite": ("uuid", "uuid")}, str(UID), {str(UID)}),
    ({"mariadb": ("uuid", "uuid")}, str(UID), {UID}),
    ({"mariadb": ("uuid", "char(32)")}, UID.hex, {UID}),
    ({"mariadb": ("uuid", "char(36)")}, str(UID), {UID, str(UID)}),
    ({"mariadb": ("char(36)", "uuid")}, str(UID), {str(UID)}),
]
"""The types of keys and of references, by dialect; a stored key, and its values in Python.

A key to which a text refers is a text, too; nothing refers to the id of a dispatch."""


class TestColumnTypes:
    """A notification reaches the right rows, whatever the types of a host's columns."""

    SCHEMA = replace(
        WITHOUT_LISTS,
        subscribers=Role("people", UNDATED),
        dispatches=Role("sends", UNDATED),
        subscriptions=Role("members", UNDATED),
    )

    def check(
        self, engine: Engine, keys: Sequence[object], key: str, other: str, kind: str
    ) -> Collection[Key]:
        """Suppress the rows with the first key, beside the second: one by one, and in a group.

        Return the keys in the outcomes.
        """
        keyed = ("people.id", "sends.id", "members.list_id")
        others = ("sends.subscriber_id", "sends.list_id", "members.subscriber_id")
        texts = ("people.email", "sends.provider_message_id")
        types = dict.fromkeys(keyed, key) | dict.fromkeys(others, other)
        make(engine, types | dict.fromkeys(texts, kind))
        with engine.begin() as connection:
            for number, key_ in enumerate(keys):
                row = {"key": key_, "person": key_, "list": key_, "m": str(number)}
                row["email"] = f"{number}@example.com"
                sends = "sends (id, provider_message_id, subscriber_id, list_id)"
                for insertion in (
                    "people (id, email) VALUES (:key, :email)",
                    f"{sends} VALUES (:key, :m, :person, :list)",
                    "members (list_id, subscriber_id) VALUES (:list, :person)",
                ):
                    connection.execute(text(f"INSERT INTO {insertion}"), row)
        store = SQLStore(engine, self.SCHEMA)
        sent = [
            arrival(Suppressed("0@example.com", "0", NOON, "HardBounce")),
            arrival(opens("0@EXAMPLE.com", "0")),
            arrival(opens("0@example.com", "1")),
            arrival(opens("0@example.com", "0.0")),
        ]
        lift = "UPDATE {} SET suppressed_at = NULL WHERE suppressed_at IS NOT NULL"
        for groups in ([[each] for each in sent], [sent]):
            outcomes = [each for group in groups for each in record(store, group)]
            assert statuses(outcomes) == [200, 200, 400, 404]
            with engine.begin() as connection:
                for table in ("people", "sends", "members"):
                    assert connection.execute(text(lift.format(table))).rowcount == 1
        rows = [change.row for each in outcomes for change in getattr(each, "changes", ())]
        return {part for _, key_ in rows for part in (key_ if isinstance(key_, tuple) else [key_])}

    @pytest.mark.parametrize(
        ("empty_database_url", "key", "reference", "stored", "expected"),
        [
            (kind.name, *types[kind.dialect], stored, expected)
            for types, stored, expected in KEYS
            for kind in KINDS
            if kind.dialect in types
        ],
        indirect=["empty_database_url"],
    )
    def test_types_in_python(
        self, engine: Engine, key: str, reference: str, stored: str, expected: set[Key]
    ) -> None:
        """A key has the same type on every database, which depends on the column's type."""
        if key == "uuid" and kind_of(engine).dialect == "mariadb" and not is_mariadb(engine):
            pytest.skip("MySQL has no type for UUIDs")
        other = stored.replace("7", "8")
        found = self.check(engine, [stored, other], key, reference, "varchar(320)")
        assert found == expected

    @pytest.mark.parametrize("empty_database_url", ["sqlite"], indirect=True)
    @pytest.mark.parametrize("kind", ["", "uuid", "blob", "date", "char(4)"])
    @pytest.mark.parametrize(
        "keys", [(1, 2), ("a1", "a2"), (b"1", b"2")], ids=["int", "text", "bytes"]
    )
    def test_sqlite(self, engine: Engine, kind: str, keys: Sequence[object]) -> None:
        """SQLite stores any value in any column, and numbers in columns of unknown types."""
        self.check(engine, keys, kind, kind, kind)

    @pytest.mark.parametrize("empty_database_url", ["postgres"], indirect=True)
    @pytest.mark.parametrize(
        ("key", "reference", "keys"),
        [
            ("char(4)", "text", ("a1", "a2")),
            ("text", "char(9)", ("a1", "a2")),
            ("bytea", "bytea", (b"1", b"2")),
            ("numeric", "integer", (1, 2)),
            ("inet", "inet", ("10.0.0.1", "10.0.0.2")),
            ("date", "date", (date(2026, 3, 4), date(2026, 3, 5))),
        ],
    )
    def test_postgres(
        self, engine: Engine, key: str, reference: str, keys: Sequence[object]
    ) -> None:
        """Blanks that pad a CHAR are ignored; all other values are compared exactly."""
        self.check(engine, keys, key, reference, "char(20)")

    @pytest.mark.parametrize("supplied", [False, True], ids=["own", "supplied"])
    @pytest.mark.parametrize("empty_database_url", ["sqlite", "mariadb"], indirect=True)
    def test_spellings_of_a_key(
        self, engine: Engine, empty_database_url: str, *, supplied: bool
    ) -> None:
        """A reference may differ from the key in case only, if the database ignores case."""
        type_ = kind_of(engine).text_without_case(engine).replace("320", "60")
        keys = ("people.id", "sends.subscriber_id", "sends.list_id")
        pair = ("members.subscriber_id", "members.list_id")
        make(engine, dict.fromkeys((*keys, *pair), type_))
        for insertion in (
            "people (id, email) VALUES ('ada', 'ada@example.com')",
            "sends (id, provider_message_id, subscriber_id) VALUES (1, 'm-ada', 'Ada')",
            "sends (id, provider_message_id, subscriber_id) VALUES (2, 'm-2', 'ada')",
            "members (list_id, subscriber_id) VALUES ('NEWS', 'ADA')",
        ):
            run(engine, f"INSERT INTO {insertion}")
        run(engine, "UPDATE sends SET list_id = CASE id WHEN 1 THEN 'News' ELSE 'news' END")

        def suppressed() -> list[int]:
            tables = ("people", "sends", "members")
            return [
                run(engine, f"SELECT count(suppressed_at) FROM {each}")[0][0] for each in tables
            ]

        with closing(SQLStore(engine if supplied else empty_database_url, self.SCHEMA)) as store:
            sent = [arrival(opens(ADA, "m-ada")), SUPPRESSED]
            assert statuses(record(store, sent)) == [200, 200]
            assert suppressed() == [1, 1, 1]
            reactivated = arrival(Reactivated(ADA, "m-ada", NOON))
            assert statuses(record(store, [reactivated], checked=True)) == [200]
            assert suppressed() == [0, 0, 0]
            assert None not in record_unlocked(store, [SUPPRESSED])
            assert suppressed() == [1, 1, 1]
            both = [reactivated, arrival(Suppressed(ADA, "m-2", NOON, "HardBounce"))]
            assert statuses(insistent(store)(both)) == [200, 200]  # one row, the later change
            assert suppressed() == [1, 1, 1]
            both = [both[1], reactivated]
            assert statuses(insistent(store)(both)) == [200, 200]
            assert suppressed() == [0, 1, 0]


def test_only_people(engine: Engine) -> None:
    """There are no figures about dispatches, and nobody to ask about."""
    schema = replace(people(), dispatches=None, subscriptions=None, messages=None)
    with closing(SQLStore(make(engine), schema, verify=True)) as store:
        counts = store.row_counts
        assert (counts.lists(), counts.sent(["m-1"]), counts.suppressed()) == ([], {}, {})
        assert counts.undelivered() is counts.undelivered(NOON) is None
        assert counts.list_undelivered(NOON, limit=1) == []
        assert not [*check_message_ids(store.database, store.role_tables, POSTMARK)]
        assert triggers_of(store.recorded) == ["SubscriptionChange"]
        with store.reading() as reading:
            assert reading.find(LookupKeys({"m-1"})).dispatches == {}


@pytest.mark.parametrize("type_", [Uuid(), UUID_TYPE()])
def test_a_uuid_in_where(engine: Engine, type_: TypeEngine[UUID]) -> None:
    """It is written in the same way on every database, also where a text has only its digits."""
    shop, other = UUID(int=10), UUID(int=11)
    metadata = MetaData()
    people = Table(
        "people",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("email", String(99)),
        Column("suppressed_at", DateTime),
        Column("shop", type_),
    )
    metadata.create_all(engine)
    with engine.begin() as connection:
        rows = [{"id": n, "email": ADA, "shop": each} for n, each in enumerate((other, shop))]
        connection.execute(insert(people), rows)
    bare = {"suppression_reason": None, "suppression_changed_at": None}
    role = Role("people", bare, where={"shop": str(shop).upper()})
    schema = Schema(subscribers=role, dispatches=None, subscriptions=None, log=None)
    store = SQLStore(engine, schema, verify=True)
    assert statuses(record(store, [arrival(Suppressed(ADA, None, NOON, "HardBounce"))])) == [200]
    with engine.connect() as connection:
        suppressed = select(people.c.id).where(people.c.suppressed_at.is_not(None))
        assert connection.scalars(suppressed).all() == [1]


def test_sent_at(engine: Engine) -> None:
    """The time of sending has to be in a column for times; it is in UTC if it has no zone."""
    run(
        make(engine),
        "INSERT INTO sends (id, provider_message_id, state, made) VALUES "
        "(1, 'm-1', 1, '2026-03-04 12:00:00.123456'), (2, 'm-2', 1, NULL), "
        "(3, 'm-3', 0, '2026-03-04 12:00:00.123456')",
    )

    def schema(name: str) -> Schema:
        sends = Role("sends", {"sent_at": name, **BARE}, where={"state": 1})
        return replace(WITHOUT_LISTS, dispatches=sends)

    for name, error in (("mode", "Did you mean 'made'"), ("state", "which cannot hold a date")):
        with pytest.raises(SchemaMismatch, match=error):
            SQLStore(engine, schema(name), verify=True)
    row_counts = SQLStore(engine, schema("made")).row_counts
    assert row_counts.sent(["m-1", "m-2", "m-3"]) == {"m-1": NOON}
    assert row_counts.sent_between(NOON, NOON + SECOND) == (1, 0, 0)
    assert row_counts.sent_between(NOON - SECOND, NOON) == (0, 0, 0)
    listed = list(row_counts.list_undelivered(NOON, limit=9))
    assert [(each.message_id, each.sent_at) for each in listed] == [("m-2", None), ("m-1", NOON)]
    for first, *rest in (listed, listed[1:]):
        assert row_counts.list_undelivered(NOON, after=first.cursor, limit=9) == rest
    assert row_counts.list_undelivered(NOON + SECOND, limit=9) == listed[:1], (
        "its time is not known"
    )


@pytest.mark.parametrize("empty_database_url", ["postgres"], indirect=True)
def test_schema_of_postgresql(engine: Engine) -> None:
    """`mail.hookrow_subscribers` is a table in PostgreSQL's schema `mail`."""
    run(engine, "CREATE SCHEMA mail")
    roles = {name: Role(f"mail.{role.table}") for name, role in OURS.roles.items()}
    schema = replace(OURS, **roles, log=f"mail.{OURS.log}")
    mail = engine.execution_options(schema_translate_map={None: "mail"})
    metadata.create_all(mail)
    add_ada(mail)
    assert statuses(record(SQLStore(engine, schema), [SUPPRESSED])) == [200]
    assert suppressed_at(mail) == NOON
    assert run(engine, "SELECT received_at FROM mail.hookrow_notifications") == [(NOON,)]
    with pytest.raises(SchemaMismatch, match=r"no table 'mail\.peple' for the subscribers"):
        SQLStore(engine, Schema(subscribers=Role("mail.peple")), verify=True)


def test_column_without_zone(postgres_url: str) -> None:
    """A `timestamp without time zone` receives UTC, regardless of the server's time zone."""
    url = postgres_url
    zone = f"ALTER DATABASE {make_url(url).database} SET timezone = 'America/New_York'"
    run(url, zone, "ALTER TABLE hookrow_dispatches ALTER opened_at TYPE timestamp")
    with closing(Home(url, OURS)) as home:
        fill(home)
    opened = "SELECT opened_at::text FROM hookrow_dispatches WHERE id = 1"
    with closing(SQLStore(url)) as store:
        record(store, [arrival(opens(ADA, "m-ada"))])
        assert run(url, opened) == [("2026-03-04 12:00:00.123456",)]
        at = NOON.astimezone(timezone(timedelta(hours=2)))
        for seconds in (1, 0):
            later = SetTime(1, EventTime.OPENED, at + seconds * SECOND, guarded=True)
            with store.transaction() as transaction:
                transaction.write([later])
                assert transaction.read([later.row])[later.row]["opened_at"] == NOON + SECOND
            assert run(url, opened) == [("2026-03-04 12:00:01.123456",)]


@pytest.mark.parametrize("empty_database_url", ["postgres"], indirect=True)
@pytest.mark.parametrize("members", ["people", "public.people", "members"])
def test_two_roles(engine: Engine, members: str) -> None:
    """One table may have two roles, by its name, its qualified name, or a view."""
    run(
        engine,
        "CREATE TABLE people (id bigint PRIMARY KEY, email text, list_id bigint, "
        "suppressed_at timestamptz, unsubscribed_at timestamptz)",
        "CREATE TABLE sends (id bigint PRIMARY KEY, provider_message_id text, "
        "subscriber_id bigint, list_id bigint, delivered_at timestamptz, opened_at timestamptz)",
        "CREATE VIEW members AS SELECT * FROM people",
        f"INSERT INTO people VALUES (1, '{ADA}', 7)",
        "INSERT INTO sends VALUES (1, 'm-ada', 1, 7)",
    )
    own = {"subscriber_id": "id", "suppressed_at": "unsubscribed_at", **UNDATED}
    schema = Schema(
        subscribers=Role("people", UNDATED),
        subscriptions=Role(members, own),
        dispatches=Role("sends", BARE),
        log=None,
    )
    assert statuses(insistent(SQLStore(engine, schema))([SUPPRESSED])) == [200]
    for name in ("suppressed_at", "unsubscribed_at"):
        assert run(engine, f"SELECT {name} FROM people") == [(NOON,)]


@pytest.mark.parametrize("fold", get_args(Fold))
def test_fold(engine: Engine, fold: Fold) -> None:
    """ASCII case is ignored, but `exact` finds an email only as received or in lower case."""
    type_ = "text"
    if fold == "citext":
        type_ = kind_of(engine).text_without_case(engine)
    run(
        make(engine, {"people.email": type_}),
        "INSERT INTO people (id, email) VALUES "
        "(0, 'ada@example.com'), (1, 'Bea@Example.com'), (2, 'ZOË@example.net')",
    )
    is_folded = fold != "exact"
    expected = {
        "ada@example.com": True,
        "Bea@Example.com": True,
        "ADA@EXAMPLE.COM": True,
        "bea@example.com": is_folded,
        "ZOË@EXAMPLE.NET": is_folded,
        "zoë@example.net": False,
        "eve@example.com": False,
    }
    found = respond(engine, people(fold=fold), *(opens(recipient, "m") for recipient in expected))
    assert found == [
        f"Engine::{'Dispatch' if found else 'Subscriber'} not found" for found in expected.values()
    ]


def test_exact_emails_in_a_group(engine: Engine) -> None:
    """Two people whose emails differ in case get a change each, although one owns no dispatch."""
    run(
        make(engine),
        "INSERT INTO people (id, email) VALUES (1, 'Ada@example.com'), (2, 'ada@example.com')",
        "INSERT INTO sends (id, provider_message_id, subscriber_id) VALUES (1, 'm-1', 1)",
    )
    sent: list[Notification] = [
        Suppressed("Ada@example.com", "m-1", NOON, "HardBounce"),
        Reactivated("ada@example.com", "m-2", NOON),
        opens("Ada@example.com", "m-1"),
    ]
    assert respond(engine, people(fold="exact"), *sent) == ["", "", ""]
    assert run(engine, "SELECT id FROM people WHERE suppressed_at IS NOT NULL") == [(1,)]


@pytest.mark.parametrize("fold", get_args(Fold))
@pytest.mark.parametrize("type_", ["text", "uuid"])
def test_search_of_the_log(engine: Engine, fold: Fold, type_: str) -> None:
    """Parked notifications whose rows exist are found, whatever the types and folds of columns.

    Without a dispatch, `exact` finds an address only in lower case.
    """
    kind = kind_of(engine)
    types = {"sends.provider_message_id": kind.types[type_]}
    if fold == "citext":
        types["people.email"] = kind.text_without_case(engine)
    guid = "b7bc2f4a-e38e-4336-af7d-e6c392c2f817"
    has_digits = type_ == "uuid" and kind.keeps_lengths and not kind.has_uuids
    stored = guid.replace("-", "") if has_digits else guid
    run(
        make(engine, types),
        "INSERT INTO people (id, email) VALUES (0, 'ada@example.com'), (1, 'Bea@Example.com')",
        f"INSERT INTO sends (id, provider_message_id, subscriber_id) VALUES (0, '{stored}', 1)",
    )
    url = engine.url.render_as_string(hide_password=False)
    schema = replace(people(fold=fold), log="hookrow_notifications")
    upgrade(url, schema)
    bea = "Bea@Example.com"
    sent: dict[Notification, bool] = {
        opens(bea, guid): True,
        opens(ADA, guid): False,
        opens(bea, guid.replace("7", "8")): False,
        opens(bea, "not a UUID"): False,
        Suppressed(bea, guid, NOON, "HardBounce"): True,
        Suppressed(bea, None, NOON, "HardBounce"): fold != "exact",
        Suppressed(ADA, None, NOON, "HardBounce"): True,
        Reactivated("eve@example.com", None, NOON): False,
    }
    arrivals = [
        replace(arrival(each), body=str(n).encode(), provider="postmark")
        for n, each in enumerate(sent)
    ]
    with closing(SQLStore(url, schema)) as store:
        with store.transaction() as transaction:
            refused = fail(arrivals, Refusal.SUBSCRIBER_NOT_FOUND)
            transaction.write((), log_entries(arrivals, refused, NOON))
        assert store.log is not None
        origins = [Origin(None, "postmark")]
        ids, _ = store.log.hopeful(NOON + DAY, origins=origins, after=START, limit=99)
        found = {each.body for each in store.log.oldest(Query(ids=ids), limit=99)}
    assert found == {str(n) for n, is_hopeful in enumerate(sent.values()) if is_hopeful}


class TestConditions:
    """Rows that the schema's conditions exclude."""

    SCHEMA = replace(
        WITHOUT_LISTS,
        subscribers=Role("people", UNDATED, where={"deleted_at": False, "tenant": "reader's"}),
        dispatches=Role("sends", BARE, where={"state": 1}),
    )

    @pytest.fixture
    def rows(self, engine: Engine) -> Engine:
        """Insert Ada twice, once deleted, Bea, who is deleted, and Cai, who is no reader."""
        run(
            make(engine),
            "INSERT INTO people (id, email, tenant, deleted_at) VALUES "
            "(1, 'ada@example.com', 'reader''s', '2026-03-04'), "
            "(2, 'ada@example.com', 'reader''s', NULL), "
            "(3, 'bea@example.com', 'reader''s', '2026-03-04'), "
            "(4, 'cai@example.com', 'writer''s', NULL)",
            "INSERT INTO sends (id, provider_message_id, subscriber_id, state) VALUES "
            "(1, 'm-ada', 2, 1), (2, 'm-bea', 3, 1), (3, 'm-draft', 2, 0)",
        )
        return engine

    def test_excluded_rows(self, rows: Engine) -> None:
        """Null and `False` exclude other values; an excluded owner of a dispatch is still named."""
        for name, message_id, expected in (
            ("ada", "m-ada", ""),
            ("ada", "m-draft", "Engine::Dispatch not found"),
            ("bea", "m-bea", "Engine::Subscriber not found"),
            ("cai", "m-ada", "Engine::Subscriber not found"),
            ("ada", "m-bea", "Dispatch subscriber bea@example.com does not match payload recip"),
        ):
            [found] = respond(rows, self.SCHEMA, opens(f"{name}@example.com", message_id))
            assert found.removesuffix("ient ada@example.com") == expected
        run(rows, "UPDATE people SET suppressed_at = '2026-03-04'")
        assert respond(rows, self.SCHEMA, Reactivated(ADA, None, NOON)) == [""]
        assert run(rows, "SELECT id FROM people WHERE suppressed_at IS NULL") == [(2,)]

    @WITH_PARTIAL_INDEXES
    def test_indexes(self, rows: Engine) -> None:
        """An index may have the same conditions."""
        on = kind_of(rows).folded_email
        where = "deleted_at IS NULL AND tenant = 'reader''s'"
        run(
            rows,
            f"CREATE INDEX emails ON people ({on}) WHERE {where}",
            "CREATE INDEX messages ON sends (provider_message_id) WHERE state = 1",
        )
        assert missing(rows, self.SCHEMA) == []

    def test_indexes_that_begin_with_conditions(self, rows: Engine) -> None:
        """An index may begin with the columns that hide rows, but with no other ones."""
        others = "CREATE INDEX messages ON sends (list_id, provider_message_id)"
        run(rows, others)
        before = missing(rows, self.SCHEMA)
        run(rows, "CREATE INDEX states ON sends (state, provider_message_id)")
        assert missing(rows, self.SCHEMA) == [each for each in before if "sends" not in each]

    def test_duplicates(self, rows: Engine) -> None:
        """Emails in several selected rows are counted once each, by whether they are equal."""
        database = open_database(rows)
        tables = verify(database, self.SCHEMA).tables
        assert not list(repeated_emails(database, tables))
        emails = ("ADA@example.com", "b@x", "B@X", "b@X", "BEA@example.com")
        given = ", ".join(f"({n}, '{each}', 'reader''s')" for n, each in enumerate(emails, 5))
        run(rows, f"INSERT INTO people (id, email, tenant) VALUES {given}, (10, NULL, 'reader''s')")
        [by_case] = repeated_emails(database, tables)
        assert by_case.startswith(
            "2 emails are in several rows that differ only by case, such as a***@example.com: "
        )
        given = "(11, 'b@X', 'reader''s'), (12, 'b@X', 'writer''s')"
        run(rows, f"INSERT INTO people (id, email, tenant) VALUES {given}")
        by_case, equal = repeated_emails(database, tables)
        assert by_case.startswith("1 email is in several rows that differ only by case, such as a")
        assert equal.startswith("1 email is in several rows with the same spelling, such as b***@x")
        for each in (by_case, equal):
            assert "the row that owns a dispatch with the notification's MessageID, or else" in each
            assert "have no MessageID, so they may change the wrong person's row. Make" in each
            assert "name the column with the tenant of a row in the mapping: `tenant`." in each

    def test_duplicates_in_a_column_that_ignores_case(self, engine: Engine) -> None:
        """Spellings are compared exactly, even if the column's type ignores case."""
        type_ = kind_of(engine).text_without_case(engine)
        given = "(1, 'a@x'), (2, 'A@x'), (3, 'e@x'), (4, '\xe9@x')"
        run(make(engine, {"people.email": type_}), f"INSERT INTO people (id, email) VALUES {given}")
        database = open_database(engine)
        [warning] = repeated_emails(database, verify(database, people(fold="citext")).tables)
        assert warning.startswith("1 email is in several rows that differ only by case")


class TestIndexes:
    """The indexes that the tables lack, according to the database's planner."""

    SCHEMA = replace(WITHOUT_LISTS, subscriptions=Role("members", BARE))

    def test_hookrows_own_tables_lack_none(self, ours: Engine) -> None:
        """Every lookup has an index, even if the tables are empty."""
        assert missing(ours, OURS) == []

    def test_each_missing_index(self, engine: Engine) -> None:
        """Emails, message ids and pairs need one each; the advised statements create them."""
        drop_key(make(engine), "members")
        email, message_id, pair = missing(engine, self.SCHEMA)
        assert "(lower(email" in unquoted(email)
        assert "ON sends (provider_message_id)" in unquoted(message_id)
        assert "ON members (list_id, subscriber_id)" in unquoted(pair)
        assert missing(engine, WITHOUT_LISTS) == [email, message_id]
        run(engine, "CREATE INDEX plain ON people (email)")  # which does not fold
        for statement in (email, message_id, pair):
            run(engine, *statement.split("; "))
            assert statement not in missing(engine, self.SCHEMA)
        assert missing(engine, self.SCHEMA) == []

    def test_missing_indexes_for_suppressions(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A table of many subscribers needs one for their order."""
        schema = WITHOUT_LISTS
        run(make(engine), "INSERT INTO people (id) VALUES (1), (2)")
        lookups = missing(engine, schema)
        monkeypatch.setattr(indexes, "MANY_SUBSCRIBERS", 3)
        assert missing(engine, schema) == lookups
        monkeypatch.setattr(indexes, "MANY_SUBSCRIBERS", 2)
        *others, order = missing(engine, schema)
        assert others == lookups
        assert "hookrow_people_suppressed_at ON people (suppressed_at, id)" in unquoted(order)
        is_partial = order.endswith(" IS NOT NULL")
        assert is_partial is kind_of(engine).has_partial_indexes
        run(engine, order)
        assert missing(engine, schema) == lookups

    @pytest.mark.parametrize("columns", ["subscriber_id, list_id", "subscriber_id"])
    def test_another_index_for_pairs(self, engine: Engine, columns: str) -> None:
        drop_key(make(engine), "members")
        run(engine, f"CREATE INDEX pair ON members ({columns})")
        assert len(missing(engine, self.SCHEMA)) == 2


FOLDED = "varchar(320) COLLATE utf8mb4_bin AS ({}) VIRTUAL"
ASCII = "CONVERT(CAST(lower(CONVERT(CAST(email AS BINARY) USING ascii)) AS BINARY) USING utf8mb4)"


@ON_MARIADB
class TestIndexesOnMariaDB:
    """The indexes that tables of MariaDB and MySQL lack, according to the catalogue."""

    SCHEMA = replace(WITHOUT_LISTS, subscribers=Role("people", UNDATED))

    def emails(self, engine: Engine, fold: Fold = "ascii") -> str:
        """Return the statements for the index of the emails, if it is missing."""
        statements = missing(engine, people(fold=fold))
        return "".join(unquoted(each) for each in statements if "people" in each)

    @pytest.mark.parametrize("type_", ["varchar(320)", "varchar(900)", "text"])
    def test_generated_column(self, engine: Engine, type_: str) -> None:
        """Emails are found by a generated column, unless their collation ignores case."""
        statements = self.emails(make(engine, {"people.email": type_}))
        added, created = statements.split("; ")
        assert added.startswith(f"ALTER TABLE people ADD email_folded {type_}")
        assert added.endswith(" AS (lower(email)) VIRTUAL")
        assert created.startswith("CREATE INDEX hookrow_people_email ON people (email_folded")
        run(engine, added, created)
        assert self.emails(engine) == self.emails(engine, "lower") == ""

    def test_collation_that_ignores_case(self, engine: Engine) -> None:
        make(engine, {"people.email": kind_of(engine).text_without_case(engine)})
        statement = self.emails(engine)
        assert statement.startswith("CREATE INDEX hookrow_people_email ON people (email) ALGORITHM")
        run(engine, statement)
        folds: tuple[Fold, ...] = get_args(Fold)
        assert {self.emails(engine, fold) for fold in folds} == {""}

    @pytest.mark.parametrize("fold", [ASCII, "lower(email)", "lcase((email))"])
    def test_own_generated_column(self, engine: Engine, fold: str) -> None:
        """A host may have such a column, in any spelling; of several, an indexed one is used."""
        run(
            make(engine),
            f"ALTER TABLE people ADD first {FOLDED.format('lower(email)')}",
            f"ALTER TABLE people ADD folded {FOLDED.format(fold)}",
            f"ALTER TABLE people ADD last {FOLDED.format('lower(email)')}",
            "ALTER TABLE people ADD longer " + FOLDED.format("concat(lower(email), '%')"),
        )
        assert "ON people (" in self.emails(engine)
        run(engine, "CREATE INDEX emails ON people (folded)")
        assert self.emails(engine) == ""
        [(email,)] = run(engine, "SELECT 'AD\xc9@x'")
        run(engine, f"INSERT INTO people (id, email) VALUES (1, '{email}')")
        assert respond(engine, self.SCHEMA, Suppressed("ad\xc9@X", None, NOON, "HardBounce")) == [
            ""
        ]

    def test_exact_emails(self, engine: Engine) -> None:
        """An index on emails as they are is of use for another fold."""
        run(make(engine), "CREATE INDEX emails ON people (email)")
        assert self.emails(engine, "exact") == ""
        database = open_database(engine)
        first, *_ = missing_indexes(database, verify(database, people()).tables)
        assert 'An index for fold="exact" exists: set this fold, or add an index.' in first

    @pytest.mark.parametrize("fold", ["exact", "citext"])
    def test_emails_that_are_not_folded(self, engine: Engine, fold: Fold) -> None:
        """A generated column is not used, and may have another character set."""
        type_ = "varchar(320) CHARACTER SET latin1"
        run(
            make(engine, {"people.email": type_}),
            f"ALTER TABLE people ADD folded {FOLDED.format('lower(email)')}",
            "CREATE INDEX emails ON people (email)",
            f"INSERT INTO people (id, email) VALUES (1, '{ADA}')",
        )
        assert self.emails(engine, fold) == ""
        schema = replace(self.SCHEMA, subscribers=Role("people", UNDATED, fold=fold))
        assert respond(engine, schema, Suppressed(ADA, None, NOON, "HardBounce")) == [""]

    def test_unused_indexes(self, engine: Engine) -> None:
        """The planner does not search one that is ignored, or one of words."""
        run(
            make(engine),
            "CREATE INDEX emails ON people (email)",
            "CREATE FULLTEXT INDEX words ON people (email)",
        )
        assert self.emails(engine, "exact") == ""
        [(version,)] = run(engine, "SELECT version()")
        ignored = "IGNORED" if "MariaDB" in version else "INVISIBLE"
        run(engine, f"ALTER TABLE people ALTER INDEX emails {ignored}")
        assert "ON people (email)" in self.emails(engine, "exact")

    def test_index_on_an_expression(self, engine: Engine) -> None:
        """MySQL finds a folded email by an index on the expression. MariaDB has none."""
        if "MariaDB" in run(engine, "SELECT version()")[0][0]:
            pytest.skip("MariaDB has no indexes on expressions")
        run(make(engine), "CREATE INDEX emails ON people ((lower(email)))")
        assert self.emails(engine) == ""

    def test_order_of_suppressions(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        """An index is followed by the primary key."""
        monkeypatch.setattr(indexes, "MANY_SUBSCRIBERS", 1)
        make(engine, {"people.id": "integer PRIMARY KEY"})
        run(
            engine,
            "INSERT INTO people (id) VALUES (1)",
            "CREATE INDEX own ON people (suppressed_at)",
        )
        assert not any("suppressed_at" in each for each in missing(engine, WITHOUT_LISTS))

    def test_view(self, engine: Engine) -> None:
        """The indexes behind a view are unknown, so none are missing."""
        run(make(engine), "CREATE VIEW readers AS SELECT * FROM people")
        assert not any("readers" in each for each in missing(engine, people("readers")))


LOGS = {"hookrow_notifications", "hookrow_hours", "hookrow_meta", "hookrow_suppression_changes"}
MAIL = {"mail.log", *(f"mail.{each}" for each in LOGS - {"hookrow_notifications"})}


class TestAttach:
    """hookrow's own tables in a host's metadata."""

    @pytest.mark.parametrize(
        ("schema", "names"),
        [
            (Schema(), {*metadata.tables}),
            (Schema(log=None), {*metadata.tables} - LOGS),
            (Schema(subscribers=Role("people"), log="mail.log"), MAIL),
            (Schema(subscribers=Role("people"), log=None), set()),
        ],
    )
    def test_tables(self, schema: Schema, names: set[str]) -> None:
        """`attach` adds the tables that the schema needs, once."""
        host = MetaData()
        made = attach(host, schema)
        assert {table.fullname for table in made} == names == {*host.tables}
        assert attach(host, schema) == made

    def test_metadata_with_a_schema(self) -> None:
        """A default schema of the metadata does not move hookrow's tables."""
        host = MetaData(schema="crm")
        with pytest.raises(ConfigurationError, match=r"schema='crm'\) would move hookrow's tables"):
            attach(host, Schema())
        mine = Schema(subscribers=Role("crm.people"), log="crm.log")
        assert {table.schema for table in attach(host, mine)} == {"crm"}

    @pytest.mark.parametrize("database_url", [each.name for each in ALL], indirect=True)
    def test_folded(self, ours: Engine) -> None:
        """An email is found by the index, ignoring the case of ASCII letters."""
        kind = kind_of(ours)
        subscribers = attached(Schema(), kind).tables["hookrow_subscribers"]
        query = select(subscribers.c.email).where(
            folded(subscribers.c.email) == folded("ZOë@b.org")
        )
        with ours.begin() as connection:
            emails = ("zoë@B.org", "ZOË@B.org")
            connection.execute(insert(subscribers), [{"email": email} for email in emails])
            assert connection.scalars(query).all() == ["zoë@B.org"]
            kind.avoid_scans(connection)
            sql = query.compile(ours, compile_kwargs={"literal_binds": True})
            plan = connection.exec_driver_sql(f"{kind.explain} {sql}")
            assert "hookrow_subscribers_email" in str(plan.all())
