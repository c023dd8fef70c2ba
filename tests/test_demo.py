"""`hookrow demo`, at a terminal and without one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from command import HOOKROW, Command
from wire import PATIENCE, eventually, free_port, get

# Without this the terminal would not be the one whose Ctrl-C the demo hears, and what a
# shell runs in the background would not hear it at all.
_AT_THIS_TERMINAL = (
    "import fcntl, os, signal, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
)


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return the command, in an empty folder."""
    return Command(tmp_path, measured=True)


class Terminal:
    """The demo, at a terminal of its own."""

    def __init__(self, command: Command, **variables: str) -> None:
        self._reader, writer = os.openpty()
        os.set_blocking(self._reader, False)
        self._printed = b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", _AT_THIS_TERMINAL, HOOKROW, "demo"],
            cwd=command.folder,
            env=command.environment(variables),
            stdin=writer,
            stdout=writer,
            stderr=writer,
            start_new_session=True,
        )
        os.close(writer)

    @property
    def printed(self) -> str:
        """What it printed so far."""
        with suppress(OSError):  # nothing new, or the end
            while data := os.read(self._reader, 65536):
                self._printed += data
        return self._printed.decode().replace("\r\n", "\n")

    def shows(self, text: str) -> None:
        """Wait until it shows the text."""
        eventually(lambda: text in self.printed)

    def press_ctrl_c(self) -> None:
        """Press Ctrl-C."""
        os.write(self._reader, b"\x03")

    def close(self) -> None:
        """Close the window."""
        os.close(self._reader)

    def ended(self) -> int:
        """Wait until it has ended; return its exit status."""
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < until:
            with suppress(OSError):
                _ = self.printed
            time.sleep(0.01)
        return self.process.wait(0)


@contextmanager
def terminal(command: Command, **variables: str) -> Iterator[Terminal]:
    """Run the demo at a terminal; end it with force where it has not ended by itself."""
    terminal = Terminal(command, **variables)
    try:
        yield terminal
    finally:
        with suppress(ProcessLookupError):
            os.killpg(terminal.process.pid, signal.SIGKILL)
        terminal.process.wait(PATIENCE)
        with suppress(OSError):
            terminal.close()


def left(command: Command) -> list[Path]:
    """Return what the demo left behind."""
    return [path for path in command.folder.rglob("*") if path != command.temporary]


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Run it once, whatever is set for hookrow or for the web; return what it printed."""
    command = Command(tmp_path_factory.mktemp("demo"), measured=True)
    done = command.run(
        *("demo", "--once"),
        HOOKROW_SECRET="short",
        HOOKROW_DATABASE_URL="postgresql://ada@127.0.0.1:1/mail",
        HOOKROW_MOUNT_PATH="/elsewhere",
        http_proxy=f"http://127.0.0.1:{free_port()}",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert left(command) == []
    return done.stdout


class TestOnce:
    @pytest.mark.parametrize(
        ("status", "text"),
        [
            (200, "  "),
            (400, "Dispatch subscriber"),
            (401, "Cannot verify webhook"),
            (404, "Engine::Subscriber not found"),
            (404, "Engine::Dispatch not found"),
            (422, "Webhook payload not supported"),
        ],
    )
    def test_answers(self, once: str, status: int, text: str) -> None:
        """Its table shows each kind of answer."""
        assert re.search(rf" {status} {text}", once)

    @pytest.mark.parametrize(
        "change",
        [
            "dispatch 1: delivered_at 2",
            "dispatch 1: opened_at 2",
            "subscriber 3: suppressed, HardBounce",
            "subscription 3: suppressed, HardBounce",
            "dispatch 3: suppressed, HardBounce",
            "subscriber 3: active",
            "subscriber 2: suppressed, SpamComplaint",
        ],
    )
    def test_changes(self, once: str, change: str) -> None:
        """Its table shows what each notification changes."""
        assert change in once

    def test_what_is_refused_changes_nothing(self, once: str) -> None:
        """Each answer but 200 stands beside "nothing", and so does what comes too late."""
        rows = once.splitlines()
        refused = [row for row in rows if re.search(r" (400|401|404|422) \w", row)]
        assert len(refused) == 6
        late = [row for row in rows if row.startswith(("the same", "the suppression again"))]
        assert len(late) == 2
        assert all(row.endswith(" nothing") for row in refused + late)

    def test_dashboard(self, once: str) -> None:
        """It prints the dashboard's address with its token, also without a terminal."""
        assert re.search(r"/dashboard/\?token=\S{43}\n", once)

    def test_summary(self, once: str) -> None:
        """A line after the table counts the answers."""
        [last] = [line for line in once.splitlines() if " notifications: " in line]
        counts = [int(number) for number in re.findall(r"(\d+) (?:notif|answered)", last)]
        assert counts[0] == sum(counts[1:])
        statuses = [int(status) for status in re.findall(r"answered (\d+)", last)]
        assert statuses == [200, 400, 401, 404, 422]

    def test_parked(self, once: str) -> None:
        """What came before its dispatch is parked, and recorded once that is saved."""
        parked = re.search(
            r"no dispatch had the id (\S+) when it came; 1 attempt; tried again\s"
            r"(.*\n)*  dispatch 5: delivered_at 2.*\n"
            r"  no dispatch had the id \1 when it came; 1 attempt; recorded \d+ m?s later\n",
            once,
        )
        assert parked

    def test_without_a_terminal(self, command: Command) -> None:
        """Where nobody could press Ctrl-C it ends by itself, without being told to."""
        done = command.run("demo")
        assert (done.returncode, done.stderr) == (0, "")
        assert "Ctrl-C" not in done.stdout


