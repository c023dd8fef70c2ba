"""The rules, one by one. `stores/test_law.py` proves them for groups, on every store."""

import pickle
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from copying import replace
from hookrow._core import rules
from hookrow._core.notification import (
    Arrival,
    Change,
    Delivered,
    EventTime,
    FoundDispatch,
    FoundSubscriber,
    FoundSubscription,
    Key,
    LookupKeys,
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
    Source,
    Suppressed,
    Suppressible,
    Unsupported,
)
from hookrow._core.rules import PROBE, decide, lookup_keys

NOW = datetime(2026, 3, 5, 12, 0, 0, tzinfo=UTC)
EARLIER = NOW - timedelta(hours=3)
DAY = timedelta(hours=24)
MOMENT = timedelta(microseconds=1)

ADA, BEA = "ada@example.com", "bea+news@example.org"

# Ada has id 1 and Bea 2; the dispatches m-1 and m-2 are theirs and went to list 7.
ROWS = Rows(
    subscribers={ADA: [FoundSubscriber(1, ADA)], BEA: [FoundSubscriber(2, BEA)]},
    dispatches={
        "m-1": [FoundDispatch(11, 1, ADA, 7)],
        "m-2": [FoundDispatch(12, 2, BEA, 7)],
        "no-list": [FoundDispatch(13, 1, ADA, None)],
    },
    subscriptions={(7, 1): FoundSubscription((7, 1))},
)

PAIRS: list[tuple[Key, Key]] = [(1, 2), (2, 1)]

SUBSCRIBER: RowId = (Suppressible.SUBSCRIBER, 1)
DISPATCH: RowId = (Suppressible.DISPATCH, 11)
SUBSCRIPTION: RowId = (Suppressible.SUBSCRIPTION, (7, 1))

NO_SUBSCRIBER = Refused(Refusal.SUBSCRIBER_NOT_FOUND, "Engine::Subscriber not found")
NO_DISPATCH = Refused(Refusal.DISPATCH_NOT_FOUND, "Engine::Dispatch not found")
UNSUPPORTED = Refused(Refusal.UNSUPPORTED, "Webhook payload not supported")
FAILED = Refused(Refusal.FAILED, "Try again later")


def _arrival(notification: Notification | None, *, live: bool = True) -> Arrival:
    given = () if notification is None else (notification,)
    return Arrival(given, b"{}", NOW, Source.LIVE if live else Source.REPLAY)


def _decide(notification: Notification | None, rows: Rows = ROWS, *, live: bool = True) -> Outcome:
    return decide(_arrival(notification, live=live), rows)


def _changed(notification: Notification, rows: Rows = ROWS) -> list[RowId]:
    """Return the rows that a notification changes."""
    outcome = _decide(notification, rows)
    assert isinstance(outcome, Recorded)
    return [change.row for change in outcome.changes]


def _each(recipient: str | None, message_id: str | None) -> list[Notification]:
    """Return a notification of each kind."""
    return [
        Delivered(recipient, message_id, NOW),
        Opened(recipient, message_id, NOW),
        Suppressed(recipient, message_id, NOW, "HardBounce"),
        Reactivated(recipient, message_id, NOW),
    ]


# -- texts -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("email", "folded"),
    [
        ("[\\]^_`{|}~@AZ az", "[\\]^_`{|}~@az az"),
        # `str.lower` would merge the addresses of several people.
        ("ZOË.Müller\N{KELVIN SIGN}ΣẞА@X", "zoË.müller\N{KELVIN SIGN}ΣẞА@x"),
        ("A\ud800\ud83d\ude00@X", "a\ud800\ud83d\ude00@x"),
    ],
)
def test_only_ascii_letters_are_folded(email: str, folded: str) -> None:
    assert rules.fold(email) == folded


