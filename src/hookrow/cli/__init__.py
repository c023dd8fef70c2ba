"""The command line: `hookrow serve`, `db`, `simulate`, `demo`, `check`, `log` and others.

Each command translates its options and calls what does the work; what that
imports is imported when the command runs, so that `--help` is quick.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from hookrow.errors import ConfigurationError, HookrowError, MissingExtra

try:
    import click
except ImportError as error:
    raise MissingExtra("The command", "serve") from error

from hookrow import __version__, settings
from hookrow.cli.log import log, prune, replay
from hookrow.cli.options import (
    DATABASE_URL,
    HOST,
    JSON,
    KEEP,
    KEEP_BODIES,
    MOUNT_PATH,
    PORT,
    PREVIOUS_SECRET,
    SECRET,
    SECRET_FILE,
    option,
)
from hookrow.cli.origins import Origin, origins, summed_up
from hookrow.cli.simulate import simulate
from hookrow.cli.source import Tables
from hookrow.cli.stats import stats
from hookrow.finding import Explained, Finding, Level
from hookrow.settings import Settings, Value

EXTRAS = {
    "alembic": "sql",
    "httptools": "serve",
    "sqlalchemy": "sql",
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
            if error.name not in EXTRAS:
                raise
            missing = MissingExtra("This command", EXTRAS[error.name])
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
    context.obj = Tables()
    file = config or settings.DEFAULT_FILE
    if config is not None or file.exists():
        options = _options(hookrow)
        values, schema = settings.read(file, options)
        context.obj = Tables(schema)
        for name, value in values.items():
            _check_value(file, options[name], value)
        context.default_map = _defaults(hookrow, values)


@hookrow.command()
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
    help="Ask for the user hookrow and this; without it the pages are for 127.0.0.1 alone.",
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
def serve(  # noqa: PLR0913 - one for each option
    tables: Tables,
    *,
    secret: str | None,
    previous_secret: str | None,
    secret_file: str | None,
    database_url: str,
    mount_path: str,
    host: str,
    port: int,
    sweep: bool,
    spool: str | None,
    keep: timedelta | None,
    keep_bodies: timedelta | None,
    dashboard: bool,
    dashboard_password: str | None,
    metrics: bool,
    workers: int,
    log_level: str,
    log_format: str,
) -> None:
    """Receive notifications over HTTP until SIGTERM or Ctrl-C.

    It answers /healthz too (the process lives) and /readyz (the database answers
    and is migrated). An SQLite file with our tables is made and upgraded by itself;
    any other database needs `hookrow db upgrade` first. On SIGHUP the secret file is read anew.
    """
    from hookrow import server

    server.serve(
        Settings(
            secrets=_secrets(secret, previous_secret),
            secret_file=secret_file,
            database_url=database_url,
            host=host,
            mount_path=mount_path,
            sweep=sweep,
            spool=spool,
            keep=keep,
            keep_bodies=keep_bodies,
            dashboard=dashboard,
            dashboard_password=dashboard_password,
            metrics=metrics,
            schema=tables.schema,
        ),
        port=port,
        workers=workers,
        log_level=log_level,
        log_format=log_format,
    )


@hookrow.group()
def db() -> None:
    """Make and upgrade the tables of hookrow's own."""


@db.command()
@DATABASE_URL
@click.pass_obj
def upgrade(tables: Tables, database_url: str) -> None:
    """Make our tables, or bring them up to date."""
    from hookrow import migrations
    from hookrow.stores.engines import opened, shown

    with opened(database_url) as engine:
        migrations.upgrade(engine, tables.schema)
        newest = " and ".join(migrations.heads(tables.schema))
        click.echo(f"{shown(engine.url)} is at {newest}, the newest.")


@db.command()
@DATABASE_URL
def current(database_url: str) -> None:
    """Print the revision that the tables are at."""
    from hookrow import migrations
    from hookrow.stores.engines import opened

    with opened(database_url) as engine:
        click.echo(" and ".join(migrations.current(engine)) or "none")


