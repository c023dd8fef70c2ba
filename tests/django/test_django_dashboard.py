"""The dashboard in a Django project: permissions for its pages and forms."""

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth import get_user_model
from django.test import AsyncClient, RequestFactory

from django_project.site import Site
from hookrow import testing
from hookrow.dashboard._app import SECURITY_HEADERS
from hookrow.django import store
from hookrow.django._receiver import parsers
from hookrow.django.dashboard import _handler, _respond
from hookrow.django.tables.models import Subscriber
from visitor import broken_links
from wire import ADA, AT, DELIVERY

pytest_plugins = ["django_project.databases"]

MOUNT = "/mail/dashboard/"


@pytest.fixture
def project(sqlite_site: Site) -> Iterator[Site]:
    sqlite_site.receive(DELIVERY)
    yield sqlite_site
    _handler(store(), parsers(), keep_bodies=True).close(20)


def get(project: Site, place: str = "notifications", **query: str) -> Any:  # noqa: ANN401 - a response
    return project.client.get(f"{MOUNT}{place}", query)


def test_the_pages(project: Site) -> None:
    """The pages work below the project's path, with their security headers."""
    response = get(project)
    assert response.status_code == 200
    assert SECURITY_HEADERS.items() <= {**response.headers}.items()
    assert ADA in response.content.decode()
    assert get(project, "static/dashboard.css").status_code == 200
    assert get(project, "nowhere").status_code == 404


def test_the_first_start(sqlite_site: Site) -> None:
    """The overview has the URL of the project's endpoint, and the project's command."""
    page = sqlite_site.client.get(MOUNT).content.decode()
    _handler(store(), parsers(), keep_bodies=True).close(20)
    url = "http://localhost/mail/provider/webhooks"
    assert f'<code class="line">{url}</code>' in page
    assert f"python manage.py hookrow simulate delivery ada@example.com m-1 --url {url}<" in page


def test_links(project: Site) -> None:
    """Every link, asset and form of a page leads to a page, also with a slash in its URL."""

    def get(url: str) -> tuple[int, str]:
        response = project.client.get(url)
        return response.status_code, (b"" if response.streaming else response.content).decode()

    assert not broken_links(get)


def test_anonymous_users_log_in_first(project: Site) -> None:
    """Without a login, the pages redirect to the admin's login."""
    project.client.logout()
    response = get(project)
    assert response.status_code == 302
    assert response.headers["Location"].startswith("/admin/login/?next=/mail/dashboard/")


def test_permissions(project: Site) -> None:
    """The admin's permissions apply: to view the log, to replay, and to change subscribers."""
    project.log_in()
    assert get(project).status_code == 403
    project.log_in("view_notification")
    assert get(project).status_code == 200
    for page, query in (("subscriber", {"email": ADA}), ("notification", {"id": "1"})):
        assert b'method="post"' not in get(project, page, **query).content
        assert project.client.post(f"{MOUNT}{page}").status_code == 403
    assert project.client.post(f"{MOUNT}parked").status_code == 403
    project.log_in("view_notification", "replay_notification", "change_subscriber")
    page = get(project, "subscriber", email=ADA)
    assert b'method="post"' in page.content
    form = urlencode({"action": "suppress", "reason": "asked"})
    posted = (f"{MOUNT}subscriber?email={ADA}", form, "application/x-www-form-urlencoded")
    assert project.client.post(*posted).status_code == 403  # of an unknown origin
    own = {"Sec-Fetch-Site": "same-origin"}
    assert project.client.post(*posted, headers=own).status_code == 303
    replay = (f"{MOUNT}parked", "action=replay", "application/x-www-form-urlencoded")
    assert b"No notification was replayed." in project.client.post(*replay, headers=own).content
    assert Subscriber.objects.get(email=ADA).suppression_reason == "asked"
    assert "staff-3" in get(project, "notification", id="2").content.decode()


@pytest.mark.usefixtures("project")
def test_a_form_that_a_middleware_has_read() -> None:
    """It gets a 408, because Django does not have the body any more."""
    form = urlencode({"action": "suppress", "reason": "asked"})
    kind = "application/x-www-form-urlencoded"
    request = RequestFactory().post(f"{MOUNT}subscriber?email={ADA}", form, kind)
    request.user = get_user_model()._default_manager.get(username="root")
    request.read()
    assert _respond(request, "subscriber").status_code == 408
    assert Subscriber.objects.get(email=ADA).suppressed_at is None


def test_a_download(project: Site) -> None:
    """Suppressions are streamed on WSGI and ASGI, to users who may view the log."""
    project.receive(testing.suppression(ADA, None, at=AT))
    project.log_in()
    assert get(project, "suppressions.csv").status_code == 403
    project.log_in("view_notification")
    response = get(project, "suppressions.csv")
    assert (response.streaming, response.headers["Content-Type"]) == (
        True,
        "text/csv; charset=utf-8",
    )
    text = response.getvalue().decode()
    assert f"{ADA},HardBounce,2026-03-04T05:06:07" in text
    assert project.client.head(f"{MOUNT}suppressions.csv").getvalue() == b""
    assert ADA in get(project, "suppressions").content.decode()
    user = get_user_model()._default_manager.get(username="staff-1")
    assert asyncio.run(downloaded(user)) == text


async def downloaded(user: Any) -> str:  # noqa: ANN401 - of the project's user model
    """Download with ASGI, for which Django needs an asynchronous iterator."""
    client = AsyncClient()
    await client.aforce_login(user)
    response: Any = await client.get(f"{MOUNT}suppressions.csv")
    assert response.is_async
    return b"".join([chunk async for chunk in response]).decode()
