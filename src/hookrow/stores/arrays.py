"""Many values in one parameter, so that a statement is the same for any number of them.

PostgreSQL has arrays, which are written here as text: to write their elements one by one
takes a driver longer than the database needs to find the rows. SQLite reads JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import (
    CHAR,
    ColumnElement,
    Enum,
    String,
    Text,
    any_,
    bindparam,
    column,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import CITEXT
from sqlalchemy.dialects.postgresql.base import PGTypeCompiler
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import TypeEngine, UserDefinedType

Parameters: TypeAlias = Mapping[str, ColumnElement[Any]]
"""What each parameter of a statement is in SQL, by name."""


def array(values: Iterable[Any]) -> str:
    """Return an array as PostgreSQL reads it (its manual, section 8.15.6)."""
    return "{" + ",".join(map(_element, values)) + "}"


def texts(values: Iterable[str], *, arrays: bool) -> str:
    """Return the parameter of `among_texts`."""
    return array(values) if arrays else msgspec.json.encode(list(values)).decode()


def elements(name: str, type_: TypeEngine[Any]) -> ColumnElement[Any]:
    """Return the parameter that `array` makes, of elements of the type."""
    return bindparam(name, type_=_Array(unbounded(type_)))


def among_texts(column: ColumnElement[Any], name: str, *, arrays: bool) -> ColumnElement[bool]:
    """Compare with the texts of a parameter, by the column's index."""
    if arrays:
        return column == any_(elements(name, column.type))
    each = func.json_each(bindparam(name, type_=Text())).table_valued("value")
    return column.in_(select(each.c.value))


def unnested(types: Mapping[str, TypeEngine[Any]]) -> Parameters:
    """Return the columns of a relation made from arrays, a parameter each."""
    arrays = [elements(name, type_) for name, type_ in types.items()]
    columns = [column(name, type_) for name, type_ in types.items()]
    relation = func.unnest(*arrays).table_valued(*columns, name="given").render_derived()
    return dict(relation.c)


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


class _Array(UserDefinedType[str]):
    """An array that comes as text. As a cast of a text it would be read anew for each row."""

    cache_ok = True
    render_bind_cast = True

    def __init__(self, elements: TypeEngine[Any]) -> None:
        self.elements = elements


@compiles(_Array)
def _array(type_: _Array, compiler: PGTypeCompiler, **options: Any) -> str:  # noqa: ANN401 - passed on
    return f"{compiler.process(type_.elements, **options)}[]"


def _element(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case int():
            return str(value)
        case datetime():
            return value.isoformat()
        case bytes() | memoryview():
            return rf'"\\x{value.hex()}"'
        case _:
            quoted = str(value).replace("\\", "\\\\").replace('"', r"\"")
            return f'"{quoted}"'
