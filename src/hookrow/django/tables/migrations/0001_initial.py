"""Make the four tables."""

from __future__ import annotations

from django.db import migrations, models

from hookrow.django.fields import Folded, UTCDateTimeField, UTCNow


def _id() -> tuple[str, models.BigAutoField[int, int]]:
    return "id", models.BigAutoField(primary_key=True, serialize=False)


def _suppression() -> tuple[
    tuple[str, models.Field[str | None, str | None] | UTCDateTimeField], ...
]:
    return (
        ("suppressed_at", UTCDateTimeField(null=True, blank=True)),
        ("suppression_reason", models.TextField(null=True, blank=True)),
        ("suppression_changed_at", UTCDateTimeField(null=True, blank=True)),
    )


def _created_at() -> tuple[str, UTCDateTimeField]:
    return "created_at", UTCDateTimeField(db_default=UTCNow(), editable=False)


class Migration(migrations.Migration):
    """Subscribers, lists, subscriptions and dispatches, as Alembic makes them."""

    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            "Subscriber",
            fields=[
                _id(),
                ("email", models.CharField(max_length=320)),
                *_suppression(),
                _created_at(),
            ],
            options={
                "db_table": "hookrow_subscribers",
                "constraints": [
                    models.UniqueConstraint(
                        Folded("email"),
                        name="hookrow_subscribers_email",
                        violation_error_message="There is a subscriber with this email.",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            "List",
            fields=[_id(), ("name", models.CharField(max_length=255)), _created_at()],
            options={"db_table": "hookrow_lists"},
        ),
        migrations.CreateModel(
            "Subscription",
            fields=[
                _id(),
                (
                    "list",
                    models.ForeignKey(
                        "hookrow_tables.List",
                        models.PROTECT,
                        related_name="subscriptions",
                        db_index=False,
                    ),
                ),
                (
                    "subscriber",
                    models.ForeignKey(
                        "hookrow_tables.Subscriber", models.PROTECT, related_name="subscriptions"
                    ),
                ),
                *_suppression(),
                _created_at(),
            ],
            options={
                "db_table": "hookrow_subscriptions",
                "constraints": [
                    models.UniqueConstraint(
                        fields=["list", "subscriber"], name="hookrow_subscriptions_unique"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            "Dispatch",
            fields=[
                _id(),
                (
                    "provider_message_id",
                    models.CharField(
                        "provider's message id", max_length=255, null=True, blank=True
                    ),
                ),
                (
                    "subscriber",
                    models.ForeignKey(
                        "hookrow_tables.Subscriber", models.PROTECT, related_name="dispatches"
                    ),
                ),
                (
                    "list",
                    models.ForeignKey(
                        "hookrow_tables.List",
                        models.PROTECT,
                        related_name="dispatches",
                        null=True,
                        blank=True,
                    ),
                ),
                ("delivered_at", UTCDateTimeField(null=True, blank=True)),
                ("opened_at", UTCDateTimeField(null=True, blank=True)),
                *_suppression(),
                _created_at(),
            ],
            options={
                "db_table": "hookrow_dispatches",
                "verbose_name_plural": "dispatches",
                "constraints": [
                    models.UniqueConstraint(
                        fields=["provider_message_id"], name="hookrow_dispatches_message_id"
                    )
                ],
            },
        ),
    )
