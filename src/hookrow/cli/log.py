"""`hookrow log`, `replay` and `prune`: what became of each notification, and once more."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

import click
import msgspec
from click.core import ParameterSource

from hookrow.cli.options import DATABASE_URL, ID, JSON, KEEP, KEEP_BODIES, F, Moment
from hookrow.cli.source import Source, log_of
from hookrow.core.log_entry import Result, StoredEntry
from hookrow.core.notification import Outcome, Recorded, Refusal
from hookrow.describe import (
    describe_change,
    describe_dry_run,
    describe_outcome,
    format_result,
    format_time,
    other_changes,
    pluralize,
    printable,
    superseding,
)
from hookrow.errors import ConfigurationError, HookrowError
from hookrow.providers import Parse
from hookrow.stores import Locked, Store, StoreError
from hookrow.stores.log import Query, with_bodies

_COLUMNS = "{:>8}  {:20}  {:18}  {:28}  {:36}  {}"

_CHANGES = 1000
"""The most changes of one subscriber that an entry is compared with, those that arrived last."""

_NO_BODY = "its body is not kept as it came"

_OUTCOME = click.Choice(Result, case_sensitive=False)


def filters(command: F) -> F:
    """Add the options that say which notifications are meant."""
    for add in (
        click.option("--recipient", metavar="EMAIL", help="Only those for this address."),
        click.option("--since", type=Moment(), metavar="TIME", help="Only those that came since."),
        click.option("--outcome", type=_OUTCOME, help="Only those that ended so."),
    ):
        command = add(command)
    return command


@click.group(invoke_without_command=True)
@filters
@click.option("--type", "record_type", help="Only those of this RecordType.")
@click.option("--message-id", help="Only those of this message.")
@click.option("--parked", is_flag=True, help="Only those that are tried again.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="How many at the most.",
)
@click.option("--before", type=ID, metavar="ID", help="Only older ones than this.")
@JSON
@DATABASE_URL
@click.pass_context
def log(  # noqa: PLR0913 - one for each option
    context: click.Context,
    *,
    recipient: str | None,
    since: datetime | None,
    outcome: Result | None,
    record_type: str | None,
    message_id: str | None,
    parked: bool,
    limit: int,
    before: int | None,
    as_json: bool,
    database_url: str,
) -> None:
    """List what the log has kept, newest first."""
    if context.invoked_subcommand:
        for name in context.params:
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"Options go behind {context.invoked_subcommand!r}.")
        return
    query = Query(
        outcome=outcome,
        record_type=record_type,
        recipient=recipient,
        message_id=message_id,
        since=since,
        parked=parked,
    )
    source: Source = context.obj
    with source.opened(database_url) as store:
        reader = log_of(store)
        found = reader.newest(query, before=before, limit=limit, bodies=False)
        for entry in with_bodies(reader, found) if as_json else ():
            click.echo(_as_json(entry))
    if found and not as_json:
        click.echo(_COLUMNS.format("id", "came", "type", "recipient", "message id", "outcome"))
        for entry in found:
            click.echo(_line(entry))
    if not found and not as_json:
        click.echo("There are no such notifications.")
    elif len(found) == limit:
        click.echo(f"Older ones: --before {found[-1].id}", err=True)


@log.command()
@click.argument("id_", metavar="ID", type=ID)
@JSON
@DATABASE_URL
@click.pass_obj
def show(source: Source, *, id_: int, as_json: bool, database_url: str) -> None:
    """Tell everything about one notification."""
    from hookrow.receiver.replay import arrivals_of, dry_run

    with source.opened(database_url) as store:
        reader = log_of(store)
        found = reader.newest(Query(ids=[id_]), limit=1)
        if not found:
            raise ConfigurationError(f"The log has no notification {id_}.")
        [entry] = found
        if as_json:
            click.echo(_as_json(entry))
            return
        query = other_changes(entry)
        newer = superseding(entry, reader.newest(query, limit=_CHANGES)) if query else None
        again = arrivals_of([entry], source.parse)
        try:
            changes = describe_dry_run(dry_run(store, *again)) if again else [_NO_BODY]
        except StoreError as error:
            changes = [f"A replay could not be tested, because the database reported: {error}"]
    came = format_time(entry.received_at)
    if entry.last_received_at != entry.received_at:
        came += f", last {format_time(entry.last_received_at)}"
    for name, value in (
        ("type", entry.record_type or "unknown"),
        ("recipient", entry.recipient or "none"),
        ("message id", entry.message_id or "none"),
        *([("reason", entry.reason)] if entry.reason else []),
        ("happened", format_time(entry.occurred_at)),
        ("came", came),
        ("ended", f"{entry.outcome.value}, {entry.status}, {format_result(entry)}"),
        ("why", describe_outcome(entry)),
        *([("superseded", f"by {describe_change(newer, source.parse)}")] if newer else []),
        ("once more", "; ".join(changes)),
        ("body", entry.body or "not kept"),
    ):
        click.echo(f"{name:12}{printable(value)}")


@log.command()
@click.argument("email")
@DATABASE_URL
@click.pass_obj
def forget(source: Source, *, email: str, database_url: str) -> None:
    """Erase a person's address and the bodies that tell of them; the counts stay.

    What was parked for them is not tried again.
    """
    if "@" not in email:
        raise click.UsageError(f"{email!r} is no address.")
    with source.opened(database_url) as store:
        click.echo(f"Erased in {pluralize(log_of(store).forget(email), 'notification')}.")


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1, type=ID)
@filters
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@DATABASE_URL
@click.pass_obj
def replay(
    source: Source,
    *,
    ids: Sequence[int],
    recipient: str | None,
    since: datetime | None,
    outcome: Result | None,
    dry_run: bool,
    database_url: str,
) -> None:
    """Record notifications of the log once more, oldest first.

    A replay never takes the place of something newer: a time is set where there is
    none or an earlier one, a suppression where nothing changed since.
    """
    from hookrow.receiver.replay import matching_entries

    if not (ids or recipient or since or outcome):
        raise click.UsageError("Say which: by ID, --outcome, --since or --recipient.")
    query = Query(
        ids=ids or None,
        recipient=recipient,
        since=since,
        outcome=outcome,
    )
    apply = _try if dry_run else _replay
    counts: Counter[str] = Counter()
    with (
        source.opened(database_url) as store,
        click.progressbar(
            matching_entries(log_of(store), query),
            label="Replaying",
            file=sys.stderr,
            hidden=dry_run,
        ) as groups,
    ):
        for group in groups:
            try:
                outcomes = apply(store, group, source.parse)
            except StoreError as error:
                raise HookrowError(f"Stopped after {counts.total()}: {error}") from error
            counts["without the body that came"] += len(group) - len(outcomes)
            counts.update(map(_ending, outcomes))
    ends = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    done = "would be replayed" if dry_run else "replayed"
    click.echo(f"{pluralize(counts.total(), 'notification')} {done}{': ' if ends else ''}{ends}.")


def _try(store: Store, entries: Sequence[StoredEntry], parse: Parse) -> Sequence[Outcome]:
    """Print what a replay of each entry would change; return the outcomes it would have."""
    from hookrow.receiver.replay import arrivals_of, dry_run

    outcomes: list[Outcome] = []
    for entry in entries:
        for again in arrivals_of([entry], parse):
            try:
                result = dry_run(store, again)
            except Locked:
                click.echo(f"{_line(entry)}\n    one of its rows is held just now")
                outcomes.append(Refusal.FAILED.refused())
            else:
                click.echo(f"{_line(entry)}\n    {'; '.join(describe_dry_run(result))}")
                outcomes.append(result.outcome)
    return outcomes


def _replay(store: Store, entries: Sequence[StoredEntry], parse: Parse) -> Sequence[Outcome]:
    from hookrow.receiver.replay import arrivals_of
    from hookrow.receiver.replay import replay as replay_arrivals

    arrivals = arrivals_of(entries, parse)
    return replay_arrivals(store, arrivals) if arrivals else []


@click.command()
@KEEP
@KEEP_BODIES
@DATABASE_URL
@click.pass_obj
def prune(
    source: Source,
    *,
    keep: timedelta | None,
    keep_bodies: timedelta | None,
    database_url: str,
) -> None:
    """Delete from the log what last came long ago; what is parked stays until it is too old."""
    from hookrow.stores.log import prune_old

    with (
        source.opened(database_url) as store,
        click.progressbar(
            prune_old(log_of(store), keep=keep, keep_bodies=keep_bodies),
            label="Pruning",
            file=sys.stderr,
        ) as batches,
    ):
        count = sum(batches)
    click.echo(f"Pruned: {count}.")


def _line(entry: StoredEntry) -> str:
    times = f", {entry.attempts} attempts" if entry.attempts > 1 else ""
    more = f", tried again {format_time(entry.retry_at)}" if entry.retry_at else ""
    return _COLUMNS.format(
        entry.id,
        format_time(entry.received_at),
        printable(entry.record_type or "-"),
        printable(entry.recipient or "-"),
        printable(entry.message_id or "-"),
        f"{entry.outcome.value}{times}{more}",
    )


def _ending(outcome: Outcome) -> str:
    return "recorded" if isinstance(outcome, Recorded) else outcome.refusal.name.lower()


def _as_json(entry: StoredEntry) -> str:
    values = msgspec.to_builtins(entry)
    return msgspec.json.encode(values | {"fingerprint": entry.fingerprint.hex()}).decode()
