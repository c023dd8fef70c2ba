"""`hookrow log`, `replay` and `prune`: what is printed, and what is changed."""

from __future__ import annotations

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
from hookrow.entry import Logged, entries
from hookrow.recording import record
from hookrow.stores.sql import SQLStore
from wire import SECRET

ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
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
OF_ANOTHER = testing.opening(BEA, ADAS, at=AT)
BOUNCE = {"RecordType": "Bounce", "Email": ADA, "MessageID": "m-3"}

PROVIDER = Postmark(SECRET)


@pytest.fixture
def url(sqlite_url: str) -> str:
    """Return the URL of the file that the command uses by default, with the world in it."""
    world.fill(sqlite_url)
    return sqlite_url


def arrival(payload: object, came: datetime) -> Arrival:
    """Return the arrival of a payload, or of a body as it is."""
    body = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
    return Arrival(PROVIDER.parse(body), body, came, unsupported=PROVIDER.describe(body))


def keep(url: str, payload: object, outcome: Outcome, came: datetime | None = None) -> None:
    """Log a notification with an outcome, whatever rows there are."""
    came = came or datetime.now(UTC)
    with closing(SQLStore(url)) as store, store.transaction() as transaction:
        transaction.write((), entries([arrival(payload, came)], [outcome], came))


def receive(url: str, *payloads: object) -> None:
    """Record payloads one by one, as a receiver does."""
    with closing(SQLStore(url)) as store:
        for payload in payloads:
            record(store, [arrival(payload, datetime.now(UTC))])


