"""The contract of every store with a log, and of one whose log is turned off.

Times are within an hour of noon. The log is checked without the store.
"""

import gzip
import json
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter
from sys import getsizeof
from types import SimpleNamespace
from typing import Any

import pytest
from contract import ADA, BEA, NOON, arrival, fill, opens, statuses
from homes import SUPPRESSION, Home, as_rows, columns_of
from msgspec.structs import asdict

from copying import replace
from hookrow import Arrival, Opened, Reactivated, Recorded, Suppressed, testing
from hookrow._core.log_entry import LogEntry, StoredEntry, log_entries
from hookrow._core.notification import (
    EventTime,
    Notification,
    RowId,
    SetTime,
    Source,
    Suppressible,
    Unsupported,
)
from hookrow._core.result import PARKED_FOR, Result
from hookrow._core.rules import fail
from hookrow._core.sizes import LARGEST_GROUP, WIDEST_CHARACTER
from hookrow._receiver.clock import Clock, utc_now
from hookrow._receiver.entries import POSTMARK, Entries, Entry
from hookrow._receiver.recorder import keep_failed, record
from hookrow._receiver.replay import (
    MAX_REPLAY_GROUP,
    ParkedRetry,
    arrivals_of,
    dry_run,
    matching_entries,
    replay,
    replay_entries,
    replay_ready,
)
from hookrow.providers import Event
from hookrow.providers.postmark import Postmark
from hookrow.stores._errors import Rejected
from hookrow.stores._log import (
    Backlog,
    Count,
    DueKind,
    Forgotten,
    Origin,
    Query,
    RequestHour,
    RequestKind,
    Requests,
    Waiting,
)
from hookrow.stores._log_operations import PORTION, with_bodies
from hookrow.stores.sql._hours import ROWS_PER_INSERT
from hookrow.stores.sql._log import SQLLog
from repeats import REPEATS
from times import DAY, HOUR, MINUTE, SECOND
from wire import PATIENCE

GIVEN_UP = NOON - PARKED_FOR
"""At noon, notifications that were parked before then are too old to be retried."""

