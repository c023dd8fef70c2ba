"""Hostile clients: the other 16 clients get responses; memory and the log stay bounded."""

import json
import resource
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector, SelectorKey
from threading import Event, Thread

import psycopg
import pytest
from traffic import NEW_YEAR, Load, spooled

from command import Command, Serving, patched
from hookrow import testing
from hookrow._migrations import sql
from postgres import Databases
from wire import PATIENCE, SECRET, Connection, ask, chunk, eventually, head, request

MIB = 1024 * 1024

RESPONSE_LIMIT = 5.0
"""In seconds; the time limit for responses to the other clients."""

MEMORY_LIMIT, GROWTH_LIMIT = 300, 100
"""In MiB; the limits of the server's memory and of its growth."""

LINE_LIMIT = 40
"""The maximum number of log lines: each message is logged once in 10 s."""

GUESSES = 8_000

BUFFER = 4096
"""In bytes; the buffers of sockets for responses. By default, they hold megabytes."""

# The limit for bodies and for unread responses is 3 seconds instead of 15, and buffers are small.
SMALL_LIMITS = f"""
import socket
import hookrow._http
import hookrow._server.limits
import hookrow._server.run
hookrow._http.BODY_TIMEOUT = hookrow._server.limits.CLIENT_TIMEOUT = 3.0

bind = hookrow._server.run._bind

def bind_with_small_buffers(*address):
    listener = bind(*address)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, {BUFFER})
    return listener

hookrow._server.run._bind = bind_with_small_buffers
"""


@pytest.fixture(scope="module")
def many_files() -> Iterator[None]:
    """Raise this process's limit of open files to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip(f"only {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Service:
    """A server on PostgreSQL for several attacks, one after the other."""

    def __init__(self, url: str, serving: Serving) -> None:
        self._url = url
        self._serving = serving
        self._numbers = count(1, 1000)
        self.port = serving.port

    @contextmanager
    def under_attack(self, *, growth: int = GROWTH_LIMIT) -> Iterator[None]:
        """Put the server under load; check the responses, the server's memory and its log.

        `growth` is in MiB.
        """
        load = Load(self._url, first=next(self._numbers), pause=0.02)
        Path(f"/proc/{self._serving.pid}/clear_refs").write_text("5")  # proc(5): resets the peak
        before, logged = _peak(self._serving), len(self._serving.log)
        with load.on(self.port):
            load.wait_for(100, 200)
            yield
            load.wait_for(100, 200)
        after, lines = _peak(self._serving), self._serving.log[logged:].splitlines()
        print(f"{load}; {before} to {after} MiB; {len(lines)} log lines")
        load.check(200)
        assert load.slowest < RESPONSE_LIMIT, str(load)
        assert after < MEMORY_LIMIT
        assert after - before < growth
        assert len(lines) < LINE_LIMIT, lines[-20:]


@pytest.fixture(scope="module")
def service(postgres: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Run the server."""
    url, folder = postgres.create(), tmp_path_factory.mktemp("service")
    postgres.execute(sql("postgresql"), url=url)
    with patched(folder, SMALL_LIMITS).serving("--database-url", url) as serving:
        yield Service(url, serving)


