"""A host's tables with the tenants of rows, and a home in them.

The tenants are texts that the database regards as equal if they differ only by case.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from homes import Home
from sqlalchemy.types import TypeEngine, UserDefinedType

from databases import kind_of
from hookrow import Role, Schema
from hookrow._core.notification import Key

TENANTED = Schema(
    subscribers=Role("people", tenant="the team"),
    dispatches=Role("sends", {"id": "nr"}, tenant="team"),
    subscriptions=Role("members", tenant="team"),
)
"""Each table has the tenant of its rows."""

OWNED = Schema(
    subscribers=Role("people", tenant="team"),
    dispatches=Role("sends"),
    subscriptions=Role("members"),
)
"""Only the subscribers have one, which is also that of their other rows."""

_NAMES: Mapping[str, Key] = {"lower": "acme", "upper": "Acme", "other": "globex"}
_UUIDS: Mapping[str, Key] = {name: UUID(int=n + 10) for n, name in enumerate(_NAMES)}


def tenants_of(schema: Schema) -> Mapping[str, Key]:
    """Return the tenants by the name of a receiver's entry: texts, or UUIDs in Django's models.

    Two of the texts are equal to the database. Without a column of tenants, there are none.
    """
    if not schema.has_tenants:
        return {}
    return _NAMES if schema in (TENANTED, OWNED) else _UUIDS


class _Text(UserDefinedType[str]):
    """A type of text that the database compares without regard to case."""

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: object) -> str:
        """Return the type as SQL text."""
        return self.name


class TenantedHome(Home):
    """A home in an empty database whose rows have tenants, by the name "tenant"."""

    _tenant_type: TypeEngine[str] | None = None

    def _type(self, column: str) -> TypeEngine[Any]:
        if column != "tenant":
            return super()._type(column)
        if self._tenant_type is None:
            self._tenant_type = _Text(kind_of(self._engine).text_without_case(self._engine))
        return self._tenant_type
