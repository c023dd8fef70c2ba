"""Log entries: their rules, without a store."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from copying import replace
from hookrow import Arrival, Delivered, Opened, Reactivated, Recorded, Suppressed
from hookrow._core import log_entry as rules
from hookrow._core.log_entry import (
    LogEntry,
    StoredEntry,
    body_of,
    fingerprint,
    fingerprint_prefix,
    log_entries,
    memory_size,
    merge_entries,
)
from hookrow._core.notification import Notification, Outcome, Refusal, Source, Unsupported
from hookrow._core.result import PARKED, Result, retry_at
from hookrow._core.rules import PROBE
from hookrow._core.sizes import TEXT_PER_BYTE, WIDEST_CHARACTER
from repeats import FIRST, PARKED_ENTRY, REPEATS
from times import DAY, MINUTE, NOON, SECOND

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)

OPEN = Opened("Ada@Example.com", "m-ada", NOON)
DONE: Outcome = Recorded(())
GONE: Outcome = Refusal.DISPATCH_NOT_FOUND.refused()


def arrival(notification: Notification | None = OPEN, body: bytes = b"{}") -> Arrival:
    return Arrival(() if notification is None else (notification,), body, NOON)


def entry(arrival: Arrival, outcome: Outcome = DONE, *, bodies: bool = True) -> LogEntry:
    """Return the entry of an arrival whose result is dated a second after noon."""
    [made] = log_entries([arrival], [outcome], NOON + SECOND, bodies=bodies)
    return made


# -- entries ---------------------------------------------------------------------------


def test_an_entry_has_the_content_the_times_and_the_result() -> None:
    assert entry(arrival()) == FIRST
    assert entry(arrival(), bodies=False) == replace(FIRST, body=None)
    assert entry(arrival(), GONE) == PARKED_ENTRY
    without_body = replace(PARKED_ENTRY, body=None, retry_at=None)
    assert entry(arrival(), GONE, bodies=False) == without_body
    spooled: Any = {"attempts": 3, "last_received_at": NOON + DAY}
    assert entry(replace(arrival(), **spooled)) == replace(FIRST, **spooled)


@pytest.mark.parametrize(
    ("notification", "record_type", "at"),
    [
        (Delivered("a@x", "m", NOON), "Delivery", NOON),
        (Suppressed("a@x", "m", None, "HardBounce"), "SubscriptionChange", None),
        (Reactivated("a@x", "m", NOON), "SubscriptionChange", NOON),
        (None, "Bounce", None),
    ],
)
def test_record_type(notification: Notification | None, record_type: str, at: datetime) -> None:
    readable = Unsupported("Bounce", "A@X", "m")
    made = entry(replace(arrival(notification), unsupported=readable))
    assert (made.record_type, made.occurred_at) == (record_type, at)
    assert (made.recipient, made.message_id) == ("a@x", "m")


@pytest.mark.parametrize("result", [each for each in Result if each is not Result.RECORDED])
def test_refusals_keep_their_names_and_are_retried_unless_final(result: Result) -> None:
    refusal = Refusal[result.name]
    made = entry(arrival(), refusal.refused(owner="", recipient=""))
    assert (made.outcome, made.status) == (result, refusal.status)
    final = result in {Result.UNMAPPED, Result.UNSUPPORTED, Result.TEST}
    assert (made.retry_at is None, result in PARKED) == (final, not final)
    assert Result.RECORDED not in PARKED


@pytest.mark.parametrize(
    ("notification", "parked"),
    [
        *((Opened("ada@x", "m", NOON), True), (Delivered("ada@x", "m", NOON), True)),
        *((Opened("ada@x", None, NOON), False), (Delivered("ada@x", "m\0", NOON), False)),
        *((Opened("", "m", NOON), False), (Opened("a" * 321, "m", NOON), False)),
        *((Reactivated("ada@x", None, NOON), True), (Reactivated(None, "m", NOON), False)),
        (Suppressed("ada@x", "", NOON, "HardBounce"), True),
        (None, False),
    ],
)
@pytest.mark.parametrize("refusal", [Refusal.SUBSCRIBER_NOT_FOUND, Refusal.FAILED])
def test_notifications_without_a_possible_row_are_not_retried(
    notification: Notification | None, refusal: Refusal, *, parked: bool
) -> None:
    assert (entry(arrival(notification), refusal.refused()).retry_at is not None) is parked


def test_a_probe_has_no_entry() -> None:
    probes = Reactivated(PROBE, None, None), Reactivated(PROBE, "m", NOON)
    group = [replace(arrival(each), is_probe=True) for each in probes]
    refusals = [Refusal.SUBSCRIBER_NOT_FOUND, Refusal.FAILED]
    assert log_entries(group, [each.refused() for each in refusals], NOON) == []


def test_a_group_has_one_entry_per_fingerprint_sorted_by_it() -> None:
    others = [arrival(body=bytes([number])) for number in range(9)]
    group = [arrival(), *others, replace(arrival(), received_at=NOON - DAY, source=Source.REPLAY)]
    made = log_entries(group, [GONE] + [DONE] * 10, NOON + SECOND)
    assert [each.fingerprint for each in made] == sorted(map(fingerprint, group[:-1]))
    [twice] = [each for each in made if each.attempts == 2]
    assert twice == replace(FIRST, attempts=2, received_at=NOON - DAY, source=Source.REPLAY)
    with pytest.raises(ValueError, match="shorter"):
        log_entries(group, [DONE], NOON)


# -- repeats ---------------------------------------------------------------------------


@pytest.mark.parametrize(("earlier", "later", "expected"), REPEATS)
def test_repeated_notifications_are_merged(
    earlier: LogEntry, later: LogEntry, expected: LogEntry
) -> None:
    assert merge_entries(earlier, later) == expected
    # The id and the first result are kept.
    logged = StoredEntry(*(*astuple(earlier), 7, Result.FAILED))
    assert merge_entries(logged, later) == StoredEntry(*(*astuple(expected), 7, Result.FAILED))


# -- fingerprints and sizes ------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "second"),
    [
        *((None, 0), (EPOCH, 0), (EPOCH + SECOND, 1), (EPOCH - DAY, 0)),
        *((EPOCH + n * SECOND, min(n, 2**32 - 1)) for n in range(2**32 - 2, 2**32 + 1)),
        (NOON + SECOND - MOMENT, int(NOON.timestamp())),
    ],
)
def test_fingerprint_is_the_second_and_a_digest(at: datetime | None, second: int) -> None:
    suppressed = Suppressed("a@x", "m", at, "HardBounce")
    assert fingerprint_prefix(at) == second.to_bytes(4)
    for body in (b"{}", b"{ }"):
        digest = blake2b(body, digest_size=12).digest()
        assert fingerprint(arrival(suppressed, body)) == fingerprint_prefix(at) + digest
    known = replace(arrival(suppressed), fingerprint=b"x" * 16)
    assert fingerprint(known) == b"x" * 16
    assert fingerprint(arrival(None))[:4] == bytes(4)


def test_the_size_of_an_arrival_includes_its_reason() -> None:
    body = b"x" * 12
    opened, suppressed = arrival(body=body), arrival(Suppressed("a", "m", None, "x" * 5), body)
    assert (memory_size(opened), memory_size(suppressed)) == (12, 32)


# -- retries and texts -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "pause"),
    [
        *((timedelta(0), MINUTE), (MINUTE, 2 * MINUTE), (3 * MINUTE, 4 * MINUTE)),
        *((58 * MINUTE, 59 * MINUTE), (59 * MINUTE, 60 * MINUTE), (60 * MINUTE, 60 * MINUTE)),
        *((3 * DAY - MOMENT, 60 * MINUTE), (3 * DAY, None), (4 * DAY, None)),
        (-DAY, MINUTE),  # the clock was set back
        (-DAY - MOMENT, 60 * MINUTE),  # the clock was wrong
    ],
)
def test_pauses_grow_to_an_hour_for_three_days(age: timedelta, pause: timedelta | None) -> None:
    assert retry_at(NOON, NOON + age) == (None if pause is None else NOON + age + pause)


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        *((b"", ""), ("é€😀".encode(), "é€😀"), (b"\x1b\r\n", "\x1b\r\n")),
        *((b"a\0", r"a\x00"), ("é\0".encode(), r"\xc3\xa9\x00")),
        *((b"\xff", r"\xff"), ("é".encode() + b"\x80", r"\xc3\xa9\x80")),
        (b"\xed\xa0\x80", r"\xed\xa0\x80"),
    ],
)
def test_a_body_that_is_not_text_is_escaped(body: bytes, kept: str) -> None:
    made = entry(arrival(body=body))
    assert made.body == kept
    assert body_of(made) == body
    assert body_of(replace(made, body=None)) is None


def test_an_ambiguous_body_is_not_restored() -> None:
    """A text that looks like an escape cannot be told from one in a body that has escapes."""
    assert body_of(entry(arrival(body=rb"{\xff}"))) == rb"{\xff}"
    made = entry(arrival(body=b"\xe9" + rb"{\xff}"))
    assert made.body == r"\xe9{\xff}"
    assert body_of(made) is None
    identified = entry(replace(arrival(body=b"\xff"), event_id="e-1", provider="other"))
    assert body_of(identified) is None


@pytest.mark.parametrize(
    ("keep", "longest", "recipient"),
    [
        (rules.stored_record_type, 64, "ZOË@Example.COM"),
        (rules.stored_message_id, 255, "ZOË@Example.COM"),
        (rules.stored_recipient, 320, "zoË@example.com"),  # folded, as in searches
    ],
)
def test_stored_texts(
    keep: Callable[[str | None], str | None], longest: int, recipient: str
) -> None:
    assert keep(None) is None
    for text, kept in (
        *(("", ""), ("ß😀", "ß😀"), ("ZOË@Example.COM", recipient)),
        *(("x" * (longest + 1), "x" * longest), ("ß" * (longest + 1), "ß" * longest)),
        *(("a\0b", r"a\x00b"), ("\ud800", r"\ud800"), ("é\0", r"é\x00")),
        ("\0" * longest, (r"\x00" * longest)[:longest]),
    ):
        assert keep(text) == kept


def text_size(body: bytes, reason: str) -> int:
    """Return the largest size in memory of the text that is written for a suppression."""
    arrived = arrival(Suppressed("a@b", None, NOON, reason), body)
    [entry] = log_entries([arrived], [Recorded(())], NOON)
    return WIDEST_CHARACTER * (len(entry.body or "") + 3 * len(reason))


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_text_is_larger_than_the_bound(body: bytes) -> None:
    """The recorder and the batch compare the bound, which is cheap, with their limits."""
    assert text_size(b"\xff" * 9, "\0" * 9) == TEXT_PER_BYTE * 9  # it is reached
    reason = body.decode(errors="replace")[: len(body)]
    assert text_size(body, reason) <= TEXT_PER_BYTE * len(body)
