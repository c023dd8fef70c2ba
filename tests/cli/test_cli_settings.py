"""The sources of settings: flags, the environment, the file and defaults."""

import json
from typing import Any

import pytest

from command import Command
from hookrow._cli import hookrow
from hookrow._server import run
from hookrow._server.settings import EntrySettings, Settings
from times import DAY


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return a list with the settings of each `hookrow serve`, which is not started."""
    found: list[dict[str, Any]] = []

    def serve(settings: Settings, **options: object) -> None:
        fields = {name: getattr(settings, name) for name in Settings.__slots__}
        [entry] = settings.entries
        assert isinstance(entry, EntrySettings)
        found.append(fields | options | {"secrets": entry.credentials, "secret_file": entry.file})

    monkeypatch.setattr(run, "serve", serve)
    return found


# By setting: its value in the file, the environment and a flag; then the values used, the
# default first.
PRECEDENCE = {
    "secret": (("'a'", "b", "--secret=c"), ((), ("a",), ("b",), ("c",))),
    "sweep": (("false", "1", "--no-sweep"), (True, False, True, False)),
    "keep_bodies": (("'none'", "7d", "--keep-bodies=none"), (None, 0 * DAY, 7 * DAY, 0 * DAY)),
}


@pytest.mark.parametrize("name", PRECEDENCE)
def test_precedence(command: Command, started: list[dict[str, Any]], name: str) -> None:
    """A flag overrides the variable, which overrides the file, which overrides the default."""
    (line, value, flag), expected = PRECEDENCE[name]
    variable = {f"HOOKROW_{name.upper()}": value}
    assert command.call("serve").returncode == 0
    (command.folder / "hookrow.toml").write_text(f"{name} = {line}", encoding="utf-8")
    for variables in ({f"HOOKROW_{name.upper()}": ""}, variable):
        assert command.call("serve", **variables).returncode == 0
    assert command.call("serve", flag, **variable).returncode == 0
    field = "secrets" if name == "secret" else name
    assert tuple(settings[field] for settings in started) == expected


def test_several_names(command: Command, started: list[dict[str, Any]]) -> None:
    """HOOKROW_PREVIOUS_SECRET adds a secret; HOOKROW_DATABASE_URL overrides DATABASE_URL."""
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
    """`--config` and HOOKROW_CONFIG select a file other than hookrow.toml."""
    for port, name in enumerate(("hookrow", "variable", "flag"), 1):
        (command.folder / f"{name}.toml").write_text(f"port = {port}")
    command.call("serve")
    command.call("serve", HOOKROW_CONFIG="variable.toml")
    command.call("--config", "flag.toml", "serve", HOOKROW_CONFIG="variable.toml")
    assert [settings["port"] for settings in started] == [1, 2, 3]


FILE_WINS, SECRET_WINS = ((), "f"), (("s",), None)


@pytest.mark.parametrize(
    ("line", "typed", "variables", "expected"),
    [
        ("", "--secret-file f", "SECRET=s", FILE_WINS),
        ("secret = 's'", "", "SECRET_FILE=f", FILE_WINS),
        ("secret = 's'", "--secret-file f", "PREVIOUS_SECRET=old", FILE_WINS),
        ("", "--secret s", "SECRET_FILE=f", SECRET_WINS),
        ("secret_file = 'f'", "", "SECRET=s", SECRET_WINS),
        ("secret_file = 'f'", "--secret s", "PREVIOUS_SECRET=old", (("s", "old"), None)),
        # Neither takes precedence, so that `EntrySettings` rejects them.
        ("secret = 's'\nsecret_file = 'f'", "", "", (("s",), "f")),
        ("secret_file = 'f'", "--previous-secret old", "", (("old",), "f")),
        ("", "--secret-file f --previous-secret old", "SECRET=s", (("s", "old"), "f")),
    ],
)
def test_a_secret_and_a_secret_file(
    command: Command,
    started: list[dict[str, Any]],
    line: str,
    typed: str,
    variables: str,
    expected: tuple[tuple[str, ...], str | None],
) -> None:
    """The one from the stronger source is used; a previous secret alone does not replace a file."""
    (command.folder / "hookrow.toml").write_text(line)
    name, _, value = f"HOOKROW_{variables}".partition("=")
    assert command.call("serve", *typed.split(), **{name: value}).returncode == 0
    assert (started[0]["secrets"], started[0]["secret_file"]) == expected


@pytest.mark.parametrize("typed", ["log", "check", "db sql", "serve"])
def test_unknown_variables(
    command: Command, started: list[dict[str, Any]], sqlite_url: str, typed: str
) -> None:
    """Each command warns of them on stderr, with the nearest name; the tests' own are known."""
    del started, sqlite_url
    names = ("HOOKROW_DATABSE_URL", "HOOKROW_TEST_PG_BIN", "HOOKROW_ZZZZZZ")
    done = command.call(*typed.split(), **dict.fromkeys(names, "x"))
    text = "Warning: The variable {} is not a setting of hookrow, and is ignored.{}"
    assert done.stderr.splitlines() == [
        text.format(names[0], " Did you mean 'HOOKROW_DATABASE_URL'?"),
        text.format(names[2], ""),
    ]


HIDDEN = ("secret-of-the-flag", "secret-of-a-variable", "secret-of-the-file", "pa55:wo/r@d")
FILE = f"""
    secret = "{HIDDEN[2]}"
    database_url = "postgresql://bob:{HIDDEN[3]}@127.0.0.1:1/mail?sslpassword=pa55"
    [tables]
    subscriptions = false
    record = ["click", "first_open"]
    [tables.subscribers]
    table = "people"
"""


def test_sources(command: Command) -> None:
    """`hookrow check` prints the source of each setting, but no secret.

    A value that `serve` would reject is an error.
    """
    (command.folder / "other.toml").write_text(FILE)
    done = command.call(
        *("--config", "other.toml", "check", "--json", "--previous-secret", HIDDEN[0]),
        HOOKROW_SECRET=HIDDEN[1],
        HOOKROW_PREVIOUS_SECRET=HIDDEN[1],
        HOOKROW_PORT="8001",
        HOOKROW_SPOOL="",
        HOOKROW_WORKERS="two",
    )
    assert not any(secret in done.stdout for secret in HIDDEN)
    found = {
        each["setting"]: each
        for each in map(json.loads, done.stdout.splitlines())
        if each["subject"] == "setting"
    }
    names = {each.name for each in hookrow.commands["serve"].params if each.envvar}
    assert set(found) == {*names, "config", "app", "tables"}
    url = "postgresql://bob:***@127.0.0.1:1/mail?sslpassword=***"
    for name, expected in {
        "config": ("other.toml", "flag", "--config"),
        "previous_secret": ("***", "flag", "--previous-secret"),
        "secret": ("***", "variable", "HOOKROW_SECRET"),
        "port": ("8001", "variable", "HOOKROW_PORT"),
        "workers": ("two", "variable", "HOOKROW_WORKERS"),
        "database_url": (url, "file", "other.toml"),
        "host": ("127.0.0.1", "default", ""),
        "spool": (None, "default", ""),
        "tables": ("set", "file", "other.toml"),
    }.items():
        assert tuple(found[name][key] for key in ("value", "source", "name")) == expected
    assert [name for name, each in found.items() if each["level"] == "error"] == ["workers"]
    assert found["workers"]["text"].startswith("workers is two, from the variable HOOKROW_WORKERS:")
