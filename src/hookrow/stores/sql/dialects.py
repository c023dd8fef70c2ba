"""How the SQL of PostgreSQL and SQLite differs: names, sets of values, rows of values, times."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import ClassVar

from hookrow.core.schema import Fold, Scalar
from hookrow.stores.sql.parameters import Parameters, PostgresParameters, SQLiteParameters


class Dialect(Parameters):
    """The SQL that both databases understand. `oldest` is the oldest supported version."""

    name: ClassVar[str]
    title: ClassVar[str]
    oldest: ClassVar[tuple[int, ...]]
    clock: ClassVar[str | None]
    """The expression for the time of the server's clock; None if it is the process's."""
    binary: ClassVar[str]
    """The collation that distinguishes all texts."""
    begin: ClassVar[str]
    """The statement that begins a transaction on hookrow's own connections."""
    locks_rows: ClassVar[bool]
    """Whether a transaction locks single rows; otherwise it locks the whole database."""
    single_statement_write: ClassVar[bool]
    """Whether one statement can change rows of several tables."""
    size: ClassVar[str]
    """The function that returns the size of a text."""
    skip_locked: ClassVar[str]
    """The clause by which a SELECT locks its rows and skips those that are locked already."""
    plan_for_values: ClassVar[str | None]
    """The statement after which the plans of the transaction suit the values of parameters; None if
    the database has no such plans."""
    explain: ClassVar[str]
    """The prefix of a statement that returns its plan instead of running it."""
    takes_rows: ClassVar[bool]
    """Whether the parameters of a statement hold many rows of values; otherwise they hold one."""

    def quote(self, name: str) -> str:
        """Return a name as an identifier in SQL text."""
        return '"' + name.replace('"', '""').replace("%", "%%") + '"'

    def table(self, name: str) -> str:
        """Return the name of a table, in which a dot follows the name of its schema."""
        return ".".join(map(self.quote, filter(None, name.rpartition(".")[::2])))

    def literal(self, value: Scalar) -> str:
        """Return a value as SQL text. A planner uses a partial index only for a constant."""
        if isinstance(value, str):
            return "'" + value.replace("'", "''").replace("%", "%%") + "'"
        return "NULL" if value is None else str(value).lower()

    @abstractmethod
    def fold(self, kind: Fold, email: str) -> str:
        """Return the expression by which emails are compared, and which an index must contain."""

    @abstractmethod
    def is_not_ascii(self, text: str) -> str:
        """Return the condition that a text has a character that is not ASCII."""

    def email_is_any(self, kind: Fold, email: str, type_: str) -> str:
        """Compare folded emails with the values of one parameter. `type_` is the column's."""
        is_text = kind in {"ascii", "lower"}
        return self.any_of(self.fold(kind, email), "text" if is_text else type_)

    @abstractmethod
    def is_email(self, kind: Fold, email: str, address: str, type_: str) -> str:
        """Compare a column of emails with an address of the log by the column's index.

        `type_` is the column's. An address in the log is in lower case.
        """

    @abstractmethod
    def is_message_id(self, column: str, message_id: str, type_: str, *, uuids: bool) -> str:
        """Compare a column with a message id of the log by the column's index.

        `type_` is the column's. Without a GUID, no row of a column of UUIDs is equal.
        """

    @abstractmethod
    def any_of(self, expression: str, type_: str) -> str:
        """Compare with the values of one parameter, which `encode` returns."""

    @abstractmethod
    def selected_by(self, expression: str, select: str) -> str:
        """Compare with the values of a SELECT, which is run first."""

    @abstractmethod
    def epoch(self, time: str) -> str:
        """Return the whole seconds from 1970 to a time, as an integer."""

    @abstractmethod
    def rows(self, types: Mapping[str, str]) -> str:
        """Return rows of values as the relation `given`; empty if a statement takes one row.

        `types` are the columns' types by name. The parameters are those of `encode_rows`.
        """

    @abstractmethod
    def select(self, expression: str, type_: str) -> str:
        """Return the expression that selects a key. `type_` is the column's."""

    @abstractmethod
    def text(self, expression: str, type_: str) -> str:
        """Return the expression that selects a text or a UUID as text. `type_` is the column's."""


