"""How subscribers and dispatches are looked for among the host's models.

A lookup is put into SQL once for each number of texts: to have Django do so for every
notification would take it longer than all else that is done for one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model, OuterRef, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Collate, Lower

from hookrow.django.field_types import end_of
from hookrow.django.fields import Folded
from hookrow.django.mapping import Mapped, Models
from hookrow.errors import SchemaMismatch
from hookrow.notification import Mentioned

_SIZES = 64
"""Of how many numbers of texts the SQL is kept."""

_PREDEFINED = re.compile(r"C|POSIX|default|ucs_basic|unicode|pg_.*|.*-x-icu|[a-z]{2,3}_[A-Z]{2}.*")
"""PostgreSQL's own collations, in all of which two spellings differ."""


class Lookups:
    """Both lookups, for models in the database of an alias."""

    def __init__(self, models: Models, using: str) -> None:
        self._models = models
        self._using = using
        self._by_email = _Lookup(self._subscribers)
        self._by_message_id = _Lookup(self._dispatches)

    def subscribers(self, mentioned: Mentioned, connection: BaseDatabaseWrapper) -> Iterable[Any]:
        """By email: id and email, and perhaps of more than were asked for."""
        wanted = set(mentioned.emails)
        if self._models.fold != "ascii":
            wanted.update(mentioned.recipients)
        return self._by_email(sorted(wanted), connection)

    def dispatches(self, mentioned: Mentioned, connection: BaseDatabaseWrapper) -> Iterable[Any]:
        """By message id: that, the dispatch's id, the owner's id and email, the list."""
        return self._by_message_id(sorted(mentioned.message_ids), connection)

    def _subscribers(self, emails: Sequence[str]) -> QuerySet[Model, Any]:
        mapped = self._models.roles["subscribers"]
        email = mapped.paths["email"]
        found = self._all(mapped).filter(**mapped.where)
        match self._models.fold:
            case "ascii":
                found = found.alias(_hookrow=Folded(email)).filter(_hookrow__in=emails)
            case "lower":
                wanted = [Lower(Value(each)) for each in emails]
                found = found.alias(_hookrow=Lower(email)).filter(_hookrow__in=wanted)
            case "citext" if connections[self._using].vendor == "sqlite":
                found = found.alias(_hookrow=Collate(email, "NOCASE")).filter(_hookrow__in=emails)
            case "exact" | "citext":
                found = found.filter(**{f"{email}__in": emails})
        return found.values_list(mapped.paths["id"], email)

    def _dispatches(self, message_ids: Sequence[str]) -> QuerySet[Model, Any]:
        """Look up the owner by its id: a host may have bare keys, not foreign ones.

        Also one whom `where` hides, for an answer may have to name them.
        """
        mapped = self._models.roles["dispatches"]
        message_id, owner = mapped.paths["provider_message_id"], mapped.paths["subscriber_id"]
        return (
            self._all(mapped)
            .filter(**{f"{message_id}__in": message_ids}, **mapped.where)
            .values_list(
                message_id,
                mapped.paths["id"],
                owner,
                self._one("subscribers", owner, "email", {}),
                self.list_of(mapped),
            )
        )

    def list_of(self, mapped: Mapped) -> Any:  # noqa: ANN401 - a path or an expression
        """Return what tells a dispatch's list: its own or its message's."""
        if "message_id" in mapped.paths:
            visible = self._models.roles["messages"].where
            return self._one("messages", mapped.paths["message_id"], "list_id", visible)
        return mapped.paths.get("list_id", Value(None, TextField()))

    def _one(self, name: str, outer: str, wanted: str, where: Mapping[str, object]) -> Subquery:
        """Look up a field of another role, by the id that the outer query has for it."""
        mapped = self._models.roles[name]
        found = self._all(mapped).filter(**{mapped.paths["id"]: OuterRef(outer)}, **where)
        held = end_of(mapped.fields[wanted])  # which a subquery does not see
        return Subquery(found.values(mapped.paths[wanted])[:1], output_field=held)

    def _all(self, mapped: Mapped) -> QuerySet[Model]:
        return QuerySet(mapped.model, using=self._using)


def check_fold(models: Models, using: str) -> None:
    """Raise `SchemaMismatch` for an email of which PostgreSQL does not ignore the case.

    The spelling of another notification in the group would find it. No database is asked.
    """
    connection, field = connections[using], models.roles["subscribers"].fields["email"]
    if models.fold != "citext" or connection.vendor == "sqlite":
        return
    collation = getattr(field, "db_collation", None)
    if field.db_type(connection) != "citext" and (
        not collation or _PREDEFINED.fullmatch(collation)
    ):
        raise SchemaMismatch(
            f"{field} is neither CITEXT nor of a db_collation that ignores case: "
            "write another fold, lower for example."
        )


class _Lookup:
    """A SELECT by texts. Where a field changes what it is given, it is made anew each time."""

    def __init__(self, select: Callable[[Sequence[str]], QuerySet[Model, Any]]) -> None:
        self._select = select
        self._compiled = lru_cache(_SIZES)(self._compile)

    def __call__(self, texts: Sequence[str], connection: BaseDatabaseWrapper) -> Iterable[Any]:
        if not texts:
            return ()
        sql, parameters, converters = self._compiled(len(texts))
        given = dict(zip(_marks(len(texts)), texts, strict=True))
        if not given.keys() <= _texts(parameters):
            return self._select(texts)
        values = [given.get(each, each) if isinstance(each, str) else each for each in parameters]
        with connection.cursor() as cursor:
            cursor.execute(sql, values)
            rows = cursor.fetchall()
        return [_converted(row, converters, connection) for row in rows] if converters else rows

    def _compile(self, size: int) -> tuple[str, Sequence[Any], Mapping[int, Any]]:
        found = self._select(_marks(size))
        compiler: Any = found.query.get_compiler(found.db)
        sql, parameters = compiler.as_sql()
        return sql, parameters, compiler.get_converters([each for each, *_ in compiler.select])


def _converted(
    row: Sequence[Any], converters: Mapping[int, Any], connection: BaseDatabaseWrapper
) -> Sequence[Any]:
    """Have fields and backend make of a row's values what the host's models would hold."""
    values = list(row)
    for place, (steps, expression) in converters.items():
        for convert in steps:
            values[place] = convert(values[place], expression, connection)
    return values


def _marks(size: int) -> Sequence[str]:
    """Return texts that stand for those to come."""
    return [f"\x01hookrow {number}\x01" for number in range(size)]


def _texts(parameters: Collection[object]) -> set[str]:
    return {each for each in parameters if isinstance(each, str)}
