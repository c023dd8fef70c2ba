"""What the log keeps of a notification: its rules, without a store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookrow import Arrival, Delivered, Opened, Reactivated, Recorded, Refused, Suppressed
from hookrow.decide import PROBE
from hookrow.entry import (
    PARKED,
    Ending,
    Entry,
    body_of,
    entries,
    fingerprint,
    followed,
    retry_at,
)
from hookrow.notification import Notification, Outcome, Refusal, Unsupported

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)

OPEN = Opened("Ada@Example.com", "m-ada", NOON)
DONE: Outcome = Recorded(())
GONE: Outcome = Refusal.DISPATCH_NOT_FOUND.refused()


def arrival(notification: Notification | None = OPEN, body: bytes = b"{}") -> Arrival:
    """Return a notification that arrives at noon."""
    return Arrival(notification, body, NOON)


def entry(arrival: Arrival, outcome: Outcome = DONE, *, bodies: bool = True) -> Entry:
    """Return the one entry of an arrival that ended a second after noon."""
    [made] = entries([arrival], [outcome], NOON + SECOND, bodies=bodies)
    return made


class TestEntries:
    def test_an_entry_says_it_all(self) -> None:
        """What came, when, and how it ended."""
        assert entry(arrival()) == Entry(
            fingerprint=fingerprint(arrival()),
            record_type="Open",
            message_id="m-ada",
            recipient="ada@example.com",
            occurred_at=NOON,
            outcome=Ending.RECORDED,
            status=200,
            attempts=1,
            received_at=NOON,
            last_received_at=NOON,
            ended_at=NOON + SECOND,
            retry_at=None,
            body="{}",
        )

    @pytest.mark.parametrize(
        ("notification", "record_type", "at"),
        [
            (OPEN, "Open", NOON),
            (Delivered("a@x", "m", NOON), "Delivery", NOON),
            (Suppressed("a@x", "m", None, "HardBounce"), "SubscriptionChange", None),
            (Reactivated("a@x", "m", NOON), "SubscriptionChange", NOON),
            (None, None, None),
        ],
    )
    def test_types_are_the_providers(
        self, notification: Notification | None, record_type: str | None, at: datetime | None
    ) -> None:
        """By its own words for them, with the event's own time where it has one."""
        made = entry(arrival(notification))
        assert (made.record_type, made.occurred_at) == (record_type, at)

    def test_an_unsupported_one_says_what_it_can(self) -> None:
        """Type, recipient and message id as far as they can be read."""
        told = Arrival(None, b"?", NOON, unsupported=Unsupported("Bounce", "ADA@x", "m"))
        made = entry(told, Refusal.UNSUPPORTED.refused())
        assert (made.record_type, made.recipient, made.message_id) == ("Bounce", "ada@x", "m")
        assert (made.outcome, made.status, made.retry_at) == (Ending.UNSUPPORTED, 422, None)

    @pytest.mark.parametrize("ending", [each for each in Ending if each is not Ending.RECORDED])
    def test_refusals_keep_their_names(self, ending: Ending) -> None:
        """And are tried again where they may end otherwise."""
        refusal = Refusal[ending.name]
        made = entry(arrival(), Refused(refusal, ""))
        assert (made.outcome, made.status) == (ending, refusal.status)
        assert (made.retry_at is not None) is (ending in PARKED)

    def test_what_may_end_otherwise_is_parked(self) -> None:
        """The recorded and the unsupported may not."""
        assert {ending.value for ending in PARKED} == {
            *("subscriber_not_found", "dispatch_not_found", "recipient_mismatch", "failed")
        }

    @pytest.mark.parametrize(
        ("recipient", "message_id", "refusal", "parked"),
        [
            ("ada@x", None, Refusal.DISPATCH_NOT_FOUND, False),
            ("ada@x", "m\0", Refusal.DISPATCH_NOT_FOUND, False),
            (None, "m", Refusal.SUBSCRIBER_NOT_FOUND, False),
            ("ada@x", None, Refusal.SUBSCRIBER_NOT_FOUND, False),
            ("ada@x", "m", Refusal.SUBSCRIBER_NOT_FOUND, True),
            ("ada@x", "m", Refusal.FAILED, True),
        ],
    )
    def test_what_names_no_row_is_not_parked(
        self, recipient: str | None, message_id: str | None, refusal: Refusal, *, parked: bool
    ) -> None:
        """For no row that it could mean can ever be there."""
        told = replace(arrival(), notification=Opened(recipient, message_id, NOON))
        assert (entry(told, refusal.refused()).retry_at is not None) is parked
        change = replace(told, notification=Reactivated("ada@x", None, NOON))
        assert entry(change, Refusal.SUBSCRIBER_NOT_FOUND.refused()).retry_at is not None

    @pytest.mark.parametrize("refusal", [Refusal.SUBSCRIBER_NOT_FOUND, Refusal.FAILED])
    def test_a_probe_is_not_parked(self, refusal: Refusal) -> None:
        """What `hookrow check URL` posts is logged as it ended, and not tried again."""
        made = entry(arrival(Reactivated(PROBE, "m", None)), refusal.refused())
        assert (made.recipient, made.outcome.name, made.status) == (
            PROBE,
            refusal.name,
            refusal.status,
        )
        assert made.retry_at is None

    def test_without_bodies_nothing_is_parked(self) -> None:
        """For nothing could be tried again."""
        made = entry(arrival(), GONE, bodies=False)
        assert (made.body, made.retry_at) == (None, None)
        assert entry(arrival(), GONE).retry_at == NOON + SECOND + MINUTE + SECOND

    def test_one_entry_a_fingerprint(self) -> None:
        """A group that has a notification twice has one entry of it, sorted, with the later end."""
        others = [arrival(body=bytes([number])) for number in range(9)]
        group = [arrival(), *others, replace(arrival(), received_at=NOON - DAY, live=False)]
        made = entries(group, [GONE] + [DONE] * 10, NOON)
        assert [each.fingerprint for each in made] == sorted(map(fingerprint, group[:-1]))
        [twice] = [each for each in made if each.attempts == 2]
        assert (twice.outcome, twice.received_at, twice.last_received_at) == (
            *(Ending.RECORDED, NOON - DAY),
            NOON,
        )

    def test_what_stands_for_many_counts_as_many(self) -> None:
        """From a spool: as often as it came, and when last; from the log: not once more."""
        told = replace(arrival(), attempts=3, last_received_at=NOON + DAY)
        made = entry(told)
        assert (made.attempts, made.received_at, made.last_received_at) == (3, NOON, NOON + DAY)
        assert entry(replace(arrival(), attempts=0)).attempts == 0

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            (None, None),
            ("", ""),
            ("ZOË@Example.COM", "zoË@example.com"),
            ("a\0b", "a\\x00b"),
            ("\ud800", "\\ud800"),
            ("x" * 999, "x" * 320),
            ("ß" * 999, "ß" * 320),
            ("\0" * 999, "\\x00" * 80),
        ],
    )
    def test_texts_are_cut_and_escaped(self, text: str | None, shown: str | None) -> None:
        """To what any database takes; an address in ASCII is lowered."""
        made = entry(arrival(Opened(text, text, NOON)))
        assert made.recipient == shown
        assert len(made.message_id or "") <= 255
        said = Unsupported(text, None, None)
        made = entry(Arrival(None, b"", NOON, unsupported=said))
        assert len(made.record_type or "") <= 64
        for each in (made.record_type or "", made.message_id or ""):
            assert "\0" not in each
            each.encode()


