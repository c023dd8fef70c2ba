"""What every store does, whatever is behind it: each test here runs over all of them.

A subclass brings a `home`. What depends on which columns there are, or on rows
that our own tables forbid, is a class of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Thread
from typing import Any

import pytest
from homes import SUPPRESSION, Home, Rows, columns_of

from hookrow import Arrival, Delivered, Opened, Outcome, Reactivated, Recorded, Refused, Suppressed
from hookrow.decide import mentioned
from hookrow.notification import (
    Change,
    EventTime,
    Key,
    Mentioned,
    Notification,
    RowId,
    SetSuppression,
    SetTime,
    Suppressible,
)
from hookrow.notification import Rows as Found
from hookrow.recording import is_reachable, keep_failed, record
from hookrow.retry import Retry
from hookrow.schema import OTHERWISE
from hookrow.stores import Store

NOON = datetime(2026, 3, 4, 12, 0, 0, 123456, tzinfo=UTC)
SECOND = timedelta(seconds=1)
TICK = timedelta(microseconds=1)


def arrival(notification: Notification, *, live: bool = True) -> Arrival:
    """Return the notification as it arrives at noon."""
    return Arrival(notification, b"{}", NOON, live)


def fill(home: Home) -> None:
    """Put in three subscribers, two lists, three subscriptions, and four dispatches."""
    key = home.key
    home.fill(
        subscribers=[
            {"id": key(1), "email": "ada@example.com"},
            {"id": key(2), "email": "Bea.Upper@Example.COM"},
            {"id": key(3), "email": "zoë@example.net"},
        ],
        subscriptions=[
            {"list_id": key(1), "subscriber_id": key(1)},
            {"list_id": key(1), "subscriber_id": key(2)},
            {"list_id": key(2), "subscriber_id": key(1)},
        ],
        dispatches=[
            dispatch(home, 1, "m-ada", owner=1, list_=1),
            dispatch(home, 2, "m-bea", owner=2, list_=2),
            dispatch(home, 3, None, owner=1, list_=1),
            dispatch(home, 4, "m-none", owner=1, list_=None),
        ],
    )


def dispatch(
    home: Home, number: int, message_id: str | None, *, owner: int | None, list_: int | None
) -> dict[str, Any]:
    """Return a dispatch's row."""
    return {
        "id": home.key(number),
        "provider_message_id": message_id,
        "subscriber_id": None if owner is None else home.key(owner),
        "list_id": None if list_ is None else home.key(list_),
    }


def find(home: Home, *notifications: Notification) -> Found:
    """Find what the notifications mention."""
    with home.store.reading() as reading:
        return reading.find(mentioned([arrival(each) for each in notifications]))


def save(home: Home, *changes: Change) -> None:
    """Lock and save the changes one by one, each in a transaction of its own."""
    for change in changes:
        with home.store.transaction() as transaction:
            assert not transaction.lock([change.row])
            transaction.write([change])


def insistent(store: Store, *, seconds: float = 5.0) -> Retry:
    """Record as a receiver without a spool does, with all that it does about faults."""
    return Retry(
        partial(record, store),
        fail=partial(keep_failed, store),
        reachable=partial(is_reachable, store),
        spool=len,
        seconds=seconds,
    )


def statuses(outcomes: Sequence[Outcome]) -> list[int]:
    """Return the status that each outcome is answered with."""
    return [each.refusal.status if isinstance(each, Refused) else 200 for each in outcomes]


def dispatch_row(home: Home, number: int) -> dict[str, Any]:
    """Read a dispatch."""
    return home.rows()["dispatches"][number - 1]


def opens(recipient: str | None, message_id: str | None) -> Opened:
    """Return an open at noon."""
    return Opened(recipient, message_id, NOON)