@pytest.mark.parametrize(
    ("possible", "longest"), [(rules.is_email, 320), (rules.is_message_id, 255)]
)
def test_texts_that_a_row_can_contain(possible: Callable[[str | None], bool], longest: int) -> None:
    texts = ("x", " ", "😀", "\ud7ff", "\ue000", "a" * longest, "ü" * longest)
    assert all(map(possible, texts))
    others = (None, "", "\0", "ü\0", "\ud800", "x\udfffü", "a" * (longest + 1))
    assert not any(map(possible, others))


@pytest.mark.parametrize(
    ("recipient", "probe"),
    [(PROBE, True), (PROBE.upper(), True), ("a@b.c", False), ("zz@zz", False), (None, False)],
)
def test_probes_have_a_recipient_of_their_own(recipient: str | None, *, probe: bool) -> None:
    assert rules.is_for_probes(_arrival(Reactivated(recipient, "m-1", None))) is probe
    unsupported = Unsupported("Bounce", PROBE)
    assert not rules.is_for_probes(Arrival((), b"", NOW, unsupported=unsupported))


# -- lookup keys -----------------------------------------------------------------------

ADDRESSED = ("m-1", "ada@x", "ADA@x", None)
LOOKUPS = [
    (None, LookupKeys(set(), set(), set(), {None})),
    (Reactivated("a\0", "m-0", NOW), LookupKeys(set(), set(), set(), {None})),
    (Opened("ADA@x", "m-1", NOW), LookupKeys({"m-1"}, {ADDRESSED}, set(), {None})),
    (
        Delivered("ZoË@x", "M-1", NOW),
        LookupKeys({"M-1"}, {("M-1", "zoË@x", "ZoË@x", None)}, set(), {None}),
    ),
    (
        Suppressed("ADA@x", "m-1", None, "HardBounce"),
        LookupKeys({"m-1"}, {ADDRESSED}, {("m-1", "ada@x")}, {None}),
    ),
    (
        Reactivated("b@x", "m-2", NOW),
        LookupKeys({"m-2"}, {("m-2", "b@x", "b@x", None)}, {("m-2", "b@x")}, {None}),
    ),
    (
        Reactivated("c@x", None, NOW),
        LookupKeys(set(), {(None, "c@x", "c@x", None)}, set(), {None}),
    ),
    (
        Suppressed("d@x", "m" * 256, NOW, "x"),
        LookupKeys(set(), {(None, "d@x", "d@x", None)}, set(), {None}),
    ),
]


def test_lookup_keys_are_all_keys_that_a_row_can_contain() -> None:
    for notification, expected in LOOKUPS:
        assert lookup_keys([_arrival(notification)]) == expected
    group = lookup_keys(_arrival(notification) for notification, _ in LOOKUPS)
    for name in ("message_ids", "addressed", "changed"):
        assert getattr(group, name) == {key for _, one in LOOKUPS for key in getattr(one, name)}


def test_lookup_keys_pair_each_recipient_with_the_tenant() -> None:
    """Of two tenants with the same recipient and message, each has its own rows."""
    opened = _arrival(Opened(ADA, "m-1", NOW))
    group = lookup_keys(replace(opened, tenant=tenant) for tenant in (1, 2, 1))
    assert group.addressed == {("m-1", ADA, ADA, 1), ("m-1", ADA, ADA, 2)}
    assert group.tenants == {1, 2}


# -- tenants ---------------------------------------------------------------------------

OF_TENANTS = Rows(
    {ADA: [FoundSubscriber(n, ADA, str(n)) for n in (1, 2)]},
    {
        "m": [FoundDispatch(10 + n, n, ADA, 7, str(n)) for n in (1, 2)],
        "of-2": [FoundDispatch(22, 2, ADA, 7, "2")],
        "of-nobody": [FoundDispatch(31, None, "", 7, "1"), FoundDispatch(32, 2, ADA, 7, None)],
    },
    {(7, 1): FoundSubscription((7, 1), "1"), (7, 2): FoundSubscription((7, 2), "1")},
    tenants={1: "1", 2: "2", 3: "3"},
)
"""Two tenants that each have Ada as number 1 and 2, and a dispatch with the message id "m".

The second tenant's subscription belongs to the first one.
"""


