"""Removes from Python what it lacks on Windows, as far as that is possible on another system.

The first arguments are `native`, which removes nothing, or `windows`, and the file to run. It
proves that hookrow needs nothing of what is removed. It does not prove how the rest behaves on
Windows: paths, the locks of files and the event loop are those of the system that runs it.
"""

import asyncio
import os
import runpy
import signal
import socket
import ssl
import sys
from functools import partial
from importlib import import_module

MODULES = [
    "fcntl",
    "grp",
    "posix",
    "pty",
    "pwd",
    "readline",
    "resource",
    "syslog",
    "termios",
    "tty",
]
MODULES += ["uvloop"]

NAMES = {
    os: """chown chroot fchmod fchown fork forkpty getegid geteuid getgid getloadavg getuid killpg
    lchown mkfifo nice openpty pread pwrite register_at_fork setsid setuid sync uname wait wait4""",
    signal: """SIGALRM SIGCHLD SIGHUP SIGKILL SIGPIPE SIGQUIT SIGUSR1 SIGUSR2 SIG_BLOCK SIG_SETMASK
    SIG_UNBLOCK alarm pthread_kill pthread_sigmask setitimer sigpending sigtimedwait sigwait""",
    socket: "AF_UNIX recv_fds send_fds SO_REUSEPORT",
}
"""https://docs.python.org/3/library/ states the availability of each of them."""

LIBRARIES = """asyncio click._termui_impl concurrent.futures cryptography ctypes
django.contrib.admin fastapi flask jinja2 msgspec multiprocessing opentelemetry.trace
prometheus_client psycopg pymysql pytest sqlalchemy tempfile urllib.request"""
"""Imported before anything is removed: each of them has code of its own for Windows."""


def remove() -> None:
    """Remove it, and let hookrow's own code take this system for Windows."""
    for library in LIBRARIES.split():
        import_module(library)
    asyncio.new_event_loop().close()  # of this system
    vars(ssl)["enum_certificates"] = lambda _: []  # exists only on Windows
    socket.socketpair = partial(socket.socketpair, socket.AF_UNIX)  # for the event loop of asyncio
    for module in MODULES:
        sys.modules[module] = None  # type: ignore[assignment] # the documented way to block an import
    for owner, names in NAMES.items():
        for name in names.split():
            vars(owner).pop(name, None)
    sys.platform = "win32"


if __name__ == "__main__":
    system, script, *sys.argv[1:] = sys.argv[1:]
    if system == "windows":
        remove()
    runpy.run_path(script, run_name="__main__")