class FindContract:
    """Finding rows."""

    def test_a_subscriber_is_found_whatever_the_case(self, home: Home) -> None:
        """ASCII letters of either case match, and the email comes back as the table spells it."""
        fill(home)
        for recipient in ("ada@example.com", "ADA@example.com", "Ada@EXAMPLE.com"):
            [found] = find(home, opens(recipient, None)).subscribers["ada@example.com"]
            assert (found.id, found.email) == (home.key(1), "ada@example.com")

    def test_a_row_in_upper_case_is_found(self, home: Home) -> None:
        """The case of the row's own email does not matter either."""
        fill(home)
        [found] = find(home, opens("bea.upper@example.com", None)).subscribers[
            "bea.upper@example.com"
        ]
        assert (found.id, found.email) == (home.key(2), "Bea.Upper@Example.COM")

    def test_only_ascii_is_folded(self, home: Home) -> None:
        """Beyond ASCII two cases are two mailboxes: Ë is not ë."""
        fill(home)
        found = find(home, opens("zoë@example.net", None), opens("ZOË@example.net", None))
        assert {email: len(rows) for email, rows in found.subscribers.items()} == {
            "zoë@example.net": 1
        }
        assert find(home, opens("ZOë@EXAMPLE.net", None)).subscribers["zoë@example.net"]

    def test_another_text_finds_nobody(self, home: Home) -> None:
        """Nothing is trimmed, no pattern is matched, and no text does harm."""
        fill(home)
        before = home.rows()
        for recipient in (
            *(" ada@example.com", "ada@example.com ", "ada@example.com\n", "%@example.com"),
            *("ada_example.com", "' OR '1'='1", "ada@example.com'--", "\\", "🦄@example.com"),
            *("", "ada@example.com\0", "\ud800@example.com", "a" * 400, None),
        ):
            assert statuses(record(home.store, [arrival(opens(recipient, "m-ada"))])) == [404]
        assert home.rows() == before

    def test_a_dispatch_comes_with_its_owner_and_list(self, home: Home) -> None:
        """What is found is who it belongs to, by id and by email, and which list."""
        fill(home)
        [found] = find(home, opens("ada@example.com", "m-bea")).dispatches["m-bea"]
        assert (found.id, found.owner, found.owner_email) == (
            *(home.key(2), home.key(2), "Bea.Upper@Example.COM"),
        )
        if "list_id" in columns_of(home.schema, "dispatches"):
            assert found.list == home.key(2)

    def test_another_message_id_finds_no_dispatch(self, home: Home) -> None:
        """A message id matches to the letter; none matches a dispatch that was not sent yet."""
        fill(home)
        before = home.rows()
        for message_id in (
            *(None, "", "null", "None", "M-ADA", "m-ada ", " m-ada", "m-ad_", "m-%", "m-ada\0"),
            *("\ud800", "m" * 300, "0", "' OR '1'='1", "🦄"),
        ):
            told = opens("ada@example.com", message_id)
            assert not find(home, told).dispatches
            assert statuses(record(home.store, [arrival(told)])) == [404]
        assert home.rows() == before

    def test_the_subscriptions_that_exist_are_found(self, home: Home) -> None:
        """Of the pairs that a change could be for, those that have a row."""
        fill(home)
        found = find(
            home,
            Reactivated("ada@example.com", "m-ada", NOON),
            Reactivated("bea.upper@example.com", "m-bea", NOON),
        )
        there = (home.key(1), home.key(1)) in found.subscriptions
        assert there is ("subscriptions" in home.schema.roles)
        assert (home.key(2), home.key(2)) not in found.subscriptions

    def test_a_subscription_is_found_whoever_got_the_dispatch(self, home: Home) -> None:
        """It is the recipient's to the dispatch's list, though the dispatch went to another."""
        fill(home)
        found = find(home, Reactivated("ada@example.com", "m-bea", NOON))
        there = (home.key(2), home.key(1)) in found.subscriptions
        assert there is ("subscriptions" in home.schema.roles)

    def test_nothing_mentioned_is_nothing_found(self, home: Home) -> None:
        """An empty group is no error, and finds no row."""
        fill(home)
        with home.store.transaction() as transaction:
            found = transaction.find(Mentioned((), (), ()))
            assert not transaction.lock([])
            transaction.write([])
        assert not found.subscribers
        assert not found.dispatches

    def test_a_dispatch_is_found_alone(self, home: Home) -> None:
        """A message id is enough: nobody's address has to be mentioned with it."""
        fill(home)
        with home.store.transaction() as transaction:
            found = transaction.find(Mentioned((), {"m-ada"}, ()))
        assert list(found.dispatches) == ["m-ada"]

    def test_a_large_group_is_found(self, home: Home) -> None:
        """Several thousand mentions fit into one group."""
        many = range(1, 3001)
        home.fill(
            subscribers=[{"id": home.key(n), "email": f"s{n}@example.com"} for n in many],
            dispatches=[dispatch(home, n, f"m{n}", owner=n, list_=None) for n in many],
        )
        arrivals = [arrival(opens(f"s{n}@example.com", f"m{n}")) for n in many]
        assert statuses(record(home.store, arrivals)) == [200] * len(many)
        assert all(row["opened_at"] == NOON for row in home.rows()["dispatches"])


