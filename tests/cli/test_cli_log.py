"""`hookrow log`, `replay` and `prune`: their output, and their changes."""

import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import psycopg
import pytest

import world
from command import Command
from hookrow import Arrival, Outcome, Postmark, Recorded, Refusal, testing
from hookrow.core.log_entry import StoredEntry, entries
from hookrow.stores.sql import SQLStore
from wire import ADA, ADAS, SECRET

BEA = "bea+news@example.org"
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

RECORDED = Recorded(())
NO_DISPATCH = Refusal.DISPATCH_NOT_FOUND.refused()
UNSUPPORTED = Refusal.UNSUPPORTED.refused()
FAILED = Refusal.FAILED.refused()

DELIVERY = testing.delivery(ADA, ADAS, at=AT)
UNKNOWN = testing.opening(ADA, "m-1", at=AT)
STRANGER = testing.delivery("eve@example.com", "m-2", at=AT)
BOUNCE = {"RecordType": "Bounce", "Email": ADA, "MessageID": "m-3"}


@pytest.fixture
def url(sqlite_url: str) -> str:
    """Return the URL of the file that the command uses by default, with the world in it."""
    world.fill(sqlite_url)
    return sqlite_url


def keep(url: str, payload: object, outcome: Outcome, received: datetime | None = None) -> None:
    """Log a payload or a raw body with an outcome, regardless of the rows."""
    received, provider = received or datetime.now(UTC), Postmark(SECRET)
    body = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
    arrival = Arrival(provider.parse(body), body, received, unsupported=provider.describe(body))
    with closing(SQLStore(url)) as store, store.transaction() as transaction:
        transaction.write((), entries([arrival], [outcome], received))