class TestStay:
    def test_dashboard(self, command: Command) -> None:
        """The address that it prints opens the dashboard; without its token it stays closed."""
        with terminal(command) as demo:
            demo.shows("Ctrl-C stops.")
            found = re.search(r"http://127.0.0.1:(\d+)(/dashboard/)(\?token=\S+)", demo.printed)
            assert found
            assert get(int(found[1]), found[2]).status == 401
            assert get(int(found[1]), found[2] + found[3]).status == 303

    def test_own_notification(self, command: Command) -> None:
        """It stays, shows what a notification of one's own changes, and ends on Ctrl-C."""
        with terminal(command) as demo:
            demo.shows("Ctrl-C stops.")
            found = re.search(r"^  (hookrow simulate (?:.*\\\n)*.*)$", demo.printed, re.MULTILINE)
            assert found
            assert "dispatch 4: opened_at" not in demo.printed
            path = f"{HOOKROW.parent}:{os.environ['PATH']}"
            done = command.execute("sh", "-c", found[1], PATH=path)
            assert (done.returncode, done.stdout) == (0, "200\n")
            demo.shows("  dispatch 4: opened_at 2")
            another = found[1].replace(" open ", " suppression ")
            assert command.execute("sh", "-c", another, PATH=path).returncode == 0
            demo.shows("  subscriber 4: suppressed, HardBounce")
            demo.press_ctrl_c()
            assert demo.ended() == 0
            assert "Traceback" not in demo.printed
        assert left(command) == []

    def test_ctrl_c_within_the_traffic(self, command: Command) -> None:
        """Ctrl-C ends it at any time, without a traceback, and nothing is left."""
        with terminal(command) as demo:
            demo.shows("Open by ada@example.com")
            demo.press_ctrl_c()
            assert demo.ended() == 0
            assert "Traceback" not in demo.printed
        assert left(command) == []

    def test_window_that_is_closed(self, command: Command) -> None:
        """To close the window is as good as Ctrl-C: nothing is left."""
        with terminal(command) as demo:
            demo.shows("Ctrl-C stops.")
            demo.close()
            demo.ended()
        assert left(command) == []

    def test_terminated(self, command: Command) -> None:
        """To terminate it is as good as Ctrl-C, too."""
        with terminal(command) as demo:
            demo.shows("Ctrl-C stops.")
            demo.process.terminate()
            demo.ended()
            assert "Traceback" not in demo.printed
        assert left(command) == []
