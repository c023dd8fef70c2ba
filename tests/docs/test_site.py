"""The documentation site: its navigation is complete, and its links lead to existing files.

`tests/acceptance/test_built_site.py` builds the site, which also checks anchors.
"""

import os
import re
import tomllib
from pathlib import Path

import pytest

from session import ROOT, execute, read_blocks, read_commands

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ADDRESSES = {*PROJECT["urls"].values()}
SOURCE = PROJECT["urls"]["Source"]
RAW = SOURCE.replace("github.com", "raw.githubusercontent.com")


def links(page: Path) -> list[str]:
    """Return the targets of a page's links and images, without anchors."""
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    targets = re.findall(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", text, re.MULTILINE)
    found = (inline or reference for inline, reference in targets)
    return [path for target in found if (path := target.partition("#")[0])]


def test_the_navigation_has_every_page_once() -> None:
    listed = re.findall(r"([\w/-]+\.md)$", NAVIGATION, re.MULTILINE)
    assert sorted(listed) == [page.relative_to(DOCS).as_posix() for page in PAGES]


@pytest.mark.parametrize("page", [*TOP, *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_existing_files(page: Path) -> None:
    """Pages of the site link to other files of the repository by their address."""
    root = DOCS if page.is_relative_to(DOCS) else ROOT
    for link in links(page):
        if link.startswith((f"{SOURCE}/", f"{RAW}/")) and link not in ADDRESSES:
            path = re.sub(rf"({SOURCE}/(blob|tree)|{RAW})/main/", "", link)
            assert (ROOT / path).exists(), link
        elif not link.startswith("http"):
            target = Path(os.path.normpath(page.parent / link))
            assert target.is_relative_to(root), link
            assert target.exists(), link


def test_the_home_page(capsys: pytest.CaptureFixture[str]) -> None:
    """Its example prints the documented output, and it mounts the receiver like the README."""
    example, mounted = read_blocks("docs/index.md", "python")
    execute(example)
    [session] = read_blocks("docs/index.md", "console")
    assert read_commands(session) == [("python example.py", capsys.readouterr().out)]
    assert mounted in read_blocks("README.md", "python")


@pytest.mark.parametrize("name", ["CHANGELOG", "CONTRIBUTING", "SECURITY"])
def test_the_site_includes_a_file_of_the_repository(name: str) -> None:
    """Its links to pages are references, which the file and the page of the site both define."""
    text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
    assert not re.search(r"\]\((?!https?://|#)", text)
    first, *others = (DOCS / f"project/{name.lower()}.md").read_text(encoding="utf-8").splitlines()
    assert first == f'{{% include-markdown "../../{name}.md" %}}'
    defined = re.findall(r"^(\[[^\]]+\]: )docs/(\S+)$", text, re.MULTILINE)
    assert [*filter(None, others)] == [f"{label}../{page}" for label, page in defined]
