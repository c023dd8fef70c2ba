"""A row that the database leaves unchanged without an error is not reported as recorded.

Row-level security, a trigger that returns null, and a view can have this effect.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from time import monotonic
from unittest.mock import patch

import pytest
from contract import ADA, BEA, NOON, ZOE, arrival, fill, insistent, opens, statuses
from fitted import FITTED
from homes import OURS, UNDATED, Home
from locations import PLACES, open_home

from copying import replace
from databases import NAMES, POSTGRESQL, SQLITE, kind_of, places
from engines import connect, database_user
from hookrow import Arrival, Delivered, Outcome, Reactivated, Role, Suppressed
from hookrow._core.notification import LookupKeys, Notification, Rows
from hookrow._receiver.clock import utc_now
from hookrow._receiver.recorder import Attempts, record
from hookrow._receiver.replay import replay
from hookrow.stores._errors import Rejected
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._transaction import SingleStatement, SQLReading, SQLTransaction
from times import SECOND
from wire import PATIENCE

POSTGRES = pytest.mark.parametrize("place", [each for each in PLACES if POSTGRESQL.name in each])

SUPPRESSED = Suppressed(ADA, "m-ada", NOON, "HardBounce")
OPENED = opens(BEA, "m-bea")


def ignore(home: Home, table: str, *, when: str = "", event: str = "UPDATE") -> None:
    """Let the database ignore changes of a table, or of the rows that meet a condition."""
    home.run(kind_of(home._engine).ignore(table, event=event, when=when))


def late(notification: Notification) -> Arrival:
    return replace(arrival(notification, live=False), body=repr(notification).encode(), attempts=0)


def live(*notifications: Notification) -> list[Arrival]:
    """Return arrivals that are separate entries of the log."""
    return [replace(arrival(each), body=repr(each).encode()) for each in notifications]


def attempt(home: Home, notification: Notification) -> list[Outcome]:
    """Record as a manual change does, which raises the error."""
    attempts = Attempts(home.store, bodies=True, clock=utc_now)
    outcomes = attempts.wait_for_locks(live(notification), until=monotonic() + PATIENCE)
    return [each for each in outcomes if each is not None]


def logged(home: Home, arrivals: Sequence[Arrival]) -> list[str]:
    """Return the outcomes of arrivals in the log."""
    outcomes = {row["body"]: row["outcome"] for row in home.logged()}
    return [outcomes[each.body.decode()] for each in arrivals]


@pytest.fixture
def home(place: str, new_database: Callable[[str], str]) -> Iterator[Home]:
    """Open hookrow's tables with a few rows."""
    with closing(open_home(place, OURS, new_database)) as home:
        fill(home)
        yield home


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("table", ["subscribers", "dispatches", "subscriptions"])
def test_ignored_change(home: Home, table: str) -> None:
    """Only the notification that needs the row fails, and none of its other changes is kept."""
    ignore(home, f"hookrow_{table}")
    before = home.rows()
    others: list[Notification] = [Suppressed(ZOE, None, NOON, "HardBounce"), OPENED]
    if table == "subscribers":
        others = [OPENED]
    elif table == "dispatches":
        others = others[:1]
    group = live(others[0], SUPPRESSED, *others[1:])
    expected = [200, 503, *[200] * len(others[1:])]
    assert statuses(insistent(home.store)(group)) == expected
    results = ["recorded" if status == 200 else "failed" for status in expected]
    assert logged(home, group) == results
    after = home.rows()
    assert after["subscribers"][0] == before["subscribers"][0]
    assert after["dispatches"][0] == before["dispatches"][0]
    assert after["subscriptions"] == before["subscriptions"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("column", ["delivered_at", "opened_at"])
def test_ignored_time(home: Home, column: str) -> None:
    ignore(home, "hookrow_dispatches", when=f"NEW.{column} IS NOT NULL")
    sent = live(Delivered(ADA, "m-ada", NOON), opens(ADA, "m-ada"))
    expected = [503, 200] if column == "delivered_at" else [200, 503]
    assert statuses(insistent(home.store)(sent)) == expected


@pytest.mark.parametrize("place", PLACES)
def test_ignored_change_in_a_replay(home: Home) -> None:
    """The replay continues with the others, and the log keeps the failure."""
    ignore(home, "hookrow_subscribers", when="NEW.id = 1")
    group = [late(SUPPRESSED), late(Suppressed(BEA, None, NOON, "HardBounce")), late(OPENED)]
    assert statuses(replay(home.store, group, clock=utc_now)) == [503, 200, 200]
    assert logged(home, group) == ["failed", "recorded", "recorded"]


@pytest.mark.parametrize("place", PLACES)
def test_cause_in_the_error(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """The line says what happened, without a value of the row."""
    ignore(home, "hookrow_subscribers")
    with pytest.raises(Rejected, match="ignored an update of a row in subscribers"):
        attempt(home, SUPPRESSED)
    insistent(home.store)(live(SUPPRESSED))
    [line] = [each for each in caplog.messages if "rejected" in each]
    assert "Row-level security, a trigger or a rule may prevent it." in line
    assert ADA not in line


@pytest.mark.parametrize("place", PLACES)
def test_ignored_log_entry(home: Home) -> None:
    """Nothing is recorded without its log entry, and a parked notification is not lost."""
    ignore(home, "hookrow_notifications", event="INSERT")
    before = home.rows()
    with pytest.raises(Rejected, match="The log did not accept an entry"):
        attempt(home, SUPPRESSED)
    with pytest.raises(Rejected, match="The log did not accept an entry"):
        attempt(home, opens(ADA, "m-nowhere"))
    assert home.rows() == before


@pytest.mark.parametrize("place", PLACES)
def test_guard_that_refuses(home: Home) -> None:
    """An older change is a success, in the first attempt, and so is a repeated one."""
    group = live(SUPPRESSED, Delivered(ADA, "m-ada", NOON))
    older = live(
        Reactivated(ADA, "m-ada", NOON - SECOND), Suppressed(BEA, None, NOON, "HardBounce")
    )
    replayed = [late(Delivered(ADA, "m-ada", NOON)), late(OPENED)]
    assert statuses(record(home.store, group)) == [200, 200]
    assert statuses(record(home.store, older)) == [200, 200]
    assert statuses(record(home.store, group)) == [200, 200]
    assert statuses(record(home.store, replayed)) == [200, 200]
    assert home.rows()["subscribers"][0]["suppressed_at"] == NOON


STORES_OTHER_VALUES = """
    CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        NEW.suppressed_at := date_trunc('hour', NEW.suppressed_at);
        NEW.suppression_changed_at := date_trunc('hour', NEW.suppression_changed_at);
        RETURN NEW;
    END $$;
    CREATE TRIGGER other BEFORE UPDATE ON hookrow_subscribers
        FOR EACH ROW EXECUTE FUNCTION other()
"""


@POSTGRES
def test_trigger_that_skips_redundant_updates(home: Home) -> None:
    """Repeated values are recorded, although PostgreSQL reports no changed row."""
    home.run(
        *(
            f"CREATE TRIGGER redundant BEFORE UPDATE ON hookrow_{table} FOR EACH ROW "
            "EXECUTE FUNCTION suppress_redundant_updates_trigger()"
            for table in ("subscribers", "dispatches", "subscriptions")
        )
    )
    group = live(SUPPRESSED, Delivered(ADA, "m-ada", NOON))
    for _ in range(3):
        assert statuses(insistent(home.store)(group)) == [200, 200]
    assert home.rows()["subscribers"][0]["suppressed_at"] == NOON


@POSTGRES
def test_trigger_that_stores_other_values(home: Home) -> None:
    """A row that changes in another way is recorded, alone and beside one that is ignored."""
    home.run(STORES_OTHER_VALUES)
    ignore(home, "hookrow_dispatches")
    group = live(Suppressed(ADA, None, NOON, "HardBounce"), OPENED)
    for _ in range(2):
        assert statuses(insistent(home.store)(group)) == [200, 503]
    assert home.rows()["subscribers"][0]["suppressed_at"] == NOON.replace(microsecond=0)


def test_view_whose_trigger_ignores_some_rows(new_database: Callable[[str], str]) -> None:
    """SQLite counts no changes of a view, so the rows are read again."""
    with closing(Home(new_database(SQLITE.name), OURS)) as home:
        fill(home)
        home.run(
            "CREATE VIEW people AS SELECT * FROM hookrow_subscribers",
            """
            CREATE TRIGGER change INSTEAD OF UPDATE ON people WHEN NEW.id <> 1 BEGIN
                UPDATE hookrow_subscribers SET suppressed_at = NEW.suppressed_at,
                suppression_reason = NEW.suppression_reason,
                suppression_changed_at = NEW.suppression_changed_at WHERE id = NEW.id;
            END
            """,
        )
        people = replace(OURS, subscribers=Role("people"))
        group = live(*(Suppressed(each, None, NOON, "HardBounce") for each in (BEA, ADA, ZOE)))
        with closing(SQLStore(home.url, people)) as store:
            for _ in range(2):
                assert statuses(insistent(store)(group)) == [200, 503, 200]
        rows = home.rows()["subscribers"]
        assert [row["suppressed_at"] for row in rows] == [None, NOON, NOON]


@pytest.mark.parametrize("place", NAMES)
def test_key_of_a_view_that_is_not_unique(home: Home, place: str) -> None:
    """No index can prove the keys of a view; a notification that would change two rows fails."""
    columns = "suppressed_at, suppression_reason, suppression_changed_at"
    home.run(
        "CREATE TABLE members (user_id integer, email text, "
        "suppressed_at timestamp, suppression_reason text, suppression_changed_at timestamp)",
        "INSERT INTO members (user_id, email) VALUES "
        f"(1, '{ADA}'), (1, 'eve@example.com'), (2, '{BEA}')",
        f"CREATE VIEW people AS SELECT user_id AS id, email, {columns} FROM members",
    )
    if place == SQLITE.name:  # whose views can be changed only by a trigger
        values = ", ".join(f"{name} = NEW.{name}" for name in columns.split(", "))
        home.run(
            "CREATE TRIGGER change INSTEAD OF UPDATE ON people BEGIN "
            f"UPDATE members SET {values} WHERE user_id = NEW.id; END"
        )
    people = replace(OURS, subscribers=Role("people"))
    group = live(*(Suppressed(each, None, NOON, "HardBounce") for each in (ADA, BEA)))
    with closing(SQLStore(home.url, people)) as store:
        assert statuses(insistent(store)(group)) == [503, 200]
    suppressed = home.run("SELECT user_id FROM members WHERE suppressed_at IS NOT NULL")
    assert suppressed == [(2,)]


@pytest.mark.parametrize("place", [*NAMES, *places("supplied", POSTGRESQL.name)])
def test_ignored_change_that_is_dated_beside_the_log(
    place: str, new_database: Callable[[str], str]
) -> None:
    """The date is not kept, either; without the trigger, the same change is recorded."""
    with closing(open_home(place, UNDATED, new_database)) as home:
        fill(home)
        ignore(home, "people")
        assert statuses(insistent(home.store)(live(SUPPRESSED, OPENED))) == [503, 200]
        assert home.dates() == []
        home.run(kind_of(home._engine).drop_trigger("people"))
        assert statuses(insistent(home.store)(live(SUPPRESSED))) == [200]
        assert home.rows()["subscribers"][0]["suppressed_at"] == NOON
        older = Reactivated(ADA, None, NOON - SECOND)
        assert statuses(record(home.store, live(older))) == [200]
        assert home.rows()["subscribers"][0]["suppressed_at"] == NOON


@contextmanager
def _after_finding(act: Callable[[], object], times: int = 1) -> Iterator[None]:
    """Act as the host between finding rows and changing them, so many times."""
    left = [act] * times
    find = SQLReading.find

    def found(self: SQLReading, lookup: LookupKeys) -> Rows:
        rows = find(self, lookup)
        if left and isinstance(self, SingleStatement | SQLTransaction):
            left.pop()()
        return rows

    with patch.object(SQLReading, "find", found):
        yield


@POSTGRES
@pytest.mark.parametrize("number", [1, 2])
def test_row_that_is_deleted_meanwhile(home: Home, number: int) -> None:
    """A notification whose row no longer exists gets a 404, and the others are recorded."""
    deletions = iter(
        [
            "DELETE FROM hookrow_dispatches WHERE provider_message_id = 'm-bea'",
            "DELETE FROM hookrow_subscribers WHERE email = 'zoë@example.net'",
        ]
    )
    group = live(SUPPRESSED, OPENED, Suppressed(ZOE, None, NOON, "HardBounce"))
    with _after_finding(lambda: home.run(next(deletions)), number):
        outcomes = insistent(home.store)(group)
    assert statuses(outcomes) == [200, 404, 404 if number == 2 else 200]
    assert logged(home, group)[1] == "dispatch_not_found"


@pytest.mark.parametrize("place", ["postgres", "supplied-postgres"])
def test_row_that_is_hidden_meanwhile(place: str, new_database: Callable[[str], str]) -> None:
    """A row that `where` excludes by the time it is locked counts as missing."""
    hide = f"""UPDATE "The readers" SET deleted_on = 'now' WHERE "e-mail" = '{ADA}'"""
    with closing(open_home(place, FITTED, new_database)) as home:
        fill(home)
        group = live(Suppressed(ADA, None, NOON, "HardBounce"), OPENED)
        with _after_finding(lambda: home.run(hide)):
            assert statuses(insistent(home.store)(group)) == [404, 200]
        assert logged(home, group) == ["subscriber_not_found", "recorded"]


@POSTGRES
def test_row_that_changes_meanwhile(home: Home) -> None:
    """The guard compares with the row as it is when it is locked."""
    changed = f"suppression_changed_at = '{NOON + SECOND}'"
    newer = f"UPDATE hookrow_subscribers SET {changed} WHERE id = 1"
    with _after_finding(lambda: home.run(newer)):
        assert statuses(record(home.store, live(Suppressed(ADA, None, NOON, "x")))) == [200]
    assert home.rows()["subscribers"][0]["suppressed_at"] is None


POLICIES = (
    "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {}",
    "ALTER TABLE hookrow_subscribers ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY seen ON hookrow_subscribers FOR SELECT TO {} USING (true)",
    "CREATE POLICY changed ON hookrow_subscribers FOR UPDATE TO {} USING (id <> 1)",
)


@pytest.mark.parametrize("supplied", [False, True])
def test_row_level_security(postgres_url: str, *, supplied: bool) -> None:
    """A row that no policy lets the user change fails its notification."""
    with closing(Home(postgres_url, OURS)) as home:
        fill(home)
        with database_user(postgres_url, *POLICIES) as url:
            engine = connect(url)
            with closing(SQLStore(engine if supplied else url)) as store:
                other = Suppressed(BEA, None, NOON, "HardBounce")
                assert statuses(insistent(store)(live(other, SUPPRESSED))) == [200, 503]
            engine.dispose()
        rows = home.rows()["subscribers"]
        assert [row["suppressed_at"] for row in rows] == [None, NOON, None]
        outcomes = sorted(row["outcome"] for row in home.logged())
        assert outcomes == ["failed", "recorded"]


@pytest.mark.parametrize("place", PLACES)
def test_ignored_lift_of_an_active_row(home: Home) -> None:
    """Without its date, a late suppression that is older would undo the acknowledged change."""
    ignore(home, "hookrow_subscribers")
    assert statuses(insistent(home.store)(live(Reactivated(ADA, None, NOON)))) == [503]


@pytest.mark.parametrize("place", PLACES)
def test_ignored_reason(home: Home) -> None:
    """Another reason at the same time is another change."""
    assert statuses(record(home.store, live(Suppressed(ADA, None, NOON, "HardBounce")))) == [200]
    ignore(home, "hookrow_subscribers")
    other = Suppressed(ADA, None, NOON, "SpamComplaint")
    assert statuses(insistent(home.store)(live(other))) == [503]


@pytest.mark.parametrize("place", [*NAMES, *places("supplied", POSTGRESQL.name)])
def test_ignored_date(place: str, new_database: Callable[[str], str]) -> None:
    """A date beside the log that the database ignores would let an older change apply."""
    with closing(open_home(place, UNDATED, new_database)) as home:
        fill(home)
        ignore(home, "hookrow_suppression_changes", event="INSERT")
        assert statuses(insistent(home.store)(live(SUPPRESSED, OPENED))) == [503, 200]
        assert home.rows()["subscribers"][0]["suppressed_at"] is None
