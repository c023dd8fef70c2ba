"""`hookrow log`: lists, follows, describes and erases notifications in the log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from hookrow._cli.app import App, check_entry, choose_erased, require_log
from hookrow._cli.log_table import LogTable, terminal_width
from hookrow._cli.options import DATABASE_URL, ENTRY_ID, JSON, F, entry_name, moment
from hookrow._cli.output import INTERRUPTED, echo, echo_json
from hookrow._core.log_entry import StoredEntry, stored_body
from hookrow._core.result import Result
from hookrow._describe import (
    describe_change,
    describe_dry_run,
    describe_outcome,
    find_problem,
    format_result,
    format_time,
    other_changes,
    pluralize,
    superseding,
    visible,
)
from hookrow._near_misses import NearMiss, near_misses
from hookrow._receiver.clock import measured_clock
from hookrow._receiver.entries import Parsers
from hookrow._receiver.replay import arrivals_of, dry_run, read_entry
from hookrow.errors import ConfigurationError
from hookrow.providers._base import ProviderFault
from hookrow.stores._errors import (
    Conflict,
    Locked,
    SchemaChanged,
    StoreError,
    Unavailable,
    WrongMapping,
)
from hookrow.stores._log import KNOWN_TYPES, Forgotten, Query, RecordedChange
from hookrow.stores._log_operations import with_bodies

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore
    from hookrow.stores.sql._log import SQLLog

_CURSOR = "{:>8}  "

_MAX_SEARCHED_CHANGES = 1000
"""How many of the subscriber's latest changes `show` searches for one that supersedes an entry."""


_NO_UUID = (
    "the column to which provider_message_id is mapped holds UUIDs, and this message ID is not "
    "one, so no dispatch matches it: map a text column if the provider's ids have another form"
)

_PRUNE = (
    "`hookrow prune --keep-bodies DURATION` deletes old ones, and `hookrow prune --keep DURATION` "
    "those of notifications that were not recorded."
)

FOLLOW_EVERY = 1.0
"""Seconds between two reads of `follow`."""

FOLLOW_OVERLAP = 1000
"""Number of ids below the highest one among which `follow` expects new entries.

PostgreSQL assigns an id before the commit, so a lower id may be committed later."""

FOLLOW_PAGE_SIZE = 1000
"""The largest number of entries that `follow` reads at once, without their bodies."""


def filters(command: F) -> F:
    """Add the options that select notifications; their names are those of `Query`."""
    outcome = click.Choice(Result, case_sensitive=False)
    for name, metavar, type_, text in (
        ("--recipient", "EMAIL", str, "Only notifications for this address."),
        ("--since", "TIME", moment, "Only those received at or after this time."),
        ("--outcome", None, outcome, "Only those with this outcome."),
        ("--message-id", None, str, "Only those with this message ID."),
        ("--entry", "NAME", entry_name, "Only those of this entry of the receiver."),
    ):
        command = click.option(name, type=type_, metavar=metavar, help=text)(command)
    known = ", ".join(sorted(KNOWN_TYPES))
    text = f"Only those with this type; other: any but {known}."
    command = click.option("--type", "record_type", help=text)(command)
    text = "Only those that are neither recorded nor retried any more."
    command = click.option("--expired", is_flag=True, help=text)(command)
    return click.option("--parked", is_flag=True, help="Only those that will be retried.")(command)


@click.group(invoke_without_command=True)
@filters
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="The maximum number of notifications.",
)
@click.option("--before", type=ENTRY_ID, metavar="ID", help="Only those with a lower ID than this.")
@click.option(
    "--follow",
    "follows",
    is_flag=True,
    help="List the newest in ascending order, then new ones as they are committed, until Ctrl-C.",
)
@click.option(
    "--after",
    type=click.IntRange(0),
    metavar="CURSOR",
    help="With --follow: list the changes of rows after this cursor, 0 for all ever, missing none.",
)
@JSON
@DATABASE_URL
@click.pass_context
def log(
    context: click.Context,
    /,
    *,
    limit: int,
    before: int | None,
    follows: bool,
    after: int | None,
    as_json: bool,
    database_url: str,
    **conditions: Any,  # noqa: ANN401 - named and typed as in `Query`
) -> None:
    """List notifications with their results, newest first.

    With --follow and --after, list each change of rows as it is committed, with its cursor
    ("change_number" in JSON), for a consumer that continues later after the last cursor.
    """
    if context.invoked_subcommand:
        _reject_options(context, context.invoked_subcommand)
        return
    if follows and before:
        raise click.UsageError("Omit --before: --follow begins with the newest notifications.")
    if after is not None and (not follows or any(conditions.values())):
        raise click.UsageError("Use --after with --follow, and without options that select.")
    app: App = context.obj
    with app.open_store(database_url) as store:
        reader = require_log(store)
        check_entry(conditions["entry"], app, reader)
        if after is not None:
            _print_changes(follow_changes(store, after), as_json=as_json)
            context.exit(INTERRUPTED)
        if follows:
            followed = follow(reader, Query(**conditions), limit=limit, bodies=as_json)
            _print_until_interrupted(followed, as_json=as_json)
            context.exit(INTERRUPTED)
        entries = reader.newest(Query(**conditions), before=before, limit=limit, bodies=False)
        if as_json:
            for entry in with_bodies(reader, entries):
                echo_json(_as_json(entry))
        else:
            _print_table(entries)
    if len(entries) == limit:
        echo(f"Older notifications: --before {entries[-1].id}", err=True)


