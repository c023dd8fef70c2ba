"""The base of the contract: saves, reads and compares the rows of a host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Never, TypeAlias
from uuid import uuid4

from hookrow.core.notification import Key, Refusal, RowId, Suppressible
from hookrow.providers.postmark import Postmark
from hookrow.receiver.receiver import Receiver
from hookrow.stores import State, Store
from hookrow.testing.client import SECRET, post
from hookrow.testing.payloads import Payload

States: TypeAlias = dict[RowId, State]


class Mail(NamedTuple):
    """A dispatch to a subscriber. If there are no lists, there is no subscription."""

    email: str
    message_id: str
    owner: Key
    dispatch: RowId
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
        return [self.subscriber, self.dispatch, *self.subscriptions]


class HostRows:
    """The rows of a host: a subclass defines how they are saved."""

    store: Store
    _expected: Mapping[RowId, State] = MappingProxyType({})
    """The states of the rows that have been saved, by row."""

    if not TYPE_CHECKING:  # a type checker would accept any name

        def __getattr__(self, name: str) -> Never:
            """Raise an error with the remedy if the subclass has not set the store."""
            if name == "store":
                raise NotImplementedError(
                    "Set self.store, in a fixture with autouse=True or in setUp: "
                    "the SQLStore of your schema, for example."
                )
            raise AttributeError(name)

    def add_subscriber(self, email: str, /) -> Key:
        """Save a subscriber; return its key."""
        raise NotImplementedError("Define add_subscriber(email): save the row and return its key.")

    def add_dispatch(self, message_id: str | None, subscriber: Key, list_: Key | None, /) -> Key:
        """Save a dispatch to the subscriber, on the list if there is one; return its key.

        If `message_id` is None, the dispatch is not sent yet.
        """
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

    def read(self, row: RowId, /) -> State | None:
        """Return the columns of a row that notifications set, by hookrow's names, or None.

        By default, the store reads them. Override this method to read them independently of the
        mapping, which also detects swapped columns.
        """
        with self.store.reading() as reading:
            return reading.read([row]).get(row)

    def _save_mails(self) -> Mail:
        """Save two mails to the same list; return the first."""
        list_ = self.add_list()
        mail, _ = self._save_mail(list_), self._save_mail(list_)
        return mail

    def _save_mail(self, list_: Key | None, name: str = "ada") -> Mail:
        """Save a new subscriber, dispatch and, if there is a list, subscription."""
        message_id = str(uuid4())  # a UUID like the provider's, because the column may be one
        email = f"{name}-{message_id}@example.com"
        subscriber = self.add_subscriber(email)
        subscriptions: list[RowId] = []
        if list_ is not None:
            self.add_subscription(list_, subscriber)
            subscriptions.append((Suppressible.SUBSCRIPTION, (list_, subscriber)))
        dispatch = Suppressible.DISPATCH, self.add_dispatch(message_id, subscriber, list_)
        mail = Mail(email, message_id, subscriber, dispatch, subscriptions)
        self._watch(mail.rows)
        return mail

    def _watch(self, rows: Iterable[RowId]) -> None:
        """Expect rows to keep their states, except for the changes passed to `_expect`."""
        self._expected = {**self._expected, **{row: self._state(row) for row in rows}}

    def _state(self, row: RowId) -> State:
        state = self.read(row)
        if state is None:
            raise AssertionError(
                f"The store finds no row with the key {row[1]!r} in {row[0].value}. Does the "
                "method that saves the row return this key, and does the mapping name its columns?"
            )
        return state

    def _suppressed(self, rows: Iterable[RowId], at: datetime, reason: str | None) -> States:
        """Return the changes of rows whose suppression changes."""
        state = {
            "suppressed_at": at if reason else None,
            "suppression_reason": self.reason(reason) if reason else None,
            "suppression_changed_at": at,
        }
        return dict.fromkeys(rows, state)

    def _post(self, payload: Payload, changes: States) -> None:
        """Post a payload that must be recorded, with exactly these changes."""
        self._respond(payload, (200, ""), SECRET, changes)

    def _refuse(
        self, payload: Payload, refusal: Refusal, *, secret: str = SECRET, **names: str
    ) -> None:
        """Post a payload that must be refused with this refusal, without changes."""
        expected = refusal.status, refusal.refused(**names).text
        self._respond(payload, expected, secret, {})

    def _respond(
        self, payload: Payload, expected: tuple[int, str], secret: str, changes: States
    ) -> None:
        response = post(Receiver(Postmark(SECRET), self.store), payload, secret=secret)
        hint = "".join(hint for text, hint in _HINTS.items() if response[1].startswith(text))
        event = f"a {payload['RecordType']} of {payload['MessageID']!r}"
        email = payload.get("Recipient", payload.get("Email"))
        same(f"The response to {event} to {email!r}", response, expected, hint)
        self._expect(event, changes)

    def _expect(self, event: str, changes: States) -> None:
        """Read all rows again; assert that exactly these changes were made, if columns exist."""
        states = {row: self._state(row) for row in self._expected}
        for row, state in self._expected.items():
            expected = {**state, **changes.get(row, {})}
            for column in state:
                subject = f"After {event}, {column} of the row {row[1]!r} in {row[0].value}"
                same(subject, states[row][column], expected[column])
        self._expected = states


def same(subject: str, actual: object, expected: object, hint: str = "") -> None:
    """Raise an `AssertionError` that describes the value, unless the two are equal."""
    __tracebackhide__ = True
    if actual != expected:
        raise AssertionError(f"{subject} is {actual!r}; expected {expected!r}.{hint}")


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
