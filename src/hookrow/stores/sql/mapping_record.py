"""The record of which tables the log was written for, in the table hookrow_meta.

It holds the database's own names of the roles' tables, so it is the same however the mapping was
configured. A mapping that differs later is reported and never refused: hosts rename tables.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from hookrow.core.schema import Schema
from hookrow.stores.sql.columns import regclass
from hookrow.stores.sql.connections import Connection, Database
from hookrow.stores.timeouts import limited_to

log = logging.getLogger("hookrow")

NAME = "mapping"
"""The name of the record in hookrow_meta. Its value is JSON: the tables by role."""

SECONDS = 1.0
"""How long the record may take, because the responses of a group wait for it, once."""


def record_mapping(database: Database, schema: Schema) -> None:
    """Record the mapping if there is no record yet; log a warning if there is another one.

    It never raises: the notifications that were recorded before do not depend on it. Two processes
    may do this at the same time, and the first one wins.
    """
    try:
        with limited_to(SECONDS):
            with database.reading() as connection:
                present = mapped_tables(connection, database, schema)
                former = recorded_tables(connection, database, schema)
            if former is None and present is not None:
                with database.transaction() as connection:
                    connection.execute(
                        f"INSERT INTO {_meta(database, schema)} (name, value) VALUES (%s, %s) "
                        "ON CONFLICT (name) DO NOTHING",
                        [NAME, msgspec.json.encode(present).decode()],
                    )
    except Exception as error:  # noqa: BLE001 - a missing table or privilege, or no time
        log.warning(
            "The mapping is not recorded in %s: %s", schema.beside_log("hookrow_meta"), error
        )
        return
    if difference := describe_difference(former, present, schema):
        log.warning(difference)


def mapping_difference(database: Database, schema: Schema) -> str | None:
    """Return a sentence on how the mapping differs from the record; None if it does not.

    Raises a `StoreError`.
    """
    if schema.log is None:
        return None
    with database.reading() as connection:
        present = mapped_tables(connection, database, schema)
        return describe_difference(recorded_tables(connection, database, schema), present, schema)


def mapped_tables(
    connection: Connection, database: Database, schema: Schema
) -> Mapping[str, str] | None:
    """Return the database's own name of each role's table; None if one does not exist.

    On PostgreSQL it has the table's schema, whether the mapping has it or not.
    """
    found = {
        role: _own_name(connection, database, each.table) for role, each in schema.roles.items()
    }
    named = {role: table for role, table in found.items() if table is not None}
    return named if len(named) == len(found) else None


def recorded_tables(
    connection: Connection, database: Database, schema: Schema
) -> Mapping[str, str] | None:
    """Return the tables by role as they were recorded; None if they were not.

    A record that somebody made unreadable has no table.
    """
    sql = f"SELECT value FROM {_meta(database, schema)} WHERE name = %s"
    for (value,) in connection.fetch(sql, [NAME]):
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(value, type=dict[str, str])
        return {}
    return None


def describe_difference(
    former: Mapping[str, str] | None, present: Mapping[str, str] | None, schema: Schema
) -> str | None:
    """Return a sentence that names the tables which differ; None if none does."""
    if former is None or present is None or former == present:
        return None
    changed = [role for role in {**former, **present} if former.get(role) != present.get(role)]
    before, now = (
        ", ".join(f"{role} in {tables.get(role, 'no table')}" for role in changed)
        for tables in (former, present)
    )
    meta = schema.beside_log("hookrow_meta")
    return (
        f"The log was written for other tables than those mapped now: {before}; now {now}. If that "
        f"is meant, run: DELETE FROM {meta} WHERE name = '{NAME}'"
    )


def _own_name(connection: Connection, database: Database, table: str) -> str | None:
    dialect = database.dialect
    if dialect.name == "postgresql":
        sql = (
            "SELECT concat(nspname, '.', relname) FROM pg_class AS c "
            "JOIN pg_namespace AS n ON n.oid = relnamespace WHERE c.oid = to_regclass(%s)"
        )
        found = connection.fetch(sql, [regclass(dialect, table)])
        return str(found[0][0]) if found else None
    namespace, _, bare = table.rpartition(".")
    namespace = namespace.lower() or "main"
    sql = (
        f"SELECT name FROM {dialect.quote(namespace)}.sqlite_master "
        "WHERE type IN ('table', 'view') AND name = %s COLLATE NOCASE"
    )
    found = connection.fetch(sql, [bare])
    if not found:
        return None
    return str(found[0][0]) if namespace == "main" else f"{namespace}.{found[0][0]}"


def _meta(database: Database, schema: Schema) -> str:
    return database.dialect.table(schema.beside_log("hookrow_meta"))
