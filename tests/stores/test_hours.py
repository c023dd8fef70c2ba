"""The hourly counts: each id of the log is counted once, whenever its transaction commits."""

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from contract import ADA, NOON, arrival, fill, opens, statuses
from django.db import connections
from django_home import DjangoHome
from homes import OURS, Home, SQLHome, connect
from locations import open_home
from log_contract import HOUR, entry, keep, parked, reader
from sqlalchemy import make_url, text
from test_partitions import partition

from copying import replace
from hookrow import Postmark, Receiver
from hookrow.core.log_entry import Result
from hookrow.receiver.recorder import record
from hookrow.stores import Conflict
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql.hours import CHUNK
from hookrow.stores.timeouts import limited_to
from wire import eventually

LATER = NOON + 365 * timedelta(days=1)
REFUSED = Result.DISPATCH_NOT_FOUND


def count(home: Home) -> int:
    """Count as a receiver does once a minute; return the number of calls."""
    calls = 1
    while reader(home).count_hours():
        calls += 1
    return calls


def prune(home: Home) -> int:
    return sum(reader(home).prune(before=LATER, parked_before=LATER, bodies_only=False))


def fetch(home: SQLHome, sql: str) -> Sequence[Any]:
    """Run SQL without the store; return the rows, if any."""
    with home._engine.begin() as connection:
        done = connection.execute(text(sql))
        return [tuple(row) for row in done] if done.returns_rows else []


def total(home: SQLHome) -> int:
    """Return the number of entries that were counted."""
    [(number,)] = fetch(home, "SELECT coalesce(sum(entries), 0) FROM hookrow_hours")
    return int(number)


def recovered(home: SQLHome) -> int:
    [(number,)] = fetch(home, "SELECT coalesce(sum(recovered), 0) FROM hookrow_hours")
    return int(number)


def meta(home: SQLHome, name: str) -> str:
    [(value,)] = fetch(home, f"SELECT value FROM hookrow_meta WHERE name = 'hours_{name}'")
    return str(value)


def insert(fingerprint: int, table: str = "hookrow_notifications") -> str:
    """Return a statement that adds an entry, as another process would."""
    return (
        f"INSERT INTO {table} (fingerprint, outcome, first_outcome, status, attempts, "
        "received_at, last_received_at, ended_at) SELECT decode(lpad(to_hex("
        f"{fingerprint}), 32, '0'), 'hex'), 'recorded', 'recorded', 200, 1, now(), now(), now()"
    )


@pytest.fixture
def home(database_url: str) -> Iterator[SQLHome]:
    with closing(SQLHome(database_url, OURS)) as home:
        yield home


@pytest.fixture
def on_postgres(postgres_url: str) -> Iterator[SQLHome]:
    with closing(SQLHome(postgres_url, OURS)) as home:
        yield home


@pytest.fixture
def on_sqlite(sqlite_url: str) -> Iterator[SQLHome]:
    with closing(SQLHome(sqlite_url, OURS)) as home:
        yield home


@pytest.fixture
def other(on_postgres: SQLHome) -> Iterator[psycopg.Connection]:
    """Connect as another process, whose transaction stays open."""
    with closing(psycopg.connect(on_postgres.url)) as connection:
        yield connection


