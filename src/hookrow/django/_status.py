"""The status of a project's receiver, its database and its log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from django.conf import settings

from hookrow._diagnostics import CheckResult
from hookrow._diagnostics.check import check_tables
from hookrow._diagnostics.status import StatusSource, sweep_of
from hookrow._receiver.entries import Parsers
from hookrow._receiver.receiver import Receiver
from hookrow.django._checks import check_settings_sweep
from hookrow.django._conf import conf
from hookrow.django._receiver import own_connections
from hookrow.stores.sql import SQLStore


def status_source(
    store: SQLStore,
    parsers: Parsers,
    *,
    receiver: Callable[[], Receiver | None],
) -> StatusSource:
    """Return where a process of the project finds the facts.

    `receiver` returns that of this process, or None if nothing has used it yet.
    """

    def check_sweep() -> Iterator[CheckResult]:
        found = receiver()
        if found is not None and is_sweep_expected():
            yield from sweep_of(found)

    return StatusSource(
        store=store,
        receiver=receiver,
        parsers=parsers,
        sweep=check_sweep,
        check=_check,
        around=own_connections,
        command="manage.py hookrow",
    )


def command_source(store: SQLStore, parsers: Parsers) -> StatusSource:
    """Return where a command, whose process has no receiver, finds the facts: in the settings."""
    sweep = check_settings_sweep() if is_sweep_expected() else ()
    source = status_source(store, parsers, receiver=lambda: None)
    return replace(source, spool=conf.spool, sweep=lambda: sweep)


def is_sweep_expected() -> bool:
    """Return whether this project should sweep: if another one does, the message is silenced."""
    return "hookrow.I001" not in settings.SILENCED_SYSTEM_CHECKS


def _check(store: SQLStore, rehearse: bool) -> Sequence[CheckResult]:  # noqa: FBT001 - of a callback
    """Check the tables; Django itself knows which migrations have been applied."""
    return check_tables(store.database, store.schema, store.known_entries, rehearse=rehearse)
