"""The rules, one by one. `stores/test_law.py` proves them for groups, on every store."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from hookrow import decide as rules
from hookrow.decide import PROBE, decide, mentioned
from hookrow.notification import (
    Arrival,
    Change,
    Delivered,
    Dispatch,
    EventTime,
    Key,
    Mentioned,
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
DAY = timedelta(hours=24)
MOMENT = timedelta(microseconds=1)
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)

ADA, BEA = "ada@example.com", "bea+news@example.org"

# Ada has id 1 and Bea 2; the dispatches m-1 and m-2 are theirs and went to list 7.
ROWS = Rows(
    subscribers={ADA: [Subscriber(1, ADA)], BEA: [Subscriber(2, BEA)]},
    dispatches={
        "m-1": [Dispatch(11, 1, ADA, 7)],
        "m-2": [Dispatch(12, 2, BEA, 7)],
        "no-list": [Dispatch(13, 1, ADA, None)],
    },
    subscriptions={(7, 1)},
)

SUBSCRIBER: RowId = (Suppressible.SUBSCRIBER, 1)
DISPATCH: RowId = (Suppressible.DISPATCH, 11)
SUBSCRIPTION: RowId = (Suppressible.SUBSCRIPTION, (7, 1))

NO_SUBSCRIBER = Refused(Refusal.SUBSCRIBER_NOT_FOUND, "Engine::Subscriber not found")
NO_DISPATCH = Refused(Refusal.DISPATCH_NOT_FOUND, "Engine::Dispatch not found")
FAILED = Refused(Refusal.FAILED, "Try again later")


def _arrival(notification: Notification | None, *, live: bool = True) -> Arrival:
    return Arrival(notification, b"{}", NOW, live)


def _decide(notification: Notification | None, rows: Rows = ROWS, *, live: bool = True) -> Outcome:
    return decide(_arrival(notification, live=live), rows)


def _rows(outcome: Outcome) -> list[RowId]:
    """Return the rows that an outcome changes."""
    assert isinstance(outcome, Recorded)
    return [change.row for change in outcome.changes]


# -- texts -----------------------------------------------------------------------------


def test_fold() -> None:
    """Only ASCII letters are lowered; `str.lower` would merge other addresses."""
    for email, folded in (
        *(("", ""), ("[\\]^_`{|}~@AZ az", "[\\]^_`{|}~@az az"), ("A\0B", "a\0b")),
        ("ZOË.Müller\N{KELVIN SIGN}ΣẞА@X", "zoË.müller\N{KELVIN SIGN}ΣẞА@x"),
        ("A\ud800\ud83d\ude00@X", "a\ud800\ud83d\ude00@x"),
    ):
        assert rules.fold(email) == folded


@pytest.mark.parametrize(
    ("possible", "longest"), [(rules.is_email, 320), (rules.is_message_id, 255)]
)
def test_emails_and_message_ids(possible: Callable[[str | None], bool], longest: int) -> None:
    """An email has 1 to 320 characters and a message id 255, without NUL or surrogates."""
    assert all(map(possible, ("x", " ", "ü", "😀", "\ud7ff", "\ue000", "ü" * longest)))
    for text in (
        *(None, "", "\0", "a\0b", "ü\0", "\ud800", "\udbff", "\udfff", "x\udc00ü"),
        *("\ud83d\ude00", "a" * (longest + 1), "ü" * (longest + 1)),
    ):
        assert not possible(text)
    assert possible("a" * longest)


@pytest.mark.parametrize(
    ("recipient", "probe"),
    [(PROBE, True), (PROBE.upper(), True), ("a@b.c", False), ("zz@zz", False), (None, False)],
)
def test_is_probe(recipient: str | None, *, probe: bool) -> None:
    """A notification to the probe's address is a probe, supported or not."""
    other = Unsupported(recipient=ADA if probe else PROBE)
    supported = Arrival(Reactivated(recipient, "m-1", None), b"", NOW, unsupported=other)
    assert rules.is_probe(supported) is probe
    unsupported = Unsupported("HookrowCheck", recipient)
    assert rules.is_probe(Arrival(None, b"", NOW, unsupported=unsupported)) is probe


