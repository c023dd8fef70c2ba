"""PostgreSQL's catalogue."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from hookrow.errors import SchemaMismatch
from hookrow.stores.sql._catalogues.base import (
    DENIED,
    FLAGS,
    TOO_ISOLATED,
    Catalogue,
    Listing,
    Lock,
    Lookup,
    OwnName,
    Relation,
    Uniqueness,
    Writers,
    flag_conditions,
)
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._connections import Row
from hookrow.stores.sql._dialects.postgresql import NAIVE
from hookrow.stores.sql._role_tables import RoleTables


class PostgresCatalogue(Catalogue):
    """PostgreSQL's system catalogues: its manual, chapter 53.

    A domain counts as the type that it is based on, and a view as the table behind it.
    """

    def tables(self) -> Collection[str]:
        """Return the names, with the schema of those that the search path does not find."""
        rows = self.connection.fetch(_POSTGRES_TABLES)
        return [f"{schema}.{name}" if schema else name for schema, name in rows]

    def own_name(self, table: str) -> OwnName | None:
        """Return the name as it was created, without quotes."""
        rows = self.connection.fetch(_OWN_NAME, [self.statement_name(table)])
        return OwnName(*rows[0]) if rows else None

    def relation(self, table: str) -> Relation:
        """Decide by the kind of the relation."""
        sql = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)"
        ((kind,),) = self.connection.fetch(sql, [self.statement_name(table)])
        return {"r": Relation.TABLE, "p": Relation.PARTITIONED}.get(kind, Relation.VIEW)

    def named(self, table: str) -> list[str]:
        """Return the name for `to_regclass`."""
        return [self.statement_name(table)]

    def columns(self, table: str) -> Mapping[str, Column]:
        """Return the columns with their types, and the privileges that the user lacks."""
        rows = self.connection.fetch(_POSTGRES_COLUMNS, [self.statement_name(table)])
        return {row[0]: _postgres_column(row) for row in rows}

    def is_unique(self, table: str, *names: str) -> bool:
        """Return whether ON CONFLICT can name the columns. An index of a view is not known."""
        values = [self.statement_name(table), self.dialect.encode(sorted(names))]
        return bool(self.connection.fetch(_IS_UNIQUE, values))

    def primary_key(self, table: str) -> Sequence[str]:
        """Return the columns in the order of the key."""
        rows = self.connection.fetch(_PRIMARY_KEY, [self.statement_name(table)])
        return [name for (name,) in rows]

    def examine_key(
        self, tables: RoleTables, role: str, key: Sequence[str], names: Sequence[str]
    ) -> tuple[Uniqueness, str | None]:
        """Let the planner prove whether a partial index has all visible rows."""
        encode = self.dialect.encode
        table = self.statement_name(tables.schema.roles[role].table)
        ((cannot, is_inherited),) = self.connection.fetch(_RELATION, [encode(names), table])
        readable = [*names, *(column.name for column, _ in tables.hiding[role])]
        partial = None
        found = self.connection.fetch(_INDEXES, [encode(readable), table, encode(names)])
        for index, predicate, is_readable in found:
            if predicate is None or (
                is_readable and self._is_implied(tables, role, key, predicate)
            ):
                return Uniqueness.UNDECLARABLE if is_inherited else Uniqueness.DECLARED, None
            partial = partial or index
        return Uniqueness.UNDECLARABLE if cannot else Uniqueness.MISSING, partial

    def _is_implied(
        self, tables: RoleTables, role: str, key: Sequence[str], predicate: str
    ) -> bool:
        """Return whether the planner proves that a partial index has all visible rows.

        Its plan for the visible rows without the predicate then reads no table.
        """
        is_key = "".join(f" AND {tables.column(role, name)} IS NOT NULL" for name in key)
        predicate = predicate.replace("%", "%%")
        # By default, the planner does not look for contradictions in the conditions on a table.
        fetch = self.connection.fetch
        ((former,),) = fetch("SELECT current_setting('constraint_exclusion')")
        fetch(_SET_EXCLUSION, ["on"])
        plan = self.plan(
            f"SELECT FROM {tables.table(role)} WHERE ({predicate}) IS NOT TRUE{is_key}"
            f"{tables.visible(role)}{flag_conditions(tables, role, FLAGS)}"
        )
        fetch(_SET_EXCLUSION, [former])
        return any("One-Time Filter: false" in line for line in plan)

    def can_combine(self, tables: Sequence[str]) -> bool:
        """Return whether they are several tables, none of them a view.

        One statement cannot change a row twice, by the names of two tables.
        """
        names = [self.statement_name(each) for each in tables]
        ((found, no_view),) = self.connection.fetch(_DISJOINT, [self.dialect.encode(names)])
        return bool(found == len(tables) and no_view)

    def is_updatable(self, table: str, names: Collection[str]) -> bool:  # noqa: ARG002 - of rows, not columns
        """Consider rules, and policies that allow no UPDATE."""
        sql = "SELECT pg_relation_is_updatable(to_regclass(%s), true) & %s"  # rules count
        named = self.statement_name(table)
        ((bit,),) = self.connection.fetch(sql, [named, _UPDATE])
        ((ignored, hidden),) = self.connection.fetch(_WITHOUT_EFFECT, [named])
        if hidden:
            raise SchemaMismatch(
                f"Row-level security does not let the user change any row of {table!r}: "
                "CREATE POLICY ... FOR UPDATE, or connect as a user that may bypass it."
            )
        return bool(bit) and not ignored

    def updatable_view(
        self, view: str, select: str, table: str, key: str, names: Sequence[str]
    ) -> Sequence[str]:
        """Add a trigger and its function, because a view with a join is not updatable."""
        name = self.statement_name(view)
        namespace, dot, bare = view.rpartition(".")
        function = self.statement_name(f"{namespace}{dot}hookrow_{bare}")
        return [
            *super().updatable_view(view, select, table, key, names),
            (
                f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ "
                f"BEGIN {self._update_of_view(table, key, names)}; RETURN NEW; END $$"
            ),
            (
                f"CREATE TRIGGER {self.identifier(f'hookrow_{bare}')} INSTEAD OF UPDATE ON {name} "
                f"FOR EACH ROW EXECUTE FUNCTION {function}()"
            ),
        ]

    def lacking(self, table: str, privileges: Collection[str]) -> Sequence[str]:
        """Return those on the whole table; all of them if there is no such table."""
        sql = (
            "SELECT p FROM unnest(%s::text[]) AS p "
            "WHERE NOT coalesce(has_table_privilege(to_regclass(%s), p), false)"
        )
        values = [self.dialect.encode(privileges), self.statement_name(table)]
        return [privilege for (privilege,) in self.connection.fetch(sql, values)]

    def check_namespace(self, table: str) -> None:
        """Check the privilege USAGE on the schema in the name of the table."""
        if namespace := table.rpartition(".")[0]:
            self._check_usage("schema", _UNUSABLE_SCHEMA, namespace)

    def check_default_namespace(self) -> None:
        """Check the privilege USAGE on `public`, if the user may use no schema of search_path."""
        ((first,),) = self.connection.fetch("SELECT current_schema()")
        if first is None:
            self._check_usage("schema", _UNUSABLE_SCHEMA, "public")

    def check_sequence(self, table: str) -> None:
        """Check for USAGE or UPDATE, of which `nextval` needs one."""
        self._check_usage("sequence", _UNUSABLE_SEQUENCE, self.statement_name(table))

    def _check_usage(self, kind: str, unusable: str, name: str) -> None:
        """Raise for each object that the query `unusable` returns, and the user may not use."""
        for object_, user in self.connection.fetch(unusable, [name]):
            raise SchemaMismatch(
                f"{DENIED}{kind} {object_}: GRANT USAGE ON {kind.upper()} {object_} TO {user}"
            )

    def check_creation(self) -> None:
        """Check the privilege CREATE on the first schema of the search path."""
        ((schema, user, may),) = self.connection.fetch(
            "SELECT quote_ident(current_schema()), quote_ident(current_user), "
            "has_schema_privilege(current_schema(), 'CREATE')"
        )
        if may is False:  # None if the search_path names no schema that the user may use
            raise SchemaMismatch(
                f"{DENIED}schema {schema}: GRANT CREATE ON SCHEMA {schema} TO {user}"
            )

    def restricting_user(self, table: str, commands: Collection[str]) -> str | None:
        """Look for a policy that includes all rows, and for restrictive ones."""
        letters = self.dialect.encode([_POLICY_LETTERS[each] for each in commands])
        rows = self.connection.fetch(_RESTRICTED, [self.statement_name(table), letters])
        return str(rows[0][0]) if rows else None

    def searches(self, tables: RoleTables, lookup: Lookup) -> bool:
        """Look for the last column in the condition of an index."""
        name = tables.columns(lookup.role)[lookup.columns[-1]].name
        quoted = re.escape(name).replace('"', '""')  # plans double the quotes in a name
        pattern = re.compile(rf"Index Cond: .*(?<!\w){quoted}(?!\w)", re.IGNORECASE)
        return any(map(pattern.search, self.plan_lookup(tables, lookup)))

    def sorts(self, tables: RoleTables, listing: Listing) -> bool:  # noqa: ARG002 - the planner knows them
        """Look for a sort of all rows; an incremental one uses an index on the first column."""
        return any(map(_SORTS.search, self.plan(listing.sql, listing.parameters)))

    def steps_to_create(self, relation: Relation) -> str:
        """Describe how to avoid blocking writers to a partitioned table."""
        if relation is Relation.PARTITIONED:
            return _ON_EACH_PARTITION
        return super().steps_to_create(relation)

    def null_advice(self, table: str, column: Column) -> str:
        """Return the statement, which changes no rows, unless the column's domain is NOT NULL."""
        name = self.identifier(column.name)
        sql = (
            "SELECT 1 FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attname = %s AND attnotnull"
        )
        if not self.connection.fetch(sql, [self.statement_name(table), column.name]):
            return ""
        return f"Run: ALTER TABLE {self.statement_name(table)} ALTER {name} DROP NOT NULL"

    def time_advice(self, table: str, column: Column) -> str | None:
        """Consider a time without its zone."""
        if column.type != NAIVE:
            return None
        name = self.identifier(column.name)
        return (
            f"{table}.{column.name} has no time zone; hookrow stores UTC. To add one, run: "
            f"ALTER TABLE {self.statement_name(table)} ALTER {name} TYPE timestamptz "
            f"USING {name} AT TIME ZONE 'UTC'"
        )

    def prefer_indexes(self) -> None:
        """Turn off sequential scans until the end of the transaction."""
        self.connection.execute("SET LOCAL enable_seqscan = off")

    def isolation_obstacle(self) -> str | None:
        """Compare the isolation level: in others, the snapshot would be older than the locks."""
        ((level,),) = self.connection.fetch("SELECT current_setting('transaction_isolation')")
        if level == "read committed":
            return None
        return TOO_ISOLATED.format(level.upper())

    def try_lock(self, lock: Lock, record: str) -> bool:  # noqa: ARG002 - needs no row
        """Take an advisory lock."""
        sql = "SELECT pg_try_advisory_xact_lock(%s)"
        return bool(self.connection.fetch(sql, [lock.value])[0][0])

    def open_writers(self, table: str, record: str) -> Writers:  # noqa: ARG002 - needs no row
        """Return the virtual ids of the transactions that hold a writer's lock on the table.

        An INSERT takes this lock before it takes an id from the sequence.
        """
        ((server, names),) = self.connection.fetch(_WRITERS, [self.statement_name(table)])
        return Writers(server, names)

    def last_id(self, table: str) -> int | None:
        """Return the last value of the sequence; None if there is none."""
        ((last,),) = self.connection.fetch(_POSTGRES_LAST_ID, [self.statement_name(table)])
        return last if last is None else int(last)

    def caching_sequence(self, table: str) -> str | None:
        """Compare the sequence's CACHE with 1."""
        rows = self.connection.fetch(_CACHING_SEQUENCE, [self.statement_name(table)])
        return str(rows[0][0]) if rows else None

    def _user(self) -> str:
        ((user,),) = self.connection.fetch("SELECT quote_ident(current_user)")
        return str(user)


