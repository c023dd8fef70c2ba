"""Models of the log and its related tables, which hookrow's migration scripts also create."""

# ruff: noqa: DJ001 - null means unknown in the shared table

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models

from hookrow._core.result import PARKED
from hookrow._describe import printable
from hookrow.django._models import ScriptedModel
from hookrow.django.fields import UTCDateTimeField

if TYPE_CHECKING:
    _Text = models.CharField[str, str]
    _OptionalText = models.CharField[str | None, str | None]
    _OptionalNumber = models.BigIntegerField[int | None, int | None]


class Notification(ScriptedModel):
    """A distinct notification with a valid secret, as the log stores it."""

    id: models.BigAutoField[int, int] = models.BigAutoField(primary_key=True)
    fingerprint: models.BinaryField[bytes, bytes] = models.BinaryField(max_length=16)
    record_type: _OptionalText = models.CharField(max_length=64, null=True)
    message_id: _OptionalText = models.CharField("message id", max_length=255, null=True)
    recipient: _OptionalText = models.CharField(max_length=320, null=True)
    occurred_at: UTCDateTimeField = UTCDateTimeField("occurred", null=True)
    outcome: _Text = models.CharField(max_length=32)
    first_outcome: _Text = models.CharField(max_length=32)
    status: models.SmallIntegerField[int, int] = models.SmallIntegerField()
    attempts: models.BigIntegerField[int, int] = models.BigIntegerField()
    retries: models.BigIntegerField[int, int] = models.BigIntegerField(db_default=0)
    received_at: UTCDateTimeField = UTCDateTimeField("received")
    last_received_at: UTCDateTimeField = UTCDateTimeField("last received")
    ended_at: UTCDateTimeField = UTCDateTimeField("ended")
    retry_at: UTCDateTimeField = UTCDateTimeField("next retry", null=True)
    reason: _OptionalText = models.CharField(max_length=64, null=True)
    trace_id: _OptionalText = models.CharField("trace id", max_length=255, null=True)
    provider: _OptionalText = models.CharField(max_length=32, null=True)
    entry: _OptionalText = models.CharField(max_length=64, null=True)
    source: _Text = models.CharField(max_length=16)
    recovery_counted: models.BooleanField[bool | None, bool | None] = models.BooleanField(null=True)
    change_number: _OptionalNumber = models.BigIntegerField(null=True)
    body: models.TextField[str | None, str | None] = models.TextField(null=True)

    class Meta:
        # Entries cannot be added or changed; replaying has its own permission.
        db_table = "hookrow_notifications"
        default_permissions: tuple[str, ...] = ("view", "delete")
        permissions: tuple[tuple[str, str], ...] = (
            ("replay_notification", "Can replay notification"),
        )
        constraints: tuple[models.UniqueConstraint, ...] = (
            models.UniqueConstraint(
                fields=["fingerprint"], name="hookrow_notifications_fingerprint"
            ),
        )
        indexes: tuple[models.Index, ...] = (
            models.Index(
                fields=["retry_at", "id"],
                name="hookrow_parked",
                condition=models.Q(retry_at__isnull=False),
            ),
            models.Index(
                fields=["message_id"],
                name="hookrow_parked_message_id",
                condition=models.Q(retry_at__isnull=False),
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
                & models.Q(outcome__in=sorted(result.value for result in PARKED)),
            ),
            models.Index(
                fields=["change_number", "id"],
                name="hookrow_change_numbers",
                condition=models.Q(change_number__isnull=False),
            ),
        )

    def __str__(self) -> str:
        return printable(f"{self.record_type or 'Notification'} {self.message_id or self.pk}")


class Hours(ScriptedModel):
    """The number of entries of a kind that arrived in an hour."""

    pk: models.CompositePrimaryKey = models.CompositePrimaryKey(
        "hour", "record_type", "reason", "first_outcome", "entry"
    )
    hour: UTCDateTimeField = UTCDateTimeField()
    record_type: _Text = models.CharField(max_length=64)
    reason: _Text = models.CharField(max_length=64)
    first_outcome: _Text = models.CharField(max_length=32)
    entry: _Text = models.CharField(max_length=64)
    entries: models.BigIntegerField[int, int] = models.BigIntegerField()
    recovered: models.BigIntegerField[int, int] = models.BigIntegerField(db_default=0)

    class Meta:
        db_table = "hookrow_hours"
        default_permissions: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H} {self.record_type}"


class MetaValue(ScriptedModel):
    """Internal values, by name."""

    name: _Text = models.CharField(max_length=64, primary_key=True)
    value: models.TextField[str, str] = models.TextField()

    class Meta:
        db_table = "hookrow_meta"
        default_permissions: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


class SuppressionChange(ScriptedModel):
    """The time at which a suppression last changed, for rows that have no column for it."""

    pk: models.CompositePrimaryKey = models.CompositePrimaryKey("role", "row_key")
    role: _Text = models.CharField(max_length=32)
    row_key: models.TextField[str, str] = models.TextField()
    changed_at: UTCDateTimeField = UTCDateTimeField()

    class Meta:
        db_table = "hookrow_suppression_changes"
        default_permissions: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.role} {self.row_key}"
