"""The pages: the endpoint, below /mail/."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [path("mail/", include("hookrow.django.urls"))]
