"""Descriptions of entries; bodies are indented, escaped, and cut."""

import gzip
import json
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import astuple

from copying import replace
from effects import Effects, body_of
from engines import MEMORY
from hookrow import Arrival, Opened, Reactivated, Recorded, Role, Schema, Suppressed, testing
from hookrow._core.changes import State
from hookrow._core.log_entry import StoredEntry, log_entries
from hookrow._core.notification import Notification, Refusal, RowId, Suppressible
from hookrow._core.optional import ALWAYS
from hookrow._core.result import Result
from hookrow._describe import (
    MAX_BODY_LENGTH,
    describe_by_entry,
    describe_change,
    describe_dry_run,
    describe_outcome,
    find_problem,
    format_body,
    format_duration,
    other_changes,
    superseding,
    visible,
)
from hookrow._receiver.entries import POSTMARK, Entries, Entry
from hookrow._receiver.replay import DryRun
from hookrow.providers._json import DEEPEST
from hookrow.providers.postmark import Postmark
from hookrow.providers.resend import Resend
from hookrow.stores.sql import SQLStore
from times import DAY, HOUR, NOON
from wire import ADA

STORE = SQLStore(MEMORY)  # which is not used
LATER = {"ended_at": NOON + timedelta(seconds=64), "attempts": 3}
RETRIED = {**LATER, "retry_at": datetime(2026, 3, 4, 12, 3, 8, tzinfo=UTC)}
NO_DISPATCH = Result.DISPATCH_NOT_FOUND
EFFECTS = Entries(Entry(None, Effects()))


@pytest.mark.parametrize(
    ("first", "last", "fields", "sentence"),
    [
        (Result.RECORDED, Result.RECORDED, {}, "1 post; recorded within 20 ms"),
        (
            *(NO_DISPATCH, Result.RECORDED, LATER),
            "no dispatch had the message ID m-1 at first; 3 posts; recorded 64 s later",
        ),
        (
            *(Result.SUBSCRIBER_NOT_FOUND, NO_DISPATCH, RETRIED),
            (
                "no subscriber had the address ada@example.com at first; 3 posts; 64 s later, "
                "no dispatch had the message ID m-1; next retry 2026-03-04 12:03:08Z"
            ),
        ),
        (
            *(NO_DISPATCH, NO_DISPATCH, {**RETRIED, "retries": 1}),
            (
                "no dispatch had the message ID m-1; 3 posts, 1 retry; "
                "next retry 2026-03-04 12:03:08Z"
            ),
        ),
        (
            *(Result.FAILED, Result.RECORDED, {**LATER, "attempts": 1, "retries": 1200}),
            (
                "the database returned an error, or a row was locked at first; "
                "1 post, 1,200 retries; recorded 64 s later"
            ),
        ),
        (
            *(NO_DISPATCH, NO_DISPATCH, {"message_id": None, "body": None}),
            "no dispatch had its message ID; 1 post; no further retries",
        ),
        (
            *(Result.UNSUPPORTED, Result.UNSUPPORTED, {"recipient": None}),
            "the payload is not supported; 1 post",
        ),
        (
            *(Result.UNSUPPORTED, Result.UNSUPPORTED, {"body": None}),
            (
                "the payload is not supported; the reason is unknown, because its body is not "
                "kept; 1 post"
            ),
        ),
    ],
)
def test_outcomes(first: Result, last: Result, fields: dict[str, Any], sentence: str) -> None:
    """The first and the present result are described with their reasons."""
    opened = Arrival((Opened("ada@example.com", "m-1", NOON),), b"{}", NOON)
    [entry] = log_entries([opened], [Recorded(())], NOON + timedelta(milliseconds=20))
    logged = StoredEntry(*(*astuple(entry), 1, first))
    described = describe_outcome(replace(logged, outcome=last, **fields), STORE, POSTMARK)
    assert described == sentence


UNUSABLE = {
    "no {} that is a string": (..., None, 5, ["x"]),
    "{} is empty": ("",),
    "{} is longer than {longest} characters": ("x" * 321,),
    "{} contains NUL or an unpaired surrogate": ("a\0", "a\ud83d"),
}
"""Values that no row can have, by their descriptions; `...` stands for a missing field."""


