"""Log lines: what is said of each request at debug level, and in JSON."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest

from command import Command
from hookrow import Postmark, Receiver, Request
from hookrow.logs import JSONFormatter
from hookrow.stores import Unavailable
from hookrow.stores.memory import MemoryStore
from test_observing import SECRET, head, request, store
from wire import ask
from wire import request as posted


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Take all lines, at debug level."""
    caplog.set_level(logging.DEBUG, "hookrow")
    return caplog


def test_group(lines: pytest.LogCaptureFixture) -> None:
    """A group has one line, and each that is refused in it one more, with the request's id."""
    receiver = Receiver(Postmark(SECRET), store())
    receiver.answer(request())
    receiver.answer(request("eve@example.com"))
    receiver.answer(Request(head(), b"{}"))
    said = [message.partition(" took ")[0] for message in lines.messages]
    assert said == [
        "A group of 1",
        "Answered 404, subscriber_not_found: Delivered 'm-1' of 'e***@example.com', request r-1",
        "A group of 1",
        "Answered 422, unsupported: an unsupported notification, request r-1",
        "A group of 1",
    ]
    assert lines.messages[0].endswith(" ms: 1 recorded; requests r-1")


def test_strangers(lines: pytest.LogCaptureFixture) -> None:
    """What anybody can cause is said once for each kind of refusal, then counted."""
    receiver = Receiver(Postmark(SECRET), store())
    for _ in range(100):
        for each in (head("/x"), head(method="GET"), head(secret="x")):
            receiver.admit(each)
    assert lines.messages == [
        "Answered 404, no_such_path: request r-1",
        "Answered 405, method_not_allowed: request r-1",
        "Somebody came without the secret, and was answered 401: request r-1.",
    ]


def test_quiet_by_default(caplog: pytest.LogCaptureFixture) -> None:
    """At any other level there are no such lines."""
    caplog.set_level(logging.INFO, "hookrow")
    receiver = Receiver(Postmark(SECRET), store())
    receiver.answer(request("eve@example.com"))
    receiver.admit(head("/x"))
    assert caplog.messages == []


def test_json(lines: pytest.LogCaptureFixture) -> None:
    """In JSON a line is one object, with the id or the ids of what it is about."""
    receiver = Receiver(Postmark(SECRET), store())
    receiver.admit(head(secret="x"))
    receiver.answer(request("eve@example.com"))
    told = [json.loads(JSONFormatter().format(record)) for record in lines.records]
    assert [(each["level"], each["logger"]) for each in told] == [
        ("warning", "hookrow"),
        ("debug", "hookrow"),
        ("debug", "hookrow"),
    ]
    assert [each.get("request_id") for each in told] == ["r-1", "r-1", None]
    assert told[2]["request_ids"] == ["r-1"]
    assert told[0]["time"].endswith("Z")


def test_an_outage(lines: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is answered 503 is told with the requests that it answers."""

    def away(*_: object, **__: object) -> None:
        raise Unavailable("gone")

    monkeypatch.setattr(MemoryStore, "transaction", away)
    assert Receiver(Postmark(SECRET), store()).answer(request()).status == 503
    record = lines.records[0]
    assert record.getMessage() == "Answering 1 notifications 503, requests r-1: gone"
    assert json.loads(JSONFormatter().format(record))["request_ids"] == ["r-1"]


def test_json_of_an_error() -> None:
    """A traceback is a part of the object; whatever is in a line, it is one line of JSON."""
    try:
        int("two\nlines")
    except ValueError:
        record = logging.LogRecord(
            "other", logging.ERROR, "", 0, "%s \ud800\x00", ("\n",), sys.exc_info()
        )
    line = JSONFormatter().format(record)
    assert "\n" not in line
    assert "ValueError: invalid literal" in json.loads(line)["error"]


class TestServe:
    @pytest.mark.parametrize("workers", [1, 2])
    def test_json(self, tmp_path: Path, workers: int) -> None:
        """With --log-format json every line is an object, with the id that the answer has."""
        with Command(tmp_path).serving(
            *("--workers", workers, "--log-level", "debug"),
            HOOKROW_LOG_FORMAT="json",
            PYTHONWARNINGS="default::DeprecationWarning",  # not of what uvicorn leaves open
        ) as server:
            answer = ask(server.port, posted(b"{}", extra=[b"X-Request-Id: from-a-proxy"]))
            assert (answer.status, answer.header("x-request-id")) == (422, "from-a-proxy")
            stranger = ask(server.port, posted(b"{}", secret="wrong")).header("x-request-id")
        lines = [json.loads(line) for line in server.log.splitlines()]
        assert {"hookrow", "uvicorn.error"} <= {line["logger"] for line in lines}
        about = [line.get("request_id") for line in lines if "request_id" in line]
        assert about == ["from-a-proxy", stranger]
        assert [line["request_ids"] for line in lines if "request_ids" in line] == [
            ["from-a-proxy"]
        ]
