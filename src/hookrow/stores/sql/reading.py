"""Reading rows with the SQL of `queries`, on any connection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hookrow.core.notification import Dispatch, LookupKeys, RowId, Rows, Subscriber, Suppressible
from hookrow.core.rules import fold, pairs
from hookrow.core.schema import KEYS, TIMES
from hookrow.stores import State, by_kind, row_key
from hookrow.stores.sql.connections import Connection
from hookrow.stores.sql.conversions import converted
from hookrow.stores.sql.dialects import utc
from hookrow.stores.sql.message_ids import as_sent, as_stored
from hookrow.stores.sql.queries import Queries


class SQLReading:
    """Finds rows with at most two SELECTs, and reads them with one for each kind."""

    def __init__(self, connection: Connection, queries: Queries) -> None:
        self._connection, self._queries = connection, queries

    def find(self, lookup: LookupKeys) -> Rows:
        """Find every row that the group mentions."""
        subscribers: defaultdict[str, list[Subscriber]] = defaultdict(list)
        sent: defaultdict[str, list[Dispatch]] = defaultdict(list)
        subscriptions = set()
        for person, email, message_id, id_, list_ in self._found(lookup):
            if message_id is not None:
                sent[message_id].append(Dispatch(id_, person, email or "", list_))
            elif email is not None:
                subscribers[fold(email)].append(Subscriber(person, email))
            else:
                subscriptions.add((list_, person))
        queries = self._queries
        dispatches = as_sent(lookup.message_ids, sent) if queries.has_uuids else sent
        if queries.pairs is not None and lookup.changed:
            wanted = set(pairs(lookup, subscribers, dispatches))
            if queries.finds_subscriptions:
                wanted -= _of_owners(lookup, dispatches)
            if wanted:
                found = self._fetch_keyed(Suppressible.SUBSCRIPTION, queries.pairs, wanted)
                subscriptions.update((list_, person) for list_, person in found)
        return Rows(
            subscribers,
            dispatches,
            subscriptions,
            queries.undated,
            exact=queries.schema.subscribers.fold == "exact",
        )

    def read(self, rows: Collection[RowId]) -> Mapping[RowId, State]:
        """Read the columns that notifications set."""
        states: dict[RowId, State] = {}
        for kind, keys in by_kind(rows).items():
            width, names = len(KEYS[kind]), self._queries.written.get(kind, ())
            for row in self._fetch_keyed(kind, self._queries.state(kind), keys):
                state = {
                    name: utc(value) if name in TIMES else value
                    for name, value in zip(names, row[width:], strict=True)
                }
                if state.get("suppression_reason") == "" == self._queries.empty[kind]:
                    state["suppression_reason"] = None
                states[kind, row_key(row[:width])] = state
        return {row: states[row] for row in rows if row in states}

    def _found(self, lookup: LookupKeys) -> Sequence[Any]:
        if not lookup.emails and not lookup.message_ids:
            return ()
        queries, encode = self._queries, self._queries.dialect.encode
        emails = lookup.emails
        if queries.schema.subscribers.fold != "ascii":
            emails = {*emails, *lookup.recipients}
        message_ids = [lookup.message_ids]
        if queries.finds_subscriptions:
            message_ids.append({message_id for message_id, _ in lookup.changed})
        if queries.has_uuids:
            message_ids = [as_stored(each) for each in message_ids]
        found = self._connection.fetch(queries.find, [encode(emails), *map(encode, message_ids)])
        return converted(found, queries.conversions.found)

    def _fetch_keyed(self, kind: Suppressible, sql: str, keys: Collection[Any]) -> Sequence[Any]:
        """Return the rows of these keys; on SQLite one by one, because its JSON has no bytes."""
        parameters, fetch = self.keys(kind, keys), self._connection.fetch
        if self._queries.dialect.takes_rows:
            found = fetch(sql, parameters)
        else:
            found = [each for row in parameters for each in fetch(sql, row)]
        return converted(found, self._queries.conversions.state.get(kind, {}))

    def keys(self, kind: Suppressible, keys: Collection[Any]) -> Sequence[Any]:
        """Return the parameters of a statement by keys."""
        return self._queries.dialect.encode_rows(self._queries.conversions.keys(kind, keys))


def _of_owners(lookup: LookupKeys, dispatches: Mapping[str, Sequence[Dispatch]]) -> set[Any]:
    """Return the pairs whose subscriptions are found together with the dispatches."""
    return {
        (dispatch.list, dispatch.owner)
        for message_id, _ in lookup.changed
        for dispatch in dispatches.get(message_id, ())
    }
