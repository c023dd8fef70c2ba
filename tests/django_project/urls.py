"""The pages: the admin, and the dashboard and the endpoint below /mail/."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("mail/dashboard/", include("hookrow.django.dashboard")),
    path("mail/", include("hookrow.django.urls")),
]
