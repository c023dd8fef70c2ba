"""What a host's tables cannot do is refused when the store is built, by name, with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from contract import NOON, arrival, statuses
from homes import connect
from sqlalchemy import Engine, text
from test_folds import create_citext

from hookrow import Role, Schema, SchemaMismatch, Suppressed
from hookrow.recording import record
from hookrow.schema import SUPPRESSION
from hookrow.stores.sql import SQLStore
from hookrow.stores.verification import verify

REST = {"suppression_changed_at": None}
HOST = Schema(
    subscribers=Role("people", REST),
    dispatches=Role("sends", {**dict.fromkeys(SUPPRESSION), "message_id": "campaign_id"}),
    subscriptions=Role("members", dict.fromkeys(SUPPRESSION)),
    messages=Role("campaigns"),
    log=None,
)
TABLES = {
    "people": {
        "id": "integer",
        "email": "text",
        "suppressed_at": "timestamp",
        "suppression_reason": "text",
        "deleted_at": "timestamp",
        "state": "integer",
        "active": "boolean",
        "tenant": "varchar(8)",
    },
    "sends": {
        "id": "integer",
        "provider_message_id": "text",
        "subscriber_id": "integer",
        "campaign_id": "integer",
        "delivered_at": "timestamp",
        "opened_at": "timestamp",
    },
    "members": {"list_id": "integer", "subscriber_id": "integer"},
    "campaigns": {"id": "integer", "list_id": "integer"},
}
WORDS = "CREATE TYPE word AS ENUM ('bounced', 'other')"


def make(url: str, *statements: str, **types: str) -> Engine:
    """Make the tables, with some columns of other types: `people__email="uuid"`."""
    engine = connect(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
        for table, columns in TABLES.items():
            named = ", ".join(
                f"{column} {types.get(f'{table}__{column}', type_)}"
                for column, type_ in columns.items()
            )
            connection.execute(text(f"CREATE TABLE {table} ({named})"))
    return engine


def refused(engine: Engine, schema: Schema) -> str | None:
    """Return what the store says when it is built for the schema, None where it takes it."""
    try:
        verify(engine, schema)
    except SchemaMismatch as error:
        return str(error)
    finally:
        engine.dispose()
    return None


def hiding(**where: Any) -> Schema:  # noqa: ANN401 - whatever a host may write
    """Return the schema with rows hidden."""
    return replace(HOST, subscribers=Role("people", REST, where=where))


@pytest.fixture
def url(empty_database_url: str) -> str:
    """Return an empty database: one of each kind."""
    return empty_database_url


class TestNames:
    """What is not there is named, with what is near."""

    @pytest.mark.parametrize(
        ("schema", "said"),
        [
            (hiding(deletd_at=None), "no column 'deletd_at'. Did you mean 'deleted_at'?"),
            (replace(HOST, subscribers=Role("PEEPLE")), "Did you mean 'people'?"),
            (replace(HOST, subscribers=Role("crm.peeple")), "Did you mean 'people'?"),
            (replace(HOST, subscribers=Role("crm.people")), "Did you mean 'people'?"),
            (
                replace(HOST, messages=Role("campaign")),
                "for the messages. Did you mean 'campaigns'",
            ),
        ],
    )
    def test_near(self, url: str, schema: Schema, said: str) -> None:
        """Whatever its case, and where the table is in no such schema."""
        assert said in (refused(make(url), schema) or "")

    def test_in_another_schema(self, empty_postgres_url: str) -> None:
        """A table that is somewhere else is told with where."""
        move = ("CREATE SCHEMA crm", "CREATE TABLE crm.readers (id integer)")
        schema = replace(HOST, subscribers=Role("readers", REST))
        said = refused(make(empty_postgres_url, *move), schema)
        assert said == (
            "The database has no table 'readers' for the subscribers. Did you mean 'crm.readers'?"
        )

    def test_with_a_dot(self, url: str) -> None:
        """A name with a dot is of another schema: the table that it is of is not meant."""
        engine = make(url)
        with engine.begin() as connection:
            connection.execute(text('CREATE TABLE "crm.people" (id integer)'))
        said = refused(engine, replace(HOST, subscribers=Role("crm.people", REST))) or ""
        assert said.endswith("no table 'crm.people' for the subscribers. Did you mean 'people'?")

    def test_a_primary_key_is_not_asked_for(self, url: str) -> None:
        """Nor is an index, which is for the check to find."""
        assert refused(make(url), HOST) is None


class TestNull:
    """A reactivation sets the time of a suppression and its reason to null."""

    MUTED: ClassVar[dict[str, str | None]] = {
        "suppressed_at": "off_at",
        "suppression_reason": "why",
        "suppression_changed_at": "changed",
    }

    @pytest.mark.parametrize(
        ("column", "hint"),
        [
            ("off_at", "drop NOT NULL."),
            ("why", "drop NOT NULL, or map suppression_reason to None to keep no reason."),
        ],
    )
    @pytest.mark.parametrize("role", ["subscribers", "dispatches", "subscriptions"])
    def test_a_column_without(self, url: str, role: str, column: str, hint: str) -> None:
        """It is refused by name, in each role, with what to do."""
        engine, schema, table = self.made(url, role, **{column: "{} NOT NULL"})
        assert refused(engine, schema) == (
            f"The column '{column}' of '{table}' is NOT NULL, but a reactivation sets it to null: "
            f"{hint}"
        )

    def test_times_that_are_only_set(self, url: str) -> None:
        """When it last changed is never set to null."""
        engine, schema, _ = self.made(url, "subscribers", changed="{} NOT NULL")
        assert refused(engine, schema) is None

    @pytest.mark.parametrize("domain", ["filled", "refilled"])
    def test_a_domain(self, empty_postgres_url: str, domain: str) -> None:
        """One that is NOT NULL, or over such a one, is refused as well."""
        make_domains = (
            "CREATE DOMAIN filled AS text NOT NULL",
            "CREATE DOMAIN refilled AS filled",
        )
        engine, schema, _ = self.made(empty_postgres_url, "subscribers", *make_domains, why=domain)
        assert "'why' of 'people' is NOT NULL" in (refused(engine, schema) or "")

    def test_a_view(self, url: str) -> None:
        """Nothing is known of a view's columns, which are taken."""
        engine, schema, _ = self.made(url, "subscribers", why="{} NOT NULL")
        view = "CREATE VIEW seen AS SELECT * FROM people"
        instead = (
            "CREATE TRIGGER instead INSTEAD OF UPDATE ON seen BEGIN "
            "UPDATE people SET why = NEW.why WHERE id = NEW.id; END"
        )
        with engine.begin() as connection:
            connection.execute(text(view))
            if engine.dialect.name == "sqlite":
                connection.exec_driver_sql(instead)
        assert refused(engine, replace(schema, subscribers=Role("seen", self.MUTED))) is None

    def made(
        self, url: str, role: str, *statements: str, **types: str
    ) -> tuple[Engine, Schema, str]:
        """Add the columns of a suppression to a role's table; return it with a schema for them."""
        table = HOST.roles[role].table
        engine = make(url, *statements)
        with engine.begin() as connection:
            for column, kind in (
                ("off_at", "timestamp"),
                ("why", "text"),
                ("changed", "timestamp"),
            ):
                type_ = types.get(column, kind).format(kind)
                add = f"ALTER TABLE {table} ADD COLUMN {column} {type_}"
                default = " DEFAULT ''" if "NOT NULL" in type_ else ""
                connection.execute(text(add + default if url.startswith("sqlite") else add))
        columns = {**HOST.roles[role].columns, **self.MUTED}
        return engine, replace(HOST, **{role: Role(table, columns)}), table  # type: ignore[arg-type] # the roles


