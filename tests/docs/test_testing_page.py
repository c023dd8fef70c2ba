"""The page on testing is complete, its tests pass, and its commands print what it shows."""

import re
import shlex
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from command import Command
from hookrow import testing
from hookrow.testing import SECRET, StoreContract
from session import ROOT, read_blocks, read_commands, read_files
from wire import uvicorn_serving

PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
FILES = read_files("docs/testing.md")


@pytest.fixture
def host(tmp_path: Path) -> Command:
    """Return a folder with all files of the page and the database."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    command = Command(tmp_path)
    assert command.call("db", "upgrade").returncode == 0
    return command


def test_the_tests_in_its_files_pass_without_other_files(host: Command) -> None:
    assert len(FILES) == PAGE.count("```python") == 7
    typed = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "hookrow.pytest_plugin")
    done = host.execute(sys.executable, *typed, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    contract = [name for name in dir(StoreContract) if name.startswith("test_")]
    assert f"{6 + len(contract)} passed" in done.stdout, done.stdout + done.stderr


def test_the_session_prints_what_it_shows(host: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(host.folder)
    monkeypatch.setenv("HOOKROW_SECRET", SECRET)
    names: dict[str, Any] = {}
    exec(FILES["main.py"], names)
    names["save"]("ada@example.com", "m-1")
    [session] = read_blocks("docs/testing.md", "console")
    with closing(names["receiver"]), uvicorn_serving(names["app"]) as port:
        for line, printed in read_commands(session.replace(":8000", f":{port}")):
            done = host.call(*shlex.split(line)[1:], HOOKROW_SECRET=SECRET)
            assert (done.stdout, done.returncode == 0) == (printed, printed == "200\n")


def _rows(head: str) -> set[str]:
    """Return the names that a table begins its rows with."""
    table = PAGE.partition(head)[2].partition("\n\n")[0]
    return set(re.findall(r"^\| `(\w+)", table, re.MULTILINE))


def test_the_tables_have_every_public_name_payload_and_method() -> None:
    payloads = {name for name in testing.__all__ if name in dir(testing.payloads)} - {"Payload"}
    assert _rows("| payload |") == payloads
    public = {name for name in dir(StoreContract) if not name.startswith(("_", "test_"))}
    assert _rows("| define |") == public | {"store"}
    assert [name for name in testing.__all__ if not re.search(rf"\b{name}\b", PAGE)] == []
