"""Mistakes of users: each ends with an error that names the remedy, and shows no secret."""

from __future__ import annotations

import shlex

import pytest

from command import Command

AWAY = "--database-url postgresql://ada:hunter2@127.0.0.1:1/mail"

MISTAKES = {
    "sevre": (2, "No such command 'sevre'"),
    "serve --prot 1": (2, "No such option"),
    "serve --port 0": (2, "0 is not in the range"),
    "serve --keep none": (2, "'none' is no duration"),
    "HOOKROW_KEEP=soon serve": (2, "'soon' is no duration: write 90d, 12h"),
    "--config nope.toml serve": (1, "nope.toml cannot be read"),
    "check ftp://a/b": (1, "That is no web address"),
    "check http://": (1, "That is no web address"),
    "check http://a:hunter2@c:d/": (1, "That is no web address"),
    "check --secret 'hunter2 hunter2' http://127.0.0.1:1/": (1, "The webhook secret"),
    f"db upgrade {AWAY}": (1, "The database cannot be"),
    "db upgrade --database-url postgresql://ada:hunter2@db:port/mail": (1, "no database URL"),
    "--config host.toml db upgrade": (1, "your own migrations"),
    "log --outcome lost": (2, "'lost' is not one of"),
    "log --json show 1": (2, "Options go behind 'show'"),
    f"log show {2**63 - 1}": (1, f"The log has no notification {2**63 - 1}."),
    "log forget example.com": (2, "'example.com' is no address."),
    "replay --dry-run": (2, "Say which: by ID, --outcome, --since or --recipient."),
    "replay --since ''": (2, "'' is no time: write 2h"),
    "log --database-url sqlite:///empty.db": (1, "hookrow_"),
    **{
        f"{command} {options}": (1, says)
        for command in ("log", "log show 1", "log forget a@b", "replay 1", "prune", "stats")
        for options, says in (
            ("--database-url sqlite:///none.db", "There is no none.db. Run: hookrow db upgrade"),
            (AWAY, "Connection refused"),
        )
    },
    **{
        f"--config nolog.toml {command}": (1, "There is no log")
        for command in ("log", "log show 1", "log forget a@b", "replay 1", "prune")
    },
    "simulate open": (2, "Missing argument 'EMAIL'"),
    "simulate open a@b --concurrency 1001": (2, "range"),
    "simulate open a@b --count 100000 --repeat 3": (2, "300,000 posts: at most 200,000 at a time"),
    "simulate open a@b --port 1": (1, "No answer from http://127.0.0.1:1/provider/webhooks"),
    "simulate open a@b --url nowhere --count 3": (1, "'nowhere' is no web address"),
    "simulate open a@b --url http://[::1": (1, "http://[::1"),
    "simulate open a@b --mount-path '/a b'": (1, "The mount path '/a b' is no path"),
    "simulate open a@b --secret 'hunter2\r'": (1, "secret"),
    "simulate open a\udcff@b --count 3": (1, "cannot be written as JSON"),
}
"""By what is typed: the exit status, and a part of the message."""

WRONG_FILES = {
    "keep = 90": "keep: 90 is no duration: write 90d",
    "keep = false": "keep is neither text nor a whole number",
    "sweep = 'maybe'": "sweep: 'maybe' is not a valid boolean",
    "prot = 1": "there is no setting 'prot'. Did you mean 'port'?",
    "port = 0": "port: 0 is not in the range",
    "[tables.subscribers]\ntable = 'people'\ncolumns = { emial = 'x' }": "emial",
}
"""By the content of the file: a part of the message."""


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Return the command, in a folder with a database and files of settings."""
    command = Command(tmp_path_factory.mktemp("mistakes"))
    (command.folder / "empty.db").touch()
    no_log = "[tables]\nlog = false\n"
    (command.folder / "nolog.toml").write_text(no_log)
    (command.folder / "host.toml").write_text(f"{no_log}[tables.subscribers]\ntable = 'people'")
    assert command.call("db", "upgrade").returncode == 0
    return command


@pytest.mark.parametrize("line", MISTAKES)
def test_mistake(command: Command, line: str) -> None:
    """A mistake is a message that names it; a wrong argument ends with 2, other mistakes with 1."""
    status, says = MISTAKES[line]
    words = shlex.split(line)
    variables = dict([words.pop(0).split("=")]) if line.startswith("HOOKROW_") else {}
    done = command.call(*words, **variables)
    assert done.returncode == status
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert says in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    assert not (command.folder / "none.db").exists()


@pytest.mark.parametrize("content", WRONG_FILES)
def test_wrong_file(command: Command, content: str) -> None:
    """A mistake in the file of settings is one line with the file's name."""
    (command.folder / "wrong.toml").write_text(content)
    done = command.call("--config", "wrong.toml", "serve")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: wrong.toml")
    assert WRONG_FILES[content] in done.stderr
    assert done.stderr.count("\n") == 1
