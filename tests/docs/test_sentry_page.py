"""The page on Sentry: its settings keep the secret and the address out of what the SDK sends."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hookrow.testing import SECRET
from session import read_files

PROGRAM = Path(__file__).with_name("sentry_host.py")

FILES = read_files("docs/how-to/sentry.md")

ADDRESS = "ada@example.com"


def sent(folder: Path, file: str | None = None) -> Mapping[str, Sequence[str]]:
    """Return what is sent from each framework, with the settings in a file of the page."""
    modules = []
    if file is not None:
        (folder / file).write_text(FILES[file])
        modules = [file.removesuffix(".py")]
    done = subprocess.run(
        [sys.executable, PROGRAM, *modules],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    texts: Mapping[str, Sequence[str]] = json.loads(done.stdout)
    assert all(len(each) >= 2 for each in texts.values())
    return texts


def test_the_defaults_send_the_secret_and_the_address(tmp_path: Path) -> None:
    """If this fails, the SDK has better defaults: the page can be shortened."""
    for host, texts in sent(tmp_path).items():
        assert SECRET in "".join(texts), host
        assert ADDRESS in "".join(texts) or host == "Starlette", host  # its SDK reads no body


@pytest.mark.parametrize("file", sorted(FILES))
def test_the_settings_keep_both_out(tmp_path: Path, file: str) -> None:
    for host, texts in sent(tmp_path, file).items():
        for text in texts:
            assert SECRET not in text, host
            assert ADDRESS not in text, host
            assert "BrokenError" in "".join(texts), host  # the exception itself is reported


@pytest.mark.parametrize(
    ("tutorial", "file"),
    [
        ("fastapi-asyncpg-alembic", "newsletter/monitoring.py"),
        ("flask-factory", "newsletter/monitoring.py"),
        ("django", "project/settings.py, at its end"),
    ],
)
def test_the_tutorials_have_the_same_settings(tutorial: str, file: str) -> None:
    assert (
        read_files(f"docs/tutorials/{tutorial}.md")[file].strip() == FILES["monitoring.py"].strip()
    )
