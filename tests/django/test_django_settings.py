"""Invalid settings and mappings: the system checks and the first request report them."""

import re
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from threading import active_count
from typing import Any

import pytest
from django.conf import settings
from django.core.checks import CheckMessage, run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db.models import F, Model, Q, UniqueConstraint
from django.db.models.functions import Lower
from django.db.models.lookups import Exact
from django.test import modify_settings, override_settings

import django_host
from copying import replace
from crm.models import Person, Send
from crm.schema import CRM, MUTED
from django_project.manage import Manage
from hookrow import ConfigurationError, Postmark, Role, Schema, Suppressed
from hookrow.django import receiver, store
from hookrow.django._receiver import parsers
from hookrow.django.models import Notification
from hookrow.providers._built_in import credential_settings
from hookrow.providers._registry import PROVIDER_NAMES, built_in
from wire import SECRET

SIGNING_SECRET = f"whsec_{b64encode(b'a key of the webhook').decode()}"

COURIER = {"PROVIDER": "courier.Courier", "OPTIONS": {"limit": 7}}

PEOPLE: dict[str, str | None] = {"email": "address", **MUTED}
SENDS = CRM.roles["dispatches"].columns


def unique(*fields: str, condition: Q | None = None) -> UniqueConstraint:
    return UniqueConstraint(fields=fields, condition=condition, name="unique")


def messages(**hookrow: object) -> Sequence[CheckMessage]:
    """Run hookrow's system checks with these settings."""
    with override_settings(HOOKROW={"SECRET": SECRET, **hookrow}):
        return run_checks(tags=["hookrow"])


def ids(**hookrow: object) -> Sequence[str]:
    """Return the ids of the messages of the checks."""
    return [(each.id or "").removeprefix("hookrow.") for each in messages(**hookrow)]


def assert_refused(hookrow: Mapping[str, object], id_: str, expected: str) -> None:
    """Assert that the checks report an error with a hint, and that no receiver is built."""
    [error] = [each for each in messages(**hookrow) if each.is_serious()]
    assert (error.id, bool(error.hint)) == (f"hookrow.{id_}", True)
    assert re.search(expected, error.msg), error.msg
    with (
        override_settings(HOOKROW={"SECRET": SECRET, **hookrow}),
        pytest.raises(ConfigurationError, match=expected),
    ):
        receiver()


def mapping(
    label: str = "crm.Person",
    where: Mapping[str, Any] | None = None,
    sends: Mapping[str, str | None] | None = None,
    **columns: str,
) -> dict[str, Any]:
    """Return settings that map the subscribers, and perhaps the dispatches, to these fields."""
    role = Role(label, {**PEOPLE, **columns}, where=where or {})
    if sends is None:
        return {"TABLES": replace(Schema(), subscribers=role)}
    theirs = {**SENDS, "suppression_reason": None, **sends}
    return {"TABLES": replace(CRM, subscribers=role, dispatches=Role("crm.Send", theirs))}


def touched(field: str) -> dict[str, Any]:
    """Return settings with a field for the time of the last write to the subscribers."""
    return {"TABLES": replace(CRM, subscribers=replace(CRM.subscribers, touch=field))}


