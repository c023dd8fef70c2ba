"""`hookrow log`, `replay` and `prune`: their output, and their changes."""

import gzip
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from importlib import import_module
from itertools import count
from typing import Any

import msgspec
import psycopg
import pytest

import world
from command import HOOKROW, Command, Terminal
from engines import database_user, run
from hookrow import Arrival, Recorded, Refusal, testing
from hookrow._cli.log import known_near_misses
from hookrow._core.log_entry import StoredEntry, log_entries
from hookrow._receiver.entries import POSTMARK
from hookrow._receiver.spool import Spool
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._limits import PostgresLimits
from hookrow.stores.sql._log import SQLLog
from hookrow.stores.sql._transaction import SQLTransaction
from received import keep
from times import DAY, HOUR
from wire import ADA, ADAS, eventually

BEA = "bea+news@example.org"
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)

RECORDED = Recorded(())
NO_DISPATCH = Refusal.DISPATCH_NOT_FOUND.refused()
UNSUPPORTED = Refusal.UNSUPPORTED.refused()
FAILED = Refusal.FAILED.refused()

DELIVERY = testing.delivery(ADA, ADAS, at=AT)
UNKNOWN = testing.opening(ADA, "m-1", at=AT)
STRANGER = testing.delivery("eve@example.com", "m-2", at=AT)
ABORTED = "\nAborted!\nWhat was committed remains. Run the command again to do the rest.\n"

BOUNCE = {"RecordType": "Bounce", "Email": ADA, "MessageID": "m-3"}


@pytest.fixture
def url(sqlite_url: str) -> str:
    """Return the URL of the file that the command uses by default, with the world in it."""
    world.fill(sqlite_url)
    return sqlite_url


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
        keep(url, BOUNCE, UNSUPPORTED, entry="sendgrid")
        keep(url, DELIVERY, RECORDED)

    def test_table(self, command: Command) -> None:
        """Each entry is a line; standard error names the option that lists older ones."""
        time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"
        lines = re.sub(time, "T", command.call("log").stdout).splitlines()
        assert [re.split(r"  +", line.strip()) for line in lines] == [
            ["ID", "Received", "Type", "Recipient", "Message ID", "Outcome"],
            ["3", "T", "Bounce", ADA, "m-3", "unsupported, entry sendgrid"],
            ["2", "T", "Open", ADA, "m-1", "dispatch_not_found, next retry T"],
            ["1", "T", "Delivery", ADA, ADAS, "recorded, 2 posts"],
        ]
        assert command.call("log", "--limit", 2).stderr == "Older notifications: --before 2\n"
        none = command.call("log", "--recipient", "nobody@example.com")
        assert (none.returncode, none.stdout) == (0, "No notifications found.\n")

    @pytest.mark.parametrize("typed", ["log", "replay --dry-run 4"])
    def test_width(self, command: Command, url: str, typed: str) -> None:
        """The lines fit the terminal, or COLUMNS; in a pipe, they are complete."""
        guid = "b7bc2f4a-e38e-4336-af7d-e6c392c2f817"
        keep(url, testing.opening("אדה@example", guid, at=AT), NO_DISPATCH)
        assert guid in command.run(*typed.split(), COLUMNS="80").stdout
        with Terminal() as terminal:
            subprocess.run(
                [HOOKROW, *typed.split()],
                cwd=command.folder,
                env=command.environment({"COLUMNS": "80"}),
                stdout=terminal.writer,
                stderr=subprocess.DEVNULL,
                check=True,
            )
            line = re.compile("^ +4 .*b7bc.?…[0-9a-f]*f817.*(?=\r\n)", re.MULTILINE)
            found = eventually(lambda: line.search(terminal.printed))
        assert len(found[0].translate({0x2068: None, 0x2069: None})) <= 80
        assert "\u2068אדה@example\u2069" in found[0]

    @pytest.mark.parametrize(
        ("arguments", "found"),
        [
            ("--outcome recorded", [1]),
            ("--type Open", [2]),
            (f"--message-id {ADAS}", [1]),
            (f"--parked --recipient {ADA}", [2]),
            ("--since 1h --before 3", [2, 1]),
            ("--since 9999-12-31", []),
            ("--entry sendgrid", [3]),
        ],
    )
    def test_filters(self, command: Command, arguments: str, found: list[int]) -> None:
        assert [entry["id"] for entry in listed(command, *arguments.split())] == found

    @pytest.mark.parametrize("name", ["log", "log --follow", "stats", "replay"])
    def test_a_name_that_no_entry_has(self, command: Command, name: str) -> None:
        """It is not mistaken for one without notifications; one that only the log has is."""
        (command.folder / "hookrow.toml").write_text("[providers.resend]\n")
        done = command.call(*name.split(), "--entry", "sendgird")
        assert done.returncode == 1
        assert done.stderr == (
            "Error: The receiver has no entry 'sendgird'. The names of its entries: 'resend'. "
            "The log has no notification of such an entry, either.\n"
        )

    def test_names_of_the_receiver_or_of_the_log(self, command: Command) -> None:
        (command.folder / "hookrow.toml").write_text("[providers.postmark]\nsecret = 'x'\n")
        assert listed(command, "--entry", "postmark") == []
        assert [entry["id"] for entry in listed(command, "--entry", "sendgrid")] == [3]

    def test_json(self, command: Command) -> None:
        """In JSON, an entry has every field, times in UTC, and the fingerprint in hex."""
        (entry,) = listed(command, "--before", 2)
        assert set(entry) == {
            name for kind in StoredEntry.__mro__ for name in getattr(kind, "__slots__", ())
        }
        assert entry["occurred_at"] == "2026-03-04T05:06:07Z"
        assert re.fullmatch("[0-9a-f]{32}", entry["fingerprint"])
        assert msgspec.json.decode(entry["body"]) == DELIVERY
        shown = msgspec.json.decode(command.call("log", "show", 1, "--json").stdout)
        assert shown == entry | {"near_misses": []}