class TestFollowed:
    FIRST = entry(arrival(), GONE)

    def test_the_later_end_counts(self) -> None:
        """Attempts add up; what it is stays."""
        later = replace(
            entry(arrival(Delivered("b@x", "other", NOON + DAY))),
            received_at=NOON + MINUTE,
            last_received_at=NOON + MINUTE,
            ended_at=NOON + DAY,
        )
        assert followed(self.FIRST, later) == replace(
            self.FIRST,
            outcome=Ending.RECORDED,
            status=200,
            attempts=2,
            last_received_at=NOON + MINUTE,
            ended_at=NOON + DAY,
            retry_at=None,
        )

    def test_what_was_erased_is_there_again(self) -> None:
        """And what is there is not erased by what has none."""
        erased = replace(self.FIRST, body=None, recipient=None)
        for earlier, later in ((erased, self.FIRST), (self.FIRST, erased)):
            both = followed(earlier, later)
            assert (both.body, both.recipient) == (self.FIRST.body, self.FIRST.recipient)

    def test_a_clock_may_jump_back(self) -> None:
        """The first and the last arrival are the least and the greatest time."""
        both = followed(self.FIRST, replace(self.FIRST, received_at=NOON - DAY))
        assert (both.received_at, both.last_received_at) == (NOON - DAY, NOON)


