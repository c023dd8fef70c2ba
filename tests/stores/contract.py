"""The contract of every store: finding rows, transactions, times, suppressions and counts.

A subclass supplies `home`. What depends on the columns that exist, or on rows that hookrow's
own tables forbid, is in classes of its own.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID

import pytest
from homes import OURS, SUPPRESSION, Home, Rows, columns_of

from copying import replace
from hookrow import (
    Arrival,
    Delivered,
    Opened,
    Outcome,
    Reactivated,
    Recorded,
    Refused,
    Suppressed,
)
from hookrow._core.notification import (
    Change,
    EventTime,
    LookupKeys,
    Notification,
    Refusal,
    RowId,
    SetSuppression,
    SetTime,
    Source,
    Suppressible,
)
from hookrow._core.notification import Rows as Found
from hookrow._core.rules import fail, fold, lookup_keys
from hookrow._core.schema import OTHERWISE
from hookrow._receiver.clock import Clock, utc_now
from hookrow._receiver.entries import POSTMARK
from hookrow._receiver.receiver import ArrivalReader
from hookrow._receiver.recorder import GroupRecorder, keep_failed, record
from hookrow._receiver.replay import ParkedRetry, dry_run
from hookrow._receiver.spool import Drain, Spool
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._row_counts import ListCount, Undelivered
from hookrow.stores.sql._suppressions import (
    Filter,
    SuppressionCursor,
    SuppressionRange,
    find_causes,
)
from hookrow.testing import suppression
from received import arrival as arrival_of
from times import SECOND

NOON = datetime(2026, 3, 4, 12, 0, 0, 123456, tzinfo=UTC)
TICK = timedelta(microseconds=1)

ADA, BEA, ZOE = "ada@example.com", "bea.upper@example.com", "zoë@example.net"
NEVER = (None, None, None)
"""The three columns of a suppression in a row that was never suppressed."""


def arrival(notification: Notification, *, live: bool = True) -> Arrival:
    """Return the notification as it arrives at noon."""
    return Arrival((notification,), b"{}", NOON, Source.LIVE if live else Source.REPLAY)


def opens(recipient: str | None, message_id: str | None) -> Opened:
    return Opened(recipient, message_id, NOON)


def fill(home: Home, state: Sequence[Any] = NEVER) -> None:
    """Insert three subscribers, three subscriptions to two lists, and four dispatches.

    The first row of each table gets a state of suppression.
    """
    key, first = home.key, dict(zip(SUPPRESSION, state, strict=True))
    home.fill(
        subscribers=[
            {"id": key(1), "email": ADA, **first},
            {"id": key(2), "email": "Bea.Upper@Example.COM"},
            {"id": key(3), "email": ZOE},
        ],
        subscriptions=[
            {"list_id": key(1), "subscriber_id": key(1), **first},
            {"list_id": key(1), "subscriber_id": key(2)},
            {"list_id": key(2), "subscriber_id": key(1)},
        ],
        dispatches=[
            {**dispatch(home, 1, "m-ada", owner=1, list_=1), **first},
            dispatch(home, 2, "m-bea", owner=2, list_=2),
            dispatch(home, 3, None, owner=1, list_=1),
            dispatch(home, 4, "m-none", owner=1),
        ],
    )


def dispatch(
    home: Home, number: int, message_id: str | None, *, owner: int | None, list_: int | None = None
) -> dict[str, Any]:
    return {
        "id": home.key(number),
        "provider_message_id": message_id,
        "subscriber_id": None if owner is None else home.key(owner),
        "list_id": None if list_ is None else home.key(list_),
    }


def fill_many(home: Home, numbers: Sequence[int]) -> None:
    """Insert numbered subscribers, each with a dispatch and a subscription to the same list."""
    home.fill(
        subscribers=[{"id": home.key(n), "email": f"S{n}@example.com"} for n in numbers],
        subscriptions=[{"list_id": home.key(1), "subscriber_id": home.key(n)} for n in numbers],
        dispatches=[dispatch(home, n, f"m{n}", owner=n, list_=1) for n in numbers],
    )


def fill_two_tenants(home: Home) -> None:
    """Insert two people with one email, each with a dispatch, t1 and t2, to the same list."""
    home.fill(
        subscribers=[{"id": home.key(n), "email": ADA} for n in (1, 2)],
        subscriptions=[{"list_id": home.key(1), "subscriber_id": home.key(n)} for n in (1, 2)],
        dispatches=[dispatch(home, n, f"t{n}", owner=n, list_=1) for n in (1, 2)],
    )


def find(home: Home, *notifications: Notification) -> Found:
    """Find the rows that the notifications mention."""
    with home.store.reading() as reading:
        return reading.find(lookup_keys([arrival(each) for each in notifications]))


def save(home: Home, change: Change) -> None:
    """Lock a row that no other transaction holds, and save a change to it."""
    with home.store.transaction() as transaction:
        assert not transaction.lock([change.row])
        transaction.write([change])


def insistent(
    store: SQLStore, *, seconds: float = 5.0
) -> Callable[[Sequence[Arrival]], list[Outcome]]:
    """Return a function that records as a receiver without a spool does, errors included."""
    return GroupRecorder(
        store,
        bodies=True,
        seconds=seconds,
        spool=partial(fail, refusal=Refusal.UNAVAILABLE),
        clock=utc_now,
    ).wait


def statuses(outcomes: Sequence[Outcome]) -> list[int]:
    return [each.refusal.status if isinstance(each, Refused) else 200 for each in outcomes]


def respond(home: Home, *notifications: Notification) -> list[int]:
    """Record the notifications as one group; return the statuses."""
    return statuses(record(home.store, [arrival(each) for each in notifications]))


def has_lists(home: Home) -> bool:
    return "subscriptions" in home.schema.roles


def has_times_of_creation(home: Home) -> bool:
    """Return whether the home has hookrow's own tables.

    Only these have times of creation and names of lists.
    """
    return home.schema == OURS


class FindContract:
    def test_email_ignores_only_ascii_case(self, home: Home) -> None:
        """The email is returned as it is stored. Ë and ë are two mailboxes."""
        fill(home)
        for number, stored, recipients in (
            (1, ADA, (ADA, "ADA@example.com", "Ada@EXAMPLE.com")),
            (2, "Bea.Upper@Example.COM", (BEA, BEA.upper())),
            (3, ZOE, (ZOE, "ZOë@EXAMPLE.net")),
        ):
            for recipient in recipients:
                [found] = find(home, opens(recipient, None)).subscribers[stored.lower()]
                assert (found.id, found.email) == (home.key(number), stored)
        both = find(home, opens(ZOE, None), opens("ZOË@example.net", None)).subscribers
        assert [(email, len(rows)) for email, rows in both.items()] == [(ZOE, 1)]

    def test_texts_that_match_no_row(self, home: Home) -> None:
        """No text is trimmed, interpreted as a pattern or as SQL, or equal to null."""
        fill(home)
        before = home.rows()
        for recipient in (
            *(f" {ADA}", f"{ADA} ", f"{ADA}\n", "%@example.com", "ada_example.com"),
            *("' OR '1'='1", "ada@example.com'--", "\\", "🦄@example.com", ""),
            *(f"{ADA}\0", "\ud800@example.com", "a" * 400, None),
        ):
            assert respond(home, opens(recipient, "m-ada")) == [404]
        for message_id in (
            *(None, "", "null", "None", "M-ADA", "m-ada ", " m-ada", "m-ad_", "m-%", "m-ada\0"),
            *("\ud800", "m" * 300, "0", "' OR '1'='1", "🦄"),
        ):
            assert not find(home, opens(ADA, message_id)).dispatches
            assert respond(home, opens(ADA, message_id)) == [404]
        assert home.rows() == before

    def test_dispatch(self, home: Home) -> None:
        """A dispatch is found with its owner's id and email and its list, even by itself."""
        fill(home)
        [found] = find(home, opens(ADA, "m-bea")).dispatches["m-bea"]
        owner = (home.key(2), "Bea.Upper@Example.COM")
        assert (found.id, found.owner, found.owner_email) == (home.key(2), *owner)
        assert found.list == home.key(2) or "list_id" not in columns_of(home.schema, "dispatches")
        with home.store.transaction() as transaction:
            assert [*transaction.find(LookupKeys({"m-ada"})).dispatches] == ["m-ada"]

    def test_subscriptions(self, home: Home) -> None:
        """The recipient's subscription to the dispatch's list is found, whoever owns the dispatch.

        Pairs without a row are not.
        """
        fill(home)
        own = find(home, Reactivated(ADA, "m-ada", NOON), Reactivated(BEA, "m-bea", NOON))
        assert ((home.key(1), home.key(1)) in own.subscriptions) is has_lists(home)
        assert (home.key(2), home.key(2)) not in own.subscriptions
        others = find(home, Reactivated(ADA, "m-bea", NOON))
        assert ((home.key(2), home.key(1)) in others.subscriptions) is has_lists(home)

    def test_empty_group(self, home: Home) -> None:
        fill(home)
        with home.store.transaction() as transaction:
            found = transaction.find(LookupKeys(()))
            assert not transaction.lock([])
            transaction.write([])
        assert not found.subscribers
        assert not found.dispatches

    def test_message_to_several_subscribers(self, home: Home) -> None:
        """Dispatches may share a message id: the recipient's own one wins, then the lowest id."""
        home.fill(
            subscribers=[{"id": home.key(n), "email": f"s{n}@example.com"} for n in (1, 2, 3)],
            dispatches=[dispatch(home, n, "shared", owner=n) for n in (1, 2)],
        )
        sent = [arrival(opens(f"s{n}@example.com", "shared")) for n in (2, 1, 3)]
        *recorded, refused = record(home.store, sent)
        assert "subscriber s1@example.com does" in getattr(refused, "text", "")
        changed = [each.changes[0].row[1] for each in recorded if isinstance(each, Recorded)]
        assert changed == [home.key(2), home.key(1)]
        for n, own in ((2, 2), (3, 1)):
            before = home.rows()["dispatches"]
            change = Suppressed(f"s{n}@example.com", "shared", NOON + n * SECOND, "HardBounce")
            assert respond(home, change) == [200]
            after = home.rows()["dispatches"]
            pairs = zip(before, after, strict=True)
            assert [row["id"] for old, row in pairs if old != row] == [home.key(own)]


