"""The rule book, rule by rule, and the law: a group ends as its members would, one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, TypeAlias
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookrow.decide import (
    PROBE,
    decide,
    fold,
    is_message_id,
    is_probe,
    mentioned,
    merge,
    pairs,
    refuse_held,
    wanted,
)
from hookrow.notification import (
    Arrival,
    Change,
    Delivered,
    Dispatch,
    EventTime,
    Key,
    Notification,
    Opened,
    Outcome,
    Reactivated,
    Recorded,
    Refusal,
    Refused,
    RowId,
    Rows,
    SetSuppression,
    SetTime,
    Subscriber,
    Suppressed,
    Suppressible,
    Unsupported,
)

NOW = datetime(2026, 3, 5, 12, 0, 0, tzinfo=UTC)
EARLIER = NOW - timedelta(hours=3)
LATER = NOW - timedelta(hours=1)
DAY = timedelta(hours=24)
MOMENT = timedelta(microseconds=1)

ADA, BEA = "ada@example.com", "bea+news@example.org"

# Ada has id 1 and Bea 2; the dispatches m-1 and m-2 are theirs and went to the list 7.
ROWS = Rows(
    subscribers={ADA: [Subscriber(1, ADA)], BEA: [Subscriber(2, BEA)]},
    dispatches={
        "m-1": [Dispatch(11, 1, ADA, 7)],
        "m-2": [Dispatch(12, 2, BEA, 7)],
        "no-list": [Dispatch(13, 1, ADA, None)],
    },
    subscriptions={(7, 1)},
)

NO_SUBSCRIBER = Refused(Refusal.SUBSCRIBER_NOT_FOUND, "Engine::Subscriber not found")
NO_DISPATCH = Refused(Refusal.DISPATCH_NOT_FOUND, "Engine::Dispatch not found")

# A text that no row can hold, or no row is to be found by.
UNSTORABLE = [
    pytest.param(None, id="none"),
    pytest.param("", id="empty"),
    pytest.param("a\0b", id="NUL"),
    pytest.param("\0", id="only NUL"),
    pytest.param("a\ud800b", id="high surrogate"),
    pytest.param("a\udfffb", id="low surrogate"),
    pytest.param("\ud83d\ude00", id="two surrogates"),
]

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _arrival(
    notification: Notification | None, *, live: bool = True, received_at: datetime = NOW
) -> Arrival:
    return Arrival(notification, b"{}", received_at, live)


def _decide(notification: Notification | None, rows: Rows = ROWS, *, live: bool = True) -> Outcome:
    return decide(_arrival(notification, live=live), rows)


def _changes(outcome: Outcome) -> Sequence[Change]:
    assert isinstance(outcome, Recorded)
    return list(outcome.changes)


def _suppressions(outcome: Outcome) -> Sequence[SetSuppression]:
    changes = [change for change in _changes(outcome) if isinstance(change, SetSuppression)]
    assert changes == _changes(outcome)
    return changes


class TestFold:
    @pytest.mark.parametrize(
        ("email", "folded"),
        [
            ("", ""),
            ("ada@example.com", "ada@example.com"),
            ("ADA@Example.COM", "ada@example.com"),
            ("[\\]^_`{|}~@AZ", "[\\]^_`{|}~@az"),
            ("ZOË.Müller@Example.NET", "zoË.müller@example.net"),
            ("İ@EXAMPLE.COM", "İ@example.com"),
            ("\N{KELVIN SIGN}@K", "\N{KELVIN SIGN}@k"),
            ("ΣΟΦΙΑ@X", "ΣΟΦΙΑ@x"),
            ("ẞ@X", "ẞ@x"),
            ("Аda@X", "Аda@x"),  # noqa: RUF001 - Cyrillic
            ("A\ud800@X", "a\ud800@x"),
            ("A\ud83d\ude00@X", "a\ud83d\ude00@x"),
            (" A ", " a "),
            ("A\0B", "a\0b"),
        ],
    )
    def test_ascii_letters_only(self, email: str, folded: str) -> None:
        """ASCII letters are lowered, and everything else stays what and where it was."""
        assert fold(email) == folded

    @relaxed
    @given(st.text(st.characters()))
    def test_letter_by_letter(self, email: str) -> None:
        """Folding takes one letter at a time, whichever text it is given."""
        assert fold(email) == "".join(
            chr(ord(letter) + 32) if "A" <= letter <= "Z" else letter for letter in email
        )


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        *[("m", True), ("ü" * 255, True)],
        *[("m" * 256, False), ("", False), (None, False), ("m\0", False), ("m\ud800", False)],
    ],
)
def test_is_message_id(text: str | None, *, possible: bool) -> None:
    """A message id is of 1 to 255 characters that every database takes."""
    assert is_message_id(text) is possible


class TestIsProbe:
    @pytest.mark.parametrize(
        ("recipient", "probe"),
        [
            (PROBE, True),
            (PROBE.upper(), True),
            ("other@hookrow.invalid", False),
            (ADA, False),
            ("", False),
            (None, False),
        ],
    )
    def test_by_its_recipient(self, recipient: str | None, *, probe: bool) -> None:
        """Whatever the type, supported or not."""
        unsupported = Unsupported("HookrowCheck", recipient)
        for arrival in (
            Arrival(Reactivated(recipient, "m-1", None), b"", NOW),
            Arrival(Delivered(recipient, "m-1", NOW), b"", NOW),
            Arrival(None, b"", NOW, unsupported=unsupported),
        ):
            assert is_probe(arrival) is probe


class TestMentioned:
    def test_nothing(self) -> None:
        """A group without a notification that is supported mentions nothing."""
        for arrivals in ([], [_arrival(None), _arrival(None)]):
            found = mentioned(arrivals)
            assert not any((found.emails, found.message_ids, found.changed))

    def test_each_once(self) -> None:
        """Emails are folded, message ids are not, and each is mentioned once."""
        found = mentioned(
            [
                _arrival(Delivered("ADA@example.com", "m-1", NOW)),
                _arrival(Opened("ada@example.com", "m-1", NOW)),
                _arrival(Opened("Zoë@example.com", "M-1", NOW)),
            ]
        )
        assert sorted(found.emails) == ["ada@example.com", "zoë@example.com"]
        assert sorted(found.message_ids) == ["M-1", "m-1"]

    @pytest.mark.parametrize(
        ("notification", "changed"),
        [
            (Delivered(ADA, "m-1", NOW), set()),
            (Opened(ADA, "m-1", NOW), set()),
            (Suppressed("ADA@example.com", "m-1", NOW, "HardBounce"), {("m-1", ADA)}),
            (Reactivated("ADA@example.com", "m-1", None), {("m-1", ADA)}),
            (Reactivated(ADA, None, None), set()),
        ],
    )
    def test_subscriptions(
        self, notification: Notification, changed: Collection[tuple[str, str]]
    ) -> None:
        """Only what changes a subscription asks for the subscriptions of its dispatch."""
        assert set(mentioned([_arrival(notification)]).changed) == changed

    @pytest.mark.parametrize("message_id", [*UNSTORABLE, "m" * 256, "ö" * 256])
    def test_message_id_of_no_row(self, message_id: str | None) -> None:
        """A message id that no row can hold is left out; the subscriber is looked for."""
        found = mentioned([_arrival(Suppressed(ADA, message_id, None, "HardBounce"))])
        assert set(found.emails) == {ADA}
        assert not any((found.message_ids, found.changed))

    @pytest.mark.parametrize("recipient", [*UNSTORABLE, "a" * 321, "ö" * 321])
    def test_email_of_no_row(self, recipient: str | None) -> None:
        """For an email that no row can hold nothing is looked for."""
        found = mentioned([_arrival(Suppressed(recipient, "m-1", None, "HardBounce"))])
        assert not any((found.emails, found.message_ids, found.changed))

    @pytest.mark.parametrize("letter", ["a", "ö", "😀"])
    @pytest.mark.parametrize(("of_email", "of_message_id"), [(1, 1), (320, 255)])
    def test_shortest_and_longest(self, letter: str, of_email: int, of_message_id: int) -> None:
        """From one character on, an email of up to 320 and a message id of 255 are looked for."""
        email, message_id = letter * of_email, letter * of_message_id
        found = mentioned([_arrival(Reactivated(email, message_id, None))])
        assert set(found.emails) == {email}
        assert set(found.message_ids) == {message_id}
        assert set(found.changed) == {(message_id, email)}

    @relaxed
    @given(st.lists(st.tuples(st.text(st.characters()), st.text(st.characters())), max_size=5))
    def test_all_of_it_can_be_stored(self, addresses: list[tuple[str, str]]) -> None:
        """Whatever a group mentions, PostgreSQL takes it: UTF-8, not empty and without NUL."""
        found = mentioned([_arrival(Reactivated(email, id_, None)) for email, id_ in addresses])
        for text in (*found.emails, *found.message_ids):
            assert text
            assert b"\0" not in text.encode("utf-8")


@pytest.mark.parametrize(
    ("message_id", "email", "found"),
    [
        ("m-1", ADA, {(7, 1)}),
        ("m-1", BEA, {(7, 2)}),
        ("no-list", ADA, set()),
        ("m-3", ADA, set()),
        ("m-1", "eve@example.com", set()),
    ],
)
def test_pairs(message_id: str, email: str, found: set[tuple[Key, Key]]) -> None:
    """A change means the subscription of the Recipient to the dispatch's list, whosever it is."""
    group = mentioned([_arrival(Reactivated(email, message_id, None))])
    assert pairs(group, ROWS.subscribers, ROWS.dispatches) == found


