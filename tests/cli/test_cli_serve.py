"""`hookrow serve` refuses what cannot work in one line, with status 1, and without the secret."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from command import Command
from postgres import Databases
from wire import SECRET


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return the command, in an empty folder."""
    return Command(tmp_path)


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Restore the loggers, which the command configures."""
    loggers = [logging.getLogger(name) for name in ("hookrow", "uvicorn")]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def assert_refused(done: CompletedProcess[str], text: str) -> None:
    """Check for a single line on standard error, with this text."""
    assert re.fullmatch(r"Error: [^\n]+\n", done.stderr), done.stderr
    assert text in done.stderr
    assert (done.returncode, done.stdout) == (1, "")
    assert not re.search(f"hunter2|{SECRET}", done.stderr)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--secret", ""], "The webhook secret is missing or empty"),
        (["--secret", "hunter2-größe"], "visible ASCII"),
        (["--previous-secret", "hunter2 x"], "without spaces"),
        (["--secret-file", "secrets"], "keep one of the two"),
        (["--mount-path", "/a?b"], "write for example /mail"),
        (["--database-url", "mysql://ada:hunter2@db/mail"], "PostgreSQL and SQLite, not on mysql"),
        (["--database-url", "postgresql://ada:hunter2@db:port/mail"], "no database URL"),
        (["--database-url", "postgresql+nosuch://a:hunter2@db/x"], "write postgresql:// instead"),
        (["--database-url", "sqlite://"], "name a file"),
        (["--database-url", "sqlite:////nonexistent/hookrow.db"], "unable to open database file"),
        (["--spool", "hookrow.toml"], "cannot be written"),
        (["--host", "nowhere.invalid"], "nowhere.invalid"),
        (["--host", "bücher..x"], "it is no address"),
        (["--host", ""], "write 127.0.0.1"),
        (["--dashboard", "--host", "0.0.0.0"], "set HOOKROW_DASHBOARD_PASSWORD"),
    ],
)
def test_settings(command: Command, arguments: list[str], text: str) -> None:
    """A setting that cannot work is refused."""
    (command.folder / "hookrow.toml").write_text("log_level = 'info'" + 99 * "\n")
    (command.folder / "secrets").write_text("hunter2")
    done = command.call("serve", *arguments, HOOKROW_SECRET=SECRET, HOOKROW_PORT="1")
    assert_refused(done, text)


def test_no_secret(command: Command) -> None:
    """Without a secret, the line says how to generate one; a process ends with status 1, too."""
    assert_refused(command.run("serve"), "python -c 'import secrets;")


@pytest.mark.parametrize("workers", [1, 2])
def test_port_in_use(command: Command, workers: int) -> None:
    """A port in use is refused, and named."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        arguments = ("--port", port, "--workers", workers)
        assert_refused(command.call("serve", *arguments, HOOKROW_SECRET=SECRET), f":{port}: ")


class TestTables:
    def serve(self, command: Command, url: str) -> CompletedProcess[str]:
        """Serve on a database."""
        return command.call("serve", HOOKROW_SECRET=SECRET, HOOKROW_DATABASE_URL=url)

    def test_of_hookrow(
        self, command: Command, postgres: Databases, empty_postgres_url: str, postgres_url: str
    ) -> None:
        """On PostgreSQL tables are not created, but the command is named that creates them.

        Those of another revision, or of a newer hookrow, are refused.
        """
        assert_refused(self.serve(command, empty_postgres_url), "Run: hookrow db upgrade")
        update = "UPDATE hookrow_version SET version_num = '9999' WHERE version_num = '0001'"
        postgres.execute(update, url=postgres_url)
        assert_refused(self.serve(command, postgres_url), "9999")

    def test_of_a_host(self, command: Command, sqlite_url: str) -> None:
        """A host's tables that do not exist are refused."""
        (command.folder / "hookrow.toml").write_text("[tables.subscribers]\ntable = 'people'")
        assert_refused(self.serve(command, sqlite_url), "no table 'people'")