class TransactionContract:
    def test_rollback(self, home: Home) -> None:
        """An error in the block is raised unchanged and undoes all changes; the next one works."""
        fill(home)
        before = home.rows()
        change = SetTime(home.key(1), EventTime.OPENED, NOON, guarded=False)
        lift = SetSuppression(Suppressible.SUBSCRIBER, home.key(1), NOON, None, guarded=True)
        with pytest.raises(ZeroDivisionError), home.store.transaction() as transaction:  # noqa: PT012
            transaction.lock([change.row, lift.row])
            transaction.write([change, lift])
            raise ZeroDivisionError
        assert (home.rows(), home.dates()) == (before, [])
        with home.store.transaction(skip_locked=True) as transaction:
            assert not transaction.lock([change.row, (Suppressible.SUBSCRIBER, home.key(2))])
            transaction.write([change])
        assert home.rows()["dispatches"][0]["opened_at"] == NOON

    def test_group(self, home: Home) -> None:
        """Each notification of a group is decided separately, and all valid ones are recorded."""
        fill(home)
        sent: list[Notification] = [
            Delivered(ADA, "m-ada", NOON),
            Opened("nobody@example.com", "m-ada", NOON),
            Opened(BEA, "m-ada", NOON),
            Opened(ADA, "m-ada", NOON + SECOND),
            Suppressed(BEA, "m-nowhere", NOON, "HardBounce"),
        ]
        outcomes = record(home.store, [arrival(each) for each in sent])
        assert statuses(outcomes) == [200, 404, 400, 200, 200]
        expected = f"Dispatch subscriber {ADA} does not match payload recipient {BEA}"
        assert getattr(outcomes[2], "text", "") == expected
        rows = home.rows()
        row = rows["dispatches"][0]
        assert (row["delivered_at"], row["opened_at"]) == (NOON, NOON + SECOND)
        assert [row["suppressed_at"] for row in rows["subscribers"]] == [None, NOON, None]