# -- what is looked up -----------------------------------------------------------------


LOOKUPS = [
    (None, Mentioned(set(), set(), set(), set())),
    (Opened(None, "m-0", NOW), Mentioned(set(), set(), set(), set())),
    (Reactivated("a\0", "m-0", NOW), Mentioned(set(), set(), set(), set())),
    (Opened("ADA@x", "m-1", NOW), Mentioned({"ada@x"}, {"m-1"}, set(), {"ADA@x"})),
    (Delivered("ada@x", "m-1", NOW), Mentioned({"ada@x"}, {"m-1"}, set(), {"ada@x"})),
    (Delivered("ZoË@x", "M-1", NOW), Mentioned({"zoË@x"}, {"M-1"}, set(), {"ZoË@x"})),
    (
        Suppressed("ADA@x", "m-1", None, "HardBounce"),
        Mentioned({"ada@x"}, {"m-1"}, {("m-1", "ada@x")}, {"ADA@x"}),
    ),
    (Reactivated("b@x", "m-2", NOW), Mentioned({"b@x"}, {"m-2"}, {("m-2", "b@x")}, {"b@x"})),
    (Reactivated("c@x", None, NOW), Mentioned({"c@x"}, set(), set(), {"c@x"})),
    (Suppressed("d@x", "m" * 256, NOW, "x"), Mentioned({"d@x"}, set(), set(), {"d@x"})),
    (Delivered("e@x", "m-3", NOW), Mentioned({"e@x"}, {"m-3"}, set(), {"e@x"})),
]


def test_mentioned() -> None:
    """The lookup keys of a group are all that its rules need, and nothing that no row can hold."""
    for notification, expected in LOOKUPS:
        assert mentioned([_arrival(notification)]) == expected
    group = mentioned(_arrival(notification) for notification, _ in LOOKUPS)
    for name in ("emails", "message_ids", "changed", "recipients"):
        assert getattr(group, name) == {key for _, one in LOOKUPS for key in getattr(one, name)}


# -- refusals --------------------------------------------------------------------------


def _each(recipient: str | None, message_id: str | None) -> list[Notification]:
    """Return a notification of each kind."""
    return [
        Delivered(recipient, message_id, NOW),
        Opened(recipient, message_id, NOW),
        Suppressed(recipient, message_id, NOW, "HardBounce"),
        Reactivated(recipient, message_id, NOW),
    ]


def test_unsupported() -> None:
    """An unsupported notification is refused before any row is looked at."""
    refused = Refused(Refusal.UNSUPPORTED, "Webhook payload not supported")
    assert _decide(None) == _decide(None, Rows({}, {})) == refused


@pytest.mark.parametrize("recipient", ["eve@x", None, "", f" {ADA}", f"{ADA} ", "%"])
@pytest.mark.parametrize("message_id", ["m-1", "m-9", None])
def test_no_subscriber(recipient: str | None, message_id: str | None) -> None:
    """An unknown recipient is refused first; an email is neither trimmed nor a pattern."""
    outcomes = [_decide(each) for each in _each(recipient, message_id)]
    assert outcomes == [NO_SUBSCRIBER] * 4


@pytest.mark.parametrize("message_id", [None, "", "m-9", "M-1", "{m-1}", " m-1", "m-1\0"])
def test_no_dispatch(message_id: str | None) -> None:
    """Deliveries and opens need their dispatch, by its exact id; other changes do not."""
    outcomes = [_decide(each) for each in _each(ADA, message_id)]
    assert outcomes[:2] == [NO_DISPATCH] * 2
    assert [*map(_rows, outcomes[2:])] == [[SUBSCRIBER]] * 2