class TestShow:
    def test_everything(self, command: Command, url: str) -> None:
        """It prints every field, the explanation, the changes of a replay, and the body."""
        suppression = testing.suppression(ADA.upper(), ADAS, at=AT)
        keep(url, suppression, NO_DISPATCH, AT)
        keep(url, suppression, FAILED, AT + HOUR)
        before = world.rows(url)
        fields = show(command)
        why, changes, body = (fields.pop(name) for name in ("Explanation", "Replay", "Body"))
        assert fields == {
            "Type": "SubscriptionChange",
            "Recipient": ADA,
            "Message ID": ADAS,
            "Reason": "HardBounce",
            "Occurred": "2026-03-04 05:06:07Z",
            "Received": "2026-03-04 05:06:07Z, last 2026-03-04 06:06:07Z",
            "Result": "failed, 503, 2026-03-04 06:06:07Z",
        }
        assert why.startswith(f"no dispatch had the message ID {ADAS} at first; 2 posts; ")
        assert "subscriber 1: suppressed_at null -> 2026-03-04 05:06:07Z; " in changes
        assert msgspec.json.decode(body) == suppression
        assert world.rows(url) == before

    def test_another_entry(self, command: Command, url: str) -> None:
        """Only the receiver with this entry can read the body, and replay it."""
        keep(url, testing.suppression(ADA, ADAS, at=AT), NO_DISPATCH, AT, entry="acme")
        fields = show(command)
        assert fields["Entry"] == "acme"
        expected = "not possible without the entry acme: use its receiver (--app)"
        assert fields["Replay"] == expected

    def test_unsupported(self, command: Command, url: str) -> None:
        """It prints which part of the body is not supported."""
        keep(url, BOUNCE, UNSUPPORTED)
        keep(url, testing.delivery(ADA, ADAS, at=AT) | {"DeliveredAt": "today"}, UNSUPPORTED)
        assert show(command)["Problem"].startswith("The mapping does not record this type: map")
        assert show(command, 2)["Problem"].startswith("DeliveredAt is not an RFC 3339 time that")

    def test_superseded(self, command: Command, url: str) -> None:
        """If a newer change of the subscriber is in the log, it is named."""
        keep(url, testing.suppression(ADA, None, at=AT), RECORDED)
        assert "Superseded" not in show(command)
        keep(url, testing.reactivation(ADA.upper(), ADAS, at=AT + HOUR), RECORDED)
        assert (
            show(command)["Superseded"]
            == "by notification 2, a reactivation of 2026-03-04 06:06:07Z"
        )
        assert "Superseded" not in show(command, 2)

    def test_row_that_has_changed_later(self, command: Command, url: str) -> None:
        """The row shows why a suppression does not apply, even if the log has no later change."""
        keep(url, testing.suppression(ADA, None, at=AT), RECORDED)
        later = "suppression_changed_at = '2026-03-04 06:06:07.000000'"
        run(url, f"UPDATE hookrow_subscribers SET {later} WHERE id = 1")
        fields = show(command)
        assert "Superseded" not in fields
        assert fields["Replay"] == (
            "would change nothing, because the rows already have these values, or newer ones: "
            "subscriber 1 (suppressed_at null, suppression_reason null, "
            "suppression_changed_at 2026-03-04 06:06:07Z)"
        )

    def test_a_message_id_that_is_no_uuid(self, command: Command, postgres_url: str) -> None:
        """If the column holds UUIDs, a hint explains why no dispatch matches another text."""
        guid = "b7bc2f4a-e38e-4336-af7d-e6c392c2f817"
        for message_id in ("m-1", guid):
            keep(postgres_url, testing.opening(ADA, message_id, at=AT), NO_DISPATCH)
        options = ("--database-url", postgres_url)
        assert "Hint" not in command.call("log", "show", 1, *options).stdout
        run(
            postgres_url,
            "ALTER TABLE hookrow_dispatches "
            "ALTER provider_message_id TYPE uuid USING provider_message_id::uuid",
        )
        hint = "provider_message_id is mapped holds UUIDs, and this message ID is not one, so no"
        assert hint in command.call("log", "show", 1, *options).stdout
        assert "Hint" not in command.call("log", "show", 2, *options).stdout

    def test_a_near_miss(self, command: Command, url: str) -> None:
        """A dispatch whose message id has another form is named, with the id to store."""
        keep(url, UNKNOWN, NO_DISPATCH)
        assert "Near miss" not in show(command)
        run(url, "UPDATE hookrow_dispatches SET provider_message_id = '<m-1>' WHERE id = 1")
        assert show(command)["Near miss"] == (
            'A dispatch has the message ID "<m-1>", which is not equal: it is stored with angle '
            "brackets. Store `MessageID` of the response of its API."
        )

    def test_spaces(self, command: Command, url: str) -> None:
        """Those at the start and the end of a value are visible; in JSON, the value is exact."""
        event = testing.opening(f" {ADA}\xa0", " \tm-1  ", at=AT)
        keep(url, event, Refusal.SUBSCRIBER_NOT_FOUND.refused())
        run(url, f"UPDATE hookrow_subscribers SET email = '{ADA} ' WHERE email = '{ADA}'")
        address, message_id = rf"\x20{ADA}\xa0", r"\x20\tm-1\x20\x20"
        line = command.call("log").stdout.splitlines()[-1]
        assert f"  {address}  " in line
        assert f"  {message_id}  " in line
        shown = show(command)
        assert (shown["Recipient"], shown["Message ID"]) == (address, message_id)
        assert f"had the address {address}; " in shown["Explanation"]
        text = (
            rf'A subscriber has the address "{ADA}\x20", which is not equal: it is stored without '
            "spaces or invisible characters."
        )
        assert shown["Near miss"] == text
        entry = msgspec.json.decode(command.call("log", "show", 1, "--json").stdout)
        assert (entry["recipient"], entry["message_id"]) == (f" {ADA}\xa0", " \tm-1  ")
        [near] = entry["near_misses"]
        assert near == {"row": "subscriber", "id": near["id"], "stored": f"{ADA} ", "text": text}

    def test_near_misses_that_are_unknown(self, url: str) -> None:
        """If the rows cannot be read, there are none in the text, and null in JSON."""
        keep(url, UNKNOWN, NO_DISPATCH)
        run(url, "DROP TABLE hookrow_dispatches")
        with closing(SQLStore(url)) as store:
            assert store.log is not None
            [entry] = store.log.newest(Query(), limit=1)
            assert known_near_misses(store, entry, POSTMARK) is None

    def test_replay_that_the_database_rejects(self, command: Command, url: str) -> None:
        keep(url, DELIVERY, FAILED)
        run(
            url,
            "CREATE TRIGGER refuse BEFORE UPDATE ON hookrow_dispatches "
            "BEGIN SELECT RAISE(ABORT, 'ada@example.com'); END",
        )
        fields = show(command)
        assert fields["Replay"] == (
            "could not be tested, because the database returned an error: "
            "IntegrityError SQLITE_CONSTRAINT_TRIGGER"
        )
        assert fields["Recipient"] == ADA


