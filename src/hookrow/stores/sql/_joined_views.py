"""Proposes a view for subscribers whose emails are in another table."""

from __future__ import annotations

from typing import NamedTuple

from hookrow._core.corrections import Table, find
from hookrow._core.schema import TOUCH, WRITTEN, Schema
from hookrow.stores.sql._catalogues.base import Catalogue
from hookrow.stores.sql._column_rules import suits
from hookrow.stores.sql._needs import Columns


class JoinedView(NamedTuple):
    """A view of the subscribers with their emails, and the sentences that propose it."""

    name: str
    advice: str


def propose_view(catalogue: Catalogue, schema: Schema, columns: Columns) -> JoinedView | None:
    """Return a view for subscribers whose table has these columns, but none for emails.

    It joins a table that has emails, and a column whose name is that of the id of a subscriber.
    """
    role, mapped = schema.subscribers, schema.columns("subscribers")
    if mapped["id"] not in columns:
        return None
    namespace, dot, bare = role.table.rpartition(".")
    used = {each.table for each in schema.roles.values()}
    for other in catalogue.tables():
        if other in used or other.rpartition(".")[0] != namespace:
            continue
        table = _described(other, catalogue.columns(other))
        email = find(schema, "subscribers", ["email"], table).get("email")
        reference = find(schema, "dispatches", ["subscriber_id"], table).get("subscriber_id")
        if email is None or reference is None:
            continue
        view = f"{namespace}{dot}{bare}_with_email"
        select = (
            f"SELECT s.*, e.{catalogue.identifier(email)} AS email "
            f"FROM {catalogue.statement_name(role.table)} AS s "
            f"JOIN {catalogue.statement_name(other)} AS e "
            f"ON e.{catalogue.identifier(reference)} = s.{catalogue.identifier(mapped['id'])}"
        )
        written = [
            each for field, each in mapped.items() if field in {*WRITTEN, TOUCH} and each in columns
        ]
        statements = catalogue.updatable_view(view, select, role.table, mapped["id"], written)
        advice = (
            f"The addresses may be in the column {email!r} of {other!r}: map a view of both, "
            f"{view!r}. If a person can have several addresses, add a condition that selects one. "
            f"Run {'; '.join(statements)}"
        )
        return JoinedView(view, advice)
    return None


def _described(name: str, columns: Columns) -> Table:
    def suits_column(field: str, column: str) -> bool:
        return suits(field, columns[column])

    return Table(name, columns, columns, suits_column, suits_column)