def _decide_for(tenant: int, notification: Notification) -> Outcome:
    return rules.decide(replace(_arrival(notification), tenant=tenant), OF_TENANTS)


@pytest.mark.parametrize("tenant", [1, 2])
def test_a_notification_changes_only_rows_of_its_tenant(tenant: int) -> None:
    """A subscription of another tenant is left, even if it is its own subscriber's."""
    outcome = _decide_for(tenant, Suppressed(ADA, "m", NOW, "SpamComplaint"))
    expected = {(Suppressible.SUBSCRIBER, tenant), (Suppressible.DISPATCH, 10 + tenant)}
    own = {(Suppressible.SUBSCRIPTION, (7, 1))} if tenant == 1 else set()
    assert {*rules.affected_rows([outcome])} == expected | own
    delivered = _decide_for(tenant, Delivered(ADA, "m", NOW))
    assert [each.row for each in delivered.changes] == [(Suppressible.DISPATCH, 10 + tenant)]


def test_rows_of_another_tenant_are_not_found() -> None:
    """Nor does a refusal contain the email of a dispatch's owner who is another tenant's."""
    assert _decide_for(1, Delivered(ADA, "of-2", NOW)) == NO_DISPATCH
    [only] = _decide_for(1, Suppressed(ADA, "of-2", NOW, "SpamComplaint")).changes
    assert only.row == (Suppressible.SUBSCRIBER, 1)
    assert _decide_for(3, Delivered(ADA, "m", NOW)) == NO_SUBSCRIBER
    refused = _decide_for(1, Delivered(ADA, "of-nobody", NOW))
    assert refused == Refusal.RECIPIENT_MISMATCH.refused(owner="", recipient=ADA)


def test_an_arrival_of_an_unknown_tenant_is_an_error() -> None:
    """A store has looked for the rows of all tenants of the group."""
    with pytest.raises(KeyError):
        rules.decide(_arrival(Delivered(ADA, "m", NOW)), OF_TENANTS)


def test_pairs_are_of_one_tenant() -> None:
    suppressed = _arrival(Suppressed(ADA, "m", NOW, "x"))
    group = lookup_keys(replace(suppressed, tenant=tenant) for tenant in (1, 2))
    pairs = rules.subscription_keys(group, OF_TENANTS.subscribers, OF_TENANTS.dispatches)
    assert pairs == {(7, 1), (7, 2)}


# -- refusals --------------------------------------------------------------------------


@pytest.mark.parametrize("recipient", ["eve@x", None, "", f" {ADA}", "%", PROBE.upper()])
@pytest.mark.parametrize("message_id", ["m-1", "m-9", None])
def test_an_unknown_recipient_is_refused_first(
    recipient: str | None, message_id: str | None
) -> None:
    """A probe has no subscriber, even if one has its address."""
    rows = replace(ROWS, subscribers={**ROWS.subscribers, PROBE: [FoundSubscriber(9, PROBE)]})
    outcomes = [_decide(each, rows) for each in _each(recipient, message_id)]
    assert outcomes == [NO_SUBSCRIBER] * 4
    assert _decide(None, rows) == _decide(None, Rows({}, {})) == UNSUPPORTED


@pytest.mark.parametrize("message_id", ["m-1", None])
def test_without_dispatches_only_suppressions_are_recorded(message_id: str | None) -> None:
    """The texts of the refusals are those of the contract, but no retry can succeed."""
    rows = replace(ROWS, dispatches={}, subscriptions={}, has_dispatches=False)
    *events, suppressed, reactivated = (_decide(each, rows) for each in _each(ADA, message_id))
    assert events == [replace(NO_DISPATCH, refusal=Refusal.UNMAPPED)] * 2
    for each in (suppressed, reactivated):
        assert [change.row for change in each.changes] == [SUBSCRIBER]
    *events, suppressed, reactivated = (_decide(each, rows) for each in _each("eve@x", message_id))
    assert events == [replace(NO_SUBSCRIBER, refusal=Refusal.UNMAPPED)] * 2
    assert suppressed == reactivated == NO_SUBSCRIBER