def test_a_kind_that_no_rule_is_for() -> None:
    """A notification of a kind that no rule is for is a mistake of ours, never passed over."""
    bounced: Any = SimpleNamespace(recipient=ADA, message_id="m-1")
    with pytest.raises(AssertionError):
        _decide(bounced)


class TestOrderOfChecks:
    """Form, subscriber, dispatch, owner: the first that fails is the answer."""

    def test_form(self) -> None:
        """What is not supported is refused before anything is looked at."""
        refused = Refused(Refusal.UNSUPPORTED, "Webhook payload not supported")
        assert _decide(None) == _decide(None, Rows({}, {})) == refused

    @pytest.mark.parametrize("message_id", ["m-1", "m-9", None])
    def test_subscriber(self, message_id: str | None) -> None:
        """Where nobody has the email it does not matter whether the dispatch is there."""
        nobody = "nobody@example.net"
        for notification in (
            Delivered(nobody, message_id, NOW),
            Opened(nobody, message_id, NOW),
            Suppressed(nobody, message_id, NOW, "HardBounce"),
            Reactivated(nobody, message_id, NOW),
        ):
            assert _decide(notification) == NO_SUBSCRIBER

    @pytest.mark.parametrize(
        "recipient", [*UNSTORABLE, " ada@example.com", "ada@example.com ", "%"]
    )
    def test_email_of_nobody(self, recipient: str | None) -> None:
        """An email is never trimmed, matched by pattern or by being absent."""
        assert _decide(Delivered(recipient, "m-1", NOW)) == NO_SUBSCRIBER
        assert _decide(Reactivated(recipient, "m-1", NOW)) == NO_SUBSCRIBER

    @pytest.mark.parametrize("message_id", [*UNSTORABLE, "m-9", "M-1", "{m-1}", " m-1"])
    def test_dispatch(self, message_id: str | None) -> None:
        """A message id is compared exactly; without its dispatch nothing is delivered or opened."""
        assert _decide(Delivered(ADA, message_id, NOW)) == NO_DISPATCH
        assert _decide(Opened(ADA, message_id, NOW)) == NO_DISPATCH

    @pytest.mark.parametrize("kind", [Delivered, Opened])
    def test_owner(self, kind: type[Delivered | Opened]) -> None:
        """A dispatch that belongs to another is refused, and the text names both."""
        assert _decide(kind(ADA, "m-2", NOW)) == Refused(
            Refusal.RECIPIENT_MISMATCH,
            "Dispatch subscriber bea+news@example.org does not match "
            "payload recipient ada@example.com",
        )

    def test_recipient_as_it_came(self) -> None:
        """The text spells the recipient as it came and the owner as the table does."""
        rows = Rows(
            {ADA: [Subscriber(1, "Ada@Example.com")]}, {"m": [Dispatch(5, 2, "BEA@x", None)]}
        )
        outcome = _decide(Delivered("ADA@example.com", "m", NOW), rows)
        assert isinstance(outcome, Refused)
        assert outcome.text == (
            "Dispatch subscriber BEA@x does not match payload recipient ADA@example.com"
        )

    @pytest.mark.parametrize(
        ("owner", "recipient"),
        [
            ("{recipient}@example.com", "{owner}@example.com"),
            ("{0}@example.com", "{}@example.com"),
            ("{{x}}@example.com", "}{@example.com"),
            ("%s@example.com", "%(owner)s@example.com"),
            ("{owner.__class__}@x", "{recipient!r:>99}@x"),
        ],
    )
    def test_braces_in_emails(self, owner: str, recipient: str) -> None:
        """Emails with braces are spelt out in the text, never read as a part of its form."""
        rows = Rows(
            {fold(recipient): [Subscriber(1, recipient)]}, {"m": [Dispatch(5, 2, owner, None)]}
        )
        outcome = _decide(Opened(recipient, "m", NOW), rows)
        assert isinstance(outcome, Refused)
        assert outcome.text == (
            "Dispatch subscriber " + owner + " does not match payload recipient " + recipient
        )

    def test_dispatch_of_nobody(self) -> None:
        """A dispatch without an owner belongs to nobody, whoever asks."""
        rows = Rows({ADA: [Subscriber(1, ADA)]}, {"m": [Dispatch(5, None, "", None)]})
        outcome = _decide(Delivered(ADA, "m", NOW), rows)
        assert isinstance(outcome, Refused)
        assert outcome.refusal is Refusal.RECIPIENT_MISMATCH


