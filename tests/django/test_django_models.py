"""Roles of Django's models, in code and in a module that the settings name."""

# The models are written like those of a project without type annotations.
# mypy: disable-error-code="var-annotated"

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import models
from django.test import override_settings
from django.test.utils import isolate_apps
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import django_host
from copying import replace
from crm.mapping import SCHEMA
from crm.models import Guest, Mail, Membership, Parcel, Patron, Person, Send
from crm.schema import CRM
from hookrow import ConfigurationError, Role, Schema
from hookrow.django import receiver, store
from hookrow.django._checks import check
from hookrow.django._conf import conf
from hookrow.django._mapping import map_models
from hookrow.errors import SchemaMismatch
from wire import SECRET

GUESTS = Role.of(Guest, empty="")
PARCELS = Role.of(Parcel, provider_message_id=Parcel.message_id)


class Base(DeclarativeBase):
    """The base of models of SQLAlchemy."""


class Reader(Base):
    """A model of SQLAlchemy."""

    __tablename__ = "readers"

    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    suppressed_at: Mapped[str | None]


def test_attributes_stand_for_fields_as_their_names_do() -> None:
    """A foreign key may be either of its attributes; the primary key is the id."""
    by_models, by_names = (map_models(each, "default") for each in (SCHEMA, CRM))
    assert by_models.models == by_names.models
    assert by_models.fields == by_names.fields
    assert {name: by_models.schema.columns(name) for name in SCHEMA.roles} == {
        name: by_names.schema.columns(name) for name in SCHEMA.roles
    }


def test_all_options_reach_the_fields() -> None:
    people = Role.of(
        Person,
        email=Person.address,
        suppressed_at=Person.muted_at,
        suppression_reason=Person.mute_word,
        where={Person.deleted_at: None},
        tenant=Person.team,
        touch=Person.updated,
        fold="lower",
    )
    mapped = map_models(replace(SCHEMA, subscribers=people, reasons=None), "default")
    role = mapped.schema.subscribers
    assert (role.where, role.tenant, role.fold) == ({"deleted_at": None}, "team_id", "lower")
    assert mapped.tenants["subscribers"].name == "team"
    assert (role.touch, mapped.fields["subscribers", "touch"].name) == ("updated", "updated")
    assert "suppression_changed_at" not in mapped.schema.columns("subscribers")


def test_another_store_uses_the_tables_and_columns() -> None:
    """A program without Django's settings, such as another service, can use the same roles."""
    assert (GUESTS.table, SCHEMA.roles["dispatches"].table) == ("guests", "crm_send")
    assert SCHEMA.columns("dispatches")["subscriber_id"] == "person_id"
    assert SCHEMA.columns("dispatches")["id"] == "key"


@isolate_apps("crm")
def test_the_columns_and_the_schema_of_a_table_have_their_real_names() -> None:
    class Reach(models.Model):  # noqa: DJ008 - no object is shown
        mail = models.EmailField(db_column="adr")
        parent = models.ForeignKey("self", models.CASCADE, db_column="of")

        class Meta:
            app_label = "crm"
            db_table = '"crm"."people"'

    class Proxy(Reach):  # noqa: DJ008 - no object is shown
        class Meta:
            app_label = "crm"
            proxy = True

    for model in (Reach, Proxy):
        role = Role.of(model, id=model.pk, email=model.mail, tenant=Reach.parent_id)
        assert (role.table, role.columns, role.tenant) == (
            "crm.people",
            {"id": "id", "email": "adr"},
            "of",
        )


