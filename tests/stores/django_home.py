"""Homes behind the Django store: SQLAlchemy creates, fills and reads the models' tables."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from threading import current_thread, main_thread
from typing import Any

from django.apps import apps
from django.db import connections
from homes import Flags, Home
from sqlalchemy import Column, MetaData, Table, Uuid, insert
from sqlalchemy.types import TypeEngine

import django_host
from copying import replace
from crm.schema import CRM, MUTED
from hookrow import Role, Schema
from hookrow.django._store import DjangoStore
from hookrow.stores.sql._transaction import SQLTransaction

_UNDATED = {"suppression_changed_at": None}


def _reduced(name: str, columns: Mapping[str, str | None]) -> Role:
    """Return a role of the models with some of its columns mapped to other fields, or to None."""
    role = CRM.roles[name]
    return replace(role, columns={**role.columns, **columns})


BARE = replace(
    CRM,
    subscribers=_reduced("subscribers", {**_UNDATED, "suppression_reason": None}),
    dispatches=_reduced("dispatches", _UNDATED),
    subscriptions=_reduced("subscriptions", _UNDATED),
)
"""No field stores when a suppression last changed."""

FORGETFUL_MODELS = replace(BARE, log=None)
"""The same without a log."""

LEAN = replace(
    CRM,
    subscribers=_reduced("subscribers", {"suppression_reason": None}),
    dispatches=_reduced("dispatches", {"list_id": None, **dict.fromkeys(MUTED)}),
    subscriptions=None,
    log=None,
)
"""No lists, only the times of a dispatch, and no log."""


TOUCHED_MODELS = replace(
    BARE,
    subscribers=replace(BARE.subscribers, touch="updated"),
    dispatches=replace(CRM.roles["dispatches"], touch="updated"),
)
"""Two models have the time of the last change, which Django sets, too."""

FLAGGED_MODELS = Schema(
    subscribers=Role(
        "crm.Customer",
        {"suppressed_at": "is_muted", "suppression_reason": "mute_reason", **_UNDATED},
    ),
    dispatches=Role(
        "crm.Receipt",
        {
            "provider_message_id": "postmark_id",
            "subscriber_id": "customer",
            "delivered_at": "has_arrived",
            "opened_at": "was_seen",
            **dict.fromkeys(MUTED),
        },
    ),
    subscriptions=None,
)
"""Flags in place of all times."""

ONLY_PERSONS = Schema(subscribers=BARE.subscribers, dispatches=None, subscriptions=None)
"""No other models."""

MODELS_OF_TENANTS = replace(
    CRM,
    subscribers=replace(CRM.subscribers, tenant="team"),
    dispatches=replace(CRM.dispatches, tenant="team_id"),
)
"""People and sends have a foreign key to their team; the memberships are those of people."""


class DjangoHome(Home):
    """A home in an empty database, with Django models of its tables."""

    def __init__(self, url: str, schema: Schema) -> None:
        roles = {name: _in_the_database(role) for name, role in schema.roles.items()}
        super().__init__(url, replace(schema, **roles))
        self.store.close()
        self._stack = ExitStack()
        self.alias = self._stack.enter_context(django_host.alias(url))
        self.store = _Closing(schema, self.alias)
        if schema.dispatches and schema.dispatches.columns.get("list_id"):
            self._make_mails()

    def close(self) -> None:
        self._stack.close()
        self._engine.dispose()

    @property
    def _has_uuids(self) -> bool:
        return True

    def _type(self, column: str) -> TypeEngine[Any]:
        return Uuid() if column == "tenant" else super()._type(column)

    def _make_mails(self) -> None:
        """Insert a mail to each list, with the key of the list."""
        key = Column("uid", Uuid(), primary_key=True)
        mails = Table("crm_mail", MetaData(), key, Column("group_id", Uuid()))
        with self._engine.begin() as connection:
            mails.create(connection)
            lists = [self.key(number) for number in range(10)]
            connection.execute(insert(mails), [{"uid": each, "group_id": each} for each in lists])


class FlaggedDjangoHome(Flags, DjangoHome):
    """The same for models with flags in place of times."""


def _in_the_database(role: Role) -> Role:
    """Return the role of a model with the names of its table and columns in the database."""
    if "." not in role.table:
        return role
    model = apps.get_model(role.table)._meta
    own = {} if model.pk.column is None else {"id": model.pk.name}
    columns = {
        ours: theirs and model.get_field(theirs.partition("__")[0]).column
        for ours, theirs in {**own, **role.columns}.items()
    }
    tenant = role.tenant and model.get_field(role.tenant).column
    touch = role.touch and model.get_field(role.touch).column
    return replace(role, table=model.db_table, columns=columns, tenant=tenant, touch=touch)


class _Closing(DjangoStore):
    """Closes the connections of other threads: Django closes only those of requests."""

    @contextmanager
    def transaction(
        self, *, skip_locked: bool = False, checked: bool = False
    ) -> Iterator[SQLTransaction]:
        try:
            with super().transaction(skip_locked=skip_locked, checked=checked) as transaction:
                yield transaction
        finally:
            if current_thread() is not main_thread():
                connections[self.using].close()

    @contextmanager
    def recording(self, *, checked: bool = False) -> Iterator[SQLTransaction]:
        with self.transaction(checked=checked) as transaction:
            yield transaction
