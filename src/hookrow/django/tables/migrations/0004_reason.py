"""Create the index for suppressed subscribers with a reason."""

from __future__ import annotations

from django.db import migrations, models
from django.db.models.functions import Length
from django.db.models.lookups import LessThanOrEqual

from hookrow.django.operations import BuildIndex


class Migration(migrations.Migration):
    """The same as hookrow's SQL script 0008."""

    atomic = False
    dependencies = (("hookrow_tables", "0003_suppressed"),)
    operations = (
        BuildIndex(
            "subscriber",
            models.Index(
                fields=["suppression_reason", "suppressed_at", "id"],
                name="hookrow_subscribers_reason",
                condition=models.Q(suppressed_at__isnull=False)
                & models.Q(LessThanOrEqual(Length("suppression_reason"), 64)),
            ),
        ),
    )
