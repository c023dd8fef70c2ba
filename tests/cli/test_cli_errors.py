"""Mistakes of users: each error names the remedy and contains no secret."""

import logging
import os
import re
import shlex
import socket
import subprocess
from collections.abc import Iterator
from importlib import import_module

import pytest

from command import HOOKROW, Command, clean_environment
from wire import SECRET

AWAY = "--database-url postgresql://ada:hunter2@127.1.1.1:1/mail"  # where no server listens

# By command: a part of the message. The exit status of click's own errors is 2, of others 1.
MISTAKES = {
    "HOOKROW_KEEP=soon serve": "Invalid value for '--keep' (env var: 'HOOKROW_KEEP'): 'soon' is",
    "log --json show 1": "Put the options after 'show'",
    "db upgrade --app shop.mail:receiver": "Put --app before the command: hookrow --app ... db upg",
    "log show 1 --config x": "Put --config before the command: hookrow --config ... log show",
    "log forget example.com": "'example.com' is not an email address.",
    "replay --dry-run": "by ID, --type, --recipient, --message-id, --entry, --outcome, --since, "
    "--parked or --expired.",
    "replay 98 99": "The log has no notifications 98, 99.",
    "replay --since ''": "'' is not a time: use 2h",
    "--config nope.toml serve": "nope.toml cannot be read",
    "--config wrong.toml serve": "wrong.toml: keep: 90 is not a duration: use 90d",
    **{
        f"{command} {url}": "Invalid value for"
        for command in ("check", "simulate open a@b --url", "provider rotate --instance")
        for url in (
            *("ftp://x", "foo", "http://", "http://x:notaport", "http://a:hunter2@c:d/"),
            *("sqlite:///hunter2.db", "postgresql://ada:hunter2@db/mail"),
        )
    },
    "check --secret 'hunter2 hunter2' http://127.0.0.1:1/": "The webhook secret",
    f"db upgrade {AWAY}": "The database cannot be",
    "--config host.toml db upgrade": "your own migrations",
    f"log show {2**63 - 1}": f"The log has no notification {2**63 - 1}.",
    "log --database-url sqlite:///empty.db": "hookrow_",
    **{
        f"{command} {options}": message
        for command in ("log", "log show 1", "log forget a@b", "replay 1", "prune", "stats")
        for options, message in (
            ("--database-url sqlite:///none.db", "does not exist. If your application"),
            (AWAY, "Connection refused"),
        )
    },
    **{
        f"{command} --database-url sqlite://": "in memory exists only in the process that opens it"
        for command in ("log", "prune", "stats", "replay 1", "db current", "db upgrade")
    },
    **{
        f"{command} --database-url sqlite:///{file}": message
        for command in ("log", "prune", "stats", "db current", "db upgrade")
        for file, message in (
            ("wrong.toml", "file is not a database. Name another file, or restore this one"),
            ("damaged.db", "malformed. The file is damaged: restore it from a backup, or recover"),
        )
    },
    **{
        f"{command} --database-url sqlite:///{file}": f"cannot be used: {message}. Name another"
        for command in ("log", "stats", "db current", "db upgrade", f"serve --secret {SECRET}")
        for file, message in (
            ("loop", "Too many levels of symbolic links"),
            ("wrong.toml/hookrow.db", "Not a directory"),
            ("n" * 300, "File name too long"),
            ("folder", "it is not a regular file"),
        )
    },
    **{
        f"--config nolog.toml {command}": "The log is disabled"
        for command in ("log", "log show 1", "log forget a@b", "replay 1", "prune")
    },
    "simulate open a@b --host 127.1.1.1 --port 1": "No response from http://127.1.1.1:1/provider/web",
    "simulate open a@b --url http://127.1.1.1:1": "refused. Is `hookrow serve`, or the server of",
    "simulate open a@b --url nowhere --count 3": "must look like https://example.com/mail/provider",
    "simulate open a@b --url http://[::1": "must look like https://example.com/mail/provider",
    "check ftp://x": "with https:// or http://, and without",
    "check sqlite:///hookrow.db": "Name a database with --database-url, or with HOOKROW_DATABASE_",
    "HOOKROW_URL=ftp://x simulate open a@b": "must look like https://example.com/mail/provider",
    "provider status --provider-api ftp://x": "is not the address of an API",
    "provider register --url https://x/": "The URL must end in /provider/webhooks",
    "provider register --url ftp://x/": "must look like https://example.com/mail/provider/webhooks",
    "simulate open a@b --mount-path '/a b'": "The mount path '/a b' is not valid",
    "simulate open a@b --secret 'hunter2\r'": "secret",
    "simulate open a\udcff@b --count 3": "cannot be encoded as JSON",
    "serve": "set HOOKROW_SECRET, --secret or --secret-file, for example to a secret from `python",
    "serve --secret-file blank": "or correct HOOKROW_SECRET_FILE, --secret-file or secret_file in",
    "serve --secret-file nope": "Correct HOOKROW_SECRET_FILE, --secret-file or secret_file in",
    "serve --secret hunter2-größe": "visible ASCII",
    f"serve --secret {SECRET} --secret-file secrets": "use only one",
    **{
        f"serve --secret {SECRET} {options}": message
        for options, message in (
            ("--mount-path '/a?b'", "use a path such as /mail"),
            ("--database-url postgresql://ada:hunter2@db:port/mail", "not a database URL"),
            ("--database-url sqlite:////nonexistent/hookrow.db", "file. Create its directory"),
            ("--database-url sqlite://", "exists only in the process that opens it"),
            ("--spool host.toml", "cannot be written"),
            ("--spool :memory:", "keeps notifications in a file, not in memory"),
            ("--host nowhere.invalid", "nowhere.invalid"),
            ("--host bücher..x", "the host is not valid"),
            ("--host ''", "use 127.0.0.1"),
            ("--dashboard --host 0.0.0.0", "set HOOKROW_DASHBOARD_PASSWORD"),
            ("--fd 999", "The file descriptor 999 is not a socket: Bad file descriptor."),
            ("--fd 2147483648", "2147483648 is not in the range 0<=x<=2147483647"),
            ("--fd 3 --port 8000", "--fd names a socket, which has an address: remove --port"),
        )
    },
    f"HOOKROW_HOST=localhost serve --secret {SECRET} --fd 3": "remove --host or HOOKROW_HOST.",
    f"--config host.toml serve --secret {SECRET}": "no table 'people'",
}


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    command = Command(tmp_path_factory.mktemp("mistakes"))
    folder, no_log = command.folder, "[tables]\nlog = false\n"
    (folder / "empty.db").touch()
    (folder / "loop").symlink_to("loop")
    (folder / "folder").mkdir()
    (folder / "secrets").write_text("hunter2")
    (folder / "blank").write_text("\n")
    (folder / "nolog.toml").write_text(no_log)
    (folder / "wrong.toml").write_text("keep = 90")
    (folder / "host.toml").write_text(f"{no_log}[tables.subscribers]\ntable = 'people'" + 99 * "\n")
    assert command.call("db", "upgrade").returncode == 0
    content = (folder / "hookrow.db").read_bytes()
    (folder / "damaged.db").write_bytes(content[:100] + b"\xff" * len(content[100:]))
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
    """Return the error of a command, which prints only usage, progress or a warning before it.

    `serve` also logs which database it uses.
    """
    done = command.call(*arguments, **variables)
    lines = [
        line
        for line in done.stderr.splitlines()
        if not line.startswith("Warning: ") and "and records them in" not in line
    ]
    assert lines[0].startswith(("Error: ", "Usage: "))
    assert lines[-1].startswith("Error: ")
    assert done.returncode == (2 if lines[0].startswith("Usage: ") else 1)
    assert not re.search(f"hunter2|{SECRET}", done.stdout + done.stderr)
    return lines[-1]


