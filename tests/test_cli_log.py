"""`hookrow log`, `replay` and `prune`: what they print, and what they change."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
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
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)

RECORDED = Recorded(())
NO_SUBSCRIBER = Refusal.SUBSCRIBER_NOT_FOUND.refused()
NO_DISPATCH = Refusal.DISPATCH_NOT_FOUND.refused()
MISMATCH = Refusal.RECIPIENT_MISMATCH.refused(owner=ADA, recipient=BEA)
UNSUPPORTED = Refusal.UNSUPPORTED.refused()
FAILED = Refusal.FAILED.refused()

UNREACHABLE = "postgresql://ada:hunter2@127.0.0.1:1/mail"

provider = Postmark(SECRET)


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return the command, in the folder of the tests' SQLite file."""
    return Command(tmp_path)


@pytest.fixture
def url(sqlite_url: str) -> str:
    """Return the URL of the file that the command takes by itself, with the world in it."""
    world.fill(sqlite_url)
    return sqlite_url


def arrival(payload: object, came: datetime, *, attempts: int = 1) -> Arrival:
    """Return the arrival of a payload, or of a body as it is."""
    body = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
    notification, said = provider.parse(body), provider.describe(body)
    return Arrival(notification, body, came, unsupported=said, attempts=attempts)


def keep(
    url: str,
    payload: object,
    outcome: Outcome,
    *,
    came: datetime | None = None,
    ended: datetime | None = None,
    attempts: int = 1,
) -> None:
    """Write into the log that a notification ended so, whatever rows there are."""
    came = came or datetime.now(UTC)
    kept = entries([arrival(payload, came, attempts=attempts)], [outcome], ended or came)
    store = SQLStore(url)
    with store.transaction() as transaction:
        transaction.write((), kept)
    store.close()


def receive(url: str, *payloads: object) -> None:
    """Record payloads as a receiver does, each by itself."""
    store = SQLStore(url)
    for payload in payloads:
        record(store, [arrival(payload, datetime.now(UTC))])
    store.close()


def listed(command: Command, *arguments: object, **variables: str) -> list[dict[str, Any]]:
    """Return what `hookrow log` lists."""
    done = command.call("log", "--json", *arguments, **variables)
    assert done.returncode == 0, done.stderr
    return [msgspec.json.decode(line) for line in done.stdout.splitlines()]


def ids(command: Command, *arguments: object) -> list[int]:
    """Return of what `hookrow log` lists the ids."""
    return [entry["id"] for entry in listed(command, *arguments)]


def show(command: Command, id_: int = 1, **variables: str) -> Mapping[str, str]:
    """Return what `hookrow log show` says, by the word that its line begins with."""
    done = command.call("log", "show", id_, **variables)
    assert (done.returncode, done.stderr) == (0, "")
    return {line[:12].strip(): line[12:] for line in done.stdout.splitlines()}


DELIVERY = testing.delivery(ADA, ADAS, at=AT)
UNKNOWN = testing.opening(ADA, "m-1", at=AT)
STRANGER = testing.delivery("eve@example.com", "m-2", at=AT)
OF_ANOTHER = testing.opening(BEA, ADAS, at=AT)
BOUNCE = {"RecordType": "Bounce", "Email": ADA, "MessageID": "m-3"}