def test_recount(command: Command, url: str) -> None:
    keep(url, DELIVERY, UNSUPPORTED)
    with closing(SQLStore(url)) as store:
        assert store.log is not None
        store.log.count_hours()
    run(url, "DELETE FROM hookrow_hours")
    done = command.call("log", "recount")
    assert (done.returncode, done.stdout) == (0, "Added 1 notification to the hourly counts.\n")
    assert command.call("log", "recount", "--json").stdout == '{"added":0}\n'


def test_forget(command: Command, url: str) -> None:
    """A person's address and bodies are erased from all entries; the entries remain."""
    for payload in (DELIVERY, UNKNOWN, BOUNCE, STRANGER):
        keep(url, payload, UNSUPPORTED)
    done = command.call("log", "forget", ADA.upper())
    assert (done.returncode, done.stdout) == (0, "Erased from 3 notifications.\n")
    nothing = '{"erased":0,"bodies":0,"waiting":[],"unread":[],"doubtful":[],"spooled":0}\n'
    assert command.call("log", "forget", ADA, "--json").stdout == nothing
    assert [entry["recipient"] for entry in listed(command)] == [STRANGER["Recipient"], *[None] * 3]
    fields = show(command)
    assert (fields["Recipient"], fields["Body"]) == ("none", "not kept")


