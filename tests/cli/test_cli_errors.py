"""Mistakes of users: each error names the remedy and contains no secret."""

import logging
import re
import shlex
import socket
from collections.abc import Iterator

import pytest

from command import Command
from wire import SECRET

AWAY = "--database-url postgresql://ada:hunter2@127.1.1.1:1/mail"  # where no server listens

# By command: a part of the message. The exit status of click's own errors is 2, of others 1.
MISTAKES = {
    "HOOKROW_KEEP=soon serve": "Invalid value for '--keep' (env var: 'HOOKROW_KEEP'): 'soon' is",
    "log --json show 1": "Write options after 'show'",
    "log forget example.com": "'example.com' is not an email address.",
    "replay --dry-run": "Select notifications by ID, --outcome, --since or --recipient.",
    "replay --since ''": "'' is not a time: write 2h",
    "simulate open a@b --count 100000 --repeat 3": "300,000 posts: the maximum is 200,000",
    "--config nope.toml serve": "nope.toml cannot be read",
    "--config wrong.toml serve": "wrong.toml: keep: 90 is not a duration: write 90d",
    "check http://a:hunter2@c:d/": "This is not the URL of a webhook",
    "check --secret 'hunter2 hunter2' http://127.0.0.1:1/": "The webhook secret",
    f"db upgrade {AWAY}": "The database cannot be",
    "--config host.toml db upgrade": "your own migrations",
    f"log show {2**63 - 1}": f"The log has no notification {2**63 - 1}.",
    "log --database-url sqlite:///empty.db": "hookrow_",
    **{
        f"{command} {options}": message
        for command in ("log", "log show 1", "log forget a@b", "replay 1", "prune", "stats")
        for options, message in (
            ("--database-url sqlite:///none.db", "There is no none.db. Run: hookrow db upgrade"),
            (AWAY, "Connection refused"),
        )
    },
    **{
        f"--config nolog.toml {command}": "There is no log"
        for command in ("log", "log show 1", "log forget a@b", "replay 1", "prune")
    },
    "simulate open a@b --host 127.1.1.1 --port 1": "No response from http://127.1.1.1:1/provider/web",
    "simulate open a@b --url nowhere --count 3": "'nowhere' is not a URL",
    "simulate open a@b --url http://[::1": "http://[::1",
    "simulate open a@b --mount-path '/a b'": "The mount path '/a b' is not a path",
    "simulate open a@b --secret 'hunter2\r'": "secret",
    "simulate open a\udcff@b --count 3": "cannot be written as JSON",
    "serve": "python -c 'import secrets;",
    "serve --secret hunter2-größe": "visible ASCII",
    f"serve --secret {SECRET} --secret-file secrets": "use only one",
    **{
        f"serve --secret {SECRET} {options}": message
        for options, message in (
            ("--mount-path '/a?b'", "write for example /mail"),
            ("--database-url postgresql://ada:hunter2@db:port/mail", "not a database URL"),
            ("--database-url sqlite:////nonexistent/hookrow.db", "unable to open database file"),
            ("--spool host.toml", "cannot be written"),
            ("--host nowhere.invalid", "nowhere.invalid"),
            ("--host bücher..x", "it is not an address"),
            ("--host ''", "use 127.0.0.1"),
            ("--dashboard --host 0.0.0.0", "set HOOKROW_DASHBOARD_PASSWORD"),
        )
    },
    f"--config host.toml serve --secret {SECRET}": "no table 'people'",
}


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    command = Command(tmp_path_factory.mktemp("mistakes"))
    folder, no_log = command.folder, "[tables]\nlog = false\n"
    (folder / "empty.db").touch()
    (folder / "secrets").write_text("hunter2")
    (folder / "nolog.toml").write_text(no_log)
    (folder / "wrong.toml").write_text("keep = 90")
    (folder / "host.toml").write_text(f"{no_log}[tables.subscribers]\ntable = 'people'" + 99 * "\n")
    assert command.call("db", "upgrade").returncode == 0
    return command


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Restore the loggers, which `serve` configures."""
    loggers = [logging.getLogger(name) for name in ("hookrow", "uvicorn")]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def fail(command: Command, *arguments: object, **variables: str) -> str:
    """Return the error of a command, which prints only usage or progress before it."""
    done = command.call(*arguments, **variables)
    lines = done.stderr.splitlines()
    assert lines[0].startswith(("Error: ", "Usage: ", "Posting"))
    assert lines[-1].startswith("Error: ")
    assert done.returncode == (2 if lines[0].startswith("Usage: ") else 1)
    assert not re.search(f"hunter2|{SECRET}", done.stdout + done.stderr)
    return lines[-1]


@pytest.mark.parametrize("line", MISTAKES)
def test_mistake(command: Command, line: str) -> None:
    words = shlex.split(line)
    variables = dict([words.pop(0).split("=")]) if line.startswith("HOOKROW_") else {}
    assert MISTAKES[line] in fail(command, *words, **variables)
    assert not (command.folder / "none.db").exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_port_in_use(command: Command, workers: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        options = ("--secret", SECRET, "--port", port, "--workers", workers)
        assert f":{port}: " in fail(command, "serve", *options)
