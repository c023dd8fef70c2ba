"""The URLs of the example, and the dashboard."""

from django.urls import include, path
from project import urls

urlpatterns = [
    path("mail/dashboard/", include("hookrow.django.dashboard")),
    *urls.urlpatterns,
]