class TestDuplicates:
    @pytest.mark.parametrize(
        ("recipient", "id_"),
        [
            ("Ada@example.com", 9),
            ("ADA@example.com", 4),
            ("ada@example.com", 2),
            ("aDA@example.com", 2),
        ],
    )
    def test_emails_that_differ_by_case(self, recipient: str, id_: Key) -> None:
        """The row with the email as it came wins, then the lowest id, in whatever order found."""
        found = [
            Subscriber(9, "Ada@example.com"),
            Subscriber(2, "adA@example.com"),
            Subscriber(4, "ADA@example.com"),
        ]
        for subscribers in (found, found[::-1]):
            outcome = _decide(Reactivated(recipient, None, NOW), Rows({ADA: subscribers}, {}))
            assert [change.key for change in _suppressions(outcome)] == [id_]

    def test_exact_emails(self) -> None:
        """Of exact emails one means those as it came or in lower case, and no others."""
        upper = [Subscriber(1, "ADA@example.com"), Subscriber(2, "Ada@example.com")]
        for found, recipient, ended in (
            (upper, "Ada@example.com", 2),
            (upper, "aDA@example.com", Refusal.SUBSCRIBER_NOT_FOUND.refused()),
            ([*upper, Subscriber(3, ADA)], "aDA@example.com", 3),
        ):
            rows = Rows({ADA: found}, {}, exact=True)
            outcome = _decide(Reactivated(recipient, None, NOW), rows)
            if isinstance(outcome, Recorded):
                assert [change.key for change in _suppressions(outcome)] == [ended]
            else:
                assert outcome == ended

    def test_the_same_email_twice(self) -> None:
        """Of two rows with the very email the one with the lowest id wins."""
        rows = Rows({ADA: [Subscriber(3, ADA), Subscriber(2, ADA), Subscriber(1, "ADA@x")]}, {})
        outcome = _decide(Reactivated(ADA, None, NOW), rows)
        assert [change.key for change in _suppressions(outcome)] == [2]

    @pytest.mark.parametrize(
        ("recipient", "id_"), [(ADA, 22), (BEA, 21), ("carl@example.com", None)]
    )
    def test_message_ids(self, recipient: str, id_: Key | None) -> None:
        """Of dispatches with one message id the recipient's own wins, then the lowest id."""
        found = [
            Dispatch(24, 1, ADA, None),
            Dispatch(22, 1, ADA, None),
            Dispatch(21, 2, BEA, None),
        ]
        subscribers = {
            ADA: [Subscriber(1, ADA)],
            BEA: [Subscriber(2, BEA)],
            "carl@example.com": [Subscriber(3, "carl@example.com")],
        }
        for dispatches in (found, found[::-1]):
            outcome = _decide(Delivered(recipient, "m", NOW), Rows(subscribers, {"m": dispatches}))
            if id_ is None:
                assert isinstance(outcome, Refused)
                assert outcome.text.startswith(f"Dispatch subscriber {BEA} ")  # the lowest id's
            else:
                assert _changes(outcome) == [SetTime(id_, EventTime.DELIVERED, NOW, guarded=False)]

    def test_message_ids_of_a_change(self) -> None:
        """A subscription change takes the recipient's own of the dispatches, too."""
        dispatches = {"m": [Dispatch(21, 2, BEA, None), Dispatch(22, 1, ADA, None)]}
        rows = Rows({ADA: [Subscriber(1, ADA)]}, dispatches)
        outcome = _decide(Reactivated(ADA, "m", NOW), rows)
        assert [change.key for change in _suppressions(outcome)] == [1, 22]

    @pytest.mark.parametrize("ids", [(7, 8), ("a", "b"), (UUID(int=1), UUID(int=2))])
    def test_any_kind_of_key(self, ids: tuple[Key, Key]) -> None:
        """Keys are whatever the table has: numbers, texts or UUIDs."""
        low, high = ids
        rows = Rows(
            {ADA: [Subscriber(high, "ADA@x"), Subscriber(low, "Ada@x")]},
            {"m": [Dispatch(high, low, ADA, None), Dispatch(low, low, ADA, None)]},
        )
        outcome = _decide(Delivered(ADA, "m", NOW), rows)
        assert _changes(outcome) == [SetTime(low, EventTime.DELIVERED, NOW, guarded=False)]


