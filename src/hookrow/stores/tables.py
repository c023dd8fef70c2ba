"""hookrow's own tables in SQLAlchemy, for hosts whose migrations create them.

No store uses these: stores run SQL text, also on hookrow's tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import conv
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from hookrow.core.schema import Schema
from hookrow.errors import ConfigurationError

_TIME = sa.DateTime(timezone=True)

# Leaves free space in each page, so that updates of the two times change no index. SQLAlchemy 2.0
# has no such option for tables.
_FREE_SPACE: dict[str, Any] = (
    {"postgresql_with": {"fillfactor": 85}}
    if "with" in dict(postgresql.dialect.construct_arguments or ())[sa.Table]
    else {}
)


class folded(GenericFunction[str]):  # noqa: N801 - named like an SQL function
    """`folded(email)`: the email with ASCII letters in lower case, like `rules.fold`.

    A query must use the same expression as the index, or the index is not used.
    """

    name, package = "lower", "hookrow"
    type = sa.Text()
    inherit_cache = True


@compiles(folded, "postgresql")
def _lower_ascii(element: folded, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - passed on
    # Plain lower() follows the database's locale and folds beyond ASCII. The cast is written as
    # PostgreSQL prints the index: otherwise Alembic before 1.20.1 would find a difference.
    return f'lower({compiler.process(element.clauses, **options)}::text COLLATE "C")'


class _now(GenericFunction[datetime]):  # noqa: N801 - as above
    name, package = "now", "hookrow"
    type = _TIME
    inherit_cache = True


@compiles(_now, "sqlite")
def _now_with_six_digits(element: _now, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - as above
    del element, compiler, options
    return "(strftime('%Y-%m-%d %H:%M:%f000', 'now'))"


def _table(name: str, *items: sa.Column[Any] | sa.Index | sa.UniqueConstraint) -> sa.Table:
    """Define a table whose primary key consists of the columns marked `primary_key`."""
    options = _FREE_SPACE if name == "hookrow_dispatches" else {}
    key = sa.PrimaryKeyConstraint(name=conv(f"{name}_pkey"))
    return sa.Table(name, metadata, *items, key, **options)


def _id() -> sa.Column[int]:
    # SQLite assigns an id by itself only if the declared type is exactly INTEGER.
    return sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True)


def _suppression() -> Sequence[sa.Column[Any]]:
    return (
        sa.Column("suppressed_at", _TIME),
        sa.Column("suppression_reason", sa.Text),
        sa.Column("suppression_changed_at", _TIME),
    )


def _created_at() -> sa.Column[datetime]:
    return sa.Column("created_at", _TIME, nullable=False, server_default=_now())


def _reference(table: str, name: str, to: str, *, nullable: bool = False) -> sa.Column[int]:
    key = sa.ForeignKey(f"{to}.id", name=conv(f"{table}_{name}_fkey"))
    return sa.Column(name, sa.BigInteger, key, nullable=nullable)


def _unique(name: str, *columns: str) -> sa.UniqueConstraint:
    return sa.UniqueConstraint(*columns, name=conv(name))


def _index(
    name: str, *columns: str | folded, unique: bool = False, where: str | None = None
) -> sa.Index:
    partial: dict[str, Any] = {}
    if where is not None:
        partial = {"postgresql_where": sa.text(where), "sqlite_where": sa.text(where)}
    return sa.Index(conv(name), *columns, unique=unique, **partial)


metadata = sa.MetaData()
subscribers = _table(
    "hookrow_subscribers",
    _id(),
    sa.Column("email", sa.String(320), nullable=False),
    *_suppression(),
    _created_at(),
    _index("hookrow_subscribers_email", folded(sa.literal_column("email")), unique=True),
    _index(
        "hookrow_subscribers_suppressed",
        *("suppressed_at", "id"),
        where="suppressed_at IS NOT NULL",
    ),
)
lists = _table(
    "hookrow_lists", _id(), sa.Column("name", sa.String(255), nullable=False), _created_at()
)
subscriptions = _table(
    "hookrow_subscriptions",
    _id(),
    _reference("hookrow_subscriptions", "list_id", "hookrow_lists"),
    _reference("hookrow_subscriptions", "subscriber_id", "hookrow_subscribers"),
    *_suppression(),
    _created_at(),
    _unique("hookrow_subscriptions_unique", "list_id", "subscriber_id"),
    _index("hookrow_subscriptions_subscriber_id", "subscriber_id"),
)
dispatches = _table(
    "hookrow_dispatches",
    _id(),
    sa.Column("provider_message_id", sa.String(255)),
    _reference("hookrow_dispatches", "subscriber_id", "hookrow_subscribers"),
    _reference("hookrow_dispatches", "list_id", "hookrow_lists", nullable=True),
    sa.Column("delivered_at", _TIME),
    sa.Column("opened_at", _TIME),
    *_suppression(),
    _created_at(),
    sa.Column("first_opened_at", _TIME),
    sa.Column("clicked_at", _TIME),
    sa.Column("bounced_at", _TIME),
    sa.Column("bounce_type", sa.String(64)),
    sa.Column("complained_at", _TIME),
    _unique("hookrow_dispatches_message_id", "provider_message_id"),
    _index("hookrow_dispatches_subscriber_id", "subscriber_id"),
    _index("hookrow_dispatches_list_id", "list_id"),
)
notifications = _table(
    "hookrow_notifications",
    _id(),
    sa.Column("fingerprint", sa.LargeBinary(16), nullable=False),
    sa.Column("record_type", sa.String(64)),
    sa.Column("message_id", sa.String(255)),
    sa.Column("recipient", sa.String(320)),
    sa.Column("occurred_at", _TIME),
    sa.Column("outcome", sa.String(32), nullable=False),
    sa.Column("first_outcome", sa.String(32), nullable=False),
    sa.Column("status", sa.SmallInteger, nullable=False),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    sa.Column("received_at", _TIME, nullable=False),
    sa.Column("last_received_at", _TIME, nullable=False),
    sa.Column("ended_at", _TIME, nullable=False),
    sa.Column("retry_at", _TIME),
    sa.Column("body", sa.Text),
    sa.Column("reason", sa.String(64)),
    sa.Column("trace_id", sa.String(255)),
    sa.Column("provider", sa.String(32)),
    sa.Column("source", sa.String(16)),
    sa.Column("recovery_counted", sa.Boolean),
    _unique("hookrow_notifications_fingerprint", "fingerprint"),
    _index("hookrow_notifications_parked_retry_at", "retry_at", where="retry_at IS NOT NULL"),
    _index("hookrow_notifications_parked_message_id", "message_id", where="retry_at IS NOT NULL"),
    _index(
        "hookrow_notifications_changes", "recipient", where="record_type = 'SubscriptionChange'"
    ),
    _index(
        *("hookrow_recoveries", "id"),
        where="first_outcome <> 'recorded' AND outcome = 'recorded' AND recovery_counted IS NULL",
    ),
)
hours = _table(
    "hookrow_hours",
    sa.Column("hour", _TIME, primary_key=True),
    sa.Column("record_type", sa.String(64), primary_key=True),
    sa.Column("reason", sa.String(64), primary_key=True),
    sa.Column("first_outcome", sa.String(32), primary_key=True),
    sa.Column("entries", sa.BigInteger, nullable=False),
    sa.Column("recovered", sa.BigInteger, nullable=False, server_default="0"),
)
meta = _table(
    "hookrow_meta",
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
suppression_changes = _table(
    "hookrow_suppression_changes",
    sa.Column("role", sa.String(32), primary_key=True),
    sa.Column("row_key", sa.Text, primary_key=True),
    sa.Column("changed_at", _TIME, nullable=False),
)


def attach(to: sa.MetaData, schema: Schema = Schema()) -> Sequence[sa.Table]:  # noqa: B008 - frozen
    """Add the hookrow tables that the schema needs to a host's metadata; return them.

    These are the four tables of rows if the schema names no other, as for `hookrow db upgrade`, and
    the log with the tables that accompany it. Their types are SQLAlchemy's own, so that Alembic's
    migrations do not import hookrow. A naming convention of the metadata does not apply: on
    PostgreSQL, constraints and indexes have the same names as those of `hookrow db upgrade`. A
    table that the metadata already has is left unchanged.

    Raises `ConfigurationError` if the metadata would move them to another schema.
    """
    tables = _names(schema)
    if to.schema and not all("." in name for name in tables):
        raise ConfigurationError(
            f"MetaData(schema={to.schema!r}) would move hookrow's tables to that schema: attach "
            "them to another MetaData, and pass both to Alembic, as a list."
        )
    return [
        to.tables[name] if name in to.tables else _copy(table, to, name)
        for name, table in tables.items()
    ]


def _names(schema: Schema) -> dict[str, sa.Table]:
    """Return the tables that a schema needs, by the names that they have there."""
    rows = (subscribers, lists, subscriptions, dispatches) if schema.ours else ()
    tables = {table.name: table for table in rows}
    if schema.log is not None:
        tables[schema.log] = notifications
        for table in (hours, meta, suppression_changes):
            tables[schema.beside_log(table.name)] = table
    return tables


def _copy(table: sa.Table, to: sa.MetaData, name: str) -> sa.Table:
    namespace, _, bare = name.rpartition(".")
    if namespace:
        copy = table.to_metadata(to, schema=namespace, name=bare)
    else:
        copy = table.to_metadata(to, name=bare)
    copy.primary_key.name = conv(f"{bare}_pkey")
    return copy
