"""Add the number of retries to the log."""

from __future__ import annotations

from django.db import migrations, models

from hookrow.django.operations import AddColumn


class Migration(migrations.Migration):
    """The same as hookrow's SQL script 0011.

    It is initial, so that `--fake-initial` accepts a column that the script created.
    """

    initial = True
    dependencies = (("hookrow", "0004_sweep"),)
    operations = (AddColumn("notification", "retries", models.BigIntegerField(db_default=0)),)
