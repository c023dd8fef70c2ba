"""The contract of a mapping: tests of a store on a host's tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from hookrow.core.notification import (
    Arrival,
    Delivered,
    LookupKeys,
    Notification,
    Opened,
    Reactivated,
    Refusal,
    Source,
    Suppressed,
    Suppressible,
)
from hookrow.core.rules import decide, lookup_keys, merge
from hookrow.receiver.recorder import record
from hookrow.stores import Store
from hookrow.testing.client import SECRET
from hookrow.testing.host_rows import HostRows, Mail, States, same
from hookrow.testing.payloads import bounce, delivery, opening, reactivation, suppression

NOON = datetime(2025, 3, 4, 12, 0, 0, 123456, tzinfo=UTC)
HOUR = timedelta(hours=1)


class StoreContract(HostRows):
    """Tests of your own mapping: subclass it, and define how rows are saved.

    A subclass sets `store` and defines `add_subscriber`, `add_dispatch` and, if there are lists,
    `add_list` and `add_subscription`. It runs under pytest and, together with
    `unittest.TestCase`, under unittest and Django. Each test saves its own rows, and neither
    depends on other rows nor deletes any.
    """

    def test_delivery(self) -> None:
        """A delivery sets `delivered_at` of its dispatch, and nothing else."""
        mail = self._save_mails()
        self._post(delivery(*mail.ids, at=NOON), {mail.dispatch: {"delivered_at": NOON}})

    def test_open(self) -> None:
        """An open sets `opened_at` of its dispatch, and nothing else."""
        mail = self._save_mails()
        self._post(opening(*mail.ids, at=NOON), {mail.dispatch: {"opened_at": NOON}})

    def test_last_arrival_sets_the_time(self) -> None:
        """Each time replaces the previous one, even if it is earlier."""
        mail = self._save_mails()
        for at in (NOON, NOON + HOUR, NOON - HOUR):
            self._post(delivery(*mail.ids, at=at), {mail.dispatch: {"delivered_at": at}})

    def test_suppression(self) -> None:
        """A suppression changes the subscriber, dispatch and subscription, if they have columns."""
        mail = self._save_mails()
        payload = suppression(*mail.ids, at=NOON, reason="SpamComplaint")
        self._post(payload, self._suppressed(mail.rows, NOON, "SpamComplaint"))

    def test_suppression_without_a_message_id(self) -> None:
        """Without a message id, no dispatch and no subscription is suppressed."""
        mail = self._save_mails()
        changes = self._suppressed([mail.subscriber], NOON, "HardBounce")
        self._post(suppression(mail.email, None, at=NOON), changes)

    def test_suppression_with_the_message_of_another_subscriber(self) -> None:
        """The other subscriber's dispatch and the Recipient's own subscription are suppressed."""
        list_ = self.add_list()
        mail, other = self._save_mail(list_), self._save_mail(list_)
        rows = [mail.dispatch, other.subscriber, *other.subscriptions]
        payload = suppression(other.email, mail.message_id, at=NOON)
        self._post(payload, self._suppressed(rows, NOON, "HardBounce"))

    def test_reactivation(self) -> None:
        """A reactivation lifts the suppression of all rows."""
        mail = self._save_mails()
        suppressed = self._suppressed(mail.rows, NOON, "HardBounce")
        self._post(suppression(*mail.ids, at=NOON), suppressed)
        lifted = self._suppressed(mail.rows, NOON + HOUR, None)
        self._post(reactivation(*mail.ids, at=NOON + HOUR), lifted)

    def test_older_change(self) -> None:
        """An older change has no effect, unless the row has no date and there is no log."""
        mail = self._save_mails()
        self._post(reactivation(*mail.ids, at=NOON), self._suppressed(mail.rows, NOON, None))
        self._post(suppression(*mail.ids, at=NOON - HOUR), self._older_suppression(mail))

    def test_unknown_subscriber(self) -> None:
        """If no subscriber has the email, the response is 404 and nothing is changed."""
        mail = self._save_mails()
        payload = delivery(f"not-{mail.email}", mail.message_id, at=NOON)
        self._refuse(payload, Refusal.SUBSCRIBER_NOT_FOUND)

    def test_unknown_message_id(self) -> None:
        """If no dispatch has exactly this id, the response is 404 and nothing is changed.

        The case of an id matters in a column of text, but not in one of UUIDs.
        """
        mail = self._save_mails()
        unknown = [None, "", f"{mail.message_id}0"]
        if not _has_uuids(self.store):
            unknown.append(mail.message_id.upper())
        for message_id in unknown:
            payload = delivery(mail.email, message_id, at=NOON)
            self._refuse(payload, Refusal.DISPATCH_NOT_FOUND)

    def test_other_recipient(self) -> None:
        """If the dispatch is another subscriber's, the response is 400 and nothing is changed."""
        mail, other = self._save_mails(), self._save_mails()
        payload = opening(other.email, mail.message_id, at=NOON)
        names = {"owner": mail.email, "recipient": other.email}
        self._refuse(payload, Refusal.RECIPIENT_MISMATCH, **names)

    def test_unsupported(self) -> None:
        """Another record type gets a 422, and nothing is changed."""
        mail = self._save_mails()
        self._refuse(bounce(*mail.ids, at=NOON), Refusal.UNSUPPORTED)

    def test_wrong_secret(self) -> None:
        """A wrong secret gets a 401, and nothing is changed."""
        mail = self._save_mails()
        self._refuse(delivery(*mail.ids, at=NOON), Refusal.UNAUTHENTIC, secret=SECRET[::-1])

    def test_case_of_an_email(self) -> None:
        """ASCII letters match in either case; the row's exact spelling always matches."""
        mail, mixed = self._save_mails(), self._save_mail(self.add_list(), "Ada")
        for email, row in ((mail.email.upper(), mail), (mixed.email, mixed)):
            payload = opening(email, row.message_id, at=NOON)
            self._post(payload, {row.dispatch: {"opened_at": NOON}})

    def test_dispatch_without_a_message_id(self) -> None:
        """A dispatch that is not sent yet matches no notification, even one without an id."""
        mail = self._save_mails()
        unsent = self.add_dispatch(None, mail.owner, self.add_list())
        self._watch([(Suppressible.DISPATCH, unsent)])
        self._refuse(delivery(mail.email, None, at=NOON), Refusal.DISPATCH_NOT_FOUND)
        changes = self._suppressed([mail.subscriber], NOON, "HardBounce")
        self._post(suppression(mail.email, None, at=NOON), changes)

    def test_replay(self) -> None:
        """A late notification sets a time only if there is none or an older one.

        A late change of a suppression applies only if the row's last change is not newer. Without a
        log, this is unknown for a row that does not store the date of its last change.
        """
        mail = self._save_mails()
        self._post(delivery(*mail.ids, at=NOON), {mail.dispatch: {"delivered_at": NOON}})
        self._post(reactivation(*mail.ids, at=NOON), self._suppressed(mail.rows, NOON, None))
        older = Delivered(*mail.ids, NOON - HOUR), Suppressed(*mail.ids, NOON - HOUR, "HardBounce")
        record(self.store, [_arrival(each, live=False) for each in older])
        self._expect("a replay of older notifications", self._older_suppression(mail))
        newer = Delivered(*mail.ids, NOON + HOUR), Opened(*mail.ids, NOON)
        record(self.store, [_arrival(each, live=False) for each in newer])
        times = {"delivered_at": NOON + HOUR, "opened_at": NOON}
        self._expect("a replay of newer notifications", {mail.dispatch: times})

    def test_group(self) -> None:
        """Notifications in one transaction have the same results as in separate transactions."""
        together, alone = self._save_mail(self.add_list()), self._save_mail(self.add_list())
        grouped = record(self.store, _unordered(together))
        single = [record(self.store, [arrival])[0] for arrival in _unordered(alone)]
        same("The results of a group", [*map(type, grouped)], [*map(type, single)])
        for row, twin in zip(together.rows, alone.rows, strict=True):
            same(f"After a group, the row in {row[0].value}", self.read(row), self.read(twin))

    def test_rollback(self) -> None:
        """If a transaction fails, all its changes are rolled back."""
        mail = self._save_mails()
        arrivals = [_arrival(Suppressed(*mail.ids, NOON, "HardBounce"))]
        with suppress(_RolledBack), self.store.transaction() as transaction:
            rows = transaction.find(lookup_keys(arrivals))
            transaction.write(merge([decide(each, rows) for each in arrivals]))
            raise _RolledBack
        self._expect("a transaction that failed", {})

    def _older_suppression(self, mail: Mail) -> States:
        """Return the changes of a suppression that is recorded after a newer reactivation.

        The suppression is dated an hour before NOON, and the reactivation at NOON.
        """
        with self.store.reading() as reading:
            undated = reading.find(LookupKeys((), (), ())).undated
        rows = [row for row in mail.rows if row[0] in undated]
        return self._suppressed(rows, NOON - HOUR, "HardBounce")