class TransactionContract:
    """Everything or nothing."""

    def test_what_is_saved_can_be_seen_at_the_end(self, home: Home) -> None:
        """When the block ends others see the change."""
        fill(home)
        with home.store.transaction() as transaction:
            transaction.write([SetTime(home.key(1), EventTime.OPENED, NOON, guarded=False)])
        assert dispatch_row(home, 1)["opened_at"] == NOON

    def test_an_error_in_the_block_changes_nothing(self, home: Home) -> None:
        """The error comes through as it is, what was saved is not, and the store goes on."""
        fill(home)
        before = home.rows()
        change = SetTime(home.key(1), EventTime.OPENED, NOON, guarded=False)
        with pytest.raises(ZeroDivisionError), home.store.transaction() as transaction:  # noqa: PT012
            transaction.lock([change.row])
            transaction.write([change])
            raise ZeroDivisionError
        assert home.rows() == before
        save(home, change)
        assert dispatch_row(home, 1)["opened_at"] == NOON

    def test_rows_that_nobody_holds_are_locked(self, home: Home) -> None:
        """`lock` returns the rows that it did not get: none, also where it would skip them."""
        fill(home)
        wanted: list[RowId] = [
            (Suppressible.SUBSCRIBER, home.key(1)),
            (Suppressible.SUBSCRIBER, home.key(2)),
            (Suppressible.DISPATCH, home.key(1)),
        ]
        if "subscriptions" in home.schema.roles:
            wanted.append((Suppressible.SUBSCRIPTION, (home.key(1), home.key(1))))
        for skip_locked in (False, True):
            with home.store.transaction(skip_locked=skip_locked) as transaction:
                assert not transaction.lock(wanted)

    def test_a_group_is_recorded_whole(self, home: Home) -> None:
        """Of one group each is judged by itself, and all that may be recorded is."""
        fill(home)
        later = NOON + SECOND
        outcomes = record(
            home.store,
            [
                arrival(Delivered("ada@example.com", "m-ada", NOON)),
                arrival(Opened("nobody@example.com", "m-ada", NOON)),
                arrival(Opened("bea.upper@example.com", "m-ada", NOON)),
                arrival(Opened("ada@example.com", "m-ada", later)),
                arrival(Suppressed("bea.upper@example.com", "m-nowhere", NOON, "HardBounce")),
            ],
        )
        assert statuses(outcomes) == [200, 404, 400, 200, 200]
        assert isinstance(outcomes[2], Refused)
        assert outcomes[2].text == (
            "Dispatch subscriber ada@example.com does not match payload recipient "
            "bea.upper@example.com"
        )
        row = dispatch_row(home, 1)
        assert (row["delivered_at"], row["opened_at"]) == (NOON, later)
        assert [row["suppressed_at"] for row in home.rows()["subscribers"]] == [None, NOON, None]


