"""The contract of a mapping: tests of a store on a host's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple, TypeAlias
from uuid import uuid4

from hookrow._core.changes import State, as_state, new_values
from hookrow._core.notification import Key, LookupKeys, Refusal, RowId, SetSuppression, Suppressible
from hookrow.stores.sql import SQLStore
from hookrow.testing._client import open_receiver, post
from hookrow.testing._payloads import Payload, delivery, opening, reactivation, suppression

NOON = datetime(2025, 3, 4, 12, 0, 0, 123456, tzinfo=UTC)
HOUR = timedelta(hours=1)

_OPENED = {"opened_at": NOON, "first_opened_at": NOON}
"""The changes of a dispatch that is opened for the first time; one of the columns is optional."""

States: TypeAlias = dict[RowId, State]


class SavedDispatch(NamedTuple):
    """A dispatch to a subscriber. If there are no lists, there is no subscription.

    If the mapping has no dispatches, there is only the subscriber.
    """

    email: str
    message_id: str
    owner: Key
    dispatch: RowId | None
    subscriptions: Sequence[RowId]

    @property
    def ids(self) -> tuple[str, str]:
        """The recipient and the message id of payloads."""
        return self.email, self.message_id

    @property
    def subscriber(self) -> RowId:
        """The subscriber's row."""
        return Suppressible.SUBSCRIBER, self.owner

    @property
    def rows(self) -> Sequence[RowId]:
        """All rows that a suppression changes."""
        dispatches = [] if self.dispatch is None else [self.dispatch]
        return [self.subscriber, *dispatches, *self.subscriptions]


