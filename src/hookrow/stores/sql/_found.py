"""Collects the rows that `Statements.find` returns for a group, first of owners, then of others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from hookrow._core.notification import (
    FoundDispatch,
    FoundSubscriber,
    FoundSubscription,
    Key,
    LookupKeys,
)
from hookrow._core.rules import fold
from hookrow.stores.sql._connections import Row
from hookrow.stores.sql._conversions import by_message_id
from hookrow.stores.sql._role_tables import RoleTables

_NO_TENANTS = (None, None)
"""The tenants of the owner and of the row, if the mapping has no column of tenants."""


class FoundRows:
    """The subscribers, dispatches and subscriptions that were found so far, as in `Rows`.

    `tenants` are those of the arrivals.
    """

    def __init__(self, tables: RoleTables, tenants: Collection[Key | None]) -> None:
        self._tables = tables
        self.tenants: Mapping[Key | None, str] = {
            tenant: tables.tenant_text(tenant) for tenant in tenants if tenant is not None
        }
        self._is_exact = tables.schema.subscribers.fold == "exact"
        self.subscribers: dict[str, Sequence[FoundSubscriber]] = {}
        self.dispatches: dict[str, Sequence[FoundDispatch]] = {}
        self.subscriptions: dict[tuple[Key, Key], FoundSubscription] = {}

    def add(self, rows: Iterable[Row], message_ids: Collection[str]) -> None:
        """Add rows, in place of those that were found by the same keys before."""
        subscribers: defaultdict[str, list[FoundSubscriber]] = defaultdict(list)
        sent: defaultdict[str, list[FoundDispatch]] = defaultdict(list)
        for person, email, message_id, id_, list_, *tenants in rows:
            of_owner, of_row = tenants or _NO_TENANTS
            if message_id is not None:
                if of_owner == of_row:
                    dispatch = FoundDispatch(id_, person, email or "", list_, of_row)
                else:  # the tenant must not learn the email of another one's subscriber
                    dispatch = FoundDispatch(id_, None, "", list_, of_row)
                sent[message_id].append(dispatch)
            elif email is not None:
                subscribers[fold(email)].append(FoundSubscriber(person, email, of_owner))
            else:
                self.add_subscription((list_, person), (list_, person), of_row)
        self.subscribers |= subscribers
        self.dispatches |= self._as_given(sent, message_ids)

    def add_subscription(
        self, pair: tuple[Key, Key], key: tuple[Key, Key], tenant: str | None = None
    ) -> None:
        """Add the subscription of a pair, unless the table has its tenant, which is null."""
        if tenant is not None or "subscriptions" not in self._tables.tenants:
            self.subscriptions[pair] = FoundSubscription(key, tenant)

    def add_owners(self, lookup: LookupKeys) -> LookupKeys:
        """Add each owner who is the recipient; return the keys of the other notifications.

        An owner of a message's dispatch comes before all others with the same email, so that these
        need not be found. If they must be, for another notification with this email, all rows with
        it are found together.
        """
        owners = {each: {*self._owners(*each)} for each in lookup.addressed}
        searched = {email for (_, email, _, _), found in owners.items() if not found}
        others = {each for each in owners if each[1] in searched}
        subscribers: defaultdict[str, set[FoundSubscriber]] = defaultdict(set)
        for (_, email, _, _), found in owners.items():
            if email not in searched:
                subscribers[email] |= found
        self.subscribers |= {email: [*found] for email, found in subscribers.items()}
        message_ids = {message_id for message_id, *_ in others if message_id is not None}
        changed = {each for each in lookup.changed if each[0] in message_ids}
        # The tenants stay the same: for a message, the dispatches of all are found again.
        return LookupKeys(message_ids, others, changed, lookup.tenants)

    def _owners(
        self, message_id: str | None, email: str, recipient: str, tenant: Key | None
    ) -> Iterator[FoundSubscriber]:
        """Yield the owners of a message's dispatches of a tenant, if the email is a recipient's."""
        of_tenant = None if tenant is None else self.tenants[tenant]
        for dispatch in self.dispatches.get(message_id or "", ()):
            owner, stored = dispatch.owner, dispatch.owner_email
            if (
                owner is not None
                and dispatch.tenant == of_tenant
                and self._is_recipient(stored, email, recipient)
            ):
                yield FoundSubscriber(owner, stored, dispatch.tenant)

    def _is_recipient(self, stored: str, email: str, recipient: str) -> bool:
        """Return whether a stored email is that of a recipient, as in `rules.decide`."""
        if stored in {email, recipient}:
            return True
        return not self._is_exact and fold(stored) == email

    def _as_given(
        self, sent: Mapping[str, Sequence[FoundDispatch]], message_ids: Collection[str]
    ) -> Mapping[str, Sequence[FoundDispatch]]:
        """Return the dispatches by message id as it is given, not as it is stored."""
        if self._tables.has_uuids:
            return by_message_id(message_ids, sent)
        if self._tables.dialect.compares_exactly:
            return sent
        return {id_: sent[id_] for id_ in message_ids if id_ in sent}
