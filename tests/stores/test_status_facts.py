"""What the status reads in each database: a rehearsed write, the log, and its hourly counts."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import pytest
from homes import Home
from locations import PLACES, own_home
from log_contract import count_hours, entry, keep, parked, reader

from databases import NAMES, kind_of
from engines import run
from hookrow import Postmark, Receiver, Schema
from hookrow._core.result import Result
from hookrow._core.status import Status, StatusLevel, StatusSubject
from hookrow._diagnostics.status import (
    LogFacts,
    StatusSource,
    read_fault,
    read_log,
    read_status,
    sweep_of,
)
from hookrow._receiver.entries import POSTMARK, Entries, Entry
from hookrow.stores._errors import Unavailable
from hookrow.stores._log import RequestHour, RequestKind, Requests, Waiting
from hookrow.stores.sql import SQLStore
from times import DAY, HOUR, NOON
from wire import SECRET

home = pytest.fixture(own_home, params=NAMES)
IN_EVERY_PLACE = pytest.mark.parametrize("home", PLACES, indirect=True)

LATE = NOON + 40 * DAY
"""A time that is the present, for entries of noon."""


@pytest.fixture
def source(home: Home) -> StatusSource:
    return StatusSource(store=home.store, parsers=POSTMARK)


def fault(source: StatusSource) -> tuple[str, str]:
    """Return the subject and the text of the fault that a rehearsal finds."""
    found = read_fault(source, rehearse=True)
    assert found is not None
    return found.subject, found.text


def facts(source: StatusSource, now: datetime = LATE) -> LogFacts:
    log = read_log(source, now).log
    assert isinstance(log, LogFacts), log
    return log


def broken(source: StatusSource) -> bool:
    return read_status(source).about(StatusSubject.WRITES) is StatusLevel.BROKEN


@IN_EVERY_PLACE
def test_a_rehearsal_leaves_nothing(source: StatusSource, home: Home) -> None:
    """It neither adds an entry, nor is one counted or read as a change."""
    keep(home, entry(1))
    for _ in range(3):
        assert read_fault(source, rehearse=True) is None
    count_hours(home)
    assert len(home.logged()) == 1
    assert [each.entry.message_id for each in home.store.changes()] == ["m-1"]
    assert [count.entries for count in reader(home).counts(NOON - HOUR, HOUR).counts] == [1]


@IN_EVERY_PLACE
def test_a_rehearsal_takes_no_id(source: StatusSource, home: Home) -> None:
    """A sequence would not get it back when the write is undone."""
    # InnoDB increments a counter that is 2, once, after an insert with an id that is negative.
    keep(home, entry(1), entry(2))
    for _ in range(3):
        assert read_fault(source, rehearse=True) is None
    keep(home, entry(3))
    _, second, third = (each["id"] for each in home.logged())
    assert third == second + 1


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
def test_ids_that_only_the_database_generates(source: StatusSource, home: Home) -> None:
    run(
        home.url,
        "ALTER TABLE hookrow_notifications ALTER id DROP DEFAULT, "
        "ALTER id ADD GENERATED ALWAYS AS IDENTITY",
    )
    assert read_fault(source, rehearse=True) is None


@IN_EVERY_PLACE
def test_a_log_that_accepts_no_entry(source: StatusSource, home: Home) -> None:
    """A rehearsal fails as a notification would, for example if the disk is full."""
    kind = kind_of(home.url)
    failing = kind.fail.replace("email", "recipient")
    run(home.url, kind.create_trigger("hookrow_notifications", failing, event="INSERT"))
    assert read_fault(source, rehearse=False) is None
    subject, text = fault(source)
    assert (subject, text.startswith("The database accepts no changes: ")) == ("changes", True)
    assert broken(source)
    run(home.url, kind.drop_trigger("hookrow_notifications"))
    assert read_fault(source, rehearse=True) is None


@pytest.mark.parametrize("table", ["hookrow_dispatches", "hookrow_notifications"])
def test_a_dropped_column(source: StatusSource, home: Home, table: str) -> None:
    column = {"hookrow_dispatches": "opened_at", "hookrow_notifications": "trace_id"}[table]
    run(home.url, f"ALTER TABLE {table} DROP COLUMN {column}")
    subject, text = fault(source)
    assert (subject, column in text) == ("tables", True)
    assert broken(source)


def test_an_outage(source: StatusSource) -> None:
    """Nothing else is read, because it would take as long."""
    with patch("hookrow._migrations.current", side_effect=Unavailable("It is away.")):
        [found] = read_status(source).findings
    assert (found.subject, "It is away." in found.reason) == (StatusSubject.WRITES, True)


def test_without_a_log(home: Home) -> None:
    """Only the host's tables are checked, and nothing can be rehearsed."""
    with closing(SQLStore(home.url, Schema(log=None))) as store:
        assert read_status(StatusSource(store=store, parsers=POSTMARK)) == Status([])


