"""Create the indexes for suppressed subscribers."""

from __future__ import annotations

from django.db import migrations, models
from django.db.models.functions import Length
from django.db.models.lookups import LessThanOrEqual

from hookrow.django.operations import BuildIndex

_SUPPRESSED = models.Q(suppressed_at__isnull=False)


class Migration(migrations.Migration):
    """The same as hookrow's SQL scripts for these indexes."""

    atomic = False
    dependencies = (("hookrow_tables", "0002_more"),)
    operations = (
        BuildIndex(
            "subscriber",
            models.Index(
                fields=["suppressed_at", "id"],
                name="hookrow_subscribers_suppressed",
                condition=_SUPPRESSED,
            ),
        ),
        BuildIndex(
            "subscriber",
            models.Index(
                fields=["suppression_reason", "suppressed_at", "id"],
                name="hookrow_subscribers_reason",
                condition=_SUPPRESSED & models.Q(LessThanOrEqual(Length("suppression_reason"), 64)),
            ),
        ),
    )
