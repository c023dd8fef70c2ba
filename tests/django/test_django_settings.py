"""What is wrong with a project's settings or models is said by the checks and the first request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from threading import active_count
from typing import Any

import pytest
from django.conf import settings
from django.core.checks import CheckMessage
from django.db.models import Index, UniqueConstraint
from django.db.models.functions import Lower
from django.test import override_settings

import django_host
from crm.models import Membership, Person, Send
from crm.schema import CRM
from django_project.manage import Manage
from hookrow import ConfigurationError, Role, Schema, SchemaMismatch
from hookrow.django import receiver, store
from hookrow.django.checks import check
from hookrow.django.conf import conf
from hookrow.django.fields import Folded
from hookrow.django.mapping import models
from wire import SECRET

_MUTED = {
    "suppressed_at": "muted_at",
    "suppression_reason": "mute_reason",
    "suppression_changed_at": "mute_changed",
}
PERSON = Role("crm.Person", {"email": "address", **_MUTED})


def mapped(**roles: Role) -> Schema:
    """Return a schema with roles of the host's."""
    return replace(Schema(), **roles)  # type: ignore[arg-type] # the roles


@pytest.mark.parametrize(
    ("role", "said"),
    [
        (Role("cmr.Person"), r"no app 'cmr' for the model 'cmr.Person'\. Did you mean 'crm'\?"),
        (Role("people"), r"The model 'people' needs its app: write 'app.people'"),
        (Role("person"), r"The model 'person' needs its app: write 'crm.Person'"),
        (Role("crm.Persno"), r"app 'crm' has no model 'Persno'\. Did you mean 'Person'\?"),
        (
            Role("crm.Person", {"email": "adress"}),
            r"'crm.Person' has no field 'adress'\. Did you mean 'address'\?",
        ),
        (Role("crm.Person", {"email": "friends"}), "no field 'friends'"),
        (Role("crm.Person", {**PERSON.columns, "email": "uid"}), "crm.Person.uid has to be text"),
        (
            Role("crm.Person", {**PERSON.columns, "suppressed_at": "mute_code"}),
            "mute_code has to be a DateTimeField",
        ),
        (
            Role("crm.Person", {**PERSON.columns, "suppression_reason": "mute_code"}),
            r"mute_code holds numbers: say which in `reasons`",
        ),
        (replace(PERSON, where={"deletd_at": None}), "Did you mean 'deleted_at'"),
        (replace(PERSON, where={"uid": "x"}), "crm.Person.uid cannot hold 'x'"),
        (replace(PERSON, where={"mute_code": 2**63}), "crm.Person.mute_code cannot hold 9223"),
        (replace(PERSON, where={"address": "x@" + "y" * 320}), "crm.Person.address cannot hold"),
        (replace(PERSON, where={"address__name": 1}), "crm.Person.address leads to no other model"),
        (
            Role(
                "crm.Send",
                {**_MUTED, "email": "postmark_id", "suppression_reason": "mail"},
                where={"mail_id": False},
            ),
            "hides rows by 'mail_id', which notifications set",
        ),
    ],
)
def test_what_a_role_may_not_name(role: Role, said: str) -> None:
    """An app, model or field that is not there, with the nearest; or of another type."""
    with pytest.raises(SchemaMismatch, match=said):
        models(mapped(subscribers=role))


def test_what_is_changed_is_the_models_own() -> None:
    """A field that notifications set, or rows are found by, cannot be another model's."""
    columns = {**_MUTED, "provider_message_id": "postmark_id", "subscriber_id": "person"}
    columns |= {"delivered_at": "arrived", "opened_at": "person__muted_at", "list_id": "mail"}
    with pytest.raises(SchemaMismatch, match="opened_at is changed or joined by"):
        models(mapped(dispatches=Role("crm.Send", columns)))


def test_models_that_django_made() -> None:
    """Those between two others can be named as well, by their label in whatever case."""
    columns = {"list_id": "from_person", "subscriber_id": "to_person_id", **dict.fromkeys(_MUTED)}
    friends = Role("crm.person_Friends", columns)
    sends = Role("crm.Send", {**CRM.dispatches.columns, "list_id": "person_id"})
    found = models(replace(CRM, dispatches=sends, subscriptions=friends))
    assert found.roles["subscriptions"].paths == {
        "list_id": "from_person_id",
        "subscriber_id": "to_person_id",
    }


