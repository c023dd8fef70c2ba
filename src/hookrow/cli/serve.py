"""`hookrow serve`: the receiver behind a server of its own."""

from __future__ import annotations

from typing import Any

import click

from hookrow.cli.options import (
    DATABASE_URL,
    HOST,
    KEEP,
    KEEP_BODIES,
    MOUNT_PATH,
    PORT,
    PREVIOUS_SECRET,
    SECRET,
    SECRET_FILE,
    given,
    option,
)
from hookrow.cli.source import Tables
from hookrow.server.settings import Settings


@click.command()
@SECRET
@PREVIOUS_SECRET
@SECRET_FILE
@DATABASE_URL
@MOUNT_PATH
@HOST
@PORT
@option(
    "--sweep/--no-sweep",
    default=True,
    help="Try again every minute what could not be recorded; without it only on `replay`.",
)
@option(
    "--spool",
    metavar="FILE",
    help="Keep in this file what comes while the database cannot be reached.",
)
@KEEP
@KEEP_BODIES
@option("--dashboard", is_flag=True, help="Show pages at <mount path>/dashboard/, too.")
@option(
    "--dashboard-password",
    metavar="PASSWORD",
    help="Ask for the user hookrow and this; without it the pages require a token.",
)
@option("--metrics", is_flag=True, help="Answer /metrics too, for Prometheus.")
@option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@option(
    "--log-level",
    type=click.Choice(["critical", "error", "warning", "info", "debug"]),
    default="info",
    show_default=True,
    help="The lowest level that is logged, to standard error.",
)
@option(
    "--log-format",
    type=click.Choice(["line", "json"]),
    default="line",
    show_default=True,
    help="How a log line is written; json: one object a line.",
)
@click.pass_obj
def serve(
    tables: Tables,
    /,
    *,
    secret: str | None,
    previous_secret: str | None,
    port: int,
    workers: int,
    log_level: str,
    log_format: str,
    **options: Any,  # noqa: ANN401 - named and typed as in `Settings`
) -> None:
    """Receive notifications over HTTP until SIGTERM or Ctrl-C.

    It answers /healthz too (the process lives) and /readyz (the database answers
    and is migrated). An SQLite file with our tables is made and upgraded by itself;
    any other database needs `hookrow db upgrade` first. On SIGHUP the secret file is read anew.
    """
    from hookrow.server import run as processes

    processes.serve(
        Settings(secrets=given(secret, previous_secret), schema=tables.schema, **options),
        port=port,
        workers=workers,
        log_level=log_level,
        log_format=log_format,
    )
