"""Runs the code blocks and terminal sessions of the README and the docs."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from command import HOOKROW, clean_environment
from wire import PATIENCE, eventually, free_port, get, listens

ROOT = Path(__file__).parents[1]


def read_blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page, such as "docs/how-to/tables.md", in a language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def read_files(page: str) -> dict[str, str]:
    """Return the Python files of a page by name, which is in a comment at their top."""
    blocks = [block.partition("\n") for block in read_blocks(page, "python")]
    return {top.removeprefix("# "): code for top, _, code in blocks}


def execute(*blocks: str) -> dict[str, Any]:
    """Run code blocks one after another in one namespace; return its names."""
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    return names


def read_commands(session: str) -> list[tuple[str, str]]:
    """Return each command of a session with the output that the page shows below it."""
    parts = re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]
    return [(line, printed) for line, _, printed in (part.partition("\n") for part in parts)]


class Terminal:
    """A shell in a folder, with a free port for hookrow."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        environment = clean_environment()
        self.shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env={
                **environment,
                "HOME": str(folder),
                "HOOKROW_PORT": str(self.port),
                "PATH": f"{HOOKROW.parent}:{environment['PATH']}",
            },
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def type(self, line: str) -> str:
        """Run a line and return its output. After an `&`, wait until the server responds."""
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        typed = line.replace("8000", str(self.port))
        if line.endswith("&"):
            typed = f"{typed[:-1]} >server.log 2>&1 &"
        self.shell.stdin.write(f"{typed}\nprintf '\\nend-of-output\\n'\n")
        self.shell.stdin.flush()
        printed = "".join(iter(self.shell.stdout.readline, "end-of-output\n"))
        if line.endswith("&"):
            eventually(lambda: listens(self.port))
            get(self.port, "/")  # some servers listen before they have loaded the application
        return printed.removesuffix("\n")


@contextmanager
def terminal(folder: Path) -> Iterator[Terminal]:
    """Open a shell in a folder; end it and all its processes after the block."""
    terminal = Terminal(folder)
    try:
        yield terminal
    finally:
        os.killpg(terminal.shell.pid, signal.SIGTERM)
        terminal.shell.communicate(timeout=PATIENCE)
