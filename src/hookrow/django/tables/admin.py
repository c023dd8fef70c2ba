"""The four tables in the admin. The columns that notifications set are read-only."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Q, QuerySet

from hookrow._core.rules import fold
from hookrow._core.schema import SUPPRESSION
from hookrow.django._conf import conf
from hookrow.django._large_table import ConditionFilter, LargeTableAdmin, condition_filter
from hookrow.django._suppression import SuppressionAdmin
from hookrow.django.fields import Folded
from hookrow.django.tables.models import Dispatch, List, Subscriber, Subscription

_STATE = condition_filter(
    "state",
    {
        "suppressed": Q(suppressed_at__isnull=False),
        "active": Q(suppressed_at__isnull=True),
    },
)


@admin.register(Subscriber)
class SubscriberAdmin(LargeTableAdmin, SuppressionAdmin):
    """Subscribers, with actions that suppress them and lift suppressions."""

    list_display: tuple[str, ...] = (
        "email",
        "suppressed_at",
        "suppression_reason",
        "created_at",
    )
    list_filter: ClassVar[tuple[type[ConditionFilter] | str, ...]] = (_STATE,)
    fields: ClassVar[tuple[str, ...]] = ("email", *SUPPRESSION, "created_at")
    readonly_fields: ClassVar[tuple[str, ...]] = (*SUPPRESSION, "created_at")
    search_fields: ClassVar[tuple[str, ...]] = ("email",)
    search_help_text: ClassVar[str] = "The beginning of an address."

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        """Return the subscribers whose email starts with the term, by a range of the index."""
        low = fold(term)
        folded = queryset.alias(_folded=Folded("email"))
        return folded.filter(_folded__gte=low, _folded__lt=f"{low}\U0010ffff")


@admin.register(List)
class ListAdmin(LargeTableAdmin):
    """Lists; the search matches any part of the name."""

    list_display: tuple[str, ...] = ("name", "created_at")
    fields: ClassVar[tuple[str, ...]] = ("name", "created_at")
    readonly_fields: ClassVar[tuple[str, ...]] = ("created_at",)
    search_fields: ClassVar[tuple[str, ...]] = ("name",)

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        """Return the lists whose name contains the term."""
        return queryset.filter(name__icontains=term)


class _SubscriberRowsAdmin(LargeTableAdmin):
    """The admin of a model that refers to a subscriber and a list."""

    autocomplete_fields: ClassVar[tuple[str, ...]] = ("subscriber", "list")
    list_select_related: ClassVar[tuple[str, ...]] = ("subscriber", "list")
    search_fields: ClassVar[tuple[str, ...]] = ("subscriber__email",)

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        """Return the rows of the subscriber with this email."""
        return queryset.filter(subscriber__in=_with_email(term))


@admin.register(Subscription)
class SubscriptionAdmin(_SubscriberRowsAdmin):
    """Subscriptions; the search finds those of one subscriber."""

    list_display: tuple[str, ...] = (
        "subscriber",
        "list",
        "suppressed_at",
        "suppression_reason",
        "created_at",
    )
    list_filter: ClassVar[tuple[type[ConditionFilter] | str, ...]] = (_STATE, "list")
    fields: ClassVar[tuple[str, ...]] = ("subscriber", "list", *SUPPRESSION, "created_at")
    readonly_fields: ClassVar[tuple[str, ...]] = (*SUPPRESSION, "created_at")
    search_help_text: ClassVar[str] = "The subscriber's complete address."


@admin.register(Dispatch)
class DispatchAdmin(_SubscriberRowsAdmin):
    """Dispatches, with the times at which they were delivered and opened."""

    list_display: tuple[str, ...] = (
        "__str__",
        "subscriber",
        "list",
        "delivered_at",
        "opened_at",
        "suppressed_at",
        "created_at",
    )
    list_filter: ClassVar[tuple[type[ConditionFilter] | str, ...]] = (
        condition_filter(
            "mail",
            {
                "not_sent": Q(provider_message_id__isnull=True),
                "sent": Q(provider_message_id__isnull=False),
                "delivered": Q(delivered_at__isnull=False),
                "opened": Q(opened_at__isnull=False),
            },
        ),
        _STATE,
        "list",
    )
    fields: ClassVar[tuple[str, ...]] = (
        "provider_message_id",
        "subscriber",
        "list",
        "delivered_at",
        "opened_at",
        *SUPPRESSION,
        "created_at",
    )
    readonly_fields: ClassVar[tuple[str, ...]] = (
        "delivered_at",
        "opened_at",
        *SUPPRESSION,
        "created_at",
    )
    search_help_text: ClassVar[str] = "A complete message id, or the subscriber's complete address."

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        """Return the dispatches with this message id, or to the subscriber with this email."""
        return queryset.filter(Q(provider_message_id=term) | Q(subscriber__in=_with_email(term)))


def _with_email(term: str) -> QuerySet[Subscriber]:
    subscribers = Subscriber.objects.using(conf.database)
    return subscribers.alias(_folded=Folded("email")).filter(_folded=fold(term))
