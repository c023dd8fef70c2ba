"""The command line: `hookrow serve`, `db`, `simulate`, `demo`, `check`, `log` and others.

Each command translates its options into a call of the code that does the work. It imports that
code when it runs, so that `--help` is quick.
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
from hookrow.cli.app import StandaloneApp
from hookrow.cli.check import check
from hookrow.cli.db import db
from hookrow.cli.log import log
from hookrow.cli.options import option
from hookrow.cli.replay import prune, replay
from hookrow.cli.serve import serve
from hookrow.cli.settings import DEFAULT_FILE, read_file
from hookrow.cli.simulate import simulate
from hookrow.cli.stats import stats
from hookrow.core.schema import Schema
from hookrow.server import release_sighup

SERVERS = {"httptools", "uvicorn", "uvloop"}
"""The modules that commands import directly and that only the extra `serve` installs."""


class Commands(click.Group):
    """Commands that print configuration mistakes and missing extras without a traceback."""

    def invoke(self, context: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(context)
        except HookrowError as error:
            raise click.ClickException(str(error)) from error
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in SERVERS:
                raise
            missing = MissingExtra("This command", "serve")
            raise click.ClickException(str(missing)) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
@option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Read settings from this file instead of hookrow.toml in the current folder.",
)
@click.pass_context
def hookrow(context: click.Context, config: Path | None) -> None:
    """Receive an email provider's notifications and record them in a database.

    An option takes precedence over its environment variable, the variable over
    hookrow.toml, and the file over the default.
    """
    if context.invoked_subcommand != serve.name:
        release_sighup()
    schema, file = Schema(), config or DEFAULT_FILE
    if config or file.exists():
        context.default_map, schema = read_file(file, hookrow)
    context.obj = StandaloneApp(schema)


@hookrow.command()
@click.option("--once", is_flag=True, help="Exit after the summary.")
def demo(*, once: bool) -> None:
    """Show how notifications become rows, in a temporary database.

    After the summary, the server continues to run for your own notifications until
    Ctrl-C. If standard input is not a terminal, the demo exits as with --once.
    """
    from hookrow import demo

    demo.run(stay=not once and sys.stdin.isatty())


for command in (serve, db, simulate, check, log, stats, replay, prune):
    hookrow.add_command(command)