def test_retries_and_expired_entries(source: StatusSource, home: Home) -> None:
    """Those of other receivers are not included: `hookrow check` reports them."""
    gone = {"outcome": Result.DISPATCH_NOT_FOUND, "status": 404, "change_number": None}
    keep(home, parked(1, minutes=1), entry(2, **gone), parked(3, minutes=2, provider="other"))
    waiting = facts(source).waiting
    assert waiting == Waiting(1, parked(1, minutes=1).retry_at, 1, 0)
    found = read_status(source).findings
    assert {StatusSubject.RETRIES, StatusSubject.EXPIRED} <= {each.subject for each in found}


def test_requests_by_kind(source: StatusSource, home: Home) -> None:
    """Each kind has the hours of the first and the last one, in the last day."""
    hour = LATE
    counts = {
        RequestHour(RequestKind.WRONG_SECRET, "", hour): 2,
        RequestHour(RequestKind.WRONG_SECRET, "", hour - 9 * HOUR): 3,
        RequestHour(RequestKind.WRONG_SECRET, "", hour - 2 * DAY): 9,
        RequestHour(RequestKind.MISSING_SECRET, "a", hour): 4,
        RequestHour(RequestKind.EXPIRED, "a", hour): 1,
        RequestHour(RequestKind.UNAVAILABLE, "", hour): 7,
    }
    reader(home).add_requests(counts)
    assert facts(source).requests == {
        RequestKind.WRONG_SECRET: {"": Requests(5, hour - 9 * HOUR, hour)},
        RequestKind.MISSING_SECRET: {"a": Requests(4, hour, hour)},
        RequestKind.EXPIRED: {"a": Requests(1, hour, hour)},
        RequestKind.UNAVAILABLE: {"": Requests(7, hour, hour)},
    }
    assert facts(source).last_valid == {}


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
def test_hours_that_may_not_be_read(source: StatusSource, home: Home) -> None:
    """Without the counts, the status must not say that there were no 401s, 503s and no silence."""
    assert facts(source).uncounted is None
    run(home.url, "ALTER TABLE hookrow_hours RENAME TO hours")
    [found] = read_status(source).findings
    assert (found.level, found.subject) == (StatusLevel.ATTENTION, StatusSubject.LOG)
    assert "One of hookrow_hours, " in found.remedy


@IN_EVERY_PLACE
def test_a_log_of_another_mapping(source: StatusSource, home: Home) -> None:
    """Nothing in it is retried."""
    keep(home, entry(1))
    assert facts(source).other_mapping is None
    run(
        home.url,
        """INSERT INTO hookrow_meta VALUES ('mapping', '[{"subscribers": {"table": "others"}}]')""",
    )
    [found] = read_status(source).findings
    assert (found.level, found.subject) == (StatusLevel.ATTENTION, StatusSubject.MAPPING)
    assert "subscribers in others" in found.reason


def fill_hours(home: Home, name: str | None, *, until: datetime) -> None:
    """Keep an entry of each hour of eight days, and count them."""
    at = [until - n * HOUR for n in range(8 * 24)]
    first = hash((name, until)) % 10**9
    keep(
        home,
        *sorted(
            (
                entry(first + n, received_at=each, last_received_at=each, entry=name)
                for n, each in enumerate(at)
            ),
            key=lambda kept: kept.fingerprint,
        ),
    )
    count_hours(home)