class TestTimes:
    @pytest.mark.parametrize("live", [True, False])
    @pytest.mark.parametrize(
        ("kind", "column"), [(Delivered, EventTime.DELIVERED), (Opened, EventTime.OPENED)]
    )
    def test_sets_the_time_it_carries(
        self, kind: type[Delivered | Opened], column: EventTime, *, live: bool
    ) -> None:
        """The time is set as it came, under a guard only where it is applied later."""
        outcome = _decide(kind("ADA@example.com", "m-1", EARLIER), live=live)
        assert _changes(outcome) == [SetTime(11, column, EARLIER, guarded=not live)]

    def test_any_time_is_believed(self) -> None:
        """Neither a time of long ago nor one of the far future is refused."""
        for at in (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)):
            outcome = _decide(Delivered(ADA, "m-1", at))
            assert _changes(outcome) == [SetTime(11, EventTime.DELIVERED, at, guarded=False)]


class TestSubscriptionChange:
    @pytest.mark.parametrize(
        ("message_id", "rows"),
        [
            (None, [(Suppressible.SUBSCRIBER, 1)]),
            ("m-9", [(Suppressible.SUBSCRIBER, 1)]),
            ("no-list", [(Suppressible.SUBSCRIBER, 1), (Suppressible.DISPATCH, 13)]),
            (
                "m-1",
                [
                    (Suppressible.SUBSCRIBER, 1),
                    (Suppressible.DISPATCH, 11),
                    (Suppressible.SUBSCRIPTION, (7, 1)),
                ],
            ),
            (
                "m-2",  # Bea's: her dispatch, and Ada's subscription to its list
                [
                    (Suppressible.SUBSCRIBER, 1),
                    (Suppressible.DISPATCH, 12),
                    (Suppressible.SUBSCRIPTION, (7, 1)),
                ],
            ),
        ],
    )
    @pytest.mark.parametrize("reason", ["HardBounce", None])
    def test_rows(self, message_id: str | None, rows: list[RowId], reason: str | None) -> None:
        """The subscriber changes, with it the dispatch and the subscription where found."""
        if reason is None:
            outcome = _decide(Reactivated(ADA, message_id, EARLIER))
        else:
            outcome = _decide(Suppressed(ADA, message_id, EARLIER, reason))
        assert _suppressions(outcome) == [
            SetSuppression(kind, key, EARLIER, reason, guarded=True) for kind, key in rows
        ]

    def test_not_subscribed(self) -> None:
        """Who is not subscribed to the dispatch's list has no subscription to change."""
        outcome = _decide(Suppressed(BEA, "m-2", EARLIER, "HardBounce"))
        assert [(change.kind, change.key) for change in _suppressions(outcome)] == [
            (Suppressible.SUBSCRIBER, 2),
            (Suppressible.DISPATCH, 12),
        ]

    @pytest.mark.parametrize(
        ("changed_at", "at"),
        [
            pytest.param(None, NOW, id="absent"),
            pytest.param(datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), id="old"),
            pytest.param(NOW - MOMENT, NOW - MOMENT, id="just before"),
            pytest.param(NOW, NOW, id="as it arrived"),
            pytest.param(NOW + MOMENT, NOW + MOMENT, id="a clock that is ahead"),
            pytest.param(NOW + DAY, NOW + DAY, id="24 hours after"),
            pytest.param(NOW + DAY + MOMENT, NOW, id="more than 24 hours after"),
            pytest.param(datetime(9999, 12, 31, tzinfo=UTC), NOW, id="far future"),
        ],
    )
    @pytest.mark.parametrize("live", [True, False])
    def test_date(self, changed_at: datetime | None, at: datetime, *, live: bool) -> None:
        """A change counts from when it says, or from its arrival where that cannot be."""
        for notification in (
            Suppressed(ADA, "m-1", changed_at, "HardBounce"),
            Reactivated(ADA, "m-1", changed_at),
        ):
            outcome = _decide(notification, live=live)
            assert {change.at for change in _suppressions(outcome)} == {at}

    @pytest.mark.parametrize("undated", Suppressible)
    @pytest.mark.parametrize("live", [True, False])
    def test_undated(self, undated: Suppressible, *, live: bool) -> None:
        """A row that does not store when it changed takes every change, also a late one."""
        rows = Rows(ROWS.subscribers, ROWS.dispatches, ROWS.subscriptions, {undated})
        outcome = _decide(Suppressed(ADA, "m-1", EARLIER, "HardBounce"), rows, live=live)
        assert {change.kind: change.guarded for change in _suppressions(outcome)} == {
            kind: kind is not undated for kind in Suppressible
        }