def _peak(serving: Serving) -> int:
    """Return the peak of the process's memory, in MiB."""
    status = Path(f"/proc/{serving.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


@pytest.mark.usefixtures("many_files")
def test_idle_connections_and_slow_bodies(service: Service) -> None:
    """Besides 2,000 idle connections, 200 bodies never end, and get a 408."""
    with service.under_attack(), ExitStack() as stack:
        for _ in range(2000):
            stack.enter_context(Connection(service.port))
        slow = [stack.enter_context(Connection(service.port)) for _ in range(200)]
        for connection in slow:
            connection.send(head(length=1000))
        for _ in range(8):
            time.sleep(0.5)
            for connection in slow:
                with suppress(OSError):  # it has its response and is closed
                    connection.send(b"{")
        assert [connection.answer().status for connection in slow] == [408] * 200


def _attack(service: Service, begin: bytes, part: bytes) -> None:
    """Connect 60 times, 20 at a time; send endless data, and read nothing, until disconnected.

    Raises `TimeoutError` if the server neither reads nor disconnects.
    """

    def send(_: int) -> None:
        with socket.socket() as client:
            client.settimeout(PATIENCE)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
            client.connect(("127.0.0.1", service.port))
            with suppress(ConnectionError):
                client.sendall(begin)
                while True:
                    client.sendall(part)

    with service.under_attack(), ThreadPoolExecutor(20) as threads:
        disconnected = [*threads.map(send, range(60))]
    print(f"{len(disconnected)} connections were closed")


def test_endless_bodies(service: Service) -> None:
    """Clients that send endless chunked bodies are disconnected."""
    begin = head(extra=[b"Transfer-Encoding: chunked"])
    _attack(service, begin, chunk(b"x" * 65536))


def test_unread_responses(service: Service) -> None:
    """Clients that pipeline requests, and read no response, are disconnected."""
    _attack(service, b"", head("/", method="GET") * 100)


def test_requests_without_the_secret(service: Service) -> None:
    """16 clients guess the secret; each guess gets a 401, and a few of them are logged."""
    pipelined = 50
    guesses = head(secret=SECRET.swapcase(), length=0) * pipelined

    def guess(_: int) -> list[int]:
        with Connection(service.port) as connection:
            statuses = []
            for _turn in range(GUESSES // 16 // pipelined):
                connection.send(guesses)
                statuses += [connection.answer().status for _guess in range(pipelined)]
            return statuses

    with service.under_attack(), ThreadPoolExecutor(16) as threads:
        answers = [status for each in threads.map(guess, range(16)) for status in each]
    assert answers == [401] * GUESSES


class Flood:
    """Connections that all send the same data, as fast as the server reads it, and read nothing.

    One that the server closes is replaced, unless it is idle. With `again`, a connection repeats
    its data.
    """

    def __init__(self, port: int, data: bytes, number: int, *, again: bool = False) -> None:
        self._address = "127.0.0.1", port
        self._data = data
        self._number = number
        self._again = again
        self._over = Event()
        self._thread = Thread(target=self._run)
        self.connections = 0

    def __enter__(self) -> None:
        self._thread.start()
        eventually(lambda: self.connections >= self._number)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        with DefaultSelector() as selector:
            for _ in range(self._number):
                self._connect(selector)
            while not self._over.is_set():
                for key, _ in selector.select(0.1):
                    self._send(selector, key)
            for key in [*selector.get_map().values()]:
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()

    def _connect(self, selector: DefaultSelector) -> None:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        client.settimeout(0)
        client.connect_ex(self._address)
        selector.register(client, EVENT_WRITE, memoryview(self._data))
        self.connections += 1

    def _send(self, selector: DefaultSelector, key: SelectorKey) -> None:
        client, rest = key.fileobj, key.data
        assert isinstance(client, socket.socket)
        try:
            if key.events == EVENT_WRITE:
                rest = rest[client.send(rest) :]
            elif not client.recv(BUFFER):
                raise ConnectionResetError
        except OSError:
            selector.unregister(client)
            client.close()
            if self._data:
                self._connect(selector)
            return
        if self._again:
            rest = rest or memoryview(self._data)
        selector.modify(client, EVENT_WRITE if rest else EVENT_READ, rest)


def _connect_for(seconds: float, port: int) -> None:
    """Send a notification on a new connection, again and again; check the time of each response."""
    slowest, over = 0.0, time.monotonic() + seconds
    while time.monotonic() < over:
        begun = time.monotonic()
        assert ask(port, request(b"{}")).status == 422
        slowest = max(slowest, time.monotonic() - begun)
    print(f"new connections: the slowest response after {slowest:.1f} s")
    assert slowest < RESPONSE_LIMIT


@pytest.mark.usefixtures("many_files")
@pytest.mark.parametrize("end", [b"\r\n", b""], ids=["complete", "incomplete"])
def test_heads_with_many_headers(service: Service, end: bytes) -> None:
    """2,000 connections send heads of 12,000 tiny headers."""
    data = head(secret=None)[:-2] + b"a:\r\n" * 12_000 + end
    with service.under_attack(), Flood(service.port, data, 2000):
        _connect_for(3, service.port)


@pytest.mark.usefixtures("many_files")
@pytest.mark.parametrize(
    "data", [head("/", method="GET"), head(secret=None, length=0)], ids=["GET", "POST"]
)
def test_pipelined_requests_from_many_connections(service: Service, data: bytes) -> None:
    """2,000 connections pipeline requests without the secret, and read no response."""
    with service.under_attack(growth=200), Flood(service.port, data * 1000, 2000, again=True):
        _connect_for(10, service.port)


@pytest.mark.usefixtures("many_files")
def test_idle_connections_and_half_of_a_body(service: Service) -> None:
    """Besides 1,500 idle connections, 1,500 with the secret have sent half of a large body."""
    half = head(length=MIB) + b"x" * (MIB // 2)
    idle, sending = Flood(service.port, b"", 1500), Flood(service.port, half, 1500)
    with service.under_attack(growth=200), idle, sending:
        _connect_for(10, service.port)


@pytest.mark.usefixtures("many_files")
def test_more_connections_than_the_limit(service: Service) -> None:
    """10,000 idle connections: the oldest are closed, and those of the other clients stay open."""
    with service.under_attack(), ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(Flood(service.port, b"", 2000))
        _connect_for(3, service.port)


def _large_bodies() -> Iterator[bytes]:
    """Yield 64 bodies of 1 MiB.

    They consist of control characters, invalid UTF-8, or NUL with an emoji, all of which grow when
    they are escaped or decoded; others are deliveries to an unknown subscriber.
    """
    for number in range(16):
        begun = json.dumps({"Tag": number}).encode()
        yield begun.ljust(MIB, b"\x01")
        yield begun.ljust(MIB, b"\xff")
        yield begun.ljust(MIB - 4, b"\0") + "\N{OPEN MAILBOX WITH RAISED FLAG}".encode()
        delivery = testing.delivery("eve@example.com", f"m{number}", at=NEW_YEAR)
        yield json.dumps({**delivery, "Details": "\N{EURO SIGN}" * (MIB // 6 - 100)}).encode()


@pytest.mark.never_flaky
def test_large_bodies_while_the_log_is_locked(
    postgres_url: str, postgres: Databases, tmp_path: Path
) -> None:
    """All of them are eventually in the log, and the server uses less than 300 MiB of memory."""
    answers: Counter[int] = Counter()
    spool = tmp_path / "spool.db"

    def post(body: bytes) -> None:
        """Post as the provider does: repeat the request after a 503."""
        while (status := ask(serving.port, request(body)).status) == 503:
            answers[status] += 1
            time.sleep(2)
        answers[status] += 1

    arguments = ("--database-url", postgres_url, "--spool", spool)
    with Command(tmp_path).serving(*arguments) as serving, ThreadPoolExecutor(64) as clients:
        with psycopg.connect(postgres_url) as host:
            host.execute("LOCK TABLE hookrow_notifications")
            posting = clients.map(post, _large_bodies())
            eventually(lambda: answers[503] > 40, seconds=60)
        assert len(list(posting)) == 64
        eventually(lambda: spooled(spool) == 0, seconds=120)
        memory = _peak(serving)
    [(number,)] = postgres.execute("SELECT count(*) FROM hookrow_notifications", url=postgres_url)
    print(f"{dict(answers)}; {number} recorded; {memory} MiB")
    assert set(answers) == {404, 422, 503}
    assert number == 64
    assert memory < 300
