"""`manage.py hookrow`, which passes its arguments to the commands of `hookrow`."""

from __future__ import annotations

import sys
from argparse import REMAINDER
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TextIO, cast

from django.core.management.base import (
    BaseCommand,
    CommandError,
    CommandParser,
    handle_default_options,
)
from django.db import connections

from hookrow.errors import MissingExtra

try:
    import click
except ModuleNotFoundError as _error:
    if _error.name != "click":
        raise
    sys.exit(f"Error: {MissingExtra('The command', 'django')}")

from hookrow.django._commands import commands


class Command(BaseCommand):
    """Runs a command of `hookrow`, with the settings in place of its options."""

    help = "Manage hookrow's log: check, log, replay, stats, prune, simulate."
    requires_system_checks: tuple[str, ...] = ()  # `hookrow check` runs them

    def run_from_argv(self, argv: list[str]) -> None:
        """Run a command and exit with its status. Django's own options are also accepted."""
        parser = BaseCommand().create_parser(argv[0], argv[1], add_help=False, allow_abbrev=False)
        options, arguments = parser.parse_known_args(argv[2:])
        handle_default_options(options)
        try:
            commands().main(arguments, prog_name=f"{_program(argv[0])} {argv[1]}")
        finally:
            connections.close_all()

    def print_help(self, prog_name: str, subcommand: str) -> None:
        """Print the help of the commands."""
        self.run_from_argv([prog_name, subcommand, "--help"])

    def add_arguments(self, parser: CommandParser) -> None:
        """Accept all arguments of `call_command`."""
        parser.add_argument("args", nargs=REMAINDER)

    def handle(self, *args: str, **options: Any) -> None:  # noqa: ANN401 - Django's own
        """Run a command for `call_command`. Raises `CommandError` if its status is not 0."""
        del options
        self.stdout.ending = self.stderr.ending = ""  # click ends lines itself
        out, err = cast("TextIO", self.stdout), cast("TextIO", self.stderr)
        try:
            with redirect_stdout(out), redirect_stderr(err):
                status = commands().main(args, prog_name="hookrow", standalone_mode=False)
        except click.ClickException as error:
            raise CommandError(error.format_message(), returncode=error.exit_code) from error
        except click.Abort as error:
            raise CommandError("Aborted.") from error
        if status:
            raise CommandError(f"hookrow {' '.join(args)} failed.", returncode=status)


def _program(path: str) -> str:
    name = Path(path).name
    return "python -m django" if name == "__main__.py" else name
