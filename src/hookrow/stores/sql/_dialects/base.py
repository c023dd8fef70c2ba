"""The base of the dialects, and what they share."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import cache
from itertools import count
from typing import Any, ClassVar

import msgspec

from hookrow._core.log_entry import LogEntry
from hookrow._core.schema import Fold, Scalar
from hookrow._core.times import as_utc
from hookrow.stores.sql._columns import Column

_PLACEHOLDER = re.compile("%(.)")

json_text = msgspec.json.Encoder(uuid_format="hex").encode
"""Encodes the values of one parameter."""


@cache
def numbered(sql: str) -> str:
    """Return the text with `$1`, `$2` for parameters, as PostgreSQL itself reads it."""
    numbers = count(1)
    return _PLACEHOLDER.sub(lambda each: f"${next(numbers)}" if each[1] == "s" else each[1], sql)


@cache
def question_marks(sql: str) -> str:
    """Return the text with `?` for parameters, as SQLite reads it."""
    return _PLACEHOLDER.sub(lambda each: "?" if each[1] == "s" else each[1], sql)


def count_parameters(sql: str) -> int:
    """Return the number of parameters of the text."""
    return _PLACEHOLDER.findall(sql).count("s")


class Dialect(ABC):
    """The SQL of a database, and the form of its parameters."""

    name: ClassVar[str]
    oldest: ClassVar[Mapping[str, tuple[int, ...]]]
    """The oldest supported version of each product that understands the SQL, by its title."""
    version: ClassVar[str]
    """The statement that returns the version."""
    for_update: ClassVar[str]
    """The clause by which a SELECT of hookrow's own rows locks them; empty if a transaction locks
    the whole database."""
    stay_idle: ClassVar[str]
    """The statement that lets a transaction stay idle for as long as it takes."""
    wait_briefly: ClassVar[str]
    """The statement after which a transaction waits for a table for a second at most; empty if the
    connection limits the wait."""
    read_only: ClassVar[str]
    """The setting by which a server accepts no changes; empty if there is no server."""
    stop_at_errors: ClassVar[str]
    """The command that lets the database's shell stop at the first error; empty if it does so by
    itself."""
    is_server: ClassVar[bool]
    """Whether a server runs the database; otherwise it is a file of the process."""
    clock: ClassVar[str | None]
    """The expression for the time of the server's clock; None if it is the process's."""
    unused_id: ClassVar[str]
    """A random id that no entry of the log has: a negative one, which any type of ids holds."""
    id_type: ClassVar[str]
    """The type of the ids of hookrow's own rows, for `any_of`."""
    text_type: ClassVar[str]
    """The type of the texts of hookrow's own rows that are searched, for `any_of`."""
    compares_exactly: ClassVar[bool] = True
    """Whether a text equals a message id only if all characters are the same."""
    parked_message_id: ClassVar[str] = "message_id"
    """The column of the log by whose index the parked entries of a message are found."""
    changed_recipient: ClassVar[str] = "recipient"
    """The column of the log by whose index a person's suppressions are found."""
    is_expired: ClassVar[str] = ""
    """The column of the log that is 1 in expired entries, by whose index they are found; empty if
    an index has the condition itself."""
    join_in_order: ClassVar[str]
    """The operator of a join whose left table is read first."""
    binary: ClassVar[str]
    """The collation that distinguishes all texts."""
    new_id: ClassVar[str]
    """The expression for the id that the session's last INSERT gave one of hookrow's own rows."""
    begin: ClassVar[str]
    """The statement that begins a transaction on hookrow's own connections."""
    locks_rows: ClassVar[bool]
    """Whether a transaction locks single rows; otherwise it locks the whole database."""
    transactional_ddl: ClassVar[bool]
    """Whether a statement that changes tables can be rolled back; otherwise it commits by itself,
    and what precedes it in a transaction."""
    greatest: ClassVar[str]
    """The function that returns the greatest of its arguments."""
    size: ClassVar[str]
    """The function that returns the size of a text."""
    skip_locked: ClassVar[str]
    """The clause by which a SELECT locks its rows and skips those that are locked already."""
    plan_for_values: ClassVar[str | None]
    """The statement after which the plans of the transaction suit the values of parameters; None if
    the database has no such plans."""
    select_many_groups: ClassVar[str] = "SELECT"
    """The words that begin a SELECT with almost as many groups as rows."""
    create_index: ClassVar[str]
    """The words that begin the creation of an index on a table without blocking writers."""
    explain: ClassVar[str]
    """The prefix of a statement that returns its plan instead of running it."""

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
    def cast(self, expression: str, type_: str) -> str:
        """Return an expression as a value of a column's type."""

    @abstractmethod
    def instant(self, type_: str) -> str:
        """Return a parameter for a time, to compare with a column of a type."""

    @abstractmethod
    def differs(self, expression: str, other: str) -> str:
        """Return the condition that two values, of which either may be null, are not the same."""

    @abstractmethod
    def as_text(self, expression: str) -> str:
        """Return an expression of any type as text."""

    @abstractmethod
    def as_integer(self, expression: str) -> str:
        """Return a number or a text of digits as a 64-bit integer."""

    def concat(self, *texts: str) -> str:
        """Return texts, none of which is null, as one text."""
        return " || ".join(texts)

    def characters(self, text: str) -> str:
        """Return the number of characters of a text."""
        return f"length({text})"

    @abstractmethod
    def text_before(self, text: str, separator: str) -> str:
        """Return the part of a text before the first separator, which it contains."""

    def grouped(self, text: str, characters: int) -> str:  # noqa: ARG002 - for databases that need it
        """Return a text by which to group rows; characters after the first ones may not count."""
        return text

    def quotient(self, dividend: str, divisor: int) -> str:
        """Return the quotient of two integers, without the remainder."""
        return f"{dividend} / {divisor}"

    def compare(
        self, columns: Sequence[str], operator: str, marks: Sequence[str], values: Sequence[Any]
    ) -> tuple[str, Sequence[Any]]:
        """Return the condition that compares columns with values, the first ones first.

        `marks` are the SQL text of a parameter for each value. Also return the values of all
        parameters of the condition. An index in the order of the columns serves it.
        """
        return f"({', '.join(columns)}) {operator} ({', '.join(marks)})", values

    def without_index(self, column: str) -> str:
        """Return a column as an expression for which a planner that chooses badly has no index."""
        return column

    def by_index(self, name: str) -> str:  # noqa: ARG002 - for planners that choose it themselves
        """Return what follows a table in FROM, so that an index of the table is used."""
        return ""

    def old(self, table: str, column: str) -> str:  # noqa: ARG002 - for databases without the alias
        """Return the value of a row that exists, in the assignments of `insert`."""
        return f"kept.{column}"

    def new(self, column: str) -> str:
        """Return the value of a row to insert, in the assignments of `insert`."""
        return f"excluded.{column}"

    def insert(
        self,
        table: str,
        columns: Sequence[str],
        rows: str,
        key: Sequence[str],
        assignments: Mapping[str, str],
    ) -> str:
        """Return the statement that inserts rows, and changes those whose key exists.

        `rows` is a VALUES or a SELECT. Without `assignments`, existing rows stay as they are. A
        column that others depend on is assigned last, because some databases assign from left to
        right.
        """
        sets = ",\n".join(f"{name} = {value}" for name, value in assignments.items())
        action = f"UPDATE SET\n{sets}" if sets else "NOTHING"
        return (
            f"INSERT INTO {table} AS kept ({', '.join(columns)})\n{rows}\n"
            f"ON CONFLICT ({', '.join(key)}) DO {action}"
        )

    @abstractmethod
    def fold(self, kind: Fold, email: str) -> str:
        """Return the expression by which emails are compared, and which an index must contain."""

    def as_recipient(self, email: str) -> str:
        """Return an email, given as text, in the form that the log's index of recipients finds."""
        return self.fold("ascii", email)

    @abstractmethod
    def is_not_ascii(self, text: str) -> str:
        """Return the condition that a text has a character that is not ASCII."""

    def email_is_any(self, kind: Fold, alias: str, column: Column) -> str:
        """Return the condition that a table's email is one of a parameter's, after the fold."""
        is_text = kind in {"ascii", "lower"}
        email = self.fold(kind, f"{alias}.{self.quote(column.name)}")
        return self.any_of(email, self.text_type if is_text else column.type)

    def email_order(self, kind: Fold, alias: str, column: Column) -> tuple[str, str]:
        """Return the expression in whose order an index has emails, and a parameter to compare.

        The value of the parameter is folded already as far as ASCII goes, if the fold is `lower()`.
        """
        is_text = kind in {"ascii", "lower"}
        email = self.fold(kind, f"{alias}.{self.quote(column.name)}")
        return email, self.cast("%s", self.text_type if is_text else column.type)

    @abstractmethod
    def is_email(self, kind: Fold, alias: str, column: Column, address: str) -> str:
        """Return the condition that an email is an address of the log, by the column's index.

        An address in the log is in lower case.
        """

    @abstractmethod
    def is_message_id(self, alias: str, column: Column, message_id: str) -> str:
        """Return the condition that a column is a message id of the log, by the column's index.

        Without a GUID, no row of a column of UUIDs is equal.
        """

    @abstractmethod
    def as_key(self, reference: str, column: Column, key: Column) -> str:
        """Return a reference as a value that can be compared with the key, by the key's index.

        `column` is the reference's.
        """

    @abstractmethod
    def any_of(self, expression: str, type_: str) -> str:
        """Return the condition that an expression is one of a parameter's values (`encode`)."""

    def tenant(self, expression: str, column: Column) -> str:
        """Return the tenant of a row as text, which equals no text of another tenant."""
        return self.text(expression, column)

    def tenant_is_any(self, expression: str, column: Column) -> str:
        """Return the condition that a tenant is one of a parameter's values (`encode`)."""
        return self.any_of(expression, column.type)

    def tenant_parameter(self, column: Column) -> str:
        """Return a parameter for a tenant, to compare with a column."""
        return self.cast("%s", column.type)

    @abstractmethod
    def is_same_text(self, expression: str) -> str:
        """Return the condition that a text has the same characters as the next parameter."""

    def preselected(self, expression: str, select: str) -> str:
        """Return the condition, to follow another one, that an expression has a value of a SELECT.

        It only excludes rows early that are not in the result. It is empty if that saves no time.
        """
        return f" AND {expression} IN ({select})"

    @abstractmethod
    def selected_by(self, expression: str, select: str) -> str:
        """Return the condition that an expression is a value of a SELECT, which is run first."""

    def update_any(
        self, table: str, assignments: str, column: str, type_: str, condition: str = ""
    ) -> str:
        """Return the UPDATE of the rows whose primary key has one of the values of one parameter.

        `condition` is another one that they meet.
        """
        also = f" AND {condition}" if condition else ""
        return f"UPDATE {table} SET {assignments} WHERE {self.any_of(column, type_)}{also}"

    def update_selected(self, table: str, assignments: str, column: str, select: str) -> str:
        """Return the UPDATE of the rows whose column has a value that a SELECT of it returns."""
        return f"UPDATE {table} SET {assignments} WHERE {self.selected_by(column, select)}"

    @abstractmethod
    def epoch(self, time: str) -> str:
        """Return the whole seconds from 1970 to a time, as an integer."""

    @abstractmethod
    def hour(self, time: str) -> str:
        """Return an expression that is equal for times in the same hour of UTC."""

    @abstractmethod
    def hour_as_time(self, hour: str) -> str:
        """Return the start of an hour, given by `hour`, as a time."""

    @abstractmethod
    def select(self, expression: str, column: Column) -> str:
        """Return the expression that selects a key, which has the type of a column."""

    def given(self, name: str, column: Column, *, folds: bool = True) -> str:  # noqa: ARG002 - of most types
        """Return a value of the relation `given`, by its name, to compare with a column.

        If it `folds`, it may be in another form that the column stores.
        """
        return f"given.{name}"

    def first_uuids(self, column: Column, digits: str) -> Sequence[str]:  # noqa: ARG002 - of any column
        """Return the values from which on the order of a column has the UUIDs with these digits.

        As text, a UUID may be stored with hyphens or without. Empty if its order is another one.
        """
        return [digits, hyphenated(digits)]

    @abstractmethod
    def text(self, expression: str, column: Column) -> str:
        """Return the expression that selects a column's value as text: a text, a UUID or a time."""

    @abstractmethod
    def encode(self, values: Iterable[Any]) -> str:
        """Return one parameter that holds many values, for `any_of`."""

    @abstractmethod
    def encode_rows(self, rows: Iterable[Sequence[Any]]) -> Sequence[Any]:
        """Return the parameters of a statement for all rows together, or a list for each row."""

    @abstractmethod
    def encode_entries(self, entries: Sequence[LogEntry]) -> Sequence[Any]:
        """Return the parameters of `Statements.add_entries`: for all together, or for each."""

    def write(self, value: Any) -> Any:  # noqa: ANN401 - any type that a driver accepts
        """Return a value as a single parameter."""
        return value.value if isinstance(value, Enum) else value


def hyphenated(digits: str) -> str:
    """Return the beginning of a UUID with hyphens, given its digits."""
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "-".join(filter(None, parts))


GUID_PATTERN = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
"""The canonical form of a UUID."""


def utc(time: datetime | str | None) -> datetime | None:
    """Return a time from a driver in UTC, or None for null."""
    return None if time is None else read_time(time)


def read_time(time: datetime | str) -> datetime:
    """Return a time from a driver, which is never null, in UTC."""
    return as_utc(datetime.fromisoformat(time) if isinstance(time, str) else time)