def _time(at: datetime, *, guarded: bool = False) -> SetTime:
    return SetTime(11, EventTime.DELIVERED, at, guarded=guarded)


def _change(at: datetime, reason: str | None, *, guarded: bool = True) -> SetSuppression:
    return SetSuppression(Suppressible.SUBSCRIBER, 1, at, reason, guarded=guarded)


class TestMerge:
    @pytest.mark.parametrize(
        ("changes", "merged"),
        [
            pytest.param(
                [_time(LATER), _time(EARLIER)], _time(EARLIER), id="live after live: the last"
            ),
            pytest.param(
                [_time(LATER, guarded=True), _time(EARLIER)],
                _time(EARLIER),
                id="live after guarded: the last",
            ),
            pytest.param(
                [_time(EARLIER), _time(LATER, guarded=True)],
                _time(LATER),
                id="guarded after live, later: it wins, live",
            ),
            pytest.param(
                [_time(LATER), _time(EARLIER, guarded=True)],
                _time(LATER),
                id="guarded after live, earlier: it is late",
            ),
            pytest.param(
                [_time(LATER), _time(LATER, guarded=True)],
                _time(LATER),
                id="guarded after live, equal",
            ),
            pytest.param(
                [_time(EARLIER, guarded=True), _time(LATER, guarded=True)],
                _time(LATER, guarded=True),
                id="guarded after guarded: the later",
            ),
            pytest.param(
                [_time(LATER, guarded=True), _time(EARLIER, guarded=True)],
                _time(LATER, guarded=True),
                id="guarded after guarded: the later, whichever came first",
            ),
            pytest.param(
                [_time(LATER), _time(NOW, guarded=True), _time(EARLIER)],
                _time(EARLIER),
                id="the last live one, after all",
            ),
            pytest.param(
                [_change(EARLIER, "HardBounce"), _change(LATER, None)],
                _change(LATER, None),
                id="suppressed, then reactivated",
            ),
            pytest.param(
                [_change(LATER, None), _change(EARLIER, "HardBounce")],
                _change(LATER, None),
                id="reactivated, then a late suppression",
            ),
            pytest.param(
                [_change(LATER, "HardBounce"), _change(EARLIER, None)],
                _change(LATER, "HardBounce"),
                id="suppressed, then a late reactivation",
            ),
            pytest.param(
                [_change(LATER, "HardBounce"), _change(LATER, None)],
                _change(LATER, None),
                id="of equal times the last to arrive: reactivated",
            ),
            pytest.param(
                [_change(LATER, None), _change(LATER, "HardBounce")],
                _change(LATER, "HardBounce"),
                id="of equal times the last to arrive: suppressed",
            ),
            pytest.param(
                [
                    _change(LATER, "HardBounce", guarded=False),
                    _change(EARLIER, None, guarded=False),
                ],
                _change(EARLIER, None, guarded=False),
                id="undated: the last to arrive",
            ),
        ],
    )
    def test_one_change_for_many(self, changes: Sequence[Change], merged: Change) -> None:
        """Changes of one row and column become the one that they end as."""
        assert merge([Recorded([change]) for change in changes]) == [merged]
        assert merge([Recorded(changes)]) == [merged]

    def test_other_places(self) -> None:
        """The two times of a dispatch, its suppression and other rows do not touch each other."""
        changes: list[Change] = [
            SetTime(1, EventTime.DELIVERED, NOW, guarded=False),
            SetTime(1, EventTime.OPENED, NOW, guarded=False),
            SetTime(2, EventTime.DELIVERED, NOW, guarded=False),
            *(SetSuppression(kind, 1, NOW, None, guarded=True) for kind in Suppressible),
            SetSuppression(Suppressible.DISPATCH, 2, NOW, None, guarded=True),
            SetSuppression(Suppressible.SUBSCRIPTION, (1, 2), NOW, None, guarded=True),
            SetSuppression(Suppressible.SUBSCRIPTION, (2, 1), NOW, None, guarded=True),
        ]
        assert list(merge([Recorded(changes)])) == changes

    def test_nothing(self) -> None:
        """What was refused, or changes nothing, leaves nothing to save."""
        assert list(merge([])) == []
        assert list(merge([NO_SUBSCRIBER, Recorded(()), NO_DISPATCH])) == []


