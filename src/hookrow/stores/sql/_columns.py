"""A column of a table or a view, as a catalogue or a model describes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Convert: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or a view."""

    name: str
    type: str
    """The type of its parameters; empty on SQLite, which has no fixed types. On MariaDB, that of a
    value in JSON_TABLE: for bytes, which JSON cannot hold, that of their hexadecimal digits."""
    type_name: str
    """The type's name for error messages."""
    kind: str
    """Text, number, boolean, datetime, enum, on SQLite also integer, on MariaDB also binary (BINARY
    and VARBINARY), the name of any other type, or empty if it is unknown."""
    nullable: bool
    generated: bool
    default: bool
    """Whether the database can assign a value."""
    holds_uuids: bool = False
    """Whether its values are UUIDs: on SQLite and MariaDB, also whether it is CHAR(32), in which
    Django and SQLAlchemy store their digits."""
    read_key: Convert | None = None
    """Converts a key that drivers return as the text of a UUID; not called with None. The text can
    be computed from the result, so that it finds the row."""
    ignores_case: bool = False
    """Whether it can be compared ignoring case without a function: CITEXT, a collation that is not
    deterministic, MariaDB's collations that ignore the case of all ASCII letters, and any column of
    SQLite."""
    lowers_ascii: bool = True
    """On MariaDB, whether lower() folds every ASCII letter, with the column's collation: with a
    Turkish one, it converts I to a dotless letter."""
    finds_rows: bool = True
    """Whether a value that was read from it finds its row: on MariaDB, columns of some types are
    not compared exactly, or with the values that drivers return."""
    length: int | None = None
    """The maximum length of a text, in characters."""
    labels: Sequence[str] = ()
    """The values of an enum."""
    denied: Sequence[str] = ()
    """The privileges that the user lacks: "SELECT", "UPDATE"."""
    sized: str = ""
    """`type` with its length, as SQL text."""
    declared: str = ""
    """The type as it is declared, with its length, its domain and its collation, as SQL text."""
    charset: str = ""
    """On MariaDB, the character set of a text."""
    lacks_characters: bool = False
    """Whether it is a text in a character set without some characters of Unicode: on MariaDB, any
    other than utf8mb4."""
    collation: str = ""
    """On MariaDB, the collation of a text, by which it is compared."""
    folded: Column | None = None
    """On MariaDB, the generated column that holds the text in lower case, whose index finds it."""
    folds_ascii: bool = False
    """Whether `folded` holds letters other than ASCII ones unchanged."""
    fraction: int | None = None
    """On MariaDB, the number of digits of a time's fraction of a second."""
    is_timestamp: bool = False
    """Whether it is MariaDB's TIMESTAMP, which ends in 2038, or in 2106 from version 11.5 on."""
    changes_itself: bool = False
    """Whether the database sets it to the current time with each change of the row."""
    read: Convert | None = None
    """Converts a value from the driver; not called with None."""
    write: Convert | None = None
    """Converts a value for the driver; not called with None."""
