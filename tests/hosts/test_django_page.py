"""The page on Django is followed as a newcomer would, and then as who has models of their own."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from django.test import override_settings
from process import EXAMPLES
from test_pages import DOCS, Shell, blocks, timeless

import django_host  # noqa: F401 - configures Django
from command import Command
from hookrow.django import checks
from hookrow.django.commands import commands
from hookrow.django.conf import NAMES, conf
from hookrow.testing import StoreContract
from wire import SECRET, free_port

PAGE = (DOCS / "django.md").read_text(encoding="utf-8")

FILES = re.compile(r"^```python\n# (\S+\.py)(?:, at its end)?\n(.*?)^```", re.DOTALL | re.MULTILINE)

TRY, _, GO_ON = PAGE.partition("## Good to know")

PROJECT = EXAMPLES / "django_project"


def start(folder: Path, page: str) -> None:
    """Copy the files of a part of the page into a project; settings go to the end of its own."""
    for name, text in FILES.findall(page):
        file = folder / name
        before = file.read_text() if file.name == "settings.py" else ""
        file.write_text(before + text)


def test_a_newcomer(tmp_path: Path) -> None:
    """The code is copied, each command is typed, and prints what stands below it."""
    [install], [session] = blocks("django", "sh"), blocks("django", "console")
    port = free_port()
    shell = Shell(tmp_path, port)
    try:
        shell.type(install.splitlines()[1])
        start(tmp_path, TRY)
        for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            line, _, expected = part.partition("\n")
            printed = shell.type(line.replace("8000", str(port)))
            assert timeless(printed) == timeless(expected.strip())
    finally:
        if shell.serving is not None:
            shell.serving.stop()


def test_it_shows_the_example() -> None:
    """The code is the example's, which says the same commands at its top."""
    for name, text in FILES.findall(TRY):
        code = text.removeprefix("import os\n\n")
        assert (PROJECT / name).read_text().endswith(f"\n\n{code}")
    top = (PROJECT / "manage.py").read_text()
    [install], [session] = blocks("django", "sh"), blocks("django", "console")
    assert install.splitlines()[0] in top
    for command in ("HOOKROW_SECRET=", "migrate", "createsuperuser", "runserver", "curl -X POST"):
        assert command in top
        assert command in session


class TestModelsOfYourOwn:
    """What stands below is one project more, with an app `crm`."""

    @pytest.fixture
    def project(self, tmp_path: Path) -> Command:
        """Start it as the page says, with the endpoint in its URLs."""
        command = Command(tmp_path)
        for typed in (("startproject", "project", "."), ("startapp", "crm")):
            assert command.execute(sys.executable, "-m", "django", *typed).returncode == 0
        start(tmp_path, GO_ON)
        mount = [line for line in TRY.splitlines() if "hookrow.django.urls" in line]
        (tmp_path / "project/urls.py").write_text(
            "from django.urls import include, path\n"
            f"urlpatterns = [{mount[0].partition('  #')[0].strip()}]\n"
        )
        return command

    def manage(self, project: Command, *typed: str) -> str:
        """Run a command of the project; return what it says."""
        done = project.execute(sys.executable, "manage.py", *typed, HOOKROW_SECRET=SECRET)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def test_it_works(self, project: Command) -> None:
        """Nothing is wrong or slow, migrations are made, and all tests pass."""
        self.manage(project, "makemigrations", "crm")
        said = self.manage(project, "check", "--fail-level", "WARNING")
        assert "no issues" in said
        contract = [name for name in dir(StoreContract) if name.startswith("test_")]
        assert f"Ran {2 + len(contract)} tests" in self.manage(project, "test")


MAIL = """
DATABASES["mail"] = {"ENGINE": DATABASES["default"]["ENGINE"], "NAME": BASE_DIR / "mail.sqlite3"}
HOOKROW["DATABASE"] = "mail"
"""

ROUTED = """
DATABASE_ROUTERS = ["project.routers.MailRouter"]
"""

ADMIN = """
import django
django.setup()
from django.contrib.auth.models import User
from django.test import Client
from hookrow.django.tables.models import Dispatch, Subscriber
sent = Dispatch.objects.create(subscriber=Subscriber.objects.create(email="ada@example.com"))
client = Client(headers={"host": "localhost"})
client.force_login(User.objects.create_superuser("root"))
for page in (f"dispatch/{sent.pk}/change/", "dispatch/", "subscriber/add/"):
    print(client.get(f"/admin/hookrow_tables/{page}").status_code)
"""


def test_another_database(tmp_path: Path) -> None:
    """Without a router the checks warn; with the page's the admin is at home there."""
    command = Command(tmp_path)
    variables = {"HOOKROW_SECRET": SECRET, "DJANGO_SETTINGS_MODULE": "project.settings"}

    def run(*typed: str) -> str:
        done = command.execute(sys.executable, *typed, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    run("-m", "django", "startproject", "project", ".", "--settings=")
    start(tmp_path, PAGE.partition("## Your own models")[0])
    settings = tmp_path / "project/settings.py"
    settings.write_text(settings.read_text() + MAIL)
    assert "hookrow.W004" in run("manage.py", "check")
    settings.write_text(settings.read_text() + ROUTED)
    assert "no issues" in run("manage.py", "check")
    for alias in ("default", "mail"):
        run("manage.py", "migrate", "-v0", "--database", alias)
    assert run("-c", ADMIN) == "200\n" * 3


class TestTables:
    """Nothing is left out."""

    @pytest.mark.parametrize("name", NAMES)
    def test_settings(self, name: str) -> None:
        """Each has a line, with its default."""
        with override_settings(HOOKROW={}):
            default = None if name == "TABLES" else getattr(conf, name.lower())
        shown = "" if name == "SECRET" else f"`{default!r}`".replace("'", '"')
        assert f"\n| `{name}` | {shown} |".replace("  ", " ") in PAGE

    def test_checks(self) -> None:
        """Each id has a line, and there is no other."""
        source = Path(checks.__file__).read_text(encoding="utf-8")
        known = set(re.findall(r'id="(hookrow\.\w+)"', source))
        assert known == set(re.findall(r"^\| `(hookrow\.\w\d+)` \|", PAGE, re.MULTILINE))

    def test_commands(self) -> None:
        """Each command has a line, and there is no other."""
        shown = re.findall(r"^\| `manage.py hookrow (\w+)` \|", PAGE, re.MULTILINE)
        assert set(shown) == commands().commands.keys()

    def test_the_page_is_listed(self) -> None:
        """Beside the other hosts."""
        assert "](django.md) |" in (DOCS / "README.md").read_text(encoding="utf-8")
