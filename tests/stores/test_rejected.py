"""If the tables reject a row, a statement or its data, the other notifications are recorded."""

from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from contract import ADA, BEA, NOON, ZOE, arrival, fill, insistent, opens, statuses
from homes import OURS, SQLHome
from locations import open_home

from copying import replace
from hookrow import Arrival, Delivered, Role, Schema, Suppressed
from hookrow.core.notification import SetSuppression, Suppressible
from hookrow.receiver.recorder import record
from hookrow.stores import Rejected, StoreError, Unavailable
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql.queries import Queries
from postgres import Databases


@pytest.fixture
def home(place: str, request: pytest.FixtureRequest) -> Iterator[SQLHome]:
    """Open a home with a few rows in a copy of the migrated database."""
    url = request.getfixturevalue(f"{place.rpartition('-')[2]}_url")
    with closing(open_home(place, OURS, lambda _: str(url))) as home:
        fill(home)
        assert isinstance(home, SQLHome)
        yield home


def alter(home: SQLHome, statement: str) -> None:
    """Change the tables as the host; each kind of database executes a whole script."""
    with home._engine.begin() as connection:
        connection.exec_driver_sql(statement)


_TRIGGER = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF length(NEW.suppression_reason) > 5 THEN
            RAISE EXCEPTION USING MESSAGE = NEW.email;
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER refuse BEFORE UPDATE ON hookrow_subscribers
        FOR EACH ROW EXECUTE FUNCTION refuse()
"""
_TRIGGER_OF_SQLITE = """
    CREATE TRIGGER refuse BEFORE UPDATE ON hookrow_subscribers
    WHEN length(NEW.suppression_reason) > 5 BEGIN SELECT RAISE(ABORT, 'no'); END
"""


@pytest.mark.parametrize(
    ("place", "obstacle"),
    [
        ("postgres", "ALTER TABLE hookrow_subscribers ALTER suppression_reason TYPE varchar(5)"),
        ("sqlite", _TRIGGER_OF_SQLITE),
        ("django-postgres", _TRIGGER),
        ("django-sqlite", _TRIGGER_OF_SQLITE),
    ],
    ids=["length", "sqlite", "django-postgres", "django-sqlite"],
)
def test_rejected_row(home: SQLHome, obstacle: str, caplog: pytest.LogCaptureFixture) -> None:
    """Only the notification whose data the table rejects fails, and no value is logged."""
    alter(home, obstacle)
    sent = [
        arrival(Suppressed(BEA, None, NOON, "Short")),
        arrival(Suppressed(ADA, None, NOON, "much too long")),
        arrival(Delivered(ADA, "m-ada", NOON)),
        arrival(Suppressed(ZOE, None, NOON, "Short")),
    ]
    assert statuses(insistent(home.store)(sent)) == [200, 503, 200, 200]
    assert [record.name for record in caplog.records].count("hookrow") == 1  # psycopg logs, too
    assert "Suppressed" in caplog.text
    for private in (ADA, "much too long"):
        assert private not in caplog.text


_BROKEN = {
    "sqlite": "CREATE TRIGGER t UPDATE ON hookrow_subscribers BEGIN DELETE FROM missing; END",
    "postgres": """
        CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN DELETE FROM missing; END';
        CREATE TRIGGER t BEFORE UPDATE ON hookrow_subscribers FOR EACH ROW EXECUTE FUNCTION f()
    """,
}


@pytest.mark.parametrize("place", ["sqlite", "postgres", "django-sqlite", "django-postgres"])
def test_broken_trigger(home: SQLHome, place: str) -> None:
    """If no row of a table can be changed, notifications about other tables are recorded."""
    alter(home, _BROKEN[place.removeprefix("django-")])
    suppressed = arrival(Suppressed(ADA, None, NOON, "HardBounce"))
    seen = replace(arrival(opens(ADA, "m-ada")), body=b"another")
    record = insistent(home.store)
    assert statuses(record([suppressed, seen])) == [503, 200]
    assert statuses(record([seen])) == [200]
    ends = {row["record_type"]: row["outcome"] for row in home.logged()}
    assert ends == {"SubscriptionChange": "failed", "Open": "recorded"}


@pytest.mark.parametrize("place", ["sqlite", "postgres"])
def test_changed_tables(home: SQLHome, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only an error of a trigger is final: tables that have changed may change again.

    Tables that do not fit are verified again after a second, not with every group.
    """
    alter(home, _BROKEN[place])
    sent = [arrival(Suppressed(ADA, "m-ada", NOON, "HardBounce"))]
    with pytest.raises(Rejected):
        record(home.store, sent)
    alter(home, "DROP TRIGGER t" + " ON hookrow_subscribers" * (place == "postgres"))
    renamed = "ALTER TABLE hookrow_dispatches RENAME COLUMN {} TO {}"
    alter(home, renamed.format("opened_at", "seen_at"))
    with pytest.raises(Unavailable, match="no column 'opened_at'"):
        record(home.store, [arrival(opens(ADA, "m-ada"))])
    alter(home, renamed.format("seen_at", "opened_at"))
    with pytest.raises(Unavailable, match="no column 'opened_at'"):
        record(home.store, sent)
    monkeypatch.setattr(home.store, "_refused_at", float("-inf"))  # a second later
    assert statuses(record(home.store, sent)) == [200]


