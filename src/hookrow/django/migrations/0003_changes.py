"""Build the index of a person's history of suppressions and reactivations."""

from __future__ import annotations

from django.db import migrations, models

from hookrow.django.operations import BuildIndex


class Migration(migrations.Migration):
    """The same as script 0006."""

    atomic = False
    dependencies = (("hookrow", "0002_more"),)
    operations = (
        BuildIndex(
            "notification",
            models.Index(
                fields=["recipient"],
                name="hookrow_notifications_changes",
                condition=models.Q(record_type="SubscriptionChange"),
            ),
        ),
    )
