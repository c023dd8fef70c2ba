"""The project within the tests' own process, where Django is configured: its admin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import connections
from django.test import Client, override_settings

import django_host  # noqa: F401 - configures Django, before models are imported
import world
from django_project import settings
from hookrow.django.models import Notification
from wire import ENDPOINT, SECRET

_SETTINGS = (
    *("INSTALLED_APPS", "MIDDLEWARE", "PASSWORD_HASHERS", "ROOT_URLCONF"),
    *("STATIC_URL", "TEMPLATES"),
)


@dataclass(frozen=True, slots=True)
class Site:
    """The project, with the world's rows in its tables, and a client that is logged in."""

    url: str
    client: Client

    def receive(self, *payloads: object) -> list[int]:
        """Post payloads, or bodies as they are; return the statuses."""
        return [
            Client()
            .post(
                f"/mail{ENDPOINT}",
                payload if isinstance(payload, bytes) else msgspec.json.encode(payload),
                content_type="application/json",
                headers={"X-Provider-Secret": SECRET},
            )
            .status_code
            for payload in payloads
        ]

    def get(self, path: str, **query: str) -> str:
        """Return the text of a page of the admin."""
        response = self.client.get(f"/admin/{path}", query)
        assert response.status_code == 200, (path, response.status_code)
        return response.content.decode()

    def act(self, path: str, action: str, *ids: int | str, **fields: str) -> str:
        """Choose an action for rows; return the text of the page that follows."""
        chosen = {"action": action, "_selected_action": [str(id_) for id_ in ids], **fields}
        response = self.client.post(f"/admin/{path}", chosen, follow=True)
        assert response.status_code == 200, (path, response.status_code)
        return response.content.decode()

    def log_in(self, *permissions: str) -> None:
        """Go on as one of the staff who may do this, and no more."""
        user = _users().create_user(f"staff-{len(permissions)}", is_staff=True)
        known = apps.get_model("auth", "Permission").objects
        user.user_permissions.set(known.filter(codename__in=permissions))
        self.client.force_login(user)


@contextmanager
def site(url: str) -> Iterator[Site]:
    """Have the project on a database that its migrations made, with the world in it."""
    changed: dict[str, Any] = {name: getattr(settings, name) for name in _SETTINGS}
    changed["INSTALLED_APPS"] = [*settings.INSTALLED_APPS, "crm"]
    with _default(url), override_settings(**changed):
        apps.get_model("contenttypes", "ContentType").objects.clear_cache()  # of another database
        Notification.objects.all().delete()
        _users().all().delete()
        world.fill(url)
        client = Client()
        client.force_login(_users().create_superuser("root"))
        yield Site(url, client)


@contextmanager
def _default(url: str) -> Iterator[None]:
    """Put the database in the place of the project's own, whose alias is "default"."""
    before = connections.settings["default"]
    changed = connections.configure_settings({"default": settings.database(url)})
    connections["default"].close()
    connections.settings["default"] = changed["default"]
    del connections["default"]
    try:
        yield
    finally:
        connections["default"].close()
        connections.settings["default"] = before
        del connections["default"]


def _users() -> Any:  # noqa: ANN401 - whatever the project's users are
    return get_user_model()._default_manager