@pytest.mark.parametrize("line", MISTAKES)
def test_mistake(command: Command, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("hookrow._cli.simulate"), "START_TIMEOUT", 0.0)
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


def write_to(output: int, command: Command, *typed: str, **variables: str) -> tuple[int, str]:
    """Run a command with this standard output; return its status and standard error."""
    done = subprocess.run(
        [HOOKROW, *typed],
        cwd=command.folder,
        env=clean_environment() | variables,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(output)
    return done.returncode, done.stderr


@pytest.mark.parametrize(("typed", "unbuffered"), [("log", ""), ("--help", "1")])
def test_full_disk(command: Command, typed: str, unbuffered: str) -> None:
    """If standard output cannot be written, the error is one line without a traceback."""
    full = os.open("/dev/full", os.O_WRONLY)
    error = "Error: The output cannot be written: No space left on device.\n"
    assert write_to(full, command, typed, PYTHONUNBUFFERED=unbuffered) == (1, error)


def test_closed_pipe(command: Command) -> None:
    """If the reader of standard output is gone, the command ends silently, with an error status."""
    reader, writer = os.pipe()
    os.close(reader)
    assert write_to(writer, command, "db", "sql") == (1, "")


def test_a_port_beside_a_socket_of_systemd(command: Command) -> None:
    """The port would have no effect, so the server does not start."""
    variables = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
    done = command.call("serve", "--secret", SECRET, "--port", 8001, **variables)
    message = "systemd has passed a socket, which has an address: remove --port or HOOKROW_PORT."
    assert (done.returncode, message in done.stderr) == (1, True)
