"""The command line: `hookrow serve`, `db`, `simulate`, `demo`, `check`, `log` and others.

Each command translates its options into a call to the code that does the work. That code is
imported only when the command runs, so that `--help` is fast.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hookrow.errors import HookrowError, MissingExtra

try:
    import click
except ModuleNotFoundError as error:
    if error.name != "click":
        raise
    raise MissingExtra("The command", "serve") from error

from click.core import ParameterSource
from click.shell_completion import get_completion_class

from hookrow import __version__
from hookrow._arguments import refuse_windows
from hookrow._cli.app import App, HostApp
from hookrow._cli.check import check
from hookrow._cli.db import db
from hookrow._cli.entries import read_entries, token_variables
from hookrow._cli.log import log
from hookrow._cli.options import OTHER_SYSTEMS, option
from hookrow._cli.output import INTERRUPTED, echo
from hookrow._cli.provider import provider
from hookrow._cli.replay import prune, replay
from hookrow._cli.serve import serve
from hookrow._cli.settings import DEFAULT_FILE, SettingsFile, read_file, unknown_variables
from hookrow._cli.simulate import simulate
from hookrow._cli.stats import stats
from hookrow._describe import printable
from hookrow._server import release_sighup

SERVERS = {"httptools", "uvicorn", "uvloop"}
"""The modules that commands import directly and that only the extra `serve` installs."""


class Commands(click.Group):
    """Commands that report wrong settings, missing extras and a full disk without a traceback."""

    def main(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - click's own
        """Run a command and exit. Its exit status is 1 if its output cannot be written."""
        try:
            return super().main(*args, **options)
        except OSError as error:
            if not _discard_output():
                raise
            click.echo(f"Error: The output cannot be written: {error.strerror}.", err=True)
            sys.exit(1)

    def invoke(self, context: click.Context) -> object:
        """Run the command. Its exit status is `INTERRUPTED` after Ctrl-C."""
        try:
            return super().invoke(context)
        except click.NoSuchOption as error:
            if error.ctx is None or not any(error.option_name in each.opts for each in self.params):
                raise
            command = error.ctx.command_path.removeprefix(context.command_path).strip()
            text = f"Put {error.option_name} before the command: hookrow {error.option_name} ... "
            raise click.UsageError(f"{text}{command}", error.ctx) from error
        except KeyboardInterrupt as error:
            click.echo("\n".join(["\nAborted!", *getattr(error, "__notes__", ())]), err=True)
            context.exit(INTERRUPTED)
        except HookrowError as error:
            # It may quote an application, a server or a notification.
            raise click.ClickException(printable(str(error), keep="\n")) from error
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in SERVERS:
                raise
            missing = MissingExtra("This command", "serve")
            raise click.ClickException(str(missing)) from error


def _discard_output() -> bool:
    """Return whether nothing more can be written to the output; if so, discard the rest.

    Otherwise, the interpreter would try to write the rest at exit, and print a traceback.
    """
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError:
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - no path of a file
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return True
    return False


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
    path = config or DEFAULT_FILE
    file = read_file(path, hookrow) if config or path.exists() else SettingsFile()
    context.default_map = file.defaults
    configured = read_entries(file.providers, os.environ, str(path))
    if app is None and (app := context.lookup_default("app")):
        context.set_parameter_source("app", ParameterSource.DEFAULT_MAP)
    of_entries = configured.variables if app is None else token_variables(os.environ)
    for warning in unknown_variables(hookrow, os.environ, of_entries):
        echo(f"Warning: {warning}", err=True)
    if app is None:
        context.obj = App(file.schema, configured)
    else:
        context.obj = HostApp(app, file.schema, configured)


@hookrow.command()
@click.option("--once", is_flag=True, help="Exit after the summary.")
@click.pass_context
def demo(context: click.Context, *, once: bool) -> None:
    """Show how notifications become rows, in a temporary database.

    After the summary, the server keeps running for your own notifications until you
    press Ctrl-C. If standard input is not a terminal, the demo exits as with --once.
    """
    refuse_windows("`hookrow demo`", OTHER_SYSTEMS)
    from hookrow import _demo

    root = context.find_root()
    if root.get_parameter_source("app") is ParameterSource.COMMANDLINE:
        raise click.UsageError("The demo runs its own application: omit --app.")
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    _demo.run(stay=not once and is_terminal)


@hookrow.command(short_help="Print a shell's script for completion.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in a shell.

    For bash, add this line to ~/.bashrc: eval "$(hookrow completion bash)". For zsh, add this line
    to ~/.zshrc, after compinit: eval "$(hookrow completion zsh)". For fish, add this line to
    config.fish: hookrow completion fish | source
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - for mypy: click has these shells
    # The name of the variable is click's own, for a program of this name.
    click.echo(kind(context.find_root().command, {}, "hookrow", "_HOOKROW_COMPLETE").source())


for command in (serve, db, simulate, check, log, stats, replay, prune, provider):
    hookrow.add_command(command)