def test_counts_by_hour_type_reason_and_first_outcome(home: SQLHome) -> None:
    """Words that hookrow does not know count as one, because they may contain an address."""
    sharp = NOON.replace(minute=0, second=0, microsecond=0)
    entries = [
        entry(1),
        entry(2, received_at=sharp + HOUR),
        entry(3, received_at=sharp + HOUR - timedelta(microseconds=1)),
        parked(4, minutes=1, record_type="Delivery"),
        entry(5, record_type="ada@example.com", outcome=Result.UNSUPPORTED),
        entry(6, record_type=None, outcome=Result.UNSUPPORTED),
        entry(7, record_type="SubscriptionChange", reason="HardBounce"),
        entry(8, record_type="SubscriptionChange", reason="because of ada@example.com"),
        entry(9, record_type="SubscriptionChange", reason=None),
    ]
    keep(home, *entries)
    count(home)
    found = fetch(home, "SELECT * FROM hookrow_hours ORDER BY entries, 1, 2, 3, 4")
    hour, later = (
        at if "postgres" in home.url else f"{at:%Y-%m-%d %H:%M:%S.%f}"
        for at in (sharp, sharp + HOUR)
    )
    assert found == [
        (hour, "Delivery", "", "dispatch_not_found", 1, 0),
        (hour, "SubscriptionChange", "", "recorded", 1, 0),
        (hour, "SubscriptionChange", "HardBounce", "recorded", 1, 0),
        (hour, "SubscriptionChange", "other", "recorded", 1, 0),
        (later, "Open", "", "recorded", 1, 0),
        (hour, "Open", "", "recorded", 2, 0),
        (hour, "other", "", "unsupported", 2, 0),
    ]
    assert count(home) == 1
    assert total(home) == 9


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_lower_id_is_committed_later(
    on_postgres: SQLHome, other: psycopg.Connection, end: str
) -> None:
    """Nothing is counted until every transaction has ended that could have a lower id."""
    other.execute(insert(1))
    keep(on_postgres, entry(2))
    for _ in range(3):
        count(on_postgres)
    assert total(on_postgres) == 0
    getattr(other, end)()
    keep(on_postgres, entry(3))
    count(on_postgres)
    assert total(on_postgres) == (2 if end == "commit" else 1)
    count(on_postgres)
    assert total(on_postgres) == (3 if end == "commit" else 2)


def test_only_earlier_transactions_are_waited_for(
    on_postgres: SQLHome, other: psycopg.Connection
) -> None:
    """Only transactions that were open when the ceiling was read can delay a count.

    Under load, others are open at any time. Another receiver may continue the count.
    """
    other.execute(insert(1))
    keep(on_postgres, entry(2))
    assert reader(on_postgres).count_hours()
    with closing(psycopg.connect(on_postgres.url)) as third:
        third.execute(insert(3))
        other.commit()
        with closing(SQLStore(on_postgres.url)) as next_store:
            assert next_store.log is not None
            assert not next_store.log.count_hours()
        assert (total(on_postgres), meta(on_postgres, "watermark")) == (2, "2")
        third.commit()
    count(on_postgres)
    assert total(on_postgres) == 3


def test_restart_of_the_server(on_postgres: SQLHome, other: psycopg.Connection) -> None:
    """Afterwards the same names denote other transactions; a prepared one may still be open."""
    keep(on_postgres, entry(1))
    other.execute(insert(2))
    value = "UPDATE hookrow_meta SET value = '1 0.5 99/1' WHERE name = 'hours_ceiling'"
    count(on_postgres)
    fetch(on_postgres, value)
    assert reader(on_postgres).count_hours()
    assert total(on_postgres) == 0
    other.commit()
    count(on_postgres)
    assert total(on_postgres) == 1


def test_partitions(on_postgres: SQLHome, other: psycopg.Connection) -> None:
    """An INSERT locks the log and the partition, or only the partition if it names that."""
    assert partition(on_postgres.url) == ""
    locks = """
        SELECT relname FROM pg_locks JOIN pg_class ON pg_class.oid = relation
        WHERE mode = 'RowExclusiveLock' AND relkind IN ('r', 'p') AND pid = pg_backend_pid()
    """
    for table, locked in (
        ("hookrow_notifications", {"hookrow_notifications", "hookrow_before"}),
        ("hookrow_before", {"hookrow_before"}),
    ):
        before = total(on_postgres)
        other.execute(insert(before + 1, table))
        assert {name for (name,) in other.execute(locks).fetchall()} == locked
        keep(on_postgres, entry(before + 2))
        count(on_postgres)
        assert total(on_postgres) == before
        other.commit()
        count(on_postgres)
        assert total(on_postgres) == before + 2


def test_truncate_restarts_the_ids(on_postgres: SQLHome) -> None:
    """Ids from 1 are counted again; the counts of before remain."""
    for number in range(1, 6):
        keep(on_postgres, entry(number))
    count(on_postgres)
    fetch(on_postgres, "TRUNCATE hookrow_notifications RESTART IDENTITY")
    keep(on_postgres, entry(1), entry(2))
    count(on_postgres)
    assert (total(on_postgres), meta(on_postgres, "watermark")) == (7, "2")


