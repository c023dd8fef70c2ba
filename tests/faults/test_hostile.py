"""Hostile clients: while they are at it, others are answered and the memory stays bounded.

The 16 clients of the load stand for the others. What is dropped is logged a few times.
"""

from __future__ import annotations

import json
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread

import psycopg
import pytest
from traffic import CLIENTS, NEW_YEAR, Load, report, spooled

from command import Command, Serving
from hookrow import testing
from postgres import Server
from wire import SECRET, Connection, ask, chunk, eventually, head, request

MIB = 1024 * 1024

IN_TIME = 5.0
"""In seconds; how soon others are answered."""

MOST, MOST_MORE = 400, 100
"""In MiB; how much memory the server may have, and how much more than before."""

LINES = 40
"""How many lines a server may log: a few at the start and the end, and one each 10 s of a kind."""


@pytest.fixture
def many_files() -> Iterator[None]:
    """Allow this process as many open files as it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip(f"only {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def besieged(url: str, folder: Path) -> Iterator[Serving]:
    """Run a server under load; fail where others wait, it grows, or it talks too much."""
    load = Load(url, pause=0.02)
    with Command(folder).serving("--database-url", url) as serving, load.on(serving.port):
        time.sleep(1)
        before = _memory(serving)
        yield serving
        after = _memory(serving)
    lines = len(serving.log.splitlines())
    report(f"{load.told()}; {before} to {after} MiB; {lines} lines logged")
    assert set(load.statuses()) == {200}, load.told()
    assert load.slowest < IN_TIME, load.told()
    assert load.lost() == []
    assert after < MOST
    assert after - before < MOST_MORE
    assert lines < LINES, serving.log[-2000:]


def _memory(serving: Serving) -> int:
    """Return the most memory that the process had so far, in MiB."""
    status = Path(f"/proc/{serving._process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


@contextmanager
def _at_it(*clients: Callable[[Event], object]) -> Iterator[Event]:
    """Run hostile clients, each in a thread, until the block ends."""
    over = Event()
    threads = [Thread(target=client, args=(over,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    yield over
    over.set()
    for thread in threads:
        thread.join()


@pytest.mark.usefixtures("many_files")
def test_two_thousand_idle_connections(postgres_url: str, tmp_path: Path) -> None:
    """Connections that say nothing hold nobody up."""
    with besieged(postgres_url, tmp_path) as serving, ExitStack() as stack:
        for _ in range(2000):
            stack.enter_context(Connection(serving.port))
        time.sleep(3)


@pytest.mark.slow
@pytest.mark.usefixtures("many_files")
def test_bodies_sent_a_byte_a_second(postgres_url: str, tmp_path: Path) -> None:
    """200 bodies that never end are answered 408 after 15 seconds, and hold nobody up."""
    with besieged(postgres_url, tmp_path) as serving, ExitStack() as stack:
        slow = [stack.enter_context(Connection(serving.port)) for _ in range(200)]
        for connection in slow:
            connection.send(head(length=1000))
        for _ in range(17):
            time.sleep(1)
            for connection in slow:
                with suppress(OSError):  # it is answered and closed
                    connection.send(b"{")
        statuses = [connection.answer().status for connection in slow]
        assert statuses == [408] * 200


def test_endless_bodies(postgres_url: str, tmp_path: Path) -> None:
    """20 clients send chunks without end, and come back each time that they are cut off."""
    part = chunk(b"x" * 65536)

    def endless(over: Event) -> None:
        while not over.is_set():
            with suppress(OSError), Connection(serving.port) as connection:
                begun.append(connection)
                connection.send(head(extra=[b"Transfer-Encoding: chunked"]))
                while not over.is_set():
                    connection.send(part)
                    sent.append(len(part))

    sent: list[int] = []
    begun: list[Connection] = []
    with besieged(postgres_url, tmp_path) as serving, _at_it(*[endless] * 20):
        time.sleep(6)
    report(f"{sum(sent) // 1024**2} MiB of chunks were sent")
    assert len(begun) > 2 * 20, "they were not cut off"


@pytest.mark.slow
def test_100_000_requests_without_the_secret(postgres_url: str, tmp_path: Path) -> None:
    """16 clients guess; each guess is answered 401, and a few of them are logged."""
    pipelined = 50
    guesses = head(secret=SECRET.swapcase(), length=0) * pipelined
    statuses: list[int] = []

    def guess(_: Event) -> None:
        with Connection(serving.port) as connection:
            for _turn in range(100_000 // CLIENTS // pipelined):
                connection.send(guesses)
                statuses.extend(connection.answer().status for _guess in range(pipelined))

    with besieged(postgres_url, tmp_path) as serving, _at_it(*[guess] * CLIENTS):
        pass
    assert Counter(statuses) == {401: 100_000}


@pytest.mark.slow
def test_large_bodies_while_the_log_is_locked(
    postgres_url: str, postgres: Server, tmp_path: Path
) -> None:
    """160 bodies of 1 MiB are all in the log in the end, in less than 300 MiB of memory.

    They are control characters, no UTF-8, or NUL with an emoji, all of which grow when they are
    escaped or decoded, or deliveries to somebody unknown.
    """
    bodies = [
        json.dumps({"Tag": number}).encode().ljust(MIB, padding)
        for number in range(40)
        for padding in (b"\x01", b"\xff", b"\0")
    ]
    bodies[2::3] = [body[:-4] + "\U0001f4eb".encode() for body in bodies[2::3]]
    for number in range(40):
        delivery = testing.delivery("eve@example.com", f"m{number}", at=NEW_YEAR)
        bodies.append(json.dumps({**delivery, "Details": "\u20ac" * (MIB // 6 - 100)}).encode())
    waiting: SimpleQueue[bytes] = SimpleQueue()
    for body in bodies:
        waiting.put(body)
    answered: Counter[int] = Counter()

    def post() -> None:
        """Post as the provider does: what is answered 503 is posted again later."""
        while not waiting.empty():
            body = waiting.get()
            answer = ask(serving.port, request(body))
            answered[answer.status] += 1
            if answer.status == 503:
                waiting.put(body)
                time.sleep(1)

    spool = tmp_path / "spool.db"
    arguments = ("--database-url", postgres_url, "--spool", spool)
    with Command(tmp_path).serving(*arguments) as serving:
        clients = [Thread(target=post, daemon=True) for _ in range(64)]
        with psycopg.connect(postgres_url) as host:
            host.execute("LOCK TABLE hookrow_notifications")
            for client in clients:
                client.start()
            time.sleep(8)
        for client in clients:
            client.join(120)
        eventually(lambda: spooled(spool) == 0, seconds=120)
        memory = _memory(serving)
    [(count,)] = postgres.execute("SELECT count(*) FROM hookrow_notifications", url=postgres_url)
    report(f"{dict(answered)}; {count} recorded; {memory} MiB")
    assert set(answered) == {404, 422, 503}
    assert count == len(bodies)
    assert memory < 300
