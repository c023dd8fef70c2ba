"""The contract of a mapping: tests of a store on the tables of a host."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from hookrow.core.notification import (
    Arrival,
    Delivered,
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
from hookrow.testing.ground import Ground, Mail, same
from hookrow.testing.payloads import bounce, delivery, opening, reactivation, suppression
from hookrow.testing.posting import SECRET

NOON = datetime(2025, 3, 4, 12, 0, 0, 123456, tzinfo=UTC)
HOUR = timedelta(hours=1)


class StoreContract(Ground):
    """Tests of a mapping of your own: subclass it, and define how rows are saved.

    A subclass sets `store` and defines `add_subscriber`, `add_dispatch` and, if there are lists,
    `add_list` and `add_subscription`. It runs under pytest and, together with
    `unittest.TestCase`, under unittest and Django. Each test saves rows of its own, and neither
    depends on other rows nor deletes any.
    """

    def test_a_delivery_sets_its_time(self) -> None:
        """A delivery sets `delivered_at` of its dispatch, and nothing else."""
        mail, before = self._mails()
        self._post(delivery(mail.email, mail.message_id, at=NOON))
        self._expect("a delivery", before, {mail.dispatch: {"delivered_at": NOON}})

    def test_an_open_sets_its_time(self) -> None:
        """An open sets `opened_at` of its dispatch, and nothing else."""
        mail, before = self._mails()
        self._post(opening(mail.email, mail.message_id, at=NOON))
        self._expect("an open", before, {mail.dispatch: {"opened_at": NOON}})

    def test_the_last_time_to_arrive_counts(self) -> None:
        """A time replaces the one that arrived before it, even if that is later."""
        mail, before = self._mails()
        for at in (NOON, NOON + HOUR, NOON - HOUR):
            self._post(delivery(mail.email, mail.message_id, at=at))
            self._expect("one more delivery", before, {mail.dispatch: {"delivered_at": at}})

    def test_a_suppression_reaches_its_rows(self) -> None:
        """It changes the subscriber, dispatch and subscription, if they have columns for it."""
        mail, before = self._mails()
        self._post(suppression(mail.email, mail.message_id, at=NOON, reason="SpamComplaint"))
        self._expect("a suppression", before, self._suppressed(mail.rows, NOON, "SpamComplaint"))

    def test_a_suppression_without_a_message_reaches_the_subscriber(self) -> None:
        """Without a message id, no dispatch and no subscription is suppressed."""
        mail, before = self._mails()
        self._post(suppression(mail.email, None, at=NOON))
        changes = self._suppressed([mail.subscriber], NOON, "HardBounce")
        self._expect("a suppression without a message", before, changes)

    def test_a_suppression_takes_the_dispatch_of_anybody(self) -> None:
        """It suppresses another subscriber's dispatch, and the Recipient's own subscription."""
        list_ = self.add_list()
        mail, other = self._mail(list_), self._mail(list_)
        before = self._states([*mail.rows, *other.rows])
        self._post(suppression(other.email, mail.message_id, at=NOON))
        rows = [mail.dispatch, *(row for row in other.rows if row != other.dispatch)]
        changes = self._suppressed(rows, NOON, "HardBounce")
        self._expect("a suppression that names somebody else's message", before, changes)

    def test_a_suppression_is_lifted(self) -> None:
        """A reactivation lifts the suppression of all rows."""
        mail, before = self._mails()
        self._post(suppression(mail.email, mail.message_id, at=NOON))
        self._post(reactivation(mail.email, mail.message_id, at=NOON + HOUR))
        self._expect("a reactivation", before, self._suppressed(mail.rows, NOON + HOUR, None))

    def test_a_late_change_undoes_nothing_newer(self) -> None:
        """An older change does not change a row, unless the row has no date and there is no log."""
        mail, before = self._mails()
        self._post(reactivation(mail.email, mail.message_id, at=NOON))
        self._post(suppression(mail.email, mail.message_id, at=NOON - HOUR))
        undated = [row for row in mail.rows if row[0] in self._undated()]
        changes = self._suppressed(mail.rows, NOON, None)
        changes |= self._suppressed(undated, NOON - HOUR, "HardBounce")
        self._expect("a suppression that came late", before, changes)

    def test_a_stranger_is_refused(self) -> None:
        """No subscriber has the email: 404, and nothing is changed."""
        mail, before = self._mails()
        payload = delivery(f"not-{mail.email}", mail.message_id, at=NOON)
        self._refuse(payload, Refusal.SUBSCRIBER_NOT_FOUND)
        self._expect("a delivery to a stranger", before)

    def test_an_unknown_message_is_refused(self) -> None:
        """No dispatch has exactly this id: 404, and nothing is changed."""
        mail, before = self._mails()
        for message_id in (None, "", f"{mail.message_id}0", mail.message_id.upper()):
            payload = delivery(mail.email, message_id, at=NOON)
            self._refuse(payload, Refusal.DISPATCH_NOT_FOUND)
        self._expect("deliveries of unknown messages", before)

    def test_another_recipient_is_refused(self) -> None:
        """The dispatch belongs to another subscriber, whom the 400 names; nothing is changed."""
        mail, before = self._mails()
        other = self._mail(self.add_list())
        payload = opening(other.email, mail.message_id, at=NOON)
        names = {"owner": mail.email, "recipient": other.email}
        self._refuse(payload, Refusal.RECIPIENT_MISMATCH, **names)
        self._expect("an open by somebody else", before)

    def test_what_is_not_supported_is_refused(self) -> None:
        """Another record type gets a 422, and nothing is changed."""
        mail, before = self._mails()
        self._refuse(bounce(mail.email, mail.message_id, at=NOON), Refusal.UNSUPPORTED)
        self._expect("a bounce", before)

    def test_nobody_comes_in_without_the_secret(self) -> None:
        """A wrong secret gets a 401, and nothing is changed."""
        mail, before = self._mails()
        payload = delivery(mail.email, mail.message_id, at=NOON)
        self._refuse(payload, Refusal.UNAUTHENTIC, secret=SECRET[::-1])
        self._expect("a delivery with a wrong secret", before)

    def test_an_email_is_found_whatever_its_case(self) -> None:
        """ASCII letters match in either case; the exact spelling of the row always matches."""
        mail, before = self._mails()
        self._post(opening(mail.email.upper(), mail.message_id, at=NOON))
        self._expect("an open in upper case", before, {mail.dispatch: {"opened_at": NOON}})
        mixed = self._mail(self.add_list(), "Ada")
        self._post(opening(mixed.email, mixed.message_id, at=NOON))

    def test_a_message_id_that_is_null_matches_nothing(self) -> None:
        """No notification matches a dispatch that is not sent yet, even one without an id."""
        mail, before = self._mails()
        unsent = self.add_dispatch(None, mail.owner, mail.list)
        before |= self._states([(Suppressible.DISPATCH, unsent)])
        self._refuse(delivery(mail.email, None, at=NOON), Refusal.DISPATCH_NOT_FOUND)
        self._expect("a delivery without a message id", before)
        self._post(suppression(mail.email, None, at=NOON))
        changes = self._suppressed([mail.subscriber], NOON, "HardBounce")
        self._expect("a suppression without a message id", before, changes)

    def test_a_replay_takes_the_place_of_nothing_newer(self) -> None:
        """A late notification sets a time only if there is none or an older one.

        A late change of a suppression applies only if the row's last change is not newer. If there
        is no log, that is unknown for a row without a date of its last change.
        """
        mail, before = self._mails()
        who = (mail.email, mail.message_id)
        self._post(delivery(*who, at=NOON))
        self._post(reactivation(*who, at=NOON))
        self._replay(Delivered(*who, NOON - HOUR), Suppressed(*who, NOON - HOUR, "HardBounce"))
        undated = [row for row in mail.rows if row[0] in self._undated()]
        changes = self._suppressed(mail.rows, NOON, None)
        changes |= self._suppressed(undated, NOON - HOUR, "HardBounce")
        changes[mail.dispatch] = {**changes[mail.dispatch], "delivered_at": NOON}
        self._expect("a replay of something older", before, changes)
        self._replay(Delivered(*who, NOON + HOUR), Opened(*who, NOON))
        times = {"delivered_at": NOON + HOUR, "opened_at": NOON}
        changes[mail.dispatch] = {**changes[mail.dispatch], **times}
        self._expect("a replay of something newer", before, changes)

    def test_a_group_ends_as_one_by_one(self) -> None:
        """Notifications in one transaction have the same results as in separate transactions."""
        together, alone = self._mail(self.add_list()), self._mail(self.add_list())
        grouped = record(self.store, _shuffled(together))
        single = [record(self.store, [arrival])[0] for arrival in _shuffled(alone)]
        same("The ends of a group", [*map(type, grouped)], [*map(type, single)])
        for row, twin in zip(together.rows, alone.rows, strict=True):
            same(f"After a group, the {row[0].value}' row", self.read(row), self.read(twin))

    def test_an_error_leaves_nothing_half_done(self) -> None:
        """If a transaction fails, all its changes are rolled back."""
        mail, before = self._mails()
        arrivals = [_arrival(Suppressed(mail.email, mail.message_id, NOON, "HardBounce"))]
        with suppress(_Undone), self.store.transaction() as transaction:
            rows = transaction.find(lookup_keys(arrivals))
            outcomes = [decide(each, rows) for each in arrivals]
            transaction.write(merge(outcomes))
            raise _Undone
        self._expect("a transaction that failed", before)

    def _replay(self, *notifications: Notification) -> None:
        """Record notifications that arrived earlier."""
        record(self.store, [_arrival(each, live=False) for each in notifications])


class _Undone(Exception):
    """Makes a transaction fail."""


def _arrival(notification: Notification, *, live: bool = True) -> Arrival:
    return Arrival(
        notification, repr(notification).encode(), NOON, Source.LIVE if live else Source.REPLAY
    )


def _shuffled(mail: Mail) -> Sequence[Arrival]:
    """Return notifications about the same rows, out of order."""
    who = (mail.email, mail.message_id)
    return [
        _arrival(Delivered(*who, NOON)),
        _arrival(Suppressed(*who, NOON, "HardBounce")),
        _arrival(Opened(*who, NOON + HOUR), live=False),
        _arrival(Delivered(*who, NOON - HOUR)),
        _arrival(Opened(f"not-{mail.email}", mail.message_id, NOON)),
        _arrival(Reactivated(*who, NOON - HOUR)),
        _arrival(Suppressed(*who, NOON, "SpamComplaint")),
        _arrival(Delivered(*who, NOON - 2 * HOUR), live=False),
        _arrival(Opened(*who, NOON), live=False),
        _arrival(Reactivated(mail.email, None, NOON + HOUR), live=False),
    ]
