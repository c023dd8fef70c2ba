"""The pages on check, the dashboard and the hosts: their code runs, their tables are complete."""

import dataclasses
import re
import shlex
from contextlib import closing
from pathlib import Path

import pytest
import werkzeug.test
from django.test import Client, override_settings
from werkzeug.middleware.dispatcher import DispatcherMiddleware

import django_host  # noqa: F401 - configures Django
from command import Command
from engines import MEMORY
from hookrow import Postmark, Receiver, RequestHead, Response
from hookrow._diagnostics import CheckResult, diagnosis
from hookrow._diagnostics.advice import WEAKNESSES
from hookrow.dashboard import Dashboard
from hookrow.stores.sql import SQLStore
from hookrow.wsgi import WSGI
from loopback import loopback
from session import ROOT, execute, read_blocks, read_commands, read_files
from wire import SECRET

EXAMPLES = ROOT / "examples"
HOSTS = ["starlette", "fastapi", "litestar", "quart", "flask", "asgi", "wsgi"]


def read(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def _untimed(text: str) -> str:
    return re.sub(r"\d+\.\d\d s", "0 s", text)


HOW_TO = [str(path.relative_to(ROOT)) for path in (ROOT / "docs/how-to").rglob("*.md")]
TUTORIALS = [str(path.relative_to(ROOT)) for path in (ROOT / "docs/tutorials").rglob("*.md")]
INSTALL = r"^(?:\$ )?(?:\S*/)?pip install (\S*\[.*)$"


@pytest.mark.parametrize("page", ["README.md", *HOW_TO, *TUTORIALS])
def test_hookrow_is_installed_by_its_name(page: str) -> None:
    """Not from a clone, which only contributors have."""
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = re.findall(INSTALL, text, re.MULTILINE)
    assert [line for line in lines if not line.startswith(("'hookrow[", "'celery["))] == []


_OF_COMMAND = "app", "provider", "setting", "status"
"""The subjects of results that only the command adds."""


class TestCheck:
    def test_the_session_prints_the_documented_output(
        self, tmp_path: Path, hookrow_store: SQLStore
    ) -> None:
        [session] = read_blocks("docs/reference/check.md", "console")
        receiver = Receiver(Postmark(SECRET), hookrow_store, mount_path="/mail")
        served = DispatcherMiddleware(WSGI(receiver), {"/readyz": werkzeug.Response("ready\n")})
        with closing(receiver), loopback(served) as port:
            serve, *checks = read_commands(session.replace("8000", str(port)))
            assert serve == ("hookrow serve --mount-path /mail &", "")
            for line, expected in checks:
                done = Command(tmp_path).call(*shlex.split(line)[1:], HOOKROW_SECRET=SECRET)
                assert _untimed(done.stdout) == _untimed(expected)

    def test_the_table_explains_each_subject(self) -> None:
        files = Path(diagnosis.__file__).parent.glob("*.py")
        text = "".join(file.read_text(encoding="utf-8") for file in files)
        subjects = re.findall(r'CheckResult\(\s*Level\.\w+,\s*"(\w+)"', text)
        _, keys, tables = read("reference/check.md").split("| --- | --- |\n", 2)
        rows = re.findall(r"^\| (`.*`) \|", tables, re.MULTILINE)
        explained = set(re.findall(r"`(\w+)`", "".join(rows)))
        diagnosed = {each.subject for each in diagnosis.DIAGNOSES}
        assert explained == {*subjects, *diagnosed, *WEAKNESSES, *_OF_COMMAND}
        fields = [each.name for each in dataclasses.fields(CheckResult)]
        assert re.findall(r"^\| `(\w+)` \|", keys, re.MULTILINE) == fields


class TestDashboard:
    FILES = read_files("docs/how-to/dashboard.md")

    @pytest.mark.usefixtures("sqlite_url")
    def test_wsgi(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The password is required below the mount path, and only there."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("DASHBOARD_PASSWORD", "of-the-tests")
        app = execute(self.FILES["dashboard_wsgi.py"])["app"]
        client = werkzeug.test.Client(app)
        assert client.get("/mail/dashboard/").status_code == 401
        assert client.get("/").status_code == 404

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ([], 303),
            ([(b"cookie", b"session=of-eve")], 403),
            ([(b"cookie", b"session=of-ada")], None),
        ],
    )
    def test_authorize(self, headers: list[tuple[bytes, bytes]], status: int | None) -> None:
        """Users of the dashboard are admitted: `admit` returns no response."""
        authorize = execute(self.FILES["dashboard_sessions.py"])["authorize"]
        dashboard = Dashboard(SQLStore(MEMORY), authorize=authorize)
        answer = dashboard.admit(RequestHead("GET", "/", headers))
        assert answer is None or isinstance(answer, Response)
        assert (answer and answer.status) == status

    def test_django(self) -> None:
        urls = execute(self.FILES["project/urls.py"])["urlpatterns"]
        with override_settings(ROOT_URLCONF=tuple(urls)):
            answer = Client().get("/mail/dashboard/")
        assert answer.headers["Location"] == "/admin/login/?next=/mail/dashboard/"


class TestHosts:
    @pytest.mark.parametrize("page", HOSTS)
    def test_a_page_shows_the_example_and_its_commands(self, page: str) -> None:
        example = (EXAMPLES / f"{page}_app.py").read_text(encoding="utf-8")
        languages = ("python", "sh", "console")
        blocks = [read_blocks(f"docs/how-to/hosts/{page}.md", name) for name in languages]
        [code], [install], [session] = blocks
        assert example.endswith(f'"""\n\n{code}')
        assert install in example
        for line in re.findall(r"^\$ ((?:export|curl|hookrow) .*)$", session, re.MULTILINE):
            assert line in example

    def test_every_page_is_listed(self) -> None:
        examples = {each.stem.removesuffix("_app") for each in EXAMPLES.glob("*_app.py")}
        assert examples == {*HOSTS}
        for page in (*HOSTS, "django"):
            assert f"]({page}.md) |" in read("how-to/hosts/index.md")