class TimeContract:
    @pytest.mark.parametrize("column", [EventTime.DELIVERED, EventTime.OPENED])
    def test_time_guard(self, home: Home, column: EventTime) -> None:
        """A guarded change sets the time only if the row has none or an earlier one."""
        whole = NOON.replace(microsecond=0)
        cases = (
            # present, set, guarded, expected
            (None, NOON, False, NOON),
            (None, NOON, True, NOON),
            (NOON + TICK, NOON, False, NOON),
            (NOON + TICK, NOON, True, NOON + TICK),
            (NOON, NOON, True, NOON),
            (NOON - TICK, NOON, True, NOON),
            # A time without a fraction is earlier than the same second with one.
            (whole, whole + TICK, True, whole + TICK),
            (whole + TICK, whole, True, whole + TICK),
        )
        rows = [dispatch(home, n, f"m{n}", owner=1) for n in range(len(cases) + 1)]
        for row, (present, *_) in zip(rows, cases, strict=False):
            row[column.value] = present
        home.fill(subscribers=[{"id": home.key(1), "email": ADA}], dispatches=rows)
        expected = home.rows()
        for n, (_, at, guarded, after) in enumerate(cases):
            save(home, SetTime(home.key(n), column, at, guarded=guarded))
            expected["dispatches"][n][column.value] = after
        assert home.rows() == expected