def tenants(field: str) -> dict[str, Any]:
    """Return settings with a field for the tenants of the subscribers."""
    return {"TABLES": replace(CRM, subscribers=replace(CRM.subscribers, tenant=field))}


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"SECRET": None}, "E001", "hookrow has no secret: set HOOKROW"),
    ({"SECRET": 7}, "E001", r"HOOKROW\['SECRET'\] must be text, not int"),
    ({"DATABSE": "x"}, "E003", "no setting 'DATABSE'. Did you mean 'DATABASE'"),
    (
        {"DATABSE": "x", "sweep": True},
        "E003",
        r"(?s)^2 faults:\n- .* 'DATABASE'\?\n- .* no setting 'sweep'\. Did you mean 'SWEEP'\?$",
    ),
    ({"LOG": 1}, "E003", r"HOOKROW\['LOG'\] must be True or False"),
    ({"SPOOL": True}, "E003", r"HOOKROW\['SPOOL'\] must be text"),
    *(({"DEADLINE": each}, "E003", "a number of seconds greater") for each in (0, inf, True)),
    ({"OBSERVER": "hookrow.metrics.Metrics"}, "E003", "must be an observer, .* not str: write '"),
    ({"SWEEP": True, "LOG": False}, "E003", "^'SWEEP' needs 'LOG': add it, or omit 'SWEEP'"),
    ({"SWEEP": True, "KEEP_BODIES": False}, "E003", "^'SWEEP' needs 'KEEP_BODIES'"),
    ({"ACKNOWLEDGE_PARKED": True}, "E003", "^'ACKNOWLEDGE_PARKED' needs 'SWEEP', because"),
    ({"SPOOL": "/no/such/folder/spool.db"}, "E005", "/no/such/folder/spool.db cannot be"),
    ({"SWEEP": 1}, "E003", r"HOOKROW\['SWEEP'\] must be True, False or None"),
    (
        {"SWEEP": True, "ACKNOWLEDGE_SPOOLED": True},
        "E003",
        "^'ACKNOWLEDGE_SPOOLED' needs 'SPOOL', and 'SWE",
    ),
    # the entries of the receiver
    *(
        ({"SECRET": None, "PROVIDERS": providers}, id_, expected)
        for providers, id_, expected in (
            ([], "E003", r"HOOKROW\['PROVIDERS'\] must be a dict with an entry for each provider"),
            ({}, "E003", "must be a dict with an entry for each provider"),
            (
                {"Acme Inc": {}},
                "E003",
                "has the name 'Acme Inc', but .* URL: write {'acme-inc': {'P",
            ),
            ({"acme": "postmark"}, "E003", r"\['acme'\] must be a dict, not str: write {'acme': "),
            (
                {"acme": {}},
                "E003",
                r"\['acme'\] has no PROVIDER: set it to one of 'postmark', 'resend'",
            ),
            (
                {"acme": {"PROVIDER": Postmark}},
                "E003",
                r"\['acme'\] has the class Postmark as PROVIDER: set it to .* such as 'crm.courier",
            ),
            *(
                ({"acme": {"PROVIDER": path}}, "E003", f"PROVIDER is '{path}', which .* write, for")
                for path in ("courier:Courier", "tests.courier:Courier", ".Courier", "courier.")
            ),
            (
                {"acme": {"PROVIDER": "postmrk"}},
                "E003",
                r"HOOKROW\['PROVIDERS'\]\['acme'\]: There is no provider 'postmrk'. Did you mean",
            ),
            ({"postmark": {"SECRT": "x"}}, "E003", "has no setting 'SECRT'. Did you mean 'SECRET'"),
            (
                {"acme": {"provider": "postmark", "secret": "x", "TENANT": 1}},
                "E003",
                r"\['acme'\] has 'provider' and 'secret', .*: write 'PROVIDER' and 'SECRET'\.$",
            ),
            (
                {"postmark": {"SECRT": "x", "TENNANT": 1}, "resend": {"secret": "x"}},
                "E003",
                r"(?s)^3 faults:.*'SECRT'\. Did you .*'TENNANT'\. Did you .*'resend'.* 'SECRET'\.$",
            ),
            ({"postmark": {}}, "E001", r"\['postmark'\]: The webhook secret is missing or empty"),
            ({"resend": {"SECRET": "short"}}, "E001", r"\['resend'\]: The signing secret is not"),
            (
                {"resend": {"SECRET": 7}},
                "E001",
                r"\['resend'\]: SECRET must be text, not int: write 'SECRET': os.environ\['ACME_",
            ),
            (
                {"resend": {"SECRET": ["new", "old"]}},
                "E001",
                r"not list: write 'SECRET': .*\. Write the older one as 'PREVIOUS_SECRET'\.$",
            ),
            (
                {"postmark": {"SECRET": SECRET, "TENANT": 1}, "resend": {"SECRET": SIGNING_SECRET}},
                "E003",
                r"\['resend'\] has no TENANT, but other entries have one, so",
            ),
            (
                {"postmark": {"SECRET": SECRET, "TENANT": 1.5}},
                "E003",
                r"^HOOKROW\['PROVIDERS'\]\['postmark'\]: TENANT .* 1.5: write, .* 'TENANT': 1\.$",
            ),
            (
                {"postmark": {"SECRET": SECRET, "TENANT": 1}},
                "E003",
                r"a row: write 'tenant': 'team_id' in HOOKROW\['TABLES'\]\['subscribers'\]",
            ),
            (
                {"a": {"PROVIDER": "courier.Curier"}},
                "E003",
                r"\['a'\]: The provider courier.Curier cannot be loaded: AttributeError: ",
            ),
            (
                {"a": {"PROVIDER": "courier.Courier", "OPTIONS": {"limt": 1}}},
                "E003",
                "courier.Courier does not accept OPTIONS as its keyword arguments: .*limt",
            ),
            *(
                (
                    {"a": {"OPTIONS": options, "PROVIDER": "courier.Courier"}},
                    "E003",
                    "OPTIONS must be a dict whose keys are the names of keyword arguments: write",
                )
                for options in ([1], {1: 2}, None)
            ),
            (
                {"a": {"PROVIDER": "json.loads", "OPTIONS": {"s": "hunter2"}}},
                "E003",
                "json.loads cannot be created: JSONDecodeError. Its text is not shown, because it",
            ),
            (
                {"a": {"PROVIDER": "courier.signed"}},
                "E003",
                "courier.signed returns bytes, which is no instance of a subclass of hookrow.prov",
            ),
            ({"a": {"PROVIDER": "courier.Courier", "SECRET": "x"}}, "E003", "has no setting 'SECR"),
        )
    ),
    (
        {"PROVIDERS": {"postmark": {"SECRET": SECRET}}},
        "E003",
        "HOOKROW has both PROVIDERS and SECRET, but each entry has its own",
    ),
    (
        {"SECRET": None, "PROVIDERS": {"resend": {"SECRET": SIGNING_SECRET}}, "SWEEP": False},
        "E003",
        "'SWEEP', which .*: add them, or set 'ACKNOWLEDGE_PARKED': False, with which",
    ),
    (
        {"TABLES": {"subscriber": {}}},
        "E003",
        "unknown role 'subscriber'. Did you mean 'subscribers'",
    ),
    ({"TABLES": 7}, "E003", "Expected `object`"),
    ({"DATABASE": "defualt"}, "E004", "no alias 'defualt'. Did you mean 'default'"),
    # models and fields that do not exist or have a wrong type
    (mapping("cmr.Person"), "E002", r"no model 'cmr.Person'\. Did you mean 'crm.Person'\?"),
    (mapping("Person"), "E002", r"no model 'Person'\. Did you mean 'crm.Person'\?"),
    (mapping("crm.Abstract"), "E002", "There is no model 'crm.Abstract'"),
    (mapping("hookrow_tables.Subscribr"), "E002", "Did you mean 'hookrow_tables.Subscriber'"),
    (mapping("crm.Persno"), "E002", r"no model 'crm.Persno'\. Did you mean 'crm.Person'\?"),
    (mapping(email="adress"), "E002", r"no field 'adress'\. Did you mean 'address'\?"),
    (mapping(email="deleted_at"), "E002", "'crm.Person' is of the type DateTimeField, but must be"),
    (mapping("crm.Membership", email="group"), "E002", "key of Membership is composite"),
    (mapping(where={"deletd_at": None}), "E002", "Did you mean 'deleted_at'"),
    (mapping(where={"uid": "x"}), "E002", "crm.Person.uid cannot hold 'x'"),
    (mapping(where={"address__name": 1}), "E002", "crm.Person.address is not a foreign key"),
    # mappings that need the ORM
    (mapping("crm.Patron"), "E006", "not in the table of Patron: map a model that has all"),
    (mapping("crm.Patron", id="person_ptr"), "E006", "crm.Person.address is not in the table"),
    (mapping("crm.Patron", {"address": "x"}, email="since"), "E006", "Person.muted_at is not in"),
    (
        mapping("crm.Send", {"mail__group": None}, email="postmark_id", suppressed_at="muted_at"),
        "E006",
        "crm.Send: `where` names 'mail__group', a field of another model",
    ),
    (
        mapping(sends={"list_id": "mail__group__uid"}),
        "E006",
        "list_id can follow only one foreign key; ",
    ),
    (mapping(sends={"list_id": "seen__group"}), "E002", "crm.Send.seen is not a foreign key"),
    (
        mapping("crm.Send", {"mail_id": False}, email="postmark_id", suppression_reason="mail"),
        "E002",
        "`where` names 'mail_id', which notifications set",
    ),
    (touched("updeted"), "E002", r"no field 'updeted'\. Did you mean 'updated'\? Write touch="),
    (touched("mute_word"), "E002", "which cannot hold a date-time: write touch=None"),
    (tenants("taem"), "E002", r"no field 'taem'\. Did you mean 'team'\?"),
    (tenants("team__uid"), "E006", "crm.Person: `tenant` names 'team__uid', a field of another"),
    # a reason that no field, or its field, cannot hold
    ({"TABLES": {"reasons": {"*": 2**63}}}, "E003", "use an integer that fits 64 bits"),
    (
        {
            "TABLES": replace(
                CRM,
                subscribers=Role("crm.Person", {**PEOPLE, "suppression_reason": "mute_code"}),
                dispatches=Role("crm.Send", {**SENDS, **dict.fromkeys(MUTED)}),
                subscriptions=None,
                reasons={"*": "other"},
            )
        },
        "E002",
        "'mute_code' of 'crm.Person' is of the type SmallIntegerField, which cannot hold the reas",
    ),
    # a reference to a model other than the mapped one, a key of another type, another model's field
    (
        mapping(sends={"subscriber_id": "mail", "list_id": None}),
        "E002",
        "Mail.uid, not to .*Person.uid",
    ),
    (
        mapping(sends={"id": "mute_reason"}),
        "E002",
        "'mute_reason' of crm.Send is not unique, so one .* map id to 'key', or add unique=True",
    ),
    (mapping(sends={}, id="mute_code"), "E002", "UUIDField, and 'mute_code' .* cannot be compared"),
    (
        mapping(sends={"opened_at": "person__muted_at"}),
        "E002",
        "opened_at must be a field of this model",
    ),
]


