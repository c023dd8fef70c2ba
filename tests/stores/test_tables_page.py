"""The page on a host's own tables is run: its SQL, its Python, its file, its command."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest
from contract import NOON, arrival, statuses

from command import Command
from hookrow import Role, Schema, Suppressed
from hookrow.recording import record
from hookrow.schema import Fold
from hookrow.settings import read

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the page's code blocks in a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the shop's tables, and its file of settings."""
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("shop.db")) as connection:
        connection.executescript(blocks("sql")[0])
    (tmp_path / "hookrow.toml").write_text(blocks("toml")[0])
    return tmp_path


def test_the_python_runs(shop: Path) -> None:
    """Every snippet in order, up to those for Alembic; a suppression then reaches three tables."""
    names: dict[str, Any] = {}
    for block in blocks("python")[:-3]:
        exec(block, names)
    with closing(sqlite3.connect(shop / "shop.db")) as connection:
        connection.executescript(
            """
            INSERT INTO people (id, address, deleted_at) VALUES
                (1, 'Ada@example.com', '2026'), (2, 'Ada@example.com', NULL);
            INSERT INTO campaigns VALUES (7, 70);
            INSERT INTO sends (postmark_id, person_id, campaign_id) VALUES ('m-1', 2, 7);
            INSERT INTO audience_people (audience_id, person_id) VALUES (70, 1), (70, 2);
            """
        )
        told = Suppressed("ada@example.com", "m-1", NOON, "SpamComplaint")
        assert statuses(record(names["store"], [arrival(told)])) == [200]
        people = "SELECT id, why FROM people WHERE suppressed_at IS NOT NULL"
        assert connection.execute(people).fetchall() == [(2, 2)]
        members = "SELECT person_id FROM audience_people WHERE suppressed_at IS NOT NULL"
        assert connection.execute(members).fetchall() == [(2,)]
    names["receiver"].close()


def test_the_file_says_the_same(shop: Path) -> None:
    """But for null, for which it has `false`."""
    names: dict[str, Any] = {}
    exec(blocks("python")[0], names)
    _, schema = read(shop / "hookrow.toml", ())
    assert schema.subscribers.where == {"deleted_at": False}
    assert repr(schema).replace("False", "None") == repr(names["schema"])


def test_the_command_prints_what_it_says(shop: Path) -> None:
    """What the check finds in the shop, and that its advice helps."""
    line, _, printed = blocks("console")[0].partition("\n")
    command = Command(shop)
    words = line.removeprefix("$ hookrow ").split()
    told = command.run(*words).stdout
    assert told.partition("ok       setting ")[0] == printed
    with closing(sqlite3.connect(shop / "shop.db")) as connection:
        connection.execute(printed.partition("Run: ")[2])
    assert "Every lookup has an index." in command.run(*words).stdout


def test_every_column_and_fold_is_told() -> None:
    """What may be named stands in the tables."""
    schema = Schema(messages=Role("messages"))
    for name in schema.roles:
        assert f"| `{name}`" in PAGE
        for column in schema.columns(name):
            assert f"`{column}`" in PAGE
    for fold in get_args(Fold):
        assert f'| `"{fold}"` |' in PAGE
