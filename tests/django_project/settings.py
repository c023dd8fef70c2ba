"""The settings. `HOOKROW_TEST_DJANGO` may hold others, as JSON; `DATABASE_URL` names the database.

A folder without it is given an SQLite file.
"""

from __future__ import annotations

import json
import os
from typing import Any

from sqlalchemy import make_url

from wire import SECRET


def database(url: str) -> dict[str, Any]:
    """Return what Django calls the database of a URL."""
    parsed = make_url(url)
    if parsed.drivername == "sqlite":
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": parsed.database}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parsed.database,
        "USER": parsed.username or "",
        "HOST": parsed.query.get("host") or parsed.host or "",
        "PORT": str(parsed.query.get("port") or parsed.port or ""),
    }


SECRET_KEY = "of-the-tests"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "testserver"]
ROOT_URLCONF = "django_project.urls"
WSGI_APPLICATION = "django_project.wsgi.application"
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
DATABASES = {"default": database(os.environ.get("DATABASE_URL", "sqlite:///project.db"))}
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "hookrow.django",
    "hookrow.django.tables",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # quick
HOOKROW: dict[str, object] = {"SECRET": SECRET}

globals().update(json.loads(os.environ.get("HOOKROW_TEST_DJANGO", "{}")))
