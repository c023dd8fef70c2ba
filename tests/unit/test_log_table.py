"""The table of notifications: complete in a pipe, and cut to the width of a terminal."""

from datetime import UTC, datetime

import msgspec
import pytest

from hookrow import Arrival, Refusal, testing
from hookrow._cli.log_table import LogTable, cut_end, cut_middle, display_width
from hookrow._core.log_entry import StoredEntry, log_entries
from hookrow._receiver.entries import POSTMARK
from wire import ADA

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
GUID = "b7bc2f4a-e38e-4336-af7d-e6c392c2f817"
WIDE = "山田太郎@例え.テスト"
RIGHT_TO_LEFT = "משה@דוגמה.קום"


def entry(**values: object) -> StoredEntry:
    """Return a parked entry of the log with some values."""
    body = msgspec.json.encode(testing.opening(ADA, GUID, at=AT))
    arrival = Arrival(POSTMARK.default.provider.parse(body).notifications, body, AT)
    [made] = log_entries([arrival], [Refusal.DISPATCH_NOT_FOUND.refused()], AT)
    fields = {name: getattr(made, name) for name in made.__struct_fields__}
    own = {"id": 1, "first_outcome": made.outcome, "retries": 0}
    return StoredEntry(**{**fields, **own, **values})


LONGEST = entry(
    id=12_345_678,
    record_type="SubscriptionChange",
    recipient="ada.lovelace+newsletter@analytical-engines.example.com",
    entry="postmark",
    attempts=3,
)


@pytest.mark.parametrize("entries", [[LONGEST], None])
def test_lines_fit_80_columns(entries: list[StoredEntry] | None) -> None:
    """Also if the notifications are not known in advance, as with --follow."""
    table = LogTable(80, entries)
    assert [table.header, table.line(LONGEST)] == [
        "      ID  Received         Type           Recipient     Message ID  Outcome",
        "12345678  03-04 05:06:07Z  Subscription…  ada.lo…e.com  b7bc2…f817  dispatch_no…",
    ]


def test_values_are_complete_without_a_width() -> None:
    """In a pipe, the columns are the same for any notifications."""
    table = LogTable(None)
    columns = "{:>8}  {:20}  {:18}  {:28}  {:36}  {}"
    titles = ("ID", "Received", "Type", "Recipient", "Message ID", "Outcome")
    outcome = "dispatch_not_found, next retry 2026-03-04 05:07:07Z"
    shown = columns.format(1, "2026-03-04 05:06:07Z", "Open", ADA, GUID, outcome)
    assert [table.header, table.line(entry())] == [columns.format(*titles), shown]
    assert str(LONGEST.recipient) in table.line(LONGEST)


def test_values_that_fit_are_not_cut() -> None:
    """The columns are as wide as the longest values of the page."""
    short = entry(record_type="Delivery", recipient="a@b.example", message_id="m-1", retry_at=None)
    assert LogTable(80, [short]).line(short) == (
        " 1  2026-03-04 05:06:07Z  Delivery  a@b.example  m-1         dispatch_not_found"
    )


def test_the_message_id_is_cut_first() -> None:
    line = LogTable(150).line(entry())
    assert line.endswith("  b7bc2f4…2c2f817  dispatch_not_found, next retry 2026-03-04 05:07:07Z")
    assert line.startswith("       1  2026-03-04 05:06:07Z  Open ")


@pytest.mark.parametrize("width", [80, None])
@pytest.mark.parametrize("recipient", [WIDE, RIGHT_TO_LEFT, "Zoe\u0301@example.com", ADA])
def test_columns_are_aligned(recipient: str, width: int | None) -> None:
    """Wide characters occupy two columns, and combining characters none."""
    table = LogTable(width)
    line = table.line(entry(recipient=recipient)).translate({0x2068: None, 0x2069: None})
    before, _, _ = line.partition("b7bc")
    assert display_width(before) == table.header.index("Message ID")


def test_text_from_right_to_left_is_isolated_on_a_terminal() -> None:
    """Otherwise, a terminal moves the digits beside it. In a pipe, no character is added."""
    shown = entry(recipient=RIGHT_TO_LEFT)
    assert f"  \u2068{RIGHT_TO_LEFT}\u2069 " in LogTable(120).line(shown)
    assert "\u2068" not in LogTable(None).line(shown)


def test_an_isolate_in_a_value_is_escaped() -> None:
    """Only those that the table adds remain."""
    line = LogTable(None).line(entry(recipient="\u2067x\x1b[2J@example.com", message_id="\u2069"))
    assert r"\u2067x\x1b[2J@example.com" in line
    assert r"\u2069" in line


@pytest.mark.parametrize(
    ("text", "width", "middle", "end"),
    [
        ("abcdefgh", 8, "abcdefgh", "abcdefgh"),
        ("abcdefgh", 7, "abc…fgh", "abcdef…"),
        ("abcdefgh", 6, "abc…gh", "abcde…"),
        ("山田太郎", 7, "山…郎", "山田太…"),
        ("e\u0301" * 4, 3, "e\u0301…e\u0301", "e\u0301e\u0301…"),
    ],
)
def test_cut(text: str, width: int, middle: str, end: str) -> None:
    assert (cut_middle(text, width), cut_end(text, width)) == (middle, end)