@pytest.mark.parametrize(
    ("people", "sends", "said"),
    [
        ({}, {"subscriber_id": "mail"}, "Send.mail leads to crm.Mail.uid, not to crm.Person.uid"),
        ({}, {"subscriber_id": "mute_reason"}, "holds a TextField, and crm.Person.uid a UUIDF"),
        ({"id": "mute_code"}, {}, "Send.person leads to crm.Person.uid, not to crm.Person.mute"),
        ({}, {"list_id": "mail"}, "Send.mail leads to crm.Mail.uid, not to crm.Group.uid"),
    ],
)
def test_keys_of_another_model(
    people: Mapping[str, str], sends: Mapping[str, str], said: str
) -> None:
    """A field that leads to another model than the one that is mapped, or to another field."""
    subscribers = Role("crm.Person", {**PERSON.columns, **people})
    dispatches = {**CRM.dispatches.columns, "suppression_reason": None, **sends}
    schema = replace(CRM, subscribers=subscribers, dispatches=Role("crm.Send", dispatches))
    with pytest.raises(SchemaMismatch, match=said):
        models(schema)


@pytest.mark.parametrize(
    ("field", "reasons", "said"),
    [
        ("mute_reason", {"*": 1}, "mute_reason holds text: say text"),
        ("mute_code", {"*": "other"}, "mute_code holds numbers: say which"),
        ("mute_code", {"*": 2**63}, "mute_code cannot hold 9223372036854775808: write what"),
        ("address", {"*": "x@" + "y" * 320}, "address cannot hold 'x@yy"),
    ],
)
def test_reasons_that_do_not_fit(field: str, reasons: Mapping[str, str | int], said: str) -> None:
    """A field of text takes no numbers, one of numbers no text, and none what is too long."""
    people = Role(
        "crm.Person", {**PERSON.columns, "email": "mute_reason", "suppression_reason": field}
    )
    if field == "mute_reason":
        people = PERSON
    with pytest.raises(SchemaMismatch, match=said):
        models(replace(mapped(subscribers=people), reasons=reasons))


def test_tables_as_plain_values() -> None:
    """They make the same schema; False stays a condition."""
    person = {"table": "crm.Person", "columns": dict(PERSON.columns), "where": {"mute_code": False}}
    with override_settings(HOOKROW={"TABLES": {"subscribers": person, "messages": None}}):
        assert conf.tables == mapped(subscribers=replace(PERSON, where={"mute_code": False}))
    with override_settings(HOOKROW={"TABLES": Schema(), "LOG": False}):
        assert conf.tables == Schema(log=None)
        assert store().log is None


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"SECRET": None}, "E001", "hookrow has no secret: set HOOKROW"),
    ({"SECRET": ""}, "E001", "hookrow has no secret"),
    ({"SECRET": 7}, "E001", r"HOOKROW\['SECRET'\] is text, not int"),
    ({"DATABSE": "x"}, "E003", "no setting 'DATABSE'. Did you mean 'DATABASE'"),
    ({"LOG": 1}, "E003", r"HOOKROW\['LOG'\] is True or False"),
    ({"SPOOL": True}, "E003", r"HOOKROW\['SPOOL'\] is text"),
    ({"DEADLINE": 0}, "E003", "a number of seconds, more than 0"),
    ({"DEADLINE": -1}, "E003", "a number of seconds, more than 0"),
    ({"DEADLINE": nan}, "E003", "a number of seconds"),
    ({"DEADLINE": inf}, "E003", "a number of seconds"),
    ({"DEADLINE": 10**400}, "E003", "a number of seconds"),
    ({"DEADLINE": True}, "E003", "a number of seconds"),
    ({"DEADLINE": "5"}, "E003", "a number of seconds"),
    ({"OBSERVER": "hookrow.metrics.Metrics"}, "E003", "is an observer: Metrics"),
    ({"SWEEP": True, "LOG": False}, "E003", "log"),
    ({"SWEEP": True, "KEEP_BODIES": False}, "E003", "bodies"),
    ({"SWEEP": True, "TABLES": Schema(log=None)}, "E003", "Without a log"),
    ({"SWEEP": 1}, "E003", r"HOOKROW\['SWEEP'\] is True or False"),
    ({"SPOOL": "/no/such/folder/spool.db"}, "E005", "/no/such/folder/spool.db cannot be"),
    ({"SPOOL": "/"}, "E005", "The spool / cannot be written"),
    ({"TABLES": {"log": "other"}}, "E003", "the log cannot be in 'other'"),
    ({"TABLES": {"subscriber": {}}}, "E003", "no role 'subscriber'. Did you mean 'subscribers'"),
    (
        {"TABLES": {"subscribers": {"table": "x.y", "fields": {}}}},
        "E003",
        "no part of a role 'fields'",
    ),
    ({"TABLES": {"subscribers": {}}}, "E003", "the subscribers have no table"),
    ({"TABLES": {"subscribers": {"table": ""}}}, "E003", "needs a table"),
    ({"TABLES": 7}, "E003", "Expected `object`"),
    ({"TABLES": Schema(subscribers=Role("crm.Persn"))}, "E002", "Did you mean 'Person'"),
    ({"DATABASE": "defualt"}, "E004", "no alias 'defualt'. Did you mean 'default'"),
    ({"DATABASE": ""}, "E004", "no alias ''"),
]


