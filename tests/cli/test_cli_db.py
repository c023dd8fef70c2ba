"""`hookrow db`: the tables of hookrow's own."""

from __future__ import annotations

from sqlalchemy import inspect

from command import Command
from hookrow import Schema
from hookrow.migrations import VERSION_TABLE
from hookrow.stores.engines import opened
from hookrow.stores.tables import metadata


def tables(url: str) -> set[str]:
    """Return the names of a database's tables."""
    with opened(url) as engine:
        return set(inspect(engine).get_table_names())


def test_upgrade(command: Command, empty_sqlite_url: str) -> None:
    """The first upgrade creates the tables; the second changes nothing."""
    assert command.call("db", "current").stdout == "none\n"
    assert not list(command.folder.glob("*.db"))
    for _ in range(2):
        done = command.call("db", "upgrade")
        line = "sqlite:///hookrow.db is at 0001 and 0002, the newest.\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, line, "")
    assert tables(empty_sqlite_url) == {*metadata.tables, VERSION_TABLE}
    assert command.call("db", "current").stdout == "0001 and 0002\n"


def test_host_tables(command: Command, empty_postgres_url: str) -> None:
    """If the file names the host's tables, only the log is created; no password is printed."""
    (command.folder / "hookrow.toml").write_text("[tables.subscribers]\ntable = 'people'")
    done = command.call("db", "upgrade", "--database-url", f"{empty_postgres_url}&password=hunter2")
    assert done.stdout.endswith(" is at 0002, the newest.\n")
    assert "hunter2" not in done.stdout
    assert tables(empty_postgres_url) == {Schema().log, VERSION_TABLE}


def test_sql(command: Command) -> None:
    """To print the statements the database need not be there."""
    url = "postgresql://ada:hunter2@127.0.0.1:1/mail"
    done = command.call("db", "sql", "--database-url", url)
    assert (done.returncode, done.stderr) == (0, "")
    assert "CREATE TABLE hookrow_subscribers" in done.stdout
