"""The page on the dashboard is followed as a newcomer would: copy, run, look."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from process import gunicorn, running
from test_django_page import TRY, start
from test_pages import DOCS, Shell

from command import Command
from hookrow import ConfigurationError, Head, Response
from hookrow.dashboard import Dashboard
from hookrow.stores.memory import MemoryStore
from wire import SECRET, free_port, get

PAGE = (DOCS.parent / "dashboard.md").read_text(encoding="utf-8")

FILES = dict(re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))


def test_a_newcomer(tmp_path: Path) -> None:
    """The code is copied, each command is typed, and prints what stands below it, if anything."""
    [session] = re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "dashboard_app.py").write_text(FILES["dashboard_app.py"])
    port = free_port()
    shell = Shell(tmp_path, port)
    try:
        for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            line, _, expected = part.partition("\n")
            printed = shell.type(line.replace("8000", str(port)))
            assert not expected or printed == expected.strip()
    finally:
        if shell.serving is not None:
            shell.serving.stop()


def test_wsgi(tmp_path: Path) -> None:
    """The application asks for the password."""
    (tmp_path / "dashboard_wsgi.py").write_text(FILES["dashboard_wsgi.py"])
    assert Command(tmp_path).run("db", "upgrade").returncode == 0
    password = {"DASHBOARD_PASSWORD": "of-the-tests"}
    with running(gunicorn, "dashboard_wsgi:app", tmp_path, password) as serving:
        assert get(serving.port, "/mail/dashboard/").status == 401
        assert get(serving.port, "/").status == 404


LOOK = """
import django
django.setup()
from django.contrib.auth.models import User
from django.test import Client
client = Client(headers={"host": "localhost"})
print(client.get("/mail/dashboard/").headers["Location"])
client.force_login(User.objects.create_superuser("root"))
print(client.get("/mail/dashboard/notifications").status_code)
"""


def test_django(tmp_path: Path) -> None:
    """The project of the page on Django sends to the admin's login, and lets the staff look."""
    project = Command(tmp_path)
    new = ("-m", "django", "startproject", "project", ".")
    assert project.execute(sys.executable, *new).returncode == 0
    start(tmp_path, TRY)
    (tmp_path / "project/urls.py").write_text(FILES["project/urls.py"])
    variables = {"HOOKROW_SECRET": SECRET, "DJANGO_SETTINGS_MODULE": "project.settings"}
    for typed in (("manage.py", "migrate", "-v0"), ("-c", LOOK)):
        done = project.execute(sys.executable, *typed, **variables)
        assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["/admin/login/?next=/mail/dashboard/", "200"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [([], 303), ([(b"cookie", b"session=of-eve")], 403), ([(b"cookie", b"session=of-ada")], 200)],
)
def test_a_check_of_your_own(headers: list[tuple[bytes, bytes]], status: int) -> None:
    """It lets in, sends elsewhere, or refuses."""
    named: dict[str, object] = {}
    exec(FILES["dashboard_sessions.py"], named)
    dashboard = Dashboard(MemoryStore(), authorize=named["authorize"])  # type: ignore[arg-type] # as the page has it
    answer = dashboard.admit(Head("GET", "/", headers)) or Response(200, b"", {})
    assert isinstance(answer, Response)
    assert answer.status == status


def test_what_it_says() -> None:
    """Without `authorize` none is built, and pictures are there."""
    with pytest.raises(ConfigurationError):
        Dashboard(MemoryStore())
    for picture in re.findall(r"\]\((dashboard/\S+\.png)\)", PAGE):
        assert (DOCS.parent / picture).is_file()