def listed(command: Command, *arguments: object) -> list[dict[str, Any]]:
    """Return the entries that `hookrow log` lists."""
    done = command.call("log", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return [msgspec.json.decode(line) for line in done.stdout.splitlines()]


def ids(command: Command, *arguments: object) -> list[int]:
    """Return the ids of the entries that `hookrow log` lists."""
    return [entry["id"] for entry in listed(command, *arguments)]


def show(command: Command, id_: int = 1) -> dict[str, str]:
    """Return what `hookrow log show` prints, by the name before it."""
    done = command.call("log", "show", id_)
    assert (done.returncode, done.stderr) == (0, "")
    return {line[:12].strip(): line[12:] for line in done.stdout.splitlines()}


class TestList:
    @pytest.fixture(autouse=True)
    def _received(self, url: str) -> None:
        receive(url, DELIVERY, UNKNOWN, STRANGER, OF_ANOTHER, BOUNCE, DELIVERY)

    def test_table(self, command: Command) -> None:
        """An entry is a line; if there may be older ones, standard error says how to list them."""
        time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"
        lines = re.sub(time, "T", command.call("log").stdout).splitlines()
        assert [re.split(r"  +", line.strip()) for line in lines] == [
            ["id", "came", "type", "recipient", "message id", "outcome"],
            ["5", "T", "Bounce", ADA, "m-3", "unsupported"],
            ["4", "T", "Open", BEA, ADAS, "recipient_mismatch, tried again T"],
            ["3", "T", "Delivery", "eve@example.com", "m-2", "subscriber_not_found, tried again T"],
            ["2", "T", "Open", ADA, "m-1", "dispatch_not_found, tried again T"],
            ["1", "T", "Delivery", ADA, ADAS, "recorded, 2 attempts"],
        ]
        assert command.call("log", "--limit", 2).stderr == "Older ones: --before 4\n"
        none = command.call("log", "--recipient", "nobody@example.com")
        assert (none.returncode, none.stdout) == (0, "There are no such notifications.\n")

    def test_filters(self, command: Command) -> None:
        """Each filter leaves the entries that match, and several those that match all."""
        for arguments, found in (
            (("--outcome", "recorded"), [1]),
            (("--type", "Open"), [4, 2]),
            (("--message-id", ADAS), [4, 1]),
            (("--parked", "--recipient", ADA), [2]),
            (("--since", "1h", "--before", 3), [2, 1]),
            (("--since", "9999-12-31"), []),
        ):
            assert ids(command, *arguments) == found, arguments

    def test_json(self, command: Command) -> None:
        """As JSON an entry has every field, times in UTC and the fingerprint in hex."""
        (entry,) = listed(command, "--before", 2)
        assert set(entry) == {
            name for kind in Logged.__mro__ for name in getattr(kind, "__slots__", ())
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
        changes, body = shown.pop("once more"), shown.pop("body")
        assert shown == {
            "type": "SubscriptionChange",
            "recipient": ADA,
            "message id": ADAS,
            "happened": "2026-03-04 05:06:07Z",
            "came": "2026-03-04 05:06:07Z, last 2026-03-04 06:06:07Z",
            "ended": "failed, 503, 2026-03-04 06:06:07Z",
            "why": (
                f"no dispatch had the id {ADAS} when it came; 2 attempts; 3600 s later the "
                "database failed at it, or one of its rows was held; "
                "tried again 2026-03-04 06:07:07Z"
            ),
        }
        assert "subscriber 1: suppressed_at null -> 2026-03-04 05:06:07Z" in changes
        assert "dispatch 1: suppression_reason null -> HardBounce" in changes
        assert "subscription 1 1: suppressed_at null" in changes
        assert msgspec.json.decode(body) == suppression
        assert world.rows(url) == before

    def test_replay_rejected(self, command: Command, url: str) -> None:
        """If the database rejects the replay, the entry is shown all the same."""
        keep(url, DELIVERY, FAILED)
        with closing(sqlite3.connect(command.folder / "hookrow.db")) as database:
            database.execute(
                "CREATE TRIGGER refuse BEFORE UPDATE ON hookrow_dispatches "
                "BEGIN SELECT RAISE(ABORT, 'ada@example.com'); END"
            )
        shown = show(command)
        assert shown["once more"] == (
            "A replay could not be tested, because the database reported: "
            "IntegrityError SQLITE_CONSTRAINT_TRIGGER"
        )
        assert (shown["recipient"], shown["body"]) == (ADA, msgspec.json.encode(DELIVERY).decode())


def test_forget(command: Command, url: str) -> None:
    """A person's address and bodies are erased from all entries; the entries remain."""
    receive(url, DELIVERY, UNKNOWN, BOUNCE, STRANGER)
    done = command.call("log", "forget", ADA.upper())
    assert (done.returncode, done.stdout) == (0, "Erased in 3 notifications.\n")
    assert [entry["recipient"] for entry in listed(command)] == [STRANGER["Recipient"], *[None] * 3]
    shown = show(command)
    assert (shown["recipient"], shown["body"]) == ("none", "not kept")


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
        assert ids(command, "--outcome", "recorded") == [2, 1]
        assert {entry["attempts"] for entry in listed(command)} == {1}
        assert show(command, 1)["once more"].startswith("would change nothing")
        assert world.rows(url)["dispatches"][0]["opened_at"] == AT
        assert world.rows(url)["subscribers"][1]["suppressed_at"] is None

    def test_dry_run(self, command: Command, postgres_url: str) -> None:
        """A dry run prints each change and each locked row, and changes neither rows nor log."""
        world.fill(postgres_url)
        option = ("--database-url", postgres_url)
        keep(postgres_url, testing.reactivation("gil@example.com", None, at=AT), NO_DISPATCH)
        for payload in (DELIVERY, STRANGER):
            keep(postgres_url, payload, NO_DISPATCH)
        before = world.rows(postgres_url), listed(command, *option)
        with psycopg.connect(postgres_url) as host:
            host.execute("SELECT FROM hookrow_dispatches FOR UPDATE")
            done = command.call("replay", "--since", "1h", "--dry-run", *option)
        assert (done.returncode, done.stderr) == (0, "")
        lines = [line.strip() for line in done.stdout.splitlines()]
        assert lines[1].startswith("subscriber 6: suppressed_at 2026-02-01 00:00:00Z -> null")
        assert lines[3] == "one of its rows is held just now"
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
        assert (shown["type"], shown["recipient"], shown["happened"]) == (
            "unknown",
            "none",
            "unknown",
        )
        assert (shown["body"], shown["once more"]) == (
            r"\xff\x00{",
            "its body is not kept as it came",
        )
        for option, done in ((), "replayed"), (("--dry-run",), "would be replayed"):
            printed = command.call("replay", 1, 2, *option).stdout
            assert printed == f"2 notifications {done}: 2 without the body that came.\n"


def test_prune(command: Command, url: str) -> None:
    """Old entries and bodies are deleted, but parked ones keep theirs."""
    now = datetime.now(UTC)
    for ago in (100, 10, 3):
        keep(url, testing.opening(ADA, ADAS, at=AT + ago * HOUR), RECORDED, now - ago * DAY)
    keep(url, UNKNOWN, NO_DISPATCH, now - DAY)
    done = command.call("prune", "--keep", "60d", "--keep-bodies", "none")
    assert (done.returncode, done.stdout) == (0, "Pruned: 3.\n")
    found = {entry["id"]: entry["body"] is None for entry in listed(command)}
    assert found == {2: True, 3: True, 4: False}
