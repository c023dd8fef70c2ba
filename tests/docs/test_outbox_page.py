"""The page on the outbox: its consumers run, and miss no change while they are killed."""

import doctest
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from subprocess import Popen
from threading import Event, Thread
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest

from command import clean_environment
from engines import opened
from hookrow import EventTime, Outcome, Recorded, Refusal, SetTime, testing
from hookrow._core.log_entry import log_entries
from hookrow.stores import StoreError
from hookrow.stores.sql import SQLStore
from received import arrival
from session import execute, read_blocks, read_files
from times import NOON
from wire import ADA, eventually

PAGE = "docs/how-to/outbox.md"
FILES = read_files(PAGE)
RECORDED = Recorded([SetTime(1, EventTime.DELIVERED, NOON, guarded=False)])
OUTCOMES: Sequence[Outcome] = (RECORDED, RECORDED, Refusal.DISPATCH_NOT_FOUND.refused())

CRM = """
import os


def synchronize(cursor, email):
    file = os.open("received", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{cursor} {email}\\n".encode())
    os.close(file)
"""
"""Appends to a file in place of an HTTP request."""


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


def test_a_consumer_that_is_killed_misses_nothing(database_url: str, tmp_path: Path) -> None:
    """It receives each change at least once, while others commit in any order.

    An entry that is recorded again gets another number, so the number of each entry at the end is
    that of its last change.
    """
    for name, text in (FILES | {"crm.py": CRM}).items():
        (tmp_path / name).write_text(text)
    with opened(database_url) as engine:
        url = engine.url.render_as_string(hide_password=False)
    environment = clean_environment() | {"DATABASE_URL": url}
    file = tmp_path / "received"

    def received() -> list[str]:
        return file.read_text().splitlines() if file.exists() else []

    @contextmanager
    def consumer() -> Iterator[None]:
        with Popen([sys.executable, "consumer.py"], cwd=tmp_path, env=environment) as process:
            try:
                yield
            finally:
                process.kill()

    def receives_more_than(number: int) -> bool:
        return len(received()) > number

    with writers(database_url):
        for _ in range(4):
            with consumer():
                eventually(partial(receives_more_than, len(received())))
    with closing(SQLStore(database_url)) as store, consumer():
        eventually(lambda: not store.changes(last_cursor(received())))
        changes = all_changes(store)
        eventually(lambda: {f"{cursor} {email}" for cursor, email in changes} <= {*received()})
    assert len(changes) > 30


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


def test_celery(monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> None:
    """The periodic task enqueues a job for each change, and continues after the last one."""
    app, process = Mock(), Mock()
    app.task = lambda name, **_: lambda function: process if name == "process" else function
    monkeypatch.setenv("DATABASE_URL", sqlite_url)
    cursors = SimpleNamespace(**execute(FILES["cursors.py"]))
    for name, module in {
        "celery": SimpleNamespace(Celery=Mock(return_value=app)),
        "crm": SimpleNamespace(**execute(FILES["crm.py"])),
        "cursors": cursors,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    tasks = execute(FILES["tasks.py"])
    with closing(SQLStore(sqlite_url)) as store:
        for email in ("a@example.com", "b@example.com"):
            record(store, {email: RECORDED}, lambda: None)
            tasks["enqueue_changes"]()
    cursors.engine.dispose()
    assert process.delay.mock_calls == [call(1, "a@example.com"), call(2, "b@example.com")]
