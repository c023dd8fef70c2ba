"""`hookrow check`: what is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import click
import msgspec

from hookrow.cli.options import DATABASE_URL, JSON, PREVIOUS_SECRET, SECRET, SECRET_FILE, given
from hookrow.cli.origins import Origin, origins, summed_up
from hookrow.cli.serve import serve
from hookrow.diagnostics.result import CheckResult, Explained, Level
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
        secrets=given(secret, previous_secret),
        secret_file=secret_file,
        database_url=database_url,
        schema=context.obj.schema,
    )
    told = origins(context, serve, found.schema)
    if url is not None:
        context.exit(report(_outside(url, found.accepted(), told), as_json=as_json))
    from hookrow.diagnostics.check import check

    findings = chain(check(found), told if as_json else summed_up(told))
    context.exit(report(findings, as_json=as_json))


def _outside(url: str, secrets: Sequence[str], told: Iterable[Origin]) -> Iterator[CheckResult]:
    """Look from outside with the newest of the secrets, and say where that came from."""
    from hookrow.outside import look

    yield from (each for each in told if each.setting in {"secret", "secret_file"} and each.value)
    yield from look(url, next(iter(secrets), None))


def report(findings: Iterable[CheckResult], *, as_json: bool) -> int:
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
