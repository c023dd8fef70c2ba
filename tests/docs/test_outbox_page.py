"""The page on the outbox: its consumers run, and miss no change while they are killed."""

import doctest
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from signal import SIGKILL
from subprocess import STDOUT, Popen, run
from threading import Event, Thread
from types import SimpleNamespace

import pytest
from celery.contrib.testing.worker import start_worker
from celery.signals import setup_logging

from command import clean_environment
from engines import opened
from engines import run as execute_sql
from hookrow import EventTime, Outcome, Recorded, Refusal, SetTime, testing
from hookrow._core.log_entry import log_entries
from hookrow.stores import StoreError
from hookrow.stores.sql import SQLStore
from received import arrival
from session import execute, read_blocks, read_files
from times import DAY, NOON
from wire import ADA, PATIENCE, eventually

PAGE = "docs/how-to/outbox.md"
FILES = read_files(PAGE)
RECORDED = Recorded([SetTime(1, EventTime.DELIVERED, NOON, guarded=False)])
OUTCOMES: Sequence[Outcome] = (RECORDED, RECORDED, Refusal.DISPATCH_NOT_FOUND.refused())

CRM = """
import os
import signal


def synchronize(cursor, email):
    file = os.open("received", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{cursor} {email}\\n".encode())
    os.close(file)
"""
"""Appends to a file in place of an HTTP request."""

KILLED = f"""{CRM}
    if email == "last@example.com" and not os.path.exists("killed"):
        open("killed", "x").close()
        os.kill(os.getpid(), signal.SIGKILL)
"""
"""The process is killed once, after the work on the last change, and before the cursor is saved."""


def record(store: SQLStore, outcomes: Mapping[str, Outcome], pause: Callable[[], object]) -> None:
    """Log a delivery to each address with an outcome, in one transaction with a pause in it."""
    arrivals = [arrival(testing.delivery(each, "m-1", at=NOON), NOON) for each in outcomes]
    entries = log_entries(arrivals, [*outcomes.values()], NOON)
    with store.transaction() as transaction:
        transaction.write((), entries)
        pause()


def write_until(stopped: Event, url: str, seed: int) -> None:
    """Record and refuse deliveries, new ones and repeated ones, in transactions that overlap."""
    chosen = random.Random(seed)
    with closing(SQLStore(url)) as store:
        while not stopped.is_set():
            outcomes = {
                f"s{chosen.randrange(60)}@example.com": chosen.choice(OUTCOMES)
                for _ in range(chosen.randint(1, 3))
            }
            with suppress(StoreError):  # the provider would send them again
                record(store, outcomes, lambda: stopped.wait(chosen.random() / 50))
            stopped.wait(0.05)  # on SQLite, the consumer needs the lock, too


