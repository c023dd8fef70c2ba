"""`hookrow demo` at a terminal: it stays until it is stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from command import HOOKROW, Command, Terminal
from wire import PATIENCE, eventually, get

pytestmark = pytest.mark.slow


@dataclass
class Demo:
    """The demo in a process of its own, at a terminal."""

    process: subprocess.Popen[bytes]
    terminal: Terminal

    @property
    def printed(self) -> str:
        """The output so far."""
        return self.terminal.printed.replace("\r\n", "\n")

    def shows(self, text: str) -> None:
        """Wait until the output contains a text."""
        eventually(lambda: text in self.printed, seconds=4 * PATIENCE)

    def stop(self, number: signal.Signals) -> None:
        """Send a signal, and wait for the end; there is no traceback."""
        self.process.send_signal(number)
        # Python ends with 120 if it cannot write what is left to a closed terminal.
        assert self.process.wait(PATIENCE) in ({0, 120} if number is signal.SIGHUP else {0})
        assert "Traceback" not in self.printed


@contextmanager
def running(folder: Path) -> Iterator[Demo]:
    """Run the demo; it leaves no files."""
    command = Command(folder, measured=True)
    with Terminal() as terminal:
        process = subprocess.Popen(
            [HOOKROW, "demo"],
            cwd=folder,
            env=command.environment({}),
            stdin=terminal.writer,
            stdout=terminal.writer,
            stderr=terminal.writer,
            start_new_session=True,
        )
        try:
            yield Demo(process, terminal)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)
    assert [path for path in folder.rglob("*") if path != command.temporary] == []


def test_own_notifications(tmp_path: Path) -> None:
    """It serves the dashboard, and shows what own notifications change."""
    with running(tmp_path) as demo:
        demo.shows("Ctrl-C stops.")
        page = re.search(r"http://127.0.0.1:(\d+)(/dashboard/)(\?token=\S+)", demo.printed)
        assert page
        assert get(int(page[1]), page[2]).status == 401
        assert get(int(page[1]), page[2] + page[3]).status == 303
        typed = re.search(r"^  (hookrow simulate (?:.*\\\n)*.*)$", demo.printed, re.MULTILINE)
        assert typed
        for kind, change in (
            ("open", "  dispatch 4: opened_at 2"),
            ("suppression", "  subscriber 4: suppressed, HardBounce"),
        ):
            assert change not in demo.printed
            posted = Command(tmp_path).execute(
                *("sh", "-c", typed[1].replace(" open ", f" {kind} ")),
                PATH=f"{HOOKROW.parent}:{os.environ['PATH']}",
            )
            assert (posted.returncode, posted.stdout) == (0, "200\n")
            demo.shows(change)
        demo.stop(signal.SIGTERM)


@pytest.mark.parametrize(
    ("text", "number"),
    [("Open by ada@example.com", signal.SIGINT), ("Ctrl-C stops.", signal.SIGHUP)],
)
def test_stop(tmp_path: Path, text: str, number: signal.Signals) -> None:
    """Ctrl-C stops it, also before it is through, and so does a closed window."""
    with running(tmp_path) as demo:
        demo.shows(text)
        if number is signal.SIGHUP:
            # Close the terminal, so that writing fails.
            with Path(os.devnull).open() as nothing:
                os.dup2(nothing.fileno(), demo.terminal._reader)
        demo.stop(number)
