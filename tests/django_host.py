"""Django within the tests' own process: configured once, with a database more for each home.

To import it is to configure Django; what is imported after it may have models.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import django
from django.conf import settings
from django.db import connections
from django.test import override_settings

from django_project.settings import database
from wire import SECRET

settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    HOOKROW={"SECRET": SECRET},
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "hookrow.django",
        "hookrow.django.tables",
        "crm",
    ],
    MIDDLEWARE=[
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
    ],
    ROOT_URLCONF="crm.urls",
    SECRET_KEY="of-the-tests",
    USE_TZ=True,
)
django.setup()

_numbers = count()


@contextmanager
def project(url: str, **hookrow: object) -> Iterator[str]:
    """Have the project record in this database, with such settings; return its alias."""
    with (
        alias(url) as name,
        override_settings(HOOKROW={"SECRET": SECRET, "DATABASE": name, **hookrow}),
    ):
        yield name


@contextmanager
def alias(url: str, **more: object) -> Iterator[str]:
    """Add a database to the project's, with more settings, and return its alias."""
    name = f"home{next(_numbers)}"
    added = connections.configure_settings(
        {"default": settings.DATABASES["default"], name: {**database(url), **more}}
    )
    connections.settings[name] = added[name]
    try:
        yield name
    finally:
        connections[name].close()
        del connections[name]
        del connections.settings[name]