class PostgreSQL(PostgresParameters, Dialect):
    """PostgreSQL, with arrays as parameters."""

    name = "postgresql"
    title = "PostgreSQL"
    oldest = (13,)
    binary = '"C"'
    size = "octet_length"  # in bytes: known without reading the text
    skip_locked = "FOR UPDATE SKIP LOCKED"
    plan_for_values = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true)"
    explain = "EXPLAIN"
    clock = "clock_timestamp()"  # now() is the time at which the transaction began
    begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
    locks_rows = single_statement_write = takes_rows = True

    def fold(self, kind: Fold, email: str) -> str:
        """Fold only ASCII letters for `ascii`: plain lower() follows the database's locale."""
        match kind:
            case "ascii":
                return f'lower({email} COLLATE "C")'
            case "lower":
                return f"lower({email})"
            case _:
                return email

    def is_not_ascii(self, text: str) -> str:
        """Use a regular expression, which works in every encoding of the database."""
        return rf"{text} ~ '[^\x01-\x7F]'"

    def email_is_any(self, kind: Fold, email: str, type_: str) -> str:
        """Leave lower-casing to the database, whose locale may fold more than Python does."""
        if kind == "lower":
            return f"{self.fold(kind, email)} = ANY(ARRAY(SELECT lower(unnest(%s::text[]))))"
        return super().email_is_any(kind, email, type_)

    def is_email(self, kind: Fold, email: str, address: str, type_: str) -> str:
        """Convert the address to the column's type, or fold it as the database does."""
        match kind:
            case "ascii":
                return f"{self.fold(kind, email)} = {address}"
            case "lower":
                return f"{self.fold(kind, email)} = lower({address})"
            case _:
                return f"{email} = {address}::{type_}"

    def is_message_id(self, column: str, message_id: str, type_: str, *, uuids: bool) -> str:
        """Convert the id to the column's type; the conversion of another text would fail."""
        if uuids:
            message_id = f"CASE WHEN {message_id} ~* '{_GUID}' THEN {message_id} END"
        return f"{column} = ({message_id})::{type_}"

    def any_of(self, expression: str, type_: str) -> str:
        """Compare with the elements of an array."""
        return f"{expression} = ANY(%s::{type_}[])"

    def selected_by(self, expression: str, select: str) -> str:
        """Compare with the elements of an array: the planner could reverse a join."""
        return f"{expression} = ANY(ARRAY({select}))"

    def epoch(self, time: str) -> str:
        """Round down: a cast alone would round to the nearest second."""
        return f"CAST(floor(date_part('epoch', {time})) AS bigint)"

    def rows(self, types: Mapping[str, str]) -> str:
        """Return the rows of parallel arrays, each of which is one parameter."""
        arrays = ", ".join(f"%s::{type_}[]" for type_ in types.values())
        return f"unnest({arrays}) AS given({', '.join(types)})"

    def select(self, expression: str, type_: str) -> str:
        """Return a number, a text or a UUID; the cast removes the blanks that pad a CHAR."""
        return expression if type_ in _KEY_TYPES else f"{expression}::text"

    def text(self, expression: str, type_: str) -> str:
        """Return text, also of a UUID."""
        return f"{expression}::text" if type_ == "uuid" else self.select(expression, type_)


class SQLite(SQLiteParameters, Dialect):
    """SQLite, with JSON arrays as parameters. Columns have no fixed types there."""

    name = "sqlite"
    title = "SQLite"
    oldest = (3, 35)
    binary = "BINARY"
    size = "length"  # in characters: SQLite before 3.43 has no function for bytes
    skip_locked = ""
    plan_for_values = None
    explain = "EXPLAIN QUERY PLAN"
    clock = None
    begin = "BEGIN IMMEDIATE"
    locks_rows = single_statement_write = takes_rows = False

    def fold(self, kind: Fold, email: str) -> str:
        """Fold ASCII letters; SQLite folds no others."""
        match kind:
            case "ascii" | "lower":
                return f"lower({email})"
            case "citext":
                return f"{email} COLLATE NOCASE"
            case _:
                return email

    def is_not_ascii(self, text: str) -> str:
        """Use the only pattern with ranges that SQLite has built in."""
        return f"{text} GLOB '*[^' || char(1) || '-' || char(127) || ']*'"

    def is_email(self, kind: Fold, email: str, address: str, type_: str) -> str:  # noqa: ARG002 - for PostgreSQL
        """Drop the affinity of the address with `+`: with it, the index of lower() is not used.

        SQLite's documentation, "Datatypes In SQLite", section 4.2, has the rules.
        """
        return f"{self.fold(kind, email)} = +{address}"

    def is_message_id(
        self,
        column: str,
        message_id: str,
        type_: str,  # noqa: ARG002 - for PostgreSQL
        *,
        uuids: bool,
    ) -> str:
        """Compare with a GUID in both of the forms in which it may be stored."""
        if not uuids:
            return f"{column} = +{message_id}"
        return f"{column} IN (+{message_id}, replace(lower({message_id}), '-', ''))"

    def any_of(self, expression: str, type_: str) -> str:  # noqa: ARG002 - for PostgreSQL
        """Compare with the elements of a JSON array."""
        return f"{expression} IN (SELECT value FROM json_each(%s))"

    def selected_by(self, expression: str, select: str) -> str:
        """Compare with the rows."""
        return f"{expression} IN ({select})"

    def epoch(self, time: str) -> str:
        """Remove the fraction: strftime would round it to milliseconds."""
        return f"CAST(strftime('%%s', substr({time}, 1, 19)) AS integer)"

    def rows(self, types: Mapping[str, str]) -> str:  # noqa: ARG002 - for PostgreSQL
        """Return an empty string, because a statement takes one row."""
        return ""

    def select(self, expression: str, type_: str) -> str:  # noqa: ARG002 - for PostgreSQL
        """Return the value as it is stored."""
        return expression

    def text(self, expression: str, type_: str) -> str:  # noqa: ARG002 - for PostgreSQL
        """Return text, even if the column's declared type made the value a number."""
        return f"CAST({expression} AS TEXT)"


_GUID = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
"""The canonical form of a UUID."""

_KEY_TYPES = {
    *("smallint", "integer", "bigint", "numeric"),
    *("text", "character varying", "uuid"),
}
"""PostgreSQL's types whose values are a `Key`."""

POSTGRESQL, SQLITE = PostgreSQL(), SQLite()

DIALECTS: Mapping[str, Dialect] = {each.name: each for each in (POSTGRESQL, SQLITE)}


def utc(time: datetime | str | None) -> datetime | None:
    """Return a time from a driver in UTC; a time without a zone is in UTC already."""
    if time is None:
        return None
    at = datetime.fromisoformat(time) if isinstance(time, str) else time
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def known(time: datetime | str) -> datetime:
    """Return a time that is never null, in UTC."""
    at = utc(time)
    assert at is not None  # noqa: S101 - for mypy
    return at