@pytest.mark.parametrize(("hookrow", "id_", "expected"), WRONG, ids=lambda each: str(each)[:60])
def test_errors(hookrow: dict[str, Any], id_: str, expected: str) -> None:
    """An invalid setting or mapping is an error with a stable id and a hint."""
    assert_refused(hookrow, id_, expected)


def test_all_invalid_settings() -> None:
    """One error has the faults of all settings that exist, another one those of other names."""
    names, values = messages(DATABSE="x", swep=True, DEADLINE=0, SPOOL=True)
    assert re.search(r"(?s)^2 faults:.*'DATABSE'.*'swep'\. Did you mean 'SWEEP'\?$", names.msg)
    assert re.search(r"(?s)^2 faults:.*'SPOOL'\] must.*'DEADLINE'\] must", values.msg)
    assert (names.hint or "").startswith("The settings are SECRET, ")


def test_mappings_that_work() -> None:
    """A mapping may be a dict, and may name the model between two others, in any case."""
    columns = {"list_id": "from_person", "subscriber_id": "to_person_id", **dict.fromkeys(MUTED)}
    sends = Role("crm.Send", {**SENDS, "list_id": None})
    schema = replace(CRM, dispatches=sends, subscriptions=Role("crm.person_Friends", columns))
    plain = {
        name: {"table": role.table, "columns": dict(role.columns)}
        for name, role in schema.roles.items()
    }
    assert ids(TABLES=schema) == ids(TABLES=plain) == []
    with override_settings(HOOKROW={"TABLES": Schema(), "LOG": False}):
        assert store().log is None


