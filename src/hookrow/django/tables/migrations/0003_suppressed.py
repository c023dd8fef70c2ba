"""Create the index for suppressed subscribers."""

from __future__ import annotations

from django.db import migrations, models

from hookrow.django.operations import BuildIndex


class Migration(migrations.Migration):
    """The same as hookrow's SQL script 0004."""

    atomic = False
    dependencies = (("hookrow_tables", "0002_more"),)
    operations = (
        BuildIndex(
            "subscriber",
            models.Index(
                fields=["suppressed_at", "id"],
                name="hookrow_subscribers_suppressed",
                condition=models.Q(suppressed_at__isnull=False),
            ),
        ),
    )
