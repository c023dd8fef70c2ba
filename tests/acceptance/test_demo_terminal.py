"""`hookrow demo` in a terminal: it runs until it is stopped."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from command import HOOKROW, Command, Terminal
from wire import PATIENCE, eventually, get


def shows(terminal: Terminal, text: str) -> None:
    """Wait until the output contains a text."""
    eventually(lambda: text in terminal.printed.replace("\r\n", "\n"), seconds=4 * PATIENCE)


@contextmanager
def demo(folder: Path, number: signal.Signals) -> Iterator[Terminal]:
    """Run the demo, and stop it with a signal after the block; it leaves no files."""
    command = Command(folder)
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
            yield terminal
            process.send_signal(number)
            # Python ends with 120 if it cannot write what is left to a closed terminal.
            expected = {0, 120} if number is signal.SIGHUP else {0}
            assert process.wait(PATIENCE) in expected
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)
        assert not re.search("Traceback|Warning", terminal.printed)
    assert [path for path in folder.rglob("*") if path != command.temporary] == []


def test_own_notifications(tmp_path: Path) -> None:
    """It serves the dashboard, and records the user's own notifications."""
    with demo(tmp_path, signal.SIGTERM) as terminal:
        shows(terminal, "Press Ctrl-C to stop.")
        printed = terminal.printed.replace("\r\n", "\n")
        page = re.search(r"http://127.0.0.1:(\d+)(/dashboard/)\n  user hookrow, (.*)\n", printed)
        assert page
        assert get(int(page[1]), page[2]).status == 401
        assert page[3].startswith("password ")
        typed = re.search(r"^  (\S*hookrow simulate (?:.*\\\n)*.*)$", printed, re.MULTILINE)
        assert typed
        path = f"{HOOKROW.parent}:{os.environ['PATH']}"
        posted = Command(tmp_path).execute("sh", "-c", typed[1], PATH=path)
        assert (posted.returncode, posted.stdout) == (0, "200\n")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The server at", signal.SIGTERM),  # it may not listen yet
        ("Open by ada", signal.SIGINT),
        ("Press Ctrl-C to stop.", signal.SIGHUP),
    ],
)
def test_stop(tmp_path: Path, text: str, number: signal.Signals) -> None:
    """Ctrl-C stops it at any moment, and so does closing the terminal."""
    with demo(tmp_path, number) as terminal:
        shows(terminal, text)
        if number is signal.SIGHUP:  # close the terminal, so that writing fails
            with Path(os.devnull).open() as nothing:
                os.dup2(nothing.fileno(), terminal._reader)