class TestList:
    @pytest.fixture(autouse=True)
    def _received(self, url: str) -> None:
        receive(url, DELIVERY, UNKNOWN, STRANGER, OF_ANOTHER, BOUNCE)

    def test_table(self, command: Command, url: str) -> None:
        """A line tells of each when it came, what it is, for whom, and how it ended."""
        receive(url, DELIVERY)
        done = command.call("log")
        assert (done.returncode, done.stderr) == (0, "")
        lines = [re.split(r"  +", line.strip()) for line in done.stdout.splitlines()]
        assert lines[0] == ["id", "came", "type", "recipient", "message id", "outcome"]
        assert [int(line[0]) for line in lines[1:]] == [5, 4, 3, 2, 1]
        assert lines[1][2:] == ["Bounce", ADA, "m-3", "unsupported"]
        assert lines[4][2:5] == ["Open", ADA, "m-1"]
        again = r"dispatch_not_found, tried again \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"
        assert re.fullmatch(again, lines[4][5])
        assert lines[5][2:] == ["Delivery", ADA, ADAS, "recorded, 2 attempts"]

    @pytest.mark.parametrize(
        ("arguments", "found"),
        [
            ((), [5, 4, 3, 2, 1]),
            (("--outcome", "recorded"), [1]),
            (("--outcome", "failed"), []),
            (("--type", "Open"), [4, 2]),
            (("--recipient", ADA.upper()), [5, 2, 1]),
            (("--message-id", ADAS), [4, 1]),
            (("--parked",), [4, 3, 2]),
            (("--parked", "--recipient", ADA), [2]),
            (("--since", "1h"), [5, 4, 3, 2, 1]),
            (("--since", "2000-01-01"), [5, 4, 3, 2, 1]),
            (("--since", "9999-12-31T23:59+05:00"), []),
            (("--before", 3), [2, 1]),
            (("--limit", 1), [5]),
        ],
    )
    def test_filters(
        self, command: Command, arguments: Sequence[object], found: Sequence[int]
    ) -> None:
        """Each filter leaves those that match, and of several all have to; newest first."""
        assert ids(command, *arguments) == found

    def test_pages(self, command: Command) -> None:
        """Where there may be older ones, a line says how to see them."""
        seen, more = [], ["--before", "6"]
        while more:
            done = command.call("log", "--json", "--limit", 2, *more)
            seen += [msgspec.json.decode(line)["id"] for line in done.stdout.splitlines()]
            more = done.stderr.removeprefix("Older ones: ").split()
        assert seen == [5, 4, 3, 2, 1]

    def test_json(self, command: Command) -> None:
        """For a machine there is everything, times in UTC and the fingerprint in hex."""
        (entry,) = listed(command, "--before", 2)
        assert set(entry) == {
            name for kind in Logged.__mro__ for name in getattr(kind, "__slots__", ())
        }
        assert entry["occurred_at"] == "2026-03-04T05:06:07Z"
        assert re.fullmatch("[0-9a-f]{32}", entry["fingerprint"])
        assert msgspec.json.decode(entry["body"]) == DELIVERY
        assert (
            command.call("log", "show", 1, "--json").stdout
            == command.call("log", "--json", "--before", 2).stdout
        )

    def test_json_of_large_bodies(self, command: Command, url: str) -> None:
        """All bodies are there, also if they are more than are read at once."""
        large = [{**BOUNCE, "ID": n, "Pad": "x" * 2**20} for n in range(3)]
        receive(url, *large)
        found = [msgspec.json.decode(each["body"]) for each in listed(command)]
        assert found == [*large[::-1], BOUNCE, OF_ANOTHER, STRANGER, UNKNOWN, DELIVERY]

    def test_none(self, command: Command) -> None:
        """Where none match a line says so to a person, and nothing to a machine."""
        done = command.call("log", "--recipient", "nobody@example.com")
        assert (done.returncode, done.stdout) == (0, "There are no such notifications.\n")
        assert listed(command, "--recipient", "nobody@example.com") == []

    def test_settings(self, command: Command) -> None:
        """The file says where the log is, as it does for every command."""
        (command.folder / "hookrow.db").rename(command.folder / "moved.db")
        (command.folder / "hookrow.toml").write_text('database_url = "sqlite:///moved.db"')
        assert ids(command) == [5, 4, 3, 2, 1]
        assert show(command)["message id"] == ADAS


