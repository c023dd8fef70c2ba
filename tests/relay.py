"""Hosts on the loopback interface, in front of a server that listens only on a Unix socket."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread


class Relay:
    """A port that forwards connections to a Unix socket, each in two threads."""

    port: int

    connections: int
    """How many connections there have been."""

    def __init__(self, path: Path, address: str = "127.0.0.1") -> None:
        self._path = path
        self._opened: list[socket.socket] = []
        self._listening = socket.create_server((address, 0))
        self.port, self.connections = self._listening.getsockname()[1], 0
        self._accepting = _start(self._accept)

    def close(self) -> None:
        """End all connections, and refuse new ones."""
        _shut_down(self._listening)
        self._accepting.join()
        self._listening.close()
        for each in self._opened:
            _shut_down(each)

    def _accept(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                client, _ = self._listening.accept()
                self.connections += 1
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._path))
                self._opened += [client, server]
                _start(_forward, client, server)
                _start(_forward, server, client)


@contextmanager
def relays(*paths: Path) -> Iterator[list[Relay]]:
    """Open a relay to each path, and close them at the end of the block."""
    opened = [Relay(path) for path in paths]
    yield opened
    for each in opened:
        each.close()


@contextmanager
def silent_port() -> Iterator[socket.socket]:
    """Listen on a port from which no data comes: only the system accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def closed_port() -> int:
    """Return a port that refuses connections."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def _start(work: Callable[..., object], *arguments: object) -> Thread:
    thread = Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


def _forward(source: socket.socket, target: socket.socket) -> None:
    with source, suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    _shut_down(target)


def _shut_down(opened: socket.socket) -> None:
    with suppress(OSError):  # it is closed already
        opened.shutdown(socket.SHUT_RDWR)