@contextmanager
def writers(url: str) -> Iterator[None]:
    """Run several writers during the block."""
    stopped = Event()
    threads = [Thread(target=write_until, args=(stopped, url, seed)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


class Consumer:
    """The page's plain loop, in a folder, on a database."""

    def __init__(self, folder: Path, url: str, crm: str = CRM) -> None:
        self._folder, self._printed = folder, folder / "printed"
        self._environment = clean_environment() | {"DATABASE_URL": url, "PYTHONUNBUFFERED": "1"}
        for name, text in (FILES | {"crm.py": crm}).items():
            (folder / name).write_text(text)

    def create_cursors(self) -> None:
        """Create the table of cursors as the page does."""
        command = read_blocks(PAGE, "sh")[0].replace("python", sys.executable, 1)
        run(command, shell=True, check=True, cwd=self._folder, env=self._environment)

    @contextmanager
    def running(self) -> Iterator[Popen[bytes]]:
        """Run the consumer during the block, and kill it."""
        with (
            self._printed.open("ab") as printed,
            Popen(
                [sys.executable, "consumer.py"],
                stdout=printed,
                stderr=STDOUT,
                cwd=self._folder,
                env=self._environment,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def run(self, file: str) -> None:
        """Run another file of the page."""
        run([sys.executable, file], check=True, cwd=self._folder, env=self._environment)

    @property
    def received(self) -> list[str]:
        """The changes that it has passed to the CRM: the cursor and the address of each."""
        file = self._folder / "received"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def printed(self) -> str:
        return self._printed.read_text()


@pytest.fixture
def consumer(database_url: str, tmp_path: Path) -> Consumer:
    return Consumer(tmp_path, sqlalchemy_url(database_url))


def sqlalchemy_url(url: str) -> str:
    with opened(url) as engine:
        return engine.url.render_as_string(hide_password=False)


@pytest.fixture
def store(database_url: str) -> Iterator[SQLStore]:
    with closing(SQLStore(database_url)) as store:
        yield store


def test_a_consumer_that_is_killed_misses_nothing(
    database_url: str, consumer: Consumer, store: SQLStore
) -> None:
    """It receives each change at least once, while others commit in any order.

    An entry that is recorded again gets another number, so the number of each entry at the end is
    that of its last change.
    """
    consumer.create_cursors()

    def receives_more_than(number: int) -> bool:
        return len(consumer.received) > number

    with writers(database_url):
        for _ in range(4):
            with consumer.running():
                eventually(partial(receives_more_than, len(consumer.received)))
    with consumer.running():
        eventually(lambda: not store.changes(last_cursor(consumer.received)))
        changes = all_changes(store)
        expected = {f"{cursor} {email}" for cursor, email in changes}
        eventually(lambda: expected <= {*consumer.received})
    assert len(changes) > 30


def test_a_kill_between_the_work_and_the_cursor(
    database_url: str, tmp_path: Path, store: SQLStore
) -> None:
    """The changes are received again, and the cursor is saved after them."""
    emails = [f"{name}@example.com" for name in ("first", "second", "last")]
    for email in emails:
        record(store, {email: RECORDED}, lambda: None)
    consumer = Consumer(tmp_path, sqlalchemy_url(database_url), KILLED)
    consumer.create_cursors()
    with consumer.running() as process:
        assert process.wait(PATIENCE) == -SIGKILL
    received = [f"{cursor} {email}" for cursor, email in all_changes(store)]
    assert consumer.received == received
    assert positions(database_url) == []
    with consumer.running():
        eventually(lambda: positions(database_url) == [last_cursor(received)])
    assert consumer.received == received * 2


def test_an_error_of_the_database(database_url: str, consumer: Consumer, store: SQLStore) -> None:
    """Here it is that of a table which does not exist yet."""
    record(store, {ADA: RECORDED}, lambda: None)
    with consumer.running():
        eventually(lambda: "Trying again: " in consumer.printed)
        consumer.create_cursors()
        eventually(lambda: len(positions(database_url)) == 1)
    assert consumer.received == [f"{cursor} {email}" for cursor, email in all_changes(store)]


def test_a_database_that_is_locked(sqlite_url: str, tmp_path: Path) -> None:
    """SQLite's error does not end the loop; the changes are received again."""
    consumer = Consumer(tmp_path, f"{sqlalchemy_url(sqlite_url)}?timeout=0.1")
    consumer.create_cursors()
    with closing(SQLStore(sqlite_url)) as store:
        record(store, {ADA: RECORDED}, lambda: None)
        [(cursor, _)] = all_changes(store)
    with opened(sqlite_url) as engine, consumer.running():
        with engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            eventually(lambda: "database is locked" in consumer.printed)
        eventually(lambda: positions(sqlite_url) == [cursor])
    assert len(consumer.received) > 1
    assert {*consumer.received} == {f"{cursor} {ADA}"}


def test_a_consumer_that_misses_changes(
    database_url: str, consumer: Consumer, store: SQLStore
) -> None:
    """It ends, until all rows have been compared; then it continues."""
    consumer.create_cursors()
    for email in (ADA, "bob@example.com"):
        record(store, {email: RECORDED}, lambda: None)
    execute_sql(database_url, "INSERT INTO hookrow_subscribers (email) VALUES ('eve@example.com')")
    assert store.prune(keep=DAY, sure=True) == 1
    with consumer.running() as process:
        assert process.wait(PATIENCE) == 1
    assert "MissingChanges: Changes from before the first cursor have been" in consumer.printed
    consumer.run("restart.py")
    assert consumer.received == ["None eve@example.com"]
    with consumer.running():
        eventually(lambda: len(consumer.received) == 2)
    assert consumer.received[1] == "2 bob@example.com"


def positions(url: str) -> list[int]:
    return [position for (position,) in execute_sql(url, "SELECT position FROM consumer_cursors")]


def last_cursor(lines: list[str]) -> int:
    return max((int(line.split()[0]) for line in lines), default=0)


def all_changes(store: SQLStore) -> list[tuple[int, str | None]]:
    return [(cursor, entry.recipient) for cursor, entry in store.changes(limit=1000)]


def test_the_values_of_a_change(hookrow_store: SQLStore) -> None:
    record(hookrow_store, {ADA: RECORDED}, lambda: None)
    [session, *_] = read_blocks(PAGE, "python")
    parsed = doctest.DocTestParser().get_doctest(session, {"store": hookrow_store}, PAGE, PAGE, 0)
    assert doctest.DocTestRunner().run(parsed).failed == 0
    assert parsed.examples


def keep_logging(**settings: object) -> None:
    """Configure nothing: a worker would set the level of the root logger for all later tests."""


setup_logging.connect(keep_logging)


def test_celery(monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> None:
    """The scheduled task enqueues a job for each change, and continues after the last one."""
    monkeypatch.setenv("CELERY_BROKER_URL", "memory://")  # in place of the page's Redis
    monkeypatch.setenv("DATABASE_URL", sqlite_url)
    cursors = SimpleNamespace(**execute(FILES["cursors.py"]))
    cursors.cursors.create(cursors.engine)
    received: list[tuple[int, str]] = []
    crm = SimpleNamespace(synchronize=lambda *change: received.append(change))
    for name, module in {"crm": crm, "cursors": cursors}.items():
        monkeypatch.setitem(sys.modules, name, module)
    app = execute(FILES["tasks.py"])["app"]
    [scheduled] = app.conf.beat_schedule.values()
    emails = ["a@example.com", "b@example.com"]
    with (
        closing(SQLStore(sqlite_url)) as store,
        start_worker(app, pool="solo", perform_ping_check=False),
    ):
        for email in emails:
            record(store, {email: RECORDED}, lambda: None)
            app.send_task(scheduled["task"])
            eventually(lambda: len(received) == len(store.changes()))
    cursors.engine.dispose()
    assert received == [*enumerate(emails, 1)]
