"""Lists of the admin that stay quick over tables of millions of rows.

Nothing counts or sorts a whole table, no row is asked for by itself, and a search is
one that an index serves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from hookrow.decide import fold, is_email
from hookrow.django.conf import conf
from hookrow.django.fields import Folded

if TYPE_CHECKING:
    _Admin = admin.ModelAdmin[Any]
    _Paginator = Paginator[Any]
else:  # Django's own are generic in the stubs alone
    _Admin = admin.ModelAdmin
    _Paginator = Paginator

MOST = 10_000
"""Rows that a list shows at most: who looks for others narrows it."""


class Newest(_Paginator):
    """Pages of the newest rows, of which it counts no more than it shows."""

    @cached_property
    def count(self) -> int:
        """Return how many there are, up to `MOST`."""
        rows: Any = self.object_list
        return int(rows[:MOST].count())


class LargeTableAdmin(_Admin):
    """A model of many rows, in the database that the settings name; newest first."""

    paginator = Newest
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    ordering = ("-id",)
    list_max_show_all = 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return all rows of the database that hookrow uses."""
        return super().get_queryset(request).using(conf.database)

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:  # noqa: ANN401, FBT001 - Django's own
        """Save there."""
        del request, form, change
        obj.save(using=conf.database)

    def response_action(self, request: HttpRequest, *given: Any, **more: Any) -> Any:  # noqa: ANN401 - passed on: Django 6 gives more
        """Run the action, where what is selected are keys: for others Django answers 500."""
        key = self.opts.pk
        try:
            for each in request.POST.getlist(ACTION_CHECKBOX_NAME):
                key.run_validators(key.to_python(each))
        except ValidationError:
            self.message_user(request, "What is selected is no row.", messages.ERROR)
            return None
        return super().response_action(request, *given, **more)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return what the term finds: nothing where no column can hold it."""
        del request
        term = search_term.strip()
        if not term:
            return queryset, False
        found = self.found(queryset, term) if is_email(term) else queryset.none()
        return found, False

    def found(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        """Return the rows that a term means."""
        raise NotImplementedError


def beginning(queryset: QuerySet[Any], email: str, term: str) -> QuerySet[Any]:
    """Return the rows whose email begins so, in whatever case: a range of the index."""
    low = fold(term)
    return queryset.alias(_folded=Folded(email)).filter(
        _folded__gte=low, _folded__lt=f"{low}\U0010ffff"
    )


class Choice(admin.SimpleListFilter):
    """A filter by a few conditions, by the words that stand for them."""

    conditions: ClassVar[Mapping[str, Q]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:  # noqa: ANN401 - Django's own
        """Return the words, each as it stands in the address and on the page."""
        del request, model_admin
        return [(word, word.replace("_", " ")) for word in self.conditions]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return what the chosen word means; all where it is none of them."""
        del request
        return queryset.filter(self.conditions.get(self.value() or "", Q()))


def choice(name: str, all_of_them: Mapping[str, Q]) -> type[Choice]:
    """Make a filter of that name."""

    class Chosen(Choice):
        title = name
        parameter_name = f"{name}_is".replace(" ", "_")
        conditions = all_of_them

    return Chosen