_POSTGRES_TABLES = """
SELECT CASE WHEN NOT pg_table_is_visible(c.oid) THEN nspname END, relname
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE relkind IN ('r', 'p', 'v', 'm', 'f')
AND nspname <> 'information_schema' AND nspname NOT LIKE 'pg\\_%%'
"""

_POSTGRES_COLUMNS = """
WITH RECURSIVE found AS (
    SELECT attnum, attname, atttypid AS type, atttypmod AS mod, attnotnull AS filled,
        attgenerated <> '' AS generated,
        atthasdef OR attidentity <> '' OR relkind = 'v' AS defaults,
        has_column_privilege(attrelid, attnum, 'SELECT') AS selects,
        has_column_privilege(attrelid, attnum, 'UPDATE') AS updates,
        coalesce(NOT collisdeterministic, false) AS lenient,
        format_type(atttypid, atttypmod) || CASE WHEN attcollation <> typcollation
            THEN ' COLLATE ' || attcollation::regcollation::text ELSE '' END AS declared
    FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid JOIN pg_type AS d ON d.oid = atttypid
    LEFT JOIN pg_collation AS l ON l.oid = attcollation
    WHERE c.oid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT attnum, attname, typbasetype, typtypmod, filled OR typnotnull, generated,
        defaults OR typdefault IS NOT NULL, selects, updates, lenient, declared
    FROM found JOIN pg_type ON oid = found.type WHERE typtype = 'd'
)
SELECT attname, format_type(t.oid, -1), format_type(t.oid, mod), typcategory::text, NOT filled,
    generated, defaults, mod,
    ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder),
    declared, lenient, selects, updates
FROM found JOIN pg_type AS t ON t.oid = found.type WHERE typtype <> 'd' ORDER BY attnum
"""

