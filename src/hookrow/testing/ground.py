"""What a contract test stands on: rows that the host saves, posted to and read back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Never, TypeAlias
from uuid import uuid4

from hookrow.core.notification import Key, LookupKeys, Refusal, RowId, Suppressible
from hookrow.providers.postmark import Postmark
from hookrow.receiver.receiver import Receiver
from hookrow.stores import State, Store
from hookrow.testing.applications import Answer
from hookrow.testing.payloads import Payload
from hookrow.testing.posting import SECRET, post

States: TypeAlias = dict[RowId, State]


@dataclass(frozen=True, slots=True)
class Mail:
    """A dispatch that a subscriber was sent, with the keys of its rows."""

    email: str
    message_id: str
    owner: Key
    sent: Key
    list: Key | None

    @property
    def subscriber(self) -> RowId:
        """The subscriber's row."""
        return Suppressible.SUBSCRIBER, self.owner

    @property
    def dispatch(self) -> RowId:
        """The dispatch's row."""
        return Suppressible.DISPATCH, self.sent

    @property
    def rows(self) -> Sequence[RowId]:
        """All rows that a suppression reaches, the subscription where there are lists."""
        rows = [self.subscriber, self.dispatch]
        if self.list is not None:
            rows.append((Suppressible.SUBSCRIPTION, (self.list, self.owner)))
        return rows


class Ground:
    """The mapping of a host: a subclass says how its rows are saved."""

    store: Store

    if not TYPE_CHECKING:  # to a checker of types every name would be there

        def __getattr__(self, name: str) -> Never:
            """Say what to do where a test asks for the store that a subclass did not set."""
            if name == "store":
                raise NotImplementedError(
                    "Set self.store, in a fixture with autouse=True or in setUp: "
                    "the SQLStore of your schema, for example."
                )
            raise AttributeError(name)

    def add_subscriber(self, email: str, /) -> Key:
        """Save a subscriber; return its key."""
        raise NotImplementedError("Define add_subscriber(email): save one, return its key.")

    def add_dispatch(self, message_id: str | None, subscriber: Key, list_: Key | None, /) -> Key:
        """Save a dispatch to the subscriber, on the list if any; return its key.

        None for `message_id` is one that is not sent yet.
        """
        raise NotImplementedError(
            "Define add_dispatch(message_id, subscriber, list_): save one, return its key."
        )

    def add_list(self) -> Key | None:
        """Save a list; return its key. None, unless it is overridden: there are no lists."""
        return None

    def add_subscription(self, list_: Key, subscriber: Key, /) -> None:
        """Save the subscriber's subscription to the list; needed where there are lists."""
        raise NotImplementedError("Define add_subscription(list_, subscriber): save one.")

    def reason(self, word: str, /) -> object:
        """Return what is kept for a reason of the provider's: itself, unless overridden."""
        return word

    def read(self, row: RowId, /) -> State | None:
        """Read what notifications set in a row, by our names; None where there is no such row.

        It asks the store. Override it to read by a way of your own: that sees, too, two
        columns that are taken for each other.
        """
        with self.store.reading() as reading:
            return reading.read([row]).get(row)

    def _mails(self) -> tuple[Mail, States]:
        """Save two mails to the same list; return one, and the states of the rows of both."""
        list_ = self.add_list()
        mail, other = self._mail(list_), self._mail(list_)
        return mail, self._states([*mail.rows, *other.rows])

    def _mail(self, list_: Key | None, name: str = "ada") -> Mail:
        """Save a subscriber, a dispatch and, on a list, a subscription, each a new one."""
        message_id = str(uuid4())  # a GUID as the provider's are: a column may take nothing else
        email = f"{name}-{message_id}@example.com"
        subscriber = self.add_subscriber(email)
        if list_ is not None:
            self.add_subscription(list_, subscriber)
        return Mail(
            email, message_id, subscriber, self.add_dispatch(message_id, subscriber, list_), list_
        )

    def _states(self, rows: Iterable[RowId]) -> States:
        return {row: self._state(row) for row in rows}

    def _state(self, row: RowId) -> State:
        state = self.read(row)
        if state is None:
            raise AssertionError(
                f"Among the {row[0].value} the store finds no row with the key {row[1]!r}. "
                "Is that the key of the row that was saved, and are the columns that make it named?"
            )
        return state

    def _suppressed(self, rows: Iterable[RowId], at: datetime, reason: str | None) -> States:
        """Return what a change of suppression leaves in the rows."""
        state = {
            "suppressed_at": at if reason else None,
            "suppression_reason": self.reason(reason) if reason else None,
            "suppression_changed_at": at,
        }
        return dict.fromkeys(rows, state)

    def _undated(self) -> Collection[Suppressible]:
        """Return the kinds of row that take the last change to arrive, for lack of any date."""
        with self.store.reading() as reading:
            return reading.find(LookupKeys((), (), ())).undated

    def _post(self, payload: Payload) -> None:
        """Post what has to be recorded."""
        self._answered(payload, (200, ""))

    def _refuse(
        self, payload: Payload, refusal: Refusal, *, secret: str = SECRET, **names: str
    ) -> None:
        """Post what has to be refused so."""
        self._answered(payload, (refusal.status, refusal.refused(**names).text), secret)

    def _answered(self, payload: Payload, expected: Answer, secret: str = SECRET) -> None:
        answer = post(Receiver(Postmark(SECRET), self.store), payload, secret=secret)
        hint = "".join(hint for text, hint in _HINTS.items() if answer[1].startswith(text))
        who = f"of {payload['MessageID']!r} to {payload.get('Recipient', payload.get('Email'))!r}"
        same(f"The answer to a {payload['RecordType']} {who}", answer, expected, hint)

    def _expect(self, told: str, before: States, changes: States | None = None) -> None:
        """Read the rows again: these changes are there, as far as there are columns; no others."""
        for row, state in before.items():
            found, wanted = self._state(row), {**state, **(changes or {}).get(row, {})}
            for column in state:
                what = f"After {told}, {column} of the {row[0].value}' row {row[1]!r}"
                same(what, found[column], wanted[column])


def same(what: str, found: object, expected: object, hint: str = "") -> None:
    """Raise an `AssertionError` that says what it is, unless the two are equal."""
    __tracebackhide__ = True
    if found != expected:
        raise AssertionError(f"{what} is {found!r}, and has to be {expected!r}.{hint}")


_HINTS = {
    Refusal.SUBSCRIBER_NOT_FOUND.text: (
        " Is the email of the subscribers the column that add_subscriber saves it in? "
        "Does `fold` fit it, and does `where` show the row?"
    ),
    Refusal.DISPATCH_NOT_FOUND.text: (
        " Is the provider_message_id of the dispatches the column that add_dispatch saves it in? "
        "Does `where` show the row?"
    ),
    "Dispatch subscriber": (
        " Is the subscriber_id of the dispatches the column that add_dispatch saves it in?"
    ),
    Refusal.FAILED.text: " The log of `hookrow` says what went wrong.",
}
"""What may be amiss with a mapping, by how an answer begins."""