@log.command()
@click.argument("id_", metavar="ID", type=ENTRY_ID)
@JSON
@DATABASE_URL
@click.pass_obj
def show(app: App, *, id_: int, as_json: bool, database_url: str) -> None:
    """Show all details of one notification."""
    with app.open_store(database_url) as store:
        reader = require_log(store)
        entries = reader.newest(Query(ids=[id_]), limit=1)
        if not entries:
            raise ConfigurationError(f"The log has no notification {id_}.")
        if as_json:
            near = known_near_misses(store, entries[0], app.parsers)
            echo_json({**_as_json(entries[0]), "near_misses": near})
            return
        for name, value in _details(store, reader, entries[0], app.parsers):
            echo(f"{name:12}{value}")


@log.command(short_help="Erase a person's address, and bodies with it, from the log.")
@click.argument("email")
@click.option(
    "--entry",
    "names",
    type=entry_name,
    metavar="NAME",
    multiple=True,
    help="Only from notifications of this entry of the receiver; may be repeated.",
)
@click.option(
    "--all-entries", "everywhere", is_flag=True, help="From the whole log, of all tenants."
)
@JSON
@DATABASE_URL
@click.pass_context
def forget(
    context: click.Context,
    *,
    email: str,
    names: Sequence[str],
    everywhere: bool,
    as_json: bool,
    database_url: str,
) -> None:
    """Erase a person's address, and the bodies that contain it, from the log.

    The notifications are still counted. Parked notifications for this person are no longer retried.
    The bodies of notifications for others are erased if they contain the address, also in JSON,
    URL or HTML escapes, unless a retry needs them.

    If the receiver has tenants, --entry or --all-entries is required, because an address may be
    that of a person of each. With --entry, notifications of other entries are not even searched.

    The command lists the IDs of the bodies that it leaves, and the exit status is then 1: bodies
    that a retry needs, bodies in which the address may be a part of another one, and binary bodies,
    which cannot be searched. This also applies to notifications in the spool, which it counts.
    """
    app: App = context.obj
    if "@" not in email:
        raise click.UsageError(f"{email!r} is not an email address.")
    with app.open_store(database_url) as store:
        reader = require_log(store)
        entries = choose_erased(names, app, store, everywhere=everywhere)
        forgotten = reader.forget(email, entries=entries)
    spooled = _count_spooled(app.spool, email, entries)
    if as_json:
        fields = {
            "erased": forgotten.entries,
            "bodies": forgotten.bodies,
            "waiting": forgotten.waiting,
            "unread": forgotten.unread,
            "doubtful": forgotten.doubtful,
            "spooled": spooled,
        }
        echo_json(fields)
    else:
        for line in _describe_forgotten(forgotten, spooled):
            echo(line)
    left = (forgotten.waiting, forgotten.unread, forgotten.doubtful, spooled)
    context.exit(1 if any(left) else 0)


@log.command(short_help="Add entries of the log that the hourly counts lack.")
@JSON
@DATABASE_URL
@click.pass_obj
def recount(app: App, *, as_json: bool, database_url: str) -> None:
    """Compare the hourly counts with the log, and add its entries that they lack.

    They may lack entries if receivers write to several nodes of a Galera cluster. In hours whose
    entries were pruned, nothing is added.
    """
    with app.open_store(database_url) as store:
        added = require_log(store).recount_hours()
    if as_json:
        echo_json({"added": added})
    else:
        echo(f"Added {pluralize(added, 'notification')} to the hourly counts.")


