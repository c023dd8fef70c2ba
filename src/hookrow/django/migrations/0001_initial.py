"""Create the log."""

from __future__ import annotations

from django.db import migrations, models

from hookrow.django.fields import UTCDateTimeField

_PARKED = models.Q(retry_at__isnull=False)


class Migration(migrations.Migration):
    """The same table as that of hookrow's own migrations."""

    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
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
                ("received_at", UTCDateTimeField("received")),
                ("last_received_at", UTCDateTimeField("last received")),
                ("ended_at", UTCDateTimeField("ended")),
                ("retry_at", UTCDateTimeField("next retry", null=True)),
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
                        fields=["retry_at"], name="hookrow_parked_retry_at", condition=_PARKED
                    ),
                    models.Index(
                        fields=["message_id"], name="hookrow_parked_message_id", condition=_PARKED
                    ),
                ],
            },
        ),
    )