class _RolledBack(Exception):
    """Makes a transaction fail."""


def _has_uuids(store: Store) -> bool:
    """Return whether the store's message ids are UUIDs, which match in any case."""
    from hookrow.stores.sql import SQLStore  # noqa: PLC0415 - other stores do not need it

    return isinstance(store, SQLStore) and store.queries.has_uuids


def _arrival(notification: Notification, *, live: bool = True) -> Arrival:
    source = Source.LIVE if live else Source.REPLAY
    return Arrival(notification, repr(notification).encode(), NOON, source)


def _unordered(mail: Mail) -> Sequence[Arrival]:
    """Return notifications about the same rows, out of order."""
    return [
        _arrival(Delivered(*mail.ids, NOON)),
        _arrival(Suppressed(*mail.ids, NOON, "HardBounce")),
        _arrival(Opened(*mail.ids, NOON + HOUR), live=False),
        _arrival(Delivered(*mail.ids, NOON - HOUR)),
        _arrival(Opened(f"not-{mail.email}", mail.message_id, NOON)),
        _arrival(Reactivated(*mail.ids, NOON - HOUR)),
        _arrival(Suppressed(*mail.ids, NOON, "SpamComplaint")),
        _arrival(Delivered(*mail.ids, NOON - 2 * HOUR), live=False),
        _arrival(Opened(*mail.ids, NOON), live=False),
        _arrival(Reactivated(mail.email, None, NOON + HOUR), live=False),
    ]
