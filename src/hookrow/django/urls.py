"""The URLs: `path("mail/", include("hookrow.django.urls"))`, with a slash at the end or without.

To include them is to have the settings looked at, so that what is wrong is said at once.
"""

from __future__ import annotations

from django.urls import path

from hookrow.django.receiving import refuse_misconfigured
from hookrow.django.views import webhooks
from hookrow.receiver import ENDPOINT

app_name = "hookrow"

urlpatterns = [
    path(ENDPOINT.removeprefix("/"), webhooks, name="webhooks"),
    path(f"{ENDPOINT.removeprefix('/')}/", webhooks),
]

refuse_misconfigured()
