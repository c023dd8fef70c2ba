"""The project's commands, as processes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from command import Command

TESTS = Path(__file__).parents[1]


class Manage(Command):
    """Runs `python -m django` for the project on a database, with settings of a test's own."""

    def __init__(self, folder: Path, url: str, **settings: object) -> None:
        super().__init__(folder, (sys.executable, "-m", "django"))
        self._variables = {
            "PYTHONPATH": str(TESTS),
            "DJANGO_SETTINGS_MODULE": "django_project.settings",
            "DATABASE_URL": url,
            "HOOKROW_TEST_DJANGO": json.dumps(settings),
        }

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a process, with these variables."""
        return super().environment(self._variables | dict(variables))

    def script(self, code: str, *arguments: str) -> str:
        """Run Python with the project's apps loaded; return what it printed."""
        code = f"import django\ndjango.setup()\n{code}"
        done = self.execute(sys.executable, "-c", code, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout
