"""Follows a page as its reader does: writes its files and types its commands, in order."""

import re
from collections.abc import Mapping
from pathlib import Path

from session import ROOT, Terminal, read_commands, terminal

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# (\S+\.\w+)(, at its end)?\n")

_VARIABLE = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?"  # a time
    r"|\b\d+ ms\b|\b\d+(\.\d+)?s\b|\b\d+(\.\d+)? s\b|\b\d+ per second"  # a duration, a rate
    r"|\b[0-9a-f]{12}\b"  # a revision of Alembic
)
"""The parts of an output that differ from run to run."""


def follow(page: str, folder: Path, replacements: Mapping[str, str] | None = None) -> None:
    """Write each file of a page, run each command, and assert that it prints what the page shows.

    A file begins with its path in a comment; blocks of `sh` install packages, and are not run. In
    an output, a line `...` stands for any lines. A command without other output must succeed. The
    `replacements` are made in what is typed, such as the URL of a database.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    with terminal(folder) as shell:
        shell.type("exec 2>errors.log")
        for language, block in _BLOCK.findall(text):
            if language == "console":
                for line, expected in read_commands(block):
                    _run(shell, folder, line, expected, replacements or {})
            elif named := _FILE.match(block):
                write(folder / named[1], block[named.end() :], append=bool(named[2]))


def write(file: Path, code: str, *, append: bool) -> None:
    """Write a file as an editor does, in a folder that may not exist yet."""
    file.parent.mkdir(parents=True, exist_ok=True)
    before = file.read_text(encoding="utf-8") if append else ""
    file.write_text(before + code, encoding="utf-8")


def _run(
    shell: Terminal, folder: Path, line: str, expected: str, replacements: Mapping[str, str]
) -> None:
    typed, errors = line, folder / "errors.log"
    for old, new in replacements.items():
        typed = typed.replace(old, new)
    if typed.endswith("&"):
        printed, status = shell.type(typed), "0"
    else:
        printed = shell.type(f"{typed}\nstatus=$?").replace(str(shell.port), "8000")
        status = shell.type("echo $status").strip()
    if line.startswith("kill "):
        shell.type("wait")  # until the server has stopped
    if expected in {"", "...\n"}:
        assert status == "0", f"{line}\n{printed}{errors.read_text()}"
    lines = ["(.*\n)*" if each == "..." else f"{re.escape(each)}\n" for each in _lines(expected)]
    assert re.fullmatch("".join(lines), "".join(f"{each}\n" for each in _lines(printed))), (
        f"{line}\n{printed}{errors.read_text()}"
    )


def _lines(output: str) -> list[str]:
    return [" ".join(_VARIABLE.sub("VARIABLE", line).split()) for line in output.splitlines()]
