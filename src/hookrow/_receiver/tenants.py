"""Checks that a receiver and its store agree on whether the rows belong to tenants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hookrow._core.notification import Key
from hookrow.errors import ConfigurationError

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore


def check_tenants(store: SQLStore, tenants: Mapping[str | None, Key | None]) -> None:
    """Let a store use the tenants of a receiver, by the names of its entries, if they agree.

    The name of a single entry, and the tenant of an entry without one, is None. Raises
    `ConfigurationError`, with the line to write, if only one of the two has tenants.
    """
    named = {name: each for name, each in tenants.items() if name is not None and each is not None}
    if store.has_tenants and len(named) < len(tenants):
        role = store.schema.subscribers
        raise ConfigurationError(
            f"The mapping has the tenant of each row, in the column {role.tenant!r} of "
            f"{role.table!r}, so each entry of the receiver needs the value of its tenant: "
            'Receiver({"acme": Tenant(Postmark(secret), 1)}, store).'
        )
    if named and not store.has_tenants:
        role = store.schema.subscribers
        raise ConfigurationError(
            f"The entry {next(iter(named))!r} is a tenant, but the mapping does not name the "
            "column with the tenant of a row: "
            f'Schema(subscribers=Role("{role.table}", tenant="team_id")).'
        )
    store.use_tenants(named)
