"""Log lines: what is logged of each request at debug level, in JSON, and under which id."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime

import pytest

from hookrow import Head, Postmark, Receiver, Request, testing
from hookrow.logs import JSONFormatter, configuration
from hookrow.quiet import Once
from hookrow.request_id import request_id
from hookrow.stores import Unavailable
from hookrow.stores.memory import MemoryStore

SECRET = "a-secret-of-the-tests"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Record all lines, at debug level."""
    caplog.set_level(logging.DEBUG, "hookrow")
    return caplog


@pytest.fixture
def receiver() -> Receiver:
    """Return a receiver with one subscriber and their dispatch."""
    return Receiver(
        Postmark(SECRET),
        MemoryStore(
            subscribers={1: {"email": "ada@example.com"}},
            dispatches={1: {"provider_message_id": "m-1", "subscriber_id": 1}},
        ),
    )


def _head(path: str = "/provider/webhooks", method: str = "POST", secret: str = SECRET) -> Head:
    return Head(method, path, [(b"x-provider-secret", secret.encode())], request_id="r-1")


def _request(recipient: str = "ada@example.com") -> Request:
    body = testing.delivery(recipient, "m-1", at=datetime.now(UTC))
    return Request(_head(), json.dumps(body).encode())


def _all_kinds(receiver: Receiver) -> None:
    """Send a request of each kind, and others that are refused three times."""
    receiver.answer(_request())
    receiver.answer(_request("eve@example.com"))
    receiver.answer(Request(_head(), b"{}"))
    for _ in range(3):
        for head in (_head("/x"), _head(method="GET"), _head(secret="x")):
            receiver.admit(head)


STRANGER = "Somebody came without the secret, and was answered 401: request r-1."


def test_debug(lines: pytest.LogCaptureFixture, receiver: Receiver) -> None:
    """Each group and each refused notification has a line; what anybody can cause has one."""
    _all_kinds(receiver)
    assert [re.sub(r"took [\d.]+ ms", "took", message) for message in lines.messages] == [
        "A group of 1 took: 1 recorded; requests r-1",
        "Answered 404, subscriber_not_found: Delivered 'm-1' of 'e***@example.com', request r-1",
        "A group of 1 took: 1 subscriber_not_found; requests r-1",
        "Answered 422, unsupported: an unsupported notification, request r-1",
        "A group of 1 took: 1 unsupported; requests r-1",
        "Answered 404, no_such_path: request r-1",
        "Answered 405, method_not_allowed: request r-1",
        STRANGER,
    ]
    lines.clear()
    lines.set_level(logging.INFO, "hookrow")  # at which only wrong secrets are logged
    _all_kinds(receiver)
    assert {*lines.messages} <= {STRANGER}


def test_outage(
    lines: pytest.LogCaptureFixture, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group that is answered 503 is logged with its requests."""

    def transaction(*_: object, **__: object) -> None:
        raise Unavailable("gone")

    monkeypatch.setattr(MemoryStore, "transaction", transaction)
    assert receiver.answer(_request()).status == 503
    assert lines.messages[0] == "Answering 1 notifications 503, requests r-1: gone"


def test_json(lines: pytest.LogCaptureFixture, receiver: Receiver) -> None:
    """In JSON a line has its time, level, logger and message, and the ids of its requests."""
    receiver.admit(_head(secret="x"))
    receiver.answer(_request())
    first, second = (json.loads(JSONFormatter().format(record)) for record in lines.records)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first.pop("time"))
    assert first == {
        "level": "warning",
        "logger": "hookrow",
        "message": STRANGER,
        "request_id": "r-1",
    }
    assert (second["level"], second["request_ids"]) == ("debug", ["r-1"])
    assert "request_id" not in second


def test_json_of_an_error() -> None:
    """A traceback and control characters stay within one line of JSON."""
    try:
        int("two\nlines")
    except ValueError:
        record = logging.LogRecord(
            "other", logging.ERROR, "", 0, "%s \ud800\x00", ("\n",), sys.exc_info()
        )
    line = JSONFormatter().format(record)
    assert "\n" not in line
    assert "ValueError: invalid literal" in json.loads(line)["error"]


def test_configuration() -> None:
    """Only the loggers of hookrow and uvicorn are configured, and repeated errors limited."""
    made = configuration("debug", "json")
    assert made["disable_existing_loggers"] is False
    assert made["handlers"]["stderr"]["formatter"] == "json"
    assert made["formatters"]["json"] == {"()": JSONFormatter}
    assert made["loggers"].keys() == {"hookrow", "uvicorn", "uvicorn.error"}
    assert made["loggers"]["hookrow"]["level"] == "DEBUG"
    assert [made["filters"][name] for name in made["loggers"]["uvicorn.error"]["filters"]] == [
        {"()": Once}
    ]


# -- request ids -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        *([], [b"a", b"a"], [b""], [b"x" * 65], [b"a b"], [b"ada@example.com"], [b"a\nb"]),
        *([b"a\n"], [b"a\x00"], [b"<b>"], ["\u00e9".encode()]),
    ],
)
def test_request_id(given: list[bytes]) -> None:
    """A request without a short and harmless id gets a new one of 16 hex digits."""
    headers = [(b"x-request-id", value) for value in given]
    made = [request_id(headers) for _ in range(2)]
    assert all(re.fullmatch("[0-9a-f]{16}", each) for each in made)
    assert made[0] != made[1]
    for kept in ("4bf92f3577b34da6", "A.b_c-9", "x" * 64):
        assert request_id([(b"Host", b"x"), (b"X-Request-Id", kept.encode())]) == kept