class TestTimes:
    @pytest.mark.parametrize("type_", ["boolean", "integer", "date"])
    @pytest.mark.parametrize("column", ["people__suppressed_at", "sends__opened_at"])
    def test_no_date_time(self, url: str, column: str, type_: str) -> None:
        """A flag or a number is no time: the hooks are for a host that keeps one."""
        said = refused(make(url, **{column: type_}), HOST) or ""
        assert column.partition("__")[2] in said
        assert "on_recorded and on_refused" in said

    @pytest.mark.parametrize("type_", ["", "text", "datetime", "timestamptz", "varchar(32)"])
    def test_loose(self, empty_sqlite_url: str, type_: str) -> None:
        """On SQLite whatever may hold a time will do."""
        assert refused(make(empty_sqlite_url, people__suppressed_at=type_), HOST) is None

    def test_strict(self, empty_postgres_url: str) -> None:
        """On PostgreSQL text is no time."""
        said = refused(make(empty_postgres_url, people__suppressed_at="text"), HOST)
        assert "is of the type TEXT, which holds no date-time" in (said or "")


class TestReasons:
    @pytest.mark.parametrize(
        ("type_", "reasons", "said"),
        [
            ("integer", {"HardBounce": 1, "*": 9}, None),
            ("bigint", None, "BIGINT, which holds no words: give `reasons`"),
            ("integer", {"HardBounce": "bounced"}, "cannot hold the reason 'bounced'"),
            ("text", {"HardBounce": 1, "*": 9}, "cannot hold the reason 1"),
            ("text", {"HardBounce": "bounced"}, None),
        ],
    )
    def test_each(
        self, url: str, type_: str, reasons: Mapping[str, str | int] | None, said: str | None
    ) -> None:
        """Numbers go into a column of numbers, words into one of text."""
        engine = make(url, people__suppression_reason=type_)
        found = refused(engine, replace(HOST, reasons=reasons))
        assert (found is None) if said is None else (said in (found or ""))

    @pytest.mark.parametrize(
        ("reasons", "said"),
        [
            ({"HardBounce": "bounced", "*": "other"}, None),
            ({"HardBounce": "bounced"}, "as '*', for all others"),
            (None, "give `reasons`"),
            ({"HardBounce": "bounce", "*": "other"}, "reason 'bounce'. Did you mean 'bounced'?"),
            ({"HardBounce": 1, "*": 9}, "cannot hold the reason 1"),
        ],
    )
    def test_enum(
        self, empty_postgres_url: str, reasons: Mapping[str, str | int] | None, said: str | None
    ) -> None:
        """An enum has all the words that may come of it, and one for whatever else comes."""
        engine = make(empty_postgres_url, WORDS, people__suppression_reason="word")
        found = refused(engine, replace(HOST, reasons=reasons))
        assert (found is None) if said is None else (said in (found or ""))

    def test_enum_is_written(self, empty_postgres_url: str) -> None:
        """The enum's word for what came, and for all others."""
        engine = make(empty_postgres_url, WORDS, people__suppression_reason="word")
        schema = replace(HOST, reasons={"HardBounce": "bounced", "*": "other"})
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO people (id, email) VALUES (1, 'a'), (2, 'b')"))
        told = [Suppressed("a", None, NOON, "HardBounce"), Suppressed("b", None, NOON, "Spite")]
        record(SQLStore(engine, schema), [arrival(each) for each in told])
        with engine.connect() as connection:
            kept = connection.execute(text("SELECT suppression_reason FROM people ORDER BY id"))
            assert kept.scalars().all() == ["bounced", "other"]
        engine.dispose()

    def test_too_long(self, empty_postgres_url: str) -> None:
        """A word that the column would not take is found before it comes."""
        engine = make(empty_postgres_url, people__suppression_reason="varchar(4)")
        schema = replace(HOST, reasons={"HardBounce": "hard", "*": "others"})
        assert "cannot hold the reason 'others'" in (refused(engine, schema) or "")


