"""The URLs of the endpoint: `path("mail/", include("hookrow.django.urls"))`.

Each entry of the receiver has one, whose name is that of the entry. A trailing slash in the
endpoint's path is optional.
"""

from __future__ import annotations

from django.apps import apps
from django.core.checks import CheckMessage
from django.urls import URLPattern, path, re_path
from django.urls.resolvers import RoutePattern

from hookrow._http import ENDPOINT
from hookrow.django._checks import check
from hookrow.django._views import webhooks

app_name = "hookrow"

_PATH = ENDPOINT.removeprefix("/")


class _Endpoint(URLPattern):
    """Runs hookrow's system checks if the app that registers them is not installed."""

    def check(self) -> list[CheckMessage]:
        messages = super().check()
        return messages if apps.is_installed("hookrow.django") else [*messages, *check(None)]


urlpatterns: list[URLPattern] = [
    _Endpoint(RoutePattern(_PATH, name="webhooks", is_endpoint=True), webhooks, name="webhooks"),
    path(f"{_PATH}/<name>", webhooks, name="webhooks"),
    # With path("mail", ...), the rest of the path begins with a slash.
    re_path(f"^[/]?{_PATH}/?$", webhooks),
    re_path(f"^[/]?{_PATH}/(?P<name>[^/]+)/?$", webhooks),
]
