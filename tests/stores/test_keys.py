"""A key that several rows of a host's table may share is rejected, with the line to write."""

import re
from collections.abc import Callable
from contextlib import closing, nullcontext

import pytest
from contract import ADA, arrival, insistent, opens
from django.db import connections
from django.db.transaction import atomic
from host_tables import HOST, ON_MARIADB, REST, WITH_PARTIAL_INDEXES, drop_key, make, people
from locations import empty_engine
from sqlalchemy import Engine, event

import django_host
from copying import replace
from databases import POSTGRESQL, SQLITE, kind_of
from engines import create, database_user, run
from hookrow import Refused, Role, Schema, SchemaMismatch
from hookrow._core.schema import SUPPRESSION
from hookrow.django._store import DjangoDatabase, DjangoStore
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._connections import Database
from hookrow.stores.sql._keys import undeclarable_keys
from hookrow.stores.sql._urls import open_database
from hookrow.stores.sql._verify import verify

engine = pytest.fixture(empty_engine)

ON_POSTGRES = pytest.mark.parametrize("empty_database_url", ["postgres"], indirect=True)
ON_SQLITE = pytest.mark.parametrize("empty_database_url", ["sqlite"], indirect=True)

LISTS = replace(HOST, subscriptions=Role("members", dict.fromkeys(SUPPRESSION[1:])))
"""Subscriptions are changed, so that their keys matter."""

NO_PAIRS = "'list_id' and 'subscriber_id' of 'members' are not unique together"


def hiding(**where: object) -> Schema:
    """Return the schema with some subscriptions hidden."""
    role = Role("members", dict.fromkeys(SUPPRESSION[1:]), where=where)  # type: ignore[arg-type] # the values vary
    return replace(LISTS, subscriptions=role)


def check(database: Engine | str, schema: Schema, error: str) -> None:
    """Assert that the tables are refused with this text, or accepted if it is empty."""
    with (
        pytest.raises(SchemaMismatch, match=re.escape(error)) if error else nullcontext(),
        closing(open_database(database)) as opened,
    ):
        verify(opened, schema)


def undeclarable(engine: Engine, schema: Schema) -> list[str]:
    """Return the roles whose keys the database cannot keep unique."""
    database = open_database(engine)
    tables = verify(database, schema).tables
    with database.reading() as connection:
        return list(undeclarable_keys(catalogue_of(connection, tables.dialect), tables))


@pytest.fixture
def host(engine: Engine) -> Engine:
    """Make the host's tables; all keys are unique."""
    return make(engine)


class TestRemedies:
    """The error names the table, the columns, the consequence and the line to write."""

    def follow(self, host: Engine, schema: Schema, error: str) -> None:
        """Run the statement at the end of the error; assert that the schema is then accepted."""
        with pytest.raises(SchemaMismatch) as refused:
            verify(open_database(host), schema)
        text, _, statement = str(refused.value).rpartition("run ")
        assert text.startswith(error)
        run(host, statement)
        check(host, schema, "")

    @pytest.mark.parametrize(
        ("table", "effect"),
        [
            ("people", "one notification could change several rows"),
            ("sends", "one notification could change several rows"),
            ("campaigns", "one dispatch could have the lists of several messages"),
        ],
    )
    def test_id(self, host: Engine, table: str, effect: str) -> None:
        """The id by which rows are changed, or messages are found, must be unique."""
        drop_key(host, table)
        error = f"The column 'id' of '{table}' is not unique, so {effect}: "
        self.follow(host, HOST, error)

    def test_pair(self, host: Engine) -> None:
        """The list and the subscriber of a subscription that is changed must be unique together."""
        drop_key(host, "members")
        effect = "so one notification could change several rows: "
        self.follow(host, LISTS, f"The columns {NO_PAIRS}, {effect}")
        index = "hookrow_members_list_id_subscriber_id"
        run(host, kind_of(host).drop_index(index, "members"))
        check(host, HOST, "")  # nothing of a subscription is changed

    def test_hidden_rows(self, host: Engine) -> None:
        """The index need not cover rows that are hidden."""
        drop_key(host, "members")
        create(host, "ALTER TABLE members ADD COLUMN tenant {name}")
        given = "INSERT INTO members (list_id, subscriber_id, tenant) VALUES (1, 1, {})"
        run(host, given.format("'100%'"), given.format("'b'"))
        self.follow(host, hiding(tenant="100%"), f"The columns {NO_PAIRS}")

    def test_primary_key(self, engine: Engine) -> None:
        """The primary key is suggested, unless it is mapped already."""
        keys = {"people.state": "integer PRIMARY KEY", "sends.campaign_id": "integer PRIMARY KEY"}
        make(engine, keys)
        for table in ("people", "sends"):
            drop_key(engine, table)
        check(engine, HOST, 'rows: map the primary key, {"id": "state"}, or run CREATE UNIQUE IN')
        schema = replace(HOST, subscribers=Role("people", {**REST, "id": "state"}))
        check(
            engine,
            schema,
            "'sends' is not unique, so one notification could change several rows: run",
        )

    @WITH_PARTIAL_INDEXES
    def test_partial_index(self, host: Engine) -> None:
        """The error names a partial index whose condition would make it sufficient."""
        index = "CREATE UNIQUE INDEX kept ON people (id) WHERE deleted_at IS NULL"
        drop_key(host, "people")
        run(host, index)
        check(host, HOST, "rows: set `where` to the condition of the unique index 'kept', or run")
        check(host, people(where={"deleted_at": None}), "")


