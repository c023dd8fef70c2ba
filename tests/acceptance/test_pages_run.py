"""The pages on hosts and on the dashboard: their files and commands work as documented."""

import re
from pathlib import Path

import pytest

from django_project.page import PAGE, TRY, start
from session import ROOT, read_blocks, read_commands, read_files, terminal

HOSTS = {page.stem for page in (ROOT / "docs/how-to/hosts").glob("*.md")} - {"index"}

TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{3,6}Z?")


def follow(page: str, folder: Path) -> None:
    """Run each command of a page; assert that it prints the documented output, except for times."""
    [session] = read_blocks(page, "console")
    commands = read_commands(session)
    assert commands
    with terminal(folder) as shell:
        for line, expected in commands:
            printed = TIME.sub("", shell.type(line)).strip()
            is_omitted = line == "hookrow db upgrade" and not expected
            assert printed == TIME.sub("", expected).strip() or is_omitted, line


@pytest.mark.parametrize("host", sorted(HOSTS - {"django"}))
def test_host(host: str, tmp_path: Path) -> None:
    [code] = read_blocks(f"docs/how-to/hosts/{host}.md", "python")
    (tmp_path / f"{host}_app.py").write_text(code)
    follow(f"docs/how-to/hosts/{host}.md", tmp_path)
    assert (tmp_path / "hookrow.db").is_file()


def test_django(tmp_path: Path) -> None:
    start(tmp_path, TRY)
    follow(PAGE, tmp_path)


def test_dashboard(tmp_path: Path) -> None:
    code = read_files("docs/how-to/dashboard.md")["dashboard_app.py"]
    (tmp_path / "dashboard_app.py").write_text(code)
    follow("docs/how-to/dashboard.md", tmp_path)
