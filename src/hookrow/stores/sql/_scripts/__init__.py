"""The numbered SQL scripts that create and change hookrow's own tables, and their indexes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

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

UPGRADES_TABLE = "hookrow_upgrades"
"""The table of interrupted upgrades, in databases that commit each statement which changes tables.

It has the number of the last statement that has begun, by the revision of its script.
"""

REVISIONS: Mapping[str, str] = {"0001": "tables", "0002": "log"}
"""All revisions in order, each with its branch. Every database has a script `REVISION_BRANCH.sql`
for each."""

_BRANCHES: Mapping[str, Callable[[Schema], bool]] = {
    "tables": lambda schema: schema.is_own,
    "log": lambda schema: schema.log == LOG_TABLE,
}
"""By branch: whether a schema needs its tables."""

_CHANGED_TABLE = re.compile(
    r"(?:CREATE (?:TABLE|(?:UNIQUE )?INDEX \w+\s+ON)|INSERT IGNORE INTO) (\w+)"
)
"""The table that a statement creates, or whose index or rows it creates."""

_CREATED_TABLE = re.compile(r"CREATE TABLE (\w+)")

_EFFECTS = (
    (_CREATED_TABLE, "tables", ("table_name",)),
    (
        re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+)\s+ON (\w+)"),
        "statistics",
        ("index_name", "table_name"),
    ),
    (re.compile(r"ALTER TABLE (\w+)\s+ADD COLUMN (\w+)"), "columns", ("table_name", "column_name")),
)
"""The names in statements, the view of `information_schema` with what each creates, and the columns
with these names there."""

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
        """Yield the statements that create a table, its indexes and its first rows."""
        for statement in self.statements():
            match = _CHANGED_TABLE.match(statement)
            if match and match[1] == table:
                yield statement

    @property
    def creates(self) -> Collection[str]:
        """The tables that the script creates."""
        return self.creates_after(0)

    def creates_after(self, number: int) -> Collection[str]:
        """Return the tables that the statements after the first ones create."""
        matches = map(_CREATED_TABLE.match, islice(self.statements(), number, None))
        return [match[1] for match in matches if match]

    @property
    def index(self) -> Index | None:
        """The index, if building one outside of a transaction is all that the script does."""
        match = _CONCURRENTLY.fullmatch(next(self.statements()))
        return Index(*match.groups()) if match else None


@cache
def scripts(backend: str) -> Sequence[Script]:
    """Return all scripts for a dialect, by its name, in order."""
    texts = _files(backend)
    return [
        Script(revision, branch, texts[f"{revision}_{branch}.sql"])
        for revision, branch in REVISIONS.items()
    ]


def table_of_revisions(backend: str) -> str:
    """Return the statement that creates the table of revisions, unless it exists."""
    return _files(backend)[f"{MIGRATIONS_TABLE}.sql"].strip()


def table_of_upgrades(backend: str) -> str:
    """Return the statement that creates the table of interrupted upgrades, unless it exists."""
    return _files(backend)[f"{UPGRADES_TABLE}.sql"].strip()


def has_run(connection: Connection, statement: str) -> bool:
    """Return whether a statement took effect, by what it creates: a table, an index or a column.

    Returns False for any other statement, which must be one that can run twice. The database is one
    that commits each statement which changes tables.
    """
    for pattern, view, columns in _EFFECTS:
        if match := pattern.match(statement):
            named = " AND ".join(f"{column} = %s" for column in columns)
            sql = f"SELECT 1 FROM information_schema.{view} WHERE table_schema = database()"
            return bool(connection.fetch(f"{sql} AND {named}", match.groups()))
    return False


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
    """Return the revisions that this version of hookrow needs for a schema."""
    return [revision for revision, branch in REVISIONS.items() if _BRANCHES[branch](schema)]


def is_known(revision: str) -> bool:
    """Return whether this version of hookrow has the revision."""
    return revision in REVISIONS


def _build(connection: Connection, name: str, qualified: str, table: str, definition: str) -> None:
    rows = connection.fetch(_IS_VALID, [qualified, table])
    if rows and not rows[0][0]:
        connection.execute(f"DROP INDEX CONCURRENTLY {qualified}")
    if not rows or not rows[0][0]:
        connection.execute(f"CREATE INDEX CONCURRENTLY {name} ON {table} {definition}")