@pytest.mark.parametrize(("text", "values"), UNUSABLE.items())
@pytest.mark.parametrize(
    ("create", "field", "name", "result"),
    [
        (testing.delivery, "Recipient", "Recipient", Result.SUBSCRIBER_NOT_FOUND),
        (testing.opening, "Recipient", "Recipient", Result.SUBSCRIBER_NOT_FOUND),
        (testing.suppression, "Recipient", "Recipient", Result.SUBSCRIBER_NOT_FOUND),
        (testing.reactivation, "Recipient", "Recipient", Result.SUBSCRIBER_NOT_FOUND),
        (testing.delivery, "MessageID", "MessageID", NO_DISPATCH),
        (testing.opening, "MessageID", "MessageID", NO_DISPATCH),
        (testing.bounce, "MessageID", "MessageID", NO_DISPATCH),
    ],
)
def test_unusable_keys(
    create: Callable[..., dict[str, Any]],
    field: str,
    name: str,
    result: Result,
    text: str,
    values: Sequence[object],
) -> None:
    """A payload without a usable key is described as such, not as one whose row is missing.

    So is the refusal of its replay.
    """
    for value in values:
        payload = create(ADA, "m-1", at=NOON) | {field: value}
        if value is ...:
            del payload[field]
        logged = _logged(payload, result)
        expected = text.format(name, longest=320 if name == "Recipient" else 255)
        assert expected in describe_outcome(logged, STORE, POSTMARK)
        run = DryRun(Refusal[result.name].refused(), {}, {})
        assert expected in " ".join(describe_dry_run(run, logged, POSTMARK))


def test_unusable_email_of_a_bounce() -> None:
    """The field is named as it is in the payload."""
    logged = _logged(testing.bounce("x" * 321, "m-1", at=NOON), Result.SUBSCRIBER_NOT_FOUND)
    described = describe_outcome(logged, STORE, POSTMARK)
    assert described.startswith("the payload's Email is longer than 320 characters;")
    sent = {"type": "email.opened", "created_at": NOON.isoformat(), "data": {"to": []}}
    opened = replace(_logged(sent, Result.SUBSCRIBER_NOT_FOUND), provider="resend")
    described = describe_outcome(opened, STORE, Entries(Entry(None, Resend)))
    assert described.startswith("the payload has no data.to that is a string;")


def test_unusable_message_id_of_one_effect() -> None:
    """Only the effect that needs the dispatch is refused without its message ID."""
    logged = _event("HardBounce", "Bounced", message_id="", outcome=NO_DISPATCH)
    described = describe_outcome(logged, STORE, EFFECTS)
    assert described.startswith("the payload's message ID is empty;")
    logged = _event("HardBounce", message_id="", outcome=NO_DISPATCH)
    assert "is empty" not in describe_outcome(logged, STORE, EFFECTS)


@pytest.mark.parametrize(
    ("before", "described"),
    [
        ({}, ""),
        (
            {"suppressed_at": NOON, "suppression_reason": 0, "opened_at": None},
            "suppressed_at 2026-03-04 12:00:00Z, suppression_reason 0, opened_at null",
        ),
        ({"suppression_reason": ""}, "suppression_reason null"),
    ],
)
def test_a_dry_run_without_changes(before: State, described: str) -> None:
    """The rows show why. Reasons may be mapped to integers, and an empty string is read as null."""
    rows: dict[RowId, State] = {(Suppressible.SUBSCRIBER, 7): before} if before else {}
    [text] = describe_dry_run(DryRun(Recorded(()), rows, rows), _change(7, NOON), POSTMARK)
    reason = "would change nothing, because the rows already have these values, or newer ones"
    assert text == (f"{reason}: subscriber 7 ({described})" if before else reason)


def test_a_dry_run_of_a_refused_event_with_changes() -> None:
    """A bounce without its dispatch is refused; the suppression of the same event is recorded."""
    row = Suppressible.SUBSCRIBER, 7
    active: dict[RowId, State] = {row: {"suppression_reason": None}}
    suppressed: dict[RowId, State] = {row: {"suppression_reason": "HardBounce"}}
    logged = _event("HardBounce", "Bounced", outcome=NO_DISPATCH)
    refused = Refusal.DISPATCH_NOT_FOUND.refused()
    found = describe_dry_run(DryRun(refused, active, suppressed), logged, EFFECTS)
    assert found == [
        "would be refused in part: Engine::Dispatch not found",
        "subscriber 7: suppression_reason null -> HardBounce",
    ]
    found = describe_dry_run(DryRun(refused, active, active), logged, EFFECTS)
    assert found == ["would be refused: Engine::Dispatch not found"]


