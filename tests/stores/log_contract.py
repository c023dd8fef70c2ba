"""What every store with a log does with it, and what one without does.

Times are within an hour of noon; what a test says of the log it reads by a way that
is not the store's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from sys import getsizeof
from typing import Any

import pytest
from contract import NOON, SECOND, arrival, fill, opens, statuses
from homes import SUPPRESSION, Home, columns_of

from hookrow import Arrival, Opened, Reactivated, Recorded, Suppressed
from hookrow.decide import fail
from hookrow.entry import PARKED_FOR, Ending, Entry, entries
from hookrow.notification import (
    EventTime,
    Notification,
    RowId,
    SetTime,
    Suppressible,
    Unsupported,
)
from hookrow.quiet import Quiet
from hookrow.recording import keep_failed, record
from hookrow.replay import GROUP, matching, record_late, record_ready, rehearse
from hookrow.sizes import LARGEST_GROUP
from hookrow.stores.log import (
    PORTION,
    WIDEST_CHARACTER,
    Cell,
    Ended,
    Grain,
    LogReader,
    Query,
    with_bodies,
)

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

GIVEN_UP = NOON - PARKED_FOR
"""What is parked since before then is, at noon, too old to be tried again."""

LARGE = "x" * (LARGEST_GROUP // WIDEST_CHARACTER // 2)
"""A body of which two are read at once, but not three."""

HOSTILE = (
    *("'; DROP TABLE hookrow_notifications; --", "%s %(rows)s :rows $1 ?", "\\u0000 \\x00 \\"),
    *('{"a": [1, null]}', "[]", "null", "\x01\x1f\x7f\r\n\t\v", "\u2028\ufeff\ufffd\U0010ffff"),
    *("", " ", "'", '"', "``", "{}", "\N{KELVIN SIGN}ß🦄"),
)
"""Texts that an INSERT, JSON, a driver or a placeholder might trip over."""


def entry(number: int = 1, **columns: Any) -> Entry:  # noqa: ANN401 - of any column
    """Return an entry that was recorded at noon; the number tells it apart."""
    given = {
        "fingerprint": number.to_bytes(16),
        "record_type": "Open",
        "message_id": f"m-{number}",
        "recipient": f"s{number}@example.com",
        "occurred_at": NOON - SECOND,
        "outcome": Ending.RECORDED,
        "status": 200,
        "attempts": 1,
        "received_at": NOON,
        "last_received_at": NOON,
        "ended_at": NOON + SECOND,
        "retry_at": None,
        "body": f'{{"n": {number}}}',
    }
    return Entry(**{**given, **columns})


def parked(number: int, *, minutes: float, **columns: Any) -> Entry:  # noqa: ANN401 - as above
    """Return an entry that came at noon, and is tried again so much later."""
    return entry(
        number,
        **{
            "outcome": Ending.DISPATCH_NOT_FOUND,
            "status": 404,
            "retry_at": NOON + minutes * MINUTE,
            **columns,
        },
    )


def keep(home: Home, *kept: Entry) -> None:
    """Keep entries in a transaction of their own."""
    with home.store.transaction() as transaction:
        transaction.write((), kept)


def reader(home: Home) -> LogReader:
    """Return what reads the log."""
    assert home.store.log is not None
    return home.store.log


def logged(home: Home) -> list[dict[str, Any]]:
    """Read the log without its ids, which are the database's to assign."""
    return [{name: row[name] for name in row if name != "id"} for row in home.logged()]


def timeless(home: Home) -> list[dict[str, Any]]:
    """Read the log in the order of fingerprints, without ids and what depends on the clock."""
    gone = {"id", "ended_at", "retry_at"}
    rows = [{name: row[name] for name in row if name not in gone} for row in home.logged()]
    return sorted(rows, key=lambda row: bytes(row["fingerprint"]))


def as_rows(*kept: Entry) -> list[dict[str, Any]]:
    """Return what the log is to hold of entries that are new in it."""
    return [
        {**asdict(each), "outcome": each.outcome.value, "first_outcome": each.outcome.value}
        for each in kept
    ]


def numbers(found: Iterable[Entry]) -> list[int]:
    """Tell entries apart as they were made."""
    return [int.from_bytes(each.fingerprint) for each in found]


