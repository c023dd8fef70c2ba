"""A host's fields are accepted exactly if notifications can be recorded in them."""

# The fields are written like those of a project without type annotations.
# mypy: disable-error-code="type-arg"

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from contract import NOON, arrival, statuses
from django.apps import apps
from django.db import connections, models
from django.test import override_settings

import django_host
from copying import replace
from databases import kind_of
from hookrow import Bounced, Postmark, Receiver, Role, Schema, SchemaMismatch, Suppressed
from hookrow._core.notation import Notation
from hookrow._core.notification import Notification
from hookrow._core.schema import SUPPRESSION
from hookrow._receiver.recorder import record
from hookrow.django._checks import check
from hookrow.django._store import DjangoStore
from hookrow.stores.sql._verify import verify
from wire import SECRET

ADA = "ADA@EXAMPLE.COM"


class SecondsField(models.DateTimeField):
    """A time without a fraction of a second."""

    def to_python(self, value: Any) -> Any:  # noqa: ANN401 - Django's own
        at = super().to_python(value)
        return at and at.replace(microsecond=0)


class UpperField(models.CharField):
    """A text in upper case."""

    def to_python(self, value: Any) -> Any:  # noqa: ANN401 - Django's own
        return value and str(value).upper()


class BareField(models.Field):
    """A text, about which the field says nothing else."""

    def db_type(self, connection: object) -> str:
        del connection
        return "text"


class HiddenField(models.BinaryField):
    """A text that is stored as other bytes."""

    def get_prep_value(self, value: Any) -> Any:  # noqa: ANN401 - Django's own
        return value and value.encode()[::-1]

    def from_db_value(self, value: Any, *_: object) -> Any:  # noqa: ANN401 - Django's own
        return value and value[::-1].decode()


class FailingField(models.TextField):
    """A field that reads no text."""

    def to_python(self, value: Any) -> Any:  # noqa: ANN401 - Django's own
        return value.nothing


_NO_SUPPRESSION = dict.fromkeys(SUPPRESSION)

SCHEMA = Schema(
    subscribers=Role("crm.Pupil", {"suppression_changed_at": None}),
    dispatches=Role(
        "crm.Letter",
        {
            "subscriber_id": "pupil",
            "bounced_at": "bounced_at",
            "bounce_type": "bounce_type",
            **_NO_SUPPRESSION,
        },
    ),
    subscriptions=None,
    log=None,
)


@contextmanager
def host(url: str, name: str, field: models.Field[Any, Any]) -> Iterator[str]:
    """Create a pupil with a letter, of whose fields one is replaced; yield the alias."""
    pupil: dict[str, Any] = {
        "email": models.EmailField(),
        "suppressed_at": models.DateTimeField(null=True),
        "suppression_reason": models.CharField(max_length=40, null=True),
    }
    letter: dict[str, Any] = {
        "pupil": models.ForeignKey("crm.Pupil", models.PROTECT),
        "provider_message_id": models.CharField(max_length=99, unique=True),
        "delivered_at": models.DateTimeField(null=True),
        "opened_at": models.DateTimeField(null=True),
        "bounced_at": models.DateTimeField(null=True),
        "bounce_type": models.CharField(max_length=64, null=True),
    }
    (pupil if name in pupil else letter)[name] = field.clone()
    try:
        pupils, letters = (_model("Pupil", pupil), _model("Letter", letter))
        with django_host.alias(url) as alias:
            with connections[alias].schema_editor() as editor:
                editor.create_model(pupils)
                editor.create_model(letters)
            yield alias
    finally:
        for each in ("pupil", "letter"):
            apps.all_models["crm"].pop(each, None)
        apps.clear_cache()


