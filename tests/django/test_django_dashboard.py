"""The dashboard in a Django project: who may come in, and what they may do there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest

from django_project.manage import Manage
from django_project.site import Site, site
from hookrow import testing
from hookrow.dashboard.handler import SECURITY
from hookrow.django import store
from hookrow.django.dashboard import _dashboard
from hookrow.django.tables.models import Subscriber
from wire import PATIENCE

ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
MOUNT = "/mail/dashboard/"


@pytest.fixture(scope="module")
def _url(new_database: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> str:
    url = new_database("sqlite")
    done = Manage(tmp_path_factory.mktemp("migrated"), url).run("migrate", "-v0")
    assert done.returncode == 0, done.stderr
    return url


@pytest.fixture
def project(_url: str) -> Iterator[Site]:
    """Return the project, with a superuser logged in and a notification received."""
    with site(_url) as project:
        project.receive(testing.delivery(ADA, ADAS, at=AT))
        yield project
        _dashboard(store(), keep_bodies=True).close(PATIENCE)  # it may be counting


def get(project: Site, place: str = "notifications", **query: str) -> Any:  # noqa: ANN401 - a response
    """Ask for a page."""
    return project.client.get(f"{MOUNT}{place}", query)


def suppress(project: Site) -> int:
    """Fill in the form of Ada's page, and send it; return the status."""
    page = get(project, "subscriber", email=ADA)
    if cookie := page.headers.get("Set-Cookie"):
        name, _, value = cookie.partition(";")[0].partition("=")
        project.client.cookies[name] = value
    [token] = re.findall('name="token" value="(.+?)"', page.content.decode())
    form = urlencode({"token": token, "action": "suppress", "reason": "asked"})
    posted = (f"{MOUNT}subscriber?email={ADA}", form, "application/x-www-form-urlencoded")
    response = project.client.post(*posted)
    return int(response.status_code)


def test_the_staff_looks(project: Site) -> None:
    """The pages are there, wherever they are mounted, with what protects them."""
    response = get(project)
    assert response.status_code == 200
    assert SECURITY.items() <= {**response.headers}.items()
    assert ADA in response.content.decode()
    assert get(project, "static/dashboard.css").status_code == 200
    assert get(project, "nowhere").status_code == 404


@pytest.mark.parametrize("secure", [True, False])
def test_the_cookie_of_https(project: Site, *, secure: bool) -> None:
    """It never goes by plain http where it was given by https."""
    response = project.client.get(f"{MOUNT}notifications", secure=secure)
    assert ("Secure" in response.headers["Set-Cookie"]) is secure


def test_who_is_not_logged_in_is_sent_to_do_so(project: Site) -> None:
    """It is the admin's own page for that."""
    project.client.logout()
    response = get(project)
    assert response.status_code == 302
    assert response.headers["Location"].startswith("/admin/login/?next=/mail/dashboard/")


def test_permissions(project: Site) -> None:
    """They are the admin's: to look, to replay, to change whatever the subscribers are."""
    project.log_in()
    assert get(project).status_code == 403
    project.log_in("view_notification")
    assert get(project).status_code == 200
    for page, query in (("subscriber", {"email": ADA}), ("notification", {"id": "1"})):
        assert b"<form" not in get(project, page, **query).content
        assert project.client.post(f"{MOUNT}{page}").status_code == 403
    project.log_in("view_notification", "replay_notification", "change_subscriber")
    assert suppress(project) == 303
    assert Subscriber.objects.get(email=ADA).suppression_reason == "asked"
    assert "staff-3" in get(project, "notification", id="2").content.decode()
    assert project.client.post(f"{MOUNT}notification?id=1").status_code == 403  # without a token
