"""`hookrow replay` and `prune`: record notifications from the log again, and delete old ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hookrow._cli.app import App, check_entry, require_log
from hookrow._cli.log import filters
from hookrow._cli.log_table import LogTable, terminal_width
from hookrow._cli.options import DATABASE_URL, ENTRY_ID, JSON, KEEP_BODIES, KEEP_OPTION
from hookrow._cli.output import COMMITTED, echo, echo_json, progress
from hookrow._core.log_entry import StoredEntry, body_of
from hookrow._core.notification import Outcome, Refusal
from hookrow._describe import describe_dry_run, pluralize
from hookrow._observability.logging import outcome_name
from hookrow._receiver import replay as replays
from hookrow._receiver.clock import measured_clock
from hookrow._receiver.entries import Parsers
from hookrow.errors import ConfigurationError, HookrowError
from hookrow.stores._driver_errors import message
from hookrow.stores._errors import UNCHANGED_HINT, Locked, SchemaChanged, StoreError, Unchanged
from hookrow.stores._log import Prunable, Query
from hookrow.stores._log_operations import Retention

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore
    from hookrow.stores.sql._log import SQLLog


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1, type=ENTRY_ID)
@filters
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option(
    "--accept-mapping",
    is_flag=True,
    help="Replay into the tables mapped now, and record that the log belongs to them.",
)
@JSON
@DATABASE_URL
@click.pass_obj
def replay(
    app: App,
    /,
    *,
    ids: Sequence[int],
    dry_run: bool,
    accept_mapping: bool,
    as_json: bool,
    database_url: str,
    **conditions: Any,  # noqa: ANN401 - named and typed as in `Query`
) -> None:
    """Record notifications from the log again, oldest first.

    A replay never overwrites newer values: it sets a time only if the row has none or an earlier
    one, and changes a suppression only if it has not changed since.

    It refuses to run if the log was written for other tables, or with another `where`. After
    renaming a table, run it with --accept-mapping; no notifications need to be selected then.

    The exit status is 1 if an ID does not exist, and 130 after Ctrl-C. What was committed before
    remains.
    """
    selects = bool(ids or any(conditions.values()))
    if not (selects or (accept_mapping and not dry_run)):
        raise click.UsageError(
            "Select notifications by ID, --type, --recipient, --message-id, --entry, --outcome, "
            "--since, --parked or --expired."
        )
    query = Query(ids=ids or None, **conditions)
    replay_group = partial(_print_dry_run, as_json=as_json) if dry_run else _replay
    summary = Summary(dry_run=dry_run)
    with app.open_store(database_url) as store:
        reader = require_log(store)
        _check_mapping(store, accept=accept_mapping, dry_run=dry_run)
        if not selects:
            return
        check_entry(query.entry, app, reader)
        summary.missing = _missing_ids(reader, ids)
        last, highest = _id_range(reader, query)
        interrupted = None if dry_run else COMMITTED
        length = max(highest - last, 0)
        with progress("Replaying", length, hidden=dry_run, interrupted=interrupted) as update:
            for group in replays.matching_entries(reader, query):
                try:
                    outcomes = replay_group(store, group, app.parsers)
                except StoreError as error:
                    done = pluralize(summary.notifications, "notification")
                    raise HookrowError(f"Stopped after {done}: {error}") from error
                summary.add(outcomes, group, app.parsers)
                update(group[-1].id - last)
                last = group[-1].id
    if as_json:
        echo_json(summary)
    else:
        echo(summary.describe())
    if summary.missing:
        noun = "notification" if len(summary.missing) == 1 else "notifications"
        raise ConfigurationError(f"The log has no {noun} {', '.join(map(str, summary.missing))}.")


@click.command()
@KEEP_OPTION
@KEEP_BODIES
@click.option("--dry-run", is_flag=True, help="Only count what would be deleted.")
@click.option("--yes", "sure", is_flag=True, help="Prune even if the clock seems to have jumped.")
@JSON
@DATABASE_URL
@click.pass_obj
def prune(
    app: App,
    *,
    keep: timedelta | None,
    keep_bodies: timedelta | None,
    dry_run: bool,
    sure: bool,
    as_json: bool,
    database_url: str,
) -> None:
    """Delete old notifications and bodies from the log.

    Parked notifications are kept until their retries end. The body of a notification that was not
    recorded is kept as long as the notification, because it can be replayed. If no notification
    arrived for half of the time to keep, nothing is deleted without --yes, because the clock may
    have jumped, unless the database's clock confirms the time.

    The exit status is 130 after Ctrl-C. What was committed before remains.
    """
    pruned = 0
    with app.open_store(database_url) as store:
        retention = Retention(
            store, require_log(store), keep=keep, keep_bodies=keep_bodies, sure=sure
        )
        if dry_run:
            _print_prunable(retention.prunable(), as_json=as_json)
            return
        batches = retention.estimate_batches()
        with progress("Pruning", batches, interrupted=COMMITTED) as update:
            for count in retention.prune():
                pruned += count
                update(1)
    if as_json:
        echo_json({"dry_run": False, "pruned": pruned})
    else:
        echo(f"Pruned {pruned:,} entries and bodies.")


def _print_prunable(found: Prunable, *, as_json: bool) -> None:
    if as_json:
        echo_json({"dry_run": True, "pruned": sum(found), **found._asdict()})
        return
    entries = pluralize(found.entries, "entry", "entries")
    bodies = pluralize(found.bodies, "body", "bodies")
    echo(f"Would prune {entries}, and {bodies} of other entries.")


def _check_mapping(store: SQLStore, *, accept: bool, dry_run: bool) -> None:
    """Raise `ConfigurationError` if the log was written for other tables, unless `accept` is set.

    With `accept`, record the tables that are mapped now, except in a dry run.
    """
    from hookrow.stores.sql._mapping_record import MappingRecord

    difference = None
    try:
        record = MappingRecord(store.database, store.role_tables)
        if accept and not dry_run:
            accepted = record.accept()
            echo(f"The log is now associated with these tables: {accepted}.", err=True)
        elif not accept:
            with suppress(SchemaChanged):  # without the table hookrow_meta, there is no record
                difference = record.difference()
    except StoreError as error:
        raise HookrowError(f"The mapping's record cannot be used: {message(error)}") from error
    if difference:
        raise ConfigurationError(
            f"{difference} A replay would change the wrong rows. Use the mapping of the "
            "application that received the notifications: with --app, in hookrow.toml or, in "
            "Django, in the settings. If you renamed tables, run the command again with "
            "--accept-mapping."
        )


class Summary(msgspec.Struct):
    """The result of a replay; its fields are the keys of the JSON object.

    `outcomes` has the number of notifications by outcome. Of those that cannot be replayed,
    `other_provider` is the number of another provider's, `unreadable` that of those which their
    provider failed to read, and `without_body` that of the rest.
    `missing` has the given ids that the log does not have.
    """

    dry_run: bool
    notifications: int = 0
    outcomes: dict[str, int] = {}
    without_body: int = 0
    other_provider: int = 0
    unreadable: int = 0
    missing: Sequence[int] = ()

    def add(
        self, outcomes: Sequence[Outcome], group: Sequence[StoredEntry], parsers: Parsers
    ) -> None:
        """Add the outcomes of a group of entries, and the numbers of those without an outcome."""
        own = [each for each in group if parsers.parser_of(each) is not None]
        with_body = sum(body_of(each) is not None for each in own)
        self.notifications += len(group)
        self.other_provider += len(group) - len(own)
        self.without_body += len(own) - with_body
        self.unreadable += with_body - len(outcomes)
        for name, number in Counter(map(outcome_name, outcomes)).items():
            self.outcomes[name] = self.outcomes.get(name, 0) + number

    def describe(self) -> str:
        """Return the line that is printed."""
        counts = {
            **self.outcomes,
            "without their original body": self.without_body,
            "of another provider": self.other_provider,
            "not readable": self.unreadable,
        }
        results = ", ".join(f"{number:,} {name}" for name, number in counts.items() if number)
        done = "would be replayed" if self.dry_run else "replayed"
        return f"{pluralize(self.notifications, 'notification')} {done}" + (
            f": {results}." if results else "."
        )


def _missing_ids(reader: SQLLog, ids: Sequence[int]) -> Sequence[int]:
    """Return the ids of which the log has no entry."""
    if not ids:
        return ()
    found = reader.newest(Query(ids=ids), limit=len(ids), bodies=False)
    return sorted({*ids} - {each.id for each in found})


def _id_range(reader: SQLLog, query: Query) -> tuple[int, int]:
    """Return the id before the first that a query may select, and the last.

    The progress is estimated by the ids: counting the matching entries may take as long.
    """
    first, last = reader.bounds() or (1, 0)
    if query.ids:
        return min(query.ids) - 1, min(max(query.ids), last)
    return (reader.first_id_since(query.since) if query.since else first) - 1, last


def _print_dry_run(
    store: SQLStore, entries: Sequence[StoredEntry], parsers: Parsers, *, as_json: bool
) -> list[Outcome]:
    """Print what a replay of each entry would change; return the outcomes it would have."""
    outcomes: list[Outcome] = []
    table = LogTable(terminal_width())
    for entry in entries:
        now = measured_clock(store)()
        # The mapping has been checked, or accepted by the user.
        for arrival in replays.arrivals_of(store, [entry], parsers, now, any_mapping=True):
            try:
                result = replays.dry_run(store, arrival)
            except Locked:
                outcomes.append(Refusal.FAILED.refused())
                changes = ["one of its rows is currently locked"]
            except Unchanged as error:
                outcomes.append(Refusal.FAILED.refused())
                changes = [f"would fail: {error} {UNCHANGED_HINT}"]
            else:
                outcomes.append(result.outcome)
                changes = describe_dry_run(result, entry, parsers)
            if as_json:
                described = {
                    "id": entry.id,
                    "outcome": outcome_name(outcomes[-1]),
                    "changes": changes,
                }
                echo_json(described)
            else:
                click.echo(table.line(entry))
                echo(f"    {'; '.join(changes)}")
    return outcomes


def _replay(store: SQLStore, entries: Sequence[StoredEntry], parsers: Parsers) -> list[Outcome]:
    # The mapping has been checked, or accepted by the user.
    return replays.replay_entries(store, require_log(store), entries, parsers, any_mapping=True)
