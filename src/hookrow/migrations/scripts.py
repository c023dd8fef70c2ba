"""The numbered SQL scripts that create and change hookrow's own tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from hookrow.core.schema import Schema

LOG = "hookrow_notifications"
"""The table of the log that the scripts create; a host may create one with a different name."""

_BRANCHES: Mapping[str, Callable[[Schema], bool]] = {
    "tables": lambda schema: schema.ours,
    "log": lambda schema: schema.log == LOG,
}
"""By branch: whether a schema needs its tables."""

_CONCURRENTLY = re.compile(r"CREATE INDEX CONCURRENTLY (\w+)\s+ON (\w+) (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Index:
    """An index that PostgreSQL builds outside of a transaction, without blocking writers."""

    name: str
    table: str
    definition: str


@dataclass(frozen=True, slots=True)
class Script:
    """A script, and the revision of the tables after it."""

    revision: str
    branch: str
    text: str

    def statements(self) -> Iterator[str]:
        """Yield the statements without comments. A semicolon at the end of a line ends each."""
        lines = (line for line in self.text.splitlines() if not line.startswith("--"))
        for statement in "\n".join(lines).split(";\n"):
            if stripped := statement.strip().removesuffix(";"):
                yield stripped

    @property
    def creates(self) -> Collection[str]:
        """The tables that the script creates."""
        return re.findall(r"^CREATE TABLE (\w+)", self.text, re.MULTILINE)

    @property
    def changes(self) -> Collection[str]:
        """The tables of earlier scripts that the script changes."""
        tables = re.findall(r"^ALTER TABLE (\w+)|^ +ON (\w+)", self.text, re.MULTILINE)
        return {altered or indexed for altered, indexed in tables} - {*self.creates}

    @property
    def index(self) -> Index | None:
        """The index, if building one outside of a transaction is all that the script does."""
        match = _CONCURRENTLY.fullmatch(next(self.statements()))
        return Index(*match.groups()) if match else None


@cache
def scripts(backend: str) -> Sequence[Script]:
    """Return all scripts for "postgresql" or "sqlite", in order."""
    result = []
    for file in files(__package__).joinpath(backend).iterdir():
        revision, _, branch = file.name.removesuffix(".sql").partition("_")
        result.append(Script(revision, branch, file.read_text(encoding="utf-8")))
    return sorted(result, key=lambda script: script.revision)


def scripts_of(backend: str, schema: Schema) -> Sequence[Script]:
    """Return the scripts that a schema needs."""
    return [each for each in scripts(backend) if _BRANCHES[each.branch](schema)]


def needed(schema: Schema) -> Sequence[str]:
    """Return the revisions that this version of hookrow needs for a schema."""
    return [each.revision for each in scripts_of("sqlite", schema)]


def is_known(revision: str) -> bool:
    """Return whether this version of hookrow has the revision."""
    return any(each.revision == revision for each in scripts("sqlite"))
