"""`hookrow` and `python -m hookrow`, with all extras and without each of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from command import Command
from hookrow import __version__
from wire import SECRET, free_port

# An import hook stands for what is not installed: pip cannot take it out for a test.
WITHOUT = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if f"{{name}}.".startswith({missing!r} + "."):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Without())
from hookrow.__main__ import main
main()
"""

POSTGRES = ("--database-url", "postgresql://ada@127.0.0.1:1/mail")


def without(folder: Path, missing: str) -> Command:
    """Return the command where a module is missing."""
    script = folder / f"without_{missing}.py"
    script.write_text(WITHOUT.format(missing=missing))
    return Command(folder, (sys.executable, script))


def test_module(tmp_path: Path) -> None:
    """`python -m hookrow` is the command, and calls itself so."""
    command = Command(tmp_path, measured=True)
    done = command.execute(sys.executable, "-m", "hookrow", "--version")
    assert done.returncode == 0
    assert done.stdout.strip().endswith(__version__)
    failed = command.execute(sys.executable, "-m", "hookrow", "serve")
    assert failed.returncode == 1
    assert failed.stderr.startswith("Error: ")


def test_nothing_is_run_by_an_import(tmp_path: Path) -> None:
    """To import the module runs nothing."""
    done = Command(tmp_path).execute(sys.executable, "-c", "import hookrow.__main__")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("click", ("--help",), "serve"),
        ("sqlalchemy", ("serve",), "sql"),
        ("sqlalchemy", ("check",), "sql"),
        ("sqlalchemy", ("db", "upgrade"), "sql"),
        ("sqlalchemy", ("demo", "--once"), "sql"),
        ("sqlalchemy", ("log",), "sql"),
        ("sqlalchemy", ("replay", "1"), "sql"),
        ("sqlalchemy", ("prune",), "sql"),
        ("psycopg", ("log", "show", "1", *POSTGRES), "postgres"),
        ("alembic", ("serve",), "sql"),
        ("alembic", ("db", "current"), "sql"),
        ("psycopg", ("serve", *POSTGRES), "postgres"),
        ("uvicorn", ("serve",), "serve"),
        ("uvicorn", ("demo", "--once"), "serve"),
        ("uvloop", ("serve",), "serve"),
        ("httptools", ("serve",), "serve"),
    ],
)
def test_missing_extra(
    tmp_path: Path, missing: str, arguments: tuple[str, ...], extra: str
) -> None:
    """Where an extra is missing a line says what to type, and the status is 1."""
    variables = {"HOOKROW_SECRET": SECRET, "HOOKROW_PORT": str(free_port())}
    done = without(tmp_path, missing).run(*arguments, **variables)
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    assert last.endswith(f"pip install 'hookrow[{extra}]'")
    assert "Traceback" not in done.stderr


def test_broken_installation(tmp_path: Path) -> None:
    """What another package lacks is told as the fault that it is: no extra would help."""
    done = without(tmp_path, "mako").run("db", "current")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "pip install" not in done.stderr


def test_missing_driver_is_found(tmp_path: Path) -> None:
    """`check` finds a missing driver as it finds anything else."""
    variables = {"HOOKROW_SECRET": SECRET}
    done = without(tmp_path, "psycopg").run("check", *POSTGRES, **variables)
    assert (done.returncode, done.stderr) == (1, "")
    assert "pip install 'hookrow[postgres]'" in done.stdout


@pytest.mark.parametrize("missing", ["sqlalchemy", "uvicorn", "psycopg"])
def test_what_needs_no_extra(tmp_path: Path, missing: str) -> None:
    """Help and `simulate` need neither a database nor a server of ours."""
    command = without(tmp_path, missing)
    for path in (("serve",), ("log",), ("log", "show"), ("replay",), ("prune",)):
        assert command.run(*path, "--help").returncode == 0
    done = command.run("simulate", "open", "ada@example.com", "--port", free_port())
    assert done.stderr.startswith("Error: No answer from")


def test_without_postgres(tmp_path: Path) -> None:
    """Who has no driver for PostgreSQL works on SQLite."""
    command = without(tmp_path, "psycopg")
    assert command.run("db", "upgrade").returncode == 0
    assert command.run("check", HOOKROW_SECRET=SECRET).returncode == 0
