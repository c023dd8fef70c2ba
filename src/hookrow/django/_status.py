"""The status of a project's receiver, its database and its log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hookrow._diagnostics import CheckResult
from hookrow._diagnostics.check import check_tables
from hookrow._diagnostics.status import StatusSource, sweep_of
from hookrow._diagnostics.status_reader import StatusReader
from hookrow._receiver.entries import Parsers
from hookrow._receiver.receiver import Receiver
from hookrow.django._receiver import own_connections
from hookrow.stores.sql import SQLStore


def status_reader(
    store: SQLStore, receiver: Callable[[], Receiver | None], parsers: Parsers
) -> StatusReader:
    """Return a reader of the status, whose threads have connections of their own.

    `receiver` returns that of this process, or None.
    """

    def check_sweep() -> Iterator[CheckResult]:
        found = receiver()
        if found is not None:
            yield from sweep_of(found)

    return StatusReader(
        StatusSource(
            store=store,
            receiver=receiver,
            parsers=parsers,
            sweep=check_sweep,
            check=_check,
            around=own_connections,
        )
    )


def _check(store: SQLStore, rehearse: bool) -> Iterator[CheckResult]:  # noqa: FBT001 - a callback
    """Check the tables; Django itself knows which migrations have been applied."""
    return check_tables(store.database, store.schema, store.tenants, rehearse=rehearse)
