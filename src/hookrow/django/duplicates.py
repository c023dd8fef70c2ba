"""Looks for emails that two subscribers have but for case, which reads a whole table."""

from __future__ import annotations

from django.db import connections
from django.db.models import Count, Min, Model, QuerySet

from hookrow.django.fields import Folded
from hookrow.django.mapping import Models
from hookrow.django.transactions import begun, faults


def duplicates(models: Models, using: str) -> tuple[int, str]:
    """Return how many emails are there more than once, and one of them, else nothing.

    Raises a `StoreError`, on PostgreSQL also where it takes longer than a statement may.
    """
    people = models.roles["subscribers"]
    email = people.paths["email"]
    rows: QuerySet[Model] = QuerySet(people.model, using=using)
    twice = (
        rows.filter(**people.where, **{f"{email}__isnull": False})
        .order_by()
        .values(_email=Folded(email))
        .annotate(_rows=Count("*"))
        .filter(_rows__gt=1)
    )
    # On SQLite a transaction of ours would keep all others from writing.
    with faults() if connections[using].vendor == "sqlite" else begun(using):
        found = twice.aggregate(count=Count("*"), example=Min("_email"))
    return found["count"], found["example"] or ""
