"""The page on the dashboard: its code runs, and its pictures exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client, override_settings

import django_host  # noqa: F401 - configures Django
from hookrow import Head, Request, Response
from hookrow.dashboard import Dashboard
from hookrow.stores.memory import MemoryStore
from hookrow.testing.applications import call_wsgi
from session import ROOT, read_files


def execute(name: str) -> dict[str, Any]:
    """Run a file of the page; return its names."""
    names: dict[str, Any] = {}
    exec(read_files("docs/dashboard.md")[name], names)
    return names


def test_wsgi(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The WSGI application requires the password below the mount path, and only there."""
    assert sqlite_url.endswith("hookrow.db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DASHBOARD_PASSWORD", "of-the-tests")
    app = execute("dashboard_wsgi.py")["app"]
    asked = [Request(Head("GET", path, ()), b"") for path in ("/mail/dashboard/", "/")]
    assert [call_wsgi(app, each)[0] for each in asked] == [401, 404]


@pytest.mark.parametrize(
    ("headers", "status"),
    [([], 303), ([(b"cookie", b"session=of-eve")], 403), ([(b"cookie", b"session=of-ada")], 200)],
)
def test_a_check_of_your_own(headers: list[tuple[bytes, bytes]], status: int) -> None:
    """The example of `authorize` admits, redirects and refuses."""
    authorize = execute("dashboard_sessions.py")["authorize"]
    dashboard = Dashboard(MemoryStore(), authorize=authorize)
    answer = dashboard.admit(Head("GET", "/", headers)) or Response(200, b"", {})
    assert isinstance(answer, Response)
    assert answer.status == status


def test_django() -> None:
    """The page's URLs have the dashboard, which sends visitors to the admin's login."""
    urls = execute("project/urls.py")["urlpatterns"]
    with override_settings(ROOT_URLCONF=tuple(urls)):
        answer = Client().get("/mail/dashboard/")
    assert answer.headers["Location"] == "/admin/login/?next=/mail/dashboard/"


def test_pictures() -> None:
    """Each screenshot that the page shows exists."""
    page = (ROOT / "docs" / "dashboard.md").read_text(encoding="utf-8")
    pictures = re.findall(r"\]\((dashboard/\S+\.png)\)", page)
    assert pictures
    assert all((ROOT / "docs" / picture).is_file() for picture in pictures)
