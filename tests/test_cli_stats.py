"""`hookrow stats`: what it prints, for people and for machines."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

import world
from command import Command
from hookrow import Arrival, Postmark, testing
from hookrow.figures import Period, reading
from hookrow.figures.reading import read
from hookrow.recording import record
from hookrow.stores.sql import SQLStore

ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
provider = Postmark("a-secret-of-the-tests")
SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def url(database_url: str) -> str:
    """Return the URL of a database that received something now, and something days ago."""
    world.fill(database_url)
    now = datetime.now(UTC)
    came = {
        now: [
            testing.delivery(ADA, ADAS, at=now + HOUR - 30 * SECOND),
            testing.opening(ADA, ADAS, at=now),
        ],
        now - 90 * timedelta(minutes=1): [testing.opening(ADA, "not-saved", at=now)],
        now - 5 * DAY: [{"RecordType": "\x1b[31mRed"}, testing.opening(ADA, ADAS, at=now - DAY)],
        now - 60 * DAY: [testing.opening(ADA, ADAS, at=now - 60 * DAY)],
    }
    with closing(SQLStore(database_url)) as store:
        for at, payloads in sorted(came.items()):
            for payload in payloads:
                body = msgspec.json.encode(payload)
                said = provider.describe(body)
                record(store, [Arrival(provider.parse(body), body, at, unsupported=said)])
    return database_url


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return the command."""
    return Command(tmp_path)


def test_it_shows_what_came(command: Command, url: str) -> None:
    """How it goes, what came by type and outcome, rates, delays, and who is suppressed."""
    done = command.run("stats", "--period", "week", "--database-url", url, PYTHONUTF8="1")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("The last notification came ")
    assert lines[0].endswith(
        " ago; 2 of the last 6 were refused: 1 for dispatches not yet saved, "
        "1 for what is not supported."
    )
    assert lines[2].startswith("5 notifications from ")
    figures = {line[:20].strip(): line[20:].split(maxsplit=1) for line in lines[3:] if line}
    assert {name: rest[0] for name, rest in figures.items()} == {
        "type": "count",
        "Open": "3",
        "Delivery": "1",
        r"\x1b[31mRed": "1",
        "outcome": "count",
        "recorded": "3",
        "unsupported": "1",
        "dispatch_not_found": "1",
        "parked": "1",
        "sent": "6",
        "delivered": "16.7%",
        "opened": "16.7%",
        "median": figures["median"][0],
        "suppressed": "1",
        "HardBounce": "1",
        "list": "sent",
        "news": "6",
        "offers": "0",
    }
    assert figures["delivered"][1] == "█" * 5
    assert figures["HardBounce"][1] == "█" * 30
    assert figures["recorded"][1].endswith("█|")
    assert figures["median"][1].startswith("s  from sent to delivered; 95 % within 3,5")


def test_plain_letters_where_there_are_no_blocks(command: Command, url: str) -> None:
    """In a terminal, or a file, whose encoding has none."""
    done = command.run("stats", "--database-url", url, PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert "@@@@@" in done.stdout


@pytest.mark.parametrize(("period", "total"), [("hour", 2), ("day", 3), ("WEEK", 5), ("month", 5)])
def test_it_is_of_a_period(command: Command, url: str, period: str, total: int) -> None:
    """A day, unless another is asked for; and for a machine it is one object."""
    done = command.call("stats", "--json", "--period", period, "--database-url", url)
    found = json.loads(done.stdout)
    assert (found["period"], found["total"]) == (period.lower(), total)
    assert sum(map(sum, found["by_type"].values())) == total
    assert {len(row) for row in found["by_outcome"].values()} == {len(found["starts"])}
    assert (found["parked"], found["sent"], found["suppressed"]) == (1, 6, {"HardBounce": 1})
    assert found["delivery_rate"] == pytest.approx(1 / 6)
    assert found["delay_median"] == pytest.approx(3540, abs=60)
    assert found["lists"][0]["delivered"] == 1


def test_without_a_log_it_tells_of_the_rows(command: Command, url: str) -> None:
    """And in a sentence what is missing; a machine is told that nobody knows."""
    (command.folder / "hookrow.toml").write_text("[tables]\nlog = false")
    lines = command.call("stats", "--database-url", url).stdout.splitlines()
    assert lines[0] == "There is no log, which would tell what came."
    assert [line.split()[:2] for line in lines[1:] if line] == [
        ["sent", "6"],
        ["delivered", "16.7%"],
        ["opened", "16.7%"],
        ["suppressed", "1"],
        ["HardBounce", "1"],
        ["list", "sent"],
        ["news", "6"],
        ["offers", "0"],
    ]
    found = json.loads(command.call("stats", "--json", "--database-url", url).stdout)
    assert (found["total"], found["last_heard"], found["parked"]) == (None, None, None)
    assert (found["sent"], found["suppressed"]) == (6, {"HardBounce": 1})


def test_an_empty_database_has_its_say(command: Command, sqlite_url: str) -> None:
    """That nothing has come yet."""
    done = command.call("stats", "--database-url", sqlite_url)
    assert done.stdout.splitlines()[0] == "No notification has come yet."
    assert json.loads(command.call("stats", "--json").stdout)["last_heard"] is None


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--period", "year"], "'year' is not one of"),
        (["--database-url", "sqlite:///nowhere.db"], "There is no nowhere.db. Run: hookrow db"),
    ],
)
def test_a_mistake_is_told_in_a_line(command: Command, typed: list[str], said: str) -> None:
    """Without a traceback."""
    done = command.run("stats", *typed)
    assert done.returncode > 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_it_counts_in_ranges(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over their borders too; what came before the period is not read."""
    monkeypatch.setattr(reading, "WIDEST", 2)
    with closing(SQLStore(url)) as store:
        assert read(store, Period.MONTH, datetime.now(UTC)).total == 5
        assert read(store, Period.HOUR, datetime.now(UTC)).total == 2
