"""The page about the status has every subject, and its code runs."""

import re
from contextlib import closing

import pytest

from hookrow._core.status import StatusLevel, StatusSubject
from hookrow._migrations import upgrade
from hookrow.stores.sql import SQLStore
from session import ROOT, execute, read_blocks
from wire import SECRET

PATH = "docs/how-to/status.md"
PAGE = (ROOT / PATH).read_text(encoding="utf-8")


def test_every_subject_is_explained() -> None:
    """In the order in which findings of the same level are listed."""
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == [
        each.value for each in StatusSubject
    ]
    assert all(f"**{each.value}**" in PAGE for each in StatusLevel if each is not StatusLevel.OK)


def test_the_code(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dashboard shows the status of the receiver in its process."""
    monkeypatch.chdir(tmp_path_factory.mktemp("status"))
    monkeypatch.setenv("HOOKROW_SECRET", SECRET)
    monkeypatch.setenv("DASHBOARD_PASSWORD", "of-the-tests")
    [block] = read_blocks(PATH, "python")
    with closing(SQLStore("sqlite:///hookrow.db")) as store:
        upgrade(store.database, store.schema)
    names = execute(block)
    with closing(names["store"]), closing(names["receiver"]), closing(names["readiness"]):
        assert names["readiness"].status().findings == []
        names["dashboard"].close()
