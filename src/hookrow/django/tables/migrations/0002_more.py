"""Add columns for opens, clicks, bounces and complaints to the dispatches."""

from __future__ import annotations

from django.db import migrations, models

from hookrow.django.fields import UTCDateTimeField


def _column(
    name: str, field: models.CharField[str, str] | UTCDateTimeField | None = None
) -> migrations.AddField:
    time = UTCDateTimeField(editable=False, null=True)
    return migrations.AddField("dispatch", name, field or time)


class Migration(migrations.Migration):
    """The same as hookrow's SQL script 0003.

    It is initial, so that `--fake-initial` accepts tables that the script changed.
    """

    initial = True
    dependencies = (("hookrow_tables", "0001_initial"),)
    operations = (
        _column("first_opened_at"),
        _column("clicked_at"),
        _column("bounced_at"),
        _column("bounce_type", models.CharField(editable=False, max_length=64, null=True)),
        _column("complained_at"),
    )
