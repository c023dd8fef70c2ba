"""The record of the mappings under which the log was written, in the table hookrow_meta.

A mapping consists of the database's own names for the roles' tables, so it does not depend on how
it was configured, of the conditions (`where`) that hide rows, and of the columns of tenants. The
names of tables in the schema of the log do not contain the schema, so it may be renamed. Two
mappings may find different rows for one notification: if the receiver of one tenant refuses a
complaint, another tenant's receiver may find a person with the same email. Therefore, nothing is
retried or replayed under a mapping other than the log's, nor if the log has several. Notifications
that arrive are recorded all the same, because hosts rename tables.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from hookrow._core.schema import Scalar, Schema
from hookrow.stores._errors import SchemaChanged
from hookrow.stores._timeouts import limited_to
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._connections import Connection, Database
from hookrow.stores.sql._role_tables import RoleTables
from hookrow.stores.sql._scripts import META_TABLE

logger = logging.getLogger("hookrow")

RECORD_NAME = "mapping"
"""The name of the record in hookrow_meta. Its value is a JSON array of mappings."""

REMEDY = (
    "Nothing in the log is retried or replayed until you correct the mapping or, if it is right, "
    "stop all receivers with the former one, and run `hookrow replay --accept-mapping`, with "
    "--config, --app or --database-url if you use them. Receivers with different mappings need "
    "separate logs, each in its own database schema."
)
"""How to continue under a different mapping."""

MAPPING_TIMEOUT = 1.0
"""Seconds that reading and writing the record may take: the responses of a group wait for it."""


class MappedRole(msgspec.Struct, frozen=True, omit_defaults=True):
    """A role's table, by the database's own name, and the values of columns that select its rows.

    The name includes the schema, unless it is that of the log. None stands for null. `tenant` is
    the column with the tenant of a row, or empty.
    """

    table: str
    where: Mapping[str, Scalar] = {}
    tenant: str = ""

    def __str__(self) -> str:
        """Describe the role, for a sentence."""
        where = f" where {msgspec.json.encode(self.where).decode()}" if self.where else ""
        tenant = f" with the tenant in {self.tenant}" if self.tenant else ""
        return f"{self.table}{where}{tenant}"


MappedTables: TypeAlias = Mapping[str, MappedRole]
"""A mapping: the tables by role."""


class MappingRecord:
    """The record beside the log of a schema, whose SQL is `tables`.

    If several processes add their mappings at the same time, it has all of them. The methods may
    raise a `StoreError`.
    """

    def __init__(self, database: Database, tables: RoleTables) -> None:
        self._database, self._tables = database, tables
        self._schema = tables.schema
        self._table = database.dialect.table(self._schema.side_table(META_TABLE))

    def claim(self) -> bool:
        """Add the present mapping, and log a warning if the record has others.

        Returns False if a mapped table is missing. Without the record's table, log a warning
        instead. Raises a `StoreError` if the record cannot be written now: an entry that is written
        all the same could be recorded later by a receiver with another mapping.
        """
        try:
            with limited_to(MAPPING_TIMEOUT):
                present = self._present()
                if present is None:
                    return False
                recorded = self._read_first()
                if present not in recorded:
                    recorded = self._add(present)
        except SchemaChanged as error:
            logger.warning(
                "The mapping is not recorded in %s: %s",
                self._schema.side_table(META_TABLE),
                error,
            )
            return True
        if difference := _describe_difference(recorded, present):
            logger.warning(f"{difference} {REMEDY}")
        return True

    def difference(self) -> str | None:
        """Return a sentence that describes how the record differs from the mapping, or None."""
        return _describe_difference(self._read_first(), self._present())

    def accept(self) -> str:
        """Replace the record with the present mapping; return its tables by role, as text.

        The tables must exist.
        """
        present = self._present() or {}
        with self._database.transaction() as connection:
            self._write(connection, [present])
        return _format(present, present)

    def _present(self) -> MappedTables | None:
        """Return the present mapping; None if one of its tables does not exist."""
        with self._database.reading() as connection:
            return mapped_tables(connection, self._database, self._tables)

    def _read_first(self) -> Sequence[MappedTables]:
        with self._database.reading() as connection:
            return self._read(connection)

    def _add(self, present: MappedTables) -> Sequence[MappedTables]:
        """Add the present mapping to the record, whose row is locked meanwhile."""
        with self._database.transaction() as connection:
            connection.execute(self._insert({}), [RECORD_NAME, "[]"])
            recorded = self._read(connection, self._database.dialect.for_update)
            if present not in recorded:
                recorded = [*recorded, present]
                self._write(connection, recorded)
        return recorded

    def _read(self, connection: Connection, lock: str = "") -> Sequence[MappedTables]:
        """Return the recorded mappings. An unreadable record is read as one without tables."""
        sql = f"SELECT value FROM {self._table} WHERE name = %s {lock}"
        for (value,) in connection.fetch(sql, [RECORD_NAME]):
            try:
                return msgspec.json.decode(value, type=list[dict[str, MappedRole]])
            except (msgspec.DecodeError, UnicodeError):
                return [{}]
        return []

    def _write(self, connection: Connection, mappings: Sequence[MappedTables]) -> None:
        replace = self._insert({"value": self._database.dialect.new("value")})
        connection.execute(replace, [RECORD_NAME, msgspec.json.encode(mappings).decode()])

    def _insert(self, assignments: Mapping[str, str]) -> str:
        return self._database.dialect.insert(
            self._table, ["name", "value"], "VALUES (%s, %s)", ["name"], assignments
        )


def mapped_tables(
    connection: Connection, database: Database, tables: RoleTables
) -> MappedTables | None:
    """Return the database's own names for the roles' tables; None if one does not exist.

    Those beside the log have no schema: they may be restored together in another one, or on MariaDB
    in another database.
    """
    mapped: dict[str, MappedRole] = {}
    catalogue = catalogue_of(connection, database.dialect)
    log = catalogue.own_name(tables.schema.log) if tables.schema.log else None
    for name, role in tables.schema.roles.items():
        own = catalogue.own_name(role.table)
        if own is None:
            return None
        is_beside = log is not None and log.schema == own.schema
        tenant = tables.tenants[name].name if name in tables.tenants else ""
        table = own.table if is_beside else f"{own.schema}.{own.table}"
        mapped[name] = MappedRole(table, tables.selecting(name), tenant)
    return mapped


def conditions_key(schema: Schema) -> str:
    """Return a text that is the same for equal conditions and tenants, and empty without any.

    The conditions are those of `where`, and the tenants the names of their columns. An entry of the
    spool may arrive while the database, which knows the names of the tables, cannot be reached.
    Tables may be spelled in several ways, or renamed, so they are not a part of it.
    """
    conditions: dict[str, Mapping[str, Scalar]] = {
        name: role.where for name, role in schema.roles.items() if role.where
    }
    tenants = {name: role.tenant for name, role in schema.roles.items() if role.tenant}
    if tenants:
        conditions["tenant"] = tenants
    return msgspec.json.encode(conditions, order="sorted").decode() if conditions else ""


def _describe_difference(
    recorded: Sequence[MappedTables], present: MappedTables | None
) -> str | None:
    """Return a sentence that names the roles that differ; None if all mappings are the same."""
    others = [each for each in recorded if each != present]
    if present is None or not others:
        return None
    changed = [
        role
        for role in {**others[0], **present}
        if any(each.get(role) != present.get(role) for each in others)
    ]
    formatted = "; or ".join(_format(each, changed) for each in others)
    return (
        "The log was written for tables other than those mapped now: "
        f"{formatted}; now {_format(present, changed)}."
    )


def _format(tables: MappedTables, roles: Iterable[str]) -> str:
    return ", ".join(f"{role} in {tables.get(role, 'no table')}" for role in roles)