@pytest.mark.parametrize(
    ("index", "where", "is_unique"),
    [
        ("(subscriber_id, list_id)", {}, True),
        ("(list_id)", {}, True),
        ("(subscriber_id)", {}, True),
        ("(list_id, subscriber_id, suppressed_at)", {}, False),
        ("(list_id, subscriber_id, tenant)", {"tenant": "100%"}, True),
        ("(tenant, subscriber_id)", {"tenant": "a"}, True),
        ("(tenant)", {"tenant": "a"}, True),
        ("(list_id, subscriber_id, active)", {"active": True}, True),
        ("(list_id, subscriber_id, active)", {"active": False}, True),
        ("(list_id, subscriber_id, state)", {"state": 0}, True),
        ("(list_id, subscriber_id, tenant, state)", {"tenant": "a", "state": 1}, True),
        ("(list_id, subscriber_id, tenant, state)", {"tenant": "a"}, False),
        ("(list_id, subscriber_id, tenant)", {"state": 1}, False),
        ("(list_id, subscriber_id, tenant)", {"tenant": None}, False),
        ("(list_id, subscriber_id, tenant)", {"tenant": False}, False),
        ("(list_id, subscriber_id, state)", {"state": False}, False),
        ("(list_id, subscriber_id, active)", {"active": None}, False),
    ],
)
def test_unique_indexes(
    host: Engine, index: str, where: dict[str, object], *, is_unique: bool
) -> None:
    """An index counts if no two visible rows with the same key can be in the table.

    A column with one value in all visible rows may be a part of it. Nulls are distinct; False
    stands for null, except in a boolean column.
    """
    replace_key(host, index)
    check(host, hiding(**where), "" if is_unique else NO_PAIRS)