LARGE = "x" * (LARGEST_GROUP // WIDEST_CHARACTER // 2)
"""A body of which two are read at once, but not three."""

HOSTILE = (
    *("'; DROP TABLE hookrow_notifications; --", "%s %(rows)s :rows $1 ?", "\\u0000 \\x00 \\"),
    *('{"a": [1, null]}', "[]", "null", "\x01\x1f\x7f\r\n\t\v", "\u2028\ufeff\ufffd\U0010ffff"),
    *("", " ", "'", '"', "``", "{}", "\N{KELVIN SIGN}ß🦄"),
)
"""Texts that an INSERT, JSON, a driver or a placeholder might misinterpret."""


ORIGINS = (Origin(None, "postmark"), Origin(None, None))
"""The provider of the entries."""


def encoded(change: Suppressed | Reactivated) -> bytes:
    """Return the body of a change without a date, as the provider posts it."""
    suppressed = isinstance(change, Suppressed)
    return json.dumps(
        {
            "RecordType": "SubscriptionChange",
            "Recipient": change.recipient,
            "SuppressSending": suppressed,
            "SuppressionReason": change.reason if isinstance(change, Suppressed) else None,
        }
    ).encode()


def entry(number: int = 1, **columns: Any) -> LogEntry:  # noqa: ANN401 - of any column
    """Return an entry that was recorded at noon, distinguished by its number."""
    given = {
        "fingerprint": number.to_bytes(16),
        "record_type": "Open",
        "message_id": f"m-{number}",
        "recipient": f"s{number}@example.com",
        "occurred_at": NOON - SECOND,
        "outcome": Result.RECORDED,
        "status": 200,
        "attempts": 1,
        "received_at": NOON,
        "last_received_at": NOON,
        "ended_at": NOON + SECOND,
        "retry_at": None,
        "body": f'{{"n": {number}}}',
        "reason": None,
        "provider": "postmark",
        "source": Source.LIVE,
        "trace_id": None,
        "entry": None,
        "change_number": 0,
    }
    return LogEntry(**{**given, **columns})


def parked(number: int, *, minutes: float, **columns: Any) -> LogEntry:  # noqa: ANN401 - as above
    """Return an entry that arrived at noon and is retried so many minutes later."""
    result = {"outcome": Result.DISPATCH_NOT_FOUND, "status": 404, "change_number": None}
    return entry(number, **{**result, "retry_at": NOON + minutes * MINUTE, **columns})


def keep(home: Home, *kept: LogEntry) -> None:
    """Write entries in a transaction of their own."""
    with home.store.transaction() as transaction:
        transaction.write((), kept)


def reader(home: Home) -> SQLLog:
    assert home.store.log is not None
    return home.store.log


def count_hours(home: Home) -> int:
    """Count as a receiver does once a minute; return the number of calls."""
    calls = 1
    while reader(home).count_hours():
        calls += 1
    return calls


def logged(home: Home) -> list[dict[str, Any]]:
    """Read the log without its ids, which the database assigns."""
    return [{name: row[name] for name in row if name != "id"} for row in home.logged()]


def timeless(home: Home) -> list[dict[str, Any]]:
    """Read the log ordered by fingerprint, without ids and what depends on the clock."""
    return sorted(without_clock(logged(home)), key=lambda row: bytes(row["fingerprint"]))


def without_clock(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of the log without what depends on the clock."""
    gone = {"ended_at", "retry_at"}
    return [{name: row[name] for name in row if name not in gone} for row in rows]


def new_rows(*kept: LogEntry) -> list[dict[str, Any]]:
    """Return the rows of entries that are new in the log."""
    return [{**row, "first_outcome": row["outcome"], "retries": 0} for row in as_rows(kept)]


def numbers(found: Iterable[LogEntry]) -> list[int]:
    return [int.from_bytes(each.fingerprint) for each in found]


def take_due(
    log: SQLLog, now: datetime, *, origins: Collection[Origin] = ORIGINS, limit: int = 9
) -> Sequence[StoredEntry]:
    """Take due entries without a row."""
    return log.take(log.due(now, DueKind.MISSING, origins=origins, limit=limit), now)


def ids(home: Home) -> list[int]:
    """Return the ids in the log, ascending."""
    return [row["id"] for row in home.logged()]


class KeepContract:
    """Writing to the log."""

    @pytest.fixture(autouse=True)
    def _empty(self, home: Home) -> None:
        home.fill()

    def test_values_are_kept(self, home: Home) -> None:
        """Texts are stored verbatim, up to the length of their columns in four-byte letters.

        So is every byte of a fingerprint, the first and last possible time, and a large number.
        """
        letters = {"record_type": 64, "message_id": 255, "recipient": 320, "body": 10**6}
        first, last = (at.replace(tzinfo=UTC) for at in (datetime.min, datetime.max))  # noqa: DTZ901 - it gets one
        given = [
            *(
                entry(number, record_type=text, message_id=text, recipient=text, body=text)
                for number, text in enumerate((*HOSTILE, None))
            ),
            entry(99, **{name: "🦄" * length for name, length in letters.items()}),
            *(
                entry(fingerprint=bytes(range(start, start + 16)), attempts=start)
                for start in range(16, 256, 16)
            ),
            entry(100, occurred_at=first, received_at=first, retry_at=last),
            entry(fingerprint=b"\xff" * 16, occurred_at=None, attempts=2**40),
        ]
        keep(home, *given)
        assert logged(home) == new_rows(*given)

    def test_repeated_entries_are_merged(self, home: Home) -> None:
        """Stores apply the rule of `merge_entries`, beside an entry that is new."""
        earlier, later, merged = (
            [replace(each, fingerprint=number.to_bytes(16)) for number, each in enumerate(column)]
            for column in zip(*REPEATS, strict=True)
        )
        keep(home)
        keep(home, *earlier)
        keep(home, *later, entry(99))
        results = [{"first_outcome": each.outcome.value, "retries": 0} for each in earlier]
        rows = [row | result for row, result in zip(new_rows(*merged), results, strict=True)]
        assert logged(home) == [*rows, *new_rows(entry(99))]

    def test_log_rollback(self, home: Home) -> None:
        keep(home, entry())
        before = home.logged()
        with pytest.raises(ZeroDivisionError), home.store.transaction() as transaction:  # noqa: PT012
            transaction.write((), [entry(), entry(2)])
            raise ZeroDivisionError
        assert home.logged() == before

    def test_every_result_is_kept(self, home: Home) -> None:
        """Recorded or refused: each notification of a group is in the log once."""
        fill(home)
        now = datetime.now(UTC)
        arrivals = [
            Arrival((opens(*names),), repr(names).encode(), now)
            for names in (
                *((ADA, "m-ada"), ("nobody@example.com", "m-ada"), (ADA, "m-nowhere")),
                ("Bea.Upper@Example.com", "m-ada"),
            )
        ]
        unsupported = Arrival((), b"?", now, unsupported=Unsupported("Bounce", "Ada@x", "m"))
        group = [*arrivals, unsupported, arrivals[1], unsupported]
        assert statuses(record(home.store, group)) == [200, 404, 404, 400, 422, 404, 422]
        by_body = {row["body"]: row for row in logged(home)}
        rows = [by_body[each.body.decode()] for each in (*arrivals, unsupported)]
        columns = ("outcome", "status", "attempts", "recipient", "message_id", "record_type")
        assert [
            (*(row[name] for name in columns), row["retry_at"] is not None) for row in rows
        ] == [
            ("recorded", 200, 1, ADA, "m-ada", "Open", False),
            ("subscriber_not_found", 404, 2, "nobody@example.com", "m-ada", "Open", True),
            ("dispatch_not_found", 404, 1, ADA, "m-nowhere", "Open", True),
            ("recipient_mismatch", 400, 1, BEA, "m-ada", "Open", True),
            ("unsupported", 422, 2, "ada@x", "m", "Bounce", False),
        ]

    @pytest.mark.parametrize("bodies", [True, False])
    def test_hostile_notifications_are_kept(self, home: Home, *, bodies: bool) -> None:
        """NUL, invalid UTF-8 and lone surrogates, even a mebibyte, are kept, escaped and truncated.

        Those that can match no row are not retried.
        """
        fill(home)
        texts = [
            *(("a\0b", b"\0"), ("\ud800", b"\xff\xfe"), ("x" * 999, b"")),
            *(("\0" * 999, b"\0\xff" * 2**19), ("ZOË@Example.COM", b"0")),
            *((text, ascii(text).encode()) for text in HOSTILE),
        ]
        now = datetime.now(UTC)
        arrivals = [Arrival((opens(text, text),), body, now) for text, body in texts]
        assert statuses(record(home.store, arrivals, bodies=bodies)) == [404] * len(arrivals)
        rows = logged(home)
        assert len(rows) == len(arrivals)
        assert {row["body"] is None for row in rows} == {not bodies}
        addresses = {row["recipient"] for row in rows}
        impossible = {"a\\x00b", "\\ud800", "x" * 320, ("\\x00" * 80), ""}
        assert {*impossible, "zoË@example.com"} < addresses
        not_retried = {row["recipient"] for row in rows if row["retry_at"] is None}
        assert not_retried == (impossible if bodies else addresses)
        assert not [row for row in rows if len(row["message_id"]) > 255]

    def test_failed_work_is_kept(self, home: Home) -> None:
        """Failed notifications change nothing and are retried."""
        fill(home)
        before = home.rows()
        now = datetime.now(UTC)
        keep_failed(
            home.store,
            [Arrival((opens(ADA, "m-ada"),), b"1", now), Arrival((), b"2", now)],
            clock=utc_now,
        )
        kept = [
            (row["body"], row["outcome"], row["status"], row["retry_at"] is not None)
            for row in logged(home)
        ]
        assert sorted(kept) == [("1", "failed", 503, True), ("2", "unsupported", 422, False)]
        assert home.rows() == before


class ReadContract:
    """Reading and pruning the log."""

    @pytest.fixture
    def log(self, home: Home) -> SQLLog:
        """Begin with no rows and an empty log."""
        home.fill()
        return reader(home)

    def test_entry(self, home: Home, log: SQLLog) -> None:
        """An entry is read as it was written, with its id and its first result."""
        keep(home, parked(1, minutes=1))
        keep(home, entry(1))
        [found] = log.newest(Query(), limit=9)
        [row] = home.logged()
        results = (Result.RECORDED, Result.DISPATCH_NOT_FOUND)
        read = {"outcome": results[0], "first_outcome": results[1], "source": Source.LIVE}
        assert asdict(found) == {**row, **read}

    def test_query(self, home: Home, log: SQLLog) -> None:
        """Entries match every condition of a query, newest or oldest first, on one page each.

        The case of an email is ignored, ids are a list or a range, and some may not exist; a
        period includes its start and excludes its end. "other" is every type that is not known.
        """
        late = {"recipient": None, "received_at": NOON + HOUR, "ended_at": NOON + HOUR + SECOND}
        minute = {"received_at": NOON + MINUTE, "ended_at": NOON + MINUTE + SECOND}
        for each in (  # ids follow arrival, not the fingerprint
            entry(9, attempts=0, entry="sendgrid"),
            parked(2, minutes=1, record_type="Inbound", entry="postmark"),
            entry(3, record_type="Delivery", reason="HardBounce", **minute),
            entry(4, record_type=None, outcome=Result.UNSUPPORTED, provider=None, **late),
        ):
            keep(home, each)
        there = ids(home)
        for query, expected in (
            (Query(), [9, 2, 3, 4]),
            (Query(outcome=Result.RECORDED), [9, 3]),
            (Query(first_outcome=Result.UNSUPPORTED), [4]),
            (Query(reason="HardBounce"), [3]),
            (Query(record_type="Delivery"), [3]),
            (Query(record_type="Inbound"), [2]),
            (Query(record_type="other"), [2, 4]),
            (Query(record_type="other", parked=True), [2]),
            (Query(recipient="S2@EXAMPLE.com"), [2]),
            (Query(recipient="s2@example.co_"), []),
            (Query(recipient=""), []),
            (Query(message_id="m-2"), [2]),
            (Query(message_id="M-2"), []),
            (Query(since=NOON + MINUTE), [3, 4]),
            (Query(since=NOON + MINUTE + SECOND), [4]),
            (Query(until=NOON + HOUR), [9, 2, 3]),
            (Query(until=NOON + HOUR + SECOND), [9, 2, 3, 4]),
            (Query(since=NOON + MINUTE, until=NOON + HOUR), [3]),
            (Query(since=NOON + HOUR, until=NOON + HOUR), []),
            (Query(until=NOON - 9 * DAY), []),
            (Query(parked=True), [2]),
            (Query(parked=True, outcome=Result.RECORDED), []),
            (Query(posted=True), [2, 3]),
            (Query(entry="sendgrid"), [9]),
            (Query(entry="sendgrid", parked=True), []),
            (Query(entry="nobody"), []),
            (Query(ids=()), []),
            (Query(ids=[there[3], there[1], there[3] + 99]), [2, 4]),
            (Query(ids=range(there[1], there[3])), [2, 3]),
            (Query(ids=range(there[2], there[3] + 99)), [3, 4]),
            (Query(ids=range(there[0], there[3], 2)), [9, 3]),
            (Query(ids=range(5, 5)), []),
        ):
            assert log.count(query, limit=9) == len(expected), query
            assert log.count(query, limit=1) == min(len(expected), 1)
            for read, start, order in ((log.oldest, "after", 1), (log.newest, "before", -1)):
                assert numbers(read(query, limit=9)) == expected[::order], query
                page = read(query, limit=2)
                there_on: dict[str, Any] = {start: page[-1].id} if page else {}
                rest = read(query, **there_on, limit=9) if page else ()
                assert numbers([*page, *rest]) == expected[::order], query

    def test_changes(self, home: Home, log: SQLLog) -> None:
        """A change of suppression is found by its type, or by the reason of another type.

        It needs only its subscriber: an event that was refused for another row has made it.
        """
        reason, missing = {"reason": "HardBounce"}, {"outcome": Result.SUBSCRIBER_NOT_FOUND}
        keep(
            home,
            entry(1, record_type="SubscriptionChange", recipient=ADA),
            entry(2, record_type="SubscriptionChange", recipient=BEA, **reason),
            entry(3, record_type="Bounce", recipient=ADA, **reason),
            parked(4, minutes=1, record_type="Bounce", recipient=ADA, **reason),
            entry(5, outcome=Result.RECIPIENT_MISMATCH, recipient=ADA, **reason),
            entry(6, record_type="Bounce", recipient=ADA),
            entry(7, record_type="SubscriptionChange", recipient=ADA, **reason, **missing),
            entry(8, outcome=Result.FAILED, recipient=ADA, **reason),
        )
        assert numbers(log.oldest(Query(changes=True), limit=9)) == [1, 2, 3, 4, 5]
        assert numbers(log.newest(Query(changes=True, recipient=ADA), limit=9)) == [5, 4, 3, 1]
        causes = home.store.suppressions.changes([ADA, "nobody@example.com"], limit=9)
        assert sorted(each.message_id or "" for each in causes) == ["m-1", "m-3", "m-4", "m-5"]

    def test_period_after_late_entries(self, home: Home, log: SQLLog) -> None:
        """Entries that were written late, from a spool, hide none that arrived later."""
        for number in range(40):
            at = NOON + number * MINUTE
            received = NOON - HOUR if 10 <= number < 30 else at
            keep(home, entry(number, received_at=received, ended_at=at))
        since = Query(since=NOON + 5 * MINUTE)
        found = [*range(5, 10), *range(30, 40)]
        assert numbers(log.oldest(since, limit=99)) == found
        assert numbers(log.newest(since, limit=99)) == found[::-1]
        assert numbers(log.newest(Query(until=NOON), limit=99)) == [*range(29, 9, -1)]

    def test_first_id_since(self, home: Home, log: SQLLog) -> None:
        """It is at most the lowest id of the entries that arrived then or later, despite gaps."""
        assert (log.bounds(), log.first_id_since(NOON)) == (None, 1)
        for number in range(33):
            at = NOON + number * MINUTE
            keep(home, entry(number, received_at=at, ended_at=at + SECOND))
            keep(home, entry(number, received_at=at, ended_at=at + SECOND))
        sum(log.prune(before=NOON, parked_before=GIVEN_UP, bodies_only=False))
        rows = home.logged()
        assert log.bounds() == (rows[0]["id"], rows[-1]["id"])
        for minutes in (-1, 0, 1, 1.5, 10, 32, 2000):
            at = NOON + minutes * MINUTE
            later = [row["id"] for row in rows if max(row["received_at"], row["ended_at"]) >= at]
            assert log.first_id_since(at) <= min(later, default=rows[-1]["id"] + 1), minutes

    @pytest.mark.parametrize("counted", [False, True])
    def test_counts(self, home: Home, log: SQLLog, *, counted: bool) -> None:
        """Entries are counted by time of arrival, type, reason and first outcome.

        Words that hookrow does not know count as one, because they may contain an address. One
        entry was refused and recorded later. Hourly counts, if there are any, change nothing.
        """
        sharp, change = NOON.replace(microsecond=0), {"record_type": "SubscriptionChange"}
        assert log.counts(sharp, MINUTE) == ([], None)
        keep(
            home,
            entry(1, received_at=sharp - timedelta(microseconds=1)),
            entry(2, received_at=sharp - MINUTE),
            entry(3, received_at=sharp - MINUTE - timedelta(microseconds=1)),
            parked(4, minutes=1, record_type="Delivery"),
            parked(5, minutes=1, record_type="Delivery"),
            entry(6, received_at=sharp + 59 * SECOND, record_type="ada@example.com"),
            entry(7, received_at=sharp + MINUTE, record_type=None, outcome=Result.UNSUPPORTED),
            entry(8, **change, reason="HardBounce"),
            entry(9, **change, reason="because of ada@example.com"),
            entry(10, **change),
            entry(11, record_type="Bounce", reason="HardBounce", entry="sendgrid"),
        )
        keep(home, entry(4, record_type="Delivery"))
        if counted:
            count_hours(home)
        for bucket, opened, last in ((MINUTE, 2, sharp + MINUTE), (HOUR, 3, sharp)):
            found, complete_since = log.counts(sharp - bucket, bucket)
            assert complete_since is None
            assert set(found) == {
                Count(sharp - bucket, "Open", "", Result.RECORDED, "", opened, 0),
                Count(sharp, "Delivery", "", Result.DISPATCH_NOT_FOUND, "", 2, 1),
                Count(sharp, "other", "", Result.RECORDED, "", 1, 0),
                Count(last, "other", "", Result.UNSUPPORTED, "", 1, 0),
                Count(sharp, "SubscriptionChange", "HardBounce", Result.RECORDED, "", 1, 0),
                Count(sharp, "SubscriptionChange", "other", Result.RECORDED, "", 1, 0),
                Count(sharp, "SubscriptionChange", "", Result.RECORDED, "", 1, 0),
                Count(sharp, "Bounce", "HardBounce", Result.RECORDED, "sendgrid", 1, 0),
            }

    def test_requests(self, home: Home, log: SQLLog) -> None:
        """Requests are added up by kind, entry and hour, apart from the notifications."""
        hour = NOON.replace(minute=0, microsecond=0)
        wrong = partial(RequestHour, RequestKind.WRONG_SECRET)
        old = RequestHour(RequestKind.OLD_SECRET, "", hour - 2 * HOUR)
        unauthentic = partial(log.requests, RequestKind.WRONG_SECRET)
        assert unauthentic(hour) == {}
        keep(home, entry(1))
        log.add_requests(
            {wrong("", hour): 2, wrong("", hour - HOUR): 1, wrong("", hour - 2 * HOUR): 4}
        )
        log.add_requests({wrong("", hour): 5, old: 3, wrong("sendgrid", hour): 9})
        log.add_requests({old: 1, wrong("mailgun", hour - HOUR): 1})
        count_hours(home)
        log.add_requests({})
        assert unauthentic(hour) == {
            "sendgrid": Requests(9, hour, hour),
            "": Requests(7, hour, hour),
        }
        found = unauthentic(hour - HOUR - MINUTE)
        assert [*found.items()] == [
            ("sendgrid", Requests(9, hour, hour)),
            ("", Requests(8, hour - HOUR, hour)),
            ("mailgun", Requests(1, hour - HOUR, hour - HOUR)),
        ]
        assert unauthentic(hour + MINUTE) == {}
        of_old = log.requests(RequestKind.OLD_SECRET, hour - DAY)
        assert of_old == {"": Requests(4, old.hour, old.hour)}
        counted = log.counts(hour - 3 * HOUR, HOUR).counts
        assert [(each.record_type, each.entries) for each in counted] == [("Open", 1)]

    def test_requests_to_many_entries(self, log: SQLLog) -> None:
        """They are added by several statements, in which no entry is lost."""
        hour = NOON.replace(minute=0, microsecond=0)
        counts = {
            RequestHour(RequestKind.WRONG_SECRET, f"tenant-{number}", hour): number
            for number in range(1, 2 * ROWS_PER_INSERT + 2)
        }
        for _ in range(2):
            log.add_requests(counts)
        found = log.requests(RequestKind.WRONG_SECRET, hour)
        assert {name: each.number for name, each in found.items()} == {
            key.entry: 2 * number for key, number in counts.items()
        }

    def test_recent(self, home: Home, log: SQLLog) -> None:
        """The newest entries are counted by their present outcome, whenever they arrived."""
        assert log.recent(9) == (None, {}, set(), set())
        keep(home, *(parked(number, minutes=1) for number in range(1, 5)))
        keep(home, entry(5, last_received_at=NOON + MINUTE), entry(6), entry(3))
        recorded, refused = Result.RECORDED, Result.DISPATCH_NOT_FOUND
        assert log.recent(5) == (NOON + MINUTE, {recorded: 3, refused: 2}, {"Open"}, set())
        assert log.recent(1) == (NOON, {recorded: 1}, {"Open"}, set())

    def test_entries_of_the_receiver(self, home: Home, log: SQLLog) -> None:
        """The log is summarized by the receiver's entries, or for one of them."""
        keep(
            home,
            entry(1, record_type="Bounce", entry="sendgrid"),
            parked(2, minutes=1, entry="postmark"),
            parked(3, minutes=1, retry_at=None, entry="postmark"),
            parked(4, minutes=0),
        )
        refused = Result.DISPATCH_NOT_FOUND
        assert log.recent(9).entries == {"postmark", "sendgrid"}
        assert log.recent(9, "postmark") == (NOON, {refused: 2}, {"Open"}, {"postmark"})
        assert log.recent(9, "nobody") == (None, {}, set(), set())
        assert log.backlog(NOON + HOUR) == Backlog(2, NOON, 1)
        assert log.backlog(NOON + HOUR, "postmark") == Backlog(1, NOON + MINUTE, 1)
        assert log.backlog(NOON + HOUR, "sendgrid") == Backlog(0, None, 0)

    def test_deliveries(self, home: Home, log: SQLLog) -> None:
        """The newest recorded deliveries of a message are found by their time of arrival."""
        delivery = {"record_type": "Delivery"}
        assert log.deliveries(NOON, limit=9) == {}
        keep(home, *(entry(n, **delivery, occurred_at=NOON + n * SECOND) for n in range(1, 5)))
        keep(
            home,
            entry(5),
            parked(6, minutes=1, **delivery),
            entry(7, **delivery, message_id=None),
            entry(8, **delivery, occurred_at=None),
            entry(9, **delivery, received_at=NOON - SECOND),
        )
        found = {f"m-{number}": NOON + number * SECOND for number in range(1, 5)}
        assert log.deliveries(NOON, limit=9) == found
        assert log.deliveries(NOON, limit=2) == {each: found[each] for each in ("m-4", "m-3")}
        keep(home, entry(10, **delivery, entry="sendgrid"))
        assert log.deliveries(NOON, "sendgrid", limit=9) == {"m-10": NOON - SECOND}

    def test_parked(self, home: Home, log: SQLLog) -> None:
        """Parked entries are counted, and found by message, whether they are due or not."""
        assert log.backlog(NOON) == Backlog(0, None, 0)
        keep(
            home,
            parked(1, minutes=60),
            parked(2, minutes=0, message_id="m-1"),
            parked(3, minutes=0),
            entry(4, message_id="m-1"),
            parked(5, minutes=0),
        )
        before = home.logged()
        assert log.backlog(NOON - SECOND) == Backlog(4, None, 0)
        assert log.backlog(NOON + DAY) == Backlog(4, NOON, 0)
        assert numbers(log.parked(["m-3", "m-1", "m-nowhere"])) == [1, 2, 3]
        assert numbers(log.parked([])) == []
        assert home.logged() == before

    def test_take(self, home: Home, log: SQLLog) -> None:
        """Due entries are taken and postponed. After three days, this retry is the last."""
        old = parked(8, minutes=6.5, received_at=NOON - 3 * DAY)
        keep(home, entry(1), *(parked(n, minutes=10 - n) for n in range(2, 8)), old)
        now, there = NOON + 7 * MINUTE, ids(home)
        taken = [numbers(log.take(each, now)) for each in (there[:3], there[:4], there, there)]
        assert taken == [[3], [4], [5, 6, 7, 8], []]
        *due, last = [row["retry_at"] for row in logged(home)[2:]]
        assert (set(due), last) == ({now + 8 * MINUTE}, None)
        assert logged(home)[:2] == new_rows(entry(1), parked(2, minutes=8))
        assert [row["retries"] for row in home.logged()] == [0, 0, 1, 1, 1, 1, 1, 1]

    def test_due(self, home: Home, log: SQLLog) -> None:
        """Of entries without a row, the youngest come first; of others, those with few retries."""
        failed = {"outcome": Result.FAILED, "status": 503}
        mismatch = {"outcome": Result.RECIPIENT_MISMATCH, "status": 400}
        stranger = {"outcome": Result.SUBSCRIBER_NOT_FOUND, "status": 404}
        keep(
            home,
            parked(1, minutes=4, **failed),
            parked(2, minutes=1, **mismatch),
            parked(3, minutes=2, received_at=NOON - HOUR, **failed),
            parked(4, minutes=4, **stranger),
            parked(5, minutes=2, received_at=NOON - SECOND),
            parked(6, minutes=3, received_at=NOON + SECOND),
            parked(7, minutes=5),
            parked(8, minutes=5, **failed),
        )
        now, by_id = NOON + 4 * MINUTE, {each: n for n, each in enumerate(ids(home), 1)}
        for kind, expected in ((DueKind.FAILING, [2, 1, 3]), (DueKind.MISSING, [6, 4, 5])):
            for limit in (2, 9):
                found = log.due(now, kind, origins=ORIGINS, limit=limit)
                assert [by_id[each] for each in found] == expected[:limit]

    def test_ended(self, home: Home, log: SQLLog) -> None:
        """An entry without a row that is an hour too old for its last retry is not retried."""
        end = NOON + 3 * DAY + HOUR
        keep(home, parked(1, minutes=1), parked(2, minutes=1, received_at=NOON + SECOND))
        keep(home, parked(3, minutes=1, provider="courier"), entry(4))
        keep(home, parked(5, minutes=1, outcome=Result.FAILED))
        assert log.expire(end, origins=ORIGINS) == 0
        assert log.expire(end + SECOND, origins=ORIGINS) == 1
        assert log.expire(end + SECOND, origins=ORIGINS) == 0
        ended = [row["retry_at"] is None for row in logged(home)]
        assert ended == [True, False, False, True, False]

    def test_expired(self, home: Home, log: SQLLog) -> None:
        """Entries that are neither recorded nor retried are found if they have a body."""
        ended = {"retry_at": None}
        keep(
            home,
            entry(1),
            parked(2, minutes=1),
            parked(3, minutes=1, outcome=Result.FAILED, **ended),
            parked(4, minutes=1, body=None, **ended),
            parked(5, minutes=1, outcome=Result.UNSUPPORTED, **ended),
            parked(6, minutes=1, outcome=Result.TEST, **ended),
            parked(7, minutes=1, recipient=ADA, **ended),
        )
        assert numbers(log.oldest(Query(expired=True), limit=9)) == [3, 7]
        assert numbers(log.newest(Query(expired=True, recipient=ADA), limit=9)) == [7]
        assert log.count(Query(expired=True), limit=9) == 2
        assert log.backlog(NOON + DAY).expired == 2

    def test_waiting(self, home: Home, log: SQLLog) -> None:
        """Entries that wait for rows, or did, are counted by origin, if rows can exist for them."""
        ended = {"retry_at": None}
        stranger = {"outcome": Result.SUBSCRIBER_NOT_FOUND, "status": 404}
        keep(
            home,
            entry(1),
            parked(2, minutes=1),
            parked(3, minutes=2),
            parked(4, minutes=1, **ended),
            parked(5, minutes=1, entry="acme", **ended, **stranger),
            parked(6, minutes=1, entry="acme", recipient=None, **ended, **stranger),
            parked(7, minutes=1, entry="acme"),
        )
        assert log.waiting(NOON) == {
            Origin(None, "postmark"): Waiting(2, None, 1, 0),
            Origin("acme", "postmark"): Waiting(1, None, 1, 1),
        }
        due = log.waiting(NOON + HOUR)[Origin(None, "postmark")]
        assert due.oldest_due == NOON + MINUTE

    def test_retries_that_are_implausibly_far_ahead(self, home: Home, log: SQLLog) -> None:
        """They were planned by a clock that was wrong, and count as due."""
        wrong = {"received_at": NOON + 40 * DAY, "last_received_at": NOON + 40 * DAY}
        keep(home, parked(1, minutes=0), parked(2, minutes=180), parked(3, minutes=180.5))
        keep(home, parked(4, minutes=40 * 24 * 60, **wrong))
        assert sorted(numbers(take_due(log, NOON))) == [1, 3, 4]
        assert take_due(log, NOON) == []
        retries = {row["body"]: row["retry_at"] for row in logged(home)}
        assert retries[parked(4, minutes=0).body] == NOON + HOUR
        assert retries[parked(2, minutes=0).body] == NOON + 3 * HOUR

    def test_large_bodies(self, home: Home, log: SQLLog) -> None:
        """Reads return at most the bodies of one group, the others next."""
        keep(home, *(parked(n, minutes=n, message_id="m", body=LARGE) for n in range(1, 5)))
        there = ids(home)
        assert numbers(log.newest(Query(), limit=9)) == [4, 3]
        assert numbers(log.newest(Query(parked=True), before=there[2], limit=9)) == [2, 1]
        assert numbers(log.oldest(Query(), limit=9)) == [1, 2]
        assert numbers(log.oldest(Query(ids=there), after=there[0], limit=9)) == [2, 3]
        assert numbers(log.oldest(Query(), limit=1)) == [1]
        assert numbers(log.parked(["m"])) == [1, 2]
        assert numbers(log.parked(["m"], after=there[1])) == [3, 4]
        assert numbers(log.parked(["m"], after=there[3])) == []
        due = [numbers(log.take(there, NOON + HOUR)) for _ in range(3)]
        assert due == [[1, 2], [3, 4], []]

    def test_posts_and_retries_are_counted_apart(self, home: Home, log: SQLLog) -> None:
        """A post counts as an attempt, and an entry that is taken or counted as a retry."""
        given = parked(1, minutes=1)
        keep(home, given, parked(2, minutes=1))
        first, second = ids(home)
        for at in (NOON + HOUR, NOON + 9 * HOUR):
            assert numbers(log.take([first, second], at)) == [1, 2]
        assert log.take([first], NOON + 9 * HOUR) == []
        keep(home, given)
        keep(home, replace(given, attempts=0))
        log.count_retries([second])
        log.count_retries([])
        found = [(each.attempts, each.retries) for each in log.oldest(Query(), limit=9)]
        assert found == [(2, 2), (1, 3)]

    def test_due_entries_of_other_entries_and_providers(self, home: Home, log: SQLLog) -> None:
        """Each receiver takes the entries that it can read, by both names."""
        names = [
            *((None, "postmark"), (None, "courier"), (None, None)),
            *(("a", "postmark"), ("a", "courier"), ("b", "postmark"), ("b", None)),
        ]
        keep(
            home,
            *(
                parked(n, minutes=0, entry=entry_, provider=provider)
                for n, (entry_, provider) in enumerate(names, 1)
            ),
        )
        taken = [
            sorted(numbers(take_due(log, NOON, origins=[Origin(*each) for each in origins])))
            for origins in (
                [],
                [(None, "postmark"), (None, "other"), (None, None)],
                [("a", "courier"), ("a", None), ("b", "postmark")],
                [(None, "courier"), ("a", "postmark"), ("b", None)],
            )
        ]
        assert taken == [[], [1, 3], [5, 6], [2, 4, 7]]

    def test_bodies_are_measured_in_memory(self, home: Home, log: SQLLog) -> None:
        """A character may take four bytes; a body larger than a group is read alone."""
        wide = [entry(n, body="🦄" * (LARGEST_GROUP // 10)) for n in range(1, 4)]
        keep(home, *wide, entry(4, body="x" * (LARGEST_GROUP + 1)), entry(5))
        groups = [*matching_entries(log, Query())]
        assert numbers(each for group in groups for each in group) == [1, 2, 3, 4, 5]
        for group in groups:
            size = sum(getsizeof(each.body) for each in group)
            assert size <= LARGEST_GROUP or numbers(group) == [4]

    def test_lists_without_bodies(self, home: Home, log: SQLLog) -> None:
        """A list without bodies has as many entries as requested, otherwise unchanged."""
        keep(home, *(parked(number, minutes=1, body=LARGE) for number in range(4)))
        found = [*log.oldest(Query(), limit=2), *log.newest(Query(), limit=2)[::-1]]
        bodiless = [replace(each, body=None) for each in found]
        assert log.oldest(Query(), limit=9, bodies=False) == bodiless
        assert log.newest(Query(), limit=9, bodies=False) == bodiless[::-1]

    def test_bodies_are_added_to_a_list(self, home: Home, log: SQLLog) -> None:
        """Entries get their bodies in the order of the list, except those deleted meanwhile."""
        numbered = range(1, 2 * PORTION + 9)
        keep(home, *map(entry, numbered))
        listed = log.newest(Query(), limit=len(numbered), bodies=False)
        found = with_bodies(log, listed)
        assert [each.body for each in found] == [entry(n).body for n in reversed(numbered)]
        assert numbers(with_bodies(log, listed[::-1])) == [*numbered]
        keep(home, *(entry(n, last_received_at=NOON + HOUR) for n in (1, 9, numbered[-1])))
        sum(log.prune(before=NOON + SECOND, parked_before=GIVEN_UP, bodies_only=False))
        assert numbers(with_bodies(log, listed)) == [numbered[-1], 9, 1]

    @pytest.mark.parametrize("bodies_only", [True, False])
    def test_prune(self, home: Home, log: SQLLog, *, bodies_only: bool) -> None:
        """Old entries, or only their bodies, are deleted; parked ones after their last retry.

        The bodies of entries that were not recorded stay as long as these, whether they are retried
        or not.
        """
        over = {"before": NOON - 36 * HOUR, "parked_before": GIVEN_UP}
        assert sum(log.prune(**over, bodies_only=bodies_only)) == 0
        missing = {"outcome": Result.DISPATCH_NOT_FOUND}
        results: dict[int, dict[str, Any]] = {
            2: {"outcome": Result.UNSUPPORTED},
            3: {**missing, "retry_at": NOON},
            4: missing,
            5: {**missing, "retry_at": NOON},
        }
        # Of which 1 to 4 are old enough.
        for number, days in {1: 9, 2: 4, 3: 5, 4: 8, 5: 2, 6: 3, 7: 1}.items():
            received = NOON - days * DAY
            last = NOON - DAY if number == 6 else received
            times = {"received_at": received, "last_received_at": last}
            keep(home, entry(number, **times, **results.get(number, {})))
        left = home.logged()
        for row in left[:2]:
            row.update(body=None)
        pruned = [sum(log.prune(**over, bodies_only=bodies_only)) for _ in range(2)]
        assert pruned == ([2, 0] if bodies_only else [4, 0])
        assert home.logged() == (left if bodies_only else left[4:])

    @pytest.mark.parametrize(
        ("entries", "bodies", "expected"),
        [
            (4 * DAY, 2 * DAY, (2, 2)),
            (2 * DAY, 4 * DAY, (4, 0)),
            (None, 4 * DAY, (0, 1)),
            (4 * DAY, None, (2, 0)),
        ],
    )
    def test_prunable(
        self,
        home: Home,
        log: SQLLog,
        entries: timedelta | None,
        bodies: timedelta | None,
        expected: tuple[int, int],
    ) -> None:
        """What can be deleted is counted, nothing is changed, and then as much is deleted."""
        for number, days in {1: 9, 2: 5, 3: 3, 4: 3, 5: 2, 6: 3, 7: 1}.items():
            at = NOON - days * DAY
            waits = {"retry_at": NOON, "outcome": Result.FAILED} if number in {2, 5, 6} else {}
            keep(home, entry(number, received_at=at, last_received_at=at, **waits))
        before = home.logged()
        ages = {False: entries, True: bodies}
        limits = {only: NOON - age + HOUR for only, age in ages.items() if age is not None}
        found = log.prunable(
            before=limits.get(False), bodies_before=limits.get(True), parked_before=GIVEN_UP
        )
        assert home.logged() == before
        pruned: dict[bool, int] = {}
        for only, limit in limits.items():
            batches = log.prune(before=limit, parked_before=GIVEN_UP, bodies_only=only)
            pruned[only] = sum(batches)
        assert found == expected == (pruned.get(False, 0), pruned.get(True, 0))

    def test_long_log(self, home: Home, log: SQLLog) -> None:
        """A long log is pruned and erased in batches, whatever its first id is."""
        over = {"before": NOON + SECOND, "parked_before": GIVEN_UP}
        keep(home, *(entry(n, recipient=f"s{n % 2}@example.com") for n in range(1, 2501)))
        assert log.forget("s1@example.com") == Forgotten(entries=1250)
        assert sum(log.prune(**over, bodies_only=True)) == 1250
        young = entry(2501, last_received_at=NOON + HOUR, received_at=NOON + HOUR)
        keep(home, young)
        total = 0
        for pruned in log.prune(**over, bodies_only=False):
            total += pruned
            keep(home, replace(young, fingerprint=b"2" * 16))  # nothing is locked now
        assert total == 2500
        found = log.oldest(Query(), limit=9)
        assert [each.fingerprint for each in found] == [young.fingerprint, b"2" * 16]

    def test_forget(self, home: Home, log: SQLLog) -> None:
        """A person's address and bodies are erased, in any case, and nothing is retried."""
        assert log.forget("S1@Example.com") == Forgotten()
        keep(home, entry(1), parked(2, minutes=1, recipient="s1@example.com"), parked(3, minutes=1))
        before = home.logged()
        assert log.forget("S1@Example.com") == Forgotten(entries=2)
        for row in before[:2]:
            row.update(recipient=None, body=None, retry_at=None)
        assert home.logged() == before
        assert log.forget("S1@Example.com") == Forgotten()

    def test_forget_in_some_entries(self, home: Home, log: SQLLog) -> None:
        """The rest of the log, also without the name of an entry, is not searched or changed."""
        of_ada = [
            parked(n, minutes=1, recipient=ADA, entry=name)
            for n, name in enumerate(("acme", "globex", None))
        ]
        mentions = {"recipient": "bob@x.com", "body": f'{{"Cc": "{ADA}"}}'}
        of_others = [
            entry(10, **mentions, entry="acme"),
            entry(11, **mentions, entry="globex"),
            entry(12, **mentions),
            parked(13, minutes=1, **mentions, entry="globex"),
        ]
        keep(home, *of_ada, *of_others)
        before = home.logged()
        assert log.forget(ADA, entries=[]) == log.forget(ADA, entries=["acm"]) == Forgotten()
        assert log.forget(ADA, entries=["acme"]) == Forgotten(entries=1, bodies=1)
        before[0].update(recipient=None, body=None, retry_at=None)
        before[3]["body"] = None
        assert home.logged() == before
        left = (before[6]["id"],)
        assert log.forget(ADA, entries=["acme", "globex"]) == Forgotten(1, 1, waiting=left)
        assert log.forget(ADA) == Forgotten(1, 1, waiting=left)

    def test_forget_in_unreadable_bodies(self, home: Home, log: SQLLog) -> None:
        """A body without a known recipient is erased if it contains the address, even escaped."""
        keep(home, *(entry(n, recipient=None, body=f'{{"To": "S{n}@x.com"') for n in (1, 2)))
        record(home.store, [Arrival((), '{"To": "zoë@x.com"\0'.encode(), NOON)])
        assert home.logged()[-1]["body"] == '{"To": "zo\\xc3\\xab@x.com"\\x00'
        given = ("", "1@x.com", "s1@x.co", "s1@x.com", "ZOë@x.com")
        assert [log.forget(each).entries for each in given] == [0, 0, 0, 1, 1]
        assert [row["body"] for row in home.logged()] == [None, '{"To": "S2@x.com"', None]

    def test_forget_in_the_bodies_of_others(self, home: Home, log: SQLLog) -> None:
        """The bodies of others that contain the address are erased, however it is written.

        A body that a retry needs stays, and so does one that is compressed: both are listed. An
        address to which letters are added is another one.
        """
        bob, gone = (
            "bob@x.com",
            [
                r'{"Cc": "\u0061da@example.com"}',
                '{"Link": "https://x/?to=Ada%40Example.COM"}',
                '{"Cc": "<ada@example.com>"}',
            ],
        )
        kept = ['{"Cc": "bada@example.com"}', '{"Cc": "ada@example.community", "x": "%"}']
        keep(home, *(entry(n, recipient=bob, body=body) for n, body in enumerate(gone + kept, 1)))
        keep(home, parked(6, minutes=1, recipient=bob, body=gone[0]), entry(7, recipient=ADA))
        compressed = gzip.compress(b'{"Cc": "ada@example.com"}', mtime=0)
        record(home.store, [Arrival((), compressed, NOON)])
        before, there = home.logged(), ids(home)
        assert log.forget(ADA) == Forgotten(1, 3, (there[5],), (there[7],))
        for row in before[:3]:
            row["body"] = None
        before[6].update(recipient=None, body=None)
        assert home.logged() == before
        assert log.forget(ADA) == Forgotten(waiting=(there[5],), unread=(there[7],))
        assert log.forget(bob).entries == 6

    def test_forget_in_doubt(self, home: Home, log: SQLLog) -> None:
        """A body stays, and is listed, if the address in it may be a part of another one."""
        doubtful = [
            "_ada@example.com_",
            "Sent to:Ada@Example.com.Please",
            "bounce+ada=example.com@lists.x",
            "宛先ada@example.comへ",
        ]
        other, hers = ["bada@example.com", "bada=example.com", "宛先"], "ada@exam\u00adple.com"
        bodies = [*doubtful, *other, hers]
        keep(home, *(entry(n, recipient="bob@x.com", body=body) for n, body in enumerate(bodies)))
        keep(home, parked(8, minutes=1, recipient=None, body=doubtful[0]))
        before, there = home.logged(), ids(home)
        expected = Forgotten(bodies=1, doubtful=(*there[:4], there[8]))
        assert log.forget(ADA) == expected
        before[7]["body"] = None
        assert home.logged() == before
        assert log.forget(ADA) == expected._replace(bodies=0)

    def test_forget_among_large_bodies(self, home: Home, log: SQLLog) -> None:
        """Bodies that make several groups are all searched, each once."""
        wide = f"{ADA} % {'x' * (LARGEST_GROUP // 6)}"
        keep(home, *(entry(n, recipient="bob@x.com", body=wide) for n in range(1, 5)))
        assert log.forget(ADA) == Forgotten(bodies=4)

    def test_beginnings(self, home: Home) -> None:
        """Recipients and message ids are found in a range, or by an index; no text is a pattern."""
        change = {"record_type": "SubscriptionChange"}
        keep(
            home,
            entry(1, recipient="ada@example.com", message_id="m_1"),
            entry(2, recipient="ada@example.com", message_id="mx1", **change),
            parked(3, minutes=5, recipient="adam@example.com", message_id="m_3"),
            entry(4, recipient="zoë@example.com", message_id="m_é", reason="HardBounce"),
            entry(5, recipient=None, message_id=None),
        )
        log, (first, last) = reader(home), reader(home).bounds() or (0, 0)
        ids = range(first, last + 1)
        assert log.beginnings("recipient", "ad", ids, limit=9) == {
            "ada@example.com",
            "adam@example.com",
        }
        assert log.beginnings("message_id", "m_", ids, limit=9) == {"m_1", "m_3", "m_é"}
        assert log.beginnings("message_id", "m_", range(first, first + 1), limit=9) == {"m_1"}
        assert len(log.beginnings("recipient", "a", ids, limit=1)) == 1
        assert log.beginnings("recipient", "ad", limit=9) == {"ada@example.com"}
        assert log.beginnings("recipient", "zoë", limit=9) == {"zoë@example.com"}
        assert log.beginnings("message_id", "m_", limit=9) == {"m_3"}
        for each in ("%", "a%", "'", "b"):
            assert log.beginnings("recipient", each, ids, limit=9) == set()
            assert log.beginnings("recipient", each, limit=9) == set()


def _late(*notifications: Notification) -> list[Arrival]:
    """Return notifications that arrived at noon, as a replay reads them from the log."""
    return [
        Arrival((each,), repr(each).encode(), NOON, source=Source.REPLAY, attempts=0)
        for each in notifications
    ]


def _live(arrivals: Sequence[Arrival]) -> list[Arrival]:
    """Return the same arrivals as they were when the notifications first arrived."""
    return [replace(each, source=Source.LIVE, attempts=1) for each in arrivals]


class ReplayContract:
    """Recording earlier notifications, and dry runs."""

    @pytest.fixture(autouse=True)
    def _filled(self, home: Home) -> None:
        """Begin with a few rows and an empty log."""
        fill(home)

    def test_read_rows(self, home: Home) -> None:
        """A transaction reads the columns that notifications set, including its own changes."""
        ada: RowId = (Suppressible.SUBSCRIBER, home.key(1))
        sent: RowId = (Suppressible.DISPATCH, home.key(1))
        with home.store.transaction() as transaction:
            change = SetTime(home.key(1), EventTime.OPENED, NOON, guarded=False)
            transaction.lock([change.row])
            transaction.write([change])
            found = transaction.read([sent, ada])
            assert transaction.read([]) == {}
        assert list(found) == [sent, ada]
        assert found[sent]["opened_at"] == NOON
        for row, name in ((ada, "subscribers"), (sent, "dispatches")):
            there = set(columns_of(home.schema, name)) & {*SUPPRESSION, "delivered_at"}
            assert {found[row][each] for each in there} <= {None}

    def test_dry_run(self, home: Home) -> None:
        """A dry run returns the rows before and after, respects a newer time, and saves nothing."""
        record(home.store, [arrival(Opened(ADA, "m-none", NOON + SECOND))])
        before = home.rows(), home.logged()
        [late] = _late(opens(ADA, "m-ada"))
        result = dry_run(home.store, late)
        row = (Suppressible.DISPATCH, home.key(1))
        assert isinstance(result.outcome, Recorded)
        assert list(result.before) == list(result.after) == [row]
        assert result.before[row]["opened_at"] is None
        assert result.after[row] == {**result.before[row], "opened_at": NOON}
        [older] = _late(opens(ADA, "m-none"))
        result = dry_run(home.store, older)
        assert isinstance(result.outcome, Recorded)
        assert result.before == result.after
        assert [state["opened_at"] for state in result.after.values()] == [NOON + SECOND]
        [refused] = _late(opens(ADA, "m-nowhere"))
        result = dry_run(home.store, refused)
        assert statuses([result.outcome]) == [404]
        assert result.before == result.after == {}
        assert (home.rows(), home.logged()) == before

    def test_dry_run_equals_recording(self, home: Home) -> None:
        [late] = _late(Suppressed(ADA, "m-ada", NOON, "HardBounce"))
        result = dry_run(home.store, late)
        assert [result.outcome] == replay(home.store, [late], clock=utc_now)
        with home.store.transaction() as transaction:
            assert transaction.read(result.after.keys()) == result.after

    def test_late_ones_are_not_counted(self, home: Home) -> None:
        """Recording again from the log adds no attempt and undoes nothing newer.

        The source of the result is then the replay, unless the entry had been recorded before.
        """
        arrivals = _late(opens(ADA, "m-ada"), opens(ADA, "m-nowhere"))
        record(home.store, _live([*arrivals, arrivals[1]]))
        first = timeless(home)
        assert statuses(replay(home.store, arrivals, clock=utc_now)) == [200, 404]
        parked = [row["outcome"] != "recorded" for row in first]
        assert parked.count(True) == 1
        for row, replayed in zip(first, parked, strict=True):
            row["source"] = "replay" if replayed else "live"
        assert timeless(home) == first

    @pytest.mark.parametrize("recorded", [False, True])
    def test_equal_bodies_without_a_date(self, home: Home, *, recorded: bool) -> None:
        """Equal bodies are one entry, which counts as of its last arrival.

        A person is suppressed, reactivated and suppressed again; all are parked, or only the last.
        """
        changed = (Suppressed(ADA, None, None, "HardBounce"), Reactivated(ADA, None, None))
        suppressed, lifted = (
            replace(arrival(each), body=encoded(each), provider="postmark") for each in changed
        )
        first, second, again = (
            replace(each, received_at=NOON + number * MINUTE)
            for number, each in enumerate((suppressed, lifted, suppressed))
        )
        for each in (first, second):
            (record if recorded else keep_failed)(home.store, [each], clock=utc_now)
        keep_failed(home.store, [again], clock=utc_now)
        entries_ = reader(home).oldest(Query(), limit=9)
        assert [each.attempts for each in entries_] == [2, 1]
        late = arrivals_of(home.store, entries_, POSTMARK, NOON + HOUR)
        assert statuses(replay(home.store, late, clock=utc_now)) == [200, 200]
        [row, *_] = home.rows()["subscribers"]
        assert row["suppressed_at"] == NOON + 2 * MINUTE

    def test_a_replay_counts_as_a_retry(self, home: Home) -> None:
        """So does a call of `retry_now`, whether or not it records the notification."""
        payloads = [testing.opening(ADA, "m-ada", at=NOON), testing.opening(ADA, "m-x", at=NOON)]
        bodies = [json.dumps(each).encode() for each in payloads]
        now = datetime.now(UTC)  # otherwise, it would be too late for a retry
        keep_failed(
            home.store,
            [Arrival(Postmark.parse(each).notifications, each, now) for each in bodies],
            clock=utc_now,
        )
        log = reader(home)
        found = sorted(log.oldest(Query(), limit=9), key=attrgetter("message_id"))
        gone = replace(found[0], body=None, fingerprint=b"0" * 16)
        assert statuses(replay_entries(home.store, log, [*found, gone], POSTMARK)) == [200, 404]
        assert replay_entries(home.store, log, [gone], POSTMARK) == []
        retry = ParkedRetry(home.store, log, POSTMARK, lambda *_: None, Clock(home.store))
        assert retry.retry_now(["m-x"]).result(timeout=PATIENCE) == 0
        retry.close(PATIENCE)
        counts = {each.message_id: each.retries for each in log.oldest(Query(), limit=9)}
        assert counts == {"m-ada": 1, "m-x": 2}

    def test_only_ready_ones_are_recorded(self, home: Home) -> None:
        """The others stay in the log unchanged, including the time of the next retry."""
        nobody = Reactivated("nobody@example.com", None, NOON)
        arrivals = _late(opens(ADA, "m-ada"), opens(ADA, "m-nowhere"), nobody)
        keep(home, *log_entries(_live(arrivals), fail(arrivals), NOON))
        before = {row["body"]: row for row in home.logged()}
        assert replay_ready(home.store, arrivals[1:], utc_now, former={}) == ([], [])
        ready, outcomes = replay_ready(home.store, arrivals, utc_now, former={})
        assert (ready, statuses(outcomes)) == (arrivals[:1], [200])
        [recorded] = [row for row in home.logged() if row != before[row["body"]]]
        assert recorded["body"] == arrivals[0].body.decode()
        columns = ("outcome", "first_outcome", "status", "attempts", "retry_at")
        assert [recorded[name] for name in columns] == ["recorded", "failed", 200, 1, None]

    @pytest.mark.parametrize("fails", [False, True])
    def test_forget_during_sweep(
        self, home: Home, monkeypatch: pytest.MonkeyPatch, *, fails: bool
    ) -> None:
        """A person who is forgotten while a sweep runs stays erased, regardless of the result."""
        given = replace(arrival(opens(ADA, "m-ada")), provider="other")
        keep(home, *log_entries([given], fail([given]), NOON))
        erased: list[int] = []

        def parse(body: bytes) -> Event:
            """Forget the person after the sweep has read the entry and before it records it."""
            erased.append(reader(home).forget(ADA).entries)
            return Event((opens(ADA, "m-ada"),), body)

        def refuse(*_: object, **__: object) -> None:
            raise Rejected("CheckViolation 23514")

        if fails:
            monkeypatch.setattr("hookrow._receiver.recorder.record_unlocked", refuse)
        parsers = Entries(Entry(None, SimpleNamespace(name="other", parse=parse)))
        recorded = ParkedRetry(
            home.store, reader(home), parsers, lambda *_: None, Clock(home.store)
        ).retry_due()
        assert (recorded, erased) == (0 if fails else 1, [1])
        [row] = home.logged()
        assert (row["recipient"], row["body"]) == (None, None)
        assert row["outcome"] == ("failed" if fails else "recorded")

    def test_matching_entries_come_in_groups(self, home: Home) -> None:
        """All matching entries are read in groups, oldest first, each once."""
        keep(home, *map(entry, range(1, 2 * MAX_REPLAY_GROUP + 2)))
        groups = list(matching_entries(reader(home), Query(outcome=Result.RECORDED)))
        assert [len(group) for group in groups] == [MAX_REPLAY_GROUP, MAX_REPLAY_GROUP, 1]
        assert numbers(each for group in groups for each in group) == list(
            range(1, 2 * MAX_REPLAY_GROUP + 2)
        )


class LogContract(KeepContract, ReadContract, ReplayContract):
    """The contract of every store with a log."""


class NoLogContract:
    def test_nothing_is_kept(self, home: Home) -> None:
        """Notifications are recorded, and there is no log to read."""
        fill(home)
        assert home.store.log is None
        arrivals = _late(opens(ADA, "m-ada"), opens(ADA, "m-nowhere"))
        assert statuses(record(home.store, arrivals)) == [200, 404]
        keep_failed(home.store, arrivals, clock=utc_now)
        keep(home, entry())
        assert home.logged() == []
        assert [row["opened_at"] for row in home.rows()["dispatches"]] == [NOON, None, None, None]
