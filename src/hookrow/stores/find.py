"""What finds all that a group mentions: one statement, for each other is a round trip more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Dialect,
    Select,
    and_,
    null,
    select,
    type_coerce,
    union_all,
)

from hookrow.notification import Mentioned, Suppressible
from hookrow.stores import folds
from hookrow.stores.prepared import Prepared
from hookrow.stores.roles import Roles, as_text, is_that, unpadded


class Find(Prepared):
    """The SELECT of subscribers, dispatches with their owners and, with arrays, subscriptions.

    All have the columns of dispatches, and nothing in those that are none of theirs.
    """

    def __init__(self, roles: Roles, dialect: Dialect) -> None:
        self._roles = roles
        found = [_subscribers(roles), _dispatches(roles)]
        self.has_subscriptions = False
        """Whether those of owners to the lists of their dispatches are found as well."""
        if roles.arrays and "subscriptions" in roles and roles.list_id is not None:
            self.has_subscriptions = True
            found.append(_subscriptions_of_owners(roles, roles.list_id))
        super().__init__(union_all(*found), dialect)

    def mentioning(self, mentioned: Mentioned) -> dict[str, Any]:
        """Return its parameters."""
        texts = self._roles.texts
        emails = folds.given(self._roles.fold, mentioned)
        values = {"emails": texts(emails), "message_ids": texts(mentioned.message_ids)}
        if self.has_subscriptions:
            values["changed"] = texts({message_id for message_id, _ in mentioned.changed})
        return values


def _subscribers(roles: Roles) -> Select[Any]:
    """By `emails`: id and email."""
    role = roles["subscribers"]
    return select(unpadded(role["id"]), as_text(role["email"]), *_nothing(roles)[2:]).where(
        folds.found(roles.fold, role["email"], arrays=roles.arrays), *roles.visible["subscribers"]
    )


def _dispatches(roles: Roles) -> Select[Any]:
    """By `message_ids`: its owner's id and email, message id, the dispatch's id, its list."""
    role, owner, list_id = roles["dispatches"], roles["subscribers"], roles.list_id
    found = select(
        unpadded(role["subscriber_id"]),
        as_text(owner["email"]),
        as_text(role["provider_message_id"]),
        unpadded(role["id"]),
        (null() if list_id is None else unpadded(list_id)).label("list_id"),
    ).outerjoin_from(
        role["id"].table, owner["id"].table, is_that(role["subscriber_id"], owner["id"])
    )
    sought = roles.among_texts(role["provider_message_id"], "message_ids")
    return roles.with_messages(found).where(sought, *roles.visible["dispatches"])


def _subscriptions_of_owners(roles: Roles, list_id: Column[Any]) -> Select[Any]:
    """By `changed`, message ids: the subscriptions of dispatches' owners to their lists."""
    dispatch = roles["dispatches"]
    its_list, its_subscriber = roles.key(Suppressible.SUBSCRIPTION)
    columns = unpadded(its_subscriber), *_nothing(roles)[1:4], unpadded(its_list)
    dispatches = roles.with_messages(select(*columns).select_from(dispatch["id"].table))
    is_owners = and_(is_that(list_id, its_list), is_that(dispatch["subscriber_id"], its_subscriber))
    return dispatches.join(its_list.table, is_owners).where(
        roles.among_texts(dispatch["provider_message_id"], "changed"),
        *roles.visible["dispatches"],
        *roles.visible["subscriptions"],
    )


def _nothing(roles: Roles) -> Sequence[ColumnElement[Any]]:
    """Return a NULL in place of each column of dispatches, of its type."""
    return [type_coerce(null(), column.type) for column in _dispatches(roles).selected_columns]
