"""hookrow's own tables in SQLAlchemy, for a host whose migrations create them.

No store uses them: these run SQL text, also on tables of the host's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import SchemaItem, conv
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from hookrow.core.schema import Schema
from hookrow.errors import ConfigurationError

Tables: TypeAlias = Mapping[str, Iterable[SchemaItem]]
"""Columns, constraints and indexes by the name of their table, after a schema's and a dot."""

_TIME = sa.DateTime(timezone=True)

# Free space for updates of its two times, so that they change no index. SQLAlchemy 2.0 has no
# such option for tables.
_FREE_SPACE: dict[str, Any] = (
    {"postgresql_with": {"fillfactor": 85}}
    if "with" in dict(postgresql.dialect.construct_arguments or ())[sa.Table]
    else {}
)


class folded(GenericFunction[str]):  # noqa: N801 - it reads as the SQL function it is
    """`folded(email)`: ASCII letters lowered, as `rules.fold` does it.

    Index and query must use the same expression, or the index is not used.
    """

    name, package = "lower", "hookrow"
    type = sa.Text()
    inherit_cache = True


@compiles(folded, "postgresql")
def _lower_ascii(element: folded, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - passed on
    # Plain lower() follows the database's locale and folds beyond ASCII. The cast is written as
    # PostgreSQL does in the index: Alembic before 1.20.1 would find a difference.
    return f'lower({compiler.process(element.clauses, **options)}::text COLLATE "C")'


class _now(GenericFunction[datetime]):  # noqa: N801 - as above
    name, package = "now", "hookrow"
    type = _TIME
    inherit_cache = True


@compiles(_now, "sqlite")
def _now_with_six_digits(element: _now, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - as above
    del element, compiler, options
    return "(strftime('%Y-%m-%d %H:%M:%f000', 'now'))"


def attach(to: sa.MetaData, schema: Schema = Schema()) -> Sequence[sa.Table]:  # noqa: B008 - frozen
    """Add the hookrow tables that the schema needs to a host's metadata; return them.

    They are the four if all roles are hookrow's, as for `hookrow db upgrade`, and the log with the
    tables that accompany it. Their types are SQLAlchemy's own, so that what Alembic writes imports
    nothing of hookrow's. A naming convention of the metadata does not apply: constraints and
    indexes have the names that `hookrow db upgrade` gives them on PostgreSQL. A table that the
    metadata already has is left alone.

    Raises `ConfigurationError` if the metadata would move them to another schema.
    """
    four = _four() if schema.ours else {}
    tables = {**four, **_of_log(schema)}
    if to.schema and not all("." in name for name in tables):
        raise ConfigurationError(
            f"A MetaData with schema={to.schema!r} would move our tables there: attach them to "
            "another, and give Alembic both, as a list."
        )
    return [
        to.tables[name] if name in to.tables else _table(name, to, items)
        for name, items in tables.items()
    ]


def _table(name: str, to: sa.MetaData, items: Iterable[SchemaItem]) -> sa.Table:
    namespace, _, bare = name.rpartition(".")
    key = sa.PrimaryKeyConstraint(name=conv(f"{bare}_pkey"))  # of the columns that say so
    options = _FREE_SPACE if name == "hookrow_dispatches" else {}
    return sa.Table(bare, to, *items, key, schema=namespace or None, **options)


def _four() -> Tables:
    return {
        "hookrow_subscribers": (
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
        ),
        "hookrow_lists": (_id(), sa.Column("name", sa.String(255), nullable=False), _created_at()),
        "hookrow_subscriptions": (
            _id(),
            _reference("hookrow_subscriptions", "list_id", "hookrow_lists"),
            _reference("hookrow_subscriptions", "subscriber_id", "hookrow_subscribers"),
            *_suppression(),
            _created_at(),
            _unique("hookrow_subscriptions_unique", "list_id", "subscriber_id"),
            _index("hookrow_subscriptions_subscriber_id", "subscriber_id"),
        ),
        "hookrow_dispatches": (
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
        ),
    }


def _of_log(schema: Schema) -> Tables:
    if schema.log is None:
        return {}
    changes, parked = "record_type = 'SubscriptionChange'", "retry_at IS NOT NULL"
    recovered = "first_outcome <> 'recorded' AND outcome = 'recorded' AND recovery_counted IS NULL"
    return {
        schema.log: (
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
            _index("hookrow_notifications_parked_retry_at", "retry_at", where=parked),
            _index("hookrow_notifications_parked_message_id", "message_id", where=parked),
            _index("hookrow_notifications_changes", "recipient", where=changes),
            _index("hookrow_recoveries", "id", where=recovered),
        ),
        schema.beside_log("hookrow_hours"): (
            sa.Column("hour", _TIME, primary_key=True),
            sa.Column("record_type", sa.String(64), primary_key=True),
            sa.Column("reason", sa.String(64), primary_key=True),
            sa.Column("first_outcome", sa.String(32), primary_key=True),
            sa.Column("entries", sa.BigInteger, nullable=False),
            sa.Column("recovered", sa.BigInteger, nullable=False, server_default="0"),
        ),
        schema.beside_log("hookrow_meta"): (
            sa.Column("name", sa.String(64), primary_key=True),
            sa.Column("value", sa.Text, nullable=False),
        ),
        schema.beside_log("hookrow_suppression_changes"): (
            sa.Column("role", sa.String(32), primary_key=True),
            sa.Column("row_key", sa.Text, primary_key=True),
            sa.Column("changed_at", _TIME, nullable=False),
        ),
    }


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
    only: dict[str, Any] = {}
    if where is not None:
        only = {"postgresql_where": sa.text(where), "sqlite_where": sa.text(where)}
    return sa.Index(conv(name), *columns, unique=unique, **only)


metadata = sa.MetaData()
subscribers, lists, subscriptions, dispatches, notifications, *_ = attach(metadata)