class TestShow:
    def test_everything(self, command: Command, url: str) -> None:
        """It says what came, when, how it ended, what it would do now, and the body."""
        suppression = testing.suppression(ADA.upper(), ADAS, at=AT)
        keep(url, suppression, NO_DISPATCH, came=NOON, ended=NOON)
        keep(url, suppression, FAILED, came=NOON + HOUR, ended=NOON + HOUR + SECOND)
        before = world.rows(url)
        shown = show(command)
        assert shown["type"] == "SubscriptionChange"
        assert (shown["recipient"], shown["message id"]) == (ADA, ADAS)
        assert shown["happened"] == "2026-03-04 05:06:07Z"
        assert shown["came"] == "2026-03-04 12:00:00Z, last 2026-03-04 13:00:00Z"
        assert shown["ended"] == "failed, 503, 2026-03-04 13:00:01Z"
        assert "subscriber 1: suppressed_at null -> 2026-03-04 05:06:07Z" in shown["once more"]
        assert "dispatch 1: suppression_reason null -> HardBounce" in shown["once more"]
        assert "subscription 1 1: suppressed_at null" in shown["once more"]
        assert msgspec.json.decode(shown["body"]) == suppression
        assert world.rows(url) == before

    @pytest.mark.parametrize(
        ("payload", "ends", "says"),
        [
            (DELIVERY, (RECORDED,), "1 attempt; recorded within 20 ms"),
            (
                UNKNOWN,
                (NO_DISPATCH,),
                (
                    "no dispatch had the id m-1 when it came; 1 attempt; "
                    "tried again 2026-03-04 12:01:00Z"
                ),
            ),
            (
                UNKNOWN,
                (NO_DISPATCH, RECORDED),
                "no dispatch had the id m-1 when it came; 3 attempts; recorded 64 s later",
            ),
            (
                STRANGER,
                (NO_SUBSCRIBER, RECORDED),
                (
                    "nobody had the address eve@example.com when it came; "
                    "3 attempts; recorded 64 s later"
                ),
            ),
            (
                OF_ANOTHER,
                (MISMATCH, RECORDED),
                (
                    f"the dispatch with the id {ADAS} was another subscriber's when it came; "
                    "3 attempts; recorded 64 s later"
                ),
            ),
            (
                STRANGER,
                (NO_SUBSCRIBER, NO_DISPATCH),
                (
                    "nobody had the address eve@example.com when it came; 3 attempts; 64 s later "
                    "no dispatch had the id m-2; tried again 2026-03-04 12:03:08Z"
                ),
            ),
            (
                UNKNOWN,
                (RECORDED, NO_DISPATCH),
                (
                    "3 attempts; 64 s later no dispatch had the id m-1; "
                    "tried again 2026-03-04 12:03:08Z"
                ),
            ),
        ],
    )
    def test_why(
        self, command: Command, url: str, payload: object, ends: Sequence[Outcome], says: str
    ) -> None:
        """A sentence tells how it ended at first, how often it came, and what became of it."""
        keep(url, payload, ends[0], came=NOON, ended=NOON + SECOND / 50)
        for outcome in ends[1:]:
            keep(url, payload, outcome, came=NOON, ended=NOON + 64 * SECOND, attempts=2)
        assert show(command)["why"] == says

    @pytest.mark.parametrize(
        ("payload", "outcome", "says"),
        [
            (DELIVERY, FAILED, "the database failed at it"),
            (BOUNCE, UNSUPPORTED, "not supported"),
            (b"\xff\0", UNSUPPORTED, "not supported"),
            (
                testing.opening(ADA, None, at=AT),
                NO_DISPATCH,
                "no dispatch had its id, for it named none ",
            ),
        ],
    )
    def test_in_the_end(
        self, command: Command, url: str, payload: object, outcome: Outcome, says: str
    ) -> None:
        """What is not tried again is told so, and nothing that is missing is called None."""
        keep(url, payload, outcome, came=NOON, ended=NOON + 3 * DAY)
        shown = show(command)
        assert says in shown["why"]
        assert ("not tried again any more" in shown["why"]) == (outcome is not UNSUPPORTED)
        assert "tried again 2" not in shown["why"]
        assert "None" not in "".join(shown.values())

    @pytest.mark.parametrize(
        ("payload", "says"),
        [
            (DELIVERY, "dispatch 1: delivered_at null -> 2026-03-04 05:06:07Z"),
            (UNKNOWN, "would be refused: Engine::Dispatch not found"),
            (BOUNCE, "would be refused: Webhook payload not supported"),
            (b"\xff\0", "its body is not kept as it came"),
            (
                testing.suppression("gil@example.com", None, at=AT - 90 * DAY),
                (
                    "subscriber 6: suppressed_at 2026-02-01 00:00:00Z -> 2025-12-04 05:06:07Z; "
                    "subscriber 6: suppression_changed_at null -> 2025-12-04 05:06:07Z"
                ),
            ),
        ],
    )
    def test_once_more(self, command: Command, url: str, payload: object, says: str) -> None:
        """What it would do now is tried, and undone."""
        before = world.rows(url)
        keep(url, payload, FAILED)
        assert show(command)["once more"] == says
        assert world.rows(url) == before

    def test_guarded(self, command: Command, url: str) -> None:
        """What would not take the place of something newer is said to change nothing."""
        receive(url, DELIVERY, testing.delivery(ADA, ADAS, at=AT + HOUR))
        assert show(command)["once more"].startswith("would change nothing")

    def test_a_replay_that_the_database_refuses(self, command: Command, url: str) -> None:
        """The entry is shown all the same, and one sentence says why nothing could be tried."""
        keep(url, DELIVERY, FAILED)
        refuse = (
            "CREATE TRIGGER refuse BEFORE UPDATE ON hookrow_dispatches "
            "BEGIN SELECT RAISE(ABORT, 'ada@example.com'); END"
        )
        with closing(sqlite3.connect(command.folder / "hookrow.db")) as database:
            database.execute(refuse)
        shown = show(command)
        assert shown["once more"] == (
            "A replay could not be tested, because the database reported: "
            "IntegrityError SQLITE_CONSTRAINT_TRIGGER"
        )
        assert (shown["recipient"], shown["body"]) == (ADA, msgspec.json.encode(DELIVERY).decode())

    def test_escaped(self, command: Command, url: str) -> None:
        """Bytes that are no text are shown escaped, and the line stays one."""
        keep(url, b"\xff\0{", UNSUPPORTED)
        shown = show(command)
        assert shown["body"] == r"\xff\x00{"
        assert (shown["type"], shown["recipient"], shown["happened"]) == (
            "unknown",
            "none",
            "unknown",
        )

    @pytest.mark.usefixtures("url")
    @pytest.mark.parametrize("id_", [1, 2**63 - 1])
    def test_none(self, command: Command, id_: int) -> None:
        """An id that the log does not have is one line, and the status is 1."""
        done = command.call("log", "show", id_)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"Error: The log has no notification {id_}.\n"


