"""The URLs: `path("mail/", include("hookrow.django.urls"))`, with a slash at the end or without."""

from __future__ import annotations

from django.urls import path, re_path

from hookrow.django.mapping import LOG, find_model
from hookrow.django.views import webhooks
from hookrow.receiver import ENDPOINT

app_name = "hookrow"

_PATH = ENDPOINT.removeprefix("/")

urlpatterns = [
    path(_PATH, webhooks, name="webhooks"),
    re_path(f"^[/]?{_PATH}/?$", webhooks),  # below path("mail", ...), too
]

find_model(LOG)  # says which app is missing, where the settings have the URLs alone