@pytest.mark.parametrize(
    ("owner", "id_", "recipient"),
    [
        *(("BEA@x", 2, "ADA@example.com"), ("ada@x", 0, ADA), ("", None, ADA)),
        *(("{recipient}@x", 2, "{owner}@x"), ("{{x}}%s{0}", 2, "}{%(owner)s{}@x")),
        ("{owner.__class__}@x", 2, "{recipient!r:>99}@x"),
    ],
)
@pytest.mark.parametrize("kind", [Delivered, Opened])
def test_another_owner(
    kind: type[Delivered | Opened], owner: str, id_: Key | None, recipient: str
) -> None:
    """A dispatch of another subscriber is refused; the text names both literally."""
    people = {rules.fold(recipient): [Subscriber(1, "Ada@example.com")]}
    rows = Rows(people, {"m": [Dispatch(5, id_, owner, None)]})
    text = "Dispatch subscriber " + owner + " does not match payload recipient " + recipient
    assert _decide(kind(recipient, "m", NOW), rows) == Refused(Refusal.RECIPIENT_MISMATCH, text)


# -- duplicates ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipient", "loose", "exact"),
    [("Ada@x", 9, 9), ("ADA@x", 4, 4), ("ada@x", 7, 7), ("aDA@x", 2, 7)],
)
def test_emails_that_differ_by_case(recipient: str, loose: Key, exact: Key) -> None:
    """The exact match wins, then the lowest id; a case-sensitive table has the folded one."""
    emails = ((9, "Ada@x"), (2, "adA@x"), (4, "ADA@x"), (8, "ada@x"), (7, "ada@x"))
    found = [Subscriber(id_, pickle.loads(pickle.dumps(email))) for id_, email in emails]
    for subscribers in (found, found[::-1]):
        for kind, id_ in ((False, loose), (True, exact)):
            rows = Rows({"ada@x": subscribers}, {}, exact=kind)
            outcome = _decide(Reactivated(recipient, None, NOW), rows)
            assert _rows(outcome) == [(Suppressible.SUBSCRIBER, id_)]
    rows = Rows({"ada@x": [Subscriber(9, "AdA@x")]}, {}, exact=True)  # another subscriber's
    assert _decide(Reactivated(recipient, None, NOW), rows) == NO_SUBSCRIBER


@pytest.mark.parametrize(("email", "id_"), [(ADA, 22), (BEA, 25), ("carl@x", None)])
def test_dispatches_with_the_same_message_id(email: str, id_: Key | None) -> None:
    """The recipient's own dispatch wins, then the lowest id."""
    subscribers = {
        each: [Subscriber(number, each)] for number, each in ((1, ADA), (2, BEA), (3, "carl@x"))
    }
    found = [
        *(Dispatch(24, 1, ADA, None), Dispatch(22, 1, ADA, None), Dispatch(21, 9, "eve@x", None)),
        Dispatch(25, 2, BEA, None),
    ]
    for dispatches in (found, found[::-1]):
        rows = Rows(subscribers, {"m": dispatches})
        delivered = _decide(Delivered(email, "m", NOW), rows)
        if id_ is None:
            assert isinstance(delivered, Refused)
            assert delivered.text.startswith("Dispatch subscriber eve@x ")
        else:
            assert _rows(delivered) == [(Suppressible.DISPATCH, id_)]
            assert _rows(_decide(Reactivated(email, "m", NOW), rows))[1:] == _rows(delivered)


@pytest.mark.parametrize(("low", "high"), [(700, 800), ("a", "b"), (UUID(int=1), UUID(int=2))])
def test_any_type_of_key(low: Key, high: Key) -> None:
    """Keys may be numbers, texts or UUIDs; equal ones need not be the same object."""
    same = pickle.loads(pickle.dumps(low))
    rows = Rows(
        {ADA: [Subscriber(high, "ADA@x"), Subscriber(low, "Ada@x")]},
        {"m": [Dispatch(high, same, ADA, None), Dispatch(low, high, "ADA@x", None)]},
    )
    assert _rows(_decide(Delivered(ADA, "m", NOW), rows)) == [(Suppressible.DISPATCH, high)]


