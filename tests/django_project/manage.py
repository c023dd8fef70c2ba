"""The project in other processes: its commands and servers."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import make_url

import process
from command import Command, Serving
from databases import kind_of
from wire import SECRET

PROJECT = process.EXAMPLES / "django_project"

PYTHONPATH = f"{PROJECT}:{Path(__file__).parents[1]}"
"""The folders of the project and of the test modules that its settings name."""

_SETTINGS = """
import json
from importlib.util import find_spec
import pymysql
import hookrow._http
from project.settings import *
hookrow._http.BODY_TIMEOUT = 1.0
if find_spec("MySQLdb") is None:
    pymysql.install_as_MySQLdb()
globals().update(json.loads({!r}))
"""


def database(url: str) -> dict[str, Any]:
    """Return Django's settings for the database of a URL."""
    return kind_of(url).django(make_url(url))


def runserver(_: str, port: int) -> Sequence[str]:
    """Start Django's own server, which runs the application in the settings."""
    return "django-admin", "runserver", "--noreload", f"127.0.0.1:{port}"


class Manage(Command):
    """Runs `python -m django` for the project on a database, with further settings."""

    def __init__(self, folder: Path, url: str, **settings: object) -> None:
        super().__init__(folder, (sys.executable, "-m", "django"))
        given = {"DATABASES": {"default": database(url)}, "HOOKROW": {"SECRET": SECRET}}
        given |= {"ROOT_URLCONF": "django_project.urls", "LOGIN_URL": "/admin/login/", **settings}
        (folder / "settings_of_the_test.py").write_text(_SETTINGS.format(json.dumps(given)))
        self._variables = {
            "DJANGO_SETTINGS_MODULE": "settings_of_the_test",
            "PYTHONPATH": f"{folder}:{PYTHONPATH}",
        }

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a process, with these variables."""
        return super().environment(self._variables | dict(variables))

    @contextmanager
    def serving_by(self, command: process.Command, app: str = "") -> Iterator[Serving]:
        """Serve the project until the block ends."""
        with process.running(command, app, self.folder, self._variables) as serving:
            yield serving
