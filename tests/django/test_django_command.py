"""`manage.py hookrow`: the command line's own commands, on the project's settings."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import insert, text, update

import world
from django_project.manage import TESTS, Manage
from hookrow import Arrival, testing
from hookrow.postmark import parse
from hookrow.recording import record
from hookrow.stores.engines import opened
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import dispatches, subscribers
from wire import ENDPOINT, SECRET

ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)

DELIVERY = testing.delivery(ADA, ADAS, at=AT)
EARLY = testing.opening(ADA, "not-sent-yet", at=AT)

HINT = "Run: manage.py migrate"

on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""For what is the same on any database: each command is a process, which takes its time."""


@pytest.fixture
def url(database_url: str) -> str:
    """Return the URL of a database that received a delivery, and an open too early."""
    world.fill(database_url)
    store = SQLStore(database_url)
    for payload in (DELIVERY, EARLY):
        body = msgspec.json.encode(payload)
        record(store, [Arrival(parse(body), body, datetime.now(UTC))])
    store.close()
    return database_url


@pytest.fixture
def manage(url: str, tmp_path: Path) -> Manage:
    """Return the project's commands."""
    return Manage(tmp_path, url)


def test_log_replay_and_prune(manage: Manage, url: str) -> None:
    """What the log has is listed, told, recorded once more and deleted, on either database."""
    listed = manage.run("hookrow", "log", "--json", "--outcome", "dispatch_not_found")
    [entry] = map(json.loads, listed.stdout.splitlines())
    assert (entry["recipient"], entry["message_id"]) == (ADA, "not-sent-yet")
    shown = manage.run("hookrow", "log", "show", entry["id"])
    assert "no dispatch had the id not-sent-yet when it came" in shown.stdout
    with opened(url) as engine, engine.begin() as connection:
        sent = update(dispatches).where(dispatches.c.id == 1)
        connection.execute(sent.values(provider_message_id="not-sent-yet"))
    rehearsed = manage.run("hookrow", "replay", entry["id"], "--dry-run")
    assert "dispatch 1: opened_at null -> 2026-03-04 05:06:07Z" in rehearsed.stdout
    replayed = manage.run("hookrow", "replay", "--outcome", "dispatch_not_found")
    assert replayed.stdout == "1 notification replayed: 1 recorded.\n", replayed.stderr
    assert world.rows(url)["dispatches"][0]["opened_at"] == AT
    assert manage.run("hookrow", "log", "forget", ADA).stdout == "Erased in 2 notifications.\n"
    assert manage.run("hookrow", "prune", HOOKROW_KEEP="forever").stdout == "Pruned: 0.\n"


def test_stats(manage: Manage) -> None:
    """The overview, of what the models have, on either database."""
    shown = manage.run("hookrow", "stats")
    assert "1 of the last 2 was refused, for dispatches not yet saved." in shown.stdout
    found = json.loads(manage.run("hookrow", "stats", "--json", "--period", "hour").stdout)
    assert (found["total"], found["parked"], found["sent"]) == (2, 1, 6)
    assert found["delivery_rate"] == pytest.approx(1 / 6)
    assert found["by_outcome"].keys() == {"recorded", "dispatch_not_found"}
    assert found["delay_median"] is not None


@on_sqlite
class TestHelp:
    @pytest.mark.parametrize(
        ("typed", "said", "unsaid"),
        [
            (
                ("help", "hookrow"),
                ["check", "log", "prune", "replay", "simulate", "stats"],
                "serve",
            ),
            (("hookrow", "log", "-h"), ["manage.py hookrow log", "forget"], "--database-url"),
            (("hookrow", "log", "show", "--help"), ["--json"], "--database-url"),
            (("hookrow", "simulate", "--help"), ["--url", "--count"], "--secret"),
        ],
    )
    def test_every_level_has_one(
        self, typed: tuple[str, ...], said: list[str], unsaid: str, manage: Manage
    ) -> None:
        """It says what there is, and no option that the settings are for."""
        done = manage.run(*typed)
        assert (done.returncode, done.stderr) == (0, "")
        text = done.stdout.replace("python -m django", "manage.py")
        assert all(word in text for word in said)
        assert unsaid not in text


