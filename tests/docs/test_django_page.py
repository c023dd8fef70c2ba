"""The page on Django: its code runs, and its tables are complete."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.test import Client, override_settings

import django_host
from command import Command
from django_project.page import FILES, GO_ON, PAGE, TEXT, TRY, start
from django_project.site import users
from hookrow.django import checks
from hookrow.django.commands import commands
from hookrow.django.conf import NAMES, conf
from hookrow.django.tables.models import Dispatch, Subscriber
from hookrow.testing import StoreContract
from session import ROOT, read_blocks
from wire import SECRET

PROJECT = ROOT / "examples/django_project"


def test_it_shows_the_example() -> None:
    """The code is the example's, whose docstring has the same commands."""
    for name, text in FILES.findall(TRY):
        code = text.removeprefix("import os\n\n")
        assert (PROJECT / name).read_text().endswith(f"\n\n{code}")
    top = (PROJECT / "manage.py").read_text()
    [install], [session] = read_blocks(PAGE, "sh"), read_blocks(PAGE, "console")
    assert install.splitlines()[0] in top
    for command in ("HOOKROW_SECRET=", "migrate", "createsuperuser", "runserver", "curl -X POST"):
        assert command in top
        assert command in session


def test_your_own_models(tmp_path: Path) -> None:
    """The project of the page has no warnings, makes its migrations, and passes its tests."""
    start(tmp_path, GO_ON)
    mount = next(line for line in TRY.splitlines() if "hookrow.django.urls" in line)
    (tmp_path / "project/urls.py").write_text(
        "from django.urls import include, path\n"
        f"urlpatterns = [{mount.partition('  #')[0].strip()}]\n"
    )
    variables = {"HOOKROW_SECRET": SECRET, "DJANGO_SETTINGS_MODULE": "project.settings"}
    done = Command(tmp_path).execute(sys.executable, "-c", _TEST, **variables)
    assert done.returncode == 0, done.stderr
    contract = [name for name in dir(StoreContract) if name.startswith("test_")]
    assert f"Ran {2 + len(contract)} tests" in done.stderr


_TEST = """
import importlib
import django
from django.core.management import call_command
django.setup()
call_command("makemigrations", "crm")
importlib.invalidate_caches()
call_command("check", fail_level="WARNING")
call_command("test")
"""


def test_another_database(tmp_path: Path) -> None:
    """With the router of the page, the checks pass, and the admin uses the other database."""
    named: dict[str, Any] = {}
    exec(dict(FILES.findall(TEXT))["project/routers.py"], named)
    router = named["MailRouter"]()
    with (
        django_host.default(f"sqlite:///{tmp_path}/project.db"),
        django_host.alias(f"sqlite:///{tmp_path}/mail.db", name="mail"),
        override_settings(
            HOOKROW={"SECRET": SECRET, "DATABASE": "mail"}, DATABASE_ROUTERS=[router]
        ),
    ):
        assert run_checks(tags=["hookrow"]) == []
        for alias in ("default", "mail"):
            call_command("migrate", verbosity=0, database=alias)
        ada = Subscriber.objects.create(email="ada@example.com")
        sent = Dispatch.objects.create(subscriber=ada)
        client = Client()
        client.force_login(users().create_superuser("root"))
        for page in (f"dispatch/{sent.pk}/change/", "dispatch/", "subscriber/add/"):
            assert client.get(f"/admin/hookrow_tables/{page}").status_code == 200


class TestTables:
    @pytest.mark.parametrize("name", NAMES)
    def test_settings(self, name: str) -> None:
        """Each setting has a row, with its default."""
        with override_settings(HOOKROW={}):
            default = None if name == "TABLES" else getattr(conf, name.lower())
        shown = "" if name == "SECRET" else f"`{default!r}`".replace("'", '"')
        assert f"\n| `{name}` | {shown} |".replace("  ", " ") in TEXT

    def test_checks(self) -> None:
        """Each id has a row, and no other."""
        source = Path(checks.__file__).read_text(encoding="utf-8")
        known = set(re.findall(r'id="(hookrow\.\w+)"', source))
        assert known == set(re.findall(r"^\| `(hookrow\.\w\d+)` \|", TEXT, re.MULTILINE))

    def test_commands(self) -> None:
        """Each command has a row, and no other."""
        shown = re.findall(r"^\| `manage.py hookrow (\w+)` \|", TEXT, re.MULTILINE)
        assert set(shown) == commands().commands.keys()

    def test_the_page_is_listed(self) -> None:
        """The page is among those of the other hosts."""
        assert "](django.md) |" in (ROOT / "docs/hosts/README.md").read_text(encoding="utf-8")
