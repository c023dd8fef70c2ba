"""A Django project for gunicorn with threads: `hosted:application`.

It has what `startproject` gives, and keeps its connections. `BENCH_WAY` says who answers:
hookrow in the thread of the `request`, hookrow with `group` commit, or a `plain` view.
"""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.urls import include, path

from data import SECRET
from django_project.settings import database

_way = os.environ["BENCH_WAY"]
_database = database(os.environ["BENCH_DATABASE_URL"])

settings.configure(
    ALLOWED_HOSTS=["localhost", "127.0.0.1"],
    DATABASES={"default": _database | {"CONN_MAX_AGE": None}},
    HOOKROW={"SECRET": SECRET, "GROUP_COMMIT": _way == "group"},
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.messages",
        "django.contrib.sessions",
        "hookrow.django",
        "hookrow.django.tables",
    ],
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    ],
    ROOT_URLCONF=__name__,
    SECRET_KEY="of-the-benchmark",
    USE_TZ=True,
)
application = get_wsgi_application()

urlpatterns: list[Any]
if _way == "plain":
    from plain import webhooks

    urlpatterns = [path("provider/webhooks", webhooks)]
else:
    urlpatterns = [path("", include("hookrow.django.urls"))]
