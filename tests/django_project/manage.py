"""The project's commands, as processes."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from command import Command
from wire import PATIENCE, eventually, free_port

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

    @contextmanager
    def runserver(self) -> Iterator[int]:
        """Run Django's own server until the block ends; yield its port."""
        port = free_port()
        process = subprocess.Popen(
            [*self._program, "runserver", "--noreload", f"127.0.0.1:{port}"],
            cwd=self.folder,
            env=self.environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually(lambda: _listens(port))
            yield port
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
