"""The structure of a database's tables, to compare tables that were created in several ways."""

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine, inspect, text

from databases import kind_of


def structure(engine: Engine) -> Mapping[str, Any]:
    """Describe every table by reflection, except names of constraints and texts of defaults."""
    inspector = inspect(engine)
    return {
        name: {
            "columns": [
                (
                    column["name"],
                    str(column["type"].compile(engine.dialect)),
                    column["nullable"],
                    # Of the two ways to assign ids on PostgreSQL, one is a default.
                    column.get("default") is not None or "identity" in column,
                )
                for column in inspector.get_columns(name)
            ],
            "primary key": inspector.get_pk_constraint(name)["constrained_columns"],
            "foreign keys": sorted(
                (key["constrained_columns"], key["referred_table"], key["referred_columns"])
                for key in inspector.get_foreign_keys(name)
            ),
            "unique": sorted(
                unique["column_names"] for unique in inspector.get_unique_constraints(name)
            ),
            "indexes": _indexes(engine, name),
        }
        for name in inspector.get_table_names()
    }


def without_names(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out the names of indexes, and the formatting of their SQL.

    Also leave out the index for LIKE that Django adds for each primary key of text.
    """
    return {
        name: {
            **table,
            "indexes": sorted(
                _bare(each) for each in table["indexes"] if "_pattern_ops" not in each
            ),
        }
        for name, table in tables.items()
    }


def _indexes(engine: Engine, name: str) -> list[str]:
    """Read the indexes from the database's catalog: SQLAlchemy skips those on expressions."""
    with engine.connect() as connection:
        found = connection.scalars(text(kind_of(engine).indexes), {"name": name}).all()
    return sorted(" ".join((index or "automatic").split()) for index in found)


def _bare(index: str) -> str:
    words = re.sub(r'["()]', " ", index).lower().split()
    bare = re.sub(r" index \S+ on ", " index on ", " ".join(words))
    return " ".join(bare.replace(" ,", ",").split())
