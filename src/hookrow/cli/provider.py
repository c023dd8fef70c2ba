"""`hookrow provider`: manages the webhooks at the provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from hookrow.cli.options import public_url
from hookrow.cli.output import echo, echo_json
from hookrow.cli.provider_reconcile import reconcile
from hookrow.cli.provider_rotate import rotate
from hookrow.cli.provider_session import DRY_RUN, Session, describe_failure, with_session
from hookrow.describe import pluralize
from hookrow.errors import ConfigurationError

if TYPE_CHECKING:
    from hookrow.postmark_api.register import Registered
    from hookrow.postmark_api.status import ProviderStatus


@click.group()
def provider() -> None:
    """Manage the webhooks at the provider.

    The provider must be Postmark. The token of its API is read from HOOKROW_PROVIDER_TOKEN or from
    a file, and never printed.
    """


@provider.command(short_help="Create or correct the webhooks.")
@click.option(
    "--url",
    required=True,
    type=public_url,
    metavar="URL",
    help="The public URL, ending in /provider/webhooks.",
)
@DRY_RUN
@with_session
def register(
    session: Session, *, url: str, dry_run: bool, streams: Sequence[str], as_json: bool
) -> None:
    """Create a webhook for each message stream, or correct the existing one.

    Its URL, its header with the newest secret, and its triggers are set, and the provider tests
    them: hookrow must be running at the URL, with acknowledge_tests. If nothing is wrong, nothing
    is changed.
    """
    from hookrow.postmark_api import register
    from hookrow.postmark_api.errors import VerificationFailed

    session.require_secret()
    with session.open_log() as store:
        server, chosen = session.connect(store, streams, url)
    if not chosen:
        raise ConfigurationError(f"The server {server.name} has no message stream that sends mail.")
    if not as_json:
        echo(f"Server {server.name} ({server.id})")
    try:
        for each in register.register(session.api, session.wanted(url), chosen, dry_run=dry_run):
            _print_registered(each, dry_run=dry_run, as_json=as_json)
    except VerificationFailed as error:
        raise describe_failure(error, url) from error


def _print_registered(found: Registered, *, dry_run: bool, as_json: bool) -> None:
    actions = [
        "create" if each.id is None else "change" if each.body else "verify"
        for each in found.changes
    ]
    reasons = [text for each in found.changes for text in each.reasons]
    if as_json:
        fields = {
            "stream": found.stream.id,
            "webhook": found.id,
            "actions": actions,
            "reasons": reasons,
            "dry_run": dry_run,
        }
        echo_json(fields)
        return
    name = "a webhook" if found.id is None else f"webhook {found.id}"
    done = {"create": "created", "change": "changed", "verify": "verified"}
    verbs = [f"would {each}" if dry_run else done[each] for each in actions]
    what = f"{' and '.join(verbs)} {name}." if verbs else f"{name} needs no change."
    echo(f"{found.stream.id}: {what}", *(f"    {each}" for each in reasons))


@provider.command(short_help="Compare the webhooks with hookrow.")
@with_session
def status(session: Session, *, streams: Sequence[str], as_json: bool) -> None:
    """Compare the webhooks at the provider with hookrow's settings and its log.

    A webhook is hookrow's if its URL ends in /provider/webhooks. The exit status is 1 if there is
    none, or if one differs: in its triggers, in its header, because the provider has paused a
    trigger, or because its stream has another. If one stream has a webhook, another without one is
    only reported, and so are different counts.
    """
    from hookrow.postmark_api.status import read_status

    session.require_secret()
    with session.open_log() as store:
        found = read_status(session.api, session.wanted(), streams, store=store)
    if as_json:
        echo_json(_as_json(found))
    else:
        echo(*_describe(found))
    click.get_current_context().exit(0 if found.is_correct else 1)


def _describe(found: ProviderStatus) -> Iterator[str]:
    """Yield the lines of a status; the last one is the summary."""
    yield f"Server {found.server.name} ({found.server.id})"
    if not found.server.track_opens:
        yield "    Open tracking is off: only messages that request it have opens."
    for each in found.webhooks:
        secret = {None: "no accepted secret", 0: "the newest secret"}.get(
            each.secret, "an old secret"
        )
        yield f"{each.stream}: webhook {each.id}, {each.url}, with {secret}"
        for trigger, state in each.triggers.items():
            posts = pluralize(each.requests.get(trigger, 0), "post")
            failed = each.failures.get(trigger, 0)
            yield f"    {trigger:20}{state:12}{posts} in 24 hours, {failed:,} failed"
    for stream in found.without_webhook:
        yield f"{stream}: no hookrow webhook."
    for name, logged in found.logged.items():
        if found.complete:
            posted = found.sent[name]
            yield f"{name}: the provider posted {posted:,} in 24 hours, and the log has {logged:,}."
        else:
            yield f"{name}: the log has {logged:,} of 24 hours, from all streams."
    yield from found.drift
    yield found.summary


def _as_json(found: ProviderStatus) -> Mapping[str, Any]:
    return {
        "server": found.server.id,
        "name": found.server.name,
        "track_opens": found.server.track_opens,
        "webhooks": found.webhooks,
        "without_webhook": found.without_webhook,
        "logged": found.logged,
        "summary": found.summary,
    }


provider.add_command(rotate)
provider.add_command(reconcile)
