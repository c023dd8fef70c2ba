"""`manage.py hookrow`: the commands of `hookrow`, with the project's settings."""

import json
import sys
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import NamedTuple, TypeAlias
from unittest.mock import patch

import pytest
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.management import CommandError, call_command, load_command_class
from django.db import connection
from django.test import override_settings
from sqlalchemy import make_url

import django_host
import engines
from django_project.manage import PYTHONPATH, Manage
from django_project.site import Site
from hookrow import Arrival, testing
from hookrow._receiver.spool import Spool
from hookrow.django import receiver
from hookrow.django.tables.models import Dispatch
from hookrow.stores.sql._transaction import SQLTransaction
from stand_in import PostmarkStandIn
from wire import ADA, ADAS, ENDPOINT, SECRET, uvicorn_serving

pytest_plugins = ["django_project.databases"]

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
DELIVERY = testing.delivery(ADA, ADAS, at=AT)
EARLY = testing.opening(ADA, "not-sent-yet", at=AT)
HINT = "Run: manage.py migrate"


class Done(NamedTuple):
    status: int
    out: str
    err: str = ""


Run: TypeAlias = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*typed: object) -> Done:
        command = load_command_class("hookrow.django", "hookrow")
        with pytest.raises(SystemExit) as ended:
            command.run_from_argv(["manage.py", "hookrow", *map(str, typed)])
        return Done(int(ended.value.code or 0), *capsys.readouterr())

    return run