def _dated(home: Home) -> dict[str, RowId]:
    """Return the first row of each role that stores when its suppression last changed."""
    one = home.key(1)
    first: dict[str, RowId] = {
        "subscribers": (Suppressible.SUBSCRIBER, one),
        "dispatches": (Suppressible.DISPATCH, one),
        "subscriptions": (Suppressible.SUBSCRIPTION, (one, one)),
    }
    return {
        name: row
        for name, row in first.items()
        if name in home.schema.roles and "suppression_changed_at" in columns_of(home.schema, name)
    }


def suppress(
    home: Home,
    rows: Rows,
    numbers: Mapping[str, int],
    state: Sequence[Any] = (NOON, "HardBounce", NOON),
) -> None:
    """Suppress rows that were read: in each role, the row with the given number."""
    for name, number in numbers.items():
        if name in rows:
            columns = columns_of(home.schema, name)
            new = dict(zip(SUPPRESSION, state, strict=True))
            rows[name][number - 1].update({each: new[each] for each in new if each in columns})


FIRST = {"subscribers": 1, "dispatches": 1, "subscriptions": 1}


class ZoneContract:
    def test_time_with_an_offset(self, home: Home) -> None:
        """Times with any offset are stored and compared in UTC."""
        fill(home)
        zone = timezone(timedelta(hours=2))
        id_, later = home.key(1), NOON + SECOND
        opened = SetTime(id_, EventTime.OPENED, NOON.astimezone(zone), guarded=True)
        save(home, opened)
        save(home, SetTime(id_, EventTime.OPENED, NOON - SECOND, guarded=True))
        kind = Suppressible.SUBSCRIBER
        save(home, SetSuppression(kind, id_, later.astimezone(zone), "HardBounce", guarded=True))
        with home.store.reading() as reading:
            state = reading.read([opened.row, (kind, id_)])
        assert state[opened.row]["opened_at"] == NOON
        assert state[kind, id_]["suppressed_at"] == later
        rows = home.rows()
        assert rows["dispatches"][0]["opened_at"] == NOON
        assert rows["subscribers"][0]["suppressed_at"] == later


class SuppressionContract:
    """Suppressing rows that store the date of their last change."""

    @pytest.mark.parametrize("reason", ["HardBounce", None])
    @pytest.mark.parametrize(
        ("changed_at", "applies"),
        [(None, True), (NOON - TICK, True), (NOON, True), (NOON + TICK, False)],
        ids=["unknown", "earlier", "equal", "later"],
    )
    def test_suppression_guard(
        self, home: Home, changed_at: datetime | None, reason: str | None, *, applies: bool
    ) -> None:
        """A change applies if the time of the last one is unknown, earlier or the same."""
        for present in ((NOON - SECOND, "ManualSuppression"), (None, None)):
            fill(home, (*present, changed_at))
            expected = home.rows()
            for name, row in _dated(home).items():
                save(home, SetSuppression(*row, NOON, reason, guarded=True))
                if applies:
                    suppress(home, expected, {name: 1}, (reason and NOON, reason, NOON))
            assert home.rows() == expected

    @pytest.mark.parametrize("reason", ["so viel ß, 🦄", "x" * 5000, "a 'quote' and \\ more"])
    def test_reason(self, home: Home, reason: str) -> None:
        """Any reason is stored verbatim, or as the schema maps unlisted reasons."""
        kept = reason if home.schema.reasons is None else OTHERWISE
        fill(home)
        expected = home.rows()
        for name, row in _dated(home).items():
            save(home, SetSuppression(*row, NOON, reason, guarded=True))
            suppress(home, expected, {name: 1}, (NOON, kept, NOON))
        assert home.rows() == expected

    @pytest.mark.parametrize(
        ("recipient", "message_id", "rows"),
        [
            (ADA, "m-ada", FIRST),
            # A dispatch without a list has no subscription.
            (ADA, "m-none", {"subscribers": 1, "dispatches": 4}),
            # The recipient has left the list: no row is created.
            (BEA, "m-bea", {"subscribers": 2, "dispatches": 2}),
            # Another subscriber's dispatch, and the recipient's own subscription to its list.
            (BEA, "m-ada", {"subscribers": 2, "dispatches": 1, "subscriptions": 2}),
        ],
    )
    def test_suppress_and_lift(
        self, home: Home, recipient: str, message_id: str, rows: dict[str, int]
    ) -> None:
        """Existing rows change; lifting removes time and reason, and stores its own time."""
        fill(home)
        expected = home.rows()
        assert respond(home, Suppressed(recipient, message_id, NOON, "HardBounce")) == [200]
        suppress(home, expected, rows)
        assert home.rows() == expected
        assert respond(home, Reactivated(recipient, message_id, NOON + SECOND)) == [200]
        suppress(home, expected, rows, (None, None, NOON + SECOND))
        assert home.rows() == expected