class TestRowsOf:
    def test_each_row_once(self) -> None:
        """Every row that a group wants is listed once: both times of a dispatch are one row."""
        outcomes = [
            _decide(Delivered(ADA, "m-1", NOW)),
            _decide(Opened(ADA, "m-1", NOW)),
            _decide(Suppressed(ADA, "m-1", NOW, "HardBounce")),
            _decide(Delivered(BEA, "m-1", NOW)),
        ]
        rows = list(wanted(outcomes))
        assert len(rows) == 3
        assert set(rows) == {
            (Suppressible.SUBSCRIBER, 1),
            (Suppressible.DISPATCH, 11),
            (Suppressible.SUBSCRIPTION, (7, 1)),
        }

    def test_refused(self) -> None:
        """What is refused wants no row."""
        assert list(wanted([NO_SUBSCRIBER, NO_DISPATCH])) == []


class TestWithout:
    @pytest.mark.parametrize(
        "held",
        [
            (Suppressible.SUBSCRIBER, 1),
            (Suppressible.DISPATCH, 11),
            (Suppressible.SUBSCRIPTION, (7, 1)),
        ],
    )
    def test_never_half_done(self, held: RowId) -> None:
        """A notification that wants one held row is refused whole, as it is said."""
        outcome = _decide(Suppressed(ADA, "m-1", NOW, "HardBounce"))
        assert refuse_held([outcome], {held}) == [Refused(Refusal.FAILED, "Try again later")]

    def test_the_others(self) -> None:
        """Who wants no held row is processed, in place; who was refused stays refused."""
        outcomes = [
            _decide(Delivered(ADA, "m-1", NOW)),
            _decide(Delivered(BEA, "m-2", NOW)),
            NO_SUBSCRIBER,
            _decide(Opened(ADA, "m-1", NOW)),
            Recorded(()),
        ]
        busy = Refused(Refusal.FAILED, "Try again later")
        assert refuse_held(outcomes, {(Suppressible.DISPATCH, 11)}) == [
            busy,
            outcomes[1],
            NO_SUBSCRIBER,
            busy,
            Recorded(()),
        ]

    def test_the_kind_counts(self) -> None:
        """A held subscriber does not hold the dispatch that has its id."""
        rows = Rows({ADA: [Subscriber(1, ADA)]}, {"m": [Dispatch(1, 1, ADA, None)]})
        outcomes = [_decide(Delivered(ADA, "m", NOW), rows)]
        assert refuse_held(outcomes, {(Suppressible.SUBSCRIBER, 1)}) == outcomes

    def test_none_held(self) -> None:
        """Where every row was got the outcomes stay what they are."""
        outcomes = [_decide(Reactivated(ADA, "m-1", NOW)), NO_DISPATCH]
        assert refuse_held(outcomes, ()) == outcomes


