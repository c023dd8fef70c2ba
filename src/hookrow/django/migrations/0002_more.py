"""Add columns to the log, and the tables that accompany it."""

from __future__ import annotations

from django.db import migrations, models

from hookrow.django.fields import UTCDateTimeField


def _column(name: str, length: int, verbose_name: str | None = None) -> migrations.AddField:
    field: models.CharField[str, str] = models.CharField(verbose_name, max_length=length, null=True)
    return migrations.AddField("notification", name, field)


class Migration(migrations.Migration):
    """The same as hookrow's SQL script 0005.

    It is initial, so that `--fake-initial` accepts tables that the script created.
    """

    initial = True
    dependencies = (("hookrow", "0001_initial"),)
    operations = (
        _column("reason", 64),
        _column("trace_id", 255, "trace id"),
        _column("provider", 32),
        _column("source", 16),
        migrations.AddField("notification", "recovery_counted", models.BooleanField(null=True)),
        migrations.CreateModel(
            "Hours",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "hour",
                        "record_type",
                        "reason",
                        "first_outcome",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("hour", UTCDateTimeField()),
                ("record_type", models.CharField(max_length=64)),
                ("reason", models.CharField(max_length=64)),
                ("first_outcome", models.CharField(max_length=32)),
                ("entries", models.BigIntegerField()),
                ("recovered", models.BigIntegerField(db_default=0)),
            ],
            options={"db_table": "hookrow_hours", "default_permissions": ()},
        ),
        migrations.CreateModel(
            "MetaValue",
            fields=[
                ("name", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("value", models.TextField()),
            ],
            options={"db_table": "hookrow_meta", "default_permissions": ()},
        ),
        migrations.CreateModel(
            "SuppressionChange",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "role",
                        "row_key",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("role", models.CharField(max_length=32)),
                ("row_key", models.TextField()),
                ("changed_at", UTCDateTimeField()),
            ],
            options={"db_table": "hookrow_suppression_changes", "default_permissions": ()},
        ),
    )