def test_forget_what_is_left(command: Command, url: str) -> None:
    """Bodies that contain the address and are left are named, and the exit status is 1."""
    mentioned = DELIVERY | {"Recipient": "bea@example.com", "Metadata": {"Cc": ADA}}
    keep(url, mentioned, UNSUPPORTED)
    keep(url, mentioned | {"Tag": "x"}, NO_DISPATCH)
    keep(url, gzip.compress(json.dumps(DELIVERY).encode(), mtime=0), UNSUPPORTED)
    keep(url, mentioned | {"Metadata": {"Cc": f"_{ADA}_"}}, UNSUPPORTED)
    spool = Spool(command.folder / "spool.db", "a mapping")
    spool.put([Arrival((), json.dumps(each).encode(), AT) for each in (mentioned, STRANGER)])
    done = command.call("log", "forget", ADA, HOOKROW_SPOOL="spool.db")
    assert done.returncode == 1
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "Erased from 0 notifications.",
        "Erased the bodies of 1 other notification, because they contained the address.",
        "Left, because a retry for another person needs the body",
        "Not searched, because the body is compressed or binary",
        "Left, because the address in the body may be a part of another one",
        "The spool has 1 notification with the address. Run the command again when it is empty.",
    ]
    done = command.call("log", "forget", ADA, "--json", HOOKROW_SPOOL="spool.db")
    ids = {"waiting": [2], "unread": [3], "doubtful": [4]}
    left = {"erased": 0, "bodies": 0, **ids, "spooled": 1}
    assert (done.returncode, json.loads(done.stdout)) == (1, left)


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
            (("--type", "Open"), [2]),
            (("--message-id", ADAS), [1, 2]),
            (("--parked", "--type", "SubscriptionChange"), [3]),
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

    def test_refused_for_an_unpaired_surrogate(self, command: Command, url: str) -> None:
        """Earlier versions refused such a notification as unsupported. Its other texts are kept."""
        suppression = testing.suppression(ADA, ADAS, at=AT, reason="Spam\ud83d") | {"Tag": "\ud83d"}
        body = json.dumps(suppression).encode()
        refused = Arrival((), body, AT)
        with closing(SQLStore(url)) as store, store.transaction() as transaction:
            transaction.write((), log_entries([refused], [UNSUPPORTED], AT))
        before = show(command)
        assert "suppression_reason null -> Spam\ufffd" in before["Replay"]
        assert "Problem" not in before
        done = command.call("replay", "--outcome", "unsupported")
        assert done.stdout == "1 notification replayed: 1 recorded.\n"
        [subscriber, *_] = world.rows(url)["subscribers"]
        assert (subscriber["suppressed_at"], subscriber["suppression_reason"]) == (AT, "Spam\ufffd")
        [entry] = listed(command)
        assert (entry["outcome"], entry["body"]) == ("recorded", body.decode())

    def test_dry_run(
        self, command: Command, postgres_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A dry run prints each change and each locked row, and changes neither rows nor log."""
        monkeypatch.setitem(PostgresLimits.RECORDING, "lock_timeout", 0.1)
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
        assert lines[3] == "one of its rows is currently locked"
        assert lines[5] == "would be refused: Engine::Subscriber not found"
        assert lines[6] == (
            "3 notifications would be replayed: 1 recorded, 1 failed, 1 subscriber_not_found."
        )
        assert (world.rows(postgres_url), listed(command, *option)) == before

    def test_missing_ids(self, command: Command, url: str) -> None:
        """Ids that the log does not have are named; the others are replayed."""
        keep(url, DELIVERY, NO_DISPATCH)
        done = command.call("replay", 99, 1, 7)
        assert (done.returncode, done.stdout) == (1, "1 notification replayed: 1 recorded.\n")
        assert done.stderr == "Error: The log has no notifications 7, 99.\n"
        # An id that another filter excludes exists.
        assert command.call("replay", 1, "--outcome", "failed").returncode == 0

    def test_json(self, command: Command, url: str) -> None:
        """The keys are those that the README documents; a dry run prints its entries first."""
        keep(url, UNKNOWN, NO_DISPATCH)
        keep(url, DELIVERY, NO_DISPATCH)
        summary = {
            "dry_run": True,
            "notifications": 2,
            "outcomes": {"dispatch_not_found": 1, "recorded": 1},
            "without_body": 0,
            "other_provider": 0,
            "unreadable": 0,
            "missing": [9],
        }
        done = command.call("replay", 1, 2, 9, "--dry-run", "--json")
        first, second, last = map(msgspec.json.decode, done.stdout.splitlines())
        refused = ["would be refused: Engine::Dispatch not found"]
        assert first == {"id": 1, "outcome": "dispatch_not_found", "changes": refused}
        assert (second["id"], second["outcome"]) == (2, "recorded")
        assert second["changes"][0].startswith("dispatch 1: delivered_at null -> 2026-03-04")
        assert (last, done.returncode) == (summary, 1)
        done = command.call("replay", 1, 2, 9, "--json")
        assert msgspec.json.decode(done.stdout) == summary | {"dry_run": False}

    def test_interrupt(self, command: Command, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """After Ctrl-C, the groups before it are committed, and the one in progress is not."""
        for payload in (DELIVERY, testing.opening(ADA, ADAS, at=AT)):
            keep(url, payload, NO_DISPATCH)
        monkeypatch.setattr("hookrow._receiver.replay.MAX_REPLAY_GROUP", 1)
        write, writes = SQLTransaction.write, count()

        def write_and_interrupt(transaction: SQLTransaction, *written: Sequence[Any]) -> None:
            write(transaction, *written)
            if next(writes):
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(SQLTransaction, "write", write_and_interrupt)
            done = command.call("replay", "--parked")
        assert (done.returncode, done.stdout, done.stderr) == (130, "", ABORTED)
        assert [each["outcome"] for each in listed(command)] == ["dispatch_not_found", "recorded"]
        again = command.call("replay", "--outcome", "dispatch_not_found")
        assert again.stdout == "1 notification replayed: 1 recorded.\n"

    def test_without_bodies(self, command: Command, url: str) -> None:
        """Notifications without their original text are counted, but not changed."""
        keep(url, DELIVERY, NO_DISPATCH)
        command.call("log", "forget", ADA)
        keep(url, b"\xff\\xff\0{", UNSUPPORTED)
        fields = show(command, 2)
        names = ("Type", "Recipient", "Occurred", "Body")
        assert [fields[name] for name in names] == ["unknown", "none", "unknown", r"\xff\xff\x00{"]
        assert fields["Replay"] == "not possible, because the original body is not kept"
        assert fields["Problem"].startswith("The body is not valid UTF-8 at byte 0: ")
        for option, done in ((), "replayed"), (("--dry-run",), "would be replayed"):
            printed = command.call("replay", 1, 2, *option).stdout
            assert printed == f"2 notifications {done}: 2 without their original body.\n"


def test_interrupted_prune(command: Command, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C, the command says that what was deleted before is committed."""

    def batches(*_: object, **__: object) -> Iterator[int]:
        yield 1000
        raise KeyboardInterrupt

    del url
    monkeypatch.setattr(SQLLog, "prune", batches)
    done = command.call("prune")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", ABORTED)


@pytest.mark.parametrize(
    ("typed", "label"),
    [("db upgrade", "Upgrading"), ("prune", "Pruning"), ("replay --since 1h", "Replaying")],
)
def test_progress(command: Command, url: str, typed: str, label: str) -> None:
    """In a terminal, standard error shows a bar, which reaches 100 %."""
    keep(url, UNKNOWN, NO_DISPATCH)
    with Terminal() as terminal:
        subprocess.run(
            [HOOKROW, *typed.split()],
            cwd=command.folder,
            env=command.environment({}),
            stdout=subprocess.PIPE,
            stderr=terminal.writer,
            check=True,
        )
        eventually(lambda: re.search(rf"{label}  \[#+\]  100%", terminal.printed))


@pytest.mark.parametrize(
    ("typed", "module", "steps"),
    [
        ("db upgrade --database-url sqlite:///new.db", "db", [1, 1]),
        ("prune --yes", "replay", [1]),
        ("replay --since 200d", "replay", [2]),
    ],
)
def test_steps_of_the_progress(
    command: Command,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    module: str,
    steps: list[int],
) -> None:
    """The bar is at 100 % at the end even if no step is reported, so the steps are counted here."""
    for payload in (UNKNOWN, STRANGER):
        keep(url, payload, NO_DISPATCH, datetime.now(UTC) - 100 * DAY)
    reported: list[int] = []
    lengths: list[int] = []

    @contextmanager
    def progress(_: str, length: int, **__: object) -> Iterator[Callable[[int], None]]:
        lengths.append(length)
        yield reported.append

    monkeypatch.setattr(import_module(f"hookrow._cli.{module}"), "progress", progress)
    done = command.call(*typed.split())
    assert (done.returncode, reported, lengths) == (0, steps, [sum(steps)])


def test_prune_keeps_the_bodies_of_what_was_not_recorded(command: Command, url: str) -> None:
    now = datetime.now(UTC)
    for ago in (100, 10, 3):
        keep(url, testing.opening(ADA, ADAS, at=AT + ago * HOUR), RECORDED, now - ago * DAY)
    keep(url, UNKNOWN, NO_DISPATCH, now - 5 * DAY)
    options = ("prune", "--keep", "60d", "--keep-bodies", "none", "--yes")
    before = listed(command)
    done = command.call(*options, "--dry-run")
    expected = "Would prune 1 entry, and 2 bodies of other entries.\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")
    done = command.call(*options, "--dry-run", "--json")
    assert json.loads(done.stdout) == {"dry_run": True, "pruned": 3, "entries": 1, "bodies": 2}
    assert listed(command) == before
    done = command.call(*options)
    assert (done.returncode, done.stdout) == (0, "Pruned 3 entries and bodies.\n")
    found = {entry["id"]: entry["body"] is None for entry in listed(command)}
    assert found == {2: True, 3: True, 4: False}


def test_prune_of_everything_needs_a_confirmation(command: Command, url: str) -> None:
    """A fast clock, which SQLite cannot show, would delete the whole log."""
    keep(url, DELIVERY, RECORDED, datetime.now(UTC) - 100 * DAY)
    for dry_run in ((), ("--dry-run",)):
        refused = command.call("prune", "--keep", "90d", *dry_run)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "as if the clock of this machine had jumped" in refused.stderr
    assert len(listed(command)) == 1
    done = command.call("prune", "--keep", "90d", "--keep-bodies", "30d", "--yes")
    assert (done.returncode, done.stdout) == (0, "Pruned 1 entries and bodies.\n")


def test_privilege_to_prune(command: Command, postgres_url: str) -> None:
    """The privilege to delete entries, which receivers do not need, is named if it is missing."""
    grants = (
        "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {}",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {}",
    )
    with database_user(postgres_url, *grants) as url:
        done = command.call("prune", "--database-url", url)
    assert done.returncode == 1
    assert 'GRANT DELETE ON "hookrow_notifications" TO ' in done.stderr