def _count_spooled(
    path: str | PathLike[str] | None, email: str, entries: Collection[str] | None
) -> int:
    """Return the number of notifications in the spool that contain, or may contain, an address.

    They are only those of some of the receiver's `entries`, given by name, or all with None.
    """
    from hookrow._core.erasure import address_finder
    from hookrow._receiver.spool import SPOOL_ERRORS, Spool

    if path is None or not Path(path).exists():
        return 0
    find = address_finder(email)
    try:
        return Spool(path).count_bodies(lambda body: bool(find(stored_body(body))), entries=entries)
    except SPOOL_ERRORS as error:
        raise ConfigurationError(
            f"The log is erased, but the spool {path} cannot be searched: {error}"
        ) from error


def _describe_forgotten(forgotten: Forgotten, spooled: int) -> Iterator[str]:
    yield f"Erased from {pluralize(forgotten.entries, 'notification')}."
    if forgotten.bodies:
        of_others = pluralize(forgotten.bodies, "other notification")
        yield f"Erased the bodies of {of_others}, because they contained the address."
    if forgotten.waiting:
        yield (
            "Left, because a retry for another person needs the body: "
            f"{_list(forgotten.waiting)}. Run the command again when `hookrow log --parked` no "
            "longer lists these notifications."
        )
    if forgotten.unread:
        yield (
            "Not searched, because the body is compressed or binary: "
            f"{_list(forgotten.unread)}. {_PRUNE}"
        )
    if forgotten.doubtful:
        yield (
            "Left, because the address in the body may be a part of another one: "
            f"{_list(forgotten.doubtful)}. See `hookrow log show ID`. {_PRUNE}"
        )
    if spooled:
        yield (
            f"The spool has {pluralize(spooled, 'notification')} with the address. Run the command "
            "again when it is empty."
        )


def _list(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))


def _reject_options(context: click.Context, command: str) -> None:
    """Raise an error if options precede the subcommand, which would ignore them."""
    for name in context.params:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"Put the options after {command!r}.")


def _print_until_interrupted(entries: Iterable[StoredEntry], *, as_json: bool) -> None:
    """Print entries as a table or as JSON until Ctrl-C."""
    table = LogTable(terminal_width())
    if not as_json:
        click.echo(table.header)
    with suppress(KeyboardInterrupt):
        for entry in entries:
            if as_json:
                echo_json(_as_json(entry))
            else:
                click.echo(table.line(entry))


def _print_changes(changes: Iterable[RecordedChange], *, as_json: bool) -> None:
    """Print changes as a table or as JSON until Ctrl-C."""
    width = terminal_width()
    table = LogTable(None if width is None else width - len(_CURSOR.format("")))
    if not as_json:
        click.echo(_CURSOR.format("Cursor") + table.header)
    with suppress(KeyboardInterrupt):
        for cursor, entry in changes:
            if as_json:
                echo_json(_as_json(entry))
            else:
                click.echo(_CURSOR.format(cursor) + table.line(entry))


def _print_table(entries: Sequence[StoredEntry]) -> None:
    if not entries:
        echo("No notifications found.")
        return
    table = LogTable(terminal_width(), entries)
    click.echo(table.header)
    for entry in entries:
        click.echo(table.line(entry))


def _details(
    store: SQLStore, reader: SQLLog, entry: StoredEntry, parsers: Parsers
) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each line that `show` prints."""
    received = format_time(entry.received_at)
    if entry.last_received_at != entry.received_at:
        received += f", last {format_time(entry.last_received_at)}"
    query = other_changes(entry, parsers)
    newer = superseding(entry, reader.newest(query, limit=_MAX_SEARCHED_CHANGES)) if query else None
    yield "Type", visible(entry.record_type or "unknown")
    yield "Recipient", visible(entry.recipient or "none")
    yield "Message ID", visible(entry.message_id or "none")
    if entry.reason:
        yield "Reason", visible(entry.reason)
    yield "Occurred", format_time(entry.occurred_at)
    yield "Received", received
    if entry.entry:
        yield "Entry", entry.entry
    only = None if parsers.have_names else parsers.default.provider.name
    if entry.provider not in {None, only}:
        yield "Provider", entry.provider or ""
    if entry.trace_id:
        yield "Trace ID", entry.trace_id
    yield "Result", f"{entry.outcome.value}, {entry.status}, {format_result(entry)}"
    yield "Explanation", describe_outcome(entry, store, parsers)
    if entry.outcome is Result.DISPATCH_NOT_FOUND and _can_never_match(store, entry.message_id):
        yield "Hint", _NO_UUID
    for each in known_near_misses(store, entry, parsers) or ():
        yield "Near miss", each.text
    if problem := find_problem(entry, parsers, store.recorded):
        yield "Problem", problem
    if newer:
        yield "Superseded", f"by {describe_change(newer, parsers)}"
    yield "Replay", _describe_replay(store, entry, parsers)
    yield "Body", entry.body or "not kept"


def known_near_misses(
    store: SQLStore, entry: StoredEntry, parsers: Parsers
) -> Sequence[NearMiss] | None:
    """Return the near misses of an entry, or None if the tables do not fit, or cannot be read."""
    with suppress(StoreError):
        return near_misses(store, entry, parsers)
    return None


def _can_never_match(store: SQLStore, message_id: str | None) -> bool:
    """Return whether the dispatches' message ids are UUIDs, and this one is not."""
    from hookrow.stores.sql._conversions import message_ids_as_stored

    try:
        holds_uuids = store.role_tables.has_uuids
    except StoreError:  # the tables do not fit, or the user may only read
        return False
    return holds_uuids and message_id is not None and not message_ids_as_stored([message_id])


