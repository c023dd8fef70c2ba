"""The page about other providers: its provider works, and its events are Resend's."""

import json
import re
from contextlib import closing
from typing import Any

import pytest

from hookrow import Receiver, Request, RequestHead
from hookrow._http import ENDPOINT
from hookrow.providers import resend
from hookrow.stores.sql import SQLStore
from hookrow.testing import Tables
from session import ROOT, execute, read_files

PAGE = "docs/how-to/other-providers.md"


@pytest.fixture
def courier() -> Any:  # noqa: ANN401 - defined on the page
    return execute(read_files(PAGE)["courier.py"])["Courier"]("a-token")


def post(receiver: Receiver, body: bytes, token: bytes = b"a-token") -> int:
    request = Request(RequestHead("POST", ENDPOINT, [(b"x-courier-token", token)]), body)
    return (receiver.admit(request.head) or receiver(request)).status


def test_the_provider_of_the_page(
    courier: Any,  # noqa: ANN401 - as above
    hookrow_store: SQLStore,
    hookrow_tables: Tables,
) -> None:
    hookrow_tables.add_dispatch("m-1", hookrow_tables.add_subscriber("ada@example.com"))
    event = {"id": "e-1", "to": "ada@example.com", "message": "m-1", "time": 1_772_600_000}
    with closing(Receiver(courier, hookrow_store)) as receiver:
        assert post(receiver, json.dumps([event, event]).encode()) == 200
        assert post(receiver, b"[]") == 200
        assert post(receiver, json.dumps([event | {"to": "nobody@x"}]).encode()) == 200
        for body in (b"{", b"5", b"null", b'["x"]', b'[{"time": 1e300}]', b"[{}]"):
            assert post(receiver, body) == 200
        assert post(receiver, b"[]", b"wrong") == 401
    delivered_at = hookrow_tables.dispatch("m-1").delivered_at
    assert delivered_at is not None
    assert delivered_at.timestamp() == event["time"]


def test_the_events_of_resend() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert {*re.findall(r"^\| `([a-z.]+)` \|", text, re.MULTILINE)} == resend._EVENT_TYPES