@pytest.mark.parametrize(("wrong", "id_", "said"), WRONG)
def test_what_is_wrong_is_said(wrong: dict[str, Any], id_: str, said: str) -> None:
    """By the checks under an id that stays, with a hint; and raised where a server starts."""
    with override_settings(HOOKROW={"SECRET": SECRET, **wrong}):
        found = [each for each in check(None) if each.id == f"hookrow.{id_}"]
        assert len(found) == 1
        assert found[0].hint
        with pytest.raises(ConfigurationError, match=said):
            receiver()


def test_a_check_leaves_nothing_behind(tmp_path: Path) -> None:
    """Neither the spool that a server will make, nor a thread."""
    threads = active_count()
    spool = {"GROUP_COMMIT": True, "SPOOL": tmp_path / "spool.db", "SWEEP": True}
    with override_settings(HOOKROW={"SECRET": SECRET, **spool}):
        assert check(None) == []
        assert [*tmp_path.iterdir()] == []
        receiver()
        assert check(None) == []
    assert active_count() == threads


def test_an_empty_previous_secret() -> None:
    """It is none, as where a variable of the environment is set to nothing."""
    with override_settings(HOOKROW={"SECRET": SECRET, "PREVIOUS_SECRET": ""}):
        assert (check(None), conf.secrets) == ([], [SECRET])


@pytest.mark.parametrize("given", [None, [], "secret"])
def test_settings_that_are_none(given: object) -> None:
    """Whatever it is, it is no dict."""
    with override_settings(HOOKROW=given), pytest.raises(ConfigurationError, match="is a dict"):
        receiver()


def test_no_settings() -> None:
    """Without the settings it is the secret that is asked for."""
    with override_settings():
        del settings.HOOKROW
        with pytest.raises(ConfigurationError, match="has no secret"):
            receiver()


def test_a_database_that_hookrow_does_not_know() -> None:
    """It is named; and one that commits nothing by itself is refused, too."""
    for more, said in (
        ({"ENGINE": "django.db.backends.dummy"}, "PostgreSQL and SQLite, not on unknown"),
        ({"AUTOCOMMIT": False}, "AUTOCOMMIT off"),
    ):
        with (
            django_host.alias("sqlite:///x.db", **more) as alias,
            override_settings(HOOKROW={"SECRET": SECRET, "DATABASE": alias}),
        ):
            assert [each.id for each in check(None)] == ["hookrow.E004"]
            with pytest.raises(ConfigurationError, match=said):
                receiver()


NULLED = [
    (model, name) for model in (Person, Send, Membership) for name in ("muted_at", "mute_reason")
]