@pytest.mark.parametrize("recipient", [ADA, "eve@x"])
def test_without_dispatches_a_suppression_of_an_event_is_still_retried(recipient: str) -> None:
    """The refusal of its delivery would end the retries of the event."""
    rows = replace(ROWS, dispatches={}, subscriptions={}, has_dispatches=False)
    delivered, _, suppressed, _ = _each(recipient, "m-1")
    outcome = decide(Arrival((delivered, suppressed), b"", NOW), rows)
    assert isinstance(outcome, Refused)
    if recipient == ADA:
        assert outcome.refusal is Refusal.UNMAPPED
        assert [each.row for each in outcome.changes] == [SUBSCRIBER]
    else:
        assert outcome.refusal is Refusal.SUBSCRIBER_NOT_FOUND


@pytest.mark.parametrize("message_id", [None, "", "m-9", "M-1", " m-1"])
def test_deliveries_and_opens_need_their_dispatch(message_id: str | None) -> None:
    delivered, opened, suppressed, reactivated = _each(ADA, message_id)
    assert _decide(delivered) == _decide(opened) == NO_DISPATCH
    assert _changed(suppressed) == _changed(reactivated) == [SUBSCRIBER]


@pytest.mark.parametrize(
    ("owner", "id_", "recipient"),
    [
        *(("BEA@x", 2, "ADA@example.com"), ("ada@x", 0, ADA), ("", None, ADA)),
        ("{recipient}%s{0}@x", 2, "}{owner.__class__}@x"),  # neither is a format
    ],
)
@pytest.mark.parametrize("kind", [Delivered, Opened])
def test_a_dispatch_of_another_subscriber(
    kind: type[Delivered | Opened], owner: str, id_: Key | None, recipient: str
) -> None:
    people = {rules.fold(recipient): [FoundSubscriber(1, "Ada@example.com")]}
    rows = Rows(people, {"m": [FoundDispatch(5, id_, owner, None)]})
    text = "Dispatch subscriber " + owner + " does not match payload recipient " + recipient
    assert _decide(kind(recipient, "m", NOW), rows) == Refused(Refusal.RECIPIENT_MISMATCH, text)


# -- duplicates ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipient", "loose", "exact"),
    [("Ada@x", 9, 9), ("ADA@x", 4, 4), ("ada@x", 7, 7), ("aDA@x", 2, 7)],
)
def test_emails_that_differ_by_case(recipient: str, loose: Key, exact: Key) -> None:
    emails = ((9, "Ada@x"), (2, "adA@x"), (4, "ADA@x"), (8, "ada@x"), (7, "ada@x"))
    # Copies: equal texts need not be the same object.
    found = [FoundSubscriber(id_, pickle.loads(pickle.dumps(email))) for id_, email in emails]
    reactivated = Reactivated(recipient, None, NOW)
    for subscribers in (found, found[::-1]):
        for kind, id_ in ((False, loose), (True, exact)):
            rows = Rows({"ada@x": subscribers}, {}, exact=kind)
            assert _changed(reactivated, rows) == [(Suppressible.SUBSCRIBER, id_)]
    rows = Rows({"ada@x": [FoundSubscriber(9, "AdA@x")]}, {}, exact=True)  # another subscriber's
    assert _decide(reactivated, rows) == NO_SUBSCRIBER


@pytest.mark.parametrize(("email", "id_"), [(ADA, 22), (BEA, 25), ("carl@x", None)])
@pytest.mark.parametrize("key", [int, lambda number: UUID(int=number)])
def test_dispatches_with_one_message_id(
    email: str, id_: Key | None, key: Callable[[int], Key]
) -> None:
    """Keys are compared by value, because a driver creates a new object for each row."""
    owners = {ADA: 1, BEA: 2, "carl@x": 3}
    subscribers = {each: [FoundSubscriber(key(number), each)] for each, number in owners.items()}
    found = [
        *(FoundDispatch(24, key(1), ADA, None), FoundDispatch(22, key(1), ADA, None)),
        *(FoundDispatch(21, key(9), "eve@x", None), FoundDispatch(25, key(2), BEA, None)),
    ]
    delivered, reactivated = Delivered(email, "m", NOW), Reactivated(email, "m", NOW)
    for dispatches in (found, found[::-1]):
        rows = Rows(subscribers, {"m": dispatches})
        if id_ is None:
            refused = Refusal.RECIPIENT_MISMATCH.refused(owner="eve@x", recipient=email)
            assert _decide(delivered, rows) == refused
        else:
            own = [(Suppressible.DISPATCH, id_)]
            assert _changed(delivered, rows) == _changed(reactivated, rows)[1:] == own