@WITH_PARTIAL_INDEXES
@pytest.mark.parametrize(
    ("index", "where", "is_unique"),
    [
        ("(list_id, (subscriber_id + 0))", {}, False),
        ("(list_id, subscriber_id) WHERE list_id IS NOT NULL", {}, True),
        ("(list_id, subscriber_id) WHERE list_id > 0", {}, False),
        ("(list_id, subscriber_id) WHERE left_at IS NULL", {}, False),
        ("(list_id, subscriber_id) WHERE left_at IS NULL", {"left_at": None}, True),
        ("(list_id) WHERE left_at IS NULL", {"left_at": None, "state": 1}, True),
        ("(list_id, subscriber_id) WHERE left_at IS NULL", {"state": 1}, False),
        ("(list_id, subscriber_id) WHERE left_at IS NOT NULL", {"left_at": None}, False),
        (
            "(list_id, subscriber_id) WHERE state = 1 AND left_at IS NULL",
            {"left_at": None, "state": 1},
            True,
        ),
        ("(list_id, subscriber_id) WHERE state = 1 AND left_at IS NULL", {"state": 1}, False),
        ("(list_id, subscriber_id) WHERE state = 1", {"state": 2}, False),
        ("(list_id, subscriber_id) WHERE tenant = 'it''s 100%'", {"tenant": "it's 100%"}, True),
        ("(list_id, subscriber_id) WHERE tenant = 'other'", {"tenant": "it's 100%"}, False),
        ("(list_id, subscriber_id) WHERE active", {"active": True}, True),
        ("(list_id, subscriber_id) WHERE active = true", {"active": True}, True),
        ("(list_id, subscriber_id) WHERE NOT active", {"active": False}, True),
        ("(list_id, subscriber_id) WHERE NOT active", {"active": True}, False),
        ("(list_id, subscriber_id) WHERE active IS TRUE", {"active": True}, True),
        ("(list_id, subscriber_id) WHERE active IS TRUE", {"active": False}, False),
        ("(list_id, subscriber_id) WHERE active IS TRUE", {}, False),
        ("(list_id, subscriber_id) WHERE active IS NOT FALSE", {"active": True}, True),
        ("(list_id, subscriber_id) WHERE active IS FALSE", {"active": False}, True),
        ("(list_id, subscriber_id) WHERE active IS FALSE", {"active": None}, False),
        ("(list_id, subscriber_id) WHERE active IS NOT TRUE", {"active": False}, True),
        ("(list_id, subscriber_id, lower(tenant))", {"tenant": "a"}, False),
        (
            "(list_id, subscriber_id, tenant) WHERE left_at IS NULL",
            {"tenant": "a", "left_at": None},
            True,
        ),
        ("(list_id, subscriber_id, tenant) WHERE left_at IS NULL", {"tenant": "a"}, False),
    ],
)
def test_partial_indexes(
    host: Engine, index: str, where: dict[str, object], *, is_unique: bool
) -> None:
    """A partial index has to cover all visible rows."""
    replace_key(host, index)
    check(host, hiding(**where), "" if is_unique else NO_PAIRS)


def replace_key(host: Engine, index: str) -> None:
    """Replace the unique index of pairs with another one, which may be on further columns."""
    drop_key(host, "members")
    columns = ("left_at {timestamp}", "state integer", "tenant varchar(20)", "active boolean")
    added = (f"ALTER TABLE members ADD COLUMN {column}" for column in columns)
    create(host, *added, f"CREATE UNIQUE INDEX own ON members {index}")


@pytest.mark.parametrize(
    "key",
    [
        "PRIMARY KEY (list_id, subscriber_id)",
        "UNIQUE (subscriber_id, list_id)",
        "UNIQUE (list_id)",
    ],
)
def test_constraints(host: Engine, key: str) -> None:
    """A constraint is as good as an index."""
    columns = "list_id integer, subscriber_id integer, suppressed_at {timestamp}"
    create(host, "DROP TABLE members", f"CREATE TABLE members ({columns}, {key})")
    check(host, LISTS, "")


@pytest.mark.parametrize("key", ["tenant, id", "id, tenant"])
def test_primary_key_of_tenants(host: Engine, key: str) -> None:
    """A primary key may begin with the tenant; without `where`, an id may be in several rows."""
    columns = "tenant varchar(8), id integer, email {name}, suppressed_at {timestamp}"
    table = f"CREATE TABLE people ({columns}, suppression_reason text, PRIMARY KEY ({key}))"
    create(host, "DROP TABLE people", table)
    check(host, people(where={"tenant": "a"}), "")
    check(host, HOST, "The column 'id' of 'people' is not unique")


@pytest.mark.parametrize("tenant", ["a", "b"])
def test_owner_with_the_id_of_another_tenant(host: Engine, tenant: str) -> None:
    """A response names the visible owner of a dispatch, not a hidden row with the same id."""
    index = "CREATE UNIQUE INDEX own ON people (tenant, id)"
    people_of_both = (
        "INSERT INTO people (tenant, id, email) VALUES ('a', 5, 'a@x'), ('b', 5, 'b@x')"
    )
    drop_key(host, "people")
    run(
        host,
        index,
        people_of_both,
        f"INSERT INTO people (tenant, id, email) VALUES ('{tenant}', 6, '{ADA}')",
        "INSERT INTO sends (id, provider_message_id, subscriber_id) VALUES (1, 'm', 5)",
    )
    with closing(SQLStore(host, people(where={"tenant": tenant}))) as store:
        (refused,) = insistent(store)([arrival(opens(ADA, "m"))])
    assert isinstance(refused, Refused)
    assert f"subscriber {tenant}@x does" in refused.text


