"""The hourly counts, and the counts of the log that they and the entries make together.

Each id of the log is counted once, whenever its transaction commits.
"""

import logging
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import datetime, timedelta
from threading import Event, Thread
from typing import Any

import psycopg
import pytest
from contract import NOON
from django.db import connections
from homes import Home
from locations import ON_POSTGRES, ON_SQLITE, PLACES, few_places, own_home
from log_contract import count_hours, entry, keep, logged, parked, reader
from sqlalchemy import make_url
from test_partitions import partition

from copying import replace
from databases import KINDS, NAMES, POSTGRESQL, places
from engines import database_user
from hookrow import Postmark, Receiver
from hookrow._core.log_entry import LogEntry
from hookrow._core.result import Result
from hookrow.stores._errors import Conflict
from hookrow.stores._log import RequestHour, RequestKind
from hookrow.stores._log_operations import totals
from hookrow.stores._timeouts import limited_to
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._connections import Connection
from hookrow.stores.sql._dialects import DIALECTS
from hookrow.stores.sql._hours import HourlyCounts
from hookrow.stores.sql._log import SQLLog
from times import DAY, HOUR, MINUTE, SECOND
from wire import eventually

LATER = NOON + 365 * DAY
TODAY = NOON.replace(hour=0, minute=0, second=0, microsecond=0)
SHARP = NOON.replace(microsecond=0)

home = pytest.fixture(own_home, params=NAMES)
ON_SERVERS = pytest.mark.parametrize(
    "home", [each.name for each in KINDS if DIALECTS[each.dialect].is_server], indirect=True
)
IN_EVERY_PLACE = pytest.mark.parametrize("home", PLACES, indirect=True)


def prune(home: Home) -> int:
    return sum(reader(home).prune(before=LATER, parked_before=LATER, bodies_only=False))


def total(home: Home) -> int:
    """Return the number of entries that were counted."""
    return int(home.run("SELECT coalesce(sum(entries), 0) FROM hookrow_hours")[0][0])


def counted(home: Home) -> int:
    """Count all entries that can be counted now; return the number of all counted so far."""
    count_hours(home)
    return total(home)


def recovered(home: Home) -> int:
    return int(home.run("SELECT coalesce(sum(recovered), 0) FROM hookrow_hours")[0][0])


def watermark(home: Home) -> object:
    return home.run("SELECT value FROM hookrow_meta WHERE name = 'hours_watermark'")[0][0]


def numbers(log: SQLLog | None, since: datetime, bucket: timedelta) -> tuple[int, int]:
    """Return the numbers of entries, and of recovered ones, since then."""
    assert log is not None
    found = log.counts(since, bucket).counts
    return sum(each.entries for each in found), sum(each.recovered for each in found)


def insert(fingerprint: int, table: str = "hookrow_notifications") -> str:
    """Return a statement that adds an entry, as another process would."""
    return (
        f"INSERT INTO {table} (fingerprint, outcome, first_outcome, status, attempts, "
        "received_at, last_received_at, ended_at, source) SELECT decode(lpad(to_hex("
        f"{fingerprint}), 32, '0'), 'hex'), 'recorded', 'recorded', 200, 1, at, at, at, 'live' "
        f"FROM (SELECT timestamptz '{NOON}') AS time(at)"
    )


@pytest.fixture
def other(home: Home) -> Iterator[psycopg.Connection]:
    """Connect as another process, whose transaction stays open."""
    with closing(psycopg.connect(home.url)) as connection:
        yield connection


