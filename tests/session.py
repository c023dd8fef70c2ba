"""The terminal sessions of README and docs, run as a reader would."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from command import clean_environment
from wire import eventually, free_port, get, listens

ROOT = Path(__file__).parents[1]

_SCRIPTS = Path(sys.executable).parent


def read_blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page, such as "docs/check.md", that are in a language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def read_files(page: str) -> dict[str, str]:
    """Return the Python files of a page by name, which is in a comment at their top."""
    blocks = [block.partition("\n") for block in read_blocks(page, "python")]
    return {top.removeprefix("# "): code for top, _, code in blocks}


def read_commands(session: str) -> list[tuple[str, str]]:
    """Return each command of a session with the output that the page shows below it."""
    parts = re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]
    return [(line, printed) for line, _, printed in (part.partition("\n") for part in parts)]


class Terminal:
    """A shell in a folder of its own, with a free port as hookrow's."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        environment = clean_environment()
        self._shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env={
                **environment,
                "HOME": str(folder),
                "HOOKROW_PORT": str(self.port),
                "PATH": f"{_SCRIPTS}:{environment['PATH']}",
            },
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def type(self, line: str) -> str:
        """Run a line and return its output. After an `&`, wait until the server answers."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        typed = line.replace("8000", str(self.port))
        if line.endswith("&"):
            typed = f"{typed[:-1]} >server.log 2>&1 &"
        self._shell.stdin.write(f"{typed}\nprintf '\\nend-of-output\\n'\n")
        self._shell.stdin.flush()
        printed = "".join(iter(self._shell.stdout.readline, "end-of-output\n"))
        if line.endswith("&"):
            eventually(lambda: listens(self.port), seconds=30)
            get(self.port, "/")  # some servers listen before they have loaded the application
        return printed.removesuffix("\n")

    def close(self) -> None:
        """End the shell and all that it started."""
        os.killpg(self._shell.pid, signal.SIGTERM)
        self._shell.communicate(timeout=30)


@contextmanager
def terminal(folder: Path) -> Iterator[Terminal]:
    """Open a terminal in a folder until the block ends."""
    terminal = Terminal(folder)
    try:
        yield terminal
    finally:
        terminal.close()