class TestWhere:
    @pytest.mark.parametrize(
        "where",
        [
            {"deleted_at": None, "state": 1, "active": True, "tenant": "acme"},
            {"deleted_at": False, "active": False},
        ],
    )
    def test_taken(self, url: str, where: dict[str, Any]) -> None:
        """Null of any column, and else what its type can be."""
        assert refused(make(url), hiding(**where)) is None

    @pytest.mark.parametrize("where", [{"state": "one"}, {"state": True}, {"tenant": 1}])
    def test_refused(self, url: str, where: dict[str, Any]) -> None:
        """What a column can never equal would hide every row."""
        assert f"which never equals {next(iter(where.values()))!r}" in (
            refused(make(url), hiding(**where)) or ""
        )


class TestOnPostgres:
    """Where types are compared."""

    @pytest.fixture
    def url(self, empty_postgres_url: str) -> str:
        """Return an empty database."""
        return empty_postgres_url

    @pytest.mark.parametrize(
        "column",
        [
            *("people__id", "sends__subscriber_id", "members__subscriber_id"),
            *("sends__campaign_id", "campaigns__id", "campaigns__list_id", "members__list_id"),
        ],
    )
    @pytest.mark.parametrize("type_", ["text", "uuid", "inet"])
    def test_keys_of_two_types(self, url: str, column: str, type_: str) -> None:
        """A key is of the type of what refers to it."""
        assert "have to be of one type" in (refused(make(url, **{column: type_}), HOST) or "")

    def test_keys_of_one_kind(self, url: str) -> None:
        """Numbers of several sizes are of one type, and so are texts."""
        types = {"people__id": "bigint", "sends__subscriber_id": "smallint"}
        lists = {"campaigns__list_id": "text", "members__list_id": "char(36)"}
        assert refused(make(url, **types, **lists), HOST) is None

    def test_citext(self, url: str) -> None:
        """The fold of a type is for columns of that type."""
        schema = replace(HOST, subscribers=Role("people", REST, fold="citext"))
        assert "is of the type TEXT, not CITEXT" in (refused(make(url), schema) or "")

    def test_keys_in_any_case(self, url: str) -> None:
        """Keys that are equal to the database and not to us would find rows and lose them."""
        engine = connect(url)
        create_citext(engine)
        engine.dispose()
        said = refused(make(url, people__id="citext", sends__subscriber_id="text"), HOST) or ""
        assert said.endswith("of the type CITEXT; a key is compared to the letter: make it TEXT.")

    def test_a_domain_is_what_it_is_of(self, url: str) -> None:
        """An email of a type of the host's own is text still."""
        domain = "CREATE DOMAIN address AS text CHECK (value LIKE '%@%')"
        assert refused(make(url, domain, people__email="address"), HOST) is None