_IS_UNIQUE = """
SELECT FROM pg_class AS c LEFT JOIN pg_index ON indrelid = c.oid AND indisunique
    AND indisvalid AND indimmediate AND indpred IS NULL
WHERE c.oid = to_regclass(%s) AND (relkind = 'v' OR ARRAY(
    SELECT attname::text FROM unnest(indkey) WITH ORDINALITY AS key (number, place)
    LEFT JOIN pg_attribute ON attrelid = c.oid AND attnum = number
    WHERE place <= indnkeyatts ORDER BY attname COLLATE "C"
) = %s::text[])
"""

_OWN_NAME = """
SELECT nspname, relname FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = relnamespace WHERE c.oid = to_regclass(%s)
"""

_PRIMARY_KEY = """
SELECT attname
FROM pg_index, unnest(indkey) WITH ORDINALITY AS key (number, place), pg_attribute
WHERE indrelid = to_regclass(%s) AND indisprimary
AND place <= indnkeyatts AND attrelid = indrelid AND attnum = number
ORDER BY place
"""

_RELATION = """
SELECT
    relkind IN ('v', 'f') OR EXISTS (
        SELECT FROM pg_partition_tree(CASE WHEN relkind = 'p' THEN c.oid END) AS tree
        JOIN pg_class AS part ON part.oid = tree.relid
        LEFT JOIN pg_partitioned_table ON partrelid = part.oid
        WHERE part.relkind = 'f' OR EXISTS (
            SELECT FROM unnest(partattrs) AS number
            LEFT JOIN pg_attribute ON attrelid = part.oid AND attnum = number
            WHERE attname IS NULL OR attname <> ALL(%s::text[])
        )
    ),
    relkind <> 'p' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid)
FROM pg_class AS c WHERE oid = to_regclass(%s)
"""
"""Whether no unique index can cover the key, and whether none covers the tables that inherit.

A unique index of a partitioned table needs the columns of its partition key, and the same applies
to partitions that have partitions. A foreign table has no unique index.
"""

