"""The command line: `hookrow serve`, `db`, `simulate`, `demo`, `check`, `log` and others.

Each command translates its options into a call to the code that does the work. That code is
imported only when the command runs, so that `--help` is fast.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hookrow.errors import HookrowError, MissingExtra

try:
    import click
except ImportError as error:
    raise MissingExtra("The command", "serve") from error

from click.core import ParameterSource

from hookrow import __version__
from hookrow.cli.app import StandaloneApp
from hookrow.cli.check import check
from hookrow.cli.completion import completion
from hookrow.cli.db import db
from hookrow.cli.host import HostApp
from hookrow.cli.log import log
from hookrow.cli.options import option, repeat_options
from hookrow.cli.progress import INTERRUPTED
from hookrow.cli.replay import prune, replay
from hookrow.cli.serve import serve
from hookrow.cli.settings import DEFAULT_FILE, read_file, setting_source, unknown_variables
from hookrow.cli.simulate import simulate
from hookrow.cli.stats import stats
from hookrow.core.schema import Schema
from hookrow.server import release_sighup

SERVERS = {"httptools", "uvicorn", "uvloop"}
"""The modules that commands import directly and that only the extra `serve` installs."""


class Commands(click.Group):
    """Commands that print configuration mistakes and missing extras without a traceback."""

    def invoke(self, context: click.Context) -> object:
        """Run the command. Its exit status is `INTERRUPTED` after Ctrl-C."""
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            click.echo("\nAborted!", err=True)
            context.exit(INTERRUPTED)
        except HookrowError as error:
            raise click.ClickException(repeat_options(str(error))) from error
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
    help="Read settings from this file instead of hookrow.toml in the current directory.",
)
@option(
    "--app",
    metavar="MODULE:NAME",
    help="Use the receiver or the store of your application, such as shop.mail:receiver.",
)
@click.pass_context
def hookrow(context: click.Context, config: Path | None, app: str | None) -> None:
    """Receive an email provider's notifications and record them in a database.

    An option takes precedence over its environment variable, the variable over
    hookrow.toml, and the file over the default.
    """
    if context.invoked_subcommand != serve.name:
        release_sighup()
    for warning in unknown_variables(hookrow, os.environ):
        click.echo(f"Warning: {warning}", err=True)
    schema, file = Schema(), config or DEFAULT_FILE
    if config or file.exists():
        context.default_map, schema = read_file(file, hookrow)
    if app is None and (app := context.lookup_default("app")):
        context.set_parameter_source("app", ParameterSource.DEFAULT_MAP)
    context.obj = StandaloneApp(schema)
    if app is not None:
        [parameter] = (each for each in hookrow.params if each.name == "app")
        source = setting_source(context, parameter, "app", str(file))
        context.obj = HostApp(app, source, file=str(file), tables=schema != Schema())


@hookrow.command()
@click.option("--once", is_flag=True, help="Exit after the summary.")
@click.pass_context
def demo(context: click.Context, *, once: bool) -> None:
    """Show how notifications become rows, in a temporary database.

    After the summary, the server keeps running for your own notifications until you
    press Ctrl-C. If standard input is not a terminal, the demo exits as with --once.
    """
    from hookrow import demo

    root = context.find_root()
    if root.get_parameter_source("app") is ParameterSource.COMMANDLINE:
        raise click.UsageError("The demo runs its own application: omit --app.")
    demo.run(stay=not once and sys.stdin.isatty())


for command in (serve, db, simulate, check, log, stats, replay, prune, completion):
    hookrow.add_command(command)
