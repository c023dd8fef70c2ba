"""Unprintable characters in what commands print: visible in text, escape sequences in JSON."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import world
from command import Command
from hookrow import Recorded, Refusal, testing
from received import keep
from wire import ADA, ADAS, AT

HIDDEN = (
    *("\x01\t\n\r\x1b[31m\x7f\x85\x9b2j", "\u061c\u200b\u200d\u200e\u202e\u2028\u2029\u2066\u2069"),
    *("\xa0\xad\ufeff\ufff9", "\U000e0041\U0001d173"),
)
"""Controls (C0, DEL, C1), bidirectional controls, and other characters that are not visible."""

HOSTILE = f'm{"".join(HIDDEN)}-é-😀-\\u202e-"9'
"""An id; what looks like an escape sequence in it is part of it."""


def printed(command: Command, *arguments: object, status: int = 0) -> str:
    """Return what a command prints; only line breaks may be unprintable."""
    done = command.call(*arguments)
    assert done.returncode == status, done.stderr
    output = done.stdout + done.stderr
    assert not [each for each in output if not each.isprintable() and each != "\n"]
    return output


@pytest.fixture(autouse=True)
def _received(sqlite_url: str, tmp_path: Path) -> None:
    """Have a log with hostile values, and rows that contain them."""
    world.fill(sqlite_url)
    keep(
        sqlite_url,
        testing.delivery(HOSTILE, HOSTILE, at=AT),
        Refusal.SUBSCRIBER_NOT_FOUND.refused(),
    )
    keep(sqlite_url, {"RecordType": HOSTILE}, Refusal.UNSUPPORTED.refused())
    suppression = testing.suppression(ADA, ADAS, at=AT, reason=HOSTILE)
    keep(sqlite_url, suppression, Recorded(()))
    with closing(sqlite3.connect(tmp_path / "hookrow.db")) as database, database:
        database.execute(
            "UPDATE hookrow_subscribers SET suppression_reason = ?, "
            "suppressed_at = '2020-01-01 00:00:00.000000Z'",
            [HOSTILE],
        )


def test_text(command: Command) -> None:
    """Each character has its own escape sequence; lines stay lines."""
    lines = printed(command, "log").splitlines()
    assert len(lines) == 4
    assert r"m\x01\t\n\r\x1b[31m\x7f\x85\x9b2j\u061c\u200b" in lines[-1]
    assert r"\u2066\u2069\xa0\xad\ufeff\ufff9\U000e0041\U0001d173-é-😀-\u202e-" in lines[-1]
    for arguments in ("log show 1", "log show 2", "log show 3", "stats", "replay --dry-run 3"):
        assert r"m\x01\t\n" in printed(command, *arguments.split())


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ("log --type Delivery", "message_id"),
        ("log show 1", "recipient"),
        ("log show 2", "record_type"),
        ("log show 1", "body"),
        ("log show 3", "reason"),
        ("stats", "suppressed"),
    ],
)
def test_json(command: Command, arguments: str, path: str) -> None:
    """It has no unprintable character, and a parser returns the exact value."""
    line = printed(command, *arguments.split(), "--json")
    assert line.count("\n") == 1
    assert r"\u0001\t\n\r\u001b[31m\u007f\u0085\u009b2j\u061c" in line.replace(r"\\", "\\")
    assert r"\udb40\udc41\ud834\udd73-é-😀-" in line.replace(r"\\", "\\")
    value = json.loads(line)[path]
    if path == "body":
        value = json.loads(value)["MessageID"]
    assert HOSTILE in value


def test_changes(command: Command) -> None:
    [change, _] = map(json.loads, printed(command, "replay", "--dry-run", "--json", 3).splitlines())
    assert any(HOSTILE in each for each in change["changes"])


def test_a_setting(command: Command) -> None:
    """An argument that is not UTF-8 is printed, too."""
    hostile = "sqlite:///\udcff\u202e.db"
    assert r"\udcff\u202e.db" in printed(command, "check", "--database-url", hostile, status=1)
    results = printed(command, "check", "--json", "--database-url", hostile, status=1).splitlines()
    assert hostile in {json.loads(each).get("value") for each in results}


def test_an_error(command: Command) -> None:
    """An error may quote an application."""
    (command.folder / "app.py").write_text("raise ValueError('\x1b[2J\u202e')")
    text = printed(command, "--app", "app:receiver", "log", status=1)
    assert r"ValueError in" in text
    assert r"\x1b[2J\u202e" in text
