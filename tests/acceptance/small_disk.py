"""A small disk, which only some processes of a test see, and which can be full or read-only."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nginx import installed
from wire import PATIENCE

_END = "the status is"
"""What the shell prints after each command, before its status."""


class SmallDisk:
    """A file system in memory in a folder, which only processes of `program` see.

    It exists until the shell ends that mounts it in a namespace of its own. `user` has the options
    of `Popen` for the user of all these processes.
    """

    def __init__(
        self, folder: Path, room: str = "512k", *, user: Mapping[str, Any] | None = None
    ) -> None:
        self.folder = folder
        self._room = room
        self._rest = folder / "rest"
        self._user = user or {}
        # Only root may mount without a namespace of users.
        self._is_root = os.geteuid() == 0 and not self._user
        namespaces = ["--mount"]
        if not self._is_root:
            namespaces += ["--user", "--map-current-user", "--keep-caps"]
        self._shell = subprocess.Popen(
            [installed("unshare", "util-linux"), *namespaces, "sh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **self._user,
        )

    @property
    def program(self) -> list[str]:
        """The beginning of a command that runs another one with the disk."""
        inside = ["nsenter", "--target", str(self._shell.pid), "--mount"]
        return inside if self._is_root else [*inside, "--user", "--preserve-credentials"]

    def mount(self) -> None:
        """Mount the disk; skip the test if that is not permitted."""
        try:
            self._run(f"mount -t tmpfs -o size={self._room} tmpfs {self.folder}")
        except (AssertionError, OSError) as error:
            reason = f"no small disk: {error}"
            if os.environ.get("CI"):
                pytest.fail(reason)
            pytest.skip(reason)

    def fill(self) -> None:
        """Write a file until the disk is full."""
        self._run(f"! cat /dev/zero 2>&1 >{self._rest} | grep -v 'No space left'")

    def empty(self) -> None:
        """Remove the file that fills the disk."""
        self._run(f"rm {self._rest}")

    def become(self, mode: str) -> None:
        """Let the disk be read-only ("ro") or not ("rw"). No file may be open for writing."""
        self._run(f"mount -o remount,{mode} {self.folder}")

    def run(self, *command: object) -> list[str]:
        """Run a program with the disk; return the lines that it prints."""
        done = subprocess.run(
            [*self.program, *map(str, command)],
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
            **self._user,
        )
        assert done.returncode == 0, done.stderr
        lines: list[str] = done.stdout.split("\n")
        return lines[:-1]

    def close(self) -> None:
        """End the shell. The disk is removed when the last of the other processes ends."""
        self._shell.communicate(timeout=PATIENCE)

    def _run(self, command: str) -> None:
        """Run a command in the shell, whose user may mount."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        print(f"{command}; echo {_END} $?", file=self._shell.stdin, flush=True)
        printed: list[str] = []
        for line in self._shell.stdout:
            if line.startswith(_END):
                assert line == f"{_END} 0\n", "".join(printed)
                return
            printed.append(line)
        raise AssertionError("".join(printed) or "the shell has ended")


@contextmanager
def small_disk(
    folder: Path, room: str = "512k", *, user: Mapping[str, Any] | None = None
) -> Iterator[SmallDisk]:
    """Mount a small disk in a folder until the block ends; see `SmallDisk`."""
    folder.mkdir(exist_ok=True)
    disk = SmallDisk(folder, room, user=user)
    try:
        disk.mount()
        yield disk
    finally:
        disk.close()