class TimeContract:
    """Setting a time of a dispatch."""

    @pytest.mark.parametrize("column", EventTime)
    @pytest.mark.parametrize(
        ("present", "guarded", "expected"),
        [
            pytest.param(None, False, NOON, id="live-on-none"),
            pytest.param(None, True, NOON, id="guarded-on-none"),
            pytest.param(NOON + TICK, False, NOON, id="live-on-later"),
            pytest.param(NOON + TICK, True, NOON + TICK, id="guarded-on-later"),
            pytest.param(NOON, True, NOON, id="guarded-on-equal"),
            pytest.param(NOON - TICK, True, NOON, id="guarded-on-earlier"),
        ],
    )
    def test_a_guard_keeps_a_later_time(
        self,
        home: Home,
        column: EventTime,
        present: datetime | None,
        expected: datetime,
        *,
        guarded: bool,
    ) -> None:
        """Without a guard the time is set, with one only where there is none or an earlier one."""
        home.fill(
            subscribers=[{"id": home.key(1), "email": "ada@example.com"}],
            dispatches=[
                {**dispatch(home, n, f"m{n}", owner=1, list_=None), column.value: present}
                for n in (1, 2)
            ],
        )
        before = home.rows()
        save(home, SetTime(home.key(1), column, NOON, guarded=guarded))
        before["dispatches"][0][column.value] = expected
        assert home.rows() == before

    def test_whole_seconds_compare_with_microseconds(self, home: Home) -> None:
        """A time without a fraction is earlier than the same second with one."""
        fill(home)
        whole = NOON.replace(microsecond=0)
        save(
            home,
            SetTime(home.key(1), EventTime.OPENED, whole, guarded=False),
            SetTime(home.key(1), EventTime.OPENED, whole + TICK, guarded=True),
            SetTime(home.key(1), EventTime.OPENED, whole, guarded=True),
        )
        assert dispatch_row(home, 1)["opened_at"] == whole + TICK


def _targets(home: Home) -> list[tuple[str, Suppressible, Key | tuple[Key, Key]]]:
    """List a row of each kind that keeps when its suppression last changed."""
    one = home.key(1)
    rows: list[tuple[str, Suppressible, Key | tuple[Key, Key]]] = [
        ("subscribers", Suppressible.SUBSCRIBER, one),
        ("dispatches", Suppressible.DISPATCH, one),
        ("subscriptions", Suppressible.SUBSCRIPTION, (one, one)),
    ]
    return [
        row
        for row in rows
        if row[0] in home.schema.roles
        and "suppression_changed_at" in columns_of(home.schema, row[0])
    ]


def _suppressed(home: Home, name: str, state: Sequence[Any]) -> Rows:
    """Fill the home with the first row of a table in a state of suppression; return all rows."""
    fill(home)
    before = home.rows()
    before[name][0].update(
        {
            column: value
            for column, value in zip(SUPPRESSION, state, strict=True)
            if column in columns_of(home.schema, name)
        }
    )
    home.fill(**before)
    return home.rows()


