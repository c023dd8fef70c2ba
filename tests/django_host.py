"""Django in the process of the tests: `examples/django_project`, with the app `crm`.

Importing this module configures Django; import models only after it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from itertools import count

import django
import pymysql
from django.apps import apps
from django.conf import settings
from django.db import connections
from django.test import override_settings

from django_project.manage import PROJECT, database
from wire import SECRET

if find_spec("MySQLdb") is None:  # mysqlclient, which has to be compiled
    pymysql.install_as_MySQLdb()
sys.path.append(str(PROJECT))
_EXAMPLE = {
    name: value for name, value in vars(import_module("project.settings")).items() if name.isupper()
}
_CHANGED = {
    "ALLOWED_HOSTS": ["*"],
    "DATABASES": {"default": database("sqlite:///:memory:")},
    "DEBUG": False,
    "HOOKROW": {"SECRET": SECRET},
    "INSTALLED_APPS": [*_EXAMPLE["INSTALLED_APPS"], "crm"],
    "MIDDLEWARE": [each for each in _EXAMPLE["MIDDLEWARE"] if "LoginRequired" not in each],
    "ROOT_URLCONF": "django_project.urls",
}
settings.configure(**_EXAMPLE | _CHANGED)
django.setup()

_numbers = count()


@contextmanager
def project(url: str, **hookrow: object) -> Iterator[str]:
    """Configure the project to record in a database; yield its alias."""
    with (
        alias(url) as name,
        override_settings(HOOKROW={"SECRET": SECRET, "DATABASE": name, **hookrow}),
    ):
        yield name


@contextmanager
def alias(url: str, name: str = "", **more: object) -> Iterator[str]:
    """Add a database with further settings to the project; yield its alias."""
    with _connected(name or f"home{next(_numbers)}", {**database(url), **more}) as alias:
        yield alias


@contextmanager
def default(url: str, **more: object) -> Iterator[None]:
    """Use a database as the project's default one, which also has users and sessions."""
    former = connections.settings["default"]
    _disconnect("default")
    try:
        with (
            _connected("default", {**database(url), **more}),
            override_settings(HOOKROW=settings.HOOKROW),  # replaces the receiver and the store
        ):
            apps.get_model("contenttypes", "ContentType").objects.clear_cache()
            yield
    finally:
        connections.settings["default"] = former


@contextmanager
def _connected(name: str, settings: dict[str, object]) -> Iterator[str]:
    others = {"default": connections.settings["default"]}
    connections.settings[name] = connections.configure_settings({**others, name: settings})[name]
    try:
        yield name
    finally:
        _disconnect(name)
        del connections.settings[name]


def _disconnect(name: str) -> None:
    connections[name].close()
    del connections[name]
