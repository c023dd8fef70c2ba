"""The page on privacy: its session erases a person, and it names each of hookrow's tables."""

import shlex
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

from command import Command
from hookrow.stores.sql import SQLStore
from hookrow.testing import Tables, delivery, open_receiver, opening, post
from session import ROOT, read_blocks, read_commands

PAGE = "docs/how-to/privacy.md"
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def test_a_person_is_erased(sqlite_url: str, command: Command) -> None:
    with closing(SQLStore(sqlite_url)) as store:
        tables = Tables(store)
        for email, message in (("ada@example.com", "m-1"), ("eve@example.com", "m-2")):
            tables.add_dispatch(message, tables.add_subscriber(email))
        with open_receiver(store) as receiver:
            post(receiver, delivery("ada@example.com", "m-1", at=NOON))
            post(receiver, opening("ada@example.com", "m-1", at=NOON))
            post(receiver, delivery("eve@example.com", "m-2", at=NOON))
    [session] = read_blocks(PAGE, "console")
    [(line, printed)] = read_commands(session)
    assert command.call(*shlex.split(line)[1:]).stdout == printed
    left = command.call("log", "--json").stdout
    assert ("ada@example.com" in left, "eve@example.com" in left) == (False, True)
    [prune] = read_blocks(PAGE, "sh")
    assert command.call(*shlex.split(prune)[1:], "--dry-run").returncode == 0


def test_every_table_is_named(sqlite_url: str) -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    with closing(sqlite3.connect(sqlite_url.partition("///")[2])) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert len(tables) > 5
    assert [name for (name,) in tables if f"`{name}`" not in text] == []
