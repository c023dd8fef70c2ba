"""Drain: the entries of the spool are recorded when the database is available again."""

import logging
import resource
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Never

import pytest
from receiving import (
    NOON,
    delivery,
    dispatch,
    encode,
    limited,
    people,
    receive,
    request,
    suppression,
    without_journal,
)

from hookrow import Arrival, Outcome, Role, Schema, testing
from hookrow._core.log_entry import LogEntry
from hookrow._core.notification import Change, SetTime
from hookrow._core.result import Result
from hookrow._receiver.clock import Clock
from hookrow._receiver.entries import POSTMARK
from hookrow._receiver.receiver import ArrivalReader
from hookrow._receiver.spool import FAILED_AFTER, Drain, Spool, SpoolEntry
from hookrow.stores._errors import StoreError, Unavailable
from received import arrival
from wire import PATIENCE, eventually

BROKEN = Unavailable("InternalError_ XX000")
"""An error that concerns one row; the database is available."""

ADA = encode(delivery("ada"))
BEA = encode(testing.opening("bea@example.com", "m-bea", at=NOON))
STRANGER = encode(delivery("eve"))
CLICK = encode({"RecordType": "Click", "Recipient": "ada@example.com"})

UNDATED = Schema(
    subscribers=Role("hookrow_subscribers", {"suppression_changed_at": None}),
    dispatches=Role("hookrow_dispatches", {"suppression_changed_at": None}),
    log=None,
)
"""A schema in which nothing dates the last change."""


OnOutcomes = Callable[[Sequence[Arrival], Sequence[Outcome]], object]
Refuses = Callable[[Change | LogEntry], bool]


def _opening(number: int) -> bytes:
    at = NOON + timedelta(hours=number)
    return encode(testing.opening("ada@example.com", "m-ada", at=at))


def _nothing(_: Change | LogEntry) -> bool:
    return False


def _of_ada(each: Change | LogEntry) -> bool:
    return isinstance(each, SetTime) and each.dispatch == 1


def _in_log_of_ada(each: Change | LogEntry) -> bool:
    return isinstance(each, LogEntry) and each.recipient == "ada@example.com"