class StoreContract(
    FindContract, TransactionContract, TimeContract, ZoneContract, SuppressionContract
):
    """The contract of every store in which suppressions are dated."""


class LargeContract:
    def test_large_group(self, home: Home) -> None:
        """A group may have more members than some databases accept parameters."""
        many = range(1, 1101)
        fill_many(home, many)
        sent = [Arrival((opens(f"s{n}@example.com", f"m{n}"),), b"%d" % n, NOON) for n in many]
        assert statuses(record(home.store, sent)) == [200] * len(many)
        assert {row["opened_at"] for row in home.rows()["dispatches"]} == {NOON}
        assert len(home.logged()) == len(many)

    @pytest.mark.parametrize(("group", "length"), [(1, 1_000_000), (256, 10_000)])
    def test_long_reasons(self, home: Home, group: int, length: int) -> None:
        """A group may be larger than a socket's buffer."""
        numbers = range(1, group + 1)
        fill_many(home, numbers)
        sent = [Suppressed(f"s{n}@example.com", None, NOON, "x" * length) for n in numbers]
        answers: list[int] = []
        recording = Thread(target=lambda: answers.extend(respond(home, *sent)), daemon=True)
        recording.start()
        recording.join(20)
        assert answers == [200] * group
        assert {row["suppressed_at"] for row in home.rows()["subscribers"]} == {NOON}


class LateContract:
    """Suppressing rows whose last change is dated beside the log."""

    @pytest.mark.parametrize("live", [True, False], ids=["live", "late"])
    def test_older_change(self, home: Home, *, live: bool) -> None:
        """A change applies unless the last one is newer, even if it is recorded late."""
        fill(home, (NOON, "ManualSuppression", None))
        expected = home.rows()
        for at, reason, applies in (
            (NOON, None, True),  # by the host: it has no date
            (NOON - TICK, "HardBounce", False),
            (NOON, "SpamComplaint", True),
            (NOON + TICK, None, True),
            (NOON, "HardBounce", False),
        ):
            given = (ADA, "m-ada", at)
            sent = arrival(Suppressed(*given, reason) if reason else Reactivated(*given), live=live)
            assert statuses(record(home.store, [sent])) == [200]
            if applies:
                suppress(home, expected, FIRST, (reason and at, reason, None))
            assert home.rows() == expected
        assert {at for *_, at in home.dates()} == {NOON + TICK}

    def test_keys(self, home: Home) -> None:
        """Dates are kept by the names of the roles, and by keys as text."""
        fill(home)
        assert respond(home, Suppressed(BEA, "m-ada", NOON, "HardBounce")) == [200]
        one, two = (key.hex if isinstance(key, UUID) else str(key) for key in map(home.key, (1, 2)))
        assert home.dates() == [
            ("dispatches", one, NOON),
            ("subscribers", two, NOON),
            ("subscriptions", f'["{one}","{two}"]', NOON),
        ]

    def test_two_changes_of_a_row(self, home: Home) -> None:
        """A group may set a time and the suppression of one dispatch."""
        fill(home)
        for at in (NOON, NOON - SECOND):
            sent = Delivered(ADA, "m-ada", at), Suppressed(ADA, "m-ada", at, "HardBounce")
            assert respond(home, *sent) == [200, 200]
            row = home.rows()["dispatches"][0]
            assert (row["delivered_at"], row["suppressed_at"]) == (at, NOON)


class UndatedContract:
    """Suppressing rows without a date of their last change, because there is no log."""

    def test_last_change_to_arrive_wins(self, home: Home) -> None:
        """However old it is, even if it comes from the spool: without a date, no change is late."""
        fill(home)
        expected = home.rows()
        for seconds, reason, live in (
            (0, "SpamComplaint", True),
            (1, "HardBounce", True),
            (2, "ManualSuppression", False),
        ):
            at = NOON - seconds * SECOND
            sent = arrival(Suppressed(ADA, "m-ada", at, reason), live=live)
            assert statuses(record(home.store, [sent])) == [200]
            suppress(home, expected, FIRST, (at, reason, None))
            assert home.rows() == expected
        assert respond(home, Reactivated(ADA, "m-ada", NOON - 3 * SECOND)) == [200]
        suppress(home, expected, FIRST, NEVER)
        assert home.rows() == expected