def test_rows_that_where_hides() -> None:
    """If the mapping hides rows, the description does not claim that none exists."""
    hiding = SQLStore(MEMORY, Schema(subscribers=Role("people", where={"tenant": 1})))
    logged = _logged(testing.delivery(ADA, "m-1", at=NOON), Result.SUBSCRIBER_NOT_FOUND)
    described = describe_outcome(logged, hiding, POSTMARK)
    assert described.startswith(f"no subscriber that `where` does not hide had the address {ADA}")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (gzip.compress(b"{}", mtime=0), "The body is compressed (gzip)"),
        ('{"Tag": "é"}'.encode("latin-1"), "The body is not valid UTF-8 at byte 9:"),
        (b'\xff{"Tag": "\\xe9"}', "The body is not valid UTF-8 at byte 0:"),
        ('{"Tag": "é"}'.encode("utf-16"), "The body is in UTF-16"),
        (b"{}\0", "The body is not JSON at byte 2:"),
        (b"RecordType=Open", "The body is form-encoded"),
        (b"", "The body is empty"),
    ],
)
def test_the_problem_of_an_unreadable_body(body: bytes, problem: str) -> None:
    """The log's text of a body that is not text still shows why it is not supported."""
    [entry] = log_entries([Arrival((), body, NOON)], [Refusal.UNSUPPORTED.refused()], NOON)
    logged = StoredEntry(*(*astuple(entry), 1, entry.outcome))
    assert (find_problem(logged, POSTMARK, ALWAYS) or "").startswith(problem)
    assert find_problem(replace(logged, body=None), POSTMARK, ALWAYS) is None
    assert find_problem(replace(logged, provider="other"), POSTMARK, ALWAYS) is None


def _logged(payload: dict[str, Any], result: Result) -> StoredEntry:
    """Return the entry of a payload with this result."""
    body = json.dumps(payload).encode()
    outcome = Refusal[result.name].refused()
    parser = Resend if "type" in payload else Postmark
    [entry] = log_entries([Arrival(parser.parse(body).notifications, body, NOON)], [outcome], NOON)
    return StoredEntry(*(*astuple(entry), 1, result))


def _change(id_: int, at: datetime | None, reason: str | None = None, **fields: Any) -> StoredEntry:  # noqa: ANN401 - of an entry
    """Return an entry that arrived at noon: a suppression for the reason, or a reactivation."""
    payload = testing.reactivation(ADA, None, at=NOON)
    changed: Notification = Reactivated(ADA, None, at)
    if reason is not None:
        payload = testing.suppression(ADA, None, at=NOON, reason=reason)
        changed = Suppressed(ADA, None, at, reason)
    arrived = Arrival((changed,), msgspec.json.encode(payload), NOON)
    [entry] = log_entries([arrived], [Recorded(())], NOON)
    return replace(StoredEntry(*(*astuple(entry), id_, entry.outcome)), **fields)


@pytest.mark.parametrize(
    ("times", "newest"),
    [
        *(({1: NOON}, None), ({1: NOON, 2: NOON - HOUR}, None)),
        ({1: NOON, 2: NOON}, None),  # the last to arrive wins, which may be either
        *(({1: NOON, 2: NOON + HOUR, 3: NOON + DAY}, 3), ({1: NOON, 2: NOON + DAY, 3: NOON}, 2)),
        # The time of arrival counts if there is no event time, or if it is days ahead.
        *(({1: NOON - HOUR, 2: None}, 2), ({1: NOON - HOUR, 2: NOON + 2 * DAY}, 2)),
        ({1: None, 2: NOON - HOUR}, None),
    ],
)
def test_superseded(times: dict[int, datetime | None], newest: int | None) -> None:
    """A change is superseded by the newest one of the same subscriber, if that is newer."""
    changes = [_change(id_, at) for id_, at in times.items()]
    found = superseding(changes[0], changes[::-1])
    assert (found.id if found else None) == newest


def test_superseded_between_two_arrivals() -> None:
    """An entry without an event time may have taken effect at any of its arrivals."""
    entry = _change(1, None, last_received_at=NOON + 2 * HOUR)
    assert superseding(entry, [entry, _change(2, NOON + HOUR)]) is None
    assert superseding(entry, [entry, _change(2, NOON + 3 * HOUR)])


def test_a_change_of_another_tenant_supersedes_nothing() -> None:
    """Its subscriber has the same address."""
    entry = replace(_change(1, NOON), entry="acme")
    for tenant, name in ((1, "acme"), (None, None)):
        query = other_changes(entry, Entries(Entry("acme", Postmark, tenant)))
        assert query is not None
        assert query.entry == name


def test_only_a_change_that_was_made_can_be_superseded() -> None:
    """Its type is that of a change, or it has a reason, and its address is still in the log.

    It was also made if the dispatch of another effect was missing.
    """
    entry = _change(1, NOON)
    query = other_changes(entry, POSTMARK)
    assert query is not None
    fields = ({"record_type": "Open"}, {"outcome": Result.FAILED}, {"recipient": None})
    others = [replace(entry, **each) for each in fields]
    assert [other_changes(each, POSTMARK) for each in others] == [None] * 3
    bounce = _event("Bounced", "HardBounce", outcome=NO_DISPATCH)
    assert other_changes(bounce, POSTMARK) == query
    given = [_change(2, NOON), bounce, *others]
    logged = [replace(each, fingerprint=bytes([n]) * 16) for n, each in enumerate(given)]
    with closing(SQLStore(MEMORY)) as store:
        with store.transaction() as transaction:
            transaction.write((), logged)
        assert store.log is not None
        found = store.log.oldest(query, limit=len(logged))
    assert [each.fingerprint for each in found] == [each.fingerprint for each in logged[:2]]


