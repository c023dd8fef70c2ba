"""The page on MariaDB and MySQL: its URLs, its SQL and its mapping work, its lists are complete."""

import re
from contextlib import closing
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from sqlalchemy import make_url

from command import Command
from hookrow.stores.sql._limits import MARIADB_LIMITS
from hookrow.stores.sql._mariadb_url import _URL_OPTIONS, TLSLevel, parse
from mariadb import Databases, connect, execute_script
from session import ROOT, read_blocks

NAME = "docs/how-to/mariadb.md"
PAGE = (ROOT / NAME).read_text(encoding="utf-8")
USERS, QUERY, SHOP = read_blocks(NAME, "sql")
URLS, WARNINGS, NODES = (block.splitlines() for block in read_blocks(NAME, "text"))
[MAPPING] = read_blocks(NAME, "toml")
SECRET = {"HOOKROW_SECRET": "a-secret-of-your-own"}


@pytest.mark.parametrize("url", [*URLS, *NODES])
def test_urls(url: str) -> None:
    assert parse(url).database == "mail"


def test_the_files_of_authorities_are_verified() -> None:
    assert {parse(url).tls.level for url in URLS if "ssl_ca" in url} == {TLSLevel.VERIFY_IDENTITY}


def test_every_option_of_a_url_is_in_the_table() -> None:
    rows = re.findall(r"^\| (`.*`\)?) \|", PAGE.partition("| variable |")[0], re.MULTILINE)
    listed = set(re.findall(r"`([\w-]+)`", " ".join(rows)))
    assert {*_URL_OPTIONS} <= listed


def test_every_setting_of_a_session_is_in_the_table() -> None:
    settings = MARIADB_LIMITS.tuning | MARIADB_LIMITS.ISOLATION | MARIADB_LIMITS.LOWERED
    table = PAGE.partition("| variable |")[2].partition("\n\n")[0]
    names = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(names))) == {*settings}


def test_privileges(mariadb: Databases, tmp_path: Path) -> None:
    """One user creates the tables, and the other one, who may not, can do everything else."""
    url = make_url(mariadb.create())
    mail = str(url.database)  # also in the names of the users, which belong to the server
    execute_script(mariadb.url(), USERS.replace("mail", mail))
    command = Command(tmp_path)

    def run(user: str, password: str, *arguments: str) -> CompletedProcess[str]:
        logged_in = url.set(username=user, password=password).render_as_string(hide_password=False)
        return command.call(*arguments, "--database-url", logged_in, **SECRET)

    denied = run(mail, "another-password", "db", "upgrade")
    assert "permission denied for database" in denied.stderr
    assert run(f"{mail}_owner", "a-password", "db", "upgrade").returncode == 0
    assert "warning" not in run(mail, "another-password", "check").stdout
    assert run(mail, "another-password", "prune", "--keep", "1d").returncode == 0


def test_query(mariadb_url: str) -> None:
    execute_script(
        mariadb_url, "INSERT INTO hookrow_subscribers (email) VALUES ('Ada@example.com')"
    )
    with closing(connect(mariadb_url)) as connection, connection.cursor() as cursor:
        assert cursor.execute(QUERY) == 1


def test_weaknesses_of_the_shop(empty_mariadb_url: str, tmp_path: Path) -> None:
    """`hookrow check` prints the warnings of the page, and the statements in them remove all."""
    execute_script(empty_mariadb_url, SHOP)
    (tmp_path / "hookrow.toml").write_text(MAPPING)
    command = Command(tmp_path)
    options = ["--database-url", empty_mariadb_url]
    command.call("db", "upgrade", *options)
    printed = command.call("check", *options, **SECRET).stdout
    assert [line for line in printed.splitlines() if line.startswith("warning")] == WARNINGS
    for line in WARNINGS:
        execute_script(empty_mariadb_url, line.partition("un: ")[2].partition(". Repeat")[0])
    assert "warning" not in command.call("check", *options, **SECRET).stdout
