"""hookrow's own tables in SQLAlchemy, for hosts whose migrations create them.

No store uses these: stores run SQL text, even on hookrow's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

from hookrow._arguments import reject
from hookrow._core.schema import Schema
from hookrow.errors import ConfigurationError, MissingExtra

try:
    import sqlalchemy as sa
    from sqlalchemy.dialects import mysql, postgresql
    from sqlalchemy.dialects.mysql.base import MySQLDialect
    from sqlalchemy.ext.compiler import compiles
    from sqlalchemy.schema import conv
    from sqlalchemy.sql.compiler import SQLCompiler
    from sqlalchemy.sql.functions import GenericFunction
except ModuleNotFoundError as _error:
    if _error.name != "sqlalchemy":
        raise
    raise MissingExtra("hookrow.stores.tables", "sqlalchemy") from _error

_Item: TypeAlias = sa.Column[Any] | sa.Index | sa.UniqueConstraint
_Definitions: TypeAlias = Mapping[str, Callable[[], Sequence[_Item]]]
"""The columns, constraints and indexes of tables, by name."""

_ON_MARIADB = ("mysql", "mariadb")
"""SQLAlchemy's names of MariaDB and MySQL: URLs with either name may lead to both."""

_TIMESTAMP = sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), *_ON_MARIADB)
_REASON_TYPE = sa.Text().with_variant(mysql.MEDIUMTEXT(), *_ON_MARIADB)
_BODY_TYPE = sa.Text().with_variant(mysql.LONGTEXT(), *_ON_MARIADB)
_FINGERPRINT_TYPE = sa.LargeBinary(16).with_variant(mysql.BINARY(16), *_ON_MARIADB)
_ROW_KEY_TYPE = sa.Text().with_variant(
    sa.String(736), *_ON_MARIADB
)  # the longest that a key may contain

_MARIADB_STORAGE: Mapping[str, str] = {
    f"{dialect}_{name}": value
    for dialect in _ON_MARIADB
    for name, value in {
        "engine": "InnoDB",
        "row_format": "DYNAMIC",
        "charset": "utf8mb4",
        "collate": "utf8mb4_bin",
    }.items()
}
"""The options of tables in MariaDB and MySQL, whose defaults depend on the server."""

# Leaves free space in each page, so that an update of a time changes no index. SQLAlchemy 2.0
# has no such option for tables.
_FREE_SPACE: dict[str, Any] = (
    {"postgresql_with": {"fillfactor": 85}}
    if "with" in dict(postgresql.dialect.construct_arguments or ())[sa.Table]
    else {}
)


_EMAIL_FOLDED = "email_folded"
"""The generated column of MariaDB and MySQL, for an index of folded emails."""


class folded(GenericFunction[str]):  # noqa: N801 - named like an SQL function
    """`folded(email)` converts ASCII letters to lower case.

    hookrow does the same when it compares emails. A query must use the same expression as
    the index, or the index is not used. On MariaDB and MySQL, it selects the generated column if
    `email` is the column of hookrow_subscribers.
    """

    name: str = "lower"
    package: str = "hookrow"
    type: sa.Text = sa.Text()
    inherit_cache: bool = True


