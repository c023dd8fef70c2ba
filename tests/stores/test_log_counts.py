"""The counts of a log in a database: hourly counts and entries together, each entry once."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import datetime, timedelta
from threading import Thread
from typing import Any

import pytest
from contract import NOON, SECOND
from django.db import connections
from homes import OURS, SQLHome, run
from locations import open_home
from log_contract import HOUR, MINUTE, entry, keep, logged, parked, reader
from sqlalchemy import make_url

from copying import replace
from hookrow.core.log_entry import LogEntry, Result
from hookrow.stores import Conflict
from hookrow.stores.log import LogReader, totals
from hookrow.stores.sql import SQLStore

DAY = timedelta(days=1)
TODAY = NOON.replace(hour=0, minute=0, second=0, microsecond=0)
SHARP = NOON.replace(microsecond=0)
KATHMANDU = "ALTER DATABASE {} SET timezone = 'Asia/Kathmandu'"
"""Its hours and days do not begin with those of UTC."""

PLACES = ["sqlite", "postgres", "lent-sqlite", "lent-postgres", "django-sqlite", "django-postgres"]


@pytest.fixture
def home(database_url: str) -> Iterator[SQLHome]:
    with closing(SQLHome(database_url, OURS)) as home:
        yield home


@pytest.fixture
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count a few entries in each transaction, without pauses."""
    monkeypatch.setattr("hookrow.stores.sql.hours.CHUNK", 4)
    monkeypatch.setattr("hookrow.stores.sql.log.PAUSE", 0)


def count_hours(home: SQLHome) -> None:
    while reader(home).count_hours():
        pass


def numbers(home: SQLHome, since: datetime, bucket: timedelta) -> tuple[int, int]:
    """Return the numbers of entries, and of recovered ones, since then."""
    found = reader(home).counts(since, bucket).counts
    return sum(each.entries for each in found), sum(each.recovered for each in found)


@pytest.mark.usefixtures("_small_chunks")
@pytest.mark.parametrize("place", PLACES)
def test_each_entry_counts_once(place: str, new_database: Callable[[str], str]) -> None:
    """The counts equal those of the entries, wherever the watermark is, and outlive pruning.

    They do not depend on the time zone of the session.
    """
    chance, kept = random.Random(place), dict[bytes, dict[str, Any]]()
    with closing(open_home(place, OURS, new_database)) as home:
        assert isinstance(home, SQLHome)
        log = reader(home)
        if "postgres" in place:
            run(home._engine, KATHMANDU.format(make_url(home.url).database))
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
            chance.choice([_wait, _count, _count, _prune])(log)
            for since, bucket in (
                (TODAY - 9 * DAY, HOUR),
                (TODAY - DAY, 6 * HOUR),
                (TODAY, DAY),
                (SHARP, HOUR),
            ):
                counts, complete_since = log.counts(since, bucket)
                found = Counter[Any]()
                for each in counts:
                    key = each.at, each.record_type, each.reason, each.first_outcome.value
                    found[key] += each.entries
                    found[(*key, "recovered")] += each.recovered
                assert (+found, complete_since) == (_expected(kept, since, bucket), None)
            assert sum(each.entries for each in totals(log)) == len(kept)


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
            outcome=fixed.choice([Result.RECORDED, Result.FAILED, Result.DISPATCH_NOT_FOUND]),
        )


def _wait(_: LogReader) -> None:
    """Leave the entries for the next turn."""


def _count(log: LogReader) -> None:
    log.count_hours()


def _prune(log: LogReader) -> None:
    sum(log.prune(before=TODAY - DAY, parked_before=NOON, bodies_only=False))


def _expected(
    kept: dict[bytes, dict[str, Any]], since: datetime, bucket: timedelta
) -> Counter[Any]:
    """Count rows of the log one by one."""
    expected = Counter[Any]()
    for row in kept.values():
        if row["received_at"] >= since:
            at = row["received_at"] - (row["received_at"] - (TODAY - 9 * DAY)) % bucket
            key = at, row["record_type"], row["reason"] or "", row["first_outcome"]
            expected[key] += 1
            expected[(*key, "recovered")] += row["first_outcome"] != row["outcome"] == "recorded"
    return +expected


@pytest.mark.usefixtures("_small_chunks")
def test_counts_while_hours_are_counted(home: SQLHome) -> None:
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
        seen = {numbers(home, TODAY, DAY)}
        while thread.is_alive():
            seen.add(numbers(home, TODAY, DAY))
        thread.join()
    count_hours(home)
    assert seen | {numbers(home, TODAY, DAY)} == {(199, 49)}


@pytest.mark.parametrize("bucket", [MINUTE, HOUR])
def test_limit(home: SQLHome, monkeypatch: pytest.MonkeyPatch, bucket: timedelta) -> None:
    """The newest are counted, up to a limit, and the counts say since when they are complete."""
    monkeypatch.setattr("hookrow.stores.log.MOST_COUNTED", 4)
    times = [SHARP + n * 10 * SECOND for n in range(9)]
    for number, at in enumerate(times):
        keep(home, entry(number, received_at=at, ended_at=at + SECOND))
    log = reader(home)
    assert numbers(home, SHARP, bucket) == (4, 0)
    assert log.counts(SHARP, bucket).complete_since == times[5] + SECOND
    assert log.counts(SHARP + MINUTE, MINUTE).complete_since is None
    count_hours(home)
    assert numbers(home, SHARP, HOUR) == (9, 0)
    assert log.counts(SHARP, HOUR).complete_since is None


def test_missing_hourly_counts(home: SQLHome) -> None:
    """Without the table, or without a column, the entries that are there are counted."""
    keep(home, entry(1), parked(2, minutes=1))
    count_hours(home)
    keep(home, entry(2), entry(3))
    log = "hookrow_notifications"
    assert numbers(home, SHARP, HOUR) == (3, 1)
    run(home._engine, "ALTER TABLE hookrow_hours RENAME TO away")
    assert numbers(home, SHARP, HOUR) == (3, 1)
    run(
        home._engine,
        "ALTER TABLE away RENAME TO hookrow_hours",
        f"ALTER TABLE {log} RENAME COLUMN recovery_counted TO away",
    )
    assert numbers(home, SHARP, HOUR) == (3, 1)


def test_privileges(postgres_url: str) -> None:
    """A user needs SELECT alone; without it on the hourly counts, entries are counted."""
    name = f"reader_{make_url(postgres_url).database}"
    with closing(SQLHome(postgres_url, OURS)) as home:
        keep(home, entry(1), entry(2), entry(3))
        assert sum(reader(home).prune(before=NOON + HOUR, parked_before=NOON, bodies_only=False))
        run(
            home._engine,
            f"CREATE ROLE {name} LOGIN",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}",
        )
        try:
            with closing(SQLStore(postgres_url.replace("postgres@", f"{name}@"))) as store:
                assert store.log is not None
                found = [sum(each.entries for each in store.log.counts(SHARP, HOUR).counts)]
                run(home._engine, f"REVOKE SELECT ON hookrow_hours FROM {name}")
                found += [sum(each.entries for each in store.log.counts(SHARP, HOUR).counts)]
            assert found == [3, 1]
        finally:
            run(home._engine, f"DROP OWNED BY {name}", f"DROP ROLE {name}")
