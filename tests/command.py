"""The command `hookrow` as users run it, in a folder of its own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, chdir, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Self

from click.testing import CliRunner

from hookrow._cli import hookrow
from wire import PATIENCE, SECRET, eventually, free_port, listens

HOOKROW = Path(sys.executable).with_name("hookrow")

_UNWANTED = re.compile(
    "HOOKROW.*|COVERAGE_PROCESS.*|DATABASE_URL|(https?|all|no)_proxy", re.IGNORECASE
)


def clean_environment() -> dict[str, str]:
    """Return the environment without settings of hookrow, coverage and proxies."""
    return {name: value for name, value in os.environ.items() if not _UNWANTED.fullmatch(name)}


def run_script(*parts: str) -> str:
    """Run a script in a process; return its output."""
    script = "\n".join(map(dedent, parts))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Terminal:
    """A terminal whose output is read; a process writes to `writer`."""

    def __init__(self) -> None:
        self._reader, self.writer = os.openpty()
        os.set_blocking(self._reader, False)
        self._printed = b""

    @property
    def printed(self) -> str:
        """The output so far, of which the last part may arrive a moment after it was written."""
        with suppress(BlockingIOError):  # nothing new
            self._printed += os.read(self._reader, 65536)
        return self._printed.decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.writer)
        os.close(self._reader)


@dataclass(frozen=True)
class Serving:
    """A running server."""

    _process: subprocess.Popen[bytes]
    _log: Path
    port: int
    _host: str
    _terminal: Terminal | None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def dashboard_password(self) -> str:
        """The password that was generated for the dashboard, as printed to the terminal."""
        assert self._terminal is not None
        terminal = self._terminal
        found = eventually(lambda: re.search(r"with the password (\S+)(?=\s)", terminal.printed))
        return found[1]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_until_it_listens(self) -> None:
        """Wait until it accepts connections; fail if it exits instead."""
        eventually(lambda: listens(self.port, self._host) or not self.is_running)
        assert self.is_running, self.log

    def wait_until_logged(self, text: str, times: int = 1) -> None:
        """Wait until the server has logged the text this number of times."""
        eventually(lambda: self.log.count(text) >= times)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self) -> int:
        """Wait until it has exited; return its status."""
        return self._process.wait(PATIENCE)

    def workers(self) -> list[int]:
        """Return the ids of its worker processes, oldest first."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [pid for pid in map(int, children) if b"spawn_main" in _command_line(pid)]

    def stop(self) -> None:
        """Stop it, and kill it and its children if they do not exit."""
        try:
            if self.is_running:
                self.send(signal.SIGTERM)
                self.ended()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.ended()


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # it has exited meanwhile
        return b""


@contextmanager
def started(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    port: int,
    host: str = "127.0.0.1",
    terminal: Terminal | None = None,
    inherited: Sequence[int] = (),
) -> Iterator[Serving]:
    """Run a server in a folder until the block ends; its log is in a file there.

    It inherits these file descriptors.
    """
    log = folder / f"serve-{port}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=terminal.writer if terminal else output,
            stderr=output,
            start_new_session=True,
            pass_fds=inherited,
        )
    serving = Serving(process, log, port, host, terminal)
    try:
        yield serving
    finally:
        serving.stop()


class Command:
    """Runs `hookrow` in a folder, with only the settings of a test.

    `temporary` is its folder for temporary files, `program` the program to run instead of the
    command, and `terminal` the standard output of its servers.
    """

    def __init__(
        self,
        folder: Path,
        program: Sequence[object] = (HOOKROW,),
        *,
        terminal: Terminal | None = None,
    ) -> None:
        self.folder = folder
        self._program = program
        self._terminal = terminal
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a process, with these variables."""
        return {
            **clean_environment(),
            "TMPDIR": str(self.temporary),
            "PYTHONWARNINGS": "error",
            "COLUMNS": "120",
            **variables,
        }

    def run(self, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a process until it exits."""
        return self.execute(*self._program, *arguments, **variables)

    def call(self, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command in this process, with long lines; exceptions are raised."""
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
        """Run any program until it exits."""
        return subprocess.run(
            [str(part) for part in command],
            cwd=self.folder,
            env=self.environment(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
        )

    @contextmanager
    def serving(self, *arguments: object, **variables: str) -> Iterator[Serving]:
        """Run `hookrow serve` with the tests' secret, at a free port, until the block ends."""
        with self.starting(*arguments, **variables) as serving:
            serving.wait_until_it_listens()
            yield serving

    def starting(self, *arguments: object, **given: str) -> AbstractContextManager[Serving]:
        """Do the same, but enter the block as soon as the process exists."""
        variables = {"HOOKROW_SECRET": SECRET, "HOOKROW_PORT": str(free_port()), **given}
        host, port = variables.get("HOOKROW_HOST", "127.0.0.1"), int(variables["HOOKROW_PORT"])
        command = [str(part) for part in (*self._program, "serve", *arguments)]
        environment = self.environment(variables)
        return started(command, self.folder, environment, port, host, self._terminal)


def patched(folder: Path, script: str) -> Command:
    """Return the command, run by a script that patches hookrow first.

    Workers import the script under another name.
    """
    file = folder / "patched.py"
    main = "from hookrow.__main__ import main\n\nif __name__ == '__main__':\n    main()\n"
    file.write_text(f"{script}\n{main}")
    return Command(folder, (sys.executable, file))
