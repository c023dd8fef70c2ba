"""The README is run: its session at the terminal, its snippets, its tables."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import click
import pytest

import hookrow
from hookrow import Refusal, settings, testing
from hookrow.cli import hookrow as command

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

SCRIPTS = Path(sys.executable).parent


def blocks(language: str) -> list[str]:
    """Return the README's code blocks in a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def free_port() -> int:
    """Return a port of this machine that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Terminal:
    """A shell in a folder of its own, that keeps what a session sets and starts."""

    def __init__(self, folder: Path, port: int) -> None:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("HOOKROW")}
        clean.pop("DATABASE_URL", None)
        clean |= {"HOOKROW_PORT": str(port), "PATH": f"{SCRIPTS}:{os.environ['PATH']}"}
        self.port = port
        self._shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=clean,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def type(self, line: str) -> str:
        """Run a line and return what it prints; of a server, wait until it answers."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{line}\necho end-of-output\n")
        self._shell.stdin.flush()
        printed = "".join(iter(self._shell.stdout.readline, "end-of-output\n"))
        # The reader's port is the default.
        ours = f"ok       setting     port is {self.port}, from the variable HOOKROW_PORT.\n"
        if ours in printed:
            printed = printed.replace(ours, "").replace(" sweep true", " port 8000, sweep true")
        if line.endswith("&"):
            self._wait()
        return printed

    def close(self) -> None:
        """End the shell and all that it started."""
        os.killpg(self._shell.pid, signal.SIGTERM)
        self._shell.communicate(timeout=20)

    def _wait(self) -> None:
        for _ in range(200):
            try:
                urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=5).close()
            except URLError:
                time.sleep(0.05)
            else:
                return
        pytest.fail("the server of the session does not answer")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """Open a terminal for one session."""
    terminal = Terminal(tmp_path, free_port())
    yield terminal
    terminal.close()


def test_the_session_prints_what_it_says(terminal: Terminal, tmp_path: Path) -> None:
    """Each command prints what stands below it; the Python between them is run too."""
    (tmp_path / "save.py").write_text(blocks("python")[0])
    first, *others = blocks("console")
    before, after = _commands(first), _commands("".join(others))
    assert len(before + after) == 13
    for line, expected in [*before, ("python save.py", ""), *after]:
        if not line.startswith("pip install"):
            assert terminal.type(line) == expected, line


def test_what_is_installed_in_the_session_exists() -> None:
    """Every extra that the README installs is one of the package's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(re.findall(r"hookrow\[(\w+)\]", README))
    assert extras
    assert extras <= set(project["optional-dependencies"])


def test_the_mounted_application_records(terminal: Terminal, tmp_path: Path) -> None:
    """The snippet that mounts the receiver runs under a server and takes notifications."""
    secret = "a-secret-for-the-readme"
    (tmp_path / "save.py").write_text(blocks("python")[0])
    (tmp_path / "main.py").write_text(blocks("python")[1] + _HEALTH)
    terminal.type(f"export HOOKROW_SECRET={secret}")
    terminal.type("hookrow db upgrade")
    terminal.type("python save.py")
    terminal.type(f"python -m uvicorn main:app --port {terminal.port} &")
    url = f"http://127.0.0.1:{terminal.port}/mail/provider/webhooks"
    payload = testing.delivery("ada@example.com", "m-1", at=datetime.now(UTC))
    assert testing.post(url, payload, secret=secret) == (200, "")
    assert testing.post(url, payload, secret="another") == (401, "Cannot verify webhook")


_HEALTH = """
from starlette.responses import PlainTextResponse
app.add_route("/healthz", lambda request: PlainTextResponse("ok"))
"""


def test_the_schema_snippet_makes_a_schema() -> None:
    """The snippet that names a host's tables runs."""
    names: dict[str, object] = {}
    exec(blocks("python")[2], names)
    assert isinstance(names["schema"], hookrow.Schema)


def test_the_settings_file_is_read(tmp_path: Path) -> None:
    """The file shown is one that the command takes."""
    file = tmp_path / "hookrow.toml"
    file.write_text(blocks("toml")[0])
    values, schema = settings.read(file, _settings())
    assert values["mount_path"] == "/mail"
    assert schema.subscriptions is None


def test_every_setting_is_in_the_table() -> None:
    """Each option that has a variable stands in the README with it."""
    table = README.partition("## Settings")[2].partition("```")[0]
    serve = command.commands["serve"]
    for parameter in serve.params:
        assert f"`{parameter.name}`" in table
        for variable in [parameter.envvar] if isinstance(parameter.envvar, str) else []:
            assert f"`{variable}`" in table


def test_every_argument_of_the_receiver_is_in_the_table() -> None:
    """Each argument that a host may give stands in the README."""
    table = README.partition("## Mount it")[2].partition("## The contract")[0]
    for name, parameter in inspect.signature(hookrow.Receiver).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            assert f"`{name}" in table, name


def test_every_command_is_in_the_table() -> None:
    """Each command stands in the README, and each there is a command."""
    table = README.partition("## The command")[2].partition("## Settings")[0]
    documented = set(re.findall(r"^\| `hookrow ([\w ]+)` \|", table, re.MULTILINE))
    assert documented == set(_names(command))


def test_every_refusal_is_in_the_table() -> None:
    """Each status and text that hookrow answers stands in the contract."""
    table = README.partition("## The contract")[2]
    for refusal in Refusal:
        text = re.sub(r"\{\w+\}", "...", refusal.text)
        assert f"| {refusal.status} | `{text}` |" in table


def test_the_two_commands_are_targets_of_make() -> None:
    """The commands that the README begins with exist."""
    makefile = (ROOT / "Makefile").read_text()
    commands = [shlex.split(line) for line in blocks("sh")[0].splitlines()]
    assert [words[0] for words in commands] == ["make", "make"]
    for _, target in commands:
        assert f"\n{target}:" in makefile


def test_every_link_leads_somewhere() -> None:
    """Each file that the README points to is there."""
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).is_file(), target


@pytest.mark.parametrize(("page", "tests", "seen"), [("reliability", 28, 26), ("deploy", 4, 3)])
def test_every_test_that_proves_a_promise_exists(page: str, tests: int, seen: int) -> None:
    """Each test that the page names is there, and each row tells what was seen."""
    told = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", told)
    assert len(named) == tests
    for file, name in named:
        assert f"def {name}(" in (ROOT / "tests" / "faults" / file).read_text()
    rows = re.findall(r"^\|.*`test_\w+\.py::test_\w+` \| (.*) \|$", told, re.MULTILINE)
    assert len(rows) == seen
    assert all(re.search(r"\d", row) for row in rows)


def _commands(session: str) -> list[tuple[str, str]]:
    """Return each command of a session with what it prints."""
    parts = re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]
    return [(line, printed) for line, _, printed in (part.partition("\n") for part in parts)]


def _names(group: click.Group) -> Iterator[str]:
    for name, member in group.commands.items():
        if not isinstance(member, click.Group) or member.invoke_without_command:
            yield name
        if isinstance(member, click.Group):
            yield from (f"{name} {rest}" for rest in _names(member))


def _settings() -> set[str]:
    return {parameter.name or "" for parameter in command.commands["serve"].params}