# -- The law ---------------------------------------------------------------------------

Column: TypeAlias = tuple[object, ...]
"""A row, or a time of one."""

Value: TypeAlias = datetime | tuple[datetime | None, str | None, datetime | None]
"""A time; or when a row was suppressed, why, and when that last changed."""

World: TypeAlias = dict[Column, Value]


def _apply(world: World, changes: Iterable[Change], undated: Collection[Suppressible]) -> None:
    """Do to the rows what the contract says, one change after the other."""
    for change in changes:
        if isinstance(change, SetTime):
            _set_time(world, change)
        else:
            _set_suppression(world, change, keeps_date=change.kind not in undated)


def _set_time(world: World, change: SetTime) -> None:
    column = (change.dispatch, change.column)
    present = world.get(column)
    assert present is None or isinstance(present, datetime)
    if change.guarded and present is not None and present >= change.at:
        return
    world[column] = change.at


def _set_suppression(world: World, change: SetSuppression, *, keeps_date: bool) -> None:
    row = (change.kind, change.key)
    present = world.get(row, (None, None, None))
    assert isinstance(present, tuple)
    changed_at = present[2]
    if change.guarded and changed_at is not None and changed_at > change.at:
        return
    suppressed_at = None if change.reason is None else change.at
    world[row] = (suppressed_at, change.reason, change.at if keeps_date else None)


