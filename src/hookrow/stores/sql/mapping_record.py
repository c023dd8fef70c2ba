"""The record of the tables that the log was written for, in the table hookrow_meta.

It consists of the database's own names for the roles' tables, so it does not depend on how the
mapping was configured. A different mapping is reported but not rejected, because hosts rename
tables; only `hookrow replay` refuses to run under it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec

from hookrow.core.schema import Schema
from hookrow.stores.sql.columns import own_name
from hookrow.stores.sql.connections import Connection, Database
from hookrow.stores.timeouts import limited_to

log = logging.getLogger("hookrow")

NAME = "mapping"
"""The name of the record in hookrow_meta. Its value is a JSON object: the tables by role."""

REMEDY = (
    "Correct the mapping or, if it is right, run `hookrow replay --accept-mapping`, with --config, "
    "--app or --database-url if you use them."
)
"""How to continue under a different mapping."""

SECONDS = 1.0
"""The time limit for writing the record: the responses of the first group wait for it."""


def record_mapping(database: Database, schema: Schema) -> None:
    """Record the mapping, or log a warning if a different one is recorded already.

    Never raises: the notifications, which are committed by then, do not depend on the record. If
    several processes call this at the same time, the first one records the mapping.
    """
    try:
        with limited_to(SECONDS):
            with database.reading() as connection:
                present = mapped_tables(connection, database, schema)
                former = _recorded_tables(connection, database, schema)
            if former is None and present is not None:
                with database.transaction() as connection:
                    _save(connection, database, schema, present, "DO NOTHING")
    except Exception as error:  # noqa: BLE001 - a missing table or privilege, or no time
        log.warning(
            "The mapping is not recorded in %s: %s", schema.beside_log("hookrow_meta"), error
        )
        return
    if difference := _describe_difference(former, present):
        log.warning(f"{difference} {REMEDY}")


def mapping_difference(database: Database, schema: Schema) -> str | None:
    """Return a sentence that describes how the mapping differs from the record, or None.

    Raises a `StoreError`.
    """
    if schema.log is None:
        return None
    with database.reading() as connection:
        present = mapped_tables(connection, database, schema)
        return _describe_difference(_recorded_tables(connection, database, schema), present)


def accept_mapping(database: Database, schema: Schema) -> str:
    """Replace the record with the present mapping; return its tables by role, as text.

    Raises a `StoreError`. The tables must exist.
    """
    with database.transaction() as connection:
        present = mapped_tables(connection, database, schema) or {}
        _save(connection, database, schema, present, "DO UPDATE SET value = excluded.value")
    return _format(present, present)


def mapped_tables(
    connection: Connection, database: Database, schema: Schema
) -> Mapping[str, str] | None:
    """Return the database's own name for each role's table; None if one does not exist."""
    names = {
        role: own_name(connection, database.dialect, each.table)
        for role, each in schema.roles.items()
    }
    named = {role: table for role, table in names.items() if table is not None}
    return named if len(named) == len(names) else None


def _save(
    connection: Connection,
    database: Database,
    schema: Schema,
    tables: Mapping[str, str],
    conflict: str,
) -> None:
    """Write the record; `conflict` is the SQL for a record that exists."""
    connection.execute(
        f"INSERT INTO {_meta(database, schema)} (name, value) VALUES (%s, %s) "
        f"ON CONFLICT (name) {conflict}",
        [NAME, msgspec.json.encode(tables).decode()],
    )


def _recorded_tables(
    connection: Connection, database: Database, schema: Schema
) -> Mapping[str, str] | None:
    """Return the recorded tables by role; None if there is no record.

    An unreadable record is read as one without tables.
    """
    sql = f"SELECT value FROM {_meta(database, schema)} WHERE name = %s"
    for (value,) in connection.fetch(sql, [NAME]):
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(value, type=dict[str, str])
        return {}
    return None


def _describe_difference(
    former: Mapping[str, str] | None, present: Mapping[str, str] | None
) -> str | None:
    """Return a sentence that names the tables that differ; None if all are the same."""
    if former is None or present is None or former == present:
        return None
    changed = [role for role in {**former, **present} if former.get(role) != present.get(role)]
    return (
        "The log was written for tables other than those mapped now: "
        f"{_format(former, changed)}; now {_format(present, changed)}."
    )


def _format(tables: Mapping[str, str], roles: Iterable[str]) -> str:
    return ", ".join(f"{role} in {tables.get(role, 'no table')}" for role in roles)


def _meta(database: Database, schema: Schema) -> str:
    return database.dialect.table(schema.beside_log("hookrow_meta"))