def test_truncate_between_the_two_steps(on_postgres: SQLHome) -> None:
    """A ceiling of ids that were truncated is not final for the new ones."""
    for number in range(1, 6):
        keep(on_postgres, entry(number))
    assert reader(on_postgres).count_hours()
    fetch(on_postgres, "TRUNCATE hookrow_notifications RESTART IDENTITY")
    keep(on_postgres, entry(1))
    count(on_postgres)
    keep(on_postgres, *map(entry, range(2, 9)))
    count(on_postgres)
    assert total(on_postgres) == 8


@pytest.mark.parametrize("first", [1, 2])
def test_the_newest_are_deleted_by_hand(home: SQLHome, first: int) -> None:
    """No id is assigned again, so the others are not counted twice."""
    for number in range(1, 6):
        keep(home, entry(number))
    count(home)
    fetch(home, f"DELETE FROM hookrow_notifications WHERE id > 3 OR id < {first}")
    count(home)
    keep(home, entry(6))
    count(home)
    assert total(home) == 6


def test_watermark_of_another_backup(home: SQLHome) -> None:
    """A watermark above all ids does not hide new entries for good."""
    keep(home, entry(1))
    count(home)
    fetch(home, "UPDATE hookrow_meta SET value = '1000' WHERE name = 'hours_watermark'")
    fetch(home, "UPDATE hookrow_meta SET value = 'FF' WHERE name = 'hours_first'")
    fetch(home, "DELETE FROM hookrow_hours")
    keep(home, entry(2))
    count(home)
    assert total(home) == 2


def test_pruned_ids_are_not_assigned_again(home: SQLHome) -> None:
    """The newest entry stays, so that SQLite continues with the next id."""
    keep(home, *map(entry, range(1, 6)))
    assert prune(home) == 4
    keep(home, entry(6))
    assert prune(home) == 1
    assert [row["id"] for row in home.logged()] == [6]
    assert total(home) == 6


def test_reused_ids(on_sqlite: SQLHome) -> None:
    """If all are deleted by hand, ids from 1 on are assigned again, and counted again."""
    keep(on_sqlite, *map(entry, range(1, 6)))
    count(on_sqlite)
    for new in (2, 20):
        fetch(on_sqlite, "DELETE FROM hookrow_notifications")
        keep(on_sqlite, *map(entry, range(10 * new, 11 * new)))
        count(on_sqlite)
    assert total(on_sqlite) == 5 + 2 + 20


def test_prune_keeps_what_is_not_counted(on_postgres: SQLHome, other: psycopg.Connection) -> None:
    """While an older transaction is open, nothing can be counted, and so nothing is deleted."""
    other.execute(insert(1))
    keep(on_postgres, *map(entry, range(2, 6)))
    assert prune(on_postgres) == 0
    bodies = reader(on_postgres).prune(before=LATER, parked_before=LATER, bodies_only=True)
    assert sum(bodies) == 4
    other.commit()
    assert prune(on_postgres) == 4
    count(on_postgres)
    assert total(on_postgres) == 5


def test_two_receivers_count_while_others_write(home: SQLHome) -> None:
    """Nothing is counted twice or left out, whichever receiver counts."""
    with (
        closing(SQLStore(home.url)) as first,
        closing(SQLStore(home.url)) as second,
        ThreadPoolExecutor(4) as threads,
    ):

        def write(part: int) -> None:
            for number in range(50):
                entries = [entry(part + 100 * number + n) for n in range(3)]
                until_no_conflict(partial(keep, home, *entries))

        written = [threads.submit(write, part) for part in (10**6, 10**7)]
        counted = []
        for store in (first, second):
            assert store.log is not None
            counted.append(threads.submit(_count_until, store.log.count_hours, written))
    assert [each.result() for each in (*written, *counted)] == [None] * 4
    count(home)
    count(home)
    assert (total(home), len(home.logged())) == (300, 300)


def _count_until(count: Callable[[], bool], written: Sequence[Any]) -> None:
    while not all(each.done() for each in written):
        with limited_to(9):
            until_no_conflict(count)


