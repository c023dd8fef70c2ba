"""Models of SQLModel and Django that a mapping cannot use: each has a message with what to write.

`test_models` has those of SQLAlchemy, and `test_django_models` other attributes of Django's models.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import column_property
from sqlmodel import Field, Relationship, SQLModel

import django_host  # noqa: F401 - configures Django, before models are imported
from crm.models import Customer, Guest, Person
from hookrow import ConfigurationError, Role, Schema
from hookrow.django._mapping import map_models


class Team(SQLModel, table=True):
    """The owner of readers."""

    __tablename__ = "bad_teams"

    id: int = Field(primary_key=True)


class Named(SQLModel):
    """The fields of several models."""

    email: str


class Follower(Named, table=True):
    """A subscriber with everything that is no column, or an unsuitable one."""

    __tablename__ = "bad_followers"

    id: int = Field(primary_key=True)
    is_muted: bool = False
    version: int = 0
    team_id: int = Field(foreign_key="bad_teams.id")
    team: Team = Relationship()

    model_config = {"ignored_types": (hybrid_property,)}

    @hybrid_property
    def handle(self) -> str:
        """Return the address in another form."""
        return "@" + self.email


Follower.__mapper__.add_property(  # type: ignore[attr-defined] # of SQLAlchemy
    "shout",
    column_property(Follower.__table__.c.email + "!"),  # type: ignore[attr-defined]
)


def of(model: Any, **options: Any) -> Schema:  # noqa: ANN401 - of any type
    """Map the subscribers alone, without a log."""
    log = options.pop("log", None)
    role = Role.of(model, **options)
    return Schema(subscribers=role, dispatches=None, subscriptions=None, log=log)


def of_django(model: Any, **options: Any) -> object:  # noqa: ANN401 - of any type
    """Do the same, and find the fields."""
    return map_models(of(model, **options), "default")


MUTED: Mapping[str, Any] = {"suppressed_at": Follower.is_muted}
FLAG = "is of the type {}, and without a log nothing stores when it last changed, so an old"
WITH_LOG = 'write log="hookrow_notifications", or map suppression_changed_at to a column that can'
BAD: Mapping[str, tuple[Callable[[], object], list[str]]] = {
    "SQLModel: no table": (
        lambda: of(Named),
        ["Role.of(Named): the class has no table: map a class that inherits from it, such as Foll"],
    ),
    "SQLModel: a column property": (
        lambda: of(Follower, email=Follower.shout, **MUTED, log="log"),  # type: ignore[attr-defined]
        ["Follower.shout, which is an SQL expression, not a column: write email=Follower.<attr"],
    ),
    "SQLModel: a hybrid": (
        lambda: of(Follower, email=Follower.handle, **MUTED, log="log"),
        ["Follower.handle, which is a hybrid property, not a column: write email=Follower.<attrib"],
    ),
    "SQLModel: a relationship": (
        lambda: of(Follower, tenant=Follower.team, **MUTED, log="log"),
        ["Follower.team, which is a relationship, not a column: write tenant=Follower.team_id."],
    ),
    "SQLModel: a boolean without a log": (
        lambda: of(Follower, **MUTED),
        [FLAG.format("BOOLEAN"), WITH_LOG, "To change the column, change Follower.is_muted, and"],
    ),
    "SQLModel: a touch of another type": (
        lambda: of(Follower, touch=Follower.version, **MUTED, log="log"),
        ["is of the type INTEGER, which cannot hold a date-time: write touch=None."],
    ),
    "Django: a boolean without a log": (
        lambda: of_django(
            Customer, suppressed_at=Customer.is_muted, suppression_reason=Customer.mute_reason
        ),
        [FLAG.format("BooleanField"), WITH_LOG],
    ),
    "Django: a touch of another type": (
        lambda: of_django(Guest, empty="", touch=Guest.email),
        ["The role 'subscribers' uses the column 'email' for both email and touch: map one of the"],
    ),
    "Django: a touch of another type that is NOT NULL": (
        lambda: of_django(
            Person,
            id=Person.mute_changed,
            email=Person.address,
            suppressed_at=Person.muted_at,
            touch=Person.uid,
        ),
        ["is of the type UUIDField, which cannot hold a date-time: write touch="],
    ),
}


@pytest.mark.parametrize(("call", "texts"), BAD.values(), ids=BAD)
def test_a_model_that_cannot_be_used(call: Callable[[], object], texts: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        call()
    for text in texts:
        assert text in str(caught.value)