class HostContract:
    """Rows that hookrow's own tables forbid and a host's may contain."""

    def test_emails_that_differ_by_case(self, home: Home) -> None:
        """The exact match wins, then the lowest id."""
        emails = ["ADA@example.com", "Ada@example.com", ADA]
        home.fill(
            subscribers=[{"id": home.key(n), "email": email} for n, email in enumerate(emails, 1)]
        )
        found = find(home, opens("Ada@example.com", None)).subscribers[ADA]
        assert {row.email for row in found} == set(emails)
        for recipient, number in (("Ada@example.com", 2), ("aDA@example.com", 1)):
            [outcome] = record(home.store, [arrival(Reactivated(recipient, None, NOON))])
            assert isinstance(outcome, Recorded)
            changed = [change.row for change in outcome.changes]
            assert changed == [(Suppressible.SUBSCRIBER, home.key(number))]

    @pytest.mark.parametrize("live", [True, False])
    def test_equal_emails(self, home: Home, *, live: bool) -> None:
        """The owner of the dispatch is changed, and no other person with the same email."""
        fill_two_tenants(home)
        for number in (2, 1):
            own: list[RowId] = [(Suppressible.SUBSCRIBER, home.key(number))]
            own.append((Suppressible.DISPATCH, home.key(number)))
            if has_lists(home):
                own.append((Suppressible.SUBSCRIPTION, (home.key(1), home.key(number))))
            message_id = f"t{number}"
            for notification, rows in (
                (Suppressed("ADA@example.com", message_id, NOON, "SpamComplaint"), own),
                (Reactivated(ADA, message_id, NOON), own),
                (Delivered(ADA, message_id, NOON), own[1:2]),
            ):
                [outcome] = record(home.store, [arrival(notification, live=live)])
                assert isinstance(outcome, Recorded)
                assert [change.row for change in outcome.changes] == rows
            record(home.store, [arrival(Suppressed(ADA, message_id, NOON, "SpamComplaint"))])
            columns = {"subscribers": "suppressed_at", "dispatches": "delivered_at"}
            set_ = {
                name: [each[column] is not None for each in home.rows()[name]]
                for name, column in columns.items()
            }
            assert set_ == {name: [number == 1, True] for name in columns}

    @pytest.mark.parametrize("way", ["sweep", "drain"])
    def test_equal_emails_later(self, home: Home, way: str, tmp_path: Path) -> None:
        """A sweep and the draining of the spool find the same person."""
        fill_two_tenants(home)
        body = json.dumps(suppression(ADA, "t2", at=NOON)).encode()
        complaint = arrival_of(body, datetime.now(UTC) - timedelta(hours=1))
        log, clock = home.store.log, Clock(home.store)
        assert log is not None
        if way == "sweep":
            keep_failed(home.store, [complaint], clock=lambda: complaint.received_at)
            assert ParkedRetry(home.store, log, POSTMARK, lambda *_: None, clock).retry_due() == 1
        else:
            spool = Spool(tmp_path / "spool.db", home.store.mapping_key)
            spool.put([complaint])
            Drain(
                spool,
                home.store,
                ArrivalReader(POSTMARK).parse,
                lambda *_: None,
                clock,
                bodies=True,
                swept=True,
            )()
            assert spool.count() == 0
        suppressed = [row["suppressed_at"] for row in home.rows()["subscribers"]]
        assert suppressed == [None, NOON]

    def test_equal_emails_in_a_dry_run(self, home: Home) -> None:
        """A dry run reports the same rows, and changes none."""
        fill_two_tenants(home)
        before = home.rows()
        late = arrival(Suppressed(ADA, "t2", NOON, "SpamComplaint"), live=False)
        rows = dry_run(home.store, late).after
        own = {(kind, home.key(2)) for kind in (Suppressible.SUBSCRIBER, Suppressible.DISPATCH)}
        assert {row for row in rows if row[0] is not Suppressible.SUBSCRIPTION} == own
        assert home.rows() == before

    def test_dispatch_without_owner(self, home: Home) -> None:
        """A dispatch whose owner is null or deleted results in 400, and can be suppressed."""
        home.fill(
            subscribers=[{"id": home.key(1), "email": ADA}],
            dispatches=[
                dispatch(home, 1, "m-null", owner=None),
                dispatch(home, 2, "m-gone", owner=9),
            ],
        )
        before = home.rows()
        assert respond(home, opens(ADA, "m-null"), opens(ADA, "m-gone")) == [400, 400]
        assert home.rows() == before
        assert respond(home, Reactivated(ADA, "m-gone", NOON)) == [200]


