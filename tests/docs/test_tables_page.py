"""The SQL, Python, settings and command snippets of the page on tables run."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest

from command import Command
from hookrow import Arrival, Recorded, Role, Schema, Suppressed
from hookrow._cli import hookrow
from hookrow._cli.settings import read_file
from hookrow._core.schema import Fold
from hookrow._receiver.recorder import record
from session import ROOT, execute, read_blocks
from times import NOON

PAGE = (ROOT / "docs/how-to/tables.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return read_blocks("docs/how-to/tables.md", language)


PYTHON = blocks("python")[:-5]  # those about Alembic run in tests/stores/test_alembic.py
MODELS, NAMES = PYTHON[:2], PYTHON[2]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("shop.db")) as connection:
        connection.executescript(blocks("sql")[0])
    (tmp_path / "hookrow.toml").write_text(blocks("toml")[0])
    return tmp_path


def test_the_python_runs(shop: Path) -> None:
    names = execute(*PYTHON)
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
        notification = Suppressed("ada@example.com", "m-1", NOON, "SpamComplaint")
        [outcome] = record(names["store"], [Arrival((notification,), b"{}", NOON)])
        assert isinstance(outcome, Recorded)
        people = "SELECT id, why FROM people WHERE suppressed_at IS NOT NULL"
        assert connection.execute(people).fetchall() == [(2, 2)]
        members = "SELECT person_id FROM audience_people WHERE suppressed_at IS NOT NULL"
        assert connection.execute(members).fetchall() == [(2,)]
    names["receiver"].close()


def test_the_settings_equal_the_python(shop: Path) -> None:
    schema = read_file(shop / "hookrow.toml", hookrow).schema
    assert schema.subscribers.where == {"deleted_at": False}
    assert repr(schema).replace("False", "None") == repr(execute(NAMES)["schema"])


def test_the_models_and_the_names_are_the_same_mapping() -> None:
    models, names = (execute(*code)["schema"] for code in (MODELS, [NAMES]))
    assert (models.reasons, models.log) == (names.reasons, names.log)
    for role, by_name in names.roles.items():
        by_model = models.roles[role]
        assert models.columns(role) == names.columns(role)
        assert (by_model.table, by_model.where, by_model.fold) == (
            by_name.table,
            by_name.where,
            by_name.fold,
        )


def test_the_command_prints_the_documented_output(shop: Path) -> None:
    line, _, printed = blocks("console")[0].partition("\n")
    words = line.removeprefix("$ hookrow ").split()
    output = Command(shop).call(*words).stdout
    assert output.partition("ok       setting ")[0] == printed
    with closing(sqlite3.connect(shop / "shop.db")) as connection:
        connection.execute(printed.partition("Run: ")[2].partition("\n")[0])
    assert "Every lookup has an index." in Command(shop).call(*words).stdout


def test_every_column_and_fold_is_documented() -> None:
    schema = Schema(messages=Role("messages"))
    for name in schema.roles:
        assert f"| `{name}`" in PAGE
        for column in schema.columns(name):
            assert f"`{column}`" in PAGE
    for fold in get_args(Fold):
        assert f'| `"{fold}"` |' in PAGE
