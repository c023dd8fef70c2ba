"""The documentation site, as `make docs` builds it, is complete, and its search finds answers."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browser import Visitor, chromium
from playwright.sync_api import ViewportSize
from werkzeug.exceptions import NotFound
from werkzeug.middleware.shared_data import SharedDataMiddleware

from loopback import loopback
from session import ROOT

ZENSICAL = ROOT / ".venv-docs" / "bin" / "zensical"

DESK: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}

FIRST_RESULTS = {
    "GDPR": "how-to/privacy.html",
    "erase": "how-to/privacy.html",
    "Sentry": "how-to/sentry.html",
    "Docker": "how-to/containers.html",
    "Kubernetes": "how-to/containers.html",
    "failover": "how-to/failover.html",
    "several machines": "how-to/more-than-one-machine.html",
    "tenants": "how-to/tenants.html",
    "databases": "reference/databases.html",
    "MySQL": "how-to/mariadb.html",
    "MariaDB": "how-to/mariadb.html",
    "providers": "reference/providers.html",
    "SES": "how-to/providers/amazon-ses.html",
    "SendGrid": "how-to/providers/sendgrid.html",
    "PgBouncer": "how-to/failover.html",
    "OpenAPI": "how-to/openapi.html",
    "alerts": "how-to/metrics.html",
    "Windows": "how-to/windows.html",
    "upgrade": "how-to/upgrade.html",
    "deprecations": "reference/versions.html",
    "404 although the row exists": "how-to/troubleshooting.html",
    "Cc 400": "how-to/troubleshooting.html",
    "test mapping": "how-to/testing.html",
    "hook crash": "how-to/hooks-celery-rq.html",
    "proxy": "how-to/proxy.html",
    "changelog": "project/changelog.html",
    "security": "project/security.html",
    "contributing": "project/contributing.html",
    "How do I serve several tenants?": "how-to/tenants.html",
    "How do I erase a person?": "how-to/privacy.html",
    "How do I keep the secret out of Sentry?": "how-to/sentry.html",
    "What happens in a failover?": "how-to/failover.html",
    "Does it work with SES?": "how-to/providers/amazon-ses.html",
    "With MySQL?": "how-to/mariadb.html",
    "How do I run it on Kubernetes?": "how-to/containers.html",
    "Why does a Cc's delivery get a 400?": "how-to/troubleshooting.html",
    "Why a 404 although the row exists?": "how-to/troubleshooting.html",
    "How do I test my mapping?": "how-to/testing.html",
    "How do I upgrade?": "how-to/upgrade.html",
    "What is lost if a hook crashes?": "how-to/hooks-celery-rq.html",
    "401": "questions.html",
    "422": "questions.html",
    "503": "questions.html",
    "Cannot verify webhook": "questions.html",
    "Engine::Dispatch not found": "questions.html",
    "Engine::Subscriber not found": "questions.html",
    "Try again later": "questions.html",
    "Webhook payload not supported": "questions.html",
    "aws ses": "how-to/providers/amazon-ses.html",
    "connection pooler": "questions.html",
    "data protection": "how-to/privacy.html",
    "database down": "questions.html",
    "delete user data": "questions.html",
    "deprecation policy": "reference/versions.html",
    "duplicate notifications": "questions.html",
    "high availability": "how-to/more-than-one-machine.html",
    "hook raises exception": "how-to/hooks-celery-rq.html",
    "how do I get notified of every change": "questions.html",
    "k8s": "questions.html",
    "personal data retention": "how-to/privacy.html",
    "read only database": "questions.html",
    "right to be forgotten": "how-to/privacy.html",
    "supported python": "questions.html",
    "swagger": "how-to/openapi.html",
    "test locally": "questions.html",
    "webhook returns 404": "questions.html",
    "which Python versions": "questions.html",
    "windows service": "how-to/windows.html",
}
"""The page of the first result of each query, which answers it, or has the question."""

_WIDER_THAN_THEIR_BOX = """() =>
    [...document.querySelectorAll("pre code, .md-typeset__scrollwrap")]
    .filter(box => box.scrollWidth > box.clientWidth).map(box => box.textContent)"""
"""Code and tables that scroll."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site outside the repository; broken links, anchors and references are errors."""
    if not ZENSICAL.exists():
        reason = f"no {ZENSICAL}: make docs"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("site")
    for file in ("mkdocs.yml", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        shutil.copy(ROOT / file, folder)
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, folder / name)
    done = subprocess.run(
        [ZENSICAL, "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def pages(site: Path) -> Sequence[Path]:
    """Return all pages of the site."""
    found = [page for page in site.rglob("*.html") if page.name != "404.html"]
    assert len(found) > 20
    return found


def references(page: Path) -> Iterator[tuple[str, str]]:
    """Yield each address in a page, with the name of its element."""
    for element, attributes in re.findall(r"<(\w+)\b([^>]*)>", page.read_text(encoding="utf-8")):
        for quoted, bare in re.findall(r'\b(?:href|src)=(?:"([^"]*)"|([^\s">]+))', attributes):
            yield element, unescape(quoted or bare)


def test_every_address_exists(site: Path) -> None:
    """Only links lead to other servers: no script, style, font or image does."""
    for page in pages(site):
        for element, address in references(page):
            url = urlsplit(address)
            if url.scheme or url.netloc:
                assert element == "a", address
            elif url.path:
                assert (page.parent / unquote(url.path)).exists(), f"{page}: {address}"


@contextmanager
def visiting(site: Path) -> Iterator[Visitor]:
    """Serve the site, and open a window; its requests to other servers are faults."""
    files = SharedDataMiddleware(NotFound(), {"/": str(site)})
    with (
        loopback(files) as port,
        chromium() as browser,
        Visitor.at(browser, f"http://127.0.0.1:{port}/", viewport=DESK) as visitor,
    ):
        yield visitor


def test_the_browser_requests_no_other_server(site: Path) -> None:
    with visiting(site) as visitor:
        visitor.open("index.html")
        visitor.open("reference/api/receiver.html")
        assert visitor.shows("hookrow.Receiver")


def test_the_search_finds_the_page_that_answers(site: Path) -> None:
    with visiting(site) as visitor:
        visitor.open("index.html")
        visitor.page.get_by_role("button", name="Search").first.click()
        field = visitor.page.get_by_placeholder("Search")
        results = visitor.page.get_by_role("option")
        for query, page in FIRST_RESULTS.items():
            field.fill("")
            results.first.wait_for(state="detached")
            field.fill(query)
            results.first.wait_for()
            found = results.first.get_attribute("href")
            assert found is not None
            also = {"/questions.html"} if query.endswith("?") else set()
            assert urlsplit(found).path in {f"/{page}", *also}, query


def test_the_home_page_begins_with_an_example(site: Path) -> None:
    """What it is, how to install it and the example are visible without scrolling."""
    with visiting(site) as visitor:
        for window in (DESK, PHONE):
            visitor.page.set_viewport_size(window)
            visitor.open("index.html")
            install, example = (visitor.page.locator("pre").nth(n) for n in (0, 1))
            assert install.inner_text().strip() == "pip install hookrow"
            box = example.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= window["height"]


def test_code_and_tables_fit_their_boxes(site: Path) -> None:
    """On a desktop, nothing scrolls; on a phone, code and tables scroll only within their boxes."""
    with visiting(site) as visitor:
        for page in pages(site):
            visitor.page.set_viewport_size(DESK)
            visitor.open(page.relative_to(site).as_posix())
            assert visitor.page.evaluate(_WIDER_THAN_THEIR_BOX) == [], page
            assert not visitor.overflows(), page
            visitor.page.set_viewport_size(PHONE)
            assert not visitor.overflows(), page