def test_the_settings_name_a_schema_by_its_path() -> None:
    with override_settings(HOOKROW={"SECRET": SECRET, "TABLES": "crm.mapping.SCHEMA"}):
        assert conf.tables is SCHEMA
        assert store().schema.subscribers.table == "crm_person"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("crm.mapping.SCHEME", "'crm.mapping.SCHEME', which cannot be imported: Module"),
        ("crm.nothing.SCHEMA", "which cannot be imported: No module named 'crm.nothing'"),
        ("SCHEMA", "which cannot be imported: SCHEMA doesn't look like a module path"),
        ("crm.mapping.Role", "which is not a Schema, but the class Role."),
        (
            "misspelled.SCHEMA",
            r"imported: type object 'Person' has no attribute 'adress' \(.*misspelled\.py:2\)\.",
        ),
    ],
)
def test_a_path_without_a_schema_is_an_error(
    path: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attribute that a model lacks is not reported as a module without the schema."""
    lines = "from crm.models import Person\nSCHEMA = Person.adress\n"
    (tmp_path / "misspelled.py").write_text(lines)
    monkeypatch.syspath_prepend(tmp_path)
    with (
        override_settings(HOOKROW={"TABLES": path}),
        pytest.raises(ConfigurationError, match=expected),
    ):
        conf.tables  # noqa: B018 - a property


def test_a_field_that_is_not_null_and_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are reported, with the line of `Role.of` that leaves the field out."""
    monkeypatch.setattr(Person._meta.get_field("mute_word"), "null", False)
    people = Role.of(
        Person,
        email=Person.address,
        suppressed_at=Person.muted_at,
        suppression_reason=Person.mute_word,
    )
    schema = replace(SCHEMA, subscribers=people, reasons=None)
    with (
        django_host.alias("postgresql:///nothing") as alias,
        pytest.raises(SchemaMismatch) as caught,
    ):
        map_models(schema, alias)
    not_null, too_short = (each.text for each in caught.value.faults if each.column)
    assert not_null.endswith(
        'drop NOT NULL, set empty="" in its role to write an empty string instead of null, or map '
        "suppression_reason=None to keep no reason."
    )
    assert "cannot hold the reasons 'SpamComplaint', 'ManualSuppression'" in too_short


def test_a_model_of_another_library_is_not_a_model_of_the_project() -> None:
    schema = Schema(subscribers=Role.of(Reader), dispatches=PARCELS, subscriptions=None)
    with pytest.raises(SchemaMismatch, match="'subscribers' has Reader, which is not a model of"):
        map_models(schema, "default")


class _PeopleElsewhere:
    def db_for_write(self, model: type[models.Model], **_: object) -> str | None:
        return "elsewhere" if model is Person else None


@override_settings(DATABASE_ROUTERS=[_PeopleElsewhere()])
def test_a_model_of_another_database() -> None:
    """Hookrow uses one database for all models, and warns about those that a router moves."""
    with override_settings(HOOKROW={"SECRET": SECRET, "TABLES": "crm.mapping.SCHEMA"}):
        [warning] = [each for each in check(None) if each.id == "hookrow.W003"]
    assert "'default', but DATABASE_ROUTERS uses another database for crm.Person" in warning.msg


def test_tenants_without_a_column() -> None:
    """The message has the model, as the module with the schema does."""
    acme = {"PROVIDER": "postmark", "SECRET": SECRET, "TENANT": "1"}
    hookrow = {"TABLES": "crm.mapping.SCHEMA", "PROVIDERS": {"acme": acme}}
    expected = r"write Schema\(subscribers=Role\.of\(Person, tenant=Person\.team_id\)\)\.$"
    with override_settings(HOOKROW=hookrow), pytest.raises(ConfigurationError, match=expected):
        receiver()


def role_of(model: Any, **arguments: Any) -> Role:  # noqa: ANN401 - of any type
    """Call `Role.of` as type checkers would not allow."""
    return Role.of(model, **arguments)


def of(model: Any, **arguments: Any) -> Schema:  # noqa: ANN401 - of any type
    """Map the subscribers to a model, because only a schema raises the faults of attributes."""
    return Schema(subscribers=role_of(model, **arguments))


class Dated(models.Model):
    """An abstract model, and in it the field of a mixin."""

    deleted_at = models.DateTimeField(null=True)

    class Meta:
        """Makes it one."""

        abstract = True


MISTAKES = [
    (
        lambda: of(apps.get_model("auth.User").__base__),
        "AbstractUser): the class is abstract: map a class that inherits from it, such as User.",
    ),
    (
        lambda: of(Dated),
        "Role.of(Dated): the class is abstract: map a class that inherits fr",
    ),
    (lambda: of(models.Model), "class of a model, which has a table, not the class Model"),
    (lambda: of(Guest(email="x")), "the class of a model, not Guest: write Role.of(Guest)."),
    (lambda: of("crm.Person"), 'the class of a model, not str: write Role("crm.Person").'),
    (
        lambda: of(Patron),
        (
            "Role.of(Patron): the class has fields in the tables of its parents (Person): map the "
            "model that has all fields of the role in its own table."
        ),
    ),
    (
        lambda: of(Person, email=Person.groups),
        "`email` of Role.of(Person) is Person.groups, which has no column: write email=Person.<at",
    ),
    (lambda: of(Person, email=Person.send_set), "is Person.send_set, which has no column"),
    (
        lambda: of(Send, subscriber_id=Person.send_set),
        "is Person.send_set, which has no column: write subscriber_id=Send.person.",
    ),
    (lambda: of(Person, email=Person.check), "not an attribute of Person, but method"),
    (
        lambda: of(Send, suppressed_at=Person.muted_at),
        "is Person.muted_at, an attribute of another class: write suppressed_at=Send.muted_at.",
    ),
    (
        lambda: of(Person, where={Mail.group: 1}),
        "`where` of Role.of(Person) is Mail.group, an at",
    ),
    (
        lambda: of(Person, tenant=Dated.deleted_at),
        "an attribute of the abstract class Dated",
    ),
    (
        lambda: of(Person, email=Reader.email),
        "not an attribute of Person, but InstrumentedAttrib",
    ),
    (
        lambda: of(Reader, email=Person.address),
        "not an attribute of Reader, but DeferredAttribute",
    ),
    (
        lambda: of(Person, email="adress"),
        "'adress', which Person does not have. Did you mean 'ad",
    ),
    (
        lambda: of(Send, list_id="mail__group"),
        "'mail__group', which Send does not have. All fields of a role belong to one model: to f",
    ),
    (
        lambda: Schema(subscriptions=role_of(Membership)),
        "The role 'subscriptions' needs list_id and subscriber_id, and Membership has no attri",
    ),
]


@pytest.mark.parametrize(("call", "expected"), MISTAKES)
def test_a_mistake_is_an_error_with_the_line_to_write(
    call: Callable[[], object], expected: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        call()
    assert expected in str(caught.value)


@override_settings(AUTH_USER_MODEL="crm.Person")
def test_a_model_that_the_settings_replace() -> None:
    """Its attributes are those of the model that takes its place, whose faults are reported."""
    user = apps.get_model("auth.User")
    with pytest.raises(ConfigurationError) as caught:
        Schema(subscribers=role_of(user, tenant=user.email), dispatches=role_of(Dated))
    beginnings = [
        "Role.of(User): the class is replaced with 'crm.Person' by the settings: map that model.",
        "`tenant` of Role.of(Person) is User.email, an attribute of another class: write tenant=",
        "The role 'subscribers' needs email and suppressed_at, and Person has no attributes with ",
        "Role.of(Dated): the class is abstract: map a class that inherits from it.",
    ]
    texts = [each.text for each in caught.value.faults]
    assert all(map(str.startswith, texts, beginnings))
    assert len(texts) == len(beginnings)


@override_settings(AUTH_USER_MODEL="nothing.Person")
def test_a_model_that_the_settings_replace_with_none() -> None:
    with pytest.raises(ConfigurationError, match=r"the class is replaced with 'nothing.Person'"):
        of(apps.get_model("auth.User"))
