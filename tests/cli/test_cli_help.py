"""The help of every command."""

from __future__ import annotations

from collections.abc import Iterator

import click

from command import Command
from hookrow.cli import hookrow

ONE_CALL = {
    *("count", "repeat", "concurrency"),
    *("recipient", "since", "outcome", "record_type", "message_id", "limit", "before", "period"),
}
"""The options that concern a single call; all others are settings."""


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command, with what is typed for it."""
    yield path, group
    for name, member in group.commands.items():
        if isinstance(member, click.Group):
            yield from commands(member, *path, name)
        else:
            yield (*path, name), member


def test_help(command: Command) -> None:
    """Each command has a help text, and each option a line and, if a setting, a variable."""
    for path, found in commands(hookrow):
        done = command.call(*path, "--help")
        assert (done.returncode, done.stderr) == (0, ""), path
        assert found.help
        assert found.help.splitlines()[0].rstrip(".") in done.stdout
        for option in (each for each in found.params if isinstance(each, click.Option)):
            long = max(option.opts, key=len)
            assert long in done.stdout
            assert option.help
            assert option.help in done.stdout
            if option.name in ONE_CALL:
                assert option.envvar is None
            elif not option.is_flag:
                variable = f"HOOKROW_{long.removeprefix('--').replace('-', '_').upper()}"
                assert variable in str(option.envvar)
                assert option.show_envvar


def test_broken_file(command: Command) -> None:
    """Help is printed even if the file of settings is broken."""
    (command.folder / "hookrow.toml").write_text("port = ")
    done = command.call("-h")
    assert (done.returncode, done.stderr, done.stdout[:14]) == (0, "", "Usage: hookrow")


def test_secrets(command: Command) -> None:
    """Help does not print the secrets and passwords that are set."""
    (command.folder / "hookrow.toml").write_text(
        'secret = "hunter2-hunter2-hunter2"\ndatabase_url = "postgresql://ada:hunter2@db/mail"'
    )
    done = command.call("serve", "--help", HOOKROW_PREVIOUS_SECRET="hunter2")
    assert (done.returncode, "hunter2" in done.stdout) == (0, False)
