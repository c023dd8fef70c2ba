"""`hookrow log --follow`: which entries it prints, and when."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from log_contract import entry

import world
from command import Command
from engines import MEMORY
from hookrow import EventTime, Recorded, Refusal, SetTime, testing
from hookrow._cli.log import follow, follow_changes
from hookrow._core.log_entry import StoredEntry
from hookrow.stores._errors import SchemaChanged, Unavailable
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore
from received import keep
from wire import ADA

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
NUMBER = "UPDATE hookrow_notifications SET id = %s WHERE fingerprint = %s"
NO_DISPATCH = Refusal.DISPATCH_NOT_FOUND.refused()
CHANGED = Recorded([SetTime(1, EventTime.DELIVERED, AT, guarded=False)])


@pytest.fixture
def on_sleep(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[Callable[[], object]]], None]:
    """Return a function that sets what happens during each pause; then Ctrl-C is pressed."""

    def set_steps(steps: Sequence[Callable[[], object]]) -> None:
        remaining = iter(steps)

        def sleep(seconds: float) -> None:
            assert seconds == 1.0
            step = next(remaining, None)
            if step is None:
                raise KeyboardInterrupt
            step()

        # In the package, `log` is the command.
        monkeypatch.setattr(sys.modules[follow.__module__], "sleep", sleep)

    return set_steps


class TestCommand:
    @pytest.fixture(autouse=True)
    def _received(self, database_url: str) -> None:
        world.fill(database_url)
        for number in range(1, 4):
            self.receive(database_url, number)

    def receive(self, url: str, number: int) -> None:
        payload = testing.opening(ADA, f"m-{number}", at=AT + timedelta(seconds=number))
        keep(url, payload, NO_DISPATCH)

    def test_table(
        self, command: Command, database_url: str, on_sleep: Callable[[Any], None]
    ) -> None:
        """The newest are printed, oldest first, and then new ones, each of them once."""
        on_sleep(
            [int, lambda: self.receive(database_url, 4), lambda: self.receive(database_url, 5)]
        )
        options = ("--follow", "--limit", 2, "--database-url", database_url)
        done = command.call("log", *options)
        header, *lines = done.stdout.splitlines()
        assert header.split() == ["ID", "Received", "Type", "Recipient", "Message", "ID", "Outcome"]
        assert [int(line.split()[0]) for line in lines] == [2, 3, 4, 5]
        assert (done.returncode, done.stderr) == (130, "")

    def test_json_and_filters(
        self, command: Command, database_url: str, on_sleep: Callable[[Any], None]
    ) -> None:
        """Entries have their bodies; those that a filter excludes are not printed."""
        on_sleep([lambda: self.receive(database_url, 4), lambda: self.receive(database_url, 5)])
        options = ("--follow", "--json", "--message-id", "m-5", "--database-url", database_url)
        [line] = command.call("log", *options).stdout.splitlines()
        entry = msgspec.json.decode(line)
        assert (entry["id"], msgspec.json.decode(entry["body"])["MessageID"]) == (5, "m-5")

    def test_changes_after_a_cursor(
        self, command: Command, database_url: str, on_sleep: Callable[[Any], None]
    ) -> None:
        """Each change is printed with its cursor, after which another call continues."""
        dispatch = testing.delivery(ADA, "m-ada", at=AT)
        on_sleep([lambda: keep(database_url, dispatch, CHANGED)])
        options = ("--follow", "--database-url", database_url)
        done = command.call("log", *options, "--after", 0)
        header, line = done.stdout.splitlines()
        assert header.split()[:2] == ["Cursor", "ID"]
        assert (done.returncode, done.stderr) == (130, "")
        cursor, id_, *_ = line.split()
        opened = testing.opening(ADA, "m-ada", at=AT)
        on_sleep([lambda: keep(database_url, opened, CHANGED)])
        [line] = command.call("log", *options, "--after", cursor, "--json").stdout.splitlines()
        entry = msgspec.json.decode(line)
        assert entry["change_number"] > int(cursor)
        assert (entry["id"], entry["record_type"]) == (int(id_) + 1, "Open")

    def test_changes_that_were_pruned(self, command: Command, database_url: str) -> None:
        """The error has the cursor with which the command goes on."""
        for message_id in ("m-ada", "m-eve"):
            keep(database_url, testing.delivery(ADA, message_id, at=AT), CHANGED)
        with closing(SQLStore(database_url)) as store:
            assert store.prune(keep=timedelta(), sure=True) == 1
        done = command.call("log", "--follow", "--after", 0, "--database-url", database_url)
        assert done.returncode == 1
        assert done.stderr.endswith(
            "deleted from the log: compare all rows once, and continue after the cursor 1.\n"
        )

    @pytest.mark.parametrize("more", [(), ("--follow", "--recipient", ADA)])
    def test_after_needs_follow_alone(
        self, command: Command, database_url: str, more: Sequence[str]
    ) -> None:
        done = command.call("log", "--after", 1, *more, "--database-url", database_url)
        assert done.returncode == 2
        assert "Use --after with --follow, and without options that select." in done.stderr

    def test_before(self, command: Command, database_url: str) -> None:
        options = ("--follow", "--before", 3, "--database-url", database_url)
        done = command.call("log", *options)
        assert done.returncode == 2
        assert "Omit --before: --follow begins with the newest notifications." in done.stderr


class Log:
    """The log of a store, to which a test commits ids in any order."""

    def __init__(self, store: SQLStore) -> None:
        assert store.log is not None
        self.store, self.reader = store, store.log

    def commit(self, *ids: int) -> None:
        """Add entries with these ids."""
        for id_ in ids:
            added = entry(id_)
            with self.store.transaction() as transaction:
                transaction.write((), [added])
            with self.store.database.transaction() as connection:
                connection.execute(NUMBER, [id_, added.fingerprint])


@pytest.fixture
def log() -> Iterator[Log]:
    """Return an empty log."""
    with closing(SQLStore(MEMORY)) as store:
        yield Log(store)


def ids(entries: Iterator[StoredEntry]) -> list[int]:
    """Return the ids that are yielded until Ctrl-C."""
    found: list[int] = []
    try:
        for entry in entries:
            found.append(entry.id)  # noqa: PERF401 - kept after an interrupt
    except KeyboardInterrupt:
        return found
    raise AssertionError


def test_ids_that_are_committed_out_of_order(on_sleep: Callable[[Any], None], log: Log) -> None:
    """A lower id that is committed later is not lost, and no entry is repeated."""
    log.commit(*range(1, 11))
    on_sleep([lambda: log.commit(500, 2000), int, lambda: log.commit(1001, 1999), int])
    assert ids(follow(log.reader, Query(), limit=2, bodies=False)) == [9, 10, 500, 2000, 1001, 1999]


def test_changes_during_an_outage(
    on_sleep: Callable[[Any], None],
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Changes that were committed meanwhile follow."""
    log.commit(1)
    read, broken = log.store.changes, Mock(side_effect=Unavailable("down"))
    on_sleep(
        [
            lambda: monkeypatch.setattr(log.store, "changes", broken),
            lambda: log.commit(2),
            lambda: monkeypatch.setattr(log.store, "changes", read),
            int,
        ]
    )
    assert ids(each.entry for each in follow_changes(log.store, 0)) == [1, 2]
    assert capsys.readouterr().err == "The log cannot be read; retrying every second. down\n"


def test_an_outage(
    on_sleep: Callable[[Any], None],
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An outage is one line; the entries committed meanwhile follow."""

    def fail(error: Exception | None) -> Callable[[], None]:
        bounds = log.reader.bounds if error is None else Mock(side_effect=error)
        return lambda: monkeypatch.setattr(log.reader, "bounds", bounds)

    down = fail(Unavailable("Connection refused"))
    on_sleep(
        [down, lambda: log.commit(1), int, fail(None), down, lambda: log.commit(2), fail(None)]
    )
    assert ids(follow(log.reader, Query(), limit=2, bodies=False)) == [1, 2]
    line = "The log cannot be read; retrying every second. Connection refused\n"
    assert capsys.readouterr().err == line * 2
    on_sleep([fail(SchemaChanged("no such table"))])
    with pytest.raises(SchemaChanged):
        ids(follow(log.reader, Query(), limit=2, bodies=False))