def _describe_replay(store: SQLStore, entry: StoredEntry, parsers: Parsers) -> str:
    try:
        read_entry(entry, parsers)
        arrivals = arrivals_of(store, [entry], parsers, measured_clock(store)())
    except (WrongMapping, ProviderFault) as error:
        return f"not possible: {error}"
    if not arrivals:
        if parsers.parser_of(entry) is None:
            reader = f"entry {entry.entry}" if entry.entry else f"provider {entry.provider}"
            return f"not possible without the {reader}: use its receiver (--app)"
        return "not possible, because the original body is not kept"
    try:
        return "; ".join(describe_dry_run(dry_run(store, *arrivals), entry, parsers))
    except StoreError as error:
        return f"could not be tested, because the database returned an error: {error}"


def _as_json(entry: StoredEntry) -> Mapping[str, object]:
    values: Mapping[str, object] = msgspec.to_builtins(entry)
    return {**values, "fingerprint": entry.fingerprint.hex()}


def follow(reader: SQLLog, query: Query, *, limit: int, bodies: bool) -> Iterator[StoredEntry]:
    """Yield the newest `limit` entries, and then new ones every second, oldest first.

    An entry is yielded once, even if it changes later. While the database is unavailable, one line
    is printed to standard error; entries committed meanwhile follow afterwards. Raises a
    `StoreError` if the first entries cannot be read, or if the log's table no longer fits.
    """
    highest = _highest_id(reader)
    newest = reader.newest(query, limit=max(limit, FOLLOW_OVERLAP), bodies=False)
    first = newest[:limit][::-1]
    yield from with_bodies(reader, first) if bodies else first
    seen = {each.id for each in newest}
    reading = _Reading()
    while True:
        sleep(FOLLOW_EVERY)
        with reading:
            until = _highest_id(reader)
            for page in _pages(reader, query, after=max(highest - FOLLOW_OVERLAP, 0)):
                new = [each for each in page if each.id not in seen]
                for entry in with_bodies(reader, new) if bodies else new:
                    yield entry
                    seen.add(entry.id)
            highest = until
            seen = {each for each in seen if each > highest - FOLLOW_OVERLAP}


def follow_changes(store: SQLStore, after: int) -> Iterator[RecordedChange]:
    """Yield the changes after a cursor, and then new ones every second.

    As in `follow`, nothing is missed while the database is unavailable. Raises `MissingChanges`,
    and a `StoreError` if the first changes cannot be read, or if the log's table no longer fits.
    """
    page = store.changes(after)
    reading = _Reading()
    while True:
        yield from page
        if page:
            after = page[-1].cursor
        else:
            sleep(FOLLOW_EVERY)
        page = ()
        with reading:
            page = store.changes(after)


class _Reading:
    """Blocks that read the log, each of which ends early while the database is unavailable.

    One line is printed to standard error for each time without the database.
    """

    def __init__(self) -> None:
        self._responds = True

    def __enter__(self) -> None:
        """Begin to read."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        """Catch the error of a database that is unavailable; return whether it was one."""
        if isinstance(error, SchemaChanged) or not isinstance(
            error, Unavailable | Conflict | Locked
        ):
            self._responds = self._responds or error is None
            return False
        if self._responds:
            echo(f"The log cannot be read; retrying every second. {error}", err=True)
        self._responds = False
        return True


def _pages(reader: SQLLog, query: Query, *, after: int) -> Iterator[Sequence[StoredEntry]]:
    """Yield all entries of the query after an id, oldest first, without their bodies."""
    while page := reader.oldest(query, after=after, limit=FOLLOW_PAGE_SIZE, bodies=False):
        yield page
        after = page[-1].id


def _highest_id(reader: SQLLog) -> int:
    bounds = reader.bounds()
    return bounds[1] if bounds else 0
