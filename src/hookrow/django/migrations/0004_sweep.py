"""Create the indexes for the search of a sweep, and for entries that no sweep retries any more."""

from __future__ import annotations

from django.db import migrations, models

from hookrow.django.operations import BuildIndex


class Migration(migrations.Migration):
    """The same as hookrow's SQL scripts 0009 and 0010."""

    atomic = False
    dependencies = (("hookrow", "0003_indexes"),)
    operations = (
        BuildIndex(
            "notification",
            models.Index(
                fields=["retry_at", "id"],
                name="hookrow_parked",
                condition=models.Q(retry_at__isnull=False),
            ),
        ),
        BuildIndex(
            "notification",
            models.Index(
                fields=["id"],
                name="hookrow_expired",
                condition=models.Q(
                    retry_at__isnull=True,
                    body__isnull=False,
                    outcome__in=[
                        "dispatch_not_found",
                        "failed",
                        "recipient_mismatch",
                        "subscriber_not_found",
                    ],
                ),
            ),
        ),
    )