class Site:
    """A spool, and a database in memory."""

    def __init__(self, path: Path, *, log: bool = True) -> None:
        self.path = path
        self.spool = Spool(path)
        self.database = people("ada", "bea", log=log)
        self.tables = self.database.tables

    def drain(self, on_outcomes: OnOutcomes = lambda *_: None, *, swept: bool = False) -> Drain:
        parse, clock = ArrivalReader(POSTMARK).parse, Clock(self.database)
        return Drain(self.spool, self.database, parse, on_outcomes, clock, bodies=True, swept=swept)

    def put(self, *bodies: bytes, at: datetime | None = None) -> None:
        """Put notifications into the spool, with a time of arrival or now."""
        self.spool.put([arrival(body, at) for body in bodies])

    def execute(self, statement: str) -> None:
        """Change the file of the spool."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(statement)

    def waiting(self) -> Mapping[bytes, int]:
        """Return the attempts of the entries in the spool, by body."""
        return {each.body: each.attempts for each in self.spool.after(0, limit=1000)}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path / "spool.db")
    with closing(site.database):
        yield site


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("spool.REPLAY_PAUSE", "spool.DRAIN_REST", "recorder.PAUSE_AFTER_OUTAGE"):
        monkeypatch.setattr(f"hookrow._receiver.{name}", 0.0)
    monkeypatch.setattr("hookrow._receiver.spool.DRAIN_EVERY", 0.01)


def test_equal_bodies_without_a_date_count_as_of_their_last_arrival(site: Site) -> None:
    """They are one entry of the spool, which was put there first."""
    suppressed, lifted = (
        encode(payload | {"ChangedAt": None})
        for payload in (
            suppression("ada"),
            testing.reactivation("ada@example.com", "m-ada", at=NOON),
        )
    )
    now = datetime.now(UTC)
    for minutes, body in ((3, suppressed), (2, lifted), (1, suppressed)):
        site.put(body, at=now - timedelta(minutes=minutes))
    assert site.waiting() == {suppressed: 2, lifted: 1}
    site.drain()()
    assert site.tables.subscriber("ada@example.com").suppressed_at == now - timedelta(minutes=1)


def test_the_last_change_without_a_date_wins_if_nothing_dates_it(tmp_path: Path) -> None:
    """Without a log and a column for the date, the order of the entries counts."""
    site = Site(tmp_path / "spool.db", log=False)
    site.database.use(UNDATED)
    suppressed, lifted = (
        encode(each | {"ChangedAt": None})
        for each in (
            suppression("ada"),
            testing.reactivation("ada@example.com", "m-ada", at=NOON),
        )
    )
    for body in (suppressed, lifted, suppressed):
        site.put(body)
    assert [*site.waiting()] == [lifted, suppressed]
    site.drain()()
    assert site.tables.subscriber("ada@example.com").suppressed_at is not None
    assert not site.waiting()


def test_a_date_is_compared_with_the_present_when_it_is_drained(site: Site) -> None:
    """The arrival was dated by a clock that was three days slow."""
    now = datetime.now(UTC)
    site.put(encode(suppression("ada", ChangedAt=now.isoformat())), at=now - timedelta(days=3))
    site.drain()()
    assert site.tables.subscriber("ada@example.com").suppressed_at == now


def test_notifications_of_an_outage_are_recorded_by_the_next_process(site: Site) -> None:
    calls: list[bytes] = []
    receiver, other = (
        receive(site.database, spool=site.path, on_recorded=lambda each, _: calls.append(each.body))
        for _ in range(2)
    )
    site.database.away = True
    bodies = (ADA, BEA, ADA, STRANGER, CLICK, ADA)
    statuses = [receiver.record_directly(request(body)).status for body in bodies]
    assert statuses == [503, 503, 503, 503, 422, 503]
    assert site.waiting() == {ADA: 3, BEA: 1, STRANGER: 1, CLICK: 1}
    assert not calls
    site.database.away = False
    other.start()
    eventually(lambda: not site.waiting())
    assert site.tables.dispatch("m-ada").delivered_at == NOON
    assert site.tables.dispatch("m-bea").opened_at == NOON
    assert site.database.ends() == {
        "m-ada": ("recorded", 3),
        "m-bea": ("recorded", 1),
        "m-eve": ("subscriber_not_found", 1),
        None: ("unsupported", 1),
    }
    other.close(PATIENCE)
    assert calls == [ADA, BEA]


def test_refusal_without_a_log_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site = Site(tmp_path / "spool.db", log=False)
    site.put(STRANGER, ADA)
    site.drain()()
    assert not site.waiting()
    assert site.tables.dispatch("m-ada").delivered_at == NOON
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.message.startswith("Dropped from the spool")
    assert "eve@" not in caplog.text


@pytest.mark.parametrize(
    ("refuses", "swept", "logged"),
    [
        pytest.param(None, False, False, id="its row is locked"),
        pytest.param(_of_ada, False, True, id="its row rejects it"),
        pytest.param(_of_ada, True, True, id="the sweep takes over"),
        pytest.param(_in_log_of_ada, True, False, id="the log rejects it"),
    ],
)
def test_an_entry_that_fails_delays_no_other_and_is_counted_once(
    site: Site, refuses: Refuses | None, *, swept: bool, logged: bool
) -> None:
    """The entry stays in the spool unless the sweep retries it from the log."""
    if refuses is None:
        site.database.held.add(dispatch(1))
    site.database.refuses = refuses or _nothing
    site.put(ADA, BEA, ADA)
    drain = site.drain(swept=swept)
    for _ in range(5):
        drain()
    assert site.tables.dispatch("m-bea").opened_at == NOON
    stays = not (swept and logged)
    assert list(site.waiting()) == [ADA] * stays
    failed = {"m-ada": ("failed", 2)} if logged else {}
    assert site.database.ends() == {"m-bea": ("recorded", 1)} | failed
    site.database.refuses = _nothing
    site.database.held.clear()
    drain()
    assert not site.waiting()
    assert site.database.ends()["m-ada"] == ("recorded" if stays else "failed", 2)


def test_entries_keep_their_order_and_times(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookrow._receiver.spool.MAX_REPLAY_GROUP", 2)
    bodies = [encode(delivery(f"n{number}")) for number in range(5)]
    site.put(*bodies, at=NOON + timedelta(minutes=3))
    site.put(bodies[0], at=NOON + timedelta(minutes=9))
    groups: list[list[bytes]] = []
    site.drain(lambda group, _: groups.append([each.body for each in group]))()
    assert groups == [bodies[:2], bodies[2:4], bodies[4:]]
    [first] = [each for each in site.database.logged() if each.message_id == "m-n0"]
    assert first.received_at == NOON + timedelta(minutes=3)
    assert first.last_received_at == NOON + timedelta(minutes=9)


def test_after_three_days_entries_are_dropped(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.database.refuses = _of_ada
    site.put(ADA, at=datetime.now(UTC) - timedelta(days=3))
    site.put(_opening(0), at=datetime.now(UTC) - timedelta(days=2.9))
    site.drain()()
    assert list(site.waiting()) == [_opening(0)]
    [dropped] = [message for message in caplog.messages if "Dropped" in message]
    assert dropped.endswith(": failed")
    assert "ada@" not in caplog.text


def test_entries_that_keep_failing_are_logged_as_failed_after_a_minute(site: Site) -> None:
    site.database.refuses, site.database.error = _of_ada, BROKEN
    site.put(*map(_opening, range(1, 71)), BEA, at=datetime.now(UTC) - FAILED_AFTER)
    site.put(_opening(0))
    with pytest.raises(StoreError, match=r"Opened.*InternalError_ XX000") as raised:
        site.drain(swept=True)()
    assert "ada@" not in str(raised.value)
    assert list(site.waiting()) == [_opening(0)]
    logged = site.database.logged()
    assert Counter(each.outcome for each in logged) == {Result.FAILED: 70, Result.RECORDED: 1}
    assert {each.attempts for each in logged} == {1}


def test_the_next_drain_begins_after_the_failing_entries(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookrow._receiver.spool.FAILING_DRAIN_LIMIT", -1.0)
    site.database.refuses, site.database.error = _in_log_of_ada, BROKEN
    failing = [_opening(number) for number in range(3)]
    site.put(*failing, BEA, at=datetime.now(UTC) - FAILED_AFTER)
    drain = site.drain()
    for _ in failing:
        with pytest.raises(StoreError):
            drain()
    drain()
    assert list(site.waiting()) == failing
    assert site.tables.dispatch("m-bea").opened_at == NOON
    site.database.refuses = _nothing
    drain()
    assert not site.waiting()
    assert {each.attempts for each in site.database.logged()} == {1}


def test_entries_interrupted_by_a_new_outage_stay(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookrow._receiver.spool.MAX_REPLAY_GROUP", 1)
    site.put(ADA, BEA)
    for _ in range(2):
        with pytest.raises(Unavailable):
            site.drain(lambda *_: setattr(site.database, "away", True))()
        assert site.waiting() == {BEA: 1}
    site.database.away = False
    site.drain()()
    assert not site.waiting()
    assert site.database.ends() == {"m-ada": ("recorded", 1), "m-bea": ("recorded", 1)}


@pytest.mark.parametrize("step", ["take", "remove"])
def test_a_crash_counts_no_attempt_twice(
    site: Site, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> Never:
        raise KeyboardInterrupt

    site.put(ADA, ADA)
    with monkeypatch.context() as dying:
        dying.setattr(Spool, step, die)
        with pytest.raises(KeyboardInterrupt):
            site.drain()()
    assert (site.tables.dispatch("m-ada").delivered_at is not None) is (step == "remove")
    site.put(ADA)
    site.drain()()
    assert not site.waiting()
    assert site.tables.dispatch("m-ada").delivered_at == NOON
    assert site.database.ends() == {"m-ada": ("recorded", 3)}


@pytest.mark.parametrize(
    ("damage", "attempts"),
    [
        ("received_at = 'no time'", 2),
        ("last_received_at = 0", 2),
        ("received_at = x'ff', last_received_at = '9999-12-31T23:59:59-12:00'", 2),
        ("body = CAST(body AS TEXT)", 2),
        ("attempts = 'many'", 1),
        ("attempts = 9223372036854775807", 1),
        ("attempts = -1", 1),
        ("attempts = 9e999", 1),
        ("fingerprint = x'01'", 2),
        ("fingerprint = CAST(x'ff' AS TEXT)", 2),
        ("trace_id = CAST(x'ff' AS TEXT)", 2),
        ("trace_id = x'ff'", 2),
    ],
)
def test_a_damaged_entry_is_recorded_with_what_is_readable(
    site: Site, damage: str, attempts: int
) -> None:
    """It is recorded before the entries that follow it, and has the same entry in the log."""
    site.put(ADA, BEA, ADA)
    site.execute(f"UPDATE arrivals SET {damage} WHERE id = 1")
    recorded: list[bytes] = []
    begun = datetime.now(UTC)
    site.drain(lambda group, _: recorded.extend(each.body for each in group))()
    assert recorded == [ADA, BEA]
    assert not site.waiting()
    assert {each.received_at - begun < timedelta(minutes=1) for each in site.database.logged()}
    site.put(ADA)
    site.drain()()
    assert site.database.ends() == {
        "m-ada": ("recorded", attempts + 1),
        "m-bea": ("recorded", 1),
    }


def test_a_damaged_entry_that_arrives_again_is_recorded_again(site: Site) -> None:
    """The new arrival may date it."""
    site.put(ADA)
    site.execute("UPDATE arrivals SET attempts = 'many'")
    site.drain(lambda *_: site.put(ADA))()
    assert site.waiting() == {ADA: 1}
    site.drain()()
    assert not site.waiting()
    assert site.database.ends() == {"m-ada": ("recorded", 2)}


_parse = ArrivalReader.parse


def _parse_except_ada(reader: ArrivalReader, entry: SpoolEntry, at: datetime) -> Arrival:
    if entry.body == ADA:
        raise RecursionError
    return _parse(reader, entry, at)


@pytest.mark.parametrize("fault", ["body = 7", "provider = x'01'", "entry = 'a'", "parsing"])
def test_an_unusable_entry_stays_and_is_reported_once(
    site: Site, fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It neither holds up other entries nor keeps the drain busy."""
    site.put(BEA, ADA)
    if fault != "parsing":
        site.execute(f"UPDATE arrivals SET {fault} WHERE id = 2")
    else:
        monkeypatch.setattr(ArrivalReader, "parse", _parse_except_ada)
    drain = site.drain()
    for number in range(3):
        drain()
        begun = len(site.database.begun)
        drain()
        assert len(site.database.begun) == begun
        site.put(_opening(number))
    drain()
    assert site.spool.count() == 1
    assert len(site.database.logged()) == 4
    [message] = [each for each in caplog.messages if "Entry" in each]
    assert message.startswith("Entry 2 of the spool cannot be recorded, and stays there: ")
    assert ("RecursionError" in message) is (fault == "parsing")


