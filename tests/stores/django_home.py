"""Homes behind the Django store: SQLAlchemy creates, fills and reads the models' tables."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import current_thread, main_thread
from typing import Any
from uuid import UUID

from django.db import connections
from homes import OURS, SPARSE, UNDATED, SQLHome
from sqlalchemy import Column, MetaData, Table, Uuid, insert
from sqlalchemy.types import TypeEngine

import django_host
from copying import replace
from crm.schema import CRM, MUTED
from hookrow import Role, Schema
from hookrow.core.notification import Key
from hookrow.django.store import DjangoStore
from hookrow.stores.sql.transaction import SQLTransaction

BARE = replace(
    UNDATED,
    subscribers=replace(UNDATED.subscribers, table="crm.Reader"),
    dispatches=replace(UNDATED.dispatches, table="crm.Letter"),
    subscriptions=Role("crm.Member", UNDATED.roles["subscriptions"].columns),
    log=OURS.log,
)
"""Models without foreign keys; no table stores when a suppression last changed."""

FORGETFUL_MODELS = replace(BARE, log=None)
"""The same without a log."""

LEAN = replace(
    SPARSE,
    subscribers=replace(SPARSE.subscribers, table="crm.Reader"),
    dispatches=replace(SPARSE.dispatches, table="crm.Letter"),
)
"""No lists, only the times of a dispatch, and no log."""

_TABLES = {
    "crm.Person": Role("crm_person", {"id": "uid", "email": "address", **MUTED}),
    "crm.Send": Role(
        "crm_send",
        {
            **CRM.dispatches.columns,
            "id": "key",
            "subscriber_id": "person_id",
            "list_id": "mail_id",
        },
    ),
    "crm.Membership": Role(
        "crm_membership", {"list_id": "group_id", "subscriber_id": "person_id", **MUTED}
    ),
}
"""The tables and columns of the renamed models."""

_BARE = {"crm.Reader": "people", "crm.Letter": "sends", "crm.Member": "members"}


class DjangoHome(SQLHome):
    """A home in an empty database, with Django models of its tables."""

    def __init__(self, url: str, schema: Schema) -> None:
        roles = {
            name: _TABLES.get(role.table, replace(role, table=_BARE.get(role.table, role.table)))
            for name, role in schema.roles.items()
        }
        super().__init__(url, replace(schema, **roles))
        self.store.close()
        self._stack = ExitStack()
        self.alias = self._stack.enter_context(django_host.alias(url))
        self.store = _Closing(schema, self.alias)
        if schema == CRM:
            self._make_mails()

    def key(self, number: int) -> Key:
        return number if self._ours else UUID(int=number)

    def close(self) -> None:
        self._stack.close()
        self._engine.dispose()

    def _type(self, column: str) -> TypeEngine[Any]:
        found = super()._type(column)
        return found if self._ours or column not in _KEYS else Uuid()

    def _make_mails(self) -> None:
        """Insert a mail to each list, with the key of the list."""
        mails = Table("crm_mail", MetaData(), Column("uid", Uuid()), Column("group_id", Uuid()))
        with self._engine.begin() as connection:
            mails.create(connection)
            keys = [self.key(number) for number in range(10)]
            connection.execute(insert(mails), [{"uid": key, "group_id": key} for key in keys])


_KEYS = {"id", "subscriber_id", "list_id"}


class _Closing(DjangoStore):
    """Closes the connections of other threads: Django closes only those of requests."""

    @contextmanager
    def transaction(self, *, skip_locked: bool = False) -> Iterator[SQLTransaction]:
        try:
            with super().transaction(skip_locked=skip_locked) as transaction:
                yield transaction
        finally:
            if current_thread() is not main_thread():
                connections[self.using].close()
