"""If the tables reject a row, a statement or its data, the other notifications are recorded."""

from contextlib import closing, suppress

import pytest
from contract import ADA, BEA, NOON, ZOE, arrival, insistent, opens, statuses
from homes import OURS, Home
from locations import ON_POSTGRES, filled_home

from copying import replace
from databases import NAMES, kind_of, places
from hookrow import Delivered, Suppressed
from hookrow._core.notification import SetSuppression, Suppressible
from hookrow._receiver.recorder import record
from hookrow.stores._errors import Rejected, Unavailable
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._statements.base import Statements
from postgres import Databases

home = pytest.fixture(filled_home, params=NAMES)

SUPPRESSED = arrival(Suppressed(ADA, "m-ada", NOON, "HardBounce"))

LENGTH = "ALTER TABLE hookrow_subscribers ALTER suppression_reason TYPE varchar(17)"


@pytest.mark.parametrize("home", [*NAMES, *places("django")], indirect=True)
def test_row_that_a_trigger_rejects(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """Only the notification whose data the table rejects fails, and no value is logged."""
    kind, is_long = kind_of(home._engine), "length(NEW.suppression_reason) > 5"
    home.run(kind.create_trigger("hookrow_subscribers", kind.fail, when=is_long))
    reject_one(home, caplog)


@ON_POSTGRES
def test_reason_that_is_too_long(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """It is rejected in the same way."""
    home.run(LENGTH)
    reject_one(home, caplog)


def reject_one(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """Record a group; assert that only the notification with a long reason fails."""
    sent = [
        arrival(Suppressed(BEA, None, NOON, "Short")),
        arrival(Suppressed(ADA, None, NOON, "a reason that is much too long")),
        arrival(Delivered(ADA, "m-ada", NOON)),
        arrival(Suppressed(ZOE, None, NOON, "Short")),
    ]
    assert statuses(insistent(home.store)(sent)) == [200, 503, 200, 200]
    assert [record.name for record in caplog.records].count("hookrow") == 1  # psycopg logs, too
    assert "Suppressed" in caplog.text
    for private in (ADA, "much too long"):
        assert private not in caplog.text


def break_updates(home: Home) -> None:
    """Let each change of a subscriber fail, because of a trigger whose table is missing."""
    kind = kind_of(home._engine)
    home.run(kind.create_trigger("hookrow_subscribers", "DELETE FROM missing"))


@pytest.mark.parametrize("home", [*NAMES, *places("django")], indirect=True)
def test_broken_trigger(home: Home) -> None:
    """If no row of a table can be changed, notifications about other tables are recorded."""
    break_updates(home)
    suppressed = arrival(Suppressed(ADA, None, NOON, "HardBounce"))
    seen = replace(arrival(opens(ADA, "m-ada")), body=b"another")
    record = insistent(home.store)
    assert statuses(record([suppressed, seen])) == [503, 200]
    assert statuses(record([seen])) == [200]
    outcomes = {row["record_type"]: row["outcome"] for row in home.logged()}
    assert outcomes == {"SubscriptionChange": "failed", "Open": "recorded"}


def test_changed_tables(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only an error of a trigger is final: tables that have changed may change again.

    Tables that do not fit are verified again after a second, not with every group.
    """
    break_updates(home)
    with pytest.raises(Rejected):
        record(home.store, [SUPPRESSED])
    home.run(kind_of(home._engine).drop_trigger("hookrow_subscribers"))
    renamed = "ALTER TABLE hookrow_dispatches RENAME COLUMN {} TO {}"
    home.run(renamed.format("opened_at", "seen_at"))
    with pytest.raises(Unavailable, match="no column 'opened_at'"):
        record(home.store, [arrival(opens(ADA, "m-ada"))])
    home.run(renamed.format("seen_at", "opened_at"))
    with pytest.raises(Unavailable, match="no column 'opened_at'"):
        record(home.store, [SUPPRESSED])
    monkeypatch.setattr(home.store, "_refused_at", float("-inf"))  # a second later
    assert statuses(record(home.store, [SUPPRESSED])) == [200]


def test_another_thread_verifies(home: Home) -> None:
    """The store works even if another thread invalidates the verification at any moment."""

    class Changing(SQLStore):
        """Forgets its statements after each access."""

        _remembered = None

        @property
        def _statements(self) -> Statements | None:
            statements, self._remembered = self._remembered, None
            return statements

        @_statements.setter
        def _statements(self, statements: Statements | None) -> None:
            self._remembered = statements

    with closing(Changing(home.url)) as changing:
        for _ in range(3):
            assert statuses(record(changing, [arrival(opens(ADA, "m-ada"))])) == [200]


@pytest.mark.parametrize("home", ["postgres", "supplied-postgres"], indirect=True)
@pytest.mark.parametrize("first", [True, False], ids=["begun", "pending"])
def test_ignored_error(home: Home, *, first: bool) -> None:
    """A transaction raises an error at its end if the caller ignored an earlier one.

    PostgreSQL's COMMIT would roll back silently.
    """
    home.run("ALTER TABLE hookrow_subscribers ALTER suppression_reason TYPE varchar(5)")
    kind = Suppressible.SUBSCRIBER
    before = home.rows()
    with pytest.raises(Unavailable), home.store.transaction() as transaction:  # noqa: PT012 - in one transaction
        if first:
            transaction.lock([(kind, 2)])
        with suppress(Exception):
            transaction.write([SetSuppression(kind, 1, NOON, "much too long", guarded=False)])
            transaction.read([(kind, 1)])
    assert home.rows() == before


def test_encoding(postgres: Databases) -> None:
    """In a LATIN1 database, only the notification with a euro sign fails."""
    url = postgres.create("template0 ENCODING 'LATIN1' LOCALE 'C'")
    with closing(Home(url, OURS)) as home:
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


@ON_POSTGRES
@pytest.mark.parametrize("host", [_RULE, _UPDATES_ANOTHER], ids=["rule", "trigger"])
def test_several_statements(home: Home, host: str) -> None:
    """If rules or triggers forbid a single statement for all changes, several are used."""
    home.run(host)
    record = insistent(home.store)
    assert statuses(record([SUPPRESSED])) == statuses(record([SUPPRESSED])) == [200]
    for name in ("subscribers", "dispatches"):
        assert home.rows()[name][0]["suppressed_at"] == NOON
