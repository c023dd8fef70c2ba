"""Where the Django project takes notifications: with anymail, and with hookrow."""

from __future__ import annotations

from django.urls import include, path

import peers.django_anymail  # noqa: F401 - it receives anymail's signal

urlpatterns = [
    path("anymail/", include("anymail.urls")),
    path("", include("hookrow.django.urls")),
]
