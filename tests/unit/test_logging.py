"""Log lines: their text, request ids, format as JSON, and rate limit."""

import json
import logging
import re
import sys
from time import perf_counter
from typing import cast

import pytest
from receiving import delivery, head, people, receive, request

from copying import replace
from hookrow import Arrival, Postmark, Receiver, RequestHead
from hookrow._http import request_id
from hookrow._observability.logging import JSONFormatter, configuration, logger
from wire import ENDPOINT, SECRET

UNAUTHENTIC = "Returned 401 to request r-1: X-Provider-Secret is wrong."
EVE = "'m-eve' of 'e***@example.com'"
HEADS = [
    "Returned 404: no_such_path for request r-1",
    "Returned 405: method_not_allowed for request r-1",
]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Record all lines, at debug level."""
    caplog.set_level(logging.DEBUG, "hookrow")
    return caplog


@pytest.fixture
def receiver() -> Receiver:
    return receive(people("ada"))


def _all_kinds(receiver: Receiver) -> None:
    """Send a request of each kind, and three of each kind that is refused by its head."""
    for payload in (delivery("ada"), delivery("eve"), b"{}"):
        receiver.record_directly(request(payload))
    for _ in range(3):
        for each in (head("/x"), head(method="GET"), head(secret="x")):
            receiver.admit(each)


def test_at_debug_level(lines: pytest.LogCaptureFixture, receiver: Receiver) -> None:
    began = perf_counter()
    _all_kinds(receiver)
    elapsed = perf_counter() - began
    assert sum(map(float, re.findall(r"in ([\d.]+) ms", lines.text))) < elapsed * 1000 + 1
    assert [re.sub(r" in [\d.]+ ms", "", message) for message in lines.messages] == [
        "Processed a group of 1: 1 recorded; requests r-1",
        f"Refused Delivered {EVE}, request r-1: subscriber_not_found",
        "Processed a group of 1: 1 subscriber_not_found; requests r-1",
        "Refused an unsupported notification, request r-1: unsupported",
        "Processed a group of 1: 1 unsupported; requests r-1",
        *HEADS,
        UNAUTHENTIC,
        *HEADS * 2,
    ]
    lines.clear()
    lines.set_level(logging.INFO, "hookrow")  # which logs only wrong secrets
    _all_kinds(receiver)
    assert {*lines.messages} <= {UNAUTHENTIC}


def test_a_group_that_fails_is_logged_with_its_requests(caplog: pytest.LogCaptureFixture) -> None:
    database = people("ada")
    database.away = True
    assert receive(database).record_directly(request(delivery("ada"))).status == 503
    assert caplog.messages[0] == "Could not record 1 notification (requests r-1): gone"


def test_a_full_queue_is_logged_with_its_requests(
    lines: pytest.LogCaptureFixture, receiver: Receiver
) -> None:
    [arrival] = cast("list[Arrival]", receiver._arrivals(request(delivery("ada"))))
    receiver._responder.refuse_overflow([arrival, replace(arrival, request_id="r-2")])
    assert lines.messages[0] == "The queue is full or closed (requests r-1, r-2)."


def test_json_with_request_ids(lines: pytest.LogCaptureFixture, receiver: Receiver) -> None:
    receiver.admit(head(secret="x"))
    receiver.record_directly(request(delivery("ada")))
    first, second = (json.loads(JSONFormatter().format(record)) for record in lines.records)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first.pop("time"))
    expected = {"level": "warning", "logger": "hookrow", "message": UNAUTHENTIC}
    assert first == expected | {"request_id": "r-1"}
    assert (second["level"], second["request_ids"]) == ("debug", ["r-1"])
    assert "request_id" not in second


def test_a_traceback_and_control_characters_fit_in_one_line_of_json() -> None:
    try:
        int("two\nlines")
    except ValueError:
        record = logging.LogRecord(
            "other", logging.ERROR, "", 0, "%s \ud800\x00", ("\n",), sys.exc_info()
        )
    line = JSONFormatter().format(record)
    assert "\n" not in line
    assert "ValueError: invalid literal" in json.loads(line)["error"]


def test_other_loggers_stay_enabled() -> None:
    assert configuration("debug", "json")["disable_existing_loggers"] is False


def test_only_a_safe_request_id_is_kept() -> None:
    for safe in ("4bf92f3577b34da6", "A.b_c-9", "x" * 64):
        assert request_id([(b"Host", b"x"), (b"X-Request-Id", safe.encode())]) == safe
    unsafe = (b"", b"x" * 65, b"a b", b"ada@example.com", b"a\n", b"a\x00", b"<b>", b"\xc3\xa9")
    made = [request_id([(b"x-request-id", value)]) for value in unsafe]
    made += [request_id([]), request_id([(b"x-request-id", b"a")] * 2)]
    assert all(re.fullmatch("[0-9a-f]{16}", each) for each in made)
    assert len({*made}) == len(made)


def test_each_reason_for_a_401_is_logged(
    lines: pytest.LogCaptureFixture, receiver: Receiver
) -> None:
    """The line names the reason, no value, and only known headers, however many others come."""
    for number in range(1000):
        other = (f"x-secret-{number}".encode(), b"value-of-another")
        receiver.admit(RequestHead("POST", ENDPOINT, [other], request_id="r-1"))
    headers = [(b"authorization", b"Bearer value"), (b"x-unknown", b"value")]
    receiver.admit(RequestHead("POST", ENDPOINT, headers, request_id="r-2"))
    response = receiver.admit(head(secret=f'"{SECRET}"'))
    assert response is not None
    assert (response.status, response.body) == (401, b"Cannot verify webhook")
    assert response.headers["WWW-Authenticate"] == 'Secret error="wrong"'
    start = "Returned 401 to request r-{}: X-Provider-Secret is "
    assert lines.messages == [
        start.format(1) + "missing.",
        start.format(2) + "missing; the request has Authorization instead.",
        start.format(1) + "the secret, but with quotes, spaces or other characters around it.",
    ]
    assert SECRET not in lines.text


def test_a_doubtful_secret_is_named_at_the_start(lines: pytest.LogCaptureFixture) -> None:
    """An application that never runs `hookrow check` learns it from the log of its receiver."""
    Receiver(Postmark("fine-secret-0123456789", f'"{SECRET}"'), people("ada"))
    [message] = lines.messages
    assert message.startswith("The webhook secret is in quotes, which are a part of it")
    assert SECRET not in message


# -- rate limits -----------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the clock; return its time, in a list."""
    now = [1000.0]
    monkeypatch.setattr("hookrow._observability.logging.monotonic", lambda: now[0])
    return now


def test_repeated_messages_are_counted(lines: pytest.LogCaptureFixture, clock: list[float]) -> None:
    for number in range(6):
        logger.warning("again %d", number, extra={"request_id": "r-1"})
        logger.info("started %d", number)
    logger.error("again %d", 0)
    logger.warning("100 %% of %s", "%s")
    for seconds in (9.99, 0.01, 0.0, 10.0, 10.0):
        clock[0] += seconds
        logger.warning("again %d", 7)
    assert [(record.levelname, record.getMessage()) for record in lines.records] == [
        ("WARNING", "again 0"),
        *(("INFO", f"started {number}") for number in range(6)),  # only warnings are limited
        ("ERROR", "again 0"),
        ("WARNING", "100 % of %s"),
        ("WARNING", "again 7 (6 more since the last one)"),
        ("WARNING", "again 7 (1 more since the last one)"),
        ("WARNING", "again 7"),
    ]
    assert vars(lines.records[0])["request_id"] == "r-1"
    assert {record.name for record in lines.records} == {"hookrow"}
