"""The log of `hookrow serve` in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import Command
from wire import ask, request

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("workers", [1, 2])
def test_json(tmp_path: Path, workers: int) -> None:
    """With `--log-format json` every line is an object, with the request id of the response."""
    with Command(tmp_path).serving(
        *("--workers", workers, "--log-level", "debug"),
        HOOKROW_LOG_FORMAT="json",
        PYTHONWARNINGS="default::DeprecationWarning",  # not of what uvicorn leaves open
    ) as server:
        answer = ask(server.port, request(b"{}", extra=[b"X-Request-Id: from-a-proxy"]))
        assert (answer.status, answer.header("x-request-id")) == (422, "from-a-proxy")
        stranger = ask(server.port, request(b"{}", secret="wrong")).header("x-request-id")
    lines = [json.loads(line) for line in server.log.splitlines()]
    assert {"hookrow", "uvicorn.error"} <= {line["logger"] for line in lines}
    about = [line["request_id"] for line in lines if "request_id" in line]
    assert about == ["from-a-proxy", stranger]
    groups = [line["request_ids"] for line in lines if "request_ids" in line]
    assert groups == [["from-a-proxy"]]