@pytest.mark.parametrize(
    ("typed", "settings", "status", "error"),
    [
        (("log", "--database-url", "x"), {}, 2, "No such option"),
        (("replay",), {}, 2, "Say which"),
        (("log", "show", "77"), {}, 1, "Error: The log has no notification 77.\n"),
        (
            ("log",),
            {"HOOKROW": {"SECRET": SECRET, "LOG": False}},
            1,
            "There is no log: the settings turn it off",
        ),
        (("log",), {"HOOKROW": {"SECRET": SECRET, "TABLES": {"log": 1}}}, 1, "HOOKROW['TABLES']"),
        (
            ("simulate", "open", ADA),
            {"ROOT_URLCONF": "django.contrib.auth.urls"},
            1,
            "no hookrow.django.urls",
        ),
    ],
)
def test_a_mistake_is_a_line(
    typed: tuple[str, ...],
    settings: dict[str, object],
    status: int,
    error: str,
    sqlite_url: str,
    tmp_path: Path,
) -> None:
    """It ends with click's own status, and without a traceback."""
    done = Manage(tmp_path, sqlite_url, **settings).run("hookrow", *typed)
    assert (done.returncode, done.stdout) == (status, "")
    assert error in done.stderr
    assert "Traceback" not in done.stderr


class TestCheck:
    def test_what_is_well(self, manage: Manage) -> None:
        """The tables are there, though another hand than Django's has made them."""
        assert manage.run("migrate", "--fake-initial", "-v0").returncode == 0
        done = manage.run("hookrow", "check")
        assert (done.returncode, done.stdout.splitlines()) == (
            0,
            [
                "ok       settings    Every system check of hookrow passes.",
                "ok       migrations  All are applied.",
            ],
        )

    def test_emails_that_differ_by_case(self, manage: Manage, url: str) -> None:
        """How many, and one of them without its name, as `hookrow check` says it."""
        assert manage.run("migrate", "--fake-initial", "-v0").returncode == 0
        with opened(url) as engine, engine.begin() as connection:
            connection.execute(text("DROP INDEX hookrow_subscribers_email"))
            connection.execute(insert(subscribers).values(email=ADA.upper()))
        done = manage.run("hookrow", "check")
        assert done.returncode == 0
        assert "warning  emails      There are several rows of 1 email, such as a***" in done.stdout
        with opened(url) as engine, engine.begin() as connection:
            connection.execute(text("ALTER TABLE hookrow_subscribers RENAME TO away"))
        assert "They could not be compared" in manage.run("hookrow", "check").stdout

    def test_a_database_in_1970(self, postgres_url: str, tmp_path: Path) -> None:
        """What that leads to, and what to do, as `hookrow check` says it."""
        clock = "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS"
        with opened(postgres_url) as engine, engine.begin() as connection:
            connection.execute(text(f"{clock} $$ SELECT '1970-01-01Z'::timestamptz $$"))
        manage = Manage(tmp_path, postgres_url)
        assert manage.run("migrate", "--fake-initial", "-v0").returncode == 0
        done = manage.run("hookrow", "check", PGOPTIONS="-csearch_path=public,pg_catalog")
        assert (done.returncode, done.stderr) == (0, "")
        assert "warning  clock       This machine's clock is 20," in done.stdout
        assert "synchronise both with NTP" in done.stdout

    def test_what_is_not(self, empty_sqlite_url: str, tmp_path: Path) -> None:
        """Each finding says what to do, and the status is that of an error."""
        manage = Manage(tmp_path, empty_sqlite_url, HOOKROW={"SECRET": "short"})
        done = manage.run("hookrow", "check", "--json")
        assert done.returncode == 1, done.stderr
        secret, migrations = map(json.loads, done.stdout.splitlines())
        assert (secret["level"], secret["about"]) == ("warning", "hookrow.W002")
        assert migrations["level"] == "error"
        assert migrations["text"].endswith(HINT)
        assert HINT in manage.run("hookrow", "log").stderr

    def test_a_database_out_of_reach(self, tmp_path: Path) -> None:
        """It is said in a line."""
        manage = Manage(tmp_path, "postgresql://ada@127.0.0.1:1/mail")
        done = manage.run("hookrow", "check")
        assert (done.returncode, done.stderr) == (1, "")
        assert "error    database    It cannot be reached" in done.stdout
        assert manage.run("hookrow", "log").stderr.count("\n") == 1


