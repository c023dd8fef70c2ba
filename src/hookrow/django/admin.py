"""The log in the admin: to be read, to be searched, and to be recorded once more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime

from hookrow.django.large_table import LargeTableAdmin, choice
from hookrow.django.models import Notification
from hookrow.django.receiver import store
from hookrow.django.suppression import SuppressionAdmin
from hookrow.entry import RECORD_TYPES, Ending, Logged, kept_message_id, kept_recipient
from hookrow.errors import ConfigurationError, HookrowError
from hookrow.notification import Recorded
from hookrow.postmark import parse
from hookrow.quiet import Quiet
from hookrow.replay import arrivals_of, matching, record_late
from hookrow.stores.log import LogReader, Query
from hookrow.story import laid_out, many, printable, story

__all__ = ["NotificationAdmin", "SuppressionAdmin"]

MOST = 1000
"""Notifications at a time, for which the page waits; the command replays any number."""

_NUMBER = re.compile(r"[0-9]{1,18}")


def _shown(name: str) -> Callable[[Any, Notification], str | None]:
    """Return a column in which what would hide or turn round a text is escaped."""

    @admin.display(description=name.replace("_", " "), empty_value="-")
    def shown(_: object, entry: Notification) -> str | None:
        value = getattr(entry, name)
        return value and printable(value)

    return shown


@admin.register(Notification)
class NotificationAdmin(LargeTableAdmin):
    """What came, and what became of it. Nobody adds or changes an entry."""

    list_display = ("came", "what", "ending", "whom", "message", "attempts", "retry_at")
    list_filter = (
        choice("outcome", {each.value: Q(outcome=each.value) for each in Ending}),
        choice("type", {each: Q(record_type=each) for each in RECORD_TYPES.values()}),
        choice("next try", {"parked": Q(retry_at__isnull=False)}),
        ("received_at", admin.DateFieldListFilter),
    )
    fields = (
        *("what_became_of_it", "what", "whom", "message", "occurred_at", "received_at"),
        *("last_received_at", "attempts", "ending", "ended_at", "retry_at", "posted"),
    )
    readonly_fields = fields
    search_fields = ("recipient",)
    search_help_text = "A whole address or message id, or the number of a notification."
    actions = ("replay",)

    what, whom, message = map(_shown, ("record_type", "recipient", "message_id"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Notification]:
        """Return all entries without their bodies, which may be large: no list shows them."""
        return super().get_queryset(request).defer("body")

    @admin.display(description="came")
    def came(self, entry: Notification) -> SafeString:
        """Return when, to the second, in the time zone of the page."""
        at = format(localtime(entry.received_at), "%Y-%m-%d %H:%M:%S")
        return format_html('<span style="white-space: nowrap">{}</span>', at)

    @admin.display(description="outcome")
    def ending(self, entry: Notification) -> str:
        """Return the outcome in words, and the status that was answered."""
        return f"{entry.outcome.replace('_', ' ')}, {entry.status}"

    @admin.display(description="what became of it")
    def what_became_of_it(self, entry: Notification) -> str:
        """Tell it in a sentence."""
        return printable(story(entry.logged()))

    @admin.display(description="body", empty_value="not kept")
    def posted(self, entry: Notification) -> SafeString | None:
        """Return the body, indented if it is JSON and truncated if it is long."""
        if entry.body is None:
            return None
        return format_html('<pre style="white-space: pre-wrap">{}</pre>', laid_out(entry.body))

    @admin.action(description="Replay: record them once more", permissions=["replay"])
    def replay(self, request: HttpRequest, queryset: QuerySet[Notification]) -> None:
        """Record the selected entries once more, oldest first, and say how they ended."""
        ids = list(queryset.order_by("id").values_list("id", flat=True)[: MOST + 1])
        if len(ids) > MOST:
            text = f"Select {MOST} at most, or run: manage.py hookrow replay"
            self.message_user(request, text, messages.ERROR)
            return
        counts: Counter[str] = Counter()
        try:
            for group in matching(_log(), Query(ids=ids)):
                counts += _replayed(group)
        except HookrowError as error:
            text = f"Stopped after {counts.total()}: {error}"
            self.message_user(request, text, messages.ERROR)
            return
        if not counts:
            self.message_user(request, "None of them is in the log any more.", messages.WARNING)
            return
        ends = ", ".join(f"{number} {name}" for name, number in counts.items())
        self.message_user(request, f"{many(counts.total(), 'notification')} replayed: {ends}.")

    def found(self, queryset: QuerySet[Notification], term: str) -> QuerySet[Notification]:
        """Return those for an address, of a message, or of that number."""
        named = Q(recipient=kept_recipient(term)) | Q(message_id=kept_message_id(term))
        return queryset.filter(named | Q(id=int(term)) if _NUMBER.fullmatch(term) else named)

    def has_replay_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may record notifications once more."""
        user: Any = request.user
        return bool(user.has_perm("hookrow.replay_notification"))

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Let nobody add an entry."""
        del request
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Let nobody change one."""
        del request, obj
        return False


def _log() -> LogReader:
    """Return the project's log. Raises `ConfigurationError` if it is off."""
    log = store().log
    if log is None:
        raise ConfigurationError("The log is off: set HOOKROW['LOG'] to True.")
    return log


def _replayed(entries: Sequence[Logged]) -> Counter[str]:
    """Record a group once more; return how many ended how."""
    again = arrivals_of(entries, parse)
    outcomes = record_late(store(), again, quiet=Quiet()) if again else []
    counts = Counter(
        "recorded"
        if isinstance(outcome, Recorded)
        else outcome.refusal.name.lower().replace("_", " ")
        for outcome in outcomes
    )
    if len(again) < len(entries):
        counts["without the body that came"] = len(entries) - len(again)
    return counts