class TestForget:
    def test_person(self, command: Command, url: str) -> None:
        """Address and bodies of a person are gone, in every entry; the entries are not."""
        receive(url, DELIVERY, UNKNOWN, BOUNCE, STRANGER)
        done = command.call("log", "forget", ADA.upper())
        assert (done.returncode, done.stdout) == (0, "Erased in 3 notifications.\n")
        assert ids(command, "--recipient", ADA) == []
        assert ids(command, "--parked") == [4]
        *theirs, other = reversed(listed(command))
        assert all(entry["recipient"] is entry["body"] is None for entry in theirs)
        assert other["recipient"] == STRANGER["Recipient"]
        assert ADA not in command.call("log", "--json").stdout
        shown = show(command)
        assert (shown["recipient"], shown["body"]) == ("none", "not kept")
        again = command.call("log", "forget", ADA)
        assert again.stdout == "Erased in 0 notifications.\n"

    @pytest.mark.parametrize("text", ["", "ada", "example.com"])
    def test_no_address(self, command: Command, url: str, text: str) -> None:
        """What is no address is refused, and nothing is erased."""
        receive(url, BOUNCE)
        done = command.call("log", "forget", text)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{text!r} is no address." in done.stderr
        assert listed(command)[0]["body"] is not None


class TestReplay:
    def test_held(self, command: Command, postgres_url: str) -> None:
        """A rehearsal says which row is held, and goes on to the next."""
        world.fill(postgres_url)
        receive(postgres_url, DELIVERY, STRANGER)
        with psycopg.connect(postgres_url) as host:
            host.execute("SELECT FROM hookrow_dispatches FOR UPDATE")
            done = command.call(*("replay", "1", "2", "--dry-run", "--database-url", postgres_url))
        assert done.returncode == 0
        assert "one of its rows is held just now" in done.stdout
        assert "would be refused: Engine::Subscriber not found" in done.stdout

    @pytest.mark.parametrize(
        ("arguments", "recorded"),
        [
            ((1,), [1]),
            ((1, 3, 99), [1, 3]),
            (("--outcome", "failed"), [2]),
            (("--since", "1h"), [2, 3]),
            (("--recipient", ADA), [1, 2]),
            (("--recipient", ADA, "--since", "1h"), [2]),
            ((2, 3, "--recipient", ADA), [2]),
        ],
    )
    def test_which(
        self, command: Command, url: str, arguments: Sequence[object], recorded: Sequence[int]
    ) -> None:
        """Those are recorded that are meant, and no others; none counts as an attempt."""
        hours_ago = datetime.now(UTC) - 2 * HOUR
        keep(url, DELIVERY, NO_DISPATCH, came=hours_ago)
        keep(url, testing.opening(ADA, ADAS, at=AT), FAILED)
        keep(url, testing.suppression(BEA, None, at=AT), NO_SUBSCRIBER)
        done = command.call("replay", *arguments)
        many = f"{len(recorded)} notification{'s' * (len(recorded) > 1)}"
        assert (done.returncode, done.stdout) == (
            0,
            f"{many} replayed: {len(recorded)} recorded.\n",
        )
        assert sorted(ids(command, "--outcome", "recorded")) == recorded
        assert {entry["attempts"] for entry in listed(command)} == {1}
        rows = world.rows(url)
        assert (rows["dispatches"][0]["delivered_at"] == AT) == (1 in recorded)
        assert (rows["dispatches"][0]["opened_at"] == AT) == (2 in recorded)
        assert (rows["subscribers"][1]["suppressed_at"] == AT) == (3 in recorded)

    def test_dry_run(self, command: Command, url: str) -> None:
        """It shows what would change, row by row, and changes neither rows nor log."""
        for payload in (DELIVERY, STRANGER):
            keep(url, payload, NO_DISPATCH)
        before, log = world.rows(url), listed(command)
        done = command.call("replay", "--since", "1h", "--dry-run")
        assert (done.returncode, done.stderr) == (0, "")
        lines = done.stdout.splitlines()
        assert lines[1].strip() == "dispatch 1: delivered_at null -> 2026-03-04 05:06:07Z"
        assert lines[3].strip() == "would be refused: Engine::Subscriber not found"
        assert lines[4] == (
            "2 notifications would be replayed: 1 recorded, 1 subscriber_not_found."
        )
        assert (world.rows(url), listed(command)) == (before, log)

    def test_guard(self, command: Command, url: str) -> None:
        """A replay that is older than what the row has changes nothing, and says so beforehand."""
        receive(url, DELIVERY, testing.delivery(ADA, ADAS, at=AT + HOUR))
        dry = command.call("replay", 1, "--dry-run").stdout
        assert "would change nothing: its rows have it, or something newer" in dry
        done = command.call("replay", 1)
        assert done.stdout == "1 notification replayed: 1 recorded.\n"
        assert world.rows(url)["dispatches"][0]["delivered_at"] == AT + HOUR

    def test_order(self, command: Command, url: str) -> None:
        """However many, they are recorded oldest first, and the latest change stands."""
        store = SQLStore(url)
        came = datetime.now(UTC) - HOUR
        many = [
            arrival(testing.suppression(ADA, None, at=AT + n * SECOND, reason=f"r-{n}"), came)
            for n in range(150)
        ]
        with store.transaction() as transaction:
            transaction.write((), entries(many, [NO_SUBSCRIBER] * len(many), came))
        store.close()
        done = command.call("replay", "--outcome", "subscriber_not_found")
        assert done.stdout == "150 notifications replayed: 150 recorded.\n"
        assert world.rows(url)["subscribers"][0]["suppression_reason"] == "r-149"

    def test_bodies_that_are_gone(self, command: Command, url: str) -> None:
        """What has no body any more, or one that is escaped, is counted and left alone."""
        keep(url, DELIVERY, NO_DISPATCH)
        command.call("log", "forget", ADA)
        keep(url, b"\xff", UNSUPPORTED)
        for arguments, replayed in (((1, 2), "replayed"), ((1, 2, "--dry-run"), "would be")):
            done = command.call("replay", *arguments)
            assert done.returncode == 0
            assert replayed in done.stdout
            assert "2 without the body that came" in done.stdout
        assert ids(command, "--outcome", "recorded") == []

    @pytest.mark.parametrize("arguments", [(), ("--dry-run",)])
    def test_no_selection(self, command: Command, url: str, arguments: Sequence[str]) -> None:
        """Who does not say which is asked, and nothing is done."""
        keep(url, DELIVERY, NO_DISPATCH)
        done = command.call("replay", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Say which: by ID, --outcome, --since or --recipient." in done.stderr
        assert ids(command, "--outcome", "recorded") == []


class TestPrune:
    @pytest.fixture(autouse=True)
    def _kept(self, url: str) -> None:
        now = datetime.now(UTC)
        for number, ago in enumerate((100 * DAY, 10 * DAY, 2 * DAY, 2 * HOUR)):
            keep(url, testing.opening(ADA, ADAS, at=AT + number * SECOND), RECORDED, came=now - ago)
        keep(url, testing.opening(ADA, "m-1", at=AT), NO_DISPATCH, came=now - 10 * DAY)
        keep(url, testing.opening(ADA, "m-2", at=AT), NO_DISPATCH, came=now - 2 * DAY)

    @pytest.mark.parametrize(
        ("arguments", "left", "without_body"),
        [
            ((), {2, 3, 4, 5, 6}, set()),
            (("--keep", "90d"), {2, 3, 4, 5, 6}, set()),
            (("--keep", "20w"), {1, 2, 3, 4, 5, 6}, set()),
            (("--keep", "forever"), {1, 2, 3, 4, 5, 6}, set()),
            (("--keep", "4d"), {3, 4, 6}, set()),
            (("--keep", "12h"), {4, 6}, set()),
            (("--keep", "90m"), {6}, set()),
            (("--keep", "1s"), {6}, set()),
            (("--keep", "forever", "--keep-bodies", "4d"), {1, 2, 3, 4, 5, 6}, {1, 2, 5}),
            (("--keep-bodies", "none"), {2, 3, 4, 5, 6}, {2, 3, 4, 5}),
            (("--keep", "4d", "--keep-bodies", "forever"), {3, 4, 6}, set()),
        ],
    )
    def test_durations(
        self, command: Command, arguments: Sequence[str], left: set[int], without_body: set[int]
    ) -> None:
        """What last came longer ago goes, or its body; what may yet be recorded stays whole."""
        done = command.call("prune", *arguments)
        assert done.returncode == 0
        assert done.stdout == f"Pruned: {6 - len(left) + len(without_body)}.\n"
        entries = listed(command)
        assert {entry["id"] for entry in entries} == left
        assert {entry["id"] for entry in entries if entry["body"] is None} == without_body
        assert 6 in ids(command, "--parked")

    def test_came_again(self, command: Command, url: str) -> None:
        """What came again lately stays, however long ago it came first."""
        keep(url, testing.opening(ADA, ADAS, at=AT), RECORDED)
        assert command.call("prune", "--keep", "1h").stdout == "Pruned: 4.\n"
        assert sorted(ids(command)) == [1, 6]

    @pytest.mark.parametrize("name", ["--keep", "--keep-bodies"])
    @pytest.mark.parametrize("value", ["", "5", "d", "0d", "-1d", "1.5d", "1 d", "1y", "never"])
    def test_bad_durations(self, command: Command, name: str, value: str) -> None:
        """What is no duration is refused, and told how one is written; nothing is deleted."""
        done = command.call("prune", name, value)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{value!r} is no duration: write 90d, 12h" in done.stderr
        assert len(ids(command)) == 6

    def test_none_of_it(self, command: Command) -> None:
        """To keep no notification at all is `log = false`, not a duration."""
        assert command.call("prune", "--keep", "none").returncode == 2

    @pytest.mark.parametrize(
        ("arguments", "status"),
        [
            (("prune", "--keep", "999999w"), {0, 2}),
            (("prune", "--keep", "forever", "--keep-bodies", "999999w"), {0, 2}),
            (("log", "--since", "999999w"), {0, 2}),
            (("log", "--since", "0001-01-01T00:00+05:00"), {0, 2}),
            (("log", "--since", "yesterday"), {2}),
            (("log", "--outcome", "lost"), {2}),
            (("replay", "--since", ""), {2}),
        ],
    )
    def test_far_away(self, command: Command, arguments: Sequence[str], status: set[int]) -> None:
        """What no calendar has, and what is no time at all, ends without a traceback."""
        assert command.call(*arguments).returncode in status
        assert len(ids(command)) == 6


def test_each_database(command: Command, database_url: str) -> None:
    """On either database: list, show, replay, forget and prune."""
    world.fill(database_url)
    there = {"HOOKROW_DATABASE_URL": database_url}
    keep(database_url, DELIVERY, NO_DISPATCH)
    keep(database_url, UNKNOWN, NO_DISPATCH, came=NOON)
    (old, new) = (entry["id"] for entry in listed(command, **there)[::-1])
    assert "delivered_at null -> 2026-03-04 05:06:07Z" in show(command, old, **there)["once more"]
    assert command.call("replay", old, new, **there).stdout == (
        "2 notifications replayed: 1 recorded, 1 dispatch_not_found.\n"
    )
    assert world.rows(database_url)["dispatches"][0]["delivered_at"] == AT
    assert [entry["outcome"] for entry in listed(command, "--outcome", "recorded", **there)] == [
        "recorded"
    ]
    assert command.call("log", "forget", ADA, **there).stdout == "Erased in 2 notifications.\n"
    assert command.call("prune", "--keep", "1d", **there).stdout == "Pruned: 1.\n"
    assert [entry["id"] for entry in listed(command, **there)] == [old]


@pytest.mark.parametrize(
    "arguments",
    [("log",), ("log", "show", "1"), ("log", "forget", ADA), ("replay", "1"), ("prune",)],
    ids=" ".join,
)
class TestInVain:
    def refused(self, command: Command, arguments: Sequence[str], **variables: str) -> str:
        """Run the command, which is to fail in one line; return the line."""
        done = command.call(*arguments, **variables)
        assert (done.returncode, done.stdout) == (1, "")
        assert re.fullmatch(r"Error: [^\n]+\n", done.stderr)
        assert "hunter2" not in done.stderr
        return done.stderr

    def test_no_file(self, command: Command, arguments: Sequence[str]) -> None:
        """Where there is no file none is made, and what makes one is named."""
        assert "There is no hookrow.db. Run: hookrow db upgrade" in self.refused(command, arguments)
        assert list(command.folder.glob("*.db")) == []

    @pytest.mark.usefixtures("url")
    def test_no_log(self, command: Command, arguments: Sequence[str]) -> None:
        """Where the settings have no log, that is said."""
        (command.folder / "hookrow.toml").write_text("[tables]\nlog = false")
        assert "There is no log" in self.refused(command, arguments)

    def test_no_tables(
        self, command: Command, empty_sqlite_url: str, arguments: Sequence[str]
    ) -> None:
        """Where the tables are not made, what is missing is named."""
        assert empty_sqlite_url.endswith("/hookrow.db")
        (command.folder / "hookrow.db").touch()
        assert "hookrow_" in self.refused(command, arguments)

    def test_unreachable(self, command: Command, arguments: Sequence[str]) -> None:
        """A database that cannot be reached is told so, without its password."""
        line = self.refused(command, arguments, HOOKROW_DATABASE_URL=UNREACHABLE)
        assert "Connection refused" in line
