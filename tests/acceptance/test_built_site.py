"""The documentation site, as `make docs` builds it, is complete and requests no other server."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browser import Visitor, chromium
from werkzeug.exceptions import NotFound
from werkzeug.middleware.shared_data import SharedDataMiddleware

from loopback import loopback
from session import ROOT

ZENSICAL = ROOT / ".venv-docs" / "bin" / "zensical"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site outside the repository; broken links, anchors and references are errors."""
    if not ZENSICAL.exists():
        reason = f"no {ZENSICAL}: make docs"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, folder / name)
    done = subprocess.run(
        [ZENSICAL, "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def references(page: Path) -> Iterator[tuple[str, str]]:
    """Yield each address in a page, with the name of its element."""
    for element, attributes in re.findall(r"<(\w+)\b([^>]*)>", page.read_text(encoding="utf-8")):
        for quoted, bare in re.findall(r'\b(?:href|src)=(?:"([^"]*)"|([^\s">]+))', attributes):
            yield element, unescape(quoted or bare)


def test_every_address_exists(site: Path) -> None:
    """Only links lead to other servers: no script, style, font or image does."""
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]
    assert len(pages) > 20
    for page in pages:
        for element, address in references(page):
            url = urlsplit(address)
            if url.scheme or url.netloc:
                assert element == "a", address
            elif url.path:
                assert (page.parent / unquote(url.path)).exists(), f"{page}: {address}"


def test_the_browser_requests_no_other_server(site: Path) -> None:
    files = SharedDataMiddleware(NotFound(), {"/": str(site)})
    with (
        loopback(files) as port,
        chromium() as browser,
        Visitor.at(browser, f"http://127.0.0.1:{port}/") as visitor,
    ):
        visitor.open("index.html")
        visitor.page.get_by_role("button", name="Search").first.click()
        visitor.page.get_by_placeholder("Search").fill("glossary")
        assert visitor.shows("The terms of this documentation")
        visitor.open("reference/api/receiver.html")
        assert visitor.shows("hookrow.Receiver")