class CensusContract:
    """Counting the rows that the schema does not exclude."""

    def test_lists(self, home: Home) -> None:
        """Rows without a list come first."""
        home.fill()
        assert [each for each in home.store.row_counts.lists() if each.sent] == []
        fill(home)
        given = (opens(ADA, "m-ada"), Delivered(BEA, "m-bea", NOON), Delivered(ADA, "m-none", NOON))
        assert respond(home, *given, Suppressed(ADA, "m-ada", NOON, "HardBounce")) == [200] * 4
        found = home.store.row_counts.lists()
        if not has_lists(home):
            assert found == [ListCount(list=None, sent=3, delivered=2, opened=1)]
            return
        name = "a list" if has_times_of_creation(home) else None
        assert {each.name for each in found if each.list} == {name}
        assert [replace(each, name=None) for each in found] == [
            ListCount(list=None, sent=1, delivered=1, opened=0, subscribed=0, suppressed=0),
            ListCount(list=home.key(1), sent=1, delivered=0, opened=1, subscribed=2, suppressed=1),
            ListCount(list=home.key(2), sent=1, delivered=1, opened=0, subscribed=1, suppressed=0),
        ]

    def test_suppressed(self, home: Home) -> None:
        """Suppressed subscribers are counted by reason, as the table stores it, if it does."""
        fill(home)
        assert home.store.row_counts.suppressed() == {}
        reasons = {ADA: "HardBounce", BEA: "SpamComplaint", ZOE: "HardBounce"}
        respond(home, *(Suppressed(email, None, NOON, word) for email, word in reasons.items()))
        expected: dict[str | None, int] = {None: 3}
        if "suppression_reason" in home.schema.columns("subscribers"):
            words = ((word, reasons[BEA] == word) for word in ("HardBounce", "SpamComplaint"))
            expected = {str(home.schema.reason(word)): 1 if one else 2 for word, one in words}
        assert home.store.row_counts.suppressed() == expected

    def test_sent(self, home: Home) -> None:
        """The time of sending is read if a column has it: `created_at` of hookrow's tables."""
        fill(home)
        begin = datetime.now(UTC) - timedelta(minutes=1)
        sent = home.store.row_counts.sent(["m-ada", "m-bea", "m-nowhere"])
        assert set(sent) == ({"m-ada", "m-bea"} if has_times_of_creation(home) else set())
        assert all(begin < at <= datetime.now(UTC) for at in sent.values())
        assert home.store.row_counts.sent([]) == {}

    def test_sent_between(self, home: Home) -> None:
        """The dispatches of a period are counted by the time of sending, if a column has it."""
        fill(home)
        now, day = datetime.now(UTC), timedelta(days=1)
        row_counts = home.store.row_counts
        if not has_times_of_creation(home):
            assert row_counts.sent_between(now - day, now + day) is None
            assert row_counts.undelivered(now - day) is None
            return
        assert row_counts.sent_between(now - day, now + day) == (3, 0, 0)
        assert respond(home, Delivered(ADA, "m-ada", NOON)) == [200]
        assert respond(home, opens("bea.upper@example.com", "m-bea")) == [200]
        assert row_counts.sent_between(now - day, now + day) == (3, 1, 1)
        assert row_counts.undelivered(now - day) == 2
        assert row_counts.undelivered(now + day) == 0
        for since in (now - 2 * day, now + day):
            assert row_counts.sent_between(since, since + day) == (0, 0, 0)

    def test_list_undelivered(self, home: Home) -> None:
        """The order is that of the keys if the times are equal or not known; pages continue it."""
        fill(home)
        row_counts, long_ago = home.store.row_counts, NOON - timedelta(days=9999)
        whole = row_counts.list_undelivered(long_ago, limit=99)
        assert len(whole) == row_counts.undelivered()
        assert len(whole) > 2
        assert len({each.message_id for each in whole}) == len(whole)
        pages: list[Undelivered] = []
        after = None
        while page := row_counts.list_undelivered(long_ago, after=after, limit=2):
            pages += page
            after = page[-1].cursor
        assert pages == whole
        assert respond(home, Delivered(ADA, "m-ada", NOON)) == [200]
        left = [each.message_id for each in whole if each.message_id != "m-ada"]
        assert [each.message_id for each in row_counts.list_undelivered(long_ago, limit=99)] == left
        if has_times_of_creation(home):
            times = [each.sent_at for each in whole]
            assert times == sorted(times)
            future = datetime.now(UTC) + timedelta(days=1)
            assert row_counts.list_undelivered(future, limit=99) == []