# -- changes ---------------------------------------------------------------------------


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("at", [FIRST, EARLIER, LAST])
def test_times(at: datetime, *, live: bool) -> None:
    """Deliveries and opens set their time; a guard protects later ones from a replay."""
    delivered = _decide(Delivered("ADA@example.com", "m-1", at), live=live)
    assert delivered == Recorded((SetTime(11, EventTime.DELIVERED, at, guarded=not live),))
    opened = _decide(Opened(ADA, "m-1", at), live=live)
    assert opened == Recorded((SetTime(11, EventTime.OPENED, at, guarded=not live),))


@pytest.mark.parametrize(
    ("email", "message_id", "rows"),
    [
        *((ADA, None, [SUBSCRIBER]), (ADA, "m-9", [SUBSCRIBER])),
        (ADA, "no-list", [SUBSCRIBER, (Suppressible.DISPATCH, 13)]),
        (ADA, "m-1", [SUBSCRIBER, DISPATCH, SUBSCRIPTION]),
        (ADA, "m-2", [SUBSCRIBER, (Suppressible.DISPATCH, 12), SUBSCRIPTION]),  # Bea's dispatch
        (BEA, "m-2", [(Suppressible.SUBSCRIBER, 2), (Suppressible.DISPATCH, 12)]),  # not subscribed
    ],
)
@pytest.mark.parametrize("undated", [(), (Suppressible.SUBSCRIBER, Suppressible.SUBSCRIPTION)])
def test_suppressions(
    email: str, message_id: str | None, rows: list[RowId], undated: Sequence[Suppressible]
) -> None:
    """A change concerns all rows found; a kind of row without its date takes it unguarded."""
    found = Rows(ROWS.subscribers, ROWS.dispatches, ROWS.subscriptions, undated)
    for notification, reason in (
        (Suppressed(email, message_id, EARLIER, "HardBounce"), "HardBounce"),
        (Reactivated(email, message_id, EARLIER), None),
    ):
        changes = [
            SetSuppression(kind, key, EARLIER, reason, guarded=kind not in undated)
            for kind, key in rows
        ]
        for live in (True, False):
            assert _decide(notification, found, live=live) == Recorded(changes)


@pytest.mark.parametrize(
    ("changed_at", "at"),
    [
        *((None, NOW), (FIRST, FIRST), (NOW - MOMENT, NOW - MOMENT), (NOW, NOW)),
        *((NOW + DAY, NOW + DAY), (NOW + DAY + MOMENT, NOW), (LAST, NOW)),
    ],
)
def test_date_of_a_suppression(changed_at: datetime | None, at: datetime) -> None:
    """A change happened at its own time, or on arrival if that is more than a day later."""
    for notification in (
        Suppressed(ADA, "m-1", changed_at, "HardBounce"),
        Reactivated(ADA, "m-1", changed_at),
    ):
        outcome = _decide(notification)
        assert isinstance(outcome, Recorded)
        assert [getattr(change, "at", None) for change in outcome.changes] == [at] * 3


# -- groups ----------------------------------------------------------------------------


def _changes(words: str, *, times: bool) -> list[Change]:
    """Return a change for each word: the minute of its time, and a g if it is guarded.

    Suppressions have another reason each.
    """
    changes: list[Change] = []
    for place, word in enumerate(words.split()):
        at, guarded = NOW + timedelta(minutes=int(word[0])), word.endswith("g")
        if times:
            changes.append(SetTime(11, EventTime.DELIVERED, at, guarded))
        else:
            reason = str(place) if place else None
            changes.append(SetSuppression(*SUBSCRIBER, at, reason, guarded))
    return changes


