"""Admin lists that stay fast on tables with millions of rows.

No query counts or sorts a whole table or fetches related rows one by one, and each search uses an
index, except that of lists, of which there are few.
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

from hookrow._core.rules import is_email
from hookrow.django._conf import conf

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
    _Paginator = Paginator[Any]
else:  # Django's own are generic only in the stubs
    _ModelAdmin = admin.ModelAdmin
    _Paginator = Paginator

MAX_ROWS = 10_000
"""The maximum number of rows in a list; filters and the search find the others."""


class LimitedPaginator(_Paginator):
    """A paginator that counts no more rows than it shows."""

    @cached_property
    def count(self) -> int:
        """Return the number of rows, up to `MAX_ROWS`."""
        rows: Any = self.object_list
        return int(rows[:MAX_ROWS].count())


class LargeTableAdmin(_ModelAdmin):
    """A model with many rows, newest first, in the database that hookrow uses."""

    paginator = LimitedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by: ClassVar[tuple[str, ...]] = ()
    ordering: ClassVar[tuple[str, ...]] = ("-id",)
    list_max_show_all = 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows in the database that hookrow uses."""
        return super().get_queryset(request).using(conf.database)

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:  # noqa: ANN401, FBT001 - Django's own
        """Save the row in the database that hookrow uses."""
        del request, form, change
        obj.save(using=conf.database)

    def response_action(self, request: HttpRequest, *args: Any, **more: Any) -> Any:  # noqa: ANN401 - passed on
        """Run an action if all selected keys are valid; otherwise, Django would return a 500."""
        key = self.opts.pk
        try:
            for each in request.POST.getlist(ACTION_CHECKBOX_NAME):
                key.run_validators(key.to_python(each))
        except ValidationError:
            self.message_user(request, "The selection is not valid.", messages.ERROR)
            return None
        return super().response_action(request, *args, **more)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return the rows that match the term, or none if no column can hold it."""
        del request
        term = search_term.strip()
        if not term:
            return queryset, False
        # 1 to 320 storable characters: what the widest searched column can hold
        return self.search(queryset, term) if is_email(term) else queryset.none(), False

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        """Return the rows that match a term."""
        raise NotImplementedError


class ConditionFilter(admin.SimpleListFilter):
    """A filter with a few named conditions."""

    conditions: ClassVar[Mapping[str, Q]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:  # noqa: ANN401 - Django's own
        """Return the name of each condition, as in the URL, and its label."""
        del request, model_admin
        return [(name, name.replace("_", " ")) for name in self.conditions]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that meet the selected condition, or all rows if it is unknown."""
        del request
        return queryset.filter(self.conditions.get(self.value() or "", Q()))


def condition_filter(name: str, named: Mapping[str, Q]) -> type[ConditionFilter]:
    """Return a filter class with a title and conditions."""
    attributes = {
        "title": name,
        "parameter_name": f"{name}_is".replace(" ", "_"),
        "conditions": named,
    }
    return type("_Filter", (ConditionFilter,), attributes)