@compiles(folded, "postgresql")
def _lower_ascii(element: folded, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - passed on
    # Plain lower() follows the database's locale and folds beyond ASCII. The cast is written the
    # way PostgreSQL prints the index: otherwise, Alembic before 1.20.1 would find a difference.
    return f'lower({compiler.process(element.clauses, **options)}::text COLLATE "C")'


@compiles(folded, *_ON_MARIADB)
def _lower_in_ascii(element: folded, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - passed on
    [argument] = element.clauses
    if isinstance(argument, sa.Column) and argument.name == "email":
        columns = argument.table.c
        if _EMAIL_FOLDED in columns:
            return compiler.process(columns[_EMAIL_FOLDED], **options)
    text = compiler.process(argument, **options)
    # lower() folds other letters, too, except in the character set ascii. The function is written
    # the way the server prints it: otherwise, Alembic would find a difference.
    assert isinstance(compiler.dialect, MySQLDialect)  # noqa: S101 - for mypy
    lower = "lcase" if compiler.dialect.is_mariadb else "lower"
    lowered = f"{lower}(convert(cast({text} as char charset binary) using ascii))"
    return f"convert(cast({lowered} as char charset binary) using utf8mb4)"


class _now(GenericFunction[datetime]):  # noqa: N801 - named like an SQL function
    name, package = "now", "hookrow"
    type = _TIMESTAMP
    inherit_cache = True


@compiles(_now, "sqlite")
def _now_with_six_digits(element: _now, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - passed on
    del element, compiler, options
    return "(strftime('%Y-%m-%d %H:%M:%f000', 'now'))"


@compiles(_now, *_ON_MARIADB)
def _now_in_utc(element: _now, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - passed on
    # now() depends on the session's time zone, and these times have none.
    del element, compiler, options
    return "(utc_timestamp(6))"


def _id() -> sa.Column[int]:
    # SQLite assigns an id by itself only if the declared type is exactly INTEGER.
    return sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True)


def _suppression() -> Sequence[sa.Column[Any]]:
    return (
        sa.Column("suppressed_at", _TIMESTAMP),
        sa.Column("suppression_reason", _REASON_TYPE),
        sa.Column("suppression_changed_at", _TIMESTAMP),
    )


def _created_at() -> sa.Column[datetime]:
    return sa.Column("created_at", _TIMESTAMP, nullable=False, server_default=_now())


def _reference(table: str, name: str, to: str, *, nullable: bool = False) -> sa.Column[int]:
    key = sa.ForeignKey(f"{to}.id", name=conv(f"{table}_{name}_fkey"))
    return sa.Column(name, sa.BigInteger, key, nullable=nullable)


def _unique(name: str, *columns: str) -> sa.UniqueConstraint:
    return sa.UniqueConstraint(*columns, name=conv(name))


def _index(
    name: str,
    *columns: str | folded,
    unique: bool = False,
    where: str | None = None,
    lengths: Mapping[str, int] | None = None,
) -> sa.Index:
    """Return an index, perhaps only of some rows, or of the first characters of some columns.

    Only MariaDB and MySQL have the latter.
    """
    options: dict[str, Any] = {}
    if where is not None:
        options = {"postgresql_where": sa.text(where), "sqlite_where": sa.text(where)}
    if lengths is not None:
        options = {f"{dialect}_length": dict(lengths) for dialect in _ON_MARIADB}
    return sa.Index(conv(name), *columns, unique=unique, **options)


def _subscribers(*, mariadb: bool) -> Sequence[_Item]:
    generated = [_folded_email()] if mariadb else []
    return (
        _id(),
        sa.Column("email", sa.String(320), nullable=False),
        *generated,
        *_suppression(),
        _created_at(),
        *(_plain_indexes_of_subscribers() if mariadb else _indexes_of_subscribers()),
    )


def _folded_email() -> sa.Column[str]:
    computed = sa.Computed(folded(sa.literal_column("email")), persisted=True)
    return sa.Column(_EMAIL_FOLDED, sa.String(320), computed)


def _indexes_of_subscribers() -> Sequence[_Item]:
    return (
        _index("hookrow_subscribers_email", folded(sa.literal_column("email")), unique=True),
        _index(
            "hookrow_subscribers_suppressed",
            "suppressed_at",
            "id",
            where="suppressed_at IS NOT NULL",
        ),
        _index(
            "hookrow_subscribers_reason",
            "suppression_reason",
            "suppressed_at",
            "id",
            where="suppressed_at IS NOT NULL AND length(suppression_reason) <= 64",
        ),
    )


def _plain_indexes_of_subscribers() -> Sequence[_Item]:
    reason = "suppression_reason"
    return (
        _index("hookrow_subscribers_email", _EMAIL_FOLDED, unique=True),
        _index("hookrow_subscribers_suppressed", "suppressed_at", "id"),
        _index("hookrow_subscribers_reason", reason, "suppressed_at", "id", lengths={reason: 64}),
    )


def _lists() -> Sequence[_Item]:
    return (_id(), sa.Column("name", sa.String(255), nullable=False), _created_at())


def _subscriptions(*, mariadb: bool) -> Sequence[_Item]:
    indexes = (_index("hookrow_subscriptions_subscriber_id", "subscriber_id"),)
    return (
        _id(),
        _reference("hookrow_subscriptions", "list_id", "hookrow_lists"),
        _reference("hookrow_subscriptions", "subscriber_id", "hookrow_subscribers"),
        *_suppression(),
        _created_at(),
        _unique("hookrow_subscriptions_unique", "list_id", "subscriber_id"),
        *(() if mariadb else indexes),  # a foreign key creates its own
    )


def _dispatches(*, mariadb: bool) -> Sequence[_Item]:
    indexes = (
        _index("hookrow_dispatches_subscriber_id", "subscriber_id"),
        _index("hookrow_dispatches_list_id", "list_id"),
    )
    return (
        _id(),
        sa.Column("provider_message_id", sa.String(255)),
        _reference("hookrow_dispatches", "subscriber_id", "hookrow_subscribers"),
        _reference("hookrow_dispatches", "list_id", "hookrow_lists", nullable=True),
        sa.Column("delivered_at", _TIMESTAMP),
        sa.Column("opened_at", _TIMESTAMP),
        *_suppression(),
        sa.Column("first_opened_at", _TIMESTAMP),
        sa.Column("clicked_at", _TIMESTAMP),
        sa.Column("bounced_at", _TIMESTAMP),
        sa.Column("bounce_type", sa.String(64)),
        sa.Column("complained_at", _TIMESTAMP),
        _created_at(),
        _unique("hookrow_dispatches_message_id", "provider_message_id", "subscriber_id"),
        *(() if mariadb else indexes),  # a foreign key creates its own
    )


_IS_EXPIRED = (
    "CASE WHEN retry_at IS NULL AND body IS NOT NULL AND outcome IN "
    "(_utf8mb4'dispatch_not_found', _utf8mb4'failed', _utf8mb4'recipient_mismatch', "
    "_utf8mb4'subscriber_not_found') THEN 1 END"
)
"""The generated column of MariaDB and MySQL that is null unless an entry is expired.

It is stored, so that the server need not read a body again to remove an old version from an index.
"""


def _notifications(*, mariadb: bool) -> Sequence[_Item]:
    generated = [
        _generated("parked_message_id", 255, "CASE WHEN retry_at IS NOT NULL THEN message_id END"),
        _generated(
            "changed_recipient",
            320,
            "CASE WHEN record_type = _utf8mb4'SubscriptionChange' OR reason IS NOT NULL "
            "THEN recipient END",
        ),
        sa.Column("is_expired", sa.Boolean, sa.Computed(_IS_EXPIRED, persisted=True)),
    ]
    return (
        _id(),
        sa.Column("fingerprint", _FINGERPRINT_TYPE, nullable=False),
        sa.Column("record_type", sa.String(64)),
        sa.Column("message_id", sa.String(255)),
        sa.Column("recipient", sa.String(320)),
        sa.Column("occurred_at", _TIMESTAMP),
        sa.Column("outcome", sa.String(32), nullable=False),
        sa.Column("first_outcome", sa.String(32), nullable=False),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("attempts", sa.BigInteger, nullable=False),
        sa.Column("retries", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("received_at", _TIMESTAMP, nullable=False),
        sa.Column("last_received_at", _TIMESTAMP, nullable=False),
        sa.Column("ended_at", _TIMESTAMP, nullable=False),
        sa.Column("retry_at", _TIMESTAMP),
        sa.Column("reason", sa.String(64)),
        sa.Column("trace_id", sa.String(255)),
        sa.Column("provider", sa.String(32)),
        sa.Column("entry", sa.String(64)),
        sa.Column("source", sa.String(16), nullable=False),
        sa.Column("recovery_counted", sa.Boolean),
        sa.Column("change_number", sa.BigInteger),
        sa.Column("body", _BODY_TYPE),
        *(generated if mariadb else ()),
        _unique("hookrow_notifications_fingerprint", "fingerprint"),
        *(_plain_indexes_of_notifications() if mariadb else _indexes_of_notifications()),
    )


def _generated(name: str, length: int, expression: str) -> sa.Column[str]:
    """Return a column that is null in most rows: MariaDB and MySQL have no partial indexes."""
    return sa.Column(name, sa.String(length), sa.Computed(expression, persisted=False))


def _indexes_of_notifications() -> Sequence[_Item]:
    return (
        _index("hookrow_parked", "retry_at", "id", where="retry_at IS NOT NULL"),
        _index("hookrow_parked_message_id", "message_id", where="retry_at IS NOT NULL"),
        _index(
            "hookrow_notifications_changes",
            "recipient",
            where="record_type = 'SubscriptionChange' OR reason IS NOT NULL",
        ),
        _index(
            "hookrow_recoveries",
            "id",
            where="first_outcome <> 'recorded' AND outcome = 'recorded' "
            "AND recovery_counted IS NULL",
        ),
        _index(
            "hookrow_expired",
            "id",
            where="retry_at IS NULL AND body IS NOT NULL AND outcome IN "
            "('dispatch_not_found', 'failed', 'recipient_mismatch', 'subscriber_not_found')",
        ),
        _index("hookrow_change_numbers", "change_number", "id", where="change_number IS NOT NULL"),
    )


def _plain_indexes_of_notifications() -> Sequence[_Item]:
    return (
        _index("hookrow_parked", "retry_at", "id"),
        _index("hookrow_parked_message_id", "parked_message_id"),
        _index("hookrow_notifications_changes", "changed_recipient"),
        _index("hookrow_recoveries", "outcome", "recovery_counted", "first_outcome"),
        _index("hookrow_expired", "is_expired", "id"),
        _index("hookrow_change_numbers", "change_number", "id"),
    )


def _hours() -> Sequence[_Item]:
    return (
        sa.Column("hour", _TIMESTAMP, primary_key=True),
        sa.Column("record_type", sa.String(64), primary_key=True),
        sa.Column("reason", sa.String(64), primary_key=True),
        sa.Column("first_outcome", sa.String(32), primary_key=True),
        sa.Column("entry", sa.String(64), primary_key=True),
        sa.Column("entries", sa.BigInteger, nullable=False),
        sa.Column("recovered", sa.BigInteger, nullable=False, server_default="0"),
    )


def _meta() -> Sequence[_Item]:
    return (
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )


def _suppression_changes() -> Sequence[_Item]:
    return (
        sa.Column("role", sa.String(32), primary_key=True),
        sa.Column("row_key", _ROW_KEY_TYPE, primary_key=True),
        sa.Column("changed_at", _TIMESTAMP, nullable=False),
    )


_SIDE_TABLES: _Definitions = {
    "hookrow_hours": _hours,
    "hookrow_meta": _meta,
    "hookrow_suppression_changes": _suppression_changes,
}


def attach(
    to: sa.MetaData,
    schema: Schema = Schema(),  # noqa: B008 - frozen
    *,
    mariadb: bool = False,
) -> Sequence[sa.Table]:
    """Add the hookrow tables that the schema needs to a host's metadata, and return them.

    These are the same as for `hookrow db upgrade`: the four tables of rows, unless the schema names
    the host's own, and the log with the tables that accompany it. Their types are SQLAlchemy's,
    so that Alembic's migrations do not import hookrow. A naming convention of the metadata does not
    apply: on PostgreSQL, constraints and indexes have the same names as those of `hookrow db
    upgrade`. A table that the metadata already has is left unchanged.

    With `mariadb`, they are those for MariaDB and MySQL, with generated columns instead of partial
    indexes and indexes on expressions.

    Raises `ConfigurationError` if the metadata would move them to another schema, or if an argument
    has another type.
    """
    if not isinstance(to, sa.MetaData):
        has_one = isinstance(getattr(to, "metadata", None), sa.MetaData)
        line = (
            f"attach({getattr(to, '__name__', 'db')}.metadata)" if has_one else "attach(metadata)"
        )
        reject("The argument of attach()", "a sqlalchemy.MetaData", to, line)
    if not isinstance(schema, Schema):
        line = 'attach(metadata, Schema(subscribers=Role("people"), ...))'
        reject("The schema of attach()", "a Schema", schema, line)
    definitions = _definitions(schema, mariadb=mariadb)
    if to.schema and not all("." in name for name in definitions):
        raise ConfigurationError(
            f"MetaData(schema={to.schema!r}) would move hookrow's tables to that schema: attach "
            "them to another MetaData, and pass both to Alembic, as a list."
        )
    return [
        to.tables[name] if name in to.tables else _define(to, name, items())
        for name, items in definitions.items()
    ]


def _definitions(schema: Schema, *, mariadb: bool) -> _Definitions:
    """Return the tables that a schema needs, by the names that they have there."""
    definitions: dict[str, Callable[[], Sequence[_Item]]] = {}
    if schema.is_own:
        definitions = {
            "hookrow_subscribers": partial(_subscribers, mariadb=mariadb),
            "hookrow_lists": _lists,
            "hookrow_subscriptions": partial(_subscriptions, mariadb=mariadb),
            "hookrow_dispatches": partial(_dispatches, mariadb=mariadb),
        }
    if schema.log is not None:
        definitions[schema.log] = partial(_notifications, mariadb=mariadb)
        definitions |= {schema.side_table(name): items for name, items in _SIDE_TABLES.items()}
    return definitions


def _define(to: sa.MetaData, name: str, items: Sequence[_Item]) -> sa.Table:
    """Define a table whose primary key consists of the columns marked `primary_key`.

    A copy (`Table.to_metadata`) would have its foreign keys in any order.
    """
    namespace, _, bare = name.rpartition(".")
    options = {**_MARIADB_STORAGE, **(_FREE_SPACE if name == "hookrow_dispatches" else {})}
    key = sa.PrimaryKeyConstraint(name=conv(f"{bare}_pkey"))
    return sa.Table(bare, to, *items, key, schema=namespace or None, **options)


metadata: sa.MetaData = sa.MetaData()
"""All of hookrow's tables, in the default schema of the database."""

_tables = {table.name: table for table in attach(metadata)}

subscribers: sa.Table = _tables["hookrow_subscribers"]
lists: sa.Table = _tables["hookrow_lists"]
subscriptions: sa.Table = _tables["hookrow_subscriptions"]
dispatches: sa.Table = _tables["hookrow_dispatches"]
notifications: sa.Table = _tables["hookrow_notifications"]
"""The log."""
