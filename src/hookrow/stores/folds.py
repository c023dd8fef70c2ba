"""How emails are compared in SQL: of each fold one expression, in the index and in the query.

All find more than `decide.fold` takes for equal, or as much; it has the last word.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import assert_never

from sqlalchemy import Column, ColumnElement, Text, any_, collate, func, select

from hookrow.notification import Mentioned
from hookrow.schema import Fold
from hookrow.stores.arrays import among_texts, elements
from hookrow.stores.tables import folded


def indexed(fold: Fold, email: Column[str], *, arrays: bool) -> ColumnElement[str]:
    """Return what has to be indexed; `arrays` are what PostgreSQL has."""
    match fold:
        case "ascii":
            return folded(email)
        case "lower":
            return func.lower(email, type_=Text())
        case "exact":
            return email
        case "citext":
            return email if arrays else collate(email, "NOCASE")
        case _:
            assert_never(fold)


def found(fold: Fold, email: Column[str], *, arrays: bool) -> ColumnElement[bool]:
    """Compare with the parameter `emails`, which `given` makes: by one index, as one condition."""
    known = indexed(fold, email, arrays=arrays)
    if fold != "lower" or not arrays:
        return among_texts(known, "emails", arrays=arrays)
    # Both sides are lowered by the database, whose locale may do more than ours.
    each = func.unnest(elements("emails", known.type)).column_valued("each_email")
    return known == any_(func.array(select(func.lower(each)).scalar_subquery()))


def given(fold: Fold, mentioned: Mentioned) -> Collection[str]:
    """Return the emails to look for."""
    if fold == "ascii":
        return mentioned.emails
    return {*mentioned.emails, *mentioned.recipients}
