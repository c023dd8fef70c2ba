"""The project in the process of the tests: its admin, dashboard and endpoint."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from django.apps import apps
from django.contrib.auth import get_user_model
from django.test import Client

import django_host
import world
from wire import ENDPOINT, SECRET


def post(body: object, secret: str = SECRET, **options: Any) -> Any:  # noqa: ANN401 - a response
    """Post a payload, or a body, as the provider does."""
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    client = Client(enforce_csrf_checks=True, headers={"X-Provider-Secret": secret})
    return client.post(options.pop("path", f"/mail{ENDPOINT}"), data, "application/json", **options)


@dataclass(frozen=True, slots=True)
class Site:
    """The project, with the rows of the cases, and a client that is logged in."""

    url: str
    client: Client

    def receive(self, *bodies: object) -> list[int]:
        """Post payloads or bodies; return the statuses."""
        return [post(body).status_code for body in bodies]

    def get(self, path: str, **query: str) -> str:
        """Return the text of a page of the admin."""
        response = self.client.get(f"/admin/{path}", query)
        assert response.status_code == 200, (path, response.status_code)
        return response.content.decode()

    def act(self, path: str, action: str, *ids: object, **fields: str) -> str:
        """Run an action for rows; return the text of the next page."""
        chosen = {"action": action, "_selected_action": list(map(str, ids)), **fields}
        response = self.client.post(f"/admin/{path}", chosen, follow=True)
        assert response.status_code == 200, (path, response.status_code)
        return response.content.decode()

    def log_in(self, *permissions: str) -> None:
        """Log in as a member of the staff with these permissions only."""
        user = users().create_user(f"staff-{len(permissions)}", is_staff=True)
        known = apps.get_model("auth", "Permission").objects
        user.user_permissions.set(known.filter(codename__in=permissions))
        self.client.force_login(user)


@contextmanager
def site(url: str) -> Iterator[Site]:
    """Use a migrated database as the project's; fill it and log in a superuser."""
    with django_host.default(url):
        world.fill(url)
        client = Client()
        client.force_login(users().create_superuser("root"))
        yield Site(url, client)


def users() -> Any:  # noqa: ANN401 - of the project's user model
    return get_user_model()._default_manager
