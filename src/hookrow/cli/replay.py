"""`hookrow replay` and `prune`: record notifications of the log again, and delete old ones."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import click

from hookrow.cli.app import App, require_log
from hookrow.cli.log import filters, format_entry
from hookrow.cli.options import DATABASE_URL, ID, KEEP, KEEP_BODIES
from hookrow.core.log_entry import StoredEntry
from hookrow.core.notification import Outcome, Recorded, Refusal
from hookrow.describe import describe_dry_run, pluralize
from hookrow.errors import HookrowError
from hookrow.providers import Parse
from hookrow.receiver import replay as replays
from hookrow.stores import Locked, Store, StoreError
from hookrow.stores.log import Query, prune_old


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1, type=ID)
@filters
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@DATABASE_URL
@click.pass_obj
def replay(
    app: App,
    /,
    *,
    ids: Sequence[int],
    dry_run: bool,
    database_url: str,
    **conditions: Any,  # noqa: ANN401 - named and typed as in `Query`
) -> None:
    """Record notifications of the log again, oldest first.

    A replay never overrides anything newer: it sets a time only if there is none or an earlier
    one, and changes a suppression only if that has not changed since.
    """
    if not (ids or any(conditions.values())):
        raise click.UsageError("Select notifications by ID, --outcome, --since or --recipient.")
    query = Query(ids=ids or None, **conditions)
    replay_group = _print_dry_run if dry_run else _replay
    counts: Counter[str] = Counter()
    with app.open_store(database_url) as store:
        groups = replays.matching_entries(require_log(store), query)
        with click.progressbar(groups, label="Replaying", file=sys.stderr, hidden=dry_run) as bar:
            for group in bar:
                try:
                    outcomes = replay_group(store, group, app.parse)
                except StoreError as error:
                    done = pluralize(counts.total(), "notification")
                    raise HookrowError(f"Stopped after {done}: {error}") from error
                counts["without their original body"] += len(group) - len(outcomes)
                counts.update(map(_result, outcomes))
    results = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    done = "would be replayed" if dry_run else "replayed"
    end = f": {results}." if results else "."
    click.echo(f"{pluralize(counts.total(), 'notification')} {done}{end}")


@click.command()
@KEEP
@KEEP_BODIES
@DATABASE_URL
@click.pass_obj
def prune(
    app: App, *, keep: timedelta | None, keep_bodies: timedelta | None, database_url: str
) -> None:
    """Delete old notifications and bodies from the log.

    Parked notifications are kept until their retries end.
    """
    with app.open_store(database_url) as store:
        batches = prune_old(require_log(store), keep=keep, keep_bodies=keep_bodies)
        with click.progressbar(batches, label="Pruning", file=sys.stderr) as bar:
            count = sum(bar)
    click.echo(f"Pruned: {count}.")


def _print_dry_run(store: Store, entries: Sequence[StoredEntry], parse: Parse) -> list[Outcome]:
    """Print what a replay of each entry would change; return the outcomes it would have."""
    outcomes: list[Outcome] = []
    for entry in entries:
        for arrival in replays.arrivals_of([entry], parse):
            try:
                result = replays.dry_run(store, arrival)
            except Locked:
                outcomes.append(Refusal.FAILED.refused())
                changes = "one of its rows is locked at the moment"
            else:
                outcomes.append(result.outcome)
                changes = "; ".join(describe_dry_run(result))
            click.echo(f"{format_entry(entry)}\n    {changes}")
    return outcomes


def _replay(store: Store, entries: Sequence[StoredEntry], parse: Parse) -> list[Outcome]:
    return replays.replay(store, replays.arrivals_of(entries, parse))


def _result(outcome: Outcome) -> str:
    return "recorded" if isinstance(outcome, Recorded) else outcome.refusal.name.lower()