@db.command()
@DATABASE_URL
@click.pass_obj
def sql(tables: Tables, database_url: str) -> None:
    """Print the statements that make our tables, for the database that is set."""
    from hookrow import migrations
    from hookrow.stores.engines import opened

    with opened(database_url) as engine:
        click.echo(migrations.sql(engine.dialect.name, tables.schema), nl=False)


@hookrow.command()
@click.option("--once", is_flag=True, help="End after the summary.")
def demo(*, once: bool) -> None:
    """Show notifications becoming rows, in a database made for it.

    After the summary the server goes on, for notifications of your own, until
    Ctrl-C; where there is no terminal it ends as with --once.
    """
    from hookrow import demo

    demo.run(stay=not once and sys.stdin.isatty())


@hookrow.command()
@click.argument("url", required=False)
@SECRET
@PREVIOUS_SECRET
@SECRET_FILE
@DATABASE_URL
@JSON
@click.pass_context
def check(
    context: click.Context,
    *,
    url: str | None,
    secret: str | None,
    previous_secret: str | None,
    secret_file: str | None,
    database_url: str,
    as_json: bool,
) -> None:
    """Check the configuration and the database, and say what to do about each fault.

    It tells where each setting came from, too, with no secret in it.

    With a URL, the one that the provider is given, check the webhook from outside
    instead. What is posted there is harmless on a live system: a reactivation of
    check@hookrow.invalid, whom nobody has as a subscriber, and two bodies of the type
    HookrowCheck, which are not supported; so they stand in the log. The secret is sent
    only to a server that answers as hookrow, and not in the clear through the internet.

    The exit status is 1 where there is an error.
    """
    found = Settings(
        secrets=_secrets(secret, previous_secret),
        secret_file=secret_file,
        database_url=database_url,
        schema=context.obj.schema,
    )
    told = origins(context, serve, found.schema)
    if url is not None:
        context.exit(report(_outside(url, found.accepted(), told), as_json=as_json))
    from hookrow.check import check

    findings = chain(check(found), told if as_json else summed_up(told))
    context.exit(report(findings, as_json=as_json))


def _outside(url: str, secrets: Sequence[str], told: Iterable[Origin]) -> Iterator[Finding]:
    """Look from outside with the newest of the secrets, and say where that came from."""
    from hookrow.outside import look

    yield from (each for each in told if each.setting in {"secret", "secret_file"} and each.value)
    yield from look(url, next(iter(secrets), None))


def report(findings: Iterable[Finding], *, as_json: bool) -> int:
    """Print what was found; return the exit status, which is 1 where there is an error."""
    worst = 0
    for finding in findings:
        if as_json:
            click.echo(msgspec.json.encode(finding).decode())
        else:
            click.echo(f"{finding.level.value:8} {finding.about:11} {finding.text}")
            for more in (finding.means, finding.change) if isinstance(finding, Explained) else ():
                click.echo(f"{'':20} {more}") if more else None
        worst = max(worst, finding.level is Level.ERROR)
    return worst


for command in (simulate, log, stats, replay, prune):
    hookrow.add_command(command)


def _secrets(*secrets: str | None) -> tuple[str, ...]:
    return tuple(secret for secret in secrets if secret is not None)


def _options(command: click.Command) -> dict[str, click.Parameter]:
    """Return what may stand in a file: every option that has a variable, by name."""
    options = {
        parameter.name: parameter
        for parameter in command.params
        if parameter.name and parameter.envvar and parameter.name != "config"
    }
    for member in command.commands.values() if isinstance(command, click.Group) else ():
        options.update(_options(member))
    return options


def _check_value(file: Path, option: click.Parameter, value: Value) -> None:
    """Check a file's value now: click would blame the environment for a mistake in it."""
    if isinstance(value, bool) and not isinstance(option.type, click.types.BoolParamType):
        raise ConfigurationError(f"{file}: {option.name} is neither text nor a whole number.")
    try:
        option.type.convert(value, option, None)
    except click.BadParameter as error:
        raise ConfigurationError(f"{file}: {option.name}: {error.message}") from error


def _defaults(command: click.Command, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values as click wants them: for each command by itself."""
    members = command.commands if isinstance(command, click.Group) else {}
    return {**values, **{name: _defaults(member, values) for name, member in members.items()}}
