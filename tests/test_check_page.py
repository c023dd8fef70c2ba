"""The page on `hookrow check` is run: its session prints what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import hookrow.outside
from command import Command
from wire import SECRET

PAGE = (Path(__file__).parent.parent / "docs" / "check.md").read_text(encoding="utf-8")

SOURCE = Path(hookrow.outside.__file__).parent


def test_the_session_prints_what_it_says(tmp_path: Path) -> None:
    """But for the port, and the time that an answer took."""
    (session,) = re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    serve, *checks = re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]
    command = Command(tmp_path)
    assert serve == "hookrow serve --mount-path /mail &\n"
    with command.serving("--mount-path", "/mail") as server:
        for check in checks:
            typed, _, expected = check.replace(":8000", f":{server.port}").partition("\n")
            done = command.run(*shlex.split(typed)[1:], HOOKROW_SECRET=SECRET)
            assert _untimed(done.stdout, server.port) == _untimed(expected, 8000)


def _untimed(text: str, port: int) -> str:
    return re.sub(r"\d\.\d\d s", "0 s", text.replace(f"Port {port} ", "Port 0 "))


def test_each_finding_is_explained() -> None:
    """All that a finding from outside can be about stands in the table, and nothing else."""
    texts = "".join(file.read_text() for file in SOURCE.glob("*.py"))
    levels = re.findall(r'Explained\(\s*Level\.[^"]*?,\s*"(\w+)",', texts)
    returned = re.findall(r'(?:return|: \()\s*\(?\s*"(\w+)",', texts)
    named = re.findall(r'\babout = (?:Level\.\w+, )?"(\w+)"', texts)
    table = re.findall(r"^\| (`.*`) \|", PAGE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", "".join(table))) == {*levels, *returned, *named}