def _two_tenants(*, hidden: bool = False) -> Rows:
    """Return the rows of two people with Ada's email, each with a dispatch; `hidden`: of one."""
    people = (
        [FoundSubscriber(1, ADA)] if hidden else [FoundSubscriber(1, ADA), FoundSubscriber(2, ADA)]
    )
    return Rows(
        {ADA: people},
        {"t1": [FoundDispatch(11, 1, ADA, 7)], "t2": [FoundDispatch(12, 2, ADA, 7)]},
        {(7, n): FoundSubscription((7, n)) for n in (1, 2)},
    )


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("message_id", ["t1", "t2"])
def test_of_equal_emails_the_owner_of_the_dispatch_counts(message_id: str, *, live: bool) -> None:
    """The other person is neither suppressed nor named in a refusal."""
    owner, sent = (1, 11) if message_id == "t1" else (2, 12)
    dispatch = Suppressible.DISPATCH, sent
    rows = [
        *((Suppressible.SUBSCRIBER, owner), dispatch),
        (Suppressible.SUBSCRIPTION, (7, owner)),
    ]
    delivered, opened, suppressed, reactivated = _each("Ada@example.com", message_id)
    for each, expected in (
        *((delivered, [dispatch]), (opened, [dispatch])),
        *((suppressed, rows), (reactivated, rows)),
    ):
        outcome = _decide(each, _two_tenants(), live=live)
        assert isinstance(outcome, Recorded)
        assert [change.row for change in outcome.changes] == expected


@pytest.mark.parametrize("message_id", [None, "", "t9", "t\0", "t" * 256])
def test_of_equal_emails_without_a_dispatch_the_lowest_id_counts(message_id: str | None) -> None:
    for each in _each(ADA, message_id)[2:]:
        assert _changed(each, _two_tenants()) == [(Suppressible.SUBSCRIBER, 1)]


def test_of_several_owners_the_exact_spelling_and_then_the_lowest_id_count() -> None:
    """A message to several people, as To and Cc, has one id."""
    people = [
        FoundSubscriber(id_, email) for id_, email in ((3, "ADA@x"), (2, "Ada@x"), (5, "Ada@x"))
    ]
    people = [FoundSubscriber(1, "ada@x"), *people]
    sent = [FoundDispatch(10 + owner, owner, "", None) for owner in (5, 2, 3)]
    for subscribers, dispatches in ((people, sent), (people[::-1], sent[::-1])):
        rows = Rows({"ada@x": subscribers}, {"m": dispatches})
        for recipient, owner in (("Ada@x", 2), ("ADA@x", 3), ("ada@x", 2), ("aDa@x", 2)):
            changed = _changed(Reactivated(recipient, "m", NOW), rows)
            own = [(Suppressible.SUBSCRIBER, owner), (Suppressible.DISPATCH, 10 + owner)]
            assert changed == own


def test_a_hidden_owner_is_no_candidate() -> None:
    """The contract's refusal names both emails, even if they are equal."""
    rows = _two_tenants(hidden=True)
    delivered, _, suppressed, _ = _each(ADA, "t2")
    refused = Refusal.RECIPIENT_MISMATCH.refused(owner=ADA, recipient=ADA)
    assert _decide(delivered, rows) == refused
    assert (Suppressible.SUBSCRIBER, 1) in _changed(suppressed, rows)


# -- changes ---------------------------------------------------------------------------