@pytest.mark.parametrize(
    ("hookrow", "expected"),
    [("secret", "must be a dict"), ({}, "has no secret"), (None, "no secret")],
)
def test_settings_without_a_secret(hookrow: object, expected: str) -> None:
    with override_settings(HOOKROW=hookrow):
        if hookrow is None:
            del settings.HOOKROW
        with pytest.raises(ConfigurationError, match=expected):
            receiver()


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"ENGINE": "django.db.backends.dummy"}, "MariaDB and MySQL, not on unknown"),
        ({"AUTOCOMMIT": False}, "AUTOCOMMIT off"),
    ],
)
def test_databases_that_cannot_be_used(more: dict[str, Any], expected: str) -> None:
    with django_host.alias("sqlite:///x.db", **more) as alias:
        assert_refused({"DATABASE": alias}, "E004", expected)


def test_swapped_model() -> None:
    """The error names the model that the settings use instead."""
    tables = mapping("auth.User", email="email")
    with override_settings(AUTH_USER_MODEL="crm.Person"):
        assert_refused(tables, "E002", "replace the model 'auth.User' with 'crm.Person': use")


def test_fields_that_sql_cannot_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generated columns, binary keys on PostgreSQL, and dots in names of tables on SQLite."""
    with monkeypatch.context() as patch:
        patch.setattr(Person._meta.get_field("muted_at"), "generated", True, raising=False)
        assert_refused(mapping(), "E002", "'muted_at' of 'crm.Person' is generated")
    with monkeypatch.context() as patch, django_host.alias("postgresql:///nothing") as alias:
        patch.setattr(Person._meta.get_field("uid"), "db_type", lambda _: "bytea")
        assert_refused({"DATABASE": alias, **mapping()}, "E006", "crm.Person.uid stores bytes")
    monkeypatch.setattr(Person._meta, "db_table", "crm.person")
    assert_refused(mapping(), "E006", "Person has the db_table 'crm.person'")


@pytest.mark.parametrize(("name", "remedy"), [("muted_at", "."), ("mute_reason", ', set empty=""')])
def test_fields_that_do_not_allow_null(
    name: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A field that a reactivation sets to null is an error, except in an unmanaged model."""
    monkeypatch.setattr(Person._meta.get_field(name), "null", False)
    expected = f"'{name}' of 'crm.Person' is NOT NULL, but .* null: drop NOT NULL{remedy}"
    assert_refused({"TABLES": CRM}, "E002", expected)
    assert "null=True" in str(messages(TABLES=CRM)[0].hint)
    monkeypatch.setattr(Person._meta, "managed", False)
    assert not [each for each in messages(TABLES=CRM) if each.is_serious()]


