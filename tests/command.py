"""The command as a user runs it: a process of its own, in a folder of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from pathlib import Path
from textwrap import dedent
from typing import Self

from click.testing import CliRunner

from hookrow.cli import hookrow
from wire import PATIENCE, SECRET, Connection, eventually, free_port

HOOKROW = Path(sys.executable).with_name("hookrow")

_PROXIES = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}


def clean_environment() -> dict[str, str]:
    """Return the environment without any setting of hookrow's, or coverage's."""
    measuring = dict(_measuring())
    return {
        name: value
        for name, value in os.environ.items()
        if name not in measuring
        and not name.startswith("HOOKROW")
        and name != "DATABASE_URL"
        and name.lower() not in _PROXIES
    }


def _measuring() -> Iterator[tuple[str, str]]:
    """Yield what has coverage measure a process (its documentation, "Measuring subprocesses")."""
    for name, value in os.environ.items():
        if name.startswith("COVERAGE_PROCESS"):
            yield name, value


def run_script(*parts: str) -> str:
    """Run a script in an interpreter of its own, assertions included; return its output."""
    script = "\n".join(map(dedent, parts))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Command:
    """Runs `hookrow` in a folder; nothing is set but what a test sets.

    Temporary files go into `temporary`, where they can be seen. `program` is what is
    run instead, to stand for the command. What is `measured` for coverage takes half as
    long again.
    """

    def __init__(
        self, folder: Path, program: Sequence[object] = (HOOKROW,), *, measured: bool = False
    ) -> None:
        self.folder = folder
        self._program = [str(part) for part in program]
        self._measuring = dict(_measuring()) if measured else {}
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a process, with these variables."""
        return {
            **clean_environment(),
            **self._measuring,
            "TMPDIR": str(self.temporary),
            "PYTHONWARNINGS": "error",
            "COLUMNS": "120",
            **variables,
        }

    def run(self, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return self.execute(*self._program, *arguments, **variables)

    def call(self, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command within this process: quicker, where it only reads and prints.

        Lines are long, and what it does not catch is raised instead of printed.
        """
        typed = [str(argument) for argument in arguments]
        removed = dict.fromkeys(set(os.environ) - set(clean_environment()))
        with chdir(self.folder):
            result = CliRunner().invoke(
                hookrow,
                typed,
                env=removed | variables,
                prog_name="hookrow",
                catch_exceptions=False,
                terminal_width=300,
            )
        return subprocess.CompletedProcess(typed, result.exit_code, result.stdout, result.stderr)

    def execute(self, *command: object, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run any program to its end."""
        return subprocess.run(
            [str(part) for part in command],
            cwd=self.folder,
            env=self.environment(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE,
            check=False,
        )

    @contextmanager
    def serving(self, *arguments: object, **variables: str) -> Iterator[Serving]:
        """Run `hookrow serve` with the tests' secret at a free port until the block ends."""
        with self.starting(*arguments, **variables) as serving:
            serving.wait_until_it_listens()
            yield serving

    @contextmanager
    def serving_at_terminal(self, *arguments: object, **variables: str) -> Iterator[Serving]:
        """Do as `serving`, with a terminal as the standard output."""
        with Terminal() as terminal, self._starting(arguments, variables, terminal) as serving:
            serving.wait_until_it_listens()
            yield serving

    @contextmanager
    def starting(self, *arguments: object, **variables: str) -> Iterator[Serving]:
        """Do as `serving`, but enter the block as soon as the process exists."""
        with self._starting(arguments, variables, None) as serving:
            yield serving

    @contextmanager
    def _starting(
        self, arguments: Sequence[object], given: Mapping[str, str], terminal: Terminal | None
    ) -> Iterator[Serving]:
        variables = {"HOOKROW_SECRET": SECRET, "HOOKROW_PORT": str(free_port()), **given}
        port = int(variables["HOOKROW_PORT"])
        log = self.folder / f"serve-{port}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [*self._program, "serve", *map(str, arguments)],
                cwd=self.folder,
                env=self.environment(variables),
                stdin=subprocess.DEVNULL,
                stdout=terminal.writer if terminal else output,
                stderr=output,
                start_new_session=True,
            )
        host = variables.get("HOOKROW_HOST", "127.0.0.1")
        serving = Serving(process, host, port, log, terminal)
        try:
            yield serving
        finally:
            serving.stop()


class Terminal:
    """A terminal whose output is read; a process writes to `writer`."""

    def __init__(self) -> None:
        self._reader, self.writer = os.openpty()
        os.set_blocking(self._reader, False)
        self._printed = b""

    @property
    def printed(self) -> str:
        """What was printed so far."""
        with suppress(BlockingIOError):  # nothing new
            self._printed += os.read(self._reader, 65536)
        return self._printed.decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.writer)
        os.close(self._reader)


class Serving:
    """A server that runs."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        host: str,
        port: int,
        log: Path,
        terminal: Terminal | None = None,
    ) -> None:
        self.port = port
        self.pid = process.pid
        self._terminal = terminal
        self._host = host
        self._process = process
        self._log = log

    @property
    def log(self) -> str:
        """What it printed so far."""
        return self._log.read_text()

    @property
    def dashboard_address(self) -> str:
        """The dashboard's address with its token, as printed to the terminal."""
        assert self._terminal is not None
        found = re.search(r"http://\S+\?token=\S+", self._terminal.printed)
        assert found, self._terminal.printed
        return found[0]

    @property
    def lives(self) -> bool:
        """Whether it runs still."""
        return self._process.poll() is None

    @property
    def listens(self) -> bool:
        """Whether it takes connections."""
        try:
            Connection(self.port, self._host).close()
        except ConnectionError:
            return False
        return True

    def wait_until_it_listens(self) -> None:
        """Wait until it takes connections; fail where it ends instead."""
        eventually(lambda: self.listens or not self.lives, seconds=2 * PATIENCE)
        assert self.lives, self.log

    def wait_until_it_says(self, text: str, times: int = 1) -> None:
        """Wait until it printed the text so often."""
        eventually(lambda: self.log.count(text) >= times, seconds=2 * PATIENCE)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def ended(self) -> int:
        """Wait until it has ended; return its exit status."""
        return self._process.wait(2 * PATIENCE)

    def workers(self) -> list[int]:
        """Return the processes that it started to serve, by their ids."""
        return [pid for pid in self.children() if b"spawn_main" in _command_line(pid)]

    def children(self) -> list[int]:
        """Return all processes that it started, in that order, by their ids."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(child) for child in children.split()]

    def stop(self) -> None:
        """End it, and with force what is left of it and of all that it started."""
        try:
            if self.lives:
                self.send(signal.SIGTERM)
                self.ended()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(PATIENCE)


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return b""