class KeepContract:
    """Writing to the log."""

    @pytest.fixture(autouse=True)
    def _empty(self, home: Home) -> None:
        """Begin with no rows and an empty log."""
        home.fill()

    @pytest.mark.parametrize("text", HOSTILE)
    def test_an_entry_is_kept_to_the_letter(self, home: Home, text: str) -> None:
        """Whatever its texts say."""
        said = entry(record_type=text, message_id=text, recipient=text, body=text)
        keep(home, said)
        assert logged(home) == as_rows(said)

    def test_every_value_is_kept(self, home: Home) -> None:
        """Every byte of a fingerprint, the first and the last time there is, and None."""
        nothing: dict[str, Any] = dict.fromkeys(
            ("record_type", "message_id", "recipient", "body", "occurred_at")
        )
        first, last = (at.replace(tzinfo=UTC) for at in (datetime.min, datetime.max))  # noqa: DTZ901 - it gets one
        kept = [
            *(
                entry(fingerprint=bytes(range(start, start + 16)), attempts=start)
                for start in range(0, 256, 16)
            ),
            entry(1, **{**nothing, "fingerprint": b"\xff" * 16, "attempts": 2**40}),
        ]
        kept[0] = replace(kept[0], occurred_at=first, received_at=first, retry_at=last)
        keep(home, *kept)
        assert logged(home) == as_rows(*kept)

    def test_long_texts_and_large_groups_are_kept(self, home: Home) -> None:
        """As long as a column is wide, in letters of four bytes, and three thousand at once."""
        letters = {"record_type": 64, "message_id": 255, "recipient": 320, "body": 10**6}
        wide = entry(1, **{name: "🦄" * length for name, length in letters.items()})
        many = [entry(number) for number in range(2, 3000)]
        keep(home, wide, *many)
        assert logged(home) == as_rows(wide, *many)

    def test_no_entries_are_no_error(self, home: Home) -> None:
        """Nothing is kept."""
        keep(home)
        assert logged(home) == []

    def test_what_comes_again_is_added_up(self, home: Home) -> None:
        """Attempts add up, the newest end counts, the first and the last arrival, the first end."""
        first = parked(1, minutes=1)
        again = entry(
            1,
            attempts=2,
            received_at=NOON + MINUTE,
            last_received_at=NOON + HOUR,
            ended_at=NOON + HOUR,
            # One body is one notification, so that these do not come to differ.
            record_type="other",
            message_id="other",
            recipient="other",
            occurred_at=None,
            body="other",
        )
        keep(home, first)
        keep(home, again, entry(2))
        ended = replace(
            first,
            attempts=3,
            last_received_at=NOON + HOUR,
            outcome=Ending.RECORDED,
            status=200,
            ended_at=NOON + HOUR,
            retry_at=None,
        )
        both = as_rows(ended, entry(2))
        both[0]["first_outcome"] = "dispatch_not_found"
        assert logged(home) == both

    def test_what_was_recorded_has_been_since(self, home: Home) -> None:
        """When it ended stays that of the first time, however often it comes again."""
        keep(home, entry(ended_at=NOON))
        keep(home, entry(ended_at=NOON + HOUR))
        [row] = logged(home)
        assert (row["ended_at"], row["attempts"]) == (NOON, 2)

    def test_a_clock_may_jump_back(self, home: Home) -> None:
        """What arrives later with an earlier time is the first arrival, and how it ended."""
        keep(home, entry(last_received_at=NOON + HOUR))
        late = parked(1, minutes=-9, received_at=NOON - HOUR, last_received_at=NOON - MINUTE)
        keep(home, replace(late, ended_at=NOON - MINUTE))
        [row] = logged(home)
        times = (NOON - HOUR, NOON + HOUR, NOON - MINUTE, NOON - 9 * MINUTE)
        names = ("received_at", "last_received_at", "ended_at", "retry_at")
        assert tuple(row[name] for name in names) == times
        assert (row["outcome"], row["first_outcome"]) == ("dispatch_not_found", "recorded")

    def test_what_was_erased_comes_back(self, home: Home) -> None:
        """A body and an address that are not there are taken from what comes again."""
        keep(home, entry(body=None, recipient=None))
        keep(home, entry())
        assert logged(home) == as_rows(entry(attempts=2))
        keep(home, entry(body=None, recipient=None))
        assert logged(home) == as_rows(entry(attempts=3))

    def test_it_is_rolled_back_with_the_transaction(self, home: Home) -> None:
        """What is not committed is not in the log, and what was there is as it was."""
        keep(home, entry())
        before = home.logged()
        with pytest.raises(ZeroDivisionError), home.store.transaction() as transaction:  # noqa: PT012
            transaction.write((), [entry(), entry(2)])
            raise ZeroDivisionError
        assert home.logged() == before

    def test_every_end_is_kept(self, home: Home) -> None:
        """Recorded or refused: each notification of a group is in the log, once."""
        fill(home)
        now = datetime.now(UTC)
        told = [
            Arrival(opens(*names), repr(names).encode(), now)
            for names in (
                ("ada@example.com", "m-ada"),
                ("nobody@example.com", "m-ada"),
                ("ada@example.com", "m-nowhere"),
                ("Bea.Upper@Example.com", "m-ada"),
            )
        ]
        unsupported = Arrival(None, b"?", now, unsupported=Unsupported("Bounce", "Ada@x", "m"))
        group = [*told, unsupported, told[1], unsupported]
        assert statuses(record(home.store, group)) == [200, 404, 404, 400, 422, 404, 422]
        kept = {row["body"]: row for row in logged(home)}
        columns = ("outcome", "status", "attempts", "recipient", "message_id", "record_type")
        found = [
            tuple(kept[each.body.decode()][name] for name in columns)
            for each in (*told, unsupported)
        ]
        assert found == [
            ("recorded", 200, 1, "ada@example.com", "m-ada", "Open"),
            ("subscriber_not_found", 404, 2, "nobody@example.com", "m-ada", "Open"),
            ("dispatch_not_found", 404, 1, "ada@example.com", "m-nowhere", "Open"),
            ("recipient_mismatch", 400, 1, "bea.upper@example.com", "m-ada", "Open"),
            ("unsupported", 422, 2, "ada@x", "m", "Bounce"),
        ]
        assert [kept[each.body.decode()]["retry_at"] is None for each in (*told, unsupported)] == [
            *(True, False, False, False, True)
        ]

    @pytest.mark.parametrize("bodies", [True, False])
    def test_hostile_notifications_are_kept(self, home: Home, *, bodies: bool) -> None:
        """NUL, what is no UTF-8, half a surrogate pair, and a mebibyte of it all.

        What names nobody that there could be is not tried again.
        """
        fill(home)
        said = [
            *(("a\0b", b"\0"), ("\ud800", b"\xff\xfe"), ("x" * 999, b"")),
            *(("\0" * 999, b"\0\xff" * 2**19), ("ZOË@Example.COM", b"0")),
            *((text, ascii(text).encode()) for text in HOSTILE),
        ]
        now = datetime.now(UTC)
        told = [Arrival(opens(text, text), body, now) for text, body in said]
        outcomes = record(home.store, told, bodies=bodies)
        assert statuses(outcomes) == [404] * len(told)
        rows = logged(home)
        assert len(rows) == len(told)
        assert {row["body"] is None for row in rows} == {not bodies}
        addresses = {row["recipient"] for row in rows}
        impossible = {"a\\x00b", "\\ud800", "x" * 320, ("\\x00" * 80), ""}
        assert {*impossible, "zoË@example.com"} < addresses
        given_up = {row["recipient"] for row in rows if row["retry_at"] is None}
        assert given_up == (impossible if bodies else addresses)
        assert not [row for row in rows if len(row["message_id"]) > 255]

    def test_failed_work_is_kept(self, home: Home) -> None:
        """Without its changes, and to be tried again."""
        fill(home)
        before = home.rows()
        now = datetime.now(UTC)
        told = [Arrival(opens("ada@example.com", "m-ada"), b"1", now), Arrival(None, b"2", now)]
        keep_failed(home.store, told)
        kept = {row["body"]: row for row in logged(home)}
        assert [(kept[n]["outcome"], kept[n]["status"]) for n in "12"] == [
            ("failed", 503),
            ("unsupported", 422),
        ]
        assert [kept[n]["retry_at"] is None for n in "12"] == [False, True]
        assert home.rows() == before


