"""Counting the rows in the tables of a database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, Text, cast, func, null, select

from hookrow.stores.census import ListCount, by_list
from hookrow.stores.roles import unpadded
from hookrow.stores.statements import Statements
from hookrow.stores.tables import lists

_NAMES = select(lists.c.id, lists.c.name)


class SQLCensus:
    """What is counted, each in one statement. `reading` connects without time limits.

    Of `ours` the names of lists are known, too.
    """

    def __init__(
        self,
        reading: Callable[[], AbstractContextManager[Connection]],
        statements: Callable[[], Statements],
        *,
        ours: bool,
    ) -> None:
        self._ours = ours
        self._reading = reading
        self._statements = statements

    def lists(self) -> Sequence[ListCount]:
        """Count by list."""
        statements = self._statements()
        subscribed = _subscribed(statements)
        with self._reading() as connection:
            sent = connection.execute(_sent(statements)).all()
            members = None if subscribed is None else connection.execute(subscribed).all()
            named = connection.execute(_NAMES).all() if self._ours else ()
        return by_list(sent, members, {row.id: row.name for row in named})

    def suppressed(self) -> Mapping[str | None, int]:
        """Count the suppressed subscribers by reason."""
        statements = self._statements()
        role = statements.roles["subscribers"]
        kept = role.get("suppression_reason")
        reason = null() if kept is None else cast(kept, Text())
        counted = select(reason.label("reason"), func.count()).where(
            role["suppressed_at"].is_not(None), *statements.roles.visible["subscribers"]
        )
        if kept is not None:
            counted = counted.group_by(kept)
        with self._reading() as connection:
            return {word: count for word, count in connection.execute(counted) if count}

    def sent(self, message_ids: Collection[str]) -> Mapping[str, datetime]:
        """Return when messages were sent."""
        statements = self._statements()
        role = statements.roles["dispatches"]
        if "sent_at" not in role or not message_ids:
            return {}
        found = select(role["provider_message_id"], role["sent_at"]).where(
            statements.roles.among_texts(role["provider_message_id"], "message_ids"),
            role["sent_at"].is_not(None),
            *statements.roles.visible["dispatches"],
        )
        with self._reading() as connection:
            rows = connection.execute(found, {"message_ids": statements.roles.texts(message_ids)})
            return {str(message_id): at for message_id, at in rows}


def _sent(statements: Statements) -> Select[Any]:
    """By list: how many dispatches were sent, delivered, opened."""
    role = statements.roles["dispatches"]
    list_ = statements.roles.list_id
    named = null() if list_ is None else unpadded(list_)
    counts = (role[name] for name in ("provider_message_id", "delivered_at", "opened_at"))
    counted = select(named.label("list_id"), *map(func.count, counts))
    counted = statements.roles.with_messages(counted.select_from(role["id"].table))
    counted = counted.where(*statements.roles.visible["dispatches"])
    return counted if list_ is None else counted.group_by(named)


def _subscribed(statements: Statements) -> Select[Any] | None:
    """By list: how many subscriptions there are, and how many of them are suppressed."""
    role = statements.roles.get("subscriptions")
    if role is None:
        return None
    list_, suppressed = unpadded(role["list_id"]), role.get("suppressed_at")
    count = null() if suppressed is None else func.count(suppressed)
    counted = select(list_, func.count(), count.label("suppressed"))
    return counted.where(*statements.roles.visible["subscriptions"]).group_by(list_)