PEOPLE = Rows(
    subscribers={
        ADA: [Subscriber(1, ADA), Subscriber(3, "ADA@example.com")],
        BEA: [Subscriber(2, BEA)],
    },
    dispatches={
        "m-1": [Dispatch(1, 1, ADA, 7)],
        "m-2": [Dispatch(2, 2, BEA, 7), Dispatch(3, 1, ADA, 8)],
    },
    subscriptions={(7, 1), (7, 2), (8, 1)},
)

_times = st.sampled_from([NOW - timedelta(minutes=minute) for minute in range(5)])
_recipients = st.sampled_from([ADA, ADA, BEA, "ADA@example.com", "nobody@example.net", None])
_message_ids = st.sampled_from(["m-1", "m-1", "m-2", "m-9", None])
_dates = st.one_of(_times, st.sampled_from([None, NOW + 2 * DAY]))
_notifications: st.SearchStrategy[Notification | None] = st.one_of(
    st.builds(Delivered, _recipients, _message_ids, _times),
    st.builds(Opened, _recipients, _message_ids, _times),
    st.builds(Suppressed, _recipients, _message_ids, _dates, st.sampled_from(["a", "b"])),
    st.builds(Reactivated, _recipients, _message_ids, _dates),
    st.none(),
)
_arrivals = st.lists(
    st.builds(Arrival, _notifications, st.just(b""), _times, st.booleans()), max_size=12
)
_undated = st.frozensets(st.sampled_from(Suppressible))


@st.composite
def _worlds(draw: st.DrawFn, undated: Collection[Suppressible]) -> World:
    """Rows as a host may have them: suppressed or not, changed at some time or at none."""
    world: World = {}
    for dispatch in (1, 2, 3):
        for column in EventTime:
            if (at := draw(st.none() | _times)) is not None:
                world[dispatch, column] = at
    rows: list[RowId] = [
        *((Suppressible.SUBSCRIBER, id_) for id_ in (1, 2, 3)),
        *((Suppressible.DISPATCH, id_) for id_ in (1, 2, 3)),
        *((Suppressible.SUBSCRIPTION, pair) for pair in PEOPLE.subscriptions),
    ]
    for kind, key in rows:
        suppressed_at = draw(st.none() | _times)
        reason = None if suppressed_at is None else draw(st.sampled_from([None, "by hand"]))
        changed_at = None if kind in undated else draw(st.none() | _times)
        world[kind, key] = (suppressed_at, reason, changed_at)
    return world


class TestTheLaw:
    @relaxed
    @given(st.data(), _arrivals, _undated)
    def test_a_group_ends_as_its_members(
        self, data: st.DataObject, arrivals: list[Arrival], undated: Collection[Suppressible]
    ) -> None:
        """What a group's merged changes make of the rows is what its members make one by one."""
        rows = Rows(PEOPLE.subscribers, PEOPLE.dispatches, PEOPLE.subscriptions, undated)
        outcomes = [decide(arrival, rows) for arrival in arrivals]
        one_by_one = data.draw(_worlds(undated))
        at_once = dict(one_by_one)
        for outcome in outcomes:
            if isinstance(outcome, Recorded):
                _apply(one_by_one, outcome.changes, undated)
        _apply(at_once, merge(outcomes), undated)
        assert at_once == one_by_one

    @relaxed
    @given(_arrivals, _undated)
    def test_one_change_a_place(
        self, arrivals: list[Arrival], undated: Collection[Suppressible]
    ) -> None:
        """Merged changes come at most once a row and column, for the rows that were asked for."""
        rows = Rows(PEOPLE.subscribers, PEOPLE.dispatches, PEOPLE.subscriptions, undated)
        outcomes = [decide(arrival, rows) for arrival in arrivals]
        merged = merge(outcomes)
        places = [
            (change.column, change.dispatch)
            if isinstance(change, SetTime)
            else (change.kind, change.key)
            for change in merged
        ]
        assert len(places) == len(set(places))
        assert set(wanted([Recorded(merged)])) == set(wanted(outcomes))

    @relaxed
    @given(_arrivals, st.data())
    def test_what_is_held_is_not_touched(
        self, arrivals: list[Arrival], data: st.DataObject
    ) -> None:
        """Whatever is held, no change to it is left, and who is not refused asks for all he did."""
        outcomes = [decide(arrival, PEOPLE) for arrival in arrivals]
        asked = sorted(wanted(outcomes), key=str)
        held = data.draw(st.frozensets(st.sampled_from(asked)) if asked else st.just(frozenset()))
        left = refuse_held(outcomes, held)
        assert not set(wanted(left)) & held
        for before, after in zip(outcomes, left, strict=True):
            assert after == before or after == Refused(Refusal.FAILED, Refusal.FAILED.text)