_INDEXES = """
SELECT relname, pg_get_expr(indpred, indrelid), NOT EXISTS (
    SELECT FROM pg_depend JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
    WHERE classid = 'pg_class'::regclass AND objid = indexrelid AND refobjid = indrelid
    AND refclassid = 'pg_class'::regclass AND attname <> ALL(%s::text[])
)
FROM pg_index JOIN pg_class AS c ON c.oid = indexrelid
WHERE indrelid = to_regclass(%s) AND indisunique AND indisvalid AND indisready
AND NOT indisexclusion AND NOT EXISTS (
    SELECT FROM unnest(indkey, indcollation, indclass)
        WITH ORDINALITY AS key (number, collation_, class, place)
    LEFT JOIN pg_attribute AS a ON attrelid = indrelid AND attnum = number
    LEFT JOIN pg_collation AS l ON l.oid = attcollation
    LEFT JOIN pg_type AS t ON t.oid = atttypid
    LEFT JOIN pg_opclass AS used ON used.oid = class
    LEFT JOIN pg_opclass AS own ON own.opcmethod = used.opcmethod AND own.opcdefault
        AND own.opcintype = coalesce(nullif(typbasetype, 0), atttypid)
    WHERE place <= indnkeyatts AND (
        attname IS NULL OR attname <> ALL(%s::text[])
        OR NOT collisdeterministic AND collation_ <> attcollation
        OR used.opcintype <> own.opcintype
    )
)
ORDER BY indpred IS NOT NULL, relname
"""
"""The unique indexes on some of the given columns and no others, their predicates, and whether
these depend on no columns but some that the user may read.

A subset of the columns is stricter than all of them. An expression has no column. If the column's
collation or type regards different texts as equal, that of the index must do so, too: an index on a
column of the type citext may have the operators of text.
"""