class TestWriting:
    """What cannot be changed is refused, where the database says so beforehand."""

    def test_generated(self, url: str) -> None:
        """A generated column takes no value but its own."""
        never = "timestamp GENERATED ALWAYS AS (NULL) STORED"
        said = refused(make(url, sends__opened_at=never), HOST)
        assert said == (
            "The column 'opened_at' of 'sends' is generated, and cannot be written: name another."
        )

    @pytest.mark.parametrize(
        ("kind", "how"),
        [
            ("VIEW", ""),
            ("MATERIALIZED VIEW", ""),
            ("VIEW", 'CREATE RULE r AS ON UPDATE TO "Readers" DO INSTEAD {}'),
        ],
        ids=["view", "materialized", "rule"],
    )
    def test_views(self, empty_postgres_url: str, kind: str, how: str) -> None:
        """A view of two tables is read only, unless a rule says what to change."""
        _check_view(empty_postgres_url, kind, how)

    @pytest.mark.parametrize(
        "how", ["", 'CREATE TRIGGER t INSTEAD OF UPDATE ON "Readers" BEGIN {}; END']
    )
    def test_views_on_sqlite(self, empty_sqlite_url: str, how: str) -> None:
        """Every view is, unless a trigger says it."""
        _check_view(empty_sqlite_url, "VIEW", how)

    def test_a_view_of_what_is_only_read(self, url: str) -> None:
        """Nothing is written to a subscription that has no suppression: any view will do."""
        engine = make(url)
        with engine.begin() as connection:
            for statement in (
                "CREATE VIEW pairs AS SELECT DISTINCT * FROM members",
                "INSERT INTO people (id, email) VALUES (1, 'a')",
                "INSERT INTO sends (id, provider_message_id, campaign_id) VALUES (1, 'm', 1)",
                "INSERT INTO campaigns VALUES (1, 1)",
                "INSERT INTO members VALUES (1, 1)",
            ):
                connection.execute(text(statement))
        pairs = Role("pairs", dict.fromkeys(SUPPRESSION))
        store = SQLStore(engine, replace(HOST, subscriptions=pairs))
        told = arrival(Suppressed("a", "m", NOON, "HardBounce"))
        assert statuses(record(store, [told])) == [200]
        engine.dispose()


def _check_view(url: str, kind: str, how: str) -> None:
    """Make the view, and how to change its rows; see whether it is refused without."""
    engine = make(url)
    both = "SELECT people.* FROM people JOIN sends ON sends.subscriber_id = people.id"
    do = "UPDATE people SET suppressed_at = new.suppressed_at WHERE id = old.id"
    with engine.begin() as connection:
        connection.execute(text(f'CREATE {kind} "Readers" AS {both}'))
        if how:
            connection.execute(text(how.format(do)))
    said = refused(engine, replace(HOST, subscribers=Role("Readers", REST)))
    refusal = "No row can be changed through the view 'Readers': name the table behind it."
    assert said == (None if how else refusal)