def until_no_conflict(work: Callable[[], object]) -> None:
    """Repeat it until it meets no other: SQLite's writers poll, and may wait in vain."""
    while True:
        with suppress(Conflict):
            work()
            return


def test_many_uncounted_entries(home: SQLHome) -> None:
    """They are counted in chunks, from the first id that is there, however high."""
    numbers = 2 * CHUNK + 1
    rows = (
        f"SELECT n AS n FROM generate_series(1, {numbers}) AS n"
        if "postgres" in home.url
        else "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s "
        f"WHERE n < {numbers}) SELECT n FROM s"
    )
    digits = "lpad(to_hex(n), 32, '0')" if "postgres" in home.url else "printf('%032x', n)"
    value = f"decode({digits}, 'hex')" if "postgres" in home.url else digits
    at = NOON.strftime("'%Y-%m-%d %H:%M:%S.%f'")
    zone = "::timestamptz" if "postgres" in home.url else ""
    fetch(
        home,
        "INSERT INTO hookrow_notifications (id, fingerprint, outcome, first_outcome, status, "
        "attempts, received_at, last_received_at, ended_at) "
        f"SELECT 3000000000 + n, {value}, 'recorded', 'recorded', 200, 1, "
        f"{at}{zone}, {at}{zone}, {at}{zone} FROM ({rows}) AS given".replace(":", "\\:"),
    )
    looks = 1 if "postgres" in home.url else 0
    assert count(home) == looks + 3
    assert total(home) == numbers


def test_dry_run(home: SQLHome) -> None:
    """A transaction that is rolled back is not counted, and the ids that it took do no harm."""
    keep(home, parked(1, minutes=1))
    with pytest.raises(ZeroDivisionError), home.store.transaction() as transaction:  # noqa: PT012
        transaction.write((), [entry(2)])
        transaction.read(())  # writes what is pending
        raise ZeroDivisionError
    keep(home, entry(3))
    count(home)
    assert total(home) == 2


def test_missing_tables(home: SQLHome, caplog: pytest.LogCaptureFixture) -> None:
    """Recording, retries and pruning go on without them, and one warning says what to do."""
    for table in ("hookrow_hours", "hookrow_meta"):
        fetch(home, f"ALTER TABLE {table} RENAME TO {table}_away")
    keep(home, parked(1, minutes=1))
    keep(home, entry(1), entry(2))
    caplog.set_level(logging.WARNING)
    assert [count(home), count(home)] == [1, 1]
    [warning] = [each for each in caplog.messages if "by hour" in each]
    assert "A column of hookrow_hours, hookrow_meta, hookrow_notifications is missing" in warning
    assert "hookrow db upgrade" in warning
    assert prune(home) == 2
    keep(home, entry(3))
    for table in ("hookrow_hours", "hookrow_meta"):
        fetch(home, f"ALTER TABLE {table}_away RENAME TO {table}")
    count(home)
    assert total(home) == 1


