"""`hookrow provider rotate`: replaces the secret of the webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from hookrow.cli.options import webhook_url
from hookrow.cli.output import echo, echo_json
from hookrow.cli.provider_session import DRY_RUN, Session, describe_failure, with_session
from hookrow.errors import ConfigurationError
from hookrow.server.settings import read_secrets


@click.command(short_help="Replace the secret of the webhooks.")
@click.option("--finish", is_flag=True, help="Remove the old secret once nothing uses it any more.")
@click.option(
    "--instance",
    "instances",
    multiple=True,
    type=webhook_url,
    metavar="URL",
    help="The URL of an instance of hookrow that must accept both secrets; may be repeated. "
    "By default, the URLs of the webhooks.",
)
@DRY_RUN
@with_session
def rotate(
    session: Session,
    *,
    finish: bool,
    instances: Sequence[str],
    dry_run: bool,
    streams: Sequence[str],
    as_json: bool,
) -> None:
    """Replace the secret of the webhooks, without losing a notification.

    A new secret is written before the old one in the secret file. When every instance accepts both,
    the webhooks get the new one, and the provider tests them. After 72 minutes, in which the
    provider may repeat notifications with the old secret, run the command again with --finish,
    which removes the old one. If the command is interrupted, run it again: it continues.
    """
    from hookrow.postmark_api.errors import VerificationFailed
    from hookrow.postmark_api.rotate import Rotation
    from hookrow.postmark_api.secret_file import SecretFile

    if session.secret_file is None:
        raise ConfigurationError(
            "Only secrets in a file can be rotated: set --secret-file. To rotate other secrets, "
            "set HOOKROW_SECRET to a new one and HOOKROW_PREVIOUS_SECRET to the old one, restart "
            "every instance, run `hookrow provider register`, and remove the old one after 72 "
            "minutes."
        )
    if finish and streams:
        raise click.UsageError(
            "--finish removes the old secret for all message streams: omit --stream."
        )
    file = SecretFile(Path(session.secret_file), partial(read_secrets, (), session.secret_file))
    with session.open_log() as store:
        server, chosen = session.connect(store, streams)
        if not as_json:
            echo(f"Server {server.name} ({server.id})")
        rotation = Rotation(
            api=session.api, file=file, streams=chosen, instances=instances, dry_run=dry_run
        )
        try:
            for step in rotation.finish(store) if finish else rotation.begin():
                if as_json:
                    echo_json({"step": step})
                else:
                    echo(step)
        except VerificationFailed as error:
            raise describe_failure(error, error.url) from error