class TestFingerprint:
    def test_it_has_16_bytes(self) -> None:
        """The event's own second, and 96 bits of the body's digest."""
        made = fingerprint(arrival())
        assert len(made) == 16
        assert made[:4] == int(NOON.timestamp()).to_bytes(4)
        assert made[4:] != fingerprint(arrival(body=b"{ }"))[4:]

    @pytest.mark.parametrize(
        ("at", "second"),
        [
            (None, 0),
            (datetime(1969, 12, 31, tzinfo=UTC), 0),
            (datetime(1, 1, 1, tzinfo=UTC), 0),
            (NOON + timedelta(microseconds=999_999), int(NOON.timestamp())),
            (datetime(9999, 12, 31, tzinfo=UTC), 2**32 - 1),
        ],
    )
    def test_the_second_fits(self, at: datetime | None, second: int) -> None:
        """Into 32 bits, whatever the provider says; none is zero."""
        told = arrival(Suppressed("a@x", "m", at, "HardBounce"))
        assert fingerprint(told)[:4] == second.to_bytes(4)

    def test_what_has_one_keeps_it(self) -> None:
        """From the log: also where the body says another thing to a newer version."""
        assert fingerprint(replace(arrival(None), fingerprint=b"x" * 16)) == b"x" * 16
        assert fingerprint(arrival(None))[:4] == bytes(4)


class TestRetryAt:
    def test_the_pauses_are_1_2_4_to_60_minutes(self) -> None:
        """For three days, and then no more."""
        now, pauses = NOON, []
        while (after := retry_at(NOON, now)) is not None:
            pauses.append((after - now) // MINUTE)
            now = after
        assert pauses[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
        assert set(pauses[8:]) == {60}
        assert 3 * DAY <= now - NOON < 3 * DAY + 60 * MINUTE

    def test_a_clock_that_jumped_back_means_a_minute(self) -> None:
        """What comes from the future is new."""
        assert retry_at(NOON + DAY, NOON) == NOON + MINUTE


@given(st.binary() | st.text().map(str.encode) | st.just(b"\0"))
def test_a_body_comes_back_to_the_byte_or_not_at_all(body: bytes) -> None:
    """What is no UTF-8, or has NUL, is kept escaped, and not taken for what was posted."""
    made = entry(arrival(body=body))
    assert made.body is not None
    assert "\0" not in made.body
    made.body.encode()
    plain = b"\0" not in body and body.decode(errors="ignore").encode() == body
    assert body_of(made) == (body if plain else None)
    assert plain or made.body.isascii()


def test_an_erased_body_does_not_come_back() -> None:
    """Also where there was nothing in it."""
    assert body_of(replace(entry(arrival()), body=None)) is None
    assert body_of(replace(entry(arrival(body=b"")), body=None)) is None
    assert body_of(entry(arrival(body=b""))) == b""