@pytest.mark.parametrize("way", ["url", "engine", "django"])
def test_ways_to_connect(engine: Engine, way: str) -> None:
    """The database is asked through each kind of connection, even if a model declares the key."""
    guests = "id integer, email {name}, suppressed_at {time}, suppression_reason text"
    parcels = "id integer PRIMARY KEY, message_id {uuid}, subscriber_id integer"
    create(
        engine,
        f"CREATE TABLE guests ({guests})",
        f"CREATE TABLE parcels ({parcels}, delivered_at {{time}}, opened_at {{time}})",
    )
    partial = " WHERE email = '100%'" if kind_of(engine).has_partial_indexes else ""
    run(engine, f"CREATE UNIQUE INDEX kept ON guests (id){partial}")
    schema = Schema(
        subscribers=Role("guests", REST, where={"email": "100%"}, empty=""),
        dispatches=Role(
            "parcels",
            {"provider_message_id": "message_id", "list_id": None, **dict.fromkeys(SUPPRESSION)},
        ),
        subscriptions=None,
        log=None,
    )
    url = engine.url.render_as_string()
    with django_host.alias(url) as alias:
        if way == "django":
            models = {"subscribers": "crm.Guest", "dispatches": "crm.Parcel"}
            roles = {name: replace(role, table=models[name]) for name, role in schema.roles.items()}
            store = DjangoStore(replace(schema, **roles), alias)
            database: Database = store.database
            schema = store.mapping.schema
        else:
            database = open_database(engine if way == "engine" else url)
        with closing(database):
            verify(database, schema)
            run(engine, kind_of(engine).drop_index("kept", "guests"))
            with pytest.raises(SchemaMismatch, match="'id' of 'guests' is not unique"):
                verify(database, schema)


@ON_SQLITE
@pytest.mark.parametrize(
    ("key", "collation", "is_unique"),
    [
        ("INTEGER PRIMARY KEY", "", True),
        ("INTEGER", "", False),
        ("TEXT PRIMARY KEY", "", True),
        ("INTEGER PRIMARY KEY; WITHOUT ROWID", "", True),
        ("TEXT PRIMARY KEY; WITHOUT ROWID", "", True),
        ("TEXT", "", False),
        ("TEXT", "COLLATE NOCASE", True),
        ("TEXT COLLATE NOCASE", "COLLATE NOCASE", True),
        ("TEXT COLLATE NOCASE", "COLLATE BINARY", False),
    ],
)
def test_sqlite(host: Engine, key: str, collation: str, *, is_unique: bool) -> None:
    """The rowid is unique; an index may distinguish fewer texts than the column, but not more."""
    key, _, options = key.partition(";")
    columns = f"id {key}, email text, suppressed_at timestamp, suppression_reason text"
    run(host, "DROP TABLE people", f"CREATE TABLE people ({columns}) {options}")
    if collation:
        run(host, f"CREATE UNIQUE INDEX own ON people (id {collation})")
    check(host, HOST, "" if is_unique else "The column 'id' of 'people' is not unique")


@ON_SQLITE
@pytest.mark.parametrize("column", ["subscriber_id", "tenant"])
@pytest.mark.parametrize(
    ("declared", "indexed", "is_unique"),
    [
        ("BINARY", "BINARY", True),
        ("BINARY", "NOCASE", True),
        ("NOCASE", "NOCASE", True),
        ("NOCASE", "BINARY", False),
    ],
)
def test_collation_on_sqlite(
    engine: Engine, column: str, declared: str, indexed: str, *, is_unique: bool
) -> None:
    """No column of an index may distinguish more texts than the column of the table."""
    types = {f"{table}.subscriber_id": "text" for table in ("sends", "members")}
    run(
        make(engine, {**types, "people.id": "text"}),
        "ALTER TABLE members RENAME TO former",
        "CREATE TABLE members (list_id integer, suppressed_at timestamp, "
        f"{column} text COLLATE {declared}, "
        f"{'tenant' if column == 'subscriber_id' else 'subscriber_id'} text)",
        "CREATE UNIQUE INDEX own ON members "
        f"(list_id, {'' if column == 'subscriber_id' else 'subscriber_id, '}"
        f"{column} COLLATE {indexed})",
    )
    check(engine, hiding(tenant="a"), "" if is_unique else NO_PAIRS)


