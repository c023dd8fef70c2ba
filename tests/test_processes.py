"""The workers of `hookrow serve`: what they get from their parent, and how."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from command import Command, Serving
from hookrow.cli.serve import serve
from hookrow.errors import ConfigurationError
from hookrow.processes import VARIABLE, Handover, _settings_file, application
from hookrow.settings import Settings
from wire import eventually

SECRETS = {
    "secret": "hunter2-of-this-year",
    "previous_secret": "hunter2-of-last-year",
    "dashboard_password": "hunter2-of-the-dashboard",
    "database_url": "postgresql://ada:hunter2-of-the-database@127.0.0.1:1/mail",
}


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return the command, in an empty folder."""
    return Command(tmp_path)


def settings_files(command: Command) -> list[Path]:
    """Return the settings files written for workers."""
    return list(command.temporary.glob("hookrow-settings-*"))


class TestSecrets:
    @contextmanager
    def serving(self, command: Command, *, by: str) -> Iterator[Serving]:
        """Run two workers whose settings, secrets included, come from a file or from variables."""
        variables = {"HOOKROW_SECRET": ""}
        if by == "file":
            lines = [f'{name} = "{value}"\n' for name, value in SECRETS.items()]
            (command.folder / "hookrow.toml").write_text("".join(lines))
        else:
            variables = {f"HOOKROW_{name.upper()}": value for name, value in SECRETS.items()}
            variables["DATABASE_URL"] = SECRETS["database_url"]
        with command.serving("--dashboard", "--workers", 2, **variables) as server:
            eventually(lambda: server.log.count("Application startup complete") == 2)
            yield server

    @pytest.mark.parametrize(
        ("by", "number"), [("file", signal.SIGTERM), ("variables", signal.SIGINT)]
    )
    def test_not_in_the_environment_of_a_child(
        self, command: Command, by: str, number: signal.Signals
    ) -> None:
        """No child process has one in its environment; workers read a file that is deleted."""
        with self.serving(command, by=by) as server:
            assert len(server.workers()) == 2
            for child in server.children():
                assert b"hunter2" not in Path(f"/proc/{child}/environ").read_bytes()
            (file,) = settings_files(command)
            assert file.stat().st_mode & 0o777 == 0o600
            assert SECRETS["dashboard_password"] in file.read_text()
            server.send(number)
            assert server.ended() == 0
        assert settings_files(command) == []
        assert "hunter2" not in server.log

    def test_every_setting_has_a_variable_that_is_removed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Every variable of a setting of `serve` is removed; others, such as PGPASSWORD, stay."""
        envvars = [parameter.envvar for parameter in serve.params]
        names = {
            name for each in envvars for name in ([each] if isinstance(each, str) else each or [])
        }
        assert {"HOOKROW_SECRET", "DATABASE_URL"} <= names
        monkeypatch.setattr(os, "environ", dict.fromkeys([*names, "PGPASSWORD"], "x"))
        with _settings_file(Handover(Settings(database_url="sqlite://"))):
            assert set(os.environ) == {"PGPASSWORD", VARIABLE}


class TestSettingsFile:
    def test_stopped_while_workers_start(self, command: Command) -> None:
        """SIGTERM as soon as the file exists still deletes it."""
        options = ("--workers", "2")
        with command.starting(*options) as server:
            eventually(lambda: settings_files(command))
            server.send(signal.SIGTERM)
            assert server.ended() == 0
        assert settings_files(command) == []

    def test_it_cannot_be_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a folder for temporary files, an error says which variable names one."""
        monkeypatch.setattr(os, "environ", {})
        monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
        handover = Handover(Settings(database_url="sqlite://"))
        with pytest.raises(ConfigurationError, match="Set TMPDIR"), _settings_file(handover):
            pass

    def test_it_is_gone(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A worker that cannot read it ends with a line that says what to do."""
        monkeypatch.setenv(VARIABLE, "/nonexistent")
        with pytest.raises(SystemExit):
            application()
        assert "/nonexistent cannot be read: No such file or directory. Restart" in caplog.text