@pytest.mark.parametrize("live", [True, False])
def test_times_are_guarded_from_a_replay(*, live: bool) -> None:
    for kind, column in ((Delivered, EventTime.DELIVERED), (Opened, EventTime.OPENED)):
        outcome = _decide(kind("ADA@example.com", "m-1", EARLIER), live=live)
        assert outcome == Recorded((SetTime(11, column, EARLIER, guarded=not live),))


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
@pytest.mark.parametrize("unguarded", [(), (Suppressible.SUBSCRIBER, Suppressible.SUBSCRIPTION)])
def test_suppressions_change_all_rows_found_and_are_guarded_by_their_dates(
    email: str, message_id: str | None, rows: list[RowId], unguarded: Sequence[Suppressible]
) -> None:
    found = Rows(ROWS.subscribers, ROWS.dispatches, ROWS.subscriptions, unguarded)
    for notification, reason in (
        (Suppressed(email, message_id, EARLIER, "HardBounce"), "HardBounce"),
        (Reactivated(email, message_id, EARLIER), None),
    ):
        changes = [
            SetSuppression(kind, key, EARLIER, reason, guarded=kind not in unguarded)
            for kind, key in rows
        ]
        for live in (True, False):
            assert _decide(notification, found, live=live) == Recorded(changes)


def test_a_row_without_a_column_for_suppressions_does_not_change() -> None:
    """The outcome reports only what a row records."""
    found = replace(ROWS, suppressible={Suppressible.SUBSCRIBER, Suppressible.SUBSCRIPTION})
    outcome = _decide(Suppressed(ADA, "m-1", EARLIER, "HardBounce"), found, live=True)
    assert [change.row for change in outcome.changes] == [SUBSCRIBER, SUBSCRIPTION]


@pytest.mark.parametrize(
    ("changed_at", "at"),
    [(None, NOW), (EARLIER, EARLIER), (NOW + DAY, NOW + DAY), (NOW + DAY + MOMENT, NOW)],
)
def test_a_date_over_a_day_ahead_is_replaced_by_the_arrival(
    changed_at: datetime | None, at: datetime
) -> None:
    for notification in (
        Suppressed(ADA, "m-1", changed_at, "HardBounce"),
        Reactivated(ADA, "m-1", changed_at),
    ):
        outcome = _decide(notification)
        assert isinstance(outcome, Recorded)
        assert [getattr(change, "at", None) for change in outcome.changes] == [at] * 3


@pytest.mark.parametrize("kind", [Suppressed, Reactivated])
@pytest.mark.parametrize(
    ("changed_at", "last", "now", "at"),
    [
        # Equal bodies are one entry of the log, so a change without a date counts as of its last
        # arrival.
        (None, EARLIER, NOW, EARLIER),
        (None, None, NOW, NOW - 2 * DAY),
        (None, EARLIER, None, EARLIER),
        # A date is compared with the present, not with an arrival that a slow clock has dated.
        (NOW, EARLIER, NOW, NOW),
        (NOW + DAY, EARLIER, NOW, NOW + DAY),
        (NOW + DAY + MOMENT, EARLIER, NOW, EARLIER),
        # A fast clock has dated an arrival in the future.
        (None, NOW + 40 * DAY, NOW, NOW),
        (NOW + 2 * DAY, NOW + 40 * DAY, NOW, NOW),
    ],
)
def test_the_time_of_a_change_that_is_recorded_late(
    kind: type[Suppressed | Reactivated],
    changed_at: datetime | None,
    last: datetime | None,
    now: datetime | None,
    at: datetime,
) -> None:
    reason = ["HardBounce"] if kind is Suppressed else []
    late = Arrival(
        (kind(ADA, "m-1", changed_at, *reason),),
        b"{}",
        NOW - 2 * DAY,
        Source.REPLAY,
        attempts=0,
        last_received_at=last,
        applied_at=now,
    )
    outcome = decide(late, ROWS)
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
        # A change without a guard replaces earlier changes.
        *(("2 1", 1, False), ("2g 1", 1, False), ("2 3g 1", 2, False), ("2 2", 1, False)),
        # After one without a guard, a guarded one applies if it is not earlier.
        *(("1 2g", 1, False), ("2 1g", 0, False), ("2 2g", 1, False), ("2 3g 1g", 1, False)),
        # Of guarded ones the latest wins, and of equal ones the last to arrive.
        *(("1g 2g", 1, True), ("2g 1g", 0, True), ("2g 2g", 1, True), ("1g 3g 2g", 1, True)),
    ],
)
def test_changes_of_one_target_are_merged(
    words: str, winner: int, *, guarded: bool, times: bool
) -> None:
    changes = _changes(words, times=times)
    merged = replace(changes[winner], guarded=guarded)
    assert rules.merge([Recorded([change]) for change in changes]) == [merged]
    assert rules.merge([NO_DISPATCH, Recorded(()), Recorded(changes)]) == [merged]