@ON_SQLITE
def test_attached_database(engine: Engine, new_database: Callable[[str], str]) -> None:
    """The indexes of a table are read in its own database, whose name may have capitals."""
    path = new_database(SQLITE.name).removeprefix("sqlite:///")
    attach = f"ATTACH '{path}' AS CRM"
    event.listen(engine, "connect", lambda connection, _: connection.execute(attach))
    run(make(engine), "CREATE TABLE crm.members AS SELECT * FROM members")
    schema = replace(LISTS, subscriptions=Role("crm.members", dict.fromkeys(SUPPRESSION[1:])))
    check(engine, schema, "'subscriber_id' of 'crm.members' are not unique together")
    run(engine, "CREATE UNIQUE INDEX crm.own ON members (list_id, subscriber_id)")
    check(engine, schema, "")


@ON_POSTGRES
@pytest.mark.parametrize(
    ("statements", "is_unique"),
    [
        (["ALTER TABLE members ADD UNIQUE (list_id) DEFERRABLE INITIALLY DEFERRED"], True),
        (["CREATE UNIQUE INDEX own ON members (list_id) INCLUDE (suppressed_at)"], True),
        (["CREATE UNIQUE INDEX own ON members (list_id, subscriber_id) NULLS NOT DISTINCT"], True),
        (["ALTER TABLE members ADD EXCLUDE (list_id WITH =)"], False),
        (
            [
                "CREATE UNIQUE INDEX own ON members (list_id)",
                "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'own'::regclass",
            ],
            False,
        ),
    ],
    ids=["deferrable", "include", "nulls", "exclude", "invalid"],
)
def test_postgres(host: Engine, statements: list[str], *, is_unique: bool) -> None:
    """Only a valid unique index counts; when it is checked does not matter."""
    ((version,),) = run(host, "SHOW server_version_num")
    if int(version) < 150000:
        statements = [each.replace(" NULLS NOT DISTINCT", "") for each in statements]
    drop_key(host, "members")
    run(host, *statements)
    check(host, LISTS, "" if is_unique else NO_PAIRS)


@ON_POSTGRES
def test_collation(host: Engine) -> None:
    """An index that distinguishes texts that are equal in the column is not sufficient."""
    collation = (
        "CREATE COLLATION no_case "
        "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
    )
    if not run(host, "SELECT 1 FROM pg_collation WHERE collprovider = 'i' LIMIT 1"):
        pytest.skip("this PostgreSQL was built without ICU")
    types = "ALTER id TYPE text COLLATE no_case"
    sends = "ALTER TABLE sends ALTER subscriber_id TYPE text"
    members = "ALTER TABLE members ALTER subscriber_id TYPE text"
    binary = 'CREATE UNIQUE INDEX own ON people (id COLLATE "C")'
    run(host, collation, "DROP INDEX people_key", f"ALTER TABLE people {types}", sends, members)
    run(host, binary)
    check(host, HOST, "The column 'id' of 'people' is not unique")
    run(host, "CREATE UNIQUE INDEX folding ON people (id)")
    check(host, HOST, "")


@ON_POSTGRES
@pytest.mark.parametrize(
    ("type_", "operators", "is_unique"),
    [
        ("citext", "citext_ops", True),
        ("citext", "text_ops", False),
        ("ignoring", "text_ops", False),
        ("text", "text_pattern_ops", True),
        ("varchar(8)", "varchar_ops", True),
    ],
)
def test_operators(host: Engine, type_: str, operators: str, *, is_unique: bool) -> None:
    """An index of a citext with the operators of text distinguishes texts that are equal."""
    POSTGRESQL.text_without_case(host)
    run(
        host,
        "CREATE DOMAIN ignoring AS citext",
        POSTGRESQL.drop_index("members_key", "members"),
        f"ALTER TABLE members ADD COLUMN tenant {type_}",
        f"CREATE UNIQUE INDEX own ON members (list_id, subscriber_id, tenant {operators})",
    )
    check(host, hiding(tenant="a"), "" if is_unique else NO_PAIRS)


