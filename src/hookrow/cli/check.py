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

    It prints the source of each setting, but no secret. The exit status is 1 on an error.

    With the URL configured at the provider, check the webhook over the network instead.
    The requests are harmless on a live system: a reactivation of check@hookrow.invalid,
    which changes nothing and is not logged. The secret is sent only after hookrow has
    rejected a wrong one, and never unencrypted to a public address.
    """
    from hookrow.diagnostics import check, probe

    settings = Settings(
        secrets=given(secret, previous_secret),
        secret_file=secret_file,
        database_url=database_url,
        schema=context.obj.schema,
    )
    sources = settings_sources(context, serve, settings.schema)
    if url is None:
        results = chain(check.check(settings), sources if as_json else summarize(sources))
    else:
        used = (each for each in sources if each.setting.startswith("secret") and each.value)
        results = chain(used, probe.check_url(url, next(iter(settings.accepted()), None)))
    context.exit(report(results, as_json=as_json))


def report(results: Iterable[CheckResult], *, as_json: bool) -> int:
    """Print the results; return the exit status, which is 1 if there is an error."""
    status = 0
    for result in results:
        details = "".join(f"\n{'':20} {each}" for each in (result.meaning, result.remedy) if each)
        line = f"{result.level.value:8} {result.subject:11} {result.text}{details}"
        click.echo(msgspec.json.encode(result).decode() if as_json else line)
        status = max(status, result.level is Level.ERROR)
    return status
