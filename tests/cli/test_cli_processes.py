"""`hookrow` as a process: each command once; and what an extra that is missing prints."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from subprocess import CompletedProcess

from command import Command
from hookrow import __version__
from wire import SECRET, free_port

# An import hook stands for a module that is not installed; an earlier line may have imported it.
COMMANDS = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
for line in sys.argv[1:]:
    missing, *sys.argv[1:] = line.split()
    for name in list(sys.modules):
        if name.partition(".")[0] == missing:
            del sys.modules[name]
    try:
        from hookrow.__main__ import main
        main()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        print(f"{line}: {int(ended.code != 0)}", file=sys.stderr)
"""

POSTGRES = "--database-url postgresql://ada@127.0.0.1:1/mail"

MISSING = {
    "click -h": "serve",
    **{f"sqlalchemy {each}": "sql" for each in ("serve", "check", "db upgrade", "log", "stats")},
    **{f"sqlalchemy {each}": "sql" for each in ("replay 1", "prune", "demo --once")},
    "alembic db current": "sql",
    **{f"{each} serve": "serve" for each in ("uvicorn", "uvloop", "httptools")},
    **{f"psycopg {each} {POSTGRES}": "postgres" for each in ("serve", "log show 1")},
}
"""By module and command: the extra that installs it."""


def run(command: Command, *lines: str) -> CompletedProcess[str]:
    """Run commands in one process, each without a module; their statuses are on stderr."""
    settings = {"HOOKROW_SECRET": SECRET, "HOOKROW_PORT": str(free_port())}
    return command.execute(sys.executable, "-c", COMMANDS, *lines, **settings)


def test_each_command(tmp_path: Path) -> None:
    """Each command runs in a process, on a new SQLite file, and none needs psycopg for it."""
    command = Command(tmp_path, measured=True)
    done = command.execute(sys.executable, "-m", "hookrow", "--version")
    assert (done.returncode, done.stdout.split()[-1]) == (0, __version__)
    lines = ("db upgrade", "check", "log", "replay 1", "prune", "stats", "simulate open a@b", "-h")
    done = run(command, *(f"psycopg {line}" for line in lines))
    assert re.findall(r"^psycopg (.*): (\d)$", done.stderr, re.MULTILINE) == [
        (line, "1" if "simulate" in line else "0") for line in lines
    ]
    assert "Error: No answer from http://127.0.0.1:" in done.stderr
    for printed in (
        "ok       indexes     Every lookup has an index.\n",
        "\nThere are no such notifications.\n0 notifications replayed.\nPruned: 0.\n",
        "\nNo notification has come yet.\n",
        "\nUsage: ",
    ):
        assert printed in done.stdout


def test_missing_extra(tmp_path: Path) -> None:
    """If an extra is missing, a line names the command that installs it; others still work."""
    done = run(
        Command(tmp_path), *MISSING, "sqlalchemy simulate open a@b", f"psycopg check {POSTGRES}"
    )
    error = r"Error: .*pip install 'hookrow\[(\w+)\]'\n(.*): 1$"
    found = re.findall(error, done.stderr, re.MULTILINE)
    assert [(line, extra) for extra, line in found] == list(MISSING.items()), done.stderr
    assert "Error: No answer from http://127.0.0.1:" in done.stderr
    assert done.stdout.count("pip install 'hookrow[postgres]'") == 1


def test_broken_installation(tmp_path: Path) -> None:
    """A module that another package lacks is not blamed on an extra."""
    done = Command(tmp_path).execute(sys.executable, "-c", COMMANDS, "mako db current")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "pip install" not in done.stderr
