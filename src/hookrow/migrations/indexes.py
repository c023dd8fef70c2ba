"""Builds an index on PostgreSQL without blocking writers (CREATE INDEX CONCURRENTLY)."""

from __future__ import annotations

from hookrow.migrations.scripts import Index
from hookrow.stores.sql.connections import Connection

_LONGEST_NAME = 63
"""In bytes; PostgreSQL truncates longer names."""

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


def build(connection: Connection, index: Index) -> None:
    """Build an index if it does not exist, or if an interruption left it invalid.

    For a partitioned table, an index is built on each partition first, and the table's index then
    consists of these. The connection must commit each statement, without time limits.
    """
    is_partitioned = connection.fetch(
        "SELECT FROM pg_class WHERE oid = to_regclass(%s) AND relkind = 'p'", [index.table]
    )
    if not is_partitioned:
        _build(connection, index.name, index.name, index.table, index.definition)
        return
    suffix = f"_{index.name.rpartition('_')[2]}"
    parameters = [_LONGEST_NAME - len(suffix), suffix, index.table]
    for table, name, qualified in connection.fetch(_PARTITIONS, parameters):
        _build(connection, name, qualified, table, index.definition)
    # There is nothing left to build, but this waits for all writers, and blocks new ones meanwhile.
    connection.execute("BEGIN")
    try:
        connection.execute("SET LOCAL lock_timeout = '1s'")
        connection.execute(
            f"CREATE INDEX IF NOT EXISTS {index.name} ON {index.table} {index.definition}"
        )
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _build(connection: Connection, name: str, qualified: str, table: str, definition: str) -> None:
    rows = connection.fetch(_IS_VALID, [qualified, table])
    if rows and not rows[0][0]:
        connection.execute(f"DROP INDEX CONCURRENTLY {qualified}")
    if not rows or not rows[0][0]:
        connection.execute(f"CREATE INDEX CONCURRENTLY {name} ON {table} {definition}")