def _event(
    *effects: str, message_id: str = "m-1", outcome: Result = Result.RECORDED
) -> StoredEntry:
    """Return an entry of an event with several effects, with this outcome."""
    body = body_of(*effects, recipient=ADA, message_id=message_id, at=NOON).encode()
    arrived = Arrival(Effects.parse(body).notifications, body, NOON, provider=Effects.name)
    [entry] = log_entries([arrived], [Recorded(())], NOON)
    return replace(StoredEntry(*(*astuple(entry), 7, outcome)), outcome=outcome)


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        (_event("Bounced", "HardBounce"), "suppression"),
        (_event("Reactivated", "Delivered"), "reactivation"),
        (_event("Delivered", "Reactivated"), "reactivation"),
        (_change(7, NOON), "reactivation"),
        (_change(7, NOON, "HardBounce"), "suppression"),
        (_change(7, NOON, "x", body=None), "suppression"),
        (_change(7, NOON, body=None), "change"),
    ],
)
def test_names_of_changes(entry: StoredEntry, named: str) -> None:
    """The kind of a change is known from its reason or its body."""
    assert describe_change(entry, EFFECTS) == f"notification 7, a {named} of 2026-03-04 12:00:00Z"


def test_json_is_indented() -> None:
    """Numbers, strings and repeated keys are as in the body, and its whitespace does not matter."""
    body = '{"a":[], "a":[9007199254740993,{}],\r\n"b, \\u00e9\\"":1.50 }\n'
    lines = ("{", '  "a": [],', '  "a": [', "    9007199254740993,", "    {}", "  ],")
    assert format_body(body).splitlines() == [*lines, '  "b, \\u00e9\\"": 1.50', "}"]


NESTED = "[" * (MAX_BODY_LENGTH // 2) + "]" * (MAX_BODY_LENGTH // 2)


@pytest.mark.parametrize(
    ("body", "formatted"),
    [
        *(("not JSON\n{", "not JSON\n{"), ('{"a":\u202e1}', '{"a":\\u202e1}')),
        *(("", ""), ("\0", "\\x00"), ("a\tb\r\n\x1b", "a\tb\\r\n\\x1b")),
        (NESTED, NESTED),  # too deeply for the indentation
    ],
    ids=["text", "override", "empty", "NUL", "lines", "nested"],
)
def test_other_bodies_are_escaped_but_not_indented(body: str, formatted: str) -> None:
    """Characters that hide or reorder text are escaped."""
    assert format_body(body) == formatted


@pytest.mark.parametrize(("length", "indented"), [(MAX_BODY_LENGTH, True), (2**20, False)])
def test_large_bodies_are_cut(length: int, *, indented: bool) -> None:
    """Bodies are cut if they are long, or if the indentation makes them long."""
    depth = DEEPEST
    body = "[" * depth + "1," * (length // 2 - depth - 1) + "1 " + "]" * depth
    assert len(body) == length
    formatted, _, end = format_body(body).rpartition("\n")
    assert len(formatted) <= MAX_BODY_LENGTH
    assert formatted.startswith("[\n  [\n    [") is indented
    assert end == f"... (truncated: the body has {length:,} characters)"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((-1, "0 ms"), (0.02, "20 ms"), (1.6, "2 s"), (119, "119 s"), (120, "2 min")),
        *((7199, "119 min"), (7200, "2 h"), (86_400 * 2 - 1, "47 h"), (86_400 * 9, "9 days")),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    """A duration is in its largest unit of which it has at least two."""
    assert format_duration(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({}, ""),
        ({"": 3}, ""),
        ({"a": 1, "": 2, "b": 3000}, " (b: 3,000, without a name: 2, a: 1)"),
        (
            {f"t{number}": number for number in range(1, 13)},
            f" ({', '.join(f't{number}: {number}' for number in range(12, 2, -1))}, others: 3)",
        ),
    ],
    ids=["none", "unnamed", "named", "many"],
)
def test_counts_by_entry(counts: dict[str, int], text: str) -> None:
    """The largest come first, and many are not all named."""
    assert describe_by_entry(counts) == text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("Ada Lovelace", "Ada Lovelace"),
        ("  ada ", r"\x20\x20ada\x20"),
        ("\tada\xa0\u200b", r"\tada\xa0\u200b"),
        (" \xa0 ", r"\x20\xa0\x20"),
        ("   ", r"\x20\x20\x20"),
        ("", ""),
    ],
)
def test_visible_values(value: str, shown: str) -> None:
    """Spaces are visible at the start and the end, and other invisible characters everywhere."""
    assert visible(value) == shown