@pytest.fixture
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count a few entries in each transaction, without pauses."""
    monkeypatch.setattr("hookrow.stores.sql._hours.IDS_PER_TRANSACTION", 4)
    monkeypatch.setattr("hookrow.stores.sql._log.TASK_PAUSE", 0)


@ON_POSTGRES
class TestOpenTransactions:
    """On PostgreSQL, an id may be committed after a higher one."""

    @pytest.mark.parametrize("end", ["commit", "rollback"])
    def test_a_lower_id_is_committed_later(
        self, home: Home, other: psycopg.Connection, end: str
    ) -> None:
        """Nothing is counted until every transaction has ended that could have a lower id."""
        other.execute(insert(1))
        keep(home, entry(2))
        for _ in range(3):
            assert counted(home) == 0
        getattr(other, end)()
        keep(home, entry(3))
        assert counted(home) == (2 if end == "commit" else 1)
        assert counted(home) == (3 if end == "commit" else 2)

    def test_only_earlier_transactions_are_waited_for(
        self, home: Home, other: psycopg.Connection
    ) -> None:
        """Only transactions that were open when the ceiling was read can delay a count.

        Under load, others are open at any time. Another receiver may continue the count.
        """
        other.execute(insert(1))
        keep(home, entry(2))
        assert reader(home).count_hours()
        with closing(psycopg.connect(home.url)) as third:
            third.execute(insert(3))
            other.commit()
            with closing(SQLStore(home.url)) as next_store:
                assert next_store.log is not None
                assert next_store.log.count_hours()
                assert not next_store.log.count_hours()
            assert (total(home), watermark(home)) == (2, "2")
            third.commit()
        assert counted(home) == 3

    def test_restart_of_the_server(self, home: Home, other: psycopg.Connection) -> None:
        """Afterwards, the same ids denote other transactions; a prepared one may still be open."""
        keep(home, entry(1))
        other.execute(insert(2))
        count_hours(home)
        home.run(
            "UPDATE hookrow_meta SET value = '1 0.5 99/1' WHERE name = 'hours_ceiling'",
        )
        assert reader(home).count_hours()
        assert total(home) == 0
        other.commit()
        assert counted(home) == 1

    def test_partitions(self, home: Home, other: psycopg.Connection) -> None:
        """An INSERT locks the log and the partition, or only the partition if it names that."""
        assert partition(home.url) == ""
        locks = """
            SELECT relname FROM pg_locks JOIN pg_class ON pg_class.oid = relation
            WHERE mode = 'RowExclusiveLock' AND relkind IN ('r', 'p') AND pid = pg_backend_pid()
        """
        for table, locked in (
            ("hookrow_notifications", {"hookrow_notifications", "hookrow_before"}),
            ("hookrow_before", {"hookrow_before"}),
        ):
            before = total(home)
            other.execute(insert(before + 1, table))
            assert {name for (name,) in other.execute(locks).fetchall()} == locked
            keep(home, entry(before + 2))
            assert counted(home) == before
            other.commit()
            assert counted(home) == before + 2

    def test_prune_keeps_what_is_not_counted(self, home: Home, other: psycopg.Connection) -> None:
        """While an older transaction is open, nothing can be counted, and so nothing is deleted."""
        other.execute(insert(1))
        keep(home, *map(entry, range(2, 6)))
        assert prune(home) == 0
        bodies = reader(home).prune(before=LATER, parked_before=LATER, bodies_only=True)
        assert sum(bodies) == 4
        other.commit()
        assert prune(home) == 4
        assert counted(home) == 5

    def test_an_entry_recovers_while_it_is_counted(self, home: Home) -> None:
        """A count does not wait for it: the next one counts it."""
        keep(home, parked(1, minutes=1), parked(2, minutes=1))
        count_hours(home)
        keep(home, entry(1))
        with closing(SQLStore(home.url)) as store, store.transaction() as transaction:
            transaction.write((), [entry(1), entry(2)])
            transaction.read(())  # writes what is pending
            count_hours(home)
            assert recovered(home) == 0
        assert (counted(home), recovered(home)) == (2, 2)

    def test_recovered_entries_are_pruned_after_they_are_counted(
        self, home: Home, other: psycopg.Connection
    ) -> None:
        """If another transaction holds one, it is left for the next time."""
        keep(home, parked(1, minutes=1), entry(2), entry(3))
        count_hours(home)
        keep(home, entry(1))
        for lock in ("KEY SHARE", "NO KEY UPDATE"):
            other.execute(f"SELECT FROM hookrow_notifications WHERE id = 1 FOR {lock}".encode())
        assert prune(home) == 1
        other.rollback()
        assert prune(home) == 1
        assert (total(home), recovered(home)) == (3, 1)


@pytest.mark.parametrize("home", ["django-postgres"], indirect=True)
def test_other_isolation_levels(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """In an older snapshot entries might be missing whose transactions have ended.

    They are not counted, but pruned.
    """
    keep(home, entry(1))
    name = make_url(home.url).database
    home.run(f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")
    connections.close_all()
    assert not reader(home).count_hours()
    assert "READ COMMITTED" in caplog.text
    assert prune(home) == 1
    assert total(home) == 0


TRUNCATE = "TRUNCATE hookrow_notifications RESTART IDENTITY"


class TestIds:
    """Ids may be truncated, deleted by hand, restored from a backup, and assigned again."""

    @ON_POSTGRES
    def test_truncate_restarts_the_ids(self, home: Home) -> None:
        """Ids from 1 are counted again; the earlier counts remain."""
        keep(home, *map(entry, range(1, 6)))
        count_hours(home)
        home.run(TRUNCATE)
        keep(home, entry(1), entry(2))
        assert (counted(home), watermark(home)) == (7, "2")

    @ON_POSTGRES
    def test_truncate_between_the_two_steps(self, home: Home) -> None:
        """A ceiling of ids that were truncated is not final for the new ones."""
        keep(home, *map(entry, range(1, 6)))
        assert reader(home).count_hours()
        home.run(TRUNCATE)
        keep(home, entry(1))
        count_hours(home)
        keep(home, *map(entry, range(2, 9)))
        assert counted(home) == 8

    @pytest.mark.parametrize("first", [1, 2])
    def test_the_newest_are_deleted_by_hand(self, home: Home, first: int) -> None:
        """No id is assigned again, so the others are not counted twice."""
        keep(home, *map(entry, range(1, 6)))
        count_hours(home)
        home.run(f"DELETE FROM hookrow_notifications WHERE id > 3 OR id < {first}")
        count_hours(home)
        keep(home, entry(6))
        assert counted(home) == 6

    def test_watermark_of_another_backup(self, home: Home) -> None:
        """A watermark above all ids does not hide new entries for good."""
        keep(home, entry(1))
        count_hours(home)
        for name, value in (("watermark", "1000"), ("first", "FF")):
            home.run(
                f"UPDATE hookrow_meta SET value = '{value}' WHERE name = 'hours_{name}'",
            )
        home.run("DELETE FROM hookrow_hours")
        keep(home, entry(2))
        assert counted(home) == 2

    def test_pruned_ids_are_not_assigned_again(self, home: Home) -> None:
        """The newest entry stays, so that SQLite continues with the next id."""
        keep(home, *map(entry, range(1, 6)))
        assert prune(home) == 4
        keep(home, entry(6))
        assert prune(home) == 1
        assert [row["id"] for row in home.logged()] == [6]
        assert total(home) == 6

    @ON_SQLITE
    def test_reused_ids(self, home: Home) -> None:
        """If all are deleted by hand, ids are assigned and counted again from 1."""
        keep(home, *map(entry, range(1, 6)))
        count_hours(home)
        for new in (2, 20):
            home.run("DELETE FROM hookrow_notifications")
            keep(home, *map(entry, range(10 * new, 11 * new)))
            count_hours(home)
        assert total(home) == 5 + 2 + 20

    @pytest.mark.usefixtures("_small_chunks")
    def test_many_uncounted_entries(self, home: Home) -> None:
        """They are counted in chunks, from the first existing id, however high it is."""
        keep(home, *map(entry, range(1, 10)))
        home.run("UPDATE hookrow_notifications SET id = id + 3000000000")
        ceilings = 0 if "sqlite" in home.url else 1
        assert count_hours(home) == ceilings + 3
        assert total(home) == 9


def test_two_receivers_count_while_others_write(home: Home) -> None:
    """Nothing is counted twice or left out, whichever receiver counts."""
    with (
        closing(SQLStore(home.url)) as first,
        closing(SQLStore(home.url)) as second,
        ThreadPoolExecutor(4) as threads,
    ):

        def write(part: int) -> int:
            """Write 50 groups, and on until some are counted; return the number of entries."""
            number = 0
            while number < 50 or (number < 1000 and not some_counted.is_set()):
                entries = [entry(part + 100 * number + n) for n in range(3)]
                number += 1
                while True:  # SQLite's writers poll, and may time out
                    with suppress(Conflict):
                        keep(home, *entries)
                        break
            return 3 * number

        def count(store: SQLStore) -> None:
            assert store.log is not None
            while not all(each.done() for each in written):
                with limited_to(9), suppress(Conflict):
                    store.log.count_hours()
                if total(home) > 0:
                    some_counted.set()

        some_counted = Event()
        written = [threads.submit(write, part) for part in (10**6, 10**7)]
        counting = [threads.submit(count, store) for store in (first, second)]
    assert [each.result() for each in counting] == [None] * 2
    assert some_counted.is_set()
    entries = sum(each.result() for each in written)
    count_hours(home)
    assert (counted(home), len(home.logged())) == (entries, entries)


@ON_SERVERS
def test_writers_while_hours_are_counted(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """No entry waits for the transaction that counts the others."""
    count, during = HourlyCounts._count_chunk, list[int]()

    def write_meanwhile(
        hours: HourlyCounts, connection: Connection, watermark: int, ceiling: int
    ) -> int:
        keep(home, entry(9))
        during.append(count(hours, connection, watermark, ceiling))
        return during[-1]

    with closing(SQLStore(home.url)) as other, other.transaction() as transaction:
        transaction.write((), [entry(1)])
        transaction.read(())  # writes what is pending
        keep(home, entry(2))
        count_hours(home)
    monkeypatch.setattr(HourlyCounts, "_count_chunk", write_meanwhile)
    count_hours(home)
    assert during == [2]


@ON_SERVERS
def test_prune_while_entries_are_added(home: Home) -> None:
    """A transaction that has added an entry, and is still open, delays no other entry's end."""
    keep(home, entry(1), entry(2))
    count_hours(home)
    with closing(SQLStore(home.url)) as other, other.transaction() as transaction:
        transaction.write((), [entry(3)])
        transaction.read(())  # writes what is pending
        assert prune(home) == 1


