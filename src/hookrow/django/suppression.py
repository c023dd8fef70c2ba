"""Suppressing and lifting by hand, from the admin of whatever model the subscribers are.

`class PersonAdmin(SuppressionAdmin)` gives a host's own the two actions.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.widgets import AdminTextInputWidget
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from hookrow.byhand import change_by_hand
from hookrow.decide import decide, mentioned
from hookrow.django.conf import conf
from hookrow.django.receiver import store
from hookrow.errors import HookrowError
from hookrow.notification import Arrival, Key, Reactivated, Recorded
from hookrow.story import many

if TYPE_CHECKING:
    _Admin = admin.ModelAdmin[Any]
else:  # Django's own is generic in the stubs alone
    _Admin = admin.ModelAdmin

MOST = 100
"""Subscribers at a time: each is a transaction of its own, and the page waits for all."""


class Why(forms.Form):
    """What is asked before anything is changed."""

    reason = forms.CharField(max_length=200, widget=AdminTextInputWidget)


class SuppressionAdmin(_Admin):
    """Adds the actions "suppress" and "lift", for those who may change the model.

    Each asks for a reason. The change is a notification of its own: it stays in the
    log, with the user's name. An admin with actions of its own adds the two to them.
    """

    actions = ("suppress", "lift")

    @admin.action(description="Suppress: send no more mail to them", permissions=["change"])
    def suppress(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Suppress the selected subscribers for a reason, which their rows keep."""
        return self._change(request, queryset, suppress=True)

    @admin.action(description="Lift their suppression", permissions=["change"])
    def lift(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Lift the suppression of the selected subscribers for a reason, which the log keeps."""
        return self._change(request, queryset, suppress=False)

    def _change(
        self, request: HttpRequest, queryset: QuerySet[Any], *, suppress: bool
    ) -> HttpResponse | None:
        """Ask for a reason, or with one do it, and say how it went."""
        rows = list(queryset[: MOST + 1])
        if len(rows) > MOST:
            self.message_user(request, f"Select {MOST} at most.", messages.ERROR)
            return None
        if not rows:
            self.message_user(request, "None of them is there any more.", messages.WARNING)
            return None
        form = Why(request.POST if "reason" in request.POST else None)
        if not form.is_valid():
            return self._ask(request, rows, form, suppress=suppress)
        reason = form.cleaned_data["reason"]
        done = 0
        try:
            rows = [row for row in rows if self._is_meant(request, row)]
            for row in rows:
                done += self._changed(request, row, reason, suppress=suppress)
        except HookrowError as error:
            self.message_user(request, f"Stopped after {done}: {error}", messages.ERROR)
            return None
        text = f"{many(done, 'suppression')} {'set' if suppress else 'lifted'}."
        if done < len(rows):
            text += f" {len(rows) - done} could not be: see the log of notifications."
        self.message_user(request, text, messages.SUCCESS if done else messages.WARNING)
        return None

    def _is_meant(self, request: HttpRequest, row: Any) -> bool:  # noqa: ANN401 - any model's
        """Tell whether its address finds the row, and say so where it finds another."""
        found = _found(_value(row, "email"))
        if found in {None, _value(row, "id")}:
            return True
        text = f"{row} is left as it is: what comes for its address goes to another row, {found}."
        self.message_user(request, text, messages.WARNING)
        return False

    def _changed(self, request: HttpRequest, row: Any, reason: str, *, suppress: bool) -> bool:  # noqa: ANN401 - any model's
        user = request.user.get_username()
        outcome = change_by_hand(
            store(),
            _value(row, "email"),
            reason=reason if suppress else None,
            by=user,
            at=datetime.now(UTC),
            note=reason,
            bodies=conf.keep_bodies,
        )
        if not isinstance(outcome, Recorded):
            return False
        verb = "Suppressed" if suppress else "Suppression lifted"
        self.log_change(request, row, f"{verb}: {reason}")
        return True

    def _ask(
        self, request: HttpRequest, rows: list[Any], form: Why, *, suppress: bool
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": "Suppress" if suppress else "Lift suppressions",
            "action": "suppress" if suppress else "lift",
            "action_checkbox_name": ACTION_CHECKBOX_NAME,
            "form": form,
            "media": self.media,
            "opts": self.opts,
            "rows": rows,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/hookrow/suppression.html", context)


def _value(row: Any, ours: str) -> Any:  # noqa: ANN401 - any model's
    """Return the value of a subscriber's field, by hookrow's name for it."""
    return getattr(row, store().mapping.fields["subscribers", ours].attname)


def _found(email: str) -> Key | tuple[Key, Key] | None:
    """Return the key of the subscriber whom a notification would find, if any."""
    asked = Arrival(Reactivated(email, None, None), b"", datetime.now(UTC))
    with store().reading() as reading:
        outcome = decide(asked, reading.find(mentioned([asked])))
    return outcome.changes[0].row[1] if isinstance(outcome, Recorded) else None