def test_the_log(sqlite_site: Site, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notifications are listed, replayed under the mapping of the log, and pruned."""
    sqlite_site.receive(DELIVERY, EARLY)
    [entry] = map(json.loads, run("log", "--json", "--outcome", "dispatch_not_found").out.split())
    assert (entry["recipient"], entry["message_id"]) == (ADA, "not-sent-yet")
    connection.cursor().execute("UPDATE hookrow_meta SET value = '{}' WHERE name = 'mapping'")
    refused = run("replay", entry["id"])
    assert refused.err.endswith("run the command again with --accept-mapping.\n")
    assert run("replay", "--accept-mapping").status == 0
    Dispatch.objects.filter(pk=1).update(provider_message_id="not-sent-yet")
    replayed = run("replay", "--outcome", "dispatch_not_found")
    assert (replayed.status, replayed.out) == (0, "1 notification replayed: 1 recorded.\n")
    assert Dispatch.objects.get(pk=1).opened_at == AT
    monkeypatch.setenv("HOOKROW_KEEP", "forever")
    assert run("prune").out == "Pruned 0 entries and bodies.\n"


def test_help(run: Run) -> None:
    """The help omits commands and options that the settings replace."""
    assert "serve" not in run("--help").out
    assert "--secret" not in run("simulate", "--help").out


@pytest.mark.parametrize(
    ("typed", "settings", "status", "error"),
    [
        ("log --database-url x", {}, 2, "No such option"),
        ("log show 77", {}, 1, "Error: The log has no notification 77.\n"),
        ("log", {"HOOKROW": {"SECRET": SECRET, "LOG": False}}, 1, "The log is disabled: remove"),
        ("log", {"HOOKROW": {"SECRET": SECRET, "TABLES": {"log": 1}}}, 1, "HOOKROW['TABLES']"),
        ("simulate open x", {"ROOT_URLCONF": ()}, 1, "do not include hookrow.django.urls"),
        (
            "simulate open x",
            {"HOOKROW": {"SECRET": 7}},
            1,
            "HOOKROW['SECRET'] must be text, not int",
        ),
        ("log", {"HOOKROW": SECRET}, 1, "HOOKROW must be a dict"),
    ],
)
@pytest.mark.usefixtures("sqlite_site")
def test_errors(typed: str, settings: dict[str, object], status: int, error: str, run: Run) -> None:
    """An error is printed without a traceback, and results in click's exit status."""
    with override_settings(**settings):
        done = run(*typed.split())
    assert (done.status, done.out) == (status, "")
    assert error in done.err
    assert "Traceback" not in done.err


def test_forget(sqlite_site: Site, run: Run, tmp_path: Path) -> None:
    """A person is erased from the log, and the spool of the settings is searched."""
    sqlite_site.receive(DELIVERY)
    spool = tmp_path / "spool.db"
    Spool(spool).put([Arrival((), json.dumps(DELIVERY).encode(), AT)])
    with override_settings(HOOKROW={"SECRET": SECRET, "SPOOL": spool}):
        done = run("log", "forget", ADA)
    first, last = done.out.splitlines()
    assert (done.status, first) == (1, "Erased from 1 notification.")
    assert last.startswith("The spool has 1 notification with the address.")


def test_forget_in_an_entry(sqlite_site: Site, run: Run) -> None:
    sqlite_site.receive(DELIVERY)  # without the name of an entry
    entries = {"acme": {"PROVIDER": "postmark", "SECRET": SECRET}}
    with override_settings(HOOKROW={"PROVIDERS": entries}):
        assert run("log", "forget", ADA, "--entry", "acme").out == "Erased from 0 notifications.\n"
        assert "has no entry 'acm'" in run("log", "forget", ADA, "--entry", "acm").err
        assert run("log", "forget", ADA).out == "Erased from 1 notification.\n"


FINE = "OK: notifications are recorded, and nothing needs attention."


class TestCheck:
    @pytest.mark.usefixtures("any_site")
    @override_settings(HOOKROW={"SECRET": SECRET, "SWEEP": True})
    def test_a_correct_project(self, run: Run) -> None:
        assert run("check") == Done(
            0,
            f"ok       status      {FINE}\n"
            "ok       settings    Every system check of hookrow passes.\n"
            "ok       migrations  All are applied.\n"
            "ok       tables      All tables and columns exist.\n"
            "ok       indexes     Every lookup has an index.\n"
            "ok       retries     0 notifications in the log will be retried.\n",
        )

    @pytest.mark.usefixtures("sqlite_site")
    def test_deployment(self, run: Run) -> None:
        """A project that retries nothing gets a message, unless it has silenced the message."""
        status, message, *_ = run("check").out.splitlines()
        assert status == f"ok       status      {FINE}"
        assert message.startswith("ok       hookrow.I001 Since August 2026, Postmark does")
        with override_settings(SILENCED_SYSTEM_CHECKS=["hookrow.I001"]):
            status, settings, *_ = run("check").out.splitlines()
        assert status == f"ok       status      {FINE}"
        assert settings.startswith("ok       settings    Every system check of hookrow")

    @pytest.mark.usefixtures("sqlite_site")
    def test_the_webhooks(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        """They are read from Postmark if a token is set, also for an entry with a name."""
        entries = {"acme": {"PROVIDER": "postmark", "SECRET": SECRET}}
        with PostmarkStandIn() as api:
            monkeypatch.setenv("HOOKROW_PROVIDER_API", api.address)
            for variable, hookrow in (
                ("HOOKROW_PROVIDER_TOKEN", {"SECRET": SECRET}),
                ("HOOKROW_PROVIDERS_ACME_TOKEN", {"PROVIDERS": entries}),
            ):
                with monkeypatch.context() as patched, override_settings(HOOKROW=hookrow):
                    patched.setenv(variable, api.token)
                    done = run("check")
                text = "Stand-in: no webhook posts to hookrow."
                assert (done.status, done.err) == (1, "")
                assert f"\n- provider: {text} `hookrow provider status`" in done.out
                assert f"\nerror    provider    {text}\n" in done.out

    @pytest.mark.usefixtures("sqlite_site")
    @override_settings(HOOKROW={"SECRET": SECRET, "SWEEP": True})
    def test_one_rehearsal(self, run: Run) -> None:
        """The status and the details are about the same check of the tables."""
        with patch.object(SQLTransaction, "rehearse", autospec=True) as rehearse:
            assert run("check").status == 0
        rehearse.assert_called_once()

    def test_faults(self, empty_sqlite_url: str, run: Run) -> None:
        """Each result states what to do; an error results in exit status 1, without a traceback."""
        hookrow = {"SECRET": "short", "SWEEP": True}
        with django_host.default(empty_sqlite_url), override_settings(HOOKROW=hookrow):
            done, log = run("check", "--json"), run("log")
        status, secret, migrations = map(json.loads, done.out.splitlines())
        assert (status["level"], status["subject"]) == ("error", "status")
        assert (secret["level"], secret["subject"]) == ("warning", "hookrow.W001")
        assert (migrations["level"], done.status) == ("error", 1)
        assert migrations["text"].endswith(HINT)
        assert HINT in log.err
        with django_host.default("postgresql://ada@127.0.0.1:1/mail"):
            done, log = run("check"), run("log")
        assert (done.status, done.err, log.err.count("\n")) == (1, "", 1)
        assert "error    database    It cannot be reached" in done.out

    def test_a_read_only_database(self, new_project: Callable[[str], str], run: Run) -> None:
        """A server that accepts no changes is an error, although it can be read."""
        url = new_project("postgres")
        engines.run(
            url, f"ALTER DATABASE {make_url(url).database} SET default_transaction_read_only = on"
        )
        with django_host.default(url):
            done = run("check", "--json")
        *_, tables, changes = map(json.loads, done.out.splitlines())
        assert (done.status, tables["level"], changes["level"]) == (1, "ok", "error")
        assert changes["text"].startswith("The database accepts no changes: ReadOnlySqlTransaction")


@pytest.mark.usefixtures("sqlite_site")
def test_requests_to_the_project(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`simulate` and `check URL` post with the settings' secret, by default to the endpoint."""
    with uvicorn_serving(get_asgi_application()) as port:
        address = f"http://127.0.0.1:{port}"
        monkeypatch.setattr("hookrow.django._commands.RUNSERVER", address)
        assert run("simulate", "delivery", ADA, ADAS).out == "200\n"
        refused = run("simulate", "open", "eve@example.com", ADAS)
        assert (refused.status, refused.out) == (1, "404 Engine::Subscriber not found\n")
        sound = run("check", f"{address}/mail{ENDPOINT}")
        lost = run("check", "--json", f"{address}/mail")
        guarded = run("check", f"{address}/admin/login/")
    assert (
        "ok       secret      The configured secret is accepted, and a body of 64 KiB arrives."
        in sound.out
    )
    assert [sound.status, lost.status, guarded.status] == [0, 1, 1]
    assert '"subject":"path"' in lost.out
    assert "error    forbidden   " in guarded.out


@pytest.mark.usefixtures("sqlite_site")
def test_requests_to_each_entry(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`simulate` and `check URL` post as the provider of an entry, to its URL."""
    signing_secret = f"whsec_{b64encode(b'a key of the webhook').decode()}"
    entries = {
        "acme": {"PROVIDER": "postmark", "SECRET": SECRET},
        "globex": {"PROVIDER": "resend", "SECRET": signing_secret},
        "parcels": {"PROVIDER": "courier.Courier"},
    }
    with (
        override_settings(HOOKROW={**settings.HOOKROW, "SECRET": None, "PROVIDERS": entries}),
        uvicorn_serving(get_asgi_application()) as port,
    ):
        address = f"http://127.0.0.1:{port}"
        monkeypatch.setattr("hookrow.django._commands.RUNSERVER", address)
        for name in ("acme", "globex"):
            assert run("simulate", "delivery", ADA, ADAS, "--entry", name).out == "200\n"
            logged = run("log", "--entry", name, "--json").out.splitlines()
            assert len(logged) == 1
        own = run("simulate", "delivery", ADA, ADAS, "--entry", "parcels")
        sound = run("check", f"{address}/mail{ENDPOINT}")
        receiver().close()
    assert "The provider is not one of hookrow's own" in own.err
    assert sound.status == 0
    assert f"hookrow responds at {address}/mail{ENDPOINT}/globex." in sound.out


def test_call_command(sqlite_site: Site) -> None:
    """`call_command` writes to the given streams, and raises an exception on failure."""
    sqlite_site.receive(EARLY)
    out = StringIO()
    call_command("hookrow", "log", "--json", "--limit", "1", stdout=out)
    assert json.loads(out.getvalue())["outcome"] == "dispatch_not_found"
    for typed, status, text in (
        ("log show 77", 1, "The log has no notification 77."),
        ("prune --keep 9", 2, "'9' is not a duration"),
    ):
        with pytest.raises(CommandError, match=text) as raised:
            call_command("hookrow", *typed.split(), stdout=out, stderr=out)
        assert raised.value.returncode == status


def test_without_click(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "click", None)
    monkeypatch.delitem(sys.modules, "hookrow.django.management.commands.hookrow", raising=False)
    with pytest.raises(SystemExit, match=r"needs an extra: pip install 'hookrow\[django\]'"):
        load_command_class("hookrow.django", "hookrow")


def test_the_options_of_django(
    sqlite_site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--settings` and `--pythonpath` may be anywhere among the arguments; `help` works as well."""
    sqlite_site.receive(DELIVERY)
    elsewhere = ("--settings=settings_of_the_test", "--pythonpath", str(tmp_path))
    typed = ("hookrow", "log", *elsewhere, "--outcome", "recorded", "--no-color", "--json")
    manage = Manage(tmp_path, sqlite_site.url)
    done = manage.run(*typed, DJANGO_SETTINGS_MODULE="", PYTHONPATH=PYTHONPATH)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["message_id"] == ADAS
    with pytest.raises(SystemExit):
        load_command_class("hookrow.django", "hookrow").print_help("manage.py", "hookrow")
    assert "simulate" in capsys.readouterr().out
