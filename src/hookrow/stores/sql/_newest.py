"""Selects the values of a column in the newest rows of a tenant, or of all if there are none.

They are the rows with the highest keys, whose index finds them; if the keys are random, these rows
are a sample of all. Rows whose column is null count among them, but neither those of other tenants
do nor those that `where` hides. To find the rows of a tenant that has few, a database without an
index on the tenant reads the whole table, so callers limit the time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from hookrow._core.notification import Key
from hookrow._core.rules import fold
from hookrow.stores.sql._role_tables import ALIASES, RoleTables

SAMPLE = 10_000
"""How many of the newest rows are searched."""


def newest(
    tables: RoleTables, role: str, name: str, tenant: Key | None, *, share: int = 1
) -> tuple[str, Sequence[Any]]:
    """Return the SELECT of a column's values, as text, in the newest rows, and its parameters.

    `share` is the number of such statements between which `SAMPLE` is divided.
    """
    rows, values = _rows(tables, role, tenant, max(SAMPLE // share, 1))
    column = tables.column(role, name)
    return f"SELECT {tables.text(role, name)} FROM {rows} WHERE {column} IS NOT NULL", values


def newest_that_contain(
    tables: RoleTables, role: str, name: str, parts: Collection[str], tenant: Key | None
) -> tuple[str, Sequence[Any]]:
    """Return the SELECT of distinct values in the newest rows that contain one of the `parts`.

    Also return its parameters. ASCII letters are compared regardless of case.
    """
    text = tables.text(role, name)
    contains = " OR ".join([f"lower({text}) LIKE %s ESCAPE '{_LIKE_ESCAPE}'"] * len(parts))
    rows, values = _rows(tables, role, tenant, SAMPLE)
    patterns = [f"%{_literally(fold(each))}%" for each in parts]
    return f"SELECT DISTINCT {text} FROM {rows} WHERE {contains}", [*values, *patterns]


_LIKE_ESCAPE = "!"


def _literally(text: str) -> str:
    """Return the pattern of LIKE for a text."""
    for each in (_LIKE_ESCAPE, "%", "_"):
        text = text.replace(each, f"{_LIKE_ESCAPE}{each}")
    return text


def _rows(
    tables: RoleTables, role: str, tenant: Key | None, number: int
) -> tuple[str, Sequence[Any]]:
    """Return the newest rows of a role for FROM, and their parameters."""
    alias = ALIASES[role]
    columns = ", ".join(
        f"{alias}.{tables.dialect.quote(each)}" for each in tables.named_columns(role)
    )
    of_tenant, values = ("1 = 1", ()) if tenant is None else tables.of_tenant(role, tenant)
    rows = (
        f"(SELECT {columns} FROM {tables.table(role)} WHERE {of_tenant}{tables.visible(role)} "
        f"ORDER BY {tables.column(role, 'id')} DESC LIMIT {number}) AS {alias}"
    )
    return rows, values