def test_the_hint_for_another_mistake_in_a_model() -> None:
    [error] = messages(**mapping(sends={"id": "mute_reason"}))
    assert str(error.hint).endswith("After a change of a model, run makemigrations and migrate.")


@pytest.mark.parametrize(
    ("meta", "where", "is_unique"),
    [
        ({}, {}, False),
        ({"unique_together": [("mail", "person")]}, {}, True),
        ({"unique_together": [("mail", "seen")]}, {}, False),
        ({"constraints": [unique("person", "mail")]}, {}, True),
        ({"constraints": [unique("person")]}, {}, True),
        ({"constraints": [unique("person", "mail", "seen")]}, {}, False),
        ({"constraints": [UniqueConstraint(Lower("mail"), name="u")]}, {}, False),
        ({"constraints": [UniqueConstraint("mail", "person", name="u")]}, {}, True),
        ({"constraints": [UniqueConstraint(F("mail").desc(), "person", name="u")]}, {}, True),
        ({"constraints": [UniqueConstraint("mail", Lower("person"), name="u")]}, {}, False),
        # A condition has to hold for all visible rows.
        ({"constraints": [unique("mail", condition=Q(seen=None))]}, {}, False),
        ({"constraints": [unique("mail", condition=Q(seen=None))]}, {"seen": None}, True),
        ({"constraints": [unique("mail", condition=Q(seen__isnull=True))]}, {"seen": None}, True),
        ({"constraints": [unique("mail", condition=Q(seen__isnull=True))]}, {}, False),
        ({"constraints": [unique("mail", condition=Q(seen__isnull=False))]}, {}, False),
        ({"constraints": [unique("mail", condition=Q(person__isnull=False))]}, {}, True),
        (
            {"constraints": [unique("mail", condition=Q(postmark_id__isnull=False))]},
            {"postmark_id": "x"},
            True,
        ),
        (
            {"constraints": [unique("mail", condition=Q(seen=None) & Q(postmark_id="x"))]},
            {"postmark_id": "x", "seen": None},
            True,
        ),
        (
            {"constraints": [unique("mail", condition=Q(seen=None) & Q(postmark_id="x"))]},
            {"postmark_id": "y", "seen": None},
            False,
        ),
        (
            {"constraints": [unique("mail", condition=Q(seen=None) | Q(postmark_id="x"))]},
            {"postmark_id": "x", "seen": None},
            False,
        ),
        ({"constraints": [unique("mail", condition=~Q(seen=None))]}, {"seen": None}, False),
        ({"constraints": [unique("mail", condition=Q(postmark_id__gt="a"))]}, {}, False),
        ({"constraints": [unique("mail", condition=Q(Exact(1, 1)))]}, {}, False),
        # A field with one value in all visible rows may be part of the constraint.
        ({"constraints": [unique("person", "mail", "postmark_id")]}, {"postmark_id": "x"}, True),
        ({"unique_together": [("mail", "postmark_id")]}, {"postmark_id": "x"}, True),
        ({"constraints": [unique("postmark_id")]}, {"postmark_id": "x"}, True),
        ({"constraints": [unique("mail", "seen")]}, {"postmark_id": "x"}, False),
        ({"constraints": [unique("mail", "seen")]}, {"seen": None}, False),
        ({"constraints": [unique("mail", "seen")]}, {"seen": False}, False),
        (
            {"constraints": [unique("mail", "postmark_id", condition=Q(seen=None))]},
            {"postmark_id": "x"},
            False,
        ),
    ],
)
def test_keys(
    meta: Mapping[str, Any],
    where: Mapping[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_unique: bool,
) -> None:
    """A model must declare that no two visible rows have the same key."""
    for name, value in meta.items():
        monkeypatch.setattr(Send._meta, name, value)
    columns = {"list_id": "mail", "subscriber_id": "person", **MUTED}
    sends = Role("crm.Send", {**SENDS, "list_id": "mail"})
    pairs = Role("crm.Send", columns, where=where)
    settings = {"TABLES": replace(CRM, dispatches=sends, subscriptions=pairs)}
    if is_unique:
        assert not [each for each in messages(**settings) if each.is_serious()]
        return
    remedy = r"add a UniqueConstraint\(fields=\['mail', 'person'\], name=...\) to its Meta"
    expected = f"'mail' and 'person' of crm.Send are not unique together, .* rows: {remedy}"
    assert_refused(settings, "E002", expected)


class _Nowhere:
    def allow_migrate(self, *_: object, **__: object) -> bool:
        return False


class _Everything:
    """Uses one database for all models."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def db_for_write(self, *_: object, **__: object) -> str:
        return self._alias


class _LogElsewhere:
    def db_for_write(self, model: type[Model], **_: object) -> str | None:
        return "elsewhere" if model is Notification else None


def test_providers() -> None:
    """Those of hookrow take their secrets, and those of the project their own arguments.

    The log is read by the names of the entries, and the sweep is on by default.
    """
    entries = {
        "acme": {"PROVIDER": "postmark", "SECRET": SECRET, "PREVIOUS_SECRET": "the-former-secret"},
        "resend": {"SECRET": SIGNING_SECRET, "PREVIOUS_SECRET": None},
        "parcels": COURIER,
    }
    assert ids(SECRET=None, PROVIDERS=entries) == []
    with override_settings(HOOKROW={"PROVIDERS": entries}):
        made = receiver()
        assert [(each.name, each.provider.name) for each in made.entries] == [
            ("acme", "postmark"),
            ("resend", "resend"),
            ("parcels", "courier"),
        ]
        acme, _, parcels = (each.provider for each in made.entries)
        assert (acme.secrets, parcels.max_body) == ((SECRET, "the-former-secret"), 7)
        assert made.options.sweeps
        assert [*parsers().names] == ["acme", "resend", "parcels"]


@pytest.mark.parametrize("name", PROVIDER_NAMES)
def test_each_provider_of_hookrow(name: str) -> None:
    """Its setting is named as the provider names it, and an option that it requires, too."""
    kind = built_in(name)
    newest, previous, _ = (each.upper() for each in credential_settings(kind.credential))
    (new, _), (old, _) = kind.generate(), kind.generate()
    entry = {newest: new, previous: old}
    if name == "mandrill":
        [error] = messages(SECRET=None, PROVIDERS={name: entry})
        assert (error.id, "URL is missing: set it to a string" in error.msg) == (
            "hookrow.E001",
            True,
        )
        entry["URL"] = "https://example.com/mail/provider/webhooks"
    assert ids(SECRET=None, PROVIDERS={name: entry}) == []
    with override_settings(HOOKROW={"PROVIDERS": {name: entry}}):
        assert [each.provider.name for each in receiver().entries] == [name]
        assert parsers().default.provider.name == name


def test_options() -> None:
    """The log is read with them."""
    entry: dict[str, object] = {"PUBLIC_KEY": built_in("sendgrid").generate()[0]}
    wrong = ids(SECRET=None, PROVIDERS={"sendgrid": entry | {"MESSAGE_ID_KEY": 7}})
    assert wrong == ["E001"]
    assert ids(SECRET=None, PROVIDERS={"sendgrid": entry | {"GROUPS": "yes"}}) == ["E001"]
    entry |= {"MESSAGE_ID_KEY": "anymail_id", "GROUPS": True}
    assert ids(SECRET=None, PROVIDERS={"sendgrid": entry}) == []
    body = (
        b'{"event": "open", "timestamp": 1700000000, "email": "a@example.com", "anymail_id": "7"}'
    )
    with override_settings(HOOKROW={"PROVIDERS": {"sendgrid": entry}}):
        assert parsers().default.provider.parse(body).notifications[0].message_id == "7"
        unsubscribed = parsers().default.provider.parse(body.replace(b"open", b"group_unsubscribe"))
        assert isinstance(unsubscribed.notifications[0], Suppressed)


def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    monkeypatch.delitem(sys.modules, "hookrow.providers.sendgrid", raising=False)
    [error] = messages(SECRET=None, PROVIDERS={"sendgrid": {"PUBLIC_KEY": "MFkw"}})
    assert error.id == "hookrow.E003"
    assert "hookrow.providers.sendgrid needs an extra: pip install" in error.msg


def test_the_log_is_read_without_secrets() -> None:
    with override_settings(HOOKROW={"PROVIDERS": {"postmark": {"SECRET": None}}}):
        assert parsers().default.provider.name == "postmark"


def test_warnings() -> None:
    """A short secret, routers to another database, and no table for the log are warnings."""
    assert (ids(), ids(PREVIOUS_SECRET=""), ids(SECRET="short")) == ([], [], ["W001"])
    assert ids(SECRET=None, PROVIDERS={"postmark": {"SECRET": "short"}}) == ["W001"]
    with django_host.alias("sqlite:///x.db") as alias:
        assert ids(DATABASE=alias) == ["W003"]
    with override_settings(DATABASE_ROUTERS=[_Nowhere()]):
        assert (ids(), ids(LOG=False)) == (["W002"], [])
    with override_settings(DATABASE_ROUTERS=[_LogElsewhere()]):
        [warning] = messages()
        assert warning.id == "hookrow.W003"
        assert (
            "'default', but DATABASE_ROUTERS uses another database for hookrow.Notification"
            in warning.msg
        )


@pytest.mark.parametrize(
    ("more", "expected", "hint"),
    [
        ({}, "no time limit for connecting", "'connect_timeout': 2"),
        ({"OPTIONS": {"connect_timeout": 0}}, "no time limit", "'connect_timeout': 2"),
        ({"OPTIONS": {"connect_timeout": "2s"}}, "no time limit", "'connect_timeout': 2"),
        ({"OPTIONS": {"connect_timeout": "inf"}}, "no time limit", "'connect_timeout': 2"),
        # psycopg 3 ignores the limit of a service file.
        ({"NAME": "", "OPTIONS": {"service": "mail"}}, "no time limit", "'connect_timeout': 2"),
        ({"OPTIONS": {"connect_timeout": 1}}, None, ""),  # the driver reads 1 as 2
        ({"OPTIONS": {"connect_timeout": "4"}}, None, ""),
        ({"OPTIONS": {"connect_timeout": 5}}, "may take 5 seconds, .* allows 5 ", "raise HOOKROW"),
        # The limit applies to each host by itself.
        ({"HOST": "a,b", "OPTIONS": {"connect_timeout": 2}}, None, ""),
        ({"HOST": "a,b", "OPTIONS": {"connect_timeout": 3}}, "may take 6 seconds", "timeout': 2"),
        ({"OPTIONS": {"host": "a,b,c", "connect_timeout": 2}}, "6 seconds", "raise HOOKROW"),
        ({"HOST": "a", "OPTIONS": {"hostaddr": "::1,::2", "connect_timeout": 3}}, "6 sec", "2"),
        # A request waits for the pool, not for the driver.
        ({"OPTIONS": {"pool": True, "connect_timeout": 2}}, "30 seconds", "'pool': {'timeout': 2}"),
        ({"OPTIONS": {"pool": {"max_size": 8}}}, "30 seconds", "'pool': {'timeout': 2}"),
        ({"OPTIONS": {"pool": {"timeout": 3.5}}}, None, ""),
        ({"OPTIONS": {"pool": {"timeout": None}}}, "no time limit", "'pool': {'timeout': 2}"),
    ],
)
def test_a_limit_for_connecting(
    more: dict[str, Any], expected: str | None, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL, connecting must be limited to less than the deadline, or W005 is reported."""
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    database = {"OPTIONS": {}, **more}
    with (
        django_host.alias("postgresql:///nothing", **database) as alias,
        override_settings(DATABASE_ROUTERS=[_Everything(alias)]),
    ):
        found = messages(DATABASE=alias)
        assert [each.id for each in found] == ["hookrow.W005"] * bool(expected)
        for each in found:
            assert re.search(expected or "", each.msg), each.msg
            assert hint in (each.hint or "")
            assert f"DATABASES['{alias}']['OPTIONS']" in (each.hint or "")
        if "connect_timeout" not in database["OPTIONS"] and "pool" not in database["OPTIONS"]:
            monkeypatch.setenv("PGCONNECT_TIMEOUT", "2")
            assert messages(DATABASE=alias) == []


def test_a_limit_for_connecting_in_the_check_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """`manage.py check` reports it without `--database`, unless the settings silence it."""
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    check = partial(call_command, "check", fail_level="WARNING")
    with (
        django_host.alias("postgresql:///nothing", OPTIONS={}) as alias,
        override_settings(
            HOOKROW={"SECRET": SECRET, "DATABASE": alias}, DATABASE_ROUTERS=[_Everything(alias)]
        ),
    ):
        with pytest.raises(SystemCheckError, match=r"hookrow\.W005"):
            check()
        with override_settings(SILENCED_SYSTEM_CHECKS=["hookrow.W005"]):
            check()


@pytest.mark.parametrize(
    ("hookrow", "words"),
    [
        ({"SWEEP": True}, None),
        ({}, "No sweep is on"),
        ({"KEEP_BODIES": False}, "The log keeps no bodies"),
        ({"LOG": False}, "Without a log"),
        ({"TABLES": 7}, None),  # reported by the other checks
        # Only Postmark does not repeat its notifications.
        ({"SECRET": None, "PROVIDERS": {"courier": COURIER}}, None),
    ],
)
def test_a_deployment_that_retries_nothing(hookrow: dict[str, Any], words: str | None) -> None:
    """Only `check --deploy` reports it, because the sweep may run in another process."""
    with override_settings(HOOKROW={"SECRET": SECRET, **hookrow}):
        usual = run_checks(tags=["hookrow"])
        found = run_checks(tags=["hookrow"], include_deployment_checks=True)
    added = [each for each in found if each not in usual]
    assert [each.id for each in added] == ["hookrow.I001"] * bool(words)
    for each in added:
        assert (words or "") in each.msg
        assert each.hint


def test_a_check_creates_nothing(tmp_path: Path) -> None:
    """The checks create no spool and start no thread."""
    threads = active_count()
    spool = {"GROUP_COMMIT": True, "SPOOL": tmp_path / "spool.db", "SWEEP": True}
    assert (ids(**spool), [*tmp_path.iterdir()]) == ([], [])
    with override_settings(HOOKROW={"SECRET": SECRET, **spool}):
        receiver()
        assert run_checks(tags=["hookrow"]) == []
    assert active_count() == threads


def test_the_check_command() -> None:
    """`manage.py check` and `migrate` report all errors at once, such as an app that is missing."""
    for command in (
        partial(call_command, "check"),
        partial(call_command, "migrate", skip_checks=False),
    ):
        with override_settings(HOOKROW={"TABELS": {}}), pytest.raises(SystemCheckError) as raised:
            command()
        for text in ("hookrow.E001", "hookrow.E003", "Did you mean 'TABLES'", "HINT: The settings"):
            assert text in str(raised.value)
    with modify_settings(INSTALLED_APPS={"remove": ["hookrow.django.tables"]}):
        assert_refused({}, "E003", "add 'hookrow.django.tables' to INSTALLED_APPS")


def test_without_the_app_of_the_endpoint(tmp_path: Path) -> None:
    """Without the app of the log's model, the error names the app to add, with no traceback."""
    bare: dict[str, object] = {"ROOT_URLCONF": "hookrow.django.urls", "TEMPLATES": []}
    bare |= {"MIDDLEWARE": [], "INSTALLED_APPS": ["hookrow.django.tables"]}
    manage = Manage(tmp_path, "sqlite:///x.db", **bare)
    for command in ("check", "migrate"):
        done = manage.run(command)
        assert done.returncode == 1
        assert "(hookrow.E002) There is no model 'hookrow.Notification'" in done.stderr
        assert "Add 'hookrow.django' to INSTALLED_APPS" in done.stderr
        assert "Traceback" not in done.stderr
