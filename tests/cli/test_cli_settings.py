"""Where settings come from: flags, the environment, the file, defaults; and what is rejected."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from command import Command
from hookrow import processes
from hookrow.cli import hookrow
from hookrow.settings import Settings

DAY = timedelta(days=1)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the settings that `hookrow serve` is started with, instead of starting it."""
    found: list[dict[str, Any]] = []

    def serve(settings: Settings, **options: object) -> None:
        fields = {name: getattr(settings, name) for name in Settings.__slots__}
        found.append(fields | options)

    monkeypatch.setattr(processes, "serve", serve)
    return found


PRECEDENCE = {
    "secret": (("'a'", "b", "--secret=c"), ((), ("a",), ("b",), ("c",))),
    "secret_file": (("'a'", "b", "--secret-file=c"), (None, "a", "b", "c")),
    "database_url": (("'a'", "b", "--database-url=c"), ("sqlite:///hookrow.db", "a", "b", "c")),
    "mount_path": (("'/a'", "/b", "--mount-path=/c"), ("", "/a", "/b", "/c")),
    "host": (("'::1'", "::2", "--host=::3"), ("127.0.0.1", "::1", "::2", "::3")),
    "port": (("8001", "8002", "--port=8003"), (8000, 8001, 8002, 8003)),
    "workers": (("2", "3", "--workers=4"), (1, 2, 3, 4)),
    "sweep": (("false", "1", "--no-sweep"), (True, False, True, False)),
    "spool": (("'a'", "b", "--spool=c"), (None, "a", "b", "c")),
    "keep": (("'2w'", "1d", "--keep=forever"), (90 * DAY, 14 * DAY, DAY, None)),
    "keep_bodies": (("'none'", "7d", "--keep-bodies=none"), (None, 0 * DAY, 7 * DAY, 0 * DAY)),
    "dashboard": (("true", "false", "--dashboard"), (False, True, False, True)),
    "dashboard_password": (("'a'", "b", "--dashboard-password=c"), (None, "a", "b", "c")),
    "metrics": (("true", "false", "--metrics"), (False, True, False, True)),
    "log_level": (("'debug'", "error", "--log-level=info"), ("info", "debug", "error", "info")),
    "log_format": (("'json'", "line", "--log-format=json"), ("line", "json", "line", "json")),
}
"""By setting: it in the file, the environment and a flag; and what is used: the default first."""


@pytest.mark.parametrize("name", PRECEDENCE)
def test_precedence(command: Command, started: list[dict[str, Any]], name: str) -> None:
    """A flag beats the variable, which beats the file, which beats the default."""
    (line, value, flag), expected = PRECEDENCE[name]
    variable = {f"HOOKROW_{name.upper()}": value}
    assert command.call("serve").returncode == 0
    (command.folder / "hookrow.toml").write_text(f"{name} = {line}")
    for variables in ({f"HOOKROW_{name.upper()}": ""}, variable):
        assert command.call("serve", **variables).returncode == 0
    assert command.call("serve", flag, **variable).returncode == 0
    field = "secrets" if name == "secret" else name
    assert tuple(settings[field] for settings in started) == expected


def test_precedence_is_complete() -> None:
    """Every setting of `hookrow serve` is in the table, but one that adds to another."""
    names = {each.name for each in hookrow.commands["serve"].params}
    assert names == {*PRECEDENCE, "previous_secret"}


def test_several_names(command: Command, started: list[dict[str, Any]]) -> None:
    """HOOKROW_PREVIOUS_SECRET adds a secret; HOOKROW_DATABASE_URL beats DATABASE_URL."""
    command.call("serve", DATABASE_URL="common")
    command.call(
        *("serve", "--secret", "new"),
        HOOKROW_PREVIOUS_SECRET="old",
        DATABASE_URL="common",
        HOOKROW_DATABASE_URL="own",
    )
    assert [settings["database_url"] for settings in started] == ["common", "own"]
    assert [settings["secrets"] for settings in started] == [(), ("new", "old")]