@pytest.mark.usefixtures("_small_chunks")
def test_counts_while_hours_are_counted(home: Home) -> None:
    """An entry is never in both counts, or in none, while another process moves it."""
    keep(home, *(entry(n, received_at=SHARP + n * MINUTE) for n in range(100, 200)))
    keep(home, *(parked(n, minutes=1) for n in range(1, 100)))
    with closing(SQLStore(home.url)) as other:

        def count() -> None:
            assert other.log is not None
            for _ in range(3 * 50):
                with suppress(Conflict):
                    other.log.count_hours()

        thread = Thread(target=count)
        keep(home, *(entry(n) for n in range(1, 50)))
        thread.start()
        seen = {numbers(reader(home), TODAY, DAY)}
        while thread.is_alive():
            seen.add(numbers(reader(home), TODAY, DAY))
        thread.join()
    count_hours(home)
    assert seen | {numbers(reader(home), TODAY, DAY)} == {(199, 49)}


def test_missing_tables(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """Recording, retries and pruning continue without them, and one warning names the remedy."""
    for table in ("hookrow_hours", "hookrow_meta"):
        home.run(f"ALTER TABLE {table} RENAME TO {table}_away")
    keep(home, parked(1, minutes=1))
    keep(home, entry(1), entry(2))
    caplog.set_level(logging.WARNING)
    assert [count_hours(home), count_hours(home)] == [1, 1]
    [warning] = [each for each in caplog.messages if "by hour" in each]
    assert (
        "hookrow_hours, hookrow_meta, hookrow_notifications is missing, lacks a column" in warning
    )
    assert "hookrow db upgrade" in warning
    assert prune(home) == 2
    reader(home).add_requests({RequestHour(RequestKind.WRONG_SECRET, "", SHARP): 1})
    assert reader(home).requests(RequestKind.WRONG_SECRET, TODAY) == {}
    keep(home, entry(3))
    for table in ("hookrow_hours", "hookrow_meta"):
        home.run(f"ALTER TABLE {table}_away RENAME TO {table}")
    assert counted(home) == 1


@pytest.mark.parametrize(
    "missing",
    [
        "ALTER TABLE hookrow_hours RENAME TO away",
        "ALTER TABLE hookrow_notifications RENAME COLUMN recovery_counted TO away",
    ],
    ids=["table", "column"],
)
def test_missing_hourly_counts(home: Home, missing: str) -> None:
    """Without the table, or without a column, the existing entries are counted."""
    keep(home, entry(1), parked(2, minutes=1))
    count_hours(home)
    keep(home, entry(2), entry(3))
    assert numbers(reader(home), SHARP, HOUR) == (3, 1)
    home.run(missing)
    assert numbers(reader(home), SHARP, HOUR) == (3, 1)


@ON_POSTGRES
def test_privileges(home: Home) -> None:
    """A user needs SELECT alone; without it on the hourly counts, entries are counted."""
    keep(home, entry(1), entry(2), entry(3))
    assert prune(home) == 2
    grant = "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}"
    with database_user(home.url, grant) as url, closing(SQLStore(url)) as store:
        assert numbers(store.log, SHARP, HOUR) == (3, 0)
        home.run(f"REVOKE SELECT ON hookrow_hours FROM {make_url(url).username}")
        assert numbers(store.log, SHARP, HOUR) == (1, 0)


@IN_EVERY_PLACE
def test_recovered(home: Home, request: pytest.FixtureRequest) -> None:
    """The number of entries that were first refused, and had been recorded when counted.

    Each entry counts once, whatever its later results, and whichever write recorded it.
    """
    chance = random.Random(request.node.callspec.params["home"])
    outcomes = [Result.RECORDED, Result.RECORDED, Result.DISPATCH_NOT_FOUND, Result.FAILED]
    seen: set[bytes] = set()
    for turn in range(60):
        chosen = sorted(chance.sample(range(1, 12), chance.randint(1, 6)))
        keep(home, *(entry(n, outcome=chance.choice(outcomes)) for n in chosen))
        if turn % 3 == 0:
            count_hours(home)
            seen |= {
                bytes(row["fingerprint"])
                for row in home.logged()
                if row["first_outcome"] != "recorded" and row["outcome"] == "recorded"
            }
            assert (total(home), recovered(home)) == (len(home.logged()), len(seen))
    assert len(seen) > 1


@pytest.mark.parametrize("home", [*NAMES, *places("django", POSTGRESQL.name)], indirect=True)
def test_a_receiver_counts(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver counts repeatedly in a separate thread, until it is closed."""
    monkeypatch.setattr("hookrow._receiver.hourly.COUNT_EVERY", 0.01)
    with closing(Receiver(Postmark("a-secret-of-the-tests"), home.store)) as receiver:
        receiver.start()
        for number in (1, 2):
            keep(home, entry(number))
            eventually(lambda number=number: total(home) == number)  # type: ignore[misc] # no Callable has defaults
    keep(home, entry(3))
    assert total(home) == 2


@pytest.mark.parametrize("bucket", [MINUTE, HOUR])
def test_limit(home: Home, monkeypatch: pytest.MonkeyPatch, bucket: timedelta) -> None:
    """The newest are counted, up to a limit; the result has the time since when it is complete."""
    for module in ("_hours", "_log"):
        monkeypatch.setattr(f"hookrow.stores.sql.{module}.MOST_COUNTED", 4)
    times = [SHARP + n * 10 * SECOND for n in range(9)]
    for number, at in enumerate(times):
        keep(home, entry(number, received_at=at, ended_at=at + SECOND))
    log = reader(home)
    assert numbers(log, SHARP, bucket) == (4, 0)
    assert log.counts(SHARP, bucket).complete_since == times[5] + SECOND
    assert log.counts(SHARP + MINUTE, MINUTE).complete_since is None
    count_hours(home)
    assert numbers(log, SHARP, HOUR) == (9, 0)
    assert log.counts(SHARP, HOUR).complete_since is None


def _entries(chance: random.Random) -> Iterator[LogEntry]:
    """Yield a few entries of three days; some of them arrive several times."""
    for number in sorted(chance.sample(range(1, 400), chance.randint(1, 8))):
        fixed = random.Random(number)  # what depends on the number alone
        at = NOON - fixed.random() * 3 * DAY
        yield entry(
            number,
            received_at=at,
            last_received_at=at,
            record_type=fixed.choice(["Open", "Delivery", "SubscriptionChange"]),
            reason=fixed.choice([None, "HardBounce", "SpamComplaint"]),
            entry=fixed.choice([None, "sendgrid"]),
            outcome=fixed.choice([Result.RECORDED, Result.FAILED, Result.DISPATCH_NOT_FOUND]),
        )


def _expected(
    kept: dict[bytes, dict[str, Any]], since: datetime, bucket: timedelta
) -> Counter[Any]:
    """Count rows of the log one by one."""
    expected = Counter[Any]()
    for row in kept.values():
        if row["received_at"] >= since:
            at = row["received_at"] - (row["received_at"] - (TODAY - 9 * DAY)) % bucket
            key = (
                *(at, row["record_type"], row["reason"] or "", row["first_outcome"]),
                row["entry"] or "",
            )
            expected[key] += 1
            expected[(*key, "recovered")] += row["first_outcome"] != row["outcome"] == "recorded"
    return +expected


@pytest.mark.usefixtures("_small_chunks")
@pytest.mark.parametrize("home", few_places(1), indirect=True)
@pytest.mark.unmeasured
def test_each_entry_counts_once(home: Home, request: pytest.FixtureRequest) -> None:
    """The counts equal those of the entries, wherever the watermark is, and outlive pruning.

    They do not depend on the time zone of the session, whose hours and days differ from UTC's.
    """
    chance = random.Random(request.node.callspec.params["home"])
    kept: dict[bytes, dict[str, Any]] = {}
    log = reader(home)
    if "postgres" in home.url:
        zone = f"ALTER DATABASE {make_url(home.url).database} SET timezone = 'Asia/Kathmandu'"
        home.run(zone)
        home._engine.dispose()
        home.store.close()
        connections.close_all()
    for _ in range(40):
        pruned = kept.keys() - {bytes(row["fingerprint"]) for row in logged(home)}
        keep(
            home,
            # One that arrives again is recorded.
            *(
                replace(each, outcome=Result.RECORDED) if each.fingerprint in kept else each
                for each in _entries(chance)
                if each.fingerprint not in pruned
            ),
        )
        kept |= {bytes(row["fingerprint"]): row for row in logged(home)}
        match chance.choice(["wait", "count", "count", "prune"]):
            case "count":
                log.count_hours()
            case "prune":
                sum(log.prune(before=TODAY - DAY, parked_before=NOON, bodies_only=False))
        for since, bucket in (
            (TODAY - 9 * DAY, HOUR),
            (TODAY - DAY, 6 * HOUR),
            (TODAY, DAY),
            (SHARP, HOUR),
        ):
            counts, complete_since = log.counts(since, bucket)
            found = Counter[Any]()
            for each in counts:
                key = (*each[:3], each.first_outcome.value, each.entry)
                found[key] += each.entries
                found[(*key, "recovered")] += each.recovered
            assert (+found, complete_since) == (_expected(kept, since, bucket), None)
        assert sum(each.entries for each in totals(log)) == len(kept)


@IN_EVERY_PLACE
def test_recount(home: Home) -> None:
    """Entries that the counts lack are added, once; those that are not counted yet are left."""
    keep(home, *map(entry, range(1, 5)), entry(5, entry="sendgrid"))
    assert counted(home) == 5
    home.run("UPDATE hookrow_hours SET entries = 1")
    home.run("DELETE FROM hookrow_hours WHERE entry = 'sendgrid'")
    keep(home, entry(6))
    assert [reader(home).recount_hours(), reader(home).recount_hours()] == [4, 0]
    assert (total(home), counted(home)) == (5, 6)
    assert {each.entry: each.entries for each in totals(reader(home))} == {"": 5, "sendgrid": 1}


@IN_EVERY_PLACE
def test_recount_after_pruning(home: Home) -> None:
    """What was pruned stays counted."""
    keep(home, *map(entry, range(1, 5)))
    count_hours(home)
    prune(home)
    assert (reader(home).recount_hours(), total(home)) == (0, 4)


@IN_EVERY_PLACE
def test_recount_of_entries_that_have_changed(home: Home) -> None:
    """An entry that moved to an earlier hour, or lost its reason, is not counted again."""
    keep(home, *map(entry, range(1, 5)))
    count_hours(home)
    first = "UPDATE hookrow_notifications SET {} WHERE id = 1"
    home.run(first.format("received_at = '2020-01-01 00:00:00.000000'"))
    home.run("UPDATE hookrow_hours SET reason = 'HardBounce' WHERE entries > 0")
    assert (reader(home).recount_hours(), total(home)) == (0, 4)
    home.run("UPDATE hookrow_hours SET entries = entries - 1 WHERE entries = 4")
    assert (reader(home).recount_hours(), reader(home).recount_hours(), total(home)) == (1, 0, 4)


def test_two_recounts(home: Home) -> None:
    """Of two at the same time, only one adds the entries."""
    keep(home, *map(entry, range(1, 5)))
    count_hours(home)
    home.run("DELETE FROM hookrow_hours")
    log = reader(home)
    with log._database.reading() as connection:
        missing = log._hours.missing_entries(connection)
    assert (missing.number, log.recount_hours()) == (4, 4)
    with pytest.raises(Conflict), log._database.transaction() as connection:
        log._hours.add_missing(connection, missing)
    assert total(home) == 4
