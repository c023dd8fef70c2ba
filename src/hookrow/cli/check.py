"""`hookrow check`: checks the configuration and the database, or a webhook over the network."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import click
import msgspec

from hookrow.cli.options import DATABASE_URL, JSON, PREVIOUS_SECRET, SECRET, SECRET_FILE, given
from hookrow.cli.serve import serve
from hookrow.cli.settings import settings_sources, summarize
from hookrow.diagnostics.result import CheckResult, Level
from hookrow.server.settings import Settings

_SECRETS = {"secret", "secret_file"}
"""The settings whose source is printed with a URL."""


@click.command()
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
    """Check the configuration and the database, and explain how to fix each fault.

    The source of each setting is printed as well; secrets are not.

    With a URL, the one that the provider has, check the webhook over the network instead.
    The requests are harmless on a live system: a reactivation of check@hookrow.invalid,
    which changes nothing and is not logged. The secret is sent only after hookrow has
    rejected a wrong one, and never unencrypted to a public address.

    The exit status is 1 if there is an error.
    """
    settings = Settings(
        secrets=given(secret, previous_secret),
        secret_file=secret_file,
        database_url=database_url,
        schema=context.obj.schema,
    )
    sources = settings_sources(context, serve, settings.schema)
    if url is None:
        from hookrow.diagnostics.check import check

        results = chain(check(settings), sources if as_json else summarize(sources))
    else:
        from hookrow.diagnostics.probe import check_url

        used = (each for each in sources if each.setting in _SECRETS and each.value)
        newest = next(iter(settings.accepted()), None)
        results = chain(used, check_url(url, newest))
    context.exit(report(results, as_json=as_json))


def report(results: Iterable[CheckResult], *, as_json: bool) -> int:
    """Print the results; return the exit status, which is 1 if there is an error."""
    status = 0
    for result in results:
        if as_json:
            click.echo(msgspec.json.encode(result).decode())
        else:
            click.echo(f"{result.level.value:8} {result.subject:11} {result.text}")
            for line in filter(None, (result.meaning, result.remedy)):
                click.echo(f"{'':20} {line}")
        status = max(status, result.level is Level.ERROR)
    return status
