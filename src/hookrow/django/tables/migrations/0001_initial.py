"""Create the four tables."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models
from django.db.models.functions import Length
from django.db.models.lookups import LessThanOrEqual

from hookrow.django._operations import CreateTable
from hookrow.django.fields import Folded, UTCDateTimeField, UTCNow

_SUPPRESSED = models.Q(suppressed_at__isnull=False)


def _id() -> tuple[str, models.BigAutoField[int, int]]:
    return "id", models.BigAutoField(primary_key=True, serialize=False)


def _suppression() -> tuple[
    tuple[str, models.Field[str | None, str | None] | UTCDateTimeField], ...
]:
    return (
        ("suppressed_at", UTCDateTimeField(null=True, blank=True)),
        ("suppression_reason", models.TextField(null=True, blank=True)),
        ("suppression_changed_at", UTCDateTimeField(null=True, blank=True)),
    )


def _reference(
    name: str, model: str, plural: str, *, indexed: bool = True, optional: bool = False
) -> tuple[str, models.ForeignKey[models.Model, models.Model]]:
    return name, models.ForeignKey(
        f"hookrow_tables.{model}",
        models.PROTECT,
        related_name=plural,
        db_index=indexed,
        null=optional,
        blank=optional,
    )


def _record() -> UTCDateTimeField:
    return UTCDateTimeField(editable=False, null=True)


def _created_at() -> tuple[str, UTCDateTimeField]:
    return "created_at", UTCDateTimeField(db_default=UTCNow(), editable=False)


class Migration(migrations.Migration):
    """The tables of hookrow's SQL script 0001."""

    initial: ClassVar[bool] = True
    dependencies: ClassVar[tuple[tuple[str, str], ...]] = ()
    operations: ClassVar[tuple[CreateTable, ...]] = (
        CreateTable(
            "Subscriber",
            fields=[
                _id(),
                ("email", models.CharField(max_length=320)),
                *_suppression(),
                _created_at(),
            ],
            options={
                "db_table": "hookrow_subscribers",
                "constraints": [
                    models.UniqueConstraint(
                        Folded("email"),
                        name="hookrow_subscribers_email",
                        violation_error_message="A subscriber with this email already exists.",
                    )
                ],
                "indexes": [
                    models.Index(
                        fields=["suppressed_at", "id"],
                        name="hookrow_subscribers_suppressed",
                        condition=_SUPPRESSED,
                    ),
                    models.Index(
                        fields=["suppression_reason", "suppressed_at", "id"],
                        name="hookrow_subscribers_reason",
                        condition=_SUPPRESSED
                        & models.Q(LessThanOrEqual(Length("suppression_reason"), 64)),
                    ),
                ],
            },
        ),
        CreateTable(
            "List",
            fields=[_id(), ("name", models.CharField(max_length=255)), _created_at()],
            options={"db_table": "hookrow_lists"},
        ),
        CreateTable(
            "Subscription",
            fields=[
                _id(),
                _reference("list", "List", "subscriptions", indexed=False),
                _reference("subscriber", "Subscriber", "subscriptions"),
                *_suppression(),
                _created_at(),
            ],
            options={
                "db_table": "hookrow_subscriptions",
                "constraints": [
                    models.UniqueConstraint(
                        fields=["list", "subscriber"], name="hookrow_subscriptions_unique"
                    )
                ],
            },
        ),
        CreateTable(
            "Dispatch",
            fields=[
                _id(),
                (
                    "provider_message_id",
                    models.CharField(
                        "provider's message id", max_length=255, null=True, blank=True
                    ),
                ),
                _reference("subscriber", "Subscriber", "dispatches"),
                _reference("list", "List", "dispatches", optional=True),
                ("delivered_at", UTCDateTimeField(null=True, blank=True)),
                ("opened_at", UTCDateTimeField(null=True, blank=True)),
                *_suppression(),
                ("first_opened_at", _record()),
                ("clicked_at", _record()),
                ("bounced_at", _record()),
                ("bounce_type", models.CharField(editable=False, max_length=64, null=True)),
                ("complained_at", _record()),
                _created_at(),
            ],
            options={
                "db_table": "hookrow_dispatches",
                "verbose_name_plural": "dispatches",
                "constraints": [
                    models.UniqueConstraint(
                        fields=["provider_message_id", "subscriber"],
                        name="hookrow_dispatches_message_id",
                    )
                ],
            },
        ),
    )
