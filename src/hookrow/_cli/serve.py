"""`hookrow serve`: the standalone server."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from hookrow._arguments import refuse_windows
from hookrow._cli import options
from hookrow._cli.app import WITHOUT_APP, App, HostApp
from hookrow._cli.entries import entries_of, read_tokens
from hookrow._cli.options import OTHER_SYSTEMS, option
from hookrow._server.inherited import LARGEST_DESCRIPTOR, Inherited, choose_descriptor
from hookrow._server.settings import Settings
from hookrow.errors import ConfigurationError
from hookrow.providers.postmark import Postmark


@click.command()
@options.SECRET_OPTION
@options.PREVIOUS_SECRET
@options.SECRET_FILE
@options.DATABASE_URL
@options.MOUNT_PATH
@options.HOST
@options.PORT
@click.option(
    "--fd",
    type=click.IntRange(0, LARGEST_DESCRIPTOR),
    metavar="NUMBER",
    help="Serve on this inherited file descriptor, a listening socket, instead of a host and port; "
    "by default, on the socket that systemd passes, if any.",
)
@option(
    "--sweep/--no-sweep",
    default=True,
    help="Retry parked notifications every minute; with --no-sweep, only `replay` records them.",
)
@option(
    "--acknowledge-tests",
    is_flag=True,
    help="Respond to the provider's tests with 200, as it requires before it saves a webhook.",
)
@option(
    "--acknowledge-parked/--no-acknowledge-parked",
    default=None,
    help="Respond to parked notifications with 200: the sweep retries them, the provider does not. "
    "By default, only those of Postmark get a 404 or 400.",
)
@option(
    "--acknowledge-spooled",
    is_flag=True,
    help="Respond to notifications in the spool with 200, for providers that do not repeat a "
    "notification after a 503.",
)
@option(
    "--spool",
    metavar="FILE",
    help="Keep notifications in this file while the database cannot be reached.",
)
@options.KEEP_OPTION
@options.KEEP_BODIES
@option("--dashboard", is_flag=True, help="Serve the dashboard at <mount path>/dashboard/.")
@option(
    "--dashboard-password",
    metavar="PASSWORD",
    help="The dashboard's password, for the user hookrow; by default, one is generated.",
)
@options.PROVIDER_API
@options.PROVIDER_TOKEN_FILE
@option("--metrics", is_flag=True, help="Serve Prometheus metrics at /metrics.")
@option("--workers", type=click.IntRange(1), default=1, help="The number of processes.")
@option(
    "--log-level",
    type=click.Choice(["critical", "error", "warning", "info", "debug"]),
    default="info",
    help="The lowest level that is logged to standard error.",
)
@option(
    "--log-format",
    type=click.Choice(["line", "json"]),
    default="line",
    help="The format of the log: lines of text, or one JSON object per line.",
)
@click.pass_context
def serve(
    context: click.Context,
    /,
    *,
    secret: str | None,
    previous_secret: str | None,
    secret_file: str | None,
    workers: int,
    log_level: str,
    log_format: str,
    **others: Any,  # noqa: ANN401 - the other settings
) -> None:
    """Receive notifications over HTTP until SIGTERM or Ctrl-C.

    The server also responds at /healthz (the process is running) and /readyz (a notification
    would be recorded). It creates and upgrades hookrow's tables in an SQLite file; for a database
    on a server, run `hookrow db upgrade` first. On SIGHUP, it reloads the secret file.
    """
    refuse_windows("`hookrow serve`", OTHER_SYSTEMS)
    from hookrow._server import run

    app: App = context.obj
    if isinstance(app, HostApp):
        raise ConfigurationError(
            f"{app} is served by your own server: mount the receiver there. For hookrow's own "
            f"server, {WITHOUT_APP}."
        )
    inherited = choose_descriptor(others.pop("fd"))
    if inherited is not None:
        _refuse_address(context, inherited)
    entries = entries_of(
        context, secret=secret, previous_secret=previous_secret, secret_file=secret_file
    )
    run.serve(
        Settings(
            entries=entries,
            provider_tokens=read_tokens(
                context,
                [each.name for each in entries if each.provider == Postmark.name],
                others.pop("provider_token_file"),
            ),
            schema=app.schema,
            **others,
        ),
        descriptor=inherited.descriptor if inherited else None,
        workers=workers,
        log_level=log_level,
        log_format=log_format,
    )


def _refuse_address(context: click.Context, inherited: Inherited) -> None:
    """Raise `ConfigurationError` if an option or a variable sets an address besides the socket's.

    The address in a settings file is ignored, because receivers may share the file.
    """
    for name in ("host", "port"):
        source = context.get_parameter_source(name)
        if source in {ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT}:
            raise ConfigurationError(
                f"{inherited.origin}, which has an address: remove --{name} or "
                f"HOOKROW_{name.upper()}."
            )
