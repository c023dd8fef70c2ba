"""The page on testing is complete, its tests pass, and its commands print what it shows."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from command import Command
from hookrow import testing
from hookrow.testing import SECRET, StoreContract
from session import read_blocks, read_commands
from wire import uvicorn_serving

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))


@pytest.fixture
def host(tmp_path: Path) -> Command:
    """Return a folder with all files of the page and the database."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    command = Command(tmp_path)
    assert command.call("db", "upgrade").returncode == 0
    return command


@pytest.fixture
def application(host: Command, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Return the names of the page's application, which has saved a dispatch."""
    monkeypatch.chdir(host.folder)
    monkeypatch.setenv("HOOKROW_SECRET", SECRET)
    names: dict[str, Any] = {}
    exec(FILES["main.py"], names)
    names["save"]("ada@example.com", "m-1")
    with closing(names["receiver"]):
        yield names


def test_tests_pass(host: Command) -> None:
    """Every block of Python is a file, and the tests in these files pass without other files."""
    assert len(FILES) == PAGE.count("```python") == 7
    typed = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "hookrow.pytest_plugin")
    done = host.execute(sys.executable, *typed, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    contract = [name for name in dir(StoreContract) if name.startswith("test_")]
    assert f"{6 + len(contract)} passed" in done.stdout, done.stdout + done.stderr


def test_session(host: Command, application: dict[str, Any]) -> None:
    """Each command of the session prints what the page shows, and 0 is the status of a 200."""
    [session] = read_blocks("docs/testing.md", "console")
    with uvicorn_serving(application["app"]) as port:
        for line, printed in read_commands(session.replace(":8000", f":{port}")):
            done = host.call(*shlex.split(line)[1:], HOOKROW_SECRET=SECRET)
            assert (done.stdout, done.returncode == 0) == (printed, printed == "200\n")


def test_tables() -> None:
    """The page has every public name, its tables every payload and method of the contract."""
    tables = {
        head: set(
            re.findall(r"^\| `(\w+)", PAGE.partition(head)[2].partition("\n\n")[0], re.MULTILINE)
        )
        for head in ("| payload |", "| define |")
    }
    payloads = {name for name in testing.__all__ if name in dir(testing.payloads)} - {"Payload"}
    assert tables["| payload |"] == payloads
    public = {name for name in dir(StoreContract) if not name.startswith(("_", "test_"))}
    assert tables["| define |"] == public | {"store"}

    assert [name for name in testing.__all__ if not re.search(rf"\b{name}\b", PAGE)] == []
