"""The application on the page about tenants runs, and its sessions print what the page shows."""

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from command import Command
from session import execute, read_blocks, read_commands, read_files
from wire import uvicorn_serving

PAGE = "docs/how-to/tenants.md"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return a folder with the application and its database."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.py").write_text(read_files(PAGE)["main.py"])
    with closing(sqlite3.connect("shop.db")) as database:
        database.executescript(read_blocks(PAGE, "sql")[0])
    return Command(tmp_path)


def test_the_page(host: Command) -> None:
    setup, posts = read_blocks(PAGE, "console")
    for line, printed in read_commands(setup):
        assert host.run(*shlex.split(line)[1:]).stdout == printed
    names = execute(read_files(PAGE)["main.py"])
    with uvicorn_serving(names["app"], lifespan="on") as port:
        for line, printed in read_commands(posts.replace(":8000", f":{port}")):
            assert host.call(*shlex.split(line)[1:]).stdout == printed
    with closing(sqlite3.connect("shop.db")) as database:
        assert database.execute(read_blocks(PAGE, "sql")[1]).fetchall() == [
            ("ada@example.com", "HardBounce")
        ]
        others = "SELECT count(*) FROM people WHERE team_id = 2 AND suppressed_at IS NULL"
        assert database.execute(others).fetchone() == (2,)
    reads, erases = read_blocks(PAGE, "sh")
    for line in reads.splitlines():
        done = host.run(*shlex.split(line)[1:])
        assert (done.returncode, "acme" in done.stdout) == (0, True)
    erased = host.run(*shlex.split(erases)[1:])
    assert (erased.returncode, erased.stdout) == (0, "Erased from 1 notification.\n")


def test_a_tenant_without_people(host: Command) -> None:
    with closing(sqlite3.connect("shop.db")) as database, database:
        database.execute(
            "INSERT INTO teams (name, webhook_secret) VALUES ('initech', 'a-third-one')"
        )
    assert host.run("--app", "main:receiver", "db", "upgrade").returncode == 0
    checked = host.run("--app", "main:receiver", "check").stdout
    [warning] = read_blocks(PAGE, "text")
    assert warning.rstrip(" \n") in checked