class TestCheckFromOutside:
    def test_with_the_settings_secret(self, sqlite_url: str, tmp_path: Path) -> None:
        """What is well and what is not is said as by `hookrow check URL`, and so is the status."""
        manage = Manage(tmp_path, sqlite_url)
        with manage.runserver() as port:
            site = f"http://127.0.0.1:{port}"
            well = manage.run("hookrow", "check", f"{site}/mail{ENDPOINT}")
            lost = manage.run("hookrow", "check", "--json", f"{site}/mail")
            guarded = manage.run("hookrow", "check", f"{site}/admin/login/")
        assert (well.returncode, well.stderr) == (0, "")
        assert "ok       secret      The right secret is accepted." in well.stdout
        assert lost.returncode == guarded.returncode == 1
        assert f"Give the provider {site}/mail{ENDPOINT}: hookrow answers there." in lost.stdout
        assert "error    csrf        " in guarded.stdout


@on_sqlite
def test_djangos_own_options_are_djangos(manage: Manage) -> None:
    """`--settings` and `--pythonpath` count, wherever they stand."""
    elsewhere = ("--settings=django_project.settings", "--pythonpath", str(TESTS))
    typed = ("hookrow", "log", *elsewhere, "--outcome", "recorded", "--no-color", "--json")
    done = manage.run(*typed, DJANGO_SETTINGS_MODULE="", PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["message_id"] == ADAS


@on_sqlite
def test_without_click(manage: Manage) -> None:
    """The line that installs what is missing, rather than a traceback."""
    code = (
        "import sys, django; django.setup(); sys.modules['click'] = None\n"
        "from django.core.management import execute_from_command_line\n"
        "execute_from_command_line(['manage.py', 'hookrow', 'log'])"
    )
    done = manage.execute(sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: The command needs an extra: pip install 'hookrow[django]'\n"


def test_call_command(manage: Manage) -> None:
    """Code of the project's may call it, hear what it says, and of a failure by an error."""
    said = manage.script(
        """
from io import StringIO
from django.core.management import CommandError, call_command
out, err = StringIO(), StringIO()
call_command("hookrow", "prune", "--keep", "90d", stdout=out, stderr=err)
call_command("hookrow", "log", "--json", "--limit", "1", stdout=out, stderr=err)
print(out.getvalue())
nowhere = "http://127.0.0.1:1/"
for typed in ("log show 77", "prune --keep 9", f"simulate open x --url {nowhere}"):
    try:
        call_command("hookrow", *typed.split(), stdout=out, stderr=err)
    except CommandError as error:
        print(error.returncode, error)
"""
    ).splitlines()
    assert said[0] == "Pruned: 0."
    assert json.loads(said[1])["outcome"] == "dispatch_not_found"
    assert said[3] == "1 The log has no notification 77."
    assert said[4].startswith("2 ")
    assert "'9' is no duration" in said[4]
    assert said[5].startswith("1 No answer from http://127.0.0.1:1/")


def test_simulate_posts_to_the_project(manage: Manage) -> None:
    """With the secret of its settings, and where its URLs have the endpoint."""
    endpoint = f"/mail{ENDPOINT}"
    asked = "from hookrow.django.commands import _endpoint; print(_endpoint())"
    assert manage.script(asked) == f"http://127.0.0.1:8000{endpoint}\n"
    with manage.runserver() as port:
        url = f"http://127.0.0.1:{port}{endpoint}"
        done = manage.run("hookrow", "simulate", "delivery", ADA, ADAS, "--url", url)
        assert (done.returncode, done.stdout) == (0, "200\n"), done.stderr
        done = manage.run("hookrow", "simulate", "open", "eve@example.com", ADAS, "--url", url)
        assert (done.returncode, done.stdout) == (1, "404 Engine::Subscriber not found\n")
