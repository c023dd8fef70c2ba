"""Counting the rows of the host's models."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Model, QuerySet, TextField, Value
from django.db.models.functions import Cast

from hookrow.django.lookups import Lookups
from hookrow.django.mapping import Mapped, Models, model
from hookrow.django.times import told
from hookrow.django.transactions import reading
from hookrow.notification import Key
from hookrow.stores.census import ListCount, by_list

_LISTS = "hookrow_tables.List"
_SENT = ("provider_message_id", "delivered_at", "opened_at")


class DjangoCensus:
    """What is counted, each in one statement, in the database of that alias."""

    def __init__(self, models: Models, lookups: Lookups, using: str) -> None:
        self._roles = models.roles
        self._lists = model(_LISTS) if models.schema.ours else None
        self._lookups = lookups
        self._using = using

    def lists(self) -> Sequence[ListCount]:
        """Count by list."""
        dispatches, members = self._roles["dispatches"], self._roles.get("subscriptions")
        list_ = self._lookups.list_of(dispatches)
        with reading(self._using):
            sent = self._counted(dispatches, list_, *(dispatches.paths[name] for name in _SENT))
            if members is None:
                return by_list(sent, None)
            suppressed = members.paths.get("suppressed_at")
            path = Value(None, TextField()) if suppressed is None else suppressed
            subscribed = self._counted(members, members.paths["list_id"], "*", path)
            return by_list(sent, subscribed, self._names())

    def suppressed(self) -> Mapping[str | None, int]:
        """Count the suppressed subscribers by reason."""
        people = self._roles["subscribers"]
        path = people.paths.get("suppression_reason")
        reason = Value(None, TextField()) if path is None else Cast(path, TextField())
        with reading(self._using):
            suppressed = {f"{people.paths['suppressed_at']}__isnull": False}
            counted = self._counted(people, reason, "*", **suppressed)
        return {word: count for word, count in counted if count}

    def sent(self, message_ids: Collection[str]) -> Mapping[str, datetime]:
        """Return when messages were sent."""
        dispatches = self._roles["dispatches"]
        at = dispatches.paths.get("sent_at")
        if at is None:
            return {}
        message_id = dispatches.paths["provider_message_id"]
        found = self._all(dispatches).filter(
            **{f"{message_id}__in": list(message_ids), f"{at}__isnull": False}
        )
        with reading(self._using):
            return {id_: told(when) for id_, when in found.values_list(message_id, at)}

    def _names(self) -> Mapping[Key, str]:
        if self._lists is None:
            return {}
        return dict(QuerySet(self._lists, using=self._using).values_list("pk", "name"))

    def _counted(self, mapped: Mapped, by: Any, *counted: Any, **only: object) -> Sequence[Any]:  # noqa: ANN401 - paths or expressions
        """Return each value of a path or an expression, and how many rows have what is counted."""
        of = F(by) if isinstance(by, str) else by
        counts = {f"hookrow_{place}": Count(each) for place, each in enumerate(counted)}
        found = self._all(mapped).filter(**only).annotate(hookrow_by=of)
        return list(found.order_by().values_list("hookrow_by").annotate(**counts))

    def _all(self, mapped: Mapped) -> QuerySet[Model]:
        """Return the rows that count, whatever the host's managers hide."""
        return QuerySet(mapped.model, using=self._using).filter(**mapped.where)