_DISJOINT = """
SELECT count(DISTINCT c.oid), bool_and(relkind <> 'v')
FROM unnest(%s::text[]) AS name JOIN pg_class AS c ON c.oid = to_regclass(name)
"""

_WITHOUT_EFFECT = """
SELECT EXISTS (
        SELECT FROM pg_rewrite
        WHERE ev_class = c.oid AND ev_type = '2'
        AND pg_get_ruledef(oid) LIKE '%% DO INSTEAD NOTHING;'
    ),
    row_security_active(c.oid) AND NOT EXISTS (
        SELECT FROM pg_policy WHERE polrelid = c.oid AND polpermissive AND polcmd IN ('w', '*')
        AND EXISTS (
            SELECT FROM unnest(polroles) AS role WHERE role = 0 OR pg_has_role(role, 'USAGE')
        )
    )
FROM pg_class AS c WHERE oid = to_regclass(%s)
"""
"""Whether a rule ignores every UPDATE, and whether no policy allows one; neither is an error."""

_UPDATE = 4
"""The bit for UPDATE in the result of `pg_relation_is_updatable`."""

_UNUSABLE_SCHEMA = """
SELECT quote_ident(nspname), quote_ident(current_user) FROM pg_namespace
WHERE nspname = %s AND NOT has_schema_privilege(oid, 'USAGE')
"""

_UNUSABLE_SEQUENCE = """
SELECT sequence, quote_ident(current_user) FROM pg_get_serial_sequence(%s, 'id') AS sequence
WHERE NOT has_sequence_privilege(sequence, 'USAGE, UPDATE')
"""

