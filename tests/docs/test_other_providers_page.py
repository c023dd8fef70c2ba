"""The page about other providers: its receiver, its provider and its tests work."""

import re
import sys
import tomllib
from contextlib import closing
from pathlib import Path

import pytest

from command import Command
from hookrow import RequestHead
from hookrow._cli.entries import read_entries
from hookrow.providers import Provider
from hookrow.testing import SECRET, ProviderContract, headers
from session import ROOT, execute, read_blocks, read_files

PAGE = "docs/how-to/other-providers.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
FILES = read_files(PAGE)


def rows(head: str) -> list[str]:
    """Return the first cells of the rows of a table."""
    table = TEXT.partition(head)[2].partition("\n\n")[0]
    return re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE)


def test_the_paths_of_several_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSTMARK_SECRET", SECRET)
    monkeypatch.setenv("RESEND_SIGNING_SECRET", "whsec_MDEyMzQ1Njc4OWFiY2RlZg==")
    assert Command(tmp_path).call("db", "upgrade").returncode == 0
    sent = [(name.encode(), value.encode()) for name, value in headers().items()]
    with closing(execute(FILES["mail.py"])["receiver"]) as receiver:
        heads = [RequestHead("POST", path, sent) for path in rows("| path below the mount path |")]
        refused = [receiver.admit(each) for each in heads]
        assert [each and each.status for each in refused] == [None, None, 401, 404]


def test_settings_may_name_the_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "courier.py").write_text(FILES["courier.py"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "courier", raising=False)  # the one of the tests
    [block] = read_blocks(PAGE, "toml")
    variables = {"HOOKROW_PROVIDERS_COURIER_KEY": "of the variable"}
    [entry] = read_entries(tomllib.loads(block)["providers"], variables, "hookrow.toml").entries
    assert vars(entry.build()) == {"_key": b"of the variable"}
    del sys.modules["courier"]


def test_the_tests_of_the_provider_pass(tmp_path: Path) -> None:
    for name in ("courier.py", "test_courier.py"):
        (tmp_path / name).write_text(FILES[name])
    typed = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = Command(tmp_path).execute(sys.executable, *typed, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    tests = [name for name in dir(ProviderContract) if name.startswith("test_")]
    assert f"{len(tests)} passed" in done.stdout, done.stdout + done.stderr


def test_the_tables_are_complete() -> None:
    """They have the members of a provider with a default, and what a contract needs."""
    members = {name for row in rows("| member |") for name in row.split("`, `")}
    defined = {name for name in dir(Provider) if not name.startswith("_")}
    assert members == defined - Provider.__abstractmethods__
    public = {name for name in dir(ProviderContract) if not name.startswith(("_", "test_"))}
    defined = {re.split(r"\W", row)[0] for row in rows("| define |")}
    assert defined == public | {"provider", "samples"}