@ON_POSTGRES
def test_partitions_of_tenants(host: Engine) -> None:
    """A table that is partitioned by the tenant has a key if the tenant is part of it."""
    run(
        host,
        "DROP TABLE members",
        f"{PARTITIONED}, tenant text, PRIMARY KEY (tenant, list_id, subscriber_id)) "
        "PARTITION BY LIST (tenant)",
    )
    assert undeclarable(host, hiding(tenant="a")) == []
    assert undeclarable(host, LISTS) == ["subscriptions"]


@ON_POSTGRES
def test_column_that_may_not_be_read(host: Engine) -> None:
    """The condition of an index may depend on a column that the user cannot read."""
    run(host, "DROP INDEX people_key", "CREATE UNIQUE INDEX own ON people (id) WHERE active")
    grants = (
        "GRANT SELECT, UPDATE ON sends, members, campaigns TO {}",
        (
            "GRANT SELECT (id, email, suppressed_at, suppression_reason), "
            "UPDATE (suppressed_at, suppression_reason) ON people TO {}"
        ),
    )
    with database_user(host.url.render_as_string(), *grants) as url:
        check(url, HOST, "The column 'id' of 'people' is not unique")


@ON_POSTGRES
def test_settings_are_restored(host: Engine) -> None:
    """The planner's settings of the host's transaction are as before."""
    index = "CREATE UNIQUE INDEX own ON members (list_id) WHERE list_id IS NOT NULL"
    drop_key(host, "members")
    run(host, index)
    with django_host.alias(host.url.render_as_string()) as alias, atomic(alias):
        cursor = connections[alias].cursor()
        cursor.execute("SET LOCAL constraint_exclusion = off")
        verify(DjangoDatabase(alias), LISTS)
        cursor.execute("SHOW constraint_exclusion")
        assert cursor.fetchone() == ("off",)


PARTITIONED = (
    "CREATE TABLE members (list_id integer, subscriber_id integer, suppressed_at timestamp"
)
PART = "CREATE TABLE part PARTITION OF members FOR VALUES WITH (MODULUS 1, REMAINDER 0)"


@ON_POSTGRES
@pytest.mark.parametrize(
    ("statements", "error", "unknown"),
    [
        ([f"{PARTITIONED}) PARTITION BY HASH (list_id)"], NO_PAIRS, []),
        (
            [
                f"{PARTITIONED}) PARTITION BY HASH (list_id)",
                PART,
                "CREATE UNIQUE INDEX own ON part (list_id, subscriber_id)",
            ],
            NO_PAIRS,
            [],
        ),
        (
            [
                f"{PARTITIONED}) PARTITION BY HASH (list_id)",
                PART,
                "CREATE UNIQUE INDEX own ON ONLY members (list_id, subscriber_id)",
            ],
            NO_PAIRS,
            [],
        ),
        (
            [f"{PARTITIONED}, PRIMARY KEY (list_id, subscriber_id)) PARTITION BY HASH (list_id)"],
            "",
            [],
        ),
        ([f"{PARTITIONED}) PARTITION BY RANGE (suppressed_at)"], "", ["subscriptions"]),
        ([f"{PARTITIONED}) PARTITION BY HASH ((list_id + 1))"], "", ["subscriptions"]),
        (
            [
                f"{PARTITIONED}) PARTITION BY HASH (list_id)",
                f"{PART} PARTITION BY RANGE (suppressed_at)",
            ],
            "",
            ["subscriptions"],
        ),
        ([f"{PARTITIONED})", "CREATE TABLE more () INHERITS (members)"], NO_PAIRS, []),
        (
            [f"{PARTITIONED}, UNIQUE (list_id))", "CREATE TABLE more () INHERITS (members)"],
            "",
            ["subscriptions"],
        ),
    ],
    ids=[
        "no index",
        "index of a partition",
        "index of no partition",
        "primary key",
        "partitioned by another column",
        "partitioned by an expression",
        "partition of partitions",
        "parent without an index",
        "parent with an index",
    ],
)
def test_relations(host: Engine, statements: list[str], error: str, unknown: list[str]) -> None:
    """If no unique index can cover all rows of a relation, its key is accepted, but reported."""
    run(host, "DROP TABLE members", *statements)
    check(host, LISTS, error)
    if not error:
        assert undeclarable(host, LISTS) == unknown


