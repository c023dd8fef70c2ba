"""Create the log, and the tables that accompany it."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models

from hookrow.django._operations import CreateTable
from hookrow.django.fields import UTCDateTimeField

_IS_PARKED = models.Q(retry_at__isnull=False)


def _key(*names: str) -> tuple[str, models.CompositePrimaryKey]:
    return "pk", models.CompositePrimaryKey(
        *names, blank=True, editable=False, primary_key=True, serialize=False
    )


class Migration(migrations.Migration):
    """The tables of hookrow's SQL script 0002."""

    initial: ClassVar[bool] = True
    dependencies: ClassVar[tuple[tuple[str, str], ...]] = ()
    operations: ClassVar[tuple[CreateTable, ...]] = (
        CreateTable(
            "Notification",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("fingerprint", models.BinaryField(max_length=16)),
                ("record_type", models.CharField(max_length=64, null=True)),
                ("message_id", models.CharField("message id", max_length=255, null=True)),
                ("recipient", models.CharField(max_length=320, null=True)),
                ("occurred_at", UTCDateTimeField("occurred", null=True)),
                ("outcome", models.CharField(max_length=32)),
                ("first_outcome", models.CharField(max_length=32)),
                ("status", models.SmallIntegerField()),
                ("attempts", models.BigIntegerField()),
                ("retries", models.BigIntegerField(db_default=0)),
                ("received_at", UTCDateTimeField("received")),
                ("last_received_at", UTCDateTimeField("last received")),
                ("ended_at", UTCDateTimeField("ended")),
                ("retry_at", UTCDateTimeField("next retry", null=True)),
                ("reason", models.CharField(max_length=64, null=True)),
                ("trace_id", models.CharField("trace id", max_length=255, null=True)),
                ("provider", models.CharField(max_length=32, null=True)),
                ("entry", models.CharField(max_length=64, null=True)),
                ("source", models.CharField(max_length=16)),
                ("recovery_counted", models.BooleanField(null=True)),
                ("change_number", models.BigIntegerField(null=True)),
                ("body", models.TextField(null=True)),
            ],
            options={
                "db_table": "hookrow_notifications",
                "default_permissions": ("view", "delete"),
                "permissions": (("replay_notification", "Can replay notification"),),
                "constraints": [
                    models.UniqueConstraint(
                        fields=["fingerprint"], name="hookrow_notifications_fingerprint"
                    ),
                ],
                "indexes": [
                    models.Index(
                        fields=["retry_at", "id"], name="hookrow_parked", condition=_IS_PARKED
                    ),
                    models.Index(
                        fields=["message_id"],
                        name="hookrow_parked_message_id",
                        condition=_IS_PARKED,
                    ),
                    models.Index(
                        fields=["recipient"],
                        name="hookrow_notifications_changes",
                        condition=models.Q(record_type="SubscriptionChange")
                        | models.Q(reason__isnull=False),
                    ),
                    models.Index(
                        fields=["id"],
                        name="hookrow_recoveries",
                        condition=~models.Q(first_outcome="recorded")
                        & models.Q(outcome="recorded", recovery_counted__isnull=True),
                    ),
                    models.Index(
                        fields=["id"],
                        name="hookrow_expired",
                        condition=models.Q(retry_at__isnull=True)
                        & models.Q(body__isnull=False)
                        & models.Q(
                            outcome__in=[
                                "dispatch_not_found",
                                "failed",
                                "recipient_mismatch",
                                "subscriber_not_found",
                            ]
                        ),
                    ),
                    models.Index(
                        fields=["change_number", "id"],
                        name="hookrow_change_numbers",
                        condition=models.Q(change_number__isnull=False),
                    ),
                ],
            },
        ),
        CreateTable(
            "Hours",
            fields=[
                _key("hour", "record_type", "reason", "first_outcome", "entry"),
                ("hour", UTCDateTimeField()),
                ("record_type", models.CharField(max_length=64)),
                ("reason", models.CharField(max_length=64)),
                ("first_outcome", models.CharField(max_length=32)),
                ("entry", models.CharField(max_length=64)),
                ("entries", models.BigIntegerField()),
                ("recovered", models.BigIntegerField(db_default=0)),
            ],
            options={"db_table": "hookrow_hours", "default_permissions": ()},
        ),
        CreateTable(
            "MetaValue",
            fields=[
                ("name", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("value", models.TextField()),
            ],
            options={"db_table": "hookrow_meta", "default_permissions": ()},
        ),
        CreateTable(
            "SuppressionChange",
            fields=[
                _key("role", "row_key"),
                ("role", models.CharField(max_length=32)),
                ("row_key", models.TextField()),
                ("changed_at", UTCDateTimeField()),
            ],
            options={"db_table": "hookrow_suppression_changes", "default_permissions": ()},
        ),
    )