class ReadContract:
    """Reading and tending the log."""

    @pytest.fixture
    def log(self, home: Home) -> LogReader:
        """Begin with no rows and an empty log."""
        home.fill()
        return reader(home)

    def test_an_entry_is_read_as_it_was_kept(self, home: Home, log: LogReader) -> None:
        """With its id, and how it ended at first."""
        keep(home, parked(1, minutes=1))
        keep(home, entry(1))
        [found] = log.newest(Query(), limit=9)
        [row] = home.logged()
        ends = (Ending.RECORDED, Ending.DISPATCH_NOT_FOUND)
        assert asdict(found) == {**row, "outcome": ends[0], "first_outcome": ends[1]}

    def test_it_is_read_page_by_page(self, home: Home, log: LogReader) -> None:
        """Newest or oldest first, each entry once, and then nothing."""
        for number in range(1, 8):
            keep(home, entry(9 - number))  # ids go by arrival, not by fingerprint
        pages, before = [], None
        while page := log.newest(Query(), before=before, limit=3):
            pages.append(numbers(page))
            before = page[-1].id
        assert pages == [[2, 3, 4], [5, 6, 7], [8]]
        pages, after = [], 0
        while page := log.oldest(Query(), after=after, limit=3):
            pages.append(numbers(page))
            after = page[-1].id
        assert pages == [[8, 7, 6], [5, 4, 3], [2]]

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            (Query(), [1, 2, 3, 4]),
            (Query(outcome=Ending.RECORDED), [1, 3]),
            (Query(record_type="Delivery"), [3]),
            (Query(recipient="S2@EXAMPLE.com"), [2]),
            (Query(recipient="s2@example.co_"), []),
            (Query(recipient=""), []),
            (Query(message_id="m-2"), [2]),
            (Query(message_id="M-2"), []),
            (Query(since=NOON + MINUTE), [3, 4]),
            (Query(since=NOON + MINUTE + SECOND), [4]),
            (Query(parked=True), [2]),
            (Query(parked=True, outcome=Ending.RECORDED), []),
            (Query(ids=()), []),
        ],
    )
    def test_what_is_meant_is_found(
        self, home: Home, log: LogReader, query: Query, expected: list[int]
    ) -> None:
        """All that is asked for has to match; an email does in either case."""
        keep(
            home,
            entry(1),
            parked(2, minutes=1),
            entry(3, record_type="Delivery", received_at=NOON + MINUTE),
            entry(4, outcome=Ending.UNSUPPORTED, recipient=None, received_at=NOON + HOUR),
        )
        assert numbers(log.oldest(query, limit=9)) == expected
        assert numbers(log.newest(query, limit=9)) == expected[::-1]

    def test_entries_are_found_by_id(self, home: Home, log: LogReader) -> None:
        """Those that are there."""
        keep(home, *map(entry, range(1, 5)))
        ids = [row["id"] for row in home.logged()]
        found = log.oldest(Query(ids=[ids[3], ids[1], ids[3] + 99]), limit=9)
        assert numbers(found) == [2, 4]

    @pytest.mark.parametrize(
        ("since", "until", "expected"),
        [
            (None, NOON + HOUR, [1, 2, 3]),
            (None, NOON + HOUR + SECOND, [1, 2, 3, 4]),
            (NOON + MINUTE, NOON + HOUR, [2, 3]),
            (NOON + HOUR, NOON + HOUR, []),
            (None, NOON - 9 * DAY, []),
        ],
    )
    def test_a_time_is_found_from_either_end(
        self,
        home: Home,
        log: LogReader,
        since: datetime | None,
        until: datetime | None,
        expected: list[int],
    ) -> None:
        """From then on, and before then; with others between, and page by page."""
        came = {1: NOON, 2: NOON + MINUTE, 3: NOON + 2 * MINUTE, 4: NOON + HOUR, 5: NOON + 3 * DAY}
        for number, at in came.items():
            keep(home, entry(number, received_at=at, ended_at=at + SECOND))
        query = Query(since=since, until=until)
        assert numbers(log.oldest(query, limit=9)) == expected
        assert numbers(log.newest(query, limit=9)) == expected[::-1]
        for read, start in ((log.oldest, "after"), (log.newest, "before")):
            page = read(query, limit=1)
            if page:
                there: dict[str, Any] = {start: page[0].id}
                page = [*page, *read(query, **there, limit=9)]
            assert sorted(numbers(page)) == expected

    def test_a_time_is_reached_at_an_id(self, home: Home, log: LogReader) -> None:
        """None of what came then or later has a lower one, with gaps between ids."""
        assert (log.bounds(), log.reached(NOON)) == (None, 1)
        for number in range(100):
            at = NOON + number * MINUTE
            keep(home, entry(number, received_at=at, ended_at=at + SECOND))
            keep(home, entry(number, received_at=at, ended_at=at + SECOND))
        sum(log.prune(before=NOON, parked_before=GIVEN_UP, bodies_only=False))
        rows = home.logged()
        assert log.bounds() == (rows[0]["id"], rows[-1]["id"])
        for minutes in (-1, 0, 1, 1.5, 30, 99, 2000):
            at = NOON + minutes * MINUTE
            later = [row["id"] for row in rows if max(row["received_at"], row["ended_at"]) >= at]
            assert log.reached(at) <= min(later, default=rows[-1]["id"] + 1), minutes

    def test_what_was_kept_late_is_not_missed(self, home: Home, log: LogReader) -> None:
        """A spool is emptied later: what came before lies behind what came after."""
        for number in range(40):
            at = NOON + number * MINUTE
            came = NOON - HOUR if 10 <= number < 30 else at
            keep(home, entry(number, received_at=came, ended_at=at))
        since = NOON + 5 * MINUTE
        found = [*range(5, 10), *range(30, 40)]
        assert numbers(log.oldest(Query(since=since), limit=99)) == found
        assert numbers(log.newest(Query(since=since), limit=99)) == found[::-1]
        late = log.newest(Query(until=NOON), limit=99)
        assert numbers(late) == [*range(29, 9, -1)]

    def test_what_happened_is_found_by_its_second(self, home: Home, log: LogReader) -> None:
        """By the time that it set in a row; others of that second are told apart by a query."""
        fill(home)
        told = [
            *(Opened("ada@example.com", "m-ada", NOON + n * SECOND / 2) for n in range(-1, 3)),
            Opened("ada@example.com", "m-none", NOON),
        ]
        record(home.store, _live(_late(*told)))
        found = log.happened(NOON, Query(message_id="m-ada"), limit=9)
        assert sorted(each.occurred_at for each in found if each.occurred_at) == [
            *(NOON, NOON + SECOND / 2)
        ]
        assert len(log.happened(NOON, Query(), limit=9)) == 3
        assert len(log.happened(NOON, Query(), limit=1)) == 1
        assert log.happened(NOON - HOUR, Query(), limit=9) == []

    def test_entries_are_found_in_a_range_of_ids(self, home: Home, log: LogReader) -> None:
        """Of which some may not be there."""
        keep(home, *map(entry, range(1, 6)))
        ids = [row["id"] for row in home.logged()]
        assert numbers(log.newest(Query(ids=range(ids[1], ids[3])), limit=9)) == [3, 2]
        assert numbers(log.oldest(Query(ids=range(ids[3], ids[4] + 99)), limit=9)) == [4, 5]
        assert numbers(log.oldest(Query(ids=range(ids[0], ids[4], 2)), limit=9)) == [1, 3]
        assert numbers(log.oldest(Query(ids=range(5, 5)), limit=9)) == []

    @pytest.mark.parametrize("grain", ["hour", "minute"])
    def test_a_range_is_counted(self, home: Home, log: LogReader, grain: Grain) -> None:
        """By when it came, by type and by outcome; what is outside is not."""
        sharp = NOON.replace(microsecond=0)
        came = [sharp - SECOND, sharp, sharp + 59 * SECOND, sharp, sharp + 61 * SECOND, NOON]
        kept = [entry(number, received_at=at) for number, at in enumerate(came)]
        kept[3] = replace(kept[3], record_type=None, outcome=Ending.UNSUPPORTED)
        kept[4] = replace(kept[4], outcome=Ending.FAILED)
        keep(home, *kept)
        ids = [row["id"] for row in home.logged()]
        before = {"hour": sharp - HOUR, "minute": sharp - MINUTE}[grain]
        after = {"hour": sharp, "minute": sharp + MINUTE}[grain]
        assert dict(log.tally(ids[0], ids[-1], grain)) == {
            Cell(before, "Open", Ending.RECORDED): 1,
            Cell(sharp, "Open", Ending.RECORDED): 3,
            Cell(sharp, None, Ending.UNSUPPORTED): 1,
            Cell(after, "Open", Ending.FAILED): 1,
        }
        assert dict(log.tally(ids[1], ids[2], grain)) == {Cell(sharp, "Open", Ending.RECORDED): 2}
        assert dict(log.tally(ids[-1] + 1, ids[-1] + 99, grain)) == {}

    def test_deliveries_are_read(self, home: Home, log: LogReader) -> None:
        """Those that were recorded, of a message, with when they happened."""
        delivery = {"record_type": "Delivery"}
        keep(home, entry(1), entry(2, **delivery), entry(3, **delivery, message_id=None))
        keep(home, entry(4, **delivery, occurred_at=None), parked(5, minutes=1, **delivery))
        keep(home, entry(6, **delivery, occurred_at=NOON))
        ids = [row["id"] for row in home.logged()]
        assert [*log.delivered(ids[0], ids[-1])] == [("m-2", NOON - SECOND), ("m-6", NOON)]
        assert [*log.delivered(ids[0], ids[4])] == [("m-2", NOON - SECOND)]

    def test_what_is_parked_is_counted(self, home: Home, log: LogReader) -> None:
        """Due or not."""
        assert log.count_parked() == 0
        keep(home, entry(1), parked(2, minutes=-1), parked(3, minutes=99))
        assert log.count_parked() == 2

    def test_what_is_due_is_taken_and_put_off(self, home: Home, log: LogReader) -> None:
        """The longest due first, as many as asked for; and then the next."""
        keep(home, entry(1), *(parked(n, minutes=10 - n) for n in range(2, 8)))
        now = NOON + 7 * MINUTE
        assert numbers(log.due(now, limit=2)) == [7, 6]
        assert numbers(log.due(now, limit=2)) == [5, 4]
        assert numbers(log.due(now, limit=9)) == [3]
        assert log.due(now, limit=9) == []
        again = {row["retry_at"] for row in logged(home)[2:]}
        assert again == {now + 8 * MINUTE}
        assert logged(home)[:2] == as_rows(entry(1), parked(2, minutes=8))

    def test_what_is_due_makes_no_larger_a_group_than_others(
        self, home: Home, log: LogReader
    ) -> None:
        """Of large bodies fewer are taken; the others stay due."""
        keep(home, *(parked(n, minutes=n, body=LARGE) for n in range(1, 4)))
        assert [numbers(log.due(NOON + HOUR, limit=9)) for _ in range(3)] == [[1, 2], [3], []]

    def test_bodies_are_read_a_group_at_a_time(self, home: Home, log: LogReader) -> None:
        """From either end and for a message: fewer large bodies are returned, the others next."""
        keep(home, *(parked(n, minutes=1, message_id="m", body=LARGE) for n in range(1, 5)))
        ids = [row["id"] for row in home.logged()]
        assert numbers(log.newest(Query(), limit=9)) == [4, 3]
        assert numbers(log.newest(Query(parked=True), before=ids[2], limit=9)) == [2, 1]
        assert numbers(log.oldest(Query(), limit=9)) == [1, 2]
        assert numbers(log.oldest(Query(ids=ids), after=ids[0], limit=9)) == [2, 3]
        assert numbers(log.oldest(Query(), limit=1)) == [1]
        assert numbers(log.parked(["m"])) == [1, 2]
        assert numbers(log.parked(["m"], after=ids[1])) == [3, 4]
        assert numbers(log.parked(["m"], after=ids[3])) == []

    def test_bodies_are_measured_in_bytes_of_memory(self, home: Home, log: LogReader) -> None:
        """A character may take four of them."""
        keep(home, *(entry(n, body="🦄" * (LARGEST_GROUP // 10)) for n in range(1, 5)))
        groups = [*matching(log, Query())]
        assert numbers(each for group in groups for each in group) == [1, 2, 3, 4]
        for group in groups:
            assert sum(getsizeof(each.body) for each in group) <= LARGEST_GROUP

    def test_a_body_larger_than_a_group_is_read_alone(self, home: Home, log: LogReader) -> None:
        """It cannot be divided."""
        keep(home, entry(1, body="x" * (LARGEST_GROUP + 1)), entry(2))
        assert [numbers(group) for group in matching(log, Query())] == [[1], [2]]

    def test_entries_are_listed_without_bodies(self, home: Home, log: LogReader) -> None:
        """However large these are, a list is as long as asked for, and like others in all else."""
        fill(home)
        told = _late(*(Opened("ada@example.com", f"m-{n}", NOON) for n in range(4)))
        kept = [replace(each, body=LARGE) for each in entries(_live(told), fail(told), NOON)]
        keep(home, *kept)
        found = [*log.oldest(Query(), limit=2), *log.newest(Query(), limit=2)[::-1]]
        bodiless = [replace(each, body=None) for each in found]
        assert log.oldest(Query(), limit=9, bodies=False) == bodiless
        assert log.newest(Query(), limit=9, bodies=False) == bodiless[::-1]
        assert log.happened(NOON, Query(), limit=9) == bodiless

    def test_listed_entries_get_their_bodies(self, home: Home, log: LogReader) -> None:
        """All of them, in the order of the list; but for those that were deleted meanwhile."""
        numbered = range(1, 2 * PORTION + 9)
        keep(home, *map(entry, numbered))
        listed = log.newest(Query(), limit=len(numbered), bodies=False)
        found = with_bodies(log, listed)
        assert [each.body for each in found] == [entry(n).body for n in reversed(numbered)]
        keep(home, *(entry(n, last_received_at=NOON + HOUR) for n in (1, 9)))
        sum(log.prune(before=NOON + SECOND, parked_before=GIVEN_UP, bodies_only=False))
        assert numbers(with_bodies(log, listed)) == [9, 1]

    @pytest.mark.parametrize(
        ("age", "pause"),
        [
            (-HOUR, MINUTE),
            (timedelta(0), MINUTE),
            (MINUTE, 2 * MINUTE),
            (3 * MINUTE, 4 * MINUTE),
            (59 * MINUTE, HOUR),
            (3 * DAY - SECOND, HOUR),
            (3 * DAY, None),
        ],
    )
    def test_the_pauses_grow(
        self, home: Home, log: LogReader, age: timedelta, pause: timedelta | None
    ) -> None:
        """By what has passed, to an hour; after three days it is the last try."""
        keep(home, parked(1, minutes=-120))
        assert numbers(log.due(NOON + age, limit=1)) == [1]
        [row] = home.logged()
        assert row["retry_at"] == (None if pause is None else NOON + age + pause)

    def test_what_is_parked_for_a_message_is_found(self, home: Home, log: LogReader) -> None:
        """Oldest first, due or not; what is not parked is not."""
        keep(
            home,
            parked(1, minutes=60),
            parked(2, minutes=0, message_id="m-1"),
            parked(3, minutes=0),
            entry(4, message_id="m-1"),
            parked(5, minutes=0),
        )
        assert numbers(log.parked(["m-3", "m-1", "m-nowhere"])) == [1, 2, 3]
        assert numbers(log.parked([])) == []
        assert len([row for row in home.logged() if row["retry_at"] == NOON]) == 3

    @pytest.fixture
    def old(self, home: Home, log: LogReader) -> LogReader:
        """Keep entries of several ages: 1 to 3 may go, the others are parked or young."""
        days_ago = {1: 9, 2: 4, 3: 5, 4: 2, 5: 3, 6: 1}
        for number, days in days_ago.items():
            came = NOON - days * DAY
            last = NOON - DAY if number == 5 else came
            made = entry(number, received_at=came, last_received_at=last)
            keep(home, replace(made, retry_at=NOON) if number in {3, 4} else made)
        return log

    def test_what_is_old_is_deleted(self, old: LogReader) -> None:
        """What came last before then; what is parked only when it is too old to be tried again."""
        pruned = old.prune(before=NOON - 36 * HOUR, parked_before=GIVEN_UP, bodies_only=False)
        assert sum(pruned) == 3
        assert numbers(old.oldest(Query(), limit=9)) == [4, 5, 6]
        assert (
            sum(old.prune(before=NOON - 36 * HOUR, parked_before=GIVEN_UP, bodies_only=False)) == 0
        )

    def test_only_bodies_are_erased(self, home: Home, old: LogReader) -> None:
        """Then nothing is left to be tried again, and all else is."""
        before = home.logged()
        assert (
            sum(old.prune(before=NOON - 36 * HOUR, parked_before=GIVEN_UP, bodies_only=True)) == 3
        )
        for row in before[:3]:
            row.update(body=None, retry_at=None)
        assert home.logged() == before
        assert (
            sum(old.prune(before=NOON - 36 * HOUR, parked_before=GIVEN_UP, bodies_only=True)) == 0
        )

    @pytest.mark.parametrize("bodies_only", [True, False])
    def test_an_empty_log_can_be_tended(self, log: LogReader, *, bodies_only: bool) -> None:
        """Nothing is pruned, forgotten or counted."""
        assert sum(log.prune(before=NOON, parked_before=GIVEN_UP, bodies_only=bodies_only)) == 0
        assert log.forget("ada@example.com") == 0
        assert dict(log.ends(0, 9)) == {}

    def test_a_long_log_is_tended_in_batches(self, home: Home, log: LogReader) -> None:
        """Over the borders of batches too, wherever ids begin."""
        keep(home, *(entry(n, recipient=f"s{n % 2}@example.com") for n in range(1, 2501)))
        assert log.forget("s1@example.com") == 1250
        assert (
            sum(log.prune(before=NOON + SECOND, parked_before=GIVEN_UP, bodies_only=True)) == 1250
        )
        keep(home, entry(2501, last_received_at=NOON + HOUR, received_at=NOON + HOUR))
        assert (
            sum(log.prune(before=NOON + SECOND, parked_before=GIVEN_UP, bodies_only=False)) == 2500
        )
        assert numbers(log.oldest(Query(), limit=9)) == [2501]

    def test_the_store_can_be_used_while_it_is_pruned(self, home: Home, log: LogReader) -> None:
        """Between two batches nothing is held: who shows the progress stops nobody."""
        keep(home, entry(1))
        for pruned in log.prune(before=NOON + SECOND, parked_before=GIVEN_UP, bodies_only=False):
            assert pruned == 1
            keep(home, entry(2))
        assert numbers(log.oldest(Query(), limit=9)) == [2]

    def test_a_person_is_forgotten(self, home: Home, log: LogReader) -> None:
        """In whatever case: address and bodies go, all else stays, and nothing is tried again."""
        keep(home, entry(1), parked(2, minutes=1, recipient="s1@example.com"), parked(3, minutes=1))
        before = home.logged()
        assert log.forget("S1@Example.com") == 2
        for row in before[:2]:
            row.update(recipient=None, body=None, retry_at=None)
        assert home.logged() == before
        assert log.forget("S1@Example.com") == 0

    def test_a_person_is_forgotten_in_bodies_that_could_not_be_read(
        self, home: Home, log: LogReader
    ) -> None:
        """A body that told nobody whose it is goes where the address is in it."""
        keep(home, *(entry(n, recipient=None, body=f'{{"To": "S{n}@x.com"') for n in (1, 2)))
        assert [log.forget(each) for each in ("", "1@x.com", "s1@x.co", "s1@x.com")] == [0, 0, 0, 1]
        assert [row["body"] for row in home.logged()] == [None, '{"To": "S2@x.com"']

    def test_a_person_is_forgotten_in_bodies_that_are_escaped(
        self, home: Home, log: LogReader
    ) -> None:
        """An address that is not ASCII is found in a body that had to be escaped."""
        record(home.store, [Arrival(None, '{"To": "zoë@x.com"\0'.encode(), NOON)])
        assert [row["body"] for row in home.logged()] == ['{"To": "zo\\xc3\\xab@x.com"\\x00']
        assert log.forget("ZOë@x.com") == 1

    def test_entries_are_counted(self, home: Home, log: LogReader) -> None:
        """By how they ended last, and with when the last of those came; in a range of ids."""
        again = NOON + HOUR
        keep(home, *map(entry, (1, 2)), parked(3, minutes=1), entry(4), parked(5, minutes=1))
        keep(home, entry(2, last_received_at=again), entry(5), entry(6))
        first, _ = log.bounds() or (0, 0)
        assert dict(log.ends(first + 1, first + 4)) == {
            Ending.RECORDED: Ended(3, again),
            Ending.DISPATCH_NOT_FOUND: Ended(1, NOON),
        }


def _late(*told: Notification) -> list[Arrival]:
    """Return notifications that came at noon as they arrive from the log."""
    return [Arrival(each, repr(each).encode(), NOON, live=False, attempts=0) for each in told]


def _live(arrivals: Sequence[Arrival]) -> list[Arrival]:
    """Return the arrivals as they first came."""
    return [replace(each, live=True, attempts=1) for each in arrivals]


class ReplayContract:
    """Recording what came earlier, and trying out what that would change."""

    @pytest.fixture(autouse=True)
    def _filled(self, home: Home) -> None:
        """Begin with a few rows and an empty log."""
        fill(home)

    def test_rows_are_read_as_they_are(self, home: Home) -> None:
        """What notifications set in each, of the columns that there are, uncommitted or not."""
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

    def test_a_rehearsal_says_what_would_change(self, home: Home) -> None:
        """The rows before and after; and then nothing has changed."""
        before = home.rows(), home.logged()
        [told] = _late(opens("ada@example.com", "m-ada"))
        rehearsal = rehearse(home.store, told)
        row = (Suppressible.DISPATCH, home.key(1))
        assert isinstance(rehearsal.outcome, Recorded)
        assert list(rehearsal.before) == list(rehearsal.after) == [row]
        assert rehearsal.before[row]["opened_at"] is None
        assert rehearsal.after[row] == {**rehearsal.before[row], "opened_at": NOON}
        assert (home.rows(), home.logged()) == before

    def test_a_rehearsal_of_a_refusal_changes_nothing(self, home: Home) -> None:
        """It tells how it would end, and no row."""
        [told] = _late(opens("ada@example.com", "m-nowhere"))
        rehearsal = rehearse(home.store, told)
        assert statuses([rehearsal.outcome]) == [404]
        assert rehearsal.before == rehearsal.after == {}

    def test_a_rehearsal_minds_the_guard(self, home: Home) -> None:
        """Where the row holds something newer, before and after are the same."""
        newer = arrival(Opened("ada@example.com", "m-ada", NOON + SECOND))
        record(home.store, [newer])
        [told] = _late(opens("ada@example.com", "m-ada"))
        rehearsal = rehearse(home.store, told)
        assert isinstance(rehearsal.outcome, Recorded)
        assert rehearsal.before == rehearsal.after
        assert [state["opened_at"] for state in rehearsal.after.values()] == [NOON + SECOND]

    def test_a_rehearsal_ends_as_the_recording(self, home: Home) -> None:
        """Of a suppression: each row that it is about, as it is afterwards."""
        [told] = _late(Suppressed("ada@example.com", "m-ada", NOON, "HardBounce"))
        rehearsal = rehearse(home.store, told)
        assert [rehearsal.outcome] == record_late(home.store, [told], quiet=Quiet())
        with home.store.transaction() as transaction:
            assert transaction.read(rehearsal.after.keys()) == rehearsal.after

    def test_late_ones_are_recorded_and_not_counted(self, home: Home) -> None:
        """As they came: what is newer stays, what is refused is refused again."""
        told = _late(opens("ada@example.com", "m-ada"), opens("ada@example.com", "m-nowhere"))
        record(home.store, _live([*told, told[1]]))
        first = timeless(home)
        assert statuses(record_late(home.store, told, quiet=Quiet())) == [200, 404]
        assert timeless(home) == first

    def test_only_the_ready_are_recorded(self, home: Home) -> None:
        """The others stay in the log as they are, when to try them again included."""
        told = _late(
            opens("ada@example.com", "m-ada"),
            opens("ada@example.com", "m-nowhere"),
            Reactivated("nobody@example.com", None, NOON),
        )
        keep(home, *entries(_live(told), fail(told), NOON))
        before = {row["body"]: row for row in home.logged()}
        assert record_ready(home.store, told[1:], quiet=Quiet()) == ([], [])
        ready, outcomes = record_ready(home.store, told, quiet=Quiet())
        assert (ready, statuses(outcomes)) == (told[:1], [200])
        after = {row["body"]: row for row in home.logged()}
        recorded = after[told[0].body.decode()]
        assert {body: row for body, row in after.items() if row != before[body]} == {
            recorded["body"]: recorded
        }
        columns = ("outcome", "first_outcome", "status", "attempts", "retry_at")
        assert [recorded[name] for name in columns] == ["recorded", "failed", 200, 1, None]

    def test_all_that_is_meant_comes_in_groups(self, home: Home) -> None:
        """Oldest first, each once."""
        keep(home, *map(entry, range(1, 2 * GROUP + 2)))
        groups = list(matching(reader(home), Query(outcome=Ending.RECORDED)))
        assert [len(group) for group in groups] == [GROUP, GROUP, 1]
        assert numbers(each for group in groups for each in group) == list(range(1, 2 * GROUP + 2))


class LogContract(KeepContract, ReadContract, ReplayContract):
    """All that a store with a log does."""


class NoLogContract:
    """A store whose log is turned off."""

    def test_nothing_is_kept(self, home: Home) -> None:
        """Notifications are recorded as ever, and there is nothing to be read."""
        fill(home)
        assert home.store.log is None
        told = _late(opens("ada@example.com", "m-ada"), opens("ada@example.com", "m-nowhere"))
        assert statuses(record(home.store, told)) == [200, 404]
        keep_failed(home.store, told)
        keep(home, entry())
        assert home.logged() == []
        assert [row["opened_at"] for row in home.rows()["dispatches"]] == [NOON, None, None, None]
