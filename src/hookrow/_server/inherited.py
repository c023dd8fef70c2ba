"""A listening socket that the process inherits, such as from systemd.

Whoever created the socket keeps it open while the server restarts. Meanwhile, connections wait in
the kernel's queue, from which the next process accepts them.
"""

from __future__ import annotations

import os
import socket
from typing import NamedTuple

from hookrow.errors import ConfigurationError

FIRST_FROM_SYSTEMD = 3
"""The descriptor of the first socket that systemd passes; the others follow it."""

LARGEST_DESCRIPTOR = 2**31 - 1
"""The largest number of a file descriptor, an `int` in C."""

_SYSTEMD_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


class Inherited(NamedTuple):
    """The descriptor of a socket that the process inherits, and how it was passed, as a clause."""

    descriptor: int
    origin: str


def choose_descriptor(option: int | None) -> Inherited | None:
    """Return the descriptor of the option `--fd`, or else that of systemd's socket, if any.

    systemd's variables are deleted, so that no child process uses them: sd_listen_fds(3),
    https://www.freedesktop.org/software/systemd/man/latest/sd_listen_fds.html

    Raises `ConfigurationError` if there is no option, and systemd has passed several sockets.
    """
    process, sockets, _ = [os.environ.pop(name, "") for name in _SYSTEMD_VARIABLES]
    if option is not None:
        return Inherited(option, "--fd names a socket")
    # Otherwise, the sockets are for a parent process that has not deleted its variables.
    if process != str(os.getpid()) or not sockets:
        return None
    try:
        number = int(sockets)
    except ValueError:
        raise ConfigurationError(
            f"LISTEN_FDS is {sockets!r}, not a number of sockets: correct the program that starts "
            "hookrow, or use --fd."
        ) from None
    if number > 1:
        raise ConfigurationError(
            f"systemd has passed {number} sockets, and hookrow serves one: keep one ListenStream "
            "in its .socket unit. A port without an address is for both IPv4 and IPv6."
        )
    return Inherited(FIRST_FROM_SYSTEMD, "systemd has passed a socket") if number == 1 else None


def inherit(descriptor: int) -> socket.socket:
    """Return the listening socket with this descriptor.

    Raises `ConfigurationError` if it is not one.
    """
    try:
        listener = socket.socket(fileno=descriptor)
    except OSError as error:
        raise ConfigurationError(
            f"The file descriptor {descriptor} is not a socket: {error.strerror}. Correct --fd, or "
            "how the program that starts hookrow passes the socket."
        ) from error
    if fault := _fault(listener):
        listener.detach()  # it belongs to whoever passed it
        raise ConfigurationError(f"The socket with the file descriptor {descriptor} {fault}")
    listener.set_inheritable(False)
    return listener


def _fault(listener: socket.socket) -> str | None:
    if listener.family not in {socket.AF_INET, socket.AF_INET6}:
        return "is not a TCP socket: use one with an IP address and a port."
    if listener.type != socket.SOCK_STREAM:
        return "is not a TCP socket: in a .socket unit of systemd, use ListenStream."
    if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return (
            "does not listen: call listen() before you start hookrow. In a .socket unit of "
            "systemd, remove Accept=yes."
        )
    return None