def test_file(command: Command, started: list[dict[str, Any]]) -> None:
    """`--config` and HOOKROW_CONFIG name another file than hookrow.toml."""
    for port, name in enumerate(("hookrow", "variable", "flag"), 1):
        (command.folder / f"{name}.toml").write_text(f"port = {port}")
    command.call("serve")
    command.call("serve", HOOKROW_CONFIG="variable.toml")
    command.call("--config", "flag.toml", "serve", HOOKROW_CONFIG="variable.toml")
    assert [settings["port"] for settings in started] == [1, 2, 3]


HIDDEN = ("secret-of-the-flag", "secret-of-a-variable", "secret-of-the-file", "pa55:wo/r@d")

FILE = f"""
    secret = "{HIDDEN[2]}"
    database_url = "postgresql://bob:{HIDDEN[3]}@127.0.0.1:1/mail?sslpassword=pa55"
    workers = 3
    [tables]
    subscriptions = false
    [tables.subscribers]
    table = "people"
"""


class TestSources:
    """`hookrow check` prints where each setting came from, and no secret."""

    def test_json(self, command: Command) -> None:
        """As JSON each setting has its value, its source and the source's name."""
        (command.folder / "hookrow.toml").write_text(FILE)
        printed = command.call(
            *("check", "--json", "--previous-secret", HIDDEN[0]),
            HOOKROW_SECRET=HIDDEN[1],
            HOOKROW_PREVIOUS_SECRET=HIDDEN[1],
            HOOKROW_PORT="8001",
            HOOKROW_SPOOL="",
        ).stdout
        assert not any(secret in printed for secret in HIDDEN)
        found = {
            each["setting"]: (each["value"], each["source"], each["name"])
            for each in map(json.loads, printed.splitlines())
            if each["about"] == "setting"
        }
        assert set(found) == {*PRECEDENCE, "previous_secret", "config", "tables"}
        url = "postgresql://bob:***@127.0.0.1:1/mail?sslpassword=***"
        ours = "dispatches in hookrow_dispatches, log in hookrow_notifications"
        expected = {
            "previous_secret": ("***", "flag", "--previous-secret"),
            "secret": ("***", "variable", "HOOKROW_SECRET"),
            "port": ("8001", "variable", "HOOKROW_PORT"),
            "database_url": (url, "file", "hookrow.toml"),
            "workers": ("3", "file", "hookrow.toml"),
            "host": ("127.0.0.1", "default", ""),
            "spool": (None, "default", ""),
            "tables": (f"subscribers in people, {ours}", "file", "hookrow.toml"),
        }
        assert {name: found[name] for name in expected} == expected

    def test_text(self, command: Command) -> None:
        """As text the settings have a line each; defaults and unset ones share a line.

        A value that `serve` would reject is an error.
        """
        (command.folder / "other.toml").write_text("port = 8002\nsecret = 'hunter2'")
        variables = {"DATABASE_URL": "sqlite:///x.db", "HOOKROW_WORKERS": "two"}
        done = command.call("--config", "other.toml", "check", **variables)
        assert done.returncode == 1
        lines = [line for line in done.stdout.splitlines() if " setting " in line]
        *made, defaults, unset = [line.partition("setting     ")[2] for line in lines]
        wrong = made.pop(-1)
        assert made == [
            "config is other.toml, from the flag --config.",
            "secret is ***, from the file other.toml.",
            "database_url is sqlite:///x.db, from the variable DATABASE_URL.",
            "port is 8002, from the file other.toml.",
        ]
        assert wrong.startswith("workers is two, from the variable HOOKROW_WORKERS: ")
        assert defaults.startswith("By default: host 127.0.0.1, ")
        assert unset.startswith("Not set: previous_secret, secret_file, mount_path, spool")
