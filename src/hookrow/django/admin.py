"""The log in the admin: users list, search and replay notifications."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, TypeAlias

import msgspec
from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import localtime

from hookrow._core.log_entry import (
    RECORD_TYPES,
    StoredEntry,
    is_entry_name,
    stored_message_id,
    stored_recipient,
)
from hookrow._core.notification import KNOWN_REASONS
from hookrow._core.result import PARKED, Result
from hookrow._describe import (
    describe_outcome,
    find_problem,
    format_body,
    pluralize,
    printable,
    visible,
)
from hookrow._near_misses import near_misses
from hookrow._observability.logging import outcome_name
from hookrow._receiver.replay import matching_entries, replay_entries
from hookrow._statistics.overview import RECENT_ENTRIES
from hookrow.django._large_table import LargeTableAdmin, condition_filter
from hookrow.django._receiver import parsers, store
from hookrow.django._suppression import SuppressionAdmin
from hookrow.django.models import Notification
from hookrow.errors import ConfigurationError, HookrowError
from hookrow.stores._log import Query
from hookrow.stores.sql._log import SQLLog

__all__ = ["NotificationAdmin", "SuppressionAdmin"]

_MAX_REPLAYED = 1000
"""The maximum number of notifications in one action, because the page waits for the replay.

The command has no limit.
"""

_NOTHING = "-"
"""What the page of a notification shows in place of an empty value: Django would show None."""

_OUT_OF_RETRIES = Q(
    retry_at__isnull=True,
    body__isnull=False,
    outcome__in=sorted(result.value for result in PARKED),
)
"""The condition of entries that are neither recorded nor retried any more, as in an index."""

_NUMBER = re.compile(r"[0-9]{1,18}")


_Display: TypeAlias = Callable[[Any, Notification], str | None]
_Filter: TypeAlias = type[admin.SimpleListFilter] | tuple[str, type[admin.FieldListFilter]]


def _escaped(name: str) -> _Display:
    """Return the display function of a column; it escapes as `visible` does."""

    @admin.display(description=name.replace("_", " "))
    def escaped(_: object, entry: Notification) -> str:
        value = getattr(entry, name)
        return visible(value) if value else _NOTHING

    return escaped


class EntryFilter(admin.SimpleListFilter):
    """Selects the notifications that an entry of the receiver received.

    It is hidden if the newest notifications name none, as those of a single provider, unless the
    page's address has one.
    """

    title: str = "entry"
    parameter_name: str = "entry"

    def lookups(self, request: HttpRequest, model_admin: object) -> Sequence[tuple[str, str]]:
        """Return the names in the newest notifications, and the chosen one."""
        del request, model_admin
        chosen = self.value() or ""
        names = {chosen} if is_entry_name(chosen) else set()
        with suppress(HookrowError):
            if (log := store().log) is not None:
                names |= {*log.recent(RECENT_ENTRIES).entries}
        return [(name, name) for name in sorted(names)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the notifications of the entry, or all if the name is not valid."""
        del request
        name = self.value() or ""
        return queryset.filter(entry=name) if is_entry_name(name) else queryset