def test_other_isolation_levels(
    new_database: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    """In an older snapshot entries might be missing whose transactions have ended.

    They are not counted, but pruned.
    """
    with closing(open_home("django-postgres", OURS, new_database)) as home:
        assert isinstance(home, DjangoHome)
        keep(home, entry(1))
        name = make_url(home.url).database
        fetch(home, f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")
        connections.close_all()
        assert not reader(home).count_hours()
        assert "READ COMMITTED" in caplog.text
        assert prune(home) == 1
        assert total(home) == 0


PLACES = ["sqlite", "postgres", "lent-sqlite", "lent-postgres", "django-sqlite", "django-postgres"]


@pytest.mark.parametrize("place", PLACES)
def test_recovered(place: str, new_database: Callable[[str], str]) -> None:
    """It is the number of entries that were refused at first and found recorded by a count.

    Entries count once, however they end later, and whichever of several writes recorded them.
    """
    chance = random.Random(place)
    outcomes = [Result.RECORDED, Result.RECORDED, REFUSED, Result.FAILED]
    seen: set[bytes] = set()
    with closing(open_home(place, OURS, new_database)) as home:
        assert isinstance(home, SQLHome)
        for turn in range(60):
            chosen = sorted(chance.sample(range(1, 12), chance.randint(1, 6)))
            keep(home, *(entry(n, outcome=chance.choice(outcomes)) for n in chosen))
            if turn % 3 == 0:
                count(home)
                seen |= {
                    bytes(row["fingerprint"])
                    for row in home.logged()
                    if row["first_outcome"] != "recorded" and row["outcome"] == "recorded"
                }
                assert (total(home), recovered(home)) == (len(home.logged()), len(seen))
        assert len(seen) > 1


def test_recovered_entries_stay_counted(home: SQLHome) -> None:
    """A repeated delivery, and pruning, change nothing of an entry that has recovered."""
    keep(home, parked(1, minutes=1), parked(2, minutes=1))
    keep(home, entry(3))
    count(home)
    for _ in range(3):
        keep(home, entry(1))
    assert prune(home) == 2
    assert (total(home), recovered(home)) == (3, 1)


def test_a_group_in_which_one_recovers(home: SQLHome) -> None:
    """The changes of all are applied, and each attempt is counted once."""
    fill(home)
    late, never, new = (
        replace(arrival(opens(ADA, name)), body=name.encode())
        for name in ("m-late", "m-never", "m-ada")
    )
    assert statuses(record(home.store, [late, never])) == [404, 404]
    count(home)
    fetch(home, "UPDATE hookrow_dispatches SET provider_message_id = 'm-late' WHERE id = 3")
    assert statuses(record(home.store, [late, never, new])) == [200, 404, 200]
    opened = {row["provider_message_id"]: row["opened_at"] for row in home.rows()["dispatches"]}
    assert (opened["m-late"], opened["m-ada"]) == (NOON, NOON)
    kept = {row["body"]: (row["outcome"], row["attempts"]) for row in home.logged()}
    assert kept == {
        "m-late": ("recorded", 2),
        "m-never": ("dispatch_not_found", 2),
        "m-ada": ("recorded", 1),
    }
    count(home)
    assert (total(home), recovered(home)) == (3, 1)


def test_an_entry_recovers_while_it_is_counted(on_postgres: SQLHome) -> None:
    """A count does not wait for it: the next one counts it."""
    keep(on_postgres, parked(1, minutes=1), parked(2, minutes=1))
    count(on_postgres)
    keep(on_postgres, entry(1))
    engine = connect(on_postgres.url)
    with SQLStore(engine).transaction() as transaction:
        transaction.write((), [entry(1), entry(2)])
        count(on_postgres)
        assert recovered(on_postgres) == 0
    engine.dispose()
    count(on_postgres)
    assert (total(on_postgres), recovered(on_postgres)) == (2, 2)


def test_recovered_entries_are_pruned_after_they_are_counted(on_postgres: SQLHome) -> None:
    """If another transaction holds one, it is left for the next time."""
    keep(on_postgres, parked(1, minutes=1), entry(2), entry(3))
    count(on_postgres)
    keep(on_postgres, entry(1))
    engine = connect(on_postgres.url)
    with engine.begin() as holder:
        holder.execute(text("SELECT FROM hookrow_notifications WHERE id = 1 FOR KEY SHARE"))
        holder.execute(text("SELECT FROM hookrow_notifications WHERE id = 1 FOR NO KEY UPDATE"))
        assert prune(on_postgres) == 1
    engine.dispose()
    assert prune(on_postgres) == 1
    assert (total(on_postgres), recovered(on_postgres)) == (3, 1)


@pytest.mark.parametrize("place", ["sqlite", "postgres", "django-postgres"])
def test_a_receiver_counts(
    place: str, new_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts repeatedly in a separate thread, until it is closed."""
    monkeypatch.setattr("hookrow.receiver.receiver.COUNT_EVERY", 0.01)
    with closing(open_home(place, OURS, new_database)) as home:
        assert isinstance(home, SQLHome)
        keep(home, entry(1))
        with closing(Receiver(Postmark("a-secret-of-the-tests"), home.store)) as receiver:
            receiver.start()
            eventually(lambda: total(home) == 1)
            keep(home, entry(2))
            eventually(lambda: total(home) == 2)
        keep(home, entry(3))
        assert total(home) == 2
