"""The README: its session and its snippets run, and all names in it exist."""

import re
import shlex
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

import asgi_client
import hookrow
from hookrow import testing
from session import ROOT, execute, read_blocks, read_commands, terminal

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return read_blocks("README.md", language)


def test_the_session_prints_the_documented_output(tmp_path: Path) -> None:
    (tmp_path / "save.py").write_text(blocks("python")[0])
    first, *others = blocks("console")
    before, after = read_commands(first), read_commands("".join(others))
    assert len(before + after) == 13
    with terminal(tmp_path) as shell:
        # The page does not set the port.
        port = f"ok       setting     port is {shell.port}, from the variable HOOKROW_PORT.\n"
        for line, expected in [*before, ("python save.py", ""), *after]:
            if not line.startswith("pip install"):
                assert shell.type(line).replace(port, "") == expected, line


@pytest.mark.usefixtures("sqlite_url")
def test_the_mounted_application_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "a-secret-for-the-readme"
    monkeypatch.setenv("HOOKROW_SECRET", secret)
    monkeypatch.chdir(tmp_path)
    save, mount, *_ = blocks("python")
    execute(save)
    app = execute(mount)["app"]
    payload = testing.delivery("ada@example.com", "m-1", at=datetime.now(UTC))
    for posted, expected in ((secret, (200, "")), ("another", (401, "Cannot verify webhook"))):
        sent = {"json": payload, "headers": testing.headers(secret=posted)}
        response = asgi_client.request(app, "POST", "/mail/provider/webhooks", **sent)
        assert (response.status_code, response.text) == expected


def test_the_schema() -> None:
    assert isinstance(execute(blocks("python")[2])["schema"], hookrow.Schema)


def test_all_names_in_it_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {
        name for names in re.findall(r"hookrow\[([\w,]+)\]", README) for name in names.split(",")
    }
    assert extras
    assert extras <= set(project["optional-dependencies"])
    makefile = (ROOT / "Makefile").read_text()
    demo, targets = blocks("sh")
    assert demo == "uvx --from 'hookrow[serve,dashboard]' hookrow demo\n"
    for make, target in map(shlex.split, targets.splitlines()):
        assert make == "make"
        assert f"\n{target}:" in makefile


def test_all_links_are_absolute() -> None:
    """PyPI shows the README, too. `test_site.py` checks that the files exist."""
    text = re.sub(r"^```.*?^```", "", README, flags=re.DOTALL | re.MULTILINE)
    inline = re.findall(r"\]\(([^)\s]+)\)", text)
    defined = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", text, re.MULTILINE))
    assert [link for link in [*inline, *defined.values()] if not link.startswith("https://")] == []
    assert {*re.findall(r"\]\[([^\]]+)\]", text)} == {*defined}
    pictures = {*re.findall(r"!\[[^\]]+\]\[([^\]]+)\]", text)}
    assert pictures
    for picture in pictures:  # the others are pages, not the files themselves
        assert defined[picture].startswith("https://raw.githubusercontent.com/")


@pytest.mark.parametrize("page", ["explanation/reliability", "how-to/deploy", "how-to/containers"])
def test_every_test_that_proves_a_guarantee_exists(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+\.py)::(\w+)`", text)
    assert named
    for file, name in named:
        (path,) = (ROOT / "tests").rglob(file)
        assert re.search(rf"(def|class) {name}\b", path.read_text()), f"{file}::{name}"
