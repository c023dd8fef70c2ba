"""A Django project for gunicorn with threads: what `startproject` gives, and what each needs.

Connections are kept, and SQLite is set up as Django's documentation advises for production.
"""

from __future__ import annotations

import os
from typing import Any

from sqlalchemy import make_url

from data import SECRET

_url = make_url(os.environ["BENCH_DATABASE_URL"])
_ENGINES: dict[str, dict[str, Any]] = {
    "sqlite": {
        "ENGINE": "django.db.backends.sqlite3",
        "OPTIONS": {
            "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;",
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
        },
    },
    "postgresql": {
        "ENGINE": "django.db.backends.postgresql",
        "USER": _url.username,
        "HOST": _url.query.get("host", ""),
    },
}

ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
ANYMAIL = {"WEBHOOK_SECRET": f"postmark:{SECRET}"}
DATABASES = {
    "default": _ENGINES[_url.drivername] | {"NAME": _url.database, "CONN_MAX_AGE": None},
}
HOOKROW = {"SECRET": SECRET, "GROUP_COMMIT": True}
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "anymail",
    "hookrow.django",
    "hookrow.django.tables",
]
LOGGING = {"version": 1, "loggers": {"hookrow": {"level": "ERROR"}}}
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "peers.django_urls"
SECRET_KEY = "of-the-benchmark"
USE_TZ = True