@pytest.mark.parametrize("place", ["sqlite", "postgres"])
def test_another_thread_verifies(home: SQLHome) -> None:
    """The store works even if another thread invalidates the verification at any moment."""

    class Changing(SQLStore):
        """Forgets its queries after each access."""

        _remembered = None

        @property
        def _queries(self) -> Queries | None:
            queries, self._remembered = self._remembered, None
            return queries

        @_queries.setter
        def _queries(self, queries: Queries | None) -> None:
            self._remembered = queries

    with closing(Changing(home.url)) as changing:
        for _ in range(3):
            assert statuses(record(changing, [arrival(opens(ADA, "m-ada"))])) == [200]


@pytest.mark.parametrize("place", ["postgres", "lent-postgres"])
@pytest.mark.parametrize("first", [True, False], ids=["begun", "pending"])
def test_ignored_error(home: SQLHome, *, first: bool) -> None:
    """A transaction raises an error at its end if the caller ignored an earlier one."""
    alter(home, "ALTER TABLE hookrow_subscribers ALTER suppression_reason TYPE varchar(5)")
    kind = Suppressible.SUBSCRIBER
    before = home.rows()
    with pytest.raises(StoreError), home.store.transaction() as transaction:  # noqa: PT012 - in one transaction
        if first:
            transaction.lock([(kind, 2)])
        transaction.write([SetSuppression(kind, 1, NOON, "much too long", guarded=False)])
        with suppress(Exception):
            transaction.read([(kind, 1)])
    assert home.rows() == before


def test_encoding(postgres: Databases) -> None:
    """In a LATIN1 database, only the notification with a euro sign fails."""
    url = postgres.create("template0 ENCODING 'LATIN1' LOCALE 'C'")
    with closing(SQLHome(url, OURS)) as home:
        for poison in (
            Suppressed("€uro@example.com", None, NOON, "HardBounce"),
            Suppressed(ADA, "m-€", NOON, "HardBounce"),
            Suppressed(ADA, None, NOON, "€"),
        ):
            home.fill(subscribers=[{"id": 1, "email": ADA}, {"id": 2, "email": BEA}])
            sent = [arrival(Suppressed(BEA, None, NOON, "HardBounce")), arrival(poison)]
            recorded, failed = statuses(insistent(home.store)(sent))
            assert recorded == 200
            assert failed in {200, 404, 503}
            assert home.rows()["subscribers"][1]["suppressed_at"] == NOON
    postgres.drop(url)


SUPPRESSED: Arrival = arrival(Suppressed(ADA, "m-ada", NOON, "HardBounce"))
_RULE = """
    CREATE TABLE audit (id bigint);
    CREATE RULE audited AS ON UPDATE TO hookrow_dispatches
        DO ALSO INSERT INTO audit VALUES (new.id)
"""
_UPDATES_ANOTHER = """
    ALTER TABLE hookrow_subscribers ADD seen timestamptz;
    CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE hookrow_subscribers SET seen = now() WHERE id = new.subscriber_id;
        RETURN new;
    END $$;
    CREATE TRIGGER seen BEFORE UPDATE ON hookrow_dispatches FOR EACH ROW EXECUTE FUNCTION seen()
"""


@pytest.mark.parametrize("place", ["postgres"])
@pytest.mark.parametrize("host", [_RULE, _UPDATES_ANOTHER], ids=["rule", "trigger"])
def test_several_statements(home: SQLHome, host: str) -> None:
    """If rules or triggers forbid a single statement for all changes, several are used."""
    alter(home, host)
    record = insistent(home.store)
    assert statuses(record([SUPPRESSED])) == statuses(record([SUPPRESSED])) == [200]
    for name in ("subscribers", "dispatches"):
        assert home.rows()[name][0]["suppressed_at"] == NOON


_ONE_TABLE = """
    CREATE TABLE people (id bigint PRIMARY KEY, email text, list_id bigint,
        suppressed_at timestamptz, unsubscribed_at timestamptz);
    CREATE TABLE sends (id bigint PRIMARY KEY, provider_message_id text, subscriber_id bigint,
        list_id bigint, delivered_at timestamptz, opened_at timestamptz);
    CREATE VIEW members AS SELECT * FROM people;
    INSERT INTO people VALUES (1, 'ada@example.com', 7);
    INSERT INTO sends VALUES (1, 'm-ada', 1, 7)
"""


def test_two_roles(postgres: Databases, empty_postgres_url: str) -> None:
    """One table may have two roles, by its name, its qualified name, or a view."""
    url = empty_postgres_url
    postgres.execute(_ONE_TABLE, url=url)
    plain = {"suppression_reason": None, "suppression_changed_at": None}
    own = {"subscriber_id": "id", "suppressed_at": "unsubscribed_at", **plain}
    for members in ("people", "public.people", "members"):
        postgres.execute("UPDATE people SET suppressed_at = NULL, unsubscribed_at = NULL", url=url)
        schema = Schema(
            subscribers=Role("people", plain),
            subscriptions=Role(members, own),
            dispatches=Role("sends", {"suppressed_at": None, **plain}),
            log=None,
        )
        with closing(SQLStore(url, schema)) as store:
            assert statuses(insistent(store)([SUPPRESSED])) == [200]
        times = postgres.execute("SELECT suppressed_at, unsubscribed_at FROM people", url=url)
        assert times == [(NOON, NOON)]
