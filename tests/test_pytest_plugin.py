"""The pytest plugin, in projects of their own: it adds two fixtures, and changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

WITHOUT_EXTRAS = """
import sys

class Missing:
    \"\"\"Finds no package that hookrow does not bring along.\"\"\"

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"sqlalchemy", "alembic", "click", "uvicorn", "django"}:
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, Missing())
"""

USED = """
    from datetime import UTC, datetime

    from hookrow.testing import delivery, post

    AT = datetime(2026, 3, 4, tzinfo=UTC)

    def test_used(hookrow_store, hookrow_receiver):
        hookrow_store.subscribers[1] = {"email": "ada@example.com"}
        hookrow_store.dispatches[1] = {
            "provider_message_id": "m-1", "subscriber_id": 1, "list_id": None
        }
        assert post(hookrow_receiver, delivery("ada@example.com", "m-1", at=AT)) == (200, "")
        assert hookrow_store.dispatches[1]["delivered_at"] == AT

    def test_each_test_has_its_own(hookrow_store):
        assert not hookrow_store.subscribers
"""


class Project:
    """A folder with tests in it, and an environment without extras."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "without_extras.py").write_text(WITHOUT_EXTRAS)
        (folder / "pytest.ini").touch()

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        (self._folder / name).write_text(dedent(text))

    def pytest(self, *arguments: str, status: int = 0, alone: bool = False) -> str:
        """Run pytest there; return what it printed.

        Alone it loads no plugin that is not named: all those of ours take their time.
        """
        variables = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if alone else {}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "without_extras", *arguments],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": str(self._folder), "COLUMNS": "200"} | variables,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Make an empty project."""
    return Project(tmp_path)


def test_the_fixtures_are_there(project: Project) -> None:
    """With nothing but hookrow installed, a test asks for them by name."""
    project.write("test_used.py", USED)
    assert "2 passed" in project.pytest("-W", "error")


def test_the_receiver_is_closed(project: Project) -> None:
    """After the test it takes no more."""
    project.write(
        "test_closed.py",
        """
        kept = []

        def test_used(hookrow_receiver):
            kept.append(hookrow_receiver)

        def test_closed():
            import json
            from datetime import UTC, datetime
            from hookrow import Head, Request
            from hookrow.testing import opening

            body = json.dumps(opening("ada@example.com", "m-1", at=datetime.now(UTC))).encode()
            assert kept[0](Request(Head("POST", "/", []), body)).status == 503
        """,
    )
    assert "2 passed" in project.pytest("-p", "hookrow", alone=True)


def test_two_fixtures(project: Project) -> None:
    """The fixtures that pytest lists are the same with the plugin and without, but for two."""
    project.write("test_nothing.py", "def test_nothing(): pass")
    plain = project.pytest("--fixtures", alone=True).splitlines()
    listed = project.pytest("--fixtures", "-p", "hookrow", alone=True).splitlines()
    names = [line.split()[0] for line in listed if line not in plain and line.startswith("hookrow")]
    assert names == ["hookrow_store", "hookrow_receiver"]


def test_nothing_else(project: Project) -> None:
    """The plugin has no hook, and so no option and no marker; it sets no warning filter.

    It imports nothing else of hookrow's at the start, nor what that needs.
    """
    project.write(
        "test_other.py",
        """
        import sys, warnings

        def test_other(pytestconfig):
            manager = pytestconfig.pluginmanager
            assert manager.has_plugin("hookrow")
            assert not manager.get_hookcallers(manager.get_plugin("hookrow"))
            assert not any("hookrow" in str(each) for each in warnings.filters)
            loaded = {name for name in sys.modules if name.startswith("hookrow.")}
            assert loaded == {"hookrow.pytest_plugin"}
            assert "msgspec" not in sys.modules
        """,
    )
    assert "1 passed" in project.pytest("-p", "hookrow", alone=True)


def test_it_can_be_left_out(project: Project) -> None:
    """`-p no:hookrow` leaves a run without it."""
    project.write("test_used.py", USED)
    assert "fixture 'hookrow_store' not found" in project.pytest("-p", "no:hookrow", status=1)