class StoreContract:
    """Tests of your own mapping: subclass it, and define how rows are saved.

    A subclass sets `store` and defines `add_subscriber`, `add_dispatch` and, if there are lists,
    `add_list` and `add_subscription`. If the mapping has no dispatches, `add_dispatch` is not
    needed, and a delivery or an open gets a 404. It runs under pytest and, together with
    `unittest.TestCase`, under unittest and Django. Each test saves its own rows, and neither
    depends on other rows nor deletes any. If the mapping names columns of tenants, `tenant` is the
    one of the rows that the methods save.
    """

    store: SQLStore
    tenant: Key | None = None
    _expected: Mapping[RowId, State] = MappingProxyType({})
    """The rows that have been saved, with their states."""

    def add_subscriber(self, email: str, /) -> Key:
        """Save a subscriber; return its key."""
        raise NotImplementedError("Define add_subscriber(email): save the row and return its key.")

    def add_dispatch(self, message_id: str, subscriber: Key, list_: Key | None, /) -> Key:
        """Save a dispatch to the subscriber, on the list if there is one; return its key."""
        raise NotImplementedError(
            "Define add_dispatch(message_id, subscriber, list_): save the row and return its key."
        )

    def add_list(self) -> Key | None:
        """Save a list; return its key. By default, return None: there are no lists."""
        return None

    def add_subscription(self, list_: Key, subscriber: Key, /) -> None:
        """Save the subscriber's subscription to the list; required if there are lists."""
        raise NotImplementedError("Define add_subscription(list_, subscriber): save the row.")

    def reason(self, word: str, /) -> object:
        """Return the value that rows store for a reason of the provider: by default, the reason."""
        return word

    def read(self, role: str, key: Key | tuple[Key, Key], /) -> Mapping[str, object] | None:
        """Return the columns of a row that notifications set, by hookrow's names, or None.

        `role` is `subscribers`, `dispatches` or `subscriptions`; the key of a subscription is
        (list, subscriber). By default, the store reads the row. Override this method to read it
        independently of the mapping, which also detects swapped columns.
        """
        row = Suppressible(role), key
        with self.store.reading() as reading:
            return reading.read([row]).get(row)

    def test_delivery(self) -> None:
        """A delivery sets `delivered_at` of its dispatch, and nothing else."""
        saved = self._save_dispatches()
        self._post_event(delivery(*saved.ids, at=NOON), saved, {"delivered_at": NOON})

    def test_open(self) -> None:
        """An open sets `opened_at` of its dispatch, and `first_opened_at` if there is one."""
        saved = self._save_dispatches()
        self._post_event(opening(*saved.ids, at=NOON), saved, _OPENED)

    def test_suppression(self) -> None:
        """A suppression changes the subscriber, dispatch and subscription, if they have columns."""
        saved = self._save_dispatches()
        payload = suppression(*saved.ids, at=NOON, reason="SpamComplaint")
        self._post(payload, self._suppressed(saved.rows, NOON, "SpamComplaint"))

    def test_reactivation(self) -> None:
        """A reactivation lifts the suppression of all rows."""
        saved = self._save_dispatches()
        suppressed = self._suppressed(saved.rows, NOON, "HardBounce")
        self._post(suppression(*saved.ids, at=NOON), suppressed)
        lifted = self._suppressed(saved.rows, NOON + HOUR, None)
        self._post(reactivation(*saved.ids, at=NOON + HOUR), lifted)

    def test_older_change(self) -> None:
        """An older change has no effect, unless the row has no date and there is no log."""
        saved = self._save_dispatches()
        self._post(reactivation(*saved.ids, at=NOON), self._suppressed(saved.rows, NOON, None))
        self._post(suppression(*saved.ids, at=NOON - HOUR), self._older_suppression(saved))

    def test_unknown_message_id(self) -> None:
        """If no dispatch has exactly this id, the response is 404 and nothing is changed.

        The case of an id matters in a column of text, but not in one of UUIDs.
        """
        saved = self._save_dispatches()
        unknown = [None, "", f"{saved.message_id}0"]
        if not self.store.role_tables.has_uuids:  # which match in any case
            unknown.append(saved.message_id.upper())
        for message_id in unknown:
            payload = delivery(saved.email, message_id, at=NOON)
            self._refuse(payload, Refusal.DISPATCH_NOT_FOUND)

    def test_other_recipient(self) -> None:
        """If the dispatch is another subscriber's, the response is 400 and nothing is changed."""
        saved, other = self._save_dispatches(), self._save_dispatches()
        payload = opening(other.email, saved.message_id, at=NOON)
        if saved.dispatch is None:
            self._refuse(payload, Refusal.DISPATCH_NOT_FOUND)
            return
        names = {"owner": saved.email, "recipient": other.email}
        self._refuse(payload, Refusal.RECIPIENT_MISMATCH, **names)

    def test_case_of_an_email(self) -> None:
        """ASCII letters match in either case; the row's exact spelling always matches."""
        saved, mixed = self._save_dispatches(), self._save_dispatch(self.add_list(), "Ada")
        for email, row in ((saved.email.upper(), saved), (mixed.email, mixed)):
            self._post_event(opening(email, row.message_id, at=NOON), row, _OPENED)

    def _older_suppression(self, saved: SavedDispatch) -> States:
        """Return the changes of a suppression that is recorded after a newer reactivation.

        The suppression is dated an hour before NOON, and the reactivation at NOON.
        """
        with self.store.reading() as reading:
            unguarded = reading.find(LookupKeys(())).unguarded
        rows = [row for row in saved.rows if row[0] in unguarded]
        return self._suppressed(rows, NOON - HOUR, "HardBounce")

    def _save_dispatches(self) -> SavedDispatch:
        """Save two dispatches on the same list; return the first."""
        list_ = self.add_list()
        saved, _ = self._save_dispatch(list_), self._save_dispatch(list_)
        return saved

    def _save_dispatch(self, list_: Key | None, name: str = "ada") -> SavedDispatch:
        """Save a new subscriber, dispatch and, if there is a list, subscription."""
        message_id = str(uuid4())  # a UUID like the provider's, because the column may be one
        email = f"{name}-{message_id}@example.com"
        subscriber = self.add_subscriber(email)
        subscriptions: list[RowId] = []
        if list_ is not None:
            self.add_subscription(list_, subscriber)
            subscriptions.append((Suppressible.SUBSCRIPTION, (list_, subscriber)))
        dispatch: RowId | None = None
        if self.store.schema.dispatches is not None:
            dispatch = Suppressible.DISPATCH, self.add_dispatch(message_id, subscriber, list_)
        saved = SavedDispatch(email, message_id, subscriber, dispatch, subscriptions)
        self._expected = {**self._expected, **{row: self._state(row) for row in saved.rows}}
        return saved

    def _state(self, row: RowId) -> State:
        state = self.read(row[0].value, row[1])
        if state is None:
            raise AssertionError(
                f"The store finds no row with the key {row[1]!r} in {row[0].value}. Does the "
                "method that saves the row return this key, and does the mapping name its columns?"
            )
        return state

    def _suppressed(self, rows: Sequence[RowId], at: datetime, reason: str | None) -> States:
        """Return the changes of rows whose suppression changes."""
        changes = (SetSuppression(kind, key, at, reason, guarded=True) for kind, key in rows)
        return {each.row: new_values(each, self.reason) for each in changes}

    def _post(self, payload: Payload, changes: States) -> None:
        """Post a payload that must be recorded, with exactly these changes."""
        self._check_response(payload, (200, ""), changes)

    def _post_event(self, payload: Payload, saved: SavedDispatch, changes: State) -> None:
        """Post a payload that must change the dispatch, or be refused if there are none."""
        if saved.dispatch is None:
            self._refuse(payload, Refusal.DISPATCH_NOT_FOUND)
        else:
            self._post(payload, {saved.dispatch: changes})

    def _refuse(self, payload: Payload, refusal: Refusal, **names: str) -> None:
        """Post a payload that must be refused with this refusal, without changes."""
        expected = refusal.status, refusal.refused(**names).text
        self._check_response(payload, expected, {})

    def _check_response(self, payload: Payload, expected: tuple[int, str], changes: States) -> None:
        with open_receiver(self.store, tenant=self.tenant) as receiver:
            response = post(receiver, payload)
        hint = "".join(hint for text, hint in _HINTS.items() if response[1].startswith(text))
        event = f"a {payload['RecordType']} of {payload['MessageID']!r}"
        assert_equal(
            f"The response to {event} to {payload['Recipient']!r}", response, expected, hint
        )
        self._expect(event, changes)

    def _expect(self, event: str, changes: States) -> None:
        """Read all rows again; assert that exactly these changes were made, if columns exist."""
        states = {row: self._state(row) for row in self._expected}
        for row, state in self._expected.items():
            expected = {**state, **as_state(changes.get(row, {}), state)}
            for column in state:
                subject = f"After {event}, {column} of the row {row[1]!r} in {row[0].value}"
                found, wanted = states[row][column], expected[column]
                hint = _WITHOUT_FRACTION if _lacks_fraction(found, wanted) else ""
                assert_equal(subject, found, wanted, hint)
        self._expected = states