class ReadSuppressionsContract:
    """Reading the suppressed subscribers that the schema does not exclude."""

    def test_order(self, home: Home) -> None:
        """The order is that of time and key, in both directions, and continues after any row."""
        reader = suppressed(home).store.suppressions
        for oldest in (False, True):
            whole = reader.read(SuppressionRange(oldest=oldest), Filter(), limit=9)
            emails = [each.email.lower() for each in whole]
            assert sorted(emails[:2] if oldest else emails[1:]) == [ADA, BEA]
            assert emails[2 if oldest else 0] == ZOE
            assert {each.suppressed_at for each in whole} == {NOON, NOON + TICK}
            span = SuppressionRange(oldest=oldest)
            for number, each in enumerate(whole, 1):
                assert reader.read(span, Filter(), limit=1) == [each]
                assert reader.step(span, 1, None) == each.cursor
                assert reader.step(SuppressionRange(oldest=oldest), number, None) == each.cursor
                until = span._replace(end=each.cursor)
                assert reader.read(until, Filter(), limit=9) == [each]
                span = span._replace(after=SuppressionCursor.parse(str(each.cursor)))
            assert reader.step(span, 1, None) is reader.step(SuppressionRange(), 4, None) is None
            assert reader.read(span, Filter(), limit=9) == []

    def test_filters(self, home: Home) -> None:
        """Subscribers are filtered and counted by reason, list, time and entry."""
        reader = suppressed(home).store.suppressions
        has_reasons = "suppression_reason" in home.schema.columns("subscribers")
        stored = str(home.schema.reason("HardBounce")) if has_reasons else ""
        assert reader.reason_name(stored) == ("HardBounce" if has_reasons else "")
        lists = reader.lists(limit=9)
        assert list(lists) == ([home.key(1), home.key(2)] if has_lists(home) else [])
        expected = [
            (Filter(), [ADA, BEA, ZOE]),
            (Filter(since=NOON + TICK), [ZOE]),
            (Filter(reason="no such"), []),
            (Filter(reason=stored), [ADA, ZOE] if has_reasons else [ADA, BEA, ZOE]),
            (Filter(reason=""), [] if has_reasons else [ADA, BEA, ZOE]),
            (Filter(entry="sendgrid"), [BEA, ZOE] if home.schema.log else []),
            (Filter(entry="sendgrid", since=NOON + TICK), [ZOE] if home.schema.log else []),
            (Filter(entry="brevo"), []),
        ]
        if lists:
            both = Filter(list=home.key(1), reason=stored)
            expected += [
                (Filter(list=home.key(1)), [ADA, BEA]),
                (Filter(list=home.key(2)), [ADA]),
                (both, [ADA] if has_reasons else [ADA, BEA]),
            ]
        for selected, emails in expected:
            found = reader.read(SuppressionRange(), selected, limit=9)
            assert sorted(each.email.lower() for each in found) == emails
            assert reader.count(SuppressionRange(), selected, limit=9) == len(emails)
            assert reader.count(SuppressionRange(), selected, limit=1) == min(len(emails), 1)
        reasons = {
            each.email: each.reason for each in reader.read(SuppressionRange(), Filter(), limit=9)
        }
        assert reasons[ADA] == ("HardBounce" if has_reasons else "")

    def test_causes(self, home: Home) -> None:
        """The log has the notification that suppressed a subscriber."""
        reader = suppressed(home).store.suppressions
        found = reader.read(SuppressionRange(oldest=True), Filter(), limit=9)
        causes = find_causes(reader, found)
        if home.schema.log is None:
            assert causes == {}
            return
        logged = {row["recipient"]: row["id"] for row in home.logged() if row["reason"]}
        assert [causes[each.cursor].id for each in found] == [
            logged[fold(each.email)] for each in found
        ]
        assert {each.message_id for each in causes.values()} == {"m-ada", None, "m-nowhere"}
        later = [each._replace(suppressed_at=NOON + SECOND) for each in found]
        assert find_causes(reader, later) == find_causes(reader, []) == {}


def suppressed(home: Home) -> Home:
    """Suppress all three subscribers, two of them at the same time.

    The last event has another effect, which is refused because there is no such dispatch.
    """
    fill(home)
    dropped = Suppressed(ZOE, "m-nowhere", NOON + TICK, "HardBounce")
    events: list[tuple[str, Sequence[Notification]]] = [
        ("postmark", [Suppressed(ADA, "m-ada", NOON, "HardBounce")]),
        ("sendgrid", [Suppressed(BEA, None, None, "SpamComplaint")]),
        ("sendgrid", [Delivered(ZOE, "m-nowhere", NOON + TICK), dropped]),
        ("brevo", [Reactivated(ADA, None, NOON - TICK)]),
    ]
    for entry, effects in events:
        record(home.store, [Arrival(effects, repr(effects).encode(), NOON, entry=entry)])
    return home