def _model(name: str, fields: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of these fields
    return type(name, (models.Model,), {"__module__": "crm.models", **fields})


def verified_store(alias: str) -> DjangoStore:
    """Return a store whose models and tables were verified."""
    store = DjangoStore(SCHEMA, alias)
    verify(store.database, store.schema)
    return store


NOTIFICATIONS: list[Notification] = [
    Suppressed(ADA, "M-1", NOON.replace(microsecond=123456), "HardBounce"),
    Bounced(ADA, "M-1", NOON, type="HardBounce"),
]


@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("suppressed_at", SecondsField(null=True)),
        ("email", UpperField(max_length=99)),
        ("provider_message_id", UpperField(max_length=99, unique=True)),
        ("bounce_type", UpperField(max_length=64, null=True)),
        ("email", BareField()),
    ],
)
def test_fields_that_work(
    empty_database_url: str,
    name: str,
    field: models.Field[Any, Any],
    use_tz: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """A time may lose its fraction, and a text its case: rows are found and changed."""
    with override_settings(USE_TZ=use_tz), host(empty_database_url, name, field) as alias:
        pupil = apps.get_model("crm.Pupil").objects.using(alias).create(email=ADA)
        letters = apps.get_model("crm.Letter").objects.using(alias)
        letters.create(pupil=pupil, provider_message_id="M-1")
        store = verified_store(alias)
        outcomes = record(store, [arrival(each) for each in NOTIFICATIONS])
        assert statuses(outcomes) == [200, 200]
        pupil.refresh_from_db()
        assert (pupil.suppressed_at is not None, pupil.suppression_reason) == (True, "HardBounce")


@pytest.mark.parametrize(
    ("name", "field", "text"),
    [
        ("suppressed_at", models.JSONField(null=True), "JSONField, which cannot hold a date-time"),
        ("suppressed_at", models.TextField(null=True), "TextField, which cannot hold a date-time"),
        ("suppressed_at", BareField(null=True), "which cannot hold a date-time"),
        ("suppressed_at", FailingField(null=True), "which cannot hold a date-time"),
        ("bounce_type", models.IntegerField(null=True), "cannot hold the type of a bounce"),
        ("bounce_type", FailingField(null=True), "cannot hold the type of a bounce"),
        ("email", models.IntegerField(), "IntegerField, but must be text"),
    ],
)
def test_fields_that_cannot_work(
    empty_database_url: str, name: str, field: models.Field[Any, Any], text: str
) -> None:
    """What a field writes has to be a value of the driver's, and be read as what was written."""
    with (
        host(empty_database_url, name, field) as alias,
        pytest.raises(SchemaMismatch, match=f"'{name}' of .* is of the type .*{text}"),
    ):
        verified_store(alias)


def test_a_field_that_is_too_short_for_message_ids(empty_database_url: str) -> None:
    """On SQLite, which enforces no lengths, it works."""
    with host(empty_database_url, "provider_message_id", models.CharField(max_length=20)) as alias:
        store = DjangoStore(SCHEMA, alias)
        if not kind_of(empty_database_url).keeps_lengths:
            Receiver(Postmark(SECRET), store).close()
            return
        with pytest.raises(SchemaMismatch) as caught:
            Receiver(Postmark(SECRET), store)
        [fault] = caught.value.faults
        assert (fault.table, fault.column) == ("crm.Letter", "provider_message_id")
        assert fault.text == (
            "The column 'provider_message_id' of 'crm.Letter' can hold 20 characters, but the "
            "message ids of postmark have up to 36, and the column would have to hold them "
            "unchanged: write max_length=36 in the field, then run makemigrations and migrate."
        )


def test_the_system_check_has_it_with_the_other_faults(empty_database_url: str) -> None:
    tables = {
        "subscribers": {"table": "crm.Pupil", "columns": {"suppression_changed_at": False}},
        "dispatches": {
            "table": "crm.Letter",
            "columns": {"subscriber_id": "pupils", **dict.fromkeys(SUPPRESSION, False)},
        },
        "subscriptions": False,
    }
    with host(empty_database_url, "provider_message_id", models.CharField(max_length=20)) as alias:
        settings = {"SECRET": SECRET, "DATABASE": alias, "TABLES": tables, "LOG": False}
        with override_settings(HOOKROW=settings):
            found = check(None)
    [error] = [each for each in found if each.id == "hookrow.E002"]
    assert "has no field 'pupils'. Did you mean 'pupil'?" in error.msg
    is_reported = "can hold 20 characters, but the message ids of postmark" in error.msg
    assert is_reported is kind_of(empty_database_url).keeps_lengths


def test_the_lines_are_those_of_settings(empty_sqlite_url: str) -> None:
    """Another fault of the mapping does not change the notation."""
    schema = replace(
        SCHEMA, dispatches=Role("crm.Letter", {"subscriber_id": "pupils", **_NO_SUPPRESSION})
    ).written_in(Notation.DJANGO)
    reason: models.Field[Any, Any] = models.CharField(max_length=40)
    with (
        host(empty_sqlite_url, "suppression_reason", reason) as alias,
        pytest.raises(SchemaMismatch) as caught,
    ):
        DjangoStore(schema, alias)
    assert 'Write "subscriber_id": "pupil".' in str(caught.value)
    assert 'set "empty": "" in its role' in str(caught.value)
    assert 'or map "suppression_reason": None to keep no reason.' in str(caught.value)


@pytest.mark.parametrize(
    ("name", "field", "without"),
    [
        ("bounce_type", models.JSONField(null=True), {"PostgreSQL", "MySQL"}),
        ("bounce_type", HiddenField(null=True), {"PostgreSQL", "MariaDB", "MySQL"}),
        ("email", models.GenericIPAddressField(), {"PostgreSQL"}),
    ],
)
def test_fields_that_not_every_database_supports(
    empty_database_url: str, name: str, field: models.Field[Any, Any], without: Collection[str]
) -> None:
    """Where Django writes values of a type of its own, the field cannot be used."""
    with host(empty_database_url, name, field) as alias:
        if connections[alias].display_name in without:
            with pytest.raises(SchemaMismatch, match=f"{name}.* (is of the type|stores bytes)"):
                verified_store(alias)
            return
        pupil = apps.get_model("crm.Pupil").objects.using(alias).create(email=ADA)
        letters = apps.get_model("crm.Letter").objects.using(alias)
        letters.create(pupil=pupil, provider_message_id="M-1")
        store = verified_store(alias)
        outcomes = record(store, [arrival(each) for each in NOTIFICATIONS])
        assert statuses(outcomes) == [200, 200]
        letter = letters.get()
        assert letter.bounce_type == "HardBounce"


def test_reasons_that_are_uuids(empty_database_url: str) -> None:
    """A field of UUIDs holds reasons in their usual form."""
    with host(empty_database_url, "suppression_reason", models.UUIDField(null=True)) as alias:
        DjangoStore(replace(SCHEMA, reasons={"*": str(UUID(int=7))}), alias)
        with pytest.raises(SchemaMismatch, match="cannot hold the reasons 'HardBounce', "):
            DjangoStore(SCHEMA, alias)