def test_a_bug_in_recording_holds_up_only_its_own_entry(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """After a minute, an entry that cannot even be logged as failed is reported once."""

    def refuse(each: Change | LogEntry) -> bool:
        if _in_log_of_ada(each):
            raise ZeroDivisionError
        return False

    site.database.refuses = refuse
    site.put(ADA, ADA, at=datetime.now(UTC) - FAILED_AFTER)
    site.put(_opening(1), BEA)
    drain = site.drain()
    with pytest.raises(StoreError, match="a bug raised ZeroDivisionError"):
        drain()
    assert site.waiting() == {ADA: 2, _opening(1): 1}
    site.put(STRANGER)
    with pytest.raises(StoreError, match="Opened"):
        drain()
    assert site.database.ends() == {
        "m-bea": ("recorded", 1),
        "m-eve": ("subscriber_not_found", 1),
    }
    [message] = [each for each in caplog.messages if "Entry" in each]
    assert message.startswith("Entry 1 of the spool cannot be recorded, and stays there: a bug")
    site.database.refuses = _nothing
    site.drain()()
    assert not site.waiting()
    assert sorted(each.attempts for each in site.database.logged()) == [1, 1, 1, 2]


def test_without_a_readable_time_only_a_suppression_is_recorded(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """It counts as of now; a reactivation might undo a newer suppression."""
    lifted = testing.reactivation("ada@example.com", "m-ada", at=NOON)
    suppressed = suppression("bea")
    site.put(*(encode(each | {"ChangedAt": None}) for each in (lifted, suppressed)))
    site.put(encode(testing.reactivation("ada@example.com", "m-ada", at=NOON)))
    site.execute("UPDATE arrivals SET received_at = '', last_received_at = ''")
    begun = datetime.now(UTC)
    site.drain()()
    assert [*site.waiting()] == [encode(lifted | {"ChangedAt": None})]
    suppressed_at = site.tables.subscriber("bea@example.com").suppressed_at
    assert suppressed_at is not None
    assert begun <= suppressed_at <= datetime.now(UTC)
    assert site.tables.subscriber("ada@example.com").suppression_changed_at == NOON
    [message] = [each for each in caplog.messages if "cannot be recorded" in each]
    assert message.startswith("Entry 1 of the spool")


def test_a_file_that_is_damaged_during_a_drain_is_drained_further(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entries that can be read have the same ids in the file that replaces it."""
    monkeypatch.setattr("hookrow._receiver.spool.MAX_REPLAY_GROUP", 8)
    bodies = [_opening(number) for number in range(200)]
    site.put(*bodies)
    recorded: list[bytes] = []

    def damage_once(group: Sequence[Arrival], _: object) -> None:
        if not recorded:
            with site.path.open("r+b") as file:
                file.seek(10 * 4096)
                file.write(b"x" * 4096)
        recorded.extend(each.body for each in group)

    site.drain(damage_once)()
    assert not site.waiting()
    assert len(recorded) >= 180
    assert recorded == [body for body in bodies if body in recorded]


def test_a_drain_needs_no_journal_on_the_disk(site: Site) -> None:
    site.put(ADA, BEA, ADA)
    with without_journal(locks=2):
        site.drain()()
    assert not site.waiting()
    assert site.database.ends() == {"m-ada": ("recorded", 2), "m-bea": ("recorded", 1)}


def test_entries_that_cannot_be_removed_are_recorded_once(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No byte of the file can be changed, as on a full disk that never writes in place."""
    monkeypatch.setattr("hookrow._receiver.spool.MAX_REPLAY_GROUP", 1)
    calls: list[bytes] = []
    site.put(ADA, BEA, ADA)
    drain = site.drain(lambda group, _: calls.extend(each.body for each in group))
    with limited(resource.RLIMIT_FSIZE, 0):
        drain()
        drain()
    assert site.waiting() == {ADA: 2, BEA: 1}
    assert calls == [ADA, BEA]
    assert "Recorded, but not removed from the spool yet: 1. disk I/O error" in caplog.messages
    site.put(BEA)
    drain()
    assert not site.waiting()
    assert calls == [ADA, BEA, BEA]
    assert site.database.ends() == {"m-ada": ("recorded", 2), "m-bea": ("recorded", 3)}


def test_one_process_drains_at_a_time(site: Site) -> None:
    site.put(ADA)
    with site.spool.drained():
        site.drain()()
    assert site.waiting() == {ADA: 1}