class SuppressionContract:
    """Suppressing rows that keep when they last changed."""

    @pytest.mark.parametrize("reason", ["HardBounce", None])
    @pytest.mark.parametrize(
        ("changed_at", "applies"),
        [
            pytest.param(None, True, id="on-unknown"),
            pytest.param(NOON - TICK, True, id="on-earlier"),
            pytest.param(NOON, True, id="on-equal"),
            pytest.param(NOON + TICK, False, id="on-later"),
        ],
    )
    def test_a_late_change_changes_nothing(
        self, home: Home, changed_at: datetime | None, reason: str | None, *, applies: bool
    ) -> None:
        """A change applies where the last one is unknown, older or of the same time."""
        for name, kind, key in _targets(home):
            for present in ((NOON - SECOND, "ManualSuppression"), (None, None)):
                _suppressed(home, name, (*present, changed_at))
                save(home, SetSuppression(kind, key, NOON, reason, guarded=True))
                after = (reason and NOON, reason, NOON) if applies else (*present, changed_at)
                rows = home.rows()
                assert rows == _suppressed(home, name, after)

    @pytest.mark.parametrize("reason", ["so viel ß, 🦄", "x" * 5000, "a 'quote' and \\ more"])
    def test_a_reason_is_kept_as_it_came(self, home: Home, reason: str) -> None:
        """Whatever the reason says, however long, it is stored to the letter, or as all others."""
        kept = reason if home.schema.reasons is None else OTHERWISE
        for name, kind, key in _targets(home):
            if "suppression_reason" in columns_of(home.schema, name):
                fill(home)
                save(home, SetSuppression(kind, key, NOON, reason, guarded=True))
                assert home.rows()[name][0]["suppression_reason"] == kept

    @pytest.mark.parametrize(("group", "length"), [(1, 1_000_000), (256, 10_000)])
    def test_long_reasons_do_not_stop_the_store(self, home: Home, group: int, length: int) -> None:
        """A group may say more than a socket's buffer holds: it is recorded, not stuck."""
        emails = [f"s{number}@example.com" for number in range(group)]
        home.fill(
            subscribers=[{"id": home.key(n), "email": email} for n, email in enumerate(emails, 1)]
        )
        told = [arrival(Suppressed(email, None, NOON, "x" * length)) for email in emails]
        outcomes: list[Outcome] = []
        recording = Thread(target=lambda: outcomes.extend(record(home.store, told)), daemon=True)
        recording.start()
        recording.join(20)
        assert statuses(outcomes) == [200] * group
        assert {row["suppressed_at"] for row in home.rows()["subscribers"]} == {NOON}

    def test_a_change_of_one_kind_of_row_spares_the_others(self, home: Home) -> None:
        """A subscriber and a dispatch with the same id are two rows."""
        for name, kind, key in _targets(home):
            fill(home)
            save(home, SetSuppression(kind, key, NOON, "HardBounce", guarded=True))
            rows = home.rows()
            assert rows == _suppressed(home, name, (NOON, "HardBounce", NOON))

    def test_suppressing_reaches_all_that_is_there(self, home: Home) -> None:
        """The subscriber, the dispatch and the subscription, each where it has the columns."""
        fill(home)
        expected = home.rows()
        told = Suppressed("ada@example.com", "m-ada", NOON, "HardBounce")
        assert statuses(record(home.store, [arrival(told)])) == [200]
        for name, _, _ in _targets(home):
            _suppress(home, expected, name)
        assert home.rows() == expected

    def test_a_dispatch_without_a_list_has_no_subscription(self, home: Home) -> None:
        """Then the subscriber and the dispatch are suppressed, and that is all."""
        fill(home)
        expected = home.rows()
        told = Suppressed("ada@example.com", "m-none", NOON, "HardBounce")
        assert statuses(record(home.store, [arrival(told)])) == [200]
        _suppress(home, expected, "subscribers")
        _suppress(home, expected, "dispatches", 3)
        assert home.rows() == expected

    def test_a_list_without_the_subscriber_is_left_alone(self, home: Home) -> None:
        """A dispatch may name a list that its subscriber has left: no row is made."""
        fill(home)
        expected = home.rows()
        told = Suppressed("bea.upper@example.com", "m-bea", NOON, "HardBounce")
        assert statuses(record(home.store, [arrival(told)])) == [200]
        _suppress(home, expected, "subscribers", 1)
        _suppress(home, expected, "dispatches", 1)
        assert home.rows() == expected

    def test_another_subscribers_dispatch_is_suppressed_too(self, home: Home) -> None:
        """Whoever the dispatch belongs to, and the Recipient's own subscription to its list."""
        fill(home)
        expected = home.rows()
        told = Suppressed("bea.upper@example.com", "m-ada", NOON, "HardBounce")
        assert statuses(record(home.store, [arrival(told)])) == [200]
        _suppress(home, expected, "subscribers", 1)
        _suppress(home, expected, "dispatches", 0)
        if "subscriptions" in expected:
            _suppress(home, expected, "subscriptions", 1)
        assert home.rows() == expected

    def test_lifting_reaches_all_that_is_there(self, home: Home) -> None:
        """Lifted rows have no time and no reason, and keep when that was."""
        fill(home)
        expected = home.rows()
        told: list[Notification] = [
            Suppressed("ada@example.com", "m-ada", NOON - SECOND, "HardBounce"),
            Reactivated("ada@example.com", "m-ada", NOON),
        ]
        for each in told:
            assert statuses(record(home.store, [arrival(each)])) == [200]
        for name, _, _ in _targets(home):
            _suppress(home, expected, name, state=(None, None, NOON))
        assert home.rows() == expected


def _suppress(
    home: Home,
    rows: Rows,
    name: str,
    index: int = 0,
    state: Sequence[Any] = (NOON, "HardBounce", NOON),
) -> None:
    for column, value in zip(SUPPRESSION, state, strict=True):
        if column in columns_of(home.schema, name):
            rows[name][index][column] = value


class StoreContract(FindContract, TransactionContract, TimeContract, SuppressionContract):
    """All that every store does where suppressions are dated."""