@pytest.mark.parametrize("times", [True, False])
@pytest.mark.parametrize(
    ("words", "winner", "guarded"),
    [
        # A change without a guard replaces what was before it.
        *(("2 1", 1, False), ("2g 1", 1, False), ("2 3g 1", 2, False), ("2 2", 1, False)),
        # After one without a guard, one with a guard takes effect if it is not earlier.
        *(("1 2g", 1, False), ("2 1g", 0, False), ("2 2g", 1, False), ("2 3g 1g", 1, False)),
        # Of guarded ones the latest wins, and of equal ones the last to arrive.
        *(("1g 2g", 1, True), ("2g 1g", 0, True), ("2g 2g", 1, True), ("1g 3g 2g", 1, True)),
    ],
)
def test_merge(words: str, winner: int, *, guarded: bool, times: bool) -> None:
    """The changes of one row and column are folded into one with the same result."""
    changes = _changes(words, times=times)
    merged = replace(changes[winner], guarded=guarded)
    assert rules.merge([Recorded([change]) for change in changes]) == [merged]
    assert rules.merge([NO_DISPATCH, Recorded(()), Recorded(changes)]) == [merged]


def test_merge_keeps_places_apart() -> None:
    """Both times of a dispatch, its suppression and other rows are merged separately."""
    changes: list[Change] = [
        SetTime(1, EventTime.DELIVERED, NOW, guarded=False),
        SetTime(1, EventTime.OPENED, NOW, guarded=False),
        SetTime(2, EventTime.DELIVERED, NOW, guarded=False),
        *(SetSuppression(kind, 1, NOW, None, guarded=True) for kind in Suppressible),
        SetSuppression(Suppressible.DISPATCH, 2, NOW, None, guarded=True),
        SetSuppression(Suppressible.SUBSCRIPTION, (1, 2), NOW, None, guarded=True),
        SetSuppression(Suppressible.SUBSCRIPTION, (2, 1), NOW, None, guarded=True),
    ]
    assert rules.merge([Recorded(changes)]) == changes
    assert rules.merge([NO_SUBSCRIBER, Recorded(())]) == []


def test_wanted() -> None:
    """Every row to be changed is listed once; refused notifications want none."""
    notifications = [*_each(ADA, "m-1"), Delivered(BEA, "m-1", NOW), Opened("eve@x", "m-1", NOW)]
    found = rules.wanted(map(_decide, notifications))
    assert len(found) == 3
    assert set(found) == {SUBSCRIBER, DISPATCH, SUBSCRIPTION}


def test_refuse_held() -> None:
    """A notification that needs a locked row fails completely; all others stay as they are."""
    outcomes = [*map(_decide, (*_each(ADA, "m-1"), Opened(BEA, "m-2", NOW)))]
    outcomes += [NO_SUBSCRIBER, Recorded(())]
    other: list[RowId] = [(Suppressible.SUBSCRIBER, 11), (Suppressible.DISPATCH, 1)]
    for held, failed in (
        *(([], {}), (other, {}), ([SUBSCRIBER], {2, 3}), ([SUBSCRIPTION], {2, 3})),
        *(([DISPATCH], {0, 1, 2, 3}), ([(Suppressible.DISPATCH, 12), SUBSCRIBER], {2, 3, 4})),
    ):
        expected = [FAILED if place in failed else each for place, each in enumerate(outcomes)]
        assert rules.refuse_held(outcomes, held) == expected


def test_fail() -> None:
    """All supported notifications of a failed group fail; the unsupported ones stay refused."""
    arrivals = [_arrival(Opened(ADA, "m-1", NOW)), _arrival(None)]
    unsupported = Refusal.UNSUPPORTED.refused()
    assert rules.fail(arrivals) == [FAILED, unsupported]
    assert rules.fail(arrivals, Refusal.UNAVAILABLE) == [Refusal.UNAVAILABLE.refused(), unsupported]
