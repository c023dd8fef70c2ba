"""`hookrow provider reconcile`: records what the webhooks missed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import msgspec

from hookrow.cli.output import echo, echo_json
from hookrow.cli.progress import COMMITTED, progress
from hookrow.cli.provider_session import DRY_RUN, Session, with_session
from hookrow.core.notification import Arrival
from hookrow.describe import pluralize
from hookrow.errors import HookrowError

if TYPE_CHECKING:
    from hookrow.postmark_api.reconcile import Reconciled


@click.command(short_help="Record what the webhooks missed.")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    required=True,
    metavar="YYYY-MM-DD",
    help="The day, in UTC, from which events are recorded.",
)
@click.option(
    "--lift",
    is_flag=True,
    help="Also lift each suppression that is in none of the provider's message streams.",
)
@DRY_RUN
@with_session
def reconcile(
    session: Session,
    *,
    since: datetime,
    lift: bool,
    dry_run: bool,
    streams: Sequence[str],
    as_json: bool,
) -> None:
    """Record suppressions, opens and deliveries that the provider has and hookrow lacks.

    They are recorded as late notifications, which never override newer changes, and are logged
    with the source "reconcile". The deliveries require one request for each dispatch that has
    none, at most 10 per second. The command can be interrupted and run again: recorded events are
    skipped.
    """
    from hookrow.postmark_api import reconcile, webhooks

    api, since = session.api, since.replace(tzinfo=UTC)
    now = datetime.now(UTC)
    if since > now:
        raise click.BadParameter("the day is in the future.", param_hint="--since")
    api.interval = reconcile.INTERVAL
    if since < now - reconcile.RETENTION:
        days = reconcile.RETENTION.days
        echo(
            f"Warning: By default, the provider keeps messages for {days} days: it may not know "
            "older deliveries and opens.",
            err=True,
        )
    with session.app.open_store(session.database_url) as store:
        server, chosen = session.connect(store, streams)
        every = webhooks.read_streams(api, archived=True) if lift else ()
        run = reconcile.Reconciliation(
            api,
            store,
            session.app.provider,
            chosen,
            since=since,
            chosen=bool(streams),
            server=server.id,
            dry_run=dry_run,
            report=_report if dry_run and not as_json else lambda _: None,
        )
        undelivered, limited = run.count_undelivered()
        if undelivered and not limited:
            echo(
                "The time of sending is not mapped, so the provider is asked about all dispatches "
                f"without delivered_at: {undelivered:,}.",
                err=True,
            )
        interrupted = None if dry_run else COMMITTED
        with progress("Reconciling", undelivered, interrupted=interrupted) as update:
            try:
                for asked in run.steps(every):
                    update(asked)
            except HookrowError as error:
                done = _describe(run.result, dry_run=dry_run)
                raise HookrowError(f"Stopped. {done} {error}") from error
    if as_json:
        echo_json({"dry_run": dry_run, **msgspec.to_builtins(run.result)})
    else:
        echo(_describe(run.result, dry_run=dry_run))


def _report(arrival: Arrival) -> None:
    """Print an event that would be recorded."""
    event = arrival.notification
    if event is not None:
        name = type(event).__name__.lower()
        recipient, message = (each or "-" for each in (event.recipient, event.message_id))
        echo(f"{event.at:%Y-%m-%d %H:%M:%S}  {name:12}{recipient}  {message}")


def _describe(result: Reconciled, *, dry_run: bool) -> str:
    """Return the totals as sentences."""
    deliveries = "1 delivery" if result.deliveries == 1 else f"{result.deliveries:,} deliveries"
    suppressions, opens = (
        pluralize(result.suppressions, "suppression"),
        pluralize(result.opens, "open"),
    )
    verb = "Would record" if dry_run else "Recorded"
    sentences = [f"{verb} {suppressions}, {opens} and {deliveries}."]
    if result.lifted:
        verb = "Would lift" if dry_run else "Lifted"
        sentences.append(f"{verb} {pluralize(result.lifted, 'suppression')}.")
    others = {
        "Events that match no row here": result.unknown,
        "Messages that the provider has not delivered": result.undelivered,
        "Messages that the provider does not know": result.unknown_there,
        "Events that are in the log as failed": result.failed,
    }
    sentences += [f"{text}: {count:,}." for text, count in others.items() if count]
    if result.incomplete:
        lists = ", ".join(result.incomplete)
        sentences.append(f"The provider returned only the newest 10,000 of these lists: {lists}.")
    return " ".join(sentences)
