"""The command line: `hookrow serve`, `db`, `simulate`, `demo`, `check`, `log` and others.

Each command translates its options and calls what does the work; what that
imports is imported when the command runs, so that `--help` is quick.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hookrow.errors import HookrowError, MissingExtra

try:
    import click
except ImportError as error:
    raise MissingExtra("The command", "serve") from error

from hookrow import __version__
from hookrow.cli.check import check
from hookrow.cli.db import db
from hookrow.cli.file import read
from hookrow.cli.log import log, prune, replay
from hookrow.cli.options import option
from hookrow.cli.serve import serve
from hookrow.cli.simulate import simulate
from hookrow.cli.source import Tables
from hookrow.cli.stats import stats
from hookrow.server import sighup
from hookrow.server.settings import DEFAULT_FILE

EXTRAS = {
    "httptools": "serve",
    "uvicorn": "serve",
    "uvloop": "serve",
}
"""Which extra brings a module that a command needs."""


class Commands(click.Group):
    """Commands whose mistakes of configuration end in one line, never a traceback."""

    def invoke(self, context: click.Context) -> object:
        """Run the command that was asked for."""
        try:
            return super().invoke(context)
        except HookrowError as error:
            raise click.ClickException(str(error)) from error
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in EXTRAS:
                raise
            missing = MissingExtra("This command", EXTRAS[package])
            raise click.ClickException(str(missing)) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
@option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Read settings from this file, not from hookrow.toml in the current folder.",
)
@click.pass_context
def hookrow(context: click.Context, config: Path | None) -> None:
    """Receive an email provider's notifications and make them rows.

    A flag beats its variable in the environment, which beats hookrow.toml, which
    beats the default.
    """
    if context.invoked_subcommand != serve.name:
        sighup.release()
    context.obj = Tables()
    file = config or DEFAULT_FILE
    if config is not None or file.exists():
        context.default_map, schema = read(file, hookrow)
        context.obj = Tables(schema)


@hookrow.command()
@click.option("--once", is_flag=True, help="End after the summary.")
def demo(*, once: bool) -> None:
    """Show notifications becoming rows, in a database made for it.

    After the summary the server goes on, for notifications of your own, until
    Ctrl-C; where there is no terminal it ends as with --once.
    """
    from hookrow import demo

    demo.run(stay=not once and sys.stdin.isatty())


for command in (serve, db, simulate, check, log, stats, replay, prune):
    hookrow.add_command(command)
