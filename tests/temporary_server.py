"""What the temporary database servers of the tests share: their user, their process, their folder.

Each server runs in a folder of its own. A separate process removes both, however the tests end.
"""

import os
import pwd
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from wire import PATIENCE, eventually, time_limit

LONGEST_FOLDER = 60
"""In bytes; the longest path of the parent of a server's folder."""

REMOVAL = 300
"""In seconds; how long the removal of a server's files may take on a busy disk."""

_WATCH = """
trap '' INT TERM
cat
pid=$(head -n 1 "$0/$1" 2>/dev/null) && kill -"$2" "$pid" && kill -CONT "$pid"
while kill -0 "$pid"; do sleep 0.05; done
rm -rf "$0"
"""
"""Cleans up when its standard input ends, and therefore however the tests end."""


def identity() -> dict[str, Any]:
    """Return the user of a server: `nobody` instead of root, as which servers do not run."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def run_program(*command: object) -> None:
    """Run a program as the server's user. Raises `RuntimeError` with its output if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        **identity(),
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.strip() or done.stdout.strip()}")


class ServerProcess:
    """The process of a server, which may be stopped and started again, and its folder.

    `pid_file` is the file in the folder whose first line is the process id, and `ending` the signal
    after which the process and its children end without saving their data.
    """

    def __init__(self, prefix: str, pid_file: str, ending: signal.Signals) -> None:
        # The path of a socket has at most 107 bytes, and pytest's own temporary folder is longer.
        near = tempfile.gettempdir() if len(tempfile.gettempdir()) < LONGEST_FOLDER else "/tmp"
        self.folder = Path(tempfile.mkdtemp(prefix=prefix, dir=near))
        self._ending = ending
        self._process: subprocess.Popen[bytes] | None = None
        self._watch = subprocess.Popen(
            ["sh", "-c", _WATCH, str(self.folder), pid_file, ending.name.removeprefix("SIG")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if user := identity():
            os.chown(self.folder, user["user"], user["group"])
            self.folder.chmod(0o755)

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def start(self, *command: object) -> None:
        """Start the server, whose output goes to a file."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **identity(),
            )

    def check(self) -> None:
        """Raise `RuntimeError` with the server's output if it has ended."""
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"the server does not start: {(self.folder / 'log').read_text()}")

    def stop(self, number: signal.Signals) -> None:
        """Send a signal that ends the server, and wait until it has ended."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)
            self._process = None

    def remove(self) -> None:
        """Stop the server, without saving its data; `_WATCH` then removes its folder."""
        try:
            self.stop(self._ending)
        finally:
            self._watch.communicate(timeout=REMOVAL)


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Stop processes during the block, but for at most `PATIENCE`."""
    _send(pids, signal.SIGSTOP)
    try:
        # A thread may go on until the system has delivered the signal.
        eventually(lambda: all(map(_is_stopped, pids)))
        with time_limit(partial(_send, pids, signal.SIGCONT)):
            yield
    finally:
        _send(pids, signal.SIGCONT)


def _is_stopped(pid: int) -> bool:
    """Return whether a process is stopped, or has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state in {"T", "Z", "X"}


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # a backend may end by itself
            os.kill(pid, number)