def _lacks_fraction(found: object, expected: object) -> bool:
    """Return whether a time lacks only the fraction of a second that is expected."""
    if not isinstance(found, datetime) or not isinstance(expected, datetime):
        return False
    return found != expected and found == expected.replace(microsecond=0)


def assert_equal(subject: str, actual: object, expected: object, hint: str = "") -> None:
    """Raise an `AssertionError` that describes the value, unless the two are equal."""
    __tracebackhide__ = True
    if actual != expected:
        raise AssertionError(f"{subject} is {actual!r}; expected {expected!r}.{hint}")


_WITHOUT_FRACTION = (
    " The column stores no fractions of a second, so hookrow may apply two events of the same "
    "second in the wrong order. On MariaDB and MySQL, declare it as DATETIME(6)."
)

_HINTS = {
    Refusal.SUBSCRIBER_NOT_FOUND.text: (
        " Is the email mapped to the column in which add_subscriber saves it? "
        "Does `fold` suit the column, and does `where` select the row?"
    ),
    Refusal.DISPATCH_NOT_FOUND.text: (
        " Is provider_message_id mapped to the column in which add_dispatch saves it? "
        "Does `where` select the row?"
    ),
    "Dispatch subscriber": (
        " Is subscriber_id mapped to the column in which add_dispatch saves it?"
    ),
    Refusal.FAILED.text: " The logger `hookrow` reports the reason.",
}
"""Possible mistakes in a mapping, by the beginning of the response."""
