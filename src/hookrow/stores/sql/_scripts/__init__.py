"""The numbered SQL scripts that create and change hookrow's own tables, and their indexes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from hookrow._core.schema import Schema
from hookrow.stores.sql._connections import Connection

LOG_TABLE = "hookrow_notifications"
"""The table of the log that the scripts create; a host may create one with a different name."""

HOURS_TABLE = "hookrow_hours"
META_TABLE = "hookrow_meta"
CHANGE_DATES_TABLE = "hookrow_suppression_changes"
"""The tables that accompany a log, in its database schema (`Schema.side_table`)."""

MIGRATIONS_TABLE = "hookrow_migrations"
"""The table of the revisions of hookrow's tables."""

_BRANCHES: Mapping[str, Callable[[Schema], bool]] = {
    "tables": lambda schema: schema.is_own,
    "log": lambda schema: schema.log == LOG_TABLE,
}
"""By branch: whether a schema needs its tables."""

_ANY = "sqlite"
"""A dialect: the scripts of all have the same revisions."""

_CREATED_TABLE = re.compile(r"CREATE (?:TABLE|(?:UNIQUE )?INDEX \w+\s+ON) (\w+)")
"""The table that a statement creates, or that of the index that it creates."""

_CONCURRENTLY = re.compile(r"CREATE INDEX CONCURRENTLY (\w+)\s+ON (\w+) (.*)", re.DOTALL)

_LONGEST_NAME = 63
"""Bytes of the longest name: PostgreSQL truncates longer ones."""

_PARTITIONS = """
SELECT relid::regclass::text, quote_ident(name),
    quote_ident(nspname) || '.' || quote_ident(name)
FROM (
    SELECT relid, relnamespace, left(relname, %s) || %s AS name
    FROM pg_partition_tree(to_regclass(%s)) JOIN pg_class ON oid = relid WHERE isleaf
) AS leaf JOIN pg_namespace ON pg_namespace.oid = relnamespace
ORDER BY 1
"""

_IS_VALID = (
    "SELECT indisvalid FROM pg_index "
    "WHERE indexrelid = to_regclass(%s) AND indrelid = to_regclass(%s)"
)


@dataclass(frozen=True, slots=True)
class Index:
    """An index that PostgreSQL builds outside of a transaction, without blocking writers."""

    name: str
    table: str
    definition: str

    def build(self, connection: Connection) -> None:
        """Build the index if it does not exist, or if an interruption left it invalid.

        For a partitioned table, an index is built on each partition first, and the table's index
        then consists of these. The connection must commit each statement, without time limits.
        """
        is_partitioned = connection.fetch(
            "SELECT FROM pg_class WHERE oid = to_regclass(%s) AND relkind = 'p'", [self.table]
        )
        if not is_partitioned:
            _build(connection, self.name, self.name, self.table, self.definition)
            return
        suffix = f"_{self.name.rpartition('_')[2]}"
        parameters = [_LONGEST_NAME - len(suffix), suffix, self.table]
        for table, name, qualified in connection.fetch(_PARTITIONS, parameters):
            _build(connection, name, qualified, table, self.definition)
        # There is nothing left to build, but this waits for all writers, and blocks new ones
        # meanwhile.
        connection.execute("BEGIN")
        try:
            connection.execute("SET LOCAL lock_timeout = '1s'")
            connection.execute(
                f"CREATE INDEX IF NOT EXISTS {self.name} ON {self.table} {self.definition}"
            )
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


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

    def statements_of(self, table: str) -> Iterator[str]:
        """Yield the statements that create a table and its indexes."""
        for statement in self.statements():
            match = _CREATED_TABLE.match(statement)
            if match and match[1] == table:
                yield statement

    @property
    def creates(self) -> Collection[str]:
        """The tables that the script creates."""
        return re.findall(r"^CREATE TABLE (\w+)", self.text, re.MULTILINE)

    @property
    def index(self) -> Index | None:
        """The index, if building one outside of a transaction is all that the script does."""
        match = _CONCURRENTLY.fullmatch(next(self.statements()))
        return Index(*match.groups()) if match else None


@cache
def scripts(backend: str) -> Sequence[Script]:
    """Return all scripts for a dialect, by its name, in order."""
    result = []
    for name, text in _files(backend).items():
        revision, _, branch = name.removesuffix(".sql").partition("_")
        if revision.isdigit():
            result.append(Script(revision, branch, text))
    return sorted(result, key=lambda script: script.revision)


def table_of_revisions(backend: str) -> str:
    """Return the statement that creates the table of revisions, unless it exists."""
    return _files(backend)[f"{MIGRATIONS_TABLE}.sql"].strip()


@cache
def _files(backend: str) -> Mapping[str, str]:
    """Return the texts of the files for a dialect, by name."""
    from importlib.resources import files  # noqa: PLC0415 - slow, and few processes create tables

    folder = files(__package__).joinpath(backend)
    return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}


def scripts_of(backend: str, schema: Schema) -> Sequence[Script]:
    """Return the scripts that a schema needs."""
    return [each for each in scripts(backend) if _BRANCHES[each.branch](schema)]


def needed(schema: Schema) -> Sequence[str]:
    """Return the revisions that this version of hookrow needs for a schema, on any database."""
    return [each.revision for each in scripts_of(_ANY, schema)]


def is_known(revision: str) -> bool:
    """Return whether this version of hookrow has the revision."""
    return any(each.revision == revision for each in scripts(_ANY))


def _build(connection: Connection, name: str, qualified: str, table: str, definition: str) -> None:
    rows = connection.fetch(_IS_VALID, [qualified, table])
    if rows and not rows[0][0]:
        connection.execute(f"DROP INDEX CONCURRENTLY {qualified}")
    if not rows or not rows[0][0]:
        connection.execute(f"CREATE INDEX CONCURRENTLY {name} ON {table} {definition}")
