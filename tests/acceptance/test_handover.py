"""A listening socket that outlives its server: `hookrow serve --fd`, and systemd's sockets."""

import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from traffic import Load

from command import HOOKROW, Command, Serving, started
from nginx import installed
from wire import ENDPOINT, SECRET, STRANGER, Connection, ask, free_port, request

pytestmark = pytest.mark.never_flaky

RESTARTS = 10


class OneRequest(Connection):
    """A connection for a single request, as many clients make one for each."""

    def send(self, data: bytes) -> None:
        """Send a request that closes the connection."""
        super().send(data.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))


class Counted:
    """Connects, and counts the connections that failed."""

    failed = 0

    def __init__(self, kind: type[Connection]) -> None:
        self._kind = kind

    def __call__(self, port: int) -> Connection:
        """Connect to a port."""
        try:
            return self._kind(port)
        except OSError:
            self.failed += 1
            raise


@pytest.fixture
def command(tmp_path: Path, sqlite_url: str) -> Command:
    """Return the command, in a folder with hookrow's tables."""
    assert sqlite_url == f"sqlite:///{tmp_path}/hookrow.db"
    return Command(tmp_path)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Return a listening socket that this process holds."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        yield listener


def _start(
    command: Command, listener: socket.socket, *options: object
) -> AbstractContextManager[Serving]:
    """Start a server on the socket; it does not listen at once."""
    descriptor = listener.fileno()
    arguments = [HOOKROW, "serve", "--fd", descriptor, *options]
    return started(
        [str(each) for each in arguments],
        command.folder,
        command.environment({"HOOKROW_SECRET": SECRET}),
        listener.getsockname()[1],
        inherited=[descriptor],
    )


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", [Connection, OneRequest])
def test_restarts(
    kind: type[Connection], workers: int, command: Command, listener: socket.socket, sqlite_url: str
) -> None:
    """In ten restarts under load, no connection fails, and every response is 200."""
    load, connect = Load(sqlite_url, pause=0.01), Counted(kind)
    with ExitStack() as last, load.on(listener.getsockname()[1], connect=connect):
        for _ in range(RESTARTS):
            with _start(command, listener, "--workers", workers) as server:
                load.wait_for(100, 200)
                server.stop()
                assert server.ended() == 0
        last.enter_context(_start(command, listener))
        load.wait_for(100, 200)
    print(f"{RESTARTS} restarts, {kind.__name__}, {workers} workers: {load}")
    assert connect.failed == 0
    load.check(200)
    assert load.miscounted() == []


def test_a_socket_from_systemd(command: Command) -> None:
    """The first connection starts the server, which responds to it, and has no variable left."""
    program = installed("systemd-socket-activate", "systemd")
    port = free_port()
    variables = {"HOOKROW_SECRET": SECRET, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    arguments = [program, f"--listen=127.0.0.1:{port}"]
    arguments += [f"--setenv={name}={value}" for name, value in variables.items()]
    arguments += [str(HOOKROW), "serve", "--workers", "2"]
    environment = command.environment({})
    with started(arguments, command.folder, environment, port) as server:
        server.wait_until_it_listens()
        assert ask(port, request(STRANGER)).status == 404
        address = f"receives notifications at http://127.0.0.1:{port}{ENDPOINT}"
        assert address in server.log
        for worker in server.workers():
            assert b"LISTEN_" not in Path(f"/proc/{worker}/environ").read_bytes()
        server.stop()
        assert server.ended() == 0
