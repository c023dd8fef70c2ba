"""Optional records: clicks, bounces, complaints and first opens."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from receiving import NOON, Database, people, post, receive

from copying import replace
from hookrow import ConfigurationError, Role, Schema, testing
from hookrow._core.optional import OPTIONAL_COLUMNS, RECORDS
from hookrow._core.schema_values import schema_of
from hookrow._postmark_api.register import triggers_of
from hookrow._receiver.clock import utc_now
from hookrow._receiver.entries import POSTMARK, explain
from hookrow._receiver.replay import arrivals_of, parse_entry, replay
from hookrow.providers.postmark import Postmark

ADA = "ada@example.com", "m-ada"
CLICK, BOUNCE, COMPLAINT = (
    write(*ADA, at=NOON) for write in (testing.click, testing.bounce, testing.complaint)
)
CASES = [
    ("click", CLICK, {"clicked_at": NOON}),
    ("bounce", BOUNCE, {"bounced_at": NOON, "bounce_type": "HardBounce"}),
    ("complaint", COMPLAINT, {"complained_at": NOON}),
]


def database(*record: str) -> Database:
    """Return Ada's rows, under a schema with these optional records."""
    made = people("ada")
    made.use(Schema(record=record))
    return made


def answer(made: Database, *payloads: dict[str, Any]) -> list[tuple[int, str]]:
    with closing(receive(made)) as receiver:
        responses = [post(receiver, payload) for payload in payloads]
    return [(each.status, each.body.decode()) for each in responses]


@pytest.mark.parametrize(("record", "payload", "columns"), CASES)
def test_an_optional_notification_is_recorded(
    record: str, payload: dict[str, Any], columns: dict[str, Any]
) -> None:
    """It changes nothing else: a bounce or a complaint suppresses nobody."""
    made = database(record)
    before = made.tables.dispatch("m-ada")
    assert answer(made, payload) == [(200, "")]
    assert made.tables.dispatch("m-ada") == replace(before, **columns)
    assert made.tables.subscriber("ada@example.com").suppressed_at is None


@pytest.mark.parametrize(("record", "payload", "_"), CASES)
def test_it_is_refused_like_a_delivery(record: str, payload: dict[str, Any], _: object) -> None:
    made = database(record)
    address = "Recipient" if "Recipient" in payload else "Email"
    assert answer(
        made, payload | {address: "nobody@example.com"}, payload | {"MessageID": "m-none"}
    ) == [(404, "Engine::Subscriber not found"), (404, "Engine::Dispatch not found")]
    assert [entry.record_type for entry in made.logged()] == [payload["RecordType"]] * 2
    assert all(entry.retry_at for entry in made.logged())


@pytest.mark.parametrize(("record", "payload", "columns"), CASES)
def test_it_is_not_supported_unless_it_is_recorded(
    record: str, payload: dict[str, Any], columns: dict[str, object]
) -> None:
    """A replay records it after its column was added."""
    made = database(*({*RECORDS} - {record}))
    assert answer(made, payload) == [(422, "Webhook payload not supported")]
    [entry] = made.logged()
    assert (entry.record_type, entry.recipient, entry.message_id) == (payload["RecordType"], *ADA)
    part = parse_entry(entry, POSTMARK)
    assert part is not None
    assert "does not record this type" in (explain(Postmark, part, made.recorded) or "")
    made.use(Schema(record=(record,)))
    assert explain(Postmark, part, made.recorded) is None
    replay(made, arrivals_of(made, [entry], POSTMARK, datetime.now(UTC)), clock=utc_now)
    row = made.tables.dispatch("m-ada")
    assert {name: getattr(row, name) for name in columns} == columns


def test_only_opens_are_first_opens() -> None:
    made = database("first_open")
    assert answer(made, testing.delivery(*ADA, at=NOON)) == [(200, "")]
    row = made.tables.dispatch("m-ada")
    assert (row.delivered_at, row.first_opened_at, row.opened_at) == (NOON, None, None)


def test_the_first_open_is_the_earliest() -> None:
    made = database("first_open")
    hour = timedelta(hours=1)
    answer(made, *(testing.opening(*ADA, at=NOON + n * hour) for n in (1, 0, 2)))
    row = made.tables.dispatch("m-ada")
    assert (row.first_opened_at, row.opened_at) == (NOON, NOON + 2 * hour)


@pytest.mark.parametrize("type_", [None, 3, "", "x" * 65, "Hard\0Bounce", "\0\ud83d"])
def test_a_type_that_no_row_can_contain_is_null(type_: object) -> None:
    made = database("bounce")
    assert answer(made, BOUNCE | {"Type": type_}) == [(200, "")]
    assert made.tables.dispatch("m-ada").bounce_type is None


def test_an_unpaired_surrogate_in_a_type_is_replaced() -> None:
    made = database("bounce")
    assert answer(made, BOUNCE | {"Type": "Hard\ud83d"}) == [(200, "")]
    assert made.tables.dispatch("m-ada").bounce_type == "Hard\ufffd"


def test_a_sparse_bounce_is_not_supported() -> None:
    made = database(*RECORDS)
    sparse = [{**BOUNCE, name: None} for name in ("Email", "BouncedAt")]
    assert [status for status, _ in answer(made, *sparse)] == [422, 422]
    parts = [parse_entry(each, POSTMARK) for each in made.logged()]
    problems = [explain(Postmark, part, made.recorded) for part in parts if part]
    assert problems == ["Email is missing or null.", "BouncedAt is missing or null."]


# -- the schema ------------------------------------------------------------------------


def test_hookrows_own_tables_have_the_columns() -> None:
    """They stay hookrow's own, and by default none of the columns is used."""
    assert not {*Schema().columns("dispatches")} & {*OPTIONAL_COLUMNS}
    schema = schema_of({"record": ["click", "bounce"]})
    assert {*schema.columns("dispatches")} & {*OPTIONAL_COLUMNS} == {
        *("clicked_at", "bounced_at", "bounce_type")
    }
    assert schema.is_own


@pytest.mark.parametrize(
    ("columns", "record", "error"),
    [
        ({}, ("click",), r"'click', but 'sends' has no column 'clicked_at': map it"),
        ({"bounce_type": "kind"}, (), "'bounce_type' without 'bounced_at'"),
        ({}, ("clicks",), "has 'clicks': use 'click', 'bounce', 'complaint', 'first_open'"),
    ],
)
def test_a_schema_without_the_columns(
    columns: dict[str, str], record: tuple[str, ...], error: str
) -> None:
    with pytest.raises(ConfigurationError, match=error):
        Schema(dispatches=Role("sends", columns), record=record)


def test_a_bounce_without_a_type() -> None:
    """The column for the type is optional."""
    schema = Schema(dispatches=Role("sends", {"bounced_at": "bounced_on"}), record=("bounce",))
    assert schema.columns("dispatches")["bounced_at"] == "bounced_on"
    assert "bounce_type" not in schema.columns("dispatches")


def test_the_triggers_of_the_webhook_are_those_that_are_recorded() -> None:
    usual = {"Delivery", "Open", "SubscriptionChange"}
    assert {*triggers_of(database().recorded)} == usual
    recording = database("click", "bounce", "first_open")
    assert {*triggers_of(recording.recorded)} == usual | {"Click", "Bounce"}
