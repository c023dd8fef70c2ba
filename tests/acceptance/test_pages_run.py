"""The pages on hosts and on the dashboard, followed as a reader would: copy, type, compare."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from session import ROOT, read_blocks, read_commands, read_files, terminal
from wire import ask, get, request

HOSTS = [page.stem for page in (ROOT / "docs" / "hosts").glob("*.md")]


@pytest.mark.parametrize("host", sorted({*HOSTS} - {"README", "django"}))
def test_a_host_does_what_its_page_says(host: str, tmp_path: Path) -> None:
    """Each command prints what stands below it, and the application knows its own mails."""
    [code] = read_blocks(f"docs/hosts/{host}.md", "python")
    [session] = read_blocks(f"docs/hosts/{host}.md", "console")
    (tmp_path / f"{host}_app.py").write_text(code)
    with terminal(tmp_path) as shell:
        for line, expected in read_commands(session):
            assert without_times(shell.type(line)) == without_times(expected)
        saved = request(b"", "/dispatches?email=Ada@EXAMPLE.com&message_id=m-2", secret=None)
        assert ask(shell.port, saved).status == 201
        assert get(shell.port, "/dispatches/m-2").status == 200
        assert get(shell.port, "/dispatches/m-3").status == 404
    assert (tmp_path / "hookrow.db").is_file()


def test_the_dashboard_does_what_its_page_says(tmp_path: Path) -> None:
    """Each command of the page prints what stands below it."""
    code = read_files("docs/dashboard.md")["dashboard_app.py"]
    [session] = read_blocks("docs/dashboard.md", "console")
    (tmp_path / "dashboard_app.py").write_text(code)
    with terminal(tmp_path) as shell:
        for line, expected in read_commands(session):
            assert shell.type(line).strip() == expected.strip() or not expected


def without_times(text: str) -> str:
    """Replace every time, which is now."""
    return re.sub(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d\.\d{3,6}", r"TIME\1", text).strip()