@ON_POSTGRES
def test_foreign_table(host: Engine) -> None:
    """A foreign table has no indexes, so its key is accepted, but reported."""
    run(
        host,
        "DROP TABLE campaigns",
        "CREATE FOREIGN DATA WRAPPER nowhere",
        "CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere",
        "CREATE FOREIGN TABLE campaigns (id integer, list_id integer) SERVER nowhere",
    )
    assert undeclarable(host, HOST) == ["messages"]


def test_view(host: Engine) -> None:
    """A view has no indexes, so its key is accepted, but reported."""
    run(host, "CREATE VIEW letters AS SELECT * FROM campaigns")
    assert undeclarable(host, replace(HOST, messages=Role("letters"))) == ["messages"]
    assert undeclarable(host, HOST) == []


VISIBLE = "TINYINT AS (if(left_at IS NULL AND tenant = '1`%', 1, NULL)) VIRTUAL"
"""A generated column that is null in some rows."""


@ON_MARIADB
@pytest.mark.parametrize(
    ("index", "where", "is_unique"),
    [
        # Generated columns take the place of partial indexes.
        ("(list_id, subscriber_id, visible)", {"left_at": None, "tenant": "1`%"}, True),
        ("(visible, list_id)", {"left_at": None, "tenant": "1`%", "state": 1}, True),
        ("(list_id, subscriber_id, visible)", {"left_at": None, "tenant": "other"}, False),
        ("(list_id, subscriber_id, visible)", {"left_at": None}, False),
        ("(list_id, subscriber_id, visible)", {"tenant": "1`%"}, False),
        ("(list_id, subscriber_id, visible)", {}, False),
        # If the beginnings of texts are unique, so are the texts.
        ("(list_id, tenant(3))", {"tenant": "1`%"}, True),
        ("(list_id, tenant(3))", {}, False),
    ],
)
def test_mariadb(host: Engine, index: str, where: dict[str, object], *, is_unique: bool) -> None:
    """On MariaDB, an index counts by the values of its columns in the visible rows."""
    drop_key(host, "members")
    columns = ("left_at {time}", "state integer", "tenant varchar(20)", f"visible {VISIBLE}")
    added = (f"ALTER TABLE members ADD COLUMN {column}" for column in columns)
    create(host, *added)
    run(host, f"CREATE UNIQUE INDEX own ON members {index}".replace(":", r"\:"))
    check(host, hiding(**where), "" if is_unique else NO_PAIRS)


@ON_MARIADB
def test_invisible_index(host: Engine) -> None:
    """An index that the planner ignores keeps its columns unique."""
    drop_key(host, "members")
    run(host, "CREATE UNIQUE INDEX own ON members (list_id, subscriber_id)")
    [(version,)] = run(host, "SELECT version()")
    ignored = "IGNORED" if "MariaDB" in version else "INVISIBLE"
    run(host, f"ALTER TABLE members ALTER INDEX own {ignored}")
    check(host, LISTS, "")


@ON_MARIADB
@pytest.mark.parametrize(
    ("partitions", "error", "unknown"),
    [
        ("HASH (list_id)", NO_PAIRS, []),
        ("KEY (list_id, subscriber_id)", NO_PAIRS, []),
        ("HASH (state + list_id)", "", ["subscriptions"]),
        (
            "RANGE COLUMNS (suppressed_at) (PARTITION p VALUES LESS THAN (MAXVALUE))",
            "",
            ["subscriptions"],
        ),
    ],
)
def test_partitions_on_mariadb(
    host: Engine, partitions: str, error: str, unknown: list[str]
) -> None:
    """A unique index needs the columns of the partitions; otherwise, the key is only reported."""
    columns = "list_id integer, subscriber_id integer, suppressed_at {time}, state integer"
    table = f"CREATE TABLE members ({columns}) PARTITION BY {partitions}"
    create(host, "DROP TABLE members", table)
    check(host, LISTS, error)
    if not error:
        assert undeclarable(host, LISTS) == unknown
