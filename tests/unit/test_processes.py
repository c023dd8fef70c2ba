"""The settings that `hookrow serve` passes to its workers in a file."""

from __future__ import annotations

import os

import pytest

from hookrow.cli.serve import serve
from hookrow.processes import VARIABLE, Handover, _settings_file, application
from hookrow.settings import Settings

HANDOVER = Handover(Settings(database_url="sqlite://"))


def test_variables_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers inherit no variable with a setting of `serve`; others, such as PGPASSWORD, stay."""
    names: set[str] = set()
    for parameter in serve.params:
        envvar = parameter.envvar or []
        names.update([envvar] if isinstance(envvar, str) else envvar)
    assert {"HOOKROW_SECRET", "DATABASE_URL"} <= names
    monkeypatch.setattr(os, "environ", dict.fromkeys([*names, "PGPASSWORD"], "x"))
    with _settings_file(HANDOVER):
        assert set(os.environ) == {"PGPASSWORD", VARIABLE}


def test_missing_file(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A worker that cannot read the file ends with a line that says what to do."""
    monkeypatch.setenv(VARIABLE, "/nonexistent")
    with pytest.raises(SystemExit):
        application()
    assert "/nonexistent cannot be read: No such file or directory. Restart" in caplog.text
