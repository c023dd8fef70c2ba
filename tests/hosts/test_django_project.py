"""The contract of a host, in `examples/django_project` under servers of WSGI and of ASGI."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import ClassVar

import pytest
from host import GunicornContract, HostContract, Site
from process import EXAMPLES, uvicorn

from command import clean_environment
from wire import SECRET

PROJECT = EXAMPLES / "django_project"

SETTINGS = """
from project.settings import *
DATABASES["default"]["NAME"] = "hookrow.db"
"""
"""The example's own, but for the file of its database, which is in the folder of the test."""


def runserver(_: str, port: int) -> Sequence[str]:
    """Start Django's own server, which takes the application from the settings."""
    return "django-admin", "runserver", "--noreload", f"127.0.0.1:{port}"


class DjangoContract(HostContract):
    """The contract over tables that the project's migrations have made."""

    variables: ClassVar = {
        "PYTHONPATH": f".:{PROJECT}",
        "DJANGO_SETTINGS_MODULE": "settings_of_the_test",
    }

    settings = SETTINGS

    @pytest.fixture(scope="class")
    @classmethod
    def database_url(cls, tmp_path_factory: pytest.TempPathFactory) -> str:
        """Make the tables as the project does."""
        folder = tmp_path_factory.mktemp("database")
        (folder / "settings_of_the_test.py").write_text(cls.settings)
        subprocess.run(
            [sys.executable, PROJECT / "manage.py", "migrate", "-v0"],
            cwd=folder,
            env={**clean_environment(), "HOOKROW_SECRET": SECRET, **cls.variables},
            check=True,
            timeout=60,
        )
        return f"sqlite:///{folder}/hookrow.db"

    def test_an_address_in_another_case(self, site: Site) -> None:
        """It is the same subscriber's, when the host sends as when hookrow looks."""
        for address in ("hopper@example.com", "Hopper@Example.com"):
            self.send(site, address, address)


class TestRunserver(DjangoContract):
    command = staticmethod(runserver)
    app = "project.wsgi:application"
    continues_first = True
    takes_chunks = False  # wsgiref does not say where a body without a length ends
    waits_for_body = True  # nor does it hand out the connection
    stops_at_once = True  # it is made for trying
    many = 10  # so many may wait until it takes them


class TestGunicorn(GunicornContract, DjangoContract):
    app = "project.wsgi:application"


class TestUvicorn(DjangoContract):
    command = staticmethod(uvicorn)
    app = "project.asgi:application"
    reads_body_first = True  # Django has all of it before it looks for a view
    continues_first = True  # and so has asked for it
    waits_for_body = True  # and has no time limit there
    drops_the_gone = True  # until it has called the view


class TestUvicornInGroups(TestUvicorn):
    settings = f'{SETTINGS}HOOKROW["GROUP_COMMIT"] = True\n'