class UndatedContract(FindContract, TransactionContract, TimeContract):
    """All that every store does where suppressions are not dated."""

    def test_the_last_change_to_arrive_wins(self, home: Home) -> None:
        """However old it says it is, where the row cannot tell."""
        fill(home)
        expected = home.rows()
        told: list[Notification] = [
            Suppressed("ada@example.com", "m-ada", NOON, "SpamComplaint"),
            Suppressed("ada@example.com", "m-ada", NOON - SECOND, "HardBounce"),
        ]
        for each in told:
            assert statuses(record(home.store, [arrival(each)])) == [200]
        for name in home.schema.roles:
            _suppress(home, expected, name, state=(NOON - SECOND, "HardBounce", None))
        assert home.rows() == expected
        lifted = Reactivated("ada@example.com", "m-ada", NOON - 2 * SECOND)
        record(home.store, [arrival(lifted)])
        fill_again = home.rows()
        for name in home.schema.roles:
            _suppress(home, expected, name, state=(None, None, None))
        assert fill_again == expected

    def test_a_late_change_applies(self, home: Home) -> None:
        """Such a row cannot tell what is late: it takes a replay as it takes a live change."""
        told = Suppressed("ada@example.com", "m-ada", NOON, "HardBounce")
        ends = []
        for live in (True, False):
            fill(home)
            assert statuses(record(home.store, [arrival(told, live=live)])) == [200]
            ends.append(home.rows())
        assert ends[0] == ends[1]
        assert any(row["suppressed_at"] == NOON for row in ends[1]["subscribers"])


class HostContract:
    """What our own tables forbid and a host's may hold."""

    def test_of_emails_that_differ_by_case_the_exact_one_wins(self, home: Home) -> None:
        """The row that is spelled as the Recipient is; where none is, the lowest id."""
        emails = ["ADA@example.com", "Ada@example.com", "ada@example.com"]
        home.fill(
            subscribers=[{"id": home.key(n), "email": email} for n, email in enumerate(emails, 1)]
        )
        found = find(home, opens("Ada@example.com", None)).subscribers["ada@example.com"]
        assert {row.email for row in found} == set(emails)
        for recipient, number in (("Ada@example.com", 2), ("aDA@example.com", 1)):
            outcome = record(home.store, [arrival(Reactivated(recipient, None, NOON))])[0]
            assert isinstance(outcome, Recorded)
            assert [change.row for change in outcome.changes] == [
                (Suppressible.SUBSCRIBER, home.key(number))
            ]

    def test_of_equal_message_ids_the_recipients_own_wins(self, home: Home) -> None:
        """The dispatch of the Recipient's own; where there is none, the lowest id."""
        home.fill(
            subscribers=[{"id": home.key(n), "email": f"s{n}@example.com"} for n in (1, 2, 3)],
            dispatches=[
                dispatch(home, 1, "twice", owner=1, list_=None),
                dispatch(home, 2, "twice", owner=2, list_=None),
            ],
        )
        told = [arrival(opens(f"s{n}@example.com", "twice")) for n in (2, 1, 3)]
        outcomes = record(home.store, told)
        assert statuses(outcomes) == [200, 200, 400]
        assert isinstance(outcomes[2], Refused)
        assert "subscriber s1@example.com does" in outcomes[2].text
        changed = [each.changes[0].row[1] for each in outcomes[:2] if isinstance(each, Recorded)]
        assert changed == [home.key(2), home.key(1)]

    def test_a_dispatch_of_nobody_belongs_to_nobody(self, home: Home) -> None:
        """A dispatch whose owner is null or gone answers 400, and can be suppressed."""
        home.fill(
            subscribers=[{"id": home.key(1), "email": "ada@example.com"}],
            dispatches=[
                dispatch(home, 1, "m-null", owner=None, list_=None),
                dispatch(home, 2, "m-gone", owner=9, list_=None),
            ],
        )
        before = home.rows()
        told = [arrival(opens("ada@example.com", message)) for message in ("m-null", "m-gone")]
        outcomes = record(home.store, told)
        assert statuses(outcomes) == [400, 400]
        assert home.rows() == before
        lifted = arrival(Reactivated("ada@example.com", "m-gone", NOON))
        assert statuses(record(home.store, [lifted])) == [200]