def test_changes_of_different_targets_are_not_merged() -> None:
    times = ((1, EventTime.DELIVERED), (1, EventTime.OPENED), (2, EventTime.DELIVERED))
    rows: list[RowId] = [(kind, 1) for kind in Suppressible]
    rows += [(Suppressible.DISPATCH, 2), *((Suppressible.SUBSCRIPTION, each) for each in PAIRS)]
    changes: list[Change] = [SetTime(*each, NOW, guarded=False) for each in times]
    changes += [SetSuppression(*each, NOW, None, guarded=True) for each in rows]
    assert rules.merge([Recorded(changes)]) == changes


def test_pairs_are_of_changed_subscribers_and_of_dispatches_with_a_list() -> None:
    group = lookup_keys([_arrival(Suppressed(ADA, each, NOW, "x")) for each in ("m-2", "no-list")])
    opened = lookup_keys([_arrival(Opened(ADA, "m-1", NOW))])
    assert rules.subscription_keys(group, ROWS.subscribers, ROWS.dispatches) == {(7, 1)}
    assert rules.subscription_keys(opened, ROWS.subscribers, ROWS.dispatches) == set()


def test_each_affected_row_is_listed_once() -> None:
    notifications = [*_each(ADA, "m-1"), Delivered(BEA, "m-1", NOW), Opened("eve@x", "m-1", NOW)]
    found = rules.affected_rows(map(_decide, notifications))
    assert len(found) == 3
    assert set(found) == {SUBSCRIBER, DISPATCH, SUBSCRIPTION}


def test_a_change_of_a_locked_row_leaves_the_whole_notification() -> None:
    outcomes = [*map(_decide, (*_each(ADA, "m-1"), Opened(BEA, "m-2", NOW)))]
    outcomes += [NO_SUBSCRIBER, Recorded(())]
    other: list[RowId] = [(Suppressible.SUBSCRIBER, 11), (Suppressible.DISPATCH, 1)]
    for held, failed in (
        *(([], {}), (other, {}), ([SUBSCRIBER], {2, 3}), ([SUBSCRIPTION], {2, 3})),
        *(([DISPATCH], {0, 1, 2, 3}), ([(Suppressible.DISPATCH, 12), SUBSCRIBER], {2, 3, 4})),
    ):
        expected = [None if place in failed else each for place, each in enumerate(outcomes)]
        assert rules.leave_locked(outcomes, held) == expected


def test_no_notification_overtakes_one_that_waits_for_a_locked_row() -> None:
    delivered, _, suppressed, _ = map(_decide, _each(ADA, "m-1"))
    assert rules.leave_locked([delivered, suppressed, delivered], [SUBSCRIBER]) == [
        delivered,
        None,
        None,
    ]


def test_unsupported_notifications_of_a_failed_group_are_refused_as_such() -> None:
    arrivals = [_arrival(Opened(ADA, "m-1", NOW)), _arrival(None)]
    assert rules.fail(arrivals) == [FAILED, UNSUPPORTED]
    assert rules.fail(arrivals, Refusal.UNAVAILABLE) == [Refusal.UNAVAILABLE.refused(), UNSUPPORTED]
