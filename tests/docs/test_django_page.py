"""The page on Django: its code runs, and its tables are complete."""

import re
import sys
from pathlib import Path

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.test import Client, override_settings

import django_host
from command import Command
from django_project.manage import PROJECT, database
from django_project.page import FILES, GO_ON, PAGE, TEXT, TRY, start
from django_project.site import users
from hookrow.django import _checks
from hookrow.django._commands import commands
from hookrow.django._conf import SETTING_NAMES, conf
from hookrow.django._providers import _keys_of, read_entries
from hookrow.django.tables.models import Dispatch, Subscriber
from hookrow.providers._registry import PROVIDER_NAMES, built_in
from hookrow.testing import StoreContract
from session import execute, read_blocks
from wire import SECRET

TEST = """
import importlib
import django
from django.core.management import call_command
django.setup()
call_command("makemigrations", "crm", "accounts")
importlib.invalidate_caches()
call_command("check", fail_level="WARNING")
from crm.mapping import SCHEMA
from crm.names import TABLES
from hookrow._core.schema_values import schema_of
from hookrow.django._mapping import map_models
models, names = (map_models(each, "default") for each in (SCHEMA, schema_of(TABLES)))
assert models.fields == names.fields
call_command("test")
"""


USER = """
from django.contrib.auth.models import AbstractUser

class User(AbstractUser):
    pass
"""

OWN_USER = """
try:
    import MySQLdb
except ImportError:
    import pymysql
    pymysql.install_as_MySQLdb()
DATABASES = {{"default": {}}}
AUTH_USER_MODEL = "accounts.User"
INSTALLED_APPS += ["accounts"]
"""


def test_example() -> None:
    for name, text in FILES.findall(TRY):
        code = text.removeprefix("import os\n\n")
        assert (PROJECT / name).read_text().endswith(f"\n\n{code}")
    top = (PROJECT / "manage.py").read_text()
    [install], [session] = read_blocks(PAGE, "sh"), read_blocks(PAGE, "console")
    assert install.splitlines()[0] in top
    for command in ("HOOKROW_SECRET=", "migrate", "createsuperuser", "runserver", "curl -X POST"):
        assert command in top
        assert command in session


def test_own_models(tmp_path: Path, empty_database_url: str) -> None:
    """The project with its own models and users has no warnings, and passes its tests.

    The two forms of its mapping are the same.
    """
    start(tmp_path, GO_ON)
    [names] = [each for each in read_blocks(PAGE, "python") if each.startswith("TABLES = {")]
    (tmp_path / "crm" / "names.py").write_text(names)
    (tmp_path / "accounts").mkdir()
    (tmp_path / "accounts" / "__init__.py").touch()
    (tmp_path / "accounts" / "models.py").write_text(USER)
    with (tmp_path / "project" / "settings.py").open("a") as settings:
        settings.write(OWN_USER.format(database(empty_database_url)))
    mount = next(line for line in TRY.splitlines() if "hookrow.django.urls" in line)
    (tmp_path / "project/urls.py").write_text(
        "from django.urls import include, path\n"
        f"urlpatterns = [{mount.partition('  #')[0].strip()}]\n"
    )
    variables = {"HOOKROW_SECRET": SECRET, "DJANGO_SETTINGS_MODULE": "project.settings"}
    done = Command(tmp_path).execute(sys.executable, "-c", TEST, **variables)
    assert done.returncode == 0, done.stderr
    contract = [name for name in dir(StoreContract) if name.startswith("test_")]
    assert f"Ran {2 + len(contract)} tests" in done.stderr


def test_router(tmp_path: Path) -> None:
    """With the router, the admin uses the other database."""
    router = execute(dict(FILES.findall(TEXT))["project/routers.py"])["MailRouter"]()
    settings = {"SECRET": SECRET, "DATABASE": "mail"}
    with (
        django_host.default(f"sqlite:///{tmp_path}/project.db"),
        django_host.alias(f"sqlite:///{tmp_path}/mail.db", name="mail"),
        override_settings(HOOKROW=settings, DATABASE_ROUTERS=[router]),
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


@pytest.mark.parametrize("name", SETTING_NAMES)
def test_settings(name: str) -> None:
    """Each setting is documented with its default."""
    with override_settings(HOOKROW={}):
        default = None if name in {"TABLES", "PROVIDERS"} else getattr(conf, name.lower())
    value = "" if name == "SECRET" else f"`{default!r}`".replace("'", '"')
    assert f"\n| `{name}` | {value} |".replace("  ", " ") in TEXT


def test_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each setting of an entry is documented, and the example is valid."""
    for key in {key for each in PROVIDER_NAMES for key in _keys_of(built_in(each))} | {"OPTIONS"}:
        assert re.search(rf"^\|.*`{key}`.* \| ", TEXT, re.MULTILINE)
    [block] = [each for each in read_blocks(PAGE, "python") if '"PROVIDERS"' in each]
    for variable in ("ACME_SECRET", "GLOBEX_SECRET"):
        monkeypatch.setenv(variable, SECRET)
    entries = read_entries(execute(f"import os\n{block}")["HOOKROW"]["PROVIDERS"])
    assert [(each.name, each.tenant) for each in entries] == [("acme", 1), ("globex", 2)]


def test_checks_and_commands() -> None:
    """Each id of a check and each command is documented."""
    source = Path(_checks.__file__).read_text(encoding="utf-8")
    known = set(re.findall(r'id="(hookrow\.\w+)"', source))
    assert known == set(re.findall(r"^\| `(hookrow\.\w\d+)` \|", TEXT, re.MULTILINE))
    documented = re.findall(r"^\| `manage.py hookrow (\w+)` \|", TEXT, re.MULTILINE)
    assert set(documented) == commands().commands.keys()
