"""Manual suppression in the admin of the subscribers' model.

`class PersonAdmin(SuppressionAdmin)` adds the two actions to the admin of a project's own model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.widgets import AdminTextInputWidget
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from hookrow._core.notification import Key, Recorded
from hookrow._describe import pluralize
from hookrow._receiver.clock import measured_clock
from hookrow._receiver.manual import (
    MAX_ENTERED_REASON,
    change_suppression,
    find_subscriber,
)
from hookrow.django._conf import conf
from hookrow.django._receiver import parsers, store
from hookrow.errors import HookrowError

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:  # Django's own is generic only in the stubs
    _ModelAdmin = admin.ModelAdmin

MAX_CHANGED = 100
"""The maximum number of subscribers in one action: each is a transaction, and the page waits."""


class ReasonForm(forms.Form):
    """The reason for a change."""

    reason = forms.CharField(max_length=MAX_ENTERED_REASON, widget=AdminTextInputWidget)


class SuppressionAdmin(_ModelAdmin):
    """Adds the actions "suppress" and "lift", for users who may change the model.

    Both ask for a reason. The log keeps each change as a notification with the user's name. A
    subclass that sets `actions` must include these two.
    """

    actions: tuple[str, ...] = ("suppress", "lift")

    @admin.action(description="Suppress", permissions=["change"])
    def suppress(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Suppress the selected subscribers; their rows and the log keep the reason."""
        return self._change(request, queryset, suppress=True)

    @admin.action(description="Lift suppression", permissions=["change"])
    def lift(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Lift the suppression of the selected subscribers; the log keeps the reason."""
        return self._change(request, queryset, suppress=False)

    def _change(
        self, request: HttpRequest, queryset: QuerySet[Any], *, suppress: bool
    ) -> HttpResponse | None:
        """Ask for a reason; if the form has one, apply the change and show the result."""
        rows = list(queryset[: MAX_CHANGED + 1])
        if len(rows) > MAX_CHANGED:
            self.message_user(request, f"Select at most {MAX_CHANGED}.", messages.ERROR)
            return None
        if not rows:
            text = "The selected subscribers no longer exist."
            self.message_user(request, text, messages.WARNING)
            return None
        form = ReasonForm(request.POST if "reason" in request.POST else None)
        if not form.is_valid():
            return self._ask(request, rows, form, suppress=suppress)
        done = 0
        try:
            rows = [row for row in rows if self._check_address(request, row)]
            if not rows:
                return None  # each has a warning
            for row in rows:
                done += self._record(request, row, form.cleaned_data["reason"], suppress=suppress)
        except HookrowError as error:
            text = f"Stopped after {pluralize(done, 'subscriber')}: {error}"
            self.message_user(request, text, messages.ERROR)
            return None
        text = "{} suppressed." if suppress else "Suppression of {} lifted."
        text = text.format(pluralize(done, "subscriber"))
        if done < len(rows):
            text += f" {len(rows) - done} not changed: see the notification log."
        self.message_user(request, text, messages.SUCCESS if done else messages.WARNING)
        return None

    def _check_address(self, request: HttpRequest, row: Any) -> bool:  # noqa: ANN401 - any model's
        """Return whether notifications for the row's address apply to this row; warn if not."""
        _, tenant = _tenant(row)
        if store().has_tenants and tenant is None:
            text = f"{row} was not changed: it belongs to no tenant."
            self.message_user(request, text, messages.WARNING)
            return False
        with store().reading() as reading:
            found = find_subscriber(reading, _value(row, "email"), tenant)
        if found is None or found[1] == _value(row, "id"):
            return True
        text = f"{row} was not changed: notifications for its address apply to the row {found[1]}."
        self.message_user(request, text, messages.WARNING)
        return False

    def _record(self, request: HttpRequest, row: Any, reason: str, *, suppress: bool) -> bool:  # noqa: ANN401 - any model's
        """Record the change as a notification; return whether it was applied."""
        entry, tenant = _tenant(row)
        outcome = change_suppression(
            store(),
            _value(row, "email"),
            reason=reason if suppress else None,
            by=request.user.get_username(),
            at=measured_clock(store())(),
            note=reason,
            bodies=conf.keep_bodies,
            entry=entry,
            tenant=tenant,
        )
        if not isinstance(outcome, Recorded):
            return False
        verb = "Suppressed" if suppress else "Suppression lifted"
        self.log_change(request, row, f"{verb}: {reason}")
        return True

    def _ask(
        self, request: HttpRequest, rows: list[Any], form: ReasonForm, *, suppress: bool
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": "Suppress" if suppress else "Lift suppression",
            "action": "suppress" if suppress else "lift",
            "action_checkbox_name": ACTION_CHECKBOX_NAME,
            "form": form,
            "media": self.media,
            "opts": self.opts,
            "rows": rows,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/hookrow/suppression.html", context)


def _value(row: Any, name: str) -> Any:  # noqa: ANN401 - any model's
    """Return the value of a subscriber's field, by hookrow's name for it."""
    return getattr(row, store().mapping.fields["subscribers", name].attname)


def _tenant(row: Any) -> tuple[str | None, Key | None]:  # noqa: ANN401 - any model's
    """Return the name of the receiver's entry for a subscriber's tenant, and the tenant.

    Both are None if the mapping has no tenants. The name is None if the tenant has no entry.
    """
    field = store().mapping.tenants.get("subscribers")
    if field is None:
        return None, None
    tenant: Key | None = getattr(row, field.attname)
    tenants = parsers().tenants
    names = (name for name, each in tenants.items() if str(each) == str(tenant))
    return next(names, None), tenant
