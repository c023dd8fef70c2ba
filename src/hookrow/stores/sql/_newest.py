"""Selects the values of a column in the newest rows, in a time that does not grow with the table.

They are the rows with the highest keys, whose index finds them; if the keys are random, these rows
are a sample of all. Rows whose column is null count among them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hookrow._core.rules import fold
from hookrow.stores.sql._role_tables import ALIASES, RoleTables

SAMPLE = 10_000
"""How many of the newest rows of a table are read."""


def newest(tables: RoleTables, role: str, name: str) -> str:
    """Return the SELECT of a column's values, as text, in the newest rows, and of their tenants.

    Hidden rows are left out only after the newest have been selected: there may be many of them.
    """
    tenant, joined = tables.dialect.cast("NULL", tables.dialect.text_type), ""
    if role in tables.tenants:
        tenant = tables.tenant(role)
    elif tables.tenants:
        tenant = tables.tenant("subscribers")
        owner = tables.refers(role, "subscriber_id", "subscribers", "id")
        joined = f" JOIN {tables.table('subscribers')} ON {owner}"
    return (
        f"SELECT {tables.text(role, name)}, {tenant} FROM {_rows(tables, role)}{joined} "
        f"WHERE {tables.column(role, name)} IS NOT NULL{tables.visible(role)}"
    )


def newest_that_contain(
    tables: RoleTables, role: str, name: str, parts: Collection[str]
) -> tuple[str, Sequence[str]]:
    """Return the SELECT of distinct values in the newest rows that contain one of the `parts`.

    Also return its parameters. ASCII letters are compared regardless of case, and the values are
    those of all tenants.
    """
    text = tables.text(role, name)
    contains = " OR ".join([f"lower({text}) LIKE %s ESCAPE '{_LIKE_ESCAPE}'"] * len(parts))
    sql = (
        f"SELECT DISTINCT {text} FROM {_rows(tables, role)} "
        f"WHERE ({contains}){tables.visible(role)}"
    )
    return sql, [f"%{_literally(fold(each))}%" for each in parts]


_LIKE_ESCAPE = "!"


def _literally(text: str) -> str:
    """Return the pattern of LIKE for a text."""
    for each in (_LIKE_ESCAPE, "%", "_"):
        text = text.replace(each, f"{_LIKE_ESCAPE}{each}")
    return text


def _rows(tables: RoleTables, role: str) -> str:
    """Return the newest rows of a role, hidden ones included, for FROM."""
    alias = ALIASES[role]
    columns = ", ".join(
        f"{alias}.{tables.dialect.quote(each)}" for each in tables.named_columns(role)
    )
    return (
        f"(SELECT {columns} FROM {tables.table(role)} "
        f"ORDER BY {tables.column(role, 'id')} DESC LIMIT {SAMPLE}) AS {alias}"
    )
