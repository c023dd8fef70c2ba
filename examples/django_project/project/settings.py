"""The settings of `startproject`, with a required login; those of hookrow are at the end."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).parents[1]

DEBUG = True
SECRET_KEY = "only-for-this-example"  # noqa: S105 - each project needs its own key
ALLOWED_HOSTS: list[str] = []  # with DEBUG, only this machine
ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
STATIC_URL = "static/"
TIME_ZONE = "UTC"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "db.sqlite3"}}

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
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

INSTALLED_APPS += [
    "hookrow.django",  # the endpoint, the log and its admin, `manage.py hookrow`
    "hookrow.django.tables",  # subscribers, lists, subscriptions and dispatches
]

HOOKROW = {
    "SECRET": os.environ.get("HOOKROW_SECRET"),
    "PREVIOUS_SECRET": os.environ.get("HOOKROW_PREVIOUS_SECRET"),
    "SWEEP": True,  # retries notifications that arrive before their dispatch is committed
}
