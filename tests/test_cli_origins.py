"""Where each setting came from, as `hookrow check` tells it: every source, and no secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import Command
from hookrow.cli import hookrow
from hookrow.cli.origins import concealed

SECRETS = ("secret-of-the-flag", "secret-of-a-variable", "secret-of-the-file", "pa55:wo/r@d")

FILE = f"""
secret = "{SECRETS[2]}"
database_url = "postgresql://bob:{SECRETS[3]}@127.0.0.1:1/mail?sslpassword=pa55"
mount_path = "/mail"
workers = 3
sweep = false
[tables]
subscriptions = false
[tables.subscribers]
table = "people"
"""


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return the command, in a folder with a file of settings."""
    (tmp_path / "hookrow.toml").write_text(FILE)
    return Command(tmp_path)


def told(command: Command, *flags: str, **variables: str) -> dict[str, tuple[str | None, str, str]]:
    """Return the value, the source and its name of each setting."""
    done = command.call("check", "--json", *flags, **variables)
    assert not any(secret in done.stdout for secret in SECRETS)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        each["setting"]: (each["value"], each["source"], each["name"])
        for each in lines
        if each["about"] == "setting"
    }


class TestOrigins:
    def test_every_source(self, command: Command) -> None:
        """A flag beats a variable, which beats the file, which beats the default."""
        found = told(
            command,
            *("--previous-secret", SECRETS[0]),
            HOOKROW_SECRET=SECRETS[1],
            HOOKROW_PREVIOUS_SECRET=SECRETS[1],
            HOOKROW_PORT="8001",
            HOOKROW_SPOOL="",
        )
        file = "hookrow.toml"
        assert found["previous_secret"] == ("***", "flag", "--previous-secret")
        assert found["secret"] == ("***", "variable", "HOOKROW_SECRET")
        assert found["port"] == ("8001", "variable", "HOOKROW_PORT")
        url = "postgresql://bob:***@127.0.0.1:1/mail?sslpassword=***"
        assert found["database_url"] == (url, "file", file)
        assert (found["workers"], found["sweep"]) == (("3", "file", file), ("false", "file", file))
        assert found["host"] == ("127.0.0.1", "default", "")
        assert found["spool"] == (None, "default", "")
        ours = "dispatches in hookrow_dispatches, log in hookrow_notifications"
        tables = f"subscribers in people, {ours}"
        assert found["tables"] == (tables, "file", file)

    def test_every_setting(self, command: Command) -> None:
        """Each that `serve` has is told, and the file's own name."""
        names = {each.name for each in hookrow.commands["serve"].params}
        assert set(told(command)) == {"config", "tables", *names}

    def test_the_second_variable(self, command: Command) -> None:
        """Of two variables the one is named that counts."""
        url = "sqlite:///x.db"
        found = told(command, DATABASE_URL=url)["database_url"]
        assert found == (url, "variable", "DATABASE_URL")
        both = told(command, DATABASE_URL="sqlite:///y.db", HOOKROW_DATABASE_URL=url)
        assert both["database_url"] == (url, "variable", "HOOKROW_DATABASE_URL")

    def test_text(self, command: Command) -> None:
        """In text what was set has a line each, what was not is summed up."""
        (command.folder / "other.toml").write_text("port = 8002\nsecret = 'secret-of-the-file'")
        done = command.call("--config", "other.toml", "check")
        lines = [line for line in done.stdout.splitlines() if line.startswith("ok       setting")]
        *made, defaults, unset = [line.partition("setting     ")[2] for line in lines]
        assert made == [
            "config is other.toml, from the flag --config.",
            "secret is ***, from the file other.toml.",
            "port is 8002, from the file other.toml.",
        ]
        assert defaults.startswith("By default: database_url sqlite:///hookrow.db, host 127.0.0.1,")
        assert unset.startswith("Not set: previous_secret, secret_file, mount_path, spool")

    def test_what_cannot_be_read(self, command: Command) -> None:
        """A value that `serve` would refuse is an error, with where it comes from."""
        done = command.call("check", HOOKROW_PORT="http", HOOKROW_SECRET=SECRETS[1])
        assert done.returncode == 1
        assert "error    setting     port is http, from the variable HOOKROW_PORT: " in done.stdout


@pytest.mark.parametrize(
    ("setting", "value", "as_shown"),
    [
        ("secret", "x", "***"),
        ("dashboard_password", "x", "***"),
        ("secret_file", "/run/secret", "/run/secret"),
        ("database_url", "sqlite:////tmp/a:b@c.db", "sqlite:////tmp/a:b@c.db"),
        ("mount_path", "/mail:x@y", "/mail:x@y"),
        ("database_url", "postgresql://bob@h/d", "postgresql://bob@h/d"),
        ("database_url", "postgresql://bob:@h/d", "postgresql://bob:***@h/d"),
        ("database_url", "postgresql://:p@h/d", "postgresql://:***@h/d"),
        (
            "database_url",
            "postgresql:///d?password=p&user=u",
            "postgresql:///d?password=***&user=u",
        ),
        ("database_url", "postgresql:/bob:p\n@h", "postgresql:/bob:***@h"),
        ("database_url", "bob:p@h/d", "bob:***@h/d"),
        ("database_url", "host=h password=p user=u", "host=h password=*** user=u"),
    ],
)
def test_concealed(setting: str, value: str, as_shown: str) -> None:
    """No secret is shown, and of an address all but its passwords."""
    assert concealed(setting, value) == as_shown
