"""Models of the four tables, which hookrow's own migration scripts also create."""

# ruff: noqa: DJ001 - null means unknown in the shared tables

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.db.models.functions import Length
from django.db.models.lookups import LessThanOrEqual

from hookrow.django._models import ScriptedModel
from hookrow.django.fields import Folded, UTCDateTimeField, UTCNow

if TYPE_CHECKING:
    _Text = models.CharField[str, str]
    _OptionalText = models.CharField[str | None, str | None]


class _Created(ScriptedModel):
    """A row with the time of its creation, which the database sets by default."""

    id: models.BigAutoField[int, int] = models.BigAutoField(primary_key=True)
    created_at: UTCDateTimeField = UTCDateTimeField(db_default=UTCNow(), editable=False)

    class Meta:
        abstract = True


class _SuppressibleModel(ScriptedModel):
    """A row that notifications may suppress, with the time of its last such change."""

    suppressed_at: UTCDateTimeField = UTCDateTimeField(null=True, blank=True)
    suppression_reason: models.TextField[str | None, str | None] = models.TextField(
        null=True, blank=True
    )
    suppression_changed_at: UTCDateTimeField = UTCDateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


class Subscriber(_SuppressibleModel, _Created):
    """A recipient of mail; the address is unique ignoring ASCII case."""

    email: _Text = models.CharField(max_length=320)

    class Meta:
        # Emails are unique by the expression that queries use, which ignores ASCII case.
        db_table = "hookrow_subscribers"
        constraints: tuple[models.UniqueConstraint, ...] = (
            models.UniqueConstraint(
                Folded("email"),
                name="hookrow_subscribers_email",
                violation_error_message="A subscriber with this email already exists.",
            ),
        )
        indexes: tuple[models.Index, ...] = (
            models.Index(
                fields=["suppressed_at", "id"],
                name="hookrow_subscribers_suppressed",
                condition=models.Q(suppressed_at__isnull=False),
            ),
            models.Index(
                fields=["suppression_reason", "suppressed_at", "id"],
                name="hookrow_subscribers_reason",
                condition=models.Q(suppressed_at__isnull=False)
                & models.Q(LessThanOrEqual(Length("suppression_reason"), 64)),
            ),
        )

    def __str__(self) -> str:
        return self.email


class List(_Created):
    """A mailing list."""

    name: _Text = models.CharField(max_length=255)

    class Meta:
        db_table = "hookrow_lists"

    def __str__(self) -> str:
        return self.name


class Subscription(_SuppressibleModel, _Created):
    """A subscriber's membership in a list."""

    list: models.ForeignKey[List, List] = models.ForeignKey(
        List, models.PROTECT, related_name="subscriptions", db_index=False
    )
    subscriber: models.ForeignKey[Subscriber, Subscriber] = models.ForeignKey(
        Subscriber, models.PROTECT, related_name="subscriptions"
    )

    class Meta:
        # A subscriber is on a list at most once; the index of the constraint also finds lists.
        db_table = "hookrow_subscriptions"
        constraints: tuple[models.UniqueConstraint, ...] = (
            models.UniqueConstraint(
                fields=["list", "subscriber"], name="hookrow_subscriptions_unique"
            ),
        )

    def __str__(self) -> str:
        return f"{self.subscriber} on {self.list}"


class Dispatch(_SuppressibleModel, _Created):
    """A message to a subscriber; it has no provider's message id until it is sent."""

    provider_message_id: _OptionalText = models.CharField(
        "provider's message id", max_length=255, null=True, blank=True
    )
    subscriber: models.ForeignKey[Subscriber, Subscriber] = models.ForeignKey(
        Subscriber, models.PROTECT, related_name="dispatches"
    )
    list: models.ForeignKey[List | None, List | None] = models.ForeignKey(
        List, models.PROTECT, related_name="dispatches", null=True, blank=True
    )
    delivered_at: UTCDateTimeField = UTCDateTimeField(null=True, blank=True)
    opened_at: UTCDateTimeField = UTCDateTimeField(null=True, blank=True)
    first_opened_at: UTCDateTimeField = UTCDateTimeField(null=True, editable=False)
    clicked_at: UTCDateTimeField = UTCDateTimeField(null=True, editable=False)
    bounced_at: UTCDateTimeField = UTCDateTimeField(null=True, editable=False)
    bounce_type: _OptionalText = models.CharField(max_length=64, null=True, editable=False)
    complained_at: UTCDateTimeField = UTCDateTimeField(null=True, editable=False)

    class Meta:
        # A message to several subscribers has one id, and a dispatch for each of them.
        db_table = "hookrow_dispatches"
        verbose_name_plural = "dispatches"
        constraints: tuple[models.UniqueConstraint, ...] = (
            models.UniqueConstraint(
                fields=["provider_message_id", "subscriber"],
                name="hookrow_dispatches_message_id",
            ),
        )

    def __str__(self) -> str:
        return self.provider_message_id or f"dispatch {self.pk} (not sent)"