_RESTRICTED = """
SELECT quote_ident(current_user) FROM pg_class AS c
WHERE oid = to_regclass(%s) AND row_security_active(oid) AND EXISTS (
    SELECT FROM unnest(%s::text[]) AS command WHERE NOT EXISTS (
        SELECT FROM pg_policy WHERE polrelid = c.oid AND polcmd::text IN (command, '*')
        AND polpermissive AND pg_get_expr(polqual, polrelid) = 'true'
        AND coalesce(pg_get_expr(polwithcheck, polrelid), 'true') = 'true' AND EXISTS (
            SELECT FROM unnest(polroles) AS role WHERE role = 0 OR pg_has_role(role, 'USAGE')
        )
    ) OR EXISTS (
        SELECT FROM pg_policy
        WHERE polrelid = c.oid AND polcmd::text IN (command, '*') AND NOT polpermissive
    )
)
"""
"""Selects the user if the policies of a table may exclude rows from one of these commands."""

_POLICY_LETTERS = {"SELECT": "r", "UPDATE": "w"}
"""The commands of policies, as the catalogue has them."""

_WRITERS = """
WITH RECURSIVE tree(id) AS (
    SELECT to_regclass(%s)::oid
    UNION SELECT inhrelid FROM pg_inherits JOIN tree ON inhparent = id
), writers AS (
    SELECT DISTINCT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND relation IN (SELECT id FROM tree)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND mode = 'RowExclusiveLock' AND pid IS DISTINCT FROM pg_backend_pid()
)
SELECT CAST(extract(epoch FROM pg_postmaster_start_time()) AS text),
    ARRAY(SELECT virtualtransaction FROM writers)
"""
"""The server's start, and the names of the other transactions that may have written to a table.

The table may have partitions. Prepared transactions have no pid.
"""

_POSTGRES_LAST_ID = """
SELECT CASE WHEN name <> '' THEN coalesce(pg_sequence_last_value(name::regclass), 0) END
FROM pg_get_serial_sequence(%s, 'id') AS name
"""

_CACHING_SEQUENCE = """
SELECT seqrelid::regclass::text FROM pg_sequence
WHERE seqrelid = pg_get_serial_sequence(%s, 'id')::regclass AND seqcache > 1
"""

_SET_EXCLUSION = "SELECT set_config('constraint_exclusion', %s, true)"
"""Sets the planner's option until the end of the transaction, which may be the host's."""

_SORTS = re.compile(r"(?<!Incremental )Sort  ")
"""In a plan: the sorting of all rows."""

_ON_EACH_PARTITION = (
    "The table is partitioned: create the index ON ONLY the table, then create one CONCURRENTLY on "
    "each partition and attach it; or, which blocks all writers, run"
)

_TYPE_CATEGORIES = {"S": "text", "N": "number", "B": "boolean", "E": "enum"}
"""By PostgreSQL's category of a type."""

_VARLENA_HEADER = 4
"""PostgreSQL adds this to the length in the type modifier of a text column."""


def _postgres_column(row: Row) -> Column:
    name, type_, type_name, category, nullable, generated, default, modifier, labels, *rest = row
    declared, is_lenient, *may = rest
    kind = _TYPE_CATEGORIES.get(category, "datetime" if type_.startswith("timestamp") else type_)
    return Column(
        name,
        "bpchar" if type_ == "character" else type_.replace("%", "%%"),
        f"enum {type_name}" if kind == "enum" else type_name.upper(),
        kind,
        nullable=nullable,
        generated=generated,
        default=default,
        holds_uuids=type_ == "uuid",
        ignores_case=type_ == "citext" or is_lenient,
        length=max(modifier - _VARLENA_HEADER, 0) or None if kind == "text" else None,
        labels=labels,
        denied=[each for each, has in zip(("SELECT", "UPDATE"), may, strict=True) if not has],
        sized=type_name.replace("%", "%%"),
        declared=declared.replace("%", "%%"),
    )
