"""Restarts: with a listening socket that outlives the server, such as systemd's, and without."""

import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from traffic import Counted, Load, OneRequest, longest_pause

from command import HOOKROW, Command, Serving, started
from nginx import installed
from wire import ENDPOINT, SECRET, STRANGER, Connection, ask, free_port, request

pytestmark = pytest.mark.never_flaky

RESTARTS = 10

RESETS = 5
"""How many connections may be reset in all restarts: those that are made between the last one that
the server accepts and the end of its listening socket."""


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


@pytest.mark.parametrize(("kind", "workers"), [(Connection, 1), (OneRequest, 2)])
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
    pause = longest_pause(each for client in load.clients for each in client.attempts)
    print(f"{RESTARTS} restarts, {kind.__name__}, {workers} workers: {load}")
    print(f"longest pause: {pause:.1f} s")
    assert connect.failed == 0
    load.check(200)
    assert load.miscounted() == []


@pytest.mark.parametrize("workers", [1, 2])
def test_restarts_without_such_a_socket(workers: int, command: Command, sqlite_url: str) -> None:
    """Connections are refused during a restart, but hardly one that was accepted is reset."""
    port, connect = free_port(), Counted(OneRequest)
    load = Load(sqlite_url)
    with ExitStack() as last, load.on(port, connect=connect):
        for _ in range(RESTARTS):
            with command.serving("--workers", workers, HOOKROW_PORT=str(port)) as server:
                load.wait_for(300, 200)
                server.stop()
                assert server.ended() == 0
        last.enter_context(command.serving(HOOKROW_PORT=str(port)))
        load.wait_for(100, 200)
    resets = load.statuses()[None]
    print(f"{RESTARTS} restarts, {workers} workers: {load}")
    print(f"refused: {connect.failed}; reset: {resets}")
    assert connect.failed > 0
    assert resets <= RESETS
    load.check(200, None)


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
