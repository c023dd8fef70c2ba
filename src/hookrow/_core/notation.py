"""The forms in which users write a mapping: Python, hookrow.toml, Django's settings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from hookrow._models import UNKNOWN_ATTRIBUTE

_INDENT = "    "
_BARE_KEY = re.compile(r"[\w-]+", re.ASCII)
"""The keys that TOML allows without quotes."""


class Notation(Enum):
    """The form of a mapping, in which messages show the lines to write."""

    PYTHON = "Python"
    TOML = "hookrow.toml"
    DJANGO = "Django's settings"

    def entry(self, key: str, value: object) -> str:
        """Return a key with its value, as in the columns of a role."""
        if self is Notation.TOML:
            name = key if _BARE_KEY.fullmatch(key) else _quoted(key)
            return f"{name} = {self.value_of(value)}"
        return f"{_quoted(key)}: {self.value_of(value)}"

    def value_of(self, value: object) -> str:
        """Return a value: a text, a number, a flag, None, or a dict of such values."""
        if isinstance(value, Mapping):
            entries = ", ".join(self.entry(str(key), each) for key, each in value.items())
            return f"{{ {entries} }}" if self is Notation.TOML else f"{{{entries}}}"
        if isinstance(value, str):
            return _quoted(value)
        if self is Notation.TOML:  # which has no null
            return "false" if value is None else str(value).lower()
        return repr(value)

    def option(self, key: str, value: object) -> str:
        """Return an option of a role, as in the middle of a sentence."""
        if self is Notation.PYTHON:
            return f"{key}={self.value_of(value)}"
        return self.entry(key, value)

    def role(
        self,
        name: str,
        table: str,
        columns: Mapping[str, str | None],
        options: Mapping[str, object],
    ) -> str:
        """Return the lines that define a role."""
        return "\n".join(self._role(name, table, columns, options))

    def _role(
        self,
        name: str,
        table: str,
        columns: Mapping[str, str | None],
        options: Mapping[str, object],
    ) -> Iterator[str]:
        entries = [self.entry(key, column) for key, column in columns.items()]
        match self:
            case Notation.TOML:
                yield f"[tables.{name}]"
                yield self.entry("table", table)
                yield from (self.entry(key, value) for key, value in options.items())
                yield ""
                yield f"[tables.{name}.columns]"
                yield from entries
            case Notation.PYTHON:
                yield f"{name}=Role("
                yield f"{_INDENT}{_quoted(table)},"
                yield f"{_INDENT}{{"
                yield from (f"{_INDENT * 2}{each}," for each in entries)
                yield f"{_INDENT}}},"
                yield from (
                    f"{_INDENT}{self.option(key, value)}," for key, value in options.items()
                )
                yield "),"
            case Notation.DJANGO:
                yield f"{_quoted(name)}: {{"
                yield f"{_INDENT}{self.entry('table', table)},"
                yield f'{_INDENT}"columns": {{'
                yield from (f"{_INDENT * 2}{each}," for each in entries)
                yield f"{_INDENT}}},"
                yield from (f"{_INDENT}{self.entry(key, value)}," for key, value in options.items())
                yield "},"

    @property
    def separator(self) -> str:
        """The line breaks between the lines of two roles."""
        return "\n\n" if self is Notation.TOML else "\n"

    @property
    def place(self) -> str:
        """Where the lines of `role` belong, for the middle of a sentence."""
        return {
            Notation.PYTHON: "in the Schema",
            Notation.TOML: "in hookrow.toml",
            Notation.DJANGO: "in HOOKROW['TABLES']",
        }[self]


@dataclass(frozen=True)
class ModelNotation:
    """The form of the role of a model: `Role.of(Person, email=Person.address)`.

    `attributes` are those of the model, by column. Any other column is one that the user has to
    choose.
    """

    model: str
    attributes: Mapping[str, str]

    def entry(self, key: str, column: str | None) -> str:
        """Return an argument with the attribute of a column, or None for no column."""
        return f"{key}={None if column is None else self._attribute(column)}"

    def option(self, key: str, value: Any) -> str:  # noqa: ANN401 - of a role
        """Return an option of a role, in which attributes stand for columns, too."""
        if key in {"tenant", "touch"}:
            return self.entry(key, value)
        if key == "where":
            conditions = (
                f"{self._attribute(column)}: {Notation.PYTHON.value_of(each)}"
                for column, each in value.items()
            )
            return f"where={{{', '.join(conditions)}}}"
        return Notation.PYTHON.option(key, value)

    def role(
        self,
        name: str,
        table: str,
        columns: Mapping[str, str | None],
        options: Mapping[str, object],
    ) -> str:
        """Return the lines that define the role; the model determines its table."""
        del table
        arguments = [
            self.model,
            *(self.entry(key, column) for key, column in columns.items()),
            *(self.option(key, value) for key, value in options.items()),
        ]
        return "\n".join([f"{name}=Role.of(", *(f"{_INDENT}{each}," for each in arguments), "),"])

    def _attribute(self, column: str) -> str:
        return f"{self.model}.{self.attributes.get(column, UNKNOWN_ATTRIBUTE)}"


def _quoted(text: str) -> str:
    """Return a text in the double quotes of Python and TOML."""
    return json.dumps(text, ensure_ascii=False)