def test_silence(home: Home) -> None:
    """An entry of the receiver is silent if the log has nothing, counted or not, since its pause.

    Entries that the receiver does not have any more are left out.
    """
    parsers = Entries(Entry("quiet", Postmark), Entry("busy", Postmark), Entry("back", Postmark))
    source = StatusSource(store=home.store, parsers=parsers)
    for name, ago in (("quiet", 9), ("back", 9), ("removed", 9), ("busy", 1)):
        fill_hours(home, name, until=NOON - ago * HOUR)
    keep(home, entry(1, received_at=NOON, last_received_at=NOON, entry="back"))
    log = facts(source, NOON)
    [silence] = log.silences
    assert silence == ("quiet", NOON - 9 * HOUR, HOUR)
    assert log.last_valid == {
        "quiet": NOON - 8 * HOUR,
        "back": NOON - 8 * HOUR,
        "busy": NOON,
    }
    assert log.newest == NOON


def test_requests_all_of_which_have_a_wrong_secret(home: Home) -> None:
    """The entry has stopped if none was valid since the last hour with notifications."""
    parsers = Entries(Entry("quiet", Postmark), Entry("busy", Postmark))
    source = StatusSource(store=home.store, parsers=parsers)
    for name in ("quiet", "busy"):
        fill_hours(home, name, until=NOON - 2 * HOUR)
        reader(home).add_requests({RequestHour(RequestKind.WRONG_SECRET, name, NOON): 5})
    keep(home, entry(1, received_at=NOON, last_received_at=NOON, entry="busy"))
    log = facts(source, NOON + HOUR / 2)
    assert (log.stopped, log.silences) == ({"quiet"}, [])
    found = read_status(source, NOON + HOUR / 2).findings
    assert [each.level for each in found if each.subject is StatusSubject.SECRETS] == [
        StatusLevel.BROKEN,
        StatusLevel.ATTENTION,
    ]


def test_the_clock_of_the_database(source: StatusSource, home: Home) -> None:
    """It is compared with this machine's, unless it is the same one, as on SQLite."""
    with patch.object(type(home.store), "time", lambda _: datetime.now(UTC) + 3 * DAY):
        found = read_status(source)
    assert found.about(StatusSubject.CLOCK) is StatusLevel.ATTENTION
    assert read_status(source).about(StatusSubject.CLOCK) is StatusLevel.OK


def test_a_receiver_in_this_process(home: Home, tmp_path: Path) -> None:
    """Its last results, its spool and its settings are findings, too."""
    spool = tmp_path / "spool.db"
    with closing(
        Receiver(Postmark(SECRET), home.store, spool=spool, keep_bodies=False)
    ) as receiver:
        source = StatusSource(
            store=home.store,
            receiver=lambda: receiver,
            parsers=receiver.entries,
            sweep=lambda: sweep_of(receiver),
        )
        assert read_status(source) == Status([])
        with patch.object(receiver.results, "unretried", return_value=1):
            [sweep] = read_status(source).findings
        assert sweep.subject is StatusSubject.SWEEP
        with patch.object(receiver.results, "fault", return_value="The last 3 got a 503: why"):
            assert read_status(source).about(StatusSubject.RESPONSES) is StatusLevel.BROKEN
        with patch("hookrow._receiver.spool_file.disk_usage") as usage:
            usage.return_value.free = 0
            assert read_status(source).about(StatusSubject.SPOOL) is StatusLevel.ATTENTION
    # Another process reads the file.
    other = StatusSource(store=home.store, parsers=POSTMARK, spool=spool)
    assert read_status(other) == Status([])
    spool.write_bytes(b"not a spool")
    spool.with_name("spool.db.lock").unlink()
    assert read_status(other).about(StatusSubject.SPOOL) is StatusLevel.ATTENTION
    missing = StatusSource(store=home.store, parsers=POSTMARK, spool=tmp_path / "missing.db")
    assert read_status(missing) == Status([])
    assert not (tmp_path / "missing.db").exists()
