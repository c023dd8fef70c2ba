"""Sockets that a process inherits: which are served, and which are refused."""

import os
import socket
from collections.abc import Callable
from contextlib import closing

import pytest

from hookrow._server.inherited import FIRST_FROM_SYSTEMD, choose_descriptor, inherit
from hookrow.errors import ConfigurationError


def test_a_listening_socket() -> None:
    """Its address is known, and programs that the server runs do not inherit it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        listener.set_inheritable(True)
        with inherit(listener.detach()) as inherited:
            assert inherited.getsockname() == address
            assert not inherited.get_inheritable()


@pytest.mark.parametrize(
    ("family", "kind", "fault"),
    [
        (socket.AF_INET, socket.SOCK_STREAM, "does not listen: call listen"),
        (socket.AF_INET, socket.SOCK_DGRAM, "is not a TCP socket: in a .socket unit"),
        (socket.AF_UNIX, socket.SOCK_STREAM, "is not a TCP socket: use one with an IP address"),
    ],
)
def test_another_socket(family: int, kind: int, fault: str) -> None:
    """The error names the remedy, and the socket stays open."""
    with socket.socket(family, kind) as other:
        with pytest.raises(ConfigurationError, match=fault):
            inherit(other.fileno())
        assert other.getsockname() is not None


def test_a_file() -> None:
    """A descriptor of something else is refused."""
    with (
        closing(os.fdopen(os.open(os.devnull, os.O_RDONLY))) as file,
        pytest.raises(ConfigurationError, match=r"is not a socket: Socket operation on non-socket"),
    ):
        inherit(file.fileno())


@pytest.mark.parametrize(
    ("process", "number", "descriptor"),
    [
        (os.getpid, "1", FIRST_FROM_SYSTEMD),
        (os.getpid, "01", FIRST_FROM_SYSTEMD),
        (os.getpid, "0", None),
        (os.getppid, "1", None),
        (str, "", None),
    ],
    ids=["this process", "another form", "no socket", "another process", "empty"],
)
def test_systemd(
    process: Callable[[], object],
    number: str,
    descriptor: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A socket is used if it is for this process; the variables are deleted in any case."""
    pass_sockets(monkeypatch, process(), number)
    chosen = choose_descriptor(None)
    assert (chosen.descriptor if chosen else None) == descriptor
    assert [name for name in os.environ if name.startswith("LISTEN_")] == []


@pytest.mark.parametrize(
    ("number", "fault"),
    [
        ("2", "systemd has passed 2 sockets"),
        ("abc", "LISTEN_FDS is 'abc', not a number of sockets"),
    ],
)
def test_another_number_of_sockets(
    number: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of several sockets would be served in silence; an option chooses one of them."""
    pass_sockets(monkeypatch, os.getpid(), number)
    with pytest.raises(ConfigurationError, match=fault):
        choose_descriptor(None)
    pass_sockets(monkeypatch, os.getpid(), number)
    assert choose_descriptor(4) == (4, "--fd names a socket")
    assert [name for name in os.environ if name.startswith("LISTEN_")] == []


def pass_sockets(monkeypatch: pytest.MonkeyPatch, process: object, number: str) -> None:
    """Set the variables of systemd."""
    monkeypatch.setenv("LISTEN_PID", str(process))
    monkeypatch.setenv("LISTEN_FDS", number)
    monkeypatch.setenv("LISTEN_FDNAMES", "hookrow.socket")