def test_fields_that_are_not_null(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reactivation sets to null is named by the checks, each field, and by a server."""
    fields = [model._meta.get_field(name) for model, name in NULLED]
    for field in fields:
        monkeypatch.setattr(field, "null", False)
    with override_settings(HOOKROW={"SECRET": SECRET, "TABLES": CRM}):
        found = [each for each in check(None) if each.id == "hookrow.E006"]
        assert [(each.obj, each.msg, each.hint) for each in found] == [
            (
                field.model,
                f"{field} does not allow null, but a reactivation sets it to null.",
                f"Add null=True to {field}, then run makemigrations and migrate.",
            )
            for field in fields
        ]
        with pytest.raises(SchemaMismatch, match=r"crm\.Person\.muted_at does not allow null"):
            receiver()
        for model in {field.model for field in fields}:
            monkeypatch.setattr(model._meta, "managed", False)
        ids = [each.id for each in check(None)]
        assert "hookrow.E006" not in ids
        assert ids.count("hookrow.W005") == len(fields)  # only a warning: it may be a view


class TestWarnings:
    """What works, though not well."""

    def found(self, **hookrow: object) -> Mapping[str, CheckMessage]:
        """Return the warnings, by id."""
        with override_settings(HOOKROW={"SECRET": SECRET, **hookrow}):
            return {str(each.id): each for each in check(None)}

    def test_all_is_well(self) -> None:
        """Our own models have the indexes, and so there is nothing to say."""
        assert self.found() == {}

    def test_a_short_secret(self) -> None:
        """It can be guessed."""
        assert self.found(SECRET="short").keys() == {"hookrow.W002"}

    @pytest.mark.parametrize(
        ("fold", "index"),
        [
            ("ascii", Index(Folded("address"), name="i")),
            ("ascii", UniqueConstraint(Lower("address"), name="i")),
            ("lower", Index(Lower("address"), name="i")),
            ("exact", Index(fields=["-address"], name="i")),
            ("citext", UniqueConstraint(fields=["address", "uid"], name="i")),
        ],
    )
    def test_no_index_for_the_email(
        self,
        monkeypatch: pytest.MonkeyPatch,
        fold: Any,  # noqa: ANN401 - one of four
        index: Index | UniqueConstraint,
    ) -> None:
        """Each fold needs an index of its own; the hint says which."""
        tables = replace(CRM, subscribers=replace(PERSON, fold=fold))
        with override_settings(HOOKROW={"SECRET": SECRET, "TABLES": tables}):
            [warning] = [each for each in check(None) if each.obj is Person]
            assert (warning.id, "address" in (warning.hint or "")) == ("hookrow.W001", True)
            where = "indexes" if isinstance(index, Index) else "constraints"
            monkeypatch.setattr(Person._meta, where, [index])
            assert not [each for each in check(None) if each.obj is Person]

    def test_no_table_for_the_log(self) -> None:
        """Where routers keep it out of the database."""
        with override_settings(DATABASE_ROUTERS=[_Nowhere()]):
            assert self.found().keys() == {"hookrow.W003"}
            assert self.found(LOG=False) == {}


class _Nowhere:
    def allow_migrate(self, *_: object, **__: object) -> bool:
        return False


class TestStart:
    """A project in a process of its own."""

    REQUEST = """
from django.conf import settings
from django.test import Client
from pathlib import Path
there = [Path(settings.HOOKROW["SPOOL"]).exists()]
client = Client(raise_request_exception=False)
status = client.post("/mail/provider/webhooks").status_code
print(*there, Path(settings.HOOKROW["SPOOL"]).exists(), status)
"""

    @pytest.mark.parametrize(
        ("secret", "said"), [({"SECRET": SECRET}, "False True 401"), ({}, "False False 503")]
    )
    def test_the_first_request_builds(
        self, tmp_path: Path, secret: dict[str, str], said: str
    ) -> None:
        """Not `django.setup()`, after which a script or worker of the project's may do all else."""
        hookrow = {"SPOOL": str(tmp_path / "spool.db"), **secret}
        project = Manage(tmp_path, f"sqlite:///{tmp_path}/x.db", HOOKROW=hookrow)
        assert project.script(self.REQUEST).split() == said.split()

    def test_the_checks_run(self, tmp_path: Path) -> None:
        """`check` says all that is wrong, with the URLs included, and migrations can be made."""
        project = Manage(tmp_path, f"sqlite:///{tmp_path}/x.db", HOOKROW={"TABELS": {}})
        done = project.run("check")
        assert done.returncode == 1
        for said in ("hookrow.E001", "hookrow.E003", "Did you mean 'TABLES'", "HINT: The settings"):
            assert said in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize(
        ("installed", "said"),
        [
            (["hookrow.django"], "add 'hookrow.django.tables' to INSTALLED_APPS"),
            (["hookrow.django.tables"], "Add 'hookrow.django' to INSTALLED_APPS"),
        ],
    )
    def test_an_app_is_missing(self, tmp_path: Path, installed: list[str], said: str) -> None:
        """It is named: by the checks, or where there are none by the URLs."""
        bare: dict[str, object] = {"ROOT_URLCONF": "crm.urls", "MIDDLEWARE": [], "TEMPLATES": []}
        url = f"sqlite:///{tmp_path}/x.db"
        done = Manage(tmp_path, url, INSTALLED_APPS=installed, **bare).run("check")
        assert done.returncode == 1
        assert said in done.stderr
