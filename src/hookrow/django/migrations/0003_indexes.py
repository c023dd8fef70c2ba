"""Create the indexes for a person's history, and for recoveries that are not counted yet."""

from __future__ import annotations

from django.db import migrations, models

from hookrow.django.operations import BuildIndex


class Migration(migrations.Migration):
    """The same as hookrow's SQL scripts 0006 and 0007."""

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
        BuildIndex(
            "notification",
            models.Index(
                fields=["id"],
                name="hookrow_recoveries",
                condition=~models.Q(first_outcome="recorded")
                & models.Q(outcome="recorded", recovery_counted__isnull=True),
            ),
        ),
    )
