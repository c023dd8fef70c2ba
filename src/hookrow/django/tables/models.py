"""The four tables as models: the very ones that `stores/tables.py` and Alembic make."""

# ruff: noqa: DJ001 - null is what is not known, for all who share the table

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models

from hookrow.django.fields import Folded, UTCDateTimeField, UTCNow

if TYPE_CHECKING:
    _Text = models.CharField[str, str]
    _OptionalText = models.CharField[str | None, str | None]


class Made(models.Model):
    """What knows when it was made; the database does where a plain INSERT does not say."""

    id: models.BigAutoField[int, int] = models.BigAutoField(primary_key=True)
    created_at = UTCDateTimeField(db_default=UTCNow(), editable=False)

    class Meta:
        """No table of its own."""

        abstract = True


class Suppressible(models.Model):
    """What the provider's word may suppress, and when that last changed."""

    suppressed_at = UTCDateTimeField(null=True, blank=True)
    suppression_reason: models.TextField[str | None, str | None] = models.TextField(
        null=True, blank=True
    )
    suppression_changed_at = UTCDateTimeField(null=True, blank=True)

    class Meta:
        """No table of its own."""

        abstract = True


class Subscriber(Suppressible, Made):
    """Somebody who gets mail, by an address that is unique whatever the case of its letters."""

    email: _Text = models.CharField(max_length=320)

    class Meta:
        """Unique as the query looks for it."""

        db_table = "hookrow_subscribers"
        constraints = (
            models.UniqueConstraint(
                Folded("email"),
                name="hookrow_subscribers_email",
                violation_error_message="There is a subscriber with this email.",
            ),
        )

    def __str__(self) -> str:
        return self.email


class List(Made):
    """What one subscribes to."""

    name: _Text = models.CharField(max_length=255)

    class Meta:
        """The table."""

        db_table = "hookrow_lists"

    def __str__(self) -> str:
        return self.name


class Subscription(Suppressible, Made):
    """A subscriber of a list."""

    list: models.ForeignKey[List, List] = models.ForeignKey(
        List, models.PROTECT, related_name="subscriptions", db_index=False
    )
    subscriber: models.ForeignKey[Subscriber, Subscriber] = models.ForeignKey(
        Subscriber, models.PROTECT, related_name="subscriptions"
    )

    class Meta:
        """Once for each of the two; the constraint's index serves the list, too."""

        db_table = "hookrow_subscriptions"
        constraints = (
            models.UniqueConstraint(
                fields=["list", "subscriber"], name="hookrow_subscriptions_unique"
            ),
        )

    def __str__(self) -> str:
        return f"{self.subscriber} of {self.list}"


class Dispatch(Suppressible, Made):
    """A message to a subscriber; without the provider's id until it is sent."""

    provider_message_id: _OptionalText = models.CharField(
        "provider's message id", max_length=255, null=True, blank=True
    )
    subscriber: models.ForeignKey[Subscriber, Subscriber] = models.ForeignKey(
        Subscriber, models.PROTECT, related_name="dispatches"
    )
    list: models.ForeignKey[List | None, List | None] = models.ForeignKey(
        List, models.PROTECT, related_name="dispatches", null=True, blank=True
    )
    delivered_at = UTCDateTimeField(null=True, blank=True)
    opened_at = UTCDateTimeField(null=True, blank=True)

    class Meta:
        """One for each message of the provider's."""

        db_table = "hookrow_dispatches"
        verbose_name_plural = "dispatches"
        constraints = (
            models.UniqueConstraint(
                fields=["provider_message_id"], name="hookrow_dispatches_message_id"
            ),
        )

    def __str__(self) -> str:
        return self.provider_message_id or f"dispatch {self.pk}, not sent"