def listed(command: Command, *arguments: object) -> list[dict[str, Any]]:
    done = command.call("log", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return [msgspec.json.decode(line) for line in done.stdout.splitlines()]


def show(command: Command, id_: int = 1) -> dict[str, str]:
    """Return what `hookrow log show` prints, by name."""
    done = command.call("log", "show", id_)
    assert (done.returncode, done.stderr) == (0, "")
    return {line[:12].strip(): line[12:] for line in done.stdout.splitlines()}


class TestList:
    @pytest.fixture(autouse=True)
    def _received(self, url: str) -> None:
        keep(url, DELIVERY, RECORDED)
        keep(url, UNKNOWN, NO_DISPATCH)
        keep(url, BOUNCE, UNSUPPORTED)
        keep(url, DELIVERY, RECORDED)

    def test_table(self, command: Command) -> None:
        """Each entry is a line; standard error names the option that lists older ones."""
        time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"
        lines = re.sub(time, "T", command.call("log").stdout).splitlines()
        assert [re.split(r"  +", line.strip()) for line in lines] == [
            ["ID", "Received", "Type", "Recipient", "Message ID", "Outcome"],
            ["3", "T", "Bounce", ADA, "m-3", "unsupported"],
            ["2", "T", "Open", ADA, "m-1", "dispatch_not_found, next retry T"],
            ["1", "T", "Delivery", ADA, ADAS, "recorded, 2 attempts"],
        ]
        assert command.call("log", "--limit", 2).stderr == "Older notifications: --before 2\n"
        none = command.call("log", "--recipient", "nobody@example.com")
        assert (none.returncode, none.stdout) == (0, "No notifications found.\n")

    @pytest.mark.parametrize(
        ("arguments", "found"),
        [
            ("--outcome recorded", [1]),
            ("--type Open", [2]),
            (f"--message-id {ADAS}", [1]),
            (f"--parked --recipient {ADA}", [2]),
            ("--since 1h --before 3", [2, 1]),
            ("--since 9999-12-31", []),
        ],
    )
    def test_filters(self, command: Command, arguments: str, found: list[int]) -> None:
        assert [entry["id"] for entry in listed(command, *arguments.split())] == found

    def test_json(self, command: Command) -> None:
        """As JSON an entry has every field, times in UTC and the fingerprint in hex."""
        (entry,) = listed(command, "--before", 2)
        assert set(entry) == {
            name for kind in StoredEntry.__mro__ for name in getattr(kind, "__slots__", ())
        }
        assert entry["occurred_at"] == "2026-03-04T05:06:07Z"
        assert re.fullmatch("[0-9a-f]{32}", entry["fingerprint"])
        assert msgspec.json.decode(entry["body"]) == DELIVERY
        assert msgspec.json.decode(command.call("log", "show", 1, "--json").stdout) == entry


class TestShow:
    def test_everything(self, command: Command, url: str) -> None:
        """It prints every field, the explanation, what a replay would change, and the body."""
        suppression = testing.suppression(ADA.upper(), ADAS, at=AT)
        keep(url, suppression, NO_DISPATCH, AT)
        keep(url, suppression, FAILED, AT + HOUR)
        before = world.rows(url)
        shown = show(command)
        why, changes, body = (shown.pop(name) for name in ("Explanation", "Replay", "Body"))
        assert shown == {
            "Type": "SubscriptionChange",
            "Recipient": ADA,
            "Message ID": ADAS,
            "Reason": "HardBounce",
            "Occurred": "2026-03-04 05:06:07Z",
            "Received": "2026-03-04 05:06:07Z, last 2026-03-04 06:06:07Z",
            "Result": "failed, 503, 2026-03-04 06:06:07Z",
        }
        assert why.startswith(f"no dispatch had the message ID {ADAS} at first; 2 attempts; ")
        assert "subscriber 1: suppressed_at null -> 2026-03-04 05:06:07Z; " in changes
        assert msgspec.json.decode(body) == suppression
        assert world.rows(url) == before

    def test_superseded(self, command: Command, url: str) -> None:
        """If a newer change of the subscriber is in the log, it is named."""
        keep(url, testing.suppression(ADA, None, at=AT), RECORDED)
        assert "Superseded" not in show(command)
        keep(url, testing.reactivation(ADA.upper(), ADAS, at=AT + HOUR), RECORDED)
        assert show(command)["Superseded"] == "by entry 2, a reactivation of 2026-03-04 06:06:07Z"
        assert "Superseded" not in show(command, 2)

    def test_replay_that_the_database_rejects(self, command: Command, url: str) -> None:
        keep(url, DELIVERY, FAILED)
        with closing(sqlite3.connect(command.folder / "hookrow.db")) as database:
            database.execute(
                "CREATE TRIGGER refuse BEFORE UPDATE ON hookrow_dispatches "
                "BEGIN SELECT RAISE(ABORT, 'ada@example.com'); END"
            )
        shown = show(command)
        assert shown["Replay"] == (
            "could not be tested, because the database reported: "
            "IntegrityError SQLITE_CONSTRAINT_TRIGGER"
        )
        assert shown["Recipient"] == ADA


def test_forget(command: Command, url: str) -> None:
    """A person's address and bodies are erased from all entries; the entries remain."""
    for payload in (DELIVERY, UNKNOWN, BOUNCE, STRANGER):
        keep(url, payload, UNSUPPORTED)
    done = command.call("log", "forget", ADA.upper())
    assert (done.returncode, done.stdout) == (0, "Erased from 3 notifications.\n")
    assert [entry["recipient"] for entry in listed(command)] == [STRANGER["Recipient"], *[None] * 3]
    shown = show(command)
    assert (shown["Recipient"], shown["Body"]) == ("none", "not kept")


class TestReplay:
    def test_selected(self, command: Command, url: str) -> None:
        """The selected notifications are recorded, and no others; no attempt is added."""
        keep(url, DELIVERY, NO_DISPATCH, datetime.now(UTC) - 2 * HOUR)
        keep(url, testing.opening(ADA, ADAS, at=AT), FAILED)
        keep(url, testing.suppression(BEA, None, at=AT), NO_DISPATCH)
        for arguments, selected in (
            ((1, 3, 99), [1, 3]),
            (("--outcome", "failed"), [2]),
            (("--recipient", ADA, "--since", "1h"), [2]),
        ):
            lines = command.call("replay", "--dry-run", *arguments).stdout.splitlines()
            assert [int(line[:8]) for line in lines[:-1:2]] == selected
        done = command.call("replay", "--recipient", ADA)
        assert done.stdout == "2 notifications replayed: 2 recorded.\n"
        results = [(entry["outcome"], entry["attempts"]) for entry in listed(command)]
        assert results == [("dispatch_not_found", 1), ("recorded", 1), ("recorded", 1)]
        assert show(command)["Replay"].startswith("would change nothing")
        assert world.rows(url)["dispatches"][0]["opened_at"] == AT
        assert world.rows(url)["subscribers"][1]["suppressed_at"] is None

    def test_dry_run(self, command: Command, postgres_url: str) -> None:
        """A dry run prints each change and each locked row, and changes neither rows nor log."""
        world.fill(postgres_url)
        option = ("--database-url", postgres_url)
        reactivation = testing.reactivation("gil@example.com", None, at=AT)
        for payload in (reactivation, DELIVERY, STRANGER):
            keep(postgres_url, payload, NO_DISPATCH)
        before = world.rows(postgres_url), listed(command, *option)
        with psycopg.connect(postgres_url) as host:
            host.execute("SELECT FROM hookrow_dispatches FOR UPDATE")
            done = command.call("replay", "--since", "1h", "--dry-run", *option)
        assert (done.returncode, done.stderr) == (0, "")
        lines = [line.strip() for line in done.stdout.splitlines()]
        assert lines[1].startswith("subscriber 6: suppressed_at 2026-02-01 00:00:00Z -> null")
        assert lines[3] == "one of its rows is locked at the moment"
        assert lines[5] == "would be refused: Engine::Subscriber not found"
        assert lines[6] == (
            "3 notifications would be replayed: 1 recorded, 1 failed, 1 subscriber_not_found."
        )
        assert (world.rows(postgres_url), listed(command, *option)) == before

    def test_without_bodies(self, command: Command, url: str) -> None:
        """Notifications without their original text are counted and left alone."""
        keep(url, DELIVERY, NO_DISPATCH)
        command.call("log", "forget", ADA)
        keep(url, b"\xff\0{", UNSUPPORTED)
        shown = show(command, 2)
        names = ("Type", "Recipient", "Occurred", "Body")
        assert [shown[name] for name in names] == ["unknown", "none", "unknown", r"\xff\x00{"]
        assert shown["Replay"] == "not possible, because the original body is not kept"
        for option, done in ((), "replayed"), (("--dry-run",), "would be replayed"):
            printed = command.call("replay", 1, 2, *option).stdout
            assert printed == f"2 notifications {done}: 2 without their original body.\n"


def test_prune_keeps_the_bodies_of_parked(command: Command, url: str) -> None:
    now = datetime.now(UTC)
    for ago in (100, 10, 3):
        keep(url, testing.opening(ADA, ADAS, at=AT + ago * HOUR), RECORDED, now - ago * DAY)
    keep(url, UNKNOWN, NO_DISPATCH, now - DAY)
    done = command.call("prune", "--keep", "60d", "--keep-bodies", "none")
    assert (done.returncode, done.stdout) == (0, "Pruned: 3.\n")
    found = {entry["id"]: entry["body"] is None for entry in listed(command)}
    assert found == {2: True, 3: True, 4: False}
