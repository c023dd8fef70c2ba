"""Rows as arrays, which PostgreSQL takes one a column: a statement is the same for any number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from sqlalchemy import ARRAY, CHAR, ColumnElement, Enum, String, Text, bindparam, column, func
from sqlalchemy.dialects.postgresql import CITEXT
from sqlalchemy.types import TypeEngine, UserDefinedType

Parameters: TypeAlias = Mapping[str, ColumnElement[Any]]
"""What each parameter of a statement is in SQL, by name."""


def unnested(types: Mapping[str, TypeEngine[Any]]) -> Parameters:
    """Return the columns of a relation made from arrays, a parameter each."""
    arrays = [bindparam(name, type_=ARRAY(unbounded(type_))) for name, type_ in types.items()]
    columns = [column(name, type_) for name, type_ in types.items()]
    given = func.unnest(*arrays).table_valued(*columns, name="given").render_derived()
    return dict(given.c)


def unbounded(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return the type to pass a value in, which a cast to VARCHAR(5) would cut in silence."""
    match type_:
        case Enum() | CITEXT():
            return type_
        case CHAR():
            return _Bpchar()
        case String():
            return Text()
        case _:
            return type_


class _Bpchar(UserDefinedType[str]):
    """CHAR of any length: compared as text, its column's index would not be used."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "BPCHAR"