@admin.register(Notification)
class NotificationAdmin(LargeTableAdmin):
    """Notifications and their results; users cannot add or change them."""

    list_display: tuple[str, ...] = (
        "received",
        "escaped_type",
        "result",
        "escaped_recipient",
        "escaped_message_id",
        "posts",
        "retries",
        "retry_at",
    )
    list_filter: ClassVar[tuple[_Filter, ...]] = (
        condition_filter("outcome", {each.value: Q(outcome=each.value) for each in Result}),
        condition_filter("type", {each: Q(record_type=each) for each in RECORD_TYPES.values()}),
        condition_filter("reason", {each: Q(reason=each) for each in KNOWN_REASONS}),
        condition_filter(
            "retries", {"parked": Q(retry_at__isnull=False), "expired": _OUT_OF_RETRIES}
        ),
        EntryFilter,
        ("received_at", admin.DateFieldListFilter),
    )
    fields: ClassVar[tuple[str, ...]] = (
        "history",
        "near_misses",
        "problem",
        "escaped_type",
        "escaped_recipient",
        "escaped_message_id",
        "escaped_reason",
        "occurred_at",
        "entry",
        "provider",
        "escaped_trace_id",
        "received_at",
        "last_received_at",
        "posts",
        "retries",
        "result",
        "ended_at",
        "retry_at",
        "formatted_body",
    )
    readonly_fields: ClassVar[tuple[str, ...]] = fields
    search_fields: ClassVar[tuple[str, ...]] = ("recipient",)
    search_help_text: ClassVar[str] = (
        "A complete address or message id, or the id of a notification."
    )
    actions: tuple[str, ...] = ("replay",)

    escaped_type: _Display = _escaped("record_type")
    escaped_recipient: _Display = _escaped("recipient")
    escaped_message_id: _Display = _escaped("message_id")
    escaped_reason: _Display = _escaped("reason")
    escaped_trace_id: _Display = _escaped("trace_id")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Notification]:
        """Return all entries without their bodies, which may be large and are not listed."""
        return super().get_queryset(request).defer("body")

    @admin.display(description="received")
    def received(self, entry: Notification) -> SafeString:
        """Return the time of arrival to the second, in the time zone of the page."""
        at = format(localtime(entry.received_at), "%Y-%m-%d %H:%M:%S")
        return format_html('<span style="white-space: nowrap">{}</span>', at)

    @admin.display(description="outcome")
    def result(self, entry: Notification) -> str:
        """Return the outcome and the status of the response."""
        return f"{entry.outcome.replace('_', ' ')}, {entry.status}"

    @admin.display(description="posts")
    def posts(self, entry: Notification) -> int:
        """Return how often the provider posted the notification."""
        return entry.attempts

    @admin.display(description="history")
    def history(self, entry: Notification) -> str:
        """Describe the attempts and their results."""
        stored = msgspec.convert(entry, StoredEntry, from_attributes=True)
        return printable(describe_outcome(stored, store(), parsers()))

    @admin.display(description="almost matched")
    def near_misses(self, entry: Notification) -> str:
        """Describe the rows that the notification almost matched, one in each line."""
        stored = msgspec.convert(entry, StoredEntry, from_attributes=True)
        found = near_misses(store(), stored, parsers())
        return (
            format_html_join(mark_safe("<br>"), "{}", ([each.text] for each in found)) or _NOTHING
        )

    @admin.display(description="not supported")
    def problem(self, entry: Notification) -> str:
        """Return which part of the payload is not supported."""
        stored = msgspec.convert(entry, StoredEntry, from_attributes=True)
        problem = find_problem(stored, parsers(), store().recorded)
        return printable(problem) if problem else _NOTHING

    @admin.display(description="body")
    def formatted_body(self, entry: Notification) -> str:
        """Return the body, indented if it is JSON and truncated if it is long."""
        if entry.body is None:
            return "not stored"
        return format_html('<pre style="white-space: pre-wrap">{}</pre>', format_body(entry.body))

    @admin.action(description="Replay", permissions=["replay"])
    def replay(self, request: HttpRequest, queryset: QuerySet[Notification]) -> None:
        """Record the selected entries again, oldest first, and show the results."""
        ids = list(queryset.order_by("id").values_list("id", flat=True)[: _MAX_REPLAYED + 1])
        if len(ids) > _MAX_REPLAYED:
            text = f"Select at most {_MAX_REPLAYED}, or run: manage.py hookrow replay"
            self.message_user(request, text, messages.ERROR)
            return
        counts: Counter[str] = Counter()
        try:
            log = store().log
            if log is None:
                raise ConfigurationError("The log is disabled: set HOOKROW['LOG'] to True.")
            for group in matching_entries(log, Query(ids=ids)):
                counts += _replay(log, group)
        except HookrowError as error:
            text = f"Stopped after {pluralize(counts.total(), 'notification')}: {error}"
            self.message_user(request, text, messages.ERROR)
            return
        if not counts:
            text = "The selected notifications are no longer in the log."
            self.message_user(request, text, messages.WARNING)
            return
        results = ", ".join(f"{number} {name}" for name, number in counts.items())
        self.message_user(
            request, f"{pluralize(counts.total(), 'notification')} replayed: {results}."
        )

    def search(self, queryset: QuerySet[Notification], term: str) -> QuerySet[Notification]:
        """Return the entries with this address, message id or id."""
        named = Q(recipient=stored_recipient(term)) | Q(message_id=stored_message_id(term))
        return queryset.filter(named | Q(id=int(term)) if _NUMBER.fullmatch(term) else named)

    def has_replay_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may replay notifications."""
        user: Any = request.user
        return bool(user.has_perm("hookrow.replay_notification"))

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: no user can add an entry."""
        del request
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Return False: no user can change an entry."""
        del request, obj
        return False


def _replay(log: SQLLog, entries: Sequence[StoredEntry]) -> Counter[str]:
    """Record a group of entries again; return how often each result occurred."""
    outcomes = replay_entries(store(), log, entries, parsers())
    counts = Counter(outcome_name(each).replace("_", " ") for each in outcomes)
    if len(outcomes) < len(entries):
        counts["without a stored body"] = len(entries) - len(outcomes)
    return counts
