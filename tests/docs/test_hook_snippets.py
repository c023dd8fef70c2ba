"""The hooks on the pages about message streams and first opens set the documented values."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hookrow import Postmark, Receiver, testing
from hookrow.stores.sql import SQLStore
from hookrow.testing import SECRET, post
from session import execute, read_blocks, read_files
from times import HOUR, NOON

ROWS = """
INSERT INTO hookrow_subscribers (email) VALUES ('ada@example.com');
INSERT INTO hookrow_dispatches (provider_message_id, subscriber_id) VALUES ('m-1', 1);
"""


def select_after(page: str, url: str, payloads: list[testing.Payload], query: str) -> list[Any]:
    """Post payloads to a receiver with the hook of a page; return the rows of a query."""
    [statement] = read_blocks(page, "sql")
    on_recorded = execute(*read_files(page).values())["on_recorded"]
    with closing(sqlite3.connect("hookrow.db")) as database:
        database.executescript(ROWS + statement)
        receiver = Receiver(Postmark(SECRET), SQLStore(url), on_recorded=on_recorded)
        with closing(receiver):
            assert [post(receiver, payload) for payload in payloads] == [(200, "")] * len(payloads)
        return database.execute(query).fetchall()


def test_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> None:
    """Each stream has its own state, and the newest change wins."""
    monkeypatch.chdir(tmp_path)
    ada = ("ada@example.com", None)
    payloads = [
        testing.suppression(*ada, at=NOON) | {"MessageStream": "outbound"},
        testing.reactivation(*ada, at=NOON + HOUR) | {"MessageStream": "outbound"},
        testing.suppression(*ada, at=NOON) | {"MessageStream": "outbound"},
        testing.suppression(*ada, at=NOON, reason="SpamComplaint") | {"MessageStream": "news"},
    ]
    query = "SELECT stream, reason FROM stream_suppressions ORDER BY 1"
    rows = select_after("docs/how-to/message-streams.md", sqlite_url, payloads, query)
    assert rows == [("news", "SpamComplaint"), ("outbound", None)]


def test_first_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> None:
    """The first open is the earliest, and `opened_at` the last that was processed."""
    monkeypatch.chdir(tmp_path)
    times = [NOON + HOUR, NOON, NOON + 2 * HOUR]
    payloads = [testing.opening("ada@example.com", "m-1", at=at) for at in times]
    query = "SELECT at, opened_at FROM first_opens, hookrow_dispatches"
    [(first, last)] = select_after("docs/how-to/first-opens.md", sqlite_url, payloads, query)
    assert first == NOON.isoformat(timespec="microseconds")
    assert last.startswith("2026-03-04 14:00:00")
